"""The 36 named numbers of a user, each with its prior, its posterior and how well a log tells it.

    opening      greet_only open_slot answer extra_slot vague wrong_slot
    initiative   question off_topic second_goal change_mind unavailable_request confirm_back
    repair       correct reject_offer repeat_request
    affect       patience_mu … empathy_relief                 (`convgym.calibration.affect`)
    social       ack thank bye politeness
    style        len_mu len_sd len_per_slot len_fr verb_sd short_answer typo formality emphasis

A probability counts how often something happened of how often it could: with a Beta prior of mean m
and strength s, p | k, n ~ Beta(s m + k', s (1 − m) + n' − k'), where k' and n' are k and n divided
by the design effect (turns of one user are alike; Kish, 1965). What no label names is read off the
words, with the misreading that this brings (`convgym.calibration.misreading`); whether a question
was answered no cue tells, so without slots in the labels `answer` is the prior's, as `typo` is
always, for nothing in a log tells a typo from a name. Lengths: `convgym.calibration.lengths`.

`thank` and `bye` are of those who close with one or the other; who ends with neither has left.
`identifiable` is posterior sd / prior sd: near 0 the log tells, near 1 it says nothing and the
number is the prior's.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from convgym.calibration.affect import NAMES as AFFECT
from convgym.calibration.affect import affect_posterior
from convgym.calibration.lengths import NAMES as LENGTHS
from convgym.calibration.lengths import SHORT, length_posterior
from convgym.calibration.misreading import UNREAD, WELL_READ, rate_posterior
from convgym.calibration.roles import Roles
from convgym.calibration.signatures import ASKED, LoggedTurn, LoggedUser
from convgym.calibration.turns import slot_name
from convgym.data import cues
from convgym.errors import MissingExtra

TEMPER = 0.5
"""Of what a log tells of affect: failures and empathy are read off the agent's words, whatever is
labelled, and a likelihood that is known to be a little wrong counts for less (Miller & Dunson,
2019, doi:10.1080/01621459.2018.1469995)."""
STRENGTH = 4.0
"""Observations that the prior of a probability is worth."""
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
    """On the scale of the link for `log`, and for `logit` in affect and of `short_answer`; else the
    number's own."""
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


def fit_parameters(log: Sequence[LoggedUser], labelled: bool = True) -> dict[str, Posterior]:
    """All 36, by name, in their order; needs scipy.

    labelled: whether the turns' acts are the log's own, not read off their words.
    """
    roles = Roles(log, labelled)
    slots_labelled = any(turn.slots for user in log for turn in user.turns)
    counts = {name: np.zeros((len(log), 2)) for name in _RATES}
    turns: list[tuple[int, int, bool, int, int]] = []
    events = [
        _counted(number, user, roles, slots_labelled, counts, turns)
        for number, user in enumerate(log)
    ]
    certain = {
        name: _ROLE_OF.get(name, name) in roles.labelled or name in _EXACT for name in _RATES
    }
    certain["open_slot"] = slots_labelled
    found = {name: _rate(PARAMETER[name], counts[name], certain[name]) for name in _RATES}
    found |= _affect(events, "escalate" in roles.labelled, {"thank", "bye"} <= roles.labelled)
    found |= _lengths(turns, slots_labelled, roles.failures_labelled)
    return {p.name: found[p.name] for p in PARAMETERS}


_RATES = tuple(
    p.name for p in PARAMETERS if p.link == "logit" and p.name not in (*AFFECT, *LENGTHS)
)
_ROLE_OF = {
    "greet_only": "greet",
    "unavailable_request": "unavailable",
    "reject_offer": "reject",
    "repeat_request": "repeat",
}
_EXACT = {"answer", "extra_slot", "wrong_slot", "formality", "emphasis", "typo"}
"""Counted from labels or marks alone."""


