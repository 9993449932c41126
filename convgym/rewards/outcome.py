"""What a reward reads and what it returns: two frozen values.

    Outcome ── conversation, and the evidence that the environment's `info` carries
       │
       ▼
    a reward ─► Score ── value in [0, 1], breakdown by name

An outcome can be taken at any moment: before the end `ended` is False and nothing is a success.
Knows no reward and no environment; `info` is a plain mapping.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, Protocol

from convgym.conversation import Conversation
from convgym.engine.grading import CLOSING
from convgym.errors import InvalidConfiguration


def is_number(value: object) -> bool:
    """A finite number that is not a bool; numpy's count too."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an int beyond the largest float
        return False


def check_share(name: str, value: object) -> None:
    """Refuse what is no number in [0, 1]."""
    if not (is_number(value) and 0.0 <= value <= 1.0):  # type: ignore[operator]
        raise InvalidConfiguration(f"{name}={value!r} is not a number in [0, 1]; give one.")


def check_name(value: object) -> None:
    """Refuse a name that could not be a key of a breakdown."""
    if not (isinstance(value, str) and value):
        raise InvalidConfiguration(
            f"name={value!r} is no name of a reward; give a str that is not empty."
        )


@dataclass(frozen=True, slots=True)
class Score:
    """What a conversation is worth to one reward."""

    value: float
    """In [0, 1]."""
    breakdown: dict[str, float] = field(default_factory=dict)
    """The numbers that the value was made of, by name."""

    def __post_init__(self) -> None:
        check_share("value", self.value)
        object.__setattr__(self, "value", float(self.value))

    def __float__(self) -> float:
        return self.value


@dataclass(frozen=True, slots=True)
class Outcome:
    """A conversation so far and what is known about it."""

    conversation: Conversation
    ended: bool = False
    """Over: by the task, or cut off from outside."""
    truncated: bool = False
    """Cut off from outside, so that nothing was earned."""
    success: bool = False
    """The task was solved; only ever True of a conversation that ended and was not cut off."""
    progress: float = 0.0
    """Evidence of the grading so far, `info["milestones"]`: 0 until the end unless the
    environment shows progress earlier (`reward="milestones"` or `privileged=True`). Of several
    requests the mean."""
    violations: tuple[str, ...] = ()
    """Broken obligations by name."""
    errors: int = 0
    """Malformed and illegal calls."""
    turn: int = 0
    """Agent turns so far."""
    oracle_length: int = 0
    """Agent turns the oracle needs; 0 where that is not known (yet)."""
    resolved: bool | None = None
    """`info["resolved"]`: the fault is gone; None where the environment does not say."""
    booked: bool | None = None
    """`info["booked"]`: a quote was booked; None where the environment does not say."""
    paid_graded: float | None = None
    """What the environment itself paid as `reward="graded"`; None where it pays otherwise."""

    def __post_init__(self) -> None:
        if not isinstance(self.conversation, Conversation):
            raise InvalidConfiguration(
                f"an outcome is of a Conversation, but a {type(self.conversation).__name__} came; "
                "build a convgym.conversation.Conversation of its messages."
            )
        if self.truncated and not self.ended:
            raise InvalidConfiguration(
                "truncated=True came with ended=False; a conversation that was cut off has ended, "
                "so give ended=True."
            )
        if self.success and (self.truncated or not self.ended):
            raise InvalidConfiguration(
                "success=True came for a conversation that goes on or was cut off; only one that "
                "ended by itself can have succeeded, so give ended=True and truncated=False."
            )
        check_share("progress", self.progress)
        if self.paid_graded is not None:
            check_share("paid_graded", self.paid_graded)
        for name in ("errors", "turn", "oracle_length"):
            value = getattr(self, name)
            if not (is_number(value) and value >= 0):
                raise InvalidConfiguration(f"{name}={value!r} is not a count; give 0 or more.")

    @property
    def graded(self) -> float:
        """Weighted evidence in [0, 1]: nothing where cut off.

            progress + ¼ success

        An environment made with `reward="graded"` has its own say instead. It knows more: which
        of several requests was seen through, although not all were, and at what price was sold.
        """
        if self.truncated:
            return 0.0
        if self.paid_graded is not None:
            return self.paid_graded
        return min(1.0, self.progress + CLOSING * self.success)

    @classmethod
    def of_step(
        cls,
        conversation: Conversation,
        info: Mapping[str, Any],
        terminated: bool = False,
        truncated: bool = False,
    ) -> Outcome:
        """The outcome after one `reset` or `step`; a step that ends both ways was not cut off."""
        truncated = bool(truncated and not terminated)
        ended = bool(terminated or truncated)
        return cls(
            conversation,
            ended=ended,
            truncated=truncated,
            success=bool(info.get("success", False)) and ended and not truncated,
            progress=min(1.0, max(0.0, float(info.get("milestones", 0.0)))),
            violations=tuple(str(info.get("violations", "")).split()),
            errors=int(info.get("errors", 0)),
            turn=int(info.get("turn", 0)),
            oracle_length=int(info.get("oracle_length", 0)),
            resolved=bool(info["resolved"]) if "resolved" in info else None,
            booked=bool(info["booked"]) if "booked" in info else None,
            paid_graded=_paid_graded(info) if ended and not truncated else None,
        )

    @classmethod
    def of_log(cls, conversation: Conversation) -> Outcome:
        """A logged conversation: it has ended; solved where `metadata["success"]` is True.

        A log holds no evidence of grading, so `progress` is that of its success. What the
        simulator writes into the metadata is read: violations, errors, truncated, oracle_length.
        """
        noted = conversation.metadata
        success = noted.get("success") is True
        return cls(
            conversation,
            ended=True,
            truncated=noted.get("truncated") is True and not success,
            success=success,
            progress=1.0 - CLOSING if success else 0.0,
            violations=tuple(str(noted.get("violations") or "").split()),
            errors=_count(noted.get("errors")),
            turn=sum(1 for _ in conversation.said_by("assistant")),
            oracle_length=_count(noted.get("oracle_length")),
        )


