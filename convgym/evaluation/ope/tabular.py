"""Estimators of conversations whose observations fall into cells: exact where the cells are states.

    states(observations (rows, …)) ─► (rows,) cell of each, 0, 1, …

    model      P̂(s' | s, a), r̂(s, a)  counted, then planned through           `model_value`
    marginal   d_{t+1}(s') = Σ_s d_t(s) P̂^π(s' | s),   P̂^π, r̂^π from ratios    `marginal_value`
    tabular q  q(s, a) = mean of r + γ v(o')                                   `TabularQ`

Cells hold all turns alike: what follows depends on the cell and not on the turn. An act that
nobody took in a cell is worth there what the acts are worth that were taken; how often π asks for
such acts is the report's unsupported mass. What was cut off goes on where it was cut, for as many
turns as count: the longest conversation's, or without end with `after_cut="value"`.

Marginal importance sampling: Xie, Ma & Wang (2019, arXiv:1906.03393), here with self-normalised
ratios and turns pooled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.errors import InvalidConfiguration
from convgym.evaluation.ope.behavior import States
from convgym.evaluation.ope.fitted_q import QFunction
from convgym.evaluation.ope.logged import Floats, LoggedPolicyData

_ENDLESS = 10_000
"""Turns at most, where no horizon ends them."""
_SMALL = 1e-10


def cells_of(states: States, observations: Any) -> NDArray[np.intp]:
    """The cells; raises InvalidConfiguration for anything but a whole number ≥ 0 a row."""
    cells = np.asarray(states(observations))
    if cells.dtype.kind not in "iu" or cells.ndim != 1 or (cells < 0).any():
        raise InvalidConfiguration(
            f"`states` gave {cells.dtype} of shape {cells.shape}; it takes the number of a cell, "
            "0 or more, for each observation"
        )
    return cells.astype(np.intp)


def sampled_cells(observations: NDArray[Any], cells: int, seed: int = 0) -> States:
    """Cells by the nearest of some of these observations, for vectors that are no states."""
    rows = np.asarray(observations, dtype=np.float32).reshape(len(observations), -1)
    different = np.unique(rows, axis=0)
    chosen = np.random.default_rng(seed).permutation(len(different))[:cells]
    centres = different[np.sort(chosen)]
    lengths = np.square(centres).sum(axis=1)

    def nearest(given: Any) -> NDArray[np.intp]:
        flat = np.asarray(given, dtype=np.float32).reshape(len(given), -1)
        return np.asarray((lengths - 2.0 * flat @ centres.T).argmin(axis=1))

    return nearest


def model_value(data: LoggedPolicyData, states: States) -> float:
    """Value of π in the most likely Markov model of the cells."""
    cells = cells_of(states, data.observations)
    policy = _policy_of_cells(data, cells)
    following = cells[data.row_of_turn + 1]
    q = _action_values(data, cells, lambda table: (policy * table).sum(axis=1)[following])
    return float((policy * q).sum(axis=1)[cells[data.start_rows]].mean())


def marginal_value(data: LoggedPolicyData, states: States) -> float:
    """Value of π by the shares of cells that it visits, each from those a turn before.

    Where π does nothing that was done in a cell, it goes on there as the data do.
    """
    cells = cells_of(states, data.observations)
    here, following = cells[data.row_of_turn], cells[data.row_of_turn + 1]
    ratios = data.ratios[data.live]
    in_all = np.bincount(here, ratios, minlength=cells.max() + 1)
    ratios = np.where(in_all[here] > 0, ratios, 1.0)
    shares = ratios / np.bincount(here, ratios, minlength=cells.max() + 1)[here]  # (turns,)
    starts = np.bincount(cells[data.start_rows], minlength=cells.max() + 1)
    visited: Floats = np.asarray(starts / data.n, dtype=np.float64)
    value, factor = 0.0, 1.0
    for _ in range(data.horizon or _ENDLESS):
        flow = visited[here] * shares
        value += factor * float(flow @ data.rewards)
        arrived = np.bincount(following, flow * data.goes_on, minlength=cells.max() + 1)
        visited = arrived.astype(np.float64)
        factor *= data.discount
        if visited.sum() * factor < _SMALL:
            break
    return value


@dataclass(frozen=True)
class TabularQ:
    """Fitted Q evaluation with one value for each cell and act; a `FitQ`."""

    states: States
    """Observations → cells."""

    def __call__(self, training: LoggedPolicyData) -> QFunction:
        """Fit to these conversations; cells that they never saw are worth 0."""
        cells = cells_of(self.states, training.observations)
        then = training.row_of_turn + 1
        chosen, following = training.evaluation[then], cells[then]
        table = _action_values(
            training, cells, lambda q: np.einsum("ta,ta->t", chosen, q[following])
        )

        def q(observations: Any) -> Floats:
            asked = cells_of(self.states, observations)
            known = np.minimum(asked, len(table) - 1)
            return np.where((asked < len(table))[:, None], table[known], 0.0)

        return q


def _action_values(
    data: LoggedPolicyData, cells: NDArray[np.intp], expected: Callable[[Floats], Floats]
) -> Floats:
    """q(s, a) = mean of r + γ v(o'), swept as many times as turns count.  # (cells, acts)

    `expected` makes v(o_{t+1}) (turns,) from q.
    """
    shape = int(cells.max()) + 1, data.acts
    place = cells[data.row_of_turn] * data.acts + data.actions
    taken = np.bincount(place, minlength=shape[0] * shape[1]).reshape(shape)
    there = np.maximum(taken.sum(axis=1, keepdims=True), 1)
    value = np.zeros(len(place))
    for _ in range(data.horizon or _ENDLESS):
        targets = data.rewards + data.discount * data.goes_on * value
        sums = np.bincount(place, targets, minlength=taken.size).reshape(shape)
        average = sums.sum(axis=1, keepdims=True) / there
        q: Floats = np.where(taken > 0, sums / np.maximum(taken, 1), average)
        moved = expected(q)
        change, value = np.abs(moved - value).max(), moved
        if change < _SMALL:
            break
    return q


def _policy_of_cells(data: LoggedPolicyData, cells: NDArray[np.intp]) -> Floats:
    """π(a | s), the mean over the turns in the cell; 0 in one without.  # (cells, acts)"""
    here = cells[data.row_of_turn]
    order = np.argsort(here, kind="stable")
    present, first, count = np.unique(here[order], return_index=True, return_counts=True)
    found = np.zeros((int(cells.max()) + 1, data.acts))
    asked = data.evaluation[data.row_of_turn[order]]
    found[present] = np.add.reduceat(asked, first, axis=0) / count[:, None]
    return found
