"""What is counted of two sets of conversations, and how far the counts lie apart.

                         one row a conversation            weights choose two sets
    turns ─► lengths     [0 2 0 1 …]                 ┐
          ├─ turn counts [0 0 1 0 …]                 │   real · rows ─► counts ─┐
          ├─ acts, pairs [3 0 1 2 …]                 ├─►                        ├─► divergences
          ├─ words       [0 1 0 9 …]                 │   sim  · rows ─► counts ─┘
          └─ similarities of the turns (N, N)        ┘

A set is a weight for each of N conversations: 0 or 1 for a sample, counts for a bootstrap redraw.
So the value, its interval and its noise floor are one piece of arithmetic, done again and again.

    length_kl, length_js, length_wasserstein   words a turn; the first two over 32 bins
    length_gap             |mean words simulated − real| ÷ real
    turn_kl, turn_js       user turns a conversation
    act_js, act_bigram_js  acts; acts of neighbouring turns, the beginning and end counted as acts
    word_js                words and the signs . , ? !
    vocab_overlap          of the 1,000 most frequent words of each: in both ÷ in either (Jaccard)
    mmd                    of the turns' vectors, unbiased: pairs within a conversation are left out

KL is of the real counts from the simulated ones, in nats; JS is in bits. Of a turn with several
acts each counts, and so does each pair of one of its acts and one of the next turn's.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from convgym.calibration.divergences import (
    LENGTH_EDGES,
    bins_of,
    compute_js_divergence,
    compute_kl_divergence,
    median_distance,
    similarities,
)
from convgym.calibration.turns import NO_ACT, Floats, Ints, UserTurns
from convgym.data.cues import WORD

TOP_WORDS = 1_000
BINS = len(LENGTH_EDGES) + 1
_CELLS = 1 << 23
"""Similarities held at once."""
_SIGNED = re.compile(rf"{WORD.pattern}|[.,?!]")
Weights = NDArray[np.integer] | NDArray[np.floating]
_EDGE = ("",)
"""What stands before the first act and after the last."""


@dataclass(frozen=True, eq=False)
class Tally:
    """How often each of `kinds` categories occurs in each conversation, where it does."""

    owner: Ints  # (E,)
    kind: Ints  # (E,)
    count: Ints  # (E,)
    kinds: int

    @classmethod
    def of(cls, owner: Ints, kind: Ints) -> Tally:
        """Each occurrence with its conversation; both (occurrences,)"""
        kinds = int(kind.max()) + 1 if len(kind) else 1
        cells, count = np.unique(owner * kinds + kind, return_counts=True)
        return cls(cells // kinds, cells % kinds, count, kinds)

    @classmethod
    def named(cls, owner: Iterable[int], names: Iterable[Hashable]) -> Tally:
        """The same of names; a number for each, by its first occurrence."""
        numbers: dict[Hashable, int] = {}
        kind = [numbers.setdefault(name, len(numbers)) for name in names]
        return cls.of(np.fromiter(owner, dtype=np.int64), np.array(kind, dtype=np.int64))

    def counts(self, weights: Weights) -> Floats:
        """Over a set of conversations.  (conversations,) → (kinds,)"""
        weighted = self.count * weights[self.owner].astype(np.float64)
        return np.bincount(self.kind, weighted, self.kinds).astype(np.float64)


class Tallies:
    """The counts of N conversations, ready to be compared as any two sets of them.

    Each conversation has a turn of the user's.
    """

    def __init__(self, turns: UserTurns, vectors: NDArray[np.floating]) -> None:
        """`vectors` of the turns.  (T, d)"""
        owner = turns.owner
        self._lengths = Tally.of(owner, turns.lengths)
        self._turns = Tally.of(np.arange(turns.conversations), turns.counts)
        signed = [_SIGNED.findall(text.lower()) for text in turns.texts]
        self._signed = Tally.named(_spread(owner, signed), chain.from_iterable(signed))
        self._words = Tally.named(_spread(owner, turns.words), chain.from_iterable(turns.words))
        self._acts: dict[str, Tally] = {}
        if any(acts != (NO_ACT,) for acts in turns.acts):
            pairs = list(_act_pairs(turns))
            self._acts = {
                "act_js": Tally.named(_spread(owner, turns.acts), chain.from_iterable(turns.acts)),
                "act_bigram_js": Tally.named((o for o, _ in pairs), (pair for _, pair in pairs)),
            }
        self._alike, self._pairs = _similar_turns(turns, vectors)

    def measure(self, real: Weights, sim: Weights) -> dict[str, float]:
        """Every row of the module's table for two sets.  both (conversations,)"""
        def js(tally: Tally) -> float:
            return compute_js_divergence(tally.counts(real), tally.counts(sim))

        lengths = np.array([self._lengths.counts(side) for side in (real, sim)])  # (2, words)
        words = np.arange(self._lengths.kinds)
        binned = [np.bincount(bins_of(words), counts, BINS) for counts in lengths]
        shares = lengths / lengths.sum(axis=1, keepdims=True)
        means = shares @ words
        return {
            "length_kl": compute_kl_divergence(binned[0], binned[1]),
            "length_js": compute_js_divergence(binned[0], binned[1]),
            "length_wasserstein": float(np.abs(np.cumsum(shares[0] - shares[1])).sum()),
            "length_gap": float(abs(means[1] - means[0]) / means[0]),
            "turn_kl": compute_kl_divergence(self._turns.counts(real), self._turns.counts(sim)),
            "turn_js": js(self._turns),
            **{name: js(tally) for name, tally in self._acts.items()},
            "word_js": js(self._signed),
            "vocab_overlap": _overlap(self._words.counts(real), self._words.counts(sim)),
            "mmd": self._mmd(real, sim),
        }

    def _mmd(self, real: Weights, sim: Weights) -> float:
        def mean(one: Weights, other: Weights) -> float:
            return float(one @ self._alike @ other / (one @ self._pairs @ other))

        return mean(real, real) + mean(sim, sim) - 2 * mean(real, sim)


