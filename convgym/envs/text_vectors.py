"""Vectors of texts, each made once, and of the newest messages of a conversation.

    text ─► known? ─► its vector
              └─ no: the encoder, all new ones in one call

    observation   | newest | the one before | … |   (messages · dim,) zeros where there are fewer

What a newcomer would get wrong: the memory is bounded by forgetting everything at once, and what
was forgotten is encoded again, so that it changes no vector. Knows nothing of acts.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from convgym.envs.episode_setup import is_whole
from convgym.errors import InvalidConfiguration
from convgym.language.encoders import Encoder, encoded, encoder_of

Vectors = NDArray[np.float32]

MOST_MESSAGES = 64
_KEPT_BYTES = 1 << 25
"""Of vectors, if not more are asked for in one call."""
_LONGEST = 1.001
"""Lengths up to this are 1, as rounded."""


class TextVectors:
    """The vectors of an encoder, those of texts that come again from memory.

    A vector longer than 1 is brought to length 1, so that all lie in Box(-1, 1).
    """

    def __init__(self, given: str | Encoder) -> None:
        self._given, self._encoder = given, encoder_of(given)
        self.dim = self._encoder.dim
        """Numbers of a vector."""
        self.most = _KEPT_BYTES // (4 * self.dim)
        """Texts that are kept."""
        self._places: dict[str, int] = {}
        self._kept: Vectors = np.empty((256, self.dim), dtype=np.float32)

    def of(self, texts: Sequence[str]) -> Vectors:
        """A vector for each text.  (n,) → (n, dim) float32"""
        places = self._places
        new = [text for text in dict.fromkeys(texts) if text not in places]
        if new:
            if len(places) + len(new) > self.most:
                places.clear()
                new = list(dict.fromkeys(texts))
            self._keep(new)
        found: Vectors = self._kept[[places[text] for text in texts]]
        return found

    def _keep(self, new: list[str]) -> None:
        first, last = len(self._places), len(self._places) + len(new)
        while last > len(self._kept):
            self._kept = np.concatenate([self._kept, np.empty_like(self._kept)])
        vectors = encoded(self._encoder, new)
        lengths = np.sqrt(np.square(vectors, dtype=np.float64).sum(axis=1, keepdims=True))
        self._kept[first:last] = vectors / np.where(lengths > _LONGEST, lengths, 1.0)
        self._places.update(zip(new, range(first, last), strict=True))

    # Environments that are copied or sent to another process share what only remembers.

    def __deepcopy__(self, memo: dict[int, Any]) -> TextVectors:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return text_vectors, (self._given,)


def text_vectors(given: str | Encoder) -> TextVectors:
    """The vectors of the encoder that `given` names or is; those of a name are shared."""
    return _named(given) if isinstance(given, str) else TextVectors(given)


@cache
def _named(name: str) -> TextVectors:
    return TextVectors(name)


class NewestMessages:
    """The observation of the newest `messages` messages, the newest first."""

    def __init__(self, vectors: TextVectors, messages: int) -> None:
        self.vectors, self.messages = vectors, messages
        self.space = spaces.Box(-1.0, 1.0, (messages * vectors.dim,), dtype=np.float32)

    def of(self, texts: Sequence[str]) -> Vectors:
        """What a conversation shows after these messages, in their order.  (messages · dim,)"""
        newest = texts[-self.messages :][::-1]
        seen = np.zeros((self.messages, self.vectors.dim), dtype=np.float32)
        seen[: len(newest)] = self.vectors.of(newest)
        return seen.ravel()


def check_messages(messages: Any) -> int:
    """The number of messages itself; raises InvalidConfiguration for another value."""
    if not (is_whole(messages) and 1 <= messages <= MOST_MESSAGES):
        raise InvalidConfiguration(
            f"messages={messages!r}; it takes 1 to {MOST_MESSAGES}, the newest messages that an "
            "embedding shows"
        )
    return int(messages)
