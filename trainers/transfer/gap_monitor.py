"""Alerts when the gap between simulated and real conversations has grown beyond its noise.

    ratio = gap ÷ floor       floor: the same gap between two halves of real data of this size

    alert_above ┤        ╭──╮                  an alert begins here, after `patience` readings
                │      ╭─╯  ╰──╮    ╭─╮        …and lasts: this is neither red nor green
    clear_below ┤  ╭───╯       ╰────╯ ╰──╮     …until here
                └──┴─────────────────────┴──   readings

A gap alone says nothing: at 100 conversations, two halves of the same data may differ by more than
a bad simulator does at 10,000. So only ratios are compared. Knows nothing of how gaps are measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from convgym.errors import InvalidConfiguration


@dataclass(frozen=True, kw_only=True)
class GapMonitorConfig:
    """When an alert begins, and when it ends.

    begins   ratio > alert_above in `patience` readings of a metric in a row
    ends     ratio ≤ clear_below

    The defaults are the gap report's: up to 2 is green, above 5 red.
    """

    alert_above: float = 5.0
    """Times the floor; at least `clear_below`."""
    clear_below: float = 2.0
    """Times the floor; 0 or more."""
    patience: int = 1
    """Readings in a row; 1 or more."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.clear_below <= self.alert_above < math.inf:
            raise InvalidConfiguration(
                f"clear_below={self.clear_below}, alert_above={self.alert_above}; they are times "
                "the noise floor, with 0 ≤ clear_below ≤ alert_above"
            )
        if self.patience < 1:
            raise InvalidConfiguration(f"patience={self.patience}; it takes 1 reading or more")


@dataclass(frozen=True, slots=True)
class GapReading:
    """One metric at one step."""

    step: int
    metric: str
    value: float
    ratio: float | None
    """None where the metric is reported, but not judged."""
    alert: bool
    """Whether an alert stands after this reading."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


class GapMonitor:
    """Takes in the rows of gap reports, keeps them all, and says which metrics alert."""

    def __init__(self, config: GapMonitorConfig | None = None) -> None:
        self.config = config or GapMonitorConfig()
        self.history: list[GapReading] = []
        self._above: dict[str, int] = {}
        """Of each metric: readings above `alert_above` in a row."""
        self._alerts: set[str] = set()

    @property
    def alerts(self) -> tuple[str, ...]:
        """The metrics whose alert stands, by name."""
        return tuple(sorted(self._alerts))

    def observe(self, step: int, rows: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
        """Take in one report; the metrics whose alert has begun with it.

        Each row has `metric`, `value` and `ratio`, and may have more: `report.to_dict()["rows"]`
        of a gap report. A ratio of None changes nothing. Raises InvalidConfiguration for a ratio
        of nan; then nothing of the report is taken in.
        """
        rows, before = list(rows), set(self._alerts)
        for row in rows:
            if row["ratio"] is not None and math.isnan(row["ratio"]):
                raise InvalidConfiguration(
                    f"the metric {row['metric']!r} has the ratio nan at step {step}; give a "
                    "number, or None for what shall not be judged"
                )
        for row in rows:
            metric, ratio = row["metric"], row["ratio"]
            if ratio is not None:
                self._judge(metric, ratio)
            alert = metric in self._alerts
            self.history.append(GapReading(step, metric, row["value"], ratio, alert))
        return tuple(sorted(self._alerts - before))

    def _judge(self, metric: str, ratio: float) -> None:
        above = ratio > self.config.alert_above
        self._above[metric] = self._above.get(metric, 0) + 1 if above else 0
        if self._above[metric] >= self.config.patience:
            self._alerts.add(metric)
        elif ratio <= self.config.clear_below:
            self._alerts.discard(metric)
