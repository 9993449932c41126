"""Minari episodes as a Stable-Baselines3 ReplayBuffer, learning from it alone, and back.

    Minari     o0 a0 r0 │ o1 a1 r1 │ o2            cut off after two turns
    SB3 row     o0 a0 r0 o1 done 0 │ o1 a1 r1 o2 done 1, timeout 1

A row's next observation is the one that follows in its own episode; of the last row it is the
terminal observation o_T, never the first of the next episode. An episode that was cut off is
`done` with `TimeLimit.truncated`, so that learners bootstrap from o_T.

Actions in a Box are kept as Stable-Baselines3 keeps them, scaled to [-1, 1]: its SAC, TD3 and DDPG
squash what they do to that range and scale it back only on the way to the environment.

The buffers hold neither masks nor propensities. DQN so values acts that were illegal, and never
tried, too: where acts are often illegal, prefer `trainers.offline.d3rlpy_adapter`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from convgym.data.transitions import (
    EpisodeArrays,
    Parts,
    episode_buffers,
    read_episodes,
    returns_to_go,
)
from convgym.errors import DatasetError, InvalidConfiguration, MissingExtra

try:
    from stable_baselines3.common.buffers import DictReplayBuffer, ReplayBuffer
    from stable_baselines3.common.logger import Logger
    from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
except ImportError as error:
    raise MissingExtra(error.name or "stable_baselines3", "sb3") from error

if TYPE_CHECKING:
    from minari import MinariDataset
    from minari.data_collector import EpisodeBuffer


# -- there -----------------------------------------------------------------------------------------


def to_sb3_buffer(
    dataset: MinariDataset, *, part: Parts = "features", device: str = "auto"
) -> ReplayBuffer:
    """Every transition of a Minari dataset, in order, in a ReplayBuffer that they fill.

    Of Dict observations `part` is read; several parts make a DictReplayBuffer.

    Raises DatasetError for observations or actions that Stable-Baselines3 cannot take.
    """
    space, acted = _observation_space(dataset.observation_space, part), dataset.action_space
    _check_actions(acted)
    episodes = read_episodes(dataset, part=part)
    kind: Any = DictReplayBuffer if isinstance(space, spaces.Dict) else ReplayBuffer
    buffer: ReplayBuffer = kind(sum(map(len, episodes)), space, acted, device=device)
    add_episodes(buffer, episodes)
    return buffer


def add_episodes(buffer: ReplayBuffer, episodes: Sequence[EpisodeArrays]) -> None:
    """Add all transitions to a buffer of one environment, such as `model.replay_buffer`.

    Whatever kind it is: with `n_steps=3` a DQN's own buffer makes three-step returns of them.

    Raises DatasetError for actions that are not in the buffer's space, and InvalidConfiguration
    for a buffer of several environments or too small a one.
    """
    turns = sum(len(episode) for episode in episodes)
    if buffer.n_envs != 1 or turns > buffer.buffer_size:
        raise InvalidConfiguration(
            f"the buffer holds {buffer.buffer_size} transitions of {buffer.n_envs} environments; "
            f"this needs {turns} of 1"
        )
    for episode in episodes:
        actions = _to_sb3(buffer.action_space, episode.actions)
        for t in range(len(episode)):
            last = t == len(episode) - 1
            buffer.add(
                _one(episode.observations, t),
                _one(episode.observations, t + 1),
                actions[t : t + 1],
                episode.rewards[t : t + 1],
                np.array([last]),
                [{"TimeLimit.truncated": last and episode.truncated}],
            )


def _observation_space(space: spaces.Space[Any], part: Parts) -> spaces.Space[Any]:
    if isinstance(space, spaces.Dict):
        names = [part] if isinstance(part, str) else list(part)
        missing = set(names) - set(space.spaces)
        if missing:
            raise DatasetError(
                f"the observations have no part {min(missing)!r}; there are {', '.join(space)}"
            )
        parts = {name: space[name] for name in names}
        space = parts[part] if isinstance(part, str) else spaces.Dict(parts)
    shown = space.values() if isinstance(space, spaces.Dict) else [space]
    if any(isinstance(one, spaces.Text | spaces.Dict | spaces.Tuple) for one in shown):
        raise DatasetError(
            "Stable-Baselines3 takes numbers, and these observations hold text; encode them, or "
            "name the parts that are numbers"
        )
    return space


def _check_actions(space: spaces.Space[Any]) -> None:
    acts = isinstance(space, spaces.Discrete) and space.start == 0
    if not acts and not (isinstance(space, spaces.Box) and space.is_bounded()):
        raise DatasetError(
            "Stable-Baselines3's replay learners take acts numbered from 0, or a Box with bounds; "
            f"these actions are of another {type(space).__name__}"
        )


def _one(observations: Any, t: int) -> Any:
    """A batch of one, as `add` takes it."""
    if isinstance(observations, dict):
        return {name: _one(column, t) for name, column in observations.items()}
    return observations[t : t + 1]


def _to_sb3(space: Any, actions: NDArray[Any]) -> NDArray[Any]:
    _check_actions(space)
    if not all(space.contains(action) for action in actions):
        raise DatasetError(f"an episode has actions that are not in {space}")
    if isinstance(space, spaces.Box):
        return 2.0 * (actions - space.low) / (space.high - space.low) - 1.0
    return actions


# -- and back --------------------------------------------------------------------------------------


def from_sb3_buffer(buffer: ReplayBuffer) -> list[EpisodeBuffer]:
    """The episodes in a replay buffer, for `write_dataset` or for Minari itself.

    Environment by environment, each in the order in which it was played. The newest episode
    counts as cut off if it is still under way. Of a buffer that has wrapped round, an
    environment's first episode begins where it has not been overwritten. One made without
    `handle_timeout_termination` cannot tell episodes that were cut off: they come back as
    terminated. Rewards and actions come back in float32's precision.

    Raises DatasetError for a buffer that keeps no terminal observations
    (`optimize_memory_usage`), or in which an observation does not follow from the one before.
    """
    if buffer.optimize_memory_usage:
        raise DatasetError(
            "this buffer was made with optimize_memory_usage=True and keeps no terminal "
            "observations; its episodes cannot be told"
        )
    order = np.arange(buffer.size())
    if buffer.full:
        order = np.roll(order, -buffer.pos)  # the oldest row first
    return episode_buffers(
        _arrays(buffer, order[first:last], env)
        for env in range(buffer.n_envs)
        for first, last in _stretches(buffer.dones[order, env])
    )


def _stretches(dones: NDArray[Any]) -> list[tuple[int, int]]:
    """(first row, row after the last) of each episode."""
    ends = (np.flatnonzero(dones) + 1).tolist()
    if len(dones) and not dones[-1]:
        ends.append(len(dones))
    return list(zip([0, *ends], ends, strict=False))


def _arrays(buffer: ReplayBuffer, rows: NDArray[np.intp], env: int) -> EpisodeArrays:
    def shown(first: Any, following: Any, space: spaces.Space[Any]) -> NDArray[Any]:
        if not np.array_equal(first[rows[1:], env], following[rows[:-1], env]):
            raise DatasetError(
                "an observation in the buffer is not the one that the row before it leads to; "
                "its rows are not in the order of play"
            )
        joined = np.concatenate([first[rows, env], following[rows[-1:], env]])
        return joined.reshape(-1, *(space.shape or ())).astype(space.dtype)

    space: Any = buffer.observation_space
    first, following = buffer.observations, buffer.next_observations
    if isinstance(space, spaces.Dict):
        observations: Any = {
            name: shown(first[name], following[name], space[name]) for name in space.spaces
        }
    else:
        observations = shown(first, following, space)
    rewards = buffer.rewards[rows, env].astype(np.float64)
    terminated = bool(buffer.dones[rows[-1], env] and not buffer.timeouts[rows[-1], env])
    return EpisodeArrays(
        observations=observations,
        actions=_from_sb3(buffer.action_space, buffer.actions[rows, env]),
        rewards=rewards,
        terminated=terminated,
        truncated=not terminated,
        returns=returns_to_go(rewards, 1.0),
    )


def _from_sb3(space: Any, actions: NDArray[Any]) -> NDArray[Any]:
    actions = actions.reshape(-1, *space.shape)
    if isinstance(space, spaces.Box):
        actions = space.low + 0.5 * (actions + 1.0) * (space.high - space.low)
    return actions.astype(space.dtype)


# -- learning --------------------------------------------------------------------------------------


def fit_sb3(model: OffPolicyAlgorithm, n_updates: int, buffer: ReplayBuffer | None = None) -> None:
    """Let a DQN, QRDQN, SAC or TD3 learn from its replay buffer alone; nothing is played.

    `buffer` takes the place of the model's own, if given. `target_update_interval` counts updates
    here, so give DQN far less than its default 10,000. Chance is that of the model's `seed`, which
    Stable-Baselines3 hands to the global generators.

    Raises InvalidConfiguration for a buffer of other spaces than the model's, or an empty one.
    """
    buffer = model.replay_buffer if buffer is None else buffer
    spaces_of = model.observation_space, model.action_space
    if buffer is None or not buffer.size() or n_updates < 1:
        raise InvalidConfiguration("there is nothing to learn: no transitions, or no updates")
    if (buffer.observation_space, buffer.action_space) != spaces_of:
        raise InvalidConfiguration(
            f"the model acts on {model.observation_space} by {model.action_space}, the buffer on "
            f"{buffer.observation_space} by {buffer.action_space}; both must be the same"
        )
    model.replay_buffer = buffer
    model.set_logger(Logger(None, []))  # silent, and writes no folder
    for update in range(n_updates):
        model._update_current_progress_remaining(update, n_updates)
        model.train(gradient_steps=1, batch_size=model.batch_size)
        model._on_step()  # train() alone never moves DQN's target network
