"""trl's environment factory over conversations: the customer and the tools as functions.

    trl's GRPOTrainer                       the class that `environment_class` makes
    row {"prompt": …, "seed": 17}  ──────►  reset(seed=17)    policy, and the customer's first words
    <tool_call> say(message=…)     ──────►  say               what the customer answers
    <tool_call> find_customer(…)   ──────►  find_customer     what the tool returned
    end of the rollout             ──────►  get_reward        what the conversation earned

    trainer = GRPOTrainer(
        model=model, processing_class=tokenizer, train_dataset=seed_rows(1000),
        environment_factory=environment_class("ConvGym/CustomerService-v0"), …
    )

Everything is a tool call here, speaking too: trl ends a rollout at the first message that calls
nothing, and shows it to nobody. Templates and models must know tools. `trl_rollouts` is the other
way, where messages are messages; it takes any chat template, and plays faster.

Written for trl 1.16, which calls its `environment_factory` experimental. Imports nothing of trl.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from typing import Any

from convgym.errors import InvalidConfiguration, MissingExtra
from trainers.llm.adapters.tool_conversation import Call, Environment, ToolConversation

INSTRUCTION = (
    "You talk with a person. They read only what you tell them by calling `say`; call it once for "
    "each message, and go on until the conversation is over."
)
OVER = "(The conversation is over.)"
_TAKEN = ("reset", "get_reward", "say")


def seed_rows(number: int, first: int = 1_000_000, instruction: str = INSTRUCTION) -> Any:
    """A `datasets.Dataset` whose rows are seeds; what `reset` returns ends their prompts."""
    try:
        from datasets import Dataset
    except ImportError as error:
        raise MissingExtra("datasets", "trl") from error
    prompt = [{"role": "system", "content": instruction}, {"role": "user", "content": ""}]
    return Dataset.from_list([{"prompt": prompt, "seed": first + k} for k in range(number)])


class ToolEnvironment:
    """What all environments share; `environment_class` adds the tools of one."""

    _environment: Environment
    _keywords: Mapping[str, Any]

    def __init__(self) -> None:
        self._conversation = ToolConversation(self._environment, self._keywords)

    def reset(self, seed: int | None = None, **row: Any) -> str:
        """Begin the conversation of a seed; the rest of the row is not looked at."""
        if seed is None:
            raise InvalidConfiguration("this row has no seed; take the rows of seed_rows()")
        messages = self._conversation.reset(int(seed))
        if self._conversation.error:
            return OVER
        return "\n\n".join(message["content"] for message in messages)

    def say(self, message: str) -> str:
        """
        Say something to the person you talk with.

        Args:
            message: What they read.

        Returns:
            What they answer.
        """
        return self._said(self._conversation.step(str(message)))

    def get_reward(self) -> float | None:
        """What the conversation earned; None of one that failed, which trl then leaves out."""
        return None if self._conversation.error else self._conversation.return_

    def _called(self, name: str, arguments: Mapping[str, Any]) -> str:
        return self._said(self._conversation.step("", [Call("0", name, json.dumps(arguments))]))

    def _said(self, messages: list[dict[str, str]]) -> str:
        over = [OVER] if self._conversation.done else []
        return "\n".join([*(m["content"] for m in messages if m["content"]), *over])


def environment_class(
    environment: Environment, *, seed: int = 0, **keywords: Any
) -> type[ToolEnvironment]:
    """The class of an environment, with a method for each of its tools.

    `seed` is that of the episode that the tools are read from; `keywords` go to the environment.

    Raises InvalidConfiguration where it is no environment of texts, or has a tool called as one of
    trl's own methods.
    """
    probe = ToolConversation(environment, keywords)
    probe.reset(seed)
    if probe.error:
        raise InvalidConfiguration(f"this environment cannot be reset: {probe.error}")
    methods: dict[str, Any] = {}
    for schema in probe.tools:
        name = schema["function"]["name"]
        if name in _TAKEN or name.startswith("_") or not name.isidentifier():
            raise InvalidConfiguration(
                f"a tool is called {name!r}, which trl cannot call; names are identifiers other "
                f"than {', '.join(_TAKEN)}, and begin with no underscore"
            )
        methods[name] = _method(schema["function"])
    probe.close()
    shared: dict[str, Any] = {
        "_environment": staticmethod(environment) if callable(environment) else environment
    }
    shared |= {"_keywords": keywords, "__doc__": ToolEnvironment.__doc__}
    return type("ToolEnvironment", (ToolEnvironment,), shared | methods)


def _method(function: Mapping[str, Any]) -> Callable[..., str]:
    """A tool as a method whose signature and docstring tell its schema again.

    transformers makes schemas of functions alone, so that one goes there and back.
    """
    name = str(function["name"])
    parameters = function.get("parameters", {})
    properties: Mapping[str, Mapping[str, Any]] = parameters.get("properties", {})
    needed = parameters.get("required", ())

    def call(self: ToolEnvironment, **arguments: Any) -> str:
        return self._called(name, arguments)

    keyword = inspect.Parameter.KEYWORD_ONLY
    taken = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    lines = [str(function.get("description") or name), ""]
    if properties:
        lines.append("Args:")
    for one in sorted(properties, key=lambda one: one not in needed):
        default = inspect.Parameter.empty if one in needed else ""
        taken.append(inspect.Parameter(one, keyword, annotation=str, default=default))
        choices = properties[one].get("enum")
        of = f" (choices: {json.dumps(choices)})" if choices else ""
        lines.append(f"    {one}: {properties[one].get('description') or one}{of}")
    lines += ["", "Returns:", "    What the tool returned."]
    call.__name__ = call.__qualname__ = name
    call.__doc__ = "\n".join(lines)
    call.__annotations__ = dict.fromkeys(properties, str) | {"return": str}
    call.__signature__ = inspect.Signature(taken, return_annotation=str)  # type: ignore[attr-defined]
    return call
