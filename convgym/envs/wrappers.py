"""Wrappers of conversation environments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym

from convgym.engine import keys
from convgym.randomization.randomizer import DomainRandomizer


class DomainRandomization(
    gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs
):
    """Who calls, about what and how hard it gets, drawn anew for each episode.

        env = DomainRandomization(env, {"curriculum": "linear", "curriculum_steps": 50_000})

    The difficulty follows the agent steps made through this wrapper, over all episodes; a seeded
    reset begins the draws anew and leaves the steps as they are, so a curriculum goes on. The
    adaptive curriculum hears of every success. What the environment's keywords or
    `reset(options=)` fix is not drawn.
    """

    def __init__(
        self, env: gym.Env[Any, Any], randomizer: DomainRandomizer | Mapping[str, Any]
    ) -> None:
        gym.utils.RecordConstructorArgs.__init__(self, randomizer=randomizer)
        gym.Wrapper.__init__(self, env)
        self.randomizer = DomainRandomizer.of(randomizer)
        self.steps = 0
        """Agent steps so far."""
        self._key, self._episodes, self._drawn_with = keys.mix(self.randomizer.seed), 0, 0

    @property
    def difficulty(self) -> float | None:
        """The present difficulty; None where none is set."""
        return self.randomizer.get_current_difficulty(self.steps)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode with drawn options."""
        if seed is not None:
            self._key, self._episodes = keys.mix(seed), 0
        self._drawn_with = keys.child(self._key, self._episodes)
        drawn = self.randomizer.draw(self._drawn_with, self.steps)
        self._episodes += 1
        fixed = self.env.unwrapped.fixed  # type: ignore[attr-defined]
        free = {name: value for name, value in drawn.items() if name not in fixed}
        return self.env.reset(seed=seed, options=free | (options or {}))

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """One step, counted."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.steps += 1
        if terminated or truncated:
            self.randomizer.record(bool(info["success"]), self._drawn_with)
        return observation, reward, terminated, truncated, info
