"""A plan before each message: a goal, its steps, which of them are done and which comes next.

[Goal: settle the request. Done: find the account. Next: read the order. Then: confirm.]
It is order W11475.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym

from convgym.envs.said import Line, SaidWrapper
from convgym.errors import InvalidConfiguration


@dataclass(frozen=True)
class PlanStep:
    """One step, done as soon as something that was said matches."""

    name: str
    done: str
    """A regular expression over lines such as "Agent: ..." and "User: ..."."""

    def __post_init__(self) -> None:
        try:
            re.compile(self.done)
        except re.error as error:
            raise InvalidConfiguration(
                f"done={self.done!r} of the step {self.name!r} is no regular expression: {error}"
            ) from error


Planner = Callable[[Sequence[Line]], Sequence[PlanStep]]
"""Lines so far → the plan; asked at reset, and again every `update_every` agent turns."""


class PlanContext(SaidWrapper):
    """Shows a plan and how far it has come before the newest message.

        env = PlanContext(gym.make(id), [PlanStep("find the account", "find_customer")])

    | argument | default | |
    |---|---|---|
    | `plan` | | steps in their order, or a planner that makes them of what was said |
    | `goal` | `""` | shown first, where there is one |
    | `update_every` | 1 | agent turns from one look at progress to the next; a planner plans anew |
    | `length` | 2048 | characters of an observation |
    """

    def __init__(
        self,
        env: gym.Env[str, str],
        plan: Sequence[PlanStep] | Planner,
        goal: str = "",
        update_every: int = 1,
        length: int = 2048,
    ) -> None:
        if update_every < 1:
            raise InvalidConfiguration(f"update_every={update_every}; it counts from 1")
        if not callable(plan) and not plan:
            raise InvalidConfiguration("the plan is empty; give at least one PlanStep")
        super().__init__(env, length, plan=plan, goal=goal, update_every=update_every)
        self.plan, self.goal, self.update_every = plan, goal, update_every
        self.steps: list[PlanStep] = []
        self.done: list[bool] = []
        """Which of `steps` are done, as of the last update."""
        self._turns = 0

    def read(self) -> str:
        """Goal, progress and the newest message."""
        finished = [step.name for step, done in zip(self.steps, self.done, strict=True) if done]
        open_ = [step.name for step, done in zip(self.steps, self.done, strict=True) if not done]
        parts = [
            ("Goal", self.goal),
            ("Done", ", ".join(finished)),
            ("Next", "".join(open_[:1])),
            ("Then", ", ".join(open_[1:])),
        ]
        head = f"[{' '.join(f'{name}: {what}.' for name, what in parts if what)}]"
        message = self.lines[-1][1]
        room = max(self.length - len(message) - 1, 0)
        return "\n".join(part for part in (head[:room], message) if part)

    def noted(
        self, action: str | None, reward: float, info: dict[str, Any], ended: bool = False
    ) -> None:
        """Plan at a reset, look at progress every `update_every` turns."""
        self._turns = 0 if action is None else self._turns + 1
        if self._turns % self.update_every:
            return
        if action is None or callable(self.plan):
            self.steps = list(self.plan(self.lines) if callable(self.plan) else self.plan)
        said = "\n".join(f"{who}: {text}" for who, text in self.lines)
        self.done = [re.search(step.done, said) is not None for step in self.steps]
