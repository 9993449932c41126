"""The tables of an assessment, for its Markdown and for its page.

    Assessment ─► Table(title, header, rows, note), …      those that have anything to say
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from convgym.evaluation.slices import THIRDS

if TYPE_CHECKING:
    from convgym.evaluation.assessment import Assessment

SHOWN_TASKS = 10
Cells = tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """Rows of cells under a header, and a sentence below them."""

    title: str
    header: Cells
    rows: tuple[Cells, ...]
    note: str = ""

    def markdown(self) -> list[str]:
        """Its lines, an empty one first."""
        lines = ["", f"## {self.title}", "", _line(self.header), "|---" * len(self.header) + "|"]
        lines += map(_line, self.rows)
        return [*lines, "", self.note] if self.note else lines


def tables(found: Assessment) -> Iterator[Table]:
    """All that there are rows for, in the order in which they are read."""
    for table in (_pass(found), _variance(found), _worst(found), _traits(found), _personas(found),
                  _failures(found)):  # fmt: skip
        if table.rows:
            yield table


def _line(cells: Cells) -> str:
    return f"| {' | '.join(cells)} |"


def _pass(found: Assessment) -> Table:
    rows = []
    for k in range(max(len(found.pass_k), len(found.agent_pass_k))):
        cells = [str(e[k]) if k < len(e) else "" for e in (found.pass_k, found.agent_pass_k)]
        rows.append((str(k + 1), *cells))
    return Table("pass^k", ("k", "k customers", "one customer k times"), tuple(rows))


def _variance(found: Assessment) -> Table:
    rows = tuple(
        (
            part.name,
            f"{part.variance:.4f}",
            "" if part.interval is None else "[{:.4f}, {:.4f}]".format(*part.interval),
            f"{part.share:.0%}",
            f"{part.raw:.4f}",
        )
        for part in found.variance.parts
    )
    header = ("part", "variance", "95 %", "share", "as estimated")
    return Table("Variance of success", header, rows)


def _worst(found: Assessment) -> Table:
    rows: list[Cells] = []
    decile, piece, note = found.worst_decile, found.worst_slice, ""
    if decile is not None:
        rows.append(("worst decile of tasks", str(decile.success), f"{decile.same_runs:.3f}"))
        note = f"Hardest tasks: {', '.join(decile.hardest[:SHOWN_TASKS])}"
    if piece is not None:
        rows.append((f"worst slice: {piece.name}", str(piece.success), f"{piece.chosen_on:.3f}"))
    header = ("of", "success, measured apart", "on the choosing runs")
    return Table("Where it is worst", header, tuple(rows), note)


def _traits(found: Assessment) -> Table:
    thirds = [name for name, _, _ in THIRDS]
    rows = []
    for trait in found.traits:
        by_name = {piece.third: str(piece.success) for piece in trait.slices}
        cells = [by_name.get(third, "") for third in thirds]
        rows.append((trait.trait, *cells, str(trait.effect or "")))
    return Table("Success by trait", ("trait", *thirds, "high − low"), tuple(rows))


def _personas(found: Assessment) -> Table:
    rows = tuple((name, str(estimate)) for name, estimate in found.personas.items())
    return Table("Success by persona", ("persona", "success"), rows)


def _failures(found: Assessment) -> Table:
    rows = tuple((reason, str(count)) for reason, count in found.failures.items())
    return Table("Failures", ("reason", "runs"), rows)
