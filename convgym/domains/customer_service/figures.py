"""Days of the year and percentages as people write them, brought to one shape.

14 March: March 14th · Mar. 14, 2025 · the 14th of March · 2025-03-14 · 25/3 (but not 4/3)
15:       15% · 15 percent · fifteen per cent
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from convgym.domains.customer_service.world import MONTHS

_MONTH = {month.lower(): month for month in MONTHS}
_MONTH.update({month.lower()[:3]: month for month in MONTHS})
_MONTH["sept"] = "September"
_ISO = re.compile(r"\b\d{4}-(\d\d)-(\d\d)\b")
_SLASHED = re.compile(r"\b(\d{1,2})/(\d{1,2})(?:/(?:\d{4}|\d\d))?\b(?!/)")
_DOTTED = re.compile(r"\b(\d{1,2})\.(\d{1,2})\.\d{4}\b")
_SHORT = re.compile(r"\b(jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)\.(?= ?\d|$| )", re.I)


def written_out(text: str) -> str:
    """`text` with its dates in digits put into words, where only one reading is possible."""
    if "/" in text:
        text = _SLASHED.sub(_from_two, text)
    if "-" in text:
        text = _ISO.sub(lambda m: _named(int(m[2]), int(m[1])) or m[0], text)
    if "." in text:
        text = _DOTTED.sub(lambda m: _named(int(m[1]), int(m[2])) or m[0], text)
        text = _SHORT.sub(r"\1", text)
    return text


def _from_two(match: re.Match[str]) -> str:
    """Day and month in either order; 4/3 could be either and stays as it is."""
    one, two = int(match[1]), int(match[2])
    read = {_named(one, two), _named(two, one)} - {""}
    return read.pop() if len(read) == 1 else match[0]


def _named(day: int, month: int) -> str:
    return f"{day} {MONTHS[month - 1]}" if 1 <= day <= 31 and 1 <= month <= 12 else ""


def dates(tokens: Sequence[str]) -> list[tuple[int, str]]:
    """(place, "14 March") of each date, whichever way round it is written."""
    found = []
    for place, token in enumerate(tokens):
        month = _MONTH.get(token)
        if month is None:
            continue
        for at in (place - 1, place + 1, place - 2):
            if at == place - 2 and tokens[place - 1] != "of":
                continue
            day = tokens[at].rstrip("stndrh") if 0 <= at < len(tokens) else ""
            if day.isdecimal() and len(day) <= 2 and 1 <= int(day) <= 31:
                found.append((place, f"{int(day)} {month}"))
                break
    return found


_SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen"
).split()
_NUMBER = {word: number for number, word in enumerate(_SMALL)}
_NUMBER.update(zip("twenty thirty forty fifty sixty".split(), range(20, 70, 10), strict=True))


def percentages(tokens: Sequence[str]) -> list[tuple[int, int]]:
    """(place, percent) of each whole percentage."""
    found = []
    for place, token in enumerate(tokens):
        per = token == "per" and tokens[place + 1 : place + 2] == ["cent"]
        if place and (token in ("%", "percent", "pct") or per):
            percent = _whole(tokens, place - 1)
            if percent >= 0:
                found.append((place - 1, percent))
    return found


def _whole(tokens: Sequence[str], place: int) -> int:
    """The number that ends at `place`, in digits or words; -1 where there is none."""
    token = tokens[place]
    if token.isdecimal() and len(token) <= 3:
        return int(token)
    number = _NUMBER.get(token, -1)
    if 0 < number < 10 and place and _NUMBER.get(tokens[place - 1], 0) >= 20:
        return _NUMBER[tokens[place - 1]] + number
    return number
