"""Bootstrapping-error reduction: as good as it may be within the support of the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from convgym.errors import InvalidConfiguration
from trainers.offline.batches import Transitions
from trainers.offline.config import Batch, Metrics, OfflineConfig, Shapes, above, at_least, within
from trainers.offline.divergences import KERNELS, mmd
from trainers.offline.losses import mean, td_target
from trainers.offline.multiplier import Multiplier
from trainers.offline.networks import MLP, adam, follow, frozen
from trainers.offline.vector_losses import soft_minimum, squashed_gaussian
from trainers.offline.vector_networks import VAE, VectorActions, descend, normal, values
from trainers.offline.vector_policy import VectorPolicy


@dataclass(frozen=True, kw_only=True)
class VectorBEARConfig(OfflineConfig):
    """BEAR (Kumar et al., 2019, arXiv:1906.00949).

    max_π E[ min_j Q_j(s, a) ]  such that  E[ MMD(π(· | s), data(· | s)) ] ≤ ε
    L_π = −E[ min_j Q_j ] + α (E[ MMD ] − ε),  α up where MMD > ε and down where it is below

    Differs from the paper: MMD is that of actions after tanh, and actions are squashed once;
    d3rlpy's BEAR squashes the clone's twice, and its step of α cancels the actor's penalty.
    """

    discrete: ClassVar[bool] = False

    kernel: str = "laplacian"
    """Or "gaussian"."""
    sigma: float = 20.0
    """The kernels are exp(−‖x − y‖₁ / 2σ) and exp(−‖x − y‖₂² / 2σ)."""
    mmd_samples: int = 4
    """Actions of the policy, and of the data's VAE, that MMD is taken from."""
    lagrange_threshold: float = 0.05
    """ε. With d(x, y) what a kernel's numerator is, MMD of two single points is √(d / σ)."""
    alpha_learning_rate: float = 1e-3
    """Of α."""
    initial_alpha: float = 1.0
    """α at first."""
    warmup_steps: int = 0
    """Steps, at first, in which the policy only comes near the data."""
    num_samples: int = 10
    """Actions at s' of which a target takes the best."""
    acting_samples: int = 10
    """Actions that the policy chooses from by Q; 1 does its mean."""
    minimum_weight: float = 0.75
    """λ of the target, λ min + (1 − λ) max of both critics."""
    vae_latent_size: int | None = None
    """Entries of the VAE's latent; None is twice those of an action."""
    vae_kl_weight: float = 0.5
    """Of the VAE's divergence beside what it gets wrong."""
    vae_learning_rate: float = 1e-3
    """Of the VAE."""
    actor_learning_rate: float | None = None
    """Of the policy; None is `learning_rate`, which is the critics'."""
    target_rate: float = 0.005
    """Share by which targets move to what they follow."""

    def __post_init__(self) -> None:
        super().__post_init__()
        above(self, 0, "sigma", "lagrange_threshold", "initial_alpha", "alpha_learning_rate")
        above(self, 0, "vae_learning_rate", "target_rate")
        at_least(self, 2, "mmd_samples")
        at_least(self, 1, "num_samples", "acting_samples")
        at_least(self, 0, "warmup_steps", "vae_kl_weight")
        within(self, 0, 1, "minimum_weight", "target_rate")
        for name in ("vae_latent_size", "actor_learning_rate"):
            if getattr(self, name) is not None:
                above(self, 0, name)
        if self.kernel not in KERNELS:
            raise InvalidConfiguration(f"kernel={self.kernel!r}; it is one of {KERNELS}")

    def build(self, shapes: Shapes, data: Transitions) -> VectorBEAR:
        """The algorithm, untrained."""
        return VectorBEAR(self, shapes, VectorActions(shapes, data))


