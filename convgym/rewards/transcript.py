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
from convgym.spaces import sanitize

_READ = ("_lines", "_in_words", "_domain", "_episode", "system_prompt")
_ROLES = {"Agent": "assistant", "Act": "assistant", "Tool": "tool"}


class Transcript:
    """Follows one environment; `conversation` is what was said in the running episode."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self._env: Any = env.unwrapped
        lacking = [name for name in _READ if not hasattr(type(self._env), name)]
        if any(not hasattr(self._env, name) for name in lacking):
            raise InvalidConfiguration(
                f"{type(self._env).__name__} is no environment of conversations; wrap one of "
                'ConvGym, such as gymnasium.make("ConvGym/CustomerService-v0").'
            )
        self.conversation = Conversation("", ())
        self._wording: tuple[int, str] | None = None

    def begin(self, info: Mapping[str, Any]) -> None:
        """After a reset: the policy and tools, and what the user opened with."""
        self.conversation = Conversation(
            str(info.get("task_id", "")),
            (Message("system", self._env.system_prompt),),
            metadata={"task_id": info.get("task_id", ""), "split": info.get("split", "")},
        )
        self._seen = 0
        self._wording = None
        self._take(info, None)

    def before(self, action: Any) -> None:
        """Before a step: an act is put into words from what is in sight now."""
        self._wording = None
        names = self._env._domain.actions.names
        if isinstance(action, Integral) and 0 <= int(action) < len(names):
            number = int(action)
            words = self._env._domain.agent_text(self._env._episode, number)
            self._wording = number, words

    def after(self, action: Any, info: Mapping[str, Any]) -> None:
        """After a step: what was said in it."""
        self._take(info, action)

    def _take(self, info: Mapping[str, Any], action: Any) -> None:
        lines = self._env._lines
        messages = [self._message(who, text, info, action) for who, text in lines[self._seen :]]
        self._seen = len(lines)
        old = self.conversation
        self.conversation = Conversation(
            old.conversation_id, old.messages + tuple(messages), metadata=old.metadata
        )

    def _message(self, who: str, text: str, info: Mapping[str, Any], action: Any) -> Message:
        role = _ROLES.get(who, "user")
        if role == "user":
            words = text if who else self._unheard(int(text))
            return Message(role, words, acts=_acts(info.get("user_acts", "[]")))
        if who == "Act":
            number, name = int(text), self._env._domain.actions.names[int(text)]
            known = self._wording is not None and self._wording[0] == number
            words = self._wording[1] if known and self._wording else name.replace("_", " ")
            return Message(role, words, acts=((name,),))
        if who == "Agent" and isinstance(action, str):
            whole = sanitize(action, self._env.action_space.max_length)
            if whole.startswith(text):  # kept lines are clipped; the customer read all of it
                return Message(role, whole)
        return Message(role, text)

    def _unheard(self, index: int) -> str:
        """A turn that nobody has put into words yet; reading it must leave no trace in `info`."""
        kept = getattr(self._env, "_words", None)
        source = getattr(kept, "source", None)
        words: str = self._env._in_words(index)
        if kept is not None:
            kept.source = source
        return words


def _acts(user_acts: str) -> tuple[tuple[str, ...], ...]:
    """`[{"act": …, "value": …}]` as acts of a message."""
    return tuple(tuple(str(part) for part in act.values()) for act in json.loads(user_acts))
