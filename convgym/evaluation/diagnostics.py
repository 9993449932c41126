"""What may be wrong with a policy that was fitted to logs, in one report per fit.

    KL(π ‖ b)          bits a turn                           up to 1 green, up to 5 amber
    offline − online   of the online value                   within 10 % green
    Q bounds           values no rewards can add up to       none green
    OOD gap            Q of acts without support − with      up to 0 green
    ensemble           deviation without support ÷ with      1 and more green
    loop rate          turns that repeat an act where it     up to 10 % green, up to 25 % amber
                       was done before
    multiplier         α of CQL, BEAR … over training        settled green

    r_min + γ r_min + …  ≤  Q  ≤  r_max + γ r_max + …        (1 − γᵀ) / (1 − γ) terms' worth

A conversation may end after any turn, so a bound is never closer to 0 than one turn's reward.
Takes arrays; knows nothing of learners.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from convgym.errors import InvalidConfiguration

if TYPE_CHECKING:
    from convgym.data.transitions import EpisodeArrays

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Band = Literal["green", "amber", "red"]

KL_BANDS = 1.0, 5.0
"""Bits a turn."""
GAP_BANDS = 0.10, 0.25
LOOP_BANDS = 0.10, 0.25
SETTLED = 0.10
"""How much the last fifth of a multiplier's trace may differ from the fifth before."""


@dataclass(frozen=True)
class Diagnostic:
    """One measure."""

    name: str
    value: float
    band: Band
    meaning: str
    """The number in words."""


@dataclass(frozen=True)
class DiagnosticsReport:
    """All measures of a fit."""

    rows: tuple[Diagnostic, ...]

    @property
    def band(self) -> Band:
        """The worst of the rows'; green without any."""
        given = {row.band for row in self.rows}
        bands: tuple[Band, ...] = ("red", "amber", "green")
        return next((band for band in bands if band in given), "green")

    def __getitem__(self, name: str) -> Diagnostic:
        """A row by its name; raises KeyError for what was not measured."""
        return {row.name: row for row in self.rows}[name]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; an infinite value is None."""
        rows = [asdict(row) for row in self.rows]
        for row in rows:
            row["value"] = row["value"] if math.isfinite(row["value"]) else None
        return {"band": self.band, "rows": rows}

    def to_markdown(self) -> str:
        """A table, the worst band above it."""
        lines = [f"Diagnostics: {self.band}.", "", "| measure | value | band | meaning |"]
        lines.append("| --- | --- | --- | --- |")
        lines += [f"| {r.name} | {r.value:.4g} | {r.band} | {r.meaning} |" for r in self.rows]
        return "\n".join(lines)


def kl_to_behavior(policy: Floats, behavior: Floats) -> Diagnostic:
    """Mean of Σ_a π log₂(π / b) over observations; both (n, acts).

    Infinite where π does what b never does.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(policy > 0, policy * np.log2(policy / behavior), 0.0)
    value = float(terms.sum(axis=1).mean())
    unsupported = float(np.where(behavior > 0, 0.0, policy).sum(axis=1).mean())
    meaning = f"bits a turn away from the behaviour; {unsupported:.1%} where it never goes"
    return Diagnostic("KL to behaviour", value, banded(value, KL_BANDS), meaning)


def offline_online_gap(offline: float, online: float) -> Diagnostic:
    """(offline − online) / |online|; the difference alone where `online` is 0."""
    value = (offline - online) / (abs(online) or 1.0)
    side = "above" if value > 0 else "below"
    meaning = f"estimated {offline:.4g} offline, {side} {online:.4g} when played"
    return Diagnostic("offline − online", value, banded(abs(value), GAP_BANDS), meaning)


def value_bounds(
    least: float, most: float, discount: float, turns: int | None = None
) -> tuple[float, float]:
    """What rewards between `least` and `most` can add up to in at most `turns` turns.

    Raises InvalidConfiguration for a discount of 1 without `turns`.
    """
    if discount == 1.0 and turns is None:
        raise InvalidConfiguration("with discount=1 nothing bounds values; give `turns`")
    if discount == 1.0:
        worth = float(turns or 0)
    else:
        worth = (1.0 - (0.0 if turns is None else discount**turns)) / (1.0 - discount)
    return min(least, least * worth), max(most, most * worth)


