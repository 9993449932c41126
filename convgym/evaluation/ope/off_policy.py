"""All estimators on one evaluation policy, with the rules that say when not to believe them.

    LoggedPolicyData ─► weights ─► ESS, verdict ──────────────┐
                    ├─► estimators, intervals ─► disagreement ├─► OffPolicyReport
                    └─► the behaviour's own value, by each ───┘

The last line is a calibration: asked about the policy that made the data, every estimator has to
find the mean return. One that does not is marked, and it is wrong elsewhere too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np

from convgym.errors import InvalidConfiguration
from convgym.evaluation.bootstrap import TaskBootstrap
from convgym.evaluation.ope.behavior import States, as_behavior
from convgym.evaluation.ope.estimators import (
    RatioSums,
    doubly_robust,
    importance_sampling,
    per_decision,
    redrawn,
    weighted,
    weighted_doubly_robust,
    weighted_per_decision,
)
from convgym.evaluation.ope.fitted_q import FitQ, LinearQ, cross_fitted, fitted_values
from convgym.evaluation.ope.intervals import (
    Interval,
    empirical_bernstein,
    hoeffding,
    redrawn_interval,
    student_t,
)
from convgym.evaluation.ope.logged import Floats, LoggedPolicyData
from convgym.evaluation.ope.off_policy_report import EstimateRow, OffPolicyReport
from convgym.evaluation.ope.support import (
    FEWEST,
    effective_sample_size,
    unsupported_mass,
    verdict_of,
)
from convgym.evaluation.ope.tabular import marginal_value, model_value

COMPARED = ("WIS", "WDR", "FQE", "model-based", "marginal IS")
"""Estimators that are reported together; of these the least value is the conservative one."""

_UNBIASED = ("IS", "PDIS", "regression IS")


@dataclass(frozen=True, kw_only=True)
class OffPolicyConfig:
    """Which estimators, and how sure their intervals are."""

    fit_q: FitQ | None = field(default_factory=LinearQ)
    """Fits action values for DR, WDR and FQE; None leaves these out."""
    folds: int = 2
    """Cross-fitting of DR and WDR: values never come from the conversations that they correct."""
    states: States | None = None
    """Observations → cells, for the model-based estimate and marginal IS; None leaves them out."""
    fit_behavior: Callable[[LoggedPolicyData], Floats] | None = None
    """Estimates b(· | o) (rows, acts) for regression IS and WIS; None leaves them out."""
    alpha: float = 0.05
    """Intervals hold with probability 1 − α."""
    resamples: int = 2_000
    """Redraws of conversations."""
    return_range: Interval | None = None
    """Least and greatest return there can be; with `weight_limit` it gives bounds."""
    weight_limit: float | None = None
    """What no weight of a conversation can exceed, whatever is drawn."""
    seed: int = 0
    """Of folds and redraws."""

    def __post_init__(self) -> None:
        if self.folds < 2 or self.resamples < 100 or not 0 < self.alpha < 1:
            raise InvalidConfiguration(
                f"folds={self.folds}, resamples={self.resamples}, alpha={self.alpha}; it takes 2 "
                "folds or more, 100 redraws or more, and an alpha between 0 and 1"
            )
        if (self.return_range is None) != (self.weight_limit is None):
            raise InvalidConfiguration(
                "bounds need both `return_range` and `weight_limit`; give both, or neither"
            )


def calibration_of(
    data: LoggedPolicyData, config: OffPolicyConfig | None = None
) -> dict[str, float]:
    """What each estimator finds for the behaviour itself; the same for every evaluation policy.

    Estimated propensities say something there only where all of the behaviour is known; and where
    values follow a cut, the mean return is not the behaviour's value, so nothing is asked.
    """
    config = config or OffPolicyConfig()
    if data.after_cut == "value":
        return {}
    if data.behavior is None:
        config = replace(config, fit_behavior=None)
    found = _values(as_behavior(data), config)
    return {estimator: _number(one) for estimator, one in found.items()}


def evaluate_off_policy(
    data: LoggedPolicyData,
    config: OffPolicyConfig | None = None,
    *,
    name: str = "",
    calibration: dict[str, float] | None = None,
) -> OffPolicyReport:
    """What `data.policy` is worth, as far as the logs can tell.

    `calibration` is what `calibration_of` found in the same logs, so as not to ask again.

    Raises InvalidConfiguration for bounds that the data break, or fitted values of wrong shape.
    """
    config = config or OffPolicyConfig()
    weights = data.final_weights
    ess = float(effective_sample_size(weights))
    verdict = verdict_of(ess)
    mean, spread = float(data.returns.mean()), (math.nan, math.nan)
    if data.n > 1:
        spread = student_t(data.returns, config.alpha)
    own = calibration_of(data, config) if calibration is None else calibration
    found = _values(data, config)
    intervals = _intervals(found, data.n, config) if ess >= FEWEST else {}
    rows = tuple(
        _row(estimator, one, own.get(estimator), spread, intervals.get(estimator))
        for estimator, one in found.items()
    )
    rows += _bounds(data, config) if ess >= FEWEST else ()
    compared = [row for row in rows if row.estimator in COMPARED]
    least = min((row.value for row in compared if row.value is not None), default=None)
    return OffPolicyReport(
        policy=name or str(getattr(data.policy, "name", "evaluation policy")),
        conversations=data.n,
        turns=len(data.actions),
        discount=data.discount,
        after_cut=data.after_cut,
        alpha=config.alpha,
        truncated=float(np.mean([episode.truncated for episode in data.episodes])),
        behavior_value=mean,
        behavior_low=spread[0],
        behavior_high=spread[1],
        ess=ess,
        verdict=verdict,
        mean_weight=float(weights.mean()),
        max_weight=float(weights.max()),
        max_share=float(weights.max() / weights.sum()) if ess > 0 else 0.0,
        unsupported_mass=unsupported_mass(data, config.states),
        rows=rows,
        disagreements=tuple(
            (one.estimator, other.estimator)
            for one, other in combinations(compared, 2)
            if apart(one, other)
        ),
        conservative=least if ess >= FEWEST else None,
    )


def apart(one: EstimateRow, other: EstimateRow) -> bool:
    """Whether two estimates differ by more than their joint interval.

    Its half-width is √(h₁² + h₂²); an estimate without an interval has none of its own, and two of
    that kind cannot be told apart.
    """
    if one.value is None or other.value is None or (one.low is None and other.low is None):
        return False
    return abs(one.value - other.value) > math.hypot(one.half_width, other.half_width)


def _values(data: LoggedPolicyData, config: OffPolicyConfig) -> dict[str, RatioSums | float]:
    """Each estimator's sums, or its value where it has none."""
    rewards = data.padded(data.rewards)
    found: dict[str, RatioSums | float] = {}
    if data.after_cut == "nothing":
        found |= _by_weights(data.weights, rewards, data.discount)
    if config.fit_q is not None:
        q = cross_fitted(data, config.fit_q, config.folds, config.seed)
        taken, values = data.padded_values(q)
        given = (data.weights, rewards, data.discount, taken, values)
        found |= {"DR": doubly_robust(*given), "WDR": weighted_doubly_robust(*given)}
        whole = fitted_values(data, config.fit_q)
        found["FQE"] = float(data.first_values(whole).mean())
    if config.states is not None:
        found["model-based"] = model_value(data, config.states)
        found["marginal IS"] = marginal_value(data, config.states)
    if config.fit_behavior is not None and data.after_cut == "nothing":
        estimated = data.with_behavior(config.fit_behavior(data))
        again = _by_weights(estimated.weights, rewards, data.discount)
        found |= {"regression IS": again["IS"], "regression WIS": again["WIS"]}
    return found


