"""What passes between agent, desk and user in one step, as small frozen values.

    AgentTurn(said, calls, errors, text) ──► Engine.apply ──► UserTurn | tool results

`Said` and `Call` are the same whether an action number or free text brought them: text is
understood into them, a number is looked up. Which slot or tool an argument means is the
domain's business.
"""

from __future__ import annotations

from typing import Any, NamedTuple

# Kinds of speech. What a domain's agent can say sorts into these; the user reacts to them.
(
    CHAT,
    ASK_INTENT,
    ASK,
    ASK_MORE,
    TELL,
    CONFIRM,
    DENY,
    OFFER,
    REPORT_DONE,
    APOLOGISE,
    CLOSE,
    UNCLEAR,
    EXPLAIN,
    PROMISE,
    JARGON,
    CHECK,
    INSTRUCT,
    RECOMMEND,
    QUOTE,
) = range(19)
FIRST_TOOL = 20
"""Kinds from here on are the domain's tools."""

# How a claim stands to the truth. KNOWN: spoken as an act, it says what the desk has read.
KNOWN, TRUE, FALSE, UNSUPPORTED = range(4)

# What a piece of speech means to this user.
(
    FINE,
    DOUBTFUL,
    OTHER_OBJECT,
    OTHER_REQUEST,
    TERM_UNKNOWN,
    WRONG,
) = range(6)


class Said(NamedTuple):
    """One speech act of the agent."""

    kind: int
    argument: int = 0
    """Slot asked for, fact told, request to confirm, reason of a refusal, offer made."""
    pointer: int = -1
    """The object in view that it speaks of; -1 for none."""
    value: int = 0
    """Which value is told, where an argument has several."""
    claim: int = KNOWN


class Call(NamedTuple):
    """One checked tool call of the agent; arguments are rows, indices or 0/1."""

    tool: int
    argument: int = 0
    pointer: int = -1
    detail: int = -1


class AgentTurn(NamedTuple):
    """All that one action brought: calls run first, then the speech is heard, then calls that end.

    From an act number come `Said` and `Call`. From text come the domain's own readings of it,
    which are held against the state only when their turn comes: a claim may rest on what a call
    of the same reply has read.
    """

    said: tuple[Any, ...] = ()
    calls: tuple[Any, ...] = ()
    errors: tuple[str, ...] = ()
    """One sentence for each malformed or illegal call; each is charged to the budget."""
    text: str = ""
    """What the user reads, for its length; empty for an action number."""

    @property
    def speaks(self) -> bool:
        """Whether the user gets the floor: speech, or nothing at all, which is silence."""
        return bool(self.said) or not (self.calls or self.errors)


class Heard(NamedTuple):
    """A speech act as this user takes it."""

    kind: int
    argument: int = 0
    pointer: int = -1
    """The object it speaks of; where a TERM_UNKNOWN keeps the user from a yes, that term."""
    verdict: int = FINE


class UserTurn(NamedTuple):
    """The user's answer: act numbers of the domain, and how likely its choices were."""

    acts: tuple[int, ...]
    log_prob: float
    closed: bool
    """The user has left, content or not."""
    decisions: tuple[Any, ...] = ()
    """The choices behind it (`convgym.users.decisions.Decision`); the batched user keeps none."""
    text: str = ""
    """Its words, of a user that brings its own; empty where they are made from the acts."""
    error: str = ""
    """Why there is no turn, of a user that can fail; it ends the episode as truncated."""
    about: int = 0
    """Which of the user's requests its values belong to."""
