"""Writes that a reply says are done: cancelled, a return created, an address changed.

Said to be done is what stands in the past or the passive ("has been", "I have", a bare
participle), not what is promised, wanted, possible or denied.
"""

from __future__ import annotations

from convgym.language.figures import MONTHS
from convgym.language.moods import Around, announced, awaited, is_planned, taken_back
from convgym.language.understanding import Sentence

_MONTH_NAMES = frozenset(month.lower() for month in MONTHS)
_TOPICS = (
    "return", "cancel", "address", "new_address", "refund", "fee", "no_fee", "reason", "credit",
)  # fmt: skip
"""What a participle can be about: "the refund is made" reports no return."""
_SAME_FORM = frozenset(("set", "put", "made"))
"""Participles that look like the infinitive, or may stand before a plain noun."""
_READY = frozenset((("in", "place"), ("all", "set"), ("set", "up")))
_ARTICLES = frozenset(("the", "a", "your", "any"))
_NO_STREET = frozenset("% percent days day in to is on and for will a".split()) | _MONTH_NAMES
_FROM = frozenset(("from", "of", "than"))
_TOWARDS = frozenset(("to", "is", "at"))
_STREETS = frozenset(
    "street avenue road lane view close drive way court place square row terrace crescent "
    "gardens grove hill walk mews boulevard rd ave quay wharf parade st".split()
)


def place_named(s: Sentence) -> str:
    """The street with its number, "7 harbour view"; of two the one that is not left behind."""
    tokens, found = s.tokens, []
    if _STREETS.isdisjoint(s.words):
        return ""
    for place, token in enumerate(tokens):
        if token not in _STREETS:
            continue
        for at in range(place - 1, max(-1, place - 4), -1):
            if tokens[at] in _NO_STREET:
                break
            if tokens[at][0].isdigit():
                if at < place - 1 or token not in ("close", "view", "place"):
                    left = s.word_before(_FROM, at, 1)
                    found.append((left, -at, " ".join(tokens[at : place + 1])))
                break
    return min(found)[2] if found else ""


_AFTER = frozenset(
    "yes no is are was so or and for to please right correct ok okay instead now then today as if "
    "on before with from when once do does shall should can could may would will have has that "
    "this it its the your my i ill im you we sure confirm confirmed agreed go going not rather "
    "just only by at until which where thanks done updated saved active down through alright "
    "good great fine set over immediately straight y all check and of a".split()
)
"""Words that go on after a place and are no part of it."""
ELSEWHERE = "elsewhere"
"""A place that is none: "somewhere in Siberia"; nobody wants it."""
_OLD_WORDS = frozenset("the your you yours it its this that what one where new reflect be".split())


def place_told(s: Sentence) -> str:
    """The place of `place_named` with the town that follows it; "elsewhere" where it is not one."""
    named = place_named(s)
    if not named:
        return ELSEWHERE if _is_elsewhere(s) else ""
    street, tokens = named.split(), s.tokens
    begin = next(at for at in range(len(tokens)) if tokens[at : at + len(street)] == street)
    end = begin + len(street)
    if s.word_before(_FROM, begin, 1) or _is_one_of_two(tokens[end : end + 3]):
        return ELSEWHERE
    return " ".join((named, *_town(tokens[end:])))


def _is_elsewhere(s: Sentence) -> bool:
    """"The address was changed to Siberia"."""
    for place in s.at("changed"):
        rest = s.tokens[place + 1 :]
        if "to" in rest and s.has("address", "new_address"):
            goal = rest[rest.index("to") + 1 :][:1]
            return bool(goal) and goal[0] not in _OLD_WORDS and not goal[0][0].isdigit()
    return False


def _is_one_of_two(rest: list[str]) -> bool:
    """"… or my mother's flat", "… or to 5 Mill Lane"."""
    if "or" not in rest[:2]:
        return False
    other = rest[rest.index("or") + 1 :][:1]
    return other in (["to"], ["my"], ["your"], ["at"], ["somewhere"], ["another"]) or (
        bool(other) and other[0][0].isdigit()
    )


def _town(rest: list[str]) -> list[str]:
    """The words right after a street that can be a town: ", Exeter", "in Exeter"."""
    introduced = rest[:1] in ([","], ["in"])
    town: list[str] = []
    for token in rest[introduced:]:
        if token == "," or token in _AFTER or not token.isalpha():
            break
        town.append(token)
    ends = len(town) + introduced == len(rest)
    return town if len(town) <= 2 and (introduced or ends) else []


def street_named(s: Sentence) -> bool:
    """A street without its number: "to Park Lane"."""
    return not _STREETS.isdisjoint(s.words) and any(
        token in _STREETS and place > 1 and s.word_before(_TOWARDS, place, 3)
        for place, token in enumerate(s.tokens)
    )


