"""A Lagrange multiplier that learns how much a constraint has to weigh.

    excess > 0   the constraint is broken    α grows
    excess < 0   there is slack              α shrinks towards 0

Knows nothing of what is constrained.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from trainers.offline.networks import adam

_LEAST, _MOST = 1e-6, 1e6


class Multiplier(nn.Module):
    """α > 0, held as its logarithm, with an optimiser of its own."""

    def __init__(self, start: float, learning_rate: float) -> None:
        super().__init__()
        self.log = nn.Parameter(torch.tensor(math.log(max(start, _LEAST))))
        self.optimizer = adam(self.parameters(), learning_rate)

    def value(self) -> Tensor:
        """α, without gradient.  ()"""
        return self.log.detach().exp()

    def update(self, excess: Tensor) -> Tensor:
        """One step of L(log α) = −log α · excess, which reaches nothing but α; the new α.  # ()

        A loss that shared its graph with a policy's would leave a gradient there, which cancels
        the very penalty that α weighs. α stays between 1e-6 and 1e6.
        """
        self.optimizer.zero_grad()
        (-self.log * excess.detach()).backward()
        self.optimizer.step()
        with torch.no_grad():
            self.log.clamp_(math.log(_LEAST), math.log(_MOST))
        return self.value()
