"""Monte-Carlo values over acts: what the data went on to earn, and the best of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from trainers.offline.batches import Transitions
from trainers.offline.config import Batch, Metrics, OfflineConfig, Shapes, within
from trainers.offline.discrete_policy import DiscretePolicy
from trainers.offline.losses import cross_entropy, mean, taken
from trainers.offline.networks import MLP, adam


@dataclass(frozen=True, kw_only=True)
class MCConfig(OfflineConfig):
    """One step of policy improvement on the behaviour's own values (as "MC returns" in
    Abdulhai et al., 2023, arXiv:2311.18232; one step is often enough: arXiv:2106.08909).

    L = E[ (Q(s, a) − G)² ] − E[ log β(a | s) ]       G: discounted return from this turn on
    policy: argmax Q among acts with β ≥ threshold · max β

    Nothing is bootstrapped, so nothing can diverge; nothing is stitched together, either. A
    conversation that was cut off counts as ended there.
    """

    threshold: float = 0.3
    """1 leaves only the act that the clone likes best; 0 leaves all."""

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, 0, 1, "threshold")

    def build(self, shapes: Shapes, data: Transitions) -> MC:
        """The algorithm, untrained."""
        return MC(self, shapes)


class MC:
    """Q and a clone."""

    name = "MC"

    def __init__(self, config: MCConfig, shapes: Shapes) -> None:
        self.config = config
        sizes = [shapes.observation, *config.hidden, shapes.actions]
        self.critic, self.clone = MLP(sizes), MLP(sizes)
        self.parts = nn.ModuleDict({"critic": self.critic, "clone": self.clone})
        learnt = self.parts.parameters()
        self.optimizers: dict[str, Any] = {"all": adam(learnt, config.learning_rate)}

    def update(self, batch: Batch, generator: torch.Generator, step: int) -> tuple[Metrics, Tensor]:
        """A step on Q and on the clone."""
        seen, actions, weights = batch["observations"], batch["actions"], batch.get("weights")
        errors = taken(self.critic(seen)[0].float(), actions) - batch["returns_to_go"]
        value_loss = mean(errors.square(), weights)
        logits = self.clone(seen)[0].float()
        imitation = mean(cross_entropy(logits, actions, batch.get("masks")), weights)
        self.optimizers["all"].zero_grad()
        (value_loss + imitation).backward()
        self.optimizers["all"].step()
        metrics = {"value_loss": value_loss.detach(), "imitation_loss": imitation.detach()}
        return metrics, errors.detach().abs()

    def policy(self) -> DiscretePolicy:
        """The best act that the data show."""
        return DiscretePolicy(
            [self.critic.layers()],
            self.name,
            support=self.clone.layers(),
            threshold=self.config.threshold,
        )
