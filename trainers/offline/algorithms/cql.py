"""Conservative Q-learning over acts; without the conservative term, double Q-learning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from convgym.errors import DatasetError, InvalidConfiguration
from trainers.offline.batches import Transitions
from trainers.offline.config import Batch, Metrics, OfflineConfig, Shapes, above, at_least
from trainers.offline.discrete_policy import DiscretePolicy
from trainers.offline.losses import (
    conservative_gap,
    cross_entropy,
    exponential,
    huber,
    inverse_propensities,
    legal_only,
    mean,
    pessimistic,
    taken,
    td_target,
)
from trainers.offline.multiplier import Multiplier
from trainers.offline.networks import MLP, adam, follow, frozen

WEIGHTINGS = ("none", "importance", "return")


@dataclass(frozen=True, kw_only=True)
class CQLConfig(OfflineConfig):
    """Conservative Q-learning (Kumar et al., 2020, arXiv:2006.04779).

    L = E[ w h(Q(s, a) − r − γ v(s')) ]                           h: Huber's loss, Q' the target
      + α E[ w (log Σ_a exp(Q(s, a) / T) · T − Q(s, a_data)) ]    over legal acts only

    v(s') = Q'(s', argmax_a Q(s', a) + λ_BC log β(a | s'))        β: a clone, trained beside Q
          = λ_KL log Σ_a β(a | s') exp(Q'(s', a) / λ_KL)          where `kl_weight` λ_KL is given

    and the policy is the act that is best by Q + λ log β. Differs from the paper: double
    Q-learning (van Hasselt et al., 2016, arXiv:1509.06461), masks, and rows weighted by w.
    `calibrated` is Cal-QL (Nakamoto et al., 2023, arXiv:2303.05479): in the log-sum-exp stands
    max(Q(s, a), G), where G is what the data went on to earn from s.
    """

    cql_alpha: float = 0.5
    """α. At 0 this is double Q-learning; with much of it, acts rank as a clone ranks them."""
    temperature: float = 1.0
    """T of the log-sum-exp."""
    calibrated: bool = False
    """Whether values are pushed down to the return of the data only; for tuning online later."""
    lagrange_threshold: float | None = None
    """Where given, α starts at `cql_alpha` and is learnt such that the conservative gap is this."""
    alpha_learning_rate: float = 1e-3
    """Of a learnt α."""
    bc_weight: float = 0.0
    """λ_BC: how much the clone has a say in which act is best."""
    kl_weight: float = 0.0
    """λ_KL of KL(π ‖ β), which the policy pays for leaving the behaviour."""
    weighting: str = "none"
    """w: "importance" is 1 / propensity, "return" is exp((G − mean G) / `weight_temperature`), G
    the whole conversation's return; either has mean 1 in a batch."""
    weight_temperature: float = 0.5
    """In units of return; smaller trusts the best conversations more."""
    max_weight: float = 20.0
    """Weights are cut here, before their mean is made 1."""
    critics: int = 1
    """Q-networks; more than one are a pessimistic ensemble."""
    pessimism: float | None = None
    """Several critics count as mean − pessimism · std; None takes their minimum."""
    target_update: int = 500
    """Updates between two copies of Q to Q'."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 0, "cql_alpha", *(["pessimism"] if self.pessimism is not None else []))
        at_least(self, 0, "bc_weight", "kl_weight")
        at_least(self, 1, "critics", "target_update")
        above(self, 0, "temperature", "alpha_learning_rate", "weight_temperature", "max_weight")
        if self.bc_weight and self.kl_weight:
            raise InvalidConfiguration(
                f"bc_weight={self.bc_weight}, kl_weight={self.kl_weight}; give one of them"
            )
        if self.weighting not in WEIGHTINGS:
            raise InvalidConfiguration(
                f"weighting={self.weighting!r}; it is one of {', '.join(WEIGHTINGS)}"
            )

    def build(self, shapes: Shapes, data: Transitions) -> CQL:
        """The algorithm, untrained; raises DatasetError for propensities that are not there."""
        if self.weighting == "importance" and not data.has("propensities"):
            raise DatasetError(
                'weighting="importance" takes the propensity of each act, and these data have '
                'none; take "return" or "none"'
            )
        return CQL(self, shapes, data.conversation_returns().mean())


@dataclass(frozen=True, kw_only=True)
class DQNConfig(CQLConfig):
    """Double Q-learning (van Hasselt et al., 2016, arXiv:1509.06461): CQL without its term."""

    cql_alpha: float = 0.0
    """Of the conservative term."""


class CQL:
    """A Q-ensemble, its target, and where they are asked for a clone and a multiplier."""

    def __init__(self, config: CQLConfig, shapes: Shapes, mean_return: Tensor) -> None:
        self.config, self.mean_return = config, mean_return
        conservative = config.cql_alpha > 0 or config.lagrange_threshold is not None
        self.name = "CQL" if conservative else "double DQN"
        self.critic = MLP([shapes.observation, *config.hidden, shapes.actions], config.critics)
        self.target = frozen(self.critic)
        self.parts = nn.ModuleDict({"critic": self.critic, "target": self.target})
        learnt = [*self.critic.parameters()]
        self.behavior_weight = config.bc_weight or config.kl_weight
        if self.behavior_weight:
            self.clone = MLP([shapes.observation, *config.hidden, shapes.actions])
            self.parts["clone"] = self.clone
            learnt += self.clone.parameters()
        self.optimizers: dict[str, Any] = {"critic": adam(learnt, config.learning_rate)}
        if config.lagrange_threshold is not None:
            self.alpha = Multiplier(config.cql_alpha, config.alpha_learning_rate)
            self.parts["alpha"] = self.alpha
            self.optimizers["alpha"] = self.alpha.optimizer

    def update(self, batch: Batch, generator: torch.Generator, step: int) -> tuple[Metrics, Tensor]:
        """A step on Q, and on the clone and α where there are any."""
        config, masks, actions = self.config, batch.get("masks"), batch["actions"]
        weights = self.row_weights(batch)
        with torch.no_grad():
            targets = td_target(batch["rewards"], batch["discounts"], self.next_values(batch))
        values = self.critic(batch["observations"]).float()  # (E, B, A)
        done = taken(values, actions)
        loss = td = mean(huber(done, targets), weights)
        floor = batch["returns_to_go"] / config.temperature if config.calibrated else None
        gap = config.temperature * conservative_gap(
            values / config.temperature, actions, masks, floor
        )
        conservative = mean(gap, weights)
        metrics = {"td_loss": td.detach(), "conservative_gap": conservative.detach()}
        if config.lagrange_threshold is not None:
            alpha = metrics["alpha"] = self.alpha.update(conservative - config.lagrange_threshold)
            loss = loss + alpha * conservative
        elif config.cql_alpha:
            loss = loss + config.cql_alpha * conservative
        if self.behavior_weight:
            logits = self.clone(batch["observations"])[0].float()
            imitation = mean(cross_entropy(logits, actions, masks), weights)
            metrics["imitation_loss"] = imitation.detach()
            loss = loss + imitation
        self.optimizers["critic"].zero_grad()
        loss.backward()
        self.optimizers["critic"].step()
        if step % config.target_update == 0:
            follow(self.target.parameters(), self.critic.parameters())
        return metrics, (done.detach().mean(0) - targets).abs()

    def row_weights(self, batch: Batch) -> Tensor | None:
        """How much each row counts, by the sampling and by `weighting`.  # (B,)"""
        config, weights = self.config, batch.get("weights")
        if config.weighting == "none":
            return weights
        if config.weighting == "importance":
            own = inverse_propensities(batch["propensities"], config.max_weight)
        else:
            better = batch["conversation_returns"] - self.mean_return
            own = exponential(better / config.weight_temperature, config.max_weight)
        own = own / own.mean()
        return own if weights is None else own * weights

    def next_values(self, batch: Batch) -> Tensor:
        """v(s') by legal acts only.  # (B,)"""
        config, following = self.config, batch["next_observations"]
        masks = batch.get("next_masks")
        values = pessimistic(self.target(following).float(), config.pessimism)
        if config.kl_weight:
            known = legal_only(self.clone(following)[0].float(), masks).log_softmax(-1)
            return config.kl_weight * (values / config.kl_weight + known).logsumexp(-1)
        liked = pessimistic(self.critic(following), config.pessimism)
        if config.bc_weight:
            liked = liked + config.bc_weight * self.clone(following)[0]
        return taken(values, legal_only(liked, masks).argmax(-1))

    def policy(self) -> DiscretePolicy:
        """Greedy."""
        return DiscretePolicy(
            [self.critic.layers(e) for e in range(self.critic.count)],
            self.name,
            pessimism=self.config.pessimism if self.critic.count > 1 else 0.0,
            support=self.clone.layers() if self.behavior_weight else None,
            prior=self.behavior_weight,
        )
