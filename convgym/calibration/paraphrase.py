"""New wordings from old ones: two turns spliced where both run through the same words.

    yes please book me a table | for {people}                  two turns of one group: the same
    could you get me a table | by the window for {people}      acts, and the same slots that are
                  ────┬─────                                   told without a gap
                      └ three words in common, and after them the same gaps
    yes please book me a table by the window for {people}

    said once in the log       spliced, as whoever comes next would have other words
    said more than once        left, as others would say it too

For the chance of something new is the share of what was seen once (Good, 1953), so that the share
of turns that stand in the log word for word comes near that of real users.

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
            tuple(known.setdefault((group, gaps), len(known)) for gaps in _gaps_after(words))
            for (group, _), words in zip(turns, self._words, strict=True)
        ]
        """Of each place a number for the group and the gaps to come."""
        meeting: dict[tuple[Words, int], list[tuple[int, int]]] = defaultdict(list)
        for number, (plain, after) in enumerate(zip(self._plain, self._after, strict=True)):
            for run in RUNS:
                for at in range(run, len(plain)):
                    meeting[plain[at - run : at], after[at]].append((number, at))
        self._meeting = {run: tuple(met) for run, met in meeting.items() if len(met) > 1}
        """(turn, place) of all that come to a place through the same words."""
        self._cuts = [
            [
                (run, tuple(at for at in range(run, len(plain)) if self._others(number, run, at)))
                for run in RUNS
            ]
            for number, plain in enumerate(self._plain)
        ]

    def reworded(self, number: int, key: int) -> Pieces:
        """Turn `number`, as nobody has said it where it was said but once; `key` is the chance."""
        plain = self._plain[number]
        if self._said[plain] > 1:
            return self._pieces[number]
        for run, cuts in self._cuts[number]:
            first = below(draw(key, WORDING, run, 0), len(cuts))
            for at in cuts[first:] + cuts[:first]:
                others = self._others(number, run, at)
                other, place = others[below(draw(key, WORDING, run, at), len(others) - 1)]
                if (other, place) == (number, at):  # itself, for which the last steps in
                    other, place = others[-1]
                longer = at - place + len(self._plain[other]) - len(plain)
                if abs(longer) > 1 + len(plain) * LENGTHENED:
                    continue
                if self._is_new(plain[:at] + self._plain[other][place:]):
                    return self._words[number][:at] + self._words[other][place:]
        return self._pieces[number]

    def _others(self, number: int, run: int, at: int) -> tuple[tuple[int, int], ...]:
        """(turn, place) of all, itself too, that come through the same words; () where it alone."""
        words = self._plain[number][at - run : at]
        return self._meeting.get((words, self._after[number][at]), ())

    def _is_new(self, made: Words) -> bool:
        """Nobody's words, and no two of them said twice over."""
        return made not in self._said and len(set(pairwise(made))) == len(made) - 1


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
