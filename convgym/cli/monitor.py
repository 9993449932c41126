"""`convgym monitor`: what a service has logged, against the calibrated user and the estimate.

    logs ─► new conversations ─► windows ─► alerts ─► tables, JSON, a page
     │ bad lines, named             ▲                    │
     └──────────────────────────────┴── --follow ◄───────┘
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from convgym.calibration.calibration import Calibration
from convgym.calibration.monitor import Monitor, MonitorConfig, arms_of, policy_of
from convgym.calibration.monitor_report import (
    ALERT_HEADER,
    ARM_HEADER,
    DIFFERENCE_HEADER,
    WINDOW_HEADER,
    Findings,
    return_note,
    write_monitor_report,
)
from convgym.conversation import Conversation
from convgym.data.growing_logs import GrowingLog
from convgym.errors import InvalidConfiguration
from convgym.evaluation.ope.promise import Promise, read_promise

Say = Callable[[str], None]
_SHOWN = 12
"""Newest windows in the terminal; the page and --json have all."""


@dataclass(frozen=True, kw_only=True)
class Watched:
    """What is looked at, and what it is held against."""

    logs: Path
    user: Path
    policy: str | None = None
    estimate: Path | None = None
    estimator: str | None = None
    delta: float = 0.05


@dataclass(frozen=True)
class Shown:
    """Where it goes."""

    report: Path | None
    as_json: bool
    say: Say
    tell: Say


def run(watched: Watched, config: MonitorConfig, shown: Shown, follow_s: float | None) -> int:
    """Read, measure and say, once or until interrupted; how many alerts there have been.

    Raises what reading the logs, the user and the estimate raises.
    """
    _check(watched, shown)
    log = GrowingLog(watched.logs)
    promise = None
    if watched.estimate is not None:
        promise = read_promise(watched.estimate, watched.policy, watched.estimator)
        config = replace(config, discount=promise.discount)
    interval = None if promise is None else (promise.low, promise.high)
    monitor = Monitor(Calibration.load(watched.user).simulator(), config, interval)
    seen: list[Conversation] = []
    try:
        while True:
            if _look(watched, log, monitor, promise, seen, shown) and follow_s is not None:
                shown.say("")
            if follow_s is None:
                break
            time.sleep(follow_s)
    except KeyboardInterrupt:
        if follow_s is None:
            raise
    return len(monitor.alerts)


def _look(
    watched: Watched,
    log: GrowingLog,
    monitor: Monitor,
    promise: Promise | None,
    seen: list[Conversation],
    shown: Shown,
) -> bool:
    """Take in what is new, and say it; whether there was anything."""
    new, known = log.read(), len(seen)
    seen += map(_without_words, new)
    if known and not new:
        return False
    policies = {policy for one in seen if (policy := policy_of(one)) is not None}
    if watched.policy is not None and seen and watched.policy not in policies:
        raise InvalidConfiguration(
            f"{watched.logs} has no conversation of {watched.policy!r}; there are "
            f"{', '.join(sorted(map(str, policies))) or 'none that a policy answered'}"
        )
    if watched.policy is None and watched.estimate is not None and len(policies) > 1:
        raise InvalidConfiguration(
            f"{watched.logs} has conversations of {', '.join(sorted(map(str, policies)))}; say "
            "with --policy whose the estimate is"
        )
    mine = [one for one in new if watched.policy in (None, policy_of(one))]
    full = len(monitor.windows) + (monitor.pending + len(mine)) // monitor.config.window
    for start in range(0, len(mine), monitor.config.window):
        filled = monitor.take(mine[start : start + monitor.config.window])
        if filled:
            shown.tell(f"measured window {filled[-1].number} of {full}")
    arms = arms_of(map(log.joined, seen), monitor.config.discount)
    findings = Findings(monitor, arms, watched.delta, promise, log.reports)
    if shown.report is not None:
        write_monitor_report(findings, shown.report)
    if shown.as_json:
        shown.say(json.dumps(findings.to_dict()))
    else:
        _print(findings, shown)
    return True


def _without_words(conversation: Conversation) -> Conversation:
    """What arms are compared by; the words of months need not be held."""
    messages = tuple(replace(message, content="") for message in conversation.messages)
    return replace(conversation, messages=messages)


def _check(watched: Watched, shown: Shown) -> None:
    """Raises InvalidConfiguration for what would fail only after minutes."""
    if shown.report is not None:
        folder = shown.report.parent
        if shown.report.is_dir() or not folder.is_dir():
            raise InvalidConfiguration(
                f"{shown.report} cannot be written; name a file in a folder that is there"
            )
    if not watched.delta > 0:
        raise InvalidConfiguration(f"--tell={watched.delta:g}; it takes a difference above 0")


def _print(findings: Findings, shown: Shown) -> None:
    """Tables on the terminal."""
    windows = findings.window_cells()
    titled = (
        ("Alerts", ALERT_HEADER, findings.alert_cells()),
        ("Windows: value (floor p95)", WINDOW_HEADER, windows[-_SHOWN:]),
        ("Policies", ARM_HEADER, findings.arm_cells()),
        ("Differences", DIFFERENCE_HEADER, findings.difference_cells()),
    )
    for title, header, cells in titled:
        if cells:
            shown.say(table(title, header, cells))
    if not findings.monitor.alerts:
        shown.say("No alerts.")
    for note in (*findings.notes, return_note(findings)):
        if note:
            shown.say(note)
    if shown.report is not None:
        shown.say(f"written: {shown.report}")


def table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table as rich draws it, as wide as it has to be where nobody watches."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    made = Table(title=title, title_justify="left", title_style="bold")
    for name in header:
        made.add_column(Text(name), overflow="fold")
    for row in rows:
        made.add_row(*map(Text, row))
    console = Console(width=None if Console().is_terminal else 160)
    with console.capture() as drawn:
        console.print(made)
    return drawn.get().rstrip("\n")
