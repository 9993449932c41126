"""What holds offline learners over acts: multipliers that move nothing else, and masks."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("torch", reason="torch is not installed")
import torch
from toy_fits import EVERY, SIZE, SMALL, configured, conversation, fitted, mostly_bad

from trainers.offline.algorithms.bear import BEARConfig
from trainers.offline.algorithms.cql import CQLConfig
from trainers.offline.discrete_policy import DiscretePolicy
from trainers.offline.losses import conservative_gap, huber, mmd2, taken
from trainers.toy_dialogue import ACTS, BLUNDERS, STATES, embedding

# -- 10: multipliers -------------------------------------------------------------------------------


def prepared(config, data):
    """A learner that has learnt a little, and a batch."""
    learner = configured(config, **SMALL).create()
    turns = learner.build(data)
    learner.fit(turns, 50)
    return learner.algorithm, learner.generator, turns[torch.arange(64)]


@pytest.mark.parametrize("threshold", [1e-6, 1.2])
def test_bears_multiplier_moves_nothing_but_itself(threshold):
    config = BEARConfig(mmd_threshold=threshold, actor_learning_rate=1e-12)
    bear, generator, batch = prepared(config, mostly_bad())
    # What the step must be, worked out on its own: values and clone as they were before it.
    chosen = bear.actor(batch["observations"])[0].softmax(-1)
    values = bear.critic(batch["observations"]).detach().amin(0)
    behavior = bear.clone(batch["observations"])[0].detach().softmax(-1)
    away = mmd2(chosen, behavior, "gaussian", 1.0).mean()
    gain = (chosen * values).sum(-1).mean()
    parts = [*bear.actor.parameters()]
    pulls = torch.autograd.grad(away, parts, retain_graph=True)
    pushes = torch.autograd.grad(-gain, parts)
    before = bear.alpha.log.item()
    metrics, _ = bear.update(batch, generator, 1)
    assert (bear.alpha.log.item() > before) == (away.item() > threshold)
    assert bear.alpha.log.grad.item() == pytest.approx(-(away.item() - threshold), rel=1e-4)
    alpha = metrics["alpha"]
    for part, pull, push in zip(parts, pulls, pushes, strict=True):
        assert torch.allclose(part.grad, push + alpha * pull, atol=1e-6)
    assert any((alpha * pull).abs().max() > 1e-4 for pull in pulls)  # it does pull


def test_cqls_multiplier_moves_nothing_but_itself():
    config = CQLConfig(lagrange_threshold=0.5)
    cql, generator, batch = prepared(config, mostly_bad())
    values = cql.critic(batch["observations"])
    with torch.no_grad():
        targets = batch["rewards"] + batch["discounts"] * cql.next_values(batch)
    td = huber(taken(values, batch["actions"]), targets).mean()
    gap = conservative_gap(values, batch["actions"], batch["masks"]).mean()
    parts, before = [*cql.critic.parameters()], cql.alpha.log.item()
    of_td = torch.autograd.grad(td, parts, retain_graph=True)
    of_gap = torch.autograd.grad(gap, parts)
    metrics, _ = cql.update(batch, generator, 1)
    assert gap.item() > 0.5 and cql.alpha.log.item() > before
    assert cql.alpha.log.grad.item() == pytest.approx(-(gap.item() - 0.5), rel=1e-4)
    for part, one, other in zip(parts, of_td, of_gap, strict=True):
        assert torch.allclose(part.grad, one + metrics["alpha"] * other, atol=1e-6)


def test_bear_keeps_its_distance_where_value_pulls_away():
    *_, near, _ = fitted(BEARConfig(mmd_threshold=0.1), mostly_bad(), 500)
    assert near.history[-1]["mmd2"] < 0.12
    *_, far, _ = fitted(BEARConfig(mmd_threshold=2.0), mostly_bad(), 500)
    assert far.history[-1]["mmd2"] > 0.2  # what would be done without the constraint
    assert far.history[-1]["alpha"] < near.history[-1]["alpha"]


def far_states(bound):
    """Share of rows where BEAR's policy is beyond its bound, after learning."""
    config = BEARConfig(mmd_threshold=0.1, bound=bound)
    learner = configured(config, **SMALL).create()
    turns = learner.build(mostly_bad())
    learner.fit(turns, 600)
    bear, batch = learner.algorithm, turns[torch.arange(400)]
    masks = batch.get("masks")
    chosen, behavior = (
        bear.probabilities(part(batch["observations"]), masks) for part in (bear.actor, bear.clone)
    )
    return float((mmd2(chosen, behavior, "gaussian", 1.0) > 0.1).float().mean())


