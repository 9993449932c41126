"""The gap of a window of conversations to a calibrated user, beside what chance alone would make.

    pair i    a logged conversation, and the calibrated user's in its place, told by the same agent
    gap       of n pairs, one number a row:
                moments       what `calibrate` minimises: about 1 for two samples of one source
                length_js     words a turn, in bins          ┐
                turn_js       user turns a conversation      ├ Jensen-Shannon, in bits
                word_js       words and . , ? !, in 1,024    ┘
                              cells by their hash
    floor     the same of pairs of which each was turned round by a coin: were the logged users as
              the calibrated ones, nobody could tell which is which, and the gap would be like these
    rise      the gap of n pairs drawn anew from the window and all before it: were nothing
              changing, the window would be such a draw

Both are permutation tests: P(p ≤ a) ≤ a at every n, with no model and no approximation, as long as
conversations are independent of each other; that one run of simulated users does not repeat itself
makes p larger, not smaller. The p of rises are independent of one another as well, for given who is
in the first k windows, it is open which of them are in the k-th. What a newcomer would get wrong:
where agents speak, the calibrated user leaves where the logged one left, so that turn_js is 0.
Knows nothing of alerts.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from convgym.calibration.divergences import LENGTH_EDGES, bins_of, compute_js_divergence
from convgym.calibration.moments import Floats, moment_gap, moments
from convgym.calibration.turns import UserTurns
from convgym.conversation import Conversation
from convgym.data.cues import WORD, words_of

ROWS = ("moments", "length_js", "turn_js", "word_js")
CELLS = 1_024
"""Of hashed words."""
LONGEST = 64
"""User turns that are told apart; longer conversations count as these."""
_SIGNED = re.compile(rf"{WORD.pattern}|[.,?!]")
Counts = NDArray[np.uint16]
_COUNTED = ("lengths", "turns", "words")


@dataclass(frozen=True, eq=False)
class Profiles:
    """What rows need of n conversations, 2.7 kB of each and none of its words.  all (n, …)"""

    moments: Floats
    lengths: Counts  # (n, 32) turns by their words
    turns: Counts  # (n, LONGEST) 1 at the number of user turns
    words: Counts  # (n, CELLS)

    @classmethod
    def of(cls, conversations: Sequence[Conversation]) -> Profiles:
        """Of conversations in which the user says a word."""
        turns = UserTurns.of(conversations)
        n = turns.conversations
        lengths = np.zeros((n, len(LENGTH_EDGES) + 1), np.uint16)
        np.add.at(lengths, (turns.owner, bins_of(turns.lengths)), 1)
        number = np.zeros((n, LONGEST), np.uint16)
        number[np.arange(n), np.minimum(turns.counts, LONGEST) - 1] = 1
        words = np.zeros((n, CELLS), np.uint16)
        for owner, text in zip(turns.owner.tolist(), turns.texts, strict=True):
            for word in _SIGNED.findall(text.lower()):
                words[owner, zlib.crc32(word.encode()) % CELLS] += 1
        return cls(moments(conversations), lengths, number, words)

    def __len__(self) -> int:
        return len(self.moments)

    def at(self, places: NDArray[np.intp]) -> Profiles:
        """Some of them."""
        return Profiles(
            self.moments[places], self.lengths[places], self.turns[places], self.words[places]
        )

    def turned(self, other: Profiles, which: NDArray[np.bool_]) -> Profiles:
        """With those of `other` where `which`.  (n,)"""
        chosen = which[:, None]
        return Profiles(
            np.where(chosen, other.moments, self.moments),
            np.where(chosen, other.lengths, self.lengths),
            np.where(chosen, other.turns, self.turns),
            np.where(chosen, other.words, self.words),
        )

    def and_(self, other: Profiles) -> Profiles:
        """These, then those."""
        return Profiles(
            np.concatenate([self.moments, other.moments]),
            np.concatenate([self.lengths, other.lengths]),
            np.concatenate([self.turns, other.turns]),
            np.concatenate([self.words, other.words]),
        )


@dataclass(frozen=True, eq=False)
class Pairs:
    """n logged conversations, and the calibrated user's in their places."""

    logged: Profiles
    simulated: Profiles

    @classmethod
    def of(cls, logged: Sequence[Conversation], simulated: Sequence[Conversation]) -> Pairs:
        """Those in which both say a word."""
        both = [
            (one, other)
            for one, other in zip(logged, simulated, strict=True)
            if says_a_word(one) and says_a_word(other)
        ]
        return cls(Profiles.of([one for one, _ in both]), Profiles.of([two for _, two in both]))

    def __len__(self) -> int:
        return len(self.logged)

    def at(self, places: NDArray[np.intp]) -> Pairs:
        """Some of them."""
        return Pairs(self.logged.at(places), self.simulated.at(places))

    def and_(self, other: Pairs) -> Pairs:
        """These, then those."""
        return Pairs(self.logged.and_(other.logged), self.simulated.and_(other.simulated))

    def gap(self) -> dict[str, float]:
        """Of each of `ROWS` the value."""
        js = {
            f"{name.removesuffix('s')}_js": compute_js_divergence(
                getattr(self.logged, name).sum(axis=0), getattr(self.simulated, name).sum(axis=0)
            )
            for name in _COUNTED
        }
        return {"moments": moment_gap(self.logged.moments, self.simulated.moments), **js}


