"""Texts as vectors of fixed length: what is said alike lies close together.

    text ─► words ─┬─ each word, and the letters it is made of ─┐
                   └─ each pair of neighbours ──────────────────┴─► ± signs, summed ─► length 1

An encoder that needs no model: every word, pair and run of letters is hashed to a row of random
signs, and a text is the sum of its rows (feature hashing, Weinberger et al., 2009,
arXiv:0902.2206; sign projection, Achlioptas, 2003). What a newcomer would get wrong: all sums are
of small whole numbers, which float32 holds exactly, so that a text has the same bytes on every
machine, alone or among others. Two texts of the same words in another order lie close, not equal.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from convgym.engine import keys
from convgym.errors import InvalidConfiguration

Vectors = NDArray[np.float32]

ROWS = 1 << 16
"""Rows of signs that features are hashed to."""
RUN = 3
"""Letters of a run: "refund" has <re, ref, efu, fun, und, nd>."""
MOST_WORDS = 1 << 16
"""Different words whose vectors are kept."""
_WORD = re.compile(r"\w+|[?!]")
_PLAIN, _TELLING, _PAIR = 1, 2, 2
"""What a word that says little, any other one, and a pair weigh; a run of letters weighs 1."""
_PLAIN_WORDS = frozenset(
    "a an the i you he she it we they me him us them my your his its our their is am are was were "
    "be been to of in on at for with and or so but that this".split()
)


@runtime_checkable
class Encoder(Protocol):
    """What turns texts into vectors."""

    @property
    def name(self) -> str:
        """Tells it from every encoder that would give other vectors."""

    @property
    def dim(self) -> int:
        """Numbers of a vector."""

    def encode(self, texts: Sequence[str]) -> Vectors:
        """A vector for each text.  (n,) → (n, dim) float32"""


def encoder_of(given: str | os.PathLike[str] | Encoder = "hashed") -> Encoder:
    """The encoder that `given` names, or is.

        "hashed"  "hashed:512"          HashedEncoder, of 256 or of so many numbers; or "hash"
        "table.npz"  "glove.50d.txt"    StaticEncoder, from a file
        "all-MiniLM-L6-v2"              OnnxEncoder, from a folder

    Raises InvalidConfiguration for anything else, and MissingExtra where a folder's encoder needs
    packages that are not installed.
    """
    if isinstance(given, Encoder):
        return given
    if isinstance(given, str):
        kind, _, dim = given.partition(":")
        if kind in ("hash", "hashed") and (dim.isdecimal() or given == kind):
            return HashedEncoder(int(dim)) if dim else HashedEncoder()
    if isinstance(given, str | os.PathLike):
        if os.path.isdir(given):
            from convgym.language.onnx_encoder import OnnxEncoder

            return OnnxEncoder(given)
        if os.path.isfile(given):
            from convgym.language.static_encoder import StaticEncoder

            return StaticEncoder.load(given)
    raise InvalidConfiguration(
        f"encoder={given!r}; it takes 'hashed', 'hashed:512', the path of a table of words or of "
        "an ONNX encoder's folder, or an object with name, dim and encode(texts)"
    )


def encoded(encoder: Encoder, texts: Sequence[str]) -> Vectors:
    """What an encoder gives, once it is known to be what it must.  (n,) → (n, dim) float32

    Raises InvalidConfiguration for another shape, or numbers that are not finite.
    """
    vectors = np.asarray(encoder.encode(texts), dtype=np.float32)
    if vectors.shape != (len(texts), encoder.dim) or not np.isfinite(vectors).all():
        raise InvalidConfiguration(
            f"the encoder {encoder.name!r} gave numbers of shape {vectors.shape}, or some that are "
            f"not finite, for {len(texts)} texts; it must give ({len(texts)}, {encoder.dim})"
        )
    return vectors


def words_in(text: str) -> list[str]:
    """Its words in small letters, and each question and exclamation mark."""
    return _WORD.findall(text.lower())


def check_list(texts: Sequence[str]) -> None:
    """Raises InvalidConfiguration where one text came in place of a list of texts."""
    if isinstance(texts, str):
        raise InvalidConfiguration("encode came with one text; it takes a list of texts")


class HashedEncoder:
    """Hashed words, letters and pairs of words, projected by random signs; needs numpy only.

    A vector has length 1; that of a text without a word or question mark is 0.
    """

    def __init__(self, dim: int = 256, seed: int = 0) -> None:
        """Vectors of `dim` numbers, a multiple of 64; other seeds give other projections.

        Raises InvalidConfiguration for another `dim`, or a seed that is no whole number from 0.
        """
        if not (isinstance(dim, int) and dim > 0 and dim % 64 == 0):
            raise InvalidConfiguration(f"dim={dim!r}; it takes a multiple of 64, such as 256")
        if not (isinstance(seed, int) and seed >= 0):
            raise InvalidConfiguration(f"seed={seed!r}; it takes a whole number from 0")
        self._dim, self._seed = dim, seed
        self._signs = _signs(dim, seed)
        self._places: dict[str, int] = {}
        self._of_words = np.empty((1 << 10, dim), dtype=np.float32)

    @property
    def name(self) -> str:
        """`hashed-256-0`: dimensions and seed."""
        return f"hashed-{self._dim}-{self._seed}"

    @property
    def dim(self) -> int:
        """Numbers of a vector."""
        return self._dim

    def encode(self, texts: Sequence[str]) -> Vectors:
        """A vector for each text, whatever stands beside it.  (n,) → (n, dim) float32"""
        check_list(texts)
        found = np.zeros((len(texts), self._dim), dtype=np.float32)
        for place, text in enumerate(texts):
            words = words_in(text)
            if words:
                found[place] = self._sum(words)
        squares = np.square(found, dtype=np.float64).sum(axis=1, keepdims=True)
        return (found / np.sqrt(np.maximum(squares, 1.0))).astype(np.float32)

    def _sum(self, words: list[str]) -> Vectors:
        if len(self._places) + len(words) > MOST_WORDS:
            self._places.clear()
        places = [self._place(word) for word in words]
        total: Vectors = self._of_words[places].sum(axis=0)
        if len(words) > 1:
            pairs = [_row(f"{one} {two}") for one, two in pairwise(words)]
            total += _PAIR * self._signs[pairs].sum(axis=0, dtype=np.float32)
        return total

    def _place(self, word: str) -> int:
        """Where among the words the vector of this one stands; made where it is new."""
        place = self._places.get(word)
        if place is None:
            place = self._places[word] = len(self._places)
            if place == len(self._of_words):
                self._of_words = np.concatenate([self._of_words, np.empty_like(self._of_words)])
            self._of_words[place] = self._of_word(word)
        return place

    def _of_word(self, word: str) -> Vectors:
        """A word and its runs of letters."""
        weight = _PLAIN if word in _PLAIN_WORDS else _TELLING
        bounded = f"<{word}>"
        runs = [_row(bounded[at : at + RUN]) for at in range(max(1, len(bounded) - RUN + 1))]
        own = self._signs[_row(word)].astype(np.float32)
        summed: Vectors = weight * own + self._signs[runs].sum(axis=0, dtype=np.float32)
        return summed


def _row(feature: str) -> int:
    """The row of signs of a word, a pair or a run."""
    return zlib.crc32(feature.encode("utf-8", "surrogatepass")) % ROWS


@lru_cache(maxsize=4)
def _signs(dim: int, seed: int) -> NDArray[np.int8]:
    """Rows of random signs, shared by all encoders of a kind.  (ROWS, dim) of -1 and 1

    Making them takes as long as encoding some hundred messages.
    """
    key = keys.child(seed & keys.MASK, dim)
    numbers = keys.children(key, ROWS * dim // 64).astype("<u8")
    bits = np.unpackbits(numbers.view(np.uint8), bitorder="little").reshape(ROWS, dim)
    signs = (2 * bits.astype(np.int8) - 1).astype(np.int8)
    signs.flags.writeable = False
    return signs
