"""Whatever replies to a history, behind one small protocol.

                       reply(history, seed, options) -> Answer
    Responder ◄── PolicyResponder   a policy, in the world of a task      this file
              ◄── ModelResponder    a ChatModel: an endpoint, or a local language model
              ◄── yours

A policy of acts needs a world: its tools look things up. It is the seed's, so a policy's reply
hangs on history, seed and options alone, and a service keeps nothing between two requests. What a
newcomer would get wrong: that world is simulated, and who writes is its customer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from convgym.errors import InvalidConfiguration
from convgym.language.models import ChatMessage, ChatModel
from convgym.language.tool_calls import parse_reply
from convgym.service.dialogue import Answer, Dialogue
from convgym.service.problems import Problem


@dataclass(frozen=True, slots=True)
class Said:
    """One message of a history."""

    role: str
    """`system`, `user`, `assistant` or `tool`."""
    content: str


class Responder(Protocol):
    """Anything that replies."""

    name: str
    """What logs, metrics and clients call it."""

    def reply(
        self, history: Sequence[Said], seed: int | None, options: Mapping[str, Any]
    ) -> Answer:
        """What comes next; called from several threads.

        Raises InvalidConfiguration for a history or options that it cannot take.
        """


class PolicyResponder:
    """A policy that goes through the history again, in the world of the seed's task.

    Messages of `system` and `tool` are not read: its tools' results are its world's. An assistant's
    opening before the first user message is not either, for here the customer speaks first.
    """

    def __init__(
        self, name: str, dialogue: Callable[[int, Mapping[str, Any]], Dialogue], seed: int = 0
    ) -> None:
        """`dialogue`: makes one from a seed and reset options; `seed`: where none is given."""
        self.name, self.dialogue, self._seed = name, dialogue, seed

    def reply(
        self, history: Sequence[Said], seed: int | None, options: Mapping[str, Any]
    ) -> Answer:
        """See `Responder.reply`."""
        turns = exchanges(history)
        dialogue = self.dialogue(self._seed if seed is None else seed, options)
        try:
            for heard, replied in turns:
                answer = dialogue.hear(heard)
                if replied is not None:
                    dialogue.said_instead(replied)
            return answer
        finally:
            dialogue.close()


class ModelResponder:
    """A language model; what it writes as a tool call is handed on, and not run."""

    def __init__(self, name: str, model: ChatModel, seed: int = 0) -> None:
        self.name, self._model, self._seed = name, model, seed

    def reply(
        self, history: Sequence[Said], seed: int | None, options: Mapping[str, Any]
    ) -> Answer:
        """See `Responder.reply`; raises Problem 502 where the model has no answer."""
        if options:
            raise InvalidConfiguration("a language model has no world; leave options away")
        exchanges(history)
        prompt = [
            ChatMessage("user", f"Tool: {said.content}")
            if said.role == "tool"
            else ChatMessage(said.role, said.content)
            for said in history
        ]
        seed = self._seed if seed is None else seed
        (completion,) = self._model.complete([prompt], [seed])
        if completion.error:
            raise Problem(
                502, "no_answer", f"the language model did not answer: {completion.error}"
            )
        parsed = parse_reply(completion.text)
        return Answer(parsed.speech, parsed.calls)


def exchanges(history: Sequence[Said]) -> list[tuple[str, str | None]]:
    """(what the user said, what was replied) in order; None where nothing is yet.

    Raises InvalidConfiguration for a history that does not end with the user.
    """
    turns: list[tuple[str, str | None]] = []
    for said in history:
        if said.role == "user":
            if turns and turns[-1][1] is None:
                turns[-1] = (f"{turns[-1][0]}\n{said.content}", None)
            else:
                turns.append((said.content, None))
        elif said.role == "assistant" and turns:
            before = turns[-1][1]
            turns[-1] = (
                turns[-1][0],
                said.content if before is None else f"{before}\n{said.content}",
            )
    if not turns or turns[-1][1] is not None:
        raise InvalidConfiguration(
            "the history does not end with a message of the role 'user', so that there is nothing "
            "to reply to"
        )
    return turns
