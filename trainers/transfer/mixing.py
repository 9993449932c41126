"""Batches of simulated and real data, in the share of the step.

    simulated.sample(n) ─┐
                         ├─► MixedBatch(simulated, real)      n + m = batch_size
    real.sample(m) ──────┘

How many of a batch are simulated is a whole number, and ρ · batch_size mostly is not one. What is
over is carried on: with u drawn once, and S the sum of all ρ · batch_size so far,

    n = ⌊S + u⌋ − ⌊S before + u⌋                (systematic sampling; Madow & Madow, 1944)

so that n is ρ · batch_size on the average, exactly, differs from it by less than 1, and so does
the sum of all n from S. Knows nothing of what a batch holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from convgym.errors import InvalidConfiguration


class Source(Protocol):
    """What batches are drawn from, such as a `ConversationReplayBuffer`; it has its own seed."""

    @property
    def sample(self) -> Callable[..., Any]:
        """Takes `batch_size`, and whatever else this source knows; gives so many draws."""


@dataclass(frozen=True, eq=False)
class MixedBatch:
    """What two sources gave for one batch."""

    simulated: Any | None
    """None where none is simulated."""
    real: Any | None
    """None where all are simulated."""
    counts: tuple[int, int]
    """How many draws of each."""


class Shares:
    """Splits counts by ratios, none of which may make a whole number."""

    def __init__(self, seed: int = 0) -> None:
        self._over = float(np.random.default_rng(seed).random())

    def split(self, count: int, ratio: float) -> tuple[int, int]:
        """How many of `count` are simulated, how many real.

        Raises InvalidConfiguration for a count below 0 or a ratio outside [0, 1].
        """
        if count < 0 or not 0.0 <= ratio <= 1.0:
            raise InvalidConfiguration(
                f"count={count}, ratio={ratio}; a count is 0 or more, a ratio lies in [0, 1]"
            )
        due = self._over + ratio * count
        simulated = min(math.floor(due), count)  # u + ρ · count can be rounded up to count + 1
        self._over = due - simulated
        return simulated, count - simulated


class MixedSampler:
    """Draws from two sources by the ratio of the step; the same calls give the same batches."""

    def __init__(
        self, simulated: Source, real: Source, ratio: Callable[[int], float], seed: int = 0
    ) -> None:
        """`ratio` gives the share of simulated draws at a step: `RatioSchedule.ratio`."""
        self.simulated, self.real, self.ratio = simulated, real, ratio
        self._shares = Shares(seed)

    def sample(self, batch_size: int, step: int, **how: Any) -> MixedBatch:
        """A batch of the step; what else is given, such as `mode="turn"`, goes to both sources."""
        counts = simulated, real = self._shares.split(batch_size, self.ratio(step))
        return MixedBatch(
            self.simulated.sample(simulated, **how) if simulated else None,
            self.real.sample(real, **how) if real else None,
            counts,
        )
