"""A circuit breaker: after enough failures in a row, no call goes out for a while.

Knows nothing of what a call is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class CircuitBreaker:
    """Whether calls may go out, after how they went so far.

    closed ──`failures` in a row──► open ──`cooldown` over──► probing
       ▲                              ▲──────── dead ────────────┤
       └────────────────────── alive ────────────────────────────┘
    """

    def __init__(self, failures: int, cooldown: float, clock: Callable[[], float]) -> None:
        self._most, self._cooldown, self._clock = failures, cooldown, clock
        self._lock = threading.Lock()
        self._failures = 0
        self._opened: float | None = None
        self._probing = False

    @property
    def closed(self) -> bool:
        """Whether any call may go out."""
        return self._opened is None

    def admit(self) -> str:
        """`call` or `probe`, to be given back to `report`; nothing while the circuit is open."""
        with self._lock:
            if self._opened is None:
                return "call"
            if self._probing or self._clock() - self._opened < self._cooldown:
                return ""
            self._probing = True
            return "probe"

    def report(self, ticket: str, *, alive: bool) -> None:
        """How an admitted call ended."""
        with self._lock:
            if ticket == "probe":
                self._probing = False
            if alive:
                self._failures, self._opened = 0, None
                return
            self._failures += 1
            if ticket == "probe" or (self._opened is None and self._failures >= self._most):
                self._opened = self._clock()
