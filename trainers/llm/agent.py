"""A language model as an agent: asked in code, or playing an environment as a policy.

    history, context ─► generate_response ─► text
    observation, state ─► predict ─► (text, state)       the state is what was said so far
    "stub://Hello|How can I help?"                       canned replies in turn, no model, no torch

`ToolAgent` runs the tools that a reply calls and goes on until it speaks. Knows nothing of how it
was trained.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from convgym.conversation import ROLES
from convgym.errors import InvalidConfiguration, told
from convgym.language.tool_calls import parse_reply
from trainers.archive import new_folder
from trainers.llm.chat_format import ChatFormat
from trainers.llm.conversations import Message
from trainers.llm.draws import draw_key
from trainers.llm.sampler import Request
from trainers.llm.sampling import Sampling

if TYPE_CHECKING:
    from trainers.llm.language_model import LanguageModel

STUB = "stub://"
CANNED = ("I see. How can I help you?", "Could you tell me more?", "Thank you, that is done.")
"""What a stub says that was given no words of its own."""
_FILE = "agent.json"
_KEPT = {"system": str, "sampling": dict, "seed": int}
"""What stands there, beside the replies of a stub."""
_OF_AGENTS = (_FILE, "adapter_", "base", "generation_config", "model", "pytorch_model", "token")
"""How files of an older agent begin."""


class Agent:
    """Replies of one model.

    `model` is a LanguageModel, a folder or a name of transformers, or "stub://" with replies
    between bars. `system` stands first in every conversation that has no system message. Replies
    are drawn by `seed`, alike for the same history; `sampling.temperature` 0 takes the likeliest.
    """

    def __init__(
        self,
        model: LanguageModel | str | os.PathLike[str],
        *,
        system: str = "",
        sampling: Sampling | None = None,
        seed: int = 0,
    ) -> None:
        self.system, self.sampling, self.seed = system, sampling or Sampling(), seed
        self.stub: tuple[str, ...] = ()
        """The canned replies of a stub; else empty."""
        self.model: LanguageModel | None = None
        if isinstance(model, str) and model.startswith(STUB):
            self.stub = tuple(filter(None, model[len(STUB) :].split("|"))) or CANNED
            return
        from trainers.llm.language_model import LanguageModel as Loaded
        from trainers.llm.transformers_sampler import TransformersSampler

        self.model = model if isinstance(model, Loaded) else Loaded.load(str(model))
        self._format = ChatFormat(self.model.tokenizer)
        self._sampler = TransformersSampler(self.model.causal)

    def generate_response(
        self,
        history: Sequence[Message],
        context: Mapping[str, Any] | None = None,
        *,
        deterministic: bool = False,
    ) -> str:
        """The reply to a conversation so far; the likeliest one if `deterministic`.

        `context` is told in the system message, a line for each entry. Raises InvalidConfiguration
        for a history that is empty, is no list of messages or leaves no room for a reply.
        """
        messages = self._opened(history, context)
        if self.stub:
            said = sum(message["role"] == "assistant" for message in messages)
            return self.stub[said % len(self.stub)]
        tokens = self._format.opening(messages)
        room = self.sampling.max_context - len(tokens)
        if room < 1:
            raise InvalidConfiguration(
                f"the conversation has {len(tokens)} tokens, which leaves no room for a reply in "
                f"max_context={self.sampling.max_context}; raise it, or compress what was said"
            )
        sampling = replace(self.sampling, temperature=0.0) if deterministic else self.sampling
        return self._format.decode(self._sampled(tokens, sampling, room, len(messages)))

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
        action_masks: Any = None,
    ) -> tuple[str, list[Message]]:
        """The reply to the newest observation; `state` None begins a conversation."""
        begins = state is None or (episode_start is not None and bool(np.any(episode_start)))
        messages: list[Message] = [] if begins else list(state)
        messages += _messages(observation)
        reply = self.generate_response(messages, deterministic=deterministic)
        return reply, [*messages, {"role": "assistant", "content": reply}]

    def save(self, folder: str | os.PathLike[str]) -> None:
        """The model and how it replies; a stub is its words alone."""
        about = {
            "system": self.system,
            "sampling": self.sampling.to_dict(),
            "seed": self.seed,
            "stub": list(self.stub),
        }
        with new_folder(folder, _OF_AGENTS) as written:
            if self.model is not None:
                self.model.write(written)
            (written / _FILE).write_text(json.dumps(about, indent=1), encoding="utf-8")

    def _opened(
        self, history: Sequence[Message], context: Mapping[str, Any] | None
    ) -> list[Message]:
        if not history:
            raise InvalidConfiguration("the history is empty; a reply answers one message or more")
        if not isinstance(context or {}, Mapping):
            raise InvalidConfiguration(f"context={str(context)[:60]!r}; it takes names with values")
        for message in history:
            said = message if isinstance(message, Mapping) else {}
            if said.get("role") not in ROLES or not isinstance(said.get("content"), str):
                raise InvalidConfiguration(
                    f"the history holds {str(message)[:60]!r}; a message is a dictionary with a "
                    f"role, one of {', '.join(ROLES)}, and its content in words"
                )
        first = history[0]["role"] == "system"
        opening = [history[0]["content"] if first else self.system]
        opening += [f"{name}: {value}" for name, value in (context or {}).items()]
        system = "\n".join(filter(None, opening))
        rest = list(history[1:] if first else history)
        return [{"role": "system", "content": system}, *rest] if system else rest

    def _sampled(self, tokens: list[int], sampling: Sampling, room: int, turn: int) -> list[int]:
        key = draw_key(self.seed, len(tokens), 0, turn)
        budget = min(sampling.max_tokens, room)
        self._sampler.begin(sampling, self._format.end, 1)
        try:
            self._sampler.submit([Request(0, np.array(tokens), key, budget)])
            (reply,) = self._sampler.replies()
        finally:
            self._sampler.finish()
        found: list[int] = reply.tokens.tolist()
        return found


class ToolAgent(Agent):
    """An agent with tools: functions by name, called with the arguments that a reply gives.

    What a tool returns, or the error that it raised, is read by the model as a message of role
    "tool", and it replies again; after `most_calls` rounds its words are the answer as they are.
    """

    def __init__(
        self,
        model: LanguageModel | str | os.PathLike[str],
        tools: Mapping[str, Callable[..., Any]],
        *,
        most_calls: int = 4,
        **options: Any,
    ) -> None:
        super().__init__(model, **options)
        if most_calls < 1:
            raise InvalidConfiguration(f"most_calls={most_calls}; it counts from 1")
        if not (isinstance(tools, Mapping) and all(map(callable, tools.values()))):
            raise InvalidConfiguration(
                f"tools={str(tools)[:60]}; they are a dictionary of functions by their names"
            )
        self.tools, self.most_calls = dict(tools), most_calls
        self.called: list[tuple[str, dict[str, Any], str]] = []
        """Name, arguments and result of the calls of the newest reply."""

    def generate_response(
        self,
        history: Sequence[Message],
        context: Mapping[str, Any] | None = None,
        *,
        deterministic: bool = False,
    ) -> str:
        """The words that follow the tools' results."""
        messages, self.called = list(history), []
        for _ in range(self.most_calls):
            text = super().generate_response(messages, context, deterministic=deterministic)
            parsed = parse_reply(text)
            if not parsed.calls and not parsed.errors:
                return parsed.speech or text
            results = [self._run(call.name, call.arguments) for call in parsed.calls]
            results += [json.dumps({"error": error}) for error in parsed.errors]
            messages += [{"role": "assistant", "content": text}]
            messages += [{"role": "tool", "content": result} for result in results]
        return super().generate_response(messages, context, deterministic=deterministic)

    def _run(self, name: str, arguments: Mapping[str, Any]) -> str:
        if name not in self.tools:
            known = ", ".join(self.tools) or "none"
            result = json.dumps({"error": f"there is no tool {name}; there are {known}"})
        else:
            try:
                result = str(self.tools[name](**arguments))
            except Exception as error:  # whatever a tool raises, the model is told
                result = json.dumps({"error": f"{type(error).__name__}: {error}"[:300]})
        self.called.append((name, dict(arguments), result))
        return result


