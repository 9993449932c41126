"""Sentences with their products, features, sums and order numbers set aside.

    "the qnbax qmbax is 1186.55 dollars"  ─┐
    "the qncdx qmcdx is 2499.90 dollars"  ─┴─► "the qnaax qmaax is 9501.11 dollars"  read once

What they mean hangs on where such words stand and which of them are the same, not on which ones
they are: one reading serves all sentences that differ in nothing else. In the literature such
sentences are called delexicalised (Henderson et al., 2014, doi:10.1109/SLT.2014.7078572).

What a newcomer would get wrong: stand-ins are words of the same kind, so what is read is plain
speech. Three digits without cents are a kind of their own, as they may be read as pieces. Sums
below a hundred stay, as days and pieces look like them; where other large numbers stand beside
sums, which might be equal to one, nothing is set aside. No cue may hold what is set aside, and no
fact of this shop be a date or a text, which could hold stand-ins in other forms (tested).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from convgym.domains.sales.descriptions import MARK, feature_name
from convgym.domains.sales.plain_words import NAMED
from convgym.domains.sales.world import EVERY_NAME, FEATURES, FEATURES_EACH
from convgym.language.speech import Claim, Spoken
from convgym.language.understanding import Part

_SET_ASIDE = re.compile(
    r"[qs0-9](?<![^ ].)(?:(?<=q)(?:n[a-z]{2}x qm[a-z]{2}x|f[0-9][0-9]?)|(?<=s)[0-9]{5}"
    r"|(?<=[0-9])[0-9.]*(?: dollars)?)(?![^ ])"
)
_SUM = re.compile(r"[1-9][0-9]{2,6}(?:\.(?:[0-9][1-9]|[1-9]0))?")
"""A sum from a hundred on, as claims write it."""
_ENDS = "ABCDEFGHIJKLMNOP"
"""What stands behind a sentence: it is a question, leads to one, is joined, is made up; a bit each.
Sentences themselves have small letters only."""
_MOST = 40
"""Different words of one reply that are set aside; with more of them it is read as it is."""
_ORDER = 10001
_NAMES = {own.lower(): name for own, name in NAMED.items()}
_OWN_WORDS = tuple(_NAMES)
assert tuple(_NAMES.values()) == EVERY_NAME
_FEATURES = len(FEATURES) * FEATURES_EACH
assert min(len(EVERY_NAME), _FEATURES) > _MOST


def delexicalised(sentences: Iterable[Spoken]) -> tuple[str, dict[str, str]] | None:
    """The sentences in stand-ins, and by stand-in what a claim should hold in its place.

    None where they have to be read as they are.
    """
    words = " ".join([
        f"{' '.join(tokens)} {_ENDS[question + 2 * leads + 4 * joined + 8 * staged]}"
        for (tokens, question, leads, joined), staged in sentences
    ])
    aside = _Aside()
    words = _SET_ASIDE.sub(aside.stand_in, words)
    return (words, aside.values) if aside.is_sure else None


def sentences_of(words: str) -> list[Spoken]:
    """The sentences that `delexicalised` put into one text."""
    sentences: list[Spoken] = []
    tokens: list[str] = []
    for word in words.split():
        bits = _ENDS.find(word)
        if bits < 0:
            tokens.append(word)
            continue
        part = Part(tokens, bits & 1 > 0, bits & 2 > 0, bits & 4 > 0)
        sentences.append((part, bits & 8 > 0))
        tokens = []
    return sentences


def lexicalised(claims: tuple[Claim, ...], values: Mapping[str, str]) -> tuple[Claim, ...]:
    """Claims with what their stand-ins stand for."""
    if not values:
        return claims
    return tuple([
        _claim((act, slot, values.get(value) or _terms(value, values), values.get(of, of)))
        if value or of else claim
        for claim in claims
        for act, slot, value, of in (claim,)
    ])  # fmt: skip


_claim: Callable[[tuple[str, str, str, str]], Claim] = partial(tuple.__new__, Claim)


def _terms(value: str, values: Mapping[str, str]) -> str:
    """A list like "pieces 3; sum 9501.11", of which some words are stand-ins."""
    if " " not in value:
        return value
    terms = []
    for term in value.split("; "):
        kind, space, named = term.rpartition(" ")
        terms.append(values.get(term) or f"{kind}{space}{values.get(named, named)}")
    return "; ".join(terms)


class _Aside:
    """What has been set aside so far."""

    __slots__ = ("_large", "_stand_ins", "_strange", "_sums", "values")

    def __init__(self) -> None:
        self._stand_ins: dict[str, str] = {}
        self.values: dict[str, str] = {}
        """By stand-in, both as claims write them."""
        self._sums = self._large = self._strange = False

    @property
    def is_sure(self) -> bool:
        """Nothing that stays may be equal to what is set aside."""
        return not (self._strange or (self._sums and self._large))

    def stand_in(self, match: re.Match[str]) -> str:
        """What stands in for some words: for equal ones the same."""
        words = match[0]
        known = self._stand_ins.get(words)
        if known is None:
            known = self._stand_ins[words] = self._first(words)
        return known

    def _first(self, words: str) -> str:
        count = len(self._stand_ins)
        if count == _MOST:
            self._strange = True
        if count >= _MOST:
            return words
        if words[0] == "s":
            self.values[f"S{_ORDER + count}"] = words.upper()
            return f"s{_ORDER + count}"
        if words[0] != "q":
            return self._number(words, count)
        if words.startswith(MARK):
            return self._feature(words, count)
        name = _NAMES.get(words)
        if name is None:
            return words
        self.values[EVERY_NAME[count]] = name
        return _OWN_WORDS[count]

    def _feature(self, word: str, count: int) -> str:
        number = word[len(MARK) :]
        if len(number) > 1 and number[0] == "0":
            self._strange = True  # nobody writes so; it is equal to the one without
            return word
        if int(number) >= _FEATURES:
            return word
        self.values[feature_name(count)] = feature_name(int(number))
        return f"{MARK}{count}"

    def _number(self, words: str, count: int) -> str:
        number = words.removesuffix(" dollars")
        whole, _, rest = number.partition(".")
        if number is words or not _SUM.fullmatch(number):
            self._large = self._large or len(whole.lstrip("0")) > 2
            return words
        short = len(whole) == 3 and not rest
        stand_in = f"{901 + count}" if short else f"{9501 + count}.11"
        self._sums = True
        self.values[stand_in] = number
        return f"{stand_in} dollars"
