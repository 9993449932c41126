"""The update of a policy: what may not change its gradient, and the gradient beside differences."""

from dataclasses import replace

import pytest
import torch
from toy_collector import ToyCollector, toy_model

from trainers.llm.advantages import group_advantages
from trainers.llm.losses import Totals
from trainers.llm.objective_loss import objective_loss
from trainers.llm.objectives import PRESETS, KLPenalty, SamplerCorrection
from trainers.llm.policy_batches import micro_batches, policy_batch
from trainers.llm.policy_config import Critic, PolicyOptimizerConfig
from trainers.llm.policy_update import PolicyUpdate, minibatches
from trainers.llm.rollouts import RolloutBatch
from trainers.llm.value_head import ValueHead, before_tokens

OBJECTIVES = {
    "row mean": PRESETS["grpo"],
    "token mean": PRESETS["dapo"],
    "constant": PRESETS["dr_grpo"],
    "sequence": replace(PRESETS["gspo"], clip=PRESETS["grpo"].clip),
    "sequence token": replace(PRESETS["gspo_token"], clip=PRESETS["grpo"].clip),
    "group expectation": PRESETS["gepo"],
    "cap": PRESETS["cispo"],
    "kl": replace(PRESETS["grpo"], kl=KLPenalty(coefficient=0.5, corrected=True)),
    "kl per token": replace(PRESETS["dapo"], kl=KLPenalty(coefficient=0.5, estimator="k2")),
    "entropy": replace(PRESETS["grpo"], entropy_coefficient=0.1),
    "correction": replace(PRESETS["grpo"], correction=SamplerCorrection(cap=1.5)),
    "whitened": PRESETS["reinforce++"],
    "value": PRESETS["ppo"],
    "positive": PRESETS["vapo"],
}


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def shake(model, size=0.05):
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for p in model.trainable().values():
            p.add_(size * torch.randn(p.shape, generator=generator).to(p.dtype))


def prepared(goal, double=True, critic=None, kind="qwen2", **changes):
    """A model that has moved since it sampled, and what it learns from; plain steps of rate 1."""
    model = toy_model(double=double, kind=kind)
    rollouts = ToyCollector(model, "asks").collect(range(6), 4, 3)
    config = PolicyOptimizerConfig(
        objective=goal, max_grad_norm=None, critic=critic or Critic(shared=True), **changes
    )
    head = None
    if goal.value is not None:
        head = ValueHead(model.width, config.critic, torch.float64 if double else None)
        torch.nn.init.normal_(head.last.weight, generator=torch.Generator().manual_seed(1))
    model.freeze_reference()
    shake(model)
    batch = policy_batch(RolloutBatch(rollouts), model, head, config, "sampler")
    shake(model)  # so that values have moved too
    update = PolicyUpdate(model, head, config)
    update.optimizer = torch.optim.SGD(update.optimizer.param_groups, lr=1.0)
    update.optimizer.param_groups[-1]["lr"] = 1.0
    update.config = config.changed(learning_rate=1.0)
    return update, batch


def weights(update):
    found = list(update.model.trainable().values())
    found += [] if update.head is None else list(update.head.parameters())
    return torch.cat([p.detach().flatten() for p in found]).clone()


@pytest.mark.parametrize("name", list(OBJECTIVES))
@pytest.mark.parametrize("double", [True, False], ids=["float64", "float32"])
def test_micro_batches_leave_the_gradient_unchanged(name, double):
    found = []
    for tokens in (100_000, 30, 1):
        update, batch = prepared(OBJECTIVES[name], double, tokens_per_micro_batch=tokens)
        begun = weights(update)
        row = update.run(batch, 0)
        found.append((weights(update) - begun, row))
    assert found[0][0].abs().max() > 1e-4
    for moved, row in found[1:]:
        close = {"atol": 1e-12, "rtol": 1e-9} if double else {"atol": 1e-6, "rtol": 1e-4}
        torch.testing.assert_close(moved, found[0][0], **close)
        assert row == pytest.approx(found[0][1], rel=1e-3, abs=1e-5)


