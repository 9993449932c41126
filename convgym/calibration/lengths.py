"""How many words turns have: six numbers from counts that are whole, clustered and at times habit.

    y = ln(1 + words) = len_mu + u + len_per_slot · slots + len_fr · failures + ε
        u ~ N(0, verb_sd²) of a user, ε ~ N(0, len_sd²) of a turn
    of answers, a share short_answer is of `SHORT` words or fewer, whatever y would be

Words come whole: k words say that y lay between ln(k + ½) and ln(k + 3/2), one word that it lay
below. u is integrated out by Gauss-Hermite quadrature about where a user's turns put it. Where no
slots are labelled, what they add to the spread, to other turns and to answers are three numbers
more, and `len_per_slot` is the prior's; where agents' failures are read off words, how many true
ones stand for one read is one more. Knows nothing of texts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from convgym.calibration.laplace import laplace
from convgym.errors import MissingExtra

Floats = NDArray[np.float64]
NAMES = ("len_mu", "len_per_slot", "len_fr", "len_sd", "verb_sd", "short_answer")
SHORT = 2
"""Words of a short answer at most."""
UNLABELLED = np.array([(math.log(0.1), 0.7), (0.05, 0.12), (0.05, 0.12)])
"""Means and sds of what slots do where none are labelled: the logarithm of the sd of y by their
number, and what they add to a turn and to an answer; of half a slot, give or take a third, at the
prior of len_per_slot."""
TRUE_FAILURES = np.array([(0.86, 0.3)])
"""Mean and sd of the slope of true failures so far on those read (MultiWOZ, train part: .86)."""
MOST = 2_000
"""Conversations that are looked at; more would tell little and take long."""
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(5)
_WEIGHTS = np.log(_WEIGHTS / _WEIGHTS.sum()) + _NODES**2 / 2
_LEAST = 1e-12


def length_posterior(
    turns: Sequence[tuple[int, int, bool, int, int]],
    mean: Floats,
    sd: Floats,
    slots_labelled: bool = True,
    failures_labelled: bool = True,
) -> tuple[Floats, Floats]:
    """Mode and standard deviations of `NAMES`: sds as logarithms, the share as its logit.

    turns: (conversation, words, answers a question, slots told, failures so far) of each, those
        of a conversation together.
    mean, sd: of the normal prior.  (6,)
    slots_labelled, failures_labelled: whether those numbers are known.
    """
    try:
        from scipy.special import ndtr
    except ImportError as error:
        raise MissingExtra("scipy", "calibration") from error
    number, words, answers, slots, failures = np.array(turns, dtype=float).T
    _, starts, owner = np.unique(number, return_index=True, return_inverse=True)
    if len(starts) > MOST:
        number, words, answers, slots, failures, owner = (
            column[: starts[MOST]] for column in (number, words, answers, slots, failures, owner)
        )
        starts = starts[:MOST]
    length = np.log1p(words)
    above, below = np.log(words + 1.5), np.where(words > 1, np.log(words + 0.5), -np.inf)
    short = (answers == 1) & (words <= SHORT)  # drawn short, or short by habit
    below[short], above[short] = -np.inf, np.log(SHORT + 1.5)
    drawn = np.where(short, 0.0, 1.0)

    def log_likelihood(free: Floats) -> Floats:
        start, per_slot, per_failure, ln_sd, ln_verbosity, habit = free[: len(NAMES)]
        scale, spread, habit = np.exp(ln_sd), np.exp(ln_verbosity), 1 / (1 + np.exp(-habit))
        trouble = per_failure * failures * (1.0 if failures_labelled else free[-1])
        expected, noise = start + per_slot * slots + trouble, scale
        if not slots_labelled:
            ln_noise, told, answered = free[len(NAMES) : len(NAMES) + 3]
            expected = start + np.where(answers == 1, answered, told) + trouble
            noise = np.sqrt(scale**2 + np.exp(2 * ln_noise))
        weight = drawn / noise**2
        tight = 1 / (np.bincount(owner, weight) + spread**-2)  # variance of u, given the turns
        about = tight * np.bincount(owner, weight * (length - expected))
        u = about + np.sqrt(tight) * _NODES[:, None]  # (nodes, users)
        centre = expected + u[:, owner]
        inside = ndtr((above - centre) / noise) - ndtr((below - centre) / noise)
        said = np.where(answers == 1, habit * short + (1 - habit) * inside, inside)
        users = np.add.reduceat(np.log(np.maximum(said, _LEAST)), starts, axis=1)
        users += _WEIGHTS[:, None] + np.log(tight / spread**2) / 2 - (u / spread) ** 2 / 2
        total: Floats = np.logaddexp.reduce(users, axis=0)
        return total

    more = [np.stack([mean, sd], axis=1)]
    more += [] if slots_labelled else [UNLABELLED]
    more += [] if failures_labelled else [TRUE_FAILURES]
    mode, deviation = laplace(log_likelihood, *np.concatenate(more).T)
    return mode[: len(NAMES)], deviation[: len(NAMES)]
