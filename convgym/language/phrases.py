"""Phrase banks: many wordings for each act, in three registers, kept as TOML.

    [train.greet]                   wordings that a learner may meet
    casual  = ["hi", …]
    neutral = ["Hello there.", …]
    formal  = ["Good day to you.", …]
    [held_out.greet]                wordings kept for measuring
    …
    [train]                         a plain list serves all registers alike
    greet = ["Hello there.", …]

A wording's length is its place on the scale of verbosity: no label for that is needed. Which
wording is used is a keyed draw; the bank itself holds no chance.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from convgym.engine.keys import below
from convgym.errors import InvalidConfiguration, told
from convgym.language.style import Style

REGISTERS = ("casual", "neutral", "formal")
_STRIDES = (7, 11, 13, 17, 5, 3, 2, 1)
"""Steps through a window of wordings; the first that shares no factor with it is taken."""

Wordings = tuple[str, ...]


class PhraseBank:
    """Wordings by act name, from the shortest to the longest in each register."""

    def __init__(self, phrases: Mapping[str, Sequence[str] | Mapping[str, Sequence[str]]]) -> None:
        self._phrases: dict[str, tuple[Wordings, Wordings, Wordings]] = {}
        for name, given in phrases.items():
            if isinstance(given, Mapping):
                unknown = set(given) - set(REGISTERS)
                if unknown:
                    raise InvalidConfiguration(
                        f"the phrases of {name!r} have a register {min(unknown, key=str)!r}; "
                        f"there are {', '.join(REGISTERS)}"
                    )
                by_register = [_listed(name, given.get(register, ())) for register in REGISTERS]
            else:
                by_register = [_listed(name, given)] * 3
            flat = tuple(dict.fromkeys(w for wordings in by_register for w in wordings))
            if not flat:
                raise InvalidConfiguration(f"the phrases of {name!r} are an empty list; give some")
            casual, neutral, formal = (_by_length(wordings or flat) for wordings in by_register)
            self._phrases[name] = (casual, neutral, formal)

    def __contains__(self, name: str) -> bool:
        return name in self._phrases

    def __iter__(self) -> Any:
        return iter(self._phrases)

    def variants(self, name: str) -> Wordings:
        """All wordings of one act."""
        return tuple(dict.fromkeys(w for wordings in self._phrases[name] for w in wordings))

    def wordings(self, name: str, register: int) -> Wordings:
        """Those of a register, the shortest first."""
        return self._phrases[name][register]

    def pick(self, name: str, drawn: int) -> str:
        """The wording that a 32-bit draw selects among all, placeholders still in it."""
        variants = self.variants(name)
        return variants[below(drawn, len(variants))]

    def styled(self, name: str, style: Style, drawn: int, start: int, turn: int) -> str:
        """The wording that fits a style, placeholders still in it.

        `drawn` chooses the register, more formal ones with more formality. Verbosity places a
        window on the register's wordings by length, diversity makes it wide. `start` is where
        the conversation begins in it; from there each turn takes another, none twice until all
        were used.
        """
        wordings = self.wordings(name, style.register(drawn))
        return wordings[window_place(len(wordings), style, start, turn)]

    def extended(self, more: Mapping[str, Sequence[str]]) -> PhraseBank:
        """A bank whose acts in `more` have those wordings instead; others stay."""
        bank = PhraseBank(more)
        bank._phrases = {**self._phrases, **bank._phrases}
        return bank


def window_place(count: int, style: Style, start: int, turn: int) -> int:
    """Index among `count` wordings, ordered by length, for this turn."""
    reach = -(-count * 3 // 5)  # at full diversity: three fifths of the register
    width = max(1, -(-reach * style.diversity // 100))
    begin = (count - width) * style.verbosity // 100
    return begin + (below(start, width) + turn * stride_of(width)) % width


def stride_of(width: int) -> int:
    """Steps from one wording to the next in a window of so many."""
    return next(step for step in _STRIDES if width % step or step == 1)


def _listed(name: str, given: object) -> Wordings:
    if not isinstance(given, list | tuple) or not all(isinstance(w, str) for w in given):
        raise InvalidConfiguration(f"the phrases of {name!r} are {given!r}; write a list of texts")
    return tuple(given)


def _by_length(wordings: Sequence[str]) -> Wordings:
    return tuple(sorted(wordings, key=lambda wording: (len(wording.split()), len(wording))))


def read_tables(path: Path) -> dict[str, Any]:
    """The tables of a TOML file; raises InvalidConfiguration where it is not one."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidConfiguration(
            f"the phrase file {path} cannot be read ({told(error)}); it must be a TOML file of "
            "tables, each with a list of wordings per act"
        ) from error


def read_banks(path: Path) -> dict[str, PhraseBank]:
    """All tables of a TOML file as banks; raises InvalidConfiguration where it is not one."""
    tables = read_tables(path)
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise InvalidConfiguration(
                f"the phrase file {path} has {name!r} = {table!r}; write a table of acts, [{name}]"
            )
    return {name: PhraseBank(table) for name, table in tables.items()}


def packaged(package: str, name: str) -> Path:
    """Where a data file shipped inside `package` lies."""
    return Path(str(files(package).joinpath(name)))


@cache
def packaged_banks(package: str, name: str) -> dict[str, PhraseBank]:
    """The banks of a TOML file shipped inside `package`."""
    return read_banks(packaged(package, name))
