"""A second look at replies in which nothing was read: the act of the nearest labelled example.

    reply ──► encoder ──► unit vector ──► cosine with each example
                                            │  best ≥ threshold, and ahead by `margin`
                                            ▼  of the best example of another label
                                          its label, else nothing

It proposes only what it is allowed to, and the caller should allow only acts that carry no value
and change nothing (a greeting, a question for the e-mail): a wrong one costs a moment, no money.
Nothing is read with it unless it is handed over: `understand(text, reranker)`.

An encoder is any callable from n texts to an (n, d) array. `CharacterEncoder` needs no model: it
hashes the character n-grams of a text, so it sees spelling and word stems, not meaning.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Encoder = Callable[[Sequence[str]], Any]
"""Texts to an (n, d) array."""


class CharacterEncoder:
    """Counts of hashed character n-grams, damped, within words; the same on every machine."""

    def __init__(self, size: int = 2048, lengths: Sequence[int] = (3, 4, 5)) -> None:
        self.size = size
        self.lengths = tuple(lengths)

    def __call__(self, texts: Sequence[str]) -> Array:
        """The damped counts of each text.  # (n, size)"""
        vectors = np.zeros((len(texts), self.size))
        for row, text in enumerate(texts):
            for word in _words(text):
                for length in self.lengths:
                    for at in range(max(1, len(word) - length + 1)):
                        hashed = zlib.crc32(word[at : at + length].encode())
                        vectors[row, hashed % self.size] += 1
        return np.sqrt(vectors)  # (n, d)


def _words(text: str) -> list[str]:
    plain = "".join(c if c.isalnum() else " " for c in text.lower().replace("'", ""))
    return [f" {word} " for word in plain.split()[:60]]


class NearestLabel:
    """The label of the nearest of some examples, where it is near and no other label is."""

    def __init__(
        self,
        examples: Iterable[tuple[str, str]],
        encoder: Encoder | None = None,
        *,
        allowed: Iterable[str] | None = None,
        threshold: float = 0.5,
        margin: float = 0.1,
    ) -> None:
        """Take (text, label) pairs; those whose label is not in `allowed` only stand in the way.

        `threshold`: least cosine with the nearest example. `margin`: how much nearer it must be
        than any example of another label. Higher values propose less and err less.
        """
        pairs = list(examples)
        if not pairs:
            raise ValueError("a reranker needs labelled examples; got none.")
        self.encoder = encoder or CharacterEncoder()
        self.labels = np.array([label for _, label in pairs])  # (n,)
        self.allowed = frozenset(self.labels.tolist() if allowed is None else allowed)
        self.threshold, self.margin = threshold, margin
        self._examples = _unit(self.encoder([text for text, _ in pairs]))  # (n, d)

    def propose(self, text: str) -> tuple[str, ...]:
        """The label of the nearest example, or nothing."""
        if not text.strip():
            return ()
        cosines = self._examples @ _unit(self.encoder([text]))[0]  # (n,)
        best = int(np.argmax(cosines))
        label = str(self.labels[best])
        others = cosines[self.labels != label]
        ahead = cosines[best] - (others.max() if others.size else 0.0)
        if label in self.allowed and cosines[best] >= self.threshold and ahead >= self.margin:
            return (label,)
        return ()


def _unit(vectors: Any) -> Array:
    array = np.asarray(vectors, dtype=np.float64)
    norms = np.linalg.norm(array, axis=1, keepdims=True)
    return array / np.where(norms > 0, norms, 1.0)
