"""Noise floors: how far two halves of the same real conversations lie apart.

    real ─► random halves of n ─► measured as sim against real would be ─► mean, 95th percentile
              many times

Floors fall as n grows, so one that belongs to another n says nothing. Where there are fewer than
2 n real conversations, the halves have m < n, and what they gave is carried on to n by the power
law that halves of m / 2 and of m have shown:

    floor(n) = floor(m) · (m / n)^b,   b = log₂(floor(m / 2) / floor(m)), held in [−1, 1]

Sampling theory has b = 1 for KL, JS and MMD² of few categories, ½ for distances of means and
AUCs; words are so many that b is smaller. Knows nothing of what is measured.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Measure = Callable[[NDArray[np.int64], NDArray[np.int64]], dict[str, float]]
"""Values of two sets of conversations, by their numbers; a value is at least 0 or around it."""


@dataclass(frozen=True, slots=True)
class Floor:
    """What chance alone gives at n conversations a side."""

    mean: float
    p95: float
    n: int
    halves: int
    """Conversations in each half that was measured; below n, the floor was carried on to n."""


def noise_floors(
    measure: Measure, real: NDArray[np.int64], n: int, splits: int, seed: int = 0
) -> dict[str, Floor]:
    """Floors at n of every value that `measure` gives.

    real: the numbers of the real conversations, at least 4.  (R,)
    """
    halves = min(n, len(real) // 2)
    values = _measured(measure, real, halves, splits, seed)
    smaller = {} if halves == n else _measured(measure, real, halves // 2, splits, seed)
    floors = {}
    for name, found in values.items():
        slope = _slope(smaller[name], found, halves) if name in smaller else 0.0
        scale = (halves / n) ** slope
        mean, p95 = float(np.mean(found)) * scale, float(np.quantile(found, 0.95)) * scale
        floors[name] = Floor(mean, p95, n, halves)
    return floors


def _measured(
    measure: Measure, real: NDArray[np.int64], halves: int, splits: int, seed: int
) -> dict[str, NDArray[np.float64]]:
    """By name the values of the splits that had one.  (splits,) each, or fewer"""
    chance = np.random.default_rng(seed)
    found = []
    for _ in range(splits):
        drawn = chance.permutation(real)[: 2 * halves]
        found.append(measure(drawn[:halves], drawn[halves:]))
    names = dict.fromkeys(name for values in found for name in values)
    return {name: np.array([v[name] for v in found if name in v]) for name in names}


def _slope(smaller: NDArray[np.float64], larger: NDArray[np.float64], halves: int) -> float:
    """The exponent b of the power law from halves of m / 2 to halves of m."""
    sizes = float(np.abs(smaller).mean()), float(np.abs(larger).mean())
    if not min(sizes) > 0:
        return 0.0
    return float(np.clip(np.log(sizes[0] / sizes[1]) / np.log(halves / (halves // 2)), -1.0, 1.0))
