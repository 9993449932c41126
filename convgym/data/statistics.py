"""What a log holds, in numbers: one pass, whatever its size.

Shares and words are over the user's turns that say something; counts of turns are over all.

    words        runs of ASCII letters, digits, ' and $ in the lower-cased turn
    question     holds "?"
    thanks       thanks, thank, thx, ty, appreciate
    negation     no, not, nope, never, …n't
    backchannel  every word is one of `cues.BACKCHANNELS` ("ok", "yes thanks", "hi there")
    greeting     the conversation's first user turn is a bare greeting

Memory: the vocabulary, and 8 bytes for each rewarded conversation. Standard deviations are
the population's; quantiles interpolate, as numpy's do.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.conversation import Conversation, Message
from convgym.data import cues

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
TOP = 20


@dataclass(frozen=True, slots=True)
class Summary:
    """One quantity: how many values, their mean, sd and quantiles; None where n is 0."""

    n: int
    mean: float | None
    sd: float | None
    quantiles: tuple[float, ...]
    """At 5, 25, 50, 75 and 95 %; empty where n is 0."""

    @property
    def median(self) -> float | None:
        """The middle value; None where n is 0."""
        return self.quantiles[2] if self.quantiles else None


@dataclass(frozen=True, slots=True)
class RewardSummary:
    """The outcomes of the rewarded conversations."""

    summary: Summary
    positive_share: float
    """Share of rewards above 0."""
    interval: tuple[float, float] | None
    """95 % for the mean, mean ± 1.96 sd/√n; None for a single reward."""


@dataclass(frozen=True, slots=True)
class LogStatistics:
    """The numbers of one log; see the module for each definition."""

    total_conversations: int
    user_turns: int
    empty_user_turns: int
    """User turns without a word; left out of shares and lengths."""
    assistant_turns: int
    turns: Summary
    """Messages of user and assistant per conversation."""
    user_turns_per_conversation: Summary
    words_per_user_turn: Summary
    first_turn_words: float | None
    """Mean words of each conversation's first user turn that says something."""
    greeting_only_share: float | None
    thanks_share: float | None
    question_share: float | None
    negation_share: float | None
    backchannel_share: float | None
    vocabulary_types: int
    vocabulary_tokens: int
    top_intents: tuple[tuple[str, float], ...]
    """(intent, share of all the user's intents), the 20 most frequent."""
    top_acts: tuple[tuple[str, float], ...]
    """(act, share), each act counted once a turn and a turn without one as "none"."""
    domains: tuple[tuple[str, int], ...]
    """(metadata domain, conversations), the 20 most frequent."""
    reward: RewardSummary | None
    """None where no conversation has a reward."""

    @classmethod
    def from_conversations(cls, conversations: Iterable[Conversation]) -> LogStatistics:
        """Counts in one pass; the conversations may be a stream."""
        tally = StatisticsTally()
        for conversation in conversations:
            tally.add(conversation)
        return tally.result()

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values, with `mean_turns` and `mean_reward` beside the full summaries."""
        mean_reward = self.reward.summary.mean if self.reward else None
        return asdict(self) | {"mean_turns": self.turns.mean, "mean_reward": mean_reward}

    def to_markdown(self) -> str:
        """A table of two columns."""
        per, words = self.user_turns_per_conversation, self.words_per_user_turn
        rows = [
            ("conversations", f"{self.total_conversations:,}"),
            ("user / assistant turns", f"{self.user_turns:,} / {self.assistant_turns:,}"),
            ("user turns per conversation, mean (sd)", _mean_sd(per)),
            ("words per user turn, mean (sd); median", f"{_mean_sd(words)}; {_show(words.median)}"),
            ("first-turn words", _show(self.first_turn_words)),
            ("opens with a bare greeting", _show(self.greeting_only_share)),
            ("thanks / question / negation share", _joined(
                self.thanks_share, self.question_share, self.negation_share)),
            ("backchannel-only turns", _show(self.backchannel_share)),
            ("vocabulary, types", f"{self.vocabulary_types:,}"),
            ("vocabulary, tokens", f"{self.vocabulary_tokens:,}"),
            ("intents", _listed(self.top_intents)),
            ("acts", _listed(self.top_acts)),
            ("domains", ", ".join(f"{name} {count:,}" for name, count in self.domains[:6]) or "–"),
            ("reward", _told(self.reward)),
        ]  # fmt: skip
        lines = (f"| {name} | {value.replace('|', chr(92) + '|')} |" for name, value in rows)
        return "\n".join(["| statistic | value |", "|---|---|", *lines])


def average_ranks(values: Sequence[float] | NDArray[Any]) -> NDArray[np.float64]:
    """Ranks from 1; equal values share the mean of their ranks."""
    data = np.asarray(values, dtype=np.float64)  # (N,)
    _, inverse, counts = np.unique(data, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks: NDArray[np.float64] = ((last - counts + 1 + last) / 2.0)[inverse.ravel()]
    return ranks


def spearman(
    first: Sequence[float] | NDArray[Any], second: Sequence[float] | NDArray[Any]
) -> float | None:
    """Spearman's rank correlation; None where one side never varies or n < 3."""
    if len(first) < 3:
        return None
    a, b = average_ranks(first), average_ranks(second)
    a, b = a - a.mean(), b - b.mean()
    scale = math.sqrt(float(a @ a) * float(b @ b))
    return None if scale == 0.0 else max(-1.0, min(1.0, float(a @ b) / scale))


