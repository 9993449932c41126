"""BEAR over acts: a policy that may leave the behaviour by so much, and no more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from convgym.errors import InvalidConfiguration
from trainers.offline.batches import Transitions
from trainers.offline.config import Batch, Metrics, OfflineConfig, Shapes, above, at_least
from trainers.offline.discrete_policy import DiscretePolicy
from trainers.offline.losses import (
    cross_entropy,
    huber,
    legal_only,
    mean,
    mmd2,
    pessimistic,
    taken,
    td_target,
)
from trainers.offline.multiplier import Multiplier
from trainers.offline.networks import MLP, adam, follow, frozen

KERNELS = ("gaussian", "laplacian")
BOUNDS = ("mean", "each")
_BEYOND = 0.05
"""Share of states that may lie beyond the bound of each."""


@dataclass(frozen=True, kw_only=True)
class BEARConfig(OfflineConfig):
    """Bootstrapping error accumulation reduction (Kumar et al., 2019, arXiv:1906.00949).

    L_Q = E[ h(Q(s, a) − r − γ Σ_a' π(a' | s') Q'(s', a')) ]        h: Huber's loss, Q' the target
    L_π = E[ −Σ_a π(a | s) Q(s, a) + α (MMD²(π, β) − ε) ]           β: a clone of the data
    L_α = −log α · (MMD² − ε)                                       reaches α alone

    With `bound="each"` the distance is held in every state, not on average: π may not buy a wild
    act in one state with likeness in all others.

    L_π = E[ −Σ_a π(a | s) Q(s, a) + α max(0, MMD²(s) − ε) ]
    L_α = −log α · (P(MMD²(s) > ε) − .05)

    Differs from the paper: sums over acts where it samples, so MMD² is exact; masks. The policy
    is the likeliest act of π.
    """

    mmd_threshold: float = 0.05
    """ε: how far π may be from β, by MMD²."""
    bound: str = "mean"
    """ "mean", the paper's: of MMD² over states; "each": in all but one of twenty states."""
    kernel: str = "gaussian"
    """ "gaussian" or "laplacian"."""
    sigma: float = 1.0
    """Width of the kernel; two unlike acts are √2 apart."""
    alpha: float = 1.0
    """α to begin with."""
    alpha_learning_rate: float = 1e-2
    actor_learning_rate: float | None = None
    """Of π; None is `learning_rate`, which is that of Q and β."""
    critics: int = 2
    """Q-networks; more than one are a pessimistic ensemble."""
    pessimism: float | None = None
    """Several critics count as mean − pessimism · std; None takes their minimum."""
    target_rate: float = 0.005
    """How far Q' moves towards Q at each update."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 1, "critics")
        at_least(self, 0, *(["pessimism"] if self.pessimism is not None else []))
        above(self, 0, "mmd_threshold", "sigma", "alpha", "alpha_learning_rate", "target_rate")
        above(self, 0, *(["actor_learning_rate"] if self.actor_learning_rate is not None else []))
        if self.bound not in BOUNDS:
            raise InvalidConfiguration(f"bound={self.bound!r}; it is one of {', '.join(BOUNDS)}")
        if self.kernel not in KERNELS:
            raise InvalidConfiguration(f"kernel={self.kernel!r}; it is one of {', '.join(KERNELS)}")

    def build(self, shapes: Shapes, data: Transitions) -> BEAR:
        """The algorithm, untrained."""
        return BEAR(self, shapes)


class BEAR:
    """A policy, a Q-ensemble, its target, a clone and a multiplier."""

    name = "BEAR"

    def __init__(self, config: BEARConfig, shapes: Shapes) -> None:
        self.config = config
        sizes = [shapes.observation, *config.hidden, shapes.actions]
        self.critic = MLP(sizes, config.critics)
        self.target = frozen(self.critic)
        self.clone, self.actor = MLP(sizes), MLP(sizes)
        self.alpha = Multiplier(config.alpha, config.alpha_learning_rate)
        self.parts = nn.ModuleDict(
            {
                "critic": self.critic,
                "target": self.target,
                "clone": self.clone,
                "actor": self.actor,
                "alpha": self.alpha,
            }
        )
        known = [*self.critic.parameters(), *self.clone.parameters()]
        rate = config.actor_learning_rate or config.learning_rate
        self.optimizers: dict[str, Any] = {
            "values": adam(known, config.learning_rate),
            "actor": adam(self.actor.parameters(), rate),
            "alpha": self.alpha.optimizer,
        }

    def update(self, batch: Batch, generator: torch.Generator, step: int) -> tuple[Metrics, Tensor]:
        """A step on Q and β, then one on π and α."""
        config, actions, weights = self.config, batch["actions"], batch.get("weights")
        seen, masks = batch["observations"], batch.get("masks")
        with torch.no_grad():
            targets = td_target(batch["rewards"], batch["discounts"], self.next_values(batch))
        values, logits = self.critic(seen).float(), self.clone(seen)[0].float()
        done = taken(values, actions)  # (E, B)
        td = mean(huber(done, targets), weights)
        imitation = mean(cross_entropy(logits, actions, masks), weights)
        self.optimizers["values"].zero_grad()
        (td + imitation).backward()
        self.optimizers["values"].step()
        liked = pessimistic(values.detach(), config.pessimism)
        chosen, behavior = self.probabilities(self.actor(seen), masks), logits.detach()
        gain = mean((chosen * liked).sum(-1), weights)
        away = mmd2(chosen, legal_only(behavior, masks).softmax(-1), config.kernel, config.sigma)
        excess = away - config.mmd_threshold  # (B,)
        if config.bound == "each":
            penalty = mean(excess.clamp(min=0.0), weights)
            broken = mean((excess > 0).float(), weights) - _BEYOND
        else:
            broken = penalty = mean(excess, weights)
        alpha = self.alpha.update(broken)
        self.optimizers["actor"].zero_grad()
        (alpha * penalty - gain).backward()
        self.optimizers["actor"].step()
        follow(self.target.parameters(), self.critic.parameters(), config.target_rate)
        metrics = {
            "td_loss": td.detach(),
            "imitation_loss": imitation.detach(),
            "mmd2": mean(away.detach(), weights),
            "alpha": alpha,
        }
        return metrics, (done.detach().mean(0) - targets).abs()

    def next_values(self, batch: Batch) -> Tensor:
        """What π expects by Q', with no weight on illegal acts.  # (B,)"""
        following = batch["next_observations"]
        chosen = self.probabilities(self.actor(following), batch.get("next_masks"))
        values = pessimistic(self.target(following).float(), self.config.pessimism)
        return (chosen * values).sum(-1)

    @staticmethod
    def probabilities(logits: Tensor, masks: Tensor | None) -> Tensor:
        """Of legal acts.  (1, B, A) → (B, A)"""
        return legal_only(logits[0].float(), masks).softmax(-1)

    def policy(self) -> DiscretePolicy:
        """The likeliest act."""
        return DiscretePolicy([self.actor.layers()], self.name)
