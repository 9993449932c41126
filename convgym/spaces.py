"""The one alphabet of all text in ConvGym, and the space of utterances.

    any str ─► clip ─► thin out combining marks ─► NFKC ─► map or drop ─► clip ─► text in CHARSET

The first clip and the thinning come before NFKC on purpose: NFKC takes quadratic time on long runs
of combining marks. The last clip is needed because NFKC can lengthen a text (`…` becomes `...`).

What is written here can move a score, so `CHARSET_VERSION` rises with every change.
Knows nothing of acts, users or environments.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Iterable
from typing import Any

import numpy as np
from gymnasium.spaces import Space, Text

from convgym.errors import InvalidAction, InvalidConfiguration

CHARSET_VERSION = 1
"""Raised whenever `CHARSET` or `sanitize` changes."""

_ASCII = string.digits + string.ascii_letters + string.punctuation + " \n\t"
_LATIN_LETTERS = "ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÐÑÒÓÔÕÖØÙÚÛÜÝÞàáâãäåæçèéêëìíîïðñòóôõöøùúûüýþßÿŒœŠšŸŽžƒ"
_TYPOGRAPHY = "‘’‚“”„‹›«»–—…•·†‡‰¡¿§¶©®°±×÷¬¦¤€£¥¢"

CHARSET = "".join(sorted(_ASCII + _LATIN_LETTERS + _TYPOGRAPHY))
"""Every character a text may hold, in code point order: those of Windows-1252 that people write."""

MAX_COMBINING_RUN = 8
"""Combining marks kept in a row; no living script needs more."""

# Starters by their class, yet NFKC turns them into combining marks, which pile up all the same.
_MARKS_IN_DISGUISE = frozenset("\u0f73\u0f75\u0f81\uff9e\uff9f")
_LONG_RUN = re.compile(rf"[\u0300-\U0010ffff]{{{MAX_COMBINING_RUN + 1},}}")


def _plain_forms() -> dict[int, str | None]:
    """Code point → what is written in its place; None drops it."""
    table: dict[int, str | None] = dict.fromkeys((*range(32), 127))
    for first, last in ((0x100, 0x24F), (0x1E00, 0x1EFF)):  # ą → a, ễ → e
        for code in range(first, last + 1):
            base = unicodedata.normalize("NFD", chr(code))[0]
            if base.isascii():
                table[code] = base
    # Letters without a decomposition, and look-alikes of punctuation.
    table.update(zip(map(ord, "ĐđĦħıŁłŊŋŦŧẞ"), "DdHhiLlNnTtß", strict=True))
    table.update(zip(map(ord, "‐‒―−⁃⁄∕∙‛‟′ʹʻʼ"), "-–—--//·‘“''‘’", strict=True))
    table[ord("μ")] = "u"  # what NFKC makes of the micro sign
    table.update(dict.fromkeys(map(ord, "\r\v\f\x85\u2028\u2029"), "\n"))
    table[ord("\u1680")] = " "  # the one space that NFKC leaves alone
    table.update({ord(char): char for char in CHARSET})
    return table


_PLAIN_FORMS = _plain_forms()
_UNKNOWN = re.compile(f"[^{re.escape(''.join(map(chr, _PLAIN_FORMS)))}]+")


def sanitize(text: str, max_length: int) -> str:
    """`text` in `CHARSET` and at most `max_length` characters long; no str makes it raise.

    Clips, drops combining marks beyond eight in a row, applies NFKC, maps other characters to their
    plain forms or drops them, clips again. Doing it twice changes nothing more.
    """
    if not isinstance(text, str):
        raise InvalidAction(
            f"a message must be a str, but {type(text).__name__} came; pass the text itself."
        )
    if max_length < 0:
        raise InvalidConfiguration(f"max_length is {max_length}; it must be 0 or more.")
    text = text[:max_length]
    if text.isascii():  # NFKC leaves ASCII as it is
        return text if text.isprintable() else _in_charset(text)
    text = _LONG_RUN.sub(_thin_out, text)
    text = unicodedata.normalize("NFKC", text)
    return _in_charset(_UNKNOWN.sub("", text))[:max_length]


def _in_charset(text: str) -> str:
    return text.replace("\r\n", "\n").translate(_PLAIN_FORMS)


def _thin_out(run: re.Match[str]) -> str:
    """`run` with at most `MAX_COMBINING_RUN` combining marks in a row."""
    text = run[0]
    marks = {c for c in set(text) if unicodedata.combining(c) or c in _MARKS_IN_DISGUISE}
    if not marks:
        return text
    kept: list[str] = []
    in_a_row = 0
    for char in text:
        in_a_row = in_a_row + 1 if char in marks else 0
        if in_a_row <= MAX_COMBINING_RUN:
            kept.append(char)
    return "".join(kept)


def holds(space: Space[Any], value: Any) -> bool:
    """Whether a value is in a space; a whole number that C has none for is in none.

    gymnasium 1.0 raises OverflowError for such a number.
    """
    try:
        return bool(space.contains(value))
    except OverflowError:
        return False


class UtteranceSpace(Text):
    """A `Text` space whose samples are utterances somebody might send, not random characters.

    It holds, compares and stores exactly as `Text(max_length, min_length=0, charset=CHARSET)` does;
    only `sample()` differs, so a random policy says something.

    Args:
        max_length: longest text, in characters.
        utterances: what `sample()` draws from, each equally likely.
        charset: characters a text may hold; `CHARSET` unless told.
        seed: seed of the samples.
    """

    def __init__(
        self,
        max_length: int,
        utterances: Iterable[str],
        *,
        charset: frozenset[str] | str = CHARSET,
        seed: int | np.random.Generator | None = None,
    ) -> None:
        super().__init__(max_length, min_length=0, charset=charset, seed=seed)
        self.utterances = tuple(utterances)
        if not self.utterances:
            raise InvalidConfiguration("utterances is empty; give at least one, for instance ''.")
        for utterance in self.utterances:
            if not self.contains(utterance):
                raise InvalidConfiguration(
                    f"the utterance {utterance!r} is not in this space of at most {max_length} "
                    f"characters; pass it through sanitize() first."
                )

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """One of the utterances.

        Gymnasium's `mask` and `probability` weigh single characters. Nothing here is drawn by the
        character, so both are refused rather than silently ignored.
        """
        if mask is not None or probability is not None:
            raise InvalidConfiguration(
                "an UtteranceSpace draws whole utterances and takes no mask or probability; "
                "for random characters use gymnasium.spaces.Text."
            )
        return self.utterances[int(self.np_random.integers(len(self.utterances)))]
