"""The one loop that fits offline learners: the same seed, the same weights, whatever happens."""

import dataclasses
import json
import multiprocessing
import os
import signal
import time

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed")
import torch

from convgym.data.transitions import returns_to_go
from convgym.errors import InvalidConfiguration
from trainers.callbacks import EarlyStopping
from trainers.offline.config import Shapes, checked
from trainers.offline.registry import ACTS as ALGORITHMS
from trainers.offline.registry import config_from_dict, config_of
from trainers.offline.tuned import tuned
from trainers.toy_dialogue import ACTS as SIXTEEN
from trainers.toy_dialogue import MAJORITY_BAD, ToyDialogue, majority_bad, record, uniform

# Those that read data in another way have tests of their own.
ACTS = sorted(set(ALGORITHMS) - {"candidate_cql", "decision_transformer"})
TINY = {"hidden": (16,), "batch_size": 16, "discount": 0.9}
SHAPES = Shapes(8, SIXTEEN, True)
VARIANTS = {
    **{name: {} for name in ACTS},
    "bc": {"best": 0.5},
    "cql": {"critics": 2, "lagrange_threshold": 1.0, "bc_weight": 0.1, "weighting": "return"},
    "iql": {"extraction": "weighted", "actor_learning_rate": 3e-4},
}


@pytest.fixture(scope="module")
def data():
    return record(majority_bad(), 60, shares=MAJORITY_BAD, env=ToyDialogue(8))


def learner_of(name, **options):
    return config_of(name, discrete=True)(**{**TINY, **VARIANTS[name], **options}).create()


def weights(learner):
    return {k: v.numpy() for k, v in learner.algorithm.parts.state_dict().items()}


def same(one, other):
    return one.keys() == other.keys() and all(np.array_equal(one[k], other[k]) for k in one)


@pytest.mark.parametrize("name", ACTS)
def test_the_same_seed_gives_the_same_weights_and_another_others(data, name):
    first, again, other = learner_of(name), learner_of(name), learner_of(name, seed=1)
    for learner in (first, again, other):
        learner.fit(data, 12)
    assert same(weights(first), weights(again)) and first.history == again.history
    assert not same(weights(first), weights(other))


def test_fitting_leaves_the_global_generators_alone(data):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    learner_of("iql").fit(data, 3)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("name", ACTS)
def test_who_stops_and_goes_on_ends_with_the_same_weights(data, name, tmp_path):
    whole = learner_of(name)
    whole.fit(data, 30, report_every=7)
    file = tmp_path / "checkpoint"
    learner_of(name).fit(data, 11, report_every=7, checkpoint=file)
    resumed = learner_of(name)
    resumed.fit(data, 30, report_every=7, checkpoint=file)
    assert same(weights(whole), weights(resumed))
    # The stop itself made a row; those after it are alike, sums since then included.
    assert [row["step"] for row in resumed.history] == [7, 11, 14, 21, 28, 30]
    assert resumed.history[-3:] == whole.history[-3:]
    rows = np.zeros((1, 8), np.float32)
    one, other = whole.algorithm.policy(), resumed.algorithm.policy()
    assert np.array_equal(one.scores(rows), other.scores(rows))


def _fit_for_good(name, data, file, steps):
    torch.set_num_threads(1)  # a forked process has no threads but its own
    learner_of(name).fit(data, steps, checkpoint=file, checkpoint_every=20)


def killed(name, data, file, steps, kills, chance):
    """Fit in processes that are killed at random moments; how many were."""
    context, done = multiprocessing.get_context("fork"), 0
    for _ in range(kills):
        child = context.Process(target=_fit_for_good, args=(name, data, file, steps))
        before = file.stat().st_mtime_ns if file.exists() else 0
        child.start()
        while child.is_alive() and (not file.exists() or file.stat().st_mtime_ns == before):
            time.sleep(0.001)
        child.join(timeout=float(chance.uniform(0.0, 0.1)))
        if child.is_alive():
            os.kill(child.pid, signal.SIGKILL)
        child.join()
        done += child.exitcode == -signal.SIGKILL
    return done


