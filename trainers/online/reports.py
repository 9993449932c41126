"""Callbacks of a run: a line that shows how far it is, and an end before the end.

    fit(…, callbacks=[ProgressLine(200_000), EarlyStopping("success", patience=5)])

A callback hears (steps done, newest metrics) and ends the run by returning True.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import TextIO

from convgym.errors import InvalidConfiguration

_WIDTH = 24


class EarlyStopping:
    """Ends a run when a metric has not risen for `patience` evaluations in a row.

    Rows without the metric do not count. A run that is taken up again tells its history first, so
    that what was counted is known.
    """

    def __init__(self, metric: str, patience: int, least_gain: float = 0.0) -> None:
        """`least_gain` is how much more than the best so far counts as a rise."""
        if patience < 1 or least_gain < 0:
            raise InvalidConfiguration(
                f"patience={patience}, least_gain={least_gain}; patience counts from 1 and a gain "
                "from 0"
            )
        self.metric, self.patience, self.least_gain = metric, patience, least_gain
        self.best = float("-inf")
        self.waited = 0
        """Evaluations since the best."""

    def __call__(self, step: int, metrics: Mapping[str, float]) -> bool:
        """Whether it is time to stop."""
        if self.metric not in metrics:
            return False
        if metrics[self.metric] > self.best + self.least_gain:
            self.best, self.waited = metrics[self.metric], 0
        else:
            self.waited += 1
        return self.waited >= self.patience


class ProgressLine:
    """One line that is written over: a bar, steps per second, newest metrics."""

    def __init__(self, n_steps: int, stream: TextIO | None = None) -> None:
        self._n_steps, self._stream = n_steps, stream or sys.stderr
        self._began: tuple[float, int] | None = None

    def __call__(self, step: int, metrics: Mapping[str, float]) -> None:
        """Write the line."""
        now = time.perf_counter()
        began, first = self._began = self._began or (now, step)
        speed = (step - first) / (now - began) if step > first else 0.0
        done = min(1.0, step / max(1, self._n_steps))
        bar = "█" * int(_WIDTH * done)
        shown = "  ".join(
            f"{name} {value:.3g}" for name, value in metrics.items() if name != "step"
        )
        line = f"{bar:░<{_WIDTH}} {step:>9,} steps {speed:>7,.0f}/s  {shown}"
        self._stream.write(f"\r{line:<100}" + ("\n" if done == 1.0 else ""))
        self._stream.flush()
