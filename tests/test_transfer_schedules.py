"""The share of simulated data: each formula once more, the ends, and that it only falls."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convgym.errors import InvalidConfiguration
from trainers.transfer.schedules import SHAPES, RatioSchedule

KINDS = sorted(SHAPES)


def again(kind, step, total, warmup, initial, final, decay, thresholds):
    """The ratio, written as one would on paper."""
    if step <= warmup:
        return initial
    if step >= total:
        return final
    p = max(0.0, (step - warmup) / (total - warmup))
    if kind == "linear":
        return initial + (final - initial) * p
    if kind == "exponential":
        left = (math.exp(-decay * p) - math.exp(-decay)) / (1 - math.exp(-decay))
        return final + (initial - final) * left
    if kind == "cosine":
        return final + 0.5 * (initial - final) * (1 + math.cos(math.pi * p))
    passed = len([threshold for threshold in thresholds if p >= threshold])
    return initial + (final - initial) * passed / len(thresholds)


ratios = st.floats(0, 1)
schedules = st.builds(
    lambda warmup, more, **others: RatioSchedule(
        warmup_steps=warmup, total_steps=warmup + more, **others
    ),
    warmup=st.integers(0, 500),
    more=st.integers(1, 500),
    kind=st.sampled_from(KINDS),
    initial=ratios,
    final=ratios,
    decay=st.floats(0.01, 30),
    thresholds=st.sets(st.floats(0.001, 1), min_size=1, max_size=5).map(sorted).map(tuple),
)


@given(schedules, st.integers(-10, 1100))
def test_ratio_is_the_formula_on_paper(schedule, step):
    expected = again(
        schedule.kind,
        step,
        schedule.total_steps,
        schedule.warmup_steps,
        schedule.initial,
        schedule.final,
        schedule.decay,
        schedule.thresholds,
    )
    assert schedule.ratio(step) == pytest.approx(expected, abs=1e-9)


@given(schedules)
def test_ratio_stays_in_the_warm_up_and_ends_exactly(schedule):
    first, last = schedule.warmup_steps, schedule.total_steps
    assert {schedule.ratio(step) for step in (-1, 0, first)} == {schedule.initial}
    assert {schedule.ratio(step) for step in (last, last + 1, 10 * last)} == {schedule.final}


@given(schedules, st.lists(st.integers(0, 1100), min_size=2).map(sorted))
def test_ratio_goes_one_way_and_not_beyond_its_ends(schedule, steps):
    found = [schedule.ratio(step) for step in steps]
    falling = found if schedule.final <= schedule.initial else found[::-1]
    assert all(a >= b - 1e-12 for a, b in pairwise(falling))
    low, high = sorted((schedule.initial, schedule.final))
    assert all(low - 1e-12 <= ratio <= high + 1e-12 for ratio in found)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("linear", [1.0, 1.0, 0.75, 0.5, 0.25, 0.0]),
        ("cosine", [1.0, 1.0, 0.8535534, 0.5, 0.1464466, 0.0]),
        ("step", [1.0, 1.0, 2 / 3, 1 / 3, 0.0, 0.0]),
        ("exponential", [1.0, 1.0, 0.2816647, 0.0758582, 0.0168936, 0.0]),
    ],
)
def test_ratios_by_hand(kind, expected):
    schedule = RatioSchedule(kind=kind, warmup_steps=10, total_steps=50)
    found = [schedule.ratio(step) for step in (0, 10, 20, 30, 40, 50)]
    assert found == pytest.approx(expected, abs=1e-7)


def test_exponential_is_geometric_where_its_decay_is_that_of_the_ends():
    schedule = RatioSchedule(
        kind="exponential", total_steps=100, initial=0.8, final=0.05, decay=math.log(16)
    )
    found = [schedule.ratio(step) for step in range(101)]
    assert found == pytest.approx([0.8 * (0.05 / 0.8) ** (step / 100) for step in range(101)])


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "sigmoid"},
        {"total_steps": 0},
        {"warmup_steps": -1},
        {"warmup_steps": 100, "total_steps": 100},
        {"initial": 1.1},
        {"final": math.nan},
        {"decay": 0.0},
        {"decay": math.inf},
        {"thresholds": ()},
        {"thresholds": (0.5, 0.25)},
        {"thresholds": (0.5, 0.5)},
        {"thresholds": (0.0, 0.5)},
        {"thresholds": (0.5, 1.5)},
        {"thresholds": (math.nan,)},
    ],
    ids=str,
)
def test_a_value_that_is_not_allowed_is_one_sentence(wrong):
    with pytest.raises(InvalidConfiguration, match=next(iter(wrong))):
        RatioSchedule(**wrong)


def test_a_last_threshold_at_the_end_is_reached():
    schedule = RatioSchedule(kind="step", total_steps=10, thresholds=(0.5, 1.0))
    assert [schedule.ratio(step) for step in (4, 5, 9, 10)] == [1.0, 0.5, 0.5, 0.0]
