"""Arithmetic of offline learners over vectors; tensors in, a number for each row out.

    actions   (…, d) entries in [−1, 1]
    values    (E, B) of E networks, or (E, B, N) for N actions of each row

Knows nothing of networks or of data.
"""

from __future__ import annotations

import math

from torch import Tensor
from torch.nn import functional

LEAST_LOG_STD, MOST_LOG_STD = -5.0, 2.0
_LOG_2, _LOG_2PI = math.log(2.0), math.log(2.0 * math.pi)


def gaussian_log_prob(actions: Tensor, means: Tensor, log_std: Tensor) -> Tensor:
    """log N(a; μ, σ²), entries independent.  (…, d) → (…)"""
    scaled = (actions - means) * (-log_std).exp()
    return -(0.5 * (scaled.square() + _LOG_2PI) + log_std).sum(-1)


def squashed_gaussian(heads: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Actions tanh(μ + σ · noise) and their log-densities.  (B, 2d), (B, N, d) → (B, N, d), (B, N)

    log π(a) = log N(u; μ, σ²) − Σ log(1 − tanh²(u))      (Haarnoja et al., 2018, arXiv:1801.01290,
                                                           appendix C)
    """
    means, log_std = heads[:, None].chunk(2, dim=-1)
    log_std = log_std.clamp(LEAST_LOG_STD, MOST_LOG_STD)
    raw = means + log_std.exp() * noise
    log_normal = -(0.5 * (noise.square() + _LOG_2PI) + log_std).sum(-1)
    # log(1 − tanh²(u)) without cancellation.
    shrunk = 2.0 * (_LOG_2 - raw - functional.softplus(-2.0 * raw))
    return raw.tanh(), log_normal - shrunk.sum(-1)


def soft_minimum(values: Tensor, weight: float) -> Tensor:
    """λ min_i Q_i + (1 − λ) max_i Q_i (arXiv:1812.02900, eq. 13).  (E, …) → (…)"""
    return weight * values.amin(0) + (1.0 - weight) * values.amax(0)


def normal_divergence(means: Tensor, log_std: Tensor) -> Tensor:
    """KL(N(μ, σ²) ‖ N(0, 1)), mean over entries.  (B, d) → (B,)"""
    return (0.5 * (means.square() + (2.0 * log_std).exp() - 1.0) - log_std).mean(-1)


def soft_maximum(values: Tensor, log_densities: Tensor, temperature: float) -> Tensor:
    """T log ∫ exp(Q(s, a) / T) da, from samples of known density.  (…, N), (…, N) → (…)

    ≈ T log 1/N Σ exp(Q(s, a_i) / T − log p(a_i)): importance sampling, as in arXiv:2006.04779,
    appendix F. Of values that are all c it is c + T log 2^d.
    """
    weighted = (values / temperature - log_densities).logsumexp(-1)
    return temperature * (weighted - math.log(values.shape[-1]))
