"""What words tell of how often something happened, when they are misread at a rate nobody knows.

    read as happened = s · happened + f · not            s sensitivity, f false alarms
    q = f + (s − f) p
    p(p | k of n read) ∝ Beta(p) ∫∫ q^k (1 − q)^(n − k) dN(logit s) dN(logit f)

The priors of s and f are what the cues of `convgym.calibration.roles` did where labels could check
them (MultiDoGO and MultiWOZ, train parts, `scripts/cue_readings.py`): most were read in .6–1 of the
turns that did it, one in none, and falsely in 0–.24. So a count of words never makes p certain: a
cue that was never found may have been a cue that this corpus does not use. Knows nothing of texts.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from convgym.errors import MissingExtra

Floats = NDArray[np.float64]
SENSITIVITY = (1.2, 4.1)
"""Mean and sd of logit s over 11 pairs of a corpus and something read off its words."""
FALSE_ALARMS = (-4.0, 2.2)
"""Mean and sd of logit f over the same."""
_CELLS, _NODES = 800, 16


def rate_posterior(
    prior: tuple[float, float],
    happened: float,
    n: float,
    false_alarms: tuple[float, float] | None = None,
) -> tuple[float, float, float, float]:
    """Mean, sd, and the ends of the 95 % interval of a rate that was misread.

    prior: (a, b) of its Beta prior.
    happened, n: how often it was read, and could have been; the prior where n is 0.
    false_alarms: (a, b) of a Beta where f is known and s is 1, else both are the cues'.

    Raises MissingExtra without scipy.
    """
    try:
        from scipy.special import logsumexp
        from scipy.stats import beta
    except ImportError as error:
        raise MissingExtra("scipy", "calibration") from error
    edges = np.linspace(0, 1, _CELLS + 1) ** 2  # finer where rare things are
    p = (edges[1:] + edges[:-1]) / 2
    weight = np.diff(beta(*prior).cdf(edges))
    if n:
        if false_alarms is None:
            s, f = (nodes.ravel() for nodes in np.meshgrid(*_cue_nodes()))
        else:
            f = beta(*false_alarms).ppf((np.arange(_NODES) + 0.5) / _NODES)
            s = np.ones(_NODES)
        q = np.clip(f + (s - f) * p[:, None], 1e-12, 1 - 1e-12)  # (cells, nodes)
        likelihood = logsumexp(happened * np.log(q) + (n - happened) * np.log1p(-q), axis=1)
        weight *= np.exp(likelihood - likelihood.max())
    weight /= weight.sum()
    mean = float(weight @ p)
    low, high = np.interp([0.025, 0.975], np.append(0, weight.cumsum()), edges)
    return mean, float(np.sqrt(weight @ (p - mean) ** 2)), float(low), float(high)


@cache
def _cue_nodes() -> tuple[Floats, Floats]:
    from scipy.special import expit, ndtri

    normal = ndtri((np.arange(_NODES) + 0.5) / _NODES)
    s, f = (expit(mean + sd * normal) for mean, sd in (SENSITIVITY, FALSE_ALARMS))
    return s, f
