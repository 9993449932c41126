"""The parts of policy losses: numbers worked by hand, and laws that they must keep."""

import math

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from trainers.llm.losses import (  # noqa: E402
    Totals,
    aggregate,
    are_clipped,
    capped_losses,
    clipped_losses,
    entropy,
    group_expectation_ratios,
    kl,
    log_group_expectations,
    row_means,
    sampler_weights,
    sequence_ratios,
    sequence_token_ratios,
    tempered_log_probs,
    token_ratios,
    value_losses,
)

LOG2 = math.log(2)


def doubles(*numbers):
    return torch.tensor(numbers, dtype=torch.float64)


# -- log-probabilities -----------------------------------------------------------------------------


def test_temperature_divides_the_logits():
    """Logits 0 and log 4 at temperature 2: odds of 1 to 2."""
    found = tempered_log_probs(doubles(0, math.log(4)), temperature=2.0)
    assert found.exp().tolist() == pytest.approx([1 / 3, 2 / 3])


def test_entropy_of_four_equal_tokens_is_log_4_whatever_is_impossible_beside_them():
    logits = doubles(0, 0, 0, 0, -math.inf).requires_grad_()
    found = entropy(logits.log_softmax(-1))
    found.backward()
    assert found.item() == pytest.approx(math.log(4)) and logits.grad.isfinite().all()


# -- ratios ----------------------------------------------------------------------------------------

MASK = torch.tensor([[1, 0, 1], [1, 1, 1], [0, 0, 0]])
NEW = doubles([LOG2, 9, 0], [0, 0, 3 * LOG2], [9, 9, 9])
OLD = torch.zeros(3, 3, dtype=torch.float64)


def test_a_row_s_ratio_is_the_geometric_mean_of_its_own_tokens():
    assert token_ratios(NEW, OLD)[1].tolist() == pytest.approx([1, 1, 8])
    assert sequence_ratios(NEW, OLD, MASK).flatten().tolist() == pytest.approx([2**0.5, 2, 1])


def test_sequence_token_ratios_have_the_rows_value_and_the_tokens_own_gradient():
    new = NEW.clone().requires_grad_()
    found = sequence_token_ratios(new, OLD, MASK)
    assert found[1].tolist() == pytest.approx([2, 2, 2])
    found[1, 2].backward()
    assert new.grad[1].tolist() == pytest.approx([0, 0, 2])


def test_ratios_beyond_any_reason_stay_finite_in_32_bits():
    new = torch.tensor([[0.0, 0.0]], requires_grad=True)
    old = torch.tensor([[-1000.0, -50.0]])
    for found in (token_ratios(new, old), sequence_ratios(new, old, torch.ones(1, 2))):
        (-found).sum().backward()
        assert found.isfinite().all() and new.grad.isfinite().all()


def test_expectations_of_groups_by_hand():
    """q = ½ and ¼: (¼ + 1/16) / (¾) = 5/12; alone it is the row's own; no tokens, no part in it."""
    logs = doubles([-LOG2, 5, -LOG2], [-3 * LOG2, -2 * LOG2, -LOG2], [7, 7, 7], [-LOG2, 9, 9])
    mask = torch.tensor([[1, 0, 1], [1, 1, 1], [0, 0, 0], [1, 0, 0]])
    found = log_group_expectations(logs, mask, torch.tensor([3, 3, 3, -8])).exp().flatten()
    assert found[[0, 1, 3]].tolist() == pytest.approx([5 / 12, 5 / 12, 1 / 2])
    ratios = group_expectation_ratios(logs, mask, found.log()[:, None]).flatten()
    assert ratios[[0, 1, 3]].tolist() == pytest.approx([6 / 5, 3 / 5, 1])


def test_a_group_of_one_with_no_tokens_at_all_is_finite():
    assert log_group_expectations(OLD, torch.zeros(3, 3), torch.arange(3)).isfinite().all()


