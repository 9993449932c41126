"""Minari episodes as a d3rlpy ReplayBuffer, and back.

    Minari dataset ─► read_episodes ─► one d3rlpy Episode per conversation ─► ReplayBuffer
    episode buffers ◄─────────────── o, a, r, terminated, masks ◄──────────────────┘

What d3rlpy 2.8.1 would do by itself, and why not:

- `d3rlpy.datasets.get_minari` concatenates T + 1 observations beside T actions: every episode
  after the first is misaligned. It is never used here.
- Of an episode that was cut off it drops the last transition, with its reward. Here o_T is
  appended as one more row with act 0 and reward 0. d3rlpy samples T transitions of such an
  episode, so the row is read as a next observation and never drawn as a transition.
  Trajectory slicers (Decision Transformer) do see it; `trainers.offline.batches` has none.
- It takes as many acts as the data show. Here the action space says how many there are.

What a ReplayBuffer cannot hold, and what therefore does not come back: o_T of an episode that
ended by itself (zeros come back, which is what d3rlpy itself shows there), rewards beyond
float32, and all infos but the masks. Knows nothing of algorithms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from convgym.data.transitions import (
    EpisodeArrays,
    episode_buffers,
    read_episodes,
    returns_to_go,
)
from convgym.errors import DatasetError, InvalidConfiguration
from trainers.offline.d3rlpy_manners import import_d3rlpy, quiet, seeded

if TYPE_CHECKING:
    from minari import MinariDataset
    from minari.data_collector import EpisodeBuffer


def to_replay_buffer(
    data: MinariDataset | Sequence[EpisodeArrays],
    action_size: int | None = None,
    *,
    part: str = "features",
    with_masks: bool = False,
    n_step_td: int = 1,
    discount: float = 1.0,
    with_next_actions: bool = False,
) -> Any:
    """A d3rlpy ReplayBuffer with one Episode per conversation, all of their transitions.

    Actions are acts numbered from 0, or vectors: floats of shape (T, A). `action_size`, the
    number of all acts, is read off a dataset's action space; with plain arrays of acts it must be
    given. Of Dict observations, `part` is read. `with_masks` appends the mask to each observation
    row. With `n_step_td` above 1 a transition spans that many turns, its reward discounted by
    `discount`. `with_next_actions` is for algorithms that read the action after a transition
    (ReBRAC): the last turn of a cut episode, after which there is none, is left out.

    Raises DatasetError where acts are not numbers below `action_size`, or where a mask is
    missing, forbids the act that was taken, or is asked for beside vectors.
    """
    d3rlpy = import_d3rlpy()
    episodes, size = episodes_and_size(data, action_size, part)
    parts, space = d3rlpy.dataset, d3rlpy.ActionSpace
    continuous = _in_vectors(episodes)
    if continuous and with_masks:
        raise DatasetError("masks are of acts, and these actions are vectors; leave them away")
    if with_next_actions:
        episodes = [e for e in episodes if e.terminated or len(e) > 1]
    converted = [
        _episode(parts, episode, size, continuous, with_masks, with_next_actions)
        for episode in episodes
    ]
    picker = parts.MultiStepTransitionPicker(n_step_td, discount) if n_step_td > 1 else None
    with quiet(), seeded(0):  # building one draws from numpy's global generator
        return parts.ReplayBuffer(
            parts.InfiniteBuffer(),
            transition_picker=picker,
            episodes=converted,
            observation_signature=converted[0].observation_signature,
            action_signature=converted[0].action_signature,
            reward_signature=converted[0].reward_signature,
            action_space=space.CONTINUOUS if continuous else space.DISCRETE,
            action_size=size,
        )


def from_replay_buffer(buffer: Any, *, with_masks: bool = False) -> list[EpisodeBuffer]:
    """The conversations of a d3rlpy ReplayBuffer, for `write_dataset` or for Minari itself.

    `with_masks` says that masks were appended to the rows. Of an Episode that was not made here
    and was cut off, d3rlpy's last row is the observation that is never acted upon; one without
    any transition is left out.
    """
    size = buffer.dataset_info.action_size
    discrete = buffer.dataset_info.action_space == import_d3rlpy().ActionSpace.DISCRETE
    return episode_buffers(
        _arrays(episode, discrete, size if with_masks else 0)
        for episode in buffer.episodes
        if episode.transition_count
    )


def episodes_and_size(
    data: MinariDataset | Sequence[EpisodeArrays], action_size: int | None, part: str = "features"
) -> tuple[Sequence[EpisodeArrays], int]:
    """Episodes as arrays, and the number of all acts, or of a vector's entries.

    Raises DatasetError for actions that d3rlpy cannot take, or no episodes.
    """
    if not isinstance(data, Sequence):
        space: Any = data.action_space
        discrete = hasattr(space, "n") and getattr(space, "start", 1) == 0
        if not discrete and not (hasattr(space, "low") and len(space.shape) == 1):
            raise DatasetError(
                f"the dataset's actions are of {type(space).__name__}; this adapter takes acts "
                'numbered from 0, as in environments made with action="act", or vectors'
            )
        if action_size is None:
            action_size = int(space.n if discrete else space.shape[0])
        data = read_episodes(data, part=part)
    if not data:
        raise DatasetError("there are no episodes to learn from")
    if action_size is None and _in_vectors(data):
        action_size = data[0].actions.shape[1]
    if action_size is None:
        raise InvalidConfiguration("episodes as arrays need action_size, the number of all acts")
    return data, action_size


def _in_vectors(episodes: Sequence[EpisodeArrays]) -> bool:
    actions = episodes[0].actions
    return actions.dtype.kind == "f" and actions.ndim == 2


def _episode(
    parts: Any, episode: EpisodeArrays, size: int, continuous: bool, with_masks: bool,
    with_next_actions: bool,
) -> Any:  # fmt: skip
    rows = np.asarray(episode.observations)
    if rows.dtype == object or rows.ndim != 2:
        raise DatasetError(
            f"observations of shape {rows.shape[1:]} and type {rows.dtype}; this adapter takes "
            "vectors of numbers"
        )
    rows = rows.astype(np.float32)
    if with_masks:
        rows = np.concatenate([rows, _masks(episode)], axis=1)
    actions = episode.actions.astype(np.float32) if continuous else _acts(episode, size)
    # o_T, never drawn as a transition of its own; its action is made up
    extra = 0 if episode.terminated or with_next_actions else 1
    return parts.Episode(
        observations=rows[: len(episode) + extra],
        actions=np.pad(actions, ((0, extra), (0, 0))),
        rewards=np.pad(episode.rewards, (0, extra)).astype(np.float32)[:, None],
        terminated=episode.terminated,
    )


def _acts(episode: EpisodeArrays, size: int) -> NDArray[np.int32]:
    actions = episode.actions
    if actions.dtype.kind not in "iu" or actions.min() < 0 or actions.max() >= size:
        raise DatasetError(
            f"an episode has actions that are not whole numbers from 0 to {size - 1}"
        )
    return actions.astype(np.int32)[:, None]


def _masks(episode: EpisodeArrays) -> NDArray[np.float32]:
    if episode.masks is None:
        raise DatasetError("the dataset holds no action masks; train without them")
    if not episode.masks[np.arange(len(episode)), episode.actions].all():
        raise DatasetError("an episode's mask forbids an act that was taken; it is misaligned")
    return episode.masks.astype(np.float32)


def _arrays(episode: Any, discrete: bool, masked: int) -> EpisodeArrays:
    """A d3rlpy Episode as arrays; its last `masked` columns are the mask."""
    length = episode.transition_count
    rows = episode.observations[: length + 1]
    if episode.terminated:
        rows = np.concatenate([rows, np.zeros_like(rows[:1])])
    actions, rewards = episode.actions[:length], episode.rewards[:length, 0].astype(np.float64)
    features = rows.shape[1] - masked
    return EpisodeArrays(
        observations=rows[:, :features],
        actions=actions[:, 0].astype(np.int64) if discrete else actions,
        rewards=rewards,
        terminated=bool(episode.terminated),
        truncated=not episode.terminated,
        returns=returns_to_go(rewards, 1.0),
        masks=rows[:, features:].astype(np.int8) if masked else None,
    )
