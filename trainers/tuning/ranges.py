"""Which values an option may take while it is searched: an interval, or a list.

    {"range": [1e-4, 1e-2], "log": true}    any number between them, drawn by its logarithm
    {"range": [1, 30], "step": 1}           whole where the option is
    {"choices": [[128, 128], [256]]}        one of these, whatever they are

What is drawn is rounded to four digits, so that a configuration can be read and typed again.
Knows nothing of learners; a type says what their option takes.
"""

from __future__ import annotations

import json
import math
import types
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Union, get_args, get_origin

from convgym.cli.typed import check_known, typed
from convgym.cli.yaml_text import plain
from convgym.errors import InvalidConfiguration

_FORM = "{range: [1e-4, 1e-2], log: true} or {choices: [64, 128]}"
_DIGITS = 4


@dataclass(frozen=True, kw_only=True)
class Range:
    """The values of one option; `ends` of an interval, or `choices`."""

    ends: tuple[float, float] | None = None
    """Least and greatest value, both included."""
    whole: bool = False
    log: bool = False
    step: float | None = None
    """Distance of the values that are drawn, from the least one on; None: any."""
    choices: tuple[Any, ...] = ()

    @classmethod
    def of(cls, given: Any, hint: Any, where: str) -> Range:
        """What a person wrote, for an option of type `hint`.

        Raises InvalidConfiguration for what is no range, or has values that the type refuses.
        """
        if not isinstance(given, Mapping) or ("range" in given) == ("choices" in given):
            raise InvalidConfiguration(f"{where}={str(given)[:60]!r}; write it as {_FORM}")
        check_known(given, ("range", "log", "step", "choices"), where)
        if "choices" in given:
            return cls(choices=_choices(given, hint, where))
        ends, whole = _ends(given["range"], hint, where)
        log, step = typed(given.get("log", False), bool, f"{where}.log"), given.get("step")
        if step is not None:
            step = typed(step, int if whole else float, f"{where}.step")
            steps = (ends[1] - ends[0]) / step if step > 0 else 0
            if log or steps < 1 or not math.isclose(steps, round(steps), abs_tol=1e-9):
                raise InvalidConfiguration(
                    f"{where}.step={step}; the range is a whole number of steps wide, and log is "
                    "not beside it"
                )
        if log and not ends[0] > 0:
            raise InvalidConfiguration(
                f"{where}.range={list(ends)}; by logarithm it begins above 0"
            )
        return cls(ends=ends, whole=whole, log=log, step=step)

    def to_dict(self) -> dict[str, Any]:
        """What `of` takes."""
        if self.ends is None:
            return {"choices": list(self.choices)}
        more: dict[str, Any] = {"log": True} if self.log else {}
        if self.step is not None:
            more["step"] = self.step
        return {"range": list(self.ends), **more}

    def extremes(self) -> list[Any]:
        """Values that an option must take for all others to be sensible: ends, or choices."""
        return list(self.choices if self.ends is None else self.ends)

    def suggested(self, trial: Any, name: str) -> Any:
        """What optuna draws for this trial; the same again where it has drawn already."""
        if self.ends is None:
            return json.loads(trial.suggest_categorical(name, list(map(_text, self.choices))))
        low, high = self.ends
        if self.whole:
            return trial.suggest_int(name, low, high, step=int(self.step or 1), log=self.log)
        return trial.suggest_float(name, low, high, step=self.step, log=self.log)

    def stored(self, value: Any) -> Any:
        """A value as optuna keeps it, a drawn number with fewer digits; None if it is outside."""
        if self.ends is None:
            texts = list(map(_text, self.choices))
            return _text(value) if _text(value) in texts else None
        low, high = self.ends
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not low <= value <= high or (self.whole and value != int(value)):
            return None
        if self.step is not None:
            steps = (value - low) / self.step
            return value if math.isclose(steps, round(steps), abs_tol=1e-9) else None
        return int(value) if self.whole else min(high, max(low, float(f"{value:.{_DIGITS}g}")))

    def narrowed(self, centre: Any) -> Range | None:
        """Half as wide, about `centre`; None where nothing is left to choose."""
        if self.ends is None:
            return self._neighbours(centre)
        if not isinstance(centre, int | float):
            return self
        low, high = (math.log(end) for end in self.ends) if self.log else self.ends
        middle = min(self.ends[1], max(self.ends[0], centre))
        middle = math.log(middle) if self.log else middle
        quarter = (high - low) / 4
        ends = [max(low, middle - quarter), min(high, middle + quarter)]
        ends = [math.exp(end) for end in ends] if self.log else ends
        if self.whole:
            least, most = math.floor(ends[0]), math.ceil(ends[1])
            return None if least == most else Range(ends=(least, most), whole=True, log=self.log)
        rounded = [float(f"{end:.{_DIGITS}g}") for end in ends]
        return Range(ends=(rounded[0], rounded[1]), log=self.log)

    def _neighbours(self, centre: Any) -> Range | None:
        """Of choices in order: the one there is, and those beside it."""
        ordered = all(isinstance(one, int | float) for one in self.choices)
        if not ordered or centre not in self.choices:
            return None
        place = self.choices.index(centre)
        return Range(choices=self.choices[max(0, place - 1) : place + 2])


def unwrapped(hint: Any) -> list[Any]:
    """The types that a hint such as `float | None` names, None left out."""
    if get_origin(hint) in (Union, types.UnionType):
        return [one for part in get_args(hint) for one in unwrapped(part)]
    return [] if hint is type(None) else [hint]


def _ends(given: Any, hint: Any, where: str) -> tuple[tuple[float, float], bool]:
    """The two ends, and whether what is between them is whole."""
    kinds = unwrapped(hint)
    kind = float if float in kinds else int if int in kinds else None
    if kind is None:
        raise InvalidConfiguration(
            f"{where} is no number; give {{choices: [...]}} instead of range"
        )
    if not isinstance(given, list | tuple) or len(given) != 2:
        raise InvalidConfiguration(f"{where}.range={str(given)[:60]!r}; write two ends: {_FORM}")
    low, high = (typed(end, kind, f"{where}.range") for end in given)
    if not low < high:
        raise InvalidConfiguration(f"{where}.range={[low, high]}; the first end is the lower one")
    return (low, high), kind is int


def _choices(given: Mapping[str, Any], hint: Any, where: str) -> tuple[Any, ...]:
    found = given["choices"]
    if len(given) > 1:
        raise InvalidConfiguration(f"{where} has choices; log and step belong to a range")
    if not isinstance(found, list | tuple) or len(found) < 2:
        raise InvalidConfiguration(f"{where}.choices={str(found)[:60]!r}; list two or more")
    made = [plain(typed(one, hint, f"{where}.choices[{i}]")) for i, one in enumerate(found)]
    if len({_text(one) for one in made}) < len(made):
        raise InvalidConfiguration(f"{where}.choices={str(found)[:60]!r}; one stands there twice")
    return tuple(made)


def _text(value: Any) -> str:
    """A choice as optuna keeps it: JSON."""
    return json.dumps(plain(value), sort_keys=True)
