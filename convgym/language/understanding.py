"""Free text to concepts: sentences, tokens, a phrase trie, and how far a "not" reaches.

    "No, it hasn't shipped yet. Your e-mail?"
       ├── sentence: no , it hasnt shipped yet      negation@0, negation@3, shipped@4
       └── sentence: your e mail  (question)        email@1

What the concepts *mean* together is the domain's. Everything is linear in the text.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple

_SENTENCE_END = re.compile(
    r"[.!;…](?=[\s)\"'’”*_|]|$)|\?+|\n+|(?<!anything)(?<! day)(?<! place),? but (?=\w)"
    r"|\s\|\s|\s[*•]\s|\s\d\)\s"
)
_PLAIN_END = re.compile(r"[.!;…?\n](?:(?<=\?)\?*|(?<=\n)\n*|(?<=[.!;…])(?=[\s)\"'’”*_|]|$))")
"""As `_SENTENCE_END`, for a text without its longer ends: one character opens every match."""
_PICTURE_END = re.compile("[\u2600-\u27bf\U0001f300-\U0001faff]\ufe0f? +(?=[A-Z])")
"""An emoji that stands for a full stop: "Order cancelled ✅ Anything else?"."""
_PICTURE = re.compile("[\u2600-\u27bf\U0001f300-\U0001faff]+\ufe0f?")
_NUMERAL = re.compile(r"\s*\**\d\d?\s*")
"""The number of an item in a list."""
_STRETCHED = re.compile(r"([a-z])\1\1+")
"""Letters that are drawn out: "heyyy", "sooo"."""
_TOKEN = re.compile(r"[a-z0-9]+(?:[@._]+[a-z0-9]+)*|,|%")
_ASKING_FIRST = frozenset(
    "did do does shall could would can may which whats who whose why where what how".split()
)
_NO_QUESTION = frozenset(
    {("what", word) for word in ("i", "we", "about", "a", "is", "would", "the")}
    | {("how", "about"), ("can", "do"), ("may", "i"), ("could", "not"), ("did", "not")}
    | {
        ("what", "youve"),
        ("what", "youre"),
        ("what", "you"),
        ("can", "not"),
        ("do", "not"),
        ("does", "not"),
        ("would", "not"),
        ("how", "it"),
    }
)
_AUXILIARIES = _ASKING_FIRST | frozenset(
    "was were is are has have had am will should wasnt isnt arent hasnt havent".split()
)
_TAGS = _ASKING_FIRST | set("wasnt were werent didnt doesnt isnt arent anything".split())
"""A question may hang on a statement with these: "…, and wasn't that painless?"."""
_ASSENTING = frozenset("ok okay alright is that".split())
"""A tag of these asks for a yes and takes nothing back: "…, ok?"."""
_BREAKS = frozenset((",", "because", "although", "though"))
"""No concept reaches another one across these."""
_NOISE = str.maketrans(
    {"'": "", "’": "", "‘": "", "`": "", "*": " ", "_": " ", "#": " ", "-": " ", "–": " ", ":": " "}
    | {"—": " , ", "(": " , ", ")": " , ", "/": " ", "&": " and ", '"': " ", "“": " ", "”": " "}
)
MOST_TOKENS = 400
"""Words of one reply that are read; a customer reads no further either."""


class Sentence:
    """Tokens of one sentence with the places where concepts stand."""

    __slots__ = ("_lacks", "joined", "leads", "places", "question", "tokens", "words")

    def __init__(
        self,
        tokens: list[str],
        places: dict[str, list[int]],
        question: bool,
        leads: bool = False,
        joined: bool = False,
    ) -> None:
        self.tokens = tokens
        self.words = frozenset(tokens)
        self.places = places
        self._lacks = places.keys().isdisjoint  # a live view: what is noted later counts too
        self.question = question
        self.leads = leads
        """It is the statement that the question in the next sentence hangs on."""
        self.joined = joined
        """The next sentence goes on with "but"."""

    def has(self, *concepts: str) -> bool:
        """Whether any of the concepts stands here."""
        return not self._lacks(concepts)

    def has_any(self, concepts: frozenset[str]) -> bool:
        """As `has`, for many concepts at once."""
        return not self._lacks(concepts)  # walks through the smaller of the two

    def at(self, *concepts: str) -> list[int]:
        """All places of some concepts."""
        if len(concepts) == 1:
            return [*self.places.get(concepts[0], ())]
        found: list[int] = []
        if not self._lacks(concepts):
            for concept in concepts:
                found += self.places.get(concept, ())
        return found

    def near(self, concept: str, place: int, reach: int) -> bool:
        """Whether `concept` stands up to `reach` tokens before `place`, nothing between."""
        starts = self.places.get(concept)
        if starts is None:
            return False
        at = bisect_left(starts, place)
        if not at or place - starts[at - 1] > reach:
            return False
        return _BREAKS.isdisjoint(self.tokens[starts[at - 1] : place])

    def word_before(self, words: frozenset[str], place: int, reach: int) -> bool:
        """Whether one of `words` stands up to `reach` tokens before `place`, nothing between."""
        if words.isdisjoint(self.words):
            return False
        for token in reversed(self.tokens[max(0, place - reach) : place]):
            if token in words:
                return True
            if token in _BREAKS:
                return False
        return False


CONCEPTS, MARKS = "", " "
"""Keys of a node under which the concepts and marks of the phrases that end there stand."""
STOP = "\n"
"""What stands behind the last word; no phrase holds it."""


class Node(dict[str, Any]):
    """What may follow on the words so far, by the next word."""

    __slots__ = ("found",)

    def __init__(self) -> None:
        self.found: Any = None
        """All that the words so far, from the first one on, amount to; None where it is nothing."""

    def next(self, word: str) -> Node:
        """The node behind `word`, made where there is none."""
        node = self.get(word)
        if node is None:
            node = self[word] = Node()
        return node

    def spell_out(self, pattern: str) -> list[Node]:
        """The nodes where the phrases end that a pattern stands for, made where there are none."""
        words = [word.split("/") for word in pattern.split()]
        ends: list[Node] = []

        def go_on(node: Node, at: int) -> None:
            if at == len(words):
                ends.append(node)
                return
            for word in words[at]:
                go_on(node if word == "-" else node.next(word), at + 1)

        go_on(self, 0)
        return [node for node in ends if node is not self]


class Lexicon:
    """Concepts by phrase; a phrase inside a longer one does not count.

    A phrase is a few words in small letters without apostrophes; `can/may i/we -/please`
    stands for all eight ways to choose, `-` for nothing. Marks are concepts that take no words
    away from others and lose none to them.
    """

    def __init__(
        self,
        concepts: Mapping[str, Iterable[str]],
        marks: Mapping[str, Iterable[str]] | None = None,
    ) -> None:
        self._trie = Node()
        for end, named in ((CONCEPTS, concepts), (MARKS, marks or {})):
            for concept, patterns in named.items():
                for pattern in patterns:
                    for node in self._trie.spell_out(pattern):
                        ended = node.setdefault(end, [])
                        if concept not in ended:
                            ended.append(concept)
        _sum_up(self._trie, ((), 0, ()), 0, {})
        share(self._trie, {})

    @property
    def trie(self) -> Node:
        """Words to nodes; the concepts and marks of a phrase stand under `CONCEPTS`, `MARKS`."""
        return self._trie

    def phrases(self) -> Iterator[str]:
        """Every phrase, spelled out."""

        def below(node: Node, words: tuple[str, ...]) -> Iterator[str]:
            for word, child in node.items():
                if word in (CONCEPTS, MARKS):
                    yield " ".join(words)
                else:
                    yield from below(child, (*words, word))

        return below(self._trie, ())

    def places(self, tokens: Sequence[str]) -> dict[str, list[int]]:
        """Start places of each concept in a list of tokens."""
        found: dict[str, list[int]] = {}
        words, covered = [*tokens, STOP], 0
        for place, node, following in zip(count(), map(self._trie.get, tokens), words[1:]):
            if node is None:
                continue
            longer = node.get(following)
            if longer is not None:
                ahead = place + 1
                while longer is not None:
                    node = longer
                    ahead += 1
                    longer = node.get(words[ahead])
            if node.found is None:
                continue
            marks, length, concepts = node.found
            if marks:
                for mark in marks:
                    if mark in found:
                        found[mark].append(place)
                    else:
                        found[mark] = [place]
            if place + length > covered:
                covered = place + length
                for concept in concepts:
                    if concept in found:
                        found[concept].append(place)
                    else:
                        found[concept] = [place]
        return found

    def read(self, text: str) -> list[Sentence]:
        """The sentences of a text, in order."""
        return [
            Sentence(part.tokens, self.places(part.tokens), part.question, part.leads, part.joined)
            for part in split(text)
        ]


class Part(NamedTuple):
    """The words of one sentence, nothing looked for in them yet."""

    tokens: list[str]
    question: bool
    leads: bool
    joined: bool


def split(text: str) -> list[Part]:
    """The sentences of a text, in order."""
    parts: list[Part] = []
    budget, begin = MOST_TOKENS, 0
    if not text.isascii():
        text = _PICTURE.sub(" , ", _PICTURE_END.sub(" . ", text))
    lowered = text.lower()
    if _has_three_alike(lowered):
        lowered = _STRETCHED.sub(r"\1", lowered)
    longer = " but " in lowered or "|" in lowered or "*" in lowered or ")" in lowered
    ends = _SENTENCE_END if longer or "•" in lowered else _PLAIN_END
    for end in ends.finditer(lowered):
        budget -= _add(lowered[begin : end.start()], end[0], parts, budget)
        begin = end.end()
        if budget <= 0:
            return parts
    if begin < len(lowered):
        _add(lowered[begin:], "", parts, budget)
    return parts


def _has_three_alike(text: str) -> bool:
    """Whether some byte of the text stands three times in a row."""
    raw = text.encode("utf-8", "surrogatepass")
    number = int.from_bytes(raw, "little")
    return b"\0\0" in (number ^ number >> 8).to_bytes(len(raw), "little")  # next to its like: 0


def _add(raw: str, stop: str, parts: list[Part], budget: int) -> int:
    """Append one sentence, or two where a question hangs on a statement; how many words."""
    tokens = words_of(raw)
    if len(tokens) > budget:
        del tokens[budget:]
    while tokens and tokens[0] == ",":
        del tokens[0]
    while tokens and tokens[-1] == ",":
        del tokens[-1]
    if not tokens or (len(tokens) == 1 and _NUMERAL.fullmatch(raw)):
        return len(tokens)
    asked = "?" in stop
    tag = _tag_place(tokens) if asked else 0
    rest = tokens
    if tag:
        rest = tokens[tag:]
        parts.append(Part(tokens[:tag], False, not _ASSENTING.issuperset(rest), False))
    question = asked or (
        rest[0] in _ASKING_FIRST
        and tuple(rest[:2]) not in _NO_QUESTION
        and not -1 < raw.find(":") < 24
    )
    parts.append(Part(rest, question, False, "but" in stop))
    return len(tokens)


_ORDINARY = b"abcdefghijklmnopqrstuvwxyz0123456789.,% "
_SPACED = bytes(ord(_NOISE.get(code, chr(code))[:1] or "'") for code in range(128)) * 2
"""`_NOISE` byte by byte, for a text without what becomes more than one character."""


def words_of(text: str) -> list[str]:
    """The words, numbers, commas and percent signs of a text in small letters."""
    text = text.replace(" - ", " , ")
    if text.isascii() and not ("&" in text or "(" in text or ")" in text):
        spaced = text.encode("ascii").translate(_SPACED, b"'`")
        if not spaced.translate(None, _ORDINARY):
            words = spaced.decode("ascii").replace(",", " , ").replace("%", " % ").split()
            if "." in text:
                return [bare for word in words if (bare := word.strip("."))]
            return words
    return _TOKEN.findall(text.replace(" – ", " , ").translate(_NOISE))


_Places = tuple[Sequence[str], int, Sequence[str]]
"""(marks, length of the longest concept, its names) that the words up to a node amount to."""


def _sum_up(node: Node, found: _Places, depth: int, known: dict[_Places, _Places]) -> None:
    """Note in every node what the words up to there amount to, one object for all that is equal."""
    if MARKS in node or CONCEPTS in node:
        marks, length, concepts = found
        if MARKS in node:
            marks = tuple(dict.fromkeys((*marks, *node[MARKS])))
        if CONCEPTS in node:
            length, concepts = depth, tuple(node[CONCEPTS])
        found = known.setdefault((marks, length, concepts), (marks, length, concepts))
    if found[0] or found[2]:
        node.found = found
    for child in node.values():
        if isinstance(child, Node):
            _sum_up(child, found, depth + 1, known)


def share(node: Node, known: dict[Any, Node]) -> Node:
    """`node`, or a known one that is just like it: phrases that end alike share their ends.

    What is looked up for every word should lie close together in memory.
    """
    ends: list[Any] = [id(node.found)]
    for word, child in node.items():
        if isinstance(child, Node):
            node[word] = child = share(child, known)
            ends += word, id(child)
        else:
            ends += word, tuple(child)
    return known.setdefault(tuple(ends), node)


def _tag_place(tokens: list[str]) -> int:
    """Where the question begins that hangs on a statement; 0 where all of it is asked.

    "…, is that right?" asks about the statement itself, so it stays one question; "…, ok?" does
    not.
    """
    if tokens[0] in _AUXILIARIES or "," not in tokens:
        return 0
    comma = len(tokens) - 1 - tokens[::-1].index(",")
    if comma < 6:
        return 0
    if _ASSENTING.issuperset(tokens[comma + 1 :]) and comma + 1 < len(tokens):
        return comma + 1
    return comma + 1 if any(word in _TAGS for word in tokens[comma + 1 : comma + 3]) else 0
