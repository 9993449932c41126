"""A d3rlpy Q-function that knows which acts are legal. Imports torch and d3rlpy at once.

    observation row   [ features | mask ]
                          │          └─► illegal acts get the value FLOOR
                          └─► encoder ─► linear ─► values

With it, d3rlpy's discrete learners take their maximum, their bootstrap target and their
conservative loss over legal acts only; an illegal act's value is never learnt nor used. A clone
beside the Q-function, as BCQ has one, gives illegal acts the probability 0 (`mask_clone`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from d3rlpy.models.encoders import VectorEncoderFactory
from d3rlpy.models.q_functions import MeanQFunctionFactory
from d3rlpy.models.torch.q_functions import DiscreteMeanQFunction, DiscreteMeanQFunctionForwarder
from d3rlpy.models.torch.q_functions.base import QFunctionOutput
from torch import Tensor, nn
from torch.distributions import Categorical

FLOOR = -1e3
"""Value of an illegal act: below any return, and finite, because d3rlpy multiplies it by 0."""


class _WithoutMask(nn.Module):
    """Hands the features to `encoder` and keeps the mask from it."""

    def __init__(self, encoder: nn.Module, features: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.features = features

    def forward(self, rows: Tensor) -> Tensor:
        return self.encoder(rows[:, : self.features])


class _MaskedQFunction(DiscreteMeanQFunction):
    def forward(self, x: Tensor) -> Any:
        values = super().forward(x).q_value
        legal = x[:, -values.shape[1] :] > 0
        return QFunctionOutput(values.masked_fill(~legal, FLOOR), None, None)


def mask_clone(algo: Any) -> None:
    """Let the clone of a built algorithm with masks in its rows know legal acts only.

    BCQ bootstraps from acts its clone finds likely; without this they might be illegal ones.
    """
    clone = getattr(algo.impl.modules, "imitator", None)
    encoder = getattr(clone, "_encoder", None)
    if clone is None or not isinstance(encoder, _WithoutMask):
        return

    def legal_only(module: nn.Module, inputs: tuple[Tensor], output: Categorical) -> Categorical:
        legal = inputs[0][:, encoder.features :] > 0
        return Categorical(logits=output.logits.masked_fill(~legal, FLOOR))

    clone.register_forward_hook(legal_only)


@dataclasses.dataclass()
class MaskedVectorEncoderFactory(VectorEncoderFactory):
    """d3rlpy's vector encoder over all of a row but its last `actions` columns."""

    actions: int = 0

    def create(self, observation_shape: Sequence[int]) -> Any:
        """The encoder."""
        features = observation_shape[0] - self.actions
        return _WithoutMask(super().create((features,)), features)

    @staticmethod
    def get_type() -> str:
        """Name in d3rlpy's configurations."""
        return "convgym_masked_vector"


@dataclasses.dataclass()
class MaskedMeanQFunctionFactory(MeanQFunctionFactory):
    """d3rlpy's mean Q-function, with `FLOOR` for what the row's mask forbids."""

    def create_discrete(self, encoder: Any, hidden_size: int, action_size: int) -> Any:
        """The Q-function and its forwarder."""
        q_func = _MaskedQFunction(encoder, hidden_size, action_size)
        return q_func, DiscreteMeanQFunctionForwarder(q_func, action_size)

    @staticmethod
    def get_type() -> str:
        """Name in d3rlpy's configurations."""
        return "convgym_masked_mean"
