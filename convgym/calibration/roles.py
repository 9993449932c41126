"""What a turn is, whatever a corpus calls it: acts and words sorted into a few common roles.

    label ("openinggreeting", "hotel-request", …) ─┐
                                                   ├─► {greet, question, thank, …}
    words, for roles no label of the corpus names ─┘

Where some label of a corpus names a role, the labels decide; else a cue in the words does, which is
coarser. English only. Knows nothing of probabilities.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property, lru_cache

from convgym.calibration.signatures import Heard, LoggedTurn, LoggedUser
from convgym.calibration.turns import FAILURE
from convgym.data import cues

_ROLES: dict[str, tuple[str, str]] = {
    "greet": (r"greet|hello", r"^(hi+|hello|hey|hai|good (morning|afternoon|evening))\b"),
    "question": (r"request|question|^ask", r"\?"),
    "off_topic": (r"out.?of.?domain|off.?topic|chit", r"\b(weather|by the way|btw|joke)\b"),
    "second_goal": (r"second.?goal", r"\b((one more|another) thing|something else)\b"),
    "change_mind": (r"change.?mind", r"\b(changed my mind|on second thoughts?|instead)\b"),
    "unavailable": (r"unavailable", r"\b(is there any way|would it be possible)\b"),
    "confirm_back": (
        r"confirm.?back|reqconf", r"\b(is that (right|correct)|you mean|just to be sure)\b",
    ),
    "correct": (r"^correct|fix", r"\b(i meant|correction|(is|was) wrong|should be)\b"),
    "reject": (r"reject|negat|deny", r"^(no|nope|nah)\b"),
    "repeat": (r"repeat", r"\b(repeat|as i said|(say|said) (that )?(again|before)|already told)\b"),
    "vague": (r"vague|dont.?know", r"\b(not sure|don'?t know|no idea|whatever)\b"),
    "escalate": (
        r"escalat|complain", r"\b(manager|supervisor|real person|ridiculous|unacceptable)\b",
    ),
    "ack": (r"confirmation|^ack|affirm", r"^(ok(ay)?|sure|yes|yeah|great|fine|alright)\b"),
    "thank": (r"thank", cues.THANKS.pattern),
    "bye": (r"bye|clos", cues.BYE.pattern),
}  # fmt: skip
ROLES = tuple(_ROLES)
_LABELS = {role: re.compile(label) for role, (label, _) in _ROLES.items()}
_CUES = {role: re.compile(cue) for role, (_, cue) in _ROLES.items()}
_FAILED = re.compile(r"nooffer|nobook|fail|error")
_EMPATHY = re.compile(r"\b(sorry|apologi[sz]e|understand|frustrating)\b")


@lru_cache(4096)
def named(acts: tuple[str, ...]) -> frozenset[str]:
    """The roles that labels name."""
    return frozenset(
        role for role, label in _LABELS.items() if any(label.search(act.lower()) for act in acts)
    )


def cued(text: str) -> frozenset[str]:
    """The roles whose cues stand in a text."""
    lowered = text.lower()
    return frozenset(role for role, cue in _CUES.items() if cue.search(lowered))


class Roles:
    """The roles of a corpus's turns."""

    def __init__(self, log: Sequence[LoggedUser], labelled: bool = True) -> None:
        """labelled: whether the turns' acts are the log's own, not read off their words."""
        turns = [turn for user in log for turn in user.turns]
        names = (named(turn.acts) for turn in turns if labelled)
        self.labelled = frozenset[str]().union(*names)
        """Those that some label of the corpus names; cues read the others."""
        self.failures_labelled = any(_fails(turn.heard) for turn in turns)
        """Whether agents' labels name failures."""

    def of(self, turn: LoggedTurn) -> frozenset[str]:
        """The roles of one turn."""
        return (named(turn.acts) & self.labelled) | (cued(turn.text) - self.labelled)

    def prompt(self, heard: Heard, before: Heard | None) -> Prompt:
        """What the agent did before a turn of this corpus."""
        return Prompt(heard, before, self.failures_labelled)


def _fails(heard: Heard) -> bool:
    """Whether labels name a failure; "failed" by itself is what words told `heard_in`."""
    return any(act != "failed" and _FAILED.search(act) for act in heard.acts)


class Prompt:
    """What the agent did before a turn."""

    def __init__(
        self, heard: Heard, before: Heard | None = None, failures_labelled: bool = False
    ) -> None:
        self.heard, self._before, self._labelled = heard, before, failures_labelled

    @cached_property
    def asked(self) -> bool:
        """Whether it asked something."""
        return bool(self.heard.asked) or "?" in self.heard.text

    @cached_property
    def failed(self) -> bool:
        """Whether it spoke of a failure."""
        said = FAILURE.search(self.heard.text.lower()) is not None
        return _fails(self.heard) or (said and not self._labelled)

    @cached_property
    def repeated(self) -> bool:
        """Whether it said the very same as the time before."""
        text = self.heard.text
        return bool(text) and self._before is not None and self._before.text == text

    @cached_property
    def feels(self) -> bool:
        """Whether it showed empathy."""
        return _EMPATHY.search(self.heard.text.lower()) is not None


def cue(heard: Heard) -> tuple[bool, bool]:
    """The least that an answer hangs on: whether the agent asked, and whether it told a failure."""
    prompt = Prompt(heard)
    return prompt.asked, prompt.failed
