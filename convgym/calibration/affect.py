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

from convgym.calibration.laplace import laplace
from convgym.calibration.misreading import FALSE_ALARMS, HARDLY_READ

Floats = NDArray[np.float64]
NAMES = (
    "patience_mu", "patience_sd", "fr_gain_fail", "fr_gain_repeat", "fr_decay", "quit_fr",
    "escalate_fr", "empathy_relief",
)  # fmt: skip
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(5)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
_LEAST = 1e-300


def affect_posterior(
    events: Sequence[NDArray[np.bool_]],
    mean: Floats,
    sd: Floats,
    escalations_labelled: bool = True,
    closings_labelled: bool = True,
) -> tuple[Floats, Floats]:
    """Mode and standard deviations of the eight numbers, on the scale of their links.

    events: of each conversation (turns, 5): failed, repeated, empathy, escalated, left.
    mean, sd: of the normal prior.  (8,)
    escalations_labelled: else they were misread at two rates that are estimated as well, from the
        priors of `convgym.calibration.misreading`.
    closings_labelled: else nothing tells who left from who closed in other words, and leaving
        says nothing.
    """
    longest = max(map(len, events))
    padded = np.zeros((longest, len(events), 5))
    there = np.zeros((longest, len(events)))
    for number, rows in enumerate(events):
        padded[: len(rows), number] = rows
        there[: len(rows), number] = 1.0
    nuisance = np.array([] if escalations_labelled else [FALSE_ALARMS, HARDLY_READ]).reshape(-1, 2)

    def log_likelihood(free: Floats) -> Floats:
        reading = (0.0, 1.0) if escalations_labelled else _sigmoid(free[len(mean) :])
        return _log_likelihood(free[: len(mean)], reading, closings_labelled, padded, there)

    mode, spread = laplace(
        log_likelihood, np.append(mean, nuisance[:, 0]), np.append(sd, nuisance[:, 1])
    )
    return mode[: len(mean)], spread[: len(mean)]


def _log_likelihood(
    free: Floats, reading: Sequence[float] | Floats, closings: bool, events: Floats, there: Floats
) -> Floats:
    """Of each conversation.

    reading: P(an escalation is read | none), and P(it is read | one).
    there: 1 where a turn is.  (turns, conversations)
    """
    mu, ln_sd, fail, repeat, decay, leave, escalate, relief = free
    alarm, right = reading
    gain = np.exp([fail, repeat, relief])
    keeps = 1 / (1 + np.exp(-decay))
    patience = np.exp(mu + np.exp(ln_sd) * _NODES)  # (5,)
    frustration = np.zeros(events.shape[1])
    total = np.zeros((events.shape[1], len(_NODES)))
    for row, seen in zip(events, there, strict=True):
        added = gain[0] * row[:, 0] + gain[1] * row[:, 1] - gain[2] * row[:, 2]
        frustration = np.maximum(0.0, keeps * frustration + added)
        over = frustration[:, None] - patience
        escalates = alarm + (right - alarm) * _sigmoid(np.exp(escalate) * over)
        told = np.log(np.maximum(_chosen(row[:, 3], escalates), _LEAST))
        if closings:
            leaves = _sigmoid(np.exp(leave) * over)
            told += np.log(np.maximum(_chosen(row[:, 4], leaves), _LEAST))
        total += seen[:, None] * told
    found: Floats = np.logaddexp.reduce(total + np.log(_WEIGHTS), axis=1)
    return found


def _chosen(happened: Floats, p: Floats) -> Floats:
    return np.where(happened[:, None] > 0, p, 1 - p)


def _sigmoid(x: Floats) -> Floats:
    return 1 / (1 + np.exp(-np.clip(x, -500.0, 500.0)))
