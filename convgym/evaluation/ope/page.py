"""Off-policy reports as one HTML page: verdicts, estimates with intervals, weights; no script.

    [OffPolicyReport, …] ─► all policies ─► estimates of each ─► its table

Drawing needs matplotlib (the extra "report"). Knows nothing of how the numbers came about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from convgym.evaluation.ope.off_policy_report import ROW_HEADER, OffPolicyReport, show
from convgym.evaluation.report import (
    Section,
    new_figure,
    paragraph,
    svg_of,
    table_html,
    write_report,
)

COLOURS = {
    "green": "#2e8b57",
    "amber": "#d98e04",
    "not identifiable": "#c0392b",
    "no support": "#c0392b",
}
_MARKERS = "os^vD<>ph*"
POLICY_HEADER = (
    "policy", "verdict", "effective", "greatest weight", "unsupported", "conservative",
    "WIS", "WDR", "FQE", "disagree",
)  # fmt: skip


def write_off_policy_report(
    reports: Sequence[OffPolicyReport],
    path: str | Path,
    title: str = "What policies are worth, by the logs",
    truth: Mapping[str, float] | None = None,
) -> Path:
    """Write the page in one move; `truth` has true values by name, where they are known.

    Raises MissingExtra without matplotlib.
    """
    drawn = svg_of(estimates_figure(reports, truth or {}))
    told = (
        "A dot is an estimate, the line its interval; those without a line carry none. Red "
        "policies cannot be told from these logs. The dashed line is what the data earned."
    )
    sections = [
        Section(
            "Policies",
            drawn + paragraph(told, note=True) + table_html(POLICY_HEADER, policy_cells(reports)),
        )
    ]
    for report in reports:
        notes = "".join(paragraph(note, note=True) for note in report.notes)
        table = table_html(ROW_HEADER, report.row_cells())
        sections.append(Section(report.policy, paragraph(report.headline) + notes + table))
    return write_report(path, title, sections)


def policy_cells(reports: Sequence[OffPolicyReport]) -> list[tuple[str, ...]]:
    """Under `POLICY_HEADER`."""
    return [
        (
            report.policy,
            report.verdict,
            f"{report.ess:,.0f}",
            f"{show(report.max_weight)} ({report.max_share:.1%})",
            f"{report.unsupported_mass:.1%}",
            show(report.conservative),
            *(show(_value(report, name)) for name in ("WIS", "WDR", "FQE")),
            ", ".join(f"{one}/{other}" for one, other in report.disagreements),
        )
        for report in reports
    ]


def _value(report: OffPolicyReport, estimator: str) -> float | None:
    return next((row.value for row in report.rows if row.estimator == estimator), None)


def estimates_figure(reports: Sequence[OffPolicyReport], truth: Mapping[str, float]) -> Any:
    """Each policy's estimates above each other, coloured by the verdict; true values as bars."""
    names = list(dict.fromkeys(row.estimator for report in reports for row in report.rows))
    figure = new_figure(8.0, 0.16 * len(names) * len(reports) + 1.2)
    axis = figure.subplots()
    marker = {name: _MARKERS[number % len(_MARKERS)] for number, name in enumerate(names)}
    step = 0.8 / max(1, len(names) - 1)
    for place, report in enumerate(reports):
        for row in report.rows:
            height = place - 0.4 + step * names.index(row.estimator)
            if row.value is None:
                continue
            if row.low is not None:
                axis.plot([row.low, row.high], [height] * 2, color=COLOURS[report.verdict], lw=1)
            dot = marker[row.estimator]
            axis.plot([row.value], [height], dot, color=COLOURS[report.verdict], markersize=4)
        if report.policy in truth:
            axis.plot([truth[report.policy]] * 2, [place - 0.45, place + 0.45], color="#1c2733")
    for name in names:
        axis.plot([], [], marker[name], color="#5a6875", markersize=4, label=name)
    if reports:
        axis.axvline(reports[0].behavior_value, linestyle="--", linewidth=1, color="#5a6875")
    axis.set_yticks(range(len(reports)), [report.policy for report in reports])
    axis.margins(y=0.02)
    axis.invert_yaxis()
    axis.grid(axis="x", alpha=0.3)
    axis.set_xlabel("value, with interval")
    axis.legend(fontsize=7, ncols=5, loc="upper center", bbox_to_anchor=(0.5, -0.08))
    return figure
