"""Logged conversations after deployment: their gap to the calibrated user, and their return.

    conversations ─► windows of n, in order ─► gap rows, floors, rises ─┐
                 │                         └─► mean return, interval ───┼─► alerts
                 └─► by policy: arms                                    │
    estimate given before deployment: an interval ──────────────────────┘

    gap     a row lies beyond `above` times its floor, with p ≤ a, in `patience` windows in a row
    rise    a row's p of rises is ≤ a in `patience` windows in a row
    return  the windows' intervals lie beside the estimate's in `patience` windows in a row, or
            that of all conversations does, which holds at all times at once

Where nothing is amiss, an alert of any kind is raised within `HORIZON` windows with probability
`false_alarms` at most. Each of the three kinds has a third of that; of gap and rise

    rows · HORIZON · a^patience = false_alarms / 3

because p are permutations' (P(p ≤ a) ≤ a) and those of different windows are independent given the
fitted user. Of returns half a third is spent alike on the windows, the other half on the interval
that holds at all times. That nothing is amiss means

    gap     users are as the calibrated one is
    rise    all conversations come from one source
    return  the true mean lies in the estimate's interval, which misses it once in twenty times

and, throughout, that conversations are independent of each other. Knows nothing of files.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from convgym.calibration.log_simulator import LogSimulator
from convgym.calibration.polish import simulated
from convgym.calibration.window_gap import ROWS, Pairs, WindowRow, measured, says_a_word
from convgym.conversation import Conversation
from convgym.data.growing_logs import logged_at
from convgym.data.returns import returns_to_go
from convgym.engine.keys import MASK, child
from convgym.errors import InvalidConfiguration
from convgym.evaluation.arms import Arm
from convgym.evaluation.betting import Bounds, confidence_sequence
from convgym.rewards.outcome import is_number

HORIZON = 100
"""Windows that the rate of false alarms is stated for."""
FEWEST = 40
"""Conversations of a window."""
_STRAY = 0.05
"""Share of a window's returns that may lie outside the bounds, as a client's odd report does."""
_MOST_DRAWS = 4_000
_PER_ALPHA = 4
"""Draws so many times 1 / a: the least p lies well below a."""


@dataclass(frozen=True, kw_only=True)
class MonitorConfig:
    """When an alert is raised; see the module."""

    window: int = 200
    """Conversations; 40 or more."""
    patience: int = 3
    """Windows in a row, 2 or more."""
    false_alarms: float = 0.05
    """Probability of any alert within 100 windows where nothing is amiss, in (0, 0.5]."""
    above: float = 1.25
    """Times its floor that a row has to lie; 1 or more. No calibrated user is quite real, and what
    is a little off shall not be an alert for ever."""
    bounds: Bounds = (0.0, 1.0)
    """Least and greatest return that there can be."""
    discount: float = 1.0
    """γ of returns, per turn of the agent; the estimate's own where there is one."""
    seed: int = 0
    """Of simulated users and permutations."""

    def __post_init__(self) -> None:
        if self.window < FEWEST:
            raise InvalidConfiguration(
                f"a window of {self.window} conversations; it takes {FEWEST} or more"
            )
        if not (0 < self.false_alarms <= 0.5 and 1 <= self.above < math.inf):
            raise InvalidConfiguration(
                f"false_alarms={self.false_alarms:g}, above={self.above:g}; it takes a probability "
                "above 0 and up to 0.5, and a floor of 1 time or more"
            )
        if self.patience < 2 or self.draws > _MOST_DRAWS:
            raise InvalidConfiguration(
                f"patience={self.patience} with false_alarms={self.false_alarms:g} would take "
                f"{self.draws:,} permutations a window; take more windows in a row, 3 say"
            )

    @property
    def level(self) -> float:
        """a of the module: what p must come to, in each of the windows in a row."""
        rate = self.false_alarms / 3 / (len(ROWS) * HORIZON)
        return float(rate ** (1 / max(1, self.patience)))

    @property
    def return_level(self) -> float:
        """1 − confidence of a window's return."""
        return float((self.false_alarms / 6 / HORIZON) ** (1 / self.patience))

    @property
    def draws(self) -> int:
        """Of each permutation test."""
        return max(99, math.ceil(_PER_ALPHA / self.level) - 1)


@dataclass(frozen=True)
class Alert:
    """What is amiss, since when."""

    kind: str
    """`gap`, `rise` or `return`."""
    metric: str
    window: int
    """The window with which it was raised, from 1."""
    told: str
    """One sentence."""


