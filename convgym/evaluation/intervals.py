"""Intervals for what evaluation reports: Wilson for shares, normal for means."""

from __future__ import annotations

import math
from collections.abc import Sequence

_Z95 = 1.959963984540054


def wilson(successes: int, n: int, z: float = _Z95) -> tuple[float, float]:
    """Wilson's score interval of a share (Wilson, 1927); never leaves [0, 1].

    Raises ValueError unless 0 ≤ successes ≤ n and n ≥ 1.
    """
    if not 0 <= successes <= n or n < 1:
        raise ValueError(f"{successes} successes of {n}; it takes 0 <= successes <= n, n >= 1")
    share = successes / n
    spread = 1 + z * z / n
    centre = (share + z * z / (2 * n)) / spread
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / spread
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == n else min(1.0, centre + half)
    return low, high


def mean_interval(values: Sequence[float], z: float = _Z95) -> tuple[float, float]:
    """Normal interval of a mean; raises ValueError for fewer than two values."""
    n = len(values)
    if n < 2:
        raise ValueError(f"{n} values; an interval of a mean takes two or more")
    mean = math.fsum(values) / n
    variance = math.fsum((value - mean) ** 2 for value in values) / (n - 1)
    half = z * math.sqrt(variance / n)
    return mean - half, mean + half
