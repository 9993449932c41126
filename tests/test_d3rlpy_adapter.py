"""The d3rlpy adapter: aligned data, masks, a policy that learns, saving without pickle."""

import contextlib
import io
import json
import random
import sys

import gymnasium as gym
import numpy as np
import pytest

import convgym  # noqa: F401  registers the environments
from convgym.data.episodes import collect
from convgym.data.transitions import EpisodeArrays, returns_to_go
from convgym.domains.catalogue import domain_called
from convgym.errors import DatasetError, InvalidConfiguration, MissingExtra
from convgym.evaluation.rollout import play
from convgym.policies.policy import RandomPolicy
from convgym.policies.scripted import PlannerPolicy
from trainers.archive import from_safetensors, to_safetensors
from trainers.offline import d3rlpy_adapter as adapter
from trainers.offline.d3rlpy_buffers import from_replay_buffer
from trainers.offline.d3rlpy_manners import import_d3rlpy
from trainers.offline.discrete_policy import DiscretePolicy

minari = pytest.importorskip("minari")
pytest.importorskip("torch", reason="torch is not installed")
try:
    with contextlib.redirect_stderr(io.StringIO()):  # gym's notice
        import d3rlpy
except ImportError:
    pytest.skip("d3rlpy is not installed", allow_module_level=True)

ACTIONS = domain_called("customer-service").actions
ACTS = 5


def ragged(seed: int, episodes: int = 40) -> list[EpisodeArrays]:
    """Random episodes of 1 to 7 turns; every observation occurs once, half are cut off."""
    rng, made = np.random.default_rng(seed), []
    for index in range(episodes):
        length = int(rng.integers(1, 8))
        observations = rng.random((length + 1, 3)).astype(np.float32)
        masks = (rng.random((length + 1, ACTS)) < 0.5).astype(np.int8)
        actions = rng.integers(0, ACTS - 1, length)  # the last act is never taken
        masks[np.arange(length), actions] = 1
        rewards = rng.normal(size=length)
        cut = index % 2 == 0
        made.append(
            EpisodeArrays(
                observations, actions, rewards, not cut, cut, returns_to_go(rewards, 0.9), masks
            )
        )
    return made


def stored(episodes: list[EpisodeArrays], dataset_id: str):
    """The same as a Minari dataset."""
    buffers = []
    for episode in episodes:
        last = np.arange(1, len(episode) + 1) == len(episode)
        buffers.append(
            minari.data_collector.EpisodeBuffer(
                observations=episode.observations,
                actions=episode.actions,
                rewards=episode.rewards,
                terminations=last & episode.terminated,
                truncations=last & episode.truncated,
                infos={"action_mask": episode.masks},
            )
        )
    with pytest.warns(UserWarning):
        return minari.create_dataset_from_buffers(
            dataset_id,
            buffers,
            observation_space=gym.spaces.Box(0, 1, (3,), np.float32),
            action_space=gym.spaces.Discrete(ACTS),
        )


def corridor(episodes: int = 150, seed: int = 0) -> list[EpisodeArrays]:
    """Three cells, a random walker; leaving on the right pays 1. Acts: left, right, an illegal one.

    12 steps at most. Going right always is best."""
    rng, made = np.random.default_rng(seed), []
    for _ in range(episodes):
        cells, acts, rewards = [0], [], []
        while cells[-1] < 3 and len(acts) < 12:
            acts.append(int(rng.random() < 0.35))
            cells.append(cells[-1] + 1 if acts[-1] else max(0, cells[-1] - 1))
            rewards.append(float(cells[-1] == 3))
        rows, done = np.eye(4, dtype=np.float32)[cells], cells[-1] == 3
        masks = np.tile(np.array([1, 1, 0], np.int8), (len(cells), 1))
        gained = np.array(rewards)
        made.append(
            EpisodeArrays(
                rows, np.array(acts), gained, done, not done, returns_to_go(gained, 0.9), masks
            )
        )
    return made


# Data