@dataclass(frozen=True)
class Window:
    """n conversations in a row, and what was found of them."""

    number: int
    """From 1."""
    conversations: int
    first: float | None
    last: float | None
    """When the first and the last of them were logged, in Unix seconds; None where nobody said."""
    rows: tuple[WindowRow, ...]
    returns: int
    """Conversations whose return is known."""
    return_mean: float | None
    return_interval: Bounds | None


class Monitor:
    """Takes conversations in, in their order, and says what is amiss."""

    def __init__(
        self,
        user: LogSimulator,
        config: MonitorConfig | None = None,
        estimate: Bounds | None = None,
    ) -> None:
        """`estimate`: the interval of the return that was found before deployment."""
        self.user, self.config, self.estimate = user, config or MonitorConfig(), estimate
        self.windows: list[Window] = []
        self.alerts: list[Alert] = []
        self.observed: Bounds | None = None
        """Of the mean return of all conversations in windows; it holds at all times at once."""
        self.returns: list[float] = []
        self.resumed = self.silent = 0
        """Conversations that were left out: parts of others, and those without a user's word."""
        self.beyond = 0
        """Those whose return lies outside the bounds and is in no mean."""
        self.unanswered = 0
        """Those of which nobody says which policy has answered."""
        self._pending: list[Conversation] = []
        self._before: Pairs | None = None
        self._runs: dict[tuple[str, str], int] = {}

    @property
    def pending(self) -> int:
        """Conversations of the window that is not full yet."""
        return len(self._pending)

    def take(self, conversations: Iterable[Conversation]) -> list[Window]:
        """What has come; the windows that it has filled."""
        before = len(self.windows)
        for conversation in conversations:
            self.unanswered += policy_of(conversation) is None
            if is_resumed(conversation):
                self.resumed += 1
            elif not says_a_word(conversation):
                self.silent += 1
            else:
                self._pending.append(conversation)
            if len(self._pending) == self.config.window:
                self._fill()
        return self.windows[before:]

    def _fill(self) -> None:
        logged, self._pending = self._pending, []
        config, number = self.config, len(self.windows) + 1
        seed = child(config.seed & MASK, number)
        pairs = Pairs.of(logged, simulated(self.user, logged, seed))
        rows = measured(pairs, self._before, config.draws, seed)
        self._before = pairs if self._before is None else self._before.and_(pairs)
        told = [one for c in logged if (one := return_of(c, config.discount)) is not None]
        low, high = config.bounds
        returns = [one for one in told if low <= one <= high]
        beyond = len(told) - len(returns)
        if beyond > len(told) * _STRAY:
            raise InvalidConfiguration(
                f"{beyond} of {len(told)} returns lie outside the bounds {low:g} and {high:g} "
                "(--return-range); give bounds that hardly any return leaves"
            )
        self.beyond += beyond
        self.returns += returns
        known = bool(returns)
        times = [when for when in map(logged_at, logged) if when is not None]
        window = Window(
            number,
            len(pairs),
            min(times, default=None),
            max(times, default=None),
            rows,
            len(returns),
            math.fsum(returns) / len(returns) if known else None,
            confidence_sequence(returns, config.return_level, config.bounds) if known else None,
        )
        self.windows.append(window)
        if self.returns:
            ever = config.false_alarms / 6
            self.observed = confidence_sequence(self.returns, ever, config.bounds)
        self._judge(window)

    def _judge(self, window: Window) -> None:
        level, n = self.config.level, self.config.patience
        for row in window.rows:
            beyond = row.p <= level and row.ratio > self.config.above
            if self._in_a_row("gap", row.metric, beyond):
                self._raise(
                    "gap", row.metric, window,
                    f"{row.metric} has lain beyond {self.config.above:g} times its floor in {n} "
                    f"windows in a row, now at {row.ratio:.2f} times",
                )  # fmt: skip
            if self._in_a_row("rise", row.metric, (row.p_rise or 1.0) <= level):
                self._raise(
                    "rise", row.metric, window,
                    f"{row.metric} has been larger than in the windows before, in {n} in a row",
                )  # fmt: skip
        if self.estimate is None:
            return
        beside = _beside(window.return_interval, self.estimate)
        if self._in_a_row("return", "window", bool(beside)):
            self._raise(
                "return", "window", window,
                f"the mean return of {n} windows in a row has lain {beside} the estimate",
            )  # fmt: skip
        beside = _beside(self.observed, self.estimate)
        known = any((alert.kind, alert.metric) == ("return", "all") for alert in self.alerts)
        if beside and not known:
            self._raise(
                "return", "all", window,
                f"the mean return of all {len(self.returns):,} conversations lies {beside} the "
                "estimate",
            )  # fmt: skip

    def _in_a_row(self, kind: str, metric: str, amiss: bool) -> bool:
        """Whether an alert begins; one that goes on is not raised again."""
        run = self._runs.get((kind, metric), 0) + 1 if amiss else 0
        self._runs[kind, metric] = run
        return run == self.config.patience

    def _raise(self, kind: str, metric: str, window: Window, told: str) -> None:
        self.alerts.append(Alert(kind, metric, window.number, told))

    def standing(self, kind: str, metric: str) -> int:
        """For how many windows in a row something has been amiss by now."""
        return self._runs.get((kind, metric), 0)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        config = self.config
        return {
            "config": asdict(config),
            "level": config.level,
            "false_alarms": {"probability": config.false_alarms, "windows": HORIZON},
            "windows": [_window_record(window) for window in self.windows],
            "pending": self.pending,
            "left_out": {"resumed": self.resumed, "silent": self.silent},
            "returns_beyond_bounds": self.beyond,
            "of_no_policy": self.unanswered,
            "return": {
                "estimate": self.estimate,
                "observed": self.observed,
                "conversations": len(self.returns),
            },
            "alerts": [asdict(alert) for alert in self.alerts],
        }


