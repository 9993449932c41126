"""Records made from a schema: what `schema.toml` says of fields, as columns and as text.

    "person"                      a name                     "L#####"   a number, unlike any other's
    {words = ["a", "b"]}          one of them, by index      {range = [0, 9]}    a whole number
    {days = [-30, 20]}            a date, days from today    {money = [500, 9900]}  cents

Every column is drawn from the domain's name, so the records are the same in every process.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from functools import cache, cached_property
from math import gcd
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.desk.declaration import ACCOUNT, Declaration
from convgym.engine import keys
from convgym.engine.tasks import split_key
from convgym.errors import InvalidConfiguration
from convgym.language.figures import MONTHS, as_sum, figures, sums_written_out, written_out
from convgym.language.understanding import Lexicon

TODAY = date(2026, 3, 16)
_FIRST = (
    "Alice Bruno Carla David Elena Felix Grace Hugo Irene Jonas Karin Lucas Maria Nils "
    "Olivia Peter Quinn Rosa Simon Tara Ursula Victor Wanda Yusuf Zoe Amir Bella Cesar"
).split()
_LAST = (
    "Adams Baker Castro Dunn Evans Fischer Garcia Hughes Ivanov Jensen Keller Lopez Moore "
    "Novak Olsen Patel Quist Rossi Silva Turner Usher Vogel Walsh Young Zimmer Archer"
).split()
_STEP = 7919
"""A prime: multiples of it leave no two rows the same number."""
KINDS_OF_FIELD = ("words", "range", "days", "money")
MOST_ROWS = 20_000


class Field:
    """One field of the schema: its column, and its text row by row."""

    def __init__(self, given: Any, place: str) -> None:
        self.person = given == "person"
        self.pattern = given if isinstance(given, str) and "#" in given else ""
        body: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
        sorts = [name for name in KINDS_OF_FIELD if name in body]
        if not (self.person or self.pattern or len(sorts) == 1):
            raise InvalidConfiguration(
                f'{place}: {given!r} is no field; write "person", a number such as "L#####", or '
                f"one of {', '.join(KINDS_OF_FIELD)} as in {{range = [0, 9]}}"
            )
        self.sort = sorts[0] if sorts else ""
        self.words = tuple(body.get("words", ()))
        self.twins = int(body.get("twins", 0))
        low, high = (0, len(self.words) - 1) if self.words else body.get(self.sort, (0, 0))
        if not (isinstance(low, int) and isinstance(high, int) and low <= high):
            raise InvalidConfiguration(
                f"{place}: {body!r} needs two whole numbers, the lower one first"
            )
        self.low, self.count = low, high - low + 1

    def column(self, key: int, rows: int) -> NDArray[np.int64]:
        """Drawn values.  # (rows,)"""
        every = np.arange(rows, dtype=np.uint64)
        drawn = keys.draw_batch(key, keys.WORLD, every, 0)
        return self.low + keys.below_batch(drawn, self.count)

    def written(self, value: int) -> str:
        """A value as it is written."""
        if self.words:
            return str(self.words[value])
        if self.sort == "days":
            day = TODAY + timedelta(days=value)
            return f"{day.day} {MONTHS[day.month - 1]}"
        return f"${value // 100}.{value % 100:02d}" if self.sort == "money" else str(value)


