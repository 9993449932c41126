"""Replay buffers of Stable-Baselines3: conventions, the way back, learning from them alone."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from convgym.data.transitions import EpisodeArrays, episode_buffers, returns_to_go
from convgym.errors import DatasetError, InvalidConfiguration

minari = pytest.importorskip("minari")
stable_baselines3 = pytest.importorskip("stable_baselines3")
from stable_baselines3 import DQN, SAC  # noqa: E402
from stable_baselines3.common.buffers import DictReplayBuffer, ReplayBuffer  # noqa: E402

from trainers.online.sb3_buffers import (  # noqa: E402
    add_episodes,
    fit_sb3,
    from_sb3_buffer,
    to_sb3_buffer,
)

CELLS, LIMIT = 4, 12
SHOWN, ARM = Box(-np.inf, np.inf, (3,)), Box(np.float32([-2, 0]), np.float32([1, 5]))


class Corridor(gym.Env):
    """Four cells; going right from the last one pays 1 and ends it, else 12 steps do."""

    observation_space, action_space = Box(0, 1, (CELLS,)), Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cell, self.steps = 0, 0
        return self._shown(), {}

    def step(self, action):
        self.cell, self.steps = max(0, self.cell + (1 if action == 1 else -1)), self.steps + 1
        over = self.cell == CELLS
        return self._shown(), float(over), over, not over and self.steps == LIMIT, {}

    def _shown(self):
        return np.eye(CELLS + 1, CELLS, dtype=np.float32)[self.cell]


def walked(episodes, seed):
    """What somebody who goes left or right by chance meets, as arrays."""
    env, rng, made = Corridor(), np.random.default_rng(seed), []
    for _ in range(episodes):
        rows, acts, rewards = [env.reset()[0]], [], []
        over = cut = False
        while not (over or cut):
            acts.append(int(rng.random() < 0.4))
            row, reward, over, cut, _ = env.step(acts[-1])
            rows.append(row)
            rewards.append(reward)
        gained = np.array(rewards)
        returns = returns_to_go(gained, 1.0)
        made.append(EpisodeArrays(np.array(rows), np.array(acts), gained, over, cut, returns))
    return made


def drawn(acted=None, seed=0):
    """Random episodes of 1 to 6 turns, every second one cut off."""
    acted = acted or Discrete(4, seed=seed)
    rng, made = np.random.default_rng(seed), []
    for index in range(20):
        length = int(rng.integers(1, 7))
        rows = rng.normal(size=(length + 1, 3)).astype(np.float32)
        actions = np.array([acted.sample() for _ in range(length)], dtype=acted.dtype)
        rewards, cut = rng.normal(size=length), index % 2 == 0
        returns = returns_to_go(rewards, 1.0)
        made.append(EpisodeArrays(rows, actions, rewards, not cut, cut, returns))
    return made


def stored(episodes, shown=SHOWN, acted=None):
    with pytest.warns(UserWarning):
        return minari.create_dataset_from_buffers(
            "drawn-v0",
            episode_buffers(episodes),
            observation_space=shown,
            action_space=acted or Discrete(4),
        )


@pytest.fixture(autouse=True)
def minari_root(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))


# Conventions


def test_a_cut_episode_is_bootstrapped_and_an_ended_one_is_not():
    episodes = drawn()
    buffer = to_sb3_buffer(stored(episodes), device="cpu")
    samples = buffer._get_samples(np.arange(buffer.size()))
    row = 0
    for episode in episodes:
        for t in range(len(episode)):
            last = t == len(episode) - 1
            assert np.array_equal(samples.observations[row], episode.observations[t])
            assert np.array_equal(samples.next_observations[row], episode.observations[t + 1])
            assert samples.dones[row] == (last and episode.terminated)
            assert buffer.dones[row, 0] == last
            assert buffer.timeouts[row, 0] == (last and episode.truncated)
            row += 1
    assert row == buffer.size() == buffer.buffer_size


def test_actions_in_a_box_are_scaled_as_the_learners_scale_them():
    episodes = drawn(ARM)
    buffer = to_sb3_buffer(stored(episodes, acted=ARM), device="cpu")
    policy = SAC("MlpPolicy", acting(SHOWN, ARM), buffer_size=10).policy
    acted = np.concatenate([episode.actions for episode in episodes])
    assert buffer.actions[:, 0] == pytest.approx(policy.scale_action(acted), abs=1e-6)
    assert np.abs(buffer.actions).max() <= 1.0
    back = np.concatenate([episode.actions for episode in from_sb3_buffer(buffer)])
    assert back == pytest.approx(acted, abs=1e-5) and back.dtype == ARM.dtype


def acting(shown, acted):
    """An environment that is never played, for its spaces."""
    env = gym.Env()
    env.observation_space, env.action_space = shown, acted
    return env


def test_several_parts_make_a_dict_buffer_and_come_back():
    space = gym.spaces.Dict({"features": SHOWN, "turn": Box(0, 9, (1,), np.int64), "rest": SHOWN})
    episodes = [
        EpisodeArrays(
            **{
                **vars(episode),
                "observations": {
                    "features": episode.observations,
                    "turn": np.arange(len(episode) + 1)[:, None],
                    "rest": -episode.observations,
                },
            }
        )
        for episode in drawn()
    ]
    dataset = stored(episodes, space)
    buffer = to_sb3_buffer(dataset, part=("features", "turn"), device="cpu")
    assert isinstance(buffer, DictReplayBuffer) and set(buffer.observations) == {"features", "turn"}
    for episode, came in zip(episodes, from_sb3_buffer(buffer), strict=True):
        assert np.array_equal(came.observations["features"], episode.observations["features"])
        assert np.array_equal(came.observations["turn"], episode.observations["turn"])
    alone = to_sb3_buffer(dataset, part="rest", device="cpu")
    assert np.array_equal(alone.observations, -buffer.observations["features"])


def test_numbered_observations_come_back_as_numbers():
    rng = np.random.default_rng(0)
    episodes = [
        EpisodeArrays(**{**vars(episode), "observations": rng.integers(0, 5, len(episode) + 1)})
        for episode in drawn()
    ]
    buffer = to_sb3_buffer(stored(episodes, Discrete(5)), device="cpu")
    for episode, came in zip(episodes, from_sb3_buffer(buffer), strict=True):
        assert np.array_equal(came.observations, episode.observations)


# The way back


def by_hand(size, envs=1, **keywords):
    """A buffer into which `play` puts steps whose observation counts on."""
    return ReplayBuffer(size, Box(-np.inf, np.inf, (1,)), Discrete(2), "cpu", envs, **keywords)


def play(buffer, rows):
    """Each row: (observation, next, done, timeout) of each environment."""
    for row in rows:
        columns = zip(*row, strict=True)
        seen, following, done, timeout = (np.array(one, dtype=np.float32) for one in columns)
        infos = [{"TimeLimit.truncated": bool(flag)} for flag in timeout]
        zeros = np.zeros(len(row))
        buffer.add(seen[:, None], following[:, None], zeros.astype(int), seen, done, infos)


def test_each_environment_keeps_its_own_order_and_what_runs_is_cut():
    buffer = by_hand(8, envs=2)
    play(
        buffer,
        [
            [(0, 1, 0, 0), (50, 51, 1, 1)],
            [(1, 2, 1, 0), (60, 61, 0, 0)],
            [(10, 11, 0, 0), (61, 62, 1, 0)],
        ],
    )
    came = from_sb3_buffer(buffer)
    assert [e.observations.ravel().tolist() for e in came] == [
        [0, 1, 2], [10, 11], [50, 51], [60, 61, 62]
    ]  # fmt: skip
    assert [bool(e.terminations[-1]) for e in came] == [True, False, False, True]
    assert [bool(e.truncations[-1]) for e in came] == [False, True, True, False]
    assert [e.rewards.tolist() for e in came] == [[0, 1], [10], [50], [60, 61]]


def test_a_buffer_that_has_wrapped_round_begins_with_its_oldest_row():
    buffer = by_hand(4)
    play(buffer, [[(n, n + 1, n in (2, 4), 0)] for n in range(6)])
    came = from_sb3_buffer(buffer)
    assert [e.observations.ravel().tolist() for e in came] == [[2, 3], [3, 4, 5], [5, 6]]


def test_an_empty_buffer_has_no_episodes():
    assert from_sb3_buffer(by_hand(4)) == []


def test_rows_out_of_order_and_lost_observations_are_refused():
    buffer = by_hand(4)
    play(buffer, [[(0, 1, 0, 0)], [(7, 8, 1, 0)]])
    with pytest.raises(DatasetError, match="order of play"):
        from_sb3_buffer(buffer)
    thrifty = by_hand(4, optimize_memory_usage=True, handle_timeout_termination=False)
    with pytest.raises(DatasetError, match="terminal observations"):
        from_sb3_buffer(thrifty)


def test_what_was_learnt_online_comes_back_as_it_was_played():
    """The terminal observation of a cut walk is its own last cell, not the next walk's first."""
    model = DQN("MlpPolicy", Corridor(), buffer_size=200, learning_starts=152, seed=1)
    model.learn(152)
    episodes = from_sb3_buffer(model.replay_buffer)
    assert sum(map(len, episodes)) == 152 and len(episodes) > 10
    for episode in episodes:
        env = Corridor()
        shown = [env.reset()[0]]
        for t, action in enumerate(episode.actions):
            row, reward, over, _, _ = env.step(action)
            shown.append(row)
            assert (episode.rewards[t], bool(episode.terminations[t])) == (reward, over)
        assert np.array_equal(episode.observations, shown)