def arms_of(conversations: Iterable[Conversation], discount: float = 1.0) -> list[Arm]:
    """What each policy's conversations came to, the one with the most first.

    Left out are those that no policy has answered, and those that may have been another's before.
    """
    found: dict[str, list[Conversation]] = {}
    for conversation in conversations:
        policy = policy_of(conversation)
        if policy is not None and not is_resumed(conversation):
            found.setdefault(policy, []).append(conversation)
    arms = []
    for name, some in found.items():
        shares = {_share_of(one) for one in some}
        share = shares.pop() if len(shares) == 1 else None
        successes = (success_of(one) for one in some)
        returns = (return_of(one, discount) for one in some)
        arms.append(
            Arm(
                name,
                len(some),
                tuple(one for one in successes if one is not None),
                tuple(one for one in returns if one is not None),
                share,
            )
        )
    return sorted(arms, key=lambda arm: (-(arm.share or 0), -arm.conversations, arm.name))


def return_of(conversation: Conversation, discount: float = 1.0) -> float | None:
    """What a conversation has earned; an outcome that was reported is earned by its last turn.

    Else what its turns have, else its reward, else 1 or 0 by its success; None where nobody said.
    """
    reported = isinstance(conversation.metadata.get("outcome"), Mapping)
    if reported and conversation.reward is not None:
        turns = sum(1 for _ in conversation.said_by("assistant"))
        return conversation.reward * discount ** max(0, turns - 1)
    returns = returns_to_go(conversation, discount)
    if returns is not None:
        return returns[0] if returns else conversation.reward
    success = success_of(conversation)
    return None if success is None else float(success)


def success_of(conversation: Conversation) -> bool | None:
    """Whether it was one: as reported, else as the world of a finished conversation has it."""
    about = conversation.metadata
    outcome = about.get("outcome")
    found = outcome.get("success") if isinstance(outcome, Mapping) else None
    if found is None and about.get("finished"):
        found = about.get("success")
    return found if isinstance(found, bool) else None


def is_resumed(conversation: Conversation) -> bool:
    """Whether its beginning may be in the log already, or be another policy's."""
    return bool(conversation.metadata.get("resumed"))


def policy_of(conversation: Conversation) -> str | None:
    """Who has answered it; None where nobody says."""
    policy = conversation.metadata.get("policy")
    return policy if isinstance(policy, str) and policy else None


def _share_of(conversation: Conversation) -> float | None:
    """Of the conversations that its policy was to have."""
    share = conversation.metadata.get("share")
    known = is_number(share) and 0 < share <= 1  # type: ignore[operator]
    return float(share) if known else None  # type: ignore[arg-type]


def _beside(interval: Bounds | None, estimate: Bounds) -> str:
    """below or above, where they share nothing; else ""."""
    if interval is None:
        return ""
    return "below" if interval[1] < estimate[0] else "above" if interval[0] > estimate[1] else ""


def _window_record(window: Window) -> dict[str, Any]:
    rows = [asdict(row) | {"ratio": row.ratio} for row in window.rows]
    return asdict(window) | {"rows": rows}