def _counted(
    number: int,
    user: LoggedUser,
    roles: Roles,
    slots_labelled: bool,
    counts: Mapping[str, np.ndarray],
    turns: list[tuple[int, int, bool, int, int]],
) -> np.ndarray:
    """Add one user's counts and turns; gives what affect needs.  (turns, 5)"""

    def chance(name: str, happened: bool) -> None:
        counts[name][number] += happened, 1

    said = [(turn, roles.of(turn)) for turn in user.turns]
    chance("greet_only", said[0][1] == {"greet"} and not user.turns[0].slots)
    business = [turn for turn, had in said if had != {"greet"}]
    if business:
        opening = business[0]
        digits = not slots_labelled and cues.DIGIT.search(opening.text) is not None
        chance("open_slot", bool(told_slots(opening)) or digits)
    chance("second_goal", any("second_goal" in had for _, had in said))
    closing = said[-1][1] & {"thank", "bye"}
    if closing:
        chance("thank", "thank" in closing)
        chance("bye", "bye" in closing)
    values: dict[str, str] = {}
    events, failures, before = np.zeros((len(said), 5), dtype=bool), 0, None
    for place, (turn, had) in enumerate(said):
        prompt = roles.prompt(turn.heard, before)
        before = turn.heard
        failures += prompt.failed
        told, words = told_slots(turn), len(cues.words_of(turn.text))
        turns.append((number, words, prompt.asked, len(told), failures))
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
            chance("vague", "vague" in had)
            chance("reject_offer", "reject" in had)
            asked = set(turn.heard.asked)
            answered = asked & {slot_name(slot) for slot in told}
            if asked and slots_labelled:
                chance("answer", bool(answered))
            if answered:
                chance("extra_slot", len(told) > 1)
        if prompt.failed:
            chance("repeat_request", "repeat" in had)
        for slot, value in turn.values.items():
            if slot in values:
                chance("wrong_slot", values[slot].casefold() != value.casefold())
            values[slot] = value
        leaves = place == len(said) - 1 and not had & {"thank", "bye"}
        events[place] = prompt.failed, prompt.repeated, prompt.feels, "escalate" in had, leaves
    return events


def told_slots(turn: LoggedTurn) -> list[str]:
    """Slots that a turn tells, not those that it asks for."""
    return [slot for slot in turn.slots if not slot.endswith(ASKED)]


def _rate(parameter: Parameter, counts: np.ndarray, certain: bool) -> Posterior:
    """counts: of each conversation how often it happened, and could.  (conversations, 2)

    certain: whether what was counted is what happened; else it was read off words.
    """
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
    happened, n = happened / effect, n / effect
    prior = STRENGTH * parameter.mean, STRENGTH * (1 - parameter.mean)
    if certain:
        after = beta(prior[0] + happened, prior[1] + n - happened)
        mean, sd = float(after.mean()), float(after.std())
        low, high = map(float, after.ppf([0.025, 0.975]))
    else:
        role = _ROLE_OF.get(parameter.name, parameter.name)
        unread = 0.0 if role in WELL_READ else UNREAD
        mean, sd, low, high = rate_posterior(prior, happened, n, unread)
    return Posterior(mean, sd, low, high, min(1.0, sd / parameter.sd), float(n))


def _affect(
    events: Sequence[np.ndarray], escalations_labelled: bool, closings_labelled: bool
) -> dict[str, Posterior]:
    """The affect block; the prior where no agent ever failed or repeated itself."""
    troubled = sum(bool(rows[:, :2].any()) for rows in events)
    mean, sd = _priors(AFFECT)
    mode, spread = mean, sd
    if troubled:
        known = escalations_labelled, closings_labelled
        mode, spread = affect_posterior(events, mean, sd, *known)
        spread = 1 / np.sqrt((1 - TEMPER) * sd**-2 + TEMPER * spread**-2)
    return _normal(AFFECT, mode, spread, troubled)


def _lengths(
    turns: Sequence[tuple[int, int, bool, int, int]], *labelled: bool
) -> dict[str, Posterior]:
    """How long turns are; `labelled`: whether slots are, and agents' failures."""
    mean, sd = _priors(LENGTHS)
    mode, spread = length_posterior(turns, mean, sd, *labelled) if turns else (mean, sd)
    return _normal(LENGTHS, mode, spread, len(turns))


def _priors(names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard deviations on the scales of the links."""
    priors = [PARAMETER[name] for name in names]
    means = [_linked(p.link, p.mean) for p in priors]
    return np.array(means), np.array([_link_sd(p) for p in priors])


def _link_sd(p: Parameter) -> float:
    """The prior's; of a probability that is counted elsewhere, by the delta method."""
    counted = p.link == "logit" and p.block != "affect"
    return p.sd / (p.mean * (1 - p.mean)) if counted else p.sd


def _normal(
    names: Sequence[str], mode: np.ndarray, spread: np.ndarray, n: float
) -> dict[str, Posterior]:
    """Posteriors that are normal on the scales of the links."""
    found = {}
    for name, m, s in zip(names, mode.tolist(), spread.tolist(), strict=True):
        p = PARAMETER[name]
        mean, low, high = (_unlinked(p.link, m + side * 1.96 * s) for side in (0, -1, 1))
        found[name] = Posterior(mean, s, low, high, s / _link_sd(p), n)
    return found


def _linked(link: str, value: float) -> float:
    if link == "log":
        return math.log(value)
    return math.log(value / (1 - value)) if link == "logit" else value


def _unlinked(link: str, value: float) -> float:
    if link == "log":
        return math.exp(value)
    return 1 / (1 + math.exp(-value)) if link == "logit" else value
