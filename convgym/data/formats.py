"""Chat records of other tools as conversations, and back: OpenAI's and ShareGPT's.

    OpenAI     {"messages": [{"role", "content", "tool_calls", "tool_call_id", …}, …], …}
    ShareGPT   {"id", "conversations": [{"from", "value"}, …], …}

    role        OpenAI                        ShareGPT, "from"
    user        user                          human, user
    assistant   assistant                     gpt, assistant, chatgpt, function_call
    tool        tool, function                observation, tool, function_response
    system      system, developer             system

Null means absent. A record's id is its `conversation_id` or `id`, and else made of its content.
`reward`, `acts`, `intents`, `slots` are read from record and turns under our own names; every
other field of the record is kept in the metadata, those of a turn under
`metadata["turn_fields"][number of the turn]`, and they come back on the way out.

A call of a tool becomes `tool_call`: the arguments by the tool's name, a list of them where a
turn calls one tool several times. Arguments that are no JSON stay a text; on the way out the calls
of one tool stand side by side, and JSON is spaced as Python does it.

Knows nothing of files. Whatever is wrong raises `InvalidLog` with one reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from convgym.conversation import Conversation
from convgym.data.logs import holds_half_a_character
from convgym.data.records import content_id, from_record, name_of, turn_record, with_id
from convgym.errors import InvalidLog

OTHER_ROLES = {"developer": "system", "function": "tool"}
SPEAKERS = {
    "human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant",
    "chatgpt": "assistant", "function_call": "assistant", "observation": "tool", "tool": "tool",
    "function_response": "tool", "system": "system",
}  # fmt: skip
SPEAKER_OF = {"user": "human", "assistant": "gpt", "tool": "observation", "system": "system"}
OWN_FIELDS = ("role", "content", "reward", "step_reward", "acts", "intents", "slots", "tool_call")
TURN_FIELDS = "turn_fields"
OWN_CALL_ID = re.compile(r"call-\d+-\d+")
"""What `to_openai` names calls that have no id; not worth keeping."""

Json = dict[str, Any]


def from_openai(record: object) -> Conversation:
    """A record of OpenAI's chat format; parts of a content are joined, and must be texts."""
    return _with_content_id(parse_openai(record))


def from_sharegpt(record: object) -> Conversation:
    """A record of ShareGPT's format; a `function_call` without a call in it is plain text."""
    return _with_content_id(parse_sharegpt(record))


def parse_openai(record: object) -> Conversation:
    """`from_openai`, with "" for an id that the record does not give."""
    return _parsed(record, "messages", _from_openai_turn)


def parse_sharegpt(record: object) -> Conversation:
    """`from_sharegpt`, with "" for an id that the record does not give."""
    return _parsed(record, "conversations", _from_sharegpt_turn)


def parse_any(record: object) -> Conversation:
    """A record in whichever format its fields show: `turns`, `messages` or `conversations`."""
    fields: Mapping[str, Any] = record if isinstance(record, dict) else {}
    if "turns" in fields:
        return from_record(record)
    if "messages" in fields:
        return parse_openai(record)
    if "conversations" in fields:
        return parse_sharegpt(record)
    raise InvalidLog("the record has none of the fields 'turns', 'messages', 'conversations'")


def to_openai(conversation: Conversation) -> Json:
    """`from_openai` of it is the conversation again, except that an empty `tool_call` is none."""
    metadata, fields = _turn_fields(conversation)
    messages: list[Json] = []
    open_calls: list[Any] = []
    for number, message in enumerate(conversation.messages, 1):
        turn = fields.get(str(number), {}) | turn_record(message)
        ids, calls = turn.pop("tool_call_ids", None), _calls(turn.pop("tool_call", {}))
        if calls:
            if not isinstance(ids, list) or len(ids) != len(calls):
                ids = [f"call-{number}-{place}" for place in range(1, len(calls) + 1)]
            turn["content"] = message.content or None
            turn["tool_calls"] = [
                {"id": name, "type": "function", "function": _function(*call)}
                for name, call in zip(ids, calls, strict=True)
            ]
            open_calls = list(ids)
        if message.role == "tool":
            if turn.get("tool_call_id") in open_calls:
                open_calls.remove(turn["tool_call_id"])
            elif open_calls and "tool_call_id" not in turn:
                turn["tool_call_id"] = open_calls.pop(0)
        messages.append(turn)
    return _record(conversation, "conversation_id", metadata, {"messages": messages})


