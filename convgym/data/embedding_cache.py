"""Vectors of texts in a file that several processes read and write at once.

    texts ─► digests ─► rows of the file ─► vectors
                └─► not there: the encoder ─► appended, one writer at a time

    hashed-256-0.vectors   head │ record │ record │ …     record: digest, checksum, vector

The file only grows, by whole records: a writer that is killed leaves at most an unfinished one at
the end, which the next writer cuts off and no reader counts. A record whose checksum is wrong is
as if it were not there. Vectors of other encoders lie in files of their own, by `Encoder.name`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from hashlib import blake2b
from itertools import islice
from pathlib import Path

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

from convgym.errors import DatasetError, InvalidConfiguration
from convgym.language.encoders import Encoder, Vectors, encoded

HEAD = 4096
"""Bytes before the first record: a line of JSON, then spaces."""
_FORMAT = "convgym vectors 1"
_DIGEST = 16
_AT_ONCE = 4096
"""Texts that are computed and appended together."""
_ODD = np.uint64(0x9E3779B97F4A7C15)


class EmbeddingCache:
    """An encoder that computes each text once, whoever asked for it first.

    Raises DatasetError where the file is another encoder's, or none of this format.
    """

    def __init__(self, folder: str | os.PathLike[str], encoder: Encoder) -> None:
        """Keep the vectors of `encoder` in `folder`, which is made if it is not there."""
        self._encoder = encoder
        self.path = Path(folder) / f"{encoder.name}.vectors"
        self._record = np.dtype(
            [("digest", f"V{_DIGEST}"), ("checksum", "<u8"), ("vector", "<f4", (encoder.dim,))]
        )
        self._places: dict[bytes, int] = {}
        """Of each text's digest the record in the file."""
        self._count = 0
        """Records that have been looked at."""
        self._records: NDArray[np.void] = np.empty(0, dtype=self._record)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._locked():
            self._open()
        self._look()

    @property
    def name(self) -> str:
        """The encoder's."""
        return self._encoder.name

    @property
    def dim(self) -> int:
        """Numbers of a vector."""
        return self._encoder.dim

    def __len__(self) -> int:
        """Texts whose vectors are known to be there."""
        return len(self._places)

    def encode(self, texts: Sequence[str]) -> Vectors:
        """What the encoder gives, from the file where it is there.  (n,) → (n, dim) float32"""
        if isinstance(texts, str):
            raise InvalidConfiguration("encode came with one text; it takes a list of texts")
        digests = [_digest(text) for text in texts]
        places = self._places
        if not all(map(places.__contains__, digests)):
            self._look()
            missing = {d: t for d, t in zip(digests, texts, strict=True) if d not in places}
            rest = iter(missing.items())
            while some := dict(islice(rest, _AT_ONCE)):
                self._add(some)
        found: Vectors = self._records["vector"][[places[digest] for digest in digests]]
        return found

    def _locked(self) -> FileLock:
        """Held by the one process that writes; made anew, for a forked process has to."""
        return FileLock(f"{self.path}.lock")

    # -- the file ----------------------------------------------------------------------------------

    def _open(self) -> None:
        """Begin the file where there is none; refuse one that is not ours."""
        head = {"format": _FORMAT, "encoder": self.name, "dim": self.dim}
        begun = json.dumps(head).encode().ljust(HEAD - 1) + b"\n"
        there = b""
        if self.path.exists():
            try:
                with self.path.open("rb") as file:
                    there = file.read(HEAD)
            except OSError as error:  # a folder, or not ours to read
                raise DatasetError(
                    f"{self.path} cannot be read as a cache: {error.strerror}; move it away"
                ) from error
        if len(there) < HEAD and begun.startswith(there):  # none, or one that was killed here
            self.path.write_bytes(begun)
        elif there != begun:
            raise DatasetError(
                f"{self.path} begins with {there[:80]!r}, which is not the cache of the encoder "
                f"{self.name!r} with {self.dim} numbers; take another folder, or move it away"
            )

    def _look(self) -> None:
        """Take up the records that have come to the file since the last time."""
        count = (self.path.stat().st_size - HEAD) // self._record.itemsize
        if count <= self._count:
            return
        self._records = np.memmap(
            self.path, dtype=self._record, mode="r", offset=HEAD, shape=(count,)
        )
        new = np.array(self._records[self._count :])
        right = new["checksum"] == _checksums(new)
        digests = new["digest"].tobytes()
        for place in np.flatnonzero(right).tolist():
            self._places.setdefault(
                digests[place * _DIGEST : (place + 1) * _DIGEST], self._count + place
            )
        self._count = count

    def _add(self, missing: dict[bytes, str]) -> None:
        """Compute vectors, and append those that nobody else has appended meanwhile."""
        vectors = encoded(self._encoder, list(missing.values()))
        records = np.zeros(len(missing), dtype=self._record)
        records["digest"] = np.frombuffer(b"".join(missing), dtype=f"V{_DIGEST}")
        records["vector"] = vectors
        records["checksum"] = _checksums(records)
        with self._locked():
            self._look()
            fresh = np.array([digest not in self._places for digest in missing])
            end = HEAD + self._count * self._record.itemsize
            with self.path.open("r+b") as file:
                if file.seek(0, os.SEEK_END) > end:
                    file.truncate(end)
                file.seek(end)
                file.write(records[fresh].tobytes())
        self._look()


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST).digest()


def _checksums(records: NDArray[np.void]) -> NDArray[np.uint64]:
    """Of digest and vector; a record of zeros has none that is 0.  (n,) → (n,)"""
    words = [
        np.ascontiguousarray(records[name]).view("<u4").reshape(len(records), -1)
        for name in ("digest", "vector")
    ]
    together = np.concatenate(words, axis=1).astype(np.uint64)
    weights = _ODD * np.arange(1, 2 * together.shape[1], 2, dtype=np.uint64)
    total: NDArray[np.uint64] = (together * weights).sum(axis=1, dtype=np.uint64)
    return total ^ _ODD
