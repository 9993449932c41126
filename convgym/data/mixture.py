"""Behaviour that is a mixture: one of several policies plays each episode from start to end.

    reset(seed) ─► keyed draw ─► policy k ─► plays the whole episode, its propensities are reported

The propensity is that of the policy that plays, *given* that it plays: the weights do not enter
it. Whoever wants the probability under the mixture itself must weigh the policies by how likely
each of them made the turns so far; the stored index of the policy is there for the other way,
which is to treat each policy's episodes as data of their own.

`BatchMixture` does the same with batched policies: whoever plays a seed there, plays it here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.engine.keys import MASK, POLICY, draw, threshold
from convgym.envs.rows import rows_of
from convgym.errors import InvalidConfiguration
from convgym.policies.batched import BatchPolicy, Masks, Rows
from convgym.policies.policy import Policy

_WHICH = 1
"""Index of the draw that chooses the policy; a policy's own draws have index 0."""


class Lots:
    """Which of several, by weight, decided by a seed.

    Raises InvalidConfiguration unless the weights are positive and sum to 1 (within 1e-6).
    """

    def __init__(self, named: Sequence[tuple[str, float]]) -> None:
        weights = [weight for _, weight in named]
        if not weights or min(weights) <= 0 or abs(sum(weights) - 1) > 1e-6:
            raise InvalidConfiguration(
                f"the mixture's weights are {weights}; they must be positive and sum to 1"
            )
        self.weights = weights
        self.name = "mixture of " + ", ".join(f"{name} {weight:.2f}" for name, weight in named)
        self._below = [threshold(bound) for bound in np.cumsum(weights)[:-1]]

    def draw(self, seed: int) -> int:
        """The number of the one that this seed falls to."""
        drawn = draw(seed & MASK, POLICY, 0, _WHICH)
        return sum(drawn >= bound for bound in self._below)


class BehaviorMixture:
    """Each episode belongs to one of `policies`, drawn by weight from the episode's seed.

    Raises InvalidConfiguration unless the weights are positive and sum to 1 (within 1e-6).
    """

    def __init__(self, policies: Sequence[tuple[Policy, float]]) -> None:
        self._lots = Lots([(policy.name, weight) for policy, weight in policies])
        self.policies = [policy for policy, _ in policies]
        self.weights, self.name = self._lots.weights, self._lots.name
        self.index = 0
        """Which policy plays the running episode."""

    def reset(self, seed: int) -> None:
        """Begin an episode; the seed decides who plays it."""
        self.index = self._lots.draw(seed)
        self.policies[self.index].reset(seed)

    @property
    def propensity(self) -> float:
        """Probability of the newest action under the policy that plays; NaN where unknown."""
        return getattr(self.policies[self.index], "propensity", float("nan"))

    @property
    def act(self) -> int:
        """The act behind the newest reply in words; -1 where there is none."""
        return getattr(self.policies[self.index], "act", -1)

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

    def rewarded(self, reward: float) -> None:
        """The reward of the newest action, if the policy that plays listens to it."""
        rewarded = getattr(self.policies[self.index], "rewarded", None)
        if rewarded is not None:
            rewarded(reward)


class BatchMixture:
    """`BehaviorMixture` of batched policies, each of which is asked for its own rows alone."""

    def __init__(self, policies: Sequence[tuple[BatchPolicy, float]]) -> None:
        self._lots = Lots([(policy.name, weight) for policy, weight in policies])
        self.policies = [policy for policy, _ in policies]
        self.weights, self.name = self._lots.weights, self._lots.name
        self._played_by = np.zeros(0, dtype=np.intp)  # (rows,)
        self.propensities = np.zeros(0)
        self.indices = np.zeros(0, dtype=np.intp)
        self.acts = np.zeros(0, dtype=np.intp)

    def begin(self, rows: Rows, seeds: Sequence[int]) -> None:
        """Begin an episode in each of `rows`; each seed decides who plays it."""
        missing = int(np.max(rows, initial=-1)) + 1 - len(self._played_by)
        self._played_by = np.pad(self._played_by, (0, max(0, missing)))
        drawn = [self._lots.draw(seed) for seed in seeds]
        self._played_by[rows] = drawn
        for number, policy in enumerate(self.policies):
            own = [place for place, one in enumerate(drawn) if one == number]
            policy.begin(np.asarray(rows)[own], [seeds[place] for place in own])

    def actions(
        self, observations: Any, masks: Masks, rows: Rows, deterministic: bool = False
    ) -> Any:
        """The actions of the policies that play, in the order of `rows`."""
        self.indices = self._played_by[rows]
        self.propensities = np.full(len(rows), np.nan)
        self.acts = np.full(len(rows), -1)
        chosen: list[Any] = [None] * len(rows)
        for number, policy in enumerate(self.policies):
            own = np.flatnonzero(self.indices == number)
            if not len(own):
                continue
            made = policy.actions(rows_of(observations, own), masks[own], rows[own], deterministic)
            self.propensities[own], self.acts[own] = policy.propensities, policy.acts
            for place, action in zip(own.tolist(), made, strict=True):
                chosen[place] = action
        return chosen if isinstance(chosen[0], str) else np.array(chosen, dtype=np.int64)

    def rewarded(self, rows: Rows, rewards: NDArray[np.float64]) -> None:
        """The rewards of the newest actions, for the policies that listen to them."""
        for number, policy in enumerate(self.policies):
            own = self._played_by[rows] == number
            if own.any() and hasattr(policy, "rewarded"):
                policy.rewarded(rows[own], rewards[own])
