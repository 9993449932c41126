"""Days of the year as people write them, brought to one shape: "14 March".

    14 March · March 14th · Mar. 14, 2025 · the 14th of March · 2025-03-14 · 25/3 (not 4/3)
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
