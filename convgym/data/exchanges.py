"""A recorded conversation as what the agent read, what it answered, and what that earned.

    said      user   assistant   assistant+call   tool   assistant   user
              ───┬─  ─────────┬───────────────    ──┬─   ─────┬───   ──┬─
    read        r_0           │                    r_1        │       r_2      (T + 1,)
    replies                  a_0                             a_1               (T,)

One agent turn is all that the agent says before it reads anything again: messages of the assistant
in a row are one reply, their texts joined by newlines. A tool's result is read like a user's words,
so that a call is a turn of its own, as in ConvGym's environments. Nothing is read before the first
reply of an agent that opens, nor after the last one of an agent that has the last word.

A reward that a turn is labelled with belongs to the newest reply so far, and one before the first
reply to the first: the rewards of an episode sum to the labels of its log. Where no turn is
labelled, the reward of the whole conversation is that of the last reply. Knows nothing of episodes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.conversation import Conversation, Message
from convgym.errors import InvalidLog

REWARDS = "auto, turns, conversation, or metadata.NAME"


@dataclass(frozen=True, slots=True, eq=False)
class Exchanges:
    """T replies, and what was read around them."""

    read: tuple[tuple[Message, ...], ...]  # (T + 1,)
    replies: tuple[Message, ...]  # (T,)
    rewards: NDArray[np.float64] | None  # (T,) None where the log holds none

    def __len__(self) -> int:
        """T, the agent's turns."""
        return len(self.replies)


def exchanges(conversation: Conversation, reward: str = "auto") -> Exchanges:
    """Take a conversation apart.

    reward: `turns` labelled one by one, the `conversation`'s, `metadata.NAME` for a number of its
    metadata, or `auto`: turns where any is labelled, else the conversation's.

    Raises InvalidLog for a conversation without an agent turn, or a metadata reward that is not a
    finite number.
    """
    read: list[list[Message]] = [[]]
    replies: list[list[Message]] = []
    labels: list[tuple[int, float]] = []
    for message in conversation.messages:
        if message.role != "assistant":
            read[-1].append(message)
        elif read[-1] or not replies:
            replies.append([message])
            read.append([])
        else:
            replies[-1].append(message)
        if message.reward is not None:
            labels.append((max(len(replies) - 1, 0), message.reward))
    if not replies:
        raise InvalidLog("no turn has the role 'assistant', and an episode is made of agent turns")
    rewards = np.zeros(len(replies))
    if reward in ("auto", "turns") and labels:
        with np.errstate(over="ignore"):  # refused below
            np.add.at(rewards, *map(list, zip(*labels, strict=True)))
        earned = True
    else:
        total = None if reward == "turns" else _total(conversation, reward)
        rewards[-1] = total or 0.0
        earned = total is not None
    if not np.isfinite(rewards).all():
        raise InvalidLog("the rewards of a reply sum to no finite number")
    return Exchanges(
        tuple(map(tuple, read)),
        tuple(messages[0] if len(messages) == 1 else _joined(messages) for messages in replies),
        rewards if earned else None,
    )


def _total(conversation: Conversation, reward: str) -> float | None:
    """The reward of the whole."""
    _, from_metadata, name = reward.partition("metadata.")
    if not from_metadata:
        return conversation.reward
    value: Any = conversation.metadata.get(name)
    if value is None:
        return None
    if isinstance(value, bool | int | float):
        with suppress(OverflowError):  # of a whole number beyond all floats
            if math.isfinite(number := float(value)):
                return number
    raise InvalidLog(f"metadata[{name!r}] is no finite number")


def _joined(messages: Sequence[Message]) -> Message:
    """Messages in a row as one."""
    calls = [message.tool_call for message in messages if message.tool_call is not None]
    return Message(
        messages[0].role,
        "\n".join(message.content for message in messages if message.content),
        acts=tuple(chain.from_iterable(message.acts for message in messages)),
        intents=tuple(chain.from_iterable(message.intents for message in messages)),
        slots=tuple(chain.from_iterable(message.slots for message in messages)),
        tool_call=dict(chain.from_iterable(call.items() for call in calls)) if calls else None,
    )


def written(message: Message) -> str:
    """A message as text: what was said, then its tool calls as `parse_reply` reads them."""
    calls: Mapping[str, Any] = message.tool_call or {}
    tagged = (
        f"<tool_call>{json.dumps({'name': name, 'arguments': arguments}, ensure_ascii=False)}"
        "</tool_call>"
        for name, arguments in calls.items()
    )
    return "\n".join([*([message.content] if message.content else []), *tagged])
