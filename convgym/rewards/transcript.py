"""What a running environment's conversation is made of, as messages.

The only file here that knows how an environment keeps what was said. The agent's words are
those the customer read; in act mode they are the wording the environment gives to the act.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from numbers import Integral
from typing import Any

import gymnasium as gym

from convgym.conversation import Conversation, Message
from convgym.errors import InvalidConfiguration
from convgym.spaces import holds

_READ = ("said", "in_words", "system_prompt")
_ROLES = {"Agent": "assistant", "Act": "assistant", "Tool": "tool"}


class Transcript:
    """Follows one environment; `conversation` is what was said in the running episode."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self._env: Any = env.unwrapped
        if not all(hasattr(type(self._env), name) for name in _READ):
            raise InvalidConfiguration(
                f"{type(self._env).__name__} is no environment of conversations; wrap one of "
                'ConvGym, such as gymnasium.make("ConvGym/CustomerService-v0").'
            )
        self.conversation = Conversation("", ())
        self._act = ("", "")

    def begin(self, info: Mapping[str, Any]) -> None:
        """After a reset: the policy and tools, and what the user opened with."""
        self.conversation = Conversation(
            str(info.get("task_id", "")),
            (Message("system", self._env.system_prompt),),
            metadata={"task_id": info.get("task_id", ""), "split": info.get("split", "")},
        )
        self._seen = 0
        self._take(info)

    def before(self, action: Any) -> None:
        """Before a step: an act is put into words from what is in sight now."""
        if isinstance(action, Integral) and holds(self._env.action_space, action):
            self._act = self._env.in_words(int(action))

    def after(self, info: Mapping[str, Any]) -> None:
        """After a step: what was said in it."""
        self._take(info)

    def _take(self, info: Mapping[str, Any]) -> None:
        lines = self._env.said(self._seen)
        self._seen += len(lines)
        old = self.conversation
        messages = tuple(self._message(who, text, info) for who, text in lines)
        self.conversation = Conversation(
            old.conversation_id, old.messages + messages, metadata=old.metadata
        )

    def _message(self, who: str, text: str, info: Mapping[str, Any]) -> Message:
        role = _ROLES.get(who, "user")
        if role == "user":
            return Message(role, text, acts=_acts(info.get("user_acts", "[]")))
        if who == "Act":
            name, words = self._act
            return Message(role, words, acts=((name,),))
        return Message(role, text)


def _acts(user_acts: str) -> tuple[tuple[str, ...], ...]:
    """`[{"act": …, "value": …}]` as acts of a message."""
    return tuple(tuple(str(part) for part in act.values()) for act in json.loads(user_acts))
