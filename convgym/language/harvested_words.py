"""How the users of a log write, as wordings for the acts of a domain that is not theirs.

    small talk   "ok thanks"          as often as it was said
    values       "sure, its {}"       carriers that name no slot, for acts that state one value
    all else     "I want a refund."   the domain's own words in the log's hand: "i want a refund"

A log of flights has no words for a refund, and where it seems to have some they mean something
else: what an act says is left to the domain, how it is written is the log's. Knows nothing of
probabilities.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any
from zlib import crc32

from convgym.language.phrases import REGISTERS, PhraseBank
from convgym.language.retrieval import TurnIndex
from convgym.language.voice import Voice

MARKS = ".,!?;:'"
"""What a hand may leave out."""
ENOUGH = 5
"""Wordings below which an act keeps the domain's own."""
STATES = "inform_"
"""How acts begin that state a value."""
_SLOT = re.compile(r"\{(\w*)\}")


@dataclass(frozen=True, slots=True)
class Hand:
    """How somebody writes, as shares of turns."""

    capital: float = 1.0
    """Begin with a capital letter, of those that begin with a letter."""
    stop: float = 1.0
    """End with a mark, of those of several words."""
    marks: str = MARKS
    """The marks that are used at all."""
    lengths: tuple[int, ...] = ()
    """Words of turns that say one thing, small talk aside: so many quantiles, shortest first; ()
    for any."""

    def fitting(self, wordings: Sequence[str]) -> list[str]:
        """Some of the wordings, so that their lengths are near this hand's; all for any."""
        chosen: list[str] = []
        taken = Counter[str]()
        for words in self.lengths:
            # A word too many is as bad as saying the same once more.
            fit = min(wordings, key=lambda w: abs(len(w.split()) - words) + taken[w])
            taken[fit] += 1
            chosen.append(fit)
        return chosen or list(wordings)

    def write(self, wording: str) -> str:
        """A wording in this hand; the same one for the same wording."""
        drawn = crc32(wording.encode())
        text = "".join(c for c in wording if c in self.marks or c not in MARKS)
        if drawn % 1000 >= 1000 * self.capital:
            text = _lowered(text)
        if drawn // 1000 % 1000 >= 1000 * self.stop:
            text = text.rstrip(MARKS)
        return text or wording


def _lowered(text: str) -> str:
    """In lower case, but for the names of slots."""
    return "".join(
        part if part.startswith("{") else part.lower() for part in re.split(r"(\{\w*\})", text)
    )


@dataclass(frozen=True, slots=True)
class HarvestedWords:
    """What was harvested; the mappings are not to be changed."""

    small_talk: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Wordings by act, one as many times as it is to weigh."""
    carriers: tuple[str, ...] = ()
    """With {} where the value stands; one as many times as it is to weigh."""
    carried: float = 1.0
    """The share of values that carriers carry; the domain's own wordings state the others."""
    hand: Hand = Hand()

    def voice(self, own: Voice) -> Voice:
        """A domain's voice in these words, for what it says by its bank."""
        stop = "." if self.hand.stop >= 0.5 else ""
        return Voice(self.bank(own.bank), TurnIndex(), stop=stop, slips=False)

    def bank(self, own: PhraseBank) -> PhraseBank:
        """A domain's bank in these words; every act keeps its meaning and its value."""
        slots = {name: _slots(own.variants(name)) for name in own}
        stated = [slot for name, slot in slots.items() if slot and name.startswith(STATES)]
        words: dict[str, Sequence[str] | Mapping[str, Sequence[str]]] = {}
        for name, slot in slots.items():
            # Two acts of one slot differ in what is said beside the value.
            carries = name.startswith(STATES) and slot and stated.count(slot) == 1
            if len(set(self.small_talk.get(name, ()))) >= ENOUGH:
                words[name] = self.small_talk[name]
                continue
            carriers = [carrier.replace("{}", "{" + slot + "}") for carrier in self.carriers]
            words[name] = self._in_hand(name, own, carriers if carries else ())
        return PhraseBank(words)

    def _in_hand(
        self, name: str, own: PhraseBank, carriers: Sequence[str]
    ) -> dict[str, list[str]]:
        """An act's own wordings as this hand writes, by register, and its share of carriers."""
        words = {}
        # Who leaves capitals away writes nothing formal.
        registers = (0, 0, 1) if self.hand.capital < 0.5 else (0, 1, 2)
        for register, source in zip(REGISTERS, registers, strict=True):
            fit = [self.hand.write(w) for w in self.hand.fitting(own.wordings(name, source))]
            carry = spread(carriers, round(len(fit) * self.carried)) if carriers else []
            words[register] = [*carry, *spread(fit, len(fit) - len(carry))]
        return words

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON; `from_dict` reads it back."""
        return asdict(self)

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> HarvestedWords:
        """What `to_dict` gave; raises KeyError or TypeError for anything else."""
        return cls(
            {str(act): tuple(map(str, said)) for act, said in record["small_talk"].items()},
            tuple(map(str, record["carriers"])),
            float(record["carried"]),
            Hand(**(record["hand"] | {"lengths": tuple(map(int, record["hand"]["lengths"]))})),
        )


def spread(wordings: Sequence[str], n: int) -> list[str]:
    """n of these wordings, evenly spaced."""
    return [wordings[place * len(wordings) // n] for place in range(n)]


def _slots(wordings: Sequence[str]) -> str:
    """The one slot of all of these wordings; "" where that is not so."""
    found = {tuple(_SLOT.findall(wording)) for wording in wordings}
    only = found.pop() if len(found) == 1 else ()
    return only[0] if len(only) == 1 else ""
