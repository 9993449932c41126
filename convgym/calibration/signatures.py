"""What each user turn of a log does, and its words with the values taken out.

    "aaron confirmation number 7 y 6 re 5"     intents (contentonly,)   slots (name, number)
       acts     contentonly
       slots    name, number                   signature = acts + slots
       pieces   {name} " confirmation number " {number}

    "When does it leave?"                      acts ((train, request, leave, ?),)
       acts     train-request
       slots    train-request-leave?

Labels are the log's own: intents and (slot, value) pairs, or acts `(domain, act, slot, value)`;
where a turn has neither, `acts_of` is asked (a tagger, `convgym.calibration.text_acts`). A value
that is not in the text stays what it is, part of the wording. A value that the agent had said just
before is marked as heard, for it is filled with what the agent says, not with what the user wants.
Knows nothing of probabilities.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from convgym.calibration.turns import FAILURE, act_name
from convgym.conversation import Conversation, Message

NOTHING = ("none",)
ASKED = "?"
_NO_VALUE = frozenset(("", "?", "none", "dontcare", "yes", "no"))

Signature = tuple[tuple[str, ...], tuple[str, ...]]
"""(acts, slots), each sorted and each name once."""
ActsOf = Callable[[Sequence[Sequence[str]]], list[list[tuple[str, ...]]]]
"""The acts of unlabelled turns: of each conversation, of each text in order."""


class Gap(NamedTuple):
    """Where a value stood in a text."""

    slot: str
    value: str
    heard: bool
    """Whether the agent had just said it."""


Pieces = tuple[str | Gap, ...]


class Heard(NamedTuple):
    """What the agent said since the user's turn before."""

    acts: tuple[str, ...] = ()
    """Names of its acts, sorted; of an unlabelled turn "said", "asked" and "failed", as its words
    say; () where it was silent."""
    asked: tuple[str, ...] = ()
    """Slots it asked for, sorted."""
    values: tuple[tuple[str, str], ...] = ()
    """(slot, value) it told, in order."""
    text: str = ""


SILENCE = Heard()


class LoggedTurn(NamedTuple):
    """One user turn, and what it answers."""

    acts: tuple[str, ...]
    slots: tuple[str, ...]
    """Slots it tells, and with a ? behind them those it asks for."""
    pieces: Pieces
    """The text, cut where its values stand."""
    heard: Heard

    @property
    def signature(self) -> Signature:
        """What the turn does."""
        return self.acts, self.slots

    @property
    def text(self) -> str:
        """As it was said."""
        return "".join(piece.value if isinstance(piece, Gap) else piece for piece in self.pieces)

    @property
    def values(self) -> dict[str, str]:
        """The values that stand in the text, by slot."""
        return {piece.slot: piece.value for piece in self.pieces if isinstance(piece, Gap)}


class LoggedUser(NamedTuple):
    """The user's side of one conversation."""

    kind: str
    """What `metadata["domain"]` calls the conversation; "" where it calls nothing."""
    turns: tuple[LoggedTurn, ...]


def is_labelled(conversations: Sequence[Conversation]) -> bool:
    """Whether at least half of the user turns say what they do."""
    told = [bool(m.intents or m.acts) for c in conversations for m in c.said_by("user")]
    return bool(told) and 2 * sum(told) >= len(told)


def logged_users(
    conversations: Sequence[Conversation], acts_of: ActsOf | None = None
) -> list[LoggedUser]:
    """Of each conversation the turns that say something, labelled by the log or by `acts_of`."""
    users = [_user(conversation) for conversation in conversations]
    if acts_of is None:
        return users
    tagged = acts_of([[turn.text for turn in user.turns] for user in users])
    return [
        user._replace(
            turns=tuple(
                turn._replace(acts=acts, slots=(), pieces=(turn.text,))
                for turn, acts in zip(user.turns, named, strict=True)
            )
        )
        for user, named in zip(users, tagged, strict=True)
    ]


def agent_messages(conversation: Conversation) -> list[list[Message]]:
    """What the agent says before each of the user's turns, and after the last one."""
    spoken: list[list[Message]] = [[]]
    for message in conversation.messages:
        if speaks(message):
            spoken.append([])
        elif message.role == "assistant":
            spoken[-1].append(message)
    return spoken


def speaks(message: Message) -> bool:
    """Whether it is a turn of the user's with words."""
    return message.role == "user" and bool(message.content.strip())


def kind_of(conversation: Conversation) -> str:
    """See `LoggedUser.kind`."""
    return str(conversation.metadata.get("domain") or "")


def heard_in(messages: Sequence[Message]) -> Heard:
    """What messages of the agent say together."""
    if not messages:
        return SILENCE
    names = {act_name(act) for m in messages for act in m.acts if act}
    names |= {intent for m in messages for intent in m.intents}
    asked = {act[2] for m in messages for act in m.acts if len(act) > 3 and act[3] == ASKED}
    told = tuple(
        (act[2], act[3])
        for m in messages
        for act in m.acts
        if len(act) > 3 and act[3].lower() not in _NO_VALUE
    )
    text = " ".join(m.content for m in messages)
    acts = tuple(sorted(names)) or (cued(text) if text.strip() else ())
    return Heard(acts, tuple(sorted(asked)), told, text)


def delexicalised(text: str, values: Sequence[tuple[str, str]], heard: str = "") -> Pieces:
    """`text` cut where the values stand as whole words, longer ones first."""
    pieces: list[str | Gap] = [text]
    said = heard.casefold()
    for slot, value in sorted(set(values), key=lambda pair: (-len(pair[1]), pair)):
        if value.lower() in _NO_VALUE:
            continue
        whole = re.compile(rf"(?<!\w){re.escape(value)}(?!\w)", re.IGNORECASE)
        for place, piece in enumerate(pieces):
            if isinstance(piece, Gap):
                continue
            if found := whole.search(piece):
                gap = Gap(slot, found.group(), value.casefold() in said)
                cut: list[str | Gap] = [piece[: found.start()], gap, piece[found.end() :]]
                pieces[place : place + 1] = cut
                break
    return tuple(piece for piece in pieces if piece)


def cued(text: str) -> tuple[str, ...]:
    """What the words of an unlabelled agent turn say of it."""
    asked, failed = "?" in text, FAILURE.search(text.lower()) is not None
    return (*(["asked"] if asked else []), *(["failed"] if failed else []), "said")


def _user(conversation: Conversation) -> LoggedUser:
    heard = [heard_in(messages) for messages in agent_messages(conversation)]
    said = [message for message in conversation.messages if speaks(message)]
    turns = map(_turn, said, heard)  # what was heard after the last turn tells nothing of it
    return LoggedUser(kind_of(conversation), tuple(turns))


def _turn(message: Message, heard: Heard) -> LoggedTurn:
    acts = set(message.intents) or {act_name(act) for act in message.acts if act}
    full = [act for act in message.acts if len(act) > 3 and act[2] not in ("", "none")]
    values = [*message.slots, *((f"{act_name(act)}-{act[2]}", act[3]) for act in full)]
    values += [(act_name(act), act[1]) for act in message.acts if len(act) == 2 and act[1]]
    slots = {slot if value != ASKED else slot + ASKED for slot, value in values}
    return LoggedTurn(
        tuple(sorted(acts)) or NOTHING,
        tuple(sorted(slots)),
        delexicalised(message.content, values, heard.text),
        heard,
    )
