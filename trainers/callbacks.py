"""What listens while a learner learns: every learner here calls the same few.

    row    {"step": 2000, "loss": 0.31, "success": 0.4, …}   means since the last row, evaluations
    callback(row) ─► True to stop, else None

A callback is any such function; these have a memory. A run that is taken up again tells them its
history first. Knows nothing of learners.
"""

from __future__ import annotations

import csv
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TextIO

from convgym.errors import InvalidConfiguration, MissingExtra

Row = Mapping[str, float]
Callback = Callable[[Row], bool | None]

_WIDTH = 24
_AT_ONCE = 0.1
"""Seconds from the first row in which a run that is taken up again tells its history."""


class EarlyStopping:
    """Stops when `metric` has not risen by over `least_gain` in `patience` rows that have it."""

    def __init__(self, metric: str, patience: int = 5, least_gain: float = 0.0) -> None:
        if patience < 1 or least_gain < 0:
            raise InvalidConfiguration(
                f"patience={patience}, least_gain={least_gain}; patience counts from 1 and a gain "
                "from 0"
            )
        self.metric, self.patience, self.least_gain = metric, patience, least_gain
        self.best, self.waited = -float("inf"), 0

    def __call__(self, row: Row) -> bool:
        """Whether to stop."""
        if self.metric not in row:
            return False
        if row[self.metric] > self.best + self.least_gain:
            self.best, self.waited = row[self.metric], 0
        else:
            self.waited += 1
        return self.waited >= self.patience


class ProgressBar:
    """One line that is written over: steps done, steps a second, the newest metrics.

    Make it when the run begins: until a second row comes, steps a second are since then.
    """

    def __init__(self, total: int, stream: TextIO | None = None) -> None:
        self.total, self.stream = total, stream or sys.stderr
        self._made = time.perf_counter()
        self._first: tuple[float, float] | None = None  # time of the first row, steps until then

    def __call__(self, row: Row) -> None:
        """Write the line."""
        now, done = time.perf_counter(), row["step"]
        if self._first is None or now - self._first[0] < _AT_ONCE:
            begun, before = self._made, 0.0
            self._first = (self._first[0] if self._first else now, done)
        else:
            begun, before = self._first
        pace = (done - before) / max(now - begun, 1e-9)
        share = min(1.0, done / max(1, self.total))
        shown = "  ".join(f"{k} {v:.3g}" for k, v in row.items() if k != "step")
        bar = "█" * int(_WIDTH * share)
        line = f"{bar:░<{_WIDTH}} {done:>9,.0f} steps {pace:>7,.0f}/s  {shown}"
        self.stream.write(f"\r{line:<100}" + ("\n" if share == 1.0 else ""))
        self.stream.flush()


class CSVLog:
    """Rows in a CSV file; a column that appears later begins the file anew with it."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._rows: list[dict[str, float]] = []
        self._columns: list[str] = []

    def __call__(self, row: Row) -> None:
        """Add a row."""
        new = [name for name in row if name not in self._columns]
        self._rows.append(dict(row))
        self._columns += new
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("w" if new else "a", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, self._columns)
            if new:
                writer.writeheader()
            writer.writerows(self._rows if new else self._rows[-1:])


class TensorBoardLog:
    """Rows as TensorBoard scalars; needs `tensorboard`."""

    def __init__(self, folder: str | Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise MissingExtra("tensorboard", "tensorboard") from error
        self._writer: Any = SummaryWriter(str(folder))

    def __call__(self, row: Row) -> None:
        """Add a row."""
        for name, value in row.items():
            if name != "step":
                self._writer.add_scalar(name, value, int(row["step"]))
        self._writer.flush()
