"""The one loop: every objective learns, rows say what happened, failures cost what they must."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from toy_collector import ToyCollector, toy_model

from convgym.errors import InvalidConfiguration
from trainers.callbacks import CSVLog, EarlyStopping
from trainers.llm.language_model import LoRA
from trainers.llm.objectives import PRESETS, KLPenalty, Objective
from trainers.llm.policy_config import Critic, PolicyOptimizerConfig
from trainers.llm.policy_optimizer import PolicyOptimizer


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def optimizer(task="holds", callbacks=(), collector=None, model=None, seed=0, **changes):
    model = model or toy_model(seed)
    config = PolicyOptimizerConfig(**{"learning_rate": 2e-3, "seed": seed} | changes)
    if collector is None:
        collector = ToyCollector(model, task)
    collector.model = model
    return PolicyOptimizer(model, collector, config, callbacks)


def weights(run):
    return torch.cat([p.detach().flatten() for p in run.model.trainable().values()])


def success(rows):
    return np.mean([row["success"] for row in rows])


# -- learning --------------------------------------------------------------------------------------

OWN = {
    "a2c": {},  # one step on fresh conversations
    "gepo": {"minibatches": 2, "iterations": 100},
    "vapo": {"minibatches": 2, "iterations": 100, "critic": Critic(pretraining=5)},
}
FAST = ("grpo", "gspo", "ppo")


@pytest.mark.parametrize(
    "name", [n if n in FAST else pytest.param(n, marks=pytest.mark.slow) for n in PRESETS]
)
def test_every_preset_learns_a_word(name):
    changes = {"iterations": 45} | OWN.get(name, {"minibatches": 2})
    rows = optimizer(objective=name, **changes).train()
    assert success(rows[:3]) < 0.4 and success(rows[-3:]) > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("name", list(PRESETS))
def test_every_preset_learns_what_the_second_turn_must_answer(name):
    changes = {"iterations": 60} | OWN.get(name, {"minibatches": 2})
    rows = optimizer("asks", objective=name, seed=1, **changes).train()
    assert success(rows[:3]) < 0.45 and success(rows[-3:]) > 0.9


def test_a_second_turn_is_learnt_from_what_came_between():
    rows = optimizer("asks", objective="grpo", iterations=40, minibatches=2, seed=1).train()
    assert success(rows[:3]) < 0.45 and success(rows[-3:]) > 0.9


def test_adapters_learn_near_their_reference():
    goal = Objective(kl=KLPenalty(coefficient=0.01))
    model = toy_model(lora=LoRA(rank=4), initializer_range=0.3)  # a head that can say anything
    before = {n: p.clone() for n, p in model.module.named_parameters() if "lora" not in n}
    rows = optimizer(objective=goal, iterations=40, model=model, learning_rate=1e-2).train()
    assert success(rows[-3:]) > 0.9
    assert rows[0]["kl"] == pytest.approx(0, abs=1e-6) and rows[-1]["kl"] > 0.01
    after = dict(model.module.named_parameters())
    assert all(torch.equal(after[name], value) for name, value in before.items())


def test_a_strong_penalty_keeps_the_policy_where_it_was():
    near, far = (
        optimizer(objective=Objective(kl=KLPenalty(coefficient=c)), iterations=15).train()[-1]["kl"]
        for c in (5.0, 1e-4)
    )
    assert near < 0.2 * far


def test_the_critic_is_taught_before_the_policy_moves():
    run = optimizer(objective="vapo", iterations=0, critic=Critic(pretraining=6))
    before = weights(run)
    rows = run.train()
    assert [row["pretraining"] for row in rows] == [1.0] * 6
    assert torch.equal(weights(run), before) and run._update.steps == 0
    assert rows[-1]["explained_variance"] > max(0.02, rows[0]["explained_variance"])
    again = optimizer(objective="ppo", iterations=6, minibatches=2).train()
    assert all("pretraining" not in row and "value_loss" in row for row in again)


def test_the_same_seed_gives_the_same_weights_and_another_seed_others():
    def end(seed):
        run = optimizer(objective="ppo", iterations=2, minibatches=2, model=toy_model(0), seed=seed)
        run.train()
        return weights(run)

    assert torch.equal(end(3), end(3)) and not torch.equal(end(3), end(4))


# -- rows ------------------------------------------------------------------------------------------


def test_a_row_says_what_happened(tmp_path):
    collector = ToyCollector(None, "asks")
    play, played = collector.collect, []
    collector.collect = lambda *a, **k: played.append(play(*a, **k)) or played[-1]
    seen = []
    goal = Objective(kl=KLPenalty())
    run = optimizer(
        collector=collector, objective=goal, iterations=3, epochs=2, minibatches=2,
        callbacks=[seen.append, CSVLog(tmp_path / "rows.csv")], seeds_per_iteration=3, warmup=8,
    )  # fmt: skip
    rows = run.train()
    assert seen == rows and [row["step"] for row in rows] == [1, 2, 3]
    for row, rollouts in zip(rows, played, strict=True):
        returns = np.array([r.return_ for r in rollouts])
        groups = returns.reshape(3, 8)
        assert row["reward_mean"] == pytest.approx(returns.mean())
        assert row["reward_std"] == pytest.approx(returns.std())
        assert row["success"] == pytest.approx(returns.mean())
        assert row["flat_groups"] == pytest.approx(np.mean(groups.max(1) == groups.min(1)))
        assert row["length_mean"] == pytest.approx(np.mean([r.sampled for r in rollouts]))
        assert row["sampled_tokens"] == sum(r.sampled for r in rollouts)
        assert row["turns_mean"] == 2 and row["truncated"] == 0 and row["failed"] == 0
        assert 0 <= row["clip_share"] <= 1 and 0 < row["entropy"] < np.log(12)
        assert row["ratio_min"] < 1 < row["ratio_max"] and row["policy_kl"] > 0
        assert row["sampler_gap"] <= row["sampler_gap_max"] < 1e-5 and row["sampler_alert"] == 0
        for name in ("generation_tokens_per_second", "update_tokens_per_second", "grad_norm"):
            assert row[name] > 0
        assert row["kl"] >= 0 and np.isfinite(list(row.values())).all()
    assert [row["optimizer_steps"] for row in rows] == [4, 8, 12]
    rates = [row["learning_rate"] for row in rows]  # means of steps 1–4, 5–8 of 8, then constant
    assert rates == pytest.approx([2e-3 * 2.5 / 8, 2e-3 * 6.5 / 8, 2e-3])
    lines = (tmp_path / "rows.csv").read_text().splitlines()
    assert len(lines) == 4 and "sampler_gap_max" in lines[0]


def test_the_entropy_of_a_row_is_that_of_a_plain_forward():
    run = optimizer(iterations=1, skip_zero_advantages=False)
    model, rows = toy_model(), None
    collector = run._collection.collector
    play = collector.collect
    kept = []
    collector.collect = lambda *a, **k: kept.append(play(*a, **k)) or kept[-1]
    rows = run.train()
    found = []
    for rollout in kept[0]:
        segment = rollout.segments[0]
        logits = model.causal(input_ids=torch.as_tensor(segment.tokens)[None]).logits[0].detach()
        table = logits.log_softmax(-1)
        spread = -(table.exp() * table).sum(-1)
        found += [float(spread[t - 1]) for t in np.flatnonzero(segment.turns >= 0)]
    assert rows[0]["entropy"] == pytest.approx(np.mean(found), rel=1e-4)


def test_a_sampler_that_is_off_is_measured_and_raises_the_alarm():
    class Off(ToyCollector):
        exact = False

        def collect(self, *given, **more):
            found = super().collect(*given, **more)
            for rollout in found:
                rollout.segments[0].log_probs[rollout.segments[0].turns >= 0] -= 0.05
            return found

    run = optimizer(collector=Off(None), iterations=1, minibatches=2)
    with pytest.warns(RuntimeWarning, match=r"0\.05 away from the learner's"):
        row = run.train()[0]
    assert row["sampler_gap"] == pytest.approx(0.05, rel=1e-3) and row["sampler_alert"] == 1
    assert row["sampler_gap_max"] == pytest.approx(0.05, rel=1e-2)
    quiet = optimizer(collector=Off(None), iterations=1, minibatches=2, sampler_gap_limit=0.06)
    assert quiet.train()[0]["sampler_alert"] == 0


@pytest.mark.parametrize(
    ("changes", "passes"),
    [
        ({"minibatches": 2}, 2),  # the sampler's numbers are the learner's
        ({"minibatches": 2, "recompute_old": "always"}, 3),
        ({"minibatches": 2, "exact": False}, 3),
        ({"exact": False}, 1),  # one step: the first pass is of the policy that sampled
        ({"exact": False, "recompute_old": "never", "minibatches": 2}, 2),
        ({"exact": False, "objective": "gepo"}, 2),
        ({"objective": "ppo", "minibatches": 2}, 3),  # values need a pass, and bring the others
    ],
    ids=str,
)
def test_nothing_is_scored_that_is_known(changes, passes):
    changes = dict(changes)
    collector = ToyCollector(None)
    collector.exact = changes.pop("exact", True)
    run = optimizer(collector=collector, iterations=1, skip_zero_advantages=False, **changes)
    score, calls = run.model.score, []
    run.model.score = lambda *a, **k: calls.append(1) or score(*a, **k)
    run.train()
    assert len(calls) == passes


@pytest.mark.parametrize("exact", [True, False])
def test_conversations_of_an_older_policy_keep_their_own_numbers(exact):
    """Half of the rollouts are replayed: their log-probabilities are those of who spoke."""

    class Late(ToyCollector):
        def collect(self, seeds, group_size, rng_seed, version=0):
            found = super().collect(seeds, group_size, rng_seed, version)
            for rollout in found[::2]:
                segment = rollout.segments[0]
                segment.log_probs[segment.turns >= 0] -= 0.25
            return [replace(r, version=-1) if n % 2 == 0 else r for n, r in enumerate(found)]

    collector = Late(None)
    collector.exact = exact
    run = optimizer(collector=collector, iterations=1, minibatches=1)
    row = run.train()[0]
    assert row["ratio_max"] == pytest.approx(np.exp(0.25), rel=1e-4)
    assert row["ratio_min"] == pytest.approx(1.0, rel=1e-4)
    assert row["sampler_gap_max"] < 1e-5 and row["sampler_alert"] == 0


def test_numbers_that_a_sampler_does_not_know_are_made():
    class Silent(ToyCollector):
        exact = False

        def collect(self, *given, **more):
            found = super().collect(*given, **more)
            for rollout in found:
                rollout.segments[0].log_probs[rollout.segments[0].turns >= 0] = np.nan
            return found

    kinds = (Silent, ToyCollector)
    runs = [optimizer(collector=kind(None), iterations=2, minibatches=2) for kind in kinds]
    for run in runs:
        run.train()
    assert "sampler_gap" not in runs[0].rows[0] and runs[0].rows[0]["lost_steps"] == 0
    torch.testing.assert_close(weights(runs[0]), weights(runs[1]), atol=1e-4, rtol=0)


def test_held_out_seeds_are_evaluated_and_never_trained_on():
    collector = ToyCollector(None)
    run = optimizer(
        collector=collector, iterations=4, evaluate_every=2, evaluation_episodes=16,
        seeds_per_iteration=2,
    )  # fmt: skip
    rows = run.train()
    assert ["evaluation_success" in row for row in rows] == [False, True, False, True]
    assert 0 <= rows[1]["evaluation_success"] == rows[1]["evaluation_reward"] <= 1
    trained = [seed for seed in collector.seeds if seed >= 1_000_000]
    assert [seed for seed in collector.seeds if seed < 1_000_000] == [*range(16)] * 2
    assert len(set(trained)) == len(trained) == 8


def test_a_callback_ends_the_run():
    run = optimizer(iterations=20, callbacks=[EarlyStopping("reward_max", patience=3)])
    assert len(run.train()) == 4 and "callback" in run.stopped


# -- failures --------------------------------------------------------------------------------------


def test_failed_rollouts_are_as_if_they_had_not_been():
    def broken(seed, member, rng_seed):
        return "RuntimeError: the shop is closed" if (seed + member) % 3 == 0 else ""

    class Without(ToyCollector):
        def collect(self, *given, **more):
            return [r for r in super().collect(*given, **more) if not r.error]

    runs = [
        optimizer(collector=kind(None, fails=broken), iterations=2)
        for kind in (ToyCollector, Without)
    ]
    for run in runs:
        run.train()
    assert torch.equal(weights(runs[0]), weights(runs[1]))
    assert runs[0].rows[0]["failed"] == pytest.approx(1 / 3, abs=0.1)
    assert runs[0].rows[0]["reward_mean"] == runs[1].rows[0]["reward_mean"]


def failing(iterations):
    """A collector all of whose rollouts fail in these of its collections."""
    calls = []

    def fails(seed, member, rng_seed):
        if rng_seed not in calls:
            calls.append(rng_seed)
        return f"ValueError: bad {seed % 2}" if calls.index(rng_seed) in iterations else ""

    return ToyCollector(None, fails=fails)


def test_an_iteration_in_which_all_failed_costs_itself_only():
    run = optimizer(collector=failing({1}), iterations=3)
    with pytest.warns(RuntimeWarning, match="iteration 2 is skipped: all 64 .* bad 0; .* bad 1"):
        rows = run.train()
    assert [row["skipped"] for row in rows] == [0, 1, 0]
    assert rows[1]["failed"] == 1 and "reward_mean" not in rows[1] and "loss" not in rows[1]
    assert [row["optimizer_steps"] for row in rows] == [1, 1, 2]


@pytest.mark.filterwarnings("ignore:iteration")
@pytest.mark.parametrize("iterations", [1, 2, 10])
def test_where_everything_fails_there_is_one_error(iterations):
    run = optimizer(collector=failing(range(99)), iterations=iterations)
    with pytest.raises(InvalidConfiguration, match="all 64 rollouts failed: ValueError: bad 0; "):
        run.train()


@pytest.mark.filterwarnings("ignore:iteration")
def test_failures_that_are_not_in_a_row_end_nothing():
    run = optimizer(collector=failing({0, 1, 3, 4}), iterations=6)
    assert [row["skipped"] for row in run.train()] == [1, 1, 0, 1, 1, 0]


# -- flat groups -----------------------------------------------------------------------------------


def test_solved_groups_end_the_run_without_a_word():
    run = optimizer(
        collector=ToyCollector(None, reward=lambda play: 1.0), iterations=30, flat_patience=4
    )
    before = weights(run)
    rows = run.train()
    assert len(rows) == 4 and "4 iterations in a row no group" in run.stopped
    assert torch.equal(weights(run), before) and rows[-1]["flat_groups"] == 1


def test_objectives_that_compare_no_groups_go_on():
    run = optimizer(
        collector=ToyCollector(None, reward=lambda play: 1.0), iterations=6, flat_patience=2,
        objective="ppo",
    )  # fmt: skip
    assert len(run.train()) == 6


def test_what_cannot_be_begun():
    model = toy_model()
    with pytest.raises(InvalidConfiguration, match="reward_fn comes beside a collector"):
        PolicyOptimizer(model, ToyCollector(model), reward_fn=len)
    model.module.requires_grad_(False)
    with pytest.raises(InvalidConfiguration, match="no weight of this model learns"):
        PolicyOptimizer(model, ToyCollector(model))
