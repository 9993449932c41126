"""Intervals for what evaluation reports: Wilson for shares, normal for means.

Several episodes of one task are not independent: hand in one number per task, its mean, or see
`convgym.evaluation.bootstrap`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

_Z95 = 1.959963984540054

WILSON, NORMAL, BOOTSTRAP = "wilson", "normal", "cluster bootstrap"


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number, where it may lie with 95 % confidence, and how that was found."""

    value: float
    low: float
    high: float
    method: str
    """`wilson`, `normal` or `cluster bootstrap`."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


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
    mean, half = math.fsum(values) / n, z * standard_error(values)
    return mean - half, mean + half


def standard_error(values: Sequence[float]) -> float:
    """Standard error of a mean, s / √n with s over n − 1.

    `values` are one number per task: 0 or 1 where a task was played once, else the mean of its
    runs; then it is the cluster-robust error. A share of ½ over 2,000 tasks has 0.0112, that is
    1.1 points. Raises ValueError for fewer than two values.
    """
    n = len(values)
    if n < 2:
        raise ValueError(f"{n} values; a standard error takes two or more")
    mean = math.fsum(values) / n
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1) / n)
