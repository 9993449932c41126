"""Idioms in plain words: patterns tried in order, few of them on any one text.

    ("my", r"\\bmy(?! own\\b)", "our")      tried only where the word "my" stands

Each rule names cues: one of them stands in everything that its pattern matches. The words of a
text are looked up once, so that a rule costs nothing where none of its cues is there. A cue that is
no plain word is looked for anywhere: ":" or "hey…". A text with other than ASCII letters, in which
`re` finds an "s" where none is written, has every rule tried.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

_APART = bytes(ord(chr(code).lower() if chr(code).isalnum() else " ") for code in range(128)) * 2


def words_in(text: str) -> list[str]:
    """The runs of letters and digits of an ASCII text, in small letters."""
    return text.encode("ascii").translate(_APART).decode("ascii").split()


class Rewriting:
    """Rules, compiled; call it with a text."""

    def __init__(self, rules: Iterable[tuple[str, str, str]]) -> None:
        """(cues, pattern, what stands for it), in order; small and capital letters alike."""
        self._rules: list[tuple[re.Pattern[str], str]] = []
        self._by_word: dict[str, int] = {}
        self._anywhere: dict[str, int] = {}
        for number, (cues, pattern, instead) in enumerate(rules):
            compiled = re.compile(pattern, re.IGNORECASE | re.MULTILINE)
            self._rules.append((compiled, instead))
            for cue in cues.split():
                table = self._by_word if cue.isalnum() else self._anywhere
                cue = cue.removesuffix("…")
                table[cue] = table.get(cue, 0) | 1 << number

    def __call__(self, text: str, words: Collection[str] | None = None) -> str:
        """`text` rewritten; `words`: its words, where they are known already."""
        waiting = self._waiting(text, words)
        while waiting:
            number = (waiting & -waiting).bit_length() - 1
            pattern, instead = self._rules[number]
            if pattern.search(text) is not None:
                text = pattern.sub(instead, text)
                waiting |= self._waiting(text)
            waiting = waiting >> number + 1 << number + 1
        return text

    def _waiting(self, text: str, words: Collection[str] | None = None) -> int:
        """The rules with a cue in the text, one bit each."""
        if not text.isascii():
            return (1 << len(self._rules)) - 1
        if words is None:
            words = words_in(text)
        waiting, by_word = 0, self._by_word
        for word in by_word.keys() & words:
            waiting |= by_word[word]
        if self._anywhere:
            lowered = text.lower()
            for cue, rules in self._anywhere.items():
                if cue in lowered:
                    waiting |= rules
        return waiting


def beginnings(pattern: str, size: int) -> set[str]:
    """The first `size` characters of whatever a simple regular expression matches.

    Simple: characters, `[…]`, `(?:…|…)`, `?`, `*` and `\\b`; nothing else is allowed.
    """
    begun, at = _any_of(pattern, 0, size)
    assert at == len(pattern), f"{pattern!r} is no simple pattern"
    return begun


def _any_of(pattern: str, at: int, size: int) -> tuple[set[str], int]:
    """Alternatives from `at` on, and where they end."""
    every: set[str] = set()
    begun = {""}
    while at < len(pattern) and pattern[at] != ")":
        if pattern[at] == "|":
            every, begun, at = every | begun, {""}, at + 1
            continue
        follows, at = _one(pattern, at, size)
        repeats = 1
        if pattern[at : at + 1] in ("?", "*"):
            follows, repeats, at = follows | {""}, size if pattern[at] == "*" else 1, at + 1
        for _ in range(repeats):
            begun = {(first + then)[:size] for first in begun for then in follows}
    return every | begun, at


def _one(pattern: str, at: int, size: int) -> tuple[set[str], int]:
    """A character, a class of them, or a group."""
    if pattern.startswith("(?:", at):
        begun, at = _any_of(pattern, at + 3, size)
        return begun, at + 1
    if pattern[at] == "[":
        end = pattern.index("]", at)
        assert "-" not in pattern[at + 2 : end - 1], f"{pattern!r} has a range"
        return set(pattern[at + 1 : end]), end + 1
    if pattern[at] == "\\":
        return ({""} if pattern[at + 1] == "b" else {pattern[at + 1]}), at + 2
    assert pattern[at] not in "({+.^$", f"{pattern!r} is no simple pattern"
    return {pattern[at]}, at + 1
