"""The latent style of a user, learnt from logs as one of a few bins per conversation.

    words of a turn, given what it does  ─► residual of ln(1 + words) ─► mean over the conversation,
                                            shrunk by how few turns it has ─► equal bins

The residual is taken against the mean of the turn's signature, or of its acts where the signature
is rare, so that a bin tells how somebody writes and not what they came for. The share of variance
between conversations (one-way random effects) says whether there is a style at all: corpora whose
turns were written by different workers have none, and one bin. Knows nothing of texts.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from convgym.calibration.signatures import LoggedUser

MOST_BINS = 6
CONVERSATIONS = 110
"""√(n / this) bins are learnt from n conversations: 3 from 1,000 and 6 from 4,000."""
SHRINK = 4.0
"""Turns that what a wider group expects is worth."""
LEAST_SHARE = 0.02
"""Of variance between conversations; below it everybody writes alike."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class StyleBins:
    """What a log tells of its users' styles."""

    bins: NDArray[np.int64]
    """Of each conversation; 0 is the tersest.  (conversations,)"""
    count: int


def style_bins(log: Sequence[LoggedUser]) -> StyleBins:
    """Sort conversations into bins of equal size by how wordy they are, given what is said."""
    owner = np.repeat(np.arange(len(log)), [len(user.turns) for user in log])
    turns = [turn for user in log for turn in user.turns]
    lengths = np.array([math.log1p(len(turn.text.split())) for turn in turns])
    expected = np.full(len(turns), lengths.mean())
    for groups in ([t.acts for t in turns], [t.signature for t in turns]):
        expected = _expected(groups, expected, lengths)
    residual = lengths - expected
    counts = np.bincount(owner, minlength=len(log))
    means = np.bincount(owner, residual, minlength=len(log)) / np.maximum(counts, 1)
    within = float(np.square(residual - means[owner]).sum() / max(1, len(turns) - len(log)))
    typical = len(turns) / max(1, len(log))
    between = max(0.0, float(np.var(means)) - within / typical) if len(log) > 1 else 0.0
    wanted = min(MOST_BINS, round(math.sqrt(len(log) / CONVERSATIONS)))
    if between < LEAST_SHARE * (between + within) or wanted < 2:
        return StyleBins(np.zeros(len(log), np.int64), 1)
    shrunk = means * counts / (counts + within / between)
    ranks = np.argsort(np.argsort(shrunk, kind="stable"))
    return StyleBins(ranks * wanted // len(log), wanted)


def _expected(groups: Sequence[Hashable], wider: Floats, lengths: Floats) -> Floats:
    """The mean of each turn's group, shrunk by `SHRINK` turns of what a wider group expects."""
    number: dict[Hashable, int] = {}
    group = np.array([number.setdefault(name, len(number)) for name in groups], dtype=np.int64)
    size = np.bincount(group)
    off = np.bincount(group, lengths - wider) / (size + SHRINK)
    return wider + off[group]
