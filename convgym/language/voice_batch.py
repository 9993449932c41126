"""`Voice.say` for the turns of many conversations at once, from the same draws.

    acts ─► wording of each, by register, window and turn ─► slips ─► values put in ─► turns

Wordings of all rows are chosen on arrays; a sentence without a slip is made once and kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from convgym.engine import keys
from convgym.engine.keys import WORDING
from convgym.engine.turn_words import Numbers, SpokenActs, Stated
from convgym.language.phrases import REGISTERS, stride_of
from convgym.language.style import ODDS, WORDS, open_to_slips, with_slips
from convgym.language.voice import REGISTER, START, Spoken, Voice, filled

_MOST_KEPT = 1 << 16
_MOST_WORDINGS = 256
"""More of one act than any bank has."""
_STRIDES = np.array([1, *map(stride_of, range(1, _MOST_WORDINGS))])


class Writers(NamedTuple):
    """How each of some conversations is written: keys and styles.  (n,) each"""

    keys: NDArray[np.uint64]
    register: Numbers
    start: NDArray[np.uint64]
    """The draw of where in their wordings its acts begin."""
    verbosity: Numbers
    typo_rate: Numbers
    diversity: Numbers

    @classmethod
    def of(
        cls, wording_keys: NDArray[np.uint64], formality: Numbers, verbosity: Numbers,
        typo_rate: Numbers, diversity: Numbers,
    ) -> Writers:  # fmt: skip
        """Conversations with these keys, by people with these styles, in whole hundredths."""
        drawn = keys.draw_batch(wording_keys, WORDING, 0, REGISTER)
        register = np.clip((2 * formality + keys.below_batch(drawn, 100)) // 100, 0, 2)
        start = keys.draw_batch(wording_keys, WORDING, 0, START)
        return cls(wording_keys, register, start, verbosity, typo_rate, diversity)

    @classmethod
    def none(cls, count: int) -> Writers:
        """Room for so many, to be set."""
        keys_and_starts = np.zeros((2, count), dtype=np.uint64)
        rest = np.zeros((4, count), dtype=np.int64)
        return cls(keys_and_starts[0], rest[0], keys_and_starts[1], rest[1], rest[2], rest[3])

    def put(self, rows: NDArray[np.int32], others: Writers) -> None:
        """Set these rows."""
        for own, new in zip(self, others, strict=True):
            own[rows] = new

    def at(self, rows: NDArray[np.int32]) -> Writers:
        """Those of these rows."""
        return Writers._make(column[rows] for column in self)


class BatchedVoice:
    """One voice for acts by number; `names` are what its phrase bank calls them."""

    def __init__(
        self, voice: Voice, names: tuple[str, ...], spoken: Callable[[int, int, int], Spoken]
    ) -> None:
        self._spoken, self._ended, self._slips = spoken, voice.ended, voice.slips
        shared = {name for name in names if names.count(name) > 1}
        self._shares = np.array([name in shared for name in names])
        """Acts that are called like another one."""
        self._texts: list[str] = []
        places: dict[tuple[str, ...], int] = {}
        shape = (len(names), len(REGISTERS))
        self._first = np.zeros(shape, dtype=np.int64)
        self._count = np.ones(shape, dtype=np.int64)
        for act, name in enumerate(names):
            for register in range(len(REGISTERS)):
                wordings = voice.bank.wordings(name, register) if name in voice.bank else ("",)
                if wordings not in places:
                    places[wordings] = len(self._texts)
                    self._texts.extend(wordings)
                self._first[act, register] = places[wordings]
                self._count[act, register] = len(wordings)
        words_of = [open_to_slips(text) for text in self._texts]
        self._words = np.full((len(self._texts), max(1, *map(len, words_of))), -1)
        """Places of the words of each text that may be misspelt; -1 for no more."""
        for row, words in enumerate(words_of):
            self._words[row, : len(words)] = words
        self._kept: dict[tuple[int, bool, Stated], str] = {}

    def turns(self, said: SpokenActs, writers: Writers, numbers: Numbers) -> list[str]:
        """The turns of some rows in words; `writers` and `numbers`, of the turn, are by row."""
        acts = said.keys()
        which = self._wordings(said, writers, numbers)
        within = (said.at + 1 < said.counts[said.of]).tolist()
        sentences = self._sentences(which.tolist(), within, acts)
        alike = self._alike(said, acts)
        slipped = self._slipped(which, said, writers, numbers)
        for place in slipped.keys() | alike.keys():
            row = int(said.of[place])
            text = with_slips(
                self._texts[which[place]], slipped.get(place, ()), int(writers.keys[row]), WORDING,
                int(numbers[row]), int(said.at[place]),
            )  # fmt: skip
            own = alike.get(place, [acts[place]])
            sentences[place] = self._sentence(text, within[place], own)
        turns, begin = [], 0
        for count in said.counts.tolist():
            text = sentences[begin] if count == 1 else " ".join(sentences[begin : begin + count])
            if "{" in text:
                text = filled(text, [self._spoken(*act) for act in acts[begin : begin + count]])
            turns.append(text)
            begin += count
        return turns

    def _wordings(self, said: SpokenActs, writers: Writers, numbers: Numbers) -> Numbers:
        """Which wording each act has; `window_place`, on arrays."""
        act, of = said.acts, said.of
        register = writers.register[of]
        count = self._count[act, register]
        reach = -(-count * 3 // 5)
        width = np.maximum(1, -(-reach * writers.diversity[of] // 100))
        begin = (count - width) * writers.verbosity[of] // 100
        start = keys.below_batch(writers.start[of], width.astype(np.uint64))
        place = begin + (start + numbers[of] * _STRIDES[width]) % width
        return self._first[act, register] + place

    def _slipped(
        self, which: Numbers, said: SpokenActs, writers: Writers, numbers: Numbers
    ) -> dict[int, list[int]]:
        """The words that are misspelt, by the place of the act in whose wording they stand."""
        limit = writers.typo_rate[said.of] * self._slips * 2**32 // (100 * ODDS)
        careless = np.flatnonzero(limit)
        words, own = self._words[which[careless]], said.of[careless]
        drawn = keys.draw_batch(
            writers.keys[own, None], WORDING, numbers[own, None].astype(np.uint64),
            (WORDS + 64 * said.at[careless, None] + np.maximum(words, 0)).astype(np.uint64),
        )  # fmt: skip
        slips = (words >= 0) & (drawn < limit[careless, None].astype(np.uint64))
        found: dict[int, list[int]] = {}
        at, column = slips.nonzero()
        for place, word in zip(careless[at].tolist(), words[at, column].tolist(), strict=True):
            found.setdefault(place, []).append(word)
        return found

    def _sentences(
        self, which: list[int], within: list[bool], acts: Sequence[Stated]
    ) -> list[str]:
        kept, made = self._kept, []
        for key in zip(which, within, acts, strict=True):
            text = kept.get(key)
            if text is None:
                if len(kept) >= _MOST_KEPT:
                    kept.clear()
                text = kept[key] = self._sentence(
                    self._texts[key[0]], key[1], [key[2]]
                )
            made.append(text)
        return made

    def _sentence(self, text: str, within: bool, own: Sequence[Stated]) -> str:
        """A wording in its place in a turn, with the value of its act."""
        if within:
            text = self._ended(text)
        return filled(text, [self._spoken(*act) for act in own]) if "{" in text else text

    def _alike(self, said: SpokenActs, acts: Sequence[Stated]) -> dict[int, list[Stated]]:
        """Places of acts of one name in one turn, with all of these: the first gives the value."""
        same: dict[tuple[int, str], list[int]] = {}
        shared = np.flatnonzero(self._shares[said.acts]).tolist()
        for place in shared if len(shared) > 1 else ():
            name = self._spoken(*acts[place]).act
            same.setdefault((int(said.of[place]), name), []).append(place)
        groups = [places for places in same.values() if len(places) > 1]
        return {place: [acts[one] for one in places] for places in groups for place in places}
