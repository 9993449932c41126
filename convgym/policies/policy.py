"""What a policy is, one that acts, and one that acts by rule: shared by runners and learners.

    policy.reset(seed)                       an episode begins; all chance comes from `seed`
    policy.predict(observation, …)           (action, state), the signature of Stable-Baselines3
    policy.action_probs(observation, mask)   where the policy knows them; else NotImplementedError
    policy.rewarded(reward)                  what the newest action earned; only policies that
                                             need to know have it, and loops ask whether they do
    policy.episode_probs(episode)            π(· | all before) of each recorded turn; only those
                                             have it whose choice hangs on what they did before
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from convgym.engine.actions import ActionTable
from convgym.engine.belief import BeliefLayout
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
    cells: int | None = None
    """Numbers of an observation's features that it reads; None where it does not say."""

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
        return self.drawn(self.action_probs(observation, action_masks), deterministic), state

    def drawn(self, probabilities: Probabilities, deterministic: bool) -> int:
        """One of the actions; `self.propensity` is its probability."""
        if deterministic:
            action = int(probabilities.argmax())
        else:
            uniform = draw(self._key, POLICY, self._steps, 0) / 2**32
            cumulative = probabilities.cumsum()
            action = int(np.searchsorted(cumulative, uniform * cumulative[-1], side="right"))
            self._steps += 1
        self.propensity = float(probabilities[action])
        return action


def belief_of(observation: Any) -> NDArray[np.float32]:
    """The belief row in a features or dict observation.  # (cells,)"""
    return observation["features"] if isinstance(observation, dict) else observation


class Sight:
    """A belief row, read by the names of its cells."""

    __slots__ = ("layout", "row")

    def __init__(self, row: NDArray[np.float32], layout: BeliefLayout) -> None:
        self.row, self.layout = row, layout

    def __call__(self, cell: str) -> bool:
        """Whether a cell is above 0."""
        return bool(self.row[self.layout[cell]] > 0)


class Script(ActPolicy):
    """Chooses one act by rule; with probability `noise` a uniformly random legal one.

    A domain's scripts set `layout`, `actions` and, where they look closer, `sight`.
    """

    layout: BeliefLayout
    actions: ActionTable
    sight: type[Sight] = Sight

    def __init__(self, noise: float = 0.0) -> None:
        super().__init__()
        self.noise = noise

    def choose(self, see: Any) -> str:
        """Name of the act to do; `see` is a `sight` of the belief."""
        raise NotImplementedError

    def action_probs(self, observation: Any, action_masks: NDArray[np.int8]) -> Probabilities:
        """(1 − noise) on the chosen act, the rest spread over the legal ones."""
        legal = action_masks.astype(np.float64)
        probabilities = self.noise * legal / legal.sum()
        chosen = self.actions[self.choose(self.sight(belief_of(observation), self.layout))]
        if not legal[chosen]:
            return legal / legal.sum()
        probabilities[chosen] += 1.0 - self.noise
        return probabilities


class RandomPolicy(ActPolicy):
    """Uniform over the legal acts."""

    name = "random"

    def action_probs(self, observation: Any, action_masks: NDArray[np.int8]) -> Probabilities:
        """1 / number of legal acts."""
        legal = action_masks.astype(np.float64)
        return legal / legal.sum()