def unreported(s: Sentence) -> list[str]:
    """The writes of which this sentence says that they are not done."""
    found = ["cancel"] if any(s.near("negation", p, 4) for p in s.at("cancelled")) else []
    found += ["cancel"] * ("undid" in s.places and "cancel" in s.places)
    for place in s.at("created", "changed"):
        if s.near("negation", place, 4) and not is_planned(s, place):
            topic = _topic(s, place)
            found += [topic.replace("new_", "")] if "address" in topic or topic == "return" else []
    return found


def reported(s: Sentence, before: Around) -> list[str]:
    """The writes that this sentence reports."""
    managed = any(not s.near("negation", place, 3) for place in s.at("managed"))
    topics = {_topic(s, place) for place in s.at("created") if is_past(s, place)}
    if any(is_past(s, p) and not _is_attributive(s, p) for p in s.at("cancelled")):
        topics.add("cancel")
    found = [
        write for write in ("cancel", "return") if write in topics or (managed and s.has(write))
    ]
    if (
        s.tokens[-1] == "in"
        and len(s.tokens) <= 5
        and not ("negation" in s.places or any(token.endswith("ing") for token in s.tokens))
        and (len(s.tokens) - 2 in s.at("return") or "is" in s.words)
        and "return" in s.places
    ):
        found.append("return")  # "the return's in"
    return [*found, "address"] if _address_changed(s, before, managed) else found


def _topic(s: Sentence, place: int) -> str:
    """What is done at `place`: the first topic of its clause, else the first that follows."""
    told = sorted((at, concept) for concept in _TOPICS for at in s.places.get(concept, ()))
    commas = [at for at, token in enumerate(s.tokens[:place]) if token == ","]
    begin = commas[-1] if commas else 0
    inside = [concept for at, concept in told if begin <= at < place]
    after = [concept for at, concept in told if at >= place]
    return next(iter((*inside, *after, *(concept for _, concept in told))), "")


_DONE_BEFORE = tuple([w] for w in "been was were is are now ive weve just already has".split())


def is_past(s: Sentence, place: int) -> bool:
    """Done, not to be done: no "not", "cannot" or "will" that reaches `place`."""
    if s.near("negation", place, 4) or s.near("unable", place, 5) or awaited(s, place):
        return False
    if _is_undone(s, place) or taken_back(s, place, "governor", "unsaid"):
        return False
    if tuple(s.tokens[place : place + 2]) in _READY and s.tokens[place + 2 : place + 3] == ["for"]:
        if any(place + 2 < at <= place + 6 for at in s.at(*_TOPICS, "changed")):
            return False  # "everything is in place for the cancellation"
    if s.tokens[place] in _SAME_FORM and len(s.tokens) > 4 and not s.near("passive", place, 4):
        return False
    if is_planned(s, place):
        return False
    return s.tokens[place - 1 : place][:1] in _DONE_BEFORE or not announced(s, place)


def _is_undone(s: Sentence, place: int) -> bool:
    """"The cancellation of W48213 was cancelled"."""
    return any(
        s.tokens[at + 1 : at + 2] == ["of"] and "," not in s.tokens[at:place]
        for at in range(max(0, place - 8), place)
        if s.tokens[at] == "cancellation" and place in s.at("cancelled")
    )


def _is_attributive(s: Sentence, place: int) -> bool:
    """"the cancelled order" reports nothing."""
    noun = s.tokens[place + 1 : place + 2]
    return noun in (["order"], ["item"]) and s.word_before(_ARTICLES, place, 1)


def _address_changed(s: Sentence, before: Around, managed: bool) -> bool:
    changed = [place for place in s.at("changed", "stored") if is_past(s, place)]
    if "no_street" in s.places:
        return False  # "your e-mail address has been changed"
    if place_named(s):
        return "confirm" not in s.places and (
            bool(changed or managed)
            or "routed" in s.places
            or ("address" in s.places and "now" in s.words)
            or ("now" in s.words and any(_said_changed(n) for n in before[-1:]))
            or any(is_past(s, place) for place in s.at("created"))
            or any("created" in n.places and len(n.tokens) <= 3 for n in before[-1:])
        )
    if not s.has("refund", "original", "credit", "unable") and any(
        is_past(s, place) for place in s.at("readdressed")
    ):
        return not s.question
    if not s.has("address", "new_address"):
        return False
    if managed and "changed" in s.places:
        return True
    # "The address was updated" and "we have updated it", but not "the updated address".
    first = min(s.at("address", "new_address"))
    return any(
        s.tokens[p].endswith(("ed", "set")) and (s.near("passive", p, 4) or first < p)
        for p in changed
    )


def _said_changed(s: Sentence) -> bool:
    return not s.question and any(
        is_past(s, place) and s.tokens[place].endswith("ed") for place in s.at("changed")
    )
