"""Splits and names of procedural tasks.

A task is called `<split>-<number>` and rebuilt from that name alone. Splits share no
customer and no key, so no test task can be met in training.
"""

from __future__ import annotations

from functools import lru_cache

from convgym.engine.keys import child, mix
from convgym.errors import InvalidConfiguration

SPLITS: dict[str, int] = {"train": 100_000, "validation": 2_000, "test": 2_000}
"""Number of tasks in each split."""
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


def check_split(split: str) -> str:
    """`split` itself; raises InvalidConfiguration for a split that there is not."""
    if not isinstance(split, str) or split not in SPLITS:
        raise InvalidConfiguration(f"no split is called {split!r}; there are {', '.join(SPLITS)}")
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
