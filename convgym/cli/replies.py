"""What a policy replies to messages that somebody writes: one, a file of them, or a person.

    message ─► in the customer's place ─► env ─► policy ─► acts in words ─► reply
               (as a model would be)             until it speaks to the customer

A policy over acts knows only what an environment shows, so each conversation is one of a task: the
shop's records and the customer in them are that task's, and chance is its seed's. A customer is
understood as somebody who has that task; where none was asked for, it is one of the topic in which
most of the first message is understood.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from convgym.cli.play import playable
from convgym.errors import InvalidConfiguration
from convgym.language.models import ChatMessage, Completion
from convgym.policies.policy import ActPolicy, Policy, belief_of
from convgym.simulator import SimulatorConfig, policy_of

_MOST = 1 << 16
"""Characters of one line; a customer's message has 4,096 at most."""


class ByFeatures(ActPolicy):
    """`policy`, which reads features alone, where an environment shows more."""

    def __init__(self, policy: ActPolicy) -> None:
        super().__init__()
        self.policy, self.name = policy, policy.name

    def reset(self, seed: int) -> None:
        """Begin an episode."""
        self.policy.reset(seed)

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
        action_masks: Any = None,
    ) -> tuple[int, Any]:
        """The act that the policy chooses by the features."""
        act, state = self.policy.predict(
            belief_of(observation), state, episode_start, deterministic, action_masks=action_masks
        )
        self.propensity = self.policy.propensity
        return act, state


def speaking(policy: Policy) -> Policy:
    """The policy as one that `convgym.simulator.policy_of` can let speak."""
    return ByFeatures(policy) if isinstance(policy, ActPolicy) else policy


class Written:
    """In a customer's place: says what was written, and notes what is answered."""

    def __init__(self, messages: Sequence[str]) -> None:
        self._left = list(messages)
        self._begun = False
        self.replies: list[str] = []
        self.done = False
        """Whether all was said and answered."""

    def complete(
        self, prompts: Sequence[Sequence[ChatMessage]], seeds: Sequence[int]
    ) -> list[Completion]:
        """The next message; an error where there is none, which ends the conversation."""
        return [self._next(prompt) for prompt in prompts]

    def _next(self, prompt: Sequence[ChatMessage]) -> Completion:
        if self._begun:
            self.replies.append(prompt[-1].content)
        self._begun = True
        if not self._left:
            self.done = True
            return Completion("", "the messages are at their end")
        return Completion(self._left.pop(0))


def replies_to(messages: Sequence[str], policy: Policy, config: SimulatorConfig) -> dict[str, Any]:
    """What the policy replies to each message, one after the other in one conversation.

    `ended` says how the conversation ended before all was answered; "" where it did not. Raises
    InvalidConfiguration for an environment whose customer cannot be played, and for no messages.
    """
    if not messages or not all(message.strip() for message in messages):
        raise InvalidConfiguration("there is an empty message; write what the customer says")
    config = fitting(config, messages[0])
    written = Written(messages)
    env = replace(config, user=written).make()
    policy = policy_of(policy, env)
    observation, info = env.reset(seed=config.seed)
    policy.reset(config.seed)
    ended, state, start = False, None, True
    while not (ended or written.done):
        action, state = policy.predict(observation, state, start)
        observation, _, terminated, truncated, info = env.step(action)
        ended, start = terminated or truncated, False
    told = "" if written.done else str(info["failure_reason"] or observation["tool_results"])
    env.close()
    return {"messages": list(messages), "replies": written.replies, "ended": told}


def fitting(config: SimulatorConfig, message: str) -> SimulatorConfig:
    """`config`, with the topic of the task chosen by what is understood of a first message.

    Raises InvalidConfiguration for an environment whose customer cannot be played.
    """
    domain: Any = getattr(playable(config).unwrapped, "domain", None)
    fixed = {"topic": config.topic, "task_id": config.task_id, **config.keywords}
    topics = () if fixed["topic"] or fixed["task_id"] else getattr(domain, "topics", ())
    best, most = config, _heard(config, message) if topics else (0, 0)
    for topic in topics:
        tried = replace(config, topic=topic)
        found = _heard(tried, message)
        if found > most:
            best, most = tried, found
    return best


def _heard(config: SimulatorConfig, message: str) -> tuple[int, int]:
    """How many acts a first message is read as, and how many cells of the belief it fills.

    None where the split has no task of this topic. A request is heard in any task, and fills the
    cells of what is wanted in one whose request it is.
    """
    try:
        env = replace(config, user=Written([message])).make()
        observation, info = env.reset(seed=config.seed)
    except InvalidConfiguration:
        return 0, 0
    env.close()
    return len(json.loads(info["user_acts"])), int((observation["features"] > 0).sum())


def replies_to_file(
    path: Path, policy: Policy, config: SimulatorConfig
) -> Iterator[dict[str, Any]]:
    """The same of each line of a file; of a line that is none, `error` says why.

    A line is a text, or in .jsonl an object with `message` or `messages`.
    """
    for number, line in _lines(path):
        found: dict[str, Any] = {"line": number}
        try:
            yield found | replies_to(_said(line, path.suffix == ".jsonl"), policy, config)
        except InvalidConfiguration as error:
            yield found | {"error": str(error)}


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    if not path.is_file():
        raise InvalidConfiguration(f"there is no file {path}; give one with a message a line")
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield number, line.strip()


def _said(line: str, as_json: bool) -> list[str]:
    if len(line) > _MOST:
        raise InvalidConfiguration(f"the line has {len(line):,} characters, of at most {_MOST:,}")
    if not as_json:
        return [line]
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict):
        messages = found.get("messages", [found.get("message")])
        if isinstance(messages, list) and all(isinstance(one, str) for one in messages):
            return messages
    raise InvalidConfiguration(
        'the line is no {"message": "…"} and no {"messages": ["…", "…"]} of what the customer says'
    )
