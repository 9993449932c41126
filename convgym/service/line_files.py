"""Files of lines that only grow: one file, or a folder of them with a new one a day and when full.

    talk.jsonl      appended to for ever
    logs/           2026-11-23-0001.jsonl, 2026-11-23-0002.jsonl, …; the days are UTC's

A file never changes its name, so that who reads it while it grows loses nothing. A line is written
with one call; what a killed writer, or a full disk, has left of a line is cut off before the next
one is written, and told to the service's log. One service writes a file. Knows nothing of what the
lines say.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from threading import Lock

from convgym.errors import InvalidConfiguration
from convgym.service.json_log import JsonLog

MODE = 0o600
"""What people said is for the owner of the service alone."""
_TAIL = 1 << 16


class LineFiles:
    """Appends lines; may be used from any thread, and a full disk raises nothing."""

    def __init__(
        self,
        path: Path,
        most_bytes: int,
        log: JsonLog,
        suffix: str = ".jsonl",
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`path`: a folder, or a file; what is not there and has no suffix is made a folder.
        `most_bytes`: of a file in a folder. `suffix`: of the files in it.

        Raises InvalidConfiguration where nothing can be written.
        """
        self._path, self._most, self._log = path, most_bytes, log
        self._suffix, self._clock, self._lock = suffix, clock, Lock()
        self._name: Path | None = None
        self._file: int | None = None
        try:
            if not path.suffix and not path.exists():
                path.mkdir(mode=0o700)
            self._open(self._newest() if path.is_dir() else path)
        except OSError as error:
            raise InvalidConfiguration(
                f"conversations cannot be logged to {path}: {error.strerror}"
            ) from None

    @property
    def name(self) -> Path | None:
        """The file that is written now."""
        return self._name

    def write(self, line: bytes) -> bool:
        """A line with its newline; whether it is there now, whole."""
        with self._lock:
            if self._file is None:
                return False
            try:
                self._rotate(len(line))
                return self._append(line)
            except OSError as error:
                self._log("line_lost", error=type(error).__name__)
                return False

    def close(self) -> None:
        """No more lines."""
        with self._lock:
            if self._file is not None:
                os.close(self._file)
                self._file = None

    def _append(self, line: bytes) -> bool:
        assert self._file is not None
        before = os.fstat(self._file).st_size
        written = 0
        try:
            while written < len(line):
                written += os.write(self._file, line[written:])
        except OSError:
            os.ftruncate(self._file, before)
            raise
        return True

    def _rotate(self, coming: int) -> None:
        if not self._path.is_dir() or self._file is None:
            return
        assert self._name is not None
        size = os.fstat(self._file).st_size
        if self._name.name.startswith(self._day()) and (not size or size + coming <= self._most):
            return
        name = self._newest()
        if name == self._name:
            name = self._numbered(self._number(name) + 1)
        os.close(self._file)
        self._file = None
        self._open(name)

    def _open(self, name: Path) -> None:
        file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_APPEND, MODE)
        self._mend(file)
        self._file, self._name = file, name

    def _mend(self, file: int) -> None:
        """Finish a last line that lacks its newline alone, and cut off half a line."""
        size = os.fstat(file).st_size
        tail, start = b"", size
        while start and b"\n" not in tail:
            step = min(_TAIL, start)
            start -= step
            tail = os.pread(file, step, start) + tail
        rest = tail[tail.rfind(b"\n") + 1 :]
        if not rest:
            return
        try:
            whole = isinstance(json.loads(rest), dict)
        except (ValueError, RecursionError):
            whole = False
        if whole:
            os.write(file, b"\n")
        else:
            os.ftruncate(file, size - len(rest))
            self._log("half_a_line_cut_off", bytes=len(rest))

    def _day(self) -> str:
        return time.strftime("%Y-%m-%d", time.gmtime(self._clock()))

    def _newest(self) -> Path:
        """The newest file of today, there or not."""
        form = re.compile(rf"{self._day()}-(\d{{4,}}){re.escape(self._suffix)}")
        found = [int(m[1]) for m in map(form.fullmatch, os.listdir(self._path)) if m]
        return self._numbered(max(found, default=1))

    def _number(self, name: Path) -> int:
        return int(name.name.removesuffix(self._suffix).rpartition("-")[2])

    def _numbered(self, number: int) -> Path:
        return self._path / f"{self._day()}-{number:04d}{self._suffix}"
