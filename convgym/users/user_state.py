"""What one user wants, knows and feels in one episode.

    knowledge   for each request a ladder of acts per slot: known, vague, wrong, or looked up first
    mood        `bother`, and what was promised, doubted, refused

Knows nothing of how a user reacts; that is `convgym.users.agenda`.
"""

from __future__ import annotations

from dataclasses import dataclass

from convgym.users.decisions import Decision
from convgym.users.persona import Levels

# What the user is waiting to be told, one at a time: its own open question.
NOTHING, WHY, MEANING, SURE, NEXT = range(5)
# What comes back with the next turn, after "one moment".
LOOKING, PRETENDING = 1, 2


@dataclass(frozen=True, slots=True)
class Knowledge:
    """One thing that a user wants, and what it can say for it, as act numbers of the domain."""

    request: int
    ladders: tuple[tuple[int, ...], ...]
    """For each slot what is said at the first, second, … asking; empty: nothing is known.
    A vague memory begins its ladder with a vague act, a wrong one with a wrong one."""
    misremembered: tuple[int, ...]
    """For each slot what a slip of memory says at the first asking; -1: no slip."""
    main_slot: int
    """The slot that names the object, which a talkative user gives unasked."""
    first_slot: int
    """The slot that a talkative user opens with."""
    must_look_up: bool
    """The main slot needs a moment: `hold` now, the value with the next turn."""
    alternative: bool
    """Whether the policy has something else to offer where it refuses."""
    facts: tuple[int, ...] = ()
    """Facts that make this user content, as `argument` of TELL; empty: a deed does."""
    personal: tuple[int, ...] = ()
    """Slots that a sceptic does not give before knowing what for."""
    terms: frozenset[tuple[int, int]] = frozenset()
    """(kind, argument) of what an agent says that a novice may need explained."""
    asks: tuple[int, ...] = ()
    """What it asks, for each `argument` of TELL, if a yes is wanted before that was told."""
    correct: int = -1
    """How it says that another object is meant."""


class UserState:
    """The private record of one user in one episode."""

    __slots__ = (
        "about",
        "answered",
        "apologised",
        "asked",
        "at",
        "bother",
        "closing",
        "decisions",
        "denied",
        "disputes",
        "doubted",
        "explained",
        "fresh",
        "heard_turn",
        "holding",
        "intent_said",
        "knowledge",
        "log_prob",
        "offered",
        "owed",
        "persona",
        "promised",
        "puzzled",
        "question",
        "requests",
        "resolved",
        "satisfied",
        "slipped",
        "taken",
        "told",
        "turn",
        "waiting",
    )

    def __init__(self, persona: Levels, knowledge: Knowledge, *later: Knowledge) -> None:
        self.persona = persona
        self.requests = (knowledge, *later)
        self.at = 0  # the request it is about now
        self.about = 0  # the request that the values of this turn belong to
        self.taken = 0  # bit per request: took a right refusal
        self.knowledge = knowledge
        self.turn = 0
        self.heard_turn = 0  # the agent's turn that was heard last
        self.bother = 0
        self.log_prob = 0  # in LOG_UNITs
        self.decisions: list[Decision] = []
        self.asked = [0] * len(knowledge.ladders)
        self.slipped = 0  # bit per slot
        self.told = 0  # bit per fact
        self.answered = 0  # bit per slot, in this turn
        self.intent_said = False
        self.holding = 0  # LOOKING, PRETENDING
        self.question = NOTHING
        self.fresh = False  # the question was put in this turn
        self.explained = False  # something was, in this turn
        self.owed = -1  # the slot to give once the question is answered
        self.puzzled = 0  # bits: 1 has asked why, 2 what something means
        self.doubted = False
        self.waiting = False  # said yes, waits for the deed
        self.promised = False  # was told that it would be done
        self.satisfied = False
        self.apologised = False
        self.denied = 0  # 0 not, 1 rightly, 2 wrongly
        self.disputes = 0
        self.offered = False
        self.resolved = False  # took a right refusal
        self.closing = False

    def next_request(self) -> None:
        """Turn to the next thing it came for; what it said of itself stays said."""
        self.at += 1
        self.knowledge = knowledge = self.requests[self.at]
        for slot in range(len(self.asked)):
            if slot not in knowledge.personal:
                self.asked[slot] = 0
                self.slipped &= ~(1 << slot)
        self.told = self.denied = self.disputes = self.holding = 0
        self.question, self.owed = NOTHING, -1
        self.doubted = self.waiting = self.promised = self.satisfied = False
        self.offered = self.resolved = False

    @property
    def has_more(self) -> bool:
        """Whether it came for something else as well."""
        return self.at + 1 < len(self.requests)

    def copy(self) -> UserState:
        """An independent copy."""
        kind = type(self)
        copy = kind.__new__(kind)
        for owner in kind.__mro__:
            for name in getattr(owner, "__slots__", ()):
                value = getattr(self, name)
                setattr(copy, name, list(value) if type(value) is list else value)
        return copy