# Errors


@pytest.mark.parametrize(
    ("shown", "acted", "message"),
    [
        (gym.spaces.Text(5), Discrete(2), "hold text"),
        (SHOWN, gym.spaces.Text(5), "acts numbered from 0"),
        (SHOWN, Discrete(2, start=1), "acts numbered from 0"),
        (SHOWN, Box(-np.inf, np.inf, (2,)), "Box with bounds"),
        (gym.spaces.Dict({"a": SHOWN}), Discrete(2), "no part 'features'"),
    ],
)
def test_spaces_that_do_not_fit_are_refused(shown, acted, message):
    class Described:
        observation_space, action_space = shown, acted

    with pytest.raises(DatasetError, match=message):
        to_sb3_buffer(Described())


def test_episodes_that_do_not_fit_are_refused():
    episodes = drawn()
    with pytest.raises(InvalidConfiguration, match="this needs"):
        add_episodes(ReplayBuffer(5, SHOWN, Discrete(4), "cpu"), episodes)
    with pytest.raises(InvalidConfiguration, match="of 2 environments"):
        add_episodes(ReplayBuffer(500, SHOWN, Discrete(4), "cpu", n_envs=2), episodes)
    with pytest.raises(DatasetError, match="not in Discrete"):
        add_episodes(ReplayBuffer(500, SHOWN, Discrete(2), "cpu"), episodes)


