"""Free text to concepts: sentences, tokens, a phrase trie, and how far a "not" reaches.

    "No, it hasn't shipped yet. Your e-mail?"
       ├── sentence: no , it hasnt shipped yet      negation@0, negation@3, shipped@4
       └── sentence: your e mail  (question)        email@1

What the concepts *mean* together is the domain's. Everything is linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

_SENTENCE_END = re.compile(r"[.!;]+(?=[\s)\"'*_|]|$)|\?+|\n+|\s\|\s|\s[*•]\s|\s\d\)\s")
_TOKEN = re.compile(r"[a-z0-9@][a-z0-9@._]*[a-z0-9]|[a-z0-9]|,|%")
_ASKING_FIRST = frozenset(
    "did do does shall could would can may which whats who whose why where what how".split()
)
_TAGS = _ASKING_FIRST | set("is isnt was wasnt are arent didnt right ok okay anything".split())
_NO_QUESTION = frozenset(
    ("what", word) for word in ("i", "we", "about", "a", "is", "would")
) | {("how", "about"), ("can", "do"), ("may", "i")}
_NOISE = str.maketrans(
    {"'": "", "’": "", "‘": "", "`": "", "*": " ", "_": " ", "#": " ", "-": " ", "–": " ", ":": " "}
    | {"—": " , ", "(": " , ", ")": " , ", "/": " ", "&": " and ", '"': " ", "“": " ", "”": " "}
)
MOST_TOKENS = 400
"""Words of one reply that are read; a customer reads no further either."""


def _tag_place(tokens: list[str]) -> int:
    """Where the question begins that hangs on a statement: "…, and wasn't that painless?"."""
    if tokens[0] in _ASKING_FIRST or "," not in tokens:
        return 0
    comma = len(tokens) - 1 - tokens[::-1].index(",")
    if comma < 6:
        return 0
    return comma + 1 if any(word in _TAGS for word in tokens[comma + 1 : comma + 3]) else 0


class Sentence:
    """Tokens of one sentence with the places where concepts stand."""

    __slots__ = ("places", "question", "raw", "tokens")

    def __init__(
        self, raw: str, tokens: list[str], places: dict[str, list[int]], question: bool
    ) -> None:
        self.raw = raw
        self.tokens = tokens
        self.places = places
        self.question = question

    def has(self, *concepts: str) -> bool:
        """Whether any of the concepts stands here."""
        return any(concept in self.places for concept in concepts)

    def near(self, concept: str, place: int, reach: int) -> bool:
        """Whether `concept` stands up to `reach` tokens before `place`, no comma between."""
        starts = self.places.get(concept)
        if not starts:
            return False
        for start in reversed(starts):
            if start < place:
                return place - start <= reach and "," not in self.tokens[start:place]
        return False


class Lexicon:
    """Concepts by phrase: the longest phrase at each place wins and consumes its words."""

    def __init__(self, concepts: Mapping[str, Iterable[str]]) -> None:
        trie: dict[str, dict[tuple[str, ...], list[str]]] = {}
        for concept, phrases in concepts.items():
            for phrase in phrases:
                words = tuple(phrase.split())
                trie.setdefault(words[0], {}).setdefault(words[1:], []).append(concept)
        self._phrases: dict[str, list[tuple[int, tuple[str, ...], tuple[str, ...]]]] = {
            first: sorted(
                ((len(rest) + 1, rest, tuple(found)) for rest, found in by_rest.items()),
                reverse=True,
            )
            for first, by_rest in trie.items()
        }

    def places(self, tokens: Sequence[str]) -> dict[str, list[int]]:
        """Start places of each concept in a list of tokens."""
        found: dict[str, list[int]] = {}
        phrases = self._phrases
        place, end = 0, len(tokens)
        while place < end:
            step = 1
            for length, rest, concepts in phrases.get(tokens[place], ()):
                if length == 1 or tuple(tokens[place + 1 : place + length]) == rest:
                    for concept in concepts:
                        found.setdefault(concept, []).append(place)
                    step = length
                    break
            place += step
        return found

    def read(self, text: str) -> list[Sentence]:
        """The sentences of a text, in order."""
        sentences: list[Sentence] = []
        budget, begin = MOST_TOKENS, 0
        lowered = text.lower()
        for end in _SENTENCE_END.finditer(lowered):
            budget -= self._add(lowered, begin, end.start(), "?" in end.group(), sentences, budget)
            begin = end.end()
            if budget <= 0:
                return sentences
        self._add(lowered, begin, len(lowered), False, sentences, budget)
        return sentences

    def _add(
        self,
        text: str,
        begin: int,
        end: int,
        question: bool,
        sentences: list[Sentence],
        budget: int,
    ) -> int:
        raw = text[begin:end].replace(" - ", " , ")
        tokens = _TOKEN.findall(raw.translate(_NOISE))[:budget]
        if tokens:
            tag = _tag_place(tokens) if question else 0
            if tag:
                said = tokens[:tag]
                sentences.append(Sentence(raw, said, self.places(said), False))
            asked = tokens[tag:]
            question = question or (
                asked[0] in _ASKING_FIRST and tuple(asked[:2]) not in _NO_QUESTION
            )
            sentences.append(Sentence(raw, asked, self.places(asked), question))
        return len(tokens)
