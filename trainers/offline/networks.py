"""Multilayer perceptrons, one or several side by side in the same multiplications.

    x (B, in)     ─► E networks, each on all rows     ─► (E, B, out)
    x (E, B, in)  ─► each network on rows of its own  ─► (E, B, out)

A row of weights for each network costs one call a layer, not E. Knows nothing of losses.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn


class MLP(nn.Module):
    """`count` networks with ReLU between layers; weights drawn as PyTorch's Linear draws them."""

    def __init__(self, sizes: Sequence[int], count: int = 1) -> None:
        super().__init__()
        self.sizes, self.count = tuple(sizes), count
        pairs = list(pairwise(sizes))
        self.weights = nn.ParameterList(_uniform((count, a, b), a) for a, b in pairs)
        self.biases = nn.ParameterList(_uniform((count, 1, b), a) for a, b in pairs)

    def forward(self, x: Tensor) -> Tensor:
        """(B, in) or (count, B, in) → (count, B, out)"""
        last = len(self.weights) - 1
        for place, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            if self.count == 1 and x.ndim == 2:
                x = torch.addmm(bias.view(-1), x, weight.squeeze(0))  # views: no copies backward
            elif x.ndim == 2:  # the first layer: all networks in one multiplication
                wide = torch.mm(x, weight.transpose(0, 1).flatten(1))
                x = wide.view(len(x), self.count, -1).transpose(0, 1) + bias
            else:
                x = torch.baddbmm(bias, x, weight)
            if place < last:
                x = x.relu() if x.requires_grad else x.relu_()
        return x if x.ndim == 3 else x[None]

    def layers(self, network: int = 0) -> list[tuple[NDArray[np.float32], NDArray[np.float32]]]:
        """Weights (in, out) and biases (out,) of one network, copied."""
        return [
            (_copied(weight[network]), _copied(bias[network, 0]))
            for weight, bias in zip(self.weights, self.biases, strict=True)
        ]


def follow(targets: Iterable[Tensor], sources: Iterable[Tensor], rate: float = 1.0) -> None:
    """Move targets towards sources: θ' ← θ' + rate (θ − θ'); 1 copies."""
    with torch.no_grad():
        if rate == 1.0:
            torch._foreach_copy_(list(targets), list(sources))
        else:
            torch._foreach_lerp_(list(targets), list(sources), rate)


def frozen(module: MLP) -> MLP:
    """A copy that no gradient reaches, as a target."""
    copy = MLP(module.sizes, module.count)
    copy.load_state_dict(module.state_dict())
    return copy.requires_grad_(False)


def adam(parameters: Iterable[nn.Parameter], learning_rate: float) -> torch.optim.Adam:
    """Adam (Kingma & Ba, 2015, arXiv:1412.6980), all parameters in one call a step."""
    return torch.optim.Adam(parameters, lr=learning_rate, fused=True)


def _uniform(shape: tuple[int, ...], inputs: int) -> nn.Parameter:
    bound = 1 / math.sqrt(inputs)
    return nn.Parameter(torch.empty(shape).uniform_(-bound, bound))


def _copied(part: Tensor) -> NDArray[np.float32]:
    return np.array(part.detach().cpu().numpy(), dtype=np.float32)
