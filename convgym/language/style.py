"""How somebody writes: formality, verbosity, misspellings, and how varied the wording is.

A style stands beside the persona: by default it is the persona's own, and a setting of its own
(`style=`) replaces it, so that who somebody is and how they write can be varied apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from numbers import Real
from typing import Any

from convgym.engine.keys import below, draw
from convgym.errors import InvalidConfiguration

_FIELDS = ("formality", "verbosity", "typo_rate", "diversity")


@dataclass(frozen=True, slots=True)
class Style:
    """A way of writing, in whole hundredths; raises InvalidConfiguration for anything else."""

    formality: int = 50
    verbosity: int = 50
    typo_rate: int = 0
    diversity: int = 100
    """How many of the fitting wordings are used: at 0 an act is always worded alike."""

    def __post_init__(self) -> None:
        for name in _FIELDS:
            value = getattr(self, name)
            if type(value) is not int or not 0 <= value <= 100:
                raise InvalidConfiguration(
                    f"the style's {name} is {value!r}; Style takes whole hundredths from 0 to 100"
                )

    def register(self, drawn: int) -> int:
        """0 casual, 1 neutral, 2 formal: formality, blurred by a 32-bit draw."""
        return min(max((2 * self.formality + below(drawn, 100)) // 100, 0), 2)


BUILT_IN: dict[str, Style] = {
    "plain": Style(50, 40, 0),
    "terse": Style(20, 0, 0),
    "chatty": Style(30, 100, 5),
    "formal": Style(100, 70, 0),
    "casual": Style(0, 40, 20),
    "sloppy": Style(0, 20, 100),
}


def style_of(given: Style | str | Mapping[str, Any]) -> Style:
    """A style from itself, from a name, or from a mapping of numbers in [0, 1].

    Raises InvalidConfiguration for anything else.
    """
    if isinstance(given, Style):
        return given
    if isinstance(given, str) and given in BUILT_IN:
        return BUILT_IN[given]
    if not isinstance(given, Mapping):
        raise InvalidConfiguration(
            f"style={given!r} is neither one of {', '.join(BUILT_IN)} nor a mapping of "
            f"{', '.join(_FIELDS)}"
        )
    for name, value in given.items():
        number = isinstance(value, Real) and not isinstance(value, bool)
        if name not in _FIELDS or not (number and 0.0 <= value <= 1.0):
            raise InvalidConfiguration(
                f"style has {name!r}: {value!r}; it takes numbers from 0 to 1 for "
                f"{', '.join(_FIELDS)}"
            )
    return Style(**{name: round(value * 100) for name, value in given.items()})


# -- misspellings ----------------------------------------------------------------------------------

_NEAR = {
    a: b  # neighbours on the keyboard
    for pair in "as sd df fg gh jk kl er rt tu io op vb nm cv".split()
    for a, b in ((pair[0], pair[1]), (pair[1], pair[0]))
}
ODDS = 8
"""At a typo rate of 1, one word in this many is misspelt."""
WORDS = 1000
"""Number of the first of the draws of a turn's words, after those of its wording."""


def misspelt(text: str, rate: int, key: int, stream: int, turn: int, place: int) -> str:
    """`text` with some of its words misspelt; placeholders, numbers and short words stay.

    `rate` in hundredths. Each word has its own draw: letters swapped, lost, doubled or struck
    beside, an apostrophe forgotten.
    """
    if not rate:
        return text
    limit = rate * 2**32 // (100 * ODDS)
    slipped = [
        index
        for index in open_to_slips(text)
        if draw(key, stream, turn, WORDS + 64 * place + index) < limit
    ]
    return with_slips(text, slipped, key, stream, turn, place)


def with_slips(
    text: str, slipped: Sequence[int], key: int, stream: int, turn: int, place: int
) -> str:
    """`text` with the words at these places misspelt, each by a draw of its own."""
    if not slipped:
        return text
    words = text.split(" ")
    for index in slipped:
        core = _core(words[index])
        slip = _slip(core, draw(key, stream, turn, WORDS * 9 + 64 * place + index))
        words[index] = slip + words[index][len(core) :]
    return " ".join(words)


@lru_cache(maxsize=4096)
def open_to_slips(text: str) -> tuple[int, ...]:
    """Places of the words of a text that may be misspelt."""
    words = enumerate(text.split(" "))
    return tuple(place for place, word in words if "{" not in word and _core(word))


def _core(word: str) -> str:
    """A word without its punctuation; empty where it is none, or too short to be misspelt."""
    core = word.rstrip(".,!?;:")
    return core if core.replace("'", "").isalpha() and len(core) > 3 else ""


def _slip(word: str, drawn: int) -> str:
    kind, at = drawn & 3, 1 + below(drawn, len(word) - 2)
    if "'" in word:
        return word.replace("'", "")
    if kind == 0 and word[at] != word[at - 1] and at + 1 < len(word):
        return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    if kind == 1:
        return word[:at] + word[at + 1 :]
    if kind == 2:
        return word[:at] + word[at] + word[at:]
    return word[:at] + _NEAR.get(word[at], word[at] * 2) + word[at + 1 :]
