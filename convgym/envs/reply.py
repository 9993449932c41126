"""What an agent's message says, asks and denies, whatever it is about.

    "No refund, I'm afraid. Could I have your order number?"
       says("refund") False     denies("refund") True     asks("order number") True

Phrases are matched word by word, endings put aside: "refund" is found in "refunded". A phrase
counts as said only in a sentence that asserts it: not where it is asked, denied, or tied to
a condition. The scope of a "not" is the clause, read by `convgym.language.understanding`;
sarcasm, hearsay and "the other one" are beyond it. Knows no task and no user.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

from convgym.language.tool_calls import Parsed, parse_reply
from convgym.language.understanding import Lexicon, Sentence

LONGEST = 900
"""Characters of one message that are read without bother."""
BEFORE, AFTER = 6, 4
"""Words that a "not" reaches forwards, and backwards."""
_SALAD = 12
"""Words from which on a message has to be made of sentences."""
_VOWELS = frozenset("aeiou")
_OTHERS = re.compile(r"^\s*(?:customer|user|system|tool)\s*:.*$", re.IGNORECASE | re.MULTILINE)
"""Lines that the agent writes for somebody else."""
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}\b)")
_ASKING = frozenset("when where why which who whom whose how what whats".split())
_COLON = re.compile(r":(?=\s)")
_WORD = re.compile(r"\w")
_EMAIL = re.compile(r"\be-?\s?mails?\b", re.IGNORECASE)
_NUMERALS = {
    word: str(number)
    for number, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
        "fifteen sixteen seventeen eighteen nineteen twenty".split()
    )
}
_SUBJECTS = frozenset("i we you he she it they the your our my this that there".split())


@cache
def tables() -> dict[str, Any]:
    """The tables of `words.toml`."""
    return tomllib.loads(files("convgym.envs").joinpath("words.toml").read_text("utf-8"))


@cache
def word_set(name: str) -> frozenset[str]:
    """One of the word lists of `words.toml`: function, polite, generic."""
    return frozenset(tables()[name].split())


@cache
def cues() -> Lexicon:
    """The cues of `words.toml`; they overlap, so that each is a mark of its own."""
    return Lexicon({}, tables()["cues"])


def stem(word: str) -> str:
    """A word without its ending: what "refunds" and "refunded" share; "five" becomes "5"."""
    word = _NUMERALS.get(word, word)
    if len(word) < 3 or not word.isalpha():
        return word
    if len(word) == 3:
        return word[:-1] + "i" if word.endswith("y") else word
    if word.endswith("s") and not word.endswith("ss"):
        word = word[:-2] if word.endswith(("sses", "xes", "ches", "shes", "ies")) else word[:-1]
    for ending in ("ing", "ed"):
        rest = word.removesuffix(ending)
        if rest != word and len(rest) >= 2 and not _VOWELS.isdisjoint(rest):
            word = rest + "e" if _lost_an_e(rest) else rest
            break
    if len(word) > 4 and word.endswith("e"):
        word = word[:-1]
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in _VOWELS:
        word = word[:-1]
    return word[:-1] + "i" if word.endswith("y") else word


def _lost_an_e(rest: str) -> bool:
    """"us(ed)", "not(ed)": short, and a single consonant after a single vowel."""
    if len(rest) == 2:
        return True
    return (
        len(rest) == 3
        and rest[0] not in _VOWELS
        and rest[1] in _VOWELS
        and rest[2] not in _VOWELS
        and rest[2] not in "xwy"
    )


def plain(text: str) -> str:
    """`text` with numbers and "e-mail" written in one way, and colons as the commas they are."""
    return _COLON.sub(",", _EMAIL.sub("email", _THOUSANDS.sub("", text)))


def sentences_of(text: str) -> list[Sentence]:
    """The sentences of a text; a number that stands alone is one, and no item of a list."""
    text = plain(text)
    return cues().read(text) or cues().read(f"so {text}" if _WORD.search(text) else "")


def stems_of(text: str) -> tuple[str, ...]:
    """The words of a text without their endings, in order; none where it holds no word."""
    tokens = [token for s in cues().read(f"so {plain(text)}") for token in s.tokens]
    return tuple(stem(token) for token in tokens[1:] if token != ",")


@lru_cache(maxsize=4096)
def phrase_lexicon(phrases: tuple[str, ...]) -> Lexicon:
    """Finds any of some phrases in a list of stems, under the concept "it"."""
    return Lexicon({}, {"it": [" ".join(stems_of(phrase)) for phrase in phrases]})


@lru_cache(maxsize=4096)
def _length(phrase: str) -> int:
    return len(stems_of(phrase))


class Heard:
    """One sentence of a message, with what a listener makes of it."""

    __slots__ = ("sentence", "stems")

    def __init__(self, sentence: Sentence) -> None:
        self.sentence = sentence
        self.stems = [stem(token) for token in sentence.tokens]

    @property
    def asked(self) -> bool:
        """Whether it is a question, if only the first of two: "how many are you, and when?"."""
        s = self.sentence
        return s.question or (s.leads and not _ASKING.isdisjoint(s.tokens))

    @property
    def question(self) -> bool:
        """Whether it asks, or begs, for something."""
        s = self.sentence
        courteous = s.at("polite_if")
        return self.asked or any(
            at not in courteous and not _denied(s, at, at + 1) for at in s.at("request")
        )

    def content(self) -> list[str]:
        """Stems of the words that are neither grammar nor politeness."""
        function, polite = word_set("function"), word_set("polite")
        tokens = self.sentence.tokens
        return [
            stemmed
            for token, stemmed in zip(tokens, self.stems, strict=True)
            if token not in function and token not in polite and token not in (",", "%")
        ]


    @property
    def idle(self) -> bool:
        """Politeness or pastime; a question such as "When?" needs no other word."""
        s = self.sentence
        wants = self.asked and not _ASKING.isdisjoint(s.tokens) and not s.has("invite", "pastime")
        return not wants and not self.content()


class Reply:
    """One message of the agent as its listener hears it.

    `text` is its speech: tool calls, thoughts and lines written for others are left out.
    """

    __slots__ = ("calls", "content", "errors", "sentences", "text", "words")

    def __init__(self, message: str) -> None:
        parsed: Parsed = parse_reply(message)
        self.calls, self.errors = parsed.calls, parsed.errors
        self.text = _OTHERS.sub(" ", parsed.speech).strip()
        self.sentences = [Heard(s) for s in sentences_of(self.text)]
        self.content = frozenset(w for heard in self.sentences for w in heard.content())
        """Stems of all its words that say what it is about."""
        self.words = tuple(
            token for heard in self.sentences for token in heard.sentence.tokens if token != ","
        )

    # -- what it says of something ---------------------------------------------------------------

    def says(self, *phrases: str) -> bool:
        """Whether one of the phrases is asserted: not asked, denied, or tied to a condition."""
        return any(
            not heard.asked and not denied and not tied
            for heard, denied, tied in self._found(phrases)
        )

    def denies(self, *phrases: str) -> bool:
        """Whether one of the phrases is denied, in so many words."""
        return any(
            denied and not tied and not heard.asked
            for heard, denied, tied in self._found(phrases)
        )

    def asks(self, *phrases: str) -> bool:
        """Whether one of the phrases stands in a question or a request."""
        return any(heard.question and not denied for heard, denied, _ in self._found(phrases))

    def mentions(self, *phrases: str) -> bool:
        """Whether one of the phrases stands anywhere."""
        return any(True for _ in self._found(phrases))

    def _found(self, phrases: tuple[str, ...]) -> Iterable[tuple[Heard, bool, bool]]:
        """(sentence, denied, tied to a condition) of each place where a phrase stands."""
        for phrase in phrases:
            lexicon, length = phrase_lexicon((phrase,)), _length(phrase)
            for heard in self.sentences:
                for at in lexicon.places(heard.stems).get("it", ()):
                    s = heard.sentence
                    yield heard, _denied(s, at, at + length), _tied(s, at, at + length)

    # -- what sort of message it is ------------------------------------------------------------

    @property
    def silent(self) -> bool:
        """No word is said."""
        return not self.words

    @property
    def salad(self) -> bool:
        """A heap of words: of many words, fewer than one in five holds a sentence together."""
        count = len(self.words)
        held = sum(word in word_set("function") for word in self.words)
        return count >= _SALAD and held * 5 < count

    @property
    def long(self) -> bool:
        """More than anybody likes to read at once."""
        return len(self.text) > LONGEST

    @property
    def invites(self) -> bool:
        """It asks for nothing in particular: "anything else?", "tell me more"."""
        return any(heard.sentence.has("invite") for heard in self.sentences)

    @property
    def parts(self) -> bool:
        """It says goodbye."""
        return any(heard.sentence.has("bye") for heard in self.sentences)

    @property
    def empty(self) -> bool:
        """Nothing but politeness and pastime."""
        return all(heard.idle for heard in self.sentences)

    @property
    def offers(self) -> bool:
        """It asks for a yes to what it proposes: "Shall I go ahead?"."""
        return any(min(h.sentence.at("offer"), default=9) < 2 for h in self.sentences)

    def repeats(self, earlier: Sequence[frozenset[str]]) -> bool:
        """Whether four fifths of its content, and of an earlier message's, are the same."""
        mine = self.content
        return any(
            len(mine & theirs) * 5 >= len(mine | theirs) * 4 for theirs in earlier if theirs
        ) and bool(mine)


