"""Progressive transfer: learn from the simulator, from many of them, then from real data as well.

    step        0          randomised_from    warm-up ends          total_steps
    simulated   simulator  │ randomised       │ randomised          │
    real                   │                  │ 1 − ρ of each batch │
                └──────────┴──────────────────┴─────────────────────┘
    after every `round_steps`:   gap? ─► monitor       value on held-out real users ─► history

The loop and nothing else: what a batch is, how a policy learns from it and how it is judged, the
caller says. What a newcomer would get wrong: `evaluate` must play users that no batch came from;
the value on those that it has learnt from says nothing of transfer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Generic, TypeVar

from convgym.errors import InvalidConfiguration
from trainers.transfer.gap_monitor import GapMonitor
from trainers.transfer.mixing import MixedBatch, MixedSampler, Source
from trainers.transfer.schedules import RatioSchedule

P = TypeVar("P")
"""A policy, whatever it is."""

Train = Callable[[P, Iterator[MixedBatch]], P]
"""Learn from the batches of one round, each once, in their order."""
Rows = Iterable[Mapping[str, Any]]
"""Of a gap report, as `GapMonitor.observe` takes them."""


@dataclass(frozen=True, kw_only=True)
class SimToRealConfig:
    """When a policy meets what.

    Raises InvalidConfiguration for a value that is not allowed.
    """

    schedule: RatioSchedule = field(default_factory=RatioSchedule)
    """The share ρ of simulated data, and the number of steps; in its warm-up, `initial`."""
    randomised_from: int = 0
    """The step from which simulated batches come from randomised simulators."""
    batch_size: int = 64
    """Draws of one step."""
    round_steps: int = 100
    """Steps between two evaluations."""
    seed: int = 0
    """Of the numbers of simulated and real draws; sources and learners have their own."""

    def __post_init__(self) -> None:
        for name, least in (("randomised_from", 0), ("batch_size", 1), ("round_steps", 1)):
            if getattr(self, name) < least:
                raise InvalidConfiguration(
                    f"{name}={getattr(self, name)}; it takes a whole number ≥ {least}"
                )


@dataclass(frozen=True, slots=True)
class TransferRound:
    """What one round came to."""

    step: int
    """Steps so far."""
    sim_ratio: float
    """ρ at the round's last step."""
    drawn: tuple[int, int]
    """Simulated and real draws of the round."""
    value: float
    """On held-out real users, after the round."""
    alerts: tuple[str, ...]
    """The metrics of the gap whose alert stands."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


class SimToRealTransfer(Generic[P]):
    """Runs the loop above.

    While an alert of the monitor stands, the simulator is not to be trusted: ρ is the schedule's
    `final` or, where that is smaller, what the schedule says.
    """

    def __init__(self, config: SimToRealConfig, monitor: GapMonitor | None = None) -> None:
        self.config = config
        self.monitor = monitor or GapMonitor()
        self.history: list[TransferRound] = []

    def get_sim_ratio(self, step: int) -> float:
        """The share of simulated data at a step, counted from 0, as the alerts stand now."""
        ratio, final = self.config.schedule.ratio(step), self.config.schedule.final
        return min(ratio, final) if self.monitor.alerts else ratio

    def run(
        self,
        policy: P,
        train: Train[P],
        evaluate: Callable[[P], float],
        *,
        simulator: Source,
        real: Source,
        randomised: Source | None = None,
        gap: Callable[[P], Rows] | None = None,
    ) -> P:
        """Train a policy through all steps; `history` gets one entry a round, from an empty one.

        `evaluate` gives a policy's value on held-out real users. `randomised` is the simulator
        where it is not given. `gap` measures, before each round, how far the simulator is from
        real users under this policy. A source for a learner that wants its own episodes plays the
        policy that `train` was last handed.

        Raises InvalidConfiguration where `train` leaves batches of a round.
        """
        mixed = MixedSampler(simulator, real, self.get_sim_ratio, self.config.seed)
        later, self.history = simulator if randomised is None else randomised, []
        total = self.config.schedule.total_steps
        for first in range(0, total, self.config.round_steps):
            steps = range(first, min(first + self.config.round_steps, total))
            if gap is not None:
                self.monitor.observe(first, gap(policy))
            drawn: list[tuple[int, int]] = []
            policy = train(policy, self._batches(steps, mixed, later, drawn))
            if len(drawn) < len(steps):
                raise InvalidConfiguration(
                    f"train took {len(drawn)} of the {len(steps)} batches of a round; it takes all"
                )
            simulated, of_real = (sum(counts) for counts in zip(*drawn, strict=True))
            self.history.append(
                TransferRound(
                    step=steps[-1] + 1,
                    sim_ratio=self.get_sim_ratio(steps[-1]),
                    drawn=(simulated, of_real),
                    value=evaluate(policy),
                    alerts=self.monitor.alerts,
                )
            )
        return policy

    def _batches(
        self, steps: range, mixed: MixedSampler, later: Source, drawn: list[tuple[int, int]]
    ) -> Iterator[MixedBatch]:
        """The batches of some steps; what was drawn is noted."""
        for step in steps:
            if step >= self.config.randomised_from:
                mixed.simulated = later
            batch = mixed.sample(self.config.batch_size, step)
            drawn.append(batch.counts)
            yield batch
