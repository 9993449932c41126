"""Writers: callables that put a user's turn into other words.

    WriteRequest (acts, values, draft, persona, history) ──► writer ──► text ──► keeps? ──► said
                                                               │                  no ─► the draft
                                                               └─ fails ─► the episode is cut off

A writer is any `Callable[[WriteRequest], str]`. One with a method `write(requests)` gets all
requests of a vector environment's step at once and answers in their order. A request holds only
what the user says in this turn and what was said before: a writer cannot tell what it never saw.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

from convgym.language.style import Style
from convgym.language.voice import Spoken


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """One user turn to be worded."""

    spoken: tuple[Spoken, ...]
    """What has to be done in this turn, with the values that have to stand in it as they are."""
    draft: str
    """The turn in the words of retrieval: what is said if the writer breaks it."""
    style: Style
    persona: Mapping[str, Any]
    """The persona's `to_dict()`."""
    history: tuple[tuple[str, str], ...]
    """(who, text) of what was said before, oldest first; who is Customer or Agent."""
    seed: int
    """Of this turn; the same episode gives the same."""


class Written(NamedTuple):
    """What came back for one request."""

    text: str
    error: str = ""
    """Why there is no text, in a few words; empty where there is."""


Writer = Callable[[WriteRequest], str]


@runtime_checkable
class BatchWriter(Protocol):
    """A writer that answers many requests at once."""

    def write(self, requests: Sequence[WriteRequest]) -> list[Written]:
        """One answer for each request, in their order; never raises for what a model does."""


def write_all(writer: Writer | BatchWriter, requests: Sequence[WriteRequest]) -> list[Written]:
    """Answers of any writer; an exception of a plain callable becomes an error."""
    if not requests:
        return []
    if isinstance(writer, BatchWriter):
        return _call_batch(writer, requests)
    return [_call(writer, request) for request in requests]


def _call_batch(writer: BatchWriter, requests: Sequence[WriteRequest]) -> list[Written]:
    """The answers of a stranger's batch writer, each an error where it is none."""
    try:
        answers: list[object] = list(writer.write(requests))
    except Exception as error:
        answers = [Written("", f"{type(error).__name__}: {str(error)[:100]}")] * len(requests)
    if len(answers) != len(requests):
        wrong = f"the writer gave {len(answers)} answers to {len(requests)} requests"
        return [Written("", wrong)] * len(requests)
    return [checked(answer) for answer in answers]


def checked(answer: object) -> Written:
    """`answer` itself where it is a Written, else one that says what came."""
    if not isinstance(answer, Written):
        return Written("", f"the writer gave a {type(answer).__name__}, not a Written")
    if not all(isinstance(part, str) for part in tuple[object, ...](answer)):
        return Written("", "the writer gave a Written of other things than text")
    return answer


def _call(writer: Writer, request: WriteRequest) -> Written:
    try:
        text: object = writer(request)
    except Exception as error:  # whatever a stranger's callable raises
        return Written("", f"{type(error).__name__}: {str(error)[:100]}")
    if not isinstance(text, str):
        return Written("", f"the writer gave a {type(text).__name__}, not a str")
    return Written(text)
