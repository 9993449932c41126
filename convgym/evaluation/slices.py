"""For whom and for what the policy fails: slices by trait, the worst tasks, the worst slice.

    trait level   0 ── low ── 33 | 34 ── middle ── 66 | 67 ── high ── 100

Thirds of the scale, which are the terciles of drawn personas where those are uniform (nearly so in
all splits but `test_persona`); as they do not depend on what was drawn, the slices of two policies
or splits compare.

**The worst decile is chosen and measured on different runs.** The tasks with the fewest successes
are so partly by bad luck; their mean over the same runs lies below their true chance. So tasks are
chosen by half of their customers and measured by the other half, then the other way round, and the
two are averaged. The first half's luck is not in the second, so that is an unbiased mean of the
tasks chosen; as half the runs choose less sharply than all would, these are not quite the worst.
Expectations stand in the order

    chosen and measured on all runs  ≤  true mean of the worst tenth  ≤  measured apart
    `same_runs`                                                          `success`

and both ends come together as customers are added. The worst slice is chosen on the tasks with
even places and measured on those with odd ones, for the same reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.evaluation.bootstrap import Floats, TaskBootstrap, middle, share, shares
from convgym.evaluation.intervals import BOOTSTRAP, WILSON, Estimate, wilson
from convgym.users.persona import TRAITS

THIRDS: tuple[tuple[str, int, int], ...] = (
    ("low", 0, 33),
    ("middle", 34, 66),
    ("high", 67, 100),
)
"""Name, first and last level."""
WORST = 10
"""Percent of the tasks that count as the worst."""
LEAST_RUNS = 20
"""A slice with fewer runs among the choosing half is not called the worst."""


@dataclass(frozen=True, slots=True)
class Slice:
    """Success with those whose trait lies in one third."""

    trait: str
    third: str
    runs: int
    success: Estimate

    @property
    def name(self) -> str:
        """Such as `high scepticism`."""
        return f"{self.third} {self.trait}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {"third": self.third, "runs": self.runs, "success": self.success.to_dict()}


@dataclass(frozen=True, slots=True)
class TraitSlices:
    """One trait's slices, low to high; a third that nobody fell into is left out."""

    trait: str
    slices: tuple[Slice, ...]
    effect: Estimate | None
    """Success in the high third minus that in the low one; None where one of them is missing."""

    def __getitem__(self, third: str) -> Slice:
        """The slice called low, middle or high; raises KeyError where nobody fell into it."""
        for piece in self.slices:
            if piece.third == third:
                return piece
        raise KeyError(f"nobody of {third} {self.trait} was met")

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "trait": self.trait,
            "slices": [piece.to_dict() for piece in self.slices],
            "high_minus_low": None if self.effect is None else self.effect.to_dict(),
        }


@dataclass(frozen=True, slots=True)
class WorstDecile:
    """Success on the tasks that the policy does worst; see the head of this file."""

    success: Estimate
    """Of tasks chosen on one half of the customers, on the other half."""
    same_runs: float
    """Chosen and measured on all: too low."""
    tasks: int
    """How many are a tenth, rounded up."""
    hardest: tuple[str, ...]
    """Names of those with the fewest successes over all customers; of equals the first."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "success": self.success.to_dict(),
            "same_runs": self.same_runs,
            "tasks": self.tasks,
            "hardest": list(self.hardest),
        }


@dataclass(frozen=True, slots=True)
class WorstSlice:
    """The slice with the least success; see the head of this file."""

    name: str
    chosen_on: float
    """Success on the tasks that chose it: too low."""
    success: Estimate
    """On the other tasks."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "name": self.name,
            "chosen_on": self.chosen_on,
            "success": self.success.to_dict(),
        }


def _by_slice(
    success: NDArray[np.int8], personas: NDArray[np.int64]
) -> tuple[Floats, Floats, list[tuple[str, str]]]:
    """Successes and runs by task and slice, and (trait, third) of each slice.

    # (tasks, slices), (tasks, slices)
    """
    won, runs, names = [], [], []
    of_user = success.sum(axis=2)  # (tasks, users)
    for place, trait in enumerate(TRAITS):
        for third, first, last in THIRDS:
            levels = personas[:, :, place]
            inside = (levels >= first) & (levels <= last)
            won.append((of_user * inside).sum(axis=1))
            runs.append(inside.sum(axis=1) * success.shape[2])
            names.append((trait, third))
    return np.stack(won, axis=1).astype(float), np.stack(runs, axis=1).astype(float), names


