"""The space of observed text, which keeps its words in the memory that processes share.

    worker:  "Hello" ─► write ─► length 5 | H e l l o …     one row of int32 per environment
    parent:  reset, step ─► copy of the live rows ─► ("Hello", …), as they are at that moment

`gymnasium.vector.AsyncVectorEnv` reads shared memory once, when it is made, and hands out copies
of what it has read. For numbers that is a live view. For `gymnasium.spaces.Text` it is a tuple of
finished strings: every text stays 'aaa…' for ever, which is in the space, so nobody notices.
Here what is read once is a live sequence, and a copy of it is a tuple of the texts of now.

Nothing else differs from `Text`: the space holds, compares, batches and stores as a plain one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np
from gymnasium.spaces import Text
from gymnasium.vector.utils import (
    create_shared_memory,
    read_from_shared_memory,
    write_to_shared_memory,
)
from numpy.typing import NDArray

from convgym.spaces import CHARSET

_ENCODING = "utf-32-le"
"""One int32 a character, on the little-endian machines that numpy's '<i4' views."""


class SharedText(Text):
    """`Text(max_length, min_length=0, charset=CHARSET)`, right in `AsyncVectorEnv` too."""

    def __init__(
        self, max_length: int, *, seed: int | np.random.Generator | None = None
    ) -> None:
        super().__init__(max_length, min_length=0, charset=CHARSET, seed=seed)


class LiveTexts(Sequence[str]):
    """The texts of all environments as they stand in shared memory; a copy is a plain tuple.

    With `AsyncVectorEnv(copy=False)` this itself is the observation, and changes with every step,
    as the arrays of the other spaces then do.
    """

    def __init__(self, rows: NDArray[np.int32]) -> None:
        self._rows = rows  # (environments, 1 + max_length): length, then code points

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: int | slice) -> str | tuple[str, ...]:
        if isinstance(index, slice):
            return tuple(_read(row) for row in self._rows[index])
        return _read(self._rows[index])

    def __iter__(self) -> Iterator[str]:
        return map(_read, self._rows)

    def __repr__(self) -> str:
        return f"LiveTexts{tuple(self)}"

    def __deepcopy__(self, memo: Any) -> tuple[str, ...]:
        return tuple(self)


def _read(row: NDArray[np.int32]) -> str:
    return row[1 : 1 + row[0]].tobytes().decode(_ENCODING)


def _rows(space: SharedText, memory: Any) -> NDArray[np.int32]:
    """The memory of all environments.  # (environments, 1 + max_length)"""
    return np.frombuffer(memory.get_obj(), dtype="<i4").reshape(-1, 1 + space.max_length)


@create_shared_memory.register(SharedText)
def _create(space: SharedText, n: int = 1, ctx: Any = None) -> Any:
    return ctx.Array("i", n * (1 + space.max_length))


@read_from_shared_memory.register(SharedText)
def _live(space: SharedText, shared_memory: Any, n: int = 1) -> LiveTexts:
    return LiveTexts(_rows(space, shared_memory))


@write_to_shared_memory.register(SharedText)
def _write(space: SharedText, index: int, value: str, shared_memory: Any) -> None:
    row = _rows(space, shared_memory)[index]
    characters = np.frombuffer(value.encode(_ENCODING), dtype="<i4")
    row[1 : 1 + len(characters)] = characters
    row[0] = len(characters)
