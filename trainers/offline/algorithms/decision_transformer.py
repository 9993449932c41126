"""Decision Transformer: whole conversations cloned, beside the return that each turn led to."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from convgym.errors import InvalidConfiguration
from trainers.offline.batches import Sequences, Transitions
from trainers.offline.config import Batch, Metrics, OfflineConfig, Shapes, above, at_least, within
from trainers.offline.decision_transformer_policy import DecisionTransformerPolicy
from trainers.offline.losses import cross_entropy
from trainers.offline.transformer import Architecture, DecisionTransformer

_LARGEST_STEP = 0.25
"""Gradients are scaled down to this norm, as in the authors' code."""
_UNREAD = ("hidden", "learning_rate", "n_step", "reward_scale")


@dataclass(frozen=True, kw_only=True)
class DecisionTransformerConfig(OfflineConfig):
    """Decision Transformer over acts (Chen et al., 2021, arXiv:2106.01345).

    L = −E[ log π(a_t | R_0, s_0, a_0, …, R_t, s_t) ]      R_t: return-to-go of the conversation
                                                           over turns, never over padding

    It copies what preceded high returns, so where luck decides it copies the lucky: asked for the
    best return there is, it takes every gamble that ever paid (Paster et al., 2022,
    arXiv:2205.15967). A batch holds `batch_size` stretches of up to `context_length` turns; every
    turn of the data is in one of them, and conversations that fit are whole.
    """

    discount: float = 1.0
    """γ of the returns, which plain episodes must have been read with; the paper has 1."""
    batch_size: int = 64
    context_length: int = 20
    """Turns it sees at most; the newest ones."""
    heads: int = 4
    """Of each layer's attention; they share `width`."""
    layers: int = 2
    width: int = 64
    """Numbers to a token."""
    dropout: float = 0.1
    """Share of what layers give that is left out in training."""
    max_return: float | None = None
    """What returns are divided by; None takes the greatest return in the data, by size."""
    target_return: float | None = None
    """What the policy asks for; None takes the best return in the data."""
    temperature: float = 0.0
    """Of the policy; 0 is greedy."""
    actor_learning_rate: float = 3e-3
    """Of AdamW; wider networks take less."""
    warmup_steps: int = 100
    """Updates over which the learning rate rises to `actor_learning_rate`."""
    weight_decay: float = 1e-4
    """As in Loshchilov & Hutter (2019, arXiv:1711.05101)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 1, "context_length", "heads", "layers", "width")
        at_least(self, 0, "temperature", "warmup_steps", "weight_decay")
        above(self, 0, "discount", "actor_learning_rate")
        within(self, 0, 0.9, "dropout")
        if self.max_return is not None:
            above(self, 0, "max_return")
        if self.width % self.heads:
            raise InvalidConfiguration(
                f"width={self.width}, heads={self.heads}; the width is a multiple of the heads"
            )
        for name in _UNREAD:
            if getattr(self, name) != getattr(OfflineConfig, name):
                raise InvalidConfiguration(
                    f"{name}={getattr(self, name)}; a Decision Transformer does not read it. Its "
                    "own options are width, layers, actor_learning_rate and max_return"
                )

    def items(self, turns: Transitions) -> Sequences:
        """Whole conversations, or stretches of longer ones."""
        context = self.context_length
        return Sequences(turns, context, stride=context, padding="right")

    def build(self, shapes: Shapes, data: Transitions) -> DecisionTransformerLearning:
        """The algorithm, untrained."""
        first = np.cumsum(data.lengths) - data.lengths
        returns = data[first]["returns_to_go"]
        largest = float(returns.abs().max()) or 1.0
        return DecisionTransformerLearning(
            self,
            DecisionTransformer(
                Architecture(
                    observation=shapes.observation,
                    actions=shapes.actions,
                    discrete=shapes.discrete,
                    context=self.context_length,
                    turns=int(data.lengths.max()),
                    width=self.width,
                    heads=self.heads,
                    layers=self.layers,
                    max_return=self.max_return or largest,
                ),
                None if shapes.low is None else torch.as_tensor(shapes.low),
                None if shapes.high is None else torch.as_tensor(shapes.high),
            ),
            float(returns.max()) if self.target_return is None else self.target_return,
        )


@dataclass(frozen=True, kw_only=True)
class ContinuousDecisionTransformerConfig(DecisionTransformerConfig):
    """Decision Transformer over vectors (Chen et al., 2021, arXiv:2106.01345).

    L = E‖a_t − π(R_0, s_0, a_0, …, R_t, s_t)‖² / entries
    """

    discrete: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.temperature:
            raise InvalidConfiguration(
                f"temperature={self.temperature}; vectors are not sampled, leave it at 0"
            )


class DecisionTransformerLearning:
    """The model and its optimiser."""

    name = "decision transformer"

    def __init__(
        self, config: DecisionTransformerConfig, model: DecisionTransformer, target: float
    ) -> None:
        self.config, self.model, self.target = config, model, target
        self.parts = nn.ModuleDict({"model": model})
        self.optimizers: dict[str, Any] = {
            "model": torch.optim.AdamW(
                model.parameters(), config.actor_learning_rate, weight_decay=config.weight_decay,
                fused=True,
            )
        }  # fmt: skip

    def update(self, batch: Batch, generator: torch.Generator, step: int) -> tuple[Metrics, None]:
        """A step on the model."""
        config, optimizer = self.config, self.optimizers["model"]
        loss, right = self.loss(batch, config.dropout, generator)
        optimizer.param_groups[0]["lr"] = config.actor_learning_rate * min(
            1.0, step / max(1, config.warmup_steps)
        )
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), _LARGEST_STEP)
        optimizer.step()
        return {"loss": loss.detach()} | ({} if right is None else {"accuracy": right}), None

    def loss(
        self, batch: Batch, dropout: float = 0.0, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Mean over the turns there are; and of acts, how many are the likeliest."""
        real = batch["attention_mask"]  # (B, T)
        longest = slice(int(real.sum(1).max()))  # what all pad is not computed
        states, actions, returns, timesteps = (
            batch[name][:, longest]
            for name in ("observations", "actions", "returns_to_go", "timesteps")
        )
        masks = batch["masks"][:, longest] if "masks" in batch else None
        found = self.model(states, actions, returns, timesteps, masks, dropout, generator)
        weights = real[:, longest].float()
        if "weights" in batch:
            weights = weights * batch["weights"][:, None]
        right = None
        if self.config.discrete:
            losses = cross_entropy(found, actions, None)  # illegal acts are left out already
            right = ((found.argmax(-1) == actions) & real[:, longest]).sum() / real.sum()
        else:
            losses = (found - actions).square().mean(-1)
        return (losses * weights).sum() / real.sum(), right

    def policy(self) -> DecisionTransformerPolicy:
        """The model with a target, greedy unless there is a temperature."""
        return DecisionTransformerPolicy(
            deepcopy(self.model).cpu(), self.target, self.config.discount,
            self.config.temperature,
        )  # fmt: skip
