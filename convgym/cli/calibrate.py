"""`convgym calibrate`: a user fitted to a log, what is known of it, and how far off it is.

    log ─► conversations ─► calibrate ─► user.npz
            │ faults         │   └─────► held-out conversations against simulated ones
            ▼                ▼              ▼
          stderr      a page, or JSON    report.html, report.md

Files are written when all is computed, each whole or not at all.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from convgym.calibration.calibration import Calibration, Method, calibrate
from convgym.calibration.gap import FEWEST_MEASURED, compute_sim_real_gap
from convgym.calibration.gap_report import AMBER, FEWEST, GREEN, GapReport, show
from convgym.calibration.parameters import PARAMETERS
from convgym.calibration.polish import simulated
from convgym.calibration.report_html import write_gap_report
from convgym.conversation import Conversation
from convgym.data.logs import LogReport, read_log
from convgym.data.packed_files import whole_file
from convgym.errors import InvalidConfiguration

Say = Callable[[str], None]
UNTOLD = 0.9
"""Posterior sd / prior sd from which on a log cannot tell a parameter."""
_METHODS = {"counts": "by the log's own labels", "text": "acts read off the words"}


@dataclass(frozen=True, kw_only=True)
class Files:
    """What is read and what is written."""

    logs: Path
    out: Path
    html: Path | None = None
    markdown: Path | None = None

    @property
    def written(self) -> list[Path]:
        """Those to write."""
        return [path for path in (self.out, self.html, self.markdown) if path is not None]

    def check(self) -> None:
        """Raises InvalidConfiguration for what could not be written, before anything is fitted."""
        for path in self.written:
            if path.is_dir():
                raise InvalidConfiguration(f"{path} is a folder; name a file to write")
            if not (path.parent.is_dir() and os.access(path.parent, os.W_OK)):
                raise InvalidConfiguration(
                    f"{path} cannot be written: {path.parent} is no folder that may be written "
                    "into; make it, or name another file"
                )
        if len({path.resolve() for path in (self.logs, *self.written)}) <= len(self.written):
            raise InvalidConfiguration(
                "--logs, --out, --report and --markdown name one file twice; name different ones"
            )


def run(
    files: Files,
    method: Method,
    holdout: float,
    encoder: str,
    seed: int,
    budget_s: float,
    as_json: bool,
    say: Say,
    tell: Say,
) -> None:
    """Fit, write and say; `tell` hears of faults and of progress.

    Raises what reading, fitting and measuring raise.
    """
    files.check()
    reader = read_log(files.logs)
    conversations = list(reader)
    tell(str(reader.report))
    heard = _Progress(tell)
    found = calibrate(conversations, method, holdout, encoder, seed, budget_s, progress=heard)
    report = _gap_report(found, conversations, files, seed, tell)
    if files.html is not None and report is not None:
        write_gap_report(report, files.html)
    if files.markdown is not None and report is not None:
        with whole_file(files.markdown) as page:
            page.write((report.to_markdown() + "\n").encode())
    found.save(files.out)
    if as_json:
        say(json.dumps(_record(found, reader.report, report), indent=1))
    else:
        say("\n".join(_page(found, reader.report, report)))
        say("\nwritten: " + ", ".join(map(str, files.written)))


class _Progress:
    """A line for every tenth of the polish."""

    def __init__(self, tell: Say) -> None:
        self._tell, self._tenth = tell, 0

    def __call__(self, done: int, most: int) -> None:
        tenth = 10 * done // most
        if tenth > self._tenth:
            self._tenth = tenth
            self._tell(f"polish: {done} of {most} settings")


def _gap_report(
    found: Calibration, conversations: list[Conversation], files: Files, seed: int, tell: Say
) -> GapReport | None:
    """Held-out conversations against simulated ones; all of it where a file is asked for."""
    held_out = set(found.held_out)
    real = [c for c in conversations if c.conversation_id in held_out]
    full = files.html is not None or files.markdown is not None
    if not full and len(real) < FEWEST_MEASURED:
        tell(f"no gap report: it takes {FEWEST_MEASURED} held-out conversations or more")
        return None
    tell(f"measuring the gap to {len(real):,} held-out conversations")
    return compute_sim_real_gap(
        real,
        simulated(found.simulator(), real, seed),
        level="full" if full else "quick",
        training=[c for c in conversations if c.conversation_id not in held_out],
        seed=seed,
    )


def _record(found: Calibration, log: LogReport, report: GapReport | None) -> dict[str, Any]:
    """All of it as plain JSON."""
    return {
        "logs": log.to_dict(),
        "method": found.method,
        "fitted": len(found.simulator().log),
        "held_out": len(found.held_out),
        "gap_before": found.gap_before,
        "gap_after": found.gap_after,
        "floor": found.floor,
        "kl_div": found.kl_div,
        "length_match": found.length_match,
        "polish": None if found.polish is None else asdict(found.polish),
        "polished": found.polished,
        "parameters": {name: one.to_dict() for name, one in found.posterior.items()},
        "report": None if report is None else report.to_dict(),
    }


def _page(found: Calibration, log: LogReport, report: GapReport | None) -> Iterator[str]:
    fitted, held_out = len(found.simulator().log), len(found.held_out)
    silent = log.loaded - fitted - held_out
    yield (
        f"conversations  {log.loaded:,} read, {log.skipped:,} skipped"
        + (f", {silent:,} without a user turn" if silent else "")
        + f"; {fitted:,} fitted, {held_out:,} held out"
    )
    yield f"method         {found.method}: {_METHODS[found.method]}"
    yield (
        f"gap            {show(found.gap_before)} of a script, {show(found.gap_after)} of the "
        f"fitted user; floor {show(found.floor)}, ratio {_judged(found)}"
    )
    yield f"words a turn   KL {show(found.kl_div)} nats, length match {found.length_match:.3f}"
    yield f"polish         {_polish(found)}"
    if report is not None:
        yield from ("", report.headline, *(f"  {note}" for note in report.notes))
        yield from _measured(report)
    yield from _parameters(found)


def _judged(found: Calibration) -> str:
    ratio = found.gap_after / found.floor if found.floor else float("inf")
    if len(found.held_out) < FEWEST:
        return f"{ratio:.1f}, no verdict under {FEWEST} held-out conversations"
    return f"{ratio:.1f}, {'green' if ratio <= GREEN else 'amber' if ratio <= AMBER else 'red'}"


def _polish(found: Calibration) -> str:
    if found.polish is None:
        return "none: the counts alone"
    knobs = ", ".join(f"{name} {value:+.2f}" for name, value in found.polish.knobs.items())
    return (
        f"{found.polish.evaluations} settings tried; on an inner part the gap went from "
        f"{show(found.polish.gap_before)} to {show(found.polish.gap_after)}: "
        + (f"taken ({knobs})" if found.polish.taken else "not taken, the counts stay")
    )


def _measured(report: GapReport) -> Iterator[str]:
    yield f"  {'metric':<24}{'value':>9}{'floor p95':>11}{'ratio':>8}  verdict"
    for row in report.rows:
        ratio = "–" if row.ratio is None else f"{row.ratio:.1f}"
        yield (
            f"  {row.metric:<24}{show(row.value):>9}{show(row.floor_p95):>11}{ratio:>8}  "
            f"{row.verdict}"
        )
    off = [
        f"{check.statistic} (real {show(check.real)}, simulated {show(check.sim)}, p {check.p:.3f})"
        for check in report.checks
        if check.flagged
    ]
    yield f"  predictive checks: {len(off)} of {len(report.checks)} off"
    yield from _listed(off)
    apart = [
        f"{point.response} after {point.condition} (real {point.real:.2f}, simulated "
        f"{point.sim:.2f})"
        for point in report.responses
        if point.apart
    ]
    yield f"  response curves: {len(apart)} of {len(report.responses)} points apart"
    yield from _listed(apart)


def _listed(items: list[str]) -> Iterator[str]:
    yield from (f"    {item}" for item in items)


def _parameters(found: Calibration) -> Iterator[str]:
    yield f"\n{'parameter':<26}{'mean':>9}  {'95 % interval':<22}posterior sd / prior sd"
    for block, members in groupby(PARAMETERS, key=lambda parameter: parameter.block):
        yield block
        for name in (parameter.name for parameter in members):
            one = found.posterior[name]
            interval = f"{show(one.low)} to {show(one.high)}"
            told = "" if one.identifiable < UNTOLD else "  the log cannot tell"
            yield f"  {name:<24}{show(one.mean):>9}  {interval:<22}{one.identifiable:.2f}{told}"
