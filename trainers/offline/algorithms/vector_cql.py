"""Conservative Q-learning over vectors, and Cal-QL, its calibrated form."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from convgym.errors import InvalidConfiguration
from trainers.offline.batches import Transitions
from trainers.offline.config import Batch, Metrics, OfflineConfig, Shapes, above, at_least, within
from trainers.offline.losses import mean, td_target
from trainers.offline.multiplier import Multiplier
from trainers.offline.networks import MLP, adam, follow, frozen
from trainers.offline.vector_losses import soft_maximum, squashed_gaussian
from trainers.offline.vector_networks import VectorActions, descend, normal, values
from trainers.offline.vector_policy import VectorPolicy

MOST_ENTRIES = 64
"""Of an action, for which importance sampling still tells anything."""


@dataclass(frozen=True, kw_only=True)
class VectorCQLConfig(OfflineConfig):
    """Conservative Q-learning, CQL(H) (Kumar et al., 2020, arXiv:2006.04779), on soft actor-critic.

    L_Q = E[ (Q_j(s, a) − r − γ min_i Q'_i(s', a'))² ],  a' ~ π(· | s')
        + α E[ T log ∫ exp(Q_j(s, a) / T) da − Q_j(s, a_data) ]
    L_π = E[ ω log π(a | s) − min_j Q_j(s, a) ],  a ~ π(· | s); ω holds the entropy at −d

    The integral is taken from `random_actions` uniform ones, as many of π(· | s) and of π(· | s'),
    each weighted by its density. Differs from the paper: α is 1, not 5, for returns of about 1.

    `calibrated`: Cal-QL (Nakamoto et al., 2023, arXiv:2303.05479). In the integral, values of the
    policy's actions count as no less than the return that the data earned from there. Offline
    values are then not pushed below the behaviour's, and who goes on online does not first have to
    unlearn a pessimism that would make any new action look good.
    """

    discrete: ClassVar[bool] = False

    cql_alpha: float = 1.0
    """α. At 0 this is soft actor-critic."""
    temperature: float = 1.0
    """T of the integral."""
    random_actions: int = 10
    """Uniform actions, and actions of the policy at s and at s', in the integral."""
    lagrange_threshold: float | None = None
    """Where given, α is learnt such that the conservative gap is this. It is that of the estimated
    integral, below 0 for narrow data, and too low where the policy is much narrower still."""
    alpha_learning_rate: float = 1e-3
    """Of a learnt α."""
    calibrated: bool = False
    """Whether returns of the data are a floor, as in Cal-QL."""
    initial_entropy_weight: float = 0.1
    """ω at first; it is learnt at the actor's rate."""
    actor_learning_rate: float | None = None
    """Of the policy; None is `learning_rate`, which is the critics'."""
    target_rate: float = 0.005
    """Share by which targets move to what they follow."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 0, "cql_alpha")
        at_least(self, 1, "random_actions")
        above(self, 0, "temperature", "alpha_learning_rate", "initial_entropy_weight")
        above(self, 0, "target_rate")
        within(self, 0, 1, "target_rate")
        if self.actor_learning_rate is not None:
            above(self, 0, "actor_learning_rate")

    def build(self, shapes: Shapes, data: Transitions) -> VectorCQL:
        """The algorithm, untrained; raises InvalidConfiguration for vectors of many entries."""
        if shapes.actions > MOST_ENTRIES:
            raise InvalidConfiguration(
                f"actions have {shapes.actions} entries, and continuous CQL takes {MOST_ENTRIES}: "
                "beyond, the densities of random actions rule its loss (in 384 entries it began at "
                "2,586 beside a TD loss of 0.02). Choose among candidates with candidate_cql, or "
                "take IQL, BCQ or TD3+BC"
            )
        return VectorCQL(self, shapes, VectorActions(shapes, data))


class VectorCQL:
    """A squashed Gaussian, two critics with targets, the entropy's weight and, if learnt, α."""

    name = "CQL"

    def __init__(self, config: VectorCQLConfig, shapes: Shapes, actions: VectorActions) -> None:
        self.config, self.actions = config, actions
        self.name = "Cal-QL" if config.calibrated else "CQL"
        self.actor = MLP([shapes.observation, *config.hidden, 2 * shapes.actions])
        self.critic = MLP([shapes.observation + shapes.actions, *config.hidden, 1], 2)
        self.target = frozen(self.critic)
        actor_rate = config.actor_learning_rate or config.learning_rate
        self.entropy = Multiplier(config.initial_entropy_weight, actor_rate)
        self.alpha = Multiplier(config.cql_alpha, config.alpha_learning_rate)
        self.parts = nn.ModuleDict(
            {
                "actor": self.actor,
                "critic": self.critic,
                "target": self.target,
                "entropy": self.entropy,
                "alpha": self.alpha,
                "actions": actions,
            }
        )
        self.optimizers: dict[str, Any] = {
            "actor": adam(self.actor.parameters(), actor_rate),
            "critic": adam(self.critic.parameters(), config.learning_rate),
            "entropy": self.entropy.optimizer,
            "alpha": self.alpha.optimizer,
        }

    def update(self, batch: Batch, generator: torch.Generator, step: int) -> tuple[Metrics, Tensor]:
        """A step on the critics (and on a learnt α), then one on the policy."""
        config, weights = self.config, batch.get("weights")
        observations, actions = batch["observations"], self.actions.unit(batch["actions"])
        targets = self.targets(batch, generator)
        found = values(self.critic, observations, actions)  # (2, B)
        td = loss = mean((found - targets).square(), weights)
        metrics = {"td_loss": td.detach(), "value": found.detach().mean()}
        if config.cql_alpha or config.lagrange_threshold is not None:
            gap = mean(self.integral(batch, generator) - found, weights)
            alpha: float | Tensor = config.cql_alpha
            if config.lagrange_threshold is not None:
                alpha = metrics["alpha"] = self.alpha.update(gap - config.lagrange_threshold)
            loss = td + alpha * gap
            metrics["conservative_gap"] = gap.detach()
        descend(self.optimizers["critic"], loss)
        follow(self.target.parameters(), self.critic.parameters(), config.target_rate)

        chosen, log_probs = self._samples(observations, 1, generator)
        done = self.actions.decoded(chosen[:, 0], batch.get("masks"))
        liked = values(self.critic, observations, done).amin(0)
        descend(
            self.optimizers["actor"], mean(self.entropy.value() * log_probs[:, 0] - liked, weights)
        )
        # Entropy below −d, that is log-densities above d, is too little.
        excess = log_probs.detach().mean() - self.actions.size
        metrics["entropy_weight"] = self.entropy.update(excess)
        return metrics, (found.detach().mean(0) - targets).abs()

    @torch.no_grad()
    def targets(self, batch: Batch, generator: torch.Generator) -> Tensor:
        """r + γ min Q'(s', a'), a' of the policy, without its entropy.  # (B,)"""
        following = batch["next_observations"]
        chosen = self._samples(following, 1, generator)[0][:, 0]
        done = self.actions.decoded(chosen, batch.get("next_masks"))
        least = values(self.target, following, done).amin(0)
        return td_target(batch["rewards"], batch["discounts"], least)

    def integral(self, batch: Batch, generator: torch.Generator) -> Tensor:
        """T log ∫ exp(Q(s, a) / T) da, of each critic.  # (2, B)"""
        config, observations, masks = self.config, batch["observations"], batch.get("masks")
        count, size = config.random_actions, self.actions.size
        with torch.no_grad():
            here, here_odds = self._samples(observations, count, generator)
            there, there_odds = self._samples(batch["next_observations"], count, generator)
            anywhere = torch.rand(
                (len(here), count, size), generator=generator, device=here.device
            ).mul_(2.0).sub_(1.0)  # fmt: skip
            odds = torch.full_like(here_odds, -size * math.log(2.0))
            every = torch.cat([anywhere, here, there], dim=1)  # (B, 3N, d)
            done = self.actions.decoded(every, None if masks is None else masks[:, None])
        found = values(self.critic, observations, done)  # (2, B, 3N)
        if config.calibrated:
            floor = batch["returns_to_go"][:, None]
            found = torch.cat([found[..., :count], found[..., count:].maximum(floor)], dim=-1)
        densities = torch.cat([odds, here_odds, there_odds], dim=1)  # (B, 3N)
        return soft_maximum(found, densities, config.temperature)

    def _samples(
        self, observations: Tensor, count: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """(B, o) → (B, count, d), (B, count)"""
        noise = normal((len(observations), count, self.actions.size), generator)
        return squashed_gaussian(self.actor(observations)[0].float(), noise)

    def policy(self) -> VectorPolicy:
        """The actor."""
        return VectorPolicy(
            "squashed", {"actor": self.actor.layers()}, self.actions.space(), self.name
        )