@dataclass(frozen=True)
class WindowRow:
    """One measure of one window."""

    metric: str
    value: float
    floor_mean: float
    floor_p95: float
    p: float
    """Of the floor, the value among it: how seldom chance alone comes so far."""
    p_rise: float | None
    """The same of the windows that might have been drawn so far; None for the first."""

    @property
    def ratio(self) -> float:
        """Value ÷ 95th percentile of the floor; 0 where nothing varies."""
        return self.value / self.floor_p95 if self.floor_p95 > 0 else 0.0


def says_a_word(conversation: Conversation) -> bool:
    """Whether the user does, in ASCII letters or digits."""
    return any(words_of(message.content) for message in conversation.said_by("user"))


def measured(window: Pairs, before: Pairs | None, draws: int, seed: int) -> tuple[WindowRow, ...]:
    """The rows of a window; `before`: all pairs of the windows before it.

    draws: of each permutation test; no p lies below 1 / (draws + 1).
    """
    values = window.gap()
    turns, drawings = (np.random.default_rng([seed, of]) for of in (0, 1))

    def turned() -> dict[str, float]:
        which = turns.random(len(window)) < 0.5
        logged, simulated = window.logged, window.simulated
        return Pairs(logged.turned(simulated, which), simulated.turned(logged, which)).gap()

    floors = _drawn(turned, draws)
    rises: dict[str, Floats] = {}
    if before is not None:
        bag = before.and_(window)

        def drawn() -> dict[str, float]:
            return bag.at(drawings.choice(len(bag), len(window), replace=False)).gap()

        rises = _drawn(drawn, draws)
    return tuple(
        WindowRow(
            metric=name,
            value=value,
            floor_mean=float(floors[name].mean()),
            floor_p95=float(np.quantile(floors[name], 0.95)),
            p=permutation_p(value, floors[name]),
            p_rise=permutation_p(value, rises[name]) if rises else None,
        )
        for name, value in values.items()
    )


def permutation_p(value: float, drawn: Floats) -> float:
    """(1 + how many are as large) / (1 + how many there are); ties, up to rounding, count."""
    return float(1 + (drawn >= value - 1e-9 * abs(value)).sum()) / (1 + len(drawn))


def _drawn(draw: Callable[[], dict[str, float]], draws: int) -> dict[str, Floats]:
    found = [draw() for _ in range(draws)]
    return {name: np.array([one[name] for one in found]) for name in found[0]}
