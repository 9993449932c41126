"""The gap between simulated and real conversations, each number beside its noise floor.

    real ─┬─ n of them ─┐
          │             ├─► values, intervals ─┐
    sim ──┼─ n of them ─┘                      ├─► ratio ─► verdict ─► GapReport
          └─ halves of n ──► noise floors ─────┘

Only the user's turns count, and of the agent's what they answer. Both sides have n conversations,
drawn where there are more, because every one of these numbers hangs on n.

    intervals   conversations are drawn again, with all their turns; because divergences of redrawn
                sets lie higher than that of the sets themselves, the redraws are moved so that
                their mean is the value
    checks      200 simulated sets as large as the real one, of simulators as uncertain as n
                conversations leave them; Gelman, Meng & Stern (1996)
    `_new`      tests once more, without the turns of both sides that stand word for word in the
                training logs; their floors are those of all turns, a little too strict

Knows nothing of how conversations are simulated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from convgym.calibration.floors import Floor, noise_floors
from convgym.calibration.gap_report import GapReport, GapRow, PredictiveCheck, ResponsePoint
from convgym.calibration.rates import responses, statistics
from convgym.calibration.tallies import Tallies, Weights
from convgym.calibration.turns import Floats, Ints, UserTurns, plain
from convgym.calibration.two_sample import (
    LEVELS,
    REAL,
    SIM,
    Level,
    TwoSampleResult,
    examples_of,
    held_out_scores,
    run_test,
)
from convgym.conversation import Conversation
from convgym.data.cues import words_of
from convgym.errors import DatasetError, InvalidConfiguration
from convgym.evaluation.bootstrap import TaskBootstrap, share
from convgym.language.encoders import Encoder, HashedEncoder

if TYPE_CHECKING:
    from convgym.language.act_tagger import ActTagger

FEWEST_MEASURED = 40
"""Conversations a side below which halves are too small for five folds."""
SPLITS, TEST_SPLITS = 100, 30
"""Halvings behind a floor, and behind that of a classifier, which costs more."""
RESAMPLES = 200
FEWEST_RUNS = 20
"""Turns of each side that a response curve's point takes."""
REPORTED = ("vocab_overlap", "verbatim_share")
"""Rows without a verdict: both are far from 0, and from 1, between real users too."""
TURN_LEVELS: tuple[Level, ...] = ("turn", "character", "context")


def compute_sim_real_gap(
    real: Iterable[Conversation],
    sim: Iterable[Conversation],
    level: Literal["full", "quick"] = "full",
    training: Iterable[Conversation] | None = None,
    *,
    tagger: ActTagger | None = None,
    encoder: Encoder | None = None,
    conversations: int = 500,
    seed: int = 0,
) -> GapReport:
    """Compare simulated users with real ones that the simulator has never seen.

    real: held-out conversations; twice as many as are compared give the floors at that n.
    level: `quick` leaves the classifiers out, and needs numpy alone.
    training: the logs that the simulator was made of, to find turns taken from them word for word.
    tagger: tells acts where the logs of a side do not; without either there are no rows of acts.
        Acts are compared by name, so both logs must name them alike.
    encoder: of the turns; a HashedEncoder unless told.
    conversations: at most so many of each side are compared, drawn by `seed`.

    Raises DatasetError for fewer than 40 conversations of a side with a word of the user's (ASCII
    letters and digits, as everywhere in `convgym.data.cues`), InvalidConfiguration for another
    level, MissingExtra for `full` without scikit-learn.
    """
    if level not in ("full", "quick"):
        raise InvalidConfiguration(f"level={level!r}; it takes 'full' or 'quick'")
    if conversations < FEWEST_MEASURED:
        raise InvalidConfiguration(
            f"conversations={conversations}; it takes {FEWEST_MEASURED} or more"
        )
    given = [list(real), list(sim)]
    sides = [[c for c in side if _speaks(c)] for side in given]
    n = min(conversations, len(sides[REAL]), len(sides[SIM]))
    if n < FEWEST_MEASURED:
        raise DatasetError(
            f"{len(sides[REAL])} real and {len(sides[SIM])} simulated conversations in which the "
            f"user says a word came; a gap takes {FEWEST_MEASURED} or more of each"
        )
    chance = np.random.default_rng(seed)
    drawn = [
        [side[at] for at in chance.permutation(len(side))[:most]]
        for side, most in zip(sides, (2 * n, n), strict=True)
    ]
    pooled = [*drawn[REAL], *drawn[SIM]]
    comparison = Comparison(pooled, n, tagger, encoder or HashedEncoder(), seed)
    report = comparison.report(level, training)
    silent = [len(all_) - len(some) for all_, some in zip(given, sides, strict=True)]
    if not any(silent):
        return report
    told = f"{silent[REAL]} real and {silent[SIM]} simulated conversations were left out: the user"
    return replace(report, notes=(f"{told} says no word in them.", *report.notes))


