"""A user's acts in words: templates, whole turns by retrieval, and the share that a writer gets.

    realism  0 ─────────── 0.5 ─────────── 1
             templates  ↔  retrieval  ↔  writer

    acts + values ──► sentences with placeholders ──► misspellings ──► values put in

Which source a turn uses, which wording and which slip of the pen are keyed draws of the wording
stream: the same key gives the same words, and other words change nothing that is decided.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from convgym.engine.keys import WORDING, below, draw
from convgym.language.phrases import PhraseBank
from convgym.language.retrieval import Signature, TurnIndex
from convgym.language.style import Style, misspelt

TEMPLATE, RETRIEVAL, WRITER = "template", "retrieval", "writer"

SOURCE = 900
"""Number of a turn's draw of its source; those of the misspellings lie elsewhere."""
REGISTER = 901
START = 902
"""Number of the conversation's draw that says where in their wordings its acts begin."""


class Spoken(NamedTuple):
    """One act of a user's turn."""

    act: str
    slot: str = ""
    value: str = ""


@dataclass(frozen=True)
class Voice:
    """What a user's words are made of."""

    bank: PhraseBank
    index: TurnIndex
    realism: int = 0
    """In hundredths."""
    harvested: Voice | None = None
    """A log's; where there is one, it says what is retrieved, from its bank."""
    stop: str = "."
    """What ends a sentence without a mark before another one."""
    slips: bool = True
    """Whether words are misspelt; those of a log are already, where it is."""

    def source(self, key: int, turn: int) -> str:
        """Where the words of this turn come from."""
        drawn = below(draw(key, WORDING, turn, SOURCE), 50)
        if self.realism <= 50:
            return RETRIEVAL if drawn < self.realism else TEMPLATE
        return WRITER if drawn < self.realism - 50 else RETRIEVAL

    def say(
        self, spoken: Sequence[Spoken], style: Style, key: int, turn: int, source: str
    ) -> str:
        """A turn in words; a writer's turn is drafted by retrieval."""
        if source != TEMPLATE and self.harvested is not None:
            return self.harvested.say(spoken, style, key, turn, TEMPLATE)
        names = {act: place for place, (act, _, _) in enumerate(spoken)}
        sentences: list[tuple[int, str, Signature]] = []  # place, wording, acts that it does
        rest = frozenset(names)
        while source != TEMPLATE and rest:
            whole = self.index.part(rest)
            if not whole:
                break
            text = self._whole(whole, style, key, turn)
            sentences.append((min(names[act] for act in whole), text, whole))
            rest -= whole
        if rest:
            drawn, start = _conversation(key)
            for place, (act, _, _) in enumerate(spoken):
                if act in rest:
                    text = self.bank.styled(act, style, drawn, start, turn)
                    sentences.append((place, text, frozenset((act,))))
        sentences.sort(key=lambda sentence: sentence[0])
        typos = style.typo_rate if self.slips else 0
        parts = [misspelt(t, typos, key, WORDING, turn, at) for at, t, _ in sentences]
        parts[:-1] = [self.ended(part) for part in parts[:-1]]
        # Two acts of a turn may have one slot: each has its own value in its own sentence.
        for place, (_, _, own) in enumerate(sentences):
            parts[place] = filled(parts[place], [one for one in spoken if one.act in own])
        return filled(" ".join(parts), spoken)

    def ended(self, sentence: str) -> str:
        """A sentence before another; terse ones have no full stop, and here one is needed."""
        return sentence + self.stop if sentence[-1:].isalnum() or sentence[-1:] == "}" else sentence

    def _whole(self, whole: Signature, style: Style, key: int, turn: int) -> str:
        drawn, start = _conversation(key)
        return self.index.styled(whole, style, drawn, start, turn)


@lru_cache(maxsize=1024)
def _conversation(key: int) -> tuple[int, int]:
    """Draws of the register, which nobody changes on the way, and of where wordings begin."""
    return draw(key, WORDING, 0, REGISTER), draw(key, WORDING, 0, START)


def filled(text: str, spoken: Sequence[Spoken]) -> str:
    """A text with the values of these acts in place of their slots."""
    for _, slot, value in spoken:
        if slot and "{" in text:
            text = text.replace("{" + slot + "}", value)
    return text
