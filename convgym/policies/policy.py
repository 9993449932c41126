"""What a policy is: the one protocol that environments' runners, learners and scripts share.

    policy.reset(seed)                       an episode begins; all chance comes from `seed`
    policy.predict(observation, …)           (action, state), the signature of Stable-Baselines3
    policy.action_probs(observation, mask)   where the policy knows them; else NotImplementedError
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from convgym.engine.keys import POLICY, draw

Probabilities = NDArray[np.float64]  # (actions,)


class Policy(Protocol):
    """Anything that answers an observation."""

    name: str

    def reset(self, seed: int) -> None:
        """Begin an episode; the same seed gives the same choices."""

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
        action_masks: NDArray[np.int8] | None = None,
    ) -> tuple[Any, Any]:
        """An action and the state to hand in next time."""


class ActPolicy:
    """Base of policies over act numbers: give `action_probs`, get seeded sampling.

    Reads the belief from a features observation or from a dict's `features`.
    """

    name = "act policy"

    def __init__(self) -> None:
        self._key, self._steps, self.propensity = 0, 0, 1.0

    def reset(self, seed: int) -> None:
        """Begin an episode; the same seed gives the same choices."""
        self._key, self._steps = seed & 0xFFFFFFFFFFFFFFFF, 0

    def action_probs(self, observation: Any, action_masks: NDArray[np.int8]) -> Probabilities:
        """Probability of each action, 0 where the mask is 0.  # (actions,)"""
        raise NotImplementedError

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
        action_masks: NDArray[np.int8] | None = None,
    ) -> tuple[int, Any]:
        """Sample an action; `self.propensity` is its probability."""
        assert action_masks is not None, "act policies choose among the legal acts"
        probabilities = self.action_probs(observation, action_masks)
        if deterministic:
            action = int(probabilities.argmax())
        else:
            uniform = draw(self._key, POLICY, self._steps, 0) / 2**32
            cumulative = probabilities.cumsum()
            action = int(np.searchsorted(cumulative, uniform * cumulative[-1], side="right"))
            self._steps += 1
        self.propensity = float(probabilities[action])
        return action, state


def belief_of(observation: Any) -> NDArray[np.float32]:
    """The belief row in a features or dict observation.  # (cells,)"""
    return observation["features"] if isinstance(observation, dict) else observation
