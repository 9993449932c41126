"""Batch-constrained Q-learning over vectors: the best of what the data would do, a little moved."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from trainers.offline.batches import Transitions
from trainers.offline.config import Batch, Metrics, OfflineConfig, Shapes, above, at_least, within
from trainers.offline.losses import mean, td_target
from trainers.offline.networks import MLP, adam, follow, frozen
from trainers.offline.vector_losses import soft_minimum
from trainers.offline.vector_networks import (
    VAE,
    VectorActions,
    descend,
    normal,
    over_samples,
    values,
)
from trainers.offline.vector_policy import VectorPolicy


@dataclass(frozen=True, kw_only=True)
class VectorBCQConfig(OfflineConfig):
    """Batch-constrained Q-learning (Fujimoto et al., 2019, arXiv:1812.02900).

    π(s) = argmax_i Q₁(s, a_i + ξ(s, a_i)),  a_i ~ VAE(s),  |ξ| ≤ Φ
    L_Q  = E[ (Q_j(s, a) − r − γ max_i (λ min_j Q'_j + (1 − λ) max_j Q'_j)(s', a'_i))² ]
    L_ξ  = −E[ Q₁(s, a_i + ξ(s, a_i)) ]

    `num_samples` is 10 as in the authors' code, where d3rlpy takes 100; only acting takes 100.
    """

    discrete: ClassVar[bool] = False

    perturbation_limit: float = 0.05
    """Φ, the most that an entry is moved by, of a space from −1 to 1."""
    num_samples: int = 10
    """Proposals at s' in a target."""
    acting_samples: int = 100
    """Proposals that the policy chooses from."""
    minimum_weight: float = 0.75
    """λ of the target: 1 is the least of both critics."""
    vae_latent_size: int | None = None
    """Entries of the VAE's latent; None is twice those of an action."""
    vae_kl_weight: float = 0.5
    """Of the VAE's divergence beside what it gets wrong."""
    vae_learning_rate: float = 1e-3
    """Of the VAE."""
    vae_epochs: int = 0
    """Passes over the data, at first, in which the VAE alone learns; they count as steps."""
    target_rate: float = 0.005
    """Share by which targets move to what they follow."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 0, "perturbation_limit", "vae_kl_weight", "vae_epochs")
        at_least(self, 1, "num_samples", "acting_samples")
        if self.vae_latent_size is not None:
            at_least(self, 1, "vae_latent_size")
        above(self, 0, "vae_learning_rate", "target_rate")
        within(self, 0, 1, "minimum_weight", "target_rate")

    def build(self, shapes: Shapes, data: Transitions) -> VectorBCQ:
        """The algorithm, untrained."""
        first = self.vae_epochs * math.ceil(len(data) / self.batch_size)
        return VectorBCQ(self, shapes, VectorActions(shapes, data), first)


class VectorBCQ:
    """The VAE of the data's actions, what moves them, two critics, and targets."""

    name = "BCQ"

    def __init__(
        self, config: VectorBCQConfig, shapes: Shapes, actions: VectorActions, first: int
    ) -> None:
        """`first`: steps in which the VAE learns alone."""
        self.config, self.actions, self.first = config, actions, first
        both = shapes.observation + shapes.actions
        latent = config.vae_latent_size or 2 * shapes.actions
        self.vae = VAE(shapes.observation, shapes.actions, latent, config.hidden)
        self.shift = MLP([both, *config.hidden, shapes.actions])
        self.critic = MLP([both, *config.hidden, 1], 2)
        self.target_shift, self.target_critic = frozen(self.shift), frozen(self.critic)
        self.parts = nn.ModuleDict(
            {
                "vae": self.vae,
                "shift": self.shift,
                "critic": self.critic,
                "target_shift": self.target_shift,
                "target_critic": self.target_critic,
                "actions": actions,
            }
        )
        self.optimizers: dict[str, Any] = {
            "vae": adam(self.vae.parameters(), config.vae_learning_rate),
            "shift": adam(self.shift.parameters(), config.learning_rate),
            "critic": adam(self.critic.parameters(), config.learning_rate),
        }

    def update(
        self, batch: Batch, generator: torch.Generator, step: int
    ) -> tuple[Metrics, Tensor | None]:
        """A step on the VAE, and after its epochs alone on the critics and on ξ."""
        config, weights = self.config, batch.get("weights")
        observations, actions = batch["observations"], self.actions.unit(batch["actions"])
        noise = normal((len(actions), self.vae.latent), generator)
        vae_loss = mean(self.vae.loss(observations, actions, noise, config.vae_kl_weight), weights)
        descend(self.optimizers["vae"], vae_loss)
        if step <= self.first:
            return {"vae_loss": vae_loss.detach()}, None
        targets = self.targets(batch, generator)
        found = values(self.critic, observations, actions)  # (2, B)
        td = mean((found - targets).square(), weights)
        descend(self.optimizers["critic"], td)

        with torch.no_grad():
            proposals = self.vae.sample(observations, 1, generator)
        moved = self.actions.decoded(
            self.moved(self.shift, observations, proposals)[:, 0], batch.get("masks")
        )
        descend(
            self.optimizers["shift"], -mean(values(self.critic, observations, moved)[0], weights)
        )
        follow(self.target_shift.parameters(), self.shift.parameters(), config.target_rate)
        follow(self.target_critic.parameters(), self.critic.parameters(), config.target_rate)
        metrics = {
            "vae_loss": vae_loss.detach(),
            "td_loss": td.detach(),
            "value": found.detach().mean(),
        }
        return metrics, (found.detach().mean(0) - targets).abs()

    def moved(self, shift: MLP, observations: Tensor, actions: Tensor) -> Tensor:
        """a + ξ(s, a), within the space.  (B, o), (B, N, d) → (B, N, d)"""
        by = over_samples(shift, observations, actions)[0].float().tanh()
        return (actions + self.config.perturbation_limit * by).clamp(-1.0, 1.0)

    @torch.no_grad()
    def targets(self, batch: Batch, generator: torch.Generator) -> Tensor:
        """r + γ times the best proposal's value.  # (B,)"""
        following, masks = batch["next_observations"], batch.get("next_masks")
        proposals = self.vae.sample(following, self.config.num_samples, generator)
        done = self.actions.decoded(
            self.moved(self.target_shift, following, proposals),
            None if masks is None else masks[:, None],
        )
        found = values(self.target_critic, following, done)  # (2, B, N)
        best = soft_minimum(found, self.config.minimum_weight).amax(-1)
        return td_target(batch["rewards"], batch["discounts"], best)

    def policy(self) -> VectorPolicy:
        """The first critic's choice among what the VAE proposes and ξ moves."""
        return VectorPolicy(
            "generative",
            {
                "decoder": self.vae.decoder.layers(),
                "shift": self.shift.layers(),
                "critic": self.critic.layers(),
            },
            self.actions.space(),
            self.name,
            samples=self.config.acting_samples,
            limit=self.config.perturbation_limit,
        )
