"""Turns of logs and of simulated conversations as vectors, and batches of both side by side.

    simulated conversations ─► EncodedTurns, with labels ─┐
                                                          ├─► DomainBatch(source, labels, target)
    logged conversations    ─► EncodedTurns ──────────────┘

A row is one turn of one role; which conversation it came from is forgotten. Knows nothing of what
is learnt from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convgym.conversation import Conversation, Message
from convgym.errors import DatasetError
from convgym.language.encoders import Encoder, HashedEncoder

if TYPE_CHECKING:
    from trainers.transfer.domain_adaptation import DomainBatch

Label = Callable[[Message], int | None]
"""The class of a turn, from 0; None leaves the turn out."""


class TurnBatch(NamedTuple):
    """Some turns."""

    vectors: NDArray[np.float32]  # (n, dim)
    labels: NDArray[np.int64] | None  # (n,) where turns were labelled


class EncodedTurns:
    """All turns of one role that say anything; a source of batches, drawn with replacement."""

    def __init__(
        self,
        conversations: Iterable[Conversation],
        encoder: Encoder | None = None,
        *,
        role: str = "user",
        label: Label | None = None,
        seed: int = 0,
    ) -> None:
        """`encoder` is a HashedEncoder unless told; `seed` is of the draws.

        Raises DatasetError where no turn is left.
        """
        turns = [
            (message.content, label(message) if label else 0)
            for conversation in conversations
            for message in conversation.said_by(role)
            if message.content.strip()
        ]
        texts = [text for text, of in turns if of is not None]
        if not texts:
            raise DatasetError(f"no turn of the role {role!r} says anything, or all were left out")
        labels = np.array([of for _, of in turns if of is not None], dtype=np.int64)
        vectors = (encoder or HashedEncoder()).encode(texts)
        self.all = TurnBatch(vectors, labels if label else None)
        self._rng = np.random.default_rng(seed)

    def __len__(self) -> int:
        return len(self.all.vectors)

    def sample(self, batch_size: int) -> TurnBatch:
        """`batch_size` turns, each as likely as any other."""
        rows = self._rng.integers(0, len(self), batch_size)
        vectors, labels = self.all
        return TurnBatch(vectors[rows], None if labels is None else labels[rows])


def domain_batches(
    source: EncodedTurns, target: EncodedTurns, batch_size: int, steps: int
) -> Iterator[DomainBatch]:
    """`batch_size` turns of each, `steps` times, as `compute_adapted_loss` takes them.

    Raises DatasetError where the source has no labels; needs torch.
    """
    from trainers.transfer.domain_adaptation import DomainBatch

    if source.all.labels is None:
        raise DatasetError("the source's turns have no labels; give it label=, a function of turns")
    for _ in range(steps):
        vectors, labels = source.sample(batch_size)
        assert labels is not None
        yield DomainBatch.of_arrays(vectors, labels, target.sample(batch_size).vectors)
