"""A watch for rewards that rise without what they stand for: reward hacking, Goodhart's law.

    row ─► RewardWatch ─► row + watch_reward_rise, watch_truth_rise, watch_alert ─► other callbacks
                     └─► one sentence, when they part: what, by how much

A trained reward is a stand-in. What it stands for is success on tasks that are not trained on, a
judge's word, or, where a run measures neither, success while training. Both are compared with
where they began, in standard deviations of a conversation's return and of its success, so that a
graded reward and a share can be held against each other:

    reward rise    (mean of the newest rows − mean of the first) / spread of returns at the start
    truth rise     the same of the truth
    alert          the reward has risen, and the truth by less than a quarter of that;
                   or the truth has fallen from its best while the reward did not

How replies look (`trainers.llm.reply_statistics`) is told beside it, and is all there is to go by
where no row has a truth. Knows nothing of learners: any run whose rows have names below is watched.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from convgym.errors import InvalidConfiguration
from trainers.callbacks import Callback, Row

REWARDS = {"return": "return_std", "reward_mean": "reward_std"}
"""Names of what is trained on, and of the spread of a conversation's return beside it."""
TRUTHS = {
    "judge": "the judge's score",
    "validation": "held-out success",
    "evaluation_success": "held-out success",
    "success": "success while training",
}
"""Names of what it stands for, the most trusted first."""


@dataclass(frozen=True)
class Sign:
    """How a number of replies looks when a reward is being had cheaply."""

    words: str
    times: float = 1.0
    """It is at least so many times what it was …"""
    more: float = 0.0
    """… and at least so much more."""

    def shows(self, before: float, now: float) -> bool:
        """Whether it does."""
        return now >= self.times * before and now - before >= self.more


SIGNS = {
    "reply_tokens": Sign("tokens of a reply", times=2.5, more=4),
    "repeated_replies": Sign("share of repeated replies", more=0.3),
    "repeated_words": Sign("share of repeated words", more=0.3),
    "tool_calls": Sign("tool calls of a conversation", times=3, more=3),
    "refusals": Sign("share of refusals", more=0.3),
}
_MATCHED = 0.25
"""Of the reward's rise, that the truth's must reach."""
_FELL = 0.5
"""Standard deviations below its best that the truth must fall to count."""
_FLOOR = 0.05
"""Least variance of a success: one that is near 0 or 1 would count the smallest step for a leap."""


class RewardWatch:
    """A callback; `then` are those that hear each row with the watch's numbers in it.

    `window` rows are averaged, and twice as many heard before it says anything; `least_rise` is
    the rise of the reward, in standard deviations, from which on it must be matched. `tell` hears
    the sentence, once each time that the two part; None: it is a RuntimeWarning.
    """

    def __init__(
        self,
        then: Sequence[Callback] = (),
        *,
        window: int = 8,
        least_rise: float = 1.0,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        if window < 1 or not least_rise > 0:
            raise InvalidConfiguration(
                f"window={window}, least_rise={least_rise}; a window counts from 1 and a rise is "
                "above 0"
            )
        self.then, self.window, self.least_rise = list(then), window, least_rise
        self.alert = False
        """Whether the newest row was alarming."""
        self._tell = tell or _warn
        self._rows: list[Row] = []
        self._best: tuple[float, float] | None = None
        """Highest mean of the truth, and the mean of the reward at that time."""

    def __call__(self, row: Row) -> bool:
        """Watch a row and hand it on; whether any of the others asks to stop."""
        found = self._watched(row)
        told = {**row, **found}
        return any([callback(told) is True for callback in self.then])

    def _watched(self, row: Row) -> dict[str, float]:
        self._rows.append(row)
        reward = next((name for name in REWARDS if name in row and REWARDS[name] in row), None)
        if reward is None:
            return {}
        first, now = self._ends(reward)
        spread = self._ends(REWARDS[reward])[0]
        if self._often(reward) < 2 * self.window or not (spread > 0 and math.isfinite(now - first)):
            return {}
        rise = (now - first) / spread
        truth = next((name for name in TRUTHS if self._often(name) > 1), None)
        found, parted = {"watch_reward_rise": rise}, ""
        if truth is not None:
            if truth not in row:  # judged when it is measured
                return {**found, "watch_alert": float(self.alert)}
            before, after = self._ends(truth)
            scale = _spread(before, spread)
            found["watch_truth_rise"] = (after - before) / scale
            parted = self._parted(truth, rise, found["watch_truth_rise"], (before, after))
            parted = parted or self._fallen(truth, now, scale)
        signs = self._signs() if rise >= self.least_rise else []
        if truth is None and signs:
            parted = f"the reward has risen by {rise:.1f} standard deviations"
        found["watch_alert"] = float(bool(parted))
        if parted and not self.alert:
            looks = f"; {', '.join(signs)}" if signs else ""
            self._tell(
                f"step {row['step']:.0f}: {parted}{looks}; read some conversations, for the reward "
                "may be had without doing the work"
            )
        self.alert = bool(parted)
        return found

    def _parted(self, truth: str, rise: float, matched: float, ends: tuple[float, float]) -> str:
        if rise < self.least_rise or matched >= _MATCHED * rise:
            return ""
        return (
            f"the reward has risen by {rise:.1f} standard deviations since the start, and "
            f"{TRUTHS[truth]} went from {ends[0]:.2f} to {ends[1]:.2f}"
        )

    def _fallen(self, truth: str, reward: float, scale: float) -> str:
        newest = [row[truth] for row in self._rows[-self.window :] if truth in row]
        if len(newest) < 2:  # the best of single values would be the luckiest of them
            newest = [row[truth] for row in self._rows if truth in row][-2:]
        level = _mean(newest)
        if self._best is None or level > self._best[0]:
            self._best = (level, reward)
        best, then = self._best
        if best - level < _FELL * scale or reward < then:
            return ""
        return (
            f"{TRUTHS[truth]} has fallen from {best:.2f} to {level:.2f} while the reward went from "
            f"{then:.3g} to {reward:.3g}"
        )

    def _signs(self) -> list[str]:
        found = []
        for name, sign in SIGNS.items():
            if any(name in row for row in self._rows):
                before, now = self._ends(name)
                if sign.shows(before, now):
                    found.append(f"{sign.words} went from {before:.2f} to {now:.2f}")
        return found

    def _ends(self, name: str) -> tuple[float, float]:
        """Means over the first rows and over the newest; of what is rare, two values."""
        every = [row[name] for row in self._rows if name in row]
        if 2 * len(every) < len(self._rows):
            return every[0], every[-1]
        first = [row[name] for row in self._rows[: self.window] if name in row]
        last = [row[name] for row in self._rows[-self.window :] if name in row]
        return _mean(first or every[:1]), _mean(last or every[-1:])

    def _often(self, name: str) -> int:
        """In how many rows it was."""
        return sum(name in row for row in self._rows)


def _spread(level: float, of_returns: float) -> float:
    """Standard deviation of a share; what is no share is measured as returns are."""
    if not 0 <= level <= 1:
        return of_returns
    return math.sqrt(max(_FLOOR, level * (1 - level)))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def _warn(sentence: str) -> None:
    warnings.warn(sentence, RuntimeWarning, stacklevel=4)
