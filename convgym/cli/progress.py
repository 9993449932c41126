"""How far a long job is: on a terminal one line that is written over, else a line each tenth."""

from __future__ import annotations

import sys
from collections.abc import Callable

_WIDTH = 24


class Bar:
    """Say how much of `total` is done; `tell` is for where nobody watches."""

    def __init__(self, total: int, tell: Callable[[str], None]) -> None:
        self._total, self._tell, self._tenth = total, tell, 0
        self._typed, self._open = sys.stderr.isatty(), False

    def at(self, done: float, more: str = "") -> None:
        """So much is done."""
        share = min(1.0, done / max(1, self._total))
        line = f"{done:>9,.0f} of {self._total:,}  {more}".rstrip()
        if self._typed:
            filled = "█" * int(_WIDTH * share)
            sys.stderr.write(f"\r{filled:░<{_WIDTH}} {line:<90}")
            sys.stderr.flush()
            self._open = True
        elif int(10 * share) > self._tenth:
            self._tenth = int(10 * share)
            self._tell(line)

    def close(self) -> None:
        """End the line that is written over."""
        if self._open:
            sys.stderr.write("\n")
            self._open = False
