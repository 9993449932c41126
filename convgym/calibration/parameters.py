"""The 36 named numbers of a user, each with its prior, its posterior and how well a log tells it.

    opening      greet_only open_slot answer extra_slot vague wrong_slot
    initiative   question off_topic second_goal change_mind unavailable_request confirm_back
    repair       correct reject_offer repeat_request
    affect       patience_mu … empathy_relief                 (`convgym.calibration.affect`)
    social       ack thank bye politeness
    style        len_mu len_sd len_per_slot len_fr verb_sd short_answer typo formality emphasis

A probability counts how often something happened of how often it could: with a Beta prior of mean m
and strength s, p | k, n ~ Beta(s m + k', s (1 − m) + n' − k'), where k' and n' are k and n divided
by the design effect (turns of one user are alike; Kish, 1965). Lengths are a regression

    ln(1 + words) = len_mu + verbosity of the user + len_per_slot · slots + len_fr · failures + ε

`thank` and `bye` are of those who close with one or the other; who ends with neither has left.
`identifiable` is posterior sd / prior sd: near 0 the log tells, near 1 it says nothing and the
number is the prior's. Nothing in a log tells a typo from a name: `typo` is the prior's, always.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from convgym.calibration.affect import NAMES as AFFECT
from convgym.calibration.affect import affect_posterior
from convgym.calibration.roles import Prompt, Roles
from convgym.calibration.signatures import ASKED, LoggedTurn, LoggedUser
from convgym.data import cues
from convgym.errors import MissingExtra

STRENGTH = 4.0
"""Observations that the prior of a probability is worth."""
SHORT = 2
"""Words of a short answer at most; such answers are no part of the regression of lengths."""
_SHOUTED = re.compile(r"\b[A-Z]{3,}\b")
_POLITE = ("please", "kindly", "could you", "would you")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One number before any log."""

    name: str
    block: str
    link: str
    """logit (a probability), log (above 0) or identity."""
    mean: float
    """The prior's, on the number's own scale; its median where the link is log."""
    sd: float
    """The prior's, on the scale of the link; a probability's follows from `STRENGTH`."""
    low: float
    high: float
    """Between which it lies: the unit of an error."""


def _rates(block: str, **means: float) -> list[Parameter]:
    return [
        Parameter(name, block, "logit", m, math.sqrt(m * (1 - m) / (STRENGTH + 1)), 0.0, 1.0)
        for name, m in means.items()
    ]


PARAMETERS: tuple[Parameter, ...] = (
    *_rates(
        "opening", greet_only=0.25, open_slot=0.5, answer=0.7, extra_slot=0.25, vague=0.08,
        wrong_slot=0.08,
    ),
    *_rates(
        "initiative", question=0.2, off_topic=0.05, second_goal=0.2, change_mind=0.05,
        unavailable_request=0.05, confirm_back=0.08,
    ),
    *_rates("repair", correct=0.1, reject_offer=0.2, repeat_request=0.3),
    Parameter("patience_mu", "affect", "identity", 1.2, 0.5, 0.0, 2.5),
    Parameter("patience_sd", "affect", "log", 0.4, 0.4, 0.0, 1.5),
    Parameter("fr_gain_fail", "affect", "log", 1.0, 0.4, 0.0, 3.0),
    Parameter("fr_gain_repeat", "affect", "log", 0.6, 0.4, 0.0, 2.0),
    Parameter("fr_decay", "affect", "logit", 0.7, 0.6, 0.0, 1.0),
    Parameter("quit_fr", "affect", "log", 1.2, 0.4, 0.0, 4.0),
    Parameter("escalate_fr", "affect", "log", 1.2, 0.4, 0.0, 4.0),
    Parameter("empathy_relief", "affect", "log", 0.3, 0.4, 0.0, 1.5),
    *_rates("social", ack=0.15, thank=0.6, bye=0.3, politeness=0.15),
    Parameter("len_mu", "style", "identity", math.log(8.0), 0.7, 0.5, 3.5),
    Parameter("len_sd", "style", "log", 0.6, 0.5, 0.0, 1.5),
    Parameter("len_per_slot", "style", "identity", 0.1, 0.2, -0.3, 0.7),
    Parameter("len_fr", "style", "identity", 0.0, 0.15, -0.5, 0.5),
    Parameter("verb_sd", "style", "log", 0.3, 0.5, 0.0, 1.0),
    *_rates("style", short_answer=0.3, typo=0.05, formality=0.5, emphasis=0.05),
)  # fmt: skip
PARAMETER = {parameter.name: parameter for parameter in PARAMETERS}