class VectorBEAR:
    """A squashed Gaussian, the VAE of the data's actions, two critics with targets, and α."""

    name = "BEAR"

    def __init__(self, config: VectorBEARConfig, shapes: Shapes, actions: VectorActions) -> None:
        self.config, self.actions = config, actions
        self.actor = MLP([shapes.observation, *config.hidden, 2 * shapes.actions])
        self.critic = MLP([shapes.observation + shapes.actions, *config.hidden, 1], 2)
        self.target_actor, self.target_critic = frozen(self.actor), frozen(self.critic)
        latent = config.vae_latent_size or 2 * shapes.actions
        self.vae = VAE(shapes.observation, shapes.actions, latent, config.hidden)
        self.alpha = Multiplier(config.initial_alpha, config.alpha_learning_rate)
        self.parts = nn.ModuleDict(
            {
                "actor": self.actor,
                "critic": self.critic,
                "target_actor": self.target_actor,
                "target_critic": self.target_critic,
                "vae": self.vae,
                "alpha": self.alpha,
                "actions": actions,
            }
        )
        actor_rate = config.actor_learning_rate or config.learning_rate
        self.optimizers: dict[str, Any] = {
            "actor": adam(self.actor.parameters(), actor_rate),
            "critic": adam(self.critic.parameters(), config.learning_rate),
            "vae": adam(self.vae.parameters(), config.vae_learning_rate),
            "alpha": self.alpha.optimizer,
        }

    def update(self, batch: Batch, generator: torch.Generator, step: int) -> tuple[Metrics, Tensor]:
        """A step on the VAE, the critics, the policy and α."""
        config, weights = self.config, batch.get("weights")
        observations, actions = batch["observations"], self.actions.unit(batch["actions"])
        noise = normal((len(actions), self.vae.latent), generator)
        vae_loss = mean(self.vae.loss(observations, actions, noise, config.vae_kl_weight), weights)
        descend(self.optimizers["vae"], vae_loss)

        targets = self.targets(batch, generator)
        found = values(self.critic, observations, actions)  # (2, B)
        td = mean((found - targets).square(), weights)
        descend(self.optimizers["critic"], td)

        liked, apart = self.actor_terms(batch, generator)
        loss = self.alpha.value() * apart - (liked if step > config.warmup_steps else 0.0)
        descend(self.optimizers["actor"], loss)
        alpha = self.alpha.update(apart - config.lagrange_threshold)
        follow(self.target_actor.parameters(), self.actor.parameters(), config.target_rate)
        follow(self.target_critic.parameters(), self.critic.parameters(), config.target_rate)
        metrics = {
            "vae_loss": vae_loss.detach(),
            "td_loss": td.detach(),
            "mmd": apart.detach(),
            "alpha": alpha,
            "value": found.detach().mean(),
        }
        return metrics, (found.detach().mean(0) - targets).abs()

    @torch.no_grad()
    def targets(self, batch: Batch, generator: torch.Generator) -> Tensor:
        """r + γ times the best of some of the target policy's actions.  # (B,)"""
        following, masks = batch["next_observations"], batch.get("next_masks")
        chosen = self._samples(self.target_actor, following, self.config.num_samples, generator)
        done = self.actions.decoded(chosen, None if masks is None else masks[:, None])
        found = values(self.target_critic, following, done)  # (2, B, N)
        best = soft_minimum(found, self.config.minimum_weight).amax(-1)
        return td_target(batch["rewards"], batch["discounts"], best)

    def actor_terms(self, batch: Batch, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """E[min_j Q_j] of the policy's actions, and E[MMD] between them and the data's.  (), ()"""
        config, observations, masks = self.config, batch["observations"], batch.get("masks")
        chosen = self._samples(self.actor, observations, config.mmd_samples, generator)
        done = self.actions.decoded(chosen, None if masks is None else masks[:, None])
        liked = values(self.critic, observations, done).mean(-1).amin(0)  # (B,)
        with torch.no_grad():
            usual = self.vae.sample(observations, config.mmd_samples, generator)
        apart = mmd(chosen, usual, config.kernel, config.sigma)
        return mean(liked, batch.get("weights")), mean(apart, batch.get("weights"))

    def _samples(
        self, actor: MLP, observations: Tensor, count: int, generator: torch.Generator
    ) -> Tensor:
        """(B, o) → (B, count, d)"""
        noise = normal((len(observations), count, self.actions.size), generator)
        return squashed_gaussian(actor(observations)[0].float(), noise)[0]

    def policy(self) -> VectorPolicy:
        """The first critic's choice among some of the policy's actions."""
        return VectorPolicy(
            "squashed",
            {"actor": self.actor.layers(), "critic": self.critic.layers()},
            self.actions.space(),
            self.name,
            samples=self.config.acting_samples,
        )
