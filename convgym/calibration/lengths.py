"""How many words turns have: five numbers from counts that are whole, cut short and clustered.

    y = ln(1 + words) = len_mu + u + len_per_slot · slots + len_fr · failures + ε
        u ~ N(0, verb_sd²) of a user, ε ~ N(0, len_sd²) of a turn

Words come whole: k words say that y lay between ln(k + ½) and ln(k + 3/2), one word that it lay
below. An answer of `SHORT` words or fewer may be a habit (`short_answer`) rather than this draw, so
answers count only where they are longer, and their likelihood is that of longer ones. u is
integrated out by Gauss-Hermite quadrature. Knows nothing of texts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from convgym.calibration.laplace import laplace
from convgym.errors import MissingExtra

Floats = NDArray[np.float64]
NAMES = ("len_mu", "len_per_slot", "len_fr", "len_sd", "verb_sd")
SHORT = 2
"""Words of a short answer at most."""
MOST = 2_000
"""Conversations that are looked at; more would tell little and take long."""
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(9)
_WEIGHTS = np.log(_WEIGHTS / _WEIGHTS.sum())
_LEAST = 1e-9


def length_posterior(
    turns: Sequence[tuple[int, int, bool, int, int]], mean: Floats, sd: Floats
) -> tuple[Floats, Floats]:
    """Mode and standard deviations of `NAMES`, the last two as logarithms.

    turns: (conversation, words, answers a question, slots told, failures so far) of each, those
        of a conversation together; answers of `SHORT` words or fewer are left out.
    mean, sd: of the normal prior.  (5,)
    """
    try:
        from scipy.special import ndtr
    except ImportError as error:
        raise MissingExtra("scipy", "calibration") from error
    number, words, answers, slots, failures = np.array(turns, dtype=float).T
    _, owner = np.unique(number, return_inverse=True)
    kept = (owner < MOST) & ((words > SHORT) | (answers == 0))
    _, starts = np.unique(owner[kept], return_index=True)
    words, answers, slots, failures = (x[kept] for x in (words, answers, slots, failures))
    above = np.log(words + 1.5)
    below = np.where(words > 1, np.log(words + 0.5), -np.inf)
    shortest = np.where(answers == 1, np.log(SHORT + 1.5), -np.inf)

    def log_likelihood(free: Floats) -> Floats:
        start, per_slot, per_failure, ln_sd, ln_verbosity = free
        expected = start + per_slot * slots + per_failure * failures
        centre = expected + np.exp(ln_verbosity) * _NODES[:, None]  # (nodes, turns)
        scale = np.exp(ln_sd)
        inside = ndtr((above - centre) / scale) - ndtr((below - centre) / scale)
        possible = ndtr((centre - shortest) / scale)
        told = np.log(np.maximum(inside, _LEAST)) - np.log(np.maximum(possible, _LEAST))
        users = np.add.reduceat(told, starts, axis=1) + _WEIGHTS[:, None]
        total: Floats = np.logaddexp.reduce(users, axis=0)
        return total

    return laplace(log_likelihood, mean, sd)