@dataclass(frozen=True, slots=True)
class Posterior:
    """One number after a log."""

    mean: float
    sd: float
    """On the scale of the link for `log`, and of affect's `logit`; else the number's own."""
    low: float
    high: float
    """95 %."""
    identifiable: float
    """Posterior sd / prior sd; 1 where the log says nothing."""
    n: float
    """Chances it was counted over, after the design effect; 0 for none."""

    def to_dict(self) -> dict[str, float]:
        """Plain JSON."""
        return asdict(self)


def fit_parameters(log: Sequence[LoggedUser]) -> dict[str, Posterior]:
    """All 36, by name, in their order; needs scipy."""
    roles = Roles(log)
    counts = {p.name: np.zeros((len(log), 2)) for p in PARAMETERS if p.name not in AFFECT}
    lengths: list[tuple[int, float, int, int]] = []
    events = []
    for number, user in enumerate(log):
        events.append(_counted(number, user, roles, counts, lengths))
    found = {
        p.name: _rate(p, counts[p.name])
        for p in PARAMETERS
        if p.link == "logit" and p.name not in AFFECT
    }
    found |= _affect(events) | _lengths(lengths)
    return {p.name: found[p.name] for p in PARAMETERS}


def _counted(
    number: int,
    user: LoggedUser,
    roles: Roles,
    counts: Mapping[str, np.ndarray],
    lengths: list[tuple[int, float, int, int]],
) -> np.ndarray:
    """Add one user's counts and lengths; gives what affect needs.  (turns, 5)"""

    def chance(name: str, happened: bool) -> None:
        counts[name][number] += happened, 1

    said = [(turn, roles.of(turn)) for turn in user.turns]
    chance("greet_only", said[0][1] == {"greet"} and not user.turns[0].slots)
    business = [turn for turn, had in said if had != {"greet"}]
    if business:
        opening = business[0]
        chance("open_slot", bool(_told(opening) or cues.DIGIT.search(opening.text)))
    chance("second_goal", any("second_goal" in had for _, had in said))
    closing = said[-1][1] & {"thank", "bye"}
    if closing:
        chance("thank", "thank" in closing)
        chance("bye", "bye" in closing)
    values: dict[str, str] = {}
    events, failures, before = np.zeros((len(said), 5), dtype=bool), 0, None
    for place, (turn, had) in enumerate(said):
        prompt = Prompt(turn.heard, before)
        before = turn.heard
        failures += prompt.failed
        told, words = _told(turn), len(cues.words_of(turn.text))
        if words > SHORT or not prompt.asked:
            lengths.append((number, math.log1p(words), len(told), failures))
        if place == 0 and had == {"greet"}:
            continue
        for name in ("question", "off_topic", "change_mind", "confirm_back", "ack"):
            chance(name, name in had)
        chance("unavailable_request", "unavailable" in had)
        lowered = turn.text.lower()
        if words > SHORT:
            chance("politeness", any(word in lowered for word in _POLITE))
        chance("formality", turn.text[:1].isupper() and turn.text.rstrip()[-1] in ".!?")
        chance("emphasis", "!" in turn.text or _SHOUTED.search(turn.text) is not None)
        if place:
            chance("correct", "correct" in had)
        if prompt.asked:
            asked = set(turn.heard.asked)
            names = {slot.rpartition("-")[2] for slot in told}
            answered = bool(asked & names) if asked else not had & _EVASIVE
            chance("answer", answered)
            chance("vague", "vague" in had)
            chance("short_answer", words <= SHORT)
            if answered and told:
                chance("extra_slot", len(told) > 1)
            chance("reject_offer", "reject" in had)
        if prompt.failed:
            chance("repeat_request", "repeat" in had)
        for slot, value in turn.values.items():
            if slot in values:
                chance("wrong_slot", values[slot].casefold() != value.casefold())
            values[slot] = value
        leaves = place == len(said) - 1 and not had & {"thank", "bye"}
        events[place] = prompt.failed, prompt.repeated, prompt.feels, "escalate" in had, leaves
    return events


_EVASIVE = {"question", "off_topic", "vague", "repeat", "escalate", "change_mind", "second_goal"}


def _told(turn: LoggedTurn) -> list[str]:
    return [slot for slot in turn.slots if not slot.endswith(ASKED)]


