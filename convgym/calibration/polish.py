"""The polish: what counts cannot set of a counted user, turned until its people are like real ones.

    fitted ─┬─ three folds ─► users counted without a fold ─► what they say in its stead ─┐
            │                         ▲ knobs                                              ├─► gap
            │                         └──── CMA-ES ◄── gap + RIDGE · Σ knob² ◄─────────────┘
            ├─ a part apart ──► gap at 0 and as turned: the knobs are taken where it is smaller
            └─ the rest, of long logs: counted, never compared

    knob               at 0 as it was counted or chosen; else
    acts               ln of a factor on the strengths with which histories of acts are shrunk
    acts_by_length     ln of one more on the longest of them, and of one less on the shortest
    slots              ln of a factor on the strengths of histories of slots
    shelves            ln of a factor on how many turns a shelf of phrases needs
    leaving            added to the logit of leaving      ┐ where no agents' turns say when
    leaving_sharpness  ln of a factor on that logit       ┘ a conversation ends

Counts choose these by the likelihood of one choice after what really came before; people who talk
for a whole conversation live with what they have said themselves, and there another choice does
better. What a newcomer would get wrong: a polished user gives held-out turns a smaller likelihood
than the counted one, and repeats longer stretches of the log. Gaps are those of
`convgym.calibration.moments`, with the shares of conversations by number of turns, in bins between
the log's deciles, as further statistics; what is compared draws common random numbers. CMA-ES:
Hansen (2016, arXiv:1604.00772), of the package `cma`. No clock is asked: see `PACE`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from convgym.calibration.log_simulator import LogSimulator
from convgym.calibration.moments import Floats, moment_gap, moments
from convgym.calibration.transitions import Backoff
from convgym.conversation import Conversation
from convgym.data.splits import split_indices
from convgym.engine.keys import MASK, child
from convgym.errors import MissingExtra

Progress = Callable[[int, int], None]
"""Told how many settings were tried, of how many at most."""
UNITS = {
    "acts": 1.0, "acts_by_length": 1.0, "slots": 1.0, "shelves": 1.0, "leaving": 0.3,
    "leaving_sharpness": 0.3,
}  # fmt: skip
"""The knobs, each with its unit in the search."""
WHERE_IT_ENDS = ("leaving", "leaving_sharpness")
REACH = 3.0
"""Units that a knob turns at most, either way."""
RIDGE = 0.02
"""Of gap that a knob must save to be turned by one unit."""
FOLDS = 3
IN_FOLD, APART = 120, 200
"""Conversations of a fold and of the part apart at most; of short logs each is a quarter."""
FEWEST = 80
"""Fitted conversations below which inner parts are too small to tell better from worse."""
PACE = 5_000
"""User turns that are simulated and compared for each second of the budget, on any machine: what
one slow core does."""
MOST = 400
"""Settings tried at most, whatever the budget."""
GENERATION = 9
"""Settings of a generation."""
SPREAD = 0.7
"""Units that the first settings spread."""
_DECILES = np.arange(0.1, 1.0, 0.1)
TIMES = 8
"""So many simulated conversations for each real one decide whether knobs are taken."""


@dataclass(frozen=True)
class Polish:
    """What a polish found, and whether it was taken."""

    knobs: dict[str, float]
    """See the module."""
    gap_before: float
    """On the inner part that neither counts nor search have seen, with the knobs at 0; see the
    module for what it is of."""
    gap_after: float
    """There, as they were turned."""
    evaluations: int
    """Settings that were simulated."""

    @property
    def taken(self) -> bool:
        """Whether it helped where it was judged."""
        return self.gap_after < self.gap_before


def turned(simulator: LogSimulator, knobs: Mapping[str, float]) -> LogSimulator:
    """The same user with its knobs turned from where the counts left them."""
    at = dict.fromkeys(UNITS, 0.0) | dict(knobs)
    made = copy(simulator)
    made.acts = _scaled(simulator.acts, at["acts"], at["acts_by_length"])
    made.signatures = _scaled(simulator.signatures, at["slots"], 0.0)
    made.bank = copy(simulator.bank)
    made.bank.enough = simulator.bank.enough * math.exp(at["shelves"])
    made.end = simulator.end.tilted(at["leaving"], math.exp(at["leaving_sharpness"]))
    return made


def polish(
    simulator: LogSimulator,
    fitted: Sequence[Conversation],
    seed: int,
    budget_s: float,
    progress: Progress | None = None,
) -> Polish | None:
    """Search for knobs; None where the log is too short, or the budget too small, to try any.

    simulator: as counted from `fitted`, conversation by conversation.
    budget_s: nominal seconds, of `PACE` turns each.

    Raises MissingExtra without cma.
    """
    if len(fitted) < FEWEST:
        return None
    *folds, apart = _inner_parts(fitted, seed)
    log = simulator.log
    assert len(log) == len(fitted), "conversations and counted users go side by side"
    turns = sum(len(log[index].turns) for fold in folds for index in fold)
    generations = int(min(MOST, budget_s * PACE / turns)) // GENERATION
    if not generations:
        return None

    def without(*left_out: Sequence[int]) -> LogSimulator:
        gone = {index for part in left_out for index in part}
        return LogSimulator([u for i, u in enumerate(log) if i not in gone], simulator.labels)

    edges = np.unique(np.quantile([len(user.turns) for user in log], _DECILES))

    pairs = [(without(fold, apart), [fitted[index] for index in fold]) for fold in folds]
    real = _statistics([c for _, said in pairs for c in said], edges)
    closed = agents_in(fitted) is not None
    names = [name for name in UNITS if not (closed and name in WHERE_IT_ENDS)]

    def named(units: Floats) -> dict[str, float]:
        return {k: UNITS[k] * float(u) for k, u in zip(names, units, strict=True)}

    def loss(units: Floats, generation: int) -> float:
        knobs, key = named(units), child(seed & MASK, generation)
        sim = [c for user, said in pairs for c in simulated(turned(user, knobs), said, key)]
        return moment_gap(real, _statistics(sim, edges)) + RIDGE * float(np.square(units).sum())

    best = _searched(loss, len(names), generations, seed, progress)
    judges, counted = [fitted[index] for index in apart], without(apart)
    judged = _statistics(judges, edges)
    before, after = (
        moment_gap(judged, _statistics(simulated(user, judges, seed, TIMES), edges))
        for user in (counted, turned(counted, named(best)))
    )
    return Polish(named(best), before, after, generations * GENERATION)


def simulated(
    simulator: LogSimulator, real: Sequence[Conversation], seed: int, times: int = 1
) -> list[Conversation]:
    """As many conversations as real ones, or some times as many, with their agents' turns."""
    return simulator.generate(times * len(real), seed, agent_turns=agents_in(real))