# Learning


def value(model, episodes=20):
    """Mean discounted return of the model's greedy walks."""
    total, env = 0.0, Corridor()
    for _ in range(episodes):
        (row, _), over, factor = env.reset(), False, 1.0
        while not over:
            row, reward, ended, cut, _ = env.step(int(model.predict(row, deterministic=True)[0]))
            total, factor, over = total + factor * reward, factor * 0.9, ended or cut
    return total / episodes


@pytest.mark.parametrize("n_steps", [1, 3])
def test_dqn_learns_from_the_buffer_alone_what_its_data_do_badly(n_steps):
    episodes = walked(200, seed=0)
    assert np.mean([episode.terminated for episode in episodes]) < 0.5
    assert any(episode.truncated for episode in episodes)
    model = DQN(
        "MlpPolicy", Corridor(), buffer_size=4000, gamma=0.9, learning_rate=2e-3, n_steps=n_steps,
        target_update_interval=50, policy_kwargs={"net_arch": [32]}, seed=0, device="cpu",
    )  # fmt: skip
    add_episodes(model.replay_buffer, episodes)
    fit_sb3(model, 800)
    assert value(model) == pytest.approx(0.9**3)  # straight to the right; chance earns half of it
    random = np.mean([0.9 ** (len(e) - 1) * e.rewards[-1] for e in episodes])
    assert value(model) > 2 * random


def test_sac_takes_a_buffer_in_the_place_of_its_own():
    buffer = to_sb3_buffer(stored(drawn(ARM), acted=ARM), device="cpu")
    model = SAC("MlpPolicy", acting(SHOWN, ARM), policy_kwargs={"net_arch": [8]}, device="cpu")
    before = [weights.detach().clone() for weights in model.actor.parameters()]
    fit_sb3(model, 3, buffer)
    assert any((a != b).any() for a, b in zip(before, model.actor.parameters(), strict=True))


def test_a_buffer_of_another_environment_is_refused():
    model = DQN("MlpPolicy", Corridor(), buffer_size=10)
    with pytest.raises(InvalidConfiguration, match="must be the same"):
        fit_sb3(model, 1, to_sb3_buffer(stored(drawn()), device="cpu"))
    with pytest.raises(InvalidConfiguration, match="nothing to learn"):
        fit_sb3(model, 1)