def test_micro_batches_leave_the_steps_of_adam_unchanged():
    found = []
    for tokens in (100_000, 30):
        update, batch = prepared(
            PRESETS["ppo"], tokens_per_micro_batch=tokens, epochs=2, minibatches=3
        )
        again = PolicyUpdate(update.model, update.head, update.config.changed(learning_rate=1e-3))
        again.run(batch, 0)
        found.append(weights(update))
    torch.testing.assert_close(found[0], found[1], atol=1e-6, rtol=0)


# What is held fixed on purpose, the weight of a cap and the row's ratio of single tokens, is no
# derivative; golden values hold those two.
@pytest.mark.parametrize("name", [n for n in OBJECTIVES if n not in ("cap", "sequence token")])
def test_gradients_are_those_of_finite_differences(name):
    goal = OBJECTIVES[name]
    update, batch = prepared(goal, kind="gpt2")  # others have norms in single precision
    model, head = update.model, update.head
    learnt = list(model.trainable().values()) + ([] if head is None else list(head.parameters()))

    @torch.no_grad()
    def loss():
        scored = model.score(batch.rows, entropies=True, hidden=True)
        values = None if head is None else before_tokens(head(scored.hidden))
        return float(objective_loss(goal, batch.inputs(goal, scored, values))[0])

    def go(direction, size):
        with torch.no_grad():
            for p, part in zip(learnt, direction, strict=True):
                p.add_(size * part)

    generator = torch.Generator().manual_seed(2)
    slopes, step = [], 1e-6
    directions = [
        [torch.randn(p.shape, generator=generator).double() for p in learnt] for _ in range(3)
    ]
    for direction in directions:
        go(direction, step)
        ahead = loss()
        go(direction, -2 * step)
        slopes.append((ahead - loss()) / (2 * step))
        go(direction, step)
    begun = [p.detach().clone() for p in learnt]
    update.run(batch, 0)
    gradient = [old - p.detach() for old, p in zip(begun, learnt, strict=True)]
    for direction, slope in zip(directions, slopes, strict=True):
        own = sum(float((g * d).sum()) for g, d in zip(gradient, direction, strict=True))
        assert own == pytest.approx(slope, rel=1e-4, abs=1e-7)


def test_rows_without_advantage_are_left_out_and_change_nothing(monkeypatch):
    found, seen = [], []
    for skips in (True, False):
        update, batch = prepared(PRESETS["dapo"], skip_zero_advantages=skips, share_prompts=False)
        quiet = batch.rows.rollouts < 8  # two groups of one reward
        batch = replace(
            batch,
            advantages=batch.advantages.masked_fill(quiet[:, None], 0.0),
            teaches=batch.teaches & ~quiet,
        )
        rows = []

        def counted(given, *options, score=update.model.score, rows=rows, **more):
            rows.append(len(given.tokens))
            return score(given, *options, **more)

        monkeypatch.setattr(update.model, "score", counted)
        begun = weights(update)
        update.run(batch, 0)
        found.append(weights(update) - begun)
        seen.append((sum(rows), int(batch.teaches.sum()), len(batch.teaches)))
    torch.testing.assert_close(found[0], found[1], atol=1e-13, rtol=0)
    assert found[0].any()
    assert seen[0][0] == seen[0][1] < seen[1][0] == seen[1][2]


@pytest.mark.parametrize("skips", [True, False])
def test_a_minibatch_that_teaches_nothing_is_no_step(skips):
    update, batch = prepared(PRESETS["grpo"], skip_zero_advantages=skips)
    begun = weights(update)
    nothing = replace(
        batch, advantages=batch.advantages * 0, teaches=torch.zeros_like(batch.teaches)
    )
    assert update.run(nothing, 0) == {} and update.steps == 0
    assert torch.equal(weights(update), begun)


def test_kl_reaches_rows_without_advantage():
    assert prepared(OBJECTIVES["kl"])[1].teaches.all()
    assert not prepared(PRESETS["grpo"])[1].teaches.all()