def _paid_graded(info: Mapping[str, Any]) -> float | None:
    """The graded evidence among the reward's terms of a last step, if it is there."""
    try:
        came = json.loads(str(info.get("reward_terms", "{}"))).get("graded")
    except (ValueError, AttributeError):
        return None
    return min(1.0, max(0.0, float(came))) if is_number(came) else None


def _count(came: object) -> int:
    """A count of a log's metadata; 0 where there is none."""
    if isinstance(came, bool) or not isinstance(came, int):
        return 0
    return max(came, 0)


class Reward(Protocol):
    """A named function from an outcome, or a logged conversation, to a score."""

    @property
    def name(self) -> str:
        """Its key in a breakdown."""

    @property
    def sees_success(self) -> bool:
        """True where a conversation that solves nothing is worth about nothing."""

    def __call__(self, outcome: Outcome | Conversation) -> Score:
        """The score of a conversation."""


def as_outcome(came: Outcome | Conversation) -> Outcome:
    """An outcome as it is, a conversation as a log."""
    if isinstance(came, Outcome):
        return came
    if isinstance(came, Conversation):
        return Outcome.of_log(came)
    raise InvalidConfiguration(
        f"a reward scores an Outcome or a Conversation, but a {type(came).__name__} came; "
        "build one, for instance with Outcome.of_step(conversation, info)."
    )


def check_reward(came: Any) -> None:
    """Refuse what does not look like a reward."""
    looks = callable(came) and not isinstance(came, type)
    if not (looks and hasattr(came, "name") and hasattr(came, "sees_success")):
        shown = getattr(came, "__name__", type(came).__name__)
        raise InvalidConfiguration(
            f"{shown} is not a reward object; make one such as TaskCompletion(), or put "
            "@reward_function above a function of your own."
        )
    check_name(came.name)


def terms_json(terms: Mapping[str, float]) -> str:
    """Terms as `info["reward_terms"]` holds them."""
    return json.dumps({name: round(float(value), 9) for name, value in terms.items()})
