"""Texts as means of word vectors out of a table: learnt from a team's own logs, or GloVe's.

    text ─► words ─► rows of the table, each times a / (a + p(word)) ─► summed ─► length 1

    fit    texts ─► who stands within five words of whom ─► PPMI ─► its strongest directions

The weights are those of smooth inverse frequency (Arora et al., 2017, "A simple but
tough-to-beat baseline for sentence embeddings"): rare words say more. Differs from the paper: no
common direction is taken out (it brought nothing, tried on chats of customers), and a is larger.
What a newcomer would get wrong: a word that is not in the table says nothing, so a table is good
for the kind of talk it was learnt from; a text without a known word is 0.
"""

from __future__ import annotations

import os
import zipfile
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.errors import InvalidConfiguration, MissingExtra, told
from convgym.language.archive import DAMAGE, identity_of, read_archive, write_archive
from convgym.language.encoders import Vectors, check_list, words_in

_FORMAT = "convgym static vectors 1"
SMOOTHING = 1e-2
"""a. The paper has 1e-3; in chats of customers yes, thanks and hello tell what is meant: of 1,000
turns the nearest one has the same intent in 745 cases, with 1e-3 in 729."""
WINDOW = 5
"""Words to each side that count as company."""
LEAST, MOST = 2, 50_000
"""How often a word must come to be learnt, and how many words are, the most frequent first."""
_SPARE, _ROUNDS = 16, 4
"""Directions beyond those wanted, and rounds of subspace iteration (Halko et al., 2011)."""


