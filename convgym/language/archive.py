"""What was learnt, in one file: a page of JSON and arrays beside it, written whole or not at all.

    tagger.npz    about.json    format, names, …, and the identity of all that is in the file
                  weights.npy   …

`numpy.load` opens it too. The identity is a SHA-256 over the content, whatever packed it, so that
two files can be told apart, and a damaged one from a right one. Knows nothing of what it holds.
"""

from __future__ import annotations

import io
import json
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.errors import InvalidConfiguration, told

Arrays = Mapping[str, NDArray[Any]]
_ABOUT = "about.json"
DAMAGE = (
    OSError, zipfile.BadZipFile, zlib.error, struct.error, TokenError, RuntimeError, LookupError,
    TypeError, ValueError, AttributeError, EOFError, MemoryError, OverflowError,
)  # fmt: skip
"""What a damaged file makes zipfile, numpy and json raise, and those who read what they read."""
_ROOM, _MOST = 16 << 20, 200
"""Bytes that any archive may unpack to, and to how many more each byte of it."""


def identity_of(about: Mapping[str, Any], arrays: Arrays) -> str:
    """SHA-256 of the page and of the arrays with their names, types and shapes."""
    digest = sha256(json.dumps(about, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name}{array.dtype.str}{array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[zipfile.ZipFile]:
    """A ZIP archive to read; raises ValueError for one that unpacks to far more than it is."""
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        packed, whole = (
            sum(one.compress_size for one in members), sum(one.file_size for one in members)
        )  # fmt: skip
        if whole > _ROOM + _MOST * packed:
            raise ValueError(f"it would unpack {packed:,} bytes to {whole:,}")
        yield archive


def write_archive(path: str | os.PathLike[str], about: Mapping[str, Any], arrays: Arrays) -> None:
    """Write one file; the same content gives the same bytes."""
    page = {**about, "identity": identity_of(about, arrays)}
    members = {_ABOUT: json.dumps(page, indent=1).encode()}
    for name, array in arrays.items():
        raw = io.BytesIO()
        np.save(raw, array, allow_pickle=False)
        members[f"{name}.npy"] = raw.getvalue()
    temporary = Path(f"{os.fspath(path)}.{os.getpid()}.part")
    try:
        with zipfile.ZipFile(temporary, "w") as archive:
            for name, content in members.items():
                archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def read_archive(
    path: str | os.PathLike[str], form: str
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The page, and the arrays by name.

    Raises InvalidConfiguration where the file is not there, damaged, or of another format than
    `form`.
    """
    try:
        with opened(path) as archive:
            about = json.loads(archive.read(_ABOUT))
            arrays = {
                name.removesuffix(".npy"): np.load(io.BytesIO(archive.read(name)))
                for name in archive.namelist()
                if name != _ABOUT
            }
        came, promised = about["format"], about.pop("identity")
        if came != form:
            raise ValueError(f"it holds {came!r}")
        if identity_of(about, arrays) != promised:
            raise ValueError("its content is not what its identity says")
    except DAMAGE as error:
        raise InvalidConfiguration(f"{path} holds no {form!r}: {told(error)}") from error
    return about, arrays
