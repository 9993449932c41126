"""Discounted sums and generalised advantages against plain loops over the policy's own steps."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from convgym.data.transitions import returns_to_go  # noqa: E402
from trainers.functional import (  # noqa: E402
    discounted_sums,
    expectile_loss,
    generalized_advantages,
)


def drawn(seed, steps):
    """Rewards, values, discounts and lambdas of 3 rows, a mask and what comes after the end."""
    rng = np.random.default_rng(seed)
    numbers = [torch.from_numpy(rng.normal(size=(3, steps))) for _ in range(2)]
    shares = [torch.from_numpy(rng.random((3, steps))) for _ in range(2)]
    mask = torch.from_numpy(rng.random((3, steps)) < 0.6)
    return *numbers, *shares, mask, torch.from_numpy(rng.normal(size=3))


seeds, lengths = st.integers(0, 2**32 - 1), st.integers(1, 9)


@settings(max_examples=50, deadline=None)
@given(seeds, lengths)
def test_sums_are_those_of_the_steps_that_count(seed, steps):
    rewards, _, discounts, _, mask, after = drawn(seed, steps)
    found = discounted_sums(rewards, mask, discounts, after)
    for row in range(3):
        total = after[row].item()
        for t in reversed(range(steps)):
            if mask[row, t]:
                total = rewards[row, t].item() + discounts[row, t].item() * total
            assert found[row, t].item() == pytest.approx(total)


def test_sums_without_gaps_are_the_returns_of_recorded_episodes():
    rewards = np.array([0.5, -1.0, 2.0, 0.0])
    found = discounted_sums(torch.from_numpy(rewards), torch.ones(4), 0.9)
    assert found.tolist() == pytest.approx(returns_to_go(rewards, 0.9).tolist())


def advantages_of(rewards, values, discounts, lambdas, after):
    """Σ_k (Π γλ) δ_{t+k}, as it is written, over a row's own steps."""
    following, found = [*values[1:], after], []
    for t in range(len(rewards)):
        weight, total = 1.0, 0.0
        for k in range(t, len(rewards)):
            total += weight * (rewards[k] + discounts[k] * following[k] - values[k])
            weight *= discounts[k] * lambdas[k]
        found.append(total)
    return found


@settings(max_examples=50, deadline=None)
@given(seeds, lengths)
def test_advantages_are_those_of_the_row_without_its_gaps(seed, steps):
    *numbers, mask, after = drawn(seed, steps)
    gapless = [[column[row][mask[row]].tolist() for column in numbers] for row in range(3)]
    inert = [column.masked_fill(~mask, torch.nan) for column in numbers]
    advantages, returns = generalized_advantages(*inert[:2], mask, *inert[2:], after)
    for row in range(3):
        expected = advantages_of(*gapless[row], after[row].item())
        assert advantages[row][mask[row]].tolist() == pytest.approx(expected)
        learnt = [a + v for a, v in zip(expected, gapless[row][1], strict=True)]
        assert returns[row][mask[row]].tolist() == pytest.approx(learnt)
    assert not advantages[~mask].any() and not returns[~mask].any()


def test_a_number_discounts_every_step_and_a_column_every_row():
    rewards, values, _, _, mask, _ = drawn(1, 6)
    wide = torch.full_like(rewards, 0.9)
    column = torch.tensor([[0.1], [0.5], [1.0]], dtype=torch.float64)
    found = generalized_advantages(rewards, values, mask, 0.9, column)
    expected = generalized_advantages(rewards, values, mask, wide, column.expand(3, 6))
    assert torch.equal(found[0], expected[0]) and torch.equal(found[1], expected[1])


def test_with_lambda_1_the_critic_learns_plain_returns_and_the_value_of_a_cut():
    """By hand: rewards 1, 2 and what was cut off is worth 4; γ = ½."""
    rewards, values = torch.tensor([[1.0, 9.0, 2.0]]), torch.tensor([[0.3, 9.0, 0.7]])
    mask = torch.tensor([[1, 0, 1]])
    _, returns = generalized_advantages(rewards, values, mask, 0.5, 1.0, torch.tensor([4.0]))
    assert returns.tolist() == [pytest.approx([1 + 0.5 * (2 + 0.5 * 4), 0, 2 + 0.5 * 4])]
    _, ended = generalized_advantages(rewards, values, mask, 0.5, 1.0)
    assert ended.tolist() == [pytest.approx([2.0, 0, 2.0])]


def test_expectile_loss_by_hand():
    q, v = torch.tensor([3.0, 1.0]), torch.tensor([1.0, 3.0])
    assert expectile_loss(q - v, 0.9).tolist() == pytest.approx([0.9 * 4, 0.1 * 4])
    assert expectile_loss(q - v, 0.5).tolist() == pytest.approx([2.0, 2.0])


def test_the_value_that_minimises_it_is_the_expectile():
    """Of 0 and 1, half each, the τ-expectile is τ."""
    q = torch.tensor([0.0, 1.0])
    tried = torch.linspace(0, 1, 101)
    losses = torch.stack([expectile_loss(q - v, 0.8).sum() for v in tried])
    assert float(tried[losses.argmin()]) == pytest.approx(0.8)
