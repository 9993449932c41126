"""Features that serve a task on simulated data and look the same on real data.

    simulated, labelled ─► features ─┬─► predict ─► task loss ──┐
    real, unlabelled    ─► features ─┴─► domain loss ───────────┴─► adapted loss

Three domain losses: `trainers.transfer.dann`, `mmd`, `coral`. What a newcomer would get wrong:
alignment is blind to labels, so it helps where both domains have the same ones and what tells the
domains apart is not what tells the labels apart. Where simulated data lack a class that real data
have, it pulls the wrong rows together. Measure on some labelled real data before trusting it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from numpy.typing import ArrayLike

from convgym.errors import InvalidConfiguration, MissingExtra
from trainers.transfer.coral import CORAL
from trainers.transfer.dann import DANN
from trainers.transfer.mmd import MMD

try:
    import torch
    from torch import Tensor, nn
    from torch.nn.functional import cross_entropy
except ImportError as error:
    raise MissingExtra(error.name or "torch", "offline") from error


class Adaptable(Protocol):
    """A model in two parts."""

    def features(self, inputs: Tensor) -> Tensor:
        """What is to look the same in both domains.  (n, …) → (n, d)"""

    def predict(self, features: Tensor) -> Tensor:
        """What the task loss judges, such as logits.  (n, d) → (n, …)"""


class DomainBatch(NamedTuple):
    """Labelled data of one domain beside unlabelled data of another."""

    source: Tensor  # (n, …)
    labels: Tensor  # (n,)
    target: Tensor  # (m, …)

    @classmethod
    def of_arrays(cls, source: ArrayLike, labels: ArrayLike, target: ArrayLike) -> DomainBatch:
        """The same of numpy's arrays."""
        return cls(*map(torch.as_tensor, (source, labels, target)))


def ramp(progress: float) -> float:
    """2 / (1 + e^(−10 p)) − 1: the strength at the share p of training (Ganin et al., § 5.2.2)."""
    return 2.0 / (1.0 + math.exp(-10.0 * progress)) - 1.0


class DomainAdaptationModule(nn.Module):
    """A domain loss of one of three methods, and its strength as training goes on.

        adapted loss = task loss + domain loss            strength = weight · ramp(progress)

    Features see strength times the domain loss's gradient (reversed, for `dann`). Hand the
    parameters of this module to the optimiser beside the model's; only `dann` has any. Set
    `progress`, in [0, 1], as training goes on: features shall first serve the task.
    """

    def __init__(
        self,
        method: str = "dann",
        *,
        features: int,
        weight: float = 1.0,
        hidden: int = 64,
        task_loss: Callable[[Tensor, Tensor], Tensor] = cross_entropy,
        seed: int = 0,
    ) -> None:
        """For `features` numbers a row; `hidden` units of the domain classifier, drawn by `seed`.

        Raises InvalidConfiguration for a value that is not allowed.
        """
        super().__init__()
        losses: Mapping[str, Callable[[], nn.Module]] = {
            "dann": lambda: DANN(features, hidden),
            "mmd": MMD,
            "coral": CORAL,
        }
        if method not in losses:
            raise InvalidConfiguration(f"method={method!r}; it takes one of {list(losses)}")
        for name, number in (("features", features), ("hidden", hidden)):
            if number < 1:
                raise InvalidConfiguration(f"{name}={number}; it takes a whole number ≥ 1")
        if not 0.0 <= weight < math.inf:
            raise InvalidConfiguration(f"weight={weight!r}; it takes a finite number ≥ 0")
        self.method, self.weight, self.task_loss, self.progress = method, weight, task_loss, 1.0
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)  # the processor's alone, as it is restored
            self.loss = losses[method]()

    @property
    def strength(self) -> float:
        """weight · ramp(progress)."""
        return self.weight * ramp(self.progress)

    def compute_domain_loss(self, source_features: Tensor, target_features: Tensor) -> Tensor:
        """How far apart the domains are at this strength.  (n, d), (m, d) → ()"""
        loss: Tensor = self.loss(source_features, target_features, self.strength)
        return loss

    def compute_adapted_loss(self, model: Adaptable, batch: DomainBatch) -> Tensor:
        """Task loss on the source plus domain loss between source and target."""
        source, target = model.features(batch.source), model.features(batch.target)
        task = self.task_loss(model.predict(source), batch.labels)
        return task + self.compute_domain_loss(source, target)
