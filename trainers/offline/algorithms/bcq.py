"""Batch-constrained Q-learning over acts: what the data hardly show is never chosen or valued."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from trainers.offline.batches import Transitions
from trainers.offline.config import Batch, Metrics, OfflineConfig, Shapes, at_least, within
from trainers.offline.discrete_policy import DiscretePolicy
from trainers.offline.losses import (
    cross_entropy,
    huber,
    legal_only,
    mean,
    pessimistic,
    supported,
    taken,
    td_target,
)
from trainers.offline.networks import MLP, adam, follow, frozen


@dataclass(frozen=True, kw_only=True)
class BCQConfig(OfflineConfig):
    """Discrete BCQ (Fujimoto et al., 2019, arXiv:1910.01708).

    L = E[ h(Q(s, a) − r − γ Q'(s', a')) ] − E[ log β(a | s) ]     h: Huber's loss, Q' the target
    a' = argmax Q(s', ·) among acts with β(a' | s') ≥ threshold · max β(· | s')

    The policy chooses among the same acts. Differs from the paper: masks, and β has a network of
    its own.
    """

    threshold: float = 0.3
    """1 leaves only the act that the clone likes best; 0 leaves all, which is double Q-learning."""
    critics: int = 1
    """Q-networks; more than one are a pessimistic ensemble."""
    pessimism: float | None = None
    """Several critics count as mean − pessimism · std; None takes their minimum."""
    target_update: int = 500
    """Updates between two copies of Q to Q'."""

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, 0, 1, "threshold")
        at_least(self, 1, "critics", "target_update")
        at_least(self, 0, *(["pessimism"] if self.pessimism is not None else []))

    def build(self, shapes: Shapes, data: Transitions) -> BCQ:
        """The algorithm, untrained."""
        return BCQ(self, shapes)


class BCQ:
    """A Q-ensemble, its target, and a clone."""

    name = "BCQ"

    def __init__(self, config: BCQConfig, shapes: Shapes) -> None:
        self.config = config
        sizes = [shapes.observation, *config.hidden, shapes.actions]
        with torch.random.fork_rng(devices=[]):  # so that Q begins as double Q-learning's does
            self.clone = MLP(sizes)
        self.critic = MLP(sizes, config.critics)
        self.target = frozen(self.critic)
        self.parts = nn.ModuleDict(
            {"critic": self.critic, "target": self.target, "clone": self.clone}
        )
        learnt = [*self.critic.parameters(), *self.clone.parameters()]
        self.optimizers: dict[str, Any] = {"all": adam(learnt, config.learning_rate)}

    def update(self, batch: Batch, generator: torch.Generator, step: int) -> tuple[Metrics, Tensor]:
        """A step on Q and on the clone."""
        actions, weights = batch["actions"], batch.get("weights")
        with torch.no_grad():
            targets = td_target(batch["rewards"], batch["discounts"], self.next_values(batch))
        done = taken(self.critic(batch["observations"]).float(), actions)  # (E, B)
        td = mean(huber(done, targets), weights)
        logits = self.clone(batch["observations"])[0].float()
        imitation = mean(cross_entropy(logits, actions, batch.get("masks")), weights)
        self.optimizers["all"].zero_grad()
        (td + imitation).backward()
        self.optimizers["all"].step()
        if step % self.config.target_update == 0:
            follow(self.target.parameters(), self.critic.parameters())
        metrics = {"td_loss": td.detach(), "imitation_loss": imitation.detach()}
        return metrics, (done.detach().mean(0) - targets).abs()

    def next_values(self, batch: Batch) -> Tensor:
        """Q'(s', a') of the best act that the data show and that is legal.  # (B,)"""
        following, pessimism = batch["next_observations"], self.config.pessimism
        shown = supported(
            self.clone(following)[0].float(), batch.get("next_masks"), self.config.threshold
        )
        best = legal_only(pessimistic(self.critic(following), pessimism), shown).argmax(-1)
        return taken(pessimistic(self.target(following), pessimism).float(), best)

    def policy(self) -> DiscretePolicy:
        """The best act that the data show."""
        return DiscretePolicy(
            [self.critic.layers(e) for e in range(self.critic.count)],
            self.name,
            pessimism=self.config.pessimism if self.critic.count > 1 else 0.0,
            support=self.clone.layers(),
            threshold=self.config.threshold,
        )