def trait_slices(
    success: NDArray[np.int8], personas: NDArray[np.int64], bootstrap: TaskBootstrap
) -> tuple[TraitSlices, ...]:
    """Success by third of every trait.  # (tasks, users, agents), (tasks, users, traits)"""
    won, runs, names = _by_slice(success, personas)
    found = shares(won, runs, bootstrap)
    sums = bootstrap.sums(np.hstack([won, runs]))
    with np.errstate(invalid="ignore"):
        redrawn = sums[:, : len(names)] / sums[:, len(names) :]
    every = []
    for place in range(0, len(names), len(THIRDS)):
        low, high = place, place + len(THIRDS) - 1
        pieces = tuple(
            Slice(*names[c], int(runs[:, c].sum()), estimate)
            for c in range(low, high + 1)
            if (estimate := found[c]) is not None
        )
        effect, least, most = None, found[low], found[high]
        if least is not None and most is not None:
            between = middle(redrawn[:, high] - redrawn[:, low])
            effect = Estimate(most.value - least.value, *between, BOOTSTRAP)
        every.append(TraitSlices(names[place][0], pieces, effect))
    return tuple(every)


def worst_slice(
    success: NDArray[np.int8], personas: NDArray[np.int64], bootstrap: TaskBootstrap
) -> WorstSlice | None:
    """The slice that fares worst on the even tasks, measured on the odd ones.

    None where no slice has `LEAST_RUNS` runs among the even ones and any among the odd ones.
    # (tasks, users, agents), (tasks, users, traits)
    """
    won, runs, names = _by_slice(success, personas)
    chosen_on = [column[::2].sum(axis=0) for column in (won, runs)]
    enough = (chosen_on[1] >= LEAST_RUNS) & (runs[1::2].sum(axis=0) > 0)
    if not enough.any():
        return None
    rate = np.where(enough, chosen_on[0] / np.maximum(chosen_on[1], 1.0), np.inf)
    worst = int(rate.argmin())
    odd = TaskBootstrap(len(won[1::2]), bootstrap.seed, bootstrap.resamples)
    trait, third = names[worst]
    measured = share(won[1::2, worst], runs[1::2, worst], odd)
    return WorstSlice(f"{third} {trait}", float(rate[worst]), measured)


def worst_decile(
    success: NDArray[np.int8], task_ids: tuple[str, ...], bootstrap: TaskBootstrap
) -> WorstDecile:
    """Success on the worst `WORST` % of the tasks.  # (tasks, users, agents)

    Tasks that did equally badly are not told apart by their place: where a tenth ends among
    equals, each counts in part. Raises ValueError for fewer than two users.
    """
    tasks, users, agents = success.shape
    if users < 2:
        raise ValueError("one user a task cannot both choose and measure; it takes two or more")
    of_user = success.sum(axis=2).astype(np.int64)
    halves = of_user[:, ::2].sum(axis=1), of_user[:, 1::2].sum(axis=1)
    sizes = agents * len(range(0, users, 2)), agents * len(range(1, users, 2))
    value, redrawn = 0.0, np.zeros(bootstrap.resamples)
    for choosing, measuring in ((0, 1), (1, 0)):
        measured = halves[measuring] / sizes[measuring]
        columns = _by_rank(halves[choosing], measured)
        value += float(_tenth(columns.sum(axis=0, keepdims=True))[0]) / 2
        redrawn += _tenth(bootstrap.sums(columns)) / 2
    total = of_user.sum(axis=1)
    all_runs = _by_rank(total, total / (users * agents)).sum(axis=0, keepdims=True)
    count = -(-tasks * WORST // 100)
    if 0.0 < value < 1.0:
        estimate = Estimate(value, *middle(redrawn), BOOTSTRAP)
    else:
        estimate = Estimate(value, *wilson(round(value * count), count), WILSON)
    hardest = np.argsort(total, kind="stable")[:count]
    return WorstDecile(
        estimate, float(_tenth(all_runs)[0]), count, tuple(task_ids[task] for task in hardest)
    )


def _by_rank(choosing: NDArray[np.int64], measured: Floats) -> Floats:
    """Columns per task: 1 and its measure, in the place of its number of successes.

    Tasks with equal numbers share a place, worst first.  # (tasks, 2 × places)
    """
    ranks, place = np.unique(choosing, return_inverse=True)
    inside = (place[:, None] == np.arange(len(ranks))[None, :]).astype(np.float64)
    return np.hstack([inside, inside * measured[:, None]])


def _tenth(sums: Floats) -> Floats:
    """Mean measure of the worst tenth from sums of the columns of `_by_rank`.  # (rows,)"""
    tasks, measured = np.hsplit(sums, 2)
    wanted = tasks.sum(axis=1, keepdims=True) * WORST / 100
    before = np.cumsum(tasks, axis=1) - tasks
    taken = np.clip(wanted - before, 0.0, tasks)
    part = np.divide(taken, tasks, out=np.zeros_like(taken), where=tasks > 0)
    return (part * measured).sum(axis=1) / wanted[:, 0]
