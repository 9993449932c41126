"""What users do after what agents do, counted alike in a log and in a simulation.

    agent   "May I have your email again?"      ─► ask, ask again          heard since the last turn
    user    (inform_email, …)(ask_why)          ─► inform, ask_why         its kinds of act
                                                        │
    rate of an event in a context    P(ask_why | ask)  P(give_up | any)  P(request | opening) …

Every pair of a context and an event that occurs is counted; which of them tell of a decision is
found by who fits (`decision_fit`). Agents' replies are read by the domain; acts of users are the
log's labels or what the domain's tagger reads in their words. Knows nothing of probabilities.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.conversation import Conversation, Message
from convgym.envs.candidates import candidate_texts
from convgym.envs.domain import Domain
from convgym.users.user_batch import GENERAL

Floats = NDArray[np.float64]
Said = Sequence[tuple[str, str]]
"""A user's acts, each with the value it states or an empty text."""

OPENING, ANY = "opening", "any"
"""Contexts: of a first turn, and of every later one."""
RARE = 5
"""Times below which an event tells nothing, and its variance is not known."""
_TOLD_OF_AGENT = ("error", "ask again")
"""What the agent's side shows of what the user said before: it counts as an event, too."""


@dataclass(slots=True)
class Talk:
    """One conversation as counts; fed turn by turn, in order."""

    turns: Counter[str] = field(default_factory=Counter)
    """User turns by context."""
    events: Counter[tuple[str, str]] = field(default_factory=Counter)
    """User turns by (context, event)."""
    heard: Counter[str] = field(default_factory=Counter)
    """Of each kind of speech and of tool results, how often the agent's side had it."""
    _since: set[str] = field(default_factory=set)
    _asked: set[str] = field(default_factory=set)
    _stated: dict[str, str] = field(default_factory=dict)
    _did: frozenset[str] = frozenset()

    def agent(self, claims: Iterable[tuple[str, str]]) -> None:
        """What a reply of the agent says, as (act, slot)."""
        for act, slot in claims:
            kinds = {f"{act} {slot}" if slot == "more" else act}
            if act == "ask" and slot != "more":
                if slot in self._asked:
                    kinds.add("ask again")
                if "ask" in self._since:
                    kinds.add("ask several")
                self._asked.add(slot)
            self._since |= kinds
            self.heard.update(kinds)

    def tools(self, results: str) -> None:
        """What tools returned."""
        kind = "error" if '"error"' in results else "result"
        self._since.add(kind)
        self.heard[kind] += 1

    def user(self, said: Said) -> None:
        """A turn of the user, counted in all of its contexts.

        "One moment" is no answer: what the agent has said waits for the turn after it.
        """
        did = self._kinds(said)
        if self.turns and did == {"hold"}:
            self.turns[ANY] += 1
            self.events[ANY, "hold"] += 1
            return
        if self.turns:
            contexts = {ANY, *self._since, *(f"after {kind}" for kind in self._did)}
            events = did | self._since.intersection(_TOLD_OF_AGENT)
        else:
            contexts, events = {OPENING}, did
        self.turns.update(contexts)
        self.events.update((context, event) for context in contexts for event in events)
        self._did, self._since = did, set()

    def _kinds(self, said: Said) -> frozenset[str]:
        """Kinds of act, and two things that single acts do not show: more, and otherwise."""
        kinds = {kind_of(act) for act, _ in said}
        if sum(act.startswith("inform_") for act, _ in said) > 1:
            kinds.add("inform more")
        for act, value in said:
            if value and self._stated.setdefault(act, value) != value:
                kinds.add("inform otherwise")
                self._stated[act] = value
        return frozenset(kinds)


@cache
def kind_of(act: str) -> str:
    """The act itself where users of every domain have it, else what it does: inform, request …"""
    return act if act in GENERAL else act.partition("_")[0]


class Reader:
    """Reads the turns of one domain; `labelled` says where a user's acts are taken from."""

    def __init__(self, domain: Domain, labelled: bool) -> None:
        self.labelled = labelled
        self._domain = domain
        self._tagger = None if labelled else domain.user_tagger()
        self._candidates: list[tuple[tuple[str, str], ...]] | None = None

    def talk(self, conversation: Conversation) -> Talk:
        """A recorded conversation."""
        talk = Talk()
        for message in conversation.messages:
            if message.role == "assistant":
                talk.agent(self.claims(message.content))
            elif message.role == "tool":
                talk.tools(message.content)
            elif message.role == "user" and (message.acts or message.content.strip()):
                talk.user(labels_of(message) if self.labelled else self.tagged(message.content))
        return talk

    def claims(self, reply: str) -> tuple[tuple[str, str], ...]:
        """(act, slot) of what an agent's reply says; calls are no speech."""
        said = self._domain.understand(None, reply).said  # type: ignore[arg-type]
        return tuple((getattr(c, "act", "unclear"), getattr(c, "slot", "")) for c in said)

    def of_act(self, number: int) -> tuple[tuple[str, str], ...]:
        """The same of an act of the agent by its number, read off its candidate reply."""
        if self._candidates is None:
            self._candidates = [self.claims(text) for text in candidate_texts(self._domain)]
        return self._candidates[number]

    def tagged(self, text: str) -> Said:
        """A user's words as acts, with the values that stand in them."""
        assert self._tagger is not None
        acts, values = self._tagger.tag(text), dict(self._tagger.values(text))
        return [(act, values.get(act.removeprefix("inform_"), "")) for act in acts]

    def sureness(self, texts: Sequence[str]) -> float:
        """Mean probability of the likeliest act of each text: high where wordings are familiar."""
        assert self._tagger is not None
        return float(np.mean([max(self._tagger.scores(text).values()) for text in texts]))


def labels_of(message: Message) -> Said:
    """A log's acts of a turn: name and, if there is one, value."""
    return [(act[0], act[1] if len(act) > 1 else "") for act in message.acts if act]


def acts_of(domain: Domain, episode: Any, turn: Any) -> Said:
    """The acts of a simulated turn, as a recorded conversation has them."""
    acts = json.loads(domain.acts_json(episode, turn))
    return [(one["act"], one.get("value", "")) for one in acts]


Rate = tuple[str, str]
"""(context, event)."""


@dataclass(frozen=True, eq=False)
class Rates:
    """Rates of M events in their contexts over N conversations."""

    values: Floats  # (M,) NaN where the context never occurs
    influence: Floats  # (N, M) what each conversation does to a rate, times N; means are 0
    turns: Floats  # (M,) turns in the context


def count_rates(talks: Sequence[Talk], rates: Sequence[Rate]) -> Rates:
    """Ratios of sums, with the linearised share of each conversation in them."""
    happened = np.array([[talk.events[rate] for rate in rates] for talk in talks], dtype=float)
    could = np.array([[talk.turns[context] for context, _ in rates] for talk in talks], dtype=float)
    turns = could.sum(axis=0)
    values = np.divide(
        happened.sum(axis=0), turns, out=np.full(len(rates), np.nan), where=turns > 0
    )
    influence = (happened - values * could) * (len(talks) / np.maximum(turns, 1.0))
    return Rates(values, influence, turns)


def common_rates(first: Sequence[Talk], second: Sequence[Talk], least: int) -> list[Rate]:
    """Events that both sides together have `RARE` times, in contexts that each has `least`."""
    turns = [sum((talk.turns for talk in side), Counter[str]()) for side in (first, second)]
    events = sum((talk.events for talk in (*first, *second)), Counter[Rate]())
    often = (rate for rate, times in events.items() if times >= RARE)
    return sorted(rate for rate in often if min(side[rate[0]] for side in turns) >= least)
