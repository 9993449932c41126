"""What an agent tells: facts with their values, an object it recommends, a price it names.

    "The fine is $2.50."            inform(fine=2.50)     a value behind its name
    "A 10% discount"                inform(discount=10)   or right before it
    "There is no fine."             inform(fine=0)
    "It's on the shelf."            inform(status=shelf)  a word that speaks for itself
    "I'd go for the Nova 15."       recommend(Nova 15)
    "The Nova 15 costs $899."       quote(Nova 15=899)

A value belongs to one name, the nearest; "about $5", "up to $5", "not $5", "$5 or $6" tell none.
"""

from __future__ import annotations

from collections.abc import Mapping

from convgym.language.cues import Fact
from convgym.language.figures import Figure, as_sum
from convgym.language.lines import (
    JOINTS,
    Line,
    Lines,
    is_asserted,
    is_denied,
    is_denied_far,
    is_general,
    is_hedged,
    is_idle,
    is_nothing,
    is_now,
    is_unreal,
)
from convgym.language.moods import taken_back
from convgym.language.spans import Hit

Told = tuple[int, str, str]
"""(place, fact, value)."""

# -- facts -----------------------------------------------------------------------------------------

REACH = 7
"""Words between a name and the figure behind it."""
_ROUGHLY = frozenset(
    "about around roughly approximately nearly almost circa ca least most than under over below "
    "above between beyond max min maximum minimum upto to starting".split()
)
_ROUGH_PAIRS = frozenset((("up", "to"), ("at", "least"), ("at", "most"), ("or", "so"),
                          ("or", "more"), ("or", "less"), ("starting", "from")))  # fmt: skip
_WRONG_DAY = frozenset("before after except between from since not than".split())
_LIMIT = frozenset("and or to , per".split())
_ZERO = frozenset(("no", "zero"))
_ZERO_TAIL = frozenset(
    "on for to at is applies here and , available possible that today now you in or due yet "
    "any all with fee charge charges".split()
)
_FREE = frozenset("late any delivery shipping single".split())


def facts_told(line: Line, facts: Mapping[str, Fact]) -> list[Told]:
    """The facts that it tells, in order."""
    if not (line.of("name") or line.of("value")) or is_idle(line):
        return []
    return sorted((*_figured(line, facts), *_worded(line, facts), *_texts(line, facts)))


def untold(line: Line, facts: Mapping[str, Fact]) -> list[Told]:
    """The values of which it says that they are not so."""
    if line.question or not ("negation" in line.places or "unable" in line.places):
        return []
    words = [
        (hit.start, hit.name, hit.value)
        for hit in line.of("value")
        if is_denied(line, hit.start, 2)
    ]
    numbers = [
        (figure.start, name.name, _value(facts[name.name], figure))
        for name, figure in _attached(line, facts)
        if is_denied_far(line, figure.start)
    ]
    return words + numbers


def _figured(line: Line, facts: Mapping[str, Fact]) -> list[Told]:
    """Figures that are told, and those that are said to be nothing."""
    if "name" not in line.hits:
        return []
    attached = _attached(line, facts)
    told = [
        (figure.start, name.name, _value(facts[name.name], figure))
        for name, figure in attached
        if _is_told(line, name, figure)
    ]
    used = {name for name, _ in attached}
    for name in line.of("name"):
        if name not in used and facts[name.name].kind in ("money", "percent"):
            if _is_none(line, name):
                told.append((name.start, name.name, "0"))
    return told


def _value(fact: Fact, figure: Figure) -> str:
    return as_sum(figure.value) if fact.kind == "money" else figure.value


def _attached(line: Line, facts: Mapping[str, Fact]) -> list[tuple[Hit, Figure]]:
    """Each figure with the nearest name that takes its kind, each name with one figure."""
    names = [hit for hit in line.of("name") if facts[hit.name].kind in _FIGURED]
    if not names or not line.figures:
        return []
    pairs = sorted(
        (distance, name.start, figure.start, name, figure)
        for name in names
        for figure in line.figures
        if (distance := _distance(line, name, figure, facts[name.name].kind)) >= 0
    )
    found: list[tuple[Hit, Figure]] = []
    for _, _, _, name, figure in pairs:
        if not any(name.start == n.start or figure is f for n, f in found):
            found.append((name, figure))
    return found