def to_sharegpt(conversation: Conversation) -> Json:
    """`from_sharegpt` of it is the conversation again.

    A turn that only calls tools speaks as `function_call`; where it also says something, the call
    is in a field `tool_call`, which other tools do not know.
    """
    metadata, fields = _turn_fields(conversation)
    turns = []
    for number, message in enumerate(conversation.messages, 1):
        turn = fields.get(str(number), {}) | turn_record(message)
        speaker, said = SPEAKER_OF[turn.pop("role")], turn.pop("content")
        if message.role == "assistant" and message.tool_call and not said:
            named = [
                {"name": name, "arguments": _as_text(value) if isinstance(value, str) else value}
                for name, value in _calls(turn.pop("tool_call"))
            ]
            speaker = "function_call"
            said = json.dumps(named if len(named) > 1 else named[0], ensure_ascii=False)
        turns.append({"from": speaker, "value": said} | turn)
    return _record(conversation, "id", metadata, {"conversations": turns})


# From a record


def _with_content_id(conversation: Conversation) -> Conversation:
    if conversation.conversation_id:
        return conversation
    return replace(conversation, conversation_id=content_id(conversation))


def _parsed(record: object, key: str, convert: Callable[[Json, int], Json]) -> Conversation:
    if not isinstance(record, dict):
        raise InvalidLog(f"a record is a JSON object, this one is {name_of(record)}")
    others = {name: value for name, value in record.items() if value is not None}
    if key not in others:
        raise InvalidLog(f"the field {key!r} is missing")
    turns, metadata = others.pop(key), others.pop("metadata", {})
    if not isinstance(turns, list):
        raise InvalidLog(f"{key} must be a list, not {name_of(turns)}")
    if not isinstance(metadata, dict):
        raise InvalidLog(f"metadata must be an object, not {name_of(metadata)}")
    identity = others.pop("id" if "conversation_id" not in others else "conversation_id", "")
    if isinstance(identity, int) and not isinstance(identity, bool):
        identity = str(identity)
    if not isinstance(identity, str):
        raise InvalidLog(f"the id must be a text or a whole number, not {name_of(identity)}")
    ours: Json = {"reward": others.pop("reward", None), "turns": []}
    kept = {}
    for number, turn in enumerate(turns, 1):
        if isinstance(turn, dict):
            given = {name: value for name, value in turn.items() if value is not None}
            converted = convert(given, number)
            turn = {name: converted.pop(name) for name in OWN_FIELDS if name in converted}
            if converted:
                kept[str(number)] = converted
        ours["turns"].append(turn)
    ours["metadata"] = others | metadata | ({TURN_FIELDS: kept} if kept else {})
    return with_id(identity, ours)


def _from_openai_turn(turn: Json, number: int) -> Json:
    if isinstance(turn.get("role"), str):
        turn["role"] = OTHER_ROLES.get(turn["role"], turn["role"])
    if isinstance(turn.get("content"), list):
        turn["content"] = "".join(_text_of(part, number) for part in turn["content"])
    calls = turn.pop("tool_calls", [])
    if not isinstance(calls, list):
        raise InvalidLog(f"turn {number}: tool_calls must be a list, not {name_of(calls)}")
    if "function_call" in turn:  # as it was before tool_calls
        calls = [{"function": turn.pop("function_call")}]
    if calls:
        named = [(*_call(call, number), call.get("id")) for call in calls]
        turn["tool_call"] = _by_name([(name, arguments) for name, arguments, _ in named])
        turn.setdefault("content", "")
        ids = [known for called in turn["tool_call"] for name, _, known in named if name == called]
        if not all(known is None or OWN_CALL_ID.fullmatch(str(known)) for known in ids):
            turn["tool_call_ids"] = ids
    if OWN_CALL_ID.fullmatch(str(turn.get("tool_call_id"))):
        del turn["tool_call_id"]
    return turn