def q_bounds(q: Floats, low: float, high: float) -> Diagnostic:
    """Share of action values (n, acts) outside `value_bounds`."""
    value = float(((q < low) | (q > high)).mean())
    meaning = f"of values outside [{low:.4g}, {high:.4g}]; they are {q.min():.4g} to {q.max():.4g}"
    return Diagnostic("Q out of bounds", value, "red" if value > 0 else "green", meaning)


def ood_gap(q: Floats, supported: Bools, legal: Bools | None = None) -> Diagnostic:
    """Mean Q of legal acts without support minus with, over observations that have both.

    All (n, acts). Red where most greedy acts have no support, amber where the gap is above 0.
    """
    legal = np.ones_like(supported) if legal is None else legal
    inside, outside = supported & legal, legal & ~supported
    both = inside.any(axis=1) & outside.any(axis=1)
    gaps = _means(q[both], outside[both]) - _means(q[both], inside[both])
    value = float(gaps.mean()) if len(gaps) else 0.0
    best = np.where(legal, q, -np.inf).argmax(axis=1)
    astray = float(outside[np.arange(len(q)), best].mean())
    band: Band = "red" if astray > 0.5 else "amber" if value > 0 or astray > 0 else "green"
    meaning = f"acts without support, less those with; {astray:.1%} of greedy acts have none"
    return Diagnostic("OOD gap", value, band, meaning)


def ensemble_spread(ensemble: Floats, supported: Bools, legal: Bools | None = None) -> Diagnostic:
    """Deviation among critics (members, n, acts) on acts without support, over that on acts with.

    An ensemble that agrees as much about what it never saw knows nothing of its ignorance.
    """
    legal = np.ones_like(supported) if legal is None else legal
    deviation = ensemble.std(axis=0)
    inside, outside = supported & legal, legal & ~supported
    if not inside.any() or not outside.any():
        return Diagnostic("ensemble spread", 1.0, "green", "no acts to compare")
    within, without = float(deviation[inside].mean()), float(deviation[outside].mean())
    value = without / within if within > 0 else math.inf
    meaning = f"deviation {without:.4g} without support, {within:.4g} with"
    return Diagnostic("ensemble spread", value, "green" if value >= 1 else "amber", meaning)


def loop_rate(
    episodes: Sequence[EpisodeArrays], states: Callable[[Any], NDArray[Any]] | None = None
) -> Diagnostic:
    """Share of turns whose act was done before in the same state of the same conversation.

    `states` makes comparable rows of observations (T, …); left out, they are compared as they are.
    """
    repeated = turns = 0
    for episode in episodes:
        seen = episode.observations[:-1]
        rows = np.asarray(states(seen) if states else seen)
        keys = [row.tobytes() if rows.dtype != object else row for row in rows]
        done = {(key, int(act)) for key, act in zip(keys, episode.actions, strict=True)}
        repeated += len(episode) - len(done)
        turns += len(episode)
    value = repeated / max(turns, 1)
    meaning = f"{repeated:,} of {turns:,} turns repeat an act where it was done before"
    return Diagnostic("loop rate", value, banded(value, LOOP_BANDS), meaning)


def multiplier_trace(trace: Sequence[float]) -> Diagnostic:
    """How much the mean of the last fifth differs from the fifth before, as a share of it.

    Raises InvalidConfiguration for fewer than ten values.
    """
    if len(trace) < 10:
        raise InvalidConfiguration(f"a trace of {len(trace)} values; it takes ten or more")
    values, fifth = np.asarray(trace, dtype=np.float64), len(trace) // 5
    before, last = values[-2 * fifth : -fifth].mean(), values[-fifth:].mean()
    value = float((last - before) / (abs(before) or 1.0))
    band: Band = "green" if abs(value) <= SETTLED else "amber" if value < 0 else "red"
    meaning = f"from {values[0]:.4g} by {before:.4g} to {last:.4g}, at most {values.max():.4g}"
    return Diagnostic("multiplier", value, band, meaning)


def banded(value: float, bands: tuple[float, float]) -> Band:
    """Green up to the first, amber up to the second, red above; what is no number is red."""
    return "green" if value <= bands[0] else "amber" if value <= bands[1] else "red"


def _means(values: Floats, chosen: Bools) -> Floats:
    found: Floats = np.where(chosen, values, 0.0).sum(axis=1) / chosen.sum(axis=1)
    return found