_FIGURED = ("money", "percent", "date", "number")
_AS_MONEY = frozenset("for and in now here today total at on , per this that".split())


def _distance(line: Line, name: Hit, figure: Figure, kind: str) -> int:
    """Words between a name and a figure of its kind; -1 where they do not belong together."""
    tokens = line.tokens
    if figure.start - name.end > REACH or name.start - figure.end > 1:
        return -1
    if figure.kind != kind:
        bare = kind == "money" and figure.kind == "number"
        after = tokens[figure.end : figure.end + 1]
        if not bare or (after and after[0] not in _AS_MONEY):
            return -1
    if figure.end <= name.start:
        between = tokens[figure.end : name.start]
        near = not between or between in (["of"], ["in"], ["late"])
        return len(between) if near else -1
    if tokens[figure.start] == "one" or figure.start < name.end:
        return -1
    between = tokens[name.end : figure.start]
    if not _LIMIT.isdisjoint(set(between) - {"to"}):
        return -1
    if any(name.end <= f.start < figure.start for f in line.figures):
        return -1
    return len(between)


def _is_told(line: Line, name: Hit, figure: Figure) -> bool:
    tokens, first = line.tokens, min(name.start, figure.start)
    before = tokens[max(0, figure.start - 2) : figure.start]
    if figure.start < name.start or figure.kind != "date":
        rough = not _ROUGHLY.isdisjoint(set(before) - _comes_to(before))
    else:
        outside = tokens[max(name.end, figure.start - 2) : figure.start]
        rough = not _WRONG_DAY.isdisjoint(outside)
    after = tuple(tokens[figure.end : figure.end + 2])
    if rough or after in _ROUGH_PAIRS or after[:1] in (("or",), ("to",), ("per",)):
        return False
    if tokens[figure.start - 1 : figure.start] == ["or"] or _is_long_ago(after, figure):
        return False
    if tokens[name.start - 1 : name.start] in _OTHER_ONES or is_denied_after(line, figure.end):
        return False
    if is_denied_far(line, max(name.start, figure.start)) or _is_listed(line, figure):
        return False
    if not (is_asserted(line, first) and is_asserted(line, figure.start)):
        return False
    return not is_unreal(line, max(name.start, figure.start))


_WOULD = frozenset("would could might".split())
_OTHER_ONES = tuple(
    [word]
    for word in (
        "old maximum minimum usual normal average previous typical former last regular standard "
        "highest lowest original max min"
    ).split()
)


def is_denied_after(line: Line, place: int) -> bool:
    """A "not" or an inability follows in the clause: "a fine of $5 is out of the question"."""
    no = [at for at in line.sentence.at("negation", "unable") if at >= place]
    if not _WOULD.isdisjoint(line.words):
        no += [at for at, token in enumerate(line.tokens) if at >= place and token in _WOULD]
    return any(JOINTS.isdisjoint(line.tokens[place:at]) for at in no)


def _is_long_ago(after: tuple[str, ...], figure: Figure) -> bool:
    """"14 March 1999"."""
    year = after[0] if after and figure.kind == "date" else ""
    return len(year) == 4 and year.isdecimal() and not year.startswith("20")


def _is_listed(line: Line, figure: Figure) -> bool:
    """One of several: "$1, $2 or $3", "between $2 and $5"."""
    tokens = line.tokens
    if "between" in line.words and "between" in tokens[: figure.start]:
        return True
    for other in line.figures:
        if other.kind == figure.kind and other is not figure:
            first, last = sorted((figure, other), key=lambda f: f.start)
            if _SERIES.issuperset(tokens[first.end : last.start]):
                return True
    return False


_SERIES = frozenset((",", "or", "and", "to"))


def _comes_to(before: list[str]) -> set[str]:
    """"Comes to $3" is exact, "up to $3" is not."""
    return {"to"} if before[-2:-1] in (["comes"], ["come"], ["amounts"]) else set()


def _is_none(line: Line, name: Hit) -> bool:
    """"There's no fine", "no late fee applies"; not "no fine of $5"."""
    tokens = line.tokens
    at = name.start - 1
    while at >= 0 and tokens[at] in _FREE:
        at -= 1
    if at < 0 or tokens[at] not in _ZERO:
        return False
    follows = tokens[name.end : name.end + 1]
    if follows and follows[0] not in _ZERO_TAIL:
        return False
    if any(figure.kind in ("money", "percent") for figure in line.figures):
        return False
    return not (taken_back(line.sentence, at, "governor", "unsaid") or is_unreal(line, at))


