"""What a simulated customer can learn from a log: a few probabilities and phrases.

    conversations ─► counts ─► smoothed probabilities  greet_only, thank, bye, front_load
                          ├──► words per turn          mean and sd of ln(words)
                          ├──► phrases                 the customers' own small talk, by act
                          └──► reward drivers          what goes along with a high outcome

Each probability is the mean of a Beta posterior: from k of n conversations,

    p = (k + s · default) / (n + s)      s = PRIOR_STRENGTH = 4 conversations

so without data (n = 0) it stays at its default. Every conversation counts once: rewards
weight nothing, for a successful customer is not a more likely one.
The value itself is `convgym.users.fit.UserFit`.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from convgym.conversation import Conversation, Message
from convgym.data import cues
from convgym.data.statistics import spearman
from convgym.users.fit import (
    DEFAULTS,
    SMALL_TALK,
    FittedProbability,
    RewardDriver,
    UserFit,
    WordLength,
)

PRIOR_STRENGTH = 4.0
DEFAULT_LOG_MEAN, DEFAULT_LOG_SD = math.log(8.0), 0.7
KEPT = "kept at the default"
DRIVERS = ("assistant_words_per_turn", "assistant_question_share", "user_turns")
MAX_PHRASES, MAX_WORDS, MIN_CONVERSATIONS = 40, 8, 3


def fit_user(
    conversations: Iterable[Conversation],
    *,
    extra_words: Collection[str] = (),
    reward_drivers: bool = True,
) -> UserFit:
    """Counts in one pass, without chance.

    extra_words: words, in lower case, that a phrase may hold beside `cues.SMALL_TALK`.
    reward_drivers: report what goes along with the reward, where there are rewards.
    """
    tally = _Tally(frozenset(extra_words))
    for conversation in conversations:
        tally.add(conversation)
    return UserFit(
        conversations=tally.conversations,
        probabilities={name: _smoothed(name, tally) for name in DEFAULTS},
        words=tally.word_length(),
        phrases={act: _frequent(tally.phrases[act]) for act in SMALL_TALK},
        reward_drivers=tally.drivers() if reward_drivers else (),
    )


@dataclass(slots=True)
class _Tally:
    """The running counts behind a `UserFit`."""

    extra_words: frozenset[str]
    conversations: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    chances: Counter[str] = field(default_factory=Counter)
    lengths: Counter[int] = field(default_factory=Counter)
    phrases: dict[str, Counter[str]] = field(
        default_factory=lambda: {act: Counter() for act in SMALL_TALK}
    )
    features: dict[str, array[float]] = field(
        default_factory=lambda: {name: array("d") for name in (*DRIVERS, "reward")}
    )

    def add(self, conversation: Conversation) -> None:
        self.conversations += 1
        user = [m for m in conversation.said_by("user") if m.content.strip()]
        self.lengths.update(len(cues.words_of(message.content)) for message in user)
        self._add_opening(user)
        self._add_closing(user[1:][-2:])
        said = {(self._act(message), " ".join(message.content.split())) for message in user}
        for act, phrase in said:
            if act is not None and _is_clean(phrase):
                self.phrases[act][phrase] += 1
        if conversation.reward is not None:
            self._add_reward(conversation, conversation.reward)

    def _act(self, message: Message) -> str | None:
        return cues.small_talk_act(message, self.extra_words)

    def _add_opening(self, user: Sequence[Message]) -> None:
        if user:
            self._chance("greet_only", cues.is_bare_greeting(user[0]))
        business = next((turn for turn in user if not cues.is_bare_greeting(turn)), None)
        if business is not None:
            loaded = bool(business.slots) or cues.DIGIT.search(business.content) is not None
            self._chance("front_load", loaded or _informs(business))

    def _add_closing(self, last: Sequence[Message]) -> None:
        if last:
            text = "\n".join(message.content.lower() for message in last)
            self._chance("thank", cues.THANKS.search(text) is not None)
            self._chance("bye", cues.BYE.search(text) is not None)

    def _chance(self, name: str, happened: bool) -> None:
        self.chances[name] += 1
        self.counts[name] += happened

    def _add_reward(self, conversation: Conversation, reward: float) -> None:
        told = [m.content for m in conversation.said_by("assistant") if m.content.strip()]
        count, turns = len(told), sum(1 for _ in conversation.said_by("user"))
        words = sum(len(cues.words_of(text)) for text in told)
        asked = sum("?" in text for text in told)
        values = (words / count if count else 0.0, asked / count if count else 0.0, turns, reward)
        for name, value in zip(self.features, values, strict=True):
            self.features[name].append(value)

    def word_length(self) -> WordLength:
        n = sum(count for words, count in self.lengths.items() if words)
        if n == 0:
            return WordLength(DEFAULT_LOG_MEAN, DEFAULT_LOG_SD, 0, KEPT)
        logs = [(math.log(words), count) for words, count in sorted(self.lengths.items()) if words]
        mean = math.fsum(log * count for log, count in logs) / n
        variance = math.fsum((log - mean) ** 2 * count for log, count in logs) / n
        return WordLength(mean, math.sqrt(variance), n)

    def drivers(self) -> tuple[RewardDriver, ...]:
        rewards = self.features["reward"]
        if not rewards:
            return ()
        return tuple(
            RewardDriver(name, spearman(self.features[name], rewards), len(rewards))
            for name in DRIVERS
        )


def _smoothed(name: str, tally: _Tally) -> FittedProbability:
    count, n, default = tally.counts[name], tally.chances[name], DEFAULTS[name]
    value = (count + PRIOR_STRENGTH * default) / (n + PRIOR_STRENGTH) if n else default
    return FittedProbability(value, count, n, "" if n else KEPT)


def _informs(message: Message) -> bool:
    """True where the turn's acts bring a value, as in `(hotel, inform, area, north)`."""
    return any(
        len(act) == 4 and "inform" in act[1] and act[3] not in ("", "?", "none", "dontcare")
        for act in message.acts
    )


def _is_clean(phrase: str) -> bool:
    return phrase.isascii() and phrase.isprintable() and len(phrase.split()) <= MAX_WORDS


def _frequent(counter: Counter[str]) -> tuple[tuple[str, int], ...]:
    often = [(phrase, n) for phrase, n in counter.items() if n >= MIN_CONVERSATIONS]
    return tuple(sorted(often, key=lambda item: (-item[1], item[0]))[:MAX_PHRASES])
