"""What an agent's sentence says that a product has, and lacks.

    "It has a touchscreen, stylus support and no keypad."
         └─ has ─┴───────────┴── has ───────────┴ lacks

Features are one word each here (`marked`), whatever they are called in `features.toml`, so that a
list of them is a list of words. What a newcomer would get wrong: a verb of having speaks for all
that is listed behind it, a "no" or "without" for the rest of the list; questions, wishes and what
the buyer needs say nothing of a product.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

from convgym.domains.sales.world import CATEGORIES, FEATURES, FEATURES_EACH
from convgym.language.lines import Line, Lines, is_idle
from convgym.language.moods import taken_back
from convgym.language.phrases import packaged, read_tables
from convgym.language.rewriting import beginnings, words_in

PACKAGE = "convgym.domains.sales"
MARK = "qf"
"""How the word for a feature begins; its number among all features follows."""
_WORD = re.compile(rf"{MARK}(\d\d?)$")
_FEATURES = len(FEATURES) * FEATURES_EACH
_MARKED = frozenset(f"{MARK}{form}" for n in range(_FEATURES) for form in (n, f"{n:02}"))


class Described(NamedTuple):
    """One feature of one product."""

    place: int
    """Word of the sentence."""
    feature: int
    """Row of `FEATURES`, category after category."""
    has: bool
    product: str
    """As it is named; empty for the one spoken of."""


# -- what features are called ----------------------------------------------------------------------


def feature_name(number: int) -> str:
    """`touchscreen`, by its number among all features."""
    category, place = divmod(number, FEATURES_EACH)
    return FEATURES[category][place][0]


@cache
def feature_patterns() -> tuple[tuple[int, str], ...]:
    """(number, regular expression in small letters) of every feature."""
    called = read_tables(packaged(PACKAGE, "features.toml"))
    found = []
    for category, features in enumerate(FEATURES):
        for place, (name, _) in enumerate(features):
            plain = re.sub(r"[ -]+", "[ -]", re.escape(name.lower()).replace("\\", "")) + "s?"
            patterns = [*called.get(CATEGORIES[category], {}).get(name, ()), plain]
            number = category * FEATURES_EACH + place
            found.append((number, "|".join(f"(?:{pattern})" for pattern in patterns)))
    return tuple(found)


@cache
def _pattern() -> re.Pattern[str]:
    every = "|".join(f"(?P<f{number}>{pattern})" for number, pattern in feature_patterns())
    return re.compile(rf"(?<![\w-])(?:{every})(?![\w-])", re.IGNORECASE)


_BEGUN = 24
"""Letters in which the first word of every feature ends."""
_WORDS = re.compile(r"(?<![\w-])[a-z0-9]+")
_RUN = re.compile(r"[a-z0-9]+")


@cache
def _by_opening() -> dict[str, re.Pattern[str]]:
    """The features that may begin with a word, in their order."""
    called: dict[str, list[str]] = {}
    for number, pattern in feature_patterns():
        for opening in {_RUN.findall(begun)[0] for begun in beginnings(pattern, _BEGUN)}:
            assert len(opening) < _BEGUN, f"{opening!r} may be cut short"
            called.setdefault(opening, []).append(f"(?P<f{number}>{pattern})")
    return {
        opening: re.compile(rf"(?<![\w-])(?:{'|'.join(patterns)})(?![\w-])")
        for opening, patterns in called.items()
    }


def may_name_features(words: Iterable[str]) -> bool:
    """A quick look at the words of a text, whether it can name any feature at all."""
    return not _by_opening().keys().isdisjoint(words)


def _placed(text: str, words: Iterable[str] | None = None) -> Iterator[re.Match[str]]:
    """Where features are named, in order; `words`: those of the text, where they are known."""
    if not text.isascii():
        yield from _pattern().finditer(text)
        return
    lowered, openings, end = text.lower(), _by_opening(), 0
    begun = openings.keys() & (words_in(text) if words is None else words)
    if len(begun) < 2:
        for opening in begun:
            yield from openings[opening].finditer(lowered)
        return
    for word in _WORDS.finditer(lowered):
        pattern = openings.get(word[0])
        if pattern is not None and word.start() >= end:
            if named := pattern.match(lowered, word.start()):
                end = named.end()
                yield named


def features_placed(text: str) -> list[tuple[int, int]]:
    """(number, where it stands) of every feature that a text names, in order."""
    return [(int(str(m.lastgroup)[1:]), m.start()) for m in _placed(text)]


def features_named(text: str) -> list[int]:
    """Numbers of the features that a text names, in order, each once."""
    return list(dict.fromkeys(number for number, _ in features_placed(text)))


def marked(text: str, words: Iterable[str] | None = None) -> str:
    """`text` with a word of its own for each feature; `words`: its words, where they are known."""
    kept, end = [], 0
    for named in _placed(text, words):
        kept += [text[end : named.start()], f" {MARK}{str(named.lastgroup)[1:]} "]
        end = named.end()
    return "".join(kept) + text[end:]


# -- what is said of them --------------------------------------------------------------------------

_HAS = frozenset(
    "has have having comes come coming includes include including offers offer offering features "
    "feature featuring provides provide supports support boasts equipped got gets get gives brings "
    "sports contains combines fitted mentions lists shows".split()
)
_FOR_YOU = frozenset("get gets got have".split())
"""What "you" may do with a feature that the product has: "you get", "you'll have"."""
_LACKS = frozenset("lacks lack lacking missing lacked".split())
_NONE = frozenset("no not nor neither".split())
_NOT = frozenset(
    "not doesnt isnt hasnt dont didnt cannot cant never neither nor wont havent arent".split()
)
_PERSONS = frozenset(
    "you i we they who id wed youd ive weve youve people customers if would should could might may "
    "must to".split()
)
_ADVERBS = frozenset("also really both all indeed definitely even already now just only".split())
_INDEFINITE = frozenset(
    "something anything nothing one ones product products model models laptop laptops phone phones "
    "camera cameras headphones chair chairs machine machines everything those".split()
)
_THERE = frozenset(
    "included standard there built available present part onboard aboard among one".split()
)
_BE = frozenset("is are comes its theres isnt arent".split())
_ANSWERS = frozenset("yes yep sure certainly indeed no nope".split())
_OPENERS = frozenset("tell say sure confirm assure see afraid know mean happy glad".split())
_ITEM = 4
"""Words beside features in an item of a list, at most."""
_HEADED = 5
"""Lines above an item in which the product may be named."""


def described(line: Line, before: Lines) -> list[Described]:
    """What it says that products have or lack, in order."""
    if _MARKED.isdisjoint(line.words) or is_idle(line):
        return []
    begin = _begin(line)
    told = []
    for place, has in _polarities(line, begin, before):
        if taken_back(line.sentence, place, "governor"):
            continue
        found = _WORD.match(line.tokens[place])
        if found and int(found[1]) < _FEATURES:
            for product in line.objects_at(place):
                told.append(Described(place, int(found[1]), has, product))
    return told


def _begin(line: Line) -> int:
    """Where the statement begins: behind "I can tell you that"."""
    tokens = line.tokens
    if "that" not in line.words:
        return 0
    for at, token in enumerate(tokens[:-1]):
        if token == "that" and not _OPENERS.isdisjoint(tokens[:at]):
            own = {"i", "im", "we"} & set(tokens[:at])
            if own and _NOT.isdisjoint(tokens[:at]):
                return at + 1
    return 0


def _polarities(line: Line, begin: int, before: Lines) -> Iterator[tuple[int, bool]]:
    """(place, whether it is had) of each feature of which it says either."""
    tokens, state = line.tokens, _inherited(line, before)
    for at in range(begin, len(tokens)):
        token = tokens[at]
        if token not in _TURNING and not token.startswith(MARK):
            continue
        if token.startswith(MARK):
            spoken = _behind(line, at)
            has = state if spoken is None else spoken
            if has is not None:
                yield at, has
        elif token == "without":
            state = _not_before(tokens, begin, at)
        elif token in _LACKS or (token in _NONE and _leads_to_feature(tokens, at)) or (
            tokens[at - 1 : at + 1] in (["there", "isnt"], ["there", "arent"])
        ):
            state = False
        elif token in _HAS:
            state = _having(line, begin, at)
        elif token == "with" and state is None and _owned(line, at):
            state = True
        elif token in ("is", "its", "are", "theres") and state is None and at + 1 < len(tokens):
            there = token == "theres" or tokens[at - 1 : at] == ["there"]
            state = True if there or tokens[at + 1].startswith(MARK) else None
        elif token in ("whether", "if"):
            return
        elif _ends_state(token, state, tokens[at - 1]):
            state = None


_TURNING = _HAS | _LACKS | _NONE | frozenset(
    "without isnt arent with is its are theres whether if you i we but however".split()
)
"""Words after which something else may hold of the features that follow."""


def _ends_state(token: str, state: bool | None, before: str) -> bool:
    """"It has a headrest, you …" is about you; "it has no headrest but …" goes on with another."""
    if token in ("you", "i", "we"):
        return state is not None and before == ","
    return token in ("but", "however") and state is False


def _not_before(tokens: list[str], begin: int, at: int) -> bool:
    """"Not without a headrest" has one."""
    return not _NOT.isdisjoint(tokens[max(begin, at - 2) : at])


def _leads_to_feature(tokens: list[str], at: int) -> bool:
    return any(token.startswith(MARK) for token in tokens[at + 1 : at + 4])


def _having(line: Line, begin: int, at: int) -> bool | None:
    """What a verb of having says: True, False where it is denied, None of nobody's product."""
    tokens, verb = line.tokens, line.tokens[at]
    doer = at - 1
    while doer >= begin and tokens[doer] in (_ADVERBS | _NOT | {"does", "do", "will"}):
        doer -= 1
    who = tokens[doer] if doer >= begin else ""
    if verb == "got" and who in ("has", "its", "hasnt"):
        who = ""
    if who in ("youll", "you"):
        return True if verb in _FOR_YOU and doer > begin - 1 and "need" not in tokens else None
    if who in _PERSONS:
        return None
    if who in ("that", "which"):
        if doer - 1 >= begin and tokens[doer - 1] in _INDEFINITE:
            return None
        if not line.named and tokens[doer - 1 : doer] != [","]:
            return None
    denied = not _NOT.isdisjoint(tokens[max(begin, doer + 1 if doer >= begin else begin) : at])
    return not denied


