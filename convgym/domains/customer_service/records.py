"""What the desk keeps of an episode, and the few questions that all of its parts ask of it."""

from __future__ import annotations

import json

from convgym.domains.customer_service import cells, rules
from convgym.domains.customer_service.vocabulary import SLOTS, WRITES
from convgym.engine.episode import Episode

VIOLATION = {name: 1 << bit for bit, name in enumerate(rules.VIOLATIONS)}


class DeskState:
    """What the desk keeps of one episode beside the belief."""

    __slots__ = (
        "asked_to_confirm",
        "customer",
        "decided_right",
        "heard",
        "parameters",
        "transferred",
    )

    def __init__(self, parameters: rules.Parameters) -> None:
        self.parameters = parameters
        self.customer = -1  # row of the account in view
        self.heard = [0] * len(SLOTS)  # per slot: 0 nothing, 1 right, 2 wrong
        self.asked_to_confirm = (-1, -1)  # write and pointer of the last proper question
        self.decided_right = False
        self.transferred = False

    def copy(self) -> DeskState:
        """An independent copy."""
        copy = DeskState(self.parameters)
        for name in self.__slots__:
            setattr(copy, name, getattr(self, name))
        copy.heard = list(self.heard)
        return copy


def violate(episode: Episode, code: str) -> None:
    """Mark a broken obligation; the first time it goes into the ledger."""
    if not episode.violations & VIOLATION[code]:
        episode.violations |= VIOLATION[code]
        episode.note("violation", code)


def deciding(episode: Episode) -> bool:
    """The customer is authenticated, and the order in question was named and has been read."""
    return bool(episode.belief[cells.AUTH]) and read_what_is_meant(episode)


def read_what_is_meant(episode: Episode) -> bool:
    """The order that the customer means was read, and the customer has said which it is.

    Who reads all orders without asking knows no more than before.
    """
    task, belief = episode.task, episode.belief
    named = belief[cells.ID_MATCH[task.pointer]] or belief[cells.ITEM_MATCH[task.pointer]]
    read = named and belief[cells.READ[task.pointer]]
    return episode.desk.customer == task.customer and bool(read)


def factors(belief: bytearray) -> int:
    """How many factors the customer has been authenticated by."""
    return belief[cells.FOUND] + belief[cells.VERIFIED]


def difference(write: int, row: int, detail: int) -> dict[tuple[str, int, str], int | str]:
    """Rows that a write changes; `detail` is the reason of a return, 1 for the right address."""
    if WRITES[write] == "cancel":
        return {("orders", row, "status"): "cancelled"}
    if WRITES[write] == "return":
        return {("returns", row, "reason"): detail}
    return {("orders", row, "address"): detail}


def error_json(sentence: str) -> str:
    """What a tool answers when it cannot do what it was asked."""
    return json.dumps({"error": sentence})
