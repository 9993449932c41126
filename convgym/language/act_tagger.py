"""Dialogue acts of turns from their words: a linear tagger that learns and tags in no time.

    text, position ─► hashed words and pairs, position ─► a weight for each act, summed ─► softmax
                       rows of the table (ROWS + POSITIONS, acts)

Multinomial logistic regression by AdaGrad (Duchi, Hazan & Singer, 2011, JMLR 12), a turn at a
time, in an order that the seed decides: the same turns in the same order give the same bytes. A
turn is one text and one act; whoever has several acts a turn decides first what they are together
(`convgym.data.agent_acts`). Knows nothing of logs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.engine.kernel import kernel, loop
from convgym.errors import InvalidConfiguration
from convgym.language.archive import identity_of, read_archive, write_archive
from convgym.language.hashed_words import Ends, Rows, hashed_words

ROWS = 1 << 17
"""Rows that words and pairs are hashed to."""
POSITIONS = 16
"""Places in a conversation, counted from 0, that are told apart; the last stands for all later."""
_AT_ONCE = 1 << 15
"""Texts that are tagged together."""
FORMAT = "convgym act tagger 1"

Acts = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class TaggerReport:
    """How well a tagger does on turns whose acts are known."""

    accuracy: float
    macro_f1: float
    """Mean F1 of the acts that occur among the turns."""
    majority: float
    """Accuracy of always saying the most frequent act."""
    confusion: NDArray[np.int64]  # (acts, acts) turns, by true act and by predicted one


class ActTagger:
    """Tells the act of a turn from its words and its place in the conversation."""

    def __init__(self, acts: Sequence[str], weights: NDArray[np.float32]) -> None:
        """`weights` are what `fit` or `load` found.  (ROWS + POSITIONS, acts)"""
        self.acts = tuple(acts)
        self.weights = weights

    @classmethod
    def fit(
        cls,
        texts: Sequence[str],
        acts: Sequence[str],
        positions: Sequence[int] | None = None,
        *,
        names: Sequence[str] | None = None,
        epochs: int = 8,
        rate: float = 0.2,
        decay: float = 3e-4,
        seed: int = 0,
    ) -> ActTagger:
        """Learn from texts and their acts; positions count turns from 0, all 0 unless told.

        names: the acts in their order; those that occur, sorted, unless told.
        rate, decay: step width and L2 penalty, as chosen on MultiDoGO's train part.

        Raises InvalidConfiguration for lists of unlike lengths, fewer than two acts, or an act
        that is not among `names`.
        """
        listed = sorted(set(acts)) if names is None else list(names)
        places = _places(texts, positions)
        if len(acts) != len(texts):
            raise InvalidConfiguration(
                f"{len(texts)} texts came with {len(acts)} acts; give each text one"
            )
        if len(listed) < 2 or not set(acts) <= set(listed):
            raise InvalidConfiguration(
                f"the acts {sorted(set(acts))[:20]} came with the names {listed[:20]}; it takes "
                "two or more names, and each act among them"
            )
        number = {name: index for index, name in enumerate(listed)}
        targets = np.array([number[act] for act in acts])
        rows, ends = hashed_words(texts, ROWS)
        weights = np.zeros((ROWS + POSITIONS, len(listed)))
        squares = np.full_like(weights, 1e-8)
        chance = np.random.default_rng(seed)
        for _ in range(epochs):
            order = chance.permutation(len(texts))
            _descend(rows, ends, places, targets, order, weights, squares, rate, decay)
        return cls(listed, weights.astype(np.float32))

    def probabilities(self, texts: Sequence[str], positions: Sequence[int] | None = None) -> Floats:
        """Of each text the probability of each act.  (n,) → (n, acts)"""
        parts = [_softmax(scores) for scores in self._scores(texts, positions)]
        return np.concatenate([np.empty((0, len(self.acts))), *parts])

    def predict(self, texts: Sequence[str], positions: Sequence[int] | None = None) -> Acts:
        """Of each text the number of its most probable act.  (n,) → (n,)"""
        parts = [scores.argmax(axis=1) for scores in self._scores(texts, positions)]
        return np.concatenate([np.empty(0, dtype=np.int64), *parts])

    def report(
        self,
        texts: Sequence[str],
        acts: Sequence[str],
        positions: Sequence[int] | None = None,
    ) -> TaggerReport:
        """Compare with known acts; an act that the tagger does not know counts as missed.

        Raises InvalidConfiguration where there are no texts.
        """
        if not len(texts) or len(texts) != len(acts):
            raise InvalidConfiguration(
                f"{len(texts)} texts came with {len(acts)} acts; a report takes one each, and some"
            )
        names = [*self.acts, *sorted(set(acts) - set(self.acts))]
        number = {name: index for index, name in enumerate(names)}
        truth = np.array([number[act] for act in acts])
        confusion = np.zeros((len(names), len(names)), dtype=np.int64)
        np.add.at(confusion, (truth, self.predict(texts, positions)), 1)
        right, true, said = confusion.diagonal(), confusion.sum(axis=1), confusion.sum(axis=0)
        there = true > 0
        return TaggerReport(
            accuracy=float(right.sum() / len(texts)),
            macro_f1=float((2 * right[there] / (true + said)[there]).mean()),
            majority=float(true.max() / len(texts)),
            confusion=confusion,
        )

    @property
    def identity(self) -> str:
        """SHA-256 of the names and the weights: what the tagger will say."""
        return identity_of(*self.content)

    @property
    def content(self) -> tuple[dict[str, Any], dict[str, NDArray[np.float32]]]:
        """What a file of it holds (`convgym.language.archive`)."""
        return {"format": FORMAT, "acts": list(self.acts)}, {"weights": self.weights}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one `.npz` file, whole or not."""
        write_archive(path, *self.content)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ActTagger:
        """Read what `save` has written; raises InvalidConfiguration for anything else."""
        return cls.of_content(*read_archive(path, FORMAT))

    @classmethod
    def of_content(cls, about: Mapping[str, Any], arrays: Mapping[str, Any]) -> ActTagger:
        """The tagger of such `content`; raises InvalidConfiguration where it does not fit."""
        try:
            acts, weights = list(map(str, about["acts"])), arrays["weights"]
        except (KeyError, TypeError) as error:
            raise InvalidConfiguration(f"it is no whole tagger: {error!r} is missing") from error
        if weights.shape != (ROWS + POSITIONS, len(acts)):
            raise InvalidConfiguration(
                f"weights of shape {weights.shape} came for {len(acts)} acts; a tagger has "
                f"{(ROWS + POSITIONS, len(acts))}"
            )
        return cls(acts, weights)

    def _scores(self, texts: Sequence[str], positions: Sequence[int] | None) -> Iterator[Floats]:
        places = _places(texts, positions)
        for start in range(0, len(texts), _AT_ONCE):
            some = slice(start, start + _AT_ONCE)
            yield _scored(*hashed_words(texts[some], ROWS), places[some], self.weights)


