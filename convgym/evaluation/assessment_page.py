"""An assessment as one HTML page: learning, pass^k, people, tables; no script, no network.

    Assessment, rows of a run ─► pass^k ─► learning curve ─► personas ─► traits ─► tables

Drawing needs matplotlib (the extra "report"). Knows nothing of how the numbers came about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from convgym.evaluation.assessment import Assessment
from convgym.evaluation.assessment_tables import tables
from convgym.evaluation.intervals import Estimate
from convgym.evaluation.report import (
    Section,
    curves_svg,
    new_figure,
    paragraph,
    svg_of,
    table_html,
    write_report,
)

_DOT, _LINE = "#1f6f8b", "#1c2733"
_THIRDS = {"low": "#7fb3c8", "middle": "#3d8fb0", "high": "#14506a"}


def write_assessment(
    found: Assessment,
    path: str | Path,
    learning: Sequence[tuple[float, float]] = (),
    episodes: int = 0,
) -> Path:
    """Write the page in one move.

    `learning` are (step, validation success) of the run that made the policy, each of `episodes`
    tasks. Raises MissingExtra without matplotlib.
    """
    told = [paragraph(found.summary()), *(paragraph(note, note=True) for note in found.notes)]
    sections = [Section("Success", "".join(told) + svg_of(pass_figure(found)))]
    if learning:
        label = f"success on {episodes} validation tasks"
        drawn = curves_svg({found.policy: learning}, {}, label, episodes=episodes)
        sections.append(Section("While it learnt", drawn))
    figures = {"Success by persona": personas_figure, "Success by trait": traits_figure}
    for table in tables(found):
        drawn = svg_of(figures[table.title](found)) if table.title in figures else ""
        note = paragraph(table.note, note=True) if table.note else ""
        body = drawn + table_html(table.header, table.rows) + note
        sections.append(Section(table.title, body))
    return write_report(path, f"{found.policy} in {found.plan['env_id']}", sections)


def pass_figure(found: Assessment) -> Any:
    """pass^k over customers, and over one customer's own runs, with 95 % intervals."""
    figure = new_figure(5.2, 3.2)
    axis = figure.subplots()
    sides = {
        "k customers": (found.pass_k, _DOT),
        "one customer k times": (found.agent_pass_k, _LINE),
    }
    for label, (estimates, colour) in sides.items():
        if estimates:
            at = range(1, len(estimates) + 1)
            spans = [(e.value - e.low, e.high - e.value) for e in estimates]
            axis.errorbar(
                at, [e.value for e in estimates], yerr=list(zip(*spans, strict=True)),
                color=colour, marker="o", capsize=3, label=label,
            )  # fmt: skip
    axis.set_xticks(range(1, max(len(found.pass_k), len(found.agent_pass_k)) + 1))
    axis.set_xlabel("k")
    axis.set_ylabel("all k succeed")
    axis.set_ylim(-0.03, 1.03)
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)
    return figure


def personas_figure(found: Assessment) -> Any:
    """Success with each built-in persona; the band is success with people as they come."""
    figure = new_figure(7.0, 0.34 * len(found.personas) + 0.9)
    axis = figure.subplots()
    axis.axvspan(found.success.low, found.success.high, color=_DOT, alpha=0.15, linewidth=0)
    _dots(axis, found.personas, _DOT)
    axis.set_xlabel("success, with 95 % interval; the band: people as they are drawn")
    return figure


def traits_figure(found: Assessment) -> Any:
    """Success with those whose trait is low, in the middle or high."""
    figure = new_figure(7.0, 0.42 * len(found.traits) + 1.0)
    axis = figure.subplots()
    for number, (third, colour) in enumerate(_THIRDS.items()):
        met = {
            trait.trait: next((p.success for p in trait.slices if p.third == third), None)
            for trait in found.traits
        }
        _dots(axis, met, colour, offset=0.22 * (number - 1), label=third)
    axis.set_xlabel("success, with 95 % interval")
    axis.legend(fontsize=8, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return figure


def _dots(
    axis: Any,
    estimates: Mapping[str, Estimate | None],
    colour: str,
    offset: float = 0.0,
    label: str = "",
) -> None:
    """A row for each name: its estimate as a dot, its interval as a line."""
    for place, estimate in enumerate(estimates.values()):
        if estimate is not None:
            height = place + offset
            axis.plot([estimate.low, estimate.high], [height] * 2, color=colour, linewidth=1.5)
            axis.plot([estimate.value], [height], "o", color=colour, markersize=5)
    if label:
        axis.plot([], [], "o", color=colour, markersize=5, label=label)
    axis.set_yticks(range(len(estimates)), list(estimates))
    axis.set_ylim(len(estimates) - 0.4, -0.6)
    axis.set_xlim(-0.02, 1.02)
    axis.grid(axis="x", alpha=0.3)
