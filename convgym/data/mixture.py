"""Behaviour that is a mixture: one of several policies plays each episode from start to end.

    reset(seed) ─► keyed draw ─► policy k ─► plays the whole episode, its propensities are reported

The propensity is that of the policy that plays, *given* that it plays: the weights do not enter
it. Whoever wants the probability under the mixture itself must weigh the policies by how likely
each of them made the turns so far; the stored index of the policy is there for the other way,
which is to treat each policy's episodes as data of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.engine.keys import MASK, POLICY, draw, threshold
from convgym.errors import InvalidConfiguration
from convgym.policies.policy import Policy

_WHICH = 1
"""Index of the draw that chooses the policy; a policy's own draws have index 0."""


class BehaviorMixture:
    """Each episode belongs to one of `policies`, drawn by weight from the episode's seed.

    Raises InvalidConfiguration unless the weights are positive and sum to 1 (within 1e-6).
    """

    def __init__(self, policies: Sequence[tuple[Policy, float]]) -> None:
        weights = [weight for _, weight in policies]
        if not weights or min(weights) <= 0 or abs(sum(weights) - 1) > 1e-6:
            raise InvalidConfiguration(
                f"the mixture's weights are {weights}; they must be positive and sum to 1"
            )
        self.policies = [policy for policy, _ in policies]
        self.weights = weights
        self.name = "mixture of " + ", ".join(
            f"{policy.name} {weight:.2f}" for policy, weight in policies
        )
        self._below = [threshold(bound) for bound in np.cumsum(weights)[:-1]]
        self.index = 0
        """Which policy plays the running episode."""

    def reset(self, seed: int) -> None:
        """Begin an episode; the seed decides who plays it."""
        drawn = draw(seed & MASK, POLICY, 0, _WHICH)
        self.index = sum(drawn >= bound for bound in self._below)
        self.policies[self.index].reset(seed)

    @property
    def propensity(self) -> float:
        """Probability of the newest action under the policy that plays; NaN where unknown."""
        return getattr(self.policies[self.index], "propensity", float("nan"))

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
        action_masks: NDArray[np.int8] | None = None,
    ) -> tuple[Any, Any]:
        """The action of the policy that plays."""
        return self.policies[self.index].predict(
            observation, state, episode_start, deterministic, action_masks=action_masks
        )
