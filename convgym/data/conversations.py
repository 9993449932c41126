"""Recorded conversations as a data set: in memory, or streamed in as little of it as one line.

    files ─► LogReader ─► conversations ─► turns? quality? ─► recorded() ─► statistics, to_jsonl
                │ faults                     │ dropped            └─► rewards on one scale,
                └──────────── report ────────┘                        returns-to-go ─► iteration

`ConversationStream` reads its files anew in each pass and keeps nothing of them;
`ConversationDataset` reads once, and adds length, indices and splits. What both do is the same.

    quality          the conversation's reward; one without a reward has none
    turns            messages of user and assistant, as `LogStatistics.turns` counts them
    returns-to-go    `convgym.data.returns`

Knows nothing of environments or models.
"""

from __future__ import annotations

import os
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import isfinite
from pathlib import Path
from typing import Any, Self, overload

import numpy as np

from convgym.conversation import Conversation
from convgym.data import huggingface
from convgym.data.formats import parse_any, parse_openai, parse_sharegpt
from convgym.data.json_arrays import json_records
from convgym.data.logs import LogReader, LogReport, Records, write_log
from convgym.data.packed_files import check_readable
from convgym.data.returns import returns_to_go
from convgym.data.splits import GroupBy, split_indices
from convgym.data.statistics import LogStatistics
from convgym.errors import InvalidConfiguration

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
Progress = Callable[[LogReport], None] | None
LIMIT = 1 << 24
"""Bytes of the longest record."""


@dataclass(frozen=True, kw_only=True)
class ConversationDatasetConfig:
    """Which conversations are kept, and how they are handed out."""

    quality_threshold: float | None = None
    """Least reward of a conversation; one without a reward falls below any. None keeps all."""
    min_turns: int = 1
    """Least messages of user and assistant, 1 or more."""
    max_turns: int | None = None
    """Most of them; longer conversations are dropped, not cut. None for no limit."""
    normalize_rewards: bool = False
    """Rewards are handed out on the scale `reward_scale`."""
    compute_returns: bool = False
    """`metadata["returns_to_go"]` holds one number for each turn of the assistant, where anything
    was measured; of normalised rewards, if they are."""
    discount: float = 0.99
    """γ per turn of the assistant, in [0, 1]."""

    def __post_init__(self) -> None:
        if self.quality_threshold is not None and not isfinite(self.quality_threshold):
            raise InvalidConfiguration(
                f"quality_threshold is {self.quality_threshold}; give a finite number, or None "
                f"to keep all."
            )
        if self.min_turns < 1:
            raise InvalidConfiguration(f"min_turns is {self.min_turns}; it must be 1 or more.")
        if self.max_turns is not None and self.max_turns < self.min_turns:
            raise InvalidConfiguration(
                f"max_turns is {self.max_turns}, less than min_turns {self.min_turns}; no "
                f"conversation has such a length."
            )
        if not 0.0 <= self.discount <= 1.0:
            raise InvalidConfiguration(f"discount is {self.discount}; it must lie in [0, 1].")

    def why_dropped(self, conversation: Conversation) -> str:
        """"too short", "too long", "below quality", or "" for a conversation that is kept."""
        turns = sum(message.role in ("user", "assistant") for message in conversation.messages)
        if turns < self.min_turns:
            return "too short"
        if self.max_turns is not None and turns > self.max_turns:
            return "too long"
        if self.quality_threshold is None:
            return ""
        reward = conversation.reward
        return "" if reward is not None and reward >= self.quality_threshold else "below quality"


@dataclass(frozen=True)
class RewardScale:
    """Rewards less their mean, in units of their standard deviation (the population's).

    A turn's reward is only divided: taking the mean from every turn would reward short
    conversations. Where all rewards are equal, `sd` is 1.
    """

    mean: float
    sd: float

    @classmethod
    def of(cls, conversations: Iterable[Conversation]) -> RewardScale:
        """The scale on which these have mean 0 and sd 1; without rewards it changes nothing."""
        rewards = np.array(array("d", (c.reward for c in conversations if c.reward is not None)))
        if not len(rewards):
            return cls(0.0, 1.0)
        if np.ptp(rewards) == 0.0:  # their mean and sd would be off by a rounding error
            return cls(float(rewards[0]), 1.0)
        largest = np.abs(rewards).max()  # squares can leave the range of floats
        sd = float((rewards / largest).std() * largest)
        return cls(float((rewards / largest).mean() * largest), sd or 1.0)

    def apply(self, conversation: Conversation) -> Conversation:
        """The conversation with its rewards on this scale."""
        return _with_rewards(
            conversation, lambda reward: (reward - self.mean) / self.sd, lambda r: r / self.sd
        )

    def undo(self, conversation: Conversation) -> Conversation:
        """The conversation with its rewards as they were recorded."""
        return _with_rewards(
            conversation, lambda reward: reward * self.sd + self.mean, lambda r: r * self.sd
        )