def _owned(line: Line, at: int) -> bool:
    """"The Aster Slim with …", and nobody looks for "anything with …"."""
    named = [hit for hit in line.named if hit.end <= at]
    if not named or line.tokens[at - 1] in _INDEFINITE:
        return False
    return at - named[-1].end <= 3


def _behind(line: Line, at: int) -> bool | None:
    """"A footrest is included", "touchscreen: yes"."""
    tokens = line.tokens
    following = tokens[at + 1 : at + 2]
    if following in (["yes"], ["no"]):
        return following == ["yes"]
    end = at + 1
    while end < len(tokens) and (tokens[end].startswith(MARK) or tokens[end] in ("and", ",", "or")):
        end += 1
    rest = tokens[end : end + 7]
    if not rest or rest[0] not in _BE | {"as", "also", "too"} | _NOT:
        return None
    if rest[1:2] and rest[0] == "is" and rest[1] in ("something", "what", "one"):
        later = tokens[end:]
        if not {"doesnt", "dont", "lacks", "without"}.isdisjoint(later):
            return False
        return True if not {"has", "offers", "have"}.isdisjoint(later) else None
    if "missing" in rest[:4] or "lacking" in rest[:4]:
        return False
    for place, token in enumerate(rest):
        if token == ",":
            return None
        if token in _THERE:
            return _NOT.isdisjoint(rest[:place]) and "no" not in tokens[max(0, at - 2) : at]
    return None


