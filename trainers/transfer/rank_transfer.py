"""Does the simulator put policies in the order in which they do on real users?

    policy       simulator   reference
    a              0.81        0.60  ─┐
    b              0.74        0.66   │   Spearman, Kendall   how alike the orders are
    c              0.30        0.35   │   regret at 1         0.66 − 0.60: trusting the first place
    …                                ─┘   value error         mean |simulator − reference|

The reference is a second simulator, real users, or off-policy evaluation on a log. What a newcomer
would get wrong: few episodes leave close policies in any order, and noise makes ranks look less
alike and errors greater than they are. So every number has an interval, and `resolved` says how
much of an order the reference itself can tell; with up to 1,000 logged conversations expect coarse
ranks only. Take policies that really trade off: where one beats all, regret says nothing.

Redraws carry the noise twice, so the middle 95 % of them lie as far to the worse side as the value
itself does. An interval is therefore that middle together with its mirror image at the value, cut
to what the measure can be: wide, but in trials with ten policies it held the true number in 79 to
100 % with 100 tasks, 88 to 100 % with 500, and 95 % or more with 2,000; the middle alone did in 0
to 100 %, 4 to 100 % and 83 to 99 %. No interval holds an error of exactly 0. Knows nothing of
policies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from convgym.data.statistics import spearman
from convgym.engine.keys import child
from convgym.errors import InvalidConfiguration
from convgym.evaluation.bootstrap import MIDDLE, TaskBootstrap, middle
from convgym.evaluation.intervals import BOOTSTRAP, Estimate

Floats = NDArray[np.float64]

FEWEST = 8
"""Policies below which ranks say nothing."""


@dataclass(frozen=True, eq=False)
class PolicyValues:
    """The values of P policies in one place, and R redraws of all of them."""

    names: tuple[str, ...]  # P
    values: Floats  # (P,)
    redrawn: Floats  # (R, P)
    """What other data of this size might have said: the bootstrap's, or any estimator's own."""

    def __post_init__(self) -> None:
        count = len(self.names)
        if count < FEWEST or len(set(self.names)) < count:
            raise InvalidConfiguration(
                f"{count} policies, {len(set(self.names))} names; ranks take {FEWEST} policies or "
                "more, each with a name of its own"
            )
        shapes = self.values.shape, self.redrawn.shape
        if shapes != ((count,), (len(self.redrawn), count)) or not len(self.redrawn):
            raise InvalidConfiguration(
                f"values of shape {shapes[0]}, redrawn of shape {shapes[1]}, for {count} policies; "
                f"they take ({count},) and (redraws, {count}), with a redraw at least"
            )
        if not (np.isfinite(self.values).all() and np.isfinite(self.redrawn).all()):
            raise InvalidConfiguration("a policy has a value that is not finite; leave it out")

    @classmethod
    def of_returns(
        cls, returns: Mapping[str, ArrayLike], *, paired: bool, seed: int = 0
    ) -> PolicyValues:
        """Means of what each policy earned, one number a task: policy → (tasks,).

        `paired`: number i of each policy is of the same task, or (weighted) of the same logged
        conversation; tasks are then redrawn with all their policies. Else each policy's episodes
        are redrawn by themselves, and there may be more of one than of another.

        Raises InvalidConfiguration for a policy with fewer than two numbers, or, paired, with
        other numbers of them than the first.
        """
        earned = [np.asarray(one, dtype=np.float64) for one in returns.values()]
        sizes = [one.size if one.ndim == 1 else 0 for one in earned]
        if min(sizes, default=0) < 2 or (paired and len(set(sizes)) > 1):
            raise InvalidConfiguration(
                f"policies with {sizes} returns each; it takes a row of two or more, and as many "
                "of each policy where paired=True"
            )
        if paired:
            sums = TaskBootstrap(sizes[0], seed).sums(np.stack(earned, axis=1))  # (R, P)
        else:
            sums = np.hstack(
                [
                    TaskBootstrap(one.size, child(seed, place)).sums(one[:, None])
                    for place, one in enumerate(earned)
                ]
            )
        return cls(tuple(returns), np.array([one.mean() for one in earned]), sums / sizes)


@dataclass(frozen=True, slots=True)
class RankTransfer:
    """How well one place ranks the policies of another; intervals as above."""

    policies: int
    spearman: Estimate
    """Rank correlation, equal values sharing their ranks."""
    kendall: Estimate
    """τ_b (Kendall, 1945): pairs in the same order less pairs in the opposite one, over all
    pairs, corrected for equal values."""
    regret_at_1: Estimate
    """Reference value of the best policy less that of the one the simulator calls best."""
    max_rank_regret: Estimate
    """The same at the rank where it is greatest: over k, the reference value of the k-th best less
    that of the one the simulator puts k-th."""
    value_error: Estimate
    """Mean over the policies of |simulator − reference|."""
    resolved: float
    """Share of all pairs of policies whose order the reference tells: 95 % of its redraws agree."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        told = f"{self.policies} policies; the reference can order {self.resolved:.0%} of pairs"
        return "\n".join([told, *(f"{name:16} {getattr(self, name)}" for name in MEASURES)])


