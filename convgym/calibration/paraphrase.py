"""New wordings from old ones: two turns spliced where both run through the same words.

    yes please i need | a table for {people}          of one group: the same acts, and the same
    could i | need a table at the {name} tomorrow     slots that are told without a value
              ─┬──────
               └ `need a table`: three words in common, and after them the same gaps
    yes please i need a table …

    said once in the log       spliced, as whoever comes next would have other words
    said more than once        left, as others would say it too

For the chance of something new is the share of what was seen once (Good, 1953), so that the share
of turns that stand in the log word for word comes near that of real users. A value is treated
likewise: one with digits that stands once for its slot is crossed with another of its shape.

A splice is as fluent as the log's runs of words are; it knows nothing of grammar or of sense.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from itertools import pairwise

from convgym.calibration.signatures import Gap, Pieces
from convgym.engine.keys import WORDING, below, draw

RUNS = (3, 2, 1)
"""Words in common, the most that can be had."""
LENGTHENED = 0.2
TRIES = 6
"""Splices that are looked at for each of `RUNS`."""
_WORD = re.compile(r"\s*\w+(?:['’]\w+)*|\s*[^\w\s]+|\s+")
_ATOM = re.compile(r"\d|[^\W\d_]+|[\W_]")
Words = tuple[str, ...]
Cut = tuple[int, list[tuple[int, int]]]
"""Where a turn can be cut, and (turn, place) of those that run through the same words there."""


class Splices:
    """Turns that can be put together from others."""

    def __init__(self, turns: Sequence[tuple[Hashable, Pieces]]) -> None:
        """Of each turn its group and its pieces."""
        self._pieces = [pieces for _, pieces in turns]
        self._words = [_words(pieces) for pieces in self._pieces]
        self._plain: list[Words] = [tuple(map(_plain, words)) for words in self._words]
        self._said = Counter(self._plain)
        met: dict[Hashable, list[tuple[int, int]]] = defaultdict(list)
        places: list[list[list[tuple[int, Hashable]]]] = []
        for number, ((group, _), words) in enumerate(zip(turns, self._words, strict=True)):
            plain, after = self._plain[number], _gaps_after(words)
            places.append([])
            for run in RUNS:
                keyed = [
                    (at, (group, plain[at - run : at], after[at])) for at in range(run, len(plain))
                ]
                places[number].append(keyed)
                for at, key in keyed:
                    met[key].append((number, at))
        self._cuts: list[list[list[Cut]]] = [
            [[(at, met[key]) for at, key in keyed if len(met[key]) > 1] for keyed in by_run]
            for by_run in places
        ]

    def reworded(self, number: int, key: int) -> Pieces:
        """Turn `number`, as nobody has said it where it was said but once; `key` is the chance."""
        plain = self._plain[number]
        if self._said[plain] > 1:
            return self._pieces[number]
        for run, cuts in enumerate(self._cuts[number]):
            for attempt in range(min(TRIES, 2 * len(cuts))):
                at, others = cuts[below(draw(key, WORDING, run, 2 * attempt), len(cuts))]
                other, place = others[below(draw(key, WORDING, run, 2 * attempt + 1), len(others))]
                if self._is_new(plain[:at] + self._plain[other][place:], plain):
                    return _joined(self._words[number][:at] + self._words[other][place:])
        return self._pieces[number]

    def _is_new(self, made: Words, one: Words) -> bool:
        """Nobody's words, about as many as they replace, and no two of them said twice over."""
        pairs = list(pairwise(made))
        as_long = abs(len(made) - len(one)) <= 1 + len(one) * LENGTHENED
        return as_long and made not in self._said and len(set(pairs)) == len(pairs)


class Values:
    """The values that a log has for one slot."""

    def __init__(self, values: Sequence[str]) -> None:
        self._values = values
        self._count = Counter(values)
        self._alike: dict[str, list[str]] = defaultdict(list)
        for value in self._count:
            self._alike[_shape(value)].append(value)

    def drawn(self, key: int, place: int) -> str:
        """One of them, or a new one where it was seen but once; `key` and `place` are the chance."""
        first, second, third = (draw(key, WORDING, place, index) for index in range(3))
        value = self._values[below(first, len(self._values))]
        shape = _shape(value)
        if self._count[value] > 1 or "0" not in shape:
            return value
        other = self._alike[shape][below(second, len(self._alike[shape]))]
        atoms, others = _ATOM.findall(value), _ATOM.findall(other)
        at = below(third, len(atoms))
        return "".join(atoms[:at] + others[at:])


def _words(pieces: Pieces) -> tuple[str | Gap, ...]:
    """Gaps, and words with the space before them; put together they are the pieces."""
    return tuple(
        word
        for piece in pieces
        for word in ((piece,) if isinstance(piece, Gap) else _WORD.findall(piece))
    )


def _plain(word: str | Gap) -> str:
    return "{" + word.slot + "}" if isinstance(word, Gap) else word.strip().lower()


def _gaps_after(words: Sequence[str | Gap]) -> list[tuple[str, ...]]:
    """Of each place the slots whose gaps follow it, sorted.  (words,)"""
    after: list[tuple[str, ...]] = [()]
    for word in reversed(words):
        more = (word.slot,) if isinstance(word, Gap) else ()
        after.append(tuple(sorted(after[-1] + more)))
    return after[:0:-1]


def _joined(words: Sequence[str | Gap]) -> Pieces:
    pieces: list[str | Gap] = []
    for word in words:
        if isinstance(word, str) and pieces and isinstance(pieces[-1], str):
            pieces[-1] += word
        else:
            pieces.append(word)
    return tuple(pieces)


def _shape(value: str) -> str:
    """A 0 for each digit, an a for each run of letters."""
    return "".join(
        "0" if atom.isdecimal() else "a" if atom.isalpha() else atom for atom in _ATOM.findall(value)
    )