@dataclass(frozen=True)
class ReadingReport:
    """What came of the files, and of the conversations in them, in the latest pass."""

    files: tuple[LogReport, ...]
    """One a file, with each bad line; empty for conversations that came from none."""
    kept: int
    dropped: dict[str, int]
    """Good conversations that the config leaves out, by its reason."""

    @property
    def lines(self) -> int:
        """Lines, or records, of all files."""
        return sum(file.lines for file in self.files)

    @property
    def loaded(self) -> int:
        """Good lines; each is kept or dropped."""
        return sum(file.loaded for file in self.files)

    @property
    def skipped(self) -> int:
        """Bad lines; `loaded + skipped == lines`."""
        return sum(file.skipped for file in self.files)

    def __str__(self) -> str:
        told = [f"{self.kept:,} kept", *(f"{n:,} {why}" for why, n in sorted(self.dropped.items()))]
        return "\n".join([*map(str, self.files), f"conversations: {', '.join(told)}"])

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "lines": self.lines,
            "loaded": self.loaded,
            "skipped": self.skipped,
            "kept": self.kept,
            "dropped": self.dropped,
            "files": [file.to_dict() for file in self.files],
        }


class ConversationStream:
    """Conversations that are read anew in each pass, in bounded memory.

    Beside one line, a pass holds 8 bytes for each reward (for the scale), and about 100 for each id
    (to find the ids that come twice).
    """

    def __init__(
        self,
        conversations: Iterable[Conversation],
        config: ConversationDatasetConfig | None = None,
        *,
        reward_scale: RewardScale | None = None,
    ) -> None:
        """`conversations` can be iterated again and again; `reward_scale` is one to share."""
        if isinstance(conversations, Iterator):
            raise InvalidConfiguration(
                "these conversations can be iterated once, a stream needs them again in each "
                "pass; give a list, or read them into a ConversationDataset."
            )
        self.config = config or ConversationDatasetConfig()
        self._conversations = conversations
        self._given_scale = reward_scale
        self._files = conversations if isinstance(conversations, _Files) else _Files([])
        self._outcomes: Counter[str] = Counter()

    @classmethod
    def from_jsonl(
        cls,
        paths: Paths,
        config: ConversationDatasetConfig | None = None,
        *,
        strict: bool = False,
        progress: Progress = None,
    ) -> Self:
        """One or several logs, `.jsonl`, `.jsonl.gz` or `.jsonl.zst`; see `read_log`.

        An id that comes twice is a fault, across files as well.
        """
        readers = [LogReader(path, strict=strict, progress=progress) for path in _listed(paths)]
        return cls(_Files(readers), config)

    @classmethod
    def from_openai(
        cls,
        paths: Paths,
        config: ConversationDatasetConfig | None = None,
        *,
        strict: bool = False,
        progress: Progress = None,
    ) -> Self:
        """Files of OpenAI chat records (`convgym.data.formats`), one a line or one JSON array."""
        return cls(_chat_files(paths, parse_openai, strict, progress), config)

    @classmethod
    def from_sharegpt(
        cls,
        paths: Paths,
        config: ConversationDatasetConfig | None = None,
        *,
        strict: bool = False,
        progress: Progress = None,
    ) -> Self:
        """Files of ShareGPT records (`convgym.data.formats`), one a line or one JSON array."""
        return cls(_chat_files(paths, parse_sharegpt, strict, progress), config)

    @classmethod
    def from_huggingface(
        cls,
        name_or_path: str | os.PathLike[str],
        split: str = "train",
        config: ConversationDatasetConfig | None = None,
        *,
        strict: bool = False,
        progress: Progress = None,
    ) -> Self:
        """A split of a Hugging Face dataset, in files here or on the hub; see `huggingface`.

        Each record may be of our own format, OpenAI's or ShareGPT's.
        """
        found = huggingface.sources(name_or_path, split, LIMIT)
        return cls(_readers(found, parse_any, strict, progress), config)

    @property
    def report(self) -> ReadingReport:
        """What the latest pass has read so far."""
        dropped = {why: n for why, n in self._outcomes.items() if why}
        return ReadingReport(self._files.reports, self._outcomes[""], dropped)

    @property
    def reward_scale(self) -> RewardScale:
        """The scale of the kept rewards, by which they can be undone; a stream reads for it."""
        return self._given_scale or self._own_scale

    @cached_property
    def _own_scale(self) -> RewardScale:
        return RewardScale.of(self.recorded())

    def recorded(self) -> Iterator[Conversation]:
        """The kept conversations as the log has them, whatever the config does to rewards."""
        self._outcomes = outcomes = Counter[str]()
        for conversation in self._conversations:
            why = self.config.why_dropped(conversation)
            outcomes[why] += 1
            if not why:
                yield conversation

    def __iter__(self) -> Iterator[Conversation]:
        """The kept conversations as the config wants them."""
        if self.config.normalize_rewards:
            _ = self.reward_scale  # a pass of its own, which must not begin within this one
        return map(self._prepared, self.recorded())

    def filter_by_quality(self, threshold: float) -> Self:
        """Those with a reward of at least `threshold`; a scale of rewards is found anew."""
        known = self.config.quality_threshold
        least = threshold if known is None else max(threshold, known)
        return type(self)(self._conversations, replace(self.config, quality_threshold=least))

    def get_statistics(self) -> dict[str, Any]:
        """`LogStatistics` of what is recorded, as a dict: `total_conversations`, `mean_reward` and
        `mean_turns` (None where there is none to take the mean of), and all it counts besides."""
        return LogStatistics.from_conversations(self.recorded()).to_dict()

    def to_jsonl(self, path: str | os.PathLike[str]) -> int:
        """Writes what is recorded as a log, packed by its suffix, whole or not at all; how many."""
        return write_log(path, self.recorded())

    def _prepared(self, conversation: Conversation) -> Conversation:
        if self.config.normalize_rewards:
            conversation = self.reward_scale.apply(conversation)
        if self.config.compute_returns:
            returns = returns_to_go(conversation, self.config.discount)
            if returns is not None:
                metadata = {**conversation.metadata, "returns_to_go": returns}
                conversation = replace(conversation, metadata=metadata)
        return conversation


