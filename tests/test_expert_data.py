"""Recording any player in any environment: ends, propensities, the same bytes for a seed."""

import gymnasium as gym
import numpy as np
import pytest

import convgym  # noqa: F401  registers the environments
from convgym.data.episodes import collect, content_hash
from convgym.data.transitions import read_episodes
from convgym.errors import DatasetError, InvalidConfiguration
from convgym.policies.policy import RandomPolicy
from convgym.policies.scripted import PlannerPolicy

pytest.importorskip("minari")
pytest.importorskip("torch", reason="torch is not installed")

from trainers.offline.environments import flat_episodes, make_env
from trainers.offline.expert_data import ExpertDataCollector
from trainers.offline.players import as_policy
from trainers.offline.scores import score


@pytest.fixture(autouse=True)
def own_root(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))


def balance(observation) -> int:
    """Pushes the way the pole falls: 500 steps for ever."""
    return int(observation[2] + 0.3 * observation[3] > 0)


def coin(observation) -> int:
    """Chance from numpy's global generator."""
    return int(np.random.randint(2))


def test_what_falls_is_terminated_and_what_stands_is_truncated():
    collector = ExpertDataCollector("CartPole-v1", max_episode_steps=80)
    stands = read_episodes(collector.collect_from_policy(balance, 3, "pole/stands-v0"))
    falls = read_episodes(collector.collect_from_policy(lambda seen: 0, 3, "pole/falls-v0"))
    assert [(len(e), e.terminated, e.truncated) for e in stands] == [(80, False, True)] * 3
    assert all(e.terminated and not e.truncated and len(e) < 15 for e in falls)
    assert all(e.rewards.tolist() == [1.0] * len(e) for e in stands + falls)


def test_a_recorded_episode_is_the_environments_own():
    collector = ExpertDataCollector("CartPole-v1")
    dataset = collector.collect_from_policy(coin, 4, "pole/coin-v0", seed=5)
    notes = dataset.storage.get_episode_metadata(dataset.episode_indices)
    for about, episode in zip(notes, read_episodes(dataset), strict=True):
        env = gym.make("CartPole-v1")
        seen = [env.reset(seed=int(about["seed"]))[0]]
        for action in episode.actions:
            seen.append(env.step(int(action))[0])
        assert np.array_equal(np.array(seen), episode.observations)


def test_the_environment_comes_back_from_the_dataset_as_it_was_named():
    keywords = {"max_episode_steps": 30}
    dataset = ExpertDataCollector("CartPole-v1", **keywords).collect_from_policy(
        coin, 2, "pole/coin-v0"
    )
    env = dataset.recover_environment(eval_env=True)
    assert env.spec.id == "CartPole-v1" and env.spec.max_episode_steps == 30
    assert env.observation_space == dataset.observation_space


def test_the_same_seed_gives_the_same_bytes_whatever_was_drawn_before():
    collector = ExpertDataCollector("CartPole-v1")
    hashes = []
    for seed, drawn in ((1, 0), (1, 7), (2, 0)):
        np.random.seed(drawn)
        made = collector.collect_from_policy(coin, 3, "pole/coin-v0", seed=seed, overwrite=True)
        hashes.append(content_hash(made))
    assert hashes[0] == hashes[1] != hashes[2]
    before = np.random.get_state()[1].tolist()
    collector.collect_from_policy(coin, 1, "pole/coin-v0", overwrite=True)
    assert np.random.get_state()[1].tolist() == before


def test_vectors_are_recorded_within_their_space():
    def swing(seen):
        return np.array([-2.0 * seen[2]], dtype=np.float32).clip(-2.0, 2.0)

    dataset = ExpertDataCollector("Pendulum-v1", max_episode_steps=20).collect_from_policy(
        swing, 2, "pendulum/swing-v0"
    )
    for episode in read_episodes(dataset):
        assert episode.actions.shape == (20, 1) and episode.actions.dtype == np.float32
        expected = np.array([swing(row) for row in episode.observations[:-1]])
        assert np.array_equal(episode.actions, expected)
        assert episode.masks is None and np.isnan(episode.propensities).all()


def test_numbered_observations_become_one_hot_for_learners():
    dataset = ExpertDataCollector("FrozenLake-v1").collect_from_policy(
        lambda seen: np.random.randint(4), 5, "lake/random-v0"
    )
    stored = read_episodes(dataset)
    flat = flat_episodes(dataset.observation_space, stored)
    for before, after in zip(stored, flat, strict=True):
        assert after.observations.shape == (len(before) + 1, 16)
        assert np.array_equal(after.observations.argmax(axis=1), before.observations)


def test_conversations_are_those_of_the_ordinary_collector():
    dataset = ExpertDataCollector("ConvGym/CustomerService-v0").collect_from_policy(
        PlannerPolicy(noise=0.1), 5, "desk/planner-v0", seed=3
    )
    env = gym.make("ConvGym/CustomerService-v0", observation="features", action="act")
    expected = collect(env, [(PlannerPolicy(noise=0.1), 1.0)], 5, seed=3)
    assert content_hash(dataset) == content_hash(expected)
    eval_env = dataset.recover_environment(eval_env=True)
    assert eval_env.unwrapped.spec.kwargs["split"] == "test"


def test_a_policy_that_does_its_best_has_the_propensity_one():
    collector = ExpertDataCollector("ConvGym/CustomerService-v0")
    policy = RandomPolicy()
    drawn = read_episodes(collector.collect_from_policy(policy, 2, "desk/drawn-v0"))
    best = read_episodes(
        collector.collect_from_policy(policy, 2, "desk/best-v0", deterministic=True)
    )
    for episode in drawn:
        assert episode.propensities == pytest.approx(1.0 / episode.masks[:-1].sum(axis=1))
    for episode in best:
        assert (episode.propensities == 1.0).all()
        assert np.array_equal(episode.actions, episode.masks[:-1].argmax(axis=1))


