"""Texts as rows of a table: the words and pairs of neighbours of many texts in one call.

    texts ─► code points, end to end ─► words ─┬─ each word ───────────────────┐
                                               └─ each pair, both ends included ┴─► row numbers
    "no thanks"      no, thanks, (start, no), (no, thanks), (thanks, end)     five rows

A word is a run of letters and digits, or one ? or !. Words are hashed, not looked up (feature
hashing, Weinberger et al., 2009, arXiv:0902.2206), so that a text met for the first time costs as
much as any other: the whole is one compiled loop over whole numbers, the same on every machine.
Knows nothing of weights.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from convgym.engine.kernel import kernel, loop

Rows = NDArray[np.int32]
Ends = NDArray[np.int64]

_MASK = 0xFFFFFFFF
_BEGIN, _PRIME = 0x811C9DC5, 0x01000193  # FNV-1a, 32 bits
_ODD = 0x2C1B3C6D
_EDGE = 0
"""What stands before the first word and after the last one."""


def hashed_words(texts: Sequence[str], size: int) -> tuple[Rows, Ends]:
    """Rows below `size`, a power of 2, of all texts end to end, and where those of each text end.

    A text of n words has 2 n + 1 rows.
    """
    lowered = [text.lower() for text in texts]
    raw = "".join(lowered).encode("utf-32-le", "surrogatepass")
    lengths = np.fromiter(map(len, lowered), dtype=np.int64, count=len(lowered))
    return _hashed(np.frombuffer(raw, dtype="<u4"), lengths.cumsum(), size - 1)


@kernel
def _is_word(code: int) -> bool:
    """Letters and digits; beyond Latin-1's signs all but the block of punctuation."""
    if code < 0xC0:
        return 97 <= code <= 122 or 48 <= code <= 57 or code == 95
    return not 0x2000 <= code <= 0x206F


@kernel
def _pair(one: int, other: int) -> int:
    """A hash of two words, or of one word and an edge."""
    mixed = (one * _ODD + other) & _MASK
    return ((mixed ^ (mixed >> 15)) * _ODD) & _MASK


@loop
def _hashed(codes: NDArray[np.uint32], ends: Ends, mask: int) -> tuple[Rows, Ends]:
    """Rows of all texts.  (characters,), (texts,) → (rows,), (texts,)"""
    found = np.empty(2 * len(codes) + len(ends), dtype=np.int32)
    stops = np.empty(len(ends), dtype=np.int64)
    count, at = 0, 0
    for text in range(len(ends)):
        before = _EDGE
        while at < ends[text]:
            code = int(codes[at])
            at += 1
            if code != 33 and code != 63 and not _is_word(code):
                continue
            word = ((_BEGIN ^ code) * _PRIME) & _MASK
            if code != 33 and code != 63:
                while at < ends[text] and _is_word(int(codes[at])):
                    word = ((word ^ int(codes[at])) * _PRIME) & _MASK
                    at += 1
            found[count] = (word ^ (word >> 15)) & mask
            found[count + 1] = (_pair(before, word) >> 5) & mask
            count += 2
            before = word
        found[count] = (_pair(before, _EDGE) >> 5) & mask
        count += 1
        stops[text] = count
    return found[:count].copy(), stops
