"""Cluster bootstrap: intervals from tasks drawn again, with all their runs.

    tasks    t0 t1 t2 t3     t1's runs share what makes t1 hard, so they are drawn together
    redrawn  t1 t3 t1 t0     2,000 times; the middle 95 % of what comes out is the interval

Resampling single episodes would call 8 runs of 100 tasks 800 independent ones, and its intervals
would be too narrow. The percentile bootstrap of Efron (1979) over clusters (Davison & Hinkley,
1997, section 3.8). Where it cannot work it is not used: one run a task, and shares of 0 or 1,
whose redrawn tasks never differ, get Wilson's interval with the tasks as its n.

The tasks count as a sample of all that could be drawn, so an interval of a whole split speaks of
tasks like these, not of these alone. Every draw is keyed: the same table gives the same interval.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from convgym.engine.keys import TASK, below_batch, child, draw_batch
from convgym.evaluation.intervals import BOOTSTRAP, WILSON, Estimate, wilson

Floats = NDArray[np.float64]

RESAMPLES = 2_000
MIDDLE = (0.025, 0.975)
_SALT = 0xB0075
_CELLS = 1 << 20
"""Draws held at once."""


@dataclass(frozen=True, slots=True)
class TaskBootstrap:
    """Redraws `tasks` tasks `resamples` times; everything asked of one sees the same redraws."""

    tasks: int
    seed: int = 0
    resamples: int = RESAMPLES

    def counts(self, first: int, last: int) -> NDArray[np.int64]:
        """How often each task is drawn in the redraws `first` to `last` − 1.

        # (last − first, tasks)
        """
        redraws = np.arange(first, last, dtype=np.uint64)[:, None]
        places = np.arange(self.tasks, dtype=np.uint64)[None, :]
        key = child(self.seed & 0xFFFFFFFFFFFFFFFF, _SALT)
        picked = below_batch(draw_batch(key, TASK, redraws, places), self.tasks)  # (rows, tasks)
        picked += self.tasks * np.arange(last - first)[:, None]
        counted = np.bincount(picked.ravel(), minlength=(last - first) * self.tasks)
        return counted.reshape(last - first, self.tasks)

    def sums(self, columns: Floats) -> Floats:
        """Sums over the redrawn tasks of numbers given per task.

        `columns` (tasks, c) gives (resamples, c).
        """
        rows = max(1, _CELLS // self.tasks)
        return np.concatenate(
            [
                self.counts(first, min(first + rows, self.resamples)).astype(np.float64) @ columns
                for first in range(0, self.resamples, rows)
            ]
        )


def middle(replicates: Floats) -> tuple[float, float]:
    """The ends of the middle 95 % of what the redraws gave; what is not finite is left out."""
    low, high = np.quantile(replicates[np.isfinite(replicates)], MIDDLE)
    return float(low), float(high)


def shares(successes: Floats, runs: Floats, bootstrap: TaskBootstrap) -> list[Estimate | None]:
    """Successes ÷ runs of each column, over all tasks; None for a column without a run.

    `successes` and `runs` are counts by task and column.  # both (tasks, c)
    """
    sums = bootstrap.sums(np.hstack([successes, runs]))  # (resamples, 2 c)
    with np.errstate(invalid="ignore"):
        redrawn = sums[:, : successes.shape[1]] / sums[:, successes.shape[1] :]
    return [_share(successes[:, c], runs[:, c], redrawn[:, c]) for c in range(successes.shape[1])]


def share(successes: Floats, runs: Floats, bootstrap: TaskBootstrap) -> Estimate:
    """`shares` of one column.  # both (tasks,)

    Raises ValueError where there is no run at all.
    """
    found = shares(successes[:, None], runs[:, None], bootstrap)[0]
    if found is None:
        raise ValueError("a share takes at least one run")
    return found


def _share(successes: Floats, runs: Floats, redrawn: Floats) -> Estimate | None:
    won, total, tasks = float(successes.sum()), float(runs.sum()), int((runs > 0).sum())
    if not tasks:
        return None
    if won in (0.0, total) or runs.max() <= 1:
        low, high = wilson(round(won / total * tasks), tasks)
        return Estimate(won / total, low, high, WILSON)
    return Estimate(won / total, *middle(redrawn), BOOTSTRAP)