@pytest.mark.parametrize("with_masks", [False, True])
def test_every_transition_matches_a_plain_loop(tmp_path, monkeypatch, with_masks):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    episodes = ragged(seed=1)
    buffer = adapter.to_replay_buffer(stored(episodes, "ragged-v0"), with_masks=with_masks)
    expected = []
    for episode in episodes:
        rows = episode.observations
        if with_masks:
            rows = np.concatenate([rows, episode.masks], axis=1)
        for t, (action, reward) in enumerate(zip(episode.actions, episode.rewards, strict=True)):
            terminal = episode.terminated and t == len(episode) - 1
            following = np.zeros_like(rows[t]) if terminal else rows[t + 1]
            expected.append((rows[t], action, reward, following, terminal))
    assert buffer.transition_count == len(expected)
    for index, (row, action, reward, following, terminal) in enumerate(expected):
        came = buffer.transition_picker(*buffer.buffer[index])
        assert np.array_equal(came.observation, row.astype(np.float32))
        assert came.action.tolist() == [action]
        assert came.reward.tolist() == pytest.approx([reward])
        assert np.array_equal(came.next_observation, following.astype(np.float32))
        assert came.terminal == terminal


def test_the_action_space_says_how_many_acts_there_are(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    episodes = ragged(seed=2)
    assert max(episode.actions.max() for episode in episodes) == ACTS - 2
    buffer = adapter.to_replay_buffer(stored(episodes, "ragged-v0"))
    assert buffer.dataset_info.action_size == ACTS
    assert buffer.dataset_info.action_space == d3rlpy.ActionSpace.DISCRETE


def test_n_step_transitions_sum_discounted_rewards_up_to_the_stored_end():
    episodes = [episode for episode in ragged(seed=3) if episode.truncated]
    buffer = adapter.to_replay_buffer(episodes, ACTS, n_step_td=10, discount=0.9)
    index = 0
    for episode in episodes:
        for t in range(len(episode)):
            came = buffer.transition_picker(*buffer.buffer[index])
            assert came.reward[0] == pytest.approx(episode.returns[t], rel=1e-5)
            assert np.array_equal(came.next_observation, episode.observations[-1])
            assert (came.interval, came.terminal) == (len(episode) - t, 0.0)
            index += 1


def test_actions_may_be_vectors():
    episodes, rng = ragged(seed=6), np.random.default_rng(6)
    spoken = [rng.normal(size=(len(episode), 4)) for episode in episodes]
    episodes = [
        EpisodeArrays(**{**vars(episode), "actions": vectors})
        for episode, vectors in zip(episodes, spoken, strict=True)
    ]
    buffer = adapter.to_replay_buffer(episodes)
    assert buffer.dataset_info.action_size == 4
    assert buffer.dataset_info.action_space == d3rlpy.ActionSpace.CONTINUOUS
    came = [buffer.transition_picker(*place).action for place in buffer.buffer]
    assert np.array_equal(came, np.concatenate(spoken).astype(np.float32))
    algo = adapter.fit_d3rlpy(d3rlpy.algos.TD3PlusBCConfig(batch_size=16), buffer, n_steps=2)
    assert algo.predict(episodes[0].observations).shape == (len(episodes[0]) + 1, 4)
    with pytest.raises(DatasetError, match="masks are of acts"):
        adapter.to_replay_buffer(episodes, with_masks=True)
    with pytest.raises(DatasetError, match="chooses among acts"):
        adapter.train_discrete_bc(episodes, n_steps=1)


@pytest.mark.parametrize("with_masks", [False, True])
def test_what_d3rlpy_holds_comes_back(with_masks):
    episodes = ragged(seed=8)
    buffer = adapter.to_replay_buffer(episodes, ACTS, with_masks=with_masks)
    back = from_replay_buffer(buffer, with_masks=with_masks)
    for episode, came in zip(episodes, back, strict=True):
        shown = episode.observations.copy()
        if episode.terminated:
            shown[-1] = 0  # d3rlpy has no terminal observations
        assert np.array_equal(came.observations, shown)
        assert np.array_equal(came.actions, episode.actions)
        assert np.array_equal(came.rewards, episode.rewards.astype(np.float32))
        ends = [False] * (len(episode) - 1)
        assert came.terminations.tolist() == [*ends, episode.terminated]
        assert came.truncations.tolist() == [*ends, episode.truncated]
        assert list(came.infos) == ["action_mask"] * with_masks
        if with_masks:
            masks = came.infos["action_mask"]
            assert np.array_equal(masks[: len(episode)], episode.masks[: len(episode)])


def test_a_buffer_that_d3rlpy_made_itself_comes_back_without_what_it_dropped():
    (episode,) = ragged(seed=9, episodes=1)
    length, stop = len(episode), np.zeros(len(episode))
    stop[-1] = 1
    assert length > 1
    made = d3rlpy.dataset.MDPDataset(
        episode.observations[:-1], episode.actions, episode.rewards, stop * 0, stop
    )
    (came,) = from_replay_buffer(made)
    assert len(came) == length - 1 and came.truncations[-1]
    assert np.array_equal(came.observations, episode.observations[:-1])


def test_data_that_do_not_fit_are_refused():
    (episode,) = ragged(seed=4, episodes=1)
    with pytest.raises(DatasetError, match="whole numbers from 0 to 1"):
        adapter.to_replay_buffer([episode, *ragged(5)], 2)
    with pytest.raises(InvalidConfiguration, match="action_size"):
        adapter.to_replay_buffer([episode])
    with pytest.raises(DatasetError, match="no episodes"):
        adapter.to_replay_buffer([], ACTS)
    episode.masks[0, episode.actions[0]] = 0
    with pytest.raises(DatasetError, match="misaligned"):
        adapter.to_replay_buffer([episode], ACTS, with_masks=True)


# Learning


@pytest.mark.parametrize("with_masks", [True, False])
def test_cql_learns_the_corridor_that_its_data_walk_badly(with_masks):
    episodes = corridor()
    assert np.mean([episode.terminated for episode in episodes]) < 0.75
    if not with_masks:
        episodes = [EpisodeArrays(**{**vars(e), "masks": None}) for e in episodes]
    settings = {
        "alpha": 0.05,
        "discount": 0.9,
        "n_step_td": 1,
        "hidden": (32,),
        "target_update": 100,
    }
    policy, history = adapter.train_discrete_cql(
        episodes, action_size=3, n_steps=1500, batch_size=32, seed=1, **settings
    )
    mask = np.array([1, 1, 0], np.int8)
    for cell in range(3):
        assert policy.predict(np.eye(4, dtype=np.float32)[cell], action_masks=mask)[0] == 1
    values = policy.scores(np.eye(4, dtype=np.float32)[:3])[:, 1]
    assert values == pytest.approx([0.81, 0.9, 1.0], abs=0.12)
    assert history[-1].keys() >= {"step", "loss", "td_loss", "conservative_loss"}


def test_cloning_the_same_data_walks_as_badly():
    policy, _ = adapter.train_discrete_bc(
        corridor(), action_size=3, n_steps=400, hidden=(32,), batch_size=32
    )
    mask = np.array([1, 1, 0], np.int8)
    policy.temperature = 1.0
    share = policy.action_probs(np.eye(4, dtype=np.float32)[0], mask)[1]
    assert share == pytest.approx(0.35, abs=0.1)


@pytest.fixture(scope="module")
def talks() -> tuple:
    env = gym.make("ConvGym/CustomerService-v0", observation="features", action="act")
    mixture = [(RandomPolicy(), 0.3), (PlannerPolicy(0.2), 0.7)]
    buffers = collect(env, mixture, episodes=80, seed=0)
    arrays = [
        EpisodeArrays(
            b.observations,
            b.actions,
            b.rewards,
            bool(b.terminations[-1]),
            bool(b.truncations[-1]),
            returns_to_go(b.rewards, 0.98),
            b.infos["action_mask"],
        )
        for b in buffers
    ]
    return env, arrays


def test_training_on_conversations_reports_and_repeats(talks, tmp_path, monkeypatch, capfd):
    env, arrays = talks
    monkeypatch.chdir(tmp_path)
    heard, states = [], (random.getstate(), np.random.get_state()[1].tolist())

    def turns(policy) -> float:
        return play(env, policy, seed=5, options={"task_id": "validation-0"}).length

    runs = [
        adapter.train_discrete_cql(
            arrays,
            action_size=len(ACTIONS),
            n_steps=60,
            hidden=(32, 32),
            seed=seed,
            progress=lambda step, row: heard.append(step),
            evaluators={"turns": turns},
            evaluate_every=25,
        )
        for seed in (3, 3, 4)
    ]
    (first, history), (second, _), (other, _) = runs
    row = arrays[0].observations[0]
    assert np.array_equal(first.scores(row), second.scores(row))
    assert not np.array_equal(first.scores(row), other.scores(row))
    assert heard[:3] == [25, 50, 60] and len(history) == 3
    assert all(entry["turns"] >= 1 for entry in history)
    assert states == (random.getstate(), np.random.get_state()[1].tolist())
    assert not list(tmp_path.iterdir())
    assert capfd.readouterr() == ("", "")


def test_the_copied_policy_is_the_algorithm_greedy_over_legal_acts(talks):
    env, arrays = talks
    buffer = adapter.to_replay_buffer(arrays, len(ACTIONS))
    config = d3rlpy.algos.DiscreteCQLConfig(
        batch_size=16, n_critics=2, encoder_factory=d3rlpy.models.VectorEncoderFactory([16])
    )
    algo = adapter.fit_d3rlpy(config, buffer, n_steps=20)
    policy = adapter.policy_of(algo, "two critics")
    rows = np.concatenate([episode.observations for episode in arrays[:20]])
    everything = np.ones(len(ACTIONS), np.int8)
    chosen = [policy.predict(row, action_masks=everything)[0] for row in rows]
    assert chosen == algo.predict(rows).tolist()
    rollouts = [play(env, policy, seed=i, options={"task_id": f"validation-{i}"}) for i in range(5)]
    for rollout in rollouts:
        for info, action in zip(rollout.infos, rollout.actions, strict=False):
            assert info["action_mask"][action] == 1


def test_networks_that_cannot_be_copied_are_refused(talks):
    buffer = adapter.to_replay_buffer(talks[1], len(ACTIONS))
    encoder = d3rlpy.models.VectorEncoderFactory([16], use_layer_norm=True)
    config = d3rlpy.algos.DiscreteCQLConfig(batch_size=8, encoder_factory=encoder)
    algo = adapter.fit_d3rlpy(config, buffer, n_steps=1)
    with pytest.raises(InvalidConfiguration, match="LayerNorm"):
        adapter.policy_of(algo, "normed")


def test_bear_is_refused_with_the_reason():
    with pytest.raises(InvalidConfiguration, match=r"cancels the MMD penalty"):
        adapter.fit_d3rlpy(d3rlpy.algos.BEARConfig(), buffer=None, n_steps=1)


@pytest.mark.parametrize("setting", [{"alpha": -1.0}, {"discount": 1.5}, {"n_step_td": 0}])
def test_bad_settings_fail_before_training(setting):
    with pytest.raises(InvalidConfiguration, match=next(iter(setting))):
        adapter.train_discrete_cql(ragged(0), action_size=ACTS, **setting)


def test_a_missing_d3rlpy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "d3rlpy", None)
    with pytest.raises(MissingExtra, match=r"convgym\[offline\]"):
        import_d3rlpy()