def test_long_rows_of_different_lengths_do_not_underflow():
    """A product of 4,000 probabilities is no number; their mean is, and weighs length alike."""
    logs = torch.full((2, 4000), -5.0)
    mask = torch.ones(2, 4000)
    mask[1, 10:] = 0
    expected = log_group_expectations(logs, mask, torch.zeros(2))
    assert expected.flatten().tolist() == pytest.approx([-5, -5], rel=1e-5)
    ratios = group_expectation_ratios(logs, mask, expected)
    assert ratios.flatten().tolist() == pytest.approx([1, 1], rel=1e-4)


# -- clips -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "clipped"),
    [
        (1.1, 2.0, -2.2, False),
        (1.5, 2.0, -2.6, True),  # enough of a good thing: 1.3
        (0.5, 2.0, -1.0, False),
        (1.5, -2.0, 3.0, False),
        (0.5, -2.0, 1.6, True),  # enough of a bad one: 0.8
        (9.0, -2.0, 10.0, True),  # dual: 5
        (9.0, 0.0, 0.0, False),
    ],
)
def test_clips_by_hand(ratio, advantage, loss, clipped):
    """Between 0.8 and 1.3; the dual bound is 5."""
    ratio, advantage = doubles(ratio), doubles(advantage)
    assert clipped_losses(ratio, advantage, 0.2, 0.3, 5.0).item() == pytest.approx(loss)
    assert are_clipped(ratio, advantage, 0.2, 0.3, 5.0).item() is clipped


numbers = st.floats(0, 6), st.sampled_from([-1.5, -0.1, 0.1, 2.0]), st.sampled_from([None, 3.0])


@given(*numbers)
def test_clipped_is_what_has_no_gradient(ratio, advantage, dual):
    ratios = torch.tensor([ratio], dtype=torch.float64, requires_grad=True)
    advantages = doubles(advantage)
    clipped_losses(ratios, advantages, 0.2, 0.3, dual).sum().backward()
    if ratio not in (0.8, 1.3, 3.0):
        clipped = are_clipped(ratios, advantages, 0.2, 0.3, dual).item()
        assert ratios.grad.item() == pytest.approx(0 if clipped else -advantage)


def test_capped_weights_bound_the_weight_and_leave_every_token_its_gradient():
    """Weights 0.1, 1 and 9 become ½, 1 and 2."""
    log_probs = doubles(-1, -2, -3).requires_grad_()
    ratios = doubles(0.1, 1, 9) * (log_probs - log_probs.detach()).exp()
    losses = capped_losses(ratios, doubles(3, 3, -3), log_probs, cap=2.0, floor=0.5)
    losses.sum().backward()
    assert losses.tolist() == pytest.approx([1.5, 6, -18])
    assert log_probs.grad.tolist() == pytest.approx([-1.5, -3, 6])


# -- divergences -----------------------------------------------------------------------------------


def test_estimates_of_kl_by_hand():
    """π = ½, reference = ¼ and 1."""
    new, reference = doubles(-LOG2, -LOG2), doubles(-2 * LOG2, 0)
    assert kl(new, reference, "k1").tolist() == pytest.approx([LOG2, -LOG2])
    assert kl(new, reference, "k2").tolist() == pytest.approx([LOG2**2 / 2] * 2)
    assert kl(new, reference, "k3").tolist() == pytest.approx([LOG2 - 0.5, 1 - LOG2])


@given(st.lists(st.floats(-3, 3), min_size=6, max_size=6))
def test_k1_and_k3_are_unbiased_and_k3_is_never_negative(logits):
    new, reference = torch.tensor(logits, dtype=torch.float64).view(2, 3).log_softmax(-1)
    divergence = (new.exp() * (new - reference)).sum().item()
    for estimator in ("k1", "k3"):
        expected = (new.exp() * kl(new, reference, estimator)).sum().item()
        assert expected == pytest.approx(divergence, abs=1e-12)
    assert (kl(new, reference) >= -1e-15).all()


