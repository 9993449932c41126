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
from itertools import product
from typing import Any

_SENTENCE_END = re.compile(
    r"[.!;…](?=[\s)\"'’”*_|]|$)|\?+|\n+|(?<!anything)(?<! day)(?<! place),? but (?=\w)"
    r"|\s\|\s|\s[*•]\s|\s\d\)\s"
)
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
_END, _MARK = "", " "
"""Keys of a trie node under which the concepts and marks of the phrase that ends there stand."""


class Sentence:
    """Tokens of one sentence with the places where concepts stand."""

    __slots__ = ("_lacks", "joined", "leads", "places", "question", "tokens")

    def __init__(
        self, tokens: list[str], places: dict[str, list[int]], question: bool, leads: bool = False
    ) -> None:
        self.tokens = tokens
        self.places = places
        self._lacks = places.keys().isdisjoint  # a live view: what is noted later counts too
        self.question = question
        self.leads = leads
        """It is the statement that the question in the next sentence hangs on."""
        self.joined = False
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
            return list(self.places.get(concepts[0], ()))
        return [place for concept in concepts for place in self.places.get(concept, ())]

    def near(self, concept: str, place: int, reach: int) -> bool:
        """Whether `concept` stands up to `reach` tokens before `place`, nothing between."""
        starts = self.places.get(concept, [])
        at = bisect_left(starts, place)
        if not at or place - starts[at - 1] > reach:
            return False
        return _BREAKS.isdisjoint(self.tokens[starts[at - 1] : place])

    def word_before(self, words: frozenset[str], place: int, reach: int) -> bool:
        """Whether one of `words` stands up to `reach` tokens before `place`, nothing between."""
        for token in reversed(self.tokens[max(0, place - reach) : place]):
            if token in words:
                return True
            if token in _BREAKS:
                return False
        return False


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
        self._trie: dict[str, Any] = {}
        for end, named in ((_END, concepts), (_MARK, marks or {})):
            for concept, patterns in named.items():
                for pattern in patterns:
                    self._add_phrases(concept, pattern, end)

    def _add_phrases(self, concept: str, pattern: str, end: str) -> None:
        for words in _spelled_out(pattern):
            node = self._trie
            for word in words:
                node = node.setdefault(word, {})
            found = node.setdefault(end, [])
            if concept not in found:
                found.append(concept)

    def phrases(self) -> Iterator[str]:
        """Every phrase, spelled out."""

        def below(node: dict[str, Any], words: tuple[str, ...]) -> Iterator[str]:
            for word, child in node.items():
                if word in (_END, _MARK):
                    yield " ".join(words)
                else:
                    yield from below(child, (*words, word))

        return below(self._trie, ())

    def places(self, tokens: Sequence[str]) -> dict[str, list[int]]:
        """Start places of each concept in a list of tokens."""
        found: dict[str, list[int]] = {}
        trie, end, covered = self._trie, len(tokens), 0
        for place, token in enumerate(tokens):
            node, ahead = trie.get(token), place + 1
            concepts: Sequence[str] = ()
            while node is not None:
                if ahead > covered and _END in node:
                    concepts, covered = node[_END], ahead
                if _MARK in node:
                    for mark in node[_MARK]:
                        here = found.setdefault(mark, [])
                        if here[-1:] != [place]:
                            here.append(place)
                node = node.get(tokens[ahead]) if ahead < end else None
                ahead += 1
            for concept in concepts:
                found.setdefault(concept, []).append(place)
        return found

    def read(self, text: str) -> list[Sentence]:
        """The sentences of a text, in order."""
        sentences: list[Sentence] = []
        budget, begin = MOST_TOKENS, 0
        if not text.isascii():
            text = _PICTURE.sub(" , ", _PICTURE_END.sub(" . ", text))
        lowered = _STRETCHED.sub(r"\1", text.lower())
        for end in _SENTENCE_END.finditer(lowered):
            stop, count = end.group(), len(sentences)
            budget -= self._add(lowered[begin : end.start()], "?" in stop, sentences, budget)
            if len(sentences) > count:
                sentences[-1].joined = "but" in stop
            begin = end.end()
            if budget <= 0:
                return sentences
        self._add(lowered[begin:], False, sentences, budget)
        return sentences

    def _add(self, raw: str, asked: bool, sentences: list[Sentence], budget: int) -> int:
        """Append one sentence, or two where a question hangs on a statement."""
        tokens = _TOKEN.findall(raw.replace(" - ", " , ").replace(" – ", " , ").translate(_NOISE))[
            :budget
        ]
        while tokens and tokens[0] == ",":
            del tokens[0]
        while tokens and tokens[-1] == ",":
            del tokens[-1]
        if not tokens or (len(tokens) == 1 and _NUMERAL.fullmatch(raw)):
            return len(tokens)
        tag = _tag_place(tokens) if asked else 0
        if tag:
            said = tokens[:tag]
            leads = not _ASSENTING.issuperset(tokens[tag:])
            sentences.append(Sentence(said, self.places(said), False, leads))
        rest = tokens[tag:]
        question = asked or (
            rest[0] in _ASKING_FIRST
            and tuple(rest[:2]) not in _NO_QUESTION
            and not (not asked and -1 < raw.find(":") < 24)
        )
        sentences.append(Sentence(rest, self.places(rest), question))
        return len(tokens)


def _spelled_out(pattern: str) -> Iterator[tuple[str, ...]]:
    for words in product(*(word.split("/") for word in pattern.split())):
        chosen = tuple(word for word in words if word != "-")
        if chosen:
            yield chosen


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
