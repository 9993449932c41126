"""One conversation while it is played: its tokens as they are read and sampled, what it earns.

    opening ─► reply ─► continuation ─► reply ─► …        one segment
                             └─ the history was edited: a new segment begins with an opening

Tokens are only ever appended. Knows nothing of environments or samplers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainers.llm.conversations import Message
from trainers.llm.rollouts import Rollout, Segment


class ConversationRecord:
    """`member` counts the rollouts of a seed; `room` is the longest context in tokens."""

    def __init__(self, number: int, seed: int, member: int, room: int) -> None:
        self.number, self.seed, self.member, self.room = number, seed, member, room
        self.turn = 0
        """Replies so far."""
        self.error = self.task = ""
        self._rewards: list[float] = []
        self._segments: list[Segment] = []
        self._begin()

    def _begin(self) -> None:
        self._tokens = np.zeros(self.room, np.int64)
        self._turns = np.full(self.room, -1)
        self._log_probs = np.zeros(self.room, np.float32)
        self._length = 0

    @property
    def context(self) -> NDArray[np.int64]:
        """What the next reply is asked with; a view that later tokens do not change.  # (L,)"""
        return self._tokens[: self._length]

    @property
    def left(self) -> int:
        """Tokens that there is room for."""
        return self.room - self._length

    def read(self, tokens: Sequence[int]) -> bool:
        """Tokens that were not sampled; False, and nothing happens, if they do not fit."""
        if len(tokens) > self.left:
            return False
        self._tokens[self._length : self._length + len(tokens)] = tokens
        self._length += len(tokens)
        return True

    def sampled(self, tokens: NDArray[np.int64], log_probs: NDArray[np.float32]) -> None:
        """A reply as it came, the turn's whole."""
        place = slice(self._length, self._length + len(tokens))
        self._tokens[place], self._log_probs[place] = tokens, log_probs
        self._turns[place] = self.turn
        self._length += len(tokens)
        self.turn += 1
        self._rewards.append(0.0)

    def earn(self, reward: float) -> None:
        """Of the newest turn; what it earned before stays."""
        self._rewards[-1] += reward

    def rewrite(self) -> None:
        """What was read so far is a segment; the next one begins empty."""
        if self._length:
            upto = self._length
            self._segments.append(
                Segment(
                    self._tokens[:upto].copy(),
                    self._turns[:upto].copy(),
                    self._log_probs[:upto].copy(),
                )
            )
        self._begin()

    def rollout(
        self, messages: Sequence[Message], terminated: bool, info: Mapping[str, Any], version: int
    ) -> Rollout:
        """All of it, when it is over; a last segment in which nothing was sampled is left out."""
        if (self._turns[: self._length] >= 0).any() or not self._segments:
            self.rewrite()
        return Rollout(
            segments=tuple(self._segments),
            rewards=np.array(self._rewards, dtype=np.float64),
            group=self.seed,
            seed=self.seed,
            messages=tuple(messages),
            terminated=terminated,
            success=bool(info.get("success", False)),
            task=str(info.get("task_id", self.task)),
            error=self.error,
            version=version,
        )