def _spread(owner: Ints, parts: Sequence[Sequence[object]]) -> Ints:
    """The owner of each item of the parts."""
    return np.repeat(owner, [len(part) for part in parts])


def _act_pairs(turns: UserTurns) -> Iterable[tuple[int, tuple[str, str]]]:
    for at, (owner, acts) in enumerate(zip(turns.owner.tolist(), turns.acts, strict=True)):
        before = turns.acts[at - 1] if turns.place[at] else _EDGE
        yield from ((owner, (one, other)) for one in before for other in acts)
        if turns.last[at]:
            yield from ((owner, (one, "")) for one in acts)


def _overlap(one: Floats, other: Floats) -> float:
    """Jaccard index of the most frequent words, as it is expected where chance breaks ties."""
    first, second = _among_top(one), _among_top(other)
    both = first * second
    either = float((first + second - both).sum())
    return float(both.sum()) / either if either else 1.0


def _among_top(counts: Floats) -> Floats:
    """Of each word the probability of a place among the top; words alike share what is left."""
    frequent = counts[counts > 0]
    if len(frequent) <= TOP_WORDS:
        return (counts > 0).astype(np.float64)
    least = np.partition(frequent, -TOP_WORDS)[-TOP_WORDS]
    left = TOP_WORDS - int((counts > least).sum())
    return (counts > least) + (counts == least) * (left / int((counts == least).sum()))


def _similar_turns(
    turns: UserTurns, vectors: NDArray[np.floating]
) -> tuple[Floats, Floats]:
    """Of each pair of conversations the sum of their turns' similarities, and how many there are.

    Gaussian kernel of the median distance. A conversation with itself counts for nothing, for its
    turns are no independent draws.  (N, N), (N, N)
    """
    width = median_distance(vectors)
    total = np.zeros((turns.conversations, turns.conversations))
    begins = np.concatenate([[0], np.cumsum(turns.counts)])
    at_once = max(1, _CELLS // (len(vectors) * int(turns.counts.max())))
    for first in range(0, turns.conversations, at_once):
        last = min(first + at_once, turns.conversations)
        rows, later = vectors[begins[first] : begins[last]], vectors[begins[first] :]
        cells = similarities(rows, later, "gaussian", width)
        cells = np.add.reduceat(cells, begins[first:last] - begins[first], axis=0)
        total[first:last, first:] = np.add.reduceat(cells, begins[first:-1] - begins[first], axis=1)
    total = np.triu(total, 1)
    pairs = np.outer(turns.counts, turns.counts).astype(np.float64)
    np.fill_diagonal(pairs, 0.0)
    return total + total.T, pairs
