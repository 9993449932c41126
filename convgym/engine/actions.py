"""The agent's acts as one fixed, numbered table.

An action is speech or a tool call, with a pointer where it needs one ("the k-th order").
Its number keeps one meaning in all tasks, episodes and splits of a version. It is legal
when all the belief cells it `needs` are set: a function of what the agent has seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from convgym.engine.acts import FIRST_TOOL, AgentTurn, Said
from convgym.engine.belief import BeliefLayout

_FLAG = np.dtype(np.int8)


@dataclass(frozen=True, slots=True)
class Action:
    """One row of the table."""

    name: str
    kind: int
    """Sort of speech (`convgym.engine.acts`) or, from FIRST_TOOL on, a tool of the domain."""
    argument: int = 0
    """Which slot, reason, offer, tool or workflow it concerns."""
    pointer: int = -1
    """Which object in view it points at, from 0; -1 for none."""
    value: int = 0
    """Which value is told, where an argument has several."""
    needs: tuple[str, ...] = ()


class ActionTable:
    """Actions in their frozen order, with legality compiled to one gather."""

    def __init__(self, actions: Sequence[Action], layout: BeliefLayout) -> None:
        self.actions = tuple(actions)
        self.names = tuple(action.name for action in actions)
        self._index = {name: position for position, name in enumerate(self.names)}
        assert len(self._index) == len(self.names), "an action's name stands for one action"
        width = max(1, max(len(action.needs) for action in actions))
        always = layout["always"]
        self.needs: NDArray[np.intp] = np.full((len(actions), width), always, dtype=np.intp)
        for row, action in enumerate(actions):
            for column, cell in enumerate(action.needs):
                self.needs[row, column] = layout[cell]
        self._need_lists = tuple(tuple(int(c) for c in set(row)) for row in self.needs)
        # The first need of every action, then the second, …: numpy is quick along the actions.
        self._columns: NDArray[np.intp] = np.ascontiguousarray(self.needs.T)
        self.spoken: tuple[AgentTurn | None, ...] = tuple(_spoken(action) for action in actions)
        """The turn of each act of speech, the same in every episode; None for a tool."""

    def __len__(self) -> int:
        return len(self.actions)

    def __getitem__(self, name: str) -> int:
        """Number of the action called `name`."""
        return self._index[name]

    def is_legal(self, belief: bytearray, action: int) -> bool:
        """Whether the agent has seen what this action needs."""
        for cell in self._need_lists[action]:  # noqa: SIM110 (a generator takes twice as long)
            if not belief[cell]:
                return False
        return True

    def mask(self, belief: NDArray[np.uint8]) -> NDArray[np.int8]:
        """1 where legal.  (…, cells) → (…, actions) int8"""
        legal: NDArray[np.bool_] = np.logical_and.reduce(belief.take(self._columns, -1), -2)
        return legal.view(_FLAG)


def _spoken(action: Action) -> AgentTurn | None:
    if action.kind >= FIRST_TOOL:
        return None
    return AgentTurn((Said(action.kind, action.argument, action.pointer, action.value),))
