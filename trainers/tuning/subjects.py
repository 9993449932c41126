"""What a search asks of whatever it searches: its options, and what some values of them score.

    changes {"learner.cql_alpha": 0.2, "best": 0.5} ─► run(…) ─► rows while it learns, then a score

Knows no learner and no optuna.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

METRICS = ("success", "return")
Changes = Mapping[str, Any]
"""Options by their full name, such as `learner.discount`, and their values."""
Heard = Callable[[int, float], bool]
"""Takes a step and what was scored there while learning; True: it is not worth going on."""


@dataclass(frozen=True, kw_only=True)
class Scored:
    """What a trial came to, on validation tasks."""

    value: float
    """What is searched for: the higher, the better."""
    interval: tuple[float, float]
    """Of 95 %, over conversations."""


class Subject(Protocol):
    """Something with options that can be tried."""

    @property
    def algorithm(self) -> str:
        """Its name."""

    @property
    def family(self) -> str:
        """The named space it belongs to: "offline", "online" or "grpo"."""

    @property
    def steps(self) -> int:
        """How long it learns."""

    def names(self) -> list[str]:
        """Full names of all options that may be searched."""

    def hint(self, name: str) -> Any:
        """The type of an option."""

    def default(self, name: str) -> Any:
        """What it is where nobody says otherwise."""

    def check(self, changes: Changes) -> None:
        """Raises InvalidConfiguration where it cannot be run so, or MissingExtra."""

    def rehearse(self) -> list[str]:
        """Sentences about what a trial would do; raises what it would before it learns."""

    def run(self, changes: Changes, folder: Path, heard: Heard) -> Scored:
        """One trial; goes on from what an interrupted one left in the folder."""

    def configuration(self, changes: Changes) -> dict[str, Any]:
        """The whole configuration with these changes, as `convgym train --config` takes it."""

    def command(self, config: Path) -> str:
        """What learns with the configuration in a file."""


def full_name(name: str, names: list[str]) -> str:
    """The option that a person means; raises InvalidConfiguration with the one that is near."""
    from convgym.cli.typed import check_known

    if name in names:
        return name
    short = [one.removeprefix("learner.") for one in names]
    check_known([name], [*short, *names] if "." in name else short)
    return f"learner.{name}"


def nested(changes: Changes) -> dict[str, Any]:
    """`{"learner.discount": 0.9}` → `{"learner": {"discount": 0.9}}`."""
    found: dict[str, Any] = {}
    for name, value in changes.items():
        place = found
        *path, last = name.split(".")
        for part in path:
            place = place.setdefault(part, {})
        place[last] = value
    return found
