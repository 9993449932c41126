"""Phrase banks: many wordings for each act, kept as TOML.

    [train]                         wordings that a learner may meet
    greet = ["Hello there.", …]
    [held_out]                      wordings kept for measuring
    greet = ["Good day to you.", …]

Which wording is used is a keyed draw; the bank itself holds no chance.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path

from convgym.engine.keys import below
from convgym.errors import InvalidConfiguration


class PhraseBank:
    """Wordings by act name."""

    def __init__(self, phrases: Mapping[str, list[str]]) -> None:
        self._phrases = {name: tuple(variants) for name, variants in phrases.items()}

    def __contains__(self, name: str) -> bool:
        return name in self._phrases

    def variants(self, name: str) -> tuple[str, ...]:
        """All wordings of one act."""
        return self._phrases[name]

    def pick(self, name: str, drawn: int) -> str:
        """The wording that a 32-bit draw selects, placeholders still in it."""
        variants = self._phrases[name]
        return variants[below(drawn, len(variants))]

    def extended(self, more: Mapping[str, list[str]]) -> PhraseBank:
        """A bank whose acts in `more` have those wordings instead; others stay."""
        return PhraseBank({**{k: list(v) for k, v in self._phrases.items()}, **more})


def read_banks(path: Path) -> dict[str, PhraseBank]:
    """All tables of a TOML file as banks; raises InvalidConfiguration where it is not one."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidConfiguration(
            f"the phrase file {path} cannot be read ({error}); it must be a TOML file of tables, "
            "each with a list of wordings per act"
        ) from error
    return {name: PhraseBank(table) for name, table in tables.items()}


@cache
def packaged_banks(package: str, name: str) -> dict[str, PhraseBank]:
    """The banks of a TOML file shipped inside `package`."""
    return read_banks(Path(str(files(package).joinpath(name))))