def _text_of(part: object, number: int) -> str:
    if isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str):
        return str(part["text"])
    kind = part.get("type") if isinstance(part, dict) else name_of(part)
    raise InvalidLog(f"turn {number}: a part of the content is no text ({str(kind)[:40]})")


def _call(call: object, number: int) -> tuple[str, Any]:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise InvalidLog(f"turn {number}: a tool call has no function with a name")
    return function["name"], function.get("arguments", {})


def _from_sharegpt_turn(turn: Json, number: int) -> Json:
    if "from" not in turn:
        raise InvalidLog(f"turn {number} has no field 'from'")
    speaker = turn.pop("from")
    if not isinstance(speaker, str) or speaker not in SPEAKERS:
        allowed = ", ".join(SPEAKERS)
        raise InvalidLog(f"turn {number} is from {str(speaker)[:40]!r}; allowed: {allowed}")
    if "value" not in turn:
        raise InvalidLog(f"turn {number} has no field 'value'")
    said = turn.pop("value")
    if speaker == "function_call" and isinstance(said, str) and (calls := _named_calls(said)):
        turn |= {"tool_call": _by_name(calls)}
        said = ""
    return turn | {"role": SPEAKERS[speaker], "content": said}


def _named_calls(text: str) -> list[tuple[str, Any]]:
    """The calls that a JSON text `{"name", "arguments"}`, or a list of such, names; else none."""
    value = _as_value(text)
    named = value if isinstance(value, list) else [value]
    if not all(isinstance(call, dict) and isinstance(call.get("name"), str) for call in named):
        return []
    return [(call["name"], call.get("arguments", {})) for call in named]


def _by_name(calls: list[tuple[str, Any]]) -> Json:
    grouped: dict[str, list[Any]] = {}
    for name, arguments in calls:
        grouped.setdefault(name, []).append(_as_value(arguments))
    return {name: given[0] if len(given) == 1 else given for name, given in grouped.items()}


def _as_value(arguments: Any) -> Any:
    """What a JSON text says; whatever is no JSON text stays as it is."""
    if not isinstance(arguments, str):
        return arguments
    try:
        value = json.loads(arguments, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return arguments
    return arguments if holds_half_a_character(arguments, value) else value


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


# To a record


def _record(conversation: Conversation, id_field: str, metadata: Json, turns: Json) -> Json:
    reward = {} if conversation.reward is None else {"reward": conversation.reward}
    kept = {"metadata": metadata} if metadata else {}
    return {id_field: conversation.conversation_id} | turns | reward | kept


def _turn_fields(conversation: Conversation) -> tuple[Json, Json]:
    """The metadata without the fields of turns, and those."""
    metadata = dict(conversation.metadata)
    fields = metadata.get(TURN_FIELDS)
    if not isinstance(fields, dict) or not all(isinstance(kept, dict) for kept in fields.values()):
        return metadata, {}
    del metadata[TURN_FIELDS]
    return metadata, fields


def _calls(tool_call: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [
        (name, arguments)
        for name, given in tool_call.items()
        for arguments in (given if isinstance(given, list) and len(given) > 1 else [given])
    ]


def _function(name: str, arguments: Any) -> Json:
    return {"name": name, "arguments": _as_text(arguments)}


def _as_text(arguments: Any) -> str:
    """The text that `_as_value` makes these arguments again."""
    if isinstance(arguments, str) and _as_value(arguments) == arguments:
        return arguments
    return json.dumps(arguments, ensure_ascii=False)
