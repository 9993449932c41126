"""Two policies that answered at the same time: how far apart they are, and how sure that is.

    Arm A ── successes, returns ─┐
                                 ├─► difference B − A with its 95 % interval ─► Difference
    Arm B ── successes, returns ─┘   └─► how many more conversations would tell a difference of δ

    success    Newcombe's hybrid score interval, of the two shares' Wilson intervals (Newcombe,
               1998, method 10)
    return     conversations drawn again, each arm for itself (`convgym.evaluation.bootstrap`)
    n for δ    (z_{1−α/2} + z_{0.8})² (s_A² / f_A + s_B² / f_B) / δ², f the arms' shares: so many
               tell δ from 0 in 4 of 5 experiments

Each interval holds for one look that was planned beforehand; who looks every day and stops when he
likes what he sees is wrong more often than once in twenty. Knows nothing of logs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from convgym.errors import InvalidConfiguration
from convgym.evaluation.bootstrap import TaskBootstrap, middle
from convgym.evaluation.intervals import (
    BOOTSTRAP,
    NORMAL,
    WILSON,
    Estimate,
    mean_interval,
    wilson,
)

NEWCOMBE = "Newcombe"
_Z975, _Z80 = 1.959963984540054, 0.8416212335729143
ODD_SPLIT = 0.001
"""p below which a split is not the one that was asked for."""


@dataclass(frozen=True)
class Arm:
    """What one policy's conversations came to."""

    name: str
    conversations: int
    successes: tuple[bool, ...]
    """Of those of which it is known."""
    returns: tuple[float, ...]
    share: float | None = None
    """Of all conversations, as the service was told; None where it changed or nobody said."""

    @property
    def success(self) -> Estimate | None:
        """With Wilson's interval; None where nothing is known."""
        n, won = len(self.successes), sum(self.successes)
        return Estimate(won / n, *wilson(won, n), WILSON) if n else None

    @property
    def return_(self) -> Estimate | None:
        """With a normal interval; None below two conversations."""
        if len(self.returns) < 2:
            return None
        mean = math.fsum(self.returns) / len(self.returns)
        return Estimate(mean, *mean_interval(self.returns), NORMAL)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "name": self.name,
            "conversations": self.conversations,
            "share": self.share,
            "success": None if self.success is None else self.success.to_dict(),
            "return": None if self.return_ is None else self.return_.to_dict(),
        }


@dataclass(frozen=True)
class Difference:
    """One arm less another, in one measure."""

    measure: str
    """`success` or `return`."""
    base: str
    other: str
    value: Estimate
    delta: float
    """The difference that is to be told from none."""
    more: int
    """Conversations of both arms together that this would take beyond those there are."""

    @property
    def apart(self) -> bool:
        """Whether 0 lies outside of the interval."""
        return not self.value.low <= 0.0 <= self.value.high

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self) | {"value": self.value.to_dict(), "apart": self.apart}


def differences(base: Arm, other: Arm, delta: float = 0.05, seed: int = 0) -> list[Difference]:
    """`other` − `base` in every measure that both know of two conversations or more.

    Raises InvalidConfiguration for a delta that is not above 0.
    """
    if not delta > 0:
        raise InvalidConfiguration(f"a difference of {delta:g} came; it must be above 0")
    found = []
    if min(len(base.successes), len(other.successes)) >= 2:
        sides = [[float(won) for won in arm.successes] for arm in (base, other)]
        found.append(_difference("success", base, other, sides, _newcombe(base, other), delta))
    if min(len(base.returns), len(other.returns)) >= 2:
        sides = [list(arm.returns) for arm in (base, other)]
        found.append(_difference("return", base, other, sides, _redrawn(sides, seed), delta))
    return found


def odd_split(arms: Sequence[Arm]) -> float | None:
    """p of the arms' numbers, were conversations split as told; None where nobody said how.

    Below `ODD_SPLIT` something loses conversations of one arm, and the arms do not compare.
    Pearson's χ², its tail by Wilson & Hilferty's cube root.
    """
    shares = [arm.share for arm in arms if arm.share]
    total = sum(arm.conversations for arm in arms)
    if not 2 <= len(shares) == len(arms) or not math.isclose(sum(shares), 1, abs_tol=1e-6):
        return None
    expected = [share * total for share in shares]
    square = sum(
        (arm.conversations - e) ** 2 / e for arm, e in zip(arms, expected, strict=True)
    )
    degrees = len(arms) - 1
    if degrees == 1:
        return math.erfc(math.sqrt(square / 2))
    z = ((square / degrees) ** (1 / 3) - (1 - 2 / (9 * degrees))) / math.sqrt(2 / (9 * degrees))
    return math.erfc(z / math.sqrt(2)) / 2


def _difference(
    measure: str,
    base: Arm,
    other: Arm,
    sides: Sequence[Sequence[float]],
    value: Estimate,
    delta: float,
) -> Difference:
    return Difference(measure, base.name, other.name, value, delta, _more(sides, delta))


def _newcombe(base: Arm, other: Arm) -> Estimate:
    one, two = base.success, other.success
    assert one is not None and two is not None
    value = two.value - one.value
    low = value - math.hypot(two.value - two.low, one.high - one.value)
    high = value + math.hypot(two.high - two.value, one.value - one.low)
    return Estimate(value, low, high, NEWCOMBE)


def _redrawn(sides: Sequence[Sequence[float]], seed: int) -> Estimate:
    means = []
    for number, side in enumerate(sides):
        values = np.array(side, dtype=np.float64)
        redraws = TaskBootstrap(len(values), 2 * seed + number).sums(values[:, None])[:, 0]
        means.append((float(values.mean()), redraws / len(values)))
    (one, one_redrawn), (two, two_redrawn) = means
    return Estimate(two - one, *middle(two_redrawn - one_redrawn), BOOTSTRAP)


def _more(sides: Sequence[Sequence[float]], delta: float) -> int:
    total = sum(map(len, sides))
    spread = sum(float(np.var(side, ddof=1)) * total / len(side) for side in sides)
    needed = (_Z975 + _Z80) ** 2 * spread / delta**2
    return max(0, math.ceil(needed) - total)
