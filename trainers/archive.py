"""Weights and states of learners in one file: JSON beside safetensors, never pickle.

    policy.zip    about.json             format, options, step, …
                  weights.safetensors    named arrays

The same content gives the same bytes; a file is written whole or not at all, and loading one runs
no code. The safetensors format is public and small enough to be read and written here, with numpy
alone. Knows nothing of what the arrays are.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.errors import InvalidConfiguration, told
from convgym.language.archive import DAMAGE, opened

Arrays = dict[str, NDArray[Any]]

_ABOUT, _WEIGHTS = "about.json", "weights.safetensors"
_TYPES = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "I32": "<i4", "U8": "|u1", "BOOL": "|b1"}
_NAMES = {np.dtype(code): name for name, code in _TYPES.items()}


def write_archive(path: str | os.PathLike[str], about: Mapping[str, Any], arrays: Arrays) -> None:
    """Write one file, over an older one if there is one."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        with zipfile.ZipFile(temporary, "w") as archive:
            for member, content in (
                (_ABOUT, json.dumps(about, indent=1).encode()),
                (_WEIGHTS, to_safetensors(arrays)),
            ):
                archive.writestr(zipfile.ZipInfo(member), content)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def new_folder(path: str | os.PathLike[str], replaced: tuple[str, ...] = ()) -> Iterator[Path]:
    """A folder to write into, which takes its place at the end, whole, or not at all.

    Of a folder that stands there already, what has other names than the new one's files stays,
    unless its name begins with one of `replaced`: what an older writer may have left there, and
    would be mixed up with the new.
    """
    target = Path(path)
    written = target.with_name(f"{target.name}.{os.getpid()}.part")
    former = target.with_name(f"{target.name}.{os.getpid()}.old")
    written.mkdir(parents=True)
    try:
        yield written
        if target.exists():
            os.replace(target, former)
        os.replace(written, target)
        for entry in former.iterdir() if former.exists() else ():
            if not entry.name.startswith(replaced) and not (target / entry.name).exists():
                os.replace(entry, target / entry.name)
    finally:
        if former.exists() and not target.exists():
            os.replace(former, target)
        shutil.rmtree(written, ignore_errors=True)
        shutil.rmtree(former, ignore_errors=True)


def read_archive(path: str | os.PathLike[str], format_: str) -> tuple[dict[str, Any], Arrays]:
    """What `write_archive` wrote with this `format`.

    Raises InvalidConfiguration for a file that is missing, damaged or of another format.
    """
    try:
        with opened(path) as archive:
            about = json.loads(archive.read(_ABOUT))
            arrays = from_safetensors(archive.read(_WEIGHTS))
        found = about["format"]
    except DAMAGE as error:
        raise InvalidConfiguration(
            f"{path} cannot be read as a {format_} ({told(error)}); take another file, or move "
            "this one away to begin anew"
        ) from error
    if found != format_:
        raise InvalidConfiguration(f"{path} is a {str(found)[:100]}; this takes a {format_}")
    return about, arrays


def to_safetensors(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Arrays in the safetensors format: length of the header, header as JSON, raw numbers."""
    header: dict[str, Any] = {}
    body = io.BytesIO()
    for name, array in arrays.items():
        array = np.asarray(array)
        code = array.dtype.newbyteorder("<")
        if code not in _NAMES:
            raise InvalidConfiguration(f"{name} is of type {array.dtype}; {', '.join(_TYPES)} go")
        begin = body.tell()
        body.write(np.ascontiguousarray(array, dtype=code).tobytes())
        header[name] = {
            "dtype": _NAMES[code],
            "shape": list(array.shape),
            "data_offsets": [begin, body.tell()],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + body.getvalue()


def from_safetensors(content: bytes) -> Arrays:
    """The arrays of a safetensors file; raises ValueError for types that are not read here."""
    start = 8 + int.from_bytes(content[:8], "little")
    arrays = {}
    for name, about in json.loads(content[8:start]).items():
        if name == "__metadata__":
            continue
        if about["dtype"] not in _TYPES:
            raise ValueError(f"{name} is of type {about['dtype']}; {', '.join(_TYPES)} go")
        begin, end = about["data_offsets"]
        flat = np.frombuffer(content[start + begin : start + end], dtype=_TYPES[about["dtype"]])
        arrays[name] = flat.reshape(about["shape"]).copy()
    return arrays