def check_kills(name, data, file, steps, kills):
    whole = learner_of(name)
    whole.fit(data, steps)
    assert killed(name, data, file, steps, kills, np.random.default_rng(kills)) == kills
    resumed = learner_of(name)
    resumed.fit(data, steps, checkpoint=file)
    assert resumed.step == steps and same(weights(whole), weights(resumed))


forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked here")


@forks
@pytest.mark.parametrize("name", ["cql", "bear"])
def test_who_is_killed_at_random_moments_ends_with_the_same_weights(data, name, tmp_path):
    check_kills(name, data, tmp_path / "checkpoint", 600, 2)


@forks
@pytest.mark.slow  # 20 to 60 s each
@pytest.mark.parametrize("name", ACTS)
def test_who_is_killed_twenty_times_ends_with_the_same_weights(data, name, tmp_path):
    check_kills(name, data, tmp_path / "checkpoint", 6000, 20)


def test_a_checkpoint_of_another_config_is_refused(data, tmp_path):
    learner_of("cql").fit(data, 2, checkpoint=tmp_path / "file")
    with pytest.raises(InvalidConfiguration, match="another cql_alpha, seed"):
        learner_of("cql", cql_alpha=0.1, seed=3).fit(data, 4, checkpoint=tmp_path / "file")
    with pytest.raises(InvalidConfiguration, match="config"):
        learner_of("bcq").fit(data, 4, checkpoint=tmp_path / "file")


def test_every_callback_hears_every_row(data):
    rows, others = [], []

    def stops(row):
        rows.append(dict(row))
        return row["step"] >= 6

    learner = learner_of("mc")
    learner.fit(data, 20, report_every=2, callbacks=[stops, others.append])
    assert [row["step"] for row in rows] == [2, 4, 6] and others == rows == learner.history
    assert learner.step == 6
    assert rows[0].keys() == {"step", "value_loss", "imitation_loss"}


def test_a_row_is_the_mean_of_its_steps(data):
    each, both = learner_of("bc"), learner_of("bc")
    each.fit(data, 4, report_every=1)
    both.fit(data, 4, report_every=2)
    losses = [row["loss"] for row in each.history]
    assert [row["loss"] for row in both.history] == pytest.approx(
        [np.mean(losses[:2]), np.mean(losses[2:])]
    )


def test_early_stopping_stops_when_an_evaluation_no_longer_rises(data):
    scores = iter([0.1, 0.5, 0.4, 0.5, 0.3, 0.9])
    learner = learner_of("bc")
    learner.fit(
        data, 100, {"success": lambda policy: next(scores)}, evaluate_every=3, report_every=2,
        callbacks=[EarlyStopping("success", patience=2)],
    )  # fmt: skip
    assert learner.step == 12
    found = [row["success"] for row in learner.history if "success" in row]
    assert found == [0.1, 0.5, 0.4, 0.5]


def test_returns_are_those_of_the_configs_discount(data):
    turns = learner_of("mc").read([dataclasses.replace(e, returns=e.returns * 0) for e in data])
    expected = np.concatenate([returns_to_go(e.rewards, 0.9) for e in data])
    found = turns[torch.arange(len(turns))]["returns_to_go"].numpy()
    assert np.allclose(found, expected)


def test_rewards_and_returns_are_scaled(data):
    rewards, returns = [], []

    def keep(batch, generator, step):
        rewards.append(batch["rewards"].sum())
        returns.append(batch["returns_to_go"].sum())
        return {}, None

    for scale in (1.0, 3.0):
        learner = learner_of("mc", reward_scale=scale)
        turns = learner.build(data)
        learner.algorithm.update = keep
        learner.update(turns[torch.arange(10)])
    assert rewards[1].item() == pytest.approx(3 * rewards[0].item(), rel=1e-5)
    assert returns[1].item() == pytest.approx(3 * returns[0].item(), rel=1e-5)


def test_moments_of_silent_units_do_not_stick_where_arithmetic_is_slow(data):
    learner = learner_of("dqn")
    batch = learner.build(data)[torch.arange(16)]
    learner.update(dict(batch))
    (optimizer,) = learner.algorithm.optimizers.values()
    moments = optimizer.state[learner.algorithm.critic.weights[0]]["exp_avg"]
    moments.fill_(1e-39)
    batch["observations"].zero_()  # no gradient reaches the first weights
    assert moments.count_nonzero() == moments.numel()
    learner.update(dict(batch))
    assert moments.count_nonzero() == 0
    assert torch.full((), 1e-39) * 1.0 != 0.0, "what else is computed here is as it was"


