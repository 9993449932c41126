"""What a simulated customer can learn from a log: a few probabilities and phrases.

    conversations ─► counts ─► smoothed probabilities  greet_only, thank, bye, front_load
                          ├──► words per turn          mean and sd of ln(words)
                          ├──► phrases                 the customers' own small talk, by act
                          └──► reward drivers          what goes along with a high outcome

Each probability is the mean of a Beta posterior: from k of n conversations,

    p = (k + s · default) / (n + s)      s = PRIOR_STRENGTH = 4 conversations

so without data (n = 0) it stays at its default. Every conversation counts once: rewards
weight nothing, for a successful customer is not a more likely one.
Knows nothing of the simulator that loads it.
"""

from __future__ import annotations

import json
import math
import os
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from convgym.conversation import Conversation, Message
from convgym.data import cues
from convgym.data.statistics import spearman
from convgym.errors import InvalidConfiguration

FORMAT = "convgym.user_fit/1"
DEFAULTS: Mapping[str, float] = {"greet_only": 0.25, "thank": 0.7, "bye": 0.2, "front_load": 0.4}
PRIOR_STRENGTH = 4.0
DEFAULT_LOG_MEAN, DEFAULT_LOG_SD = math.log(8.0), 0.7
KEPT = "kept at the default"
DRIVERS = ("assistant_words_per_turn", "assistant_question_share", "user_turns")
MAX_PHRASES, MAX_WORDS, MIN_CONVERSATIONS = 40, 8, 3


@dataclass(frozen=True, slots=True)
class FittedProbability:
    """One probability with the counts behind it."""

    value: float
    """The posterior mean, in (0, 1)."""
    count: int
    n: int
    """Conversations in which it could have happened."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class WordLength:
    """Words per user turn as a log-normal."""

    log_mean: float
    log_sd: float
    n: int
    """User turns of at least one word."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class RewardDriver:
    """How one statistic of a conversation goes along with its reward; no claim of cause."""

    name: str
    spearman: float | None
    """Rank correlation; None where the statistic or the reward never varies."""
    n: int


@dataclass(frozen=True, slots=True)
class UserFit:
    """A fit that a simulated customer can load; the mappings are not to be changed."""

    conversations: int
    probabilities: Mapping[str, FittedProbability]
    """greet_only: the first user turn is a bare greeting.
    thank, bye: said in one of the last two user turns, the first turn never counting.
    front_load: the first user turn after a bare greeting carries a slot or a digit."""
    words: WordLength
    phrases: Mapping[str, tuple[tuple[str, int], ...]]
    """(phrase, conversations that hold it) for each of `cues.ACTS`, most frequent first."""
    reward_drivers: tuple[RewardDriver, ...] = ()

    @classmethod
    def from_conversations(
        cls,
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
        return cls(
            conversations=tally.conversations,
            probabilities={name: _smoothed(name, tally) for name in DEFAULTS},
            words=tally.word_length(),
            phrases={act: _frequent(tally.phrases[act]) for act in cues.ACTS},
            reward_drivers=tally.drivers() if reward_drivers else (),
        )

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Writes the fit; the file appears whole or stays as it was."""
        temporary = Path(f"{os.fspath(path)}.{os.getpid()}.part")
        try:
            text = json.dumps({"format": FORMAT} | asdict(self), indent=1, allow_nan=False)
            temporary.write_text(text + "\n", encoding="utf-8")
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)

    @classmethod
    def from_json(cls, path: str | os.PathLike[str]) -> UserFit:
        """Reads what `to_json` wrote, digit for digit; `InvalidConfiguration` otherwise."""
        try:
            record = json.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise InvalidConfiguration(f"{path} cannot be read: {error.strerror}.") from error
        except (ValueError, RecursionError) as error:
            raise InvalidConfiguration(f"{path} is no JSON file; name a saved UserFit.") from error
        if not isinstance(record, dict) or record.get("format") != FORMAT:
            raise InvalidConfiguration(
                f"{path} is not a saved UserFit: its 'format' is not {FORMAT!r}. "
                f"Make one with UserFit.from_conversations(...).to_json(path)."
            )
        try:
            return _from_record(record)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidConfiguration(
                f"{path} is a damaged UserFit ({type(error).__name__}: {error}); fit it again."
            ) from error


@dataclass(slots=True)
class _Tally:
    """The running counts behind a `UserFit`."""

    extra_words: frozenset[str]
    conversations: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    chances: Counter[str] = field(default_factory=Counter)
    lengths: Counter[int] = field(default_factory=Counter)
    phrases: dict[str, Counter[str]] = field(
        default_factory=lambda: {act: Counter() for act in cues.ACTS}
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


def _from_record(record: Mapping[str, Any]) -> UserFit:
    probabilities = {
        name: FittedProbability(**_typed(FittedProbability, record["probabilities"][name]))
        for name in DEFAULTS
    }
    for name, probability in probabilities.items():
        if not 0.0 <= probability.value <= 1.0:
            raise ValueError(f"the probability {name} is {probability.value}")
        if not 0 <= probability.count <= probability.n:
            raise ValueError(f"{name} happened {probability.count} times in {probability.n}")
    words = WordLength(**_typed(WordLength, record["words"]))
    if words.log_sd < 0.0:
        raise ValueError(f"words.log_sd is {words.log_sd}")
    phrases = {
        act: tuple((_text(phrase), _whole(n)) for phrase, n in record["phrases"][act])
        for act in cues.ACTS
    }
    drivers = tuple(RewardDriver(**_typed(RewardDriver, d)) for d in record["reward_drivers"])
    return UserFit(_whole(record["conversations"]), probabilities, words, phrases, drivers)


def _typed(kind: type, record: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a saved value, each of its declared type."""
    readers = {"float": _number, "int": _whole, "str": _text}
    values = dict(record)
    for name, annotation in kind.__annotations__.items():
        value = values[name]
        optional = annotation.endswith("| None") and value is None
        values[name] = None if optional else readers[annotation.split()[0]](value)
    return values


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise TypeError(f"expected a finite number, found {value!r}")
    return float(value)


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise TypeError(f"expected a count, found {value!r}")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a text, found {value!r}")
    return value
