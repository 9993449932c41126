"""Action values of the evaluation policy, fitted to logs; cross-fitting keeps them honest.

    fit_q(training: LoggedPolicyData) ─► q(observations (rows, …)) ─► (rows, acts)

Whoever fits finds `training.episodes`, `training.policy` and `training.evaluation`; a network is
plugged in as `lambda training: fit_network(training.episodes, training.policy)`. `LinearQ` here
needs numpy alone.

    folds     1 1 2 2 3 3        conversations
    fitted on 2+3  1+3  1+2      so that no conversation corrects values that it has taught

A doubly robust estimate whose values were fitted to the same conversations is biased, and its
interval too narrow (Chernozhukov et al., 2018, arXiv:1608.00060).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.errors import DatasetError, InvalidConfiguration
from convgym.evaluation.ope.logged import Floats, LoggedPolicyData

QFunction = Callable[[Any], Floats]
"""Observations (rows, …) → (rows, acts)."""
FitQ = Callable[[LoggedPolicyData], QFunction]
_UNLIMITED = 1_000
"""Sweeps at most, where no horizon ends them."""


def fitted_values(data: LoggedPolicyData, fit_q: FitQ) -> Floats:
    """Action values at every row, fitted to all conversations.  # (rows, acts)"""
    return _asked(fit_q(data), data)


def cross_fitted(data: LoggedPolicyData, fit_q: FitQ, folds: int = 2, seed: int = 0) -> Floats:
    """Action values at every row, fitted to the conversations of the other folds.  # (rows, acts)

    Raises InvalidConfiguration for fewer than two folds, or more than conversations.
    """
    if not 2 <= folds <= data.n:
        raise InvalidConfiguration(f"folds={folds}; it takes 2 to {data.n}, the conversations")
    fold = np.random.default_rng(seed).permutation(data.n) % folds  # (n,)
    found = np.empty(data.evaluation.shape)
    fold_of_row = np.repeat(fold, data.lengths + 1)
    for number in range(folds):
        q = fit_q(data.subset(np.flatnonzero(fold != number)))
        held_out = data.subset(np.flatnonzero(fold == number))
        found[fold_of_row == number] = _asked(q, held_out)
    return found


def _asked(q: QFunction, data: LoggedPolicyData) -> Floats:
    found = np.asarray(q(data.observations), dtype=np.float64)
    if found.shape != data.evaluation.shape or not np.isfinite(found).all():
        raise InvalidConfiguration(
            f"the fitted values have the shape {found.shape} and must be finite numbers of shape "
            f"{data.evaluation.shape}: a row for each observation, a column for each act"
        )
    return found


@dataclass(frozen=True, kw_only=True)
class LinearQ:
    """Fitted Q evaluation (Le, Voloshin & Yue, 2019, arXiv:1903.08738) with linear values.

    q(o, a) = x(o) · (u + u_a)      u shared by all acts, u_a what act a differs by
    u, u_a ← argmin Σ (r + γ Σ_a' π(a' | o') q(o', a') − q(o, a))² + ridge (|u|² + Σ_a |u_a|²)

    x is the observation's first principal components and a 1. An act that was hardly ever taken is
    worth about what others are. There are as many sweeps as turns count, so the values are those
    within the horizon.

    Differs from the paper: values are kept within the returns that the data show, so that sweeps
    cannot run away; a policy that earns more than any conversation did is rated too low.
    """

    features: Callable[[Any], Floats] | None = None
    """Observations (rows, …) → (rows, size); left out, the numbers of the observation."""
    components: int = 64
    """Principal components that are kept; fewer where there are fewer."""
    ridge: float = 1.0
    """Above 0. Higher trusts what was seen rarely less."""
    tolerance: float = 1e-3
    """Sweeps end when no value moves by this share of the range of returns."""

    def __post_init__(self) -> None:
        if self.components < 1 or not self.ridge > 0 or not 0 < self.tolerance < 1:
            raise InvalidConfiguration(
                f"components={self.components}, ridge={self.ridge}, tolerance={self.tolerance}; "
                "components is 1 or more, ridge above 0, tolerance between 0 and 1"
            )

    def __call__(self, training: LoggedPolicyData) -> QFunction:
        """Fit to these conversations; gives the values of any observations."""
        raw = self._numbers(training.observations)
        project = principal_components(raw, self.components)
        rows, order = project(raw), np.argsort(training.actions, kind="stable")
        here = training.row_of_turn[order]
        solver = _SharedRidge(rows[here], training.actions[order], training.acts, self.ridge)
        then, rewards = rows[here + 1], training.rewards[order].astype(np.float32)
        chosen = training.evaluation[here + 1].astype(np.float32)
        chosen *= training.goes_on[order, None].astype(np.float32)
        low, high = return_range(training)
        value = np.zeros(len(here), dtype=np.float32)
        for _ in range(training.horizon or _UNLIMITED):
            weights = solver.weights(rewards + np.float32(training.discount) * value)
            table = then @ weights.T  # the heavy part: (turns, size) @ (size, acts)
            moved = np.einsum("ta,ta->t", chosen, table.clip(low, high, out=table))
            change, value = np.abs(moved - value).max(), moved
            if change <= self.tolerance * (high - low):
                break

        def q(observations: Any) -> Floats:
            given = project(self._numbers(observations)) @ weights.T
            return given.clip(low, high).astype(np.float64)

        return q

    def _numbers(self, observations: Any) -> Floats:
        found = np.asarray(self.features(observations) if self.features else observations)
        if found.dtype.kind not in "iufb":
            raise DatasetError(
                f"observations of type {found.dtype} are no numbers; give `features`, which makes "
                "them some"
            )
        return found.reshape(len(found), -1)


