"""Logs of a service that still grow: read what is new, and join what conversations came to.

    talk.jsonl   talk.outcomes.jsonl          a file, and beside it what was reported later
    logs/        2026-11-23-0001.jsonl, …     a folder, in order of name; and …-0001.outcomes.jsonl

    read() ─► the conversations of the lines that were finished since the last read()

A line without its newline is not there yet. A bad line is counted and named in `reports`, as
everywhere; a file that has become shorter is another file, and read from its beginning. An outcome
goes to whatever its client called so, and replaces what was known. Within one read, conversations
come in the order of `logged_at`; those that have none keep their place behind the one before.
Knows nothing of what is made of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from convgym.conversation import Conversation
from convgym.data.logs import LogReader, LogReport, Records, line_record
from convgym.data.packed_files import BLOCK, MAGIC, check_readable
from convgym.errors import DatasetError, InvalidLog
from convgym.rewards.outcome import is_number

OUTCOMES = ".outcomes.jsonl"
_LAST = 253_402_300_799.0
"""Unix seconds; the last of the year 9999, behind which no calendar goes."""
SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst")
_LONGEST = 1 << 24
"""Bytes of a line."""


def conversation_files(path: Path) -> list[Path]:
    """The files of conversations in a folder, in order of name, or the one file.

    Raises DatasetError where there is neither.
    """
    if path.is_dir():
        found = (one for one in path.iterdir() if one.name.endswith(SUFFIXES) and one.is_file())
        return sorted(one for one in found if not one.name.endswith(OUTCOMES))
    if not path.exists():
        raise DatasetError(f"there is no file and no folder {path}; check the path.")
    return [path]


def outcomes_beside(path: Path) -> Path:
    """Where the outcomes of a file of conversations stand."""
    name = path.name
    for suffix in SUFFIXES:
        name = name.removesuffix(suffix)
    return path.with_name(name + OUTCOMES)


def logged_at(conversation: Conversation) -> float | None:
    """When it was logged, in Unix seconds; None where nobody says, or no such time can be."""
    when = conversation.metadata.get("logged_at")
    known = is_number(when) and 0 <= when <= _LAST  # type: ignore[operator]
    return float(when) if known else None  # type: ignore[arg-type]


def _says(name: str, value: Any) -> bool:
    """Whether a part of an outcome is what it is called."""
    if name == "reward":
        return is_number(value)
    return name != "success" or isinstance(value, bool)


class GrowingLog:
    """A file or folder of conversations, read again and again."""

    def __init__(self, path: str | Path) -> None:
        """Raises DatasetError where there is nothing to read."""
        self.path = Path(path)
        self._files: dict[Path, _Growing] = {}
        self._outcomes: dict[Path, _Growing] = {}
        self._met: dict[int, int] = {}
        self.outcomes: dict[tuple[str, str], dict[str, Any]] = {}
        """What was reported apart, by (key, what the client calls the conversation)."""
        conversation_files(self.path)

    @property
    def reports(self) -> tuple[LogReport, ...]:
        """Of each file what was read so far, and which lines are none."""
        every = {**self._files, **self._outcomes}
        return tuple(every[path].reader.report for path in sorted(every))

    @property
    def skipped(self) -> int:
        """Bad lines so far."""
        return sum(report.skipped for report in self.reports)

    def read(self) -> list[Conversation]:
        """What is new; outcomes that have come meanwhile are joined, also by `joined` later."""
        files = conversation_files(self.path)
        found: list[tuple[float, int, Conversation]] = []
        latest = -math.inf
        for path in files:
            if path not in self._files:
                self._files[path] = _Growing(path)
            for conversation in self._files[path].read(self._met):
                when = logged_at(conversation)
                latest = latest if when is None else when
                found.append((latest, len(found), conversation))
        beside = {outcomes_beside(path) for path in files}
        if self.path.is_dir():
            beside |= {one for one in self.path.iterdir() if one.name.endswith(OUTCOMES)}
        for path in sorted(one for one in beside if one.is_file()):
            self._read_outcomes(path)
        return [self.joined(one) for _, _, one in sorted(found, key=lambda one: one[:2])]

    def joined(self, conversation: Conversation) -> Conversation:
        """The conversation with what was reported of it since it was logged."""
        about = conversation.metadata
        name = (str(about.get("key", "")), str(about.get("conversation", "")))
        outcome = self.outcomes.get(name)
        if outcome is None or not name[1]:
            return conversation
        known = about.get("outcome")
        told = known if isinstance(known, Mapping) else {}
        both = {**{name: one for name, one in told.items() if _says(name, one)}, **outcome}
        reward = float(both["reward"] if "reward" in both else both["success"])
        return replace(conversation, reward=reward, metadata={**about, "outcome": both})

    def _read_outcomes(self, path: Path) -> None:
        growing = self._outcomes.get(path)
        if growing is None:
            growing = self._outcomes[path] = _Growing(path)
        growing.read_outcomes(self.outcomes)


class _Growing:
    """One file, and how far it was read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._packed = path.suffix in MAGIC
        self._at = self._number = 0
        self.reader = LogReader(path, records=self._new)

    def read(self, met: dict[int, int]) -> Iterator[Conversation]:
        """The conversations of new lines."""
        if self._packed:  # it is finished, and was read whole or is read whole now
            if not self._at:
                check_readable(self.path)
                self._at = 1
                self.reader = LogReader(self.path)
                yield from self.reader.read(met)
            return
        yield from self.reader.read(met, go_on=True)

    def read_outcomes(self, outcomes: dict[tuple[str, str], dict[str, Any]]) -> None:
        """Note new outcomes; a line that is none is counted as a bad one."""
        report = self.reader.report
        for shown, record in self._new():
            report.lines += 1
            try:
                name, outcome = _outcome(record)
            except InvalidLog as fault:
                self.reader.skip(str(fault), shown)
            else:
                report.loaded += 1
                outcomes[name] = {**outcomes.get(name, {}), **outcome}

    def _new(self) -> Records:
        if self.path.stat().st_size < self._at:
            self._at = self._number = 0
        with self.path.open("rb") as file:
            file.seek(self._at)
            while True:
                line = file.readline(_LONGEST + 1)
                size = len(line)
                if size > _LONGEST and not line.endswith(b"\n"):
                    while not line.endswith(b"\n"):  # its rest is not held in memory
                        line = file.readline(BLOCK)
                        if not line:
                            return
                        size += len(line)
                    self._at, self._number = self._at + size, self._number + 1
                    yield b"", InvalidLog(f"the line is longer than {_LONGEST:,} bytes")
                    continue
                if not line.endswith(b"\n"):
                    return  # it is not finished, or there is none
                self._at, self._number = self._at + size, self._number + 1
                yield line[:-1], line_record(line[:-1], self._number)


def _outcome(record: object) -> tuple[tuple[str, str], dict[str, Any]]:
    """(key, name) and what was reported; raises InvalidLog for anything else."""
    if isinstance(record, InvalidLog):
        raise record
    if not isinstance(record, dict):
        raise InvalidLog("an outcome is a JSON object")
    name, key = record.get("conversation"), record.get("key", "")
    if not isinstance(name, str) or not name or not isinstance(key, str):
        raise InvalidLog("the outcome names no conversation")
    found: dict[str, Any] = {}
    reward, success = record.get("reward"), record.get("success")
    if reward is not None and is_number(reward):
        found["reward"] = float(reward)
    if isinstance(success, bool):
        found["success"] = success
    if not found:
        raise InvalidLog("the outcome has neither a reward nor a success")
    return (key, name), found