def _worded(line: Line, facts: Mapping[str, Fact]) -> list[Told]:
    """Values in words, each behind or beside a name of its fact, where that has names."""
    told = []
    if "value" not in line.hits or is_general(line):
        return []
    for hit in line.of("value"):
        fact = facts[hit.name]
        if fact.names and not _stands_by(line, hit):
            continue
        if line.tokens[hit.start - 1 : hit.start] in (["or"], ["being"]):
            continue
        if not is_now(line, hit.start) or is_nothing(line, hit.end) or _once(line, hit):
            continue
        told.append((hit.start, hit.name, hit.value))
    return told


_PAST = frozenset("last yesterday ago earlier before originally once".split())
_WAS = frozenset(("was", "were", "had"))


def _once(line: Line, hit: Hit) -> bool:
    """"It was in stock last week", but not "it was delivered yesterday"."""
    if any(token.endswith("ed") for token in line.tokens[hit.start : hit.end]):
        return False
    if _PAST.isdisjoint(line.words):
        return False
    before = line.tokens[max(0, hit.start - 2) : hit.start]
    return not _WAS.isdisjoint(before) and not _PAST.isdisjoint(line.tokens[hit.end :])


def _stands_by(line: Line, value: Hit) -> bool:
    """A name of the fact stands in the same clause, before the value or right behind it."""
    for name in line.of("name"):
        if name.name != value.name:
            continue
        if name.end <= value.start <= name.end + REACH:
            return "," not in line.tokens[name.end : value.start]
        if value.end <= name.start <= value.end + 1:
            return True
    return False


_LINKS = frozenset("is was are its".split())
_LONGEST_TEXT = 6


def _texts(line: Line, facts: Mapping[str, Fact]) -> list[Told]:
    """What follows a name and an "is", up to the next comma."""
    told = []
    for name in line.of("name"):
        if facts[name.name].kind != "text":
            continue
        rest = line.tokens[name.end :]
        rest = rest[1:] if rest[:1] and rest[0] in _LINKS else rest
        words = rest[: rest.index(",")] if "," in rest else rest
        if not words or len(words) > _LONGEST_TEXT or words[0] in ("not", "no", "unknown"):
            continue
        if is_now(line, name.start):
            told.append((name.start, name.name, " ".join(words)))
    return told


# -- recommendations -------------------------------------------------------------------------------

_NOT_THIS = frozenset("over than instead rather not except unlike against from wouldnt".split())
_FAVOURED = 8
"""Words between a recommendation and its object."""


def recommended(line: Line, before: Lines) -> list[Hit]:
    """The objects that it recommends, in order."""
    if not line.named or line.staged or is_hedged(line) or "rule" in line.places:
        return []
    s, cues = line.sentence, line.of("recommending")
    if s.question and not any(hit.start <= 3 for hit in cues):
        return []
    if s.question and line.tokens[0] in ("do", "did", "does", "have", "can", "who", "why"):
        return []
    if line.has("governor", "condition") or (not cues and not _listed(line, before)):
        return []
    found = []
    for hit in line.named:
        if line.sentence.word_before(_NOT_THIS, hit.start, 3) or is_denied(line, hit.start, 6):
            continue
        if not cues or any(
            cue.end <= hit.start <= cue.end + _FAVOURED or hit.end <= cue.start <= hit.end + 4
            for cue in cues
            if not (is_denied(line, cue.start) or taken_back(s, cue.start, "unsaid"))
        ):
            found.append(hit)
    return found


def _listed(line: Line, before: Lines) -> bool:
    """An item of a list below "I can recommend two models"."""
    if line.named[0].start > 1 or len(line.tokens) > 10:
        return False
    for earlier in reversed(before[-4:]):
        if earlier.of("recommending") and not earlier.named:
            return not (earlier.sentence.question or is_idle(earlier) or earlier.has("unable"))
        if not earlier.named or earlier.named[0].start > 1:
            return False
    return False


# -- prices ----------------------------------------------------------------------------------------