def test_a_gradient_that_is_no_number_moves_nothing():
    update, batch = prepared(PRESETS["grpo"])
    begun = weights(update)
    row = update.run(replace(batch, advantages=batch.advantages * float("inf")), 0)
    assert row["lost_steps"] == 1.0 and torch.equal(weights(update), begun)


# -- what is made before ---------------------------------------------------------------------------


def test_advantages_of_tokens_are_those_of_their_conversation():
    _, batch = prepared(PRESETS["grpo"])
    model = toy_model(double=True)
    rollouts = ToyCollector(model, "asks").collect(range(6), 4, 3)
    returns = torch.tensor([r.return_ for r in rollouts])
    expected = group_advantages(returns, torch.tensor([r.group for r in rollouts]))
    for row, rollout in enumerate(rollouts):
        turns = torch.as_tensor(rollout.segments[0].turns)
        own = batch.advantages[row, : len(turns)]
        torch.testing.assert_close(own, torch.where(turns >= 0, expected[row].float(), 0.0))


def test_old_and_reference_log_probabilities_are_those_of_their_models():
    model = toy_model()
    rollouts = ToyCollector(model).collect(range(4), 4, 0)
    config = PolicyOptimizerConfig(objective=OBJECTIVES["kl"], tokens_per_micro_batch=20)
    model.freeze_reference()
    batch = RolloutBatch(rollouts)
    with torch.no_grad():
        reference = model.score(batch.rows).log_probs
        shake(model)
        current = model.score(batch.rows).log_probs
    made = policy_batch(batch, model, None, config, "scored")
    torch.testing.assert_close(made.old_log_probs, current)
    torch.testing.assert_close(made.reference_log_probs, reference)
    assert policy_batch(batch, model, None, config, "current").old_log_probs is None
    sampler = policy_batch(batch, model, None, config, "sampler").old_log_probs
    torch.testing.assert_close(sampler, reference, atol=1e-5, rtol=0)


def test_micro_batches_hold_each_row_once_and_keep_the_limit():
    lengths = torch.tensor([5, 9, 2, 7, 7, 3, 30])
    index = torch.tensor([0, 1, 2, 4, 5, 6])
    parts = micro_batches(lengths, index, 16)
    assert sorted(torch.cat(parts).tolist()) == index.tolist()
    for part in parts:
        assert len(part) == 1 or len(part) * int(lengths[part].max()) <= 16
    assert [part.tolist() for part in parts] == [[6], [1], [4, 0], [5, 2]]


def test_minibatches_are_a_partition_in_each_epoch():
    config = PolicyOptimizerConfig(epochs=2, minibatches=3, seed=4)
    parts = list(minibatches(10, config, 7))
    assert [len(part) for part in parts] == [4, 3, 3, 4, 3, 3]
    for epoch in (parts[:3], parts[3:]):
        assert sorted(torch.cat(epoch).tolist()) == list(range(10))
    again = list(minibatches(10, config, 7))
    assert all(torch.equal(a, b) for a, b in zip(parts, again, strict=True))
    other = torch.cat(list(minibatches(10, config, 8)))
    assert not torch.equal(torch.cat(parts), other)


def test_shares_of_minibatches_divide_by_their_own_totals():
    """A minibatch is an optimiser step of its own: its means are over its own rows."""
    update, batch = prepared(PRESETS["dapo"], minibatches=2)
    first, _ = minibatches(len(batch.teaches), update.config, 0)
    part = batch.at(first)
    goal = update.config.goal
    with torch.no_grad():
        inputs = part.inputs(goal, update.model.score(part.rows), None)
    expected, _ = objective_loss(goal, inputs, Totals.of(part.rows.mask, part.positive))
    gradient, found = update._gradient, []
    update._gradient = lambda *given: found.append(gradient(*given)) or found[-1]
    update.run(batch, 0)
    assert len(found) == 2
    assert found[0]["loss"] == pytest.approx(float(expected), abs=1e-9)