def _places(texts: Sequence[str], positions: Sequence[int] | None) -> NDArray[np.int64]:
    """The table's rows of the positions.  (n,)"""
    if isinstance(texts, str):
        raise InvalidConfiguration("one text came; the tagger takes a list of texts")
    places = np.zeros(len(texts), dtype=np.int64) if positions is None else np.asarray(positions)
    if len(places) != len(texts) or not (places >= 0).all():  # NaN is no place
        raise InvalidConfiguration(
            f"{len(texts)} texts came with {len(places)} positions; give each text a whole number "
            "from 0"
        )
    return ROWS + np.minimum(places, POSITIONS - 1).astype(np.int64)


def _softmax(scores: Floats) -> Floats:
    raised: Floats = np.exp(scores - scores.max(axis=1, keepdims=True))
    return raised / raised.sum(axis=1, keepdims=True)


@kernel
def _add_up(rows: Rows, begin: int, end: int, place: int, weights: Any, scores: Any) -> None:
    """The scores of one text: the mean row, times the root of how many there are.  (acts,)"""
    scale = 1.0 / np.sqrt(end - begin + 1)
    for act in range(len(scores)):
        scores[act] = weights[place, act]
    for at in range(begin, end):
        for act in range(len(scores)):
            scores[act] += weights[rows[at], act]
    for act in range(len(scores)):
        scores[act] *= scale


@loop
def _scored(rows: Rows, ends: Ends, places: Any, weights: NDArray[np.float32]) -> Floats:
    """The scores of all texts.  (texts, acts)"""
    scores = np.empty((len(ends), weights.shape[1]))
    begin = 0
    for text in range(len(ends)):
        _add_up(rows, begin, ends[text], places[text], weights, scores[text])
        begin = ends[text]
    return scores


@loop
def _descend(
    rows: Rows,
    ends: Ends,
    places: Any,
    targets: Any,
    order: Any,
    weights: Floats,
    squares: Floats,
    rate: float,
    decay: float,
) -> None:
    """One pass over all texts in `order`, a step of AdaGrad after each."""
    slope = np.empty(weights.shape[1])
    for text in order:
        begin, end = (ends[text - 1] if text else 0), ends[text]
        _add_up(rows, begin, end, places[text], weights, slope)
        highest, total = slope.max(), 0.0
        for act in range(len(slope)):
            slope[act] = np.exp(slope[act] - highest)
            total += slope[act]
        scale = 1.0 / np.sqrt(end - begin + 1)
        for act in range(len(slope)):
            slope[act] = (slope[act] / total - (act == targets[text])) * scale
        for at in range(begin, end + 1):
            row = places[text] if at == end else rows[at]
            for act in range(len(slope)):
                step = slope[act] + decay * weights[row, act]
                squares[row, act] += step * step
                weights[row, act] -= rate * step / np.sqrt(squares[row, act])
