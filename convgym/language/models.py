"""Language models behind one small protocol: prompts and seeds in, texts or reasons out.

                      complete(prompts, seeds) -> one Completion per prompt, in order
    ChatModel ◄── CallableModel   a function of yours                 this file
              ◄── EndpointModel   an OpenAI-compatible server         endpoint.py
              ◄── LocalModel      a transformers model in this process local_model.py

Whatever the other side does, `complete` returns: a call that failed has an empty `text` and a
short `error`. Errors are chosen from fixed words and never quote a reply, a header or a key:

    timeout           refused connection   unreachable       connection closed   tls failure
    http 500          malformed reply      empty reply       reply too large     circuit open
    no api key        prompt too long      unusable prompt   closed
    the model raised ValueError

Knows nothing of users, writers or judges: they bring their own prompts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from convgym.errors import InvalidConfiguration

ROLES = ("system", "user", "assistant")


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of a prompt."""

    role: str
    """One of `ROLES`."""
    content: str

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            raise InvalidConfiguration(
                f"a prompt's role is {str(self.role)[:40]!r}; it takes one of {', '.join(ROLES)}."
            )


@dataclass(frozen=True, slots=True)
class Completion:
    """What a model answered: a text without outer white space, or why there is none."""

    text: str
    error: str = ""


class ChatModel(Protocol):
    """Anything that continues conversations."""

    def complete(
        self, prompts: Sequence[Sequence[ChatMessage]], seeds: Sequence[int]
    ) -> list[Completion]:
        """One completion per prompt, in the same order; never raises for what a model does."""
        ...


def check_batch(prompts: Sequence[Sequence[ChatMessage]], seeds: Sequence[int]) -> None:
    """Raise where a caller paired prompts and seeds wrongly."""
    if len(prompts) != len(seeds):
        raise InvalidConfiguration(
            f"{len(prompts)} prompts came with {len(seeds)} seeds; give one seed per prompt."
        )


def completion_of(text: object) -> Completion:
    """A reply as a completion; one that cannot be written as UTF-8 is mended."""
    if not isinstance(text, str):
        return Completion("", "malformed reply")
    text = text.encode("utf-8", "replace").decode("utf-8").strip()
    return Completion(text) if text else Completion("", "empty reply")


def plain_prompt(messages: Sequence[ChatMessage]) -> str:
    r"""A prompt as plain text, for what knows no roles.

        System: You are a customer.

        User: Hello.
          How can I help?

        Assistant:

    Lines after a message's first are indented, so that no content can pose as another role.
    """
    parts = (f"{m.role.title()}: " + "\n  ".join(m.content.splitlines()) for m in messages)
    return "\n\n".join([*parts, "Assistant:"])


def plain_reply(text: str) -> str:
    """What a model wrote after a plain prompt, up to where it begins to write another role."""
    kept: list[str] = []
    for line in text.splitlines():
        if kept and line.startswith(tuple(f"{role.title()}:" for role in ROLES)):
            break
        kept.append(line)
    return "\n".join(kept)


@dataclass(frozen=True)
class CallableModel:
    """A function as a chat model; one call per prompt, one after the other.

    What it raises becomes the error `the model raised ValueError`; the message of the
    exception is left out, because it may hold a key or a whole prompt.
    """

    function: Callable[..., str]
    """Takes a prompt, and the seed as its second argument where `seeded`; returns the reply."""
    takes: str = "text"
    """`text`: the prompt as `plain_prompt` writes it; `messages`: a tuple of `ChatMessage`."""
    seeded: bool = False
    """Whether the function also takes the seed."""

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise InvalidConfiguration(
                f"a {type(self.function).__name__} came as function; give a callable."
            )
        if self.takes not in ("text", "messages"):
            raise InvalidConfiguration(f"takes is {self.takes!r}; it is 'text' or 'messages'.")

    def complete(
        self, prompts: Sequence[Sequence[ChatMessage]], seeds: Sequence[int]
    ) -> list[Completion]:
        """See `ChatModel.complete`."""
        check_batch(prompts, seeds)
        return [self._one(prompt, seed) for prompt, seed in zip(prompts, seeds, strict=True)]

    def _one(self, prompt: Sequence[ChatMessage], seed: int) -> Completion:
        given: Any = plain_prompt(prompt) if self.takes == "text" else tuple(prompt)
        try:
            return completion_of(self.function(given, *([seed] if self.seeded else [])))
        except Exception as error:
            return raised(error)


def raised(error: Exception) -> Completion:
    """An exception of a model in this process as a completion."""
    return Completion("", f"the model raised {type(error).__name__}")
