"""OpenAI's chat completions: a request as a history, an answer as a completion or as its chunks.

    {"model", "messages": [{"role", "content"}, …], "stream", "seed", …} ─► history ─► Answer
    Answer ─► {"object": "chat.completion", "choices": [{"message", "finish_reason"}], "convgym"}
           └► data: {"object": "chat.completion.chunk", …}\\n\\n … data: [DONE]

`model` chooses nothing: which of several policies answers is the service's split's to say, or the
shares would not be those of the experiment; the completion names who has answered.
What else a request may hold (temperature, max_tokens, tools, …) is not looked at: a trained policy
has neither. `convgym` stands beside what OpenAI has: the calls that were run, and what they
returned. There is no `usage`, for policies count no tokens.
"""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from convgym.service.dialogue import Answer
from convgym.service.plays import answer_record
from convgym.service.problems import Problem
from convgym.service.responders import Said

ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant",
         "tool": "tool", "function": "tool"}  # fmt: skip
_PIECE = re.compile(r"\s*\S+\s*")


def history_of(messages: Sequence[Any], most: int, longest: int) -> list[Said]:
    """Messages as a history; raises Problem 422 with the number of the one that is wrong."""
    if not isinstance(messages, list) or not messages:
        raise _wrong("messages must be a list with one message at least")
    if len(messages) > most:
        raise _wrong(f"there are {len(messages)} messages; this takes {most} at most")
    return [_said(number, message, longest) for number, message in enumerate(messages, 1)]


def _said(number: int, message: Any, longest: int) -> Said:
    if not isinstance(message, Mapping):
        raise _wrong(f"message {number} is no object")
    role, content = message.get("role"), message.get("content")
    if not isinstance(role, str) or role not in ROLES:
        raise _wrong(
            f"message {number} has the role {str(role)[:20]!r}; there are {', '.join(ROLES)}"
        )
    if content is None and role == "assistant":
        content = ""  # it only called tools
    if isinstance(content, list):
        content = "".join(_part(number, part) for part in content)
    if not isinstance(content, str):
        raise _wrong(f"message {number} has no text as its content")
    if len(content) > longest:
        raise _wrong(
            f"message {number} has {len(content)} characters; this takes {longest} at most"
        )
    return Said(ROLES[role], content)


def _part(number: int, part: Any) -> str:
    if (
        isinstance(part, Mapping)
        and part.get("type") == "text"
        and isinstance(part.get("text"), str)
    ):
        return str(part["text"])
    raise _wrong(f"a part of message {number} is no text")


def completion(model: str, answer: Answer, name: str | None) -> dict[str, Any]:
    """The whole answer; `name`: what the conversation is called."""
    message = {"role": "assistant", "content": answer_record(answer)["text"]}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    return {
        **_head(model, "chat.completion"), "choices": [choice], "convgym": _beside(answer, name)
    }  # fmt: skip


def chunks(model: str, answer: Answer, name: str | None) -> Iterator[bytes]:
    """The answer as server-sent events, a word each."""
    head = _head(model, "chat.completion.chunk")

    def event(delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return f"data: {json.dumps({**head, 'choices': [choice], **more})}\n\n".encode()

    yield event({"role": "assistant", "content": ""})
    for piece in pieces(answer_record(answer)["text"]):
        yield event({"content": piece})
    yield event({}, "stop", convgym=_beside(answer, name))
    yield b"data: [DONE]\n\n"


def pieces(text: str) -> list[str]:
    """A text in words with their white space; joined, it is the text."""
    found = _PIECE.findall(text)
    return found if found else ([text] if text else [])


def _beside(answer: Answer, name: str | None) -> dict[str, Any]:
    record = {"conversation_id": name, **answer_record(answer)}
    del record["text"]
    return record


def _head(model: str, kind: str) -> dict[str, Any]:
    name = f"chatcmpl-{secrets.token_hex(12)}"
    return {"id": name, "object": kind, "created": int(time.time()), "model": model}


def _wrong(sentence: str) -> Problem:
    return Problem(422, "not_allowed", sentence)
