"""Behaviour cloning over vectors: of everything, or of the conversations that went best."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from convgym.errors import InvalidConfiguration
from trainers.offline.batches import Transitions
from trainers.offline.config import Batch, Metrics, OfflineConfig, Shapes, above, within
from trainers.offline.losses import mean, of_the_best
from trainers.offline.networks import MLP, adam
from trainers.offline.vector_losses import LEAST_LOG_STD, MOST_LOG_STD, gaussian_log_prob
from trainers.offline.vector_networks import VectorActions, descend
from trainers.offline.vector_policy import VectorPolicy


@dataclass(frozen=True, kw_only=True)
class VectorBCConfig(OfflineConfig):
    """Behaviour cloning; filtered, as the "% BC" of Chen et al. (2021, arXiv:2106.01345).

    deterministic   L = E[ 1(G ≥ quantile) ‖π(s) − a‖² / d ]        G: return of the conversation
    gaussian        L = −E[ 1(G ≥ quantile) log N(a; π(s), σ²) ]    σ: one for each entry

    Of data that do now one thing, now another, the deterministic clone does what lies between.
    """

    discrete: ClassVar[bool] = False

    policy: str = "deterministic"
    """Or "gaussian", which also learns how widely actions scatter."""
    best: float = 1.0
    """Share of conversations, by their return, that are cloned; 1 clones all."""

    def __post_init__(self) -> None:
        super().__post_init__()
        above(self, 0, "best")
        within(self, 0, 1, "best")
        if self.policy not in ("deterministic", "gaussian"):
            raise InvalidConfiguration(
                f'policy={self.policy!r}; it is "deterministic" or "gaussian"'
            )

    def build(self, shapes: Shapes, data: Transitions) -> VectorBC:
        """The algorithm, untrained."""
        least = data.conversation_returns().quantile(1 - self.best) if self.best < 1 else None
        return VectorBC(self, shapes, VectorActions(shapes, data), least)


class VectorBC:
    """A clone, with a width where it is Gaussian."""

    name = "BC"

    def __init__(
        self,
        config: VectorBCConfig,
        shapes: Shapes,
        actions: VectorActions,
        least: Tensor | None = None,
    ) -> None:
        self.config, self.actions, self.least = config, actions, least
        self.actor = MLP([shapes.observation, *config.hidden, shapes.actions])
        self.width = nn.ParameterDict({"log_std": nn.Parameter(torch.zeros(shapes.actions))})
        self.parts = nn.ModuleDict({"actor": self.actor, "width": self.width, "actions": actions})
        learnt = [*self.actor.parameters(), *self.width.parameters()]
        self.optimizers: dict[str, Any] = {"actor": adam(learnt, config.learning_rate)}
        if least is not None:
            self.name = f"BC of the best {config.best:.0%}"

    def update(self, batch: Batch, generator: torch.Generator, step: int) -> tuple[Metrics, None]:
        """A step on the clone."""
        weights = batch.get("weights")
        if self.least is not None:
            weights = of_the_best(batch["conversation_returns"], self.least, weights)
        means = self.actor(batch["observations"])[0].float().tanh()
        actions = self.actions.unit(batch["actions"])
        if self.config.policy == "gaussian":
            losses = -gaussian_log_prob(actions, means, self._log_std())
        else:
            losses = (means - actions).square().mean(-1)
        loss = mean(losses, weights)
        descend(self.optimizers["actor"], loss)
        return {"loss": loss.detach()}, None

    def _log_std(self) -> Tensor:
        return self.width["log_std"].clamp(LEAST_LOG_STD, MOST_LOG_STD)

    def policy(self) -> VectorPolicy:
        """The clone."""
        gaussian = self.config.policy == "gaussian"
        return VectorPolicy(
            self.config.policy,
            {"actor": self.actor.layers()},
            self.actions.space(),
            self.name,
            log_std=self._log_std().detach().cpu().numpy().copy() if gaussian else None,
        )
