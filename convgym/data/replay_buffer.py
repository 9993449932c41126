"""Conversations to learn from again and again, the surprising ones more often.

    serial number    …  41    42    43    44    45    46   …      of agent turns, as they came
    conversation        └── 7 ──┘   └─────── 8 ───────┘           of conversations
    slot             serial number modulo capacity: what is new overwrites what is oldest

Prioritized experience replay (Schaul et al., 2016, arXiv:1511.05952, proportional variant), once
over turns and once over whole conversations: each has its own priorities. What a newcomer would
get wrong: an index is a serial number, so it never comes to mean another item; priorities for
what has left meanwhile are passed over. Knows nothing of learners.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from convgym.conversation import Conversation
from convgym.data.records import from_record, to_record
from convgym.data.replay_items import ArrayBatch, Columns, Item, TextBatch, columns_of
from convgym.data.sum_tree import SumTree
from convgym.errors import DatasetError, InvalidConfiguration, InvalidLog
from convgym.language.archive import DAMAGE

MODES = ("trajectory", "turn")
_FORMAT = "convgym replay 1"
_LEAST, _MOST = 1e-100, 1e100
"""What a priority may be, so that sums of any number of them stay finite."""

Indices = NDArray[np.int64]


class ConversationReplayBuffer:
    """The latest conversations, drawn in proportion to priority^α.

        P(i) = p_i^α / Σ p_k^α        w_i = (N · P(i))^-β / max w of the batch

    `capacity` counts agent turns. Where a conversation needs room, the oldest ones leave, each
    with all its turns. What is new has the greatest priority given so far, 1 at first. One buffer
    holds either numbers (`EpisodeArrays`) or words (`Conversation`), whichever came first; of
    numbers, observation and next observation are kept both.
    """

    def __init__(
        self,
        capacity: int,
        priority_alpha: float = 0.6,
        priority_beta: float = 0.4,
        seed: int = 0,
    ) -> None:
        """Empty; α and β in [0, 1].

        Raises InvalidConfiguration for a value that is not allowed.
        """
        for name, number, least in (("capacity", capacity, 1), ("seed", seed, 0)):
            if not (isinstance(number, int) and number >= least):
                raise InvalidConfiguration(f"{name}={number!r}; it takes a whole number ≥ {least}")
        self.capacity = capacity
        self.priority_alpha = _share("priority_alpha", priority_alpha)
        self.priority_beta = priority_beta
        self._rng = np.random.default_rng(seed)
        self._rings = {mode: _Ring(capacity, self.priority_alpha) for mode in MODES}
        self._columns: dict[str, NDArray[Any]] = {}
        """Of each field the turns, by slot.  name → (capacity, …)"""
        self._conversation = np.zeros(capacity, dtype=np.int64)
        """Of each turn its conversation, by slot."""
        self._start = np.zeros(capacity, dtype=np.int64)
        """Of each conversation its first turn, by slot."""
        self._said: dict[int, Conversation] = {}
        """Where items are words: the conversations, by serial number."""

    @property
    def priority_beta(self) -> float:
        """β, in [0, 1]; set it to anneal: 1 corrects for the priorities in full."""
        return self._beta

    @priority_beta.setter
    def priority_beta(self, beta: float) -> None:
        self._beta = _share("priority_beta", beta)

    def __len__(self) -> int:
        """Agent turns that are here."""
        return len(self._rings["turn"])

    @property
    def conversations(self) -> int:
        """Conversations that are here."""
        return len(self._rings["trajectory"])

    # -- in ----------------------------------------------------------------------------------------

    def add(self, item: Item) -> None:
        """Take in one conversation; see `extend`."""
        self.extend([item])

    def extend(self, items: Iterable[Item]) -> None:
        """Take in conversations, all of them or, if one is refused, none.

        Raises DatasetError for an item that is not like those here (other fields, shapes or
        types), has more turns than the capacity, or is refused by `columns_of`.
        """
        listed = list(items)
        parts = [columns_of(item) for item in listed]
        like = self._columns or (parts[0] if parts else {})
        for part in parts:
            self._check(part, like)
        if not self._columns:
            self._columns = {
                name: np.zeros((self.capacity, *column.shape[1:]), dtype=column.dtype)
                for name, column in like.items()
            }
        turns, talks = self._rings["turn"], self._rings["trajectory"]
        first, end, first_talk, end_talk = turns.first, turns.end, talks.first, talks.end
        for item, part in zip(listed, parts, strict=True):
            length = len(next(iter(part.values())))
            while end + length - first > self.capacity:
                self._said.pop(first_talk, None)
                first_talk += 1
                first = end if first_talk == end_talk else int(self._start[self._slot(first_talk)])
            slots = self._slot(np.arange(end, end + length))
            for name, rows in part.items():
                self._columns[name][slots] = rows
            self._conversation[slots] = end_talk
            self._start[self._slot(end_talk)] = end
            if isinstance(item, Conversation):
                self._said[end_talk] = item
            end, end_talk = end + length, end_talk + 1
        turns.move(first, end)
        talks.move(first_talk, end_talk)

    def _check(self, part: Columns, like: Columns) -> None:
        came, here = (
            {name: (column.dtype.str, column.shape[1:]) for name, column in columns.items()}
            for columns in (part, like)
        )
        if came != here:
            raise DatasetError(
                f"an item with the fields {came} came to a replay buffer of {here}; one buffer "
                "takes items of one kind"
            )
        length = len(next(iter(part.values())))
        if length > self.capacity:
            raise DatasetError(
                f"a conversation of {length} agent turns came to a replay buffer with room for "
                f"{self.capacity}; raise the capacity, or leave it out"
            )

    def _slot(self, serials: Any) -> Any:
        return serials % self.capacity

    # -- out ---------------------------------------------------------------------------------------

    def sample(self, batch_size: int, mode: str = "trajectory") -> ArrayBatch | TextBatch:
        """Draw turns, or conversations with all their turns, oldest slot first.

        One draw from each of `batch_size` equal shares of the priorities, so an item may come
        twice. Raises InvalidConfiguration for another mode, no whole number from 1, or when empty.
        """
        ring = self._ring(mode)
        if not (isinstance(batch_size, int) and batch_size >= 1):
            raise InvalidConfiguration(f"batch_size={batch_size!r}; it takes a whole number ≥ 1")
        if not len(ring):
            raise InvalidConfiguration("the replay buffer is empty; add conversations first")
        indices, weights = ring.draw(batch_size, self._beta, self._rng)
        if mode == "turn":
            rows, lengths = indices, np.ones(batch_size, dtype=np.int64)
        else:
            rows, lengths = self._turns_of(indices)
        slots = self._slot(rows)
        talks = self._conversation[slots]
        draws = {
            "indices": indices,
            "weights": weights,
            "lengths": lengths,
            "conversation_index": talks,
            "turn_index": rows - self._start[self._slot(talks)],
        }
        columns = {name: column[slots] for name, column in self._columns.items()}
        if not self._said:
            return ArrayBatch(**draws, **columns)
        messages = [self._said[talk].messages for talk in talks.tolist()]
        positions = columns["position"].tolist()
        drawn = talks if mode == "turn" else indices
        return TextBatch(
            **draws,
            conversations=tuple(self._said[talk] for talk in drawn.tolist()),
            histories=tuple(said[:at] for said, at in zip(messages, positions, strict=True)),
            replies=tuple(said[at] for said, at in zip(messages, positions, strict=True)),
        )

    def update_priorities(self, indices: ArrayLike, priorities: ArrayLike, mode: str) -> None:
        """Priorities of what was drawn in this mode, such as |TD error| + ε.  (n,), (n,)

        Where an index comes twice, its last priority stays; what has left meanwhile is passed
        over. Raises InvalidConfiguration for an index that was never given out, and for a
        priority that is not finite and above 0 (from 1e-100 to 1e100).
        """
        self._ring(mode).update(np.asarray(indices), np.asarray(priorities, dtype=np.float64))

    def _ring(self, mode: str) -> _Ring:
        if mode not in MODES:
            raise InvalidConfiguration(f"mode={mode!r}; it takes 'trajectory' or 'turn'")
        return self._rings[mode]

    def _turns_of(self, talks: Indices) -> tuple[Indices, Indices]:
        """Turns of these conversations, one after the other, and how many each has."""
        starts = self._start[self._slot(talks)]
        ends = np.where(
            talks + 1 < self._rings["trajectory"].end,
            self._start[self._slot(talks + 1)],
            self._rings["turn"].end,
        )
        lengths = ends - starts
        before = np.cumsum(lengths) - lengths
        return np.arange(lengths.sum()) + np.repeat(starts - before, lengths), lengths

    # -- the file ----------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything, the generator's state too; the file appears whole or stays as it was.

        Raises DatasetError where a conversation's metadata would not come back the same from JSON.
        """
        turns, talks = self._rings["turn"], self._rings["trajectory"]
        slots = {mode: self._slot(ring.serials) for mode, ring in self._rings.items()}
        about = {
            "format": _FORMAT,
            "capacity": self.capacity,
            "priority_alpha": self.priority_alpha,
            "priority_beta": self.priority_beta,
            "generator": self._rng.bit_generator.state,
            "turn": [turns.first, turns.end, turns.greatest],
            "trajectory": [talks.first, talks.end, talks.greatest],
            "said": [_record(self._said[talk]) for talk in sorted(self._said)],
        }
        arrays = {f"column {name}": held[slots["turn"]] for name, held in self._columns.items()}
        arrays |= {f"shares {mode}": ring.shares for mode, ring in self._rings.items()}
        arrays["starts"] = self._start[slots["trajectory"]]
        arrays["about"] = np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)
        temporary = Path(f"{os.fspath(path)}.{os.getpid()}.part")
        try:
            with temporary.open("wb") as file:
                np.savez(file, **arrays)
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ConversationReplayBuffer:
        """The buffer that `save` wrote: it goes on as that one would have.

        Raises DatasetError where the file cannot be read, or is none of this format.
        """
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = dict(file)
            about = json.loads(arrays.pop("about").tobytes())
            if about["format"] != _FORMAT:
                raise ValueError(about["format"])
            return cls._restored(about, arrays)
        except OSError as error:
            raise DatasetError(f"{path} cannot be read: {error.strerror}") from error
        except DAMAGE as error:
            raise DatasetError(f"{path} is no replay buffer that this version saved") from error

    @classmethod
    def _restored(
        cls, about: dict[str, Any], arrays: dict[str, NDArray[Any]]
    ) -> ConversationReplayBuffer:
        buffer = cls(about["capacity"], about["priority_alpha"], about["priority_beta"])
        buffer._rng.bit_generator.state = about["generator"]
        for mode, ring in buffer._rings.items():
            first, end, greatest = about[mode]
            ring.restore(first, end, greatest, arrays[f"shares {mode}"])
        turns, talks = (buffer._rings[mode].serials for mode in ("turn", "trajectory"))
        for name, rows in arrays.items():
            if name.startswith("column "):
                held = np.zeros((buffer.capacity, *rows.shape[1:]), dtype=rows.dtype)
                held[buffer._slot(turns)] = rows
                buffer._columns[name.removeprefix("column ")] = held
        buffer._start[buffer._slot(talks)] = arrays["starts"]
        _, lengths = buffer._turns_of(talks)
        buffer._conversation[buffer._slot(turns)] = np.repeat(talks, lengths)
        if about["said"]:
            said = map(from_record, about["said"])
            buffer._said = dict(zip(talks.tolist(), said, strict=True))
        return buffer


