"""What a choice of the user may hang on, and on which of it each kind of choice does.

    row      kind  style  place  stage  told  last  before  last slots  agent  asked  ends  acts
    chain    (stage), (last), (kind, last), …       histories, shortest first

A chain is a list of columns; on a corpus it is cut to the columns that vary there, so that a log
without agent turns or kinds backs off over fewer histories, and no history counts twice.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterator, Sequence
from operator import itemgetter

from convgym.calibration.roles import cue
from convgym.calibration.signatures import Heard, LoggedUser, Signature

KIND, STYLE, PLACE, STAGE, TOLD, LAST, BEFORE, LAST_SLOTS, AGENT, ASKED, ENDS, ACTS, CUE, OPENS = (
    range(14)
)
Row = list[Hashable]
Chain = tuple[tuple[int, ...], ...]

ACTS_AFTER: Chain = (
    (ENDS, CUE), (ENDS, CUE, STAGE), (ENDS, CUE, LAST), (ENDS, CUE, AGENT), (ENDS, CUE, KIND, LAST),
    (ENDS, CUE, KIND, AGENT, LAST), (ENDS, CUE, KIND, AGENT, LAST, TOLD),
    (ENDS, CUE, KIND, AGENT, LAST, TOLD, STAGE),
)  # fmt: skip
SLOTS_AFTER: Chain = (
    (ACTS,), (ACTS, CUE, OPENS), (ACTS, CUE, OPENS, KIND), (ACTS, CUE, OPENS, KIND, ASKED),
    (ACTS, CUE, OPENS, KIND, ASKED, LAST_SLOTS), (ACTS, CUE, OPENS, KIND, ASKED, LAST_SLOTS, LAST),
)  # fmt: skip
END_AFTER: Chain = (
    (PLACE,), (KIND, STAGE), (KIND, LAST), (LAST, STAGE), (LAST, BEFORE), (LAST, TOLD), (AGENT,),
)  # fmt: skip
ANSWER_AFTER: Chain = ((OPENS,), (ASKED,), (KIND, ASKED), (KIND, ASKED, LAST_SLOTS))
"""Whether a question is answered."""
PHRASE_AFTER: Chain = (
    (CUE,), (CUE, OPENS, ENDS), (CUE, OPENS, ENDS, STYLE), (CUE, OPENS, ENDS, STYLE, KIND),
    (CUE, OPENS, ENDS, STYLE, KIND, AGENT), (CUE, OPENS, ENDS, STYLE, KIND, AGENT, STAGE),
)  # fmt: skip

BEGIN: Signature = (("begin",), ())
"""What stands before the first turn."""
STAGES = (1, 2, 3, 4, 6, 8, 11)
"""Where a stage of a conversation begins, in user turns."""
TOLD_FROM = (1, 2, 3, 4, 6, 9)
"""Where a class of how many slots were told begins."""
LAST_PLACE = 20
"""The place that stands for all later ones."""


class Progress:
    """How far a user has come: what the next choice may hang on."""

    __slots__ = ("before", "kind", "last", "place", "style", "told")

    def __init__(self, kind: str, style: int) -> None:
        self.kind, self.style, self.place = kind, style, 0
        self.before = self.last = BEGIN
        self.told: set[str] = set()

    def row(self, heard: Heard, ends: bool = False, acts: Hashable = ()) -> Row:
        """The columns of the next choice; `ends` and `acts` where they are chosen already."""
        return [
            self.kind, self.style, min(self.place, LAST_PLACE), bisect_right(STAGES, self.place),
            bisect_right(TOLD_FROM, len(self.told)), self.last[0], self.before[0], self.last[1],
            heard.acts, heard.asked, ends, acts, cue(heard),
            self.place == 0,
        ]  # fmt: skip

    def say(self, signature: Signature) -> None:
        """Go on by one turn."""
        self.before, self.last = self.last, signature
        self.told.update(signature[1])
        self.place += 1


def rows_of(user: LoggedUser, style: int) -> Iterator[Row]:
    """The row of each of a user's turns."""
    progress = Progress(user.kind, style)
    for left, turn in enumerate(user.turns, start=1 - len(user.turns)):
        yield progress.row(turn.heard, not left, turn.acts)
        progress.say(turn.signature)


class Histories:
    """A chain as it applies to a corpus."""

    def __init__(self, chain: Chain, rows: Sequence[Row]) -> None:
        varied = [len({row[column] for row in rows}) > 1 for column in range(len(rows[0]))]
        cut = (tuple(column for column in columns if varied[column]) for columns in chain)
        self._pick = [itemgetter(*columns) for columns in dict.fromkeys(cut) if columns]

    def of(self, row: Row) -> list[Hashable]:
        """The histories of one choice, shortest first."""
        return [pick(row) for pick in self._pick]
