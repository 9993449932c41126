"""One optimiser step on a batch of pairs, for every learner from preferences.

    pairs ─► batch_of(step) ─► micro-batches ─► columns: a number a pair ─► mean loss ─► step

Knows nothing of models or of what the loss is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.errors import InvalidConfiguration, MissingExtra
from trainers.llm.preferences import Preference
from trainers.option_kinds import check_kinds

try:
    import torch
    from torch import Tensor
except ImportError as error:
    raise MissingExtra(error.name or "torch", "llm") from error

Columns = dict[str, Tensor]
"""By name a number for each pair, each (B,); `loss` is among them."""


@dataclass(frozen=True, kw_only=True)
class PairSteps:
    """How a learner from pairs steps, whatever its loss."""

    label_smoothing: float = 0.0
    """ε: how often a label is taken to be wrong; in [0, ½)."""
    learning_rate: float = 5e-5
    """Of AdamW, after the warm-up."""
    warmup: int = 0
    """Steps in which the learning rate rises evenly from 0."""
    weight_decay: float = 0.0
    """Of AdamW."""
    max_grad_norm: float = 1.0
    """A longer gradient is shortened to it."""
    batch_size: int = 32
    """Pairs a step; each pair once, then all in a new order."""
    micro_batch_size: int | None = None
    """Pairs whose gradients are computed together; None: all of a step. Changes no result."""
    seed: int = 0
    """Of the batches."""

    def __post_init__(self) -> None:
        check_kinds(self)
        if not 0.0 <= self.label_smoothing < 0.5:
            raise InvalidConfiguration(
                f"label_smoothing={self.label_smoothing}; it lies in [0, 0.5)"
            )
        for name in ("learning_rate", "max_grad_norm"):
            if not getattr(self, name) > 0.0:
                raise InvalidConfiguration(f"{name}={getattr(self, name)}; it must be above 0")
        for name in ("warmup", "weight_decay"):
            if not getattr(self, name) >= 0:
                raise InvalidConfiguration(f"{name}={getattr(self, name)}; it must be 0 or more")
        for name in ("batch_size", "micro_batch_size"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise InvalidConfiguration(f"{name}={getattr(self, name)}; it must be 1 or more")


def batch_of(count: int, size: int, seed: int, step: int) -> NDArray[np.int64]:
    """Which of `count` pairs the `step`-th batch holds: each once, then all in a new order, ….

    Seed and step alone decide, so that training is taken up again where it broke off.  # (size,)
    """
    first = step * size
    epochs = range(first // count, (first + size - 1) // count + 1)
    orders = [np.random.default_rng([seed, epoch]).permutation(count) for epoch in epochs]
    start = first - epochs[0] * count
    return np.concatenate(orders)[start : start + size]


def take_step(
    config: Any,
    preferences: Sequence[Preference],
    columns: Callable[[Sequence[Preference]], Columns],
    optimizer: torch.optim.Optimizer,
    step: int,
) -> dict[str, float]:
    """Do the step of this number, counted from 0; the means of all columns, and `grad_norm`.

    `config` has batch_size, micro_batch_size, seed, learning_rate, warmup and max_grad_norm.
    Raises InvalidConfiguration where there are no pairs.
    """
    if not preferences:
        raise InvalidConfiguration("there are no preferences to learn from")
    drawn = batch_of(len(preferences), config.batch_size, config.seed, step)
    pairs = [preferences[place] for place in drawn]
    optimizer.zero_grad(set_to_none=True)
    found: list[Columns] = []
    for piece in pieces(pairs, config):
        made = columns(piece)
        (made["loss"].sum() / len(pairs)).backward()
        found.append({name: column.detach() for name, column in made.items()})
    for group in optimizer.param_groups:
        group["lr"] = config.learning_rate * min(1.0, (step + 1) / max(1, config.warmup))
    learnt = [weights for group in optimizer.param_groups for weights in group["params"]]
    norm = torch.nn.utils.clip_grad_norm_(learnt, config.max_grad_norm)
    optimizer.step()
    return means(found) | {"grad_norm": float(norm)}


def pieces(pairs: Sequence[Preference], config: Any) -> list[Sequence[Preference]]:
    """Pairs as many at once as the config allows."""
    size = config.micro_batch_size or config.batch_size
    return [pairs[first : first + size] for first in range(0, len(pairs), size)]


def means(found: Iterable[Columns]) -> dict[str, float]:
    """Of the columns of several pieces; raises InvalidConfiguration where there is none."""
    made = list(found)
    if not made:
        raise InvalidConfiguration("there are no preferences to measure")
    return {name: float(torch.cat([c[name] for c in made]).double().mean()) for name in made[0]}
