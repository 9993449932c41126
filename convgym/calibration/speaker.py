"""One fitted user in one conversation: what it has said, and what it still wants to say.

    speaker = simulator.speaker(user=17, key=…)
    said = simulator.say(speaker, heard)          one turn; the speaker remembers

All that changes in a conversation and nothing else, so that it can be copied and saved; tables and
words are the simulator's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from convgym.calibration.goals import Agenda
from convgym.calibration.histories import Progress
from convgym.calibration.phrase_bank import PhraseBank
from convgym.calibration.signatures import Pieces, Signature
from convgym.engine.keys import WORDING, below, child, draw

_WHICH = 700
"""Number of the draw of a turn's wording."""


@dataclass(eq=False)
class Speaker:
    """A user of a log under way in a conversation."""

    key: int
    """Of all its chance."""
    agenda: Agenda
    progress: Progress
    hurry: float = 0.0
    """Added to the logit of leaving."""
    wanted: dict[str, str] = field(default_factory=dict)
    """The values that it has told, by slot."""


class Said(NamedTuple):
    """One turn of a speaker's."""

    text: str
    signature: Signature
    values: Mapping[str, str]
    """Of the slots that have one in the text."""
    ends: bool
    log_prob: float
    """Of what was done, and of leaving or staying, in nats; words are no part of it."""


class Words(Protocol):
    """Where a turn's words come from."""

    def take(self, shelf: list[int]) -> Pieces:
        """The words of one of these turns of a bank."""


class Templates:
    """One wording for whatever is done: the one that is said most."""

    def __init__(self, bank: PhraseBank) -> None:
        self._bank = bank

    def take(self, shelf: list[int]) -> Pieces:
        """The commonest words for what these turns do."""
        return self._bank.commonest(shelf[0])


class Drawn:
    """Words drawn for one turn, whatever was said before."""

    def __init__(self, bank: PhraseBank, key: int, place: int) -> None:
        self._bank, self._key, self._place = bank, key, place

    def take(self, shelf: list[int]) -> Pieces:
        """The words of one of these turns, each as likely."""
        drawn = draw(self._key, WORDING, self._place, _WHICH)
        number = shelf[below(drawn, len(shelf))]
        return self._bank.splices.reworded(number, child(self._key, self._place))
