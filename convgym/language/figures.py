"""Days of the year, percentages, sums of money and numbers, brought to one shape.

14 March: March 14th · Mar. 14, 2025 · the 14th of March · 2025-03-14 · 25/3 (but not 4/3)
15:       15% · 15 percent · fifteen per cent
1049.50:  $1,049.50 · 1049.50 dollars · 1.049,50 € · EUR 1049.5
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

MONTHS = (  # not strftime: %B follows the machine's locale
    "January February March April May June July August September October November December"
).split()
_MONTH = {month.lower(): month for month in MONTHS}
_MONTH.update({month.lower()[:3]: month for month in MONTHS})
_MONTH["sept"] = "September"
_MONTHS_CALLED = frozenset(_MONTH)
_ISO = re.compile(r"\b\d{4}-(\d\d)-(\d\d)\b")
_SLASHED = re.compile(r"\b(\d{1,2})/(\d{1,2})(?:/(?:\d{4}|\d\d))?\b(?!/)")
_DOTTED = re.compile(r"\b(\d{1,2})\.(\d{1,2})\.\d{4}\b")
_SHORT = re.compile(
    r"\.(?= ?\d|$| )(?:(?<=\b(?:jan|feb|mar|apr|jun|jul|aug|sep|oct|nov|dec)\.)|(?<=\bsept\.))",
    re.I,
)
"""The full stop of a short month; it comes first, as what is quickly looked for."""
_MAYBE_ISO, _MAYBE_DOTTED = re.compile(r"-\d\d-\d"), re.compile(r"\.\d\d?\.\d")
"""What a quick look finds in any of the dates above."""


def written_out(text: str) -> str:
    """`text` with its dates in digits put into words, where only one reading is possible."""
    if "/" in text:
        text = _SLASHED.sub(_from_two, text)
    if _MAYBE_ISO.search(text):
        text = _ISO.sub(lambda m: _named(int(m[2]), int(m[1])) or m[0], text)
    if "." in text:
        if _MAYBE_DOTTED.search(text):
            text = _DOTTED.sub(lambda m: _named(int(m[1]), int(m[2])) or m[0], text)
        text = _SHORT.sub("", text)
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
    found: list[tuple[int, str]] = []
    if _MONTHS_CALLED.isdisjoint(tokens):
        return found
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
_PER = frozenset(("%", "percent", "pct", "per"))
_NUMBER = {word: number for number, word in enumerate(_SMALL)}
_NUMBER.update(zip("twenty thirty forty fifty sixty".split(), range(20, 70, 10), strict=True))


def percentages(tokens: Sequence[str]) -> list[tuple[int, int]]:
    """(place, percent) of each whole percentage."""
    found: list[tuple[int, int]] = []
    if _PER.isdisjoint(tokens):
        return found
    for place in [at for at, token in enumerate(tokens) if token in _PER]:
        per = tokens[place] != "per" or tokens[place + 1 : place + 2] == ["cent"]
        if place and per:
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


# -- money and plain numbers -----------------------------------------------------------------------

_CURRENCIES = frozenset("dollars dollar usd euros euro eur pounds pound gbp bucks quid".split())
_CENTS = frozenset("cent cents pence".split())
_SIGNED = re.compile(r"(?:[$€£]|\b(?:usd|eur|gbp)) ?(\d[\d.,]*\d|\d)(?![\d%])", re.I)
_SIGN_LAST = re.compile(r"(?<![\w.,])(\d[\d.,]*\d|\d) ?[$€£]")
_GROUPED = re.compile(r"(?<![\w.,])\d{1,3}(?:,\d{3})+(?![\d,])")
_DOLLARS = re.compile(r"\$ ?(\d[\d.,]*\d|\d)(?![\d%])")
"""As `_SIGNED`, for a text with no other sign and no code of a currency."""
_MAYBE_EURO, _MAYBE_GROUPED = re.compile(r",\d\d"), re.compile(r",\d{3}")
_DIGIT, _MAYBE_UNIT = re.compile("[0-9]"), re.compile("[0-9][A-Za-z]")
"""What a quick look finds in any of the figures above and below; the latter two in ASCII."""
_UNIT = re.compile(
    r"\b(\d+(?:\.\d+)?)(gb|tb|mb|[gmk]bps|mbits?|kg|km|cm|mm|ms|mah|wh|hrs?|mins?)\b", re.I
)
_EUROPEAN = re.compile(r"(\d{1,3}(?:\.\d{3})*|\d+),\d\d?")
_EURO_SUM = re.compile(
    r"(?<![\w.,])(\d+(?:\.\d{3})*,\d\d)(?= ?(?:€|eur|dollar|pound|usd|gbp))", re.I
)


class Figure(NamedTuple):
    """A value in the words `start` to `end`, the last one not included."""

    kind: str
    """money, percent, date, number."""
    value: str
    start: int
    end: int


def sums_written_out(text: str) -> str:
    """`text` with its sums as "1049.50 dollars", and units apart from their numbers."""
    plain = text.isascii()
    if plain and not _DIGIT.search(text):
        return text
    if _MAYBE_EURO.search(text):
        text = _EURO_SUM.sub(lambda m: _western(m[1]), text)
    signed = _SIGNED if not plain or _names_currency(text) else _DOLLARS if "$" in text else None
    if signed is not None:
        text = signed.sub(lambda m: f" {_western(m[1])} dollars ", text)
        if "$" in text or "€" in text or "£" in text:
            text = _SIGN_LAST.sub(lambda m: f" {_western(m[1])} dollars ", text)
    if _MAYBE_GROUPED.search(text):
        text = _GROUPED.sub(lambda m: m[0].replace(",", ""), text)
    if plain and not _MAYBE_UNIT.search(text):
        return text
    return _UNIT.sub(r"\1 \2", text)


def _names_currency(text: str) -> bool:
    """The code of a currency stands there."""
    lowered = text.lower()
    return "usd" in lowered or "eur" in lowered or "gbp" in lowered


def _western(number: str) -> str:
    """1.049,50 and 1,049.50 as 1049.50."""
    if "," not in number:
        return number
    if _EUROPEAN.fullmatch(number):
        return number.replace(".", "").replace(",", ".")
    return number.replace(",", "")


def figures(tokens: Sequence[str]) -> list[Figure]:
    """All figures, in order; no word belongs to two of them."""
    numbers = [
        at for at, token in enumerate(tokens) if ":" > token >= "0" or token in _NUMBER
    ]  # ":" is what follows on "9"
    if not numbers:
        return []
    found: list[Figure] = []
    for place, date in dates(tokens):
        found.append(_dated(tokens, place, date))
    for place, percent in percentages(tokens):
        start = place - (place > 0 and tokens[place - 1] in _NUMBER and tokens[place] in _NUMBER)
        end = place + (3 if tokens[place + 1] == "per" else 2)
        found.append(Figure("percent", str(percent), start, end))
    taken: set[int] = set()
    for figure in found:
        taken.update(range(figure.start, figure.end))
    end = 0
    for place in numbers:
        if place < end or place in taken:
            continue
        number = _number(tokens, place)
        if number is not None and taken.isdisjoint(range(place, number.end)):
            found.append(number)
            end = number.end
    if taken:
        found.sort(key=_START)
    return found


_START = attrgetter("start")


def _dated(tokens: Sequence[str], place: int, date: str) -> Figure:
    """The date whose month stands at `place`, with the words of its day."""
    day = date.split()[0]
    near = [
        at
        for at in (place - 2, place - 1, place + 1)
        if 0 <= at < len(tokens) and tokens[at].rstrip("stndrh").lstrip("0") == day
    ]
    return Figure("date", date, min(place, *near), max(place, *near) + 1)


def _number(tokens: Sequence[str], place: int) -> Figure | None:
    """A sum or a plain number that begins at `place`."""
    token, end = tokens[place], place + 1
    if token in _NUMBER:
        value = str(_NUMBER[token])
        small = _NUMBER.get(tokens[end], 0) if end < len(tokens) else 0
        if _NUMBER[token] >= 20 and 0 < small < 10:
            value, end = str(_NUMBER[token] + _NUMBER[tokens[end]]), end + 1
    else:
        whole, dot, rest = token.partition(".")
        if not whole.isdecimal() or (dot and not rest.isdecimal()) or len(token) > 12:
            return None
        rest = rest.rstrip("0")
        value = (whole.lstrip("0") or "0") + (f".{rest}" if rest else "")
    unit = tokens[end] if end < len(tokens) else ""
    if unit in _CURRENCIES:
        return Figure("money", as_sum(value), place, end + 1)
    if unit in _CENTS and value.isdecimal() and int(value) < 100:
        return Figure("money", as_sum(f"0.{int(value):02}"), place, end + 1)
    return Figure("number", value, place, end) if token != "one" else None


def as_sum(value: str) -> str:
    """25.5 as 25.50, 25.00 as 25; a sum has two places or none."""
    whole, _, rest = value.partition(".")
    rest = rest.rstrip("0")
    return f"{whole}.{rest:<02}" if rest else whole
