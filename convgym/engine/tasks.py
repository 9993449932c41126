"""Splits and names of procedural tasks.

A task is called `<split>-<number>` and rebuilt from that name alone. Splits share no
customer and no key, so no test task can be met in training.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.engine import keys
from convgym.engine.keys import child, mix
from convgym.errors import InvalidConfiguration

SPLITS: dict[str, int] = {
    "train": 100_000,
    "validation": 2_000,
    "test": 2_000,
    "test_compositional": 2_000,
    "test_primitive": 2_000,
    "test_policy": 2_000,
    "test_persona": 2_000,
    "test_lexical": 2_000,
}
"""Number of tasks in each split.

`test` asks for what `train` asks for, of other customers. Each of those after it holds out one
thing more: a pair of things that are met singly in training, a single thing, a rule, a sort of
person, the customer's wordings.
"""
MOST_DIGITS = 9


@lru_cache(maxsize=256)
def _stem(domain: str, split: str) -> int:
    stem = 0xC0471
    for character in f"{domain}/{split}":
        stem = mix(stem * 257 + ord(character))
    return stem


def split_key(domain: str, split: str, number: int) -> int:
    """The 64-bit key that all draws of one task come from."""
    return child(_stem(domain, split), number)


def split_keys(domain: str, split: str, count: int) -> NDArray[np.uint64]:
    """`split_key` of the first `count` tasks.  # (count,) uint64"""
    return keys.children(_stem(domain, split), count)


@lru_cache(maxsize=1 << 15)
def kept_task(draw: Callable[[str, int], Any], split: str, number: int) -> Any:
    """`draw(split, number)`, kept with what was drawn lately of all other domains.

    One memory for all of them: a process that plays many domains holds no more tasks than one
    that plays a single one, about 50 MiB of them in the end.
    """
    return draw(split, number)


BAND = 80
"""Percent of a split's tasks, ordered by hardness, that one difficulty draws from."""


@dataclass(frozen=True, eq=False)
class TaskTable:
    """What can be asked of all tasks of a split at once."""

    topic: NDArray[np.int64]
    """Number of the workflow.  # (tasks,)"""
    hardness: NDArray[np.int64]
    """Points; more is harder.  # (tasks,)"""
    _ordered: dict[int, NDArray[np.int64]] = field(default_factory=dict, repr=False)
    """Task numbers by hardness, for each topic that was asked for."""

    def choose(self, drawn: int, topic: int, difficulty: int) -> int:
        """Number of the task that a 32-bit draw selects.

        `topic` -1 is any; `difficulty` in hundredths takes a band of the tasks in the order of
        their hardness, the easiest 80 % at 0, the hardest 80 % at 100, and one episode in three
        from all of them, so that every task stays possible; -1 takes all.
        Raises InvalidConfiguration for a topic that no task of the split has.
        """
        if topic not in self._ordered:
            which = np.flatnonzero((self.topic == topic) | (topic < 0))
            if not len(which):
                raise InvalidConfiguration(
                    "no task of this split has this topic, which is kept for test_primitive; take "
                    "another topic, or that split"
                )
            self._ordered[topic] = which[np.argsort(self.hardness[which], kind="stable")]
        ordered = self._ordered[topic]
        if difficulty < 0:
            return int(ordered[keys.below(drawn, len(ordered))])
        third, drawn = keys.below(drawn, 3), drawn * 3 & 0xFFFFFFFF
        if not third:
            return int(ordered[keys.below(drawn, len(ordered))])
        width = len(ordered) * BAND // 100
        begin = (len(ordered) - width) * difficulty // 100
        return int(ordered[begin + keys.below(drawn, width)])


def check_split(split: str, allowed: Sequence[str] = tuple(SPLITS)) -> str:
    """`split` itself; raises InvalidConfiguration for a split that there is not."""
    if not isinstance(split, str) or split not in allowed:
        raise InvalidConfiguration(f"no split is called {split!r}; there are {', '.join(allowed)}")
    return split


def parse_task_id(task_id: str) -> tuple[str, int]:
    """`"test-17"` → `("test", 17)`; raises InvalidConfiguration for anything else."""
    split, dash, number = task_id.rpartition("-") if isinstance(task_id, str) else ("", "", "")
    whole = number.isascii() and number.isdigit() and len(number) <= MOST_DIGITS
    if not (dash and whole and split in SPLITS):
        raise InvalidConfiguration(
            f"no task is called {str(task_id)[:40]!r}; a task is named split-number, such as "
            f"'test-17', with a split among {', '.join(SPLITS)}"
        )
    if not int(number) < SPLITS[split]:
        raise InvalidConfiguration(
            f"task {task_id!r} does not exist; the split {split!r} has numbers 0 to "
            f"{SPLITS[split] - 1}"
        )
    return split, int(number)
