"""A policy talks with a person, who is the customer of a task.

    person's words ─► environment ─► observation ─► policy ─► action ─┬─► speech ─► person
                          ▲                                           │
                          └────────────── tool calls alone ◄──────────┘   the caller keeps the floor

The person stands where a language model would that plays the customer (`user=`), so that what it
says is understood, and what tools return is true of the task's world. The same seed, options and
words give the same replies: a conversation can be gone through again from its words alone.

Not for several threads at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym

from convgym.errors import InvalidConfiguration
from convgym.language.models import ChatMessage, ChatModel, Completion
from convgym.language.tool_calls import RawCall, parse_reply
from convgym.policies.policy import Policy
from convgym.users.generative import RULES, message_of

SILENT = "there is nothing in this message that a customer could have said; write some words"


@dataclass(frozen=True)
class Answer:
    """What a policy did until it spoke, or until the conversation ended."""

    text: str
    """What it says; "" where it has ended the conversation without a word."""
    calls: tuple[RawCall, ...] = ()
    """The tools it called, in order."""
    results: tuple[str, ...] = ()
    """What they returned, a text a step."""
    ended: bool = False
    """Whether the conversation is over; nothing is answered after that."""
    reason: str = ""
    """Why it is over."""
    reward_terms: str = "{}"
    """Of the step that ended it, as JSON."""
    success: bool = False


class _Person:
    """Says, in a language model's place, what is put into its mouth."""

    def __init__(self) -> None:
        self.words, self.role = "", ""

    def complete(
        self, prompts: Sequence[Sequence[ChatMessage]], seeds: Sequence[int]
    ) -> list[Completion]:
        """The words; an error where there are none."""
        self.role = prompts[0][0].content.partition(RULES)[0]
        words, self.words = self.words, ""
        return [Completion(words) if words else Completion("", "nobody answered")]


class Dialogue:
    """One conversation of a policy with a person."""

    def __init__(
        self,
        make: Callable[[ChatModel], gym.Env[Any, Any]],
        policy_for: Callable[[gym.Env[Any, Any]], Policy],
        seed: int,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """`make` takes who plays the customer; `policy_for` gives a policy that speaks.

        Raises InvalidConfiguration where nobody can take the customer's place.
        """
        self._person = _Person()
        self.env = make(self._person)
        self._policy = policy_for(self.env)
        self._seed, self._options = seed, dict(options or {})
        self._observation: Any = None
        self._state: Any = None
        self._pending: str | None = None
        """What the policy has said and the customer has not yet answered."""
        self._over: Answer | None = None
        self._info: dict[str, Any] = {}
        self.heard = 0
        """Messages of the person so far."""

    def role(self) -> str:
        """Who the person is, what they want and know; to be asked before the first message."""
        self.env.reset(seed=self._seed, options=self._options)
        return self._person.role

    def hear(self, text: str) -> Answer:
        """What the policy answers; raises InvalidConfiguration for a message without words."""
        if self._over is not None:
            return self._over
        if not message_of(text):
            raise InvalidConfiguration(SILENT)
        self._person.words = text
        if self._pending is None:
            self._observation, self._info = self.env.reset(seed=self._seed, options=self._options)
            self._policy.reset(self._seed)
            ended, results = False, list[str]()
        else:
            ended, results = self._step(self._pending)
        self.heard += 1
        calls: list[RawCall] = []
        while not ended:
            action, self._state = self._policy.predict(
                self._observation, self._state, action_masks=self._info.get("action_mask")
            )
            parsed = parse_reply(str(action))
            calls += parsed.calls
            if parsed.speech or not parsed.calls:
                self._pending = str(action)
                return Answer(parsed.speech, tuple(calls), tuple(results))
            ended, more = self._step(str(action))
            results += more
        info = self._info
        self._over = Answer(
            "", tuple(calls), tuple(results), True, str(info.get("failure_reason", "")),
            str(info.get("reward_terms", "{}")), bool(info.get("success", False)),
        )  # fmt: skip
        return self._over

    def said_instead(self, text: str) -> None:
        """The customer has read this, in place of what the policy last said."""
        if self._pending is not None and parse_reply(self._pending).speech.strip() != text.strip():
            self._pending = text

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    def _step(self, action: str) -> tuple[bool, list[str]]:
        self._observation, reward, terminated, truncated, self._info = self.env.step(action)
        rewarded = getattr(self._policy, "rewarded", None)
        if rewarded is not None:
            rewarded(float(reward))
        results = self._info["tool_results"]
        return terminated or truncated, [results] if results else []
