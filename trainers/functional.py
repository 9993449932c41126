"""Returns, advantages and expectiles, which more than one kind of learner needs; pure.

    mask      1    1    0    0    1    1     1: the policy acted here; 0: somebody else, or nobody
    rewards   r0   r1   ·    ·    r4   r5    what stands at a 0 has no influence
    sums      G0   G1   G4   G4   G4   G5    carried through the gap, not lost in it

A step is whatever the last axis counts: an agent turn or a token. Tensors of floats in, tensors
out. Knows nothing of models, tokens or batches.
"""

from __future__ import annotations

import torch
from torch import Tensor


def discounted_sums(
    rewards: Tensor,
    mask: Tensor,
    discount: float | Tensor = 1.0,
    bootstrap: Tensor | None = None,
) -> Tensor:
    """G_t = r_t + γ_t G_{t+1} where the mask is 1; elsewhere the sum of what follows, as it is.

    `discount` is γ, a number or a tensor that broadcasts to the rewards. `bootstrap` (…) is what
    follows the last step, 0 if None.  (…, T), (…, T) → (…, T)
    """
    mask = mask.bool()
    discounts = torch.as_tensor(discount, dtype=rewards.dtype, device=rewards.device)
    discounts = discounts.expand_as(rewards)
    sums = torch.empty_like(rewards)
    total = torch.zeros_like(rewards[..., :1].sum(-1)) if bootstrap is None else bootstrap
    for t in range(rewards.shape[-1] - 1, -1, -1):
        total = torch.where(mask[..., t], rewards[..., t] + discounts[..., t] * total, total)
        sums[..., t] = total
    return sums


def generalized_advantages(
    rewards: Tensor,
    values: Tensor,
    mask: Tensor,
    discount: float | Tensor = 1.0,
    lam: float | Tensor = 0.95,
    bootstrap: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Generalised advantage estimates and the returns that values learn (arXiv:1506.02438, eq. 16).

        δ_t = r_t + γ_t V(next step of the policy) − V_t
        A_t = δ_t + γ_t λ_t A(next step of the policy)          R_t = A_t + V_t

    0 where the mask is 0. `discount` and `lam` are numbers or broadcast to the rewards;
    `bootstrap` (…) is the value after the last step: that of the state in which an episode was
    cut off, 0 where it ended by itself (None: everywhere).  (…, T) each → (…, T), (…, T)
    """
    mask = mask.bool()
    upcoming = discounted_sums(values, mask, 0.0, bootstrap)  # the policy's first value from t on
    last = torch.zeros_like(upcoming[..., :1]) if bootstrap is None else bootstrap[..., None]
    following = torch.cat([upcoming[..., 1:], last], -1)
    errors = rewards + discount * following - values
    advantages = discounted_sums(errors, mask, discount * lam)
    return advantages.masked_fill(~mask, 0.0), (advantages + values).masked_fill(~mask, 0.0)


def expectile_loss(errors: Tensor, expectile: float) -> Tensor:
    """|τ − 1(d < 0)| d²: the value that minimises it is the τ-expectile (arXiv:2110.06169, eq. 5).

    `errors` d = Q − V, of any shape.
    """
    return torch.where(errors < 0, 1.0 - expectile, expectile) * errors.square()