# -- scope -----------------------------------------------------------------------------------------


def _breaks(tokens: Sequence[str], at: int) -> bool:
    """A new clause begins at `at`: a comma, a "because", or an "and" with a subject of its own."""
    token = tokens[at]
    if token in (",", "because", "although", "though", "so"):
        return True
    return token == "and" and at + 1 < len(tokens) and tokens[at + 1] in _SUBJECTS


def _same_clause(tokens: Sequence[str], begin: int, end: int) -> bool:
    return not any(_breaks(tokens, at) for at in range(begin, end))


def _denied(s: Sentence, begin: int, end: int) -> bool:
    """A "not" whose clause holds what stands at [begin, end)."""
    harmless = s.at("polite_no")
    for at in s.at("deny"):
        near = at < begin and begin - at <= BEFORE
        idle = any(place <= at <= place + 2 for place in harmless)
        if near and not idle and _same_clause(s.tokens, at, begin):
            return True
    return any(
        end <= at <= end + AFTER and _same_clause(s.tokens, end, at)
        for at in s.at("deny_after")
        if not any(place - 1 <= at <= place + 1 for place in harmless)
    )


def _conditions(s: Sentence) -> list[int]:
    """Where conditions begin that are no mere courtesy."""
    courteous = s.at("polite_if")
    return [
        at
        for at in s.at("condition")
        if not any(place <= at <= place + 3 for place in courteous)
    ]


def _tied(s: Sentence, begin: int, end: int) -> bool:
    """What stands at [begin, end) hangs on a condition or a "whether"."""
    for at in _conditions(s):
        inside = begin <= at < end
        if not inside and (at < begin or _same_clause(s.tokens, end, at)):
            return True
    return any(
        at < begin and _same_clause(s.tokens, at, begin) for at in s.at("whether")
    )