def test_bear_may_be_held_in_each_state():
    """On average near, the policy buys wild acts in some states with likeness in others."""
    assert far_states("each") < 0.15 < 0.25 < far_states("mean")


# -- 15: masks -------------------------------------------------------------------------------------


def poisoned(algorithm, act):
    """Every network that scores acts now likes this one best by far."""
    with torch.no_grad():
        for name, part in algorithm.parts.named_parameters():
            if "biases" in name and part.shape[-1] == ACTS:
                part[..., act] = 1e3


@pytest.mark.parametrize("algorithm", EVERY)
def test_an_illegal_act_is_neither_bootstrapped_nor_learnt_from_nor_chosen(algorithm):
    forbidden = BLUNDERS  # never done here, so that it may be forbidden everywhere
    legal = np.array([act != forbidden for act in range(ACTS)], np.int8)
    data = [
        dataclasses.replace(episode, masks=np.tile(legal, (len(episode) + 1, 1)))
        for episode in mostly_bad()[:200]
    ]
    rows, chosen, masks = [], [], np.tile(legal, (STATES, 1))
    for poison in (False, True):
        learner = configured(EVERY[algorithm], **SMALL).create()
        turns = learner.build(data)
        learner.fit(turns, 20)
        if poison:
            poisoned(learner.algorithm, forbidden)
        errors = learner.update(turns[torch.arange(200)])
        metrics = {name: float(value) for name, value in learner._sums.items()}
        rows.append((errors, metrics))
        chosen.append(learner.algorithm.policy().action_probs(embedding(SIZE), masks))
    assert not any(table[:, forbidden].any() for table in chosen)
    (errors, metrics), (poisoned_errors, poisoned_metrics) = rows
    assert poisoned_metrics.keys() == metrics.keys()
    for name in metrics:
        assert poisoned_metrics[name] == pytest.approx(metrics[name], rel=1e-4, abs=1e-6), name
    if errors is not None:
        assert torch.allclose(errors, poisoned_errors, atol=1e-5)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**31), st.floats(0, 1), st.floats(0, 2), st.sampled_from([0.0, 0.7]))
def test_no_policy_ever_gives_an_illegal_act_a_chance(seed, threshold, prior, temperature):
    chance = np.random.default_rng(seed)

    def network():
        return [(chance.normal(size=(3, 5)).astype("f4"), chance.normal(size=5).astype("f4"))]

    policy = DiscretePolicy(
        [network(), network()], temperature=temperature, pessimism=None, support=network(),
        threshold=threshold, prior=prior,
    )  # fmt: skip
    masks = chance.random((20, 5)) < 0.5
    masks[np.arange(20), chance.integers(5, size=20)] = True
    found = policy.action_probs(chance.normal(size=(20, 3)), masks)
    assert not found[~masks].any()
    assert np.allclose(found.sum(1), 1.0)


def test_after_an_end_where_nothing_is_legal_values_stay_finite():
    nothing = np.array([[1, 1], [0, 0]], np.int8)
    data = [conversation([[1.0, 0.0], [0.0, 0.0]], [a], [1.0], nothing) for a in (0, 1)]
    for config in EVERY.values():
        learner = configured(config, hidden=(8,), batch_size=8).create()
        learner.fit(data, 20)
        assert all(torch.isfinite(part).all() for part in learner.algorithm.parts.parameters())
