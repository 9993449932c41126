"""A user counted from logs, as a file that an environment loads with `user="path"`.

The counting is `convgym.data.user_fit`'s; this is the value and its JSON.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from convgym.errors import InvalidConfiguration, told
from convgym.users.decisions import POINTS

FORMAT = "convgym.user_fit/1"
_BASES = {point.name: point.base for point in POINTS}
DEFAULTS: Mapping[str, float] = {
    name: _BASES.get(name, 0.2) for name in ("greet_only", "thank", "bye", "front_load")
}
"""What a probability is without data: the decision point's own base, where there is one."""
SMALL_TALK = ("greet", "affirm", "negate", "thank", "bye", "no_more", "hold", "acknowledge")
"""Acts whose words need no slot, so that phrases can be taken from logs as they stand."""

ENOUGH_PHRASES = 5
"""Below this an act keeps the domain's own wordings."""


@dataclass(frozen=True, slots=True)
class FittedProbability:
    """One probability with the counts behind it."""

    value: float
    """The posterior mean, in (0, 1)."""
    count: int
    n: int
    """Conversations in which it could have happened."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class WordLength:
    """Words per user turn as a log-normal."""

    log_mean: float
    log_sd: float
    n: int
    """User turns of at least one word."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class RewardDriver:
    """How one statistic of a conversation goes along with its reward; no claim of cause."""

    name: str
    spearman: float | None
    """Rank correlation; None where the statistic or the reward never varies."""
    n: int


@dataclass(frozen=True, slots=True)
class UserFit:
    """A fit that a simulated customer can load; the mappings are not to be changed."""

    conversations: int
    probabilities: Mapping[str, FittedProbability]
    """greet_only: the first user turn is a bare greeting.
    thank, bye: said in one of the last two user turns, the first turn never counting.
    front_load: the first user turn after a bare greeting carries a slot or a digit."""
    words: WordLength
    phrases: Mapping[str, tuple[tuple[str, int], ...]]
    """(phrase, conversations that hold it) for each of `SMALL_TALK`, most frequent first."""
    reward_drivers: tuple[RewardDriver, ...] = ()

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Writes the fit; the file appears whole or stays as it was."""
        temporary = Path(f"{os.fspath(path)}.{os.getpid()}.part")
        try:
            text = json.dumps({"format": FORMAT} | asdict(self), indent=1, allow_nan=False)
            temporary.write_text(text + "\n", encoding="utf-8")
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)

    @classmethod
    def from_json(cls, path: str | os.PathLike[str]) -> UserFit:
        """Reads what `to_json` wrote, digit for digit; `InvalidConfiguration` otherwise."""
        try:
            record = json.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise InvalidConfiguration(f"{path} cannot be read: {error.strerror}.") from error
        except (ValueError, RecursionError) as error:
            raise InvalidConfiguration(f"{path} is no JSON file; name a saved UserFit.") from error
        if not isinstance(record, dict) or record.get("format") != FORMAT:
            raise InvalidConfiguration(
                f"{path} is not a saved UserFit: its 'format' is not {FORMAT!r}. "
                f"Make one with fit_user(conversations).to_json(path)."
            )
        try:
            return _from_record(record)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidConfiguration(
                f"{path} is a damaged UserFit ({type(error).__name__}: {told(error)}); fit it "
                "again."
            ) from error

    def bases(self) -> dict[str, float]:
        """Base probabilities of the decision points that were counted."""
        return {name: p.value for name, p in self.probabilities.items() if name in _BASES}

    def wordings(self) -> dict[str, list[str]]:
        """Phrases by act, for acts that have enough of them not to repeat themselves."""
        return {
            act: [phrase for phrase, _ in said]
            for act, said in self.phrases.items()
            if len(said) >= ENOUGH_PHRASES
        }


def _from_record(record: Mapping[str, Any]) -> UserFit:
    probabilities = {
        name: FittedProbability(**_typed(FittedProbability, record["probabilities"][name]))
        for name in DEFAULTS
    }
    for name, probability in probabilities.items():
        if not 0.0 <= probability.value <= 1.0:
            raise ValueError(f"the probability {name} is {probability.value}")
        if not 0 <= probability.count <= probability.n:
            raise ValueError(f"{name} happened {probability.count} times in {probability.n}")
    words = WordLength(**_typed(WordLength, record["words"]))
    if words.log_sd < 0.0:
        raise ValueError(f"words.log_sd is {words.log_sd}")
    phrases = {
        act: tuple((_text(phrase), _whole(n)) for phrase, n in record["phrases"][act])
        for act in SMALL_TALK
    }
    drivers = tuple(RewardDriver(**_typed(RewardDriver, d)) for d in record["reward_drivers"])
    return UserFit(_whole(record["conversations"]), probabilities, words, phrases, drivers)


def _typed(kind: type, record: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a saved value, each of its declared type."""
    readers = {"float": _number, "int": _whole, "str": _text}
    values = dict(record)
    for name, annotation in kind.__annotations__.items():
        value = values[name]
        optional = annotation.endswith("| None") and value is None
        values[name] = None if optional else readers[annotation.split()[0]](value)
    return values


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"expected a finite number, found {value!r}")
    if not abs(value) <= sys.float_info.max:  # an integer may be larger
        raise TypeError(f"expected a finite number, found {value!r:.60}")
    return float(value)


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise TypeError(f"expected a count, found {value!r}")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a text, found {value!r}")
    return value
