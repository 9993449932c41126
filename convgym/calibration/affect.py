"""Frustration from logs: eight numbers by which agents' failures make users escalate and leave.

    f₀ = 0
    f_t = max(0, fr_decay · f_{t−1} + fr_gain_fail · failed_t + fr_gain_repeat · repeated_t
                 − empathy_relief · empathy_t)
    patience of a user     ln N(patience_mu, patience_sd)
    P(escalates at t)      σ(escalate_fr · (f_t − patience))
    P(leaves at t)         σ(quit_fr · (f_t − patience))       to end without thanks or bye

The posterior's mode and its curvature there (Laplace), patience integrated out by five-point
Gauss-Hermite quadrature. What a newcomer would get wrong: only differences of f and patience are
seen, so that gains, patience and slopes trade against each other; the posterior says by how much,
and without failures in the log it is the prior. Knows nothing of texts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from convgym.errors import MissingExtra

Floats = NDArray[np.float64]
NAMES = (
    "patience_mu", "patience_sd", "fr_gain_fail", "fr_gain_repeat", "fr_decay", "quit_fr",
    "escalate_fr", "empathy_relief",
)  # fmt: skip
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(5)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
_STEP = 1e-3


def affect_posterior(
    events: Sequence[NDArray[np.bool_]], mean: Floats, sd: Floats
) -> tuple[Floats, Floats]:
    """Mode and standard deviations of the eight numbers, on the scale of their links.

    events: of each conversation (turns, 5): failed, repeated, empathy, escalated, left.
    mean, sd: of the normal prior.  (8,)
    """
    try:
        from scipy.optimize import minimize
    except ImportError as error:
        raise MissingExtra("scipy", "calibration") from error
    longest = max(map(len, events))
    padded = np.zeros((longest, len(events), 5))
    there = np.zeros((longest, len(events)))
    for number, rows in enumerate(events):
        padded[: len(rows), number] = rows
        there[: len(rows), number] = 1.0

    def loss(free: Floats) -> float:
        prior = float(np.square((free - mean) / sd).sum()) / 2
        return prior - _log_likelihood(free, padded, there)

    mode: Floats = minimize(loss, mean, method="L-BFGS-B", options={"maxiter": 60}).x
    steps = np.eye(len(mean)) * _STEP * sd
    curve = np.array(
        [
            [
                loss(mode + a + b) - loss(mode + a - b) - loss(mode - a + b) + loss(mode - a - b)
                for b in steps
            ]
            for a in steps
        ]
    ) / (4 * np.outer(_STEP * sd, _STEP * sd))
    # No direction can be less certain than the prior left it.
    values, vectors = np.linalg.eigh(curve * np.outer(sd, sd))
    spread = (vectors / np.maximum(values, 1.0)) @ vectors.T
    return mode, sd * np.sqrt(spread.diagonal())


def _log_likelihood(free: Floats, events: Floats, there: Floats) -> float:
    mu, ln_sd, fail, repeat, decay, leave, escalate, relief = free
    gain = np.exp([fail, repeat, relief])
    keeps = 1 / (1 + np.exp(-decay))
    patience = np.exp(mu + np.exp(ln_sd) * _NODES)  # (5,)
    frustration = np.zeros(events.shape[1])
    total = np.zeros((events.shape[1], len(_NODES)))
    for row, seen in zip(events, there, strict=True):
        added = gain[0] * row[:, 0] + gain[1] * row[:, 1] - gain[2] * row[:, 2]
        frustration = np.maximum(0.0, keeps * frustration + added)
        over = frustration[:, None] - patience
        for slope, happened in ((escalate, row[:, 3]), (leave, row[:, 4])):
            logit = np.exp(slope) * over
            total += seen[:, None] * (happened[:, None] * logit - np.logaddexp(0.0, logit))
    return float(np.logaddexp.reduce(total + np.log(_WEIGHTS), axis=1).sum())
