"""Uniform numbers by address, not by order: who asks first changes nothing.

    key     = mix(rng_seed, seed, member, turn)         one for every reply
    uniform = mix(key + (place + 1) · φ) / 2⁶⁴          one for every token of it

`mix` is the finaliser of SplitMix64 (Steele, Lea and Flood, 2014, doi:10.1145/2660193.2660195),
so a reply's numbers are that generator's from the state `key` on. Knows nothing of models.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_WORD = (1 << 64) - 1
_STEP = 0x9E3779B97F4A7C15
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def draw_key(*address: int) -> int:
    """One whole number in [0, 2⁶⁴) for whole numbers of any size, whose order counts."""
    state = 0
    for number in address:
        state = _mixed((state + number * _STEP + _STEP) & _WORD)
    return state


def uniforms(keys: NDArray[np.uint64], places: int) -> NDArray[np.float64]:
    """Numbers in [0, 1): a row for each key, a column for each of the first `places`.

    (n,) → (n, places)
    """
    steps = np.arange(1, places + 1, dtype=np.uint64) * np.uint64(_STEP)
    state = keys[:, None] + steps[None]
    state = (state ^ (state >> np.uint64(30))) * np.uint64(_FIRST)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(_SECOND)
    state ^= state >> np.uint64(31)
    return (state >> np.uint64(11)) * 2.0**-53


def _mixed(state: int) -> int:
    state = ((state ^ (state >> 30)) * _FIRST) & _WORD
    state = ((state ^ (state >> 27)) * _SECOND) & _WORD
    return state ^ (state >> 31)