def test_of_the_three_gradients_only_k2_s_is_that_of_the_divergence():
    """E[∇ k2] = ∇ KL(π ‖ reference); E[∇ k3] is that of KL(reference ‖ π), E[∇ k1] nothing."""
    logits = doubles(0.3, -0.2, 1.0).requires_grad_()
    reference = doubles(0.0, 0.5, 0.1).log_softmax(-1)

    def gradient(divergence):
        new = logits.log_softmax(-1)
        return torch.autograd.grad(divergence(new).sum(), logits)[0]

    def sampled(estimator):
        return gradient(lambda new: new.exp().detach() * kl(new, reference, estimator))

    forward = gradient(lambda new: new.exp() * (new - reference))
    backward = gradient(lambda new: reference.exp() * (reference - new))
    assert torch.allclose(sampled("k2"), forward) and torch.allclose(sampled("k3"), backward)
    assert torch.allclose(sampled("k1"), torch.zeros(3, dtype=torch.float64), atol=1e-15)
    assert not torch.allclose(forward, backward, rtol=0.1)


def test_a_reference_that_is_sure_of_what_the_policy_never_says_is_finite():
    new = torch.tensor([-1000.0], requires_grad=True)
    kl(new, torch.zeros(1), "k3").sum().backward()
    assert new.grad.isfinite().all()


def test_weights_of_the_sampler_by_hand():
    """Gaps log 2, (masked), log 4 and −log 2: of the row log 4."""
    old = doubles([LOG2, 99, 2 * LOG2, -LOG2])
    sampler, mask = torch.zeros(1, 4), torch.tensor([[1, 0, 1, 1]])
    found = {
        (level, action): sampler_weights(old, sampler, mask, level=level, action=action, cap=3.0)
        for level in ("token", "sequence")
        for action in ("truncate", "mask")
    }
    assert found["token", "truncate"].tolist() == [pytest.approx([2, 1, 3, 0.5])]
    assert found["token", "mask"].tolist() == [pytest.approx([2, 1, 0, 0.5])]
    assert found["sequence", "truncate"].tolist() == [[3, 3, 3, 3]]
    assert found["sequence", "mask"].tolist() == [[0, 0, 0, 0]]


def test_weights_of_the_sampler_have_no_gradient():
    old = torch.zeros(1, 2, requires_grad=True)
    assert not sampler_weights(old, torch.zeros(1, 2), torch.ones(1, 2)).requires_grad


# -- values and means ------------------------------------------------------------------------------


def test_a_value_that_moved_far_counts_with_the_worse_of_two_errors():
    """From 0 to 1 with clip ½. Return 1: ½·(½)². Return 0: ½·1. Unclipped: 0 and ½."""
    values, returns, old = doubles(1, 1), doubles(1, 0), doubles(0, 0)
    assert value_losses(values, returns, old, 0.5).tolist() == [0.125, 0.5]
    assert value_losses(values, returns).tolist() == [0, 0.5]


LOSSES = doubles([1, math.nan, 3], [4, 5, 9], [math.nan] * 3)


def test_three_means_by_hand():
    """Rows (1, 3), (4, 5, 9) and an empty one: 4 of 2 tokens and 18 of 3."""
    totals = Totals.of(MASK)
    assert totals == Totals(rows=2, tokens=5)
    assert row_means(LOSSES, MASK).flatten().tolist() == [2, 6, 0]
    assert aggregate(LOSSES, MASK, "row_mean", totals).item() == 4
    assert aggregate(LOSSES, MASK, "token_mean", totals).item() == pytest.approx(22 / 5)
    assert aggregate(LOSSES, MASK, "constant", totals, length=11).item() == 1


def test_empty_rows_count_as_in_trl_or_not_as_in_verl():
    counted = Totals.of(MASK, count_empty_rows=True)
    assert aggregate(LOSSES, MASK, "row_mean", counted).item() == pytest.approx(8 / 3)


def test_nothing_at_all_is_zero():
    nothing = torch.zeros_like(MASK)
    for how in ("row_mean", "token_mean", "constant"):
        assert aggregate(LOSSES, nothing, how, Totals.of(nothing)).item() == 0


def test_totals_of_parts_are_those_of_the_whole():
    positive = torch.tensor([True, False, True])
    parts = [Totals.of(MASK[i : i + 1], positive[i : i + 1]) for i in range(3)]
    assert parts[0] + parts[1] + parts[2] == Totals.of(MASK, positive) == Totals(2, 5, 2)
