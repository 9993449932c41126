"""Conversation logs: one JSON object a line, read as a stream, no line lost in silence.

    file ─► blocks of bytes ─► lines ─► JSON ─► Conversation ─► whoever iterates
             │ damaged tail     │ too long │ broken  │ wrong field
             └──────────────────┴─ LogFault(line, reason, excerpt) ─► LogReport

Of every line read, either its conversation comes out or it is counted as skipped, so that
`report.loaded + report.skipped == report.lines` at any moment. A blank line is a line
(skipped: "empty line"); the newline that ends the file begins none. The missing tail of a
damaged `.gz` or `.zst` counts as one line, for nobody can say how many it held.

Memory: one line, plus about 80 bytes for each conversation_id, which finds the duplicates.
Knows nothing of environments or rewards' meaning.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any

from convgym.conversation import Conversation
from convgym.data.records import from_record, to_record
from convgym.errors import DatasetError, InvalidLog, MissingExtra

BLOCK = 1 << 16
EXCERPT = 80
MAGIC = {".gz": b"\x1f\x8b", ".zst": b"\x28\xb5\x2f\xfd"}
KIND = {".gz": "gzip", ".zst": "zstandard"}


@dataclass(frozen=True, slots=True)
class LogFault:
    """One line that became no conversation."""

    line: int
    """Counted from 1."""
    reason: str
    excerpt: str
    """The line's first characters, on one line."""

    def __str__(self) -> str:
        return f"line {self.line}: {self.reason}"


@dataclass(slots=True)
class LogReport:
    """What one pass over a log read so far; `loaded + skipped == lines`, always."""

    path: str
    lines: int = 0
    loaded: int = 0
    skipped: int = 0
    faults: list[LogFault] = field(default_factory=list)
    """The first `max_faults` of the skipped lines, in file order."""

    def __str__(self) -> str:
        counts = f"{self.lines:,} lines, {self.loaded:,} loaded, {self.skipped:,} skipped"
        shown = [f"  {fault}" for fault in self.faults[:10]]
        if self.skipped > len(shown):
            shown.append(f"  … and {self.skipped - len(shown):,} more")
        return "\n".join([f"{self.path}: {counts}", *shown])

    def to_dict(self) -> dict[str, Any]:
        """Counts and faults as plain JSON values."""
        faults = [{"line": f.line, "reason": f.reason, "excerpt": f.excerpt} for f in self.faults]
        return {
            "path": self.path,
            "lines": self.lines,
            "loaded": self.loaded,
            "skipped": self.skipped,
            "faults": faults,
        }


