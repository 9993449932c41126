"""How far a mean of bounded values may lie, at every moment at once: tests by betting.

    wealth(m) = mean over stakes λ of Π_i (1 + λ (m − x_i))        bets that the mean is below m

Were the mean m or above, nobody could expect such a wealth to grow: it is 1 on average after any
number of values, and by Ville's inequality it reaches 1/α ever, at whatever moment one looks, with
probability α at most. The values that no wealth has reached 2/α against, from either side, are a
confidence sequence: with probability 1 − α it holds the mean at all times (Waudby-Smith & Ramdas,
2024, arXiv:2010.09686). Stakes are fixed beforehand and mixed. Wider than an interval that is
looked at once; what a newcomer would get wrong is to look at such a one every day.

Needs independent values within known bounds; nothing else of their distribution.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from convgym.errors import InvalidConfiguration

Floats = NDArray[np.float64]
Bounds = tuple[float, float]
_STAKES = np.geomspace(0.01, 0.95, 14)
"""Shares of the largest stake that can never lose all."""
_LEAST = 1e-9
_STEPS = 40
"""Halvings that find an end."""


def confidence_sequence(values: Sequence[float], alpha: float, bounds: Bounds) -> Bounds:
    """Where the mean lies, with probability 1 − α now and at all times before and after.

    Raises InvalidConfiguration for values outside of the bounds.
    """
    scaled, counts = _scaled(values, bounds)
    limit = np.log(2 / alpha)
    mean = float(scaled @ counts / counts.sum()) if len(scaled) else 0.5
    low = _end(mean, 0.0, lambda m: _log_wealth(1 - scaled, counts, 1 - m) < limit)
    high = _end(mean, 1.0, lambda m: _log_wealth(scaled, counts, m) < limit)
    width = bounds[1] - bounds[0]
    return bounds[0] + width * low, bounds[0] + width * high


def _log_wealth(scaled: Floats, counts: Floats, m: float) -> float:
    """ln of the wealth of who bets that the mean is below m, in (0, 1].  both (distinct values,)"""
    stakes = _STAKES / max(1 - m, _LEAST)
    growth = np.log1p(stakes[:, None] * (m - scaled)[None, :]) @ counts
    return float(np.logaddexp.reduce(growth) - np.log(len(stakes)))


def _end(inside: float, outside: float, holds: Callable[[float], bool]) -> float:
    """The last value that holds, on the way from one that does."""
    if holds(outside):
        return outside
    for _ in range(_STEPS):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if holds(middle) else (inside, middle)
    return outside


def _scaled(values: Sequence[float], bounds: Bounds) -> tuple[Floats, Floats]:
    """Distinct values on [0, 1], and how often each came."""
    low, high = bounds
    found = np.asarray(values, dtype=np.float64)
    if not low < high:
        raise InvalidConfiguration(f"the bounds {low:g} and {high:g} came; the first is the lower")
    if len(found) and (found.min() < low or found.max() > high or np.isnan(found).any()):
        raise InvalidConfiguration(
            f"values from {found.min():g} to {found.max():g} came, and the bounds {low:g} and "
            f"{high:g}; give bounds that no value can leave"
        )
    distinct, counts = np.unique((found - low) / (high - low), return_counts=True)
    return distinct, counts.astype(np.float64)
