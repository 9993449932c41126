"""When a user leaves: the hazard P(end | what was said last, how long it has gone on, who it is).

    logit P(end | x) = w₀ + Σ_f w_f [x has feature f]        w_f ~ N(0, 1 / λ), w₀ flat

A discrete-time survival model (Singer & Willett, 1993): every turn after the first is a chance to
leave, so that how many turns a conversation has follows from the same numbers as why it ends. With
features by turn the fit leaves as often at each turn as the log did, up to λ; a product of counts
would not. Knows nothing of texts.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from copy import copy

import numpy as np
from numpy.typing import NDArray

from convgym.errors import MissingExtra

RIDGE = 0.5
"""λ."""
LEAST = 5
"""Times that a feature must have been seen."""

Floats = NDArray[np.float64]


class Termination:
    """A logistic hazard over named features."""

    def __init__(self, seen: Sequence[Sequence[Hashable]], ended: Sequence[bool]) -> None:
        """Learn from the features of every chance to leave, and whether it was taken."""
        counted = Counter(place for features in seen for place in enumerate(features))
        names = [place for place, count in counted.items() if count >= LEAST]
        number = {place: index for index, place in enumerate(names, start=1)}
        width = len(seen[0]) if seen else 0
        rows = np.zeros((len(seen), width + 1), dtype=np.int64)
        for row, features in zip(rows, seen, strict=True):
            row[1:] = [number.get(place, -1) for place in enumerate(features)]
        weights = _fitted(rows, np.asarray(ended, dtype=np.float64), len(names) + 1)
        self._bias = float(weights[0])
        self._weights = {place: float(weights[index]) for place, index in number.items()}

    def probability(self, features: Sequence[Hashable]) -> float:
        """P(end | features); one that was never seen adds nothing."""
        logit = self._bias
        for place in enumerate(features):
            logit += self._weights.get(place, 0.0)
        return 1 / (1 + math.exp(-logit))

    def tilted(self, shift: float, sharpness: float) -> Termination:
        """The hazard with logit' = shift + sharpness · logit (Platt scaling)."""
        made = copy(self)
        made._bias = shift + sharpness * self._bias
        made._weights = {place: sharpness * weight for place, weight in self._weights.items()}
        return made


def _fitted(rows: NDArray[np.int64], ended: Floats, size: int) -> Floats:
    """Weights at the mode of the posterior.  rows: the numbers of features, -1 for none."""
    try:
        from scipy.optimize import minimize
    except ImportError as error:
        raise MissingExtra("scipy", "calibration") from error

    penalty = np.full(size, RIDGE)
    penalty[0] = 0.0
    columns = rows.T % (size + 1)  # -1 becomes the number of a weight that stays 0

    def loss(weights: Floats) -> tuple[float, Floats]:
        logits = np.append(weights, 0.0)[rows].sum(axis=1)
        p = 1 / (1 + np.exp(-np.clip(logits, -500, 500)))
        off = p - ended
        slope = np.bincount(columns.ravel(), np.tile(off, len(columns)), minlength=size + 1)[:size]
        value = np.logaddexp(0.0, logits).sum() - ended @ logits + penalty @ weights**2 / 2
        return float(value), slope + penalty * weights

    found: Floats = minimize(loss, np.zeros(size), jac=True, method="L-BFGS-B").x
    return found
