"""Decision points: every choice of the user is a logged draw from a logistic model.

    logit p(yes | persona, x) = logit base + Σ_k B_k (trait_k − ½) + w · x

x is what the situation adds, e.g. how bothered the user is. Logits are added in integers of
`TILT_UNIT` and looked up in one table of σ, which gives an integer threshold with its two
log-probabilities beside it: in a conversation integers are compared and the logarithms looked
up, so a batch of users decides what single ones would, bit for bit. The trainable random
decision points are Keizer et al.'s (SIGDIAL 2010); the persona as a tilt of logits is ours.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from convgym.engine.keys import threshold
from convgym.errors import InvalidConfiguration
from convgym.users.persona import HUNDRED, TRAITS, Levels

GRACE = 4
"""Bother below this never makes anybody leave: an agent without fault keeps its user."""
MOST_BOTHER = 20

# The decision points. The order numbers the draws of a turn: append, never reorder.
(
    GREET_ONLY,
    GREET,
    FRONT_LOAD,
    VOLUNTEER,
    ANSWER_TOO,
    MISREMEMBER,
    LOOK_UP,
    FALSE_CLAIM,
    ASK_WHY,
    ASK_MEANING,
    DOUBT,
    ASK_NEXT,
    PUSH_AGAIN,
    ACCEPT,
    PROTEST,
    SHOW_FRUSTRATION,
    LEAVE,
    CLOSE_NOW,
    THANK,
    BYE,
    TANGENT,
    RAISE_NEXT,
    SKIP_STEP,
    CLAIM_STEP,
    MISOBSERVE,
    CANNOT_TELL,
    HAGGLE,
    OBJECT,
    TAKE_EXTRA,
) = range(29)
STRIDE = 32
"""Draw number of a point that is passed more than once in a turn: point + STRIDE × which."""


@dataclass(frozen=True, slots=True)
class DecisionPoint:
    """A yes/no choice and what tilts it."""

    name: str
    base: float
    """Probability of yes when every trait is ½ and the situation adds nothing."""
    tilts: Mapping[str, float] = field(default_factory=dict)
    """B: added to the logit as a trait goes from 0 to 1."""
    bother: float = 0.0
    """Added to the logit per bother above `GRACE`, where the situation counts it."""


POINTS: tuple[DecisionPoint, ...] = (
    DecisionPoint("greet_only", 0.25, {"cooperativeness": -1.6, "verbosity": -0.8}),
    DecisionPoint("greet", 0.65, {"formality": 1.6}),
    DecisionPoint("front_load", 0.40, {"cooperativeness": 3.0}),
    DecisionPoint("volunteer", 0.25, {"cooperativeness": 3.0}),
    DecisionPoint("answer_too", 0.70, {"cooperativeness": 3.0}),
    DecisionPoint("misremember", 0.08, {"accuracy": -4.0}),
    DecisionPoint("look_up", 0.75, {"compliance": 5.0}),
    DecisionPoint("false_claim", 0.40, {"compliance": -2.0}),
    DecisionPoint("ask_why", 0.05, {"scepticism": 4.0}),
    DecisionPoint("ask_meaning", 0.08, {"expertise": -4.5}),
    DecisionPoint("doubt", 0.08, {"scepticism": 4.5}),
    DecisionPoint("ask_next", 0.10, {"curiosity": 4.5}),
    DecisionPoint("push_again", 0.40, {"assertiveness": 4.0}),
    DecisionPoint("accept", 0.85, {"cooperativeness": 1.5, "assertiveness": -2.5}),
    DecisionPoint("protest", 0.80, {"assertiveness": 2.0}),
    DecisionPoint("show_frustration", 0.35, {"patience": -3.0}),
    DecisionPoint("leave", 0.12, {"patience": -4.0}, bother=0.9),
    DecisionPoint("close_now", 0.60, {"patience": -1.5}),
    DecisionPoint("thank", 0.70, {"formality": 2.0, "cooperativeness": 1.0}),
    DecisionPoint("bye", 0.60, {"formality": 2.0}),
    DecisionPoint("tangent", 0.05, {"cooperativeness": -1.5, "verbosity": 2.0}),
    DecisionPoint("raise_next", 0.60, {"assertiveness": 2.0}),
    DecisionPoint("skip_step", 0.08, {"compliance": -4.5}),
    DecisionPoint("claim_step", 0.50, {"compliance": -2.5}),
    DecisionPoint("misobserve", 0.04, {"accuracy": -4.0, "expertise": -1.0}),
    DecisionPoint("cannot_tell", 0.08, {"expertise": -4.5}),
    DecisionPoint("haggle", 0.45, {"assertiveness": 4.0}),
    DecisionPoint("object", 0.30, {"scepticism": 4.0}),
    DecisionPoint("take_extra", 0.40, {"cooperativeness": 2.5}),
)
NUMBER = {point.name: number for number, point in enumerate(POINTS)}

Choice = tuple[int, int, int]
"""(threshold, log p(yes), log p(no)); the logarithms in whole `LOG_UNIT`s, so that their sum
does not depend on the order of addition."""
LOG_UNIT = 1e-6
TILT_UNIT = 10_000
"""Logits are kept in ten-thousandths: a tilt is a whole hundredth times a whole hundredth."""
_STEP = 100
"""Ten-thousandths from one row of the table of σ to the next."""
_REACH = 8 * TILT_UNIT
"""No logit counts as further from 0 than this: no probability is below 0.03 %."""
_HALFWAY = _REACH + _STEP // 2
"""Row of a logit of 0, times `_STEP`, and what rounds to the nearest row."""


def _choice(logit: float) -> Choice:
    compiled = threshold(1.0 / (1.0 + math.exp(-logit)))
    exact = compiled / 2**32
    return (
        compiled,
        round(math.log(exact) / LOG_UNIT),
        round(math.log1p(-exact) / LOG_UNIT),
    )


SIGMOID: tuple[Choice, ...] = tuple(
    _choice(step * _STEP / TILT_UNIT) for step in range(-_REACH // _STEP, _REACH // _STEP + 1)
)
"""σ as choices, by logit in hundredths."""


def row_of(logit: int) -> int:
    """Row of `SIGMOID` nearest to a logit in ten-thousandths."""
    bounded = -_REACH if logit < -_REACH else _REACH if logit > _REACH else logit
    return (bounded + _HALFWAY) // _STEP


class Decision(NamedTuple):
    """One choice as it was made: enough to say how likely it was under other parameters."""

    point: int
    situation: int
    """What the situation added to the logit, in ten-thousandths."""
    yes: bool


PLAIN_DECISIONS: tuple[tuple[Decision, Decision], ...] = tuple(
    (Decision(point, 0, False), Decision(point, 0, True)) for point in range(len(POINTS))
)
"""No and yes at each point where the situation adds nothing."""


class DecisionModel:
    """The logistic models of all points.

    `base` replaces base probabilities by name, e.g. those counted from logs.
    Raises InvalidConfiguration for an unknown name or a probability outside [0, 1].
    """

    def __init__(self, base: Mapping[str, float] | None = None) -> None:
        base = dict(base or {})
        for name, probability in base.items():
            if name not in NUMBER:
                raise InvalidConfiguration(
                    f"no decision point is called {name!r}; there are {', '.join(sorted(NUMBER))}"
                )
            if not 0.0 <= probability <= 1.0:
                raise InvalidConfiguration(
                    f"the probability of {name!r} is {probability}; it must lie in [0, 1]"
                )
        self.base: tuple[int, ...] = tuple(
            _logit(base.get(point.name, point.base)) for point in POINTS
        )
        self.tilts: tuple[tuple[tuple[int, int], ...], ...] = tuple(
            tuple((TRAITS.index(t), round(b * HUNDRED)) for t, b in point.tilts.items())
            for point in POINTS
        )
        self.bother: tuple[int, ...] = tuple(round(p.bother * TILT_UNIT) for p in POINTS)

    def choice(self, point: int, persona: Levels, situation: int = 0) -> Choice:
        """Threshold and log-probabilities of one point for this persona in this situation."""
        logit = self.base[point] + situation
        for trait, slope in self.tilts[point]:
            logit += slope * (persona[trait] - 50)
        if -_REACH < logit < _REACH:  # `row_of`, written out: a user asks in every turn
            return SIGMOID[(logit + _HALFWAY) // _STEP]
        return SIGMOID[row_of(logit)]

    def probability(self, name: str, persona: Levels, situation: int = 0) -> float:
        """p(yes) as it is drawn: the threshold over 2**32."""
        return self.choice(NUMBER[name], persona, situation)[0] / 2**32

    def log_prob(self, decisions: Iterable[Decision], persona: Levels) -> float:
        """Log-likelihood of choices as they were made, in nats.

        With the parameters that made them it equals the sum of the turns' `log_prob`.
        """
        total = 0
        for point, situation, yes in decisions:
            total += self.choice(point, persona, situation)[1 if yes else 2]
        return total * LOG_UNIT


def _logit(probability: float) -> int:
    bounded = min(max(probability, 1e-4), 1 - 1e-4)
    return round(math.log(bounded / (1 - bounded)) * TILT_UNIT)
