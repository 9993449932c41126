"""What a desk keeps of an episode beside the belief, and what all of its parts ask of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from convgym.desk.declaration import ACCOUNT, Workflow
from convgym.desk.tasks import Request
from convgym.engine.episode import Episode
from convgym.engine.grading import Evidence

if TYPE_CHECKING:
    from convgym.desk.vocabulary import Vocabulary

Difference = dict[tuple[str, int, str], int | str]


class DeskState:
    """What the desk keeps of one episode beside the belief."""

    __slots__ = (
        "account",
        "asked_to_confirm",
        "at",
        "decided_right",
        "faults",
        "heard",
        "parameters",
        "settled",
        "told",
        "transferred",
    )

    def __init__(self, parameters: dict[str, int], slots: int, faults: int) -> None:
        self.parameters = parameters
        self.account = -1  # row of the account in view
        self.at = 0  # which request the customer is at
        self.heard = [0] * slots  # per slot: 0 nothing, 1 right, 2 wrong
        self.asked_to_confirm = (-1, -1)  # write and pointer of the last proper question
        self.decided_right = False
        self.told = 0  # bit per fact: told of this request's record, since it was raised
        self.transferred = False
        self.faults = faults  # failures of the faulty tool still to come
        self.settled: list[Evidence] = []  # of the requests before this one

    def copy(self) -> DeskState:
        """An independent copy."""
        copy = DeskState(self.parameters, 0, 0)
        for name in self.__slots__:
            value = getattr(self, name)
            setattr(copy, name, list(value) if type(value) is list else value)
        return copy


class Case:
    """The request an episode is at, with what is asked of it again and again."""

    __slots__ = ("belief", "desk", "episode", "request", "v", "workflow")

    def __init__(self, vocabulary: Vocabulary, episode: Episode) -> None:
        self.v, self.episode = vocabulary, episode
        self.belief: bytearray = episode.belief
        self.desk: DeskState = episode.desk
        self.request: Request = episode.task.requests[self.desk.at]
        self.workflow: Workflow = vocabulary.declaration.workflows[self.request.workflow]

    @property
    def own_account(self) -> bool:
        """Whether the account in view is the customer's."""
        return bool(self.desk.account == self.episode.task.account)

    @property
    def deciding(self) -> bool:
        """The customer is authenticated, and what is in question was named and has been read."""
        return bool(self.belief[self.v.authenticated]) and self.read

    @property
    def read(self) -> bool:
        """The record that the customer means was read, and the customer has said which it is.

        A yes to a question that names it says so too. Who reads all records without asking knows
        no more than before.
        """
        if not self.own_account:
            return False
        if self.workflow.kind == ACCOUNT:
            return bool(self.belief[self.v.found])
        cells, k = self.v.of[self.workflow.kind], self.request.pointer
        named = self.belief[cells.id_matches[k]] or self.belief[cells.label_matches[k]]
        return bool((named or self.has_yes) and self.belief[cells.read[k]])

    @property
    def has_yes(self) -> bool:
        """Whether the customer has said yes to the change that it asks for."""
        if not self.workflow.tool:
            return False
        cells = self.v.confirmed[self.v.writes.index(self.workflow.name)]
        return bool(self.belief[cells[max(self.request.pointer, 0)]])

    def heard_for(self, term: str) -> bool:
        """Whether all was said of the request that a term depends on."""
        asked = {one.field for rule in self.v.declaration.rules.of_term(term) for one in rule.when}
        details = asked.intersection(self.workflow.details)
        return all(self.belief[self.v.heard_detail[name]] for name in details)

    @property
    def factors(self) -> int:
        """How many factors the customer has been identified by."""
        return self.belief[self.v.found] + self.belief[self.v.verified]

    @property
    def needed(self) -> int:
        """How many factors this request needs."""
        return max(self.desk.parameters["auth_level"], self.workflow.factors)

    def authenticate(self) -> None:
        """Whether the factors suffice for this request."""
        self.belief[self.v.two_factors] = self.needed == 2
        self.belief[self.v.authenticated] = self.factors >= self.needed

    def is_meant(self, kind: str, pointer: int) -> bool:
        """Whether a record in view is the one that the customer means."""
        same = kind == self.workflow.kind and pointer == self.request.pointer
        return same and self.own_account

    @property
    def earlier(self) -> Sequence[Request]:
        """The requests that were settled before this one."""
        requests: Sequence[Request] = self.episode.task.requests
        return requests[: self.desk.at]

    @property
    def earlier_names(self) -> tuple[str, ...]:
        """Names of the workflows of the earlier requests, in their order."""
        return tuple(self.v.declaration.names[one.workflow] for one in self.earlier)

    def was_meant(self, kind: str, pointer: int) -> bool:
        """Whether a record in view is one that an earlier request was about."""
        workflow = self.v.declaration.workflow
        return self.own_account and any(
            kind == workflow[name].kind and pointer == one.pointer
            for one, name in zip(self.earlier, self.earlier_names, strict=True)
        )

    def violate(self, code: str) -> None:
        """Mark a broken obligation; the first time it goes into the ledger."""
        bit = 1 << self.v.declaration.violations.index(code)
        if not self.episode.violations & bit:
            self.episode.violations |= bit
            self.episode.note("violation", code)


def row_of(vocabulary: Vocabulary, account: int, kind: str, pointer: int) -> int:
    """Row of the record that a pointer stands for in an account's view."""
    if kind == ACCOUNT:
        return account
    return account * vocabulary.declaration.kind[kind].each + pointer


def difference(workflow: Workflow, row: int, detail: int) -> Difference:
    """What a change leaves in the diff; `detail` is the word that was given, or 1."""
    return {(workflow.kind or "account", row, workflow.name): detail if workflow.details else 1}


def error_json(sentence: str) -> str:
    """What a tool answers when it cannot do what it was asked."""
    return f'{{"error": {json.dumps(sentence)}}}'


@cache
def _named(act: str) -> str:
    """How an act begins in JSON: `{"act": "greet"`."""
    return json.dumps({"act": act})[:-1]


def acts_json(stated: Iterable[tuple[str, str]]) -> str:
    """A user's acts, each with the value that it states or an empty text, as a JSON list."""
    rows = [
        f'{_named(act)}, "value": {json.dumps(value)}}}' if value else f"{_named(act)}}}"
        for act, value in stated
    ]
    return f"[{', '.join(rows)}]"


def answer_json(**values: Any) -> str:
    """What a tool answers."""
    return json.dumps(values)