@pytest.mark.parametrize("name", ACTS)
def test_bfloat16_learns_about_the_same(data, name):
    full, half = learner_of(name), learner_of(name, precision="bfloat16")
    full.fit(data, 60)
    half.fit(data, 60)
    assert half.read(data)[torch.tensor([0])]["observations"].dtype == torch.bfloat16
    assert all(part.dtype == torch.float32 for part in half.algorithm.parts.state_dict().values())
    rows = np.eye(8, dtype=np.float32)
    one, other = full.algorithm.policy().scores(rows), half.algorithm.policy().scores(rows)
    assert not np.array_equal(one, other) and np.abs(one - other).max() < 0.1


@pytest.mark.parametrize("name", ACTS)
def test_a_config_comes_back_from_json(name):
    config = config_of(name, discrete=True)(**{**TINY, **VARIANTS[name]})
    assert config_from_dict(json.loads(json.dumps(config.to_dict()))) == config


@pytest.mark.parametrize("name", ACTS)
def test_unknown_options_are_refused(name):
    kind = config_of(name, discrete=True)
    with pytest.raises(InvalidConfiguration, match="has no colour, size; it takes"):
        checked(kind, {"size": 3, "colour": 1})


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"batch_size": 0}, "batch_size=0"),
        ({"discount": 1.1}, "discount=1.1"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"hidden": (16, 0)}, "hidden"),
        ({"precision": "float16"}, "bfloat16"),
    ],
)
def test_bad_shared_options_are_refused(options, reason):
    with pytest.raises(InvalidConfiguration, match=reason):
        config_of("bc", discrete=True)(**options)


def test_unknown_algorithms_and_configs_are_refused():
    with pytest.raises(InvalidConfiguration, match="over acts is called 'ppo'; there are bc, bcq"):
        config_of("ppo", discrete=True)
    with pytest.raises(InvalidConfiguration, match="PPOConfig"):
        config_from_dict({"config": "PPOConfig"})


def test_vectors_and_missing_shapes_are_refused(data):
    vectors = [dataclasses.replace(e, actions=np.zeros((len(e), 2), np.float32)) for e in data]
    with pytest.raises(InvalidConfiguration, match="these actions are vectors"):
        learner_of("bc").fit(vectors, 1)
    bare = [dataclasses.replace(e, masks=None) for e in data]
    with pytest.raises(InvalidConfiguration, match="give shapes="):
        learner_of("bc").fit(bare, 1)
    learner_of("bc").fit(bare, 1, shapes=SHAPES)
    with pytest.raises(InvalidConfiguration, match="no episodes"):
        learner_of("bc").fit([], 1)
    with pytest.raises(InvalidConfiguration, match="nothing was fitted"):
        _ = learner_of("bc").algorithm


@pytest.mark.parametrize("n_step", [1, 3])
def test_targets_span_n_turns_of_one_conversation(n_step):
    episodes = record(uniform(), 20, env=ToyDialogue(8))
    turns = learner_of("cql", n_step=n_step).read(episodes)
    batch = {name: column.numpy() for name, column in turns[torch.arange(len(turns))].items()}
    place = 0
    for episode in episodes:
        for t in range(len(episode)):
            end = min(t + n_step, len(episode))
            earned = sum(0.9 ** (k - t) * episode.rewards[k] for k in range(t, end))
            over = end == len(episode) and episode.terminated
            assert batch["rewards"][place] == pytest.approx(earned, abs=1e-5)
            assert batch["discounts"][place] == pytest.approx(0.0 if over else 0.9 ** (end - t))
            assert np.array_equal(batch["next_observations"][place], episode.observations[end])
            place += 1


@pytest.mark.parametrize("name", ACTS)
def test_tuned_options_are_options(name):
    config = tuned(name, seed=3)
    assert type(config) is config_of(name, discrete=True)
    assert (config.discount, config.seed) == (0.98, 3)
    with pytest.raises(InvalidConfiguration, match="colour"):
        tuned(name, colour=1)
