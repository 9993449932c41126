"""The step of TRPO: along the natural gradient, as long as a divergence allows; pure.

    g gradient of the surrogate     F Fisher matrix, met only as F·v     δ most KL(old ‖ new)
    x = (F + damping)⁻¹ g           step = √(2 δ / xᵀg) · x              then a line search

Knows nothing of models: whoever has one gives the product F·v.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def conjugate_gradient(
    product: Callable[[Tensor], Tensor],
    target: Tensor,
    iterations: int = 10,
    tolerance: float = 1e-20,
) -> Tensor:
    """x with product(x) = target, of a symmetric positive product (Hestenes and Stiefel, 1952).

    Stops once the residual's square is at most `tolerance` of the target's.  (P,) → (P,)
    """
    x, residual = torch.zeros_like(target), target.clone()
    direction, squared = residual.clone(), residual @ residual
    goal = tolerance * squared
    for _ in range(iterations):
        if squared <= goal:
            break
        moved = product(direction)
        length = squared / (direction @ moved)
        x, residual = x + length * direction, residual - length * moved
        previous, squared = squared, residual @ residual
        direction = residual + squared / previous * direction
    return x


def natural_step(
    gradient: Tensor,
    fisher_product: Callable[[Tensor], Tensor],
    *,
    max_kl: float = 0.01,
    damping: float = 1e-3,
    iterations: int = 10,
) -> tuple[Tensor, Tensor]:
    """The direction x and how far to go along it (arXiv:1502.05477, appendix C).  (P,) → (P,), ()

    A gradient of 0 goes nowhere.
    """
    x = conjugate_gradient(lambda v: fisher_product(v) + damping * v, gradient, iterations)
    slope = x @ gradient
    return x, torch.where(slope > 0, (2 * max_kl / slope).sqrt(), 0.0)
