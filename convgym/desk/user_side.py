"""The customer's side of a declared desk: a mailbox and papers, which the agent never sees.

    search_mailbox    the desk's mails: the numbers that have to be looked up, and a mail about
                      every change that was really made
    look_at_papers    what the customer can say of itself

Who has to look a number up reads it in the mailbox and cannot state it before. Who doubts that
something was done can see whether a mail came.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from convgym.desk.declaration import ACCOUNT
from convgym.engine.acts import UserTurn
from convgym.engine.episode import Episode
from convgym.language.tool_calls import RawCall, check_arguments

if TYPE_CHECKING:
    from convgym.desk.desk import ServiceDesk

SEARCH_MAILBOX, LOOK_AT_PAPERS = range(2)
_DESCRIPTIONS = {
    "search_mailbox": "Search your mailbox for mails of this desk.",
    "look_at_papers": "See what your papers say of you.",
}
_SCHEMA: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
_IN_MAILBOX = "(it stands in a mail, in your mailbox)"
_MOST_SHOWN = 40
"""Characters of a wrong tool's name that are repeated."""


class CustomerRecord:
    """What a customer has read and received in one episode."""

    __slots__ = ("confirmed", "mails", "searched", "written")

    def __init__(self, confirmed: dict[str, str]) -> None:
        self.confirmed = confirmed  # number that has to be looked up → the sort of record
        self.searched = False
        self.mails: list[str] = []  # of changes, oldest first
        self.written: dict[tuple[str, int, str], int | str] = {}  # what the mails tell of

    def copy(self) -> CustomerRecord:
        """An independent copy."""
        copy = CustomerRecord(self.confirmed)
        copy.searched, copy.mails, copy.written = self.searched, [*self.mails], {**self.written}
        return copy


class DeskSide:
    """Mailbox and papers of the customer of a declared desk; see the module."""

    calls = tuple(RawCall(name, {}) for name in _DESCRIPTIONS)
    tools = json.dumps(
        [
            {
                "type": "function",
                "function": {"name": name, "description": text, "parameters": _SCHEMA},
            }
            for name, text in _DESCRIPTIONS.items()
        ]
    )
    utterances: tuple[str, ...] = (
        "Hello, I need help.",
        "Yes, please.",
        "No, that is not what I want.",
        "One moment, I have to look that up.",
        "I do not know.",
        "Why do you need that?",
        "Are you sure?",
        "That cannot be right.",
        '<tool_call>{"name": "search_mailbox", "arguments": {}}</tool_call>',
    )

    def __init__(self, desk: ServiceDesk) -> None:
        self._desk = desk

    def open(self, episode: Episode) -> CustomerRecord:
        """A mailbox with a mail about every record whose number has to be looked up."""
        confirmed = {}
        for about, knowledge in enumerate(episode.user.requests):
            if knowledge.must_look_up:
                act = knowledge.ladders[knowledge.main_slot][0]
                (said,) = self._desk.spoken(episode, UserTurn((act,), 0.0, False, about=about))
                confirmed[said.value] = said.slot
        return CustomerRecord(confirmed)

    def describe(self, episode: Episode, own: CustomerRecord, role: str) -> str:
        """The role without the numbers that stand in the mailbox alone."""
        for number in own.confirmed:
            role = role.replace(number, _IN_MAILBOX)
        return role

    def truthful(
        self, episode: Episode, own: CustomerRecord, known: NDArray[np.int8]
    ) -> NDArray[np.int8]:
        """A number that has to be looked up can be stated once it was."""
        if not own.searched:
            known[[*_looked_up(episode)]] = 0
        return known

    def call(self, episode: Episode, own: CustomerRecord, call: RawCall) -> str:
        """Look into the mailbox or at the papers."""
        if call.name not in _DESCRIPTIONS:
            there = ", ".join(_DESCRIPTIONS)
            return _error(f"you have no tool {call.name[:_MOST_SHOWN]!r}; you have {there}")
        problem = check_arguments(_SCHEMA, call.arguments)
        if problem:
            return _error(f"{call.name}: {problem}")
        if call.name == "look_at_papers":
            return json.dumps(self._papers(episode))
        own.searched = True
        confirmations = [f"Your {kind}: {number}." for number, kind in own.confirmed.items()]
        return json.dumps({"mails": [*confirmations, *own.mails]})

    def rests_on(
        self, episode: Episode, own: CustomerRecord, acts: Sequence[int]
    ) -> tuple[int, ...]:
        """Who comes back with a number has looked it up."""
        looks = not own.searched and any(act in _looked_up(episode) for act in acts)
        return (SEARCH_MAILBOX,) if looks else ()

    def sync(self, episode: Episode, own: CustomerRecord) -> None:
        """A mail for each change of the desk's records that has not been told of yet."""
        for key, value in episode.diff.items():
            if own.written.get(key) != value:
                own.written[key] = value
                own.mails.append(self._mail(*key))

    def _mail(self, table: str, row: int, name: str) -> str:
        declaration = self._desk.declaration
        workflow = next(one for one in declaration.workflows if one.name == name)
        of_account = table == "account"
        kind = ACCOUNT if of_account else table
        field = declaration.account.key if of_account else table
        done = (workflow.says or "done").replace("_", " ")
        return f"Your {table} {self._desk.records.text(kind, row, field)}: {done}."

    def _papers(self, episode: Episode) -> dict[str, str]:
        account, vocabulary = self._desk.declaration.account, self._desk.vocabulary
        sayable = {act for ladder in episode.user.knowledge.ladders for act in ladder}
        names = [f"inform_{field}" for field in (account.key, account.secret)]
        stated = [vocabulary[one] for name in names for one in (name, f"{name}_wrong")]
        acts = tuple(act for act in stated if act in sayable)
        said = self._desk.spoken(episode, UserTurn(acts, 0.0, False))
        return {one.slot: one.value for one in said}


def _looked_up(episode: Episode) -> tuple[int, ...]:
    """Acts that state what has to be looked up for the present request."""
    knowledge = episode.user.knowledge
    return (knowledge.ladders[knowledge.main_slot][0],) if knowledge.must_look_up else ()


def _error(sentence: str) -> str:
    return json.dumps({"error": sentence})
