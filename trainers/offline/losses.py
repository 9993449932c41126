"""Arithmetic of offline learners over acts; tensors in, a number for each row out.

    masks     legal acts; None where all are
    values    (E, B, A) of E networks, or (B, A)
    logits    (B, A) of a clone of the behaviour
    weights   (B,) importance of rows; None where all count alike

Knows nothing of networks or of data.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional


def legal_only(values: Tensor, masks: Tensor | None) -> Tensor:
    """Values with −∞ for illegal acts.  (…, B, A), (B, A) → (…, B, A)"""
    if masks is None:
        return values
    # 1 − 1/1 = 0 where legal, 1 − 1/0 = −∞ elsewhere: no branch, and nothing to do backward.
    return values + (1.0 - masks.to(values.dtype).reciprocal_())


def log_sum_exp(values: Tensor) -> Tensor:
    """log Σ_a exp(value), −∞ for what is not there; some value of each row is finite.

    (…, B, A) → (…, B). torch.logsumexp takes five times as long where there is −∞, whose
    exponential is slow; beside 1, e^−80 is lost in 24 bits just as 0 is.
    """
    most = values.detach().amax(-1, keepdim=True)
    return (values - most).clamp(min=-80.0).exp().sum(-1).log() + most[..., 0]


def taken(values: Tensor, actions: Tensor) -> Tensor:
    """The values of the acts that were done.  (…, B, A), (B,) → (…, B)"""
    index = actions.expand(values.shape[:-1])[..., None]
    return values.gather(-1, index)[..., 0]


def pessimistic(values: Tensor, pessimism: float | None) -> Tensor:
    """mean − κ · std over the ensemble, or its minimum where κ is None.  (E, …) → (…)"""
    if len(values) == 1:
        return values[0]
    if pessimism is None:
        return values.amin(0)
    return values.mean(0) - pessimism * values.std(0, correction=0)


def supported(logits: Tensor, masks: Tensor | None, threshold: float) -> Tensor:
    """Legal acts at least `threshold` times as likely as the likeliest legal one.  (B, A) bool

    Fujimoto et al. (2019, arXiv:1910.01708, eq. 10).
    """
    known = legal_only(logits, masks)
    if threshold == 0.0:
        return known > -torch.inf
    return known >= known.amax(-1, keepdim=True) + math.log(threshold)


def td_target(rewards: Tensor, discounts: Tensor, next_values: Tensor) -> Tensor:
    """r + γ v(s'); `discounts` is 0 where the conversation ended by itself.  (B,)"""
    return rewards + discounts * next_values


def huber(values: Tensor, targets: Tensor) -> Tensor:
    """½ d² up to |d| = 1, |d| − ½ beyond (Huber, 1964).  (…, B)"""
    return functional.smooth_l1_loss(values, targets.expand_as(values), reduction="none")


def conservative_gap(
    values: Tensor, actions: Tensor, masks: Tensor | None, floor: Tensor | None = None
) -> Tensor:
    """log Σ_a exp Q(s, a) − Q(s, a_data) over legal acts (arXiv:2006.04779, eq. 4).  (…, B)

    `floor` (B,) calibrates: below it no value is pushed down (arXiv:2303.05479, eq. 5).
    """
    pushed = values if floor is None else torch.maximum(values, floor[:, None])
    return log_sum_exp(legal_only(pushed, masks)) - taken(values, actions)


def cross_entropy(logits: Tensor, actions: Tensor, masks: Tensor | None) -> Tensor:
    """−log π(a | s) over legal acts.  (…, A), (…) → (…)"""
    known = legal_only(logits, masks).flatten(0, -2)
    losses = functional.cross_entropy(known, actions.flatten(), reduction="none")
    return losses.view(actions.shape)


def mean(losses: Tensor, weights: Tensor | None) -> Tensor:
    """Mean over rows (and networks), each with its weight.  (…, B) → ()"""
    return losses.mean() if weights is None else (losses * weights).mean()


def mmd2(p: Tensor, q: Tensor, kernel: str, sigma: float) -> Tensor:
    """Exact MMD² between two distributions over acts.  (B, A), (B, A) → (B,)

    (p − q)ᵀ K (p − q), where acts are one-hot vectors, √2 apart: K is 1 on its diagonal and κ
    elsewhere, and p − q sums to 0, so that what is left is (1 − κ) ‖p − q‖².

    gaussian   κ = exp(−(√2)² / 2σ²)        laplacian   κ = exp(−√2 / σ)
    """
    alike = math.exp(-(sigma**-2)) if kernel == "gaussian" else math.exp(-math.sqrt(2.0) / sigma)
    return (1.0 - alike) * (p - q).square().sum(-1)


# -- how much a row counts -------------------------------------------------------------------------


def of_the_best(returns: Tensor, least: Tensor, weights: Tensor | None) -> Tensor:
    """`weights` of rows whose conversation earned `least`, 0 for the others, mean kept.  (B,)"""
    kept = (returns >= least).float()
    kept = kept / kept.mean().clamp(min=1e-6)
    return kept if weights is None else weights * kept


def inverse_propensities(propensities: Tensor, most: float) -> Tensor:
    """1 / p, at most `most`: as if every act had been tried alike.  (B,)"""
    return propensities.reciprocal().clamp(max=most)


def exponential(advantages: Tensor, most: float) -> Tensor:
    """exp(A), at most `most`, so that no row rules a batch.  (B,)"""
    return advantages.clamp(max=math.log(most)).exp()
