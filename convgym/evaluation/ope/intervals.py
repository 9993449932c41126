"""Intervals of off-policy estimates: which one an estimate may carry, and the arithmetic.

    IS, PDIS          Student t of the conversations' terms: independent, unbiased
    WIS … WDR         conversations drawn again, whole ones, never turns
    bounds            empirical Bernstein, Hoeffding: of terms whose range is *given*
    FQE, model-based  none: they err by bias, which drawing again does not show

    Hoeffding             (high − low) √( ln(2/α) / (2 n) )
    empirical Bernstein   √( 2 s² ln(4/α) / n ) + 7 (high − low) ln(4/α) / (3 (n − 1))

Both are half-widths at confidence 1 − α (Hoeffding, 1963; Maurer & Pontil, 2009, arXiv:0907.3740,
theorem 4, once from each side). They shrink with n, and they hold only for a range known
beforehand: the largest term that came is no bound of those that may come.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from convgym.errors import InvalidConfiguration
from convgym.evaluation.ope.estimators import Floats

Interval = tuple[float, float]
ALPHA = 0.05


def student_t(terms: Floats, alpha: float = ALPHA) -> Interval:
    """Mean ± t s / √n of independent terms (n,); raises ValueError for fewer than two."""
    n = len(terms)
    if n < 2:
        raise ValueError(f"{n} terms; an interval takes two or more")
    half = t_quantile(1 - alpha / 2, n - 1) * float(np.std(terms, ddof=1)) / math.sqrt(n)
    return float(terms.mean()) - half, float(terms.mean()) + half


def redrawn_interval(redrawn: Floats, alpha: float = ALPHA) -> Interval:
    """Middle 1 − α of redrawn estimates; redraws without any weight are left out.  (resamples,)"""
    kept = redrawn[np.isfinite(redrawn)]
    low, high = np.quantile(kept, [alpha / 2, 1 - alpha / 2])
    return float(low), float(high)


def hoeffding(terms: Floats, low: float, high: float, alpha: float = ALPHA) -> Interval:
    """Of terms (n,) in [low, high].

    Raises InvalidConfiguration for a term outside: the range is then not one.
    """
    _check_range(terms, low, high)
    half = (high - low) * math.sqrt(math.log(2 / alpha) / (2 * len(terms)))
    return float(terms.mean()) - half, float(terms.mean()) + half


def empirical_bernstein(terms: Floats, low: float, high: float, alpha: float = ALPHA) -> Interval:
    """Of terms (n,) in [low, high], n ≥ 2; narrower than Hoeffding's where they vary little.

    Raises InvalidConfiguration for a term outside: the range is then not one.
    """
    _check_range(terms, low, high)
    n, told = len(terms), math.log(4 / alpha)
    spread = math.sqrt(2 * float(np.var(terms, ddof=1)) * told / n)
    half = spread + 7 * (high - low) * told / (3 * (n - 1))
    return float(terms.mean()) - half, float(terms.mean()) + half


def _check_range(terms: Floats, low: float, high: float) -> None:
    if len(terms) < 2 or not low < high or terms.min() < low or terms.max() > high:
        raise InvalidConfiguration(
            f"{len(terms)} terms between {terms.min():.4g} and {terms.max():.4g}, and the range "
            f"given is [{low:.4g}, {high:.4g}]; give one that all possible terms are in"
        )


@cache
def t_quantile(probability: float, degrees: int) -> float:
    """Student's t by its density, added up: within 1e-6 for 1 degree and more.

    # P(T ≤ found) = probability, above ½
    """
    # With x = tan(θ) √ν the density is cos(θ)^(ν−1) dθ: smooth, on a finite range.
    theta = np.linspace(0.0, math.pi / 2, 200_001)
    density = np.cos(theta) ** (degrees - 1)
    mass = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    wanted = (2 * probability - 1) * mass[-1]
    return math.tan(float(np.interp(wanted, mass, theta))) * math.sqrt(degrees)
