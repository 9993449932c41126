"""What a gap report holds, and how it reads as a dict and as Markdown.

    GapReport ─┬─ rows        one number each: value, interval, noise floor, ratio, verdict
               ├─ tests       what the classifiers went by
               ├─ checks      is the real value one that the simulator would give?
               └─ responses   what users do next, real beside simulated

    ratio     value ÷ 95th percentile of the floor; of an AUC, what it has above ½
    verdict   ≤ 2 green, ≤ 5 amber, above red; none where it is only reported, or n is too small

An AUC ends at 1, and of a hundred conversations its floor is so high that five times the floor lies
beyond: one whose whole interval lies above ¾, half of the way, is red at any n.

Knows nothing of how the numbers came about.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal

from convgym.calibration.floors import Floor
from convgym.calibration.two_sample import TwoSampleResult

Verdict = Literal["green", "amber", "red", "none"]
GREEN, AMBER = 2.0, 5.0
HALF_WAY = 0.75
"""An AUC half of the way from telling nothing to telling everything."""
FEWEST = 100
"""Conversations a side that a verdict takes."""


@dataclass(frozen=True)
class GapRow:
    """One measure of the gap."""

    metric: str
    value: float
    low: float
    high: float
    """95 %, by drawing conversations again."""
    floor_mean: float
    floor_p95: float
    ratio: float | None
    """None where the row is only reported, or the floor is 0 and the value is not."""
    verdict: Verdict

    @classmethod
    def judged(
        cls,
        metric: str,
        value: float,
        interval: tuple[float, float],
        floor: Floor,
        *,
        auc: bool = False,
        gated: bool = True,
    ) -> GapRow:
        """With ratio and verdict; the floor of an AUC is of what it has above ½."""
        chance = 0.5 if auc else 0.0
        excess = value - chance
        ratio: float | None = None
        if gated and (floor.p95 > 0 or excess <= 0):
            ratio = excess / floor.p95 if floor.p95 > 0 else 0.0
        verdict: Verdict = "none"
        if gated and floor.n >= FEWEST:
            judged = math.inf if ratio is None or (auc and interval[0] > HALF_WAY) else ratio
            verdict = "green" if judged <= GREEN else "amber" if judged <= AMBER else "red"
        floors = chance + floor.mean, chance + floor.p95
        return cls(metric, value, *interval, *floors, ratio, verdict)


@dataclass(frozen=True)
class PredictiveCheck:
    """A statistic of the real conversations among those of simulated sets as large."""

    statistic: str
    real: float
    sim: float
    p: float
    """Share of the sets whose statistic is above the real one; equal ones count half."""
    flagged: bool
    """p outside 0.025 to 0.975; of twenty that are right, one is flagged."""


@dataclass(frozen=True)
class ResponsePoint:
    """What a share of users do after something, with 95 % intervals."""

    response: str
    condition: str
    real: float
    real_interval: tuple[float, float]
    sim: float
    sim_interval: tuple[float, float]

    @property
    def apart(self) -> bool:
        """The intervals share nothing."""
        return max(self.real_interval[0], self.sim_interval[0]) > min(
            self.real_interval[1], self.sim_interval[1]
        )


@dataclass(frozen=True)
class GapReport:
    """How far simulated users are from real ones."""

    rows: tuple[GapRow, ...]
    checks: tuple[PredictiveCheck, ...]
    responses: tuple[ResponsePoint, ...]
    tests: dict[str, TwoSampleResult]
    """By the metric of their row."""
    conversations: int
    """Of each side."""
    floor_conversations: int
    """In each half of the real ones; where that is fewer, the floor was carried on."""
    notes: tuple[str, ...]
    """What was left out, and why."""

    @property
    def reason(self) -> str:
        """Why there is no verdict; "" where there is one."""
        if self.conversations >= FEWEST:
            return ""
        return (
            f"{self.conversations} conversations a side are too few for a verdict; it takes "
            f"{FEWEST} or more."
        )

    @property
    def verdict(self) -> Verdict:
        """The worst of the rows'."""
        given = {row.verdict for row in self.rows}
        return next((colour for colour in ("red", "amber", "green") if colour in given), "none")

    @property
    def passed(self) -> bool:
        """No row is red; never without a verdict."""
        return self.verdict in ("green", "amber")

    @cached_property
    def _by_metric(self) -> dict[str, GapRow]:
        return {row.metric: row for row in self.rows}

    def __contains__(self, metric: object) -> bool:
        """Whether there is a row of that name."""
        return metric in self._by_metric

    def row(self, metric: str) -> GapRow:
        """One row; raises KeyError for a metric that was not measured."""
        return self._by_metric[metric]

    def __getitem__(self, metric: str) -> float:
        """The value of a row; raises KeyError as `row` does."""
        return self.row(metric).value

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values, with `verdict`, `passed` and `reason`."""
        judged = {"verdict": self.verdict, "passed": self.passed, "reason": self.reason}
        return judged | asdict(self)

    def to_markdown(self) -> str:
        """Tables, below what is to be known first."""
        tables = (
            (ROW_HEADER, self.row_cells()),
            (CHECK_HEADER, self.check_cells()),
            (RESPONSE_HEADER, self.response_cells()),
            (TEST_HEADER, self.test_cells()),
        )
        shown = [table(header, cells) for header, cells in tables if cells]
        return "\n\n".join([self.headline, *(f"- {note}" for note in self.notes), *shown])

    @property
    def headline(self) -> str:
        """One sentence."""
        told = {"none": "No verdict: " + self.reason, "green": "Verdict: green."}
        worst = [row.metric for row in self.rows if row.verdict == self.verdict]
        verdict = told.get(self.verdict, f"Verdict: {self.verdict} ({', '.join(worst)}).")
        return f"{verdict} {self.conversations} conversations a side."

    def row_cells(self) -> list[tuple[str, ...]]:
        """Under `ROW_HEADER`."""
        return [
            (
                row.metric,
                show(row.value),
                f"{show(row.low)} to {show(row.high)}",
                show(row.floor_mean),
                show(row.floor_p95),
                "–" if row.ratio is None else f"{row.ratio:.1f}",
                row.verdict,
            )
            for row in self.rows
        ]

    def check_cells(self) -> list[tuple[str, ...]]:
        """Under `CHECK_HEADER`."""
        return [
            (c.statistic, show(c.real), show(c.sim), f"{c.p:.3f}", "yes" if c.flagged else "")
            for c in self.checks
        ]

    def response_cells(self) -> list[tuple[str, ...]]:
        """Under `RESPONSE_HEADER`."""
        return [
            (
                point.response,
                point.condition,
                f"{point.real:.3f} ({point.real_interval[0]:.3f} to {point.real_interval[1]:.3f})",
                f"{point.sim:.3f} ({point.sim_interval[0]:.3f} to {point.sim_interval[1]:.3f})",
                "yes" if point.apart else "",
            )
            for point in self.responses
        ]

    def test_cells(self) -> list[tuple[str, ...]]:
        """Under `TEST_HEADER`."""
        return [
            (metric, "; ".join(test.more_simulated), "; ".join(test.more_real))
            for metric, test in self.tests.items()
        ]


ROW_HEADER = ("metric", "value", "95 % interval", "floor", "floor p95", "ratio", "verdict")
CHECK_HEADER = ("statistic", "real", "simulated", "p", "flagged")
RESPONSE_HEADER = ("response", "after", "real", "simulated", "apart")
TEST_HEADER = ("classifier", "tells the simulated", "tells the real")


def show(value: float) -> str:
    """Three digits."""
    return f"{value:.3g}" if abs(value) >= 1e-4 or value == 0 else f"{value:.1e}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    cells = ([" ".join(cell.split()).replace("|", "\\|") for cell in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)
