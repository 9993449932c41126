"""The user's turns of many conversations, in columns, for whoever counts or classifies them.

    conversations ─► turns that say something ─► owner   0 0 0 1 1 …   whose turn it is
                                                 place   0 1 2 0 1 …   how many came before it
                                                 texts, words, prompts, acts, marks

    prompt   what the agent said since the user's turn before; "" where it said nothing
    acts     the turn's intents, or the names of its acts, each once; ("none",) without one
    marks    what a few cues tell of a text (`MARKS`)

Knows nothing of who is real and who is simulated.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from convgym.conversation import Conversation, Message
from convgym.data import cues

if TYPE_CHECKING:  # the tagger brings numba with it
    from convgym.language.act_tagger import ActTagger

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MARKS = ("question", "thanks", "negation", "backchannel", "greeting", "bye", "number")
FAILURE = re.compile(
    r"\b(sorry|apologi[sz]e|unfortunately|unable|can ?not|can'?t|could ?n[o']?t|unavailable"
    r"|not available|fail(ed|s|ure)?|error)\b"
)
"""What an agent says that has failed, in lower-case English."""
NO_ACT = "none"
ASKED = "?"
"""The value of a slot that the agent asks for, in acts as MultiWOZ writes them."""


@dataclass(frozen=True, eq=False)
class UserTurns:
    """T turns of `conversations` conversations, in their order."""

    conversations: int
    owner: Ints  # (T,)
    place: Ints  # (T,)
    texts: list[str]
    prompts: list[str]
    acts: list[tuple[str, ...]]
    answered: Floats
    """1 where the agent's acts asked for a slot and the turn's acts tell it, 0 where they do not,
    NaN where nothing was asked.  (T,)"""

    @classmethod
    def of(cls, conversations: Sequence[Conversation]) -> UserTurns:
        """The columns of conversations as the log labelled them."""
        owner: list[int] = []
        place: list[int] = []
        texts: list[str] = []
        prompts: list[str] = []
        acts: list[tuple[str, ...]] = []
        answered: list[float] = []
        for number, conversation in enumerate(conversations):
            heard: list[Message] = []
            said = 0
            for message in conversation.messages:
                if message.role == "assistant":
                    heard.append(message)
                elif message.role == "user" and message.content.strip():
                    owner.append(number)
                    place.append(said)
                    texts.append(message.content)
                    prompts.append(" ".join(m.content for m in heard if m.content.strip()))
                    acts.append(act_names(message) or (NO_ACT,))
                    answered.append(_answered(heard, message))
                    heard, said = [], said + 1
        return cls(
            len(conversations),
            np.array(owner, dtype=np.int64),
            np.array(place, dtype=np.int64),
            texts,
            prompts,
            acts,
            np.array(answered),
        )

    def with_comparable_acts(self, side: Ints, tagger: ActTagger | None) -> UserTurns:
        """The same, with acts that mean the same on both sides.  side: (conversations,)

        The logs' own where most turns of each side have some, else the tagger's, else none: names
        that one side alone has would tell the sides apart, and nothing of the users.
        """
        named = np.array([acts != (NO_ACT,) for acts in self.acts], dtype=np.bool_)
        shares = [named[side[self.owner] == which].mean() for which in np.unique(side[side >= 0])]
        if min(shares) > 0.5:
            return self
        if tagger is None:
            return replace(self, acts=[(NO_ACT,)] * len(self.acts))
        names = [(name,) for name in tagger.acts]
        return replace(
            self, acts=[names[act] for act in tagger.predict(self.texts, self.place.tolist())]
        )

    @cached_property
    def words(self) -> list[list[str]]:
        """Lower-case words of each turn."""
        return [cues.words_of(text) for text in self.texts]

    @cached_property
    def lengths(self) -> Ints:
        """Words of each turn.  (T,)"""
        return np.fromiter(map(len, self.words), dtype=np.int64, count=len(self.words))

    @cached_property
    def counts(self) -> Ints:
        """Turns of each conversation.  (conversations,)"""
        return np.bincount(self.owner, minlength=self.conversations)

    @cached_property
    def last(self) -> NDArray[np.bool_]:
        """Which turns are their conversation's last.  (T,)"""
        return self.place == self.counts[self.owner] - 1

    @cached_property
    def marks(self) -> NDArray[np.bool_]:
        """Which of `MARKS` each turn bears.  (T, marks)"""
        turns = zip(self.texts, self.words, strict=True)
        rows = [_marks(text.lower(), words) for text, words in turns]
        return np.array(rows, dtype=np.bool_).reshape(len(rows), len(MARKS))

    @cached_property
    def prompted(self) -> NDArray[np.bool_]:
        """Which turns answer a prompt.  (T,)"""
        return np.array([bool(prompt) for prompt in self.prompts], dtype=np.bool_)

    @cached_property
    def failed(self) -> NDArray[np.bool_]:
        """Whether the agent's turn before each speaks of a failure.  (T,)"""
        return np.array([bool(FAILURE.search(p.lower())) for p in self.prompts], dtype=np.bool_)


def act_names(message: Message) -> tuple[str, ...]:
    """What the log calls a turn, each name once; () where it says nothing."""
    kinds = message.intents or [act_name(act) for act in message.acts if act]
    return tuple(dict.fromkeys(kinds))


def act_name(act: Sequence[str]) -> str:
    """`domain-act` of `(domain, act, slot, value)`, the act of `(act, value)`.

    A hyphen of their own becomes a `_`, so that the one between them tells them apart.
    """
    return "-".join(part.replace("-", "_") for part in act[: 2 if len(act) > 2 else 1])


def slot_name(slot: str) -> str:
    """The slot of `domain-act-slot`, or of a log that names no domain."""
    return slot.split("-", 2)[-1]


def plain(text: str) -> str:
    """A text without case and outer or double spaces: what "verbatim" compares."""
    return " ".join(text.casefold().split())


def _answered(heard: Sequence[Message], message: Message) -> float:
    """See `UserTurns.answered`; acts are `(domain, act, slot, value)`."""
    asked = {act[2] for m in heard for act in m.acts if len(act) > 3 and act[3] == ASKED}
    told = {act[2] for act in message.acts if len(act) > 3 and act[3] != ASKED}
    return float(bool(asked & told)) if asked else np.nan


def _marks(text: str, words: Sequence[str]) -> tuple[bool, ...]:
    """In the order of `MARKS`; `text` is in lower case."""
    return (
        "?" in text,
        cues.THANKS.search(text) is not None,
        cues.NEGATION.search(text) is not None,
        bool(words) and cues.BACKCHANNELS.issuperset(words),
        cues.is_greeting(words),
        cues.BYE.search(text) is not None,
        cues.DIGIT.search(text) is not None,
    )
