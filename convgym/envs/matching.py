"""How well an agent's question fits what a user could say, in whole points.

    "Which day did you order it?"         asks for: order, time
        "I bought it on March 3rd."       tells of: bought (order), march, time      5 points
        "It's the blue one, size 42."     tells of: blue (colour), 42 (size), count  0 points

A word fits a word with the same stem or of the same family (`words.toml`); a question word fits
an answer of its sort: when a time, how many a number. Words that only one response has weigh
more. Equal points go to the response that stands first in the list. No floats, no learning.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache

from convgym.envs.reply import Heard, Reply, sentences_of, stem, tables, word_set
from convgym.language.understanding import Lexicon

ENOUGH = 4
"""Points from which a question is taken to ask for a response."""
_OWN, _SHARED, _GENERIC, _SLOT, _NEXT = 4, 2, 1, 3, 1

_LEADS = frozenset("and so but or ok okay then well now please also".split())
_AUXILIARIES = frozenset(
    "do does did is are was were have has had can could will would should am may isnt arent "
    "dont doesnt didnt havent hasnt wasnt werent cant couldnt wont wouldnt".split()
)
_MONTHS = "january february march april may june july august september october november december"
_DAYS = "monday tuesday wednesday thursday friday saturday sunday yesterday today tomorrow tonight"
_DATES = "|".join(word.title() for word in (_MONTHS + " " + _DAYS).split())
_UNITS = "minute|hour|day|night|week|month|year"
_TOLD: dict[str, re.Pattern[str]] = {
    "time": re.compile(
        rf"\b(?:{'|'.join(_DAYS.split())}|{'|'.join(m for m in _MONTHS.split() if m != 'may')}"
        rf"|last (?:{_UNITS}|night)|ago|since|morning|evening|afternoon|noon"
        r"|(?:half|quarter) (?:past|to)|o'?clock"
        r"|\d{1,2}(?::\d\d| ?[ap]m\b)|\d{4}-\d\d-\d\d|\d{1,2}(?:st|nd|rd|th)|\d{1,2}/\d{1,2})\b",
        re.IGNORECASE,
    ),
    "duration": re.compile(rf"\b(?:\w+ (?:{_UNITS})s?\b|for (?:ages|long))", re.IGNORECASE),
    "count": re.compile(
        r"(?<![\w-])[$€£]?\d[\d.,]*(?![\w-])|\b(?:two|three|four|five|six|seven|eight|nine|ten|"
        r"twice|once|dozen|both of us|just me)\b",
        re.IGNORECASE,
    ),
    "place": re.compile(
        r"\b(?:[Ii]n|[Aa]t|to|[Ff]rom|[Nn]ear|[Oo]n) (?:the )?"
        rf"(?:(?!{_DATES})(?:\d+ )?[A-Z]\w+|house|home|office|street)"
        r"|\b(?:[Ss]treet|[Rr]oad|[Aa]venue|[Ll]ane|[Ss]quare)\b"
    ),
    "reason": re.compile(
        r"\b(?:because|since|due to|reason|so that|it (?:won'?t|doesn'?t|didn'?t|keeps|stopped)"
        r"|too \w+|wrong|broken|damaged)\b",
        re.IGNORECASE,
    ),
    "mail": re.compile(r"\S@\S"),
    "code": re.compile(r"\b(?=\w*\d)(?=\w*[A-Za-z])[\w-]{4,}\b|#\d+|\b\d{5,}\b"),
    "name": re.compile(r"\b(?:name|called|(?:I'?m|I am|[Tt]his is|[Mm]y) [A-Z]\w+)\b"),
    "yesno": re.compile(r"^\s*(?:yes|yeah|yep|no|nope|not)\b", re.IGNORECASE),
}
"""By what an answer to each sort of question is known."""


@cache
def _asking() -> Lexicon:
    def stemmed(pattern: str) -> str:
        return " ".join("/".join(map(stem, word.split("/"))) for word in pattern.split())

    return Lexicon({}, {slot: map(stemmed, p) for slot, p in tables()["slots"].items()})


def _asked_slots(heard: Heard) -> frozenset[str]:
    """The sorts of answer that a sentence asks for."""
    found = frozenset(_asking().places(heard.stems))
    return found | {"yesno"} if is_yes_or_no(heard) else found


def is_yes_or_no(heard: Heard) -> bool:
    """Whether a question asks for a yes or a no."""
    tokens = [token for token in heard.sentence.tokens if token not in _LEADS]
    begins = bool(tokens) and tokens[0] in _AUXILIARIES
    return heard.question and (begins or heard.sentence.has("have_you"))


@cache
def _families() -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for family, words in tables()["families"].items():
        for word in words.split():
            found.setdefault(stem(word), []).append(f"/{family}")
    return {word: tuple(dict.fromkeys(names)) for word, names in found.items()}


@cache
def _generic() -> frozenset[str]:
    return frozenset(stem(word) for word in word_set("generic"))


def is_generic(word: str) -> bool:
    """Whether a stem says only that business is talked about."""
    return word in _generic()


def keys_of(word: str) -> tuple[str, ...]:
    """What a stem is found under: itself and its families."""
    return (word, *_families().get(word, ()))


def content_of(text: str) -> tuple[str, ...]:
    """The stems of a text that say what it is about, each once, in order."""
    return tuple(dict.fromkeys(w for s in sentences_of(text) for w in Heard(s).content()))


def told_by(text: str) -> frozenset[str]:
    """The sorts of answer that a text gives: time, count, mail, …"""
    return frozenset(slot for slot, known in _TOLD.items() if known.search(text))


def asked_by(text: str) -> frozenset[str]:
    """The sorts of answer that a text asks for."""
    heard = map(Heard, sentences_of(text))
    return frozenset(slot for one in heard if one.asked for slot in _asked_slots(one))


class Topic:
    """Words by what they are found under."""

    __slots__ = ("_keys", "words")

    def __init__(self, words: Iterable[str]) -> None:
        self.words = tuple(dict.fromkeys(words))
        self._keys = {key: word for word in reversed(self.words) for key in keys_of(word)}

    @classmethod
    def of(cls, *texts: str) -> Topic:
        """The topic of some texts."""
        return cls(word for text in texts for word in content_of(text))

    def meant(self, word: str) -> str:
        """The word of this topic that `word` means; empty where it means none."""
        for key in keys_of(word):
            if key in self._keys:
                return self._keys[key]
        return ""

    def touched(self, words: Iterable[str]) -> frozenset[str]:
        """The words of this topic, generic ones left out, that some words mean."""
        meant = {self.meant(word) for word in words if not is_generic(word)}
        return frozenset(word for word in meant if word and not is_generic(word))


class Matcher:
    """Points of a question for each of a user's responses."""

    def __init__(self, responses: Sequence[str]) -> None:
        self.topics = tuple(Topic.of(text) for text in responses)
        self.told = tuple(map(told_by, responses))

    def points(self, heard: Heard, response: int, open_to: Sequence[int]) -> int:
        """How well one sentence asks for `response`, one of those that may come now.

        A word counts more where no other of them has it. A sort of answer alone is enough only
        for the next in the list, or where no other of them gives it: "when" may mean any date.
        """
        told = self.told[response]
        asked = _asked_slots(heard)
        topic = self.topics[response]
        if "yesno" in told:
            if "yesno" not in asked:
                return 0  # a yes answers a yes-or-no question alone
            if not topic.words:
                return ENOUGH * (response == open_to[0])  # a bare yes waits for its turn
        others = [one for one in open_to if one != response]
        points = 0
        for word in dict.fromkeys(heard.content()):
            if topic.meant(word):
                shared = any(self.topics[one].meant(word) for one in others)
                points += _GENERIC if is_generic(word) else _SHARED if shared else _OWN
        fitting = (told & asked) - {"yesno"}
        points += _SLOT * len(fitting)
        alone = any(all(slot not in self.told[one] for one in others) for slot in fitting)
        return points + _NEXT * (points > 0 and (alone or response == open_to[0]))

    def best(self, reply: Reply, open_to: Sequence[int]) -> list[int]:
        """Those of some responses that the reply asks for, the best fitting first."""
        asking = [heard for heard in reply.sentences if heard.question]
        scored = [
            (max((self.points(heard, one, open_to) for heard in asking), default=0), one)
            for one in open_to
        ]
        return [one for points, one in sorted(scored, key=lambda s: -s[0]) if points >= ENOUGH]
