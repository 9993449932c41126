"""Rewards made of rewards: sums, minima, products, and one composite for each domain.

    Composite        Σ wᵢ vᵢ                          one number that trades objectives off
    MultiObjective   weighted_sum | min | product     the same, and the vector of objectives
    CustomerService, TechnicalSupport, SalesAssistant
                     task · (task_share + (1 − task_share) · style)

A weighted sum pays for style alone wherever one of its parts does. The composites of the
domains do not: style counts only on top of a solved task.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from convgym.conversation import Conversation
from convgym.errors import InvalidConfiguration
from convgym.rewards.outcome import (
    Outcome,
    Reward,
    Score,
    as_outcome,
    check_name,
    check_reward,
    check_share,
    is_number,
)
from convgym.rewards.single import (
    Conciseness,
    Correctness,
    Engagement,
    Helpfulness,
    SimilarityAware,
)

METHODS = ("weighted_sum", "min", "product")


def _checked(came: object) -> tuple[Reward, ...]:
    if not isinstance(came, Iterable):
        raise InvalidConfiguration(
            f"rewards={came!r} is no list of rewards; give one, such as [TaskCompletion()]."
        )
    rewards: tuple[Reward, ...] = tuple(came)
    if not rewards:
        raise InvalidConfiguration("rewards is empty; give at least one, say TaskCompletion().")
    for reward in rewards:
        check_reward(reward)
    names = [reward.name for reward in rewards]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidConfiguration(
            f"two rewards are called {twice!r}, and a breakdown needs each name once; "
            "give one of them another name=."
        )
    return rewards


def _normalised(weights: Sequence[float] | None, count: int) -> tuple[float, ...]:
    """Weights that sum to 1; equal ones where none came."""
    if weights is None:
        return (1.0 / count,) * count
    given = tuple(weights) if isinstance(weights, Iterable) else ()
    fine = len(given) == count and all(is_number(w) and w >= 0 for w in given)
    total = math.fsum(given) if fine else 0.0
    if not 0.0 < total < math.inf:
        raise InvalidConfiguration(
            f"weights={weights!r} do not fit {count} rewards; give {count} numbers from 0, "
            "at least one above 0."
        )
    return tuple(float(w) / total for w in given)


def _scores(rewards: Sequence[Reward], outcome: Outcome) -> tuple[list[float], dict[str, float]]:
    """Values in order, and the breakdown: `name`, and `name.part` for what it was made of."""
    values: list[float] = []
    breakdown: dict[str, float] = {}
    for reward in rewards:
        score = reward(outcome)
        values.append(score.value)
        breakdown[reward.name] = score.value
        breakdown.update({f"{reward.name}.{part}": v for part, v in score.breakdown.items()})
    return values, breakdown


def _sum(weights: Sequence[float], values: Sequence[float]) -> float:
    return min(1.0, math.fsum(w * v for w, v in zip(weights, values, strict=True)))


@dataclass(frozen=True)
class Composite:
    """Several rewards as one: value = Σ wᵢ vᵢ / Σ wᵢ.

    Sees success only if every part with a weight does: one part that pays an idle agent makes
    the whole pay it. To put style under the condition of success, take a product.
    """

    rewards: Sequence[Reward]
    """At least one; each name once."""
    weights: Sequence[float] | None = None
    """From 0, one for each reward; equal where None."""
    name: str = "composite"

    def __post_init__(self) -> None:
        check_name(self.name)
        object.__setattr__(self, "rewards", _checked(self.rewards))
        object.__setattr__(self, "weights", _normalised(self.weights, len(self.rewards)))

    @property
    def sees_success(self) -> bool:
        """Whether all that is paid needs a solved task."""
        assert self.weights is not None
        pairs = zip(self.rewards, self.weights, strict=True)
        return all(reward.sees_success for reward, weight in pairs if weight)

    def __call__(self, outcome: Outcome | Conversation) -> Score:
        """The score of a conversation."""
        assert self.weights is not None
        values, breakdown = _scores(self.rewards, as_outcome(outcome))
        return Score(_sum(self.weights, values), breakdown)


@dataclass(frozen=True)
class MultiObjective:
    """Several objectives v₁ … v_k in [0, 1], kept apart and brought down to one number.

        weighted_sum    Σ wᵢ vᵢ / Σ wᵢ
        min             min vᵢ              the worst one counts
        product         Π vᵢ ≤ min vᵢ       each is a condition of all others

    `objectives(outcome)` gives the vector; the breakdown holds it too, by name. `min` and
    `product` see success if any objective does, a sum only if all do.
    """

    rewards: Sequence[Reward]
    """The objectives; at least one, each name once."""
    weights: Sequence[float] | None = None
    """For `weighted_sum` alone; equal where None."""
    method: str = "weighted_sum"
    name: str = "multi_objective"

    def __post_init__(self) -> None:
        check_name(self.name)
        if self.method not in METHODS:
            raise InvalidConfiguration(
                f"method={self.method!r} is not one of {', '.join(METHODS)}; choose one."
            )
        object.__setattr__(self, "rewards", _checked(self.rewards))
        if self.method == "weighted_sum":
            object.__setattr__(self, "weights", _normalised(self.weights, len(self.rewards)))
        elif self.weights is not None:
            raise InvalidConfiguration(
                f"weights={self.weights!r} came with method={self.method!r}, which has none; "
                "leave them out, or take weighted_sum."
            )

    @property
    def sees_success(self) -> bool:
        """Whether all that is paid needs a solved task."""
        if self.method != "weighted_sum":
            return any(reward.sees_success for reward in self.rewards)
        assert self.weights is not None
        pairs = zip(self.rewards, self.weights, strict=True)
        return all(reward.sees_success for reward, weight in pairs if weight)

    def objectives(self, outcome: Outcome | Conversation) -> tuple[float, ...]:
        """The vector of values, in the order of `rewards`.  # (k,)"""
        return tuple(_scores(self.rewards, as_outcome(outcome))[0])

    def __call__(self, outcome: Outcome | Conversation) -> Score:
        """The score of a conversation."""
        values, breakdown = _scores(self.rewards, as_outcome(outcome))
        if self.method == "min":
            return Score(min(values), breakdown)
        if self.method == "product":
            return Score(math.prod(values), breakdown)
        assert self.weights is not None
        return Score(_sum(self.weights, values), breakdown)


