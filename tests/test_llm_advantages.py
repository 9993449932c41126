"""Advantages of groups, turns and tokens: laws, plain loops, numbers worked by hand."""

import math
import statistics

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from trainers.llm.advantages import (  # noqa: E402
    group_advantages,
    have_spread,
    last_tokens,
    length_adaptive_lambda,
    on_last_tokens,
    on_tokens,
    overlong_penalty,
    whiten,
)


def doubles(*numbers):
    return torch.tensor(numbers, dtype=torch.float64)


rows = st.lists(
    st.tuples(st.integers(-3, 3), st.integers(-8, 8).map(lambda n: n / 4), st.booleans()),
    min_size=1,
    max_size=12,
)
options = st.fixed_dictionaries(
    {
        "baseline": st.sampled_from(["mean", "leave_one_out"]),
        "scale": st.sampled_from(["group", "batch", "none"]),
        "correction": st.sampled_from([0, 1]),
    }
)


def columns(drawn):
    groups, rewards, valid = zip(*drawn, strict=True)
    return doubles(*rewards), torch.tensor(groups), torch.tensor(valid)


def slowly(rewards, groups, valid, *, baseline, scale, correction, epsilon=1e-4):
    """The formula, one row at a time."""
    everyone = [r for r, v in zip(rewards, valid, strict=True) if v]
    found = []
    for i, group in enumerate(groups):
        mates = [r for r, g, v in zip(rewards, groups, valid, strict=True) if g == group and v]
        if not valid[i] or len(set(mates)) < 2:
            found.append(0.0)
            continue
        rest = list(mates)
        if baseline == "leave_one_out":
            rest.remove(rewards[i])
        among = {"group": mates, "batch": everyone}.get(scale)
        std = statistics.stdev if correction else statistics.pstdev
        spread = std(among) + epsilon if among else 1.0
        found.append((rewards[i] - statistics.fmean(rest)) / spread)
    return found


@settings(max_examples=100, deadline=None)
@given(rows, options)
def test_advantages_are_those_of_the_plain_loop(drawn, chosen):
    rewards, groups, valid = columns(drawn)
    found = group_advantages(rewards, groups, valid=valid, **chosen)
    expected = slowly(rewards.tolist(), groups.tolist(), valid.tolist(), **chosen)
    assert found.tolist() == pytest.approx(expected)


