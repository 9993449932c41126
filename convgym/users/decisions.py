"""Decision points: every choice of the user is a logged draw from a logistic model.

    p(yes | trait) = σ( logit(base) + slope · (level − 2) )
    p(leave | patience, bother) = 0                              for bother < GRACE
                                  σ( -2 + 0.9·(bother − GRACE) − 0.8·(patience − 2) )  otherwise

Each probability is compiled once to an integer threshold with its two log-probabilities
beside it; in a conversation integers are compared and the logarithms looked up. The idea
of trainable random decision points is Keizer et al. (SIGDIAL 2010).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from convgym.engine.keys import threshold
from convgym.errors import InvalidConfiguration
from convgym.users.persona import LEVELS

GRACE = 4
"""Bother below this never makes anybody leave: an agent without fault keeps its user."""
MOST_BOTHER = 20

# The decision points. The order numbers the draws of a turn: append, never reorder.
(
    GREET_ONLY,
    FRONT_LOAD,
    VOLUNTEER,
    MISREMEMBER,
    PUSH_AGAIN,
    SHOW_FRUSTRATION,
    LEAVE,
    CLOSE_NOW,
    THANK,
    PROTEST,
) = range(10)


@dataclass(frozen=True, slots=True)
class DecisionPoint:
    """A yes/no choice and the trait that tilts it."""

    name: str
    trait: str
    base: float
    """Probability of yes at trait level 2."""
    slope: float
    """Added to the logit per trait level."""


POINTS: tuple[DecisionPoint, ...] = (
    DecisionPoint("greet_only", "openness", 0.25, -0.5),
    DecisionPoint("front_load", "openness", 0.40, 0.6),
    DecisionPoint("volunteer", "openness", 0.25, 0.6),
    DecisionPoint("misremember", "accuracy", 0.08, -0.6),
    DecisionPoint("push_again", "assertiveness", 0.40, 0.7),
    DecisionPoint("show_frustration", "patience", 0.40, -0.5),
    DecisionPoint("leave", "patience", 0.12, -0.8),
    DecisionPoint("close_now", "patience", 0.60, -0.3),
    DecisionPoint("thank", "politeness", 0.70, 0.7),
    DecisionPoint("protest", "assertiveness", 0.80, 0.4),
)

Choice = tuple[int, int, int]
"""(threshold, log p(yes), log p(no)); the logarithms in whole `LOG_UNIT`s, so that their sum
does not depend on the order of addition. What cannot happen has 0: it is never summed."""
LOG_UNIT = 1e-6


def _choice(probability: float) -> Choice:
    compiled = threshold(probability)
    exact = compiled / 2**32
    yes = round(math.log(exact) / LOG_UNIT) if exact > 0 else 0
    no = round(math.log1p(-exact) / LOG_UNIT) if exact < 1 else 0
    return compiled, yes, no


def _sigmoid(logit: float) -> float:
    return 1.0 / (1.0 + math.exp(-logit))


class DecisionModel:
    """Thresholds and log-probabilities of every point at every trait level.

    `base` replaces base probabilities by name, e.g. those counted from logs.
    Raises InvalidConfiguration for an unknown name or a probability outside [0, 1].
    """

    def __init__(self, base: Mapping[str, float] | None = None) -> None:
        base = dict(base or {})
        known = {point.name for point in POINTS}
        for name, probability in base.items():
            if name not in known:
                raise InvalidConfiguration(
                    f"no decision point is called {name!r}; there are {', '.join(sorted(known))}"
                )
            if not 0.0 <= probability <= 1.0:
                raise InvalidConfiguration(
                    f"the probability of {name!r} is {probability}; it must lie in [0, 1]"
                )
        self.table: tuple[tuple[Choice, ...], ...] = tuple(
            self._levels(point, base.get(point.name, point.base)) for point in POINTS
        )
        self.leave: tuple[tuple[Choice, ...], ...] = tuple(
            tuple(self._leave(patience, bother) for bother in range(MOST_BOTHER + 1))
            for patience in range(LEVELS)
        )

    @staticmethod
    def _levels(point: DecisionPoint, probability: float) -> tuple[Choice, ...]:
        bounded = min(max(probability, 1e-4), 1 - 1e-4)
        logit = math.log(bounded / (1 - bounded))
        return tuple(_choice(_sigmoid(logit + point.slope * (k - 2))) for k in range(LEVELS))

    @staticmethod
    def _leave(patience: int, bother: int) -> Choice:
        if bother < GRACE:
            return _choice(0.0)
        return _choice(_sigmoid(-2.0 + 0.9 * (bother - GRACE) - 0.8 * (patience - 2)))
