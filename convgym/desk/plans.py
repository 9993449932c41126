"""What the first request of a task may be, split by split, with the share of each.

    split ─► workflows by weight ─► outcome (the rule that is to decide, or none) by weight
          ─► how many requests a task has, and which accounts it may be about
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from convgym.desk.declaration import Workflow
from convgym.engine.rules import TRANSFER
from convgym.errors import InvalidConfiguration

if TYPE_CHECKING:
    from convgym.desk.tasks import Tasks

_COUNTS = {"": (55, 85, 100), "test_compositional": (0, 70, 100)}
"""Percent of tasks with at most one, two, three requests."""
_GRANTED = 73
"""Percent of first requests that are granted, where rules can refuse them at all."""
_GRANTED_BESIDE_NEW, _NEW = 45, 40
"""Percent of first requests of `test_policy` that are granted, and that a held-out rule decides."""
_ACCOUNTS = {"train": (0, 6), "validation": (6, 8)}
"""Tenths of the accounts that a split's tasks are about; all tests share the last two."""


class Plan:
    """What the first request of a split's tasks may be."""

    def __init__(self, tasks: Tasks, split: str) -> None:
        d = tasks.declaration
        self.accounts = _ACCOUNTS.get(split, (8, 10))
        self.counts = np.array(_COUNTS.get(split, _COUNTS[""]))
        held_out = split in ("test_primitive", "test_policy", "test_compositional")
        self.impostors = 0 if held_out else d.impostors
        self.workflows = [w for w in d.workflows_for(split) if self._begins(tasks, w, split)]
        self.cumulative = np.cumsum([workflow.weight for workflow in self.workflows])
        self.total = int(self.cumulative[-1])
        self._numbers = np.array([d.names.index(workflow.name) for workflow in self.workflows])
        self.outcomes: dict[int, tuple[NDArray[np.int64], list[int]]] = {}
        for number, workflow in zip(self._numbers, self.workflows, strict=True):
            self.outcomes[int(number)] = self._outcomes(tasks, workflow, split)
        self._of = {workflow.name: int(n) for n, workflow in zip(
            self._numbers, self.workflows, strict=True
        )}

    @staticmethod
    def _begins(tasks: Tasks, workflow: Workflow, split: str) -> bool:
        if split == "test_primitive":
            return workflow.held_out
        if split == "test_policy":
            rules = tasks.declaration.rules.deciding(workflow.name)
            return any(rule.held_out for rule in rules)
        if split == "test_compositional":
            return any(workflow.name == one for one, _ in tasks.held_out_pairs)
        return True

    def _outcomes(
        self, tasks: Tasks, workflow: Workflow, split: str
    ) -> tuple[NDArray[np.int64], list[int]]:
        """Cumulative weights out of 10,000, and the rules they stand for; -1 grants."""
        fits = tasks.fits(workflow, split)
        possible = [
            outcome
            for outcome in range(-1, len(fits.rules))
            if len(fits.rows(outcome, *self.accounts))
        ]
        if split == "test_compositional":
            possible = [o for o in possible if fits.effect(o) != TRANSFER]
        if not possible:
            raise InvalidConfiguration(
                f"no record lets a request for {workflow.name!r} be granted or refused in the "
                f"split {split!r}; widen the ranges of its fields, or the values of its parameters"
            )
        granted, share = -1 in possible, _GRANTED * 100
        new = [o for o in possible if o >= 0 and fits.rules[o].held_out]
        others = [o for o in possible if o >= 0 and o not in new]
        if new:
            share = _GRANTED_BESIDE_NEW * 100
        possible = [-1] * granted + others + new
        left = 10_000 - share * granted
        of_new = _NEW * 100 if new and (others or granted) else left * bool(new)
        weights = [share] * granted
        weights += [(left - of_new) // len(others)] * len(others) if others else []
        weights += [of_new // len(new)] * len(new) if new else []
        weights[-1] += 10_000 - sum(weights)
        return np.cumsum(weights), possible

    def first(self, drawn: int) -> Workflow:
        """The workflow of the first request."""
        return self.workflows[bisect_right(self.cumulative, drawn)]

    def number_of(self, drawn: NDArray[np.int64]) -> NDArray[np.int64]:
        """`first`, as numbers, for many draws at once."""
        return self._numbers[np.searchsorted(self.cumulative, drawn, side="right")]

    def outcome(self, workflow: Workflow, drawn: int) -> int:
        """The rule that decides it."""
        cumulative, outcomes = self.outcomes[self._of[workflow.name]]
        return outcomes[bisect_right(cumulative, drawn)]

    def count(self, drawn: int) -> int:
        """How many requests a task has."""
        return 1 + bisect_right(self.counts, drawn)
