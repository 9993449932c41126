"""How well texts are read: the labels that were read against those that a labelled file wants.

    {"text": "It has shipped, sorry!", "acts": ["inform(status=shipped)", "apologise"]}
        └─► read(row) ─► {"inform(status=packed)", "apologise"}
                             apologise                 hit
                             inform(status=packed)     wrong
                             inform(status=shipped)    missed

A file holds one JSON object per line, with a `text`, its labels as `acts`, and whatever else the
reader needs. What a newcomer would get wrong: a label counts only if all of it is right, slot and
value; the right act with the wrong value is once wrong and once missed.

Knows nothing of any domain: how a row is read, and which labels there are, the caller says.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from convgym.errors import InvalidConfiguration, told
from convgym.evaluation.intervals import wilson

Record = Mapping[str, Any]
"""One row of a labelled file: `text`, `acts` and what else stands there."""
ENOUGH = 20
"""Examples that an act needs to count in a macro average; two or three say nothing."""
_SHOWN = 60
"""Characters of a line that an error shows."""


class Share(NamedTuple):
    """So many of so many; as text with its 95 % interval (Wilson): `0.912 [0.87, 0.94]`."""

    hits: int
    n: int

    @property
    def value(self) -> float:
        """In [0, 1]; not a number where there is nothing to count."""
        return self.hits / self.n if self.n else math.nan

    def __str__(self) -> str:
        if not self.n:
            return "-"
        low, high = wilson(self.hits, self.n)
        return f"{self.value:.3f} [{low:.2f}, {high:.2f}]"


class Score(NamedTuple):
    """Counts of one act or label; its shares are in [0, 1], and 0 where there is nothing."""

    hits: int
    wrong: int
    """Read where it does not stand."""
    missed: int

    @property
    def support(self) -> int:
        """How often it should be read."""
        return self.hits + self.missed

    @property
    def precision(self) -> float:
        """Share of those read that are right."""
        return self.hits / max(1, self.hits + self.wrong)

    @property
    def recall(self) -> float:
        """Share of those wanted that are read."""
        return self.hits / max(1, self.support)

    @property
    def f1(self) -> float:
        """Harmonic mean of the two: 2 · hits / (2 · hits + wrong + missed)."""
        return 2 * self.hits / max(1, 2 * self.hits + self.wrong + self.missed)


class Row(NamedTuple):
    """A text with the labels that it should bear and those that were read."""

    text: str
    wanted: frozenset[str]
    read: frozenset[str]


def act_of(label: str) -> str:
    """The act of a label: what stands before the bracket."""
    return label.partition("(")[0]


@dataclass(frozen=True)
class Reading:
    """Labelled texts as they were read, and what that makes."""

    rows: tuple[Row, ...]
    key: Callable[[str], str] = act_of
    """What a score is of: the act of a label; `str` for the label itself."""

    @classmethod
    def of(
        cls,
        path: Path,
        read: Callable[[Record], Iterable[str]],
        is_label: Callable[[str], bool] | None = None,
        ignored: Collection[str] = (),
        key: Callable[[str], str] = act_of,
    ) -> Reading:
        """The rows of a labelled file, each read by `read`; acts in `ignored` count nowhere.

        Raises InvalidConfiguration, with file and line, for a row that `records` does not take
        and for one that `read` raises it for; OSError for a file that cannot be opened.
        """
        rows = []
        for number, record in _numbered(path, is_label):
            try:
                found = read(record)
            except InvalidConfiguration as error:
                raise InvalidConfiguration(f"{path.name}, line {number}: {told(error)}") from None
            wanted, got = (
                frozenset(label for label in labels if key(label) not in ignored)
                for labels in (record["acts"], found)
            )
            rows.append(Row(record["text"], wanted, got))
        return cls(tuple(rows), key)

    @cached_property
    def scores(self) -> dict[str, Score]:
        """Counts by act, or by whatever `key` makes of a label, in alphabetical order."""
        hits, wrong, missed = Counter[str](), Counter[str](), Counter[str]()
        for row in self.rows:
            hits.update(map(self.key, row.wanted & row.read))
            wrong.update(map(self.key, row.read - row.wanted))
            missed.update(map(self.key, row.wanted - row.read))
        return {k: Score(hits[k], wrong[k], missed[k]) for k in sorted(hits | wrong | missed)}

    @property
    def exact(self) -> Share:
        """Texts of which all labels and no others are read."""
        return Share(sum(row.wanted == row.read for row in self.rows), len(self.rows))

    @property
    def abstained(self) -> Share:
        """Texts of which nothing is read, of those with a label."""
        meant = [row for row in self.rows if row.wanted]
        return Share(sum(not row.read for row in meant), len(meant))

    def acts(self, enough: int = ENOUGH) -> list[str]:
        """The acts with that many examples."""
        return [act for act, score in self.scores.items() if score.support >= enough]

    def macro_f1(self, enough: int = ENOUGH) -> float:
        """Mean F1 of the acts with that many examples, else of all that have any."""
        acts = self.acts(enough) or self.acts(1)
        return sum(self.scores[act].f1 for act in acts) / len(acts) if acts else math.nan

    @property
    def micro_f1(self) -> float:
        """F1 over all labels at once."""
        return self._all(self.scores).f1

    def precision(self, *acts: str) -> float:
        """Share of the labels of these acts that were read rightly; not a number where none was.

        Raises InvalidConfiguration for an act that is neither wanted nor read anywhere.
        """
        strange = [act for act in acts if act not in self.scores]
        if strange:
            there = ", ".join(self.scores)
            raise InvalidConfiguration(f"no text is about {strange[0]!r}; there are {there}.")
        score = self._all(acts)
        return score.precision if score.hits + score.wrong else math.nan

    def summary(self, enough: int = ENOUGH) -> str:
        """The line that sums a file up.

        exact 0.912 [0.87, 0.94]   macro-F1 0.930 over 11 acts   abstained 0.020 [0.01, 0.05]
        """
        acts = self.acts(enough)
        over = f"{len(acts)} acts"
        if not acts:
            over = f"all {len(self.acts(1))} acts (none has {enough} examples)"
        mean = f"macro-F1 {self.macro_f1(enough):.3f} over {over}"
        return f"exact {self.exact}   {mean}   abstained {self.abstained}"

    def _all(self, acts: Iterable[str]) -> Score:
        chosen = [self.scores[act] for act in acts]
        return Score(
            sum(score.hits for score in chosen),
            sum(score.wrong for score in chosen),
            sum(score.missed for score in chosen),
        )


def records(path: Path, is_label: Callable[[str], bool] | None = None) -> list[dict[str, Any]]:
    """The rows of a labelled file; `is_label` tells which labels there are, if any will not do.

    Raises InvalidConfiguration, in one sentence with file and line, at the first row that is no
    object with a `text` and a list of labels, or that bears an unknown one.
    """
    return [record for _, record in _numbered(path, is_label)]


def _numbered(
    path: Path, is_label: Callable[[str], bool] | None
) -> Iterable[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        if line.strip():
            yield number, _checked(line, f"{path.name}, line {number}", is_label)


def _checked(line: str, where: str, is_label: Callable[[str], bool] | None) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise InvalidConfiguration(f"{where}: this is no JSON: {told(error)}.") from None
    if not isinstance(row, dict) or not isinstance(row.get("text"), str):
        shown = line[:_SHOWN]
        raise InvalidConfiguration(f'{where}: a row is an object with a "text"; got {shown!r}.')
    acts = row.get("acts")
    if not isinstance(acts, list) or not all(isinstance(label, str) for label in acts):
        raise InvalidConfiguration(f'{where}: "acts" must be a list of labels; got {acts!r}.')
    for label in acts if is_label else ():
        if is_label and not is_label(label):
            raise InvalidConfiguration(
                f"{where}: unknown label {label!r}; tests/data/replies.md tells the labels."
            )
    return row