@dataclass(slots=True)
class StatisticsTally:
    """The running counts behind `LogStatistics`."""

    conversations: int = 0
    empty: int = 0
    assistant: int = 0
    said: int = 0
    openings: int = 0
    greeting_only: int = 0
    first_words: int = 0
    thanks: int = 0
    question: int = 0
    negation: int = 0
    backchannel: int = 0
    turns: Counter[int] = field(default_factory=Counter)
    user_turns: Counter[int] = field(default_factory=Counter)
    lengths: Counter[int] = field(default_factory=Counter)
    vocabulary: Counter[str] = field(default_factory=Counter)
    intents: Counter[str] = field(default_factory=Counter)
    acts: Counter[str] = field(default_factory=Counter)
    domains: Counter[str] = field(default_factory=Counter)
    rewards: array[float] = field(default_factory=lambda: array("d"))

    def add(self, conversation: Conversation) -> None:
        """Counts one conversation more."""
        user = list(conversation.said_by("user"))
        assistant = sum(1 for _ in conversation.said_by("assistant"))
        self.conversations += 1
        self.assistant += assistant
        self.user_turns[len(user)] += 1
        self.turns[len(user) + assistant] += 1
        opened = False
        for message in user:
            words = self._add_turn(message)
            if message.content.strip() and not opened:
                opened = True
                self.openings += 1
                self.first_words += len(words)
                self.greeting_only += cues.is_bare_greeting(message)
        self.domains.update(_domains(conversation.metadata))
        if conversation.reward is not None:
            self.rewards.append(conversation.reward)

    def _add_turn(self, message: Message) -> list[str]:
        self.intents.update(message.intents)
        self.acts.update(set(cues.acts_of(message)) or {"none"})
        if not message.content.strip():
            self.empty += 1
            return []
        text = message.content.lower()
        words = cues.words_of(text)
        self.said += 1
        self.lengths[len(words)] += 1
        self.vocabulary.update(words)
        self.question += "?" in text
        self.thanks += cues.THANKS.search(text) is not None
        self.negation += cues.NEGATION.search(text) is not None
        self.backchannel += bool(words) and cues.BACKCHANNELS.issuperset(words)
        return words

    def result(self) -> LogStatistics:
        """The numbers of all that were added."""
        return LogStatistics(
            total_conversations=self.conversations,
            user_turns=self.said + self.empty,
            empty_user_turns=self.empty,
            assistant_turns=self.assistant,
            turns=_summary(self.turns),
            user_turns_per_conversation=_summary(self.user_turns),
            words_per_user_turn=_summary(self.lengths),
            first_turn_words=_ratio(self.first_words, self.openings),
            greeting_only_share=_ratio(self.greeting_only, self.openings),
            thanks_share=_ratio(self.thanks, self.said),
            question_share=_ratio(self.question, self.said),
            negation_share=_ratio(self.negation, self.said),
            backchannel_share=_ratio(self.backchannel, self.said),
            vocabulary_types=len(self.vocabulary),
            vocabulary_tokens=self.vocabulary.total(),
            top_intents=_shares(self.intents),
            top_acts=() if set(self.acts) == {"none"} else _shares(self.acts),
            domains=tuple(_most(self.domains)),
            reward=_reward_summary(self.rewards),
        )


def _domains(metadata: Mapping[str, Any]) -> list[str]:
    named = metadata.get("domain") or metadata.get("domains") or []
    names = [named] if isinstance(named, str) else named
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def _summary(histogram: Counter[int]) -> Summary:
    """Exact mean, sd and quantiles from counts of whole numbers."""
    values = np.array(sorted(histogram), dtype=np.float64)  # (K,)
    counts = np.array([histogram[int(value)] for value in values], dtype=np.int64)  # (K,)
    n = int(counts.sum())
    if n == 0:
        return Summary(0, None, None, ())
    mean = float(values @ counts) / n
    sd = math.sqrt(float((values - mean) ** 2 @ counts) / n)
    last = np.cumsum(counts)  # rank after each value's run
    places = [(n - 1) * q for q in QUANTILES]
    below = values[np.searchsorted(last, np.floor(places), side="right")]
    above = values[np.searchsorted(last, np.ceil(places), side="right")]
    between = below + (above - below) * (np.array(places) % 1)
    return Summary(n, mean, sd, tuple(float(value) for value in between))


def _reward_summary(rewards: array[float]) -> RewardSummary | None:
    if not rewards:
        return None
    values, n = np.asarray(rewards), len(rewards)
    mean, sd = float(values.mean()), float(values.std())
    quantiles = tuple(float(value) for value in np.quantile(values, QUANTILES))
    half = 1.96 * float(values.std(ddof=1)) / math.sqrt(n) if n > 1 else 0.0
    interval = (mean - half, mean + half) if n > 1 else None
    return RewardSummary(Summary(n, mean, sd, quantiles), float((values > 0).mean()), interval)


def _most(counter: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counter.items(), key=lambda item: (-item[1], item[0]))[:TOP]


def _shares(counter: Counter[str]) -> tuple[tuple[str, float], ...]:
    total = counter.total()
    return tuple((name, count / total) for name, count in _most(counter))


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _show(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"


def _joined(*values: float | None) -> str:
    return " / ".join(_show(value) for value in values)


def _mean_sd(summary: Summary) -> str:
    return f"{_show(summary.mean)} ({_show(summary.sd)})"


def _listed(shares: Sequence[tuple[str, float]]) -> str:
    return ", ".join(f"{name} {share:.1%}" for name, share in shares[:6]) or "–"


def _told(reward: RewardSummary | None) -> str:
    if reward is None:
        return "none"
    low, high = reward.interval or (math.nan, math.nan)
    told = f"mean {_show(reward.summary.mean)}, positive {reward.positive_share:.1%}"
    return f"{told}, n {reward.summary.n:,}, 95 % interval {low:.3g} to {high:.3g}"
