"""Implicit Q-learning over vectors: no action outside the data is ever asked about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from convgym.errors import InvalidConfiguration
from trainers.functional import expectile_loss
from trainers.offline.batches import Transitions
from trainers.offline.config import Batch, Metrics, OfflineConfig, Shapes, above, at_least, within
from trainers.offline.losses import exponential, mean, td_target
from trainers.offline.networks import MLP, adam, follow, frozen
from trainers.offline.vector_losses import (
    LEAST_LOG_STD,
    MOST_LOG_STD,
    gaussian_log_prob,
)
from trainers.offline.vector_networks import VectorActions, descend, values
from trainers.offline.vector_policy import VectorPolicy


@dataclass(frozen=True, kw_only=True)
class VectorIQLConfig(OfflineConfig):
    """Implicit Q-learning (Kostrikov et al., 2021, arXiv:2110.06169).

    L_V = E[ |τ − 1(Q' < V)| (Q' − V)² ]              Q' = min_j Q'_j(s, a)
    L_Q = E[ (Q_i(s, a) − r − γ V(s'))² ]
    L_π = −E[ min(exp(β (Q' − V)), most) log π(a | s) ]

    π is Gaussian with one σ for each entry. No cosine schedule of the actor's rate.
    """

    discrete: ClassVar[bool] = False

    expectile: float = 0.7
    """τ, in (0.5, 1). Higher trusts the better actions more."""
    temperature: float = 3.0
    """β: the policy's weight on better actions; 0 clones."""
    most_weight: float = 100.0
    """The largest weight of an action."""
    target_rate: float = 0.005
    """Share by which targets move to what they follow."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 0, "temperature")
        at_least(self, 1, "most_weight")
        above(self, 0, "target_rate")
        within(self, 0, 1, "target_rate")
        if not 0.5 <= self.expectile < 1.0:
            raise InvalidConfiguration(
                f"expectile={self.expectile} is outside [0.5, 1); 0.5 is the mean"
            )

    def build(self, shapes: Shapes, data: Transitions) -> VectorIQL:
        """The algorithm, untrained."""
        return VectorIQL(self, shapes, VectorActions(shapes, data))


class VectorIQL:
    """State values, two critics with targets, a Gaussian actor."""

    name = "IQL"

    def __init__(self, config: VectorIQLConfig, shapes: Shapes, actions: VectorActions) -> None:
        self.config, self.actions = config, actions
        self.actor = MLP([shapes.observation, *config.hidden, shapes.actions])
        self.width = nn.ParameterDict({"log_std": nn.Parameter(torch.zeros(shapes.actions))})
        self.value = MLP([shapes.observation, *config.hidden, 1])
        self.critic = MLP([shapes.observation + shapes.actions, *config.hidden, 1], 2)
        self.target = frozen(self.critic)
        self.parts = nn.ModuleDict(
            {
                "actor": self.actor,
                "width": self.width,
                "value": self.value,
                "critic": self.critic,
                "target": self.target,
                "actions": actions,
            }
        )
        rate, acting = config.learning_rate, [*self.actor.parameters(), *self.width.parameters()]
        self.optimizers: dict[str, Any] = {
            "actor": adam(acting, rate),
            "critics": adam([*self.value.parameters(), *self.critic.parameters()], rate),
        }

    def update(self, batch: Batch, generator: torch.Generator, step: int) -> tuple[Metrics, Tensor]:
        """A step on values and critics, then one on the actor."""
        config, weights = self.config, batch.get("weights")
        observations, actions = batch["observations"], self.actions.unit(batch["actions"])
        with torch.no_grad():
            known = values(self.target, observations, actions).amin(0)
            following = self.value(batch["next_observations"])[0, :, 0].float()
            targets = td_target(batch["rewards"], batch["discounts"], following)
        value = self.value(observations)[0, :, 0].float()
        value_loss = mean(expectile_loss(known - value, config.expectile), weights)
        found = values(self.critic, observations, actions)  # (2, B)
        td = mean((found - targets).square(), weights)
        descend(self.optimizers["critics"], value_loss + td)  # of no common parameters
        follow(self.target.parameters(), self.critic.parameters(), config.target_rate)

        advantages = known - value.detach()
        means = self.actor(observations)[0].float().tanh()
        likely = gaussian_log_prob(actions, means, self._log_std())
        better = exponential(config.temperature * advantages, config.most_weight)
        actor_loss = -mean(better * likely, weights)
        descend(self.optimizers["actor"], actor_loss)
        metrics = {
            "td_loss": td.detach(),
            "value_loss": value_loss.detach(),
            "value": value.detach().mean(),
            "actor_loss": actor_loss.detach(),
        }
        return metrics, (found.detach().mean(0) - targets).abs()

    def _log_std(self) -> Tensor:
        return self.width["log_std"].clamp(LEAST_LOG_STD, MOST_LOG_STD)

    def policy(self) -> VectorPolicy:
        """The actor."""
        return VectorPolicy(
            "gaussian",
            {"actor": self.actor.layers()},
            self.actions.space(),
            self.name,
            log_std=self._log_std().detach().cpu().numpy().copy(),
        )
