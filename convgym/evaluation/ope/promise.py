"""What an off-policy report promised of a policy before it was deployed: one interval.

    report.json   an `OffPolicyReport` as its `to_dict` has it, or a list of them
      ─► whose? ─► which estimator's interval? ─► Promise

Knows nothing of what came of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from convgym.errors import InvalidConfiguration
from convgym.rewards.outcome import is_number

PREFERRED = ("WDR", "WIS", "DR", "WPDIS", "PDIS", "IS")
"""The first of these that carries an interval is taken where nobody names one."""


@dataclass(frozen=True)
class Promise:
    """An estimated return, with the interval that it was given."""

    policy: str
    estimator: str
    value: float
    low: float
    high: float
    alpha: float
    """The interval holds with probability 1 − α."""
    discount: float


def read_promise(path: Path, policy: str | None = None, estimator: str | None = None) -> Promise:
    """The promise of one policy in a file.

    policy: its name in the report; needed where a file has several. estimator: of `PREFERRED` the
    first that has an interval unless told.

    Raises InvalidConfiguration for a file without one, with the reason.
    """
    try:
        found: Any = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidConfiguration(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise InvalidConfiguration(f"{path} is no JSON; give an off-policy report") from None
    reports = found if isinstance(found, list) else [found]
    if not reports or not all(isinstance(one, Mapping) and "rows" in one for one in reports):
        raise InvalidConfiguration(
            f"{path} is no off-policy report; write json.dumps(report.to_dict()) of what "
            "convgym.evaluation.ope.off_policy.evaluate_off_policy gives"
        )
    names = [str(one.get("policy")) for one in reports]
    if len(reports) > 1:
        if policy not in names:
            raise InvalidConfiguration(
                f"{path} reports on {', '.join(names)}; name one of them with --policy"
            )
        reports = [reports[names.index(str(policy))]]
    return _promise(path, reports[0], estimator)


def _promise(path: Path, report: Mapping[str, Any], estimator: str | None) -> Promise:
    rows: dict[str, Mapping[str, Any]] = {}
    for row in report["rows"]:
        if isinstance(row, Mapping) and is_number(row.get("low")) and is_number(row.get("high")):
            rows.setdefault(str(row.get("estimator")), row)
    chosen = estimator or next((name for name in PREFERRED if name in rows), None)
    if chosen is None or chosen not in rows:
        asked = f"of {estimator!r}" if estimator else "at all"
        verdict = f"its verdict is {report.get('verdict')!r}"
        there = f"there are {', '.join(rows)}" if rows else verdict
        raise InvalidConfiguration(f"{path} has no interval {asked}; {there}")
    row = rows[chosen]
    low, high = float(row["low"]), float(row["high"])
    value = float(row["value"]) if is_number(row.get("value")) else (low + high) / 2
    discount, alpha = report.get("discount", 1.0), report.get("alpha", 0.05)
    return Promise(
        str(report.get("policy")), chosen, value, low, high,
        float(alpha) if is_number(alpha) else 0.05,
        float(discount) if is_number(discount) else 1.0,
    )  # fmt: skip
