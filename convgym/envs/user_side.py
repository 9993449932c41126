"""What a user has beside its words: tools of its own, and what it can truthfully say.

    agent_0 ── its tools ──┐                    ┌── its tools ── user_0
                           ├── world, sync() ───┤
    what the agent did ────┘                    └──── a mail about it, a lamp that goes out

A domain states its user's side as a `UserSide`, structurally: it need not import this file. Tools
are called as the agent's are, by name with arguments; a policy over numbers picks among `calls`.
One record per episode holds what belongs to nobody else, such as which mails were read.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from convgym.engine.acts import UserTurn
from convgym.engine.episode import Episode
from convgym.envs.domain import Domain
from convgym.errors import InvalidConfiguration
from convgym.language.tool_calls import RawCall
from convgym.users.user_state import UserState

Known = NDArray[np.int8]
"""1 for each act of the user's vocabulary that it can truthfully do.  # (acts,)"""

SMALL_TALK = (
    "Hello.",
    "Yes, please.",
    "No, that is not what I want.",
    "I need a moment.",
    "I do not know.",
    "Could you explain that?",
    "Why do you ask?",
    "That cannot be right.",
    "Okay.",
)
"""What a random user says where a domain has nothing better; nothing of it ends a conversation."""


class UserSide(Protocol):
    """The user's side of a domain; it holds no episode's state and may be shared.

    It is made with the domain as its only argument.
    """

    tools: str
    """JSON schemas of the user's tools, in the format of the agent's."""
    calls: tuple[RawCall, ...]
    """The calls that a number stands for in act mode, in an order that is frozen per version."""
    utterances: tuple[str, ...]
    """What `action_space("user_0").sample()` says in text mode."""

    def open(self, episode: Episode) -> Any:
        """The user's own record of a fresh episode."""

    def describe(self, episode: Episode, own: Any, role: str) -> str:
        """`role`, the domain's description of the user, as it stands to who has these tools."""

    def truthful(self, episode: Episode, own: Any, known: Known) -> Known:
        """`known`, what the user's knowledge allows, with what the tools open or close."""

    def call(self, episode: Episode, own: Any, call: RawCall) -> str:
        """Run a tool of the user's; returns what it alone reads. Never raises for its arguments.

        What it changes of the world that both sides share stands in `episode`.
        """

    def rests_on(self, episode: Episode, own: Any, acts: Sequence[int]) -> tuple[int, ...]:
        """Which of `calls` the simulated user makes before it does `acts`; empty when made."""

    def sync(self, episode: Episode, own: Any) -> None:
        """Let the world catch up after a write of either side.

        Doing it twice changes nothing, and nothing of the episode changes that the desk and the
        simulated user have seen to themselves: with that user the Gymnasium trace comes out.
        """


class PlainSide:
    """A user without tools: the side of a domain that states none."""

    tools = "[]"
    calls: tuple[RawCall, ...] = ()
    utterances: tuple[str, ...] = SMALL_TALK

    def __init__(self, domain: Domain) -> None:
        pass

    def open(self, episode: Episode) -> None:
        """Nothing to keep."""

    def describe(self, episode: Episode, own: None, role: str) -> str:
        """As the domain has it."""
        return role

    def truthful(self, episode: Episode, own: None, known: Known) -> Known:
        """As the knowledge has it."""
        return known

    def call(self, episode: Episode, own: None, call: RawCall) -> str:
        """There is nothing to call."""
        return no_such_tool(call.name, ())

    def rests_on(self, episode: Episode, own: None, acts: Sequence[int]) -> tuple[int, ...]:
        """Nothing."""
        return ()

    def sync(self, episode: Episode, own: None) -> None:
        """Nothing."""


def no_such_tool(name: str, names: Sequence[str]) -> str:
    """What a user reads that calls a tool it does not have."""
    there = f"there are {', '.join(names)}" if names else "there are none"
    plain = "".join(c for c in name[:40] if c.isalnum() or c in "_-")
    return f'{{"error": "you have no tool {plain}; {there}"}}'


_ABOUT_KNOWLEDGE = ("inform_", "request_")


def known_acts(state: UserState, vocabulary: Mapping[str, int]) -> Known:
    """What a user can truthfully say by what it knows: of its present request, and its next wish.

    An act that states a value or a wish has to stand in its knowledge; any other act may be done.
    """
    legal = np.ones(max(vocabulary.values()) + 1, dtype=np.int8)
    legal[[n for name, n in vocabulary.items() if name.startswith(_ABOUT_KNOWLEDGE)]] = 0
    knowledge = state.knowledge
    stated = [act for ladder in knowledge.ladders for act in ladder]
    wishes = [one.request for one in state.requests[state.at : state.at + 2]]
    for act in (*stated, *wishes, *knowledge.misremembered):
        if act >= 0:
            legal[act] = 1
    return legal


def known_in_words(domain: Domain, episode: Episode) -> str:
    """The knowledge as a list, for a domain that cannot describe its user in sentences."""
    names = {number: name for name, number in domain.vocabulary.items()}
    lines = []
    for about, knowledge in enumerate(episode.user.requests):
        lines.append(f"You came for: {names[knowledge.request].removeprefix('request_')}")
        for ladder in knowledge.ladders:
            turns = [UserTurn((act,), 0.0, False, about=about) for act in ladder]
            values = [one.value for turn in turns for one in domain.spoken(episode, turn)]
            said = ", then ".join(filter(None, values))
            if said:
                lines.append(f"- {names[ladder[0]].removeprefix('inform_')}: {said}")
    return "\n".join(lines)


def load(entry_point: str) -> Any:
    """`"package.module:Name"` → that name; raises InvalidConfiguration for anything else."""
    module, colon, name = entry_point.partition(":") if isinstance(entry_point, str) else ("",) * 3
    try:
        if not colon:
            raise ImportError
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise InvalidConfiguration(
            f"nothing can be loaded from {entry_point!r}; give 'package.module:Name'"
        ) from error
