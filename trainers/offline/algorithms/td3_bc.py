"""TD3 with a clone's loss beside it: as good as the critic says, as near to the data as it must."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from trainers.offline.batches import Transitions
from trainers.offline.config import Batch, Metrics, OfflineConfig, Shapes, above, at_least, within
from trainers.offline.losses import mean, td_target
from trainers.offline.networks import MLP, adam, follow, frozen
from trainers.offline.vector_networks import VectorActions, descend, normal, values
from trainers.offline.vector_policy import VectorPolicy


@dataclass(frozen=True, kw_only=True)
class TD3BCConfig(OfflineConfig):
    """TD3+BC (Fujimoto & Gu, 2021, arXiv:2106.06860).

    L_π = −α / E|Q| · E[ Q₁(s, π(s)) ] + E[ ‖π(s) − a‖² / d ]
    L_Q = E[ (Q_i(s, a) − r − γ min_j Q'_j(s', π'(s') + clipped noise))² ]

    Differs from the paper: observations are taken as they are, not standardised; ConvGym's lie
    within [−1, 1] or are small counts.
    """

    discrete: ClassVar[bool] = False

    alpha: float = 2.5
    """α, what the critic counts beside the clone's loss; 0 is cloning alone."""
    policy_noise: float = 0.2
    """σ of the noise on the target's action, of a space from −1 to 1."""
    noise_clip: float = 0.5
    """Largest noise on an entry."""
    policy_delay: int = 2
    """Steps of the critics to one of the policy and of the targets."""
    target_rate: float = 0.005
    """Share by which targets move to what they follow."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 0, "alpha", "policy_noise", "noise_clip")
        at_least(self, 1, "policy_delay")
        above(self, 0, "target_rate")
        within(self, 0, 1, "target_rate")

    def build(self, shapes: Shapes, data: Transitions) -> TD3BC:
        """The algorithm, untrained."""
        return TD3BC(self, shapes, VectorActions(shapes, data))


class TD3BC:
    """One actor, two critics, and targets of them all."""

    name = "TD3+BC"

    def __init__(self, config: TD3BCConfig, shapes: Shapes, actions: VectorActions) -> None:
        self.config, self.actions = config, actions
        self.actor = MLP([shapes.observation, *config.hidden, shapes.actions])
        self.critic = MLP([shapes.observation + shapes.actions, *config.hidden, 1], 2)
        self.target_actor, self.target_critic = frozen(self.actor), frozen(self.critic)
        self.parts = nn.ModuleDict(
            {
                "actor": self.actor,
                "critic": self.critic,
                "target_actor": self.target_actor,
                "target_critic": self.target_critic,
                "actions": actions,
            }
        )
        self.optimizers: dict[str, Any] = {
            "actor": adam(self.actor.parameters(), config.learning_rate),
            "critic": adam(self.critic.parameters(), config.learning_rate),
        }

    def update(self, batch: Batch, generator: torch.Generator, step: int) -> tuple[Metrics, Tensor]:
        """A step on the critics, and every `policy_delay`-th time one on the actor."""
        config, weights = self.config, batch.get("weights")
        observations, actions = batch["observations"], self.actions.unit(batch["actions"])
        targets = self.targets(batch, generator)
        found = values(self.critic, observations, actions)  # (2, B)
        loss = mean((found - targets).square(), weights)
        descend(self.optimizers["critic"], loss)
        metrics = {"td_loss": loss.detach(), "value": found.detach().mean()}
        # A mean over all steps: 0 where the actor rests, so many times more where it does not.
        metrics["clone_loss"] = torch.zeros_like(metrics["value"])
        if step % config.policy_delay == 0:
            metrics["clone_loss"] = self._improve(batch, actions) * config.policy_delay
        return metrics, (found.detach().mean(0) - targets).abs()

    @torch.no_grad()
    def targets(self, batch: Batch, generator: torch.Generator) -> Tensor:
        """r + γ min Q'(s', a'), a' near what the target actor does.  # (B,)"""
        config, following = self.config, batch["next_observations"]
        means = self.target_actor(following)[0].float().tanh()
        noise = config.policy_noise * normal(tuple(means.shape), generator)
        noisy = (means + noise.clamp(-config.noise_clip, config.noise_clip)).clamp(-1.0, 1.0)
        done = self.actions.decoded(noisy, batch.get("next_masks"))
        least = values(self.target_critic, following, done).amin(0)
        return td_target(batch["rewards"], batch["discounts"], least)

    def _improve(self, batch: Batch, actions: Tensor) -> Tensor:
        """A step on the actor and on all targets; the clone's loss."""
        config, observations, weights = self.config, batch["observations"], batch.get("weights")
        chosen = self.actor(observations)[0].float().tanh()
        clone = mean((chosen - actions).square().mean(-1), weights)
        loss = clone
        if config.alpha:
            done = self.actions.decoded(chosen, batch.get("masks"))
            liked = values(self.critic, observations, done)[0]
            scale = config.alpha / liked.detach().abs().mean().clamp(min=1e-6)
            loss = clone - scale * mean(liked, weights)
        descend(self.optimizers["actor"], loss)
        follow(self.target_actor.parameters(), self.actor.parameters(), config.target_rate)
        follow(self.target_critic.parameters(), self.critic.parameters(), config.target_rate)
        return clone.detach()

    def policy(self) -> VectorPolicy:
        """The actor."""
        return VectorPolicy(
            "deterministic", {"actor": self.actor.layers()}, self.actions.space(), self.name
        )
