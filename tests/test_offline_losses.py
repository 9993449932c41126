"""The arithmetic of offline learners over acts: by hand, and by its laws."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

pytest.importorskip("torch", reason="torch is not installed")
import torch
from torch import tensor

from trainers.functional import expectile_loss
from trainers.offline.losses import (
    conservative_gap,
    cross_entropy,
    exponential,
    huber,
    inverse_propensities,
    legal_only,
    log_sum_exp,
    mean,
    mmd2,
    of_the_best,
    pessimistic,
    supported,
    taken,
    td_target,
)
from trainers.offline.multiplier import Multiplier

finite = st.floats(-5, 5, width=32)
rows = arrays(np.float32, (6, 4), elements=finite)


@st.composite
def masked(draw):
    """(6, 4) of which some act of each row is legal."""
    found = draw(arrays(np.bool_, (6, 4)))
    found[np.arange(6), draw(arrays(np.int64, 6, elements=st.integers(0, 3)))] = True
    return found


def distributions(draw_from):
    return torch.from_numpy(draw_from).softmax(-1)


# -- by hand ---------------------------------------------------------------------------------------


def test_targets_by_hand():
    found = td_target(tensor([1.0, 2.0]), tensor([0.5, 0.0]), tensor([10.0, 10.0]))
    assert found.tolist() == [6.0, 2.0]


def test_hubers_loss_by_hand():
    assert huber(tensor([[0.5, 3.0]]), tensor([0.0, 0.0])).tolist() == [[0.125, 2.5]]


def test_what_was_done_is_taken_of_every_network():
    values = torch.arange(12.0).view(2, 2, 3)
    assert taken(values, tensor([2, 0])).tolist() == [[2.0, 3.0], [8.0, 9.0]]


def test_ensembles_by_hand():
    values = tensor([[[1.0, 4.0]], [[3.0, 4.0]]])  # (2, 1, 2)
    assert pessimistic(values, None).tolist() == [[1.0, 4.0]]
    assert pessimistic(values, 0.5).tolist() == [[1.5, 4.0]]
    assert pessimistic(values[:1], 0.5).tolist() == [[1.0, 4.0]]


def test_support_by_hand():
    logits = tensor([[0.5, 0.3, 0.14, 0.06]]).log()
    assert supported(logits, None, 0.3).tolist() == [[True, True, False, False]]
    legal = tensor([[False, True, True, True]])
    assert supported(logits, legal, 0.3).tolist() == [[False, True, True, False]]


def test_the_conservative_gap_by_hand():
    values, legal = tensor([[0.0, math.log(3.0), 50.0]]), tensor([[True, True, False]])
    assert conservative_gap(values, tensor([0]), legal).item() == pytest.approx(math.log(4.0))


def test_weights_by_hand():
    best = of_the_best(tensor([1.0, 0.0, 2.0, 0.5]), tensor(1.0), tensor([1.0, 1.0, 3.0, 1.0]))
    assert best.tolist() == [2.0, 0.0, 6.0, 0.0]
    assert inverse_propensities(tensor([0.5, 0.01]), 20.0).tolist() == [2.0, 20.0]
    assert exponential(tensor([0.0, -1.0, 90.0]), 100.0).tolist() == pytest.approx(
        [1.0, math.exp(-1), 100.0]
    )
    assert mean(tensor([[1.0, 2.0], [3.0, 4.0]]), tensor([1.0, 0.0])).item() == 1.0


@settings(max_examples=40, deadline=None)
@given(arrays(np.float32, (6, 4), elements=st.floats(-300, 300, width=32)), masked())
def test_a_sum_of_exponentials_and_its_slope_are_torchs(values, legal):
    one, other = (torch.from_numpy(values).requires_grad_() for _ in range(2))
    mine = log_sum_exp(legal_only(one, torch.from_numpy(legal)))
    theirs = other.masked_fill(~torch.from_numpy(legal), -torch.inf).logsumexp(-1)
    assert torch.allclose(mine, theirs, rtol=1e-6, atol=1e-6)
    for result in (mine, theirs):
        result.sum().backward()
    assert torch.allclose(one.grad, other.grad, atol=1e-5)
    assert not one.grad.numpy()[~legal].any()


def test_a_multiplier_by_hand():
    alpha = Multiplier(2.0, 0.1)
    assert alpha.update(tensor(3.0)).item() == pytest.approx(2.0 * math.exp(0.1), rel=1e-4)
    assert alpha.log.grad.item() == pytest.approx(-3.0)


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian"])
def test_mmd_is_that_of_the_sum_over_all_pairs_of_acts(kernel):
    chance = np.random.default_rng(0)
    p, q = chance.dirichlet(np.ones(5)), chance.dirichlet(np.ones(5))
    sigma, acts, total = 0.7, np.eye(5), 0.0
    for a in range(5):
        for b in range(5):
            apart = np.linalg.norm(acts[a] - acts[b])
            k = math.exp(-(apart**2) / (2 * sigma**2))
            if kernel == "laplacian":
                k = math.exp(-apart / sigma)
            total += (p[a] * p[b] + q[a] * q[b] - 2 * p[a] * q[b]) * k
    found = mmd2(tensor(p)[None], tensor(q)[None], kernel, sigma).item()
    assert found == pytest.approx(total, abs=1e-12)


# -- laws ------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(rows, masked())
def test_a_gap_is_never_below_zero_and_ignores_illegal_acts(values, legal):
    actions = torch.from_numpy(legal.argmax(1))
    found = conservative_gap(torch.from_numpy(values), actions, torch.from_numpy(legal))
    assert (found >= -1e-5).all()
    changed = torch.from_numpy(np.where(legal, values, 1e4).astype("f4"))
    assert torch.equal(found, conservative_gap(changed, actions, torch.from_numpy(legal)))


@settings(deadline=None)
@given(rows, masked())
def test_a_gap_is_the_cross_entropy_of_values_as_logits(values, legal):
    actions, masks = torch.from_numpy(legal.argmax(1)), torch.from_numpy(legal)
    found = conservative_gap(torch.from_numpy(values), actions, masks)
    other = cross_entropy(torch.from_numpy(values), actions, masks)
    assert torch.allclose(found, other, atol=1e-5)


@settings(deadline=None)
@given(rows, masked(), st.floats(0, 1), st.floats(0, 1))
def test_support_is_legal_never_empty_and_shrinks_with_the_threshold(values, legal, one, other):
    low, high = sorted([one, other])
    logits, masks = torch.from_numpy(values), torch.from_numpy(legal)
    wide, narrow = supported(logits, masks, low), supported(logits, masks, high)
    assert narrow.any(-1).all() and not (narrow & ~wide).any() and not (wide & ~masks).any()
    assert torch.equal(supported(logits, masks, 0.0), masks)
    best = legal_only(logits, masks)
    assert torch.equal(supported(logits, masks, 1.0), best == best.amax(-1, keepdim=True))


@settings(deadline=None)
@given(rows, rows, st.floats(0.1, 5), st.sampled_from(["gaussian", "laplacian"]))
def test_mmd_is_a_squared_distance(one, other, sigma, kernel):
    p, q = distributions(one), distributions(other)
    found = mmd2(p, q, kernel, sigma)
    assert (found >= 0).all() and (mmd2(p, p, kernel, sigma) == 0).all()
    assert torch.allclose(found, mmd2(q, p, kernel, sigma))
    assert (found <= 2.0).all()


@settings(deadline=None)
@given(arrays(np.float64, 12, elements=st.floats(-5, 5)), st.floats(0.2, 0.8))
def test_the_expectile_balances_what_lies_above_and_below(values, expectile):
    value = torch.tensor(0.0, dtype=torch.float64)
    points = torch.from_numpy(values)
    for _ in range(300):  # iteratively reweighted means
        pull = torch.where(points < value, 1 - expectile, expectile)
        value = (pull * points).sum() / pull.sum()
    value.requires_grad_()
    expectile_loss(points - value, expectile).sum().backward()
    assert abs(value.grad.item()) < 1e-4
    assert points.min() - 1e-5 <= value <= points.max() + 1e-5


@settings(deadline=None)
@given(arrays(np.float32, (3, 5, 2), elements=finite), st.floats(0, 3), st.floats(0, 3))
def test_more_pessimism_is_never_worth_more(values, one, other):
    low, high = sorted([one, other])
    members = torch.from_numpy(values)
    assert (pessimistic(members, high) <= pessimistic(members, low) + 1e-5).all()
    assert (pessimistic(members, None) <= pessimistic(members, 0.0) + 1e-5).all()