# The policy


def random_policy(temperature: float = 0.0) -> DiscretePolicy:
    rng = np.random.default_rng(0)

    def drawn(*shape: int) -> np.ndarray:
        return rng.normal(size=shape).astype(np.float32)

    networks = [[(drawn(6, 8), drawn(8)), (drawn(8, ACTS), drawn(ACTS))] for _ in range(2)]
    return DiscretePolicy(networks, "drawn", temperature)


@pytest.mark.parametrize("temperature", [0.0, 0.5])
def test_an_illegal_act_is_never_chosen(temperature):
    policy, rng = random_policy(temperature), np.random.default_rng(1)
    for seed in range(300):
        mask = (rng.random(ACTS) < 0.4).astype(np.int8)
        mask[rng.integers(ACTS)] = 1
        row = rng.normal(size=6).astype(np.float32)
        probabilities = policy.action_probs(row, mask)
        assert probabilities.sum() == pytest.approx(1.0)
        assert not probabilities[mask == 0].any()
        policy.reset(seed)
        for deterministic in (True, False):
            action, _ = policy.predict(row, deterministic=deterministic, action_masks=mask)
            assert mask[action] == 1 and policy.propensity == probabilities[action]
        best = np.where(mask > 0, policy.scores(row), -np.inf).argmax()
        assert policy.predict(row, deterministic=True, action_masks=mask)[0] == best


def test_a_saved_policy_answers_the_same(tmp_path):
    policy = random_policy(0.5)
    policy.save(tmp_path / "one")
    policy.save(tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    again = DiscretePolicy.load(tmp_path / "one")
    assert (again.name, again.temperature) == ("drawn", 0.5)
    rows = np.random.default_rng(2).normal(size=(50, 6)).astype(np.float32)
    assert np.array_equal(again.scores(rows), policy.scores(rows))


def test_a_file_that_is_no_policy_is_refused(tmp_path):
    (tmp_path / "text").write_text("hello")
    with pytest.raises(InvalidConfiguration, match="discrete policy"):
        DiscretePolicy.load(tmp_path / "text")


def test_weights_are_in_the_public_format():
    arrays = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.ones(1, np.float32)}
    content = to_safetensors(arrays)
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    assert length % 8 == 0 and len(content) == 8 + length + 28
    assert header["a"] == {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}
    back = from_safetensors(content)
    assert all(np.array_equal(back[name], arrays[name]) for name in arrays)
