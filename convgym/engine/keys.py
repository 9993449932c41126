"""Counter-based random numbers: every draw is a hash of (key, stream, turn, index).

There is no generator to carry along. Whoever knows an episode's key can make any of its
draws, in any order, alone or for 4,096 episodes in one numpy call, and gets the same bits:

    draw(key, STREAM, turn, index)        one Python int in [0, 2**32)
    draw_batch(keys, STREAM, turns, i)    (n,) uint64, element-wise equal to the above

The mixer is the finaliser of SplitMix64 (Steele, Lea & Flood, 2014). Integers decide: a
probability is compiled to a threshold once (`threshold`), and a draw is compared with it.
"""

from __future__ import annotations

import sys
from functools import cache

import numpy as np
from numpy.typing import NDArray

MASK = 0xFFFFFFFFFFFFFFFF
_GOLDEN = 0x9E3779B97F4A7C15
_STREAM = 0xD1B54A32D192ED03
_TURN = 0x8CB92BA72F3D8DD7
_INDEX = 0xC2B2AE3D27D4EB4F
_MIX1 = 0xBF58476D1CE4E5B9
_MIX2 = 0x94D049BB133111EB
_S30, _S27, _S31, _M1, _M2 = (np.uint64(n) for n in (30, 27, 31, _MIX1, _MIX2))

# The increments are odd and far from small multiples of each other: no neighbouring keys,
# turns or indices share a draw (tested). The streams: a number is never reused for another
# purpose, which would move every score.
WORLD, TASK, PERSONA, USER, WORDING, FAULTS, POLICY, EPISODE = range(1, 9)
_STREAMS = tuple(stream * _STREAM & MASK for stream in range(EPISODE + 1))


def mix(x: int) -> int:
    """SplitMix64's finaliser: a bijection of 64-bit integers."""
    x &= MASK
    x = ((x ^ (x >> 30)) * _MIX1) & MASK
    x = ((x ^ (x >> 27)) * _MIX2) & MASK
    return x ^ (x >> 31)


def child(key: int, index: int, stream: int = EPISODE) -> int:
    """A 64-bit key derived from `key`, e.g. that of the index-th episode of a run."""
    x = (key + stream * _STREAM + (index + 1) * _GOLDEN) & MASK
    x = ((x ^ (x >> 30)) * _MIX1) & MASK  # `mix`, written out
    x = ((x ^ (x >> 27)) * _MIX2) & MASK
    return x ^ (x >> 31)


def child_batch(keys: NDArray[np.uint64], index: int, stream: int = EPISODE) -> NDArray[np.uint64]:
    """`child`, element by element.  # (n,) uint64"""
    step = np.uint64((stream * _STREAM + (index + 1) * _GOLDEN) & MASK)
    return mix_batch(np.asarray(keys, dtype=np.uint64) + step)


def children(key: int, count: int, stream: int = EPISODE) -> NDArray[np.uint64]:
    """`child(key, index)` of every index below `count`.  # (count,) uint64"""
    index = np.arange(1, count + 1, dtype=np.uint64)
    start = np.uint64((key + stream * _STREAM) & MASK)
    return mix_batch(start + index * np.uint64(_GOLDEN))


def draw(key: int, stream: int, turn: int, index: int) -> int:
    """One draw, uniform in [0, 2**32)."""
    x = (key + _STREAMS[stream] + turn * _TURN + index * _INDEX) & MASK
    x = ((x ^ (x >> 30)) * _MIX1) & MASK
    x = ((x ^ (x >> 27)) * _MIX2) & MASK
    return (x ^ (x >> 31)) >> 32


def draws(key: int, stream: int, turn: int, indices: range | tuple[int, ...]) -> list[int]:
    """`draw` of several indices; thirty of them are as quick as six of them one by one.

    They are mixed side by side, in lanes of 128 bits of one number, that products do not leave.
    """
    ones, steps, lanes, count = _lanes(indices)
    x = ((key + stream * _STREAM + turn * _TURN & MASK) * ones + steps) & lanes
    x = (x ^ (x >> 30 & lanes)) * _MIX1 & lanes
    x = (x ^ (x >> 27 & lanes)) * _MIX2 & lanes
    x ^= x >> 31 & lanes
    halves: list[int] = memoryview(x.to_bytes(16 * count, sys.byteorder)).cast("I").tolist()
    return halves[1::4] if sys.byteorder == "little" else halves[-2::-4]


@cache
def _lanes(indices: range | tuple[int, ...]) -> tuple[int, int, int, int]:
    """In each lane 1, the step to its index, and all bits of a key; how many lanes there are."""
    count = len(indices)
    ones = sum(1 << 128 * lane for lane in range(count))
    steps = sum((index * _INDEX & MASK) << 128 * lane for lane, index in enumerate(indices))
    return ones, steps, MASK * ones, count


def below(drawn: int, count: int) -> int:
    """Map a draw to an integer in [0, count), without a division or a float."""
    return (drawn * count) >> 32


def threshold(probability: float) -> int:
    """The integer t with P(draw < t) = probability, on a grid of 2**-16.

    The coarse grid absorbs the last-bit differences between platforms' exp and log.
    """
    return round(min(max(probability, 0.0), 1.0) * 65536) << 16


def mix_batch(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """`mix`, element by element."""
    x = (x ^ (x >> _S30)) * _M1
    x = (x ^ (x >> _S27)) * _M2
    return x ^ (x >> _S31)


def draw_batch(
    keys: NDArray[np.uint64] | int,
    stream: int,
    turns: NDArray[np.uint64] | int,
    indices: NDArray[np.uint64] | int,
) -> NDArray[np.uint64]:
    """`draw`, element by element; arguments broadcast.  # (n,) uint64"""
    with np.errstate(over="ignore"):
        x = (
            np.asarray(keys, dtype=np.uint64)
            + np.uint64(stream * _STREAM & MASK)
            + np.asarray(turns, dtype=np.uint64) * np.uint64(_TURN)
            + np.asarray(indices, dtype=np.uint64) * np.uint64(_INDEX)
        )
        return mix_batch(np.atleast_1d(x)) >> np.uint64(32)


def below_batch(drawn: NDArray[np.uint64], count: NDArray[np.uint64] | int) -> NDArray[np.int64]:
    """`below`, element by element."""
    return ((drawn * np.asarray(count, dtype=np.uint64)) >> np.uint64(32)).astype(np.int64)
