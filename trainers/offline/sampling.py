"""Which transitions a batch holds.

    sampling.draw(size, generator) ─► indices (B,), weights (B,) or None
    sampling.heard(indices, errors)   after the update: how wrong each was

Knows nothing of what is at an index.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor


class Sampling(Protocol):
    """A way to choose the transitions of each batch."""

    def draw(self, size: int, generator: torch.Generator) -> tuple[Tensor, Tensor | None]:
        """Indices, and importance weights where they are not drawn alike."""

    def heard(self, indices: Tensor, errors: Tensor) -> None:
        """The TD errors of a batch that was drawn."""

    def state(self) -> dict[str, Tensor]:
        """What must be saved to draw the same batches again."""

    def restore(self, state: dict[str, Tensor]) -> None:
        """Go on from a saved state."""


class Uniform:
    """Each transition alike, with replacement."""

    def __init__(self, count: int) -> None:
        self.count = count

    def draw(self, size: int, generator: torch.Generator) -> tuple[Tensor, Tensor | None]:
        """Indices, all of the same weight."""
        device = generator.device
        return torch.randint(self.count, (size,), generator=generator, device=device), None

    def heard(self, indices: Tensor, errors: Tensor) -> None:
        """Nothing to learn from it."""

    def state(self) -> dict[str, Tensor]:
        """Nothing to save."""
        return {}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Nothing to restore."""