def _inherited(line: Line, before: Lines) -> bool | None:
    """Of an item in a list below a product: it has that."""
    begins = bool(line.named) and line.named[0].start == 0 and _IS.isdisjoint(line.words)
    if not (begins or _VERBLESS.isdisjoint(line.words)):
        return None
    own = [
        token for token in line.tokens if not (token.startswith(MARK) or token in (",", "and"))
    ]
    if begins:
        return True if len(own) <= _ITEM + 2 else None
    if len(own) > _ITEM:
        return None
    for earlier in reversed(before[-_HEADED:]):
        if earlier.sentence.question and not earlier.named:
            return None
        if earlier.named:
            heading = earlier.of("recommending") or not earlier.has("unable")
            return True if heading and not is_idle(earlier) else None
        if len(earlier.tokens) > 8:
            return None
    return None


_IS = frozenset(("has", "is"))
_VERBLESS = frozenset(
    "is are do does has have need needs want would you your which what how for so if or my".split()
)


# -- "Yes, it does." -------------------------------------------------------------------------------

_LEADING = frozenset(
    "yes yep sure no nope sadly unfortunately indeed certainly im i am afraid well and so".split()
)
_YES = frozenset((
    "it does", "it has", "it does indeed", "it has that", "it has it", "it has one",
    "it does have that", "it does have it", "it does have one", "it comes with that",
    "it comes with it", "it comes with one", "it offers that", "that is included",
    "thats included", "it is included", "its included", "they do", "they have",
))  # fmt: skip
_NO = frozenset((
    "it doesnt", "it does not", "it hasnt", "it has not", "it doesnt have that",
    "it does not have that", "it doesnt have it", "it does not have it", "it doesnt have one",
    "it lacks that", "it doesnt come with that", "it doesnt offer that", "it does not offer that",
    "that is not included", "thats not included", "that isnt included", "they dont", "they do not",
))  # fmt: skip
_ANSWERING = frozenset(
    "does do doesnt dont has have hasnt comes come offers offer included lacks".split()
)
_ANSWERED = frozenset("it its that thats they".split())
"""One of these, and of those, stands in every answer."""
assert not any(_ANSWERING.isdisjoint(answer.split()) for answer in _YES | _NO)
assert not any(_ANSWERED.isdisjoint(answer.split()) for answer in _YES | _NO)


def short_answer(line: Line) -> bool | None:
    """Whether it says yes or no to the feature that was asked about; None where it says neither."""
    if line.question or line.staged or _ANSWERING.isdisjoint(line.words):
        return None
    if _ANSWERED.isdisjoint(line.words):
        return None
    clauses = " ".join(line.tokens).split(" , ")
    for clause in clauses[:3]:
        words = clause.split()
        while words and (words[0] in _LEADING or words[0] == "not"):
            del words[0]
        said = " ".join(words)
        if said in _YES:
            return True
        if said in _NO:
            return False
    return None