_NO_PRICE = frozenset(
    "was were originally original normally usually instead save saves saving saved off under below "
    "above over budget around about least most than between worth rrp list retail elsewhere from "
    "up minus less extra plus spend reduced before once discount rebate deposit another not no "
    "roughly used formerly compared with against add starts starting".split()
)
_NO_PRICE_AFTER = frozenset(
    "off discount less cheaper more budget credit saving savings extra deposit or to per monthly "
    "a an each weekly every yearly annually with plus when after provided next".split()
)
_PRICED = 8
"""Words between what says that a price is named and the price."""
_WOULD_WORK = frozenset("work suit ok okay fine".split())


def quoted(line: Line) -> list[Told]:
    """(place, object, price) of each price that is named for an object."""
    if line.staged or is_hedged(line) or line.has("rule", "condition", "governor"):
        return []
    if line.question and not _suggests(line):
        return []
    taken = {place for place in _belonging(line)}
    found = []
    for figure in line.figures:
        if figure.start in taken or not _is_price(line, figure):
            continue
        if is_denied_far(line, figure.start) or not is_asserted(line, figure.start):
            continue
        if _wished(line, figure.start) or _is_listed(line, figure):
            continue
        if is_denied_after(line, figure.end) or _of_accessory(line, figure):
            continue
        found.append((figure.start, line.object_at(figure.start), as_sum(figure.value)))
    return found


_PRICE_OF = frozenset(
    "price prices cost total offer deal quote it them you that this do sell give let have get is "
    "go recommend pay take".split()
)


def _of_accessory(line: Line, figure: Figure) -> bool:
    """"The case for the Nova 15 costs $29" is no price of the Nova 15."""
    named = [hit for hit in line.named if hit.end <= figure.start]
    if not named:
        return False
    at = named[-1].start - 1
    while at >= 0 and line.tokens[at] in ("the", "your", "a", "this"):
        at -= 1
    if at < 1 or line.tokens[at] not in ("for", "of", "with", "to"):
        return False
    return line.tokens[at - 1] not in _PRICE_OF


def _suggests(line: Line) -> bool:
    """"How about $180?", "would $180 work?" """
    tokens = line.tokens
    if tokens[:2] in (["how", "about"], ["what", "about"]):
        return True
    return tokens[0] == "would" and not _WOULD_WORK.isdisjoint(tokens[1:8])


def _belonging(line: Line) -> set[int]:
    """Places of figures that stand right by the name of a fact."""
    return {
        figure.start
        for figure in line.figures
        for name in line.of("name")
        if 0 <= figure.start - name.end <= 3 or 0 <= name.start - figure.end <= 1
    }


def _is_price(line: Line, figure: Figure) -> bool:
    tokens = line.tokens
    if figure.kind == "number":
        after = tokens[figure.end : figure.end + 1]
        if len(figure.value) < 2 or (after and after[0] not in _AS_MONEY):
            return False
    elif figure.kind != "money":
        return False
    before = tokens[max(0, figure.start - 3) : figure.start]
    if not _NO_PRICE.isdisjoint(before) or tokens[figure.start - 1 : figure.start] == ["or"]:
        return False
    if not _NO_PRICE_AFTER.isdisjoint(tokens[figure.end : figure.end + 1]):
        return False
    if not {"rather", "than"}.isdisjoint(tokens[: figure.start]):
        return False
    if not {"used", "was", "were", "elsewhere", "save", "budget"}.isdisjoint(tokens):
        return False
    named = any(hit.end == figure.start for hit in line.named)
    return (
        (named and figure.kind == "money")
        or any(0 <= figure.start - cue.end <= _PRICED for cue in line.of("quoting"))
        or (figure.kind == "number" and tokens[figure.end : figure.end + 1] == ["for"])
    )


def _wished(line: Line, place: int) -> bool:
    """"You want to pay $899", "you could get it for $899"."""
    tokens = line.tokens[:place]
    wanted = {"want", "wanted", "wish", "pay", "paid", "offered"}
    if "you" in tokens and not wanted.isdisjoint(tokens) and "can" not in tokens:
        return "want" in tokens or "offered" in tokens or "paid" in tokens or "wanted" in tokens
    if not _LUCKY.isdisjoint(tokens):
        return True
    return is_unreal(line, place) and not _suggests(line)


_LUCKY = frozenset(("youd", "theyd", "hed", "shed"))
