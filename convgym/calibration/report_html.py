"""The gap report as one HTML page: tables and drawings, no script, no network.

    GapReport ─► gap against its floor ─► checks ─► responses ─► what the classifiers went by

Drawing needs matplotlib (the extra "report"). Knows nothing of how the numbers came about.
"""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any

from convgym.calibration.gap_report import (
    AMBER,
    CHECK_HEADER,
    GREEN,
    RESPONSE_HEADER,
    ROW_HEADER,
    TEST_HEADER,
    GapReport,
    PredictiveCheck,
    ResponsePoint,
)
from convgym.evaluation.report import (
    Section,
    new_figure,
    paragraph,
    svg_of,
    table_html,
    write_report,
)

COLOURS = {"green": "#2e8b57", "amber": "#d98e04", "red": "#c0392b", "none": "#5a6875"}
_REAL, _SIM = "#1c2733", "#1f6f8b"
_LEAST, _MOST = 0.1, 100.0
"""Ratios outside are drawn at these ends."""


def write_gap_report(
    report: GapReport, path: str | Path, title: str = "Simulated and real users"
) -> Path:
    """Write the page in one move; it quotes turns of the logs that tell the sides apart.

    Raises MissingExtra without matplotlib.
    """
    head = [paragraph(report.headline), *(paragraph(note, note=True) for note in report.notes)]
    told = (
        "Each ratio is a value over what 95 of 100 random halves of real conversations stay below, "
        f"at the same number of conversations: up to {GREEN:g} is green, up to {AMBER:g} amber."
    )
    gap = [*head, svg_of(gap_figure(report)), paragraph(told, note=True)]
    gap.append(table_html(ROW_HEADER, report.row_cells()))
    checks = [svg_of(checks_figure(report.checks)), table_html(CHECK_HEADER, report.check_cells())]
    sections = [
        Section("Gap, against the noise floor", "".join(gap)),
        Section("Statistics of the real users among simulated sets", "".join(checks)),
    ]
    if report.responses:
        drawn = svg_of(responses_figure(report.responses))
        body = drawn + table_html(RESPONSE_HEADER, report.response_cells())
        sections.append(Section("What users do next", body))
    if report.tests:
        body = table_html(TEST_HEADER, report.test_cells())
        sections.append(Section("What tells them apart", body))
    return write_report(path, title, sections)


def gap_figure(report: GapReport) -> Any:
    """The ratio of each row that has one, on a logarithmic scale."""
    rows = [row for row in report.rows if row.ratio is not None or row.verdict == "red"]
    figure = new_figure(8.0, 0.28 * len(rows) + 0.9)
    axis = figure.subplots()
    bands = ((_LEAST, GREEN, "green"), (GREEN, AMBER, "amber"), (AMBER, _MOST, "red"))
    for low, high, colour in bands:
        axis.axvspan(low, high, color=COLOURS[colour], alpha=0.10, linewidth=0)
    for place, row in enumerate(rows):
        ratio = _MOST if row.ratio is None else min(max(row.ratio, _LEAST), _MOST)
        axis.plot([_LEAST, ratio], [place, place], color=COLOURS[row.verdict], linewidth=1)
        axis.plot([ratio], [place], marker="o", color=COLOURS[row.verdict], markersize=6)
    axis.set_xscale("log")
    axis.set_xlim(_LEAST, _MOST)
    axis.set_xticks([0.1, 1, 2, 5, 10, 100], ["≤ 0.1", "1", "2", "5", "10", "≥ 100"])
    axis.set_yticks(range(len(rows)), [row.metric for row in rows])
    axis.margins(y=0.03)
    axis.invert_yaxis()
    axis.set_xlabel("value ÷ 95th percentile of the noise floor")
    return figure


def checks_figure(checks: tuple[PredictiveCheck, ...]) -> Any:
    """Where the real statistics lie among those of simulated sets."""
    figure = new_figure(8.0, 0.26 * len(checks) + 0.9)
    axis = figure.subplots()
    axis.axvspan(0.025, 0.975, color=COLOURS["green"], alpha=0.10, linewidth=0)
    for place, check in enumerate(checks):
        colour = COLOURS["red" if check.flagged else "green"]
        axis.plot([check.p], [place], marker="o", color=colour, clip_on=False)
    axis.set_xlim(0, 1)
    axis.set_yticks(range(len(checks)), [check.statistic for check in checks])
    axis.margins(y=0.03)
    axis.invert_yaxis()
    axis.grid(axis="x", alpha=0.3)
    axis.set_xlabel("share of simulated sets above the real value")
    return figure


def responses_figure(points: tuple[ResponsePoint, ...]) -> Any:
    """Each response in a panel: real and simulated shares with their 95 % intervals."""
    panels = [(name, list(group)) for name, group in groupby(points, lambda point: point.response)]
    heights = [len(group) + 1.6 for _, group in panels]
    figure = new_figure(8.0, 0.26 * sum(heights) + 0.6)
    axes = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axis, (name, group) in zip(axes, panels, strict=True):
        for place, point in enumerate(group):
            for offset, value, interval, colour in (
                (-0.14, point.real, point.real_interval, _REAL),
                (0.14, point.sim, point.sim_interval, _SIM),
            ):
                axis.plot(interval, [place + offset] * 2, color=colour, linewidth=1.5)
                axis.plot([value], [place + offset], marker="o", markersize=4, color=colour)
        axis.set_title(name, loc="left", fontsize=10)
        axis.set_yticks(range(len(group)), [point.condition for point in group])
        axis.set_ylim(len(group) - 0.4, -0.6)
        axis.set_xlim(-0.01, 1.01)
        axis.grid(axis="x", alpha=0.3)
    axes[0].plot([], [], color=_REAL, marker="o", markersize=4, label="real")
    axes[0].plot([], [], color=_SIM, marker="o", markersize=4, label="simulated")
    axes[0].legend(fontsize=8)
    axes[-1].set_xlabel("share of turns, with 95 % interval")
    return figure