class LogReader:
    """Iterates the conversations of one log; `report` tells of the latest pass.

    Each `iter()` starts again at the first line with a new report.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        strict: bool = False,
        progress: Callable[[LogReport], None] | None = None,
        max_faults: int = 10_000,
        max_line_bytes: int = 1 << 24,
    ) -> None:
        self.path = Path(path)
        self.strict = strict
        self.progress = progress
        self.max_faults = max_faults
        self.max_line_bytes = max_line_bytes
        self.report = LogReport(str(path))
        _check_readable(self.path)

    def __iter__(self) -> Iterator[Conversation]:
        self.report = report = LogReport(str(self.path))
        seen: set[int] = set()
        for line, damage in _lines(_blocks(self.path), self.max_line_bytes):
            report.lines += 1
            try:
                if damage:
                    raise InvalidLog(damage)
                conversation = _parse(line, report.lines)
                _check_new(conversation.conversation_id, seen)
            except InvalidLog as fault:
                self._skip(report, str(fault), line)
                conversation = None
            else:
                report.loaded += 1
            if self.progress is not None and report.lines % 1000 == 0:
                self.progress(report)
            if conversation is not None:
                yield conversation
        if report.lines == 0:
            raise DatasetError(f"{self.path} is empty; a log holds one JSON object a line.")
        if self.progress is not None:
            self.progress(report)

    def _skip(self, report: LogReport, reason: str, line: bytes) -> None:
        report.skipped += 1
        fault = LogFault(report.lines, reason, _excerpt(line))
        if len(report.faults) < self.max_faults:
            report.faults.append(fault)
        if self.strict:
            raise InvalidLog(f"{report.path}, {fault}. Mend the line, or read with strict=False.")


def read_log(
    path: str | os.PathLike[str],
    strict: bool = False,
    progress: Callable[[LogReport], None] | None = None,
    *,
    max_faults: int = 10_000,
    max_line_bytes: int = 1 << 24,
) -> LogReader:
    """A reader of `.jsonl`, `.jsonl.gz` or `.jsonl.zst`; iterate it for `Conversation`s.

    strict: raise `InvalidLog` on the first bad line instead of skipping it.
    progress: called with the report every 1,000 lines and at the end.
    max_faults: so many bad lines are named one by one; the others are still counted.
    max_line_bytes: a longer line is skipped without being held in memory (16 MiB).
    """
    return LogReader(
        path,
        strict=strict,
        progress=progress,
        max_faults=max_faults,
        max_line_bytes=max_line_bytes,
    )


def write_log(path: str | os.PathLike[str], conversations: Iterable[Conversation]) -> int:
    """Writes conversations as `.jsonl` and returns how many; the file appears whole or not."""
    count, temporary = 0, Path(f"{os.fspath(path)}.{os.getpid()}.part")
    try:
        with temporary.open("w", encoding="utf-8", newline="\n") as file:
            for conversation in conversations:
                file.write(json.dumps(to_record(conversation), ensure_ascii=False) + "\n")
                count += 1
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return count


def _parse(line: bytes, number: int) -> Conversation:
    if number == 1:
        line = line.removeprefix(b"\xef\xbb\xbf")  # some editors begin a file with this mark
    if not line.strip():
        raise InvalidLog("empty line")
    try:
        text = line.decode("utf-8")
        record = json.loads(text)
        if "\\ud" in text or "\\uD" in text:
            json.dumps(record, ensure_ascii=False).encode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidLog(f"invalid UTF-8 at byte {error.start + 1}") from None
    except UnicodeEncodeError:
        raise InvalidLog("a text holds half of a surrogate pair (\\ud800 to \\udfff)") from None
    except json.JSONDecodeError as error:
        raise InvalidLog(f"broken JSON at character {error.pos + 1}: {error.msg}") from None
    except RecursionError:
        raise InvalidLog("the JSON is nested too deeply") from None
    except ValueError:  # Python refuses integers of more than 4,300 digits
        raise InvalidLog("broken JSON: a number has too many digits") from None
    return from_record(record)


def _check_new(identity: str, seen: set[int]) -> None:
    key = int.from_bytes(blake2b(identity.encode("utf-8"), digest_size=8).digest(), "big")
    if key in seen:
        raise InvalidLog(f"duplicate conversation_id {identity[:60]!r}; the first one is kept")
    seen.add(key)


def _excerpt(line: bytes) -> str:
    return " ".join(line[: 4 * EXCERPT].decode("utf-8", "replace").split())[:EXCERPT]


# ---- from the file to lines -------------------------------------------------------------


class _Damaged(Exception):
    """The compressed data cannot be read on; all that came before has been handed out."""


def _check_readable(path: Path) -> None:
    """Fails now, in one sentence, for what no pass over the file could mend."""
    if path.is_dir():
        raise DatasetError(f"{path} is a folder; name one .jsonl, .jsonl.gz or .jsonl.zst file.")
    if not path.exists():
        raise DatasetError(f"there is no file {path}; check the path.")
    try:
        with path.open("rb") as file:
            head = file.read(4)
    except OSError as error:
        raise DatasetError(f"{path} cannot be opened: {error.strerror}.") from error
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


def _zstandard() -> Any:
    try:
        import zstandard
    except ImportError:
        raise MissingExtra("zstandard", "zst") from None
    return zstandard


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        if path.suffix == ".gz":
            yield from _inflate(file, lambda: zlib.decompressobj(31), zlib.error, "gzip")
        elif path.suffix == ".zst":
            zstandard = _zstandard()
            begin = zstandard.ZstdDecompressor().decompressobj
            yield from _inflate(file, begin, zstandard.ZstdError, "zstandard")
        else:
            yield from iter(lambda: file.read(BLOCK), b"")


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
        raise _Damaged(f"the {kind} data is damaged here and what follows is lost") from None
    if not member.eof:
        raise _Damaged(f"the {kind} data ends too early here and what followed is lost")


def _lines(blocks: Iterator[bytes], limit: int) -> Iterator[tuple[bytes, str]]:
    """(line, ""), or (its beginning, why it cannot be used), for each line of the file."""
    begun, size = b"", 0  # of the line not ended yet: its bytes up to `limit`, its full size

    def line(piece: bytes) -> tuple[bytes, str]:
        if size > limit:
            return (begun + piece)[:BLOCK], f"the line is longer than {limit:,} bytes"
        return begun + piece, ""

    try:
        for block in blocks:
            *ended, rest = block.split(b"\n")
            for piece in ended:
                size += len(piece)
                yield line(piece)
                begun, size = b"", 0
            size += len(rest)
            if size <= limit or not begun:
                begun += rest
    except _Damaged as damage:
        yield begun, str(damage)
        return
    if size:
        yield line(b"")
