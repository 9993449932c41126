"""A conversation with an environment whose tools are called as functions, not as text.

    elsewhere                          here                               environment
    words "Sure.", call find(…)  ───►  Sure. <tool_call>{…}</tool_call>   step
    a result to each call, words ◄───  messages of role tool and user     observation

Other libraries hand a model's tool calls over with their names and arguments, and want a result
back for every one; environments of texts take the calls in the text. Which tools there are is what
the environment observes as `tools`, or what its system prompt ends with: a JSON list of function
schemas. An environment of strangers has none, and is talked to in words alone.

Knows nothing of the libraries.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym

from convgym.envs.registration import ENVIRONMENTS
from trainers.llm.conversations import Message
from trainers.llm.text_environment import TextEnvironment

Environment = str | Callable[..., gym.Env[Any, Any]]
_TOOLS = "\n\nTools:\n"
"""What stands between policy and tools in a system prompt of ConvGym."""
SHARED = "see the result of the call before"
"""The result of a call, where the environment gave one result for several."""


@dataclass(frozen=True)
class Call:
    """A tool call as chat completions have it."""

    id: str
    name: str
    arguments: str
    """JSON, as the model wrote it; what cannot be read is an error that it is told of."""


class ToolConversation:
    """One environment, played any number of times; counts what an episode earns.

    environment  an id, or a callable that makes one
    keywords     of it. Those of ConvGym that are not wrapped observe Dicts and act in texts,
                 unless told otherwise

    Raises InvalidConfiguration where actions are no texts or observations cannot be shown.
    """

    tools: list[dict[str, Any]]
    """Schemas of the functions that can be called in this episode."""

    def __init__(self, environment: Environment, keywords: Mapping[str, Any] | None = None) -> None:
        self._noted: _Noted | None = None
        given = dict(keywords or {})
        if isinstance(environment, str) and environment in ENVIRONMENTS:
            given = {"observation": "dict", "action": "text"} | given

        def made() -> gym.Env[Any, Any]:
            if isinstance(environment, str):
                env = gym.make(environment, disable_env_checker=True, **given)
            else:
                env = environment(**given)
            self._noted = _Noted(env)
            return self._noted

        self._env = TextEnvironment(made)
        self._begin()

    def reset(self, seed: int) -> list[Message]:
        """Begin an episode: what is said first, without the tools; nothing where that failed."""
        self._begin()
        messages = self._env.reset(seed)
        shown = self._noted.tools if self._noted is not None else ""
        self.tools = schemas(shown or _tail(messages))
        if self.tools and messages[0]["role"] == "system":
            policy = messages[0]["content"].rpartition(_TOOLS)[0] or messages[0]["content"]
            messages = [{"role": "system", "content": policy}, *messages[1:]]
        self.done = bool(self.error)
        return messages

    def step(self, words: str, calls: Sequence[Call] = ()) -> list[dict[str, str]]:
        """Words and calls of one turn; every call is answered by a message of role tool.

        Nothing happens any more once `done`.
        """
        if self.done:
            return []
        found = self._env.step("\n".join([*([words] if words else ()), *map(written, calls)]))
        self.return_ += found.reward
        self.turns += 1
        self.terminated, self.done = found.terminated, found.done
        return answered(found.messages, calls)

    def close(self) -> None:
        """Close the environment."""
        self._env.close()

    @property
    def error(self) -> str:
        """Why this episode failed; "" where it did not."""
        return self._env.error

    @property
    def info(self) -> Mapping[str, Any]:
        """The newest of the environment."""
        return self._env.info

    def _begin(self) -> None:
        self.tools = []
        self.return_ = 0.0
        """What the episode has earned, undiscounted."""
        self.turns = 0
        self.terminated = False
        self.done = True
        """Whether nobody answers any more; True before the first reset."""


class _Noted(gym.Wrapper[Any, Any, Any, Any]):
    """Keeps the tools of the newest reset, which an observation in messages no longer tells."""

    tools = ""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        self.tools = str(observation.get("tools", "")) if isinstance(observation, Mapping) else ""
        return observation, info


def _tail(messages: Sequence[Message]) -> str:
    """What a system prompt tells of tools."""
    first = messages[0] if messages else {"role": "", "content": ""}
    return first["content"].rpartition(_TOOLS)[2] if first["role"] == "system" else ""


def schemas(text: str) -> list[dict[str, Any]]:
    """The function schemas of a JSON list; none where it is something else."""
    try:
        found = json.loads(text)
    except ValueError:
        return []
    listed = found if isinstance(found, list) else []
    return [one for one in listed if isinstance(one, dict) and _named(one)]


def _named(schema: Mapping[str, Any]) -> bool:
    function = schema.get("function")
    return isinstance(function, dict) and isinstance(function.get("name"), str)


def written(call: Call) -> str:
    """A call as environments of texts read it."""
    body = json.dumps({"name": call.name, "arguments": call.arguments}, ensure_ascii=False)
    inside = body.replace("<", r"\u003c")  # or a tag in an argument would end the call
    return f"<tool_call>{inside}</tool_call>"


def answered(messages: Sequence[Message], calls: Sequence[Call]) -> list[dict[str, str]]:
    """Messages of role tool, one for each call by its id, then the user's words, if any.

    Results stand on lines of their own, in the order of the calls. Where there are more or fewer
    lines than calls, the first call is answered by all of them. Results that nobody called for,
    for the call was in the text, are the user's message: no library takes them in another role.
    """
    lines = [line for m in messages if m["role"] == "tool" for line in m["content"].split("\n")]
    found: list[dict[str, str]] = []
    if calls:
        if len(lines) != len(calls):
            lines = ["\n".join(lines), *[SHARED] * (len(calls) - 1)]
        for call, line in zip(calls, lines, strict=True):
            found.append(
                {"role": "tool", "tool_call_id": call.id, "name": call.name, "content": line}
            )
        lines = []
    said = "\n".join([*lines, *(m["content"] for m in messages if m["role"] != "tool")])
    return [*found, {"role": "user", "content": said}] if said or not found else found
