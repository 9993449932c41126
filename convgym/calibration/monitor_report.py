"""What a monitor has found, as tables and as one HTML page: no script, no network.

    Monitor, arms ─► alerts ─► gap rows over windows ─► returns against the estimate ─► policies

Drawing needs matplotlib (the extra "report"). Knows nothing of how the numbers came about.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from convgym.calibration.gap_report import show
from convgym.calibration.monitor import HORIZON, Monitor, Window
from convgym.calibration.window_gap import ROWS
from convgym.data.logs import LogReport
from convgym.evaluation.arms import ODD_SPLIT, Arm, Difference, differences, odd_split
from convgym.evaluation.intervals import Estimate
from convgym.evaluation.ope.promise import Promise
from convgym.evaluation.report import (
    Section,
    new_figure,
    paragraph,
    svg_of,
    table_html,
    write_report,
)

ALERT_HEADER = ("alert", "window", "what")
WINDOW_HEADER = ("window", "until (UTC)", *ROWS, "mean return")
ARM_HEADER = ("policy", "conversations", "share", "success", "return")
DIFFERENCE_HEADER = ("difference", "measure", "value", "95 % interval", "apart", "more needed")
_GREEN, _RED, _DARK, _BLUE = "#2e8b57", "#c0392b", "#1c2733", "#1f6f8b"


@dataclass(frozen=True)
class Findings:
    """All that there is to say at one moment."""

    monitor: Monitor
    arms: Sequence[Arm]
    delta: float
    """The difference between policies that is to be told from none."""
    promise: Promise | None
    logs: Sequence[LogReport]

    @property
    def differences(self) -> list[Difference]:
        """Of every other policy from the first."""
        return [d for other in self.arms[1:] for d in differences(self.arms[0], other, self.delta)]

    @property
    def notes(self) -> list[str]:
        """What is to be known first."""
        config = self.monitor.config
        told = [
            f"Alerts: {config.patience} windows in a row of {config.window} conversations, each "
            f"with p ≤ {config.level:.3g} and beyond {config.above:g} times its floor. Where "
            f"nothing is amiss, the probability of any alert within {HORIZON} windows is at most "
            f"{config.false_alarms:g}.",
        ]
        p = odd_split(self.arms)
        if p is not None and p < ODD_SPLIT:
            told.append(
                f"The policies' numbers of conversations do not fit their shares (p = {p:.1g}): "
                "some get lost on the way, so the policies do not compare."
            )
        left_out = {
            "parts of others": self.monitor.resumed,
            "without a word of the user's": self.monitor.silent,
        }
        told += [f"Left out: {n:,} conversations, {why}." for why, n in left_out.items() if n]
        if self.monitor.beyond:
            low, high = self.monitor.config.bounds
            told.append(
                f"Returns outside {low:g} to {high:g}: {self.monitor.beyond:,}, in no mean; say "
                "with --return-range what a return may be."
            )
        if self.monitor.unanswered and self.arms:
            told.append(
                f"In no policy's row: {self.monitor.unanswered:,} conversations that say of no "
                "policy that it answered."
            )
        skipped = sum(log.skipped for log in self.logs)
        if skipped:
            named = [f"{Path(log.path).name} {fault}" for log in self.logs for fault in log.faults]
            more = f" … and {skipped - 10:,} more" if skipped > 10 else ""
            told.append(f"Bad lines: {skipped:,} ({'; '.join(named[:10])}{more}).")
        if self.monitor.pending:
            told.append(
                f"{self.monitor.pending} conversations wait for the next window to be full."
            )
        return told

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            **self.monitor.to_dict(),
            "policies": [arm.to_dict() for arm in self.arms],
            "differences": [difference.to_dict() for difference in self.differences],
            "split_p": odd_split(self.arms),
            "logs": [report.to_dict() for report in self.logs],
        }

    def alert_cells(self) -> list[tuple[str, ...]]:
        """Under `ALERT_HEADER`."""
        return [(one.kind, str(one.window), one.told) for one in self.monitor.alerts]

    def window_cells(self) -> list[tuple[str, ...]]:
        """Under `WINDOW_HEADER`; ! stands where a row is beyond its floor, ↑ where it has risen."""
        return [
            (
                str(window.number),
                "–" if window.last is None else _utc(window.last),
                *(
                    f"{show(row.value)} ({show(row.floor_p95)})"
                    + "!" * (row.p <= self._level and row.ratio > self.monitor.config.above)
                    + "↑" * ((row.p_rise or 1.0) <= self._level)
                    for row in window.rows
                ),
                _return(window),
            )
            for window in self.monitor.windows
        ]

    def arm_cells(self) -> list[tuple[str, ...]]:
        """Under `ARM_HEADER`."""
        return [
            (
                arm.name,
                f"{arm.conversations:,}",
                "–" if arm.share is None else f"{arm.share:g}",
                _estimate(arm.success),
                _estimate(arm.return_),
            )
            for arm in self.arms
        ]

    def difference_cells(self) -> list[tuple[str, ...]]:
        """Under `DIFFERENCE_HEADER`."""
        return [
            (
                f"{d.other} − {d.base}",
                d.measure,
                f"{d.value.value:+.3f}",
                f"{d.value.low:+.3f} to {d.value.high:+.3f}",
                "yes" if d.apart else "",
                f"{d.more:,} to tell {d.delta:g}" if d.more else f"enough to tell {d.delta:g}",
            )
            for d in self.differences
        ]

    @property
    def _level(self) -> float:
        return self.monitor.config.level


def return_note(findings: Findings) -> str:
    """The returns of all conversations beside what was promised; "" where nothing is known."""
    monitor, promise = findings.monitor, findings.promise
    if monitor.observed is None:
        return ""
    low, high = monitor.observed
    mean = sum(monitor.returns) / len(monitor.returns)
    told = (
        f"Mean return of {len(monitor.returns):,} conversations: {mean:.3f}, in [{low:.3f}, "
        f"{high:.3f}] at all times at once."
    )
    if promise is not None:
        told += (
            f" Before deployment, {promise.estimator} gave {promise.policy} {promise.value:.3f} in "
            f"[{promise.low:.3f}, {promise.high:.3f}] with confidence {1 - promise.alpha:.0%}."
        )
    return told


def write_monitor_report(
    findings: Findings, path: str | Path, title: str = "After deployment"
) -> Path:
    """Write the page in one move; raises MissingExtra without matplotlib."""
    monitor = findings.monitor
    head = [paragraph(note, note=True) for note in findings.notes]
    alerts = table_html(ALERT_HEADER, findings.alert_cells()) if monitor.alerts else ""
    sections = [Section("Alerts", "".join([alerts or paragraph("None."), *head]))]
    if monitor.windows:
        told = (
            "Value, and in brackets what 95 of 100 draws of chance alone stay below; ! beyond "
            "the floor, ↑ larger than before."
        )
        body = svg_of(gap_figure(monitor)) + paragraph(told, note=True)
        body += table_html(WINDOW_HEADER, findings.window_cells())
        sections.append(Section("Logged users against the calibrated one", body))
    if monitor.observed is not None:
        body = paragraph(return_note(findings)) + svg_of(return_figure(monitor))
        sections.append(Section("Return", body))
    if findings.arms:
        told = (
            "Each interval holds for one look that was planned beforehand; more are needed for a "
            "power of 80 %."
        )
        body = table_html(ARM_HEADER, findings.arm_cells())
        if findings.differences:
            body += table_html(DIFFERENCE_HEADER, findings.difference_cells())
        sections.append(Section("Policies", body + paragraph(told, note=True)))
    return write_report(path, title, sections)


def gap_figure(monitor: Monitor) -> Any:
    """Each row in a panel: its value over the windows, above what chance alone makes."""
    figure = new_figure(8.0, 1.5 * len(ROWS) + 0.5)
    axes = figure.subplots(len(ROWS), 1, sharex=True, squeeze=False)[:, 0]
    numbers = [window.number for window in monitor.windows]
    for place, (axis, metric) in enumerate(zip(axes, ROWS, strict=True)):
        rows = [window.rows[place] for window in monitor.windows]
        axis.fill_between(
            numbers, 0, [row.floor_p95 for row in rows], color=_GREEN, alpha=0.15, linewidth=0
        )
        axis.plot(numbers, [row.value for row in rows], marker="o", markersize=4, color=_DARK)
        for alert in monitor.alerts:
            if alert.metric == metric:
                axis.axvline(alert.window, color=_RED, linewidth=1)
        axis.set_ylim(bottom=0)
        axis.set_title(metric, loc="left", fontsize=10)
        axis.grid(alpha=0.3)
    axes[-1].set_xlabel("window; green: the floor; red: an alert begins")
    return figure


def return_figure(monitor: Monitor) -> Any:
    """The mean return of each window with its interval, and the estimate's."""
    figure = new_figure(8.0, 2.6)
    axis = figure.subplots()
    if monitor.estimate is not None:
        axis.axhspan(*monitor.estimate, color=_GREEN, alpha=0.2, linewidth=0, label="estimate")
    for window in monitor.windows:
        if window.return_interval is not None:
            axis.plot([window.number] * 2, window.return_interval, color=_BLUE, linewidth=1.5)
            axis.plot([window.number], [window.return_mean], marker="o", markersize=4, color=_BLUE)
    for alert in monitor.alerts:
        if alert.kind == "return":
            axis.axvline(alert.window, color=_RED, linewidth=1)
    if monitor.estimate is not None:
        axis.legend(fontsize=8)
    axis.set_xlabel("window")
    axis.set_ylabel("mean return")
    axis.grid(alpha=0.3)
    return figure


def _return(window: Window) -> str:
    if window.return_mean is None or window.return_interval is None:
        return "–"
    low, high = window.return_interval
    return f"{window.return_mean:.3f} [{low:.3f}, {high:.3f}]"


def _estimate(found: Estimate | None) -> str:
    return "–" if found is None else str(found)


def _utc(when: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(when))
