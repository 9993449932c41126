"""Files of records, packed or not: read as blocks of bytes, written whole or not at all.

    log.jsonl        as it is
    log.jsonl.gz     gzip, one member after another
    log.jsonl.zst    zstandard (extra `zst`), one frame after another

Memory: a block or two, whatever the file's size. Knows nothing of what the bytes say.
"""

from __future__ import annotations

import errno
import gzip
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, cast

from convgym.errors import DatasetError, MissingExtra

BLOCK = 1 << 16
MAGIC = {".gz": b"\x1f\x8b", ".zst": b"\x28\xb5\x2f\xfd"}
KIND = {".gz": "gzip", ".zst": "zstandard"}


class Damaged(Exception):
    """The packed data cannot be read on; all that came before has been handed out."""


def check_readable(path: Path) -> None:
    """Fails now, in one sentence, for what no pass over the file could mend."""
    try:
        if path.is_dir():
            raise DatasetError(
                f"{path} is a folder; name one .jsonl, .jsonl.gz or .jsonl.zst file."
            )
        if not path.exists():
            raise DatasetError(f"there is no file {path}; check the path.")
        with path.open("rb") as file:
            head = file.read(4)
    except OSError as error:  # `is_dir` too raises it, as for a name that is too long
        raise DatasetError(f"{str(path)[:300]} cannot be opened: {error.strerror}.") from error
    if not head:
        raise DatasetError(f"{path} is empty; a log holds one JSON object a line.")
    named, suffix = path.suffix in MAGIC, path.suffix
    if named and not head.startswith(MAGIC[suffix]):
        raise DatasetError(f"{path} is named {suffix} but holds no {KIND[suffix]} data; rename it.")
    for other, magic in MAGIC.items():
        if not named and head.startswith(magic):
            raise DatasetError(f"{path} holds {KIND[other]} data; name it {path.name}{other}.")
    if suffix == ".zst":
        _zstandard()


def read_blocks(path: Path) -> Iterator[bytes]:
    """The file's bytes, unpacked; raises `Damaged` where packed data cannot be read on."""
    with path.open("rb") as file:
        if path.suffix == ".gz":
            yield from _inflate(file, lambda: zlib.decompressobj(31), zlib.error, "gzip")
        elif path.suffix == ".zst":
            zstandard = _zstandard()
            begin = zstandard.ZstdDecompressor().decompressobj
            yield from _inflate(file, begin, zstandard.ZstdError, "zstandard")
        else:
            yield from iter(lambda: file.read(BLOCK), b"")


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A file to write into, packed by its suffix; it appears under `path` whole or not at all.

    The same bytes written make the same file: no time and no name is packed into it. What a link
    leads to is replaced, not the link. Raises OSError, of `path`, where nothing can be written,
    and where something else than a file stands there.
    """
    target = os.path.realpath(path)
    if os.path.lexists(target) and not os.path.isfile(target):
        raise FileExistsError(errno.EEXIST, "is there and is no file, so it stays", os.fspath(path))
    temporary = Path(f"{target}.{os.getpid()}.part")
    try:
        with temporary.open("wb") as raw, _packed(raw, Path(path).suffix) as packed:
            yield packed
        os.replace(temporary, target)
    except OSError as error:
        if error.filename in (None, str(temporary)):
            raise type(error)(error.errno, error.strerror, os.fspath(path)) from error
        raise
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _packed(raw: IO[bytes], suffix: str) -> IO[bytes]:
    if suffix == ".gz":
        return cast(IO[bytes], gzip.GzipFile("", "wb", compresslevel=6, fileobj=raw, mtime=0))
    if suffix == ".zst":
        return cast(IO[bytes], _zstandard().ZstdCompressor().stream_writer(raw, closefd=False))
    return raw


def _zstandard() -> Any:
    try:
        import zstandard
    except ImportError:
        raise MissingExtra("zstandard", "zst") from None
    return zstandard


def _inflate(
    file: IO[bytes], begin: Callable[[], Any], broken: type[Exception], kind: str
) -> Iterator[bytes]:
    """Unpacks member after member; of gzip never more than one block at a time."""
    limit = (BLOCK,) if kind == "gzip" else ()
    member = begin()
    try:
        for packed in iter(lambda: file.read(BLOCK >> 4), b""):
            while packed:
                if member.eof:
                    packed = packed.lstrip(b"\0")  # padding between members is allowed
                    if not packed:
                        break
                    member = begin()
                yield member.decompress(packed, *limit)
                packed = getattr(member, "unconsumed_tail", b"") or member.unused_data
        while not member.eof and (block := member.decompress(b"", *limit)):
            yield block
    except broken:
        raise Damaged(f"the {kind} data is damaged here and what follows is lost") from None
    if not member.eof:
        raise Damaged(f"the {kind} data ends too early here and what followed is lost")
