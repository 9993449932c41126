"""Replies in free text as records that the batched engine takes, each read once and kept.

    texts ─► places ─► step_readings(rows, places, readings)
               └─► lengths, and the sentences that a tool's answer may quote
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from convgym.engine.batched_domain import BatchedDomain
from convgym.envs.modes import ACTION_LENGTH
from convgym.spaces import sanitize

_EACH, _FEWEST, _MOST = 32, 1 << 10, 1 << 14
"""Replies kept: so many of each conversation, within bounds, if not more come in one step."""


class BatchedReplies:
    """Replies of one domain's agents, read; for `count` of them at a time."""

    remembers = True
    """Whether a reply that comes again is not read again; benchmarks do without."""

    def __init__(self, batched: BatchedDomain, count: int) -> None:
        kept = max(_FEWEST, min(_MOST, _EACH * count))
        self._batched, self._most = batched, max(kept, 2 * count)
        self.readings = np.zeros(self._most, batched.reading)
        self._lengths = np.zeros(self._most, dtype=np.int64)
        self._quotes: list[tuple[str, ...]] = []
        self._places: dict[str, int] = {}

    def places(self, texts: Sequence[str]) -> NDArray[np.int32]:
        """Where in `readings` each of these texts stands, until the next call.

        Raises InvalidAction for what is no text.
        """
        known = self._places
        try:
            return np.array([known[text] for text in texts], dtype=np.int32)
        except (KeyError, TypeError):  # what cannot be looked up is refused by `sanitize`
            pass
        if len(self._quotes) + len(texts) > self._most:
            known.clear()
            self._quotes.clear()
        free = len(self._quotes)
        self.readings[free : free + len(texts)] = 0
        return np.array([self._place(text) for text in texts], dtype=np.int32)

    def _place(self, text: str) -> int:
        clean = sanitize(text, ACTION_LENGTH)
        if text in self._places:
            return self._places[text]
        place = len(self._quotes)
        self._quotes.append(self._batched.read(clean, self.readings[place]))
        self._lengths[place] = len(clean)
        if self.remembers and len(text) <= ACTION_LENGTH:  # a longer one would be kept whole
            self._places[text] = place
        return place

    def lengths(self, places: NDArray[np.int32]) -> NDArray[np.int64]:
        """Characters of these replies."""
        return self._lengths[places]

    def quotes(self, places: NDArray[np.int32]) -> list[tuple[str, ...]]:
        """Sentences that the answers to these replies may quote."""
        quotes = self._quotes
        return [quotes[place] for place in places.tolist()]
