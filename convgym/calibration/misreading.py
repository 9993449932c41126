"""What words tell of how often something happened, when they are misread at a rate nobody knows.

    read as happened = s · happened + f · not            s sensitivity, f false alarms
    q = f + (s − f) p
    p(p | k of n read) ∝ Beta(p) ∫∫ q^k (1 − q)^(n − k) dN(logit s) dN(logit f)

The priors of s and f are what the cues of `convgym.calibration.roles` did where labels could check
them, in 47 pairs of a role and a corpus: two corpora of logs (train parts) and the phrases of our
own domains (`scripts/cue_readings.py`). Thanks were read in .6 to 1 of the turns that give them,
complaints and corrections in 0 to .2. So a count of words never makes p certain: a cue that was
never found may have been one that this corpus does not use. Knows nothing of texts.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from convgym.errors import MissingExtra

Floats = NDArray[np.float64]
SENSITIVITY = (-0.3, 2.3)
"""Mean and sd of logit s, over the pairs that were ever read."""
FALSE_ALARMS = (-5.4, 2.0)
"""Mean and sd of logit f, over all."""
UNREAD = 6 / 19
"""Share of pairs that were never read, among those that are not `WELL_READ`."""
HARDLY_READ = (-3.4, 1.7)
"""Mean and sd of logit s over all of those, the ones that were never read as read half a time."""
WELL_READ = frozenset(
    ("greet", "question", "reject", "ack", "thank", "bye", "politeness", "open_slot")
)
"""What most people say in much the same words; a slot is a number. None of these was never read."""
_CELLS, _NODES = 800, 16


def rate_posterior(
    prior: tuple[float, float], happened: float, n: float, unread: float = 0.0
) -> tuple[float, float, float, float]:
    """Mean, sd, and the ends of the 95 % interval of a rate that was misread.

    prior: (a, b) of its Beta prior.
    happened, n: how often it was read, and could have been; the prior where n is 0.
    unread: prior probability that s is 0.

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
        s, f = (nodes.ravel() for nodes in np.meshgrid(*_nodes()))
        share = np.where(s, 1 - unread, unread * _NODES)
        q = np.clip(f + (s - f) * p[:, None], 1e-12, 1 - 1e-12)  # (cells, nodes)
        told = happened * np.log(q) + (n - happened) * np.log1p(-q)
        likelihood = logsumexp(told, b=share, axis=1)
        weight *= np.exp(likelihood - likelihood.max())
    weight /= weight.sum()
    mean = float(weight @ p)
    low, high = np.interp([0.025, 0.975], np.append(0, weight.cumsum()), edges)
    return mean, float(np.sqrt(weight @ (p - mean) ** 2)), float(low), float(high)


@cache
def _nodes() -> tuple[Floats, Floats]:
    """Equally likely values of s, with a 0 before them, and of f."""
    from scipy.special import expit, ndtri

    normal = ndtri((np.arange(_NODES) + 0.5) / _NODES)
    s, f = (expit(mean + sd * normal) for mean, sd in (SENSITIVITY, FALSE_ALARMS))
    return np.append(0.0, s), f
