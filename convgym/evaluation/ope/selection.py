"""Choosing among policies by their off-policy estimates, and how good the choice was.

    Spearman       correlation of the ranks of estimates and of true values
    regret@k       best true value of all  −  best true value of the k estimated best

A policy that the logs cannot identify is ranked by nobody: it is listed apart. (Truth is known only
where an environment can be played; then these say whether estimates may be trusted elsewhere.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from convgym.errors import InvalidConfiguration
from convgym.evaluation.ope.logged import Floats, LoggedPolicyData, policy_probabilities
from convgym.evaluation.ope.off_policy import (
    OffPolicyConfig,
    calibration_of,
    evaluate_off_policy,
)
from convgym.evaluation.ope.off_policy_report import OffPolicyReport

CONSERVATIVE = "conservative"
"""The least estimate, as a name beside those of estimators."""


def evaluate_policies(
    data: LoggedPolicyData, policies: Mapping[str, Any], config: OffPolicyConfig | None = None
) -> list[OffPolicyReport]:
    """A report for each of `policies`, which are what `LoggedPolicyData.build` takes."""
    calibration = calibration_of(data, config)
    reports = []
    for name, policy in policies.items():
        asked = policy_probabilities(policy, data.episodes)
        given = data.with_evaluation(asked, policy)
        reports.append(evaluate_off_policy(given, config, name=name, calibration=calibration))
    return reports


@dataclass(frozen=True)
class SelectionQuality:
    """How an estimator ranks policies whose true values are known."""

    estimator: str
    policies: int
    spearman: float
    """NaN where all estimates or all values are equal."""
    regret_at_1: float
    regret_at_3: float
    rmse: float
    relative_error: float
    """Mean |estimate − value|, over the mean |value|."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


def ranked(reports: Sequence[OffPolicyReport], by: str = "WDR") -> list[OffPolicyReport]:
    """Identifiable policies, the best estimate first; `by` is an estimator or "conservative"."""
    kept = [report for report in reports if report.identifiable]
    return sorted(kept, key=lambda report: -estimate(report, by))


def estimate(report: OffPolicyReport, by: str) -> float:
    """An estimator's value, or the conservative one; raises InvalidConfiguration for none."""
    value = report.conservative if by == CONSERVATIVE else report[by]
    if value is None:
        raise InvalidConfiguration(f"{by} has no value for {report.policy!r}: there is no support")
    return value


def selection_quality(
    reports: Sequence[OffPolicyReport], truth: Mapping[str, float], by: str = "WDR"
) -> SelectionQuality:
    """How well `by` ranks the identifiable policies; `truth` has each one's value by name.

    Raises InvalidConfiguration for fewer than two identifiable policies.
    """
    best_first = ranked(reports, by)
    if len(best_first) < 2:
        raise InvalidConfiguration(
            f"{len(best_first)} of {len(reports)} policies are identifiable; a ranking takes two"
        )
    estimates = np.array([estimate(report, by) for report in best_first])
    values = np.array([truth[report.policy] for report in best_first])
    errors = estimates - values
    return SelectionQuality(
        estimator=by,
        policies=len(values),
        spearman=spearman(estimates, values),
        regret_at_1=float(values.max() - values[:1].max()),
        regret_at_3=float(values.max() - values[:3].max()),
        rmse=float(np.sqrt(np.square(errors).mean())),
        relative_error=float(np.abs(errors).mean() / np.abs(values).mean()),
    )


# That of convgym.data.statistics is out of reach: convgym.data plays through convgym.evaluation.
def spearman(first: Floats, second: Floats) -> float:
    """Rank correlation of (n,) and (n,), equal ones sharing their mean rank; NaN without spread."""
    one, other = _ranks(first), _ranks(second)
    if np.ptp(one) == 0 or np.ptp(other) == 0:
        return float("nan")
    return float(np.corrcoef(one, other)[0, 1])


def _ranks(values: Floats) -> Floats:
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    found: Floats = (np.cumsum(counts) - (counts - 1) / 2)[place]
    return found
