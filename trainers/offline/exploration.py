"""Policies that stray: what plays while a learner goes on in the environment.

    EpsilonGreedy   (1 − ε) π(a | s) + ε / number of legal acts
    Noisy           the vector of a policy, plus Gaussian noise, within the space

All chance comes from the episode's seed. Knows nothing of learners.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from convgym.errors import InvalidConfiguration
from convgym.policies.policy import ActPolicy, Policy, Probabilities


class EpsilonGreedy(ActPolicy):
    """A policy over acts that does a random legal one with probability ε."""

    def __init__(self, policy: ActPolicy, epsilon: float) -> None:
        super().__init__()
        if not 0.0 <= epsilon <= 1.0:
            raise InvalidConfiguration(f"epsilon={epsilon} is outside [0, 1]")
        self.policy, self.epsilon = policy, epsilon
        self.name = f"{policy.name}, {epsilon:g} random"

    def action_probs(self, observation: Any, action_masks: NDArray[np.int8]) -> Probabilities:
        """The mixture.  # (…, actions)"""
        legal = (np.asarray(action_masks) > 0).astype(np.float64)
        own = self.policy.action_probs(observation, action_masks)
        found: Probabilities = (1.0 - self.epsilon) * own + self.epsilon * legal / legal.sum(
            axis=-1, keepdims=True
        )
        return found


class Noisy:
    """A policy over vectors whose entries get noise of `scale` times half the space's width."""

    propensity = float("nan")
    """A vector has a density and no probability."""

    def __init__(self, policy: Policy, space: spaces.Box, scale: float) -> None:
        if not scale >= 0:
            raise InvalidConfiguration(f"scale={scale}; it must be 0 or more")
        self.policy, self.space, self.name = policy, space, f"{policy.name}, {scale:g} noise"
        self._spread = scale * (space.high - space.low) / 2
        self._chance = np.random.default_rng(0)

    def reset(self, seed: int) -> None:
        """Begin an episode; the same seed gives the same noise."""
        self.policy.reset(seed)
        self._chance = np.random.default_rng(seed)

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
        action_masks: NDArray[np.int8] | None = None,
    ) -> tuple[NDArray[np.float32], Any]:
        """The policy's vector, with noise unless `deterministic`."""
        action, state = self.policy.predict(
            observation, state, episode_start, deterministic, action_masks=action_masks
        )
        if not deterministic:
            action = action + self._chance.standard_normal(self._spread.shape) * self._spread
        return np.clip(action, self.space.low, self.space.high).astype(np.float32), state
