"""Domain-adversarial features: a classifier learns to tell the domains apart, the features not to.

    features ──► reverse_gradient ──► domain classifier ──► loss
             ◄── −strength · g    ◄──                  ◄──

Ganin et al. (2016), "Domain-adversarial training of neural networks", arXiv:1505.07818. What a
newcomer would get wrong: there is one loss and one optimiser. The classifier goes down its
gradient; the features, behind the reversal, go up the same one.
"""

from __future__ import annotations

from typing import Any

from convgym.errors import MissingExtra

try:
    import torch
    from torch import Tensor, nn
    from torch.nn.functional import softplus
except ImportError as error:
    raise MissingExtra(error.name or "torch", "offline") from error


class _ReverseGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, features: Tensor, strength: float) -> Tensor:
        ctx.strength = strength
        return features.view_as(features)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return -ctx.strength * gradients[0], None


def reverse_gradient(features: Tensor, strength: float = 1.0) -> Tensor:
    """The same features; their gradient comes back times −strength (eqs. 16, 17)."""
    reversed_: Tensor = _ReverseGradient.apply(features, strength)
    return reversed_


class DANN(nn.Module):
    """Domain classifier behind a gradient reversal: features (n, d) → one layer → log-odds.

    L = ½ mean log(1 + e^(−z)) over the source + ½ mean log(1 + e^z) over the target

    Differs from the paper: both domains weigh ½, whatever their numbers. L is ln 2 where the
    classifier knows nothing.
    """

    def __init__(self, features: int, hidden: int = 64) -> None:
        super().__init__()
        self.classifier = nn.Sequential(
            nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, 1)
        )

    def forward(self, source: Tensor, target: Tensor, strength: float = 1.0) -> Tensor:
        """The classifier's loss; the features get −strength times its gradient."""
        of_source, of_target = (
            self.classifier(reverse_gradient(features, strength)) for features in (source, target)
        )
        loss: Tensor = (softplus(-of_source).mean() + softplus(of_target).mean()) / 2
        return loss