def _speaks(conversation: Conversation) -> bool:
    return any(words_of(message.content) for message in conversation.said_by("user"))


class Comparison:
    """Conversations of which the last n are simulated and the others, n to 2 n, are real.

    The first n of the real ones are compared; floors are taken of them all.
    """

    def __init__(
        self,
        pooled: Sequence[Conversation],
        n: int,
        tagger: ActTagger | None,
        encoder: Encoder,
        seed: int,
    ) -> None:
        self.n, self.seed, self.encoder = n, seed, encoder
        self.real, self.sim = np.arange(n), np.arange(len(pooled) - n, len(pooled))
        self.all_real = np.arange(len(pooled) - n)
        sides = np.repeat([REAL, SIM], [len(self.all_real), n])
        self.turns = UserTurns.of(pooled).with_comparable_acts(sides, tagger)
        self.vectors = encoder.encode(self.turns.texts)

    def report(
        self, level: Literal["full", "quick"], training: Iterable[Conversation] | None
    ) -> GapReport:
        """All that is asked for."""
        known = None if training is None else self._in_training(training)
        rows, tests = self._counted(known), {}
        for name in LEVELS if level == "full" else ():
            for row, test in self._tested(name, known):
                rows.append(row)
                tests[row.metric] = test
        return GapReport(
            rows=tuple(rows),
            checks=tuple(self._checks()),
            responses=tuple(self._responses()),
            tests=tests,
            conversations=self.n,
            floor_conversations=self.halves,
            notes=tuple(self._notes(level, {row.metric for row in rows}, known is not None)),
        )

    @property
    def halves(self) -> int:
        """Conversations in each half that a floor is measured on."""
        return min(self.n, len(self.all_real) // 2)

    def _in_training(self, training: Iterable[Conversation]) -> NDArray[np.bool_]:
        """Which turns the training logs hold word for word.  (T,)"""
        said = {plain(m.content) for c in training for m in c.said_by("user")}
        return np.array([plain(text) in said for text in self.turns.texts], dtype=np.bool_)

    def _counted(self, known: NDArray[np.bool_] | None) -> list[GapRow]:
        """The rows that counts give."""
        tallies, pool = Tallies(self.turns, self.vectors), self.turns.conversations
        taken = None if known is None else np.bincount(self.turns.owner, known, pool)

        def measure(real: Weights, sim: Weights) -> dict[str, float]:
            values = tallies.measure(real, sim)
            if taken is not None:
                values["verbatim_share"] = float(taken @ sim / (self.turns.counts @ sim))
            return values

        def measure_halves(one: Ints, other: Ints) -> dict[str, float]:
            return measure(np.bincount(one, minlength=pool), np.bincount(other, minlength=pool))

        values = measure_halves(self.real, self.sim)
        redrawn = [measure(real, sim) for real, sim in zip(*self._redraws(), strict=True)]
        floors = noise_floors(measure_halves, self.all_real, self.n, SPLITS, self.seed)
        rows = []
        for name, value in values.items():
            interval = _centred(value, np.array([redraw[name] for redraw in redrawn]))
            if name != "mmd":  # which is unbiased, so that it may fall below 0
                interval = max(interval[0], 0.0), interval[1]
            gated = name not in REPORTED
            rows.append(GapRow.judged(name, value, interval, floors[name], gated=gated))
        return rows

    def _redraws(self) -> tuple[Floats, Floats]:
        """Bootstrap weights of the real and of the simulated.  both (RESAMPLES, conversations)"""
        both = []
        for which, members in ((REAL, self.real), (SIM, self.sim)):
            weights = np.zeros((RESAMPLES, self.turns.conversations))
            bootstrap = TaskBootstrap(self.n, 2 * self.seed + which)
            weights[:, members] = bootstrap.counts(0, RESAMPLES)
            both.append(weights)
        return both[0], both[1]

    def _tested(
        self, level: Level, known: NDArray[np.bool_] | None
    ) -> Iterator[tuple[GapRow, TwoSampleResult]]:
        """The row of a classifier, and that without known turns; none where examples are few."""
        examples = examples_of(level, self.turns, self.vectors, self.encoder)
        found = run_test(level, examples, self._side(self.real, self.sim), self.seed)
        if found is None:
            return

        def measure(one: Ints, other: Ints) -> dict[str, float]:
            scored = held_out_scores(examples, self._side(one, other), self.seed)
            if scored is None:
                return {}
            return {"auc": abs(scored.auc(np.ones(self.turns.conversations)) - 0.5)}

        floor = noise_floors(measure, self.all_real, self.n, TEST_SPLITS, self.seed).get("auc")
        if floor is None:
            return
        yield self._judged(f"c2st_{level}", found, floor), found
        if known is not None and level != "conversation":
            dropped = known[self.turns.prompted] if level == "context" else known
            rest = examples.without(dropped)
            found = run_test(level, rest, self._side(self.real, self.sim), self.seed)
            if found is not None:
                yield self._judged(f"c2st_{level}_new", found, floor), found

    def _judged(self, metric: str, found: TwoSampleResult, floor: Floor) -> GapRow:
        return GapRow.judged(metric, found.auc, (found.low, found.high), floor, auc=True)

    def _side(self, real: Ints, sim: Ints) -> Ints:
        side = np.full(self.turns.conversations, -1)
        side[real], side[sim] = REAL, SIM
        return side

    def _checks(self) -> Iterator[PredictiveCheck]:
        chance = np.random.default_rng(self.seed)
        # First the simulator itself, of which n conversations leave us unsure, then a set from it.
        simulators = chance.multinomial(self.n, np.full(self.n, 1 / self.n), RESAMPLES)
        weights = np.zeros((RESAMPLES, self.turns.conversations))
        weights[:, self.sim] = [chance.multinomial(self.n, one / self.n) for one in simulators]
        real, sim = (self._side(self.real, self.sim) == which for which in (REAL, SIM))
        for rate in statistics(self.turns):
            value, sets = float(rate.of(real)), rate.of(weights)
            p = float((sets > value).mean() + (sets == value).mean() / 2)
            flagged = not 0.025 <= p <= 0.975
            yield PredictiveCheck(rate.name, value, float(rate.of(sim)), p, flagged)

    def _responses(self) -> Iterator[ResponsePoint]:
        for rate in responses(self.turns):
            found = []
            for which, members in ((REAL, self.real), (SIM, self.sim)):
                if rate.whole[members].sum() >= FEWEST_RUNS:
                    bootstrap = TaskBootstrap(self.n, 2 * self.seed + which, RESAMPLES)
                    found.append(share(rate.part[members], rate.whole[members], bootstrap))
            if len(found) == 2:
                one, other = found
                yield ResponsePoint(
                    rate.name,
                    rate.condition,
                    one.value,
                    (one.low, one.high),
                    other.value,
                    (other.low, other.high),
                )

    def _notes(self, level: str, metrics: set[str], with_training: bool) -> Iterator[str]:
        """What the report lacks."""
        if self.halves < self.n:
            yield (
                f"{len(self.all_real)} real conversations make halves of {self.halves}; the floors "
                f"were carried on to {self.n} by how they fall from halves of {self.halves // 2}."
            )
        if "act_js" not in metrics:
            yield "No rows of acts: most turns of a side have none, and no tagger was handed in."
        if level == "quick":
            yield "Quick: no classifiers."
            return
        if "c2st_context" not in metrics:
            yield "No test of context: too few turns of a side follow one of the agent's."
        gone = [f"c2st_{name}_new" for name in TURN_LEVELS if f"c2st_{name}" in metrics]
        gone = [name for name in gone if name not in metrics]
        if with_training and gone:
            yield f"Without verbatim turns too few are left for {', '.join(gone)}."


def _centred(value: float, redrawn: Floats) -> tuple[float, float]:
    """The middle 95 % of the redraws, moved so that their mean is the value."""
    low, high = value + np.quantile(redrawn, (0.025, 0.975)) - redrawn.mean()
    return float(low), float(high)
