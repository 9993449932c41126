"""Token buckets: so many requests a second on average, so many at once.

    tokens(t) = min(burst, tokens(t₀) + rate · (t − t₀));  a request takes one, or waits

Knows nothing of requests.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable


class TokenBuckets:
    """One bucket for each name; the names least recently seen are forgotten beyond `most`."""

    def __init__(
        self,
        rate: float,
        burst: float,
        most: int = 10_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`rate` in tokens a second."""
        self._rate, self._burst, self._most, self._clock = rate, float(burst), most, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, name: str) -> float:
        """0 where a token was there and is taken; else the seconds until there is one."""
        now = self._clock()
        tokens, since = self._buckets.pop(name, (self._burst, now))
        tokens = min(self._burst, tokens + self._rate * max(0.0, now - since))
        wait = 0.0 if tokens >= 1.0 else (1.0 - tokens) / self._rate
        self._buckets[name] = (tokens if wait else tokens - 1.0, now)
        if len(self._buckets) > self._most:
            self._buckets.popitem(last=False)
        return wait
