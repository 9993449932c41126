"""What a log says of the users of other domains: probabilities and words that an agenda can use.

    parameters ──► rates of decisions   a base such that a population of all personas decides
                                        as often as the log's users
    turns ──────► small talk            by act, as often as it was said
             ├──► carriers              "sure, its {}": what stands around one value, whatever slot
             └──► hand                  capitals, marks, length

What only looks alike is left out: a question for the price of a train is none about one's own case.
Where a log says little of a rate, its parameter is near the prior, and the domain's own base
keeps as much weight as the log leaves uncertain. Knows nothing of environments.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from convgym.calibration.parameters import PARAMETER, Posterior
from convgym.calibration.roles import Roles
from convgym.calibration.signatures import ASKED, Gap, LoggedTurn, LoggedUser
from convgym.calibration.turns import slot_name
from convgym.conversation import Message
from convgym.data import cues
from convgym.language.harvested_words import MARKS, Hand, HarvestedWords, spread
from convgym.users.decisions import NUMBER, POINTS, DecisionPoint
from convgym.users.fit import SMALL_TALK
from convgym.users.fitted_user import FittedUser

SAME = {
    "greet_only": "greet_only",
    "front_load": "open_slot",
    "volunteer": "extra_slot",
    "answer_too": "extra_slot",
    "tangent": "off_topic",
    "cannot_tell": "vague",
    "thank": "thank",
    "bye": "bye",
}
"""Decision points, and the parameters that count the same."""
PATIENT = ("leave", "show_frustration")
"""Decision points that lack of patience moves."""
MOST = 120
"""Wordings of an act."""
LENGTHS = 40
"""Quantiles of the length of turns."""
FEWEST_SLOTS = 2
"""Slots that a carrier stands around, so that it names none."""
_NEUTRAL = cues.SMALL_TALK | frozenset(
    "is it its it's this that thats that's here be would should will with by at on in i i'd id "
    "like want need please for the a an my".split()
)


def agenda_user(log: Sequence[LoggedUser], posterior: Mapping[str, Posterior]) -> FittedUser:
    """The fitted user of these turns and parameters."""
    turns = [turn for user in log for turn in user.turns]
    carriers, carried = _carriers(turns)
    words = HarvestedWords(
        {act: _weighed(said) for act, said in _small_talk(turns).items()},
        _weighed(carriers),
        carried,
        _hand(turns),
    )
    return FittedUser(_bases(log, posterior), words)


# -- probabilities ---------------------------------------------------------------------------------


def _bases(log: Sequence[LoggedUser], posterior: Mapping[str, Posterior]) -> dict[str, float]:
    """Of decision points; those that no parameter counts are left out."""
    bases = {}
    for name, parameter in SAME.items():
        point, found = POINTS[NUMBER[name]], posterior[parameter]
        told = 1 - min(1.0, found.identifiable**2)
        bases[name] = _between(point.base, base_for(point, found.mean), told)
    greets = list(_greets(log))
    if greets:
        point = POINTS[NUMBER["greet"]]
        share = (sum(greets) + 4 * population_rate(point, point.base)) / (len(greets) + 4)
        bases["greet"] = base_for(point, share)
    patience = posterior["patience_mu"]
    impatient = (PARAMETER["patience_mu"].mean - patience.mean) / PARAMETER["patience_mu"].sd
    for name in PATIENT:
        point = POINTS[NUMBER[name]]
        # One sd of the log's patience is one of the trait's, which is uniform on [0, 1].
        tilt = -point.tilts["patience"] * impatient / math.sqrt(12)
        bases[name] = _sigmoid(_logit(point.base) + tilt)
    return bases


def population_rate(point: DecisionPoint, base: float) -> float:
    """How often a population with uniform traits decides yes, where nothing else matters."""
    levels = np.linspace(0.0, 1.0, 21) - 0.5
    logits = np.full(1, _logit(base))
    for slope in point.tilts.values():
        logits = (logits[:, None] + slope * levels).ravel()
    return float(np.mean(1 / (1 + np.exp(-logits))))


def base_for(point: DecisionPoint, rate: float) -> float:
    """The base with which `population_rate` is `rate`, by bisection of the logit."""
    low, high = -8.0, 8.0
    for _ in range(40):
        middle = (low + high) / 2
        if population_rate(point, _sigmoid(middle)) < rate:
            low = middle
        else:
            high = middle
    return _sigmoid((low + high) / 2)


def _greets(log: Sequence[LoggedUser]) -> Iterator[bool]:
    """Of each user that begins with its business, whether it greets in the same turn."""
    roles = Roles(log)
    for user in log:
        had = roles.of(user.turns[0])
        if had != {"greet"}:
            words = cues.words_of(user.turns[0].text)
            yield "greet" in had or not cues.GREETINGS.isdisjoint(words[:2])


def _between(one: float, other: float, share: float) -> float:
    return _sigmoid((1 - share) * _logit(one) + share * _logit(other))


def _logit(probability: float) -> float:
    bounded = min(max(probability, 1e-4), 1 - 1e-4)
    return math.log(bounded / (1 - bounded))


def _sigmoid(logit: float) -> float:
    return 1 / (1 + math.exp(-logit))


# -- words -----------------------------------------------------------------------------------------


def _small_talk(turns: Sequence[LoggedTurn]) -> dict[str, Counter[str]]:
    said: dict[str, Counter[str]] = defaultdict(Counter)
    for turn in turns:
        text = " ".join(turn.text.split())
        act = None if turn.slots else cues.small_talk_act(Message("user", text))
        if act in SMALL_TALK and "{" not in text and "}" not in text:
            said[act][text] += 1
    return said


def _carriers(turns: Sequence[LoggedTurn]) -> tuple[Counter[str], float]:
    """What stands around one value and names no slot, and in what share of such turns."""
    said: Counter[str] = Counter()
    slots: dict[str, set[str]] = defaultdict(set)
    for turn in turns:
        gaps = [piece for piece in turn.pieces if isinstance(piece, Gap)]
        if len(gaps) != 1 or len(turn.slots) != 1 or turn.slots[0].endswith(ASKED):
            continue
        around = ["{}" if isinstance(piece, Gap) else piece for piece in turn.pieces]
        carrier = " ".join("".join(around).split())
        said[carrier] += 1
        slots[carrier].add(slot_name(gaps[0].slot))
    neutral = {
        carrier: n
        for carrier, n in said.items()
        if len(slots[carrier]) >= FEWEST_SLOTS
        and carrier.count("{") == 1
        and _NEUTRAL.issuperset(cues.words_of(carrier.replace("{}", " ")))
    }
    return Counter(neutral), sum(neutral.values()) / max(1, said.total())


def _weighed(said: Counter[str]) -> tuple[str, ...]:
    """At most `MOST` wordings, each as often as it is said."""
    ranked = sorted(said.items(), key=lambda item: (-item[1], item[0]))
    every = [text for text, n in ranked for _ in range(n)]
    return tuple(spread(every, min(MOST, len(every))))


def _hand(turns: Sequence[LoggedTurn]) -> Hand:
    texts = [turn.text.strip() for turn in turns]
    lettered = [text for text in texts if text[:1].isalpha()]
    several = [text for text in texts if len(text.split()) > 2]
    told = sorted(
        len(turn.text.split())
        for turn in turns
        if len(turn.slots) <= 1 and not cues.small_talk_act(Message("user", turn.text))
    )
    return Hand(
        capital=_share(text[0].isupper() for text in lettered),
        stop=_share(text[-1] in ".!?" for text in several),
        marks="".join(mark for mark in MARKS if _share(mark in text for text in texts) >= 0.005),
        lengths=tuple(told[(2 * q + 1) * len(told) // (2 * LENGTHS)] for q in range(LENGTHS))
        if told
        else (),
    )


def _share(happened: Iterator[bool] | Sequence[bool]) -> float:
    found = list(happened)
    return sum(found) / len(found) if found else 1.0
