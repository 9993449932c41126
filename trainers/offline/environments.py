"""Any environment with Box or Discrete spaces as an offline learner sees it.

    gymnasium.make(id, …) ─► Masked   infos have `action_mask`: of acts, all ones where none is told
                          ─► Flat     observations are vectors: of a Discrete space one-hot, of a
                                      Box of several dimensions laid out in a row, of a Dict its
                                      `features`

`Masked` alone is what is recorded, so that a dataset holds what the environment shows;
`flat_episodes` makes of it what `Flat` would have shown. ConvGym's ids show features and take acts
unless they are told otherwise. Knows nothing of learners.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

import convgym
from convgym.data.transitions import EpisodeArrays
from convgym.errors import InvalidConfiguration
from trainers.offline.config import Shapes

_ACTING = {"observation": "features", "action": "act"}


def make_env(env_id: str, keywords: Mapping[str, Any] | None = None) -> Masked:
    """The environment as it is recorded; its infos have `action_mask` (None beside vectors).

    Raises InvalidConfiguration where Gymnasium cannot make it, and for actions that are neither
    acts numbered from 0 nor vectors with bounds.
    """
    given = dict(keywords or {})
    if env_id in convgym.ENVIRONMENTS and not _ACTING.keys() & given.keys():
        given = _ACTING | given
    try:
        env = gym.make(env_id, **given)
    except (gym.error.Error, ImportError, TypeError) as error:
        raise InvalidConfiguration(f"{env_id!r} cannot be made with {given} ({error})") from None
    return Masked(env)


class Masked(gym.Wrapper[Any, Any, Any, Any]):
    """Infos with `action_mask`, whoever else knows of masks or not."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        space = env.action_space
        self._all: NDArray[np.int8] | None = None
        if isinstance(space, spaces.Discrete) and space.start == 0:
            self._all = np.ones(space.n, dtype=np.int8)
        elif not (
            isinstance(space, spaces.Box) and len(space.shape) == 1 and space.is_bounded("both")
        ):
            raise InvalidConfiguration(
                f"the environment's actions are {space}; offline learners take acts numbered from "
                "0, or vectors with bounds"
            )

    def reset(self, **keywords: Any) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        observation, info = self.env.reset(**keywords)
        return observation, {"action_mask": self._all, **info}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """One turn."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, reward, terminated, truncated, {"action_mask": self._all, **info}


class Flat(gym.ObservationWrapper[Any, Any, Any]):
    """Observations as vectors of float32."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        size = flat_size(env.observation_space)
        self.observation_space = spaces.Box(-np.inf, np.inf, (size,), np.float32)

    def observation(self, observation: Any) -> NDArray[np.float32]:
        """One row.  # (features,)"""
        space = self.env.observation_space
        if isinstance(space, spaces.Dict):
            space, observation = space["features"], observation["features"]
        return flat_rows(space, np.asarray(observation)[None])[0]


def shapes_of_env(env: gym.Env[Any, Any]) -> Shapes:
    """What networks must fit to act in a `Flat` environment."""
    seen, actions = env.observation_space, env.action_space
    assert isinstance(seen, spaces.Box), "it is flat"
    if isinstance(actions, spaces.Box):
        return Shapes(
            seen.shape[0], actions.shape[0], False,
            actions.low.astype(np.float32), actions.high.astype(np.float32),
        )  # fmt: skip
    assert isinstance(actions, spaces.Discrete), "it is one of `make_env`"
    return Shapes(seen.shape[0], int(actions.n), True)


def flat_size(space: spaces.Space[Any]) -> int:
    """Entries of a flat observation; raises InvalidConfiguration for what cannot be flattened."""
    if isinstance(space, spaces.Dict) and "features" in space.spaces:
        return flat_size(space["features"])
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    if isinstance(space, spaces.Box):
        return int(np.prod(space.shape))
    raise InvalidConfiguration(
        f"the observations are {type(space).__name__}; offline learners take Box, Discrete, or a "
        "Dict with features, so encode texts first"
    )


def flat_rows(space: spaces.Space[Any], rows: NDArray[Any]) -> NDArray[np.float32]:
    """Observations of a Box or Discrete space as vectors.  (n, …) → (n, features)"""
    if isinstance(space, spaces.Discrete):
        return np.eye(int(space.n), dtype=np.float32)[rows.astype(np.int64) - int(space.start)]
    return rows.reshape(len(rows), -1).astype(np.float32)


def flat_episodes(
    space: spaces.Space[Any], episodes: Iterable[EpisodeArrays]
) -> list[EpisodeArrays]:
    """Episodes that were recorded in `space`, with flat observations."""
    flat_size(space)
    if isinstance(space, spaces.Dict):
        space = space["features"]
    return [
        replace(episode, observations=flat_rows(space, np.asarray(episode.observations)))
        for episode in episodes
    ]
