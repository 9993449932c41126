"""Arithmetic of offline learners over acts; tensors in, a number for each row out.

    masks     legal acts; None where all are
    values    (E, B, A) of E networks, or (B, A)
    weights   (B,) importance of rows; None where all count alike

Knows nothing of networks or of data.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def legal_only(values: Tensor, masks: Tensor | None) -> Tensor:
    """Values with −∞ for illegal acts.  (…, B, A), (B, A) → (…, B, A)"""
    return values if masks is None else values.masked_fill(~masks, -torch.inf)


def taken(values: Tensor, actions: Tensor) -> Tensor:
    """The values of the acts that were done.  (…, B, A), (B,) → (…, B)"""
    index = actions.expand(values.shape[:-1])[..., None]
    return values.gather(-1, index)[..., 0]


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
    return legal_only(pushed, masks).logsumexp(-1) - taken(values, actions)


def cross_entropy(logits: Tensor, actions: Tensor, masks: Tensor | None) -> Tensor:
    """−log π(a | s) over legal acts.  (B, A), (B,) → (B,)"""
    return -taken(legal_only(logits, masks).log_softmax(-1), actions)


def mean(losses: Tensor, weights: Tensor | None) -> Tensor:
    """Mean over rows (and networks), each with its weight.  (…, B) → ()"""
    return losses.mean() if weights is None else (losses * weights).mean()