@settings(max_examples=60, deadline=None)
@given(rows, options)
def test_advantages_of_a_group_sum_to_zero(drawn, chosen):
    rewards, groups, valid = columns(drawn)
    found = group_advantages(rewards, groups, valid=valid, **chosen)
    for group in groups.unique():
        assert found[groups == group].sum().item() == pytest.approx(0, abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(rows, options, st.randoms(use_true_random=False))
def test_advantages_follow_their_rows_in_any_order_under_any_name_of_their_group(
    drawn, chosen, random
):
    rewards, groups, valid = columns(drawn)
    order = random.sample(range(len(drawn)), len(drawn))
    found = group_advantages(rewards[order], 7 - 3 * groups[order], valid=valid[order], **chosen)
    expected = group_advantages(rewards, groups, valid=valid, **chosen)[order]
    assert torch.allclose(found, expected, rtol=0, atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(rows, options, st.sampled_from([math.nan, math.inf, -1e9]))
def test_failed_rollouts_leave_the_baseline_and_get_nothing(drawn, chosen, garbage):
    rewards, groups, valid = columns(drawn)
    found = group_advantages(rewards.masked_fill(~valid, garbage), groups, valid=valid, **chosen)
    alone = group_advantages(rewards[valid], groups[valid], **chosen)
    assert torch.allclose(found[valid], alone, rtol=0, atol=1e-12)
    assert not found[~valid].any()


@pytest.mark.parametrize("scale", ["group", "batch", "none"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_group_of_one_reward_gets_exactly_zero_even_if_it_was_summed_in_another_order(
    dtype, scale
):
    sums = [0.1 + 0.2, 0.3, 0.1 + 0.1 + 0.1, 0.0, 1.0]
    found = group_advantages(
        torch.tensor(sums, dtype=dtype), torch.tensor([0, 0, 0, 1, 1]), scale=scale, epsilon=1e-8
    )
    assert found[:3].tolist() == [0, 0, 0] and found[3] < 0 < found[4]


def test_a_lone_row_gets_zero_and_not_its_reward():
    assert group_advantages(doubles(5.0, 1.0, 0.0), torch.tensor([4, 9, 9]))[0] == 0


def test_by_hand_with_each_std():
    """Mean ½; std 1/√2 by G − 1 and ½ by G; of the batch 1, 0, 4, 4: √(17/4) around 9/4, by 3."""
    rewards, groups = doubles(1, 0, 4, 4), torch.tensor([0, 0, 1, 1])
    by_group = group_advantages(rewards, groups, epsilon=0)
    assert by_group.tolist() == pytest.approx([math.sqrt(0.5), -math.sqrt(0.5), 0, 0])
    population = group_advantages(rewards, groups, epsilon=0, correction=0)
    assert population.tolist() == pytest.approx([1, -1, 0, 0])
    squares = 1.25**2 + 2.25**2 + 2 * 1.75**2
    by_batch = group_advantages(rewards, groups, epsilon=0, scale="batch")
    assert by_batch[0].item() == pytest.approx(0.5 / math.sqrt(squares / 3))


def test_turns_have_statistics_of_their_own_over_who_played_them():
    """Turn 1: mean 2 of 1 and 3. Turn 2: 5 and 9, the third row had ended; turn 3: one alone."""
    rewards = torch.tensor([[1.0, 5.0, 7.0], [3.0, 9.0, 0.0], [2.0, 0.0, 0.0]])
    played = torch.tensor([[1, 1, 1], [1, 1, 0], [1, 0, 0]])
    found = group_advantages(rewards, torch.zeros(3), scale="none", valid=played)
    assert found.tolist() == [[-1, -2, 0], [1, 2, 0], [0, 0, 0]]


def test_groups_without_spread_are_told_from_those_with_a_little():
    rewards = torch.tensor([1.0, 1.0, 0.5, 0.50001, 0.3, 7.0])
    groups = torch.tensor([0, 0, 1, 1, 2, 3])
    assert have_spread(rewards, groups).tolist() == [False, False, True, True, False, False]
    valid = torch.tensor([1, 1, 1, 0, 1, 1])
    assert not have_spread(rewards, groups, valid).any()


def test_whitened_values_have_mean_0_and_spread_1_among_those_that_count():
    """By hand: 1, 3, 5 have mean 3 and variance 4 by two."""
    values, mask = doubles(1, math.nan, 3, 5, 100), torch.tensor([1, 0, 1, 1, 0])
    assert whiten(values, mask, 0.0).tolist() == pytest.approx([-1, 0, 0, 1, 0])


@pytest.mark.parametrize("count", [0, 1, 3])
def test_what_is_all_alike_or_alone_is_whitened_to_zero(count):
    mask = torch.arange(4) < count
    assert whiten(doubles(2, 2, 2, 2), mask).tolist() == [0, 0, 0, 0]


TURNS = torch.tensor([[-1, 0, 0, -1, 1, 1, 1, -1], [-1, -1, 0, 1, 1, -1, -1, 2]])


def test_turns_reach_their_tokens():
    found = on_tokens(torch.tensor([[5.0, 7.0, 0.0], [1.0, 2.0, 3.0]]), TURNS)
    assert found.tolist() == [[0, 5, 5, 0, 7, 7, 7, 0], [0, 0, 1, 2, 2, 0, 0, 3]]


def test_a_turn_earns_its_reward_once_on_its_last_token():
    assert last_tokens(TURNS).tolist() == [
        [False, False, True, False, False, False, True, False],
        [False, False, True, False, True, False, False, True],
    ]
    found = on_last_tokens(torch.tensor([[5.0, 7.0, 0.0], [1.0, 2.0, 3.0]]), TURNS)
    assert found.sum(-1).tolist() == [12, 6]


def test_lambda_grows_with_length_and_is_never_negative():
    """α = 0.05: 0 up to 20 tokens, ½ at 40, 0.9 at 200."""
    found = length_adaptive_lambda(torch.tensor([0, 1, 20, 40, 200]), alpha=0.05)
    assert found.tolist() == pytest.approx([0, 0, 0, 0.5, 0.9])


def test_numbers_of_whole_lengths_are_as_exact_as_doubles():
    """A repaired bug: whole lengths gave single precision."""
    lengths = torch.tensor([7, 33])
    exact = [1 - 1 / (0.5 * 7), 1 - 1 / (0.5 * 33)]
    assert length_adaptive_lambda(lengths, 0.5).tolist() == pytest.approx(exact, abs=1e-15)
    found = overlong_penalty(torch.tensor([87, 93]), 100, 20).tolist()
    assert found == pytest.approx([-7 / 20, -13 / 20], abs=1e-15)
    found = group_advantages(torch.tensor([1, 0, 0]), torch.tensor([0, 0, 0]))
    expected = group_advantages(doubles(1, 0, 0), torch.tensor([0, 0, 0]))
    assert torch.equal(found, expected) and found.dtype == torch.float64


def test_overlong_replies_are_punished_from_the_cache_on():
    lengths = torch.tensor([80, 85, 100, 200])
    assert overlong_penalty(lengths, 100, 20).tolist() == pytest.approx([0, -0.25, -1, -1])
    assert overlong_penalty(torch.tensor([100, 101]), 100, 0).tolist() == [0, -1]