class _SharedRidge:
    """Ridge regressions of all acts with a part that they share, solved exactly.

    With G_a = X_aᵀX_a, b_a = X_aᵀy_a and L_a = (G_a + λ)⁻¹, of which only b depends on y:
    u = (λ + Σ λ L_a G_a)⁻¹ Σ λ L_a b_a,   u_a = L_a (b_a − G_a u).
    """

    def __init__(
        self, rows: NDArray[np.float32], acts: NDArray[np.intp], n_acts: int, ridge: float
    ) -> None:
        """`rows` (turns, size) in the order of their acts."""
        self.present, first = np.unique(acts, return_index=True)
        self.cuts = first[1:]
        self.parts = np.split(rows, self.cuts)  # by act, views
        size = rows.shape[1]
        self.grams = np.zeros((n_acts, size, size))
        for act, part in zip(self.present, self.parts, strict=True):
            self.grams[act] = part.T @ part
        self.inverse = np.linalg.inv(self.grams + ridge * np.eye(size))
        shared = ridge * (self.inverse @ self.grams).sum(axis=0) + ridge * np.eye(size)
        self.solve_shared, self.ridge = np.linalg.inv(shared), ridge

    def weights(self, targets: NDArray[np.float32]) -> NDArray[np.float32]:
        """u + u_a of targets (turns,).  # (acts, size)"""
        sums = np.zeros(self.grams.shape[:2])
        pairs = zip(self.parts, np.split(targets, self.cuts), strict=True)
        sums[self.present] = [part.T @ target for part, target in pairs]
        told = self.ridge * (self.inverse @ sums[:, :, None]).sum(axis=0)[:, 0]
        shared = self.solve_shared @ told
        own = (self.inverse @ (sums - self.grams @ shared)[:, :, None])[:, :, 0]
        return np.asarray(shared + own, dtype=np.float32)


def principal_components(
    rows: NDArray[Any], components: int
) -> Callable[[NDArray[Any]], NDArray[np.float32]]:
    """A map (…, size) → (…, 1 + kept): a 1, and the directions in which `rows` vary most.

    The first of them is scaled to a variance of 1, the others alike.
    """
    mean = rows.mean(axis=0, dtype=np.float64).astype(np.float32)
    centred = rows.astype(np.float32) - mean
    variances, axes = np.linalg.eigh(centred.T @ centred / np.float32(len(rows)))
    greatest = max(float(variances[-1]), 1e-12)
    kept = max(1, min(components, int((variances > 1e-6 * greatest).sum())))
    directions = (axes[:, ::-1][:, :kept] / np.sqrt(greatest)).astype(np.float32)

    def project(given: NDArray[Any]) -> NDArray[np.float32]:
        found = (given.astype(np.float32) - mean) @ directions
        return np.hstack([np.ones((len(found), 1), dtype=np.float32), found])

    return project


def return_range(data: LoggedPolicyData) -> tuple[float, float]:
    """Least and greatest discounted return from any turn on, and 0."""
    to_go, total = [0.0], np.zeros(data.n)
    for column in data.padded(data.rewards).T[::-1]:
        total = column + data.discount * total
        to_go += [total.min(), total.max()]
    return float(min(to_go)), float(max(to_go))
