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
"""Share of its words, and one word more, that a turn may gain or lose."""
_WORD = re.compile(r"\s*\w+(?:['’]\w+)*|\s*[^\w\s]+|\s+")
_ATOM = re.compile(r"\d|[^\W\d_]+|[\W_]")
Words = tuple[str, ...]


class Splices:
    """Turns that can be put together from others."""

    def __init__(self, turns: Sequence[tuple[Hashable, Pieces]]) -> None:
        """Of each turn its group and its pieces."""
        self._pieces = [pieces for _, pieces in turns]
        self._words = [_words(pieces) for pieces in self._pieces]
        self._plain: list[Words] = [tuple(map(_plain, words)) for words in self._words]
        self._said = Counter(self._plain)
        known: dict[Hashable, int] = {}
        self._after = [
            [known.setdefault((group, gaps), len(known)) for gaps in _gaps_after(words)]
            for (group, _), words in zip(turns, self._words, strict=True)
        ]
        """Of each place a number for the group and the gaps to come."""
        meeting: dict[tuple[Words, int], list[tuple[int, int]]] = defaultdict(list)
        for number, (plain, after) in enumerate(zip(self._plain, self._after, strict=True)):
            for run in RUNS:
                for at in range(run, len(plain)):
                    meeting[plain[at - run : at], after[at]].append((number, at))
        self._meeting = {run: places for run, places in meeting.items() if len(places) > 1}
        """(turn, place) of all that come to a place through the same words."""

    def reworded(self, number: int, key: int) -> Pieces:
        """Turn `number`, as nobody has said it where it was said but once; `key` is the chance."""
        plain, after = self._plain[number], self._after[number]
        if self._said[plain] > 1:
            return self._pieces[number]
        for run in RUNS:
            cuts = range(run, len(plain))
            first = below(draw(key, WORDING, run, 0), len(cuts))
            for at in (*cuts[first:], *cuts[:first]):
                others = self._meeting.get((plain[at - run : at], after[at]))
                if others is None:
                    continue
                other, place = others[below(draw(key, WORDING, run, at), len(others))]
                longer = at - place + len(self._plain[other]) - len(plain)
                if abs(longer) > 1 + len(plain) * LENGTHENED:
                    continue
                if self._is_new(plain[:at] + self._plain[other][place:]):
                    return _joined(self._words[number][:at] + self._words[other][place:])
        return self._pieces[number]

    def _is_new(self, made: Words) -> bool:
        """Nobody's words, and no two of them said twice over."""
        return made not in self._said and len(set(pairwise(made))) == len(made) - 1


class Values:
    """The values that a log has for one slot."""

    def __init__(self, values: Sequence[str]) -> None:
        self._values = values
        self._count = Counter(values)
        self._alike: dict[str, list[str]] = defaultdict(list)
        for value in self._count:
            self._alike[_shape(value)].append(value)

    def drawn(self, key: int, place: int) -> str:
        """One of them, or a new one in place of one seen once; `key` and `place` are the chance."""
        value = self._values[below(draw(key, WORDING, place, 0), len(self._values))]
        if self._count[value] > 1 or not any(map(str.isdecimal, value)):
            return value
        alike = self._alike[_shape(value)]
        other = alike[below(draw(key, WORDING, place, 1), len(alike))]
        atoms, others = _ATOM.findall(value), _ATOM.findall(other)
        at = below(draw(key, WORDING, place, 2), len(atoms))
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
    atoms = _ATOM.findall(value)
    return "".join("0" if a.isdecimal() else "a" if a.isalpha() else a for a in atoms)
