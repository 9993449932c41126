"""Conservative Q-learning over acts; without the conservative term, double Q-learning."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from trainers.offline.batches import Transitions
from trainers.offline.config import Batch, Metrics, OfflineConfig, Shapes, above, at_least
from trainers.offline.discrete_policy import DiscretePolicy
from trainers.offline.losses import conservative_gap, huber, legal_only, mean, taken, td_target
from trainers.offline.networks import MLP, adam, follow, frozen


@dataclass(frozen=True, kw_only=True)
class CQLConfig(OfflineConfig):
    """Conservative Q-learning (Kumar et al., 2020, arXiv:2006.04779).

    L = E[ h(Q(s, a) − r − γ Q'(s', argmax Q(s', ·))) ]           h: Huber's loss, Q' the target
      + α E[ log Σ_a exp(Q(s, a) / T) · T − Q(s, a_data) ]        over legal acts only

    Differs from the paper: double Q-learning (van Hasselt et al., 2016, arXiv:1509.06461), masks.
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
    """Where given, α is learnt such that the conservative gap is this."""
    alpha_learning_rate: float = 1e-3
    """Of a learnt α."""
    critics: int = 1
    """Q-networks; more than one are a pessimistic ensemble."""
    pessimism: float | None = None
    """Several critics count as mean − pessimism · std; None takes their minimum."""
    target_update: int = 500
    """Updates between two copies of Q to Q'."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 0, "cql_alpha", *(["pessimism"] if self.pessimism is not None else []))
        at_least(self, 1, "critics", "target_update")
        above(self, 0, "temperature", "alpha_learning_rate")

    def build(self, shapes: Shapes, data: Transitions) -> CQL:
        """The algorithm, untrained."""
        return CQL(self, shapes)


class CQL:
    """One Q-ensemble and its target."""

    name = "CQL"

    def __init__(self, config: CQLConfig, shapes: Shapes) -> None:
        self.config = config
        self.critic = MLP([shapes.observation, *config.hidden, shapes.actions], config.critics)
        self.target = frozen(self.critic)
        self.parts = nn.ModuleDict({"critic": self.critic, "target": self.target})
        self.optimizers: dict[str, Any] = {
            "critic": adam(self.critic.parameters(), config.learning_rate)
        }
        if config.lagrange_threshold is not None:
            start = math.log(max(config.cql_alpha, 1e-6))
            self.log_alpha = nn.ParameterDict({"log": nn.Parameter(torch.tensor(start))})
            self.parts["alpha"] = self.log_alpha
            self.optimizers["alpha"] = adam(self.log_alpha.parameters(), config.alpha_learning_rate)

    def update(self, batch: Batch, generator: torch.Generator, step: int) -> tuple[Metrics, Tensor]:
        """A step on Q (and on a learnt α)."""
        config, masks, weights = self.config, batch.get("masks"), batch.get("weights")
        with torch.no_grad():
            targets = td_target(batch["rewards"], batch["discounts"], self.next_values(batch))
        values = self.critic(batch["observations"]).float()  # (E, B, A)
        done = taken(values, batch["actions"])
        td = mean(huber(done, targets), weights)
        floor = batch["returns_to_go"] / config.temperature if config.calibrated else None
        gap = config.temperature * conservative_gap(
            values / config.temperature, batch["actions"], masks, floor
        )
        conservative = mean(gap, weights)
        alpha: float | Tensor = config.cql_alpha
        metrics = {"td_loss": td.detach(), "conservative_gap": conservative.detach()}
        if config.lagrange_threshold is not None:
            alpha = self._learnt_alpha(conservative.detach() - config.lagrange_threshold)
            metrics["alpha"] = alpha
        self.optimizers["critic"].zero_grad()
        (td + alpha * conservative if config.cql_alpha else td).backward()
        self.optimizers["critic"].step()
        if step % config.target_update == 0:
            follow(self.target.parameters(), self.critic.parameters())
        return metrics, (done.detach().mean(0) - targets).abs()

    def next_values(self, batch: Batch) -> Tensor:
        """Q'(s', a') of the act that Q likes best, legal ones only.  # (B,)"""
        following = batch["next_observations"]
        liked = pessimistic(self.critic(following), self.config.pessimism)
        best = legal_only(liked, batch.get("next_masks")).argmax(-1)
        return taken(pessimistic(self.target(following), self.config.pessimism), best).float()

    def _learnt_alpha(self, excess: Tensor) -> Tensor:
        """A step up where the gap is above its threshold; the new α."""
        log = self.log_alpha["log"]
        self.optimizers["alpha"].zero_grad()
        (-log * excess).backward()
        self.optimizers["alpha"].step()
        return log.detach().exp().clamp(max=1e6)

    def policy(self) -> DiscretePolicy:
        """Greedy."""
        return DiscretePolicy(
            [self.critic.layers(e) for e in range(self.critic.count)],
            self.name,
            pessimism=self.config.pessimism if self.critic.count > 1 else 0.0,
        )


def pessimistic(values: Tensor, pessimism: float | None) -> Tensor:
    """mean − κ · std over the ensemble, or its minimum where κ is None.  (E, B, A) → (B, A)"""
    if len(values) == 1:
        return values[0]
    if pessimism is None:
        return values.amin(0)
    return values.mean(0) - pessimism * values.std(0, correction=0)