class StaticEncoder:
    """A table of word vectors; a text is their weighted mean, of length 1."""

    def __init__(
        self, words: Sequence[str], vectors: NDArray[Any], frequencies: NDArray[Any]
    ) -> None:
        """The table: words, their vectors, and the share of running words that each one is.

        (n,), (n, dim), (n,). Raises InvalidConfiguration where lengths differ, a word comes twice,
        or a number is not finite; frequencies lie in [0, 1].
        """
        vectors = np.asarray(vectors, dtype=np.float32)
        frequencies = np.asarray(frequencies, dtype=np.float64)
        if vectors.ndim != 2 or not len(words) == len(vectors) == len(frequencies) > 0:
            raise InvalidConfiguration(
                f"a table of {len(words)} words came with vectors of shape {vectors.shape} and "
                f"{len(frequencies)} frequencies; it takes one of each for every word"
            )
        if not (np.isfinite(vectors).all() and ((frequencies >= 0) & (frequencies <= 1)).all()):
            raise InvalidConfiguration(
                "a table came with numbers that are not finite, or frequencies outside [0, 1]"
            )
        self._places = {word: place for place, word in enumerate(words)}
        if len(self._places) != len(words):
            raise InvalidConfiguration("a table came with a word twice; it takes each word once")
        self._vectors, self._frequencies = vectors, frequencies
        weights = SMOOTHING / (SMOOTHING + frequencies)
        self._weighted = (vectors * weights[:, None]).astype(np.float32)
        identity = identity_of({"words": list(words)}, {"weighted": self._weighted})
        self._name = f"static-{self.dim}-{identity[:16]}"

    @property
    def name(self) -> str:
        """`static-128-1f0c…`: dimensions, and a hash of words and weighted vectors."""
        return self._name

    @property
    def dim(self) -> int:
        """Numbers of a vector."""
        return self._vectors.shape[1]

    def __len__(self) -> int:
        """Words of the table."""
        return len(self._places)

    def encode(self, texts: Sequence[str]) -> Vectors:
        """A vector for each text, whatever stands beside it.  (n,) → (n, dim) float32"""
        check_list(texts)
        found = np.zeros((len(texts), self.dim), dtype=np.float32)
        place_of = self._places.get
        for row, text in zip(found, texts, strict=True):
            places = [place for word in words_in(text) if (place := place_of(word)) is not None]
            self._weighted[places].sum(axis=0, out=row)
        lengths = np.sqrt(np.square(found, dtype=np.float64).sum(axis=1, keepdims=True))
        return (found / np.where(lengths > 0, lengths, 1.0)).astype(np.float32)

    # -- learning a table --------------------------------------------------------------------------

    @classmethod
    def fit(cls, texts: Iterable[str], dim: int = 128, seed: int = 0) -> StaticEncoder:
        """Learn a table from texts: words in like company get like vectors.

        M_ab = max(0, log(n_ab Σn / (n_a n_b))), n_ab how often a and b stand within `WINDOW` words
        of each other; the vectors are its strongest eigenvectors times √|λ| (PPMI and SVD with
        exponent ½: Levy et al., 2015, "Improving distributional similarity"). Same texts, seed and
        machine, same bytes.

        Raises InvalidConfiguration where fewer than `dim` words come at least twice; MissingExtra
        without SciPy.
        """
        for name, number, least in (("dim", dim, 1), ("seed", seed, 0)):
            if not (isinstance(number, int) and number >= least):
                raise InvalidConfiguration(f"{name}={number!r}; it takes a whole number ≥ {least}")
        spoken = [words_in(text) for text in texts]
        counts = Counter(chain.from_iterable(spoken))
        ranked = sorted(counts, key=lambda word: (-counts[word], word))
        words = [word for word in ranked[:MOST] if counts[word] >= LEAST]
        if len(words) < dim:
            raise InvalidConfiguration(
                f"dim={dim} came with texts in which {len(words)} words come at least {LEAST} "
                "times; give more texts, or a smaller dim"
            )
        frequencies = np.array([counts[word] for word in words]) / counts.total()
        matrix = _information(_company(spoken, words))
        return cls(words, _strongest(matrix, dim, np.random.default_rng(seed)), frequencies)

    # -- files -------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the table; the file appears whole or stays as it was."""
        arrays = {"vectors": self._vectors, "frequencies": self._frequencies}
        write_archive(path, {"format": _FORMAT, "words": list(self._places)}, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> StaticEncoder:
        """The table of a file that `save` wrote, or of text as GloVe and word2vec write it.

        Text has no frequencies but an order, the most frequent word first: p(word) is taken as
        1 / (rank · ln n), by Zipf's law. Words that no text of ours has ("don't", "new-york") and
        second spellings in capitals are left out. Raises InvalidConfiguration for other files.
        """
        try:
            if zipfile.is_zipfile(path):
                about, arrays = read_archive(path, _FORMAT)
                return cls(about["words"], arrays["vectors"], arrays["frequencies"])
            return cls(*_read_text(path))
        except InvalidConfiguration:
            raise
        except OSError as error:
            raise InvalidConfiguration(f"{path} cannot be read: {error.strerror}") from error
        except DAMAGE as error:
            raise InvalidConfiguration(
                f"{path} is no table of word vectors: {told(error)}"
            ) from error


def _read_text(
    path: str | os.PathLike[str],
) -> tuple[list[str], NDArray[Any], NDArray[Any]]:
    found: dict[str, NDArray[np.float32]] = {}
    ranks, dim, number = [], 0, 0
    with open(path, encoding="utf-8", newline="\n") as file:
        for number, line in enumerate(file, 1):
            if number == 1 and len(line.split()) == 2:
                continue  # word2vec's head: how many words, how many numbers
            dim = dim or len(line.split()) - 1
            # From the right: some words have spaces in them.
            word, *numbers = line.rstrip().rsplit(" ", dim)
            word = word.lower()
            if word in found or words_in(word) != [word]:
                continue
            if len(numbers) != dim:
                raise ValueError(f"line {number} has {len(numbers)} numbers, others have {dim}")
            found[word] = np.array(numbers, dtype=np.float32)
            ranks.append(number)
    frequencies = 1 / (np.array(ranks) * max(1.0, np.log(max(number, 1))))
    return list(found), np.array(list(found.values())), frequencies


def _company(spoken: Sequence[list[str]], words: Sequence[str]) -> Any:
    """How often two words stand near each other, in both orders; a sparse matrix.  (n, n)"""
    try:
        from scipy import sparse
    except ImportError as error:
        raise MissingExtra("scipy", "calibration") from error
    place_of = {word: place for place, word in enumerate(words)}
    known = [[place_of[word] for word in text if word in place_of] for text in spoken]
    places = np.fromiter(chain.from_iterable(known), dtype=np.int64)
    text_of = np.repeat(np.arange(len(known)), [len(text) for text in known])
    counts = sparse.csr_array((len(words), len(words)))
    for apart in range(1, WINDOW + 1):
        together = text_of[apart:] == text_of[:-apart]
        one, other = places[:-apart][together], places[apart:][together]
        ones = np.ones(len(one))
        counts += sparse.coo_array((ones, (one, other)), shape=counts.shape).tocsr()
    return (counts + counts.T).tocoo()


def _information(counts: Any) -> Any:
    """Positive pointwise mutual information of counts; sparse, symmetric.  (n, n)"""
    of_word = counts.sum(axis=1)
    information = np.log(counts.data * of_word.sum() / (of_word[counts.row] * of_word[counts.col]))
    counts.data = np.maximum(information, 0.0)
    return counts.tocsr()


def _strongest(matrix: Any, dim: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Eigenvectors of the greatest |λ| of a symmetric matrix, times √|λ|.  (n, n) → (n, dim)

    By subspace iteration from random directions (Halko et al., 2011, arXiv:0909.4061, §4.5).
    """
    size = min(dim + _SPARE, matrix.shape[0])
    basis = rng.standard_normal((matrix.shape[0], size))
    for _ in range(_ROUNDS):
        basis, _ = np.linalg.qr(matrix @ basis)
    values, turned = np.linalg.eigh(basis.T @ (matrix @ basis))
    strongest = np.argsort(-np.abs(values), kind="stable")[:dim]
    return (basis @ turned[:, strongest]) * np.sqrt(np.abs(values[strongest]))
