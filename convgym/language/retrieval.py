"""Whole turns, found by what they do: delexicalised retrieval from an indexed bank.

    "cancel W48213 please, it's under dana@…"   acts {request_cancel, inform_order, inform_email}
        └─► "cancel {order} please, it's under {email}"   under the signature of these acts

A turn that does exactly what is wanted is taken whole; otherwise the largest part that the
index has is taken, and the rest is left to the phrase bank. The hand-written index is TOML; one
made from logs is JSONL, a line {"acts": [...], "text": ..., "position": ...} each.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from convgym.errors import InvalidConfiguration, told
from convgym.language.phrases import REGISTERS, packaged, read_tables, window_place
from convgym.language.style import Style

Signature = frozenset[str]
OPENING, WITHIN = 0, 1


class Turn(NamedTuple):
    """One turn of the index."""

    text: str
    """With placeholders where values stood."""
    register: int
    """0 casual, 1 neutral, 2 formal; -1 serves all."""
    position: int = -1
    """`OPENING`, `WITHIN`; -1: anywhere."""


def delexicalise(text: str, values: Mapping[str, str]) -> str:
    """`text` with each value, wherever it stands, replaced by its slot in braces.

    The longest values go first, so that none is taken for a part of another. Raises
    InvalidConfiguration where a value is not in the text, or the text has braces.
    """
    if "{" in text or "}" in text:
        raise InvalidConfiguration(f"the turn {text[:60]!r} has braces, which mark slots here")
    for slot, value in sorted(values.items(), key=lambda item: -len(item[1])):
        outside = re.compile(re.escape(value) + r"(?![^{}]*\})", re.IGNORECASE)
        text, found = outside.subn("{" + slot + "}", text) if value else (text, 0)
        if not found:
            raise InvalidConfiguration(
                f"the value {value!r} of {slot!r} is not in the turn {text[:60]!r}"
            )
    return text


class TurnIndex:
    """Turns by signature."""

    def __init__(self, turns: Iterable[tuple[Iterable[str], Turn]] = ()) -> None:
        self._turns: dict[Signature, list[Turn]] = {}
        for spoken, turn in turns:
            self._turns.setdefault(frozenset(spoken), []).append(turn)
        for found in self._turns.values():
            found.sort(key=lambda turn: (len(turn.text.split()), turn.text))
        self._chosen: dict[tuple[Signature, int, int], tuple[Turn, ...]] = {}
        self._parts: dict[Signature, Signature] = {}

    def __len__(self) -> int:
        return sum(map(len, self._turns.values()))

    def __contains__(self, spoken: Signature) -> bool:
        return spoken in self._turns

    def signatures(self) -> list[Signature]:
        """What it can say."""
        return list(self._turns)

    def part(self, spoken: Signature) -> Signature:
        """The largest part of `spoken` that the index has; empty where it has none."""
        if spoken not in self._parts:
            names = sorted(spoken)
            parts = (
                frozenset(part)
                for size in range(len(names), 0, -1)
                for part in combinations(names, size)
                if frozenset(part) in self._turns
            )
            self._parts[spoken] = next(parts, frozenset())
        return self._parts[spoken]

    def turns(self, spoken: Signature, register: int, position: int) -> tuple[Turn, ...]:
        """Turns of exactly this signature, of this register and position where there are any."""
        wanted = (spoken, register, position)
        if wanted not in self._chosen:
            found = self._turns.get(spoken, [])
            fitting = [turn for turn in found if turn.register in (-1, register)] or found
            placed = [turn for turn in fitting if turn.position in (-1, position)] or fitting
            self._chosen[wanted] = tuple(placed)
        return self._chosen[wanted]

    def styled(self, spoken: Signature, style: Style, drawn: int, start: int, turn: int) -> str:
        """The turn that fits a style; see `PhraseBank.styled`."""
        found = self.turns(spoken, style.register(drawn), WITHIN if turn else OPENING)
        return found[window_place(len(found), style, start, turn)].text

    def extended(self, turns: Iterable[tuple[Iterable[str], Turn]]) -> TurnIndex:
        """An index that has these turns instead, for the signatures that they have."""
        more = TurnIndex(turns)
        merged = TurnIndex()
        merged._turns = {**self._turns, **more._turns}
        return merged


def read_index(path: Path) -> TurnIndex:
    """An index from JSONL; raises InvalidConfiguration that names the first bad line."""
    turns = []
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, ValueError) as error:
        raise InvalidConfiguration(
            f"the turn index {path} cannot be read ({told(error)})"
        ) from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            spoken, text = row["acts"], row["text"]
            named = isinstance(spoken, list) and spoken and all(isinstance(a, str) for a in spoken)
            if not (named and isinstance(text, str) and text):
                raise ValueError("acts must be a list of names, text a str")
            register = REGISTERS.index(row["register"]) if "register" in row else -1
            place = {"opening": OPENING, "within": WITHIN}[row["position"]] if row.get(
                "position"
            ) else -1
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidConfiguration(
                f"line {number} of {path} is no turn ({told(error)}); write "
                '{"acts": ["greet"], "text": "hi"}'
            ) from error
        turns.append((spoken, Turn(text, register, place)))
    return TurnIndex(turns)


@cache
def packaged_indexes(package: str, name: str) -> dict[str, TurnIndex]:
    """The indexes of a TOML file shipped inside `package`: part → signature → register."""
    return {
        part: TurnIndex(
            (signature.split("+"), Turn(text, register))
            for signature, by_register in table.items()
            for register, name in enumerate(REGISTERS)
            for text in by_register.get(name, ())
        )
        for part, table in read_tables(packaged(package, name)).items()
    }
