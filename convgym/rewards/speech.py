"""What was said in a conversation, in words: the plain reading that rewards on text share.

    content ─► parse_reply ─► speech ─► words ─► content words, figures

Thoughts and tool calls are not speech: the customer never sees them. A word is a run of
letters and digits, letter case aside. Sees no meaning: neither truth nor tone nor negation.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from convgym.conversation import Conversation, Message
from convgym.language.tool_calls import parse_reply

_WORD = re.compile(r"[^\W_]+")
_STOP_WORDS = frozenset(
    """a about all also am an and any are as at be been but by can could did do does for from get
    had has have he her here hi him his how i if in into is it its just me my no not now of off ok
    okay on one or our out please she so some thank thanks than that the their them then there
    these they this those to too up us was we were what when where which who will with would yes
    yet you your hello hey bye goodbye sure ll re ve don t s d m""".split()
)


def words(text: str) -> list[str]:
    """The words of a text in order, in lower case."""
    return _WORD.findall(text.casefold())


def content_words(text: str) -> set[str]:
    """Words that say what a text is about: no stop words, and two characters or more."""
    return {word for word in words(text) if len(word) > 1 and word not in _STOP_WORDS}


def figures(text: str) -> set[str]:
    """Words with a digit in them: numbers, dates, order numbers."""
    return {word for word in words(text) if any(map(str.isdigit, word))}


def speech(message: Message) -> str:
    """What the other side hears of a message."""
    if message.role != "assistant":
        return message.content
    return parse_reply(message.content).speech


def replies(conversation: Conversation) -> list[str]:
    """What the agent said, turn by turn; turns without a word are left out."""
    said = (speech(message) for message in conversation.said_by("assistant"))
    return [text for text in said if _WORD.search(text)]


class Exchange(NamedTuple):
    """A turn of the user and what the agent did until the user spoke again."""

    asked: str
    answer: str
    """Everything spoken, joined; empty where nothing was."""
    acted: bool
    """The agent had words or a tool call."""


def exchanges(conversation: Conversation) -> list[Exchange]:
    """Turn and answer, in order; a last turn that left the agent no turn is left out."""
    found: list[Exchange] = []
    asked: list[str] = []
    answer: list[str] = []
    turns, acted = 0, False
    for message in conversation.messages:
        if message.role == "user":
            if turns and asked:
                found.append(Exchange(" ".join(asked), " ".join(answer), acted))
            if turns:
                asked, answer, acted, turns = [], [], False, 0
            asked.append(message.content)
        elif message.role == "assistant":
            parsed = parse_reply(message.content)
            turns += 1
            spoken = bool(_WORD.search(parsed.speech))
            acted = acted or spoken or bool(parsed.calls) or message.tool_call is not None
            if spoken:
                answer.append(parsed.speech)
    if turns and asked:
        found.append(Exchange(" ".join(asked), " ".join(answer), acted))
    return found
