"""The state of one conversation: a small mutable record that can be copied and put back."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

from convgym.engine.acts import UserTurn


class Copyable(Protocol):
    """A record that can hand out an independent copy of itself."""

    def copy(self) -> Any:
        """An independent copy."""


class Entry(NamedTuple):
    """One line of the ledger."""

    turn: int
    event: str
    detail: str


_entry: Callable[[tuple[int, str, str]], Entry] = partial(tuple.__new__, Entry)


class Episode:
    """Everything that changes between reset and end.

    `belief` is public (see `convgym.engine.belief`); `user` and `desk` are the private
    records of the simulated user and of the domain; `diff` is what differs from the base
    world, (table, row, field) → value; `ledger` only grows.
    """

    __slots__ = (
        "belief",
        "desk",
        "diff",
        "end",
        "errors",
        "ledger",
        "reply",
        "task",
        "tool_results",
        "truncated",
        "turn",
        "user",
        "user_key",
        "user_turn",
        "violations",
        "wording_key",
    )

    def __init__(self, task: Any, user_key: int, wording_key: int, belief: bytearray) -> None:
        self.task = task
        self.user_key = user_key
        self.wording_key = wording_key
        self.belief = belief
        self.user: Any = None
        self.desk: Any = None
        self.turn = 0
        self.errors = 0
        self.reply = ""
        """The agent's newest speech, as the user reads it; empty for an act number."""
        self.violations = 0
        """Bit set of broken obligations; any bit forfeits success."""
        self.diff: dict[tuple[str, int, str], int | str] = {}
        self.ledger: list[Entry] = []
        self.tool_results: tuple[str, ...] = ()
        self.user_turn: UserTurn | None = None
        """The user's turn of this step; None in a step of tools alone."""
        self.end = ""
        """Why it ended; empty while it goes on."""
        self.truncated = False

    def note(self, event: str, detail: str) -> None:
        """Write a line to the ledger."""
        self.ledger.append(_entry((self.turn, event, detail)))

    def snapshot(self) -> Episode:
        """An independent copy: go on with either, the other stays as it is."""
        copy = Episode.__new__(Episode)
        for name in self.__slots__:
            setattr(copy, name, getattr(self, name))
        copy.belief = bytearray(self.belief)
        copy.diff = dict(self.diff)
        copy.ledger = list(self.ledger)
        copy.user = self.user.copy()
        copy.desk = self.desk.copy()
        return copy

    def restore(self, saved: Episode) -> None:
        """Become a copy of what `snapshot` gave."""
        copy = saved.snapshot()
        for name in self.__slots__:
            setattr(self, name, getattr(copy, name))
