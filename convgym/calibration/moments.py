"""One number for how far simulated conversations are from real ones: standardised differences.

    gap = mean over statistics of  (mean_real − mean_sim)² / (var_real / n_real + var_sim / n_sim)

Statistics are means over conversations of what a conversation has: turns, words, marks of the text
(question, thanks, …) over all turns, the first and the last, repeated turns, and what follows an
agent's question or failure. Two samples of one source have a gap of about 1, whatever n; a gap of 4
says that differences are twice as large as chance makes them at this n. Needs no labels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from convgym.calibration.turns import MARKS, UserTurns
from convgym.conversation import Conversation

Floats = NDArray[np.float64]
LEAST = 20
"""Conversations that have a statistic, on either side; fewer make the noise itself unknown."""
_ROUNDING = 1e-12
_SHORT, _LONG = 2, 15


def moments(conversations: Sequence[Conversation]) -> Floats:
    """The statistics of each conversation that has a user turn; NaN where one has none.

    (conversations, statistics)
    """
    turns = UserTurns.of(conversations)
    n, owner = turns.counts.astype(float), turns.owner
    words = np.log1p(turns.lengths)
    asked = np.array(["?" in prompt for prompt in turns.prompts], dtype=bool)
    short = turns.lengths <= _SHORT
    seen = {(o, t) for o, t in zip(owner.tolist(), turns.texts, strict=True)}
    different = np.bincount([o for o, _ in seen], minlength=len(n))

    def mean(values: Floats, where: NDArray[np.bool_] | None = None) -> Floats:
        where = np.ones(len(owner), dtype=bool) if where is None else where
        count = np.bincount(owner[where], minlength=len(n))
        total = np.bincount(owner[where], values[where], minlength=len(n))
        return np.where(count, total / np.maximum(count, 1), np.nan)

    first, last = turns.place == 0, turns.last
    columns = [n, n**2, different / np.maximum(n, 1)]
    for values in (words, words**2, short.astype(float), (turns.lengths >= _LONG).astype(float)):
        columns += [mean(values, where) for where in (None, first, last, asked, turns.failed)]
    for mark in turns.marks.T.astype(float):
        columns += [mean(mark, where) for where in (None, first, last, asked, turns.failed)]
    assert turns.marks.shape[1] == len(MARKS)
    return np.stack(columns, axis=1)[n > 0]


def moment_gap(real: Floats, sim: Floats) -> float:
    """The gap of two sets of moments; about 1 for two samples of one source.

    0 where no statistic varies and has `LEAST` conversations on both sides.
    """
    (n, mean, variance), (m, other_mean, other_variance) = map(_described, (real, sim))
    apart = np.abs(mean - other_mean)
    noise = variance / np.maximum(n, 1) + other_variance / np.maximum(m, 1)
    # Where nobody varies, a mean is known to within one conversation.
    least = np.where(apart > _ROUNDING, 1 / np.maximum(n * m, 1), 0.0)
    noise = np.where(noise <= _ROUNDING, least, noise)
    judged = (np.minimum(n, m) >= LEAST) & (noise > 0)
    return float(np.mean(apart[judged] ** 2 / noise[judged])) if judged.any() else 0.0


def _described(found: Floats) -> tuple[Floats, Floats, Floats]:
    """Of each statistic: how many have it, its mean and its variance.  (n, s) → (s,) each"""
    has = ~np.isnan(found)
    n = has.sum(axis=0).astype(np.float64)
    mean = np.where(has, found, 0.0).sum(axis=0) / np.maximum(n, 1)
    off = np.where(has, found - mean, 0.0)
    return n, mean, (off * off).sum(axis=0) / np.maximum(n - 1, 1)


def moment_floor(real: Floats, others: Floats, draws: int = 20, seed: int = 0) -> float:
    """The gap between real conversations and as many others that are real, on average.

    About 1, and more where the two parts happen to differ: what a gap on `real` is measured by,
    for the same chance is in both. A simulator that knows `others` only, and all of them, comes to
    1 + n_real / (2 n_others) of it.
    """
    chance, n = np.random.default_rng(seed), min(len(real), len(others))
    drawn = (others[chance.permutation(len(others))[:n]] for _ in range(draws))
    return float(np.mean([moment_gap(real, some) for some in drawn]))
