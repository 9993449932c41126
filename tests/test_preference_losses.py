"""Losses over preferred pairs: numbers worked by hand, laws, and a reward found again."""

import math

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from trainers.llm.preference_losses import (  # noqa: E402
    bradley_terry_losses,
    dpo_losses,
    implied_rewards,
)


def doubles(*numbers):
    return torch.tensor(numbers, dtype=torch.float64)


def test_equal_rewards_cost_log_2_and_three_to_one_odds_cost_theirs():
    found = bradley_terry_losses(doubles(0.7, math.log(3), 0), doubles(0.7, 0, math.log(3)))
    expected = [math.log(2), -math.log(3 / 4), -math.log(1 / 4)]
    assert found.tolist() == pytest.approx(expected)


def test_a_hopeless_pair_stays_finite_and_pulls_with_its_full_weight():
    chosen = torch.tensor([-1e4], requires_grad=True)
    loss = bradley_terry_losses(chosen, torch.zeros(1)).sum()
    loss.backward()
    assert loss.item() == 1e4 and chosen.grad.item() == -1


def test_rewards_are_found_again_from_how_often_they_win():
    """Three items of known strength, pairs weighted by their probability of winning."""
    truth = doubles(1.0, 0.0, -0.5)
    pairs = [(i, j) for i in range(3) for j in range(3) if i != j]
    left, right = (torch.tensor(side) for side in zip(*pairs, strict=True))
    wins = (truth[left] - truth[right]).sigmoid()
    rewards = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([rewards], max_iter=100, tolerance_grad=1e-10)

    def loss():
        optimizer.zero_grad()
        total = (wins * bradley_terry_losses(rewards[left], rewards[right])).sum()
        total.backward()
        return total

    optimizer.step(loss)
    found = rewards.detach() - rewards.detach().mean()
    assert torch.allclose(found, truth - truth.mean(), atol=1e-4)


def test_dpo_by_hand():
    """Policy +2 for the chosen one, reference +1; β = ½: −log σ(½) = log(1 + e^−½)."""
    found = dpo_losses(doubles(-10), doubles(-12), doubles(-11), doubles(-12), beta=0.5)
    assert found.tolist() == pytest.approx([math.log1p(math.exp(-0.5))])


def test_dpo_starts_at_log_2_and_pulls_with_half_of_beta():
    chosen = doubles(-3, -5).requires_grad_()
    rejected = doubles(-4, -1).requires_grad_()
    losses = dpo_losses(chosen, rejected, chosen.detach(), rejected.detach(), beta=0.1)
    losses.sum().backward()
    assert losses.tolist() == pytest.approx([math.log(2)] * 2)
    assert chosen.grad.tolist() == pytest.approx([-0.05] * 2)
    assert rejected.grad.tolist() == pytest.approx([0.05] * 2)


def test_a_policy_implies_the_reward_it_is_best_for():
    """π ∝ π_ref e^(r/β): implied rewards are r, but for a constant that pairs do not see."""
    rewards, reference = doubles(1.0, 0.2, -0.7), doubles(0.5, 0.3, 0.2).log()
    policy = (reference + rewards / 0.25).log_softmax(-1)
    found = implied_rewards(policy, reference, beta=0.25)
    assert torch.allclose(found - found[0], rewards - rewards[0])


def test_smoothed_labels_by_hand():
    """Odds of three to one, ε = ¼: ¾ log(4/3) + ¼ log 4, and there the slope is 0."""
    difference = torch.tensor([math.log(3)], dtype=torch.float64, requires_grad=True)
    loss = bradley_terry_losses(difference, doubles(0.0), label_smoothing=0.25)
    loss.sum().backward()
    assert loss.tolist() == pytest.approx([0.75 * math.log(4 / 3) + 0.25 * math.log(4)])
    assert difference.grad.tolist() == pytest.approx([0.0], abs=1e-12)
    same = dpo_losses(difference.detach(), doubles(0), doubles(0), doubles(0), 1.0, 0.25)
    assert same.tolist() == pytest.approx(loss.tolist())
