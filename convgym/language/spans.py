"""Where declared phrases stand in a list of words, from their first word to their last.

    "unplug .. cable"   unplug the grey power cable      a gap of up to four words, no comma in it
                        └────────────────────────┘
    "late fee"          the late fee                     of two phrases at one place the longer wins
                            └──────┘

Unlike a `Lexicon`, which tells where concepts begin, this tells where they end as well, so that
a value can be looked for right behind its name. It shares the notation: `can/may i -/please`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from convgym.language.understanding import Lexicon

GAP = 4
"""Words that ` .. ` stands for, at most."""
_GAP_MARK = " .. "
_END, _PART = "", " "
"""Keys of a trie node for the tags of phrases and for the parts of gapped ones that end there."""


class Tag(NamedTuple):
    """What a phrase stands for."""

    kind: str
    """ask, check, instruct, do, doing, done, noun, because, alone, offer, name, value, term, …"""
    name: str
    """The slot, step, write, reason, offer or fact."""
    value: str = ""
    """Of a fact's value: which one."""


class Hit(NamedTuple):
    """A phrase that was found in the words `start` to `end`, the last one not included."""

    tag: Tag
    start: int
    end: int

    @property
    def name(self) -> str:
        return self.tag.name

    @property
    def value(self) -> str:
        return self.tag.value


class Spans:
    """Declared phrases, compiled."""

    def __init__(self, entries: Iterable[tuple[Tag, str]]) -> None:
        self._trie: dict[str, Any] = {}
        self._gapped: list[tuple[Tag, int]] = []
        """Of each phrase with gaps its tag and the number of its last part."""
        for tag, pattern in entries:
            parts = [part.strip() for part in f" {pattern} ".split(_GAP_MARK)]
            if len(parts) == 1:
                self._add(parts[0], _END, tag)
                continue
            number = len(self._gapped)
            self._gapped.append((tag, len(parts) - 1))
            for place, part in enumerate(parts):
                self._add(part, _PART, (number, place))

    def _add(self, pattern: str, key: str, what: Any) -> None:
        for phrase in spelled_out(pattern):
            node = self._trie
            for word in phrase.split():
                node = node.setdefault(word, {})
            if key == _END:
                found = node.setdefault(_END, {}).setdefault(what.kind, [])
            else:
                found = node.setdefault(_PART, [])
            if what not in found:
                found.append(what)

    def find(self, tokens: Sequence[str]) -> dict[str, list[Hit]]:
        """The hits of each kind, in order; one inside a longer one of its kind is not found."""
        trie, count = self._trie, len(tokens)
        covered: dict[str, int] = {}
        hits: list[Hit] = []
        parts: list[tuple[int, int, int, int]] = []
        for start, token in enumerate(tokens):
            node, ahead = trie.get(token), start + 1
            if node is None:
                continue
            here: dict[str, list[Hit]] = {}
            while node is not None:
                if _END in node:
                    for kind, tags in node[_END].items():
                        if ahead > covered.get(kind, 0):
                            here[kind] = [Hit(tag, start, ahead) for tag in tags]
                            covered[kind] = ahead
                if _PART in node:
                    parts.extend((number, place, start, ahead) for number, place in node[_PART])
                node = node.get(tokens[ahead]) if ahead < count else None
                ahead += 1
            for longest in here.values():
                hits.extend(longest)
        if not hits and not parts:
            return {}
        if parts:
            hits.extend(self._joined(parts, tokens))
            hits.sort(key=lambda hit: (hit.start, -hit.end))
        found: dict[str, list[Hit]] = {}
        for hit in hits:
            found.setdefault(hit.tag.kind, []).append(hit)
        return found

    def _joined(
        self, parts: list[tuple[int, int, int, int]], tokens: Sequence[str]
    ) -> list[Hit]:
        """Phrases with gaps, of whose parts each follows the one before."""
        found = []
        open_: dict[tuple[int, int], tuple[int, int]] = {}
        # (phrase, part) -> where the phrase began and where this part ended, the latest one
        for number, place, start, end in parts:
            begin = start
            if place:
                before = open_.get((number, place - 1))
                if before is None or not 0 <= start - before[1] <= GAP:
                    continue
                if "," in tokens[before[1] : start]:
                    continue
                begin = before[0]
            tag, last = self._gapped[number]
            if place == last:
                found.append(Hit(tag, begin, end))
            else:
                open_[number, place] = (begin, end)
        return list(dict.fromkeys(found))


def spelled_out(pattern: str) -> list[str]:
    """Every phrase that a pattern without gaps stands for, in order."""
    return list(Lexicon({"": [pattern]}).phrases())

