"""Policies that answer many conversations at once.

    begin(rows, seeds)                       episodes begin in these rows
    actions(observations, masks, rows)       an action for each of these rows, and only for these
         (k, …)       (k, actions)  (k,)
    rewarded(rows, rewards)                  what they earned; only who needs to know has it

What is remembered of a conversation belongs to its row. Whoever plays a row with the same seed
gets what the single policy (`convgym.policies.policy`) gives: `RowPolicies` asks single ones, and
`BatchActPolicy` draws from the same keys, all rows in one call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from convgym.engine.keys import MASK, POLICY, draw_batch
from convgym.envs.rows import row_of
from convgym.policies.policy import Policy

Rows = NDArray[np.intp]  # (k,) numbers of rows
Masks = NDArray[np.int8]  # (k, actions)


class BatchPolicy(Protocol):
    """Anything that answers a batch of observations."""

    name: str
    propensities: NDArray[np.float64]  # (k,) of the newest actions; NaN where unknown
    indices: NDArray[np.intp]  # (k,) which policy of a mixture chose them; else 0
    acts: NDArray[np.intp]  # (k,) the acts behind them, where they are words; else -1

    def begin(self, rows: Rows, seeds: Sequence[int]) -> None:
        """Begin an episode in each of `rows`; the same seed gives the same choices."""

    def actions(
        self, observations: Any, masks: Masks, rows: Rows, deterministic: bool = False
    ) -> Any:
        """An action for each row; observations and masks hold these rows alone, in this order."""


class BatchActPolicy:
    """Base of batched policies over act numbers: give `action_probs`, get seeded sampling.

    The choice is that of `convgym.policies.policy.ActPolicy` with the same probabilities.
    """

    name = "batched act policy"

    def __init__(self) -> None:
        self._keys = np.zeros(0, dtype=np.uint64)  # (rows,)
        self._steps = np.zeros(0, dtype=np.uint64)  # (rows,)
        self.propensities = np.zeros(0)
        self.indices = np.zeros(0, dtype=np.intp)
        self.acts = np.zeros(0, dtype=np.intp)

    def begin(self, rows: Rows, seeds: Sequence[int]) -> None:
        """Begin an episode in each of `rows`."""
        missing = int(np.max(rows, initial=-1)) + 1 - len(self._keys)
        if missing > 0:
            self._keys = np.pad(self._keys, (0, missing))
            self._steps = np.pad(self._steps, (0, missing))
        self._keys[rows] = np.array([seed & MASK for seed in seeds], dtype=np.uint64)
        self._steps[rows] = 0

    def action_probs(self, observations: Any, masks: Masks) -> NDArray[np.float64]:
        """Probability of each action, 0 where the mask is 0.  # (k, actions)"""
        raise NotImplementedError

    def actions(
        self, observations: Any, masks: Masks, rows: Rows, deterministic: bool = False
    ) -> NDArray[np.int64]:
        """Sample an action for each row.  # (k,)"""
        return self.drawn(self.action_probs(observations, masks), rows, deterministic)

    def drawn(
        self, probabilities: NDArray[np.float64], rows: Rows, deterministic: bool
    ) -> NDArray[np.int64]:
        """One of the actions for each row; `propensities` are their probabilities.  # (k,)"""
        if deterministic:
            chosen = probabilities.argmax(axis=1)
        else:
            drawn = draw_batch(self._keys[rows], POLICY, self._steps[rows], 0) / 2**32
            cumulative = probabilities.cumsum(axis=1)
            chosen = (cumulative <= (drawn * cumulative[:, -1])[:, None]).sum(axis=1)
            self._steps[rows] += np.uint64(1)
        self.propensities = probabilities[np.arange(len(rows)), chosen]
        self.indices = np.zeros(len(rows), dtype=np.intp)
        self.acts = np.full(len(rows), -1)
        return chosen.astype(np.int64)


class BatchRandomPolicy(BatchActPolicy):
    """Uniform over the legal acts; the twin of `RandomPolicy`."""

    name = "random"

    def action_probs(self, observations: Any, masks: Masks) -> NDArray[np.float64]:
        """1 / number of legal acts."""
        legal = masks.astype(np.float64)
        return legal / legal.sum(axis=1, keepdims=True)


class RowPolicies:
    """Single policies, one to a row, as one batched policy.

    `make` gives a new policy each time, since policies remember their conversation.
    """

    def __init__(self, make: Callable[[], Policy]) -> None:
        self.make = make
        self._policies = [make()]
        self._states: list[Any] = [None]
        self._starts = [True]
        self.name = self._policies[0].name
        self.propensities = np.zeros(0)
        self.indices = np.zeros(0, dtype=np.intp)
        self.acts = np.zeros(0, dtype=np.intp)

    def begin(self, rows: Rows, seeds: Sequence[int]) -> None:
        """Begin an episode in each of `rows`."""
        for row, seed in zip(np.asarray(rows).tolist(), seeds, strict=True):
            while row >= len(self._policies):
                self._policies.append(self.make())
                self._states.append(None)
                self._starts.append(True)
            self._policies[row].reset(seed)
            self._states[row], self._starts[row] = None, True

    def actions(
        self, observations: Any, masks: Masks, rows: Rows, deterministic: bool = False
    ) -> Any:
        """Ask each row's policy.  # (k,) int, (k, dim) float32, or k texts"""
        chosen, played = [], [self._policies[row] for row in rows]
        for place, (row, policy) in enumerate(zip(rows.tolist(), played, strict=True)):
            action, self._states[row] = policy.predict(
                row_of(observations, place),
                self._states[row],
                self._starts[row],
                deterministic,
                action_masks=masks[place],
            )
            self._starts[row] = False
            chosen.append(action)
        nothing = float("nan")
        self.propensities = np.array([getattr(p, "propensity", nothing) for p in played])
        self.indices = np.array([getattr(p, "index", 0) for p in played], dtype=np.intp)
        self.acts = np.array([getattr(p, "act", -1) for p in played], dtype=np.intp)
        if chosen and isinstance(chosen[0], str):
            return chosen
        return np.array(chosen, dtype=np.float32 if np.ndim(chosen) > 1 else np.int64)

    def rewarded(self, rows: Rows, rewards: NDArray[np.float64]) -> None:
        """The rewards of the newest actions, for the policies that listen to them."""
        for row, reward in zip(rows.tolist(), rewards.tolist(), strict=True):
            if hasattr(self._policies[row], "rewarded"):
                self._policies[row].rewarded(reward)
