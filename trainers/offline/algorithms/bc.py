"""Behaviour cloning over acts: of everything, or of the conversations that went best."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from trainers.offline.batches import Transitions
from trainers.offline.config import Batch, Metrics, OfflineConfig, Shapes, above, within
from trainers.offline.discrete_policy import DiscretePolicy
from trainers.offline.losses import cross_entropy, legal_only, mean, of_the_best
from trainers.offline.networks import MLP, adam


@dataclass(frozen=True, kw_only=True)
class BCConfig(OfflineConfig):
    """Behaviour cloning; filtered, as the "% BC" of Chen et al. (2021, arXiv:2106.01345).

    L = −E[ 1(G ≥ quantile) log π(a | s) ]        G: return of the whole conversation

    The policy is greedy, which already drops the behaviour's noise; `temperature=1` samples as the
    data do.
    """

    best: float = 1.0
    """Share of conversations, by their return, that are cloned; 1 clones all."""
    temperature: float = 0.0
    """Of the policy; 0 is greedy."""

    def __post_init__(self) -> None:
        super().__post_init__()
        above(self, 0, "best")
        within(self, 0, 1, "best")

    def build(self, shapes: Shapes, data: Transitions) -> BC:
        """The algorithm, untrained."""
        least = data.conversation_returns().quantile(1 - self.best) if self.best < 1 else None
        return BC(self, shapes, least)


class BC:
    """A clone's logits."""

    name = "BC"

    def __init__(self, config: BCConfig, shapes: Shapes, least: Tensor | None = None) -> None:
        self.config, self.least = config, least
        self.logits = MLP([shapes.observation, *config.hidden, shapes.actions])
        self.parts = nn.ModuleDict({"logits": self.logits})
        self.optimizers: dict[str, Any] = {
            "logits": adam(self.logits.parameters(), config.learning_rate)
        }
        if least is not None:
            self.name = f"BC of the best {config.best:.0%}"

    def update(self, batch: Batch, generator: torch.Generator, step: int) -> tuple[Metrics, None]:
        """A step on the clone; accuracy is how often the likeliest legal act is the one done."""
        weights = batch.get("weights")
        if self.least is not None:
            weights = of_the_best(batch["conversation_returns"], self.least, weights)
        logits = self.logits(batch["observations"])[0].float()
        logits = legal_only(logits, batch.get("masks"))
        losses = cross_entropy(logits, batch["actions"], None)
        loss = mean(losses, weights)
        self.optimizers["logits"].zero_grad()
        loss.backward()
        self.optimizers["logits"].step()
        right = (logits.argmax(-1) == batch["actions"]).float().mean()
        return {"loss": loss.detach(), "accuracy": right}, None

    def policy(self) -> DiscretePolicy:
        """The clone."""
        return DiscretePolicy([self.logits.layers()], self.name, self.config.temperature)
