"""Losses over pairs of which one was preferred; pure, a number for each pair.

    reward model   chosen, rejected: its rewards of the two                  Bradley–Terry
    DPO            chosen, rejected: log-probabilities of the two replies,   the same loss of the
                   each summed over its tokens, policy's and reference's     rewards they imply

Knows nothing of models.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import logsigmoid


def bradley_terry_losses(chosen: Tensor, rejected: Tensor, label_smoothing: float = 0.0) -> Tensor:
    """−log σ(r_chosen − r_rejected) (Bradley and Terry, 1952; arXiv:2203.02155, eq. 1).  (B,)

    `label_smoothing` ε: the labels are wrong that often; (1 − ε) of the loss and ε of that of the
    other label, so that no difference beyond log((1 − ε) / ε) is gained by.
    """
    losses = -logsigmoid(chosen - rejected)
    if not label_smoothing:
        return losses
    return (1 - label_smoothing) * losses - label_smoothing * logsigmoid(rejected - chosen)


def implied_rewards(log_probs: Tensor, reference: Tensor, beta: float = 0.1) -> Tensor:
    """β (log π − log π_ref): the reward that the policy is best for (arXiv:2305.18290).  (B,)"""
    return beta * (log_probs - reference)


def dpo_losses(
    chosen: Tensor,
    rejected: Tensor,
    reference_chosen: Tensor,
    reference_rejected: Tensor,
    beta: float = 0.1,
    label_smoothing: float = 0.0,
) -> Tensor:
    """Direct preference optimisation (Rafailov et al., 2023, arXiv:2305.18290, eq. 7).  (B,)

    −log σ(β [(ℓ_chosen − ℓ_rejected) − (the same of the reference)]), smoothed as Bradley–Terry is.
    """
    return bradley_terry_losses(
        implied_rewards(chosen, reference_chosen, beta),
        implied_rewards(rejected, reference_rejected, beta),
        label_smoothing,
    )
