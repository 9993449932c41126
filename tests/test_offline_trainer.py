"""The trainer by names: data, offline, online, scores, a folder that goes on."""

import json
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from convgym.data.episodes import write_dataset
from convgym.data.transitions import EpisodeArrays, episode_buffers, returns_to_go
from convgym.errors import DatasetError, InvalidConfiguration

pytest.importorskip("minari")
torch = pytest.importorskip("torch", reason="torch is not installed")

from trainers.offline.environments import Flat, make_env  # noqa: E402
from trainers.offline.episode_files import load_episodes, save_episodes  # noqa: E402
from trainers.offline.expert_data import ExpertDataCollector  # noqa: E402
from trainers.offline.offline_trainer import OfflineRLTrainer  # noqa: E402
from trainers.offline.registry import ACTS  # noqa: E402
from trainers.offline.stored_data import chosen, sampling_of  # noqa: E402
from trainers.offline.value_function import ValueFunction  # noqa: E402

SMALL = {"hidden": (32,), "batch_size": 32}


@pytest.fixture(autouse=True)
def own_root(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    (tmp_path / "minari").mkdir()


def careless(observation) -> int:
    """Balances the pole in three pushes of ten; the others are drawn."""
    if np.random.rand() < 0.3:
        return int(observation[2] + 0.3 * observation[3] > 0)
    return int(np.random.randint(2))


def poles(episodes: int = 60, seed: int = 0):
    return ExpertDataCollector("CartPole-v1").collect_from_policy(
        careless, episodes, "pole/careless-v0", seed=seed, overwrite=True
    )


def weights(trainer: OfflineRLTrainer) -> list[np.ndarray]:
    return [part.detach().numpy() for part in trainer.learner.algorithm.parts.parameters()]


# CartPole


@pytest.mark.slow
def test_offline_then_online_balances_a_pole():
    """CI row 17 on CartPole: careless data of about 60 steps; about 9 CPU-seconds."""
    trainer = OfflineRLTrainer(
        "CartPole-v1", "cql", cql_alpha=1.0, calibrated=True, reward_scale=0.1, hidden=(64, 64),
        learning_rate=3e-4, target_update=200,
    )  # fmt: skip
    episodes = trainer.prepare_dataset(poles(100))
    assert np.mean([episode.rewards.sum() for episode in episodes]) < 100
    trainer.train_offline(2000)
    offline = trainer.evaluate(10)
    assert offline.return_ > 200
    scores = [offline.return_]
    for turns in (1000, 2000):
        trainer.finetune_online(turns, 0.5, learning_rate=1e-4)
        scores.append(trainer.evaluate(10).return_)
    assert min(scores) >= 0.8 * scores[0] and scores[-1] >= scores[0]


def test_a_saved_trainer_goes_on_as_if_it_had_never_stopped(tmp_path):
    data = poles(20)
    options = {**SMALL, "calibrated": True, "seed": 3}
    straight = OfflineRLTrainer("CartPole-v1", "cql", **options)
    straight.prepare_dataset(data, best=0.8, prioritise="conversation")
    straight.train_offline(60)
    straight.finetune_online(400, 0.25, warm_up=100, updates_per_turn=0.3)

    stopped = OfflineRLTrainer("CartPole-v1", "cql", **options)
    stopped.prepare_dataset(data, best=0.8, prioritise="conversation")
    stopped.train_offline(40)
    for step in (60, 200, 400):
        stopped.save(tmp_path / "saved")
        before, score = stopped.policy.scores(np.ones(4, np.float32)), stopped.evaluate(2)
        stopped = OfflineRLTrainer.load(tmp_path / "saved")
        assert np.array_equal(stopped.policy.scores(np.ones(4, np.float32)), before)
        assert stopped.evaluate(2) == score
        stopped.prepare_dataset(data, best=0.8, prioritise="conversation")
        if step == 60:
            stopped.train_offline(60)
        else:
            stopped.finetune_online(step, 0.25, warm_up=100, updates_per_turn=0.3)
    assert len(straight.online) == len(stopped.online)
    assert straight.learner.step == stopped.learner.step > 100
    for one, other in zip(weights(straight), weights(stopped), strict=True):
        assert np.array_equal(one, other)


def test_a_save_that_was_cut_off_leaves_the_one_before(tmp_path, monkeypatch):
    trainer = OfflineRLTrainer("CartPole-v1", "bc", **SMALL)
    trainer.prepare_dataset(poles(5))
    trainer.train_offline(5)
    trainer.save(tmp_path / "saved")
    row = np.ones(4, np.float32)
    before = trainer.policy.scores(row)
    trainer.train_offline(10)

    def killed(*arguments, **keywords):
        raise KeyboardInterrupt

    monkeypatch.setattr("trainers.offline.learner.write_archive", killed)
    with pytest.raises(KeyboardInterrupt):
        trainer.save(tmp_path / "saved")
    assert np.array_equal(OfflineRLTrainer.load(tmp_path / "saved").policy.scores(row), before)
    monkeypatch.undo()
    trainer.save(tmp_path / "saved")
    names = sorted(path.name for path in (tmp_path / "saved").iterdir())
    assert names == ["learner-10-0.zip", "policy-10-0.zip", "trainer.json"]


@pytest.mark.parametrize("broken", ["missing", "no json", "another format", "no policy"])
def test_a_folder_that_holds_no_trainer_says_so(tmp_path, broken):
    about = {
        "format": "convgym offline trainer 1", "env_id": "CartPole-v1", "env_keywords": {},
        "algorithm": "bc", "options": {}, "policy": "nothing.zip", "learner": "x", "online": None,
    }  # fmt: skip
    if broken == "another format":
        about["format"] = "other"
    if broken != "missing":
        text = "{" if broken == "no json" else json.dumps(about)
        (tmp_path / "trainer.json").write_text(text)
    with pytest.raises(InvalidConfiguration, match="holds no whole trainer"):
        OfflineRLTrainer.load(tmp_path)


# Values


def test_the_critic_is_a_value_function_that_can_be_kept(tmp_path):
    trainer = OfflineRLTrainer("CartPole-v1", "cql", critics=2, **SMALL)
    trainer.prepare_dataset(poles(5))
    policy = trainer.train_offline(20)
    rows = np.random.default_rng(0).normal(size=(7, 4)).astype(np.float32)
    values = trainer.value_function()
    assert values(rows) == pytest.approx(policy.scores(rows).max(axis=1))
    only = np.tile(np.array([0, 1]), (7, 1))
    assert values(rows, only) == pytest.approx(policy.scores(rows)[:, 1])
    values.save(tmp_path / "critic.zip")
    assert np.array_equal(ValueFunction.load(tmp_path / "critic.zip")(rows), values(rows))
    clone = OfflineRLTrainer("CartPole-v1", "bc", **SMALL)
    clone.prepare_dataset(poles(5))
    with pytest.raises(InvalidConfiguration, match="BC has no values of states"):
        clone.value_function()


@pytest.mark.parametrize("algorithm", sorted(ACTS.keys() - {"candidate_cql"}))
def test_every_algorithm_over_acts_is_saved_and_those_with_a_critic_have_values(
    algorithm, tmp_path
):
    trainer = OfflineRLTrainer("CartPole-v1", algorithm, batch_size=8)
    data = trainer.prepare_dataset(poles(4))
    policy = trainer.train_offline(3)
    trainer.save(tmp_path)
    row, mask = data[0].observations[0], np.ones(2, np.int8)
    loaded = OfflineRLTrainer.load(tmp_path).policy
    for one in (policy, loaded):
        one.reset(0)
    found, again = (
        one.predict(row, deterministic=True, action_masks=mask) for one in (policy, loaded)
    )
    assert type(loaded) is type(policy) and found[0] == again[0]
    if algorithm in ("bc", "decision_transformer"):
        with pytest.raises(InvalidConfiguration, match="has no values of states"):
            trainer.value_function()
    else:
        assert np.isfinite(trainer.value_function()(data[0].observations)).all()
    if algorithm == "decision_transformer":
        with pytest.raises(InvalidConfiguration, match="stretches of conversations"):
            trainer.finetune_online(5)
    else:
        trainer.finetune_online(5, warm_up=0)
        assert trainer.learner.step > 3


# Conversations


def test_conversations_are_learnt_from_a_packaged_dataset():
    trainer = OfflineRLTrainer("ConvGym/CustomerService-v0", "cql", **SMALL)
    data = trainer.prepare_dataset(
        "convgym/customer-service/sample-v0", keep=lambda episode: len(episode) < 30
    )
    assert max(map(len, data)) < 30
    trainer.train_offline(30)
    found = trainer.evaluate(4, split="validation")
    assert found.success is not None and found.episodes == 4
    trainer.finetune_online(80, warm_up=10, updates_per_turn=0.2)
    for episode in trainer.online:
        assert episode.masks[np.arange(len(episode)), episode.actions].all()
        assert (episode.propensities > 0).all()
    assert any((episode.masks == 0).any() for episode in trainer.online)


# Other spaces


def test_a_numbered_world_is_learnt_from_one_hot_rows():
    keywords = {"is_slippery": False}
    dataset = ExpertDataCollector("FrozenLake-v1", **keywords).collect_from_policy(
        lambda seen: np.random.randint(4), 400, "lake/random-v0"
    )
    trainer = OfflineRLTrainer(
        "FrozenLake-v1", "cql", env_keywords=keywords, cql_alpha=0.02, target_update=50,
        discount=0.9, learning_rate=3e-3, **SMALL,
    )  # fmt: skip
    trainer.prepare_dataset(dataset)
    trainer.train_offline(1500)
    assert trainer.evaluate(2).return_ == 1.0


class Reach(gym.Env):
    """One number; moved by a vector of one entry within [-2, 2] towards 0 for ten turns."""

    observation_space = spaces.Box(-9, 9, (1,), np.float32)
    action_space = spaces.Box(-2, 2, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.turn = self.np_random.uniform(-3, 3, 1), 0
        return self.place.astype(np.float32), {}

    def step(self, action):
        self.place = (self.place + action).clip(-9, 9)
        self.turn += 1
        return self.place.astype(np.float32), -float(abs(self.place[0])), False, self.turn == 10, {}


def test_vectors_are_learnt_offline_and_online(tmp_path, monkeypatch):
    spec = gym.envs.registration.EnvSpec("Reach-v0", entry_point=Reach)
    monkeypatch.setitem(gym.registry, "Reach-v0", spec)
    rng, data = np.random.default_rng(0), []
    env = make_env("Reach-v0")
    for number in range(60):
        rows, moves, paid = [env.reset(seed=number)[0]], [], []
        for _ in range(10):
            moves.append((-0.5 * rows[-1] + rng.normal(0, 0.5, 1)).clip(-2, 2).astype(np.float32))
            row, reward, *_ = env.step(moves[-1])
            rows.append(row)
            paid.append(reward)
        gained = np.array(paid)
        data.append(
            EpisodeArrays(np.array(rows), np.array(moves), gained, False, True,
                          returns_to_go(gained, 0.9))
        )  # fmt: skip
    trainer = OfflineRLTrainer("Reach-v0", "td3_bc", discount=0.9, learning_rate=3e-3, **SMALL)
    trainer.prepare_dataset(data)
    trainer.train_offline(1000)
    behaviour = np.mean([episode.rewards.sum() for episode in data])
    assert trainer.evaluate(10).return_ > behaviour
    trainer.finetune_online(200, warm_up=50, noise=0.2)
    assert all((abs(episode.actions) <= 2).all() for episode in trainer.online)
    trainer.save(tmp_path / "saved")
    loaded = OfflineRLTrainer.load(tmp_path / "saved")
    row = np.array([1.0], np.float32)
    assert np.array_equal(
        loaded.policy.predict(row, deterministic=True)[0],
        trainer.policy.predict(row, deterministic=True)[0],
    )


# Data


def made(returns) -> list[EpisodeArrays]:
    rows = np.zeros((2, 4), np.float32)
    return [
        EpisodeArrays(rows, np.array([0]), np.array([r]), True, False, np.array([r]), policy=n % 2)
        for n, r in enumerate(returns)
    ]


def test_filters_leave_the_best_of_what_is_wanted():
    episodes = made([0.0, 1.0, 2.0, 3.0, 4.0, 5.0])

    def returns(**filters):
        return [episode.rewards[0] for episode in chosen(episodes, **filters)]

    assert returns() == [0, 1, 2, 3, 4, 5]
    assert returns(least_return=3.0) == [3, 4, 5]
    assert returns(best=0.5) == [3, 4, 5]
    assert returns(keep=lambda e: e.policy == 1, best=0.3) == [5]
    tied = [episode.rewards[0] for episode in chosen(made([2.0, 1.0, 2.0, 2.0]), best=0.5)]
    assert tied == [2, 2, 2]
    assert returns(best=0.01) == [5]
    with pytest.raises(DatasetError, match="of 6 episodes none passes"):
        returns(least_return=9.0)
    with pytest.raises(InvalidConfiguration, match=r"best=0\.0"):
        returns(best=0.0)


def test_batches_are_balanced_or_prioritised():
    episodes, generator = made([0.0] * 30 + [5.0] * 2), torch.Generator()

    def share_of_the_last_two(sampling) -> float:
        drawn = torch.cat([sampling.draw(32, generator)[0] for _ in range(20)])
        return float((drawn >= 30).float().mean())

    by_return = sampling_of(episodes, lambda episode: episode.rewards[0], None)
    assert share_of_the_last_two(by_return) == pytest.approx(0.5)
    halves = sampling_of(episodes, "policy", None)
    assert share_of_the_last_two(halves) == pytest.approx(2 / 32, abs=0.04)
    wrong = sampling_of(episodes, None, "turn")
    wrong.heard(torch.arange(32), torch.where(torch.arange(32) >= 30, 100.0, 0.0))
    assert share_of_the_last_two(wrong) > 0.9
    assert sampling_of(episodes, None, None) is None
    for balance, prioritise, what in (
        ("success", None, "do not tell the success"),
        ("length", None, "balance='length'"),
        (None, "word", "prioritise='word'"),
        ("return", "turn", "one of balance and prioritise"),
    ):
        with pytest.raises(InvalidConfiguration, match=what):
            sampling_of(episodes, balance, prioritise)


def test_data_of_another_environment_are_refused():
    trainer = OfflineRLTrainer("CartPole-v1", "cql", **SMALL)
    (episode,) = made([1.0])
    wide = np.zeros((2, 5), np.float32)
    for strange, what in (
        (replace(episode, observations=wide), r"have shape \(5,\)"),
        (replace(episode, actions=np.array([2])), "beyond the 2"),
        (replace(episode, actions=np.zeros((1, 2), np.float32)), "takes Discrete"),
    ):
        with pytest.raises(DatasetError, match=what):
            trainer.prepare_dataset([strange])
    with pytest.raises(InvalidConfiguration, match="call prepare_dataset first"):
        trainer.train_offline(1)
    with pytest.raises(InvalidConfiguration, match="call train_offline first"):
        trainer.evaluate(2)


def test_a_dataset_is_found_by_its_folder(tmp_path):
    buffers = episode_buffers(made([1.0, 2.0]))
    space = spaces.Box(-1, 1, (4,), np.float32), spaces.Discrete(2)
    dataset = write_dataset(
        "made/two-v0", space, buffers, description="", ref_min_score=None, ref_max_score=None,
        algorithm_name="none",
    )  # fmt: skip
    folder = dataset.storage.data_path.parent
    trainer = OfflineRLTrainer("CartPole-v1", "cql", **SMALL)
    for source in (folder, str(folder), "made/two-v0", dataset):
        assert [e.rewards[0] for e in trainer.prepare_dataset(source)] == [1.0, 2.0]
    with pytest.raises(DatasetError, match="no folder of a Minari dataset"):
        trainer.prepare_dataset(tmp_path / "nothing")


def test_episodes_come_back_from_their_file(tmp_path):
    env, rng = Flat(make_env("CartPole-v1")), np.random.default_rng(0)
    episodes = []
    for length in (1, 4, 2):
        rows = np.array([env.observation_space.sample() for _ in range(length + 1)])
        gained = rng.normal(size=length)
        episodes.append(
            EpisodeArrays(rows, rng.integers(0, 2, length), gained, length == 4, length != 4,
                          returns_to_go(gained, 0.9), np.ones((length + 1, 2), np.int8),
                          rng.random(length))
        )  # fmt: skip
    save_episodes(tmp_path / "episodes.zip", episodes)
    for one, other in zip(episodes, load_episodes(tmp_path / "episodes.zip"), strict=True):
        for name in ("observations", "actions", "rewards", "returns", "masks", "propensities"):
            assert np.array_equal(getattr(one, name), getattr(other, name))
            assert getattr(one, name).dtype == getattr(other, name).dtype
        assert (one.terminated, one.truncated) == (other.terminated, other.truncated)
