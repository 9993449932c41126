"""A plain function as a reward.

    @reward_function
    def polite(conversation):                       a share, in [0, 1]
        said = list(conversation.said_by("assistant"))
        return sum("please" in m.content for m in said) / max(1, len(said))

    @reward_function(name="speed", bounds=(-30, 0))
    def turns(outcome):                             anything in its bounds
        return -min(30, outcome.turn)

The function's one parameter is called `conversation` or `outcome`, and that is what it gets.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from convgym.conversation import Conversation
from convgym.errors import InvalidConfiguration
from convgym.rewards.outcome import Outcome, Score, as_outcome, check_name, is_number

TAKES = ("conversation", "outcome")
_SLIP = 1e-9
"""Beyond its bounds by no more than this, relative to their width, a result is rounding."""


@dataclass(frozen=True)
class FunctionReward:
    """value = (f − low) / (high − low), f being the function's result in [low, high].

    What it can see is what the function looks at; `sees_success` is what its author says.
    """

    function: Callable[[Any], float]
    name: str
    bounds: tuple[float, float] = (0.0, 1.0)
    takes: str = "outcome"
    """What the function gets: "conversation" or "outcome"."""
    sees_success: bool = False

    def __post_init__(self) -> None:
        check_name(self.name)
        if self.takes not in TAKES:
            raise InvalidConfiguration(
                f"takes={self.takes!r} is neither 'conversation' nor 'outcome'; choose one."
            )
        try:
            low, high = self.bounds
            fine = is_number(low) and is_number(high) and is_number(high - low) and low < high
        except (TypeError, ValueError):
            fine = False
        if not fine:
            raise InvalidConfiguration(
                f"bounds={self.bounds!r} are no bounds; give two numbers, the lower one first, "
                "such as (0, 10)."
            )

    def __call__(self, outcome: Outcome | Conversation) -> Score:
        """The score of a conversation."""
        outcome = as_outcome(outcome)
        raw = self.function(outcome.conversation if self.takes == "conversation" else outcome)
        low, high = self.bounds
        countable = is_number(raw) or isinstance(raw, bool | np.bool_)
        share = (float(raw) - low) / (high - low) if countable else -1.0
        if not -_SLIP <= share <= 1.0 + _SLIP:
            raise InvalidConfiguration(
                f"the reward function {self.name!r} returned {raw!r}, which is not a number in "
                f"[{low}, {high}]; clip it, or give other bounds=(low, high)."
            )
        return Score(min(1.0, max(0.0, share)), {"raw": float(raw)})


@overload
def reward_function(function: Callable[[Any], float], /) -> FunctionReward: ...
@overload
def reward_function(
    *,
    name: str | None = None,
    bounds: tuple[float, float] = (0.0, 1.0),
    sees_success: bool = False,
) -> Callable[[Callable[[Any], float]], FunctionReward]: ...
def reward_function(
    function: Callable[[Any], float] | None = None,
    /,
    *,
    name: str | None = None,
    bounds: tuple[float, float] = (0.0, 1.0),
    sees_success: bool = False,
) -> FunctionReward | Callable[[Callable[[Any], float]], FunctionReward]:
    """Make a reward of the function below; its name and [0, 1] unless told otherwise.

    Give `sees_success=True` only if it is worth about 0 wherever the task was not solved.
    """

    def decorate(plain: Callable[[Any], float]) -> FunctionReward:
        called = getattr(plain, "__name__", type(plain).__name__)
        return FunctionReward(plain, name or called, bounds, _takes(plain, called), sees_success)

    return decorate if function is None else decorate(function)


def _takes(function: Callable[[Any], float], called: str) -> str:
    try:
        parameters = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        parameters = []
    if len(parameters) != 1 or parameters[0] not in TAKES:
        raise InvalidConfiguration(
            f"the reward function {called!r} takes ({', '.join(parameters)}); give it one "
            "parameter, called conversation or outcome."
        )
    return parameters[0]