# -- one for each domain ---------------------------------------------------------------------------


def _style(*weighted: tuple[Reward, float]) -> Composite:
    rewards, weights = zip(*weighted, strict=True)
    return Composite(rewards, weights, name="style")


def _on_top(task: float, share: float, style: Reward, outcome: Outcome) -> Score:
    """task · (share + (1 − share) · style)."""
    values, breakdown = _scores((style,), outcome)
    value = task * (share + (1.0 - share) * values[0])
    return Score(min(1.0, value), {"task": task, **breakdown})


@dataclass(frozen=True, kw_only=True)
class CustomerService:
    """A solved request, and how it was solved.

        value = success · (task_share + (1 − task_share) · style)
        style = (Helpfulness + 2 Conciseness + Engagement + 2 SimilarityAware) / 6

    Not solved is 0, whatever the style: a broken obligation, a wrong record, an untold fact.
    Cannot see partial progress (use `TaskCompletion(partial=...)`), tone, or grammar.
    """

    task_share: float = 0.7
    """What a solved conversation is worth at least, in [0, 1]."""
    style: Reward = field(
        default=_style(
            (Helpfulness(), 1.0),
            (Conciseness(), 2.0),
            (Engagement(), 1.0),
            (SimilarityAware(), 2.0),
        )
    )
    """Any reward; its name leads its lines of the breakdown."""
    name: str = "customer_service"
    sees_success: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_name(self.name)
        check_share("task_share", self.task_share)
        check_reward(self.style)

    def __call__(self, outcome: Outcome | Conversation) -> Score:
        """The score of a conversation."""
        outcome = as_outcome(outcome)
        return _on_top(float(outcome.success), self.task_share, self.style, outcome)


@dataclass(frozen=True, kw_only=True)
class TechnicalSupport:
    """A fault handled rightly, best of all resolved, and how.

        value = success · r · (task_share + (1 − task_share) · style)
        r = unresolved_share where `info["resolved"]` is reported and False, else 1
        style = (2 Correctness + Helpfulness + Conciseness + 2 SimilarityAware) / 6

    A right escalation succeeds without resolving anything; `unresolved_share` says what it is
    worth. `resolved` alone pays nothing: a fault fixed against the rules is no success. Where
    the environment reports no `resolved`, success is all there is.
    Cannot see whether an instruction was understood, or why a step was skipped.
    """

    task_share: float = 0.7
    """What a solved conversation is worth at least, before r, in [0, 1]."""
    unresolved_share: float = 0.5
    """What a success that left the fault as it was keeps, in [0, 1]."""
    style: Reward = field(
        default=_style(
            (Correctness(), 2.0),
            (Helpfulness(), 1.0),
            (Conciseness(words_per_reply=40.0), 1.0),
            (SimilarityAware(), 2.0),
        )
    )
    """Any reward; its name leads its lines of the breakdown."""
    name: str = "technical_support"
    sees_success: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_name(self.name)
        check_share("task_share", self.task_share)
        check_share("unresolved_share", self.unresolved_share)
        check_reward(self.style)

    def __call__(self, outcome: Outcome | Conversation) -> Score:
        """The score of a conversation."""
        outcome = as_outcome(outcome)
        task = outcome.success * (self.unresolved_share if outcome.resolved is False else 1.0)
        return _on_top(task, self.task_share, self.style, outcome)


@dataclass(frozen=True, kw_only=True)
class SalesAssistant:
    """A customer served rightly, best of all with a booking, and how.

        value = success · b · (task_share + (1 − task_share) · style)
        b = no_sale_share where `info["booked"]` is reported and False, else 1
        style = (2 Correctness + Helpfulness + Engagement + SimilarityAware) / 5

    Not selling what does not fit succeeds without a booking; `no_sale_share` says what it is
    worth. A booking against the rules is no success and worth 0. Words never count as a sale.
    Where the environment reports no `booked`, success is all there is.
    Cannot see margin, lifetime value, or pressure put on the customer in words.
    """

    task_share: float = 0.7
    """What a solved conversation is worth at least, before b, in [0, 1]."""
    no_sale_share: float = 0.5
    """What a success without a booking keeps, in [0, 1]."""
    style: Reward = field(
        default=_style(
            (Correctness(), 2.0),
            (Helpfulness(), 1.0),
            (Engagement(), 1.0),
            (SimilarityAware(), 1.0),
        )
    )
    """Any reward; its name leads its lines of the breakdown."""
    name: str = "sales_assistant"
    sees_success: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_name(self.name)
        check_share("task_share", self.task_share)
        check_share("no_sale_share", self.no_sale_share)
        check_reward(self.style)

    def __call__(self, outcome: Outcome | Conversation) -> Score:
        """The score of a conversation."""
        outcome = as_outcome(outcome)
        task = outcome.success * (self.no_sale_share if outcome.booked is False else 1.0)
        return _on_top(task, self.task_share, self.style, outcome)