class ConversationDataset(ConversationStream):
    """Conversations in memory, read once.

        config = ConversationDatasetConfig(min_turns=3, normalize_rewards=True)
        dataset = ConversationDataset.from_jsonl("log.jsonl.gz", config)
        train, dev, test = dataset.split((0.8, 0.1, 0.1), seed=0)
    """

    def __init__(
        self,
        conversations: Iterable[Conversation],
        config: ConversationDatasetConfig | None = None,
        *,
        reward_scale: RewardScale | None = None,
    ) -> None:
        known = list(conversations) if isinstance(conversations, Iterator) else conversations
        super().__init__(known, config, reward_scale=reward_scale)
        self._conversations = self._kept = tuple(super().recorded())

    def recorded(self) -> Iterator[Conversation]:
        """The kept conversations as the log has them, whatever the config does to rewards."""
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)

    @overload
    def __getitem__(self, index: int) -> Conversation: ...
    @overload
    def __getitem__(self, index: slice) -> list[Conversation]: ...
    def __getitem__(self, index: int | slice) -> Conversation | list[Conversation]:
        """The conversation at `index` as the config wants it, or a list for a slice."""
        if isinstance(index, slice):
            return [self._prepared(conversation) for conversation in self._kept[index]]
        return self._prepared(self._kept[index])

    def split(
        self, fractions: Sequence[float], seed: int, *, group_by: GroupBy = None
    ) -> tuple[Self, ...]:
        """Parts that share no conversation, nor the beginning of one (`convgym.data.splits`).

        fractions: the parts' shares, summing to 1; groups that stay together may bend them.
        group_by: a key of the metadata, or a function of the conversation such as
            `first_user_turn`; those with the same value stay together.

        The same conversations and seed give the same parts, in whatever order they were read.
        All parts have this data set's scale of rewards, so that they can be compared.
        """
        indices = split_indices(self._kept, fractions, seed, group_by)
        scale = self.reward_scale
        return tuple(
            type(self)([self._kept[index] for index in part], self.config, reward_scale=scale)
            for part in indices
        )


class _Files:
    """The conversations of several files, in their order; no id comes twice."""

    def __init__(self, readers: Sequence[LogReader]) -> None:
        self._readers = readers

    def __iter__(self) -> Iterator[Conversation]:
        for reader in self._readers:
            reader.report = LogReport(str(reader.path))
        met: dict[int, int] = {}
        for reader in self._readers:
            yield from reader.read(met)

    @property
    def reports(self) -> tuple[LogReport, ...]:
        return tuple(reader.report for reader in self._readers)


def _chat_files(
    paths: Paths, convert: Callable[[object], Conversation], strict: bool, progress: Progress
) -> _Files:
    found = [(Path(path), partial(json_records, Path(path), LIMIT)) for path in _listed(paths)]
    for path, _ in found:
        check_readable(path)
    return _readers(found, convert, strict, progress)


def _readers(
    found: Sequence[tuple[Path, Callable[[], Records]]],
    convert: Callable[[object], Conversation],
    strict: bool,
    progress: Progress,
) -> _Files:
    return _Files(
        [
            LogReader(path, strict=strict, progress=progress, records=begin, convert=convert)
            for path, begin in found
        ]
    )


def _listed(paths: Paths) -> Sequence[str | os.PathLike[str]]:
    listed = [paths] if isinstance(paths, str | os.PathLike) else paths
    if not listed:
        raise InvalidConfiguration("no file is named; give a path, or a list of paths.")
    return listed


def _with_rewards(
    conversation: Conversation, whole: Callable[[float], float], turn: Callable[[float], float]
) -> Conversation:
    messages = tuple(
        message if message.reward is None else replace(message, reward=turn(message.reward))
        for message in conversation.messages
    )
    reward = None if conversation.reward is None else whole(conversation.reward)
    return replace(conversation, messages=messages, reward=reward)