def test_an_id_that_is_taken_is_refused_and_nothing_is_lost():
    collector = ExpertDataCollector("CartPole-v1")
    first = content_hash(collector.collect_from_policy(coin, 2, "pole/coin-v0"))

    def breaks(seen):
        raise RuntimeError("no more")

    with pytest.raises(DatasetError, match="exists already"):
        collector.collect_from_policy(coin, 2, "pole/coin-v0")
    with pytest.raises(RuntimeError, match="no more"):
        collector.collect_from_policy(breaks, 2, "pole/coin-v0", overwrite=True)
    import minari

    assert content_hash(minari.load_dataset("pole/coin-v0")) == first


@pytest.mark.parametrize(
    ("env_id", "player", "what"),
    [
        ("Nothing-v0", coin, "cannot be made"),
        ("CartPole-v1", 3, "cannot play"),
        ("ConvGym/CustomerService-v0", coin, "offline learners take acts"),
    ],
)
def test_what_cannot_be_recorded_is_one_sentence(env_id, player, what):
    keywords = {"action": "text"} if env_id.startswith("ConvGym") else {}
    with pytest.raises(InvalidConfiguration, match=what):
        ExpertDataCollector(env_id, **keywords).collect_from_policy(player, 1, "a/no-v0")


def test_a_score_is_the_mean_of_seeded_episodes_with_an_interval():
    env = make_env("CartPole-v1", {"max_episode_steps": 80})
    found = score(as_policy(balance, env.action_space), env, 3)
    assert (found.return_, found.return_interval, found.success) == (80.0, (80.0, 80.0), None)
    desk = make_env("ConvGym/CustomerService-v0")
    one, two = (score(PlannerPolicy(), desk, 20, split="validation") for _ in range(2))
    assert one == two and one.success is not None
    low, high = one.success_interval
    assert low < one.success < high
    with pytest.raises(InvalidConfiguration, match="2 or more"):
        score(as_policy(balance, env.action_space), env, 1)


# Stable-Baselines3


def models():
    """(name, model, environment) of untrained models of all kinds."""
    sb3, contrib = pytest.importorskip("stable_baselines3"), pytest.importorskip("sb3_contrib")
    for module, name, env_id, network in (
        (sb3, "PPO", "CartPole-v1", "MlpPolicy"),
        (sb3, "DQN", "CartPole-v1", "MlpPolicy"),
        (contrib, "QRDQN", "CartPole-v1", "MlpPolicy"),
        (contrib, "MaskablePPO", "CartPole-v1", "MlpPolicy"),
        (contrib, "RecurrentPPO", "CartPole-v1", "MlpLstmPolicy"),
        (sb3, "PPO", "Pendulum-v1", "MlpPolicy"),
        (sb3, "SAC", "Pendulum-v1", "MlpPolicy"),
    ):
        yield name, getattr(module, name)(network, env_id, device="cpu", seed=0), env_id


def test_models_of_stable_baselines_play_alike_from_a_seed():
    for name, model, env_id in models():
        collector = ExpertDataCollector(env_id, max_episode_steps=20)
        for player in (model, model.policy):
            one, two = (
                collector.collect_from_policy(player, 2, "sb/all-v0", seed=1, overwrite=True)
                for _ in range(2)
            )
            assert content_hash(one) == content_hash(two), name
        best = read_episodes(
            collector.collect_from_policy(
                model, 2, "sb/all-v0", seed=1, deterministic=True, overwrite=True
            )
        )
        for episode in best:
            state, start = None, np.array([True])
            for row, action in zip(episode.observations, episode.actions, strict=False):
                expected, state = model.predict(row, state, start, deterministic=True)
                start = np.array([False])
                assert np.array_equal(expected, action), name


def test_a_models_propensities_are_those_of_its_distribution():
    torch = pytest.importorskip("torch")
    _, model, env_id = next(models())
    dataset = ExpertDataCollector(env_id).collect_from_policy(model, 5, "sb/ppo-v0")
    for episode in read_episodes(dataset):
        rows = torch.as_tensor(episode.observations[:-1])
        probs = model.policy.get_distribution(rows).distribution.probs.detach().numpy()
        own = probs[np.arange(len(episode)), episode.actions]
        assert episode.propensities == pytest.approx(own, abs=1e-5)


def test_a_q_model_strays_as_often_as_it_says_and_over_legal_acts_only():
    dqn = next(model for name, model, _ in models() if name == "DQN")
    dqn.exploration_rate = 0.3
    policy = as_policy(dqn, dqn.action_space)
    row = np.array([0.1, 0.0, -0.1, 0.2], dtype=np.float32)
    best = int(dqn.predict(row, deterministic=True)[0])
    found = policy.action_probs(row, np.ones(2, dtype=np.int8))
    assert found[best] == pytest.approx(0.85) and found.sum() == pytest.approx(1.0)
    other = np.eye(2, dtype=np.int8)[1 - best]
    assert policy.action_probs(row, other).tolist() == other.tolist()


def test_a_model_of_another_environment_is_refused():
    _, model, _ = next(models())
    with pytest.raises(InvalidConfiguration, match="the model's actions"):
        ExpertDataCollector("FrozenLake-v1").collect_from_policy(model, 1, "sb/ppo-v0")
