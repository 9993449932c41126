"""What an agent is worth in simulation and in reality, beside how far the two lie apart.

    sim, real ─► compute_sim_real_gap (quick) ─► kl, js, mmd
              ─► rewards of the conversations, or of an agent played in both ─► transfer gap

A transfer gap of 0.1 says that the simulator promises 0.1 more than reality keeps. The rewards of
recorded conversations are those of whoever was recorded: only where the same agent spoke on both
sides do they tell of the simulator. Knows nothing of environments.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from convgym.calibration.gap import compute_sim_real_gap
from convgym.calibration.gap_report import GapReport
from convgym.conversation import Conversation
from convgym.errors import DatasetError, InvalidConfiguration
from convgym.evaluation.intervals import standard_error

Play = Callable[[Any], Sequence[float]]
"""Plays an agent, and gives the return of each episode."""


@dataclass(frozen=True)
class SimToRealMetrics:
    """The gap in short, and what it costs."""

    kl_divergence: float
    """Of the words a turn, real from simulated, in nats (`length_kl`)."""
    js_divergence: float
    """Of the words a turn, in bits (`length_js`)."""
    mmd: float
    """MMD² of the turns' vectors, unbiased."""
    sim_performance: float | None
    """Mean return; None where nothing tells."""
    real_performance: float | None
    transfer_gap: float | None
    """Simulated − real performance; None where one is."""
    transfer_gap_interval: tuple[float, float] | None
    """Normal, 95 %."""
    gap: GapReport
    """With each divergence's interval, floor and verdict."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self) | {"gap": self.gap.to_dict()}


class SimToRealEvaluator:
    """Compares simulated conversations with real ones, and an agent's worth in both."""

    def __init__(
        self, play_sim: Play | None = None, play_real: Play | None = None, *, seed: int = 0
    ) -> None:
        """`play_sim` and `play_real` play an agent in the simulator and in what stands for reality.

        They are needed where `evaluate` is given an agent: what was recorded of others does not
        tell what this one would earn.
        """
        self._play_sim, self._play_real, self._seed = play_sim, play_real, seed

    def evaluate(
        self,
        sim: Iterable[Conversation],
        real: Iterable[Conversation],
        agent: Any = None,
    ) -> SimToRealMetrics:
        """Measure; without an agent, performance is the mean reward of the conversations.

        Raises InvalidConfiguration for an agent that nothing can play, DatasetError where a side
        has too few conversations for a gap, or where fewer than two returns are known.
        """
        sim, real = list(sim), list(real)
        if agent is None:
            returns = [[c.reward for c in side if c.reward is not None] for side in (sim, real)]
        elif self._play_sim is None or self._play_real is None:
            raise InvalidConfiguration(
                "an agent came, and nothing to play it in; make the evaluator with play_sim and "
                "play_real, or leave the agent out to compare the recorded rewards"
            )
        else:
            returns = [list(self._play_sim(agent)), list(self._play_real(agent))]
        gap = compute_sim_real_gap(real, sim, "quick", seed=self._seed)
        means = [float(np.mean(side)) if side else None for side in returns]
        difference, interval = None, None
        if means[0] is not None and means[1] is not None:
            if min(map(len, returns)) < 2:
                raise DatasetError(
                    "one return of a side is known; a transfer gap takes two or more of each"
                )
            difference = means[0] - means[1]
            half = 1.96 * math.hypot(*map(standard_error, returns))
            interval = difference - half, difference + half
        return SimToRealMetrics(
            kl_divergence=gap["length_kl"],
            js_divergence=gap["length_js"],
            mmd=gap["mmd"],
            sim_performance=means[0],
            real_performance=means[1],
            transfer_gap=difference,
            transfer_gap_interval=interval,
            gap=gap,
        )
