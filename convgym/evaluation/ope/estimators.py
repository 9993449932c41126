"""Importance sampling and doubly robust estimators, as sums of ratios of sums.

                                  per conversation i, column c
    estimate  =  Σ_c  Σ_i above_ic / Σ_i below_ic

    IS       w_T G                                   / 1
    PDIS     Σ_t γ^t w_t r_t                         / 1
    WIS      w_T G                                   / w_T
    WPDIS    γ^t w_t r_t                             / w_t               a column each turn t
    DR       Σ_t γ^t (w_t (r_t − q_t) + w_{t-1} v_t) / 1
    WDR      γ^t w_t (r_t − q_t), γ^t w_{t-1} v_t    / w_t, w_{t-1}      two columns each turn

Everything is a sum over conversations, so drawing conversations again costs one product of
matrices. Arrays may have any number of leading axes (…, n, T): a thousand data sets at once.

Every conversation counts in the sum below at every turn: one that has ended lives on with its last
weight and earns nothing. Dividing by those alone who still talk would estimate what they earn,
not what conversations earn, and would count the short ones for too little.

IS, PDIS, WIS, WPDIS: Precup, Sutton & Singh (2000); DR: Jiang & Li (2016, arXiv:1511.03722);
WDR: Thomas & Brunskill (2016, arXiv:1604.00923).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from convgym.evaluation.bootstrap import TaskBootstrap

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RatioSums:
    """An estimate as ratios of sums over conversations."""

    above: Floats  # (…, n, columns)
    below: Floats | None = None  # (…, n, columns); None is 1 everywhere

    @property
    def value(self) -> Floats:
        """(…,) the estimate; NaN where all weights are 0, which is no support."""
        return self.of_sums(self.columns.sum(axis=-2), self.above.shape[-2])

    @property
    def columns(self) -> Floats:
        """(…, n, columns or twice as many) what is added up over conversations."""
        return self.above if self.below is None else np.concatenate([self.above, self.below], -1)

    def of_sums(self, sums: Floats, n: int) -> Floats:
        """(…,) the estimate from sums of `columns` (…, columns) over n conversations."""
        count = self.above.shape[-1]
        return _summed(sums[..., :count], n if self.below is None else sums[..., count:])


def redrawn(found: Sequence[RatioSums], bootstrap: TaskBootstrap) -> list[Floats]:
    """Each one's estimates from redrawn conversations (resamples,), all from the same redraws."""
    if not found:
        return []
    sums = bootstrap.sums(np.hstack([one.columns for one in found]))
    ends = np.cumsum([one.columns.shape[-1] for one in found])[:-1]
    parts = np.split(sums, ends, axis=1)
    pairs = zip(found, parts, strict=True)
    return [one.of_sums(part, bootstrap.tasks) for one, part in pairs]


def _summed(above: Floats, below: Floats | float) -> Floats:
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Floats = (above / below).sum(axis=-1)
    return found


def importance_sampling(weights: Floats, rewards: Floats, discount: float) -> RatioSums:
    """IS of weights and rewards (…, n, T), discount γ."""
    returns = (rewards * _powers(discount, rewards)).sum(axis=-1, keepdims=True)
    return RatioSums(weights[..., -1:] * returns)


def per_decision(weights: Floats, rewards: Floats, discount: float) -> RatioSums:
    """PDIS: each reward has the weight of the acts before it."""
    earned = weights * rewards * _powers(discount, rewards)
    return RatioSums(earned.sum(axis=-1, keepdims=True))


def weighted(weights: Floats, rewards: Floats, discount: float) -> RatioSums:
    """WIS: IS over the sum of weights."""
    return RatioSums(importance_sampling(weights, rewards, discount).above, weights[..., -1:])


def weighted_per_decision(weights: Floats, rewards: Floats, discount: float) -> RatioSums:
    """WPDIS: each turn's PDIS over that turn's sum of weights."""
    return RatioSums(weights * rewards * _powers(discount, rewards), weights)


def doubly_robust(
    weights: Floats, rewards: Floats, discount: float, taken: Floats, values: Floats
) -> RatioSums:
    """DR with q(o_t, a_t) `taken` (…, n, T) and v(o_t) `values` (…, n, T + 1), 0 past the end."""
    corrected, expected = _parts(weights, rewards, discount, taken, values)
    return RatioSums(corrected.sum(axis=-1, keepdims=True) + expected.sum(axis=-1, keepdims=True))


def weighted_doubly_robust(
    weights: Floats, rewards: Floats, discount: float, taken: Floats, values: Floats
) -> RatioSums:
    """WDR: DR with each turn's weights over their sum."""
    parts = _parts(weights, rewards, discount, taken, values)
    below = np.concatenate([weights, _before(weights)], axis=-1)
    return RatioSums(np.concatenate(parts, axis=-1), below)


def _parts(
    weights: Floats, rewards: Floats, discount: float, taken: Floats, values: Floats
) -> tuple[Floats, Floats]:
    """γ^t w_t (r_t − q_t) (…, n, T), and γ^t w_{t-1} v_t (…, n, T + 1)."""
    corrected = weights * (rewards - taken) * _powers(discount, rewards)
    return corrected, _before(weights) * values * _powers(discount, values)


def _powers(discount: float, like: Floats) -> Floats:
    """γ^t for each column of an array (…, columns)."""
    return np.asarray(discount ** np.arange(like.shape[-1]), dtype=np.float64)


def _before(weights: Floats) -> Floats:
    """w_{-1} = 1, w_0, …, w_{T-1}.  # (…, n, T + 1)"""
    return np.concatenate([np.ones_like(weights[..., :1]), weights], axis=-1)
