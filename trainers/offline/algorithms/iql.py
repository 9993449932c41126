"""Implicit Q-learning over acts: no act that the data do not show is ever valued."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from convgym.errors import InvalidConfiguration
from trainers.functional import expectile_loss
from trainers.offline.batches import Transitions
from trainers.offline.config import Batch, Metrics, OfflineConfig, Shapes, above, at_least, within
from trainers.offline.discrete_policy import DiscretePolicy
from trainers.offline.losses import (
    cross_entropy,
    exponential,
    mean,
    pessimistic,
    taken,
    td_target,
)
from trainers.offline.networks import MLP, adam, follow, frozen

EXTRACTIONS = ("masked", "weighted", "exact")


@dataclass(frozen=True, kw_only=True)
class IQLConfig(OfflineConfig):
    """Implicit Q-learning (Kostrikov et al., 2021, arXiv:2110.06169).

    L_V = E[ |τ − 1(Q' < V)| (Q'(s, a) − V(s))² ]              Q' the target
    L_Q = E[ (Q(s, a) − r − γ V(s'))² ]
    L_π = −E[ w log π(a | s) ]

    extraction "masked"      w = 1, a clone: argmax Q among acts with π ≥ threshold · max π
               "weighted"    w = exp(β (Q' − V)): the paper's policy is π itself
               "exact"       w = 1: argmax of log π + β Q, to which the weighted one is a regression

    Differs from the paper: masks, and two of the extractions. With few good acts in the data the
    weighted one stays with the behaviour even where Q knows better.
    """

    expectile: float = 0.7
    """τ, in (0, 1). 0.5 values what the behaviour does; towards 1, the best that it does."""
    extraction: str = "masked"
    """ "masked", "weighted" or "exact": how acts are chosen by what was learnt."""
    threshold: float = 0.1
    """Of the masked extraction: 1 leaves only the clone's own choice."""
    temperature: float = 3.0
    """β of the other extractions: near 0 they clone, more trusts Q more."""
    max_weight: float = 100.0
    """Weights of the weighted extraction are cut here."""
    critics: int = 2
    """Q-networks; more than one are a pessimistic ensemble."""
    pessimism: float | None = None
    """Several critics count as mean − pessimism · std; None takes their minimum."""
    target_rate: float = 0.005
    """How far Q' moves towards Q at each update."""
    actor_learning_rate: float | None = None
    """Of π; None is `learning_rate`, which is that of Q and V."""

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, 0, 1, "threshold")
        at_least(self, 1, "critics")
        at_least(self, 0, *(["pessimism"] if self.pessimism is not None else []))
        above(self, 0, "temperature", "max_weight", "target_rate")
        above(self, 0, *(["actor_learning_rate"] if self.actor_learning_rate is not None else []))
        within(self, 0, 1, "target_rate")
        if not 0 < self.expectile < 1:
            raise InvalidConfiguration(f"expectile={self.expectile} is outside (0, 1)")
        if self.extraction not in EXTRACTIONS:
            raise InvalidConfiguration(
                f"extraction={self.extraction!r}; it is one of {', '.join(EXTRACTIONS)}"
            )

    def build(self, shapes: Shapes, data: Transitions) -> IQL:
        """The algorithm, untrained."""
        return IQL(self, shapes)


class IQL:
    """A Q-ensemble, its target, state values and a (weighted) clone."""

    name = "IQL"

    def __init__(self, config: IQLConfig, shapes: Shapes) -> None:
        self.config = config
        inner = [shapes.observation, *config.hidden]
        self.critic = MLP([*inner, shapes.actions], config.critics)
        self.target = frozen(self.critic)
        self.value = MLP([*inner, 1])
        self.actor = MLP([*inner, shapes.actions])
        self.parts = nn.ModuleDict(
            {
                "critic": self.critic,
                "target": self.target,
                "value": self.value,
                "actor": self.actor,
            }
        )
        values = [*self.critic.parameters(), *self.value.parameters()]
        rate = config.actor_learning_rate or config.learning_rate
        self.optimizers: dict[str, Any] = {
            "values": adam(values, config.learning_rate),
            "actor": adam(self.actor.parameters(), rate),
        }

    def update(self, batch: Batch, generator: torch.Generator, step: int) -> tuple[Metrics, Tensor]:
        """A step on V, Q and π; no loss reaches another's network."""
        config, actions, weights = self.config, batch["actions"], batch.get("weights")
        seen, following = batch["observations"], batch["next_observations"]
        with torch.no_grad():
            known = taken(pessimistic(self.target(seen).float(), config.pessimism), actions)
            next_values = self.value(following)[0, :, 0].float()
            targets = td_target(batch["rewards"], batch["discounts"], next_values)
        advantages = known - self.value(seen)[0, :, 0].float()
        value_loss = mean(expectile_loss(advantages, config.expectile), weights)
        done = taken(self.critic(seen).float(), actions)  # (E, B)
        td = mean((done - targets).square(), weights)
        losses = cross_entropy(self.actor(seen)[0].float(), actions, batch.get("masks"))
        if config.extraction == "weighted":
            trusted = config.temperature * advantages.detach()
            losses = losses * exponential(trusted, config.max_weight)
        actor_loss = mean(losses, weights)
        for optimizer in self.optimizers.values():
            optimizer.zero_grad()
        (value_loss + td + actor_loss).backward()
        for optimizer in self.optimizers.values():
            optimizer.step()
        follow(self.target.parameters(), self.critic.parameters(), config.target_rate)
        metrics = {
            "td_loss": td.detach(),
            "value_loss": value_loss.detach(),
            "actor_loss": actor_loss.detach(),
        }
        return metrics, (done.detach().mean(0) - targets).abs()

    def policy(self) -> DiscretePolicy:
        """The best act by the extraction."""
        if self.config.extraction == "weighted":
            return DiscretePolicy([self.actor.layers()], self.name)
        masked = self.config.extraction == "masked"
        return DiscretePolicy(
            [self.critic.layers(e) for e in range(self.critic.count)],
            self.name,
            pessimism=self.config.pessimism if self.critic.count > 1 else 0.0,
            support=self.actor.layers(),
            threshold=self.config.threshold if masked else 0.0,
            prior=0.0 if masked else 1.0 / self.config.temperature,
        )