def _rate(parameter: Parameter, counts: np.ndarray) -> Posterior:
    """counts: of each conversation how often it happened, and could.  (conversations, 2)"""
    try:
        from scipy.stats import beta
    except ImportError as error:
        raise MissingExtra("scipy", "calibration") from error
    happened, n = counts.sum(axis=0)
    effect = 1.0
    if n:
        share = (happened + 0.5) / (n + 1)
        spread = np.square(counts[:, 0] - share * counts[:, 1]).sum()
        effect = max(1.0, spread / (n * share * (1 - share)))
    a = STRENGTH * parameter.mean + happened / effect
    b = STRENGTH * (1 - parameter.mean) + (n - happened) / effect
    after = beta(a, b)
    low, high = after.ppf([0.025, 0.975])
    sd = float(after.std())
    mean, chances = float(a / (a + b)), float(n / effect)
    return Posterior(mean, sd, float(low), float(high), sd / parameter.sd, chances)


def _affect(events: Sequence[np.ndarray]) -> dict[str, Posterior]:
    """The affect block; the prior where no agent ever failed or repeated itself."""
    priors = [PARAMETER[name] for name in AFFECT]
    mean = np.array([_linked(p.link, p.mean) for p in priors])
    sd = np.array([p.sd for p in priors])
    troubled = sum(bool(rows[:, :2].any()) for rows in events)
    mode, spread = affect_posterior(events, mean, sd) if troubled else (mean, sd)
    return {
        p.name: Posterior(
            _unlinked(p.link, m), s, _unlinked(p.link, m - 1.96 * s),
            _unlinked(p.link, m + 1.96 * s), s / p.sd, troubled,
        )
        for p, m, s in zip(priors, mode.tolist(), spread.tolist(), strict=True)
    }  # fmt: skip


def _lengths(seen: Sequence[tuple[int, float, int, int]]) -> dict[str, Posterior]:
    """Lengths of turns by slots and failures, with users as clusters (sandwich variance)."""
    columns = [np.array(column, dtype=float) for column in zip(*seen, strict=True)]
    number, length, slots, failures = columns if seen else [np.zeros(0)] * 4
    _, owner = np.unique(number, return_inverse=True)
    counts = np.bincount(owner)
    x = np.stack([np.ones_like(slots), slots, failures], axis=1)
    plain = np.linalg.pinv(x.T @ x)
    weights = plain @ x.T @ length
    residual = length - x @ weights
    scores = np.zeros((len(counts), 3))
    np.add.at(scores, owner, x * residual[:, None])
    robust = plain @ scores.T @ scores @ plain
    found = {}
    for place, name in enumerate(("len_mu", "len_per_slot", "len_fr")):
        told = bool(robust[place, place] > 0 and (place == 0 or np.ptp(x[:, place]) > 0))
        precision = 1 / robust[place, place] if told else 0.0
        found[name] = _combined(
            PARAMETER[name], float(weights[place]), float(precision), len(seen) * told
        )
    means = np.bincount(owner, residual) / counts
    freedom = max(1, len(seen) - len(counts))
    within = float(np.square(residual - means[owner]).sum()) / freedom
    among = float(np.var(means)) if len(means) else 0.0
    between = max(among - within * float(np.mean(1 / counts)) if len(counts) else 0.0, 1e-4)
    # Of a logarithm of an sd, by the delta method: noise of the means blurs what is between.
    blur = (among / between) ** 2 / (2 * max(1, len(counts)))
    square = float(np.mean(residual**2)) if seen else 0.0
    tail = float(np.mean(residual**4)) / square**2 if square else 3.0
    spread = max(tail - 1, 0.1) / (4 * freedom)  # of ln sd, by the kurtosis
    found["len_sd"] = _combined(
        PARAMETER["len_sd"], math.log(max(within, 1e-4)) / 2, 1 / spread if seen else 0.0, len(seen)
    )
    found["verb_sd"] = _combined(
        PARAMETER["verb_sd"], math.log(between) / 2, 1 / blur if seen else 0.0, len(counts)
    )
    return found


def _combined(prior: Parameter, value: float, precision: float, n: float) -> Posterior:
    """A normal posterior on the scale of the link, from an estimate there and its 1 / variance."""
    own = prior.sd**-2
    mean = (value * precision + _linked(prior.link, prior.mean) * own) / (precision + own)
    sd = 1 / math.sqrt(precision + own)
    low, high = (_unlinked(prior.link, mean + side * 1.96 * sd) for side in (-1, 1))
    return Posterior(_unlinked(prior.link, mean), sd, low, high, sd / prior.sd, n)


def _linked(link: str, value: float) -> float:
    if link == "log":
        return math.log(value)
    return math.log(value / (1 - value)) if link == "logit" else value


def _unlinked(link: str, value: float) -> float:
    if link == "log":
        return math.exp(value)
    return 1 / (1 + math.exp(-value)) if link == "logit" else value
