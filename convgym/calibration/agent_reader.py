"""An agent's words as a fitted user hears them: acts, slots asked for and values told.

    "Sure, the Gonville is in the centre. How many nights?"
        a turn of the log, word for word    what the log says of it
        labelled log                        the nearest acts, by a linear tagger learnt from it
        unlabelled log                      asked, failed, said
    values    those of the log's that stand in the text

Reads as the log was labelled, right or wrong; knows nothing of users.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from convgym.calibration.signatures import SILENCE, Heard, LoggedUser, cued
from convgym.calibration.turns import plain

if TYPE_CHECKING:  # the tagger brings numba with it
    from convgym.language.act_tagger import ActTagger

LONGEST_VALUE = 6
"""Words."""
FEWEST = 2
"""Turns of the log that a combination of acts has had."""
MOST_READ = 4096
"""Texts that are kept as they were read."""
_WORD = re.compile(r"[\w'£$.:-]*\w")
Label = tuple[tuple[str, ...], tuple[str, ...]]
"""(acts, asked)"""


class AgentReader:
    """Reads what agents write to the users of a log."""

    def __init__(self, log: Sequence[LoggedUser]) -> None:
        heard = [turn.heard for user in log for turn in user.turns if turn.heard.text]
        self._turns = {plain(one.text): one for one in reversed(heard)}
        self._slots = {value.casefold(): slot for one in heard for slot, value in one.values}
        self._labels: list[Label] = sorted(
            label
            for label, n in Counter((one.acts, one.asked) for one in heard).items()
            if n >= FEWEST
        )
        self._labelled = any(one.acts != cued(one.text) for one in heard)
        self._read: dict[str, Heard] = {}

    def read(self, text: str) -> Heard:
        """What a text says; SILENCE where there is none, or the log has no agents."""
        if not (text.strip() and self._turns):
            return SILENCE
        known = self._turns.get(plain(text)) or self._read.get(text)
        if known is None:
            if len(self._read) >= MOST_READ:
                self._read.clear()
            acts, asked = self._label(text)
            known = self._read[text] = Heard(acts, asked, self._values(text), text)
        return known

    def _label(self, text: str) -> Label:
        if not self._labelled:
            return cued(text), ()
        if self._tagger is None:
            return self._labels[0] if self._labels else (cued(text), ())
        return self._labels[int(self._tagger.predict([text])[0])]

    @cached_property
    def _tagger(self) -> ActTagger | None:
        """None where there are not two labels to tell apart."""
        from convgym.language.act_tagger import ActTagger

        number = {label: str(place) for place, label in enumerate(self._labels)}
        told = [
            (one.text, number[one.acts, one.asked])
            for one in self._turns.values()
            if (one.acts, one.asked) in number
        ]
        if len({label for _, label in told}) < 2:
            return None
        texts, labels = zip(*told, strict=True)
        return ActTagger.fit(texts, labels, names=list(number.values()))

    def _values(self, text: str) -> tuple[tuple[str, str], ...]:
        """Values of the log in the text, as they are written there, the longest first."""
        spans = [found.span() for found in _WORD.finditer(text)]
        found, at = [], 0
        while at < len(spans):
            for end in range(min(len(spans), at + LONGEST_VALUE), at, -1):
                value = text[spans[at][0] : spans[end - 1][1]]
                slot = self._slots.get(value.casefold())
                if slot is not None:
                    found.append((slot, value))
                    at = end
                    break
            else:
                at += 1
        return tuple(found)
