"""One log line's JSON object as a `Conversation`, and back.

    {"conversation_id": text, "turns": [turn, …], "reward": number, "metadata": object}
    turn: {"role": text, "content": text, "reward" or "step_reward": number,
           "acts": [[text, …], …], "intents": [text, …], "slots": [[slot, value], …],
           "tool_call": object}

`conversation_id`, `turns`, `role` and `content` must be there; null means absent; keys not
named here are ignored. Whatever is wrong raises `InvalidLog` with one reason.
Knows nothing of files.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

from convgym.conversation import ROLES, Conversation, Message
from convgym.errors import InvalidLog

DEEPEST = 200
"""Objects and lists within each other, in metadata or in a tool's arguments."""


def to_record(conversation: Conversation) -> dict[str, Any]:
    """The JSON object of one log line; `from_record` of it is the conversation again."""
    return {
        "conversation_id": conversation.conversation_id,
        "turns": [turn_record(message) for message in conversation.messages],
        "reward": conversation.reward,
        "metadata": dict(conversation.metadata),
    }


def from_record(record: object) -> Conversation:
    """One parsed JSON object as a conversation; raises `InvalidLog` with what is wrong."""
    if not isinstance(record, dict):
        raise InvalidLog(f"a log line is a JSON object, this one is {name_of(record)}")
    for key in ("conversation_id", "turns"):
        if key not in record:
            raise InvalidLog(f"the field {key!r} is missing")
    identity = record["conversation_id"]
    if not isinstance(identity, str) or not identity:
        raise InvalidLog(f"conversation_id must be a text, not {name_of(identity)}")
    return with_id(identity, record)


def with_id(identity: str, record: Mapping[str, Any]) -> Conversation:
    """`from_record` with an id from elsewhere, or "" for none."""
    turns, metadata = record["turns"], record.get("metadata")
    if not isinstance(turns, list):
        raise InvalidLog(f"turns must be a list, not {name_of(turns)}")
    if not turns:
        raise InvalidLog("turns is empty")
    if metadata is not None and not isinstance(metadata, dict):
        raise InvalidLog(f"metadata must be an object, not {name_of(metadata)}")
    _check_depth(metadata)
    messages = tuple(_message(turn, number) for number, turn in enumerate(turns, 1))
    said_by = [message.role for message in messages if message.role != "system"]
    # A bot's opening that nobody answered stays: it was said, and may have been judged.
    if "user" not in said_by and said_by != ["assistant"]:
        raise InvalidLog("no turn has the role 'user', and it is no lone opening of the assistant")
    reward = _reward(record.get("reward"), "reward")
    return Conversation(identity, messages, reward, metadata or {})


def content_id(conversation: Conversation) -> str:
    """An id that only the content decides: "content-" and 32 hexadecimal digits."""
    text = json.dumps(to_record(conversation) | {"conversation_id": None}, sort_keys=True)
    return f"content-{blake2b(text.encode('utf-8'), digest_size=16).hexdigest()}"


def turn_record(message: Message) -> dict[str, Any]:
    """The JSON object of one turn."""
    turn: dict[str, Any] = {"role": message.role, "content": message.content}
    optional = {
        "reward": message.reward,
        "acts": [list(act) for act in message.acts] or None,
        "intents": list(message.intents) or None,
        "slots": [list(slot) for slot in message.slots] or None,
        "tool_call": None if message.tool_call is None else dict(message.tool_call),
    }
    return turn | {key: value for key, value in optional.items() if value is not None}


def _message(turn: object, number: int) -> Message:
    if not isinstance(turn, dict):
        raise InvalidLog(f"turn {number} must be an object, not {name_of(turn)}")
    for key in ("role", "content"):
        if key not in turn:
            raise InvalidLog(f"turn {number} has no field {key!r}")
    role, content = turn["role"], turn["content"]
    if role not in ROLES:
        allowed = ", ".join(ROLES)
        raise InvalidLog(f"turn {number} has the role {str(role)[:40]!r}; allowed: {allowed}")
    if not isinstance(content, str):
        raise InvalidLog(f"turn {number}: content must be a text, not {name_of(content)}")
    if len(turn) == 2:
        return Message(role, content)
    call = turn.get("tool_call")
    if call is not None and not isinstance(call, dict):
        raise InvalidLog(f"turn {number}: tool_call must be an object, not {name_of(call)}")
    _check_depth(call)
    reward = turn.get("reward")
    return Message(
        role,
        content,
        _reward(turn.get("step_reward") if reward is None else reward, f"turn {number}: reward"),
        _acts(turn.get("acts"), number),
        _texts(turn.get("intents"), f"turn {number}: intents"),
        _slots(turn.get("slots"), number),
        call,
    )


def _reward(value: object, name: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidLog(f"{name} must be a number or null, not {name_of(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise InvalidLog(f"{name} is not finite ({number!s})")
    return number


def _texts(value: object, name: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise InvalidLog(f"{name} must be a list of texts")
    return tuple(value)


def _acts(value: object, number: int) -> tuple[tuple[str, ...], ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise InvalidLog(f"turn {number}: acts must be a list, not {name_of(value)}")
    return tuple(_texts(act, f"turn {number}: each act") for act in value)


def _slots(value: object, number: int) -> tuple[tuple[str, str], ...]:
    if value is None:
        return ()
    pairs: Sequence[object] | None = list(value.items()) if isinstance(value, dict) else None
    pairs = value if isinstance(value, list) else pairs
    if pairs is None or not all(_is_pair(pair) for pair in pairs):
        raise InvalidLog(f"turn {number}: slots must be a list of [slot, value] texts")
    return tuple((pair[0], pair[1]) for pair in pairs)  # type: ignore[index]


def _is_pair(pair: object) -> bool:
    two = isinstance(pair, (list, tuple)) and len(pair) == 2
    return two and all(isinstance(text, str) for text in pair)  # type: ignore[attr-defined]


def _check_depth(value: object) -> None:
    """What is nested deeper is read or not as deep as its reader was called; so nobody reads it."""
    level = [value]
    for _ in range(DEEPEST):
        inner = [one for one in level if isinstance(one, dict | list)]
        if not inner:
            return
        level = [part for one in inner for part in (one.values() if isinstance(one, dict) else one)]
    raise InvalidLog("the JSON is nested too deeply")


def name_of(value: object) -> str:
    """What a JSON value is called in a sentence."""
    names: Mapping[type, str] = {
        bool: "true or false", str: "a text", list: "a list", dict: "an object",
        int: "a number", float: "a number", type(None): "null",
    }  # fmt: skip
    return "an empty text" if value == "" else names.get(type(value), type(value).__name__)
