"""What may stand in the tables of a domain's folder, and a sentence for what does not fit.

    fitted({"kind": {"loan": {"each": "many"}}}, SCHEMA, …) ─► {"kind": {"loan": {"each": 1}}}
                       └─► "[kind.loan]: each is 'many'; it has to be a whole number from 1 to 9"

What does not fit is replaced by a stand-in, so that all else that is wrong is found as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Complain = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Shape:
    """What a value has to be."""

    what: str
    fits: Callable[[Any], bool]
    stand_in: Any = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table with these keys; others pass, whoever reads the table complains of them."""

    keys: Mapping[str, Shape]


@dataclass(frozen=True, slots=True)
class Each:
    """A table whose keys are names of the author's own; or, with `listed`, a list of tables."""

    of: Shape | Table
    listed: bool = False
    needed: tuple[str, ...] = ()
    """Without these in order, an entry of a list is left out."""


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[a-z][a-z0-9_]*", value) is not None


def _is_list(value: Any, of: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and all(of(one) for one in value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _are_words(value: Any) -> bool:
    return value == "text" or (
        _is_list(value, _is_name) and bool(value) and len(set(value)) == len(value)
    )


def _is_field(value: Any) -> bool:
    """See `convgym.desk.records`, which reads it on."""
    if not isinstance(value, Mapping):
        return isinstance(value, str)
    for key, body in value.items():
        if key == "words":
            fits = _is_list(body, _is_text) and bool(body)
        elif key == "twins":
            fits = _is_whole(body) and 0 <= body <= 100
        else:
            fits = _is_list(body, _is_whole) and len(body) == 2
        if not fits:
            return False
    return True


def whole(low: int, high: int) -> Shape:
    """A whole number between two others."""
    return Shape(
        f"a whole number from {low} to {high}",
        lambda value: _is_whole(value) and low <= value <= high,
        low,
    )


TEXT = Shape("a text", _is_text)
NAME = Shape("a name of small letters, digits and _", _is_name)
NAME_OR_NONE = Shape(f'{NAME.what}, or ""', lambda value: value == "" or _is_name(value))
NAMES = Shape("a list of names", lambda value: _is_list(value, _is_name), [])
TEXTS = Shape("a list of texts", lambda value: _is_list(value, _is_text), [])
WHOLES = Shape("a list of whole numbers", lambda value: _is_list(value, _is_whole), [0])
BOOL = Shape("true or false", lambda value: isinstance(value, bool), False)
WORDS = Shape('"text", or a list of different names', _are_words, "text")
TWO = Shape("a list of two different names",
            lambda v: _is_list(v, _is_name) and len(set(v)) == len(v) == 2, ["no", "yes"])
FIELDS = Shape(
    'a table of fields, such as {range = [0, 9]}, "person" or "L#####"',
    lambda value: isinstance(value, Mapping) and all(_is_field(one) for one in value.values()),
    {},
)
VALUE = Shape("a whole number or a name", lambda value: _is_whole(value) or _is_name(value), 0)

SCHEMA: Mapping[str, Table | Each] = {
    "domain": Table({"name": TEXT, "role": TEXT, "impostors": whole(0, 100)}),
    "account": Table(
        {"name": NAME, "key": NAME, "secret": NAME, "find": NAME, "verify": NAME,
         "rows": whole(1, 10**9), "fields": FIELDS}
    ),
    "kind": Each(Table(
        {"each": whole(1, 9), "label": NAME, "date": NAME, "vague": NAME_OR_NONE,
         "listed": NAMES, "shown": NAMES, "plural": NAME_OR_NONE, "fields": FIELDS}
    )),
    "detail": Each(WORDS),
    "fact": Each(NAME),
    "term": Each(TWO),
}
WORKFLOWS: Mapping[str, Table | Each] = {
    "workflow": Each(Table(
        {"kind": NAME_OR_NONE, "details": NAMES, "terms": NAMES, "facts": NAMES,
         "tool": NAME_OR_NONE, "says": NAME_OR_NONE, "weight": whole(1, 10_000),
         "factors": whole(1, 2), "held_out": BOOL}
    )),
}
RULES: Mapping[str, Table | Each] = {
    "parameter": Each(Table({"values": WHOLES, "text": TEXTS})),
    "rule": Each(
        Table(
            {"code": NAME, "on": NAME, "effect": NAME, "text": TEXT, "when": TEXTS,
             "requires": TEXTS, "alternative": NAME_OR_NONE, "value": VALUE,
             "reason": NAME_OR_NONE, "held_out": BOOL}
        ),
        listed=True,
        needed=("code", "on", "effect"),
    ),
}  # fmt: skip


def fitted(
    given: Mapping[str, Any], shapes: Mapping[str, Table | Each], complain: Complain
) -> dict[str, Any]:
    """A file's content with a stand-in for all that does not fit; `complain` hears of each."""
    content: dict[str, Any] = dict(given)
    for section, shape in shapes.items():
        if section in given:
            content[section] = _section(given[section], shape, section, complain)
    return content


def _section(given: Any, shape: Table | Each, section: str, complain: Complain) -> Any:
    if isinstance(shape, Table):
        return _table(given, shape, f"[{section}]", complain)
    if shape.listed:
        if not isinstance(given, list):
            complain(f"[{section}]: write [[{section}]] over each, since there are several")
            return []
        rows = []
        for number, row in enumerate(given, start=1):
            code = row.get("code", number) if isinstance(row, Mapping) else number
            misfits: list[str] = []
            entry = _entry(row, shape.of, f"{section} {code!r:.40}", misfits.append)
            for sentence in misfits:
                complain(sentence)
            spoilt = any(f": {key} is " in one for key in shape.needed for one in misfits)
            if isinstance(row, Mapping) and not spoilt:
                rows.append(entry)
        return rows
    if not isinstance(given, Mapping):
        complain(f"[{section}]: it is {given!r:.40}; it has to be a table")
        return {}
    for name in given:
        if not _is_name(name):
            complain(f"[{section}]: {name!r:.40} is no name; {NAME.what} make one")
    return {
        name: _entry(body, shape.of, f"[{section}.{name}]", complain)
        if isinstance(shape.of, Table)
        else _value(body, shape.of, f"[{section}]: {name}", complain)
        for name, body in given.items()
    }


def _entry(given: Any, shape: Shape | Table, place: str, complain: Complain) -> Any:
    assert isinstance(shape, Table)
    return _table(given, shape, place, complain)


def _table(given: Any, shape: Table, place: str, complain: Complain) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        complain(f"{place}: it is {given!r:.40}; it has to be a table")
        return {}
    return {
        key: _value(value, shape.keys[key], f"{place}: {key}", complain)
        if key in shape.keys
        else value
        for key, value in given.items()
    }


def _value(given: Any, shape: Shape, place: str, complain: Complain) -> Any:
    if shape.fits(given):
        return given
    complain(f"{place} is {given!r:.40}; it has to be {shape.what}")
    return shape.stand_in
