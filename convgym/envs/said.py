"""What was said in an environment of texts, seen from outside; and what of it is a value.

    reset ─► "User: ...", step ─► "Agent: ...", "User: ..."      lines of (who, text)

Wrappers that change what an agent reads stand on this: they see messages alone, so that they work
around any Gymnasium environment whose observation is one message and whose action is a text.
Knows nothing of tasks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import gymnasium as gym
from gymnasium import spaces

from convgym.errors import InvalidConfiguration
from convgym.spaces import CHARSET, sanitize

AGENT, USER = "Agent", "User"
Line = tuple[str, str]
"""(who, text)."""

_WORD = re.compile(r"[^\s<>{}\"',;()\[\]]+")


def values_in(text: str) -> list[str]:
    """Words that hold a digit or an @, each once, in their order: names of things, not prose.

    >>> values_in("It is order W11475, of ann@example.com. W11475!")
    ['W11475', 'ann@example.com']
    """
    words = (word.strip(".!?:") for word in _WORD.findall(text))
    return list(dict.fromkeys(word for word in words if _has_value(word)))


def _has_value(word: str) -> bool:
    return any(c.isdigit() or c == "@" for c in word)


def values_said(lines: Iterable[Line]) -> str:
    """A summary that keeps every value and drops the prose; "" where there is none.

    >>> values_said([("User", "order W11475 please"), ("Agent", "It is 3 days old.")])
    'User: W11475. Agent: 3.'
    """
    return " ".join(
        f"{who}: {', '.join(values)}."
        for who, values in ((who, values_in(text)) for who, text in lines)
        if values
    )


def page(lines: Iterable[Line], length: int) -> str:
    """The newest lines that fit into `length` characters; of the last one its end, if it must be.

    >>> page([("User", "Hello"), ("Agent", "Hi"), ("User", "Bye")], 20)
    'Agent: Hi\\nUser: Bye'
    """
    kept: list[str] = []
    room = length
    for who, text in reversed(list(lines)):
        line = f"{who}: {text}"
        if kept and len(line) + 1 > room:
            break
        kept.append(line[max(0, len(line) - room) :])
        room -= len(line) + 1
    return "\n".join(reversed(kept))


class SaidWrapper(gym.Wrapper[str, str, str, str], gym.utils.RecordConstructorArgs):
    """Base of wrappers that show an agent something else than the newest message.

    A subclass says what in `read`, and may look at `lines` in `noted`, once a step. Observations
    are texts of at most `length` characters.

    Raises InvalidConfiguration around an environment whose observations or actions are no texts.
    """

    def __init__(self, env: gym.Env[str, str], length: int, **arguments: Any) -> None:
        gym.utils.RecordConstructorArgs.__init__(self, length=length, **arguments)
        gym.Wrapper.__init__(self, env)
        for space, what in ((env.observation_space, "observations"), (env.action_space, "actions")):
            if not isinstance(space, spaces.Text):
                raise InvalidConfiguration(
                    f"{type(self).__name__} reads messages, but this environment's {what} are "
                    f'{type(space).__name__}; make it with observation="message", action="text"'
                )
        if length < 16:
            raise InvalidConfiguration(f"length={length}; what is read takes 16 characters or more")
        self.length = length
        self.lines: list[Line] = []
        """What was said in this episode."""
        self.observation_space = spaces.Text(length, min_length=0, charset=CHARSET)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Begin an episode."""
        message, info = self.env.reset(seed=seed, options=options)
        self.lines = [(USER, message)]
        self.noted(None, 0.0, info)
        return self._shown(), info

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """One step."""
        message, reward, terminated, truncated, info = self.env.step(action)
        self.lines += [(AGENT, action), (USER, message)]
        self.noted(action, float(reward), info, terminated or truncated)
        return self._shown(), float(reward), terminated, truncated, info

    def read(self) -> str:
        """What the agent reads now."""
        raise NotImplementedError

    def noted(
        self, action: str | None, reward: float, info: dict[str, Any], ended: bool = False
    ) -> None:
        """After a reset (`action` None) and after each step."""

    def _shown(self) -> str:
        return sanitize(self.read(), self.length)
