"""Counter-based random numbers: batch equals single, and they look random."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convgym.engine import keys

STREAMS = st.integers(1, 8)
KEYS = st.integers(0, keys.MASK)
SMALL = st.integers(0, 2**20)
DRAWN = st.integers(0, 2**32 - 1)


def uint64(numbers):
    return np.array(numbers, dtype=np.uint64)


@given(st.lists(st.tuples(KEYS, SMALL, SMALL), min_size=1, max_size=20), STREAMS)
def test_draw_batch_is_draw(rows, stream):
    key, turn, index = (uint64(column) for column in zip(*rows, strict=True))
    expected = [keys.draw(k, stream, t, i) for k, t, i in rows]
    assert keys.draw_batch(key, stream, turn, index).tolist() == expected


@given(KEYS, STREAMS, SMALL, SMALL)
def test_draw_batch_takes_single_numbers_too(key, stream, turn, index):
    expected = [keys.draw(key, stream, turn, index + i) for i in range(5)]
    indices = index + np.arange(5, dtype=np.uint64)
    assert keys.draw_batch(key, stream, turn, indices).tolist() == expected
    assert keys.draw_batch(uint64([key]), stream, turn, index).tolist() == expected[:1]


@given(KEYS, STREAMS, SMALL, st.integers(1, 40))
def test_draws_side_by_side_are_those_one_by_one(key, stream, turn, count):
    expected = [keys.draw(key, stream, turn, index) for index in range(count)]
    assert keys.draws(key, stream, turn, range(count)) == expected
    some = tuple(range(0, count, 3))
    assert keys.draws(key, stream, turn, some) == expected[::3]


@given(st.lists(KEYS, min_size=1, max_size=20))
def test_mix_batch_is_mix(numbers):
    assert keys.mix_batch(uint64(numbers)).tolist() == [keys.mix(x) for x in numbers]


@given(st.lists(st.tuples(DRAWN, st.integers(1, 2**31)), min_size=1, max_size=20))
def test_below_batch_is_below(rows):
    drawn, count = (uint64(column) for column in zip(*rows, strict=True))
    expected = [keys.below(d, c) for d, c in rows]
    assert keys.below_batch(drawn, count).tolist() == expected
    assert all(0 <= number < c for number, (_, c) in zip(expected, rows, strict=True))


@pytest.mark.parametrize("count", [1, 2, 3, 5, 2**16, 2**32])
def test_below_reaches_both_ends(count):
    assert keys.below(0, count) == 0
    assert keys.below(2**32 - 1, count) == count - 1


@given(st.floats(0, 1))
def test_a_threshold_is_met_as_often_as_it_says(probability):
    assert abs(keys.threshold(probability) / 2**32 - probability) <= 2**-17


def chi_square(numbers, cells):
    """Deviation of `numbers` in [0, cells) from uniform, in standard deviations."""
    expected = len(numbers) / cells
    square = ((np.bincount(numbers, minlength=cells) - expected) ** 2 / expected).sum()
    return (square - (cells - 1)) / np.sqrt(2 * (cells - 1))


@pytest.mark.parametrize("axis", ["key", "turn", "index"])
def test_draws_are_uniform_along_each_axis(axis):
    many = np.arange(100_000, dtype=np.uint64)
    place = {"key": 0, "turn": 0, "index": 0, axis: many}
    drawn = keys.draw_batch(place["key"], keys.USER, place["turn"], place["index"])
    assert abs(chi_square(keys.below_batch(drawn, 100), 100)) < 4
    pairs = keys.below_batch(drawn[:-1], 16) * 16 + keys.below_batch(drawn[1:], 16)
    assert abs(chi_square(pairs, 256)) < 4, "neighbours are not independent"


def test_streams_turns_and_indices_never_share_a_draw():
    """No two of the draws that one episode can make come from the same counter."""
    stream, turn, index = np.meshgrid(np.arange(1, 9), np.arange(64), np.arange(256))
    with np.errstate(over="ignore"):
        counters = (
            stream.astype(np.uint64) * np.uint64(keys._STREAM)
            + turn.astype(np.uint64) * np.uint64(keys._TURN)
            + index.astype(np.uint64) * np.uint64(keys._INDEX)
        )
    assert len(np.unique(counters)) == counters.size


def test_children_do_not_collide():
    children = {keys.child(12345, index) for index in range(100_000)}
    children |= {keys.child(12345, index, keys.TASK) for index in range(1000)}
    children |= {keys.child(key, 0) for key in range(1000)}
    assert len(children) == 102_000


def test_mix_does_not_collide():
    """It is a bijection; a slip of the pen in its constants would show here."""
    assert len({keys.mix(x) for x in range(100_000)}) == 100_000
    assert len(np.unique(keys.mix_batch(np.arange(100_000, dtype=np.uint64)))) == 100_000


@given(st.lists(KEYS, min_size=1, max_size=20), st.integers(0, 2**16))
def test_child_batch_is_child(numbers, index):
    expected = [keys.child(number, index) for number in numbers]
    assert keys.child_batch(uint64(numbers), index).tolist() == expected


def test_neighbouring_keys_turns_and_indices_share_no_draw():
    """Once an increment was the inverse of 3: key k at index i + 3 drew as key k + 1 at i."""
    near = range(12)
    drawn: list[int] = []
    for key in near:
        for turn in near:
            drawn += [keys.draw(5000 + key, keys.USER, turn, index) for index in range(48)]
    assert len(set(drawn)) > len(drawn) - 3  # of 6,912 draws in 2**32, about 0.006 coincide