class DeclaredRecords:
    """`convgym.desk.world.Records` of a schema. Raises InvalidConfiguration for a field amiss."""

    def __init__(self, declaration: Declaration, schema: Mapping[str, Any]) -> None:
        self.declaration = d = declaration
        self.accounts = int(schema["account"].get("rows", 400))
        if not 20 <= self.accounts <= MOST_ROWS:
            raise InvalidConfiguration(
                f"[account]: rows = {self.accounts}; a domain has 20 to {MOST_ROWS} accounts"
            )
        self._fields: dict[str, dict[str, Field]] = {
            ACCOUNT: self._read("account", schema["account"])
        }
        for kind in d.kinds:
            self._fields[kind.name] = self._read(f"kind.{kind.name}", schema["kind"][kind.name])
        self._need_fields()
        self.columns: dict[str, dict[str, NDArray[np.int64]]] = {
            kind: self._columns(kind) for kind in self._fields
        }
        self._need_columns()

    @staticmethod
    def _read(place: str, body: Mapping[str, Any]) -> dict[str, Field]:
        fields = body.get("fields", {})
        return {name: Field(given, f"[{place}.fields] {name}") for name, given in fields.items()}

    def _need_fields(self) -> None:
        """What the declaration names has to have a field."""
        d = self.declaration
        needed = {ACCOUNT: {"name", d.account.key, d.account.secret}}
        for kind in d.kinds:
            named = {kind.name, kind.label, kind.date, *kind.listed, *kind.shown}
            needed[kind.name] = named | ({kind.vague} - {""})
        for fact, kind_name in d.facts.items():
            needed[kind_name].add(fact)
        for workflow in d.workflows:
            own = {detail for detail in workflow.details if not d.details[detail]}
            needed[workflow.kind] |= own
        for kind_name, names in needed.items():
            missing = sorted(names - self._fields[kind_name].keys())
            if missing:
                where = f"kind.{kind_name}" if kind_name else "account"
                raise InvalidConfiguration(
                    f"[{where}.fields]: {', '.join(missing)} missing, which the domain names"
                )
        for kind in d.kinds:
            if self._fields[kind.name][kind.date].sort != "days":
                raise InvalidConfiguration(
                    f"[kind.{kind.name}]: date = {kind.date!r} has to name a field of days, such "
                    "as {days = [-30, -1]}"
                )

    def _need_columns(self) -> None:
        """What the rules weigh has to be a number of the record or of its account, or a detail."""
        d = self.declaration
        for rule in d.rules.rules:
            owner = next((w for w in d.workflows if rule.on in (w.name, *w.terms)), None)
            if owner is None:
                continue
            known = {"always", *self.columns[ACCOUNT], *self.columns[owner.kind], *d.parameters}
            for one in rule.when:
                if one.field not in known | set(owner.details):
                    raise InvalidConfiguration(
                        f"rule {rule.code!r}: {one.field!r} is nothing to weigh for "
                        f"{owner.name!r}; there are {', '.join(sorted(known | set(owner.details)))}"
                    )

    def _each(self, kind: str) -> int:
        return self.declaration.kind[kind].each if kind else 1

    def _key(self, kind: str, field: str) -> int:
        return split_key(self.declaration.name, f"{kind}.{field}", 0)

    def _columns(self, kind: str) -> dict[str, NDArray[np.int64]]:
        each, columns = self._each(kind), {}
        rows = self.accounts * each
        for name, field in self._fields[kind].items():
            if not field.sort:
                continue
            column = field.column(self._key(kind, name), rows)
            if kind and name == self.declaration.kind[kind].date:
                # No two records of an account on one day.
                width = max(1, field.count // each)
                column = field.low + (column - field.low) % width
                column = column + width * (each - 1 - np.arange(rows) % each)
            if kind and field.twins:
                table = column.reshape(-1, each)
                drawn = keys.draw_batch(
                    self._key(kind, name), keys.WORLD, np.arange(self.accounts, dtype=np.uint64), 1
                )
                again = keys.below_batch(drawn, 100) < field.twins
                table[again, -1] = table[again, 0]
                column = table.ravel()
            columns[name] = column
        return columns

    # -- text --------------------------------------------------------------------------------------

    def text(self, kind: str, row: int, field: str) -> str:
        """See `Records.text`."""
        declared = self._fields[kind].get(field)
        if declared is None and kind:
            return self.text(ACCOUNT, row // self._each(kind), field)
        assert declared is not None, field
        if declared.person:
            return self._person(row)
        if declared.pattern:
            return self._number(kind, field, row, 0)
        return declared.written(int(self.columns[kind][field][row]))

    @staticmethod
    def _person(row: int) -> str:
        # One pair of names for each row, in no order that shows.
        mixed = row * 331 % (len(_FIRST) * len(_LAST))
        return f"{_FIRST[mixed % len(_FIRST)]} {_LAST[mixed // len(_FIRST)]}"

    def _number(self, kind: str, field: str, row: int, off: int) -> str:
        pattern = self._fields[kind][field].pattern
        digits = pattern.count("#")
        low, space = 10 ** (digits - 1), 9 * 10 ** (digits - 1)
        step = _STEP if gcd(_STEP, space) == 1 else 1
        number = iter(str(low + (row * step + 1234 + off) % space))
        return "".join(next(number) if letter == "#" else letter for letter in pattern)

    def wrong(self, kind: str, row: int, field: str) -> str:
        """See `Records.wrong`."""
        return self._number(kind, field, row, self._off[kind, field])

    @cached_property
    def _off(self) -> dict[tuple[str, str], int]:
        """How far a number has to be off to be nobody's."""
        offs = {}
        for kind, fields in self._fields.items():
            for name, field in fields.items():
                if field.pattern:
                    rows = range(self.accounts * self._each(kind))
                    taken = {self._number(kind, name, row, 0) for row in rows}
                    free = (
                        off
                        for off in range(1, len(rows) + 2)
                        if not any(self._number(kind, name, row, off) in taken for row in rows)
                    )
                    offs[kind, name] = next(free, 1)
        return offs

    # -- look-ups ----------------------------------------------------------------------------------

    def find(self, kind: str, text: str) -> int:
        """See `Records.find`."""
        return self._rows[kind].get(text.strip().upper(), -1)

    @cached_property
    def _rows(self) -> dict[str, dict[str, int]]:
        return {
            kind: {
                self.text(kind, row, kind or self.declaration.account.key).upper(): row
                for row in range(self.accounts * self._each(kind))
            }
            for kind in self._fields
        }

    def agrees(self, kind: str, row: int, field: str, said: str) -> bool:
        """See `Records.agrees`; a figure may be written in any way: "12" agrees with "$12.00"."""
        text = self.text(kind, row, field)
        return _plain(said) == _plain(text) or _figure(said) == _figure(text) != ""

    def same_label(self, kind: str, row: int, other: int) -> bool:
        """See `Records.same_label`."""
        label = self.declaration.kind[kind].label
        return self.text(kind, row, label) == self.text(kind, other, label)

    def today(self) -> str:
        """See `Records.today`."""
        return f"{TODAY.day} {MONTHS[TODAY.month - 1]} {TODAY.year}"


def _plain(text: str) -> list[str]:
    return "".join(c if c.isalnum() else " " for c in text.lower()).split()


def figures_of(text: str) -> tuple[str, ...]:
    """All figures in a text as a reader of replies takes them: "$12.00 by 5 May": "12", "5 May"."""
    return tuple(
        as_sum(figure.value)
        for sentence in _sentences().read(written_out(sums_written_out(text)))
        for figure in figures(sentence.tokens)
    )


def _figure(text: str) -> str:
    """The figure that a text is, written in one way; empty where it is none, or more than one."""
    tokens = sums_written_out(text).lower().split()
    found = figures(tokens)
    whole = len(found) == 1 and (found[0].start, found[0].end) == (0, len(tokens))
    return as_sum(found[0].value) if whole else ""


@cache
def _sentences() -> Lexicon:
    return Lexicon({})
