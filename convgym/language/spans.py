"""Where declared phrases stand in a list of words, from their first word to their last.

    "unplug .. cable"   unplug the grey power cable      a gap of up to four words, no comma in it
                        └────────────────────────┘
    "late fee"          the late fee                     of two phrases at one place the longer wins
                            └──────┘

Unlike a `Lexicon`, which tells where concepts begin, this tells where they end as well, so that
a value can be looked for right behind its name. It shares the notation: `can/may i -/please`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import count
from typing import Any, NamedTuple

from convgym.language.understanding import CONCEPTS, MARKS, STOP, Lexicon, Node, share

GAP = 4
"""Words that ` .. ` stands for, at most."""
_GAP_MARK = " .. "
_END, _PART = "\n", "\t"
_ENDS = (MARKS, CONCEPTS, _END, _PART)
"""Keys of a node for the tags of phrases and for the parts of gapped ones that end there."""


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
        """The tag's name."""
        return self.tag.name

    @property
    def value(self) -> str:
        """The tag's value."""
        return self.tag.value


_hit: Callable[[tuple[Tag, int, int]], Hit] = partial(tuple.__new__, Hit)
"""A hit of (tag, start, end), made in half the time of `Hit(…)`: there are many."""


class _Found(NamedTuple):
    """What the words up to a node amount to."""

    marks: tuple[str, ...] = ()
    length: int = 0
    """Words of the longest phrase that has concepts."""
    concepts: tuple[str, ...] = ()
    tags: tuple[tuple[str, int, tuple[Tag, ...]], ...] = ()
    """(kind, length, tags) of the longest phrase of each kind."""
    parts: tuple[tuple[int, int, int], ...] = ()
    """(phrase, part, length) of the parts of phrases with gaps."""
    opens: int = 0
    """The phrases with gaps of which the first part is there, one bit each."""
    closes: int = 0
    """Those of which the last part is there."""


_NOTHING = _Found()


class Spans:
    """Declared phrases, compiled; with those of a lexicon, so that words are looked up once."""

    def __init__(
        self, entries: Iterable[tuple[Tag, str]], lexicon: Lexicon | None = None
    ) -> None:
        self._trie = Node()
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
        if lexicon is not None:
            _graft(lexicon.trie, self._trie)
        self._sum_up(self._trie, _NOTHING, 0, {})
        share(self._trie, {})

    def _add(self, pattern: str, key: str, what: Any) -> None:
        for node in self._trie.spell_out(pattern):
            ended = node.setdefault(key, [])
            if what not in ended:
                ended.append(what)

    def _sum_up(self, node: Node, found: _Found, depth: int, known: dict[Any, _Found]) -> None:
        """Note in every node what the words up to there amount to."""
        if not node.keys().isdisjoint(_ENDS):
            ends = tuple([tuple(node.pop(key, ())) for key in _ENDS])
            step = (id(found), depth, ends)
            if step not in known:
                longer = self._longer(found, depth, *ends)
                known[step] = known.setdefault(longer, longer)
            found = known[step]
        if found is not _NOTHING:
            node.found = found
        for child in node.values():
            self._sum_up(child, found, depth + 1, known)

    def _longer(
        self,
        found: _Found,
        depth: int,
        marks: tuple[str, ...],
        concepts: tuple[str, ...],
        ended: tuple[Tag, ...],
        parts: tuple[tuple[int, int], ...],
    ) -> _Found:
        """`found`, and what ends at a depth."""
        tags = {kind: (length, them) for kind, length, them in found.tags}
        for kind in dict.fromkeys(tag.kind for tag in ended):
            tags[kind] = (depth, tuple(tag for tag in ended if tag.kind == kind))
        opens, closes = found.opens, found.closes
        for number, place in parts:
            opens |= (place == 0) << number
            closes |= (place == self._gapped[number][1]) << number
        return _Found(
            tuple(dict.fromkeys((*found.marks, *marks))),
            depth if concepts else found.length,
            concepts or found.concepts,
            tuple((kind, *of_kind) for kind, of_kind in tags.items()),
            (*found.parts, *((number, place, depth) for number, place in parts)),
            opens,
            closes,
        )

    def find(self, tokens: Sequence[str]) -> dict[str, list[Hit]]:
        """The hits of each kind, in order; one inside a longer one of its kind is not found."""
        return self.look(tokens)[1]

    def look(self, tokens: Sequence[str]) -> tuple[dict[str, list[int]], dict[str, list[Hit]]]:
        """The places of the lexicon's concepts, and the hits of each kind."""
        places: dict[str, list[int]] = {}
        found: dict[str, list[Hit]] = {}
        covered: dict[str, int] = {}
        taken = opened = closed = 0
        seen: list[tuple[int, _Found]] = []
        words = [*tokens, STOP]
        for start, node, following in zip(count(), map(self._trie.get, tokens), words[1:]):
            if node is None:
                continue
            longer = node.get(following)
            if longer is not None:
                ahead = start + 1
                while longer is not None:
                    node = longer
                    ahead += 1
                    longer = node.get(words[ahead])
            here: _Found | None = node.found
            if here is None:
                continue
            marks, length, concepts, tags, parts, opens, closes = here
            if marks:
                for mark in marks:
                    if mark in places:
                        places[mark].append(start)
                    else:
                        places[mark] = [start]
            if concepts and start + length > taken:
                taken = start + length
                for concept in concepts:
                    if concept in places:
                        places[concept].append(start)
                    else:
                        places[concept] = [start]
            for kind, length, them in tags:
                end = start + length
                hits = found.get(kind)
                if hits is None:
                    hits = found[kind] = []
                elif end <= covered[kind]:
                    continue
                covered[kind] = end
                for tag in them:
                    hits.append(_hit((tag, start, end)))
            if parts:
                seen.append((start, here))
                closed |= closes & opened
                opened |= opens
        if closed:
            self._join(seen, closed, tokens, found)
        return places, found

    def _join(
        self,
        seen: list[tuple[int, _Found]],
        wanted: int,
        tokens: Sequence[str],
        found: dict[str, list[Hit]],
    ) -> None:
        """Add phrases with gaps, of whose parts each follows the one before."""
        joined: dict[Hit, None] = {}
        open_: dict[tuple[int, int], tuple[int, int]] = {}
        # (phrase, part) -> where the phrase began and where this part ended, the latest one
        for start, here in seen:
            for number, place, length in here.parts:
                if not wanted >> number & 1:
                    continue
                begin, end = start, start + length
                if place:
                    before = open_.get((number, place - 1))
                    if before is None or not 0 <= start - before[1] <= GAP:
                        continue
                    if "," in tokens[before[1] : start]:
                        continue
                    begin = before[0]
                tag, last = self._gapped[number]
                if place == last:
                    joined[Hit(tag, begin, end)] = None
                else:
                    open_[number, place] = (begin, end)
        for hit in joined:
            found.setdefault(hit.tag.kind, []).append(hit)
        for kind in dict.fromkeys(hit.tag.kind for hit in joined):
            found[kind].sort(key=lambda hit: (hit.start, -hit.end))


def _graft(branch: Node, onto: Node) -> None:
    """Take over what ends on a branch of a lexicon."""
    for word, child in branch.items():
        if word in (CONCEPTS, MARKS):
            onto[word] = child
        else:
            _graft(child, onto.next(word))


def spelled_out(pattern: str) -> list[str]:
    """Every phrase that a pattern without gaps stands for, in order."""
    return list(Lexicon({"": [pattern]}).phrases())

