"""The embedding modes of one environment: what is made for them when somebody first asks.

    observation="embedding"   lines of the transcript ─► NewestMessages
    action="embedding"        vector ─► Candidates ─► act number
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from convgym.envs.candidates import Candidates
from convgym.envs.domain import Domain
from convgym.envs.text_vectors import (
    NewestMessages,
    TextVectors,
    Vectors,
    check_messages,
    text_vectors,
)
from convgym.envs.transcript import ACT, Line
from convgym.language.encoders import Encoder


class Embedding:
    """Vectors of an environment's messages and of its candidate replies."""

    def __init__(self, domain: Domain, encoder: str | Encoder, messages: int) -> None:
        """Raises InvalidConfiguration for a number of messages that is not allowed."""
        self._domain, self._encoder = domain, encoder
        self._messages = check_messages(messages)

    @cached_property
    def vectors(self) -> TextVectors:
        """Of texts. Raises InvalidConfiguration where there is no such encoder."""
        return text_vectors(self._encoder)

    @cached_property
    def newest(self) -> NewestMessages:
        """The observation of the newest messages."""
        return NewestMessages(self.vectors, self._messages)

    @cached_property
    def candidates(self) -> Candidates:
        """The candidate replies."""
        return Candidates(self._domain, self.vectors)

    def seen(self, lines: Sequence[Line]) -> Vectors:
        """What these lines of a transcript show; an act is its candidate.  # (messages · dim,)"""
        texts, newest = self.candidates.texts, lines[-self._messages :]
        return self.newest.of([texts[int(text)] if who == ACT else text for who, text in newest])