class _Ring:
    """Serial numbers from `first` to before `end`, each with its share: priority^α."""

    def __init__(self, capacity: int, alpha: float) -> None:
        self._capacity, self._alpha = capacity, alpha
        self._tree = SumTree(capacity)
        self.first = self.end = 0
        self.greatest = 1.0
        """The greatest priority given so far."""

    def __len__(self) -> int:
        return self.end - self.first

    @property
    def serials(self) -> Indices:
        return np.arange(self.first, self.end)

    @property
    def shares(self) -> NDArray[np.float64]:
        """In the order of serial numbers."""
        return self._tree[self.serials % self._capacity]

    def move(self, first: int, end: int) -> None:
        """Let go of what is before `first`; take in what is new before `end`."""
        gone = np.arange(self.first, min(first, self.end))
        new = np.arange(max(first, self.end), end)
        self._tree[gone % self._capacity] = 0.0
        self._tree[new % self._capacity] = self.greatest**self._alpha
        self.first, self.end = first, end

    def restore(self, first: int, end: int, greatest: float, shares: NDArray[Any]) -> None:
        self.first, self.end, self.greatest = first, end, greatest
        self._tree[self.serials % self._capacity] = shares

    def draw(
        self, count: int, beta: float, rng: np.random.Generator
    ) -> tuple[Indices, NDArray[np.float64]]:
        """Serial numbers and importance weights."""
        places = self._tree.draw(count, rng)
        shares = self._tree[places]
        # N and the sum of all shares fall out of (N P(i))^-β over its greatest.
        weights = (shares.min() / shares) ** beta
        return self.first + (places - self.first) % self._capacity, weights

    def update(self, serials: NDArray[Any], priorities: NDArray[np.float64]) -> None:
        if serials.ndim != 1 or serials.shape != priorities.shape:
            raise InvalidConfiguration(
                f"indices of shape {serials.shape} came with priorities of shape "
                f"{priorities.shape}; they take one priority for each index"
            )
        if not serials.size:
            return
        if serials.dtype.kind not in "iu" or serials.min() < 0 or serials.max() >= self.end:
            raise InvalidConfiguration(
                f"indices are the whole numbers that `sample` gave out, all below {self.end}"
            )
        if not ((priorities >= _LEAST) & (priorities <= _MOST)).all():
            raise InvalidConfiguration(
                f"priorities from {priorities.min()} to {priorities.max()} came; they must lie "
                f"from {_LEAST} to {_MOST}; take a size of error, and add a small ε"
            )
        here = serials >= self.first
        self._tree[serials[here] % self._capacity] = priorities[here] ** self._alpha
        self.greatest = float(priorities[here].max(initial=self.greatest))


def _share(name: str, given: float) -> float:
    if not 0.0 <= given <= 1.0:
        raise InvalidConfiguration(f"{name}={given!r}; it takes a number from 0 to 1")
    return float(given)


def _record(conversation: Conversation) -> dict[str, Any]:
    """For JSON; refused where it would come back as something else."""
    record = to_record(conversation)
    try:
        same = from_record(json.loads(json.dumps(record))) == conversation
    except (TypeError, ValueError, InvalidLog):
        same = False
    if not same:
        raise DatasetError(
            f"the conversation {conversation.conversation_id!r} does not come back the same from "
            "JSON; keep texts, numbers, lists and mappings in its metadata"
        )
    return record
