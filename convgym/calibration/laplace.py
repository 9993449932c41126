"""Posteriors of a few numbers by Laplace's method, with conversations as what is drawn.

    log p(free | log) = Σ_conversations log p(conversation | free) − |(free − mean) / sd|² / 2

    covariance        H⁻¹ G H⁻¹     H curvature at the mode, G the scores' spread over conversations

Where the likelihood is right, G is about H and the covariance H⁻¹; where it is not, as when turns
of a user are more alike than it says, the sandwich keeps the uncertainty honest (White, 1982,
"Maximum likelihood estimation of misspecified models"). Derivatives are differences. Knows nothing
of what the numbers mean.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from convgym.errors import MissingExtra

Floats = NDArray[np.float64]
_STEP = 1e-3
"""Of a difference, in prior standard deviations."""


def laplace(
    log_likelihood: Callable[[Floats], Floats], mean: Floats, sd: Floats
) -> tuple[Floats, Floats]:
    """The posterior's mode and standard deviations.  (d,), (d,)

    log_likelihood: of each conversation, given the numbers.  (d,) → (conversations,)
    mean, sd: of the normal prior.  (d,)

    Raises MissingExtra without scipy.
    """
    try:
        from scipy.optimize import minimize
    except ImportError as error:
        raise MissingExtra("scipy", "calibration") from error

    def told(free: Floats) -> Floats:  # free: in prior standard deviations from the prior's mean
        return log_likelihood(mean + sd * free)

    def loss(free: Floats) -> float:
        return float(free @ free / 2 - told(free).sum())

    mode: Floats = minimize(loss, np.zeros(len(mean)), method="L-BFGS-B").x
    steps = np.eye(len(mean)) * _STEP
    scores = np.stack([told(mode + a) - told(mode - a) for a in steps]) / (2 * _STEP)
    curve = np.array(
        [
            [
                loss(mode + a + b) - loss(mode + a - b) - loss(mode - a + b) + loss(mode - a - b)
                for b in steps
            ]
            for a in steps
        ]
    ) / (4 * _STEP**2)
    # No direction can be less certain than the prior left it.
    values, vectors = np.linalg.eigh((curve + curve.T) / 2)
    inverse = (vectors / np.maximum(values, 1.0)) @ vectors.T
    centred = scores - scores.mean(axis=1, keepdims=True)
    robust = inverse @ (centred @ centred.T + np.eye(len(mean))) @ inverse
    return mean + sd * mode, sd * np.minimum(1.0, np.sqrt(robust.diagonal()))