def agents_in(real: Sequence[Conversation]) -> Sequence[Conversation] | None:
    """The conversations where an agent speaks in any of them, else None."""
    return real if any(any(c.said_by("assistant")) for c in real) else None


def _statistics(conversations: Sequence[Conversation], edges: Floats) -> Floats:
    """Moments, and in which bin between the edges a conversation's number of turns lies."""
    found = moments(conversations)
    bins = np.searchsorted(edges, found[:, :1])
    return np.column_stack([found, bins == np.arange(len(edges) + 1)])


def _inner_parts(fitted: Sequence[Conversation], seed: int) -> list[list[int]]:
    """The folds, and the part apart; of long logs a rest is in none of them."""
    quarter, n = 1 / (FOLDS + 1), len(fitted)
    shares = [min(quarter, IN_FOLD / n)] * FOLDS + [min(quarter, APART / n)]
    rest = 1 - sum(shares)
    return split_indices(fitted, [*shares, *([rest] if rest > 1e-6 else [])], seed)[: FOLDS + 1]


def _scaled(table: Backoff[Any], factor: float, by_length: float) -> Backoff[Any]:
    """A table with other strengths; factors as logarithms."""
    count = len(table.strengths)
    lengths = np.linspace(-1.0, 1.0, count) if count > 1 else np.zeros(count)
    factors = np.exp(factor + by_length * lengths)
    return table.shrunk((np.array(table.strengths) * factors).tolist())


def _searched(
    loss: Callable[[Floats, int], float],
    size: int,
    generations: int,
    seed: int,
    progress: Progress | None,
) -> Floats:
    """The mean of the last settings.

    loss: of a setting in a generation; every generation has chance of its own, so that no setting
        wins by what it happened to draw, and those of one generation share it.
    """
    try:
        from cma import CMAEvolutionStrategy
    except ImportError as error:
        raise MissingExtra("cma", "calibration") from error
    chance = np.random.default_rng(seed)
    options = {
        # Its own generator, and so never the global one, which a seed would set.
        "randn": lambda *shape: chance.standard_normal(shape),
        "seed": np.nan,
        "popsize": GENERATION,
        "bounds": [-REACH, REACH],
        "verbose": -9,
        "verb_log": 0,
    }
    search = CMAEvolutionStrategy(np.zeros(size), SPREAD, options)
    for generation in range(generations):
        settings = search.ask()
        search.tell(settings, [loss(units, generation) for units in settings])
        if progress is not None:
            progress((generation + 1) * GENERATION, generations * GENERATION)
    return np.asarray(search.result.xfavorite)