def load_agent_from_checkpoint(folder: str | os.PathLike[str]) -> Agent:
    """What `Agent.save` wrote, or the model of any folder of transformers.

    Raises InvalidConfiguration for what cannot be read.
    """
    file, about, stub = Path(folder) / _FILE, dict[str, Any](), None
    if file.is_file():
        try:
            about = json.loads(file.read_text(encoding="utf-8"))
            if not isinstance(about, dict):
                raise ValueError(f"it holds a {type(about).__name__}")
            stub = about.pop("stub", None)
            _check_kept(about, stub)
            if "sampling" in about:
                about["sampling"] = Sampling(**about["sampling"])
        except (OSError, ValueError, TypeError) as error:
            raise InvalidConfiguration(f"{file} is no agent's: {told(error)}") from error
    return Agent(STUB + "|".join(stub) if stub else folder, **about)


def _check_kept(about: Mapping[str, Any], stub: Any) -> None:
    """Raises ValueError for what `Agent.save` never wrote."""
    if stub is not None and not (
        isinstance(stub, list) and all(isinstance(reply, str) for reply in stub)
    ):
        raise ValueError(f"stub={str(stub)[:60]!r} is no list of replies")
    for name, value in about.items():
        if not isinstance(value, _KEPT.get(name, ())):
            raise ValueError(f"{str(name)[:60]}={str(value)[:60]!r} was never written there")


def _messages(observation: Any) -> list[Message]:
    """An observation of texts as messages."""
    if isinstance(observation, str):
        return [{"role": "user", "content": observation}]
    if isinstance(observation, Mapping) and "message" in observation:
        results = str(observation.get("tool_results", ""))
        said = str(observation["message"])
        parts: list[Message] = [{"role": "tool", "content": results}] if results else []
        return [*parts, {"role": "user", "content": said}] if said or not parts else parts
    raise InvalidConfiguration(
        f"an agent reads texts, and this observation is a {type(observation).__name__}; make the "
        'environment with observation="message" or "dict"'
    )