def rank_transfer(simulated: PolicyValues, reference: PolicyValues) -> RankTransfer:
    """Compare the values of the same policies in two places.

    Raises InvalidConfiguration where the names or numbers of redraws differ, or where all policies
    have the same value in one place.
    """
    if simulated.names != reference.names or len(simulated.redrawn) != len(reference.redrawn):
        raise InvalidConfiguration(
            f"policies {simulated.names} with {len(simulated.redrawn)} redraws came beside "
            f"{reference.names} with {len(reference.redrawn)}; both take the same, in one order"
        )
    if np.ptp(simulated.values) == 0.0 or np.ptp(reference.values) == 0.0:
        raise InvalidConfiguration("all policies have the same value; there is no order in that")
    # Both may have redrawn by one seed: the r-th redraw of one meets another of the other.
    redraws = list(zip(simulated.redrawn, np.roll(reference.redrawn, 1, axis=0), strict=True))
    estimates = {}
    for name, (measure, least, most) in MEASURES.items():
        value = measure(simulated.values, reference.values)
        assert value is not None, "both sides vary"
        low, high = middle(np.array([measure(*pair) for pair in redraws], dtype=np.float64))
        low, high = min(low, 2 * value - high), max(high, 2 * value - low)
        estimates[name] = Estimate(value, max(low, least), min(high, most), BOOTSTRAP)
    return RankTransfer(len(simulated.names), **estimates, resolved=_resolved(reference))


def kendall(first: Floats, second: Floats) -> float | None:
    """Kendall's τ_b; None where one side never varies.  (P,), (P,)"""
    pairs = np.triu_indices(len(first), 1)
    a, b = (np.sign(side[:, None] - side[None, :])[pairs] for side in (first, second))
    scale = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / scale if scale else None


def rank_regrets(simulated: Floats, reference: Floats) -> Floats:
    """At each rank: the reference's k-th best value less that of the simulator's k-th policy.

    Policies that are equal in the simulator stand at their ranks in any order: each has the mean of
    them. Sums to 0, up to rounding.  (P,), (P,) → (P,)
    """
    _, group = np.unique(-simulated, return_inverse=True)  # 0 is the best
    means = np.bincount(group, weights=reference) / np.bincount(group)
    found: Floats = np.sort(reference)[::-1] - means[np.sort(group)]
    return found


def _regret_at_1(simulated: Floats, reference: Floats) -> float:
    return float(rank_regrets(simulated, reference)[0])


def _max_rank_regret(simulated: Floats, reference: Floats) -> float:
    return float(rank_regrets(simulated, reference).max())


def _value_error(simulated: Floats, reference: Floats) -> float:
    return float(np.abs(simulated - reference).mean())


MEASURES: Mapping[str, tuple[Callable[[Floats, Floats], float | None], float, float]] = {
    "spearman": (spearman, -1.0, 1.0),
    "kendall": (kendall, -1.0, 1.0),
    "regret_at_1": (_regret_at_1, 0.0, np.inf),
    "max_rank_regret": (_max_rank_regret, 0.0, np.inf),
    "value_error": (_value_error, 0.0, np.inf),
}
"""Each with the least and the greatest that it can be."""


def _resolved(values: PolicyValues) -> float:
    """Share of pairs whose difference keeps its sign in the middle 95 % of the redraws."""
    first, second = np.triu_indices(len(values.names), 1)
    low, high = np.quantile(values.redrawn[:, first] - values.redrawn[:, second], MIDDLE, axis=0)
    return float(((low > 0.0) | (high < 0.0)).mean())
