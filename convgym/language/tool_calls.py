"""Tool calls out of an agent's text, in the three formats that models write.

    <tool_call>{"name": …, "arguments": {…}}</tool_call>      Hermes, Qwen
    {"name": …, "arguments": {…}}                             bare OpenAI function call
    {"tool_calls": [{"function": {"name": …, "arguments": "…"}}, …]}

`<think>…</think>` is removed first, and what is left is speech. A malformed call becomes
an error for the agent and is never shown to the customer. All work is linear in the text,
and nothing that a model can write makes this raise.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

MOST_CALLS = 4
_THINK = re.compile(r"<think>.*?(?:</think>|\Z)|</think>", re.DOTALL | re.IGNORECASE)
_TAGGED = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL | re.IGNORECASE)
_CONTROL = re.compile(
    r"<\|[^<>|]{0,40}\|>|\[/?INST\]|</?s>|</tool_call>|```(?:json)?", re.IGNORECASE
)
_ARGUMENTS = frozenset(("arguments", "parameters"))
_RESULTS = frozenset(("result", "results", "response", "output", "content", "error"))
"""What an echo of a tool's answer holds where a call has arguments; it must not run again."""
_CALL_LIKE = re.compile(r'\{\s*"(?:name|tool_calls|function|type|arguments|id|tool)"')
_DECODER = json.JSONDecoder()


class RawCall(NamedTuple):
    """A well-formed call, its arguments not yet checked."""

    name: str
    arguments: Mapping[str, Any]


class Parsed(NamedTuple):
    """What a reply consists of."""

    speech: str
    calls: tuple[RawCall, ...]
    errors: tuple[str, ...]


def parse_reply(text: str) -> Parsed:
    """Split a reply into speech, calls and malformed calls."""
    if _is_speech(text):
        return Parsed(text.strip(), (), ())
    calls: list[RawCall] = []
    errors: list[str] = []
    before, _, rest = _without_thought(text).partition("<tool_call>")
    body, closed, after = rest.partition("</tool_call>")
    if closed and "<" not in body and _is_speech(before) and _is_speech(after):
        _decode(body.strip(), calls, errors)  # one call, and nothing else to look for
        speech = f"{before} {after}".strip()
    else:
        speech = _without_calls(text, calls, errors)
    if len(calls) > MOST_CALLS:
        errors.append(f"more than {MOST_CALLS} tool calls in one turn; the rest are not run")
    return Parsed(speech, tuple(calls[:MOST_CALLS]), tuple(errors))


def _is_speech(text: str) -> bool:
    """Nothing in it opens a call, a thought or a token of control."""
    return not ("<" in text or "{" in text or "[" in text or "`" in text)


def _without_thought(text: str) -> str:
    """`text` without the one thought that it begins with, if that is plain to see."""
    if not text.startswith("<think>"):
        return text
    thought, _, rest = text[len("<think>") :].partition("</think>")
    return text if "<" in thought else f" {rest}"


def _without_calls(text: str, calls: list[RawCall], errors: list[str]) -> str:
    """The speech of a text with markup of any kind."""

    def take(match: re.Match[str]) -> str:
        _decode(match.group(1).strip(), calls, errors)
        return " "

    text = _TAGGED.sub(take, _THINK.sub(" ", text))
    return _CONTROL.sub(" ", _take_bare(text, calls, errors)).strip()


def _take_bare(text: str, calls: list[RawCall], errors: list[str]) -> str:
    """Cut bare JSON calls out of `text`; after a broken one nothing more is speech."""
    kept, position = [], 0
    while match := _CALL_LIKE.search(text, position):
        kept.append(text[position : match.start()])
        try:
            value, position = _DECODER.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            errors.append(_malformed("it is not complete, valid JSON"))
            return "".join(kept)
        _collect(value, calls, errors)
        if len(errors) > MOST_CALLS or len(calls) > MOST_CALLS:
            return "".join(kept)
    kept.append(text[position:])
    return "".join(kept)


def _decode(body: str, calls: list[RawCall], errors: list[str]) -> None:
    if len(errors) > MOST_CALLS or len(calls) > MOST_CALLS:
        return
    try:
        value, end = _DECODER.raw_decode(body)
    except (ValueError, RecursionError):
        end = -1
    if end != len(body):
        errors.append(_malformed("it is not complete, valid JSON"))
        return
    _collect(value, calls, errors)


def _collect(value: Any, calls: list[RawCall], errors: list[str]) -> None:
    if isinstance(value, dict) and isinstance(value.get("tool_calls"), list):
        for item in value["tool_calls"][: MOST_CALLS + 1]:
            _collect_one(item, calls, errors)
    else:
        _collect_one(value, calls, errors)


def _collect_one(value: Any, calls: list[RawCall], errors: list[str]) -> None:
    if isinstance(value, dict) and isinstance(value.get("function"), dict):
        value = value["function"]
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        errors.append(_malformed("it has no name"))
        return
    if _RESULTS.intersection(value) and not _ARGUMENTS.intersection(value):
        errors.append(_malformed("it looks like a tool's result"))
        return
    arguments = value.get("arguments", value.get("parameters", {}))
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except (ValueError, RecursionError):
            arguments = None
    if not isinstance(arguments, dict):
        errors.append(_malformed("its arguments are not a JSON object"))
        return
    calls.append(RawCall(value["name"], arguments))


def _malformed(why: str) -> str:
    return json.dumps(
        {
            "error": f"a tool call could not be read: {why}; write "
            '<tool_call>{"name": ..., "arguments": {...}}</tool_call>'
        }
    )


def check_arguments(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> str:
    """Check a call against a flat JSON schema of strings; '' or what is wrong."""
    properties = schema["properties"]
    for name in schema.get("required", ()):
        if name not in arguments:
            return f"the argument {name!r} is missing"
    for name, value in arguments.items():
        if name not in properties:
            return f"there is no argument {str(name)[:40]!r}; allowed are {', '.join(properties)}"
        if not isinstance(value, str):
            return f"the argument {name!r} must be a string"
        allowed = properties[name].get("enum")
        if allowed and value not in allowed:
            return f"the argument {name!r} must be one of {', '.join(allowed)}"
    return ""