def _number(found: RatioSums | float) -> float:
    return float(found.value) if isinstance(found, RatioSums) else found


def _by_weights(weights: Floats, rewards: Floats, discount: float) -> dict[str, RatioSums | float]:
    return {
        "IS": importance_sampling(weights, rewards, discount),
        "PDIS": per_decision(weights, rewards, discount),
        "WIS": weighted(weights, rewards, discount),
        "WPDIS": weighted_per_decision(weights, rewards, discount),
    }


def _intervals(
    found: dict[str, RatioSums | float], n: int, config: OffPolicyConfig
) -> dict[str, tuple[Interval, str]]:
    """Interval and its name of each estimator that may carry one."""
    sums = {name: one for name, one in found.items() if isinstance(one, RatioSums)}
    finite = {name: one for name, one in sums.items() if math.isfinite(one.value)}
    plain = {name: one for name, one in finite.items() if name in _UNBIASED}
    again = {name: one for name, one in finite.items() if name not in _UNBIASED}
    told = {
        name: (student_t(one.above[:, 0], config.alpha), "Student t") for name, one in plain.items()
    }
    replicates = redrawn(list(again.values()), TaskBootstrap(n, config.seed, config.resamples))
    for name, one in zip(again, replicates, strict=True):
        told[name] = redrawn_interval(one, config.alpha), "conversations drawn again"
    return told


def _row(
    estimator: str,
    found: RatioSums | float,
    calibration: float | None,
    spread: Interval,
    interval: tuple[Interval, str] | None,
) -> EstimateRow:
    value = _number(found)
    row = EstimateRow(
        estimator=estimator,
        value=value if math.isfinite(value) else None,
        calibration=calibration,
        calibrated=calibration is None or not (calibration < spread[0] or calibration > spread[1]),
    )
    if interval is not None:
        return row.with_interval(*interval)
    if row.value is None:
        return row.with_note("no support")
    if isinstance(found, RatioSums):
        return row.with_note("no interval: not identifiable")
    return row.with_note("no interval: drawing again does not show its bias")


def _bounds(data: LoggedPolicyData, config: OffPolicyConfig) -> tuple[EstimateRow, ...]:
    """IS between bounds that hold at any n."""
    if config.return_range is None or config.weight_limit is None or data.after_cut != "nothing":
        return ()
    low, high = config.return_range
    terms, limit = data.final_weights * data.returns, config.weight_limit
    given = terms, min(0.0, low * limit), max(0.0, high * limit)
    row = EstimateRow(estimator="IS", value=float(terms.mean()))
    return (
        row.with_interval(empirical_bernstein(*given, config.alpha), "empirical Bernstein"),
        row.with_interval(hoeffding(*given, config.alpha), "Hoeffding"),
    )
