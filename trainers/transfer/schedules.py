"""How much of what a learner sees is simulated, step by step.

    ρ  initial ┤▔▔▔▔▔▔▔▔▔▔╲
               │           ╲         linear, exponential, cosine or step
       final   ┤            ╲▁▁▁▁▁▁
               └──────────┬─┬─────
                     warm-up total     steps

What a newcomer would get wrong: ρ is the share of *simulated* data, so transfer means that it
falls. Pure functions of the step; knows nothing of what is mixed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from convgym.errors import InvalidConfiguration


@dataclass(frozen=True, kw_only=True)
class RatioSchedule:
    """The share of simulated data at each step.

        p = min(max((step − warmup_steps) / (total_steps − warmup_steps), 0), 1)
        ρ = (1 − f(p)) · initial + f(p) · final

        linear        f(p) = p
        exponential   f(p) = (1 − e^(−decay · p)) / (1 − e^(−decay))
        cosine        f(p) = (1 − cos πp) / 2                            (Loshchilov & Hutter, 2017,
        step          f(p) = share of the thresholds with threshold ≤ p   arXiv:1608.03983, eq. 5)

    All begin at `initial`, exactly, and end at `final`, exactly. With decay = ln(initial / final)
    the exponential one is ρ = initial · (final / initial)^p.

    Raises InvalidConfiguration for a value that is not allowed.
    """

    kind: str = "linear"
    """`linear`, `exponential`, `cosine` or `step`."""
    total_steps: int = 10_000
    """Steps after which ρ stays at `final`."""
    warmup_steps: int = 0
    """Steps for which ρ stays at `initial`; fewer than all."""
    initial: float = 1.0
    """ρ at first, in [0, 1]: 1 is simulated data alone."""
    final: float = 0.0
    """ρ at last, in [0, 1]; a little above 0 keeps what real data are too few to teach."""
    decay: float = 5.0
    """Of `exponential`: above 0; the greater, the sooner ρ falls."""
    thresholds: tuple[float, ...] = (0.25, 0.5, 0.75)
    """Of `step`: shares p of the way after warm-up, rising, in (0, 1]; each is an equal step."""

    def __post_init__(self) -> None:
        if self.kind not in SHAPES:
            raise InvalidConfiguration(f"kind={self.kind!r}; it takes one of {sorted(SHAPES)}")
        if not 0 <= self.warmup_steps < self.total_steps:
            raise InvalidConfiguration(
                f"warmup_steps={self.warmup_steps}, total_steps={self.total_steps}; the warm-up "
                "takes from 0 to fewer than all steps"
            )
        for name in ("initial", "final"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise InvalidConfiguration(f"{name}={getattr(self, name)!r}; it lies in [0, 1]")
        if not 0.0 < self.decay < math.inf:
            raise InvalidConfiguration(f"decay={self.decay!r}; it must be above 0 and finite")
        rising = all(below < above for below, above in pairwise((0.0, *self.thresholds)))
        if not (self.thresholds and rising and self.thresholds[-1] <= 1.0):
            raise InvalidConfiguration(
                f"thresholds={self.thresholds!r}; they are one or more, rising, in (0, 1]"
            )

    def ratio(self, step: int) -> float:
        """ρ at a step, counted from 0; before and after the schedule as at its ends."""
        way = (step - self.warmup_steps) / (self.total_steps - self.warmup_steps)
        done = SHAPES[self.kind](self, min(max(way, 0.0), 1.0))
        return (1.0 - done) * self.initial + done * self.final


def _linear(schedule: RatioSchedule, way: float) -> float:
    return way


def _exponential(schedule: RatioSchedule, way: float) -> float:
    return math.expm1(-schedule.decay * way) / math.expm1(-schedule.decay)


def _cosine(schedule: RatioSchedule, way: float) -> float:
    return (1.0 - math.cos(math.pi * way)) / 2.0


def _step(schedule: RatioSchedule, way: float) -> float:
    return sum(threshold <= way for threshold in schedule.thresholds) / len(schedule.thresholds)


SHAPES: Mapping[str, Callable[[RatioSchedule, float], float]] = {
    "linear": _linear,
    "exponential": _exponential,
    "cosine": _cosine,
    "step": _step,
}
"""f of each kind: which share of the way from `initial` to `final` is done at p."""
