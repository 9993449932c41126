"""Conversation logs: one JSON object a line, read as a stream, no line lost in silence.

    file ─► blocks of bytes ─► lines ─► JSON ─► Conversation ─► whoever iterates
             │ damaged tail     │ too long │ broken  │ wrong field
             └──────────────────┴─ LogFault(line, reason, excerpt) ─► LogReport

Records that are no lines, as in a JSON array or a table, come in through `records`, and are
counted as lines are: the number of a fault is then the number of its record.

Of every line read, either its conversation comes out or it is counted as skipped, so that
`report.loaded + report.skipped == report.lines` at any moment. A blank line is a line
(skipped: "empty line"); the newline that ends the file begins none. The missing tail of a
damaged `.gz` or `.zst` counts as one line, for nobody can say how many it held.

A conversation without an id of its own is named after its content; if the same content comes
again, "-2", "-3" … is added.

Memory: one line, plus about 100 bytes for each conversation_id, which finds the duplicates.
Knows nothing of environments or rewards' meaning.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

from convgym.conversation import Conversation
from convgym.data.packed_files import BLOCK, Damaged, check_readable, read_blocks, whole_file
from convgym.data.records import content_id, from_record, to_record
from convgym.errors import DatasetError, InvalidLog

EXCERPT = 80
HALVED = "a text holds half of a surrogate pair (\\ud800 to \\udfff)"

Records = Iterator[tuple[object, object]]
"""Of each record (what an excerpt may show of it, its JSON value or why there is none)."""


@dataclass(frozen=True, slots=True)
class LogFault:
    """One line that became no conversation."""

    line: int
    """Counted from 1; of an array or a table the number of the record."""
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
        records: Callable[[], Records] | None = None,
        convert: Callable[[object], Conversation] = from_record,
    ) -> None:
        """`records` begins a pass over records that are not the file's lines; `convert` makes a
        record a conversation, whose id is empty where the record names none, or raises InvalidLog.
        """
        self.path = Path(path)
        self.strict = strict
        self.progress = progress
        self.max_faults = max_faults
        self.report = LogReport(str(path))
        self._records = records or (lambda: line_records(self.path, max_line_bytes))
        self._convert = convert
        if records is None:
            check_readable(self.path)

    def __iter__(self) -> Iterator[Conversation]:
        return self.read({})

    def read(self, met: dict[int, int], *, go_on: bool = False) -> Iterator[Conversation]:
        """One pass; `met` remembers the ids, so several logs read with one share no id.

        go_on: the records follow those of the pass before, and are counted on; there may be none.
        """
        if not go_on:
            self.report = LogReport(str(self.path))
        report = self.report
        for shown, record in self._records():
            report.lines += 1
            try:
                if isinstance(record, InvalidLog):
                    raise record
                conversation = _identified(self._convert(record), met)
            except InvalidLog as fault:
                self.skip(str(fault), shown)
                conversation = None
            else:
                report.loaded += 1
            if self.progress is not None and report.lines % 1000 == 0:
                self.progress(report)
            if conversation is not None:
                yield conversation
        if report.lines == 0 and not go_on:
            raise DatasetError(f"{self.path} is empty; a log holds one JSON object a line.")
        if self.progress is not None:
            self.progress(report)

    def skip(self, reason: str, shown: object) -> None:
        """Count a record that is no conversation; raises InvalidLog where that is strict."""
        report = self.report
        report.skipped += 1
        fault = LogFault(report.lines, reason, _excerpt(shown))
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
    """Writes `.jsonl`, `.jsonl.gz` or `.jsonl.zst`, whole or not at all; returns how many."""
    count = 0
    with whole_file(path) as file:
        for conversation in conversations:
            line = json.dumps(to_record(conversation), ensure_ascii=False) + "\n"
            file.write(line.encode("utf-8"))
            count += 1
    return count


def line_records(path: Path, limit: int) -> Records:
    """The lines of a file as JSON values; one longer than `limit` bytes is not held in memory."""
    for number, (line, damage) in enumerate(_lines(read_blocks(path), limit), 1):
        yield line, InvalidLog(damage) if damage else line_record(line, number)


def line_record(line: bytes, number: int) -> object:
    """A line, without its newline, as a JSON value, or the InvalidLog that says why it is none."""
    try:
        return _parsed(line, number)
    except InvalidLog as fault:
        return fault


def holds_half_a_character(text: str, value: object) -> bool:
    """Whether the JSON `text` escapes half of a surrogate pair, so that `value` cannot be UTF-8."""
    if "\\ud" in text or "\\uD" in text:
        try:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError:
            return True
    return False


def why_broken(error: ValueError | RecursionError, start: int = 0) -> str:
    """The reason for what the JSON decoder raised; the record begins at character `start`."""
    if isinstance(error, json.JSONDecodeError):
        return f"broken JSON at character {error.pos + 1 - start}: {error.msg}"
    if isinstance(error, RecursionError):
        return "the JSON is nested too deeply"
    return "broken JSON: a number has too many digits"  # Python refuses more than 4,300


def _parsed(line: bytes, number: int) -> object:
    if number == 1:
        line = line.removeprefix(b"\xef\xbb\xbf")  # some editors begin a file with this mark
    if not line.strip():
        raise InvalidLog("empty line")
    try:
        text = line.decode("utf-8")
        record = json.loads(text)
        halved = holds_half_a_character(text, record)
    except UnicodeDecodeError as error:
        raise InvalidLog(f"invalid UTF-8 at byte {error.start + 1}") from None
    except (ValueError, RecursionError) as error:
        raise InvalidLog(why_broken(error)) from None
    if halved:
        raise InvalidLog(HALVED)
    return record


def _identified(conversation: Conversation, met: dict[int, int]) -> Conversation:
    """The conversation if its id is new, under a new id if it has none; else raises InvalidLog."""
    given = conversation.conversation_id
    identity = given or content_id(conversation)
    key = int.from_bytes(blake2b(identity.encode("utf-8"), digest_size=8).digest(), "big")
    times = met.get(key, 0)
    if times and given:
        raise InvalidLog(f"duplicate conversation_id {identity[:60]!r}; the first one is kept")
    met[key] = times + 1
    if given:
        return conversation
    return replace(conversation, conversation_id=f"{identity}-{times + 1}" if times else identity)


def _excerpt(shown: object) -> str:
    line = shown if isinstance(shown, bytes) else repr(shown).encode("utf-8", "replace")
    return " ".join(line[: 4 * EXCERPT].decode("utf-8", "replace").split())[:EXCERPT]


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
    except Damaged as damage:
        yield begun, str(damage)
        return
    if size:
        yield line(b"")
