"""What listens while a learner learns: every learner here calls the same few.

    row    {"step": 2000, "loss": 0.31, "success": 0.4, …}   means since the last row, evaluations
    callback(row) ─► True to stop, else None

A callback is any such function; these have a memory. Knows nothing of learners.
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


class EarlyStopping:
    """Stops once `metric` has not risen by `least` in `patience` rows that have it."""

    def __init__(self, metric: str, patience: int = 5, least: float = 0.0) -> None:
        if patience < 1:
            raise InvalidConfiguration(f"patience={patience}; it must be 1 or more")
        self.metric, self.patience, self.least = metric, patience, least
        self.best, self.since = -float("inf"), 0

    def __call__(self, row: Row) -> bool:
        """Whether to stop."""
        if self.metric in row:
            better = row[self.metric] > self.best + self.least
            self.best = max(self.best, row[self.metric])
            self.since = 0 if better else self.since + 1
        return self.since >= self.patience


class ProgressBar:
    """One line that is written over: steps done, time left, the newest metrics."""

    def __init__(self, total: int, stream: TextIO | None = None) -> None:
        self.total, self.stream = total, stream or sys.stderr
        self._begun, self._first = time.monotonic(), 0.0

    def __call__(self, row: Row) -> None:
        """Write the line."""
        done = row["step"]
        if not self._first:
            self._first = done
            left = ""
        else:
            pace = (time.monotonic() - self._begun) / max(done - self._first, 1.0)
            left = f"{pace * (self.total - done):5.0f} s left"
        share = min(done / self.total, 1.0)
        bar = "#" * round(20 * share)
        shown = "  ".join(f"{k} {v:.4g}" for k, v in row.items() if k != "step")
        end = "\n" if share == 1.0 else ""
        self.stream.write(f"\r{bar:.<20} {done:.0f}/{self.total} {left} {shown}\033[K{end}")
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
