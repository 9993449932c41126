"""What an off-policy report holds, and how it reads as a dict and as Markdown.

    OffPolicyReport ─┬─ verdict, ess, max_weight, unsupported_mass    may one believe it?
                     ├─ behavior_value                                what the data earned
                     ├─ rows            value, interval, and the same estimator on the behaviour
                     ├─ disagreements   pairs apart by more than their joint interval
                     └─ conservative    the least of those reported together

Knows nothing of how the numbers came about.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

from convgym.evaluation.ope.intervals import Interval
from convgym.evaluation.ope.support import Verdict

CUTS = {
    "nothing": "what a conversation that was cut off would still have earned counts nothing: "
    "values are those within the horizon of the data",
    "value": "a conversation that was cut off counts the fitted value of its last observation; "
    "estimators without fitted values are left out",
}


@dataclass(frozen=True)
class EstimateRow:
    """One estimator's answer."""

    estimator: str
    value: float | None
    """None where there is no support."""
    low: float | None = None
    high: float | None = None
    """None where the estimator carries no interval, or may carry none."""
    method: str = ""
    """Of the interval."""
    calibration: float | None = None
    """What the estimator finds for the behaviour itself."""
    calibrated: bool = True
    """Whether that lies in the interval of the mean return."""
    note: str = ""

    @property
    def half_width(self) -> float:
        """Of the interval; 0 without one."""
        return 0.0 if self.low is None or self.high is None else (self.high - self.low) / 2

    def with_interval(self, interval: Interval, method: str) -> EstimateRow:
        """The same row with an interval."""
        return replace(self, low=interval[0], high=interval[1], method=method)

    def with_note(self, note: str) -> EstimateRow:
        """The same row, explained."""
        return replace(self, note="; ".join(filter(None, [self.note, note])))


@dataclass(frozen=True)
class OffPolicyReport:
    """What logs tell about a policy that did not make them."""

    policy: str
    conversations: int
    turns: int
    discount: float
    after_cut: str
    alpha: float
    """Intervals hold with probability 1 − α."""
    truncated: float
    """Share of conversations that were cut off."""
    behavior_value: float
    """Mean discounted return of the data."""
    behavior_low: float
    behavior_high: float
    ess: float
    """Effective conversations, of the weights of whole ones."""
    verdict: Verdict
    mean_weight: float
    """Near 1; what is missing has no support, or was not drawn."""
    max_weight: float
    max_share: float
    """The share of all weight that one conversation has."""
    unsupported_mass: float
    rows: tuple[EstimateRow, ...]
    disagreements: tuple[tuple[str, str], ...]
    conservative: float | None
    """The least of the estimates that are reported together; None where nothing is identified."""

    def row(self, estimator: str) -> EstimateRow:
        """One estimator's row; raises KeyError for one that did not run."""
        for row in self.rows:
            if row.estimator == estimator:
                return row
        raise KeyError(estimator)

    def __getitem__(self, estimator: str) -> float | None:
        """The value of a row; raises KeyError as `row` does."""
        return self.row(estimator).value

    @property
    def identifiable(self) -> bool:
        """Whether the logs say anything about this policy."""
        return self.verdict in ("green", "amber")

    @property
    def headline(self) -> str:
        """One sentence or two."""
        least = "none" if self.conservative is None else f"{self.conservative:.3f}"
        told = {
            "no support": "No support: no conversation is one that this policy could have had.",
            "not identifiable": "Not identifiable: too few conversations are like this policy's.",
            "amber": f"At least {least} (amber: few conversations are like this policy's).",
            "green": f"At least {least}, by the least of the estimates.",
        }[self.verdict]
        return (
            f"{self.policy}. {told} {self.ess:,.0f} effective of {self.conversations:,} "
            f"conversations."
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be known first."""
        found = [
            f"The data earned {show(self.behavior_value)} "
            f"({show(self.behavior_low)} to {show(self.behavior_high)}), discount "
            f"{self.discount:g}; {self.truncated:.1%} of the conversations were cut off, and "
            f"{CUTS[self.after_cut]}.",
            f"The greatest weight is {show(self.max_weight)}, {self.max_share:.1%} of all; the "
            f"mean weight is {show(self.mean_weight)}, where 1 is expected. "
            f"{self.unsupported_mass:.1%} of what the policy does has no support. Intervals are of "
            f"{1 - self.alpha:.0%}.",
        ]
        if self.disagreements:
            pairs = ", ".join(f"{one} and {other}" for one, other in self.disagreements)
            found.append(f"Estimators disagree beyond their joint interval: {pairs}.")
        wrong = [row.estimator for row in self.rows if not row.calibrated]
        if wrong:
            found.append(f"Do not find the data's own mean return: {', '.join(wrong)}.")
        return tuple(found)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values, with `identifiable` and `headline`; what is no number is None."""
        judged = {"identifiable": self.identifiable, "headline": self.headline}
        found: dict[str, Any] = _plain(judged | asdict(self))
        return found

    def to_markdown(self) -> str:
        """A table, below what is to be known first."""
        lines = [self.headline, "", *(f"- {note}" for note in self.notes), ""]
        cells = [ROW_HEADER, ("---",) * len(ROW_HEADER), *self.row_cells()]
        return "\n".join([*lines, *(f"| {' | '.join(line)} |" for line in cells)])

    def row_cells(self) -> list[tuple[str, ...]]:
        """Under `ROW_HEADER`."""
        return [
            (
                row.estimator,
                show(row.value),
                "–" if row.low is None else f"{show(row.low)} to {show(row.high)}",
                row.method or "–",
                show(row.calibration) + ("" if row.calibrated else " (off)"),
                row.note,
            )
            for row in self.rows
        ]


ROW_HEADER = ("estimator", "value", "interval", "interval by", "on the behaviour", "note")


def show(value: float | None) -> str:
    """Three digits; a dash for what there is not."""
    return "–" if value is None or not math.isfinite(value) else f"{value:.3f}"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
