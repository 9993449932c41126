"""What every offline learner takes, and what it must know of the data before it is built.

    @dataclass(frozen=True, kw_only=True)
    class CQLConfig(OfflineConfig): …   options of one algorithm
        build(shapes, device) ─► Algorithm     networks, one update, a policy
        create(device)        ─► OfflineLearner.fit(data, n_steps)

A config goes to JSON by `to_dict` and comes back by `config_from_dict`, which finds its class by
name in `trainers.offline.registry`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from convgym.errors import InvalidConfiguration
from convgym.policies.policy import Policy
from trainers.offline.batches import Items, Transitions

if TYPE_CHECKING:
    from trainers.offline.learner import OfflineLearner

Batch = dict[str, Tensor]
Metrics = dict[str, Tensor]  # each of shape (), without gradient


@dataclass(frozen=True, eq=False)
class Shapes:
    """What networks must fit."""

    observation: int
    """Entries of an observation."""
    actions: int
    """Acts, or entries of a vector."""
    discrete: bool
    low: NDArray[np.float32] | None = None  # (actions,) of vectors
    high: NDArray[np.float32] | None = None  # (actions,)
    candidates: NDArray[np.float32] | None = None  # (K, d)
    """Vectors of the candidate replies: what an act is, or what a vector is decoded to."""


class Algorithm(Protocol):
    """What an algorithm's file gives to the one loop in `trainers.offline.learner`."""

    name: str
    optimizers: dict[str, torch.optim.Optimizer]

    @property
    def parts(self) -> nn.Module:
        """All that is learnt or followed: networks, targets, multipliers."""

    def update(self, batch: Batch, generator: torch.Generator, step: int) -> tuple[Metrics, Any]:
        """One step on a batch, the `step`-th from 1 on: metrics, and a TD error per row or None."""

    def policy(self) -> Policy:
        """What has been learnt, with weights of its own."""


@dataclass(frozen=True, kw_only=True)
class OfflineConfig:
    """Options that all algorithms share."""

    discrete: ClassVar[bool] = True
    """Whether actions are acts; else vectors."""

    discount: float = 0.99
    """γ per agent turn."""
    n_step: int = 1
    """Turns that a TD target spans."""
    reward_scale: float = 1.0
    """Rewards are multiplied by it."""
    batch_size: int = 128
    learning_rate: float = 1e-3
    hidden: tuple[int, ...] = (256, 256)
    """Units of each layer."""
    precision: str = "float32"
    """Of the multiplications: "bfloat16" is faster at batches of 256 or more, on processors that
    have it; weights stay in 32 bits."""
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "hidden", tuple(self.hidden))
        at_least(self, 1, "n_step", "batch_size")
        above(self, 0, "learning_rate", "reward_scale")
        within(self, 0, 1, "discount")
        if any(size < 1 for size in self.hidden):
            raise InvalidConfiguration(f"hidden={self.hidden}; each layer takes 1 unit or more")
        if self.precision not in ("float32", "bfloat16"):
            raise InvalidConfiguration(
                f'precision={self.precision!r}; it is "float32" or "bfloat16"'
            )

    def build(self, shapes: Shapes, data: Transitions) -> Algorithm:
        """The algorithm, its networks drawn from torch's generator."""
        raise NotImplementedError

    def items(self, turns: Transitions) -> Items:
        """What batches are drawn from: single turns, or stretches of conversations."""
        return turns

    def create(self, device: str = "cpu") -> OfflineLearner:
        """The learner."""
        from trainers.offline.learner import OfflineLearner

        return OfflineLearner(self, device)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, with the config's name."""
        return {"config": type(self).__name__, **asdict(self)}


def checked(config: Any, options: dict[str, Any]) -> Any:
    """A config class with these options; raises InvalidConfiguration for unknown ones."""
    known = {field.name for field in fields(config)}
    if unknown := sorted(options.keys() - known):
        raise InvalidConfiguration(
            f"{config.__name__} has no {', '.join(unknown)}; it takes {', '.join(sorted(known))}"
        )
    return config(**options)


# -- what options may be -------------------------------------------------------------------------


def at_least(config: Any, least: float, *names: str) -> None:
    """Raises InvalidConfiguration for an option below `least`."""
    for name in names:
        if not getattr(config, name) >= least:
            raise InvalidConfiguration(
                f"{name}={getattr(config, name)}; it must be {least} or more"
            )


def above(config: Any, bound: float, *names: str) -> None:
    """Raises InvalidConfiguration for an option that is not above `bound`."""
    for name in names:
        if not getattr(config, name) > bound:
            raise InvalidConfiguration(f"{name}={getattr(config, name)}; it must be above {bound}")


def within(config: Any, low: float, high: float, *names: str) -> None:
    """Raises InvalidConfiguration for an option outside [low, high]."""
    for name in names:
        if not low <= getattr(config, name) <= high:
            raise InvalidConfiguration(f"{name}={getattr(config, name)} is outside [{low}, {high}]")
