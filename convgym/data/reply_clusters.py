"""Replies that say much the same, found without labels: k-means on their vectors.

    texts ─► encoder ─► distinct vectors, weighted by how often ─► k-means++ ─► Lloyd's steps

Seeded by k-means++ (Arthur & Vassilvitskii, 2007), so that the same replies and seed give the same
clusters. A cluster is called by the reply nearest to its centre, which is what to say for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.errors import DatasetError
from convgym.language.encoders import Encoder, Vectors

STEPS = 25
LONGEST_NAME = 60
FORMAT = "convgym reply clusters 1"


class ReplyClusters:
    """The nearest of some centres tells what a reply is."""

    def __init__(self, acts: Sequence[str], centres: Vectors, encoder: Encoder) -> None:
        """`centres` are what `fit` found.  (clusters, dim)"""
        self.acts, self.centres, self.encoder = tuple(acts), centres, encoder

    @classmethod
    def fit(
        cls, texts: Sequence[str], encoder: Encoder, clusters: int, seed: int = 0
    ) -> ReplyClusters:
        """At most `clusters` of them, fewer where fewer different vectors are there.

        Raises DatasetError where all texts are alike.
        """
        counted: dict[str, int] = {}
        for text in texts:
            counted[text] = counted.get(text, 0) + 1
        different = sorted(counted)
        vectors = encoder.encode(different)
        weights = np.array([counted[text] for text in different], dtype=np.float64)
        centres = _seeded(vectors, weights, clusters, np.random.default_rng(seed))
        for _ in range(STEPS):
            nearest = _distances(vectors, centres).argmin(axis=1)
            shares = (nearest[:, None] == np.arange(len(centres))) * weights[:, None]
            shares = shares[:, shares.any(axis=0)]
            moved = (shares.T @ vectors / shares.sum(axis=0)[:, None]).astype(np.float32)
            if np.array_equal(moved, centres):
                break
            centres = moved
        if len(centres) < 2:
            raise DatasetError(
                "all of the agent's replies are alike, so there are no acts to choose among; "
                "collect more, or label them"
            )
        central = (vectors @ centres.T).argmax(axis=0)  # not a text without words, which is 0
        names = [_name(number, different[text]) for number, text in enumerate(central)]
        return cls(names, centres, encoder)

    @property
    def content(self) -> tuple[dict[str, Any], dict[str, NDArray[np.float32]]]:
        """What a file of it holds (`convgym.language.archive`)."""
        about = {"format": FORMAT, "acts": list(self.acts), "encoder": self.encoder.name}
        return about, {"centres": self.centres}

    def predict(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Of each text the number of its cluster.  (n,) → (n,)"""
        return _distances(self.encoder.encode(texts), self.centres).argmin(axis=1)


def _name(number: int, text: str) -> str:
    """`3: Would you like to donate?`"""
    line = " ".join(text.split())
    return f"{number}: {line if len(line) <= LONGEST_NAME else line[: LONGEST_NAME - 1] + '…'}"


def _seeded(
    vectors: Vectors, weights: NDArray[np.float64], clusters: int, chance: np.random.Generator
) -> Vectors:
    """Vectors far from each other, drawn by weight times squared distance to those before."""
    odds, chosen = weights, list[int]()
    while len(chosen) < clusters and odds.any():
        chosen.append(int(chance.choice(len(vectors), p=odds / odds.sum())))
        apart = _distances(vectors, vectors[chosen]).min(axis=1)
        odds = weights * np.where(apart > 1e-6, apart, 0.0)
    return vectors[chosen]


def _distances(vectors: Vectors, centres: Vectors) -> NDArray[np.float64]:
    """Squared distances.  (n, dim), (k, dim) → (n, k)"""
    far = np.square(vectors, dtype=np.float64).sum(axis=1)[:, None] - 2.0 * vectors @ centres.T
    return far + np.square(centres, dtype=np.float64).sum(axis=1)
