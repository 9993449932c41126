"""Lanes of keys and values: what is written, copied and swapped, beside plain lists."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("transformers", reason="language models need the extra llm")

import torch

from trainers.llm.key_value_cache import KeyValueCache

LANES, HEADS, SIZE = 4, 2, 3


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_lanes_are_lists_that_are_written_copied_and_swapped(data):
    """Longer than the first memory, so that it grows on the way; padding is written nowhere."""
    cache = KeyValueCache(layers=2, lanes=LANES)
    known = [torch.zeros(0, HEADS, SIZE) for _ in range(LANES)]
    generator = torch.Generator().manual_seed(0)
    for _ in range(data.draw(st.integers(1, 8))):
        doing = data.draw(st.sampled_from(["write", "write", "copy", "swap"]))
        first, second = data.draw(st.permutations(range(LANES)))[:2]
        width = max(len(known[first]), len(known[second]))
        if doing == "swap":
            cache.swap([first], [second], width)
            known[first], known[second] = known[second], known[first]
        elif doing == "copy" and len(known[first]):
            cache.copy([first], [second], len(known[first]))
            known[second] = known[first].clone()
        elif doing == "write":
            lanes = sorted([first, second])
            new = data.draw(st.integers(1, 50))
            kept = [data.draw(st.integers(1, new)) for _ in lanes]
            states = torch.randn(2, HEADS, new, SIZE, generator=generator)
            places = torch.full((2, new), -1)
            for row, (lane, count) in enumerate(zip(lanes, kept, strict=True)):
                places[row, -count:] = len(known[lane]) + torch.arange(count)
                written = states[row, :, -count:].transpose(0, 1)
                known[lane] = torch.cat([known[lane], written])
            width = max(len(known[lane]) for lane in lanes)
            cache.reserve(width)
            cache.write(torch.tensor(lanes), places, torch.tensor(lanes), width)
            for layer in range(2):
                seen = cache.update(states + layer, -states, layer)
                for row, lane in enumerate(lanes):
                    length = len(known[lane])
                    keys, values = (part[row, :, :length].transpose(0, 1) for part in seen)
                    assert torch.equal(keys, known[lane] + layer)
                    assert torch.equal(values, -known[lane])


def test_a_batch_may_see_only_itself():
    cache = KeyValueCache(layers=1, lanes=2)
    states = torch.randn(1, HEADS, 5, SIZE)
    cache.write(torch.tensor([1]), torch.arange(5)[None], None, 0)
    keys, values = cache.update(states, -states, 0)
    assert keys is states
    cache.write(torch.tensor([1]), torch.tensor([[5]]), slice(1, 2), 6)
    keys, values = cache.update(states[:, :, :1], states[:, :, :1], 0)
    assert torch.equal(keys[:, :, :5], states) and torch.equal(values[:, :, :5], -states)


def test_keys_and_values_may_be_of_different_sizes():
    cache = KeyValueCache(layers=2, lanes=2)
    keys, values = torch.randn(2, HEADS, 1, SIZE), torch.randn(2, HEADS, 1, SIZE + 1)
    cache.write(torch.arange(2), torch.zeros(2, 1, dtype=torch.long), slice(0, 2), 1)
    for layer in range(2):
        seen = cache.update(keys + layer, values - layer, layer)
        assert torch.equal(seen[0], keys + layer) and torch.equal(seen[1], values - layer)
    cache.swap([0], [1], 1)
    cache.write(torch.arange(2), torch.ones(2, 1, dtype=torch.long), slice(0, 2), 2)
    seen = cache.update(keys, values, 1)
    assert torch.equal(seen[1][:, :, :1], values.flip(0) - 1)
