"""The records of a file that may hold one JSON array instead of one record a line.

    {"id": 1, …}           [{"id": 1, …},
    {"id": 2, …}            {"id": 2, …}]

An array is read value by value; a fault names the number of its record, counted from 1. Where
the JSON itself is broken nobody can say where the next record begins: what follows counts as
one record, as the tail of a damaged `.gz` does.

Memory: one record and a block. Knows nothing of conversations.
"""

from __future__ import annotations

import codecs
import json
import re
from pathlib import Path

from convgym.data.logs import (
    EXCERPT,
    HALVED,
    Records,
    holds_half_a_character,
    line_records,
    why_broken,
)
from convgym.data.packed_files import Damaged, read_blocks
from convgym.errors import InvalidLog

BLANKS = re.compile(r"[ \t\n\r]*")
DECODER = json.JSONDecoder()
HALF = re.compile("[\ud800-\udfff]")
LOST = "what follows is lost"
MARK = b"\xef\xbb\xbf"


def json_records(path: Path, limit: int) -> Records:
    """The records of a file of lines or of one array; a record of over `limit` bytes is a fault."""
    begun = b""
    try:
        for block in read_blocks(path):
            begun += block
            if begun.removeprefix(MARK).strip():
                break
    except Damaged:
        pass  # whoever reads it finds the damage again, and tells it
    if begun.removeprefix(MARK).lstrip().startswith(b"["):
        return array_records(path, limit)
    return line_records(path, limit)


def array_records(path: Path, limit: int) -> Records:
    """The values of the one JSON array in a file."""
    text = _Text(path)
    try:
        text.take("[")
        if text.peek() == "]":
            text.take("]")
        else:
            yield text.value(limit)
            while text.take(",]") == ",":
                yield text.value(limit)
        text.end()
    except InvalidLog as fault:
        yield text.rest(), fault


class _Text:
    """A file's text from the place that is being read."""

    def __init__(self, path: Path) -> None:
        # An invalid byte becomes half a character, which is found in the record that holds it.
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("surrogateescape")
        self._blocks = read_blocks(path)
        self._text, self._place = "", 0
        self._ended, self._damage = False, ""

    def peek(self) -> str:
        """The next character that is no blank; "" at the end."""
        while True:
            rest = BLANKS.match(self._text, self._place)
            self._place = rest.end() if rest else self._place
            if self._place < len(self._text) or self._ended:
                return self._text[self._place : self._place + 1]
            self._grow()

    def take(self, allowed: str) -> str:
        """Goes on behind the next character, which must be one of `allowed`."""
        found = self.peek()
        if not found:
            raise InvalidLog(self._damage or f"the array has no end; {LOST}")
        if found not in allowed:
            raise InvalidLog(f"broken JSON: {found!r} instead of {' or '.join(allowed)}; {LOST}")
        self._place += 1
        return found

    def value(self, limit: int) -> tuple[object, object]:
        """The beginning of the next value's text, and the value or why it cannot be used."""
        self.peek()
        while True:
            try:
                value, end = DECODER.raw_decode(self._text, self._place)
            except (ValueError, RecursionError) as error:
                if self._ended or len(self._text) - self._place > limit:
                    why = self._damage or f"{why_broken(error, self._place)}; {LOST}"
                    raise InvalidLog(why) from None
            else:
                if end < len(self._text) or self._ended:  # else a number might go on
                    break
            self._grow()
        text = self._text[self._place : end]
        self._place, shown = end, _shown(text)
        if not text.isascii() and HALF.search(text):
            return shown, InvalidLog("a text holds invalid UTF-8")
        if holds_half_a_character(text, value):
            return shown, InvalidLog(HALVED)
        return shown, value

    def end(self) -> None:
        """Raises InvalidLog where the file goes on, or was cut off."""
        if self.peek():
            raise InvalidLog("more text follows the end of the array")
        if self._damage:
            raise InvalidLog(self._damage)

    def rest(self) -> bytes:
        """What an excerpt may show of what cannot be read."""
        return _shown(self._text[self._place :])

    def _grow(self) -> None:
        """Reads on until twice as much is there, so that a long value is not read too often."""
        self._text, self._place = self._text[self._place :], 0
        wanted = 2 * len(self._text) + 1
        while len(self._text) < wanted and not self._ended:
            try:
                block = next(self._blocks, None)
            except Damaged as damage:
                block, self._damage = None, str(damage)
            self._ended = block is None
            self._text += self._decoder.decode(block or b"", final=self._ended)


def _shown(text: str) -> bytes:
    return text[:EXCERPT].encode("utf-8", "replace")
