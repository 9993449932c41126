"""What a sentence of a sales agent says beyond the common cues: claims, part by part.

    product_claims        what a product has, that it fits, that it is the nearest one
    offered               the add-on, the waitlist, however they are held out
    objections_answered   delivery, trust, a competitor, returns
    delivery_days         "in 3 working days"
    terms_named           the pieces and sums that a yes or a report names

What a newcomer would get wrong: an answer to an objection is harmless, so it needs no more than its
words; what a product has, or when it comes, must be asserted.
"""

from __future__ import annotations

import re

from convgym.domains.sales.descriptions import described, feature_name, short_answer
from convgym.domains.sales.prices import clause_start, named_sums, pieces
from convgym.domains.sales.world import RIVALS
from convgym.language.deeds import verbs
from convgym.language.lines import Line, is_conditional, is_denied, is_idle
from convgym.language.speech import Claim

_ANSWERS = {
    "shipping": "delivery", "trust": "trust", "competitor": "competitor", "returns": "returns",
}  # fmt: skip
ASIDE = (*_ANSWERS, "hold", "sure", "next", "fits")
"""Facts of the cue file that are read here, with moods of their own."""
_BEFORE = 4
"""Sentences before a request for a yes that can name what it is to."""
_ITEM = 9
"""Words of an item in a list of what is ordered, at most."""


def terms_named(act: str, line: Line, before: list[Line]) -> str:
    """What a yes would be to, or what is reported: "pieces 3; sum 1186.55; order S15012"."""
    items = [line]
    if act == "confirm":
        for earlier in reversed(before[-_BEFORE:]):
            if earlier.sentence.question or len(earlier.tokens) > _ITEM:
                break
            items.insert(0, earlier)
    found = []
    for item in items:
        found += [f"pieces {number}" for number in pieces(item)]
        found += [f"sum {value}" for value in named_sums(item)]
        found += [
            f"order {token.upper()}"
            for token in item.tokens
            if token[-1] <= "9" and _ORDER.fullmatch(token)
        ]
    return "; ".join(dict.fromkeys(found))


_ORDER = re.compile(r"[a-z]{1,3}\d{4,6}")


def product_claims(line: Line, before: list[Line]) -> list[tuple[int, Claim]]:
    """Features, short answers for the one that was asked about, and what fits the buyer."""
    told = []
    for place, feature, has, product in described(line, before):
        said = "has" if has else "lacks"
        told.append((place, Claim("feature", said, feature_name(feature), product)))
    if not told and (answer := short_answer(line)) is not None:
        told.append((0, Claim("feature", "has" if answer else "lacks", "asked", line.obj)))
    for name in _best(line):
        told.append((0, Claim("recommend", object=name)))
    for hit in line.hits.get("value", ()):
        if hit.name == "fits" and (product := line.object_at(hit.start)):
            if says(line, "fits") and not is_idle(line):
                told.append((hit.start, Claim("recommend", object=product)))
    if "offer" in line.hits and line.object_at(0) and _offers(line, "nearest"):
        if not (is_idle(line) or line.has("negation")):
            told.append((0, Claim("offer", "nearest")))
    return told


def names_addon(line: Line) -> bool:
    """It speaks of the thing that goes with a product."""
    return _offers(line, "addon")


def _offers(line: Line, name: str) -> bool:
    return any([hit.name == name for hit in line.hits.get("offer", ())])


def _best(line: Line) -> list[str]:
    """"The best match that I have found for you is the Aster Slim." """
    if len(line.named) != 1 or "recommending" not in line.hits or line.question:
        return []
    at = line.named[0].start - 1
    at -= line.tokens[at : at + 1] == ["the"]
    last = line.tokens[at] if at > 0 else ""
    return [line.named[0].value] if last in ("is", "be") and not is_idle(line) else []


SOON = frozenset("soon quick quickly fast wait days day same".split())
_OFFERING = frozenset("offer add include like care interested want one".split())
_THAT = frozenset("that it one this too".split())


_PROPOSES = frozenset("may shall can could would do should might how what perhaps maybe".split())


def offered(line: Line, before: list[Line]) -> list[str]:
    """What it offers: "Shall I include the floor mat?", "we could inform you via our waitlist"."""
    if "offer" not in line.hits:
        if not (line.question and before and "offer" in before[-1].hits):
            return []
    if line.staged:
        return []
    if line.has("quote", "governor", "rule"):
        return []
    if _offers_it(line, before):
        return ["addon"]
    words = line.words
    asks = line.question and not (
        _PROPOSES.isdisjoint(line.tokens[:3]) and _OFFERING.isdisjoint(words)
    )
    able = not _ABLE.isdisjoint(words) and "you" in words
    if not (asks or able) or line.has("negation", "unable") or books(line):
        return []
    return [hit.name for hit in line.of("offer") if hit.name != "nearest" or line.named]


_ABLE = frozenset("can could may possible".split())


def books(line: Line) -> bool:
    """It speaks of an order that the thing belongs to: "shall I book it with the floor mat?"."""
    return any(hit.name == "book" for kind in ("do", "doing", "done") for hit in verbs(line, kind))


def _offers_it(line: Line, before: list[Line]) -> bool:
    """"We also have a floor mat. Would you like one?" """
    if not line.question or len(line.tokens) > 14 or line.of("noun"):
        return False
    named = bool(before) and names_addon(before[-1])
    return named and not (_OFFERING.isdisjoint(line.words) or _THAT.isdisjoint(line.words))


def says(line: Line, name: str) -> bool:
    """A cue of the fact stands there, and is neither denied, asked nor made to depend."""
    stays = name == "hold" and not _STAYING.isdisjoint(line.words)
    if not (stays or "value" in line.hits):
        return False
    if line.question or line.staged or "quote" in line.places:
        return False
    if is_conditional(line) or (name == "hold" and line.has("unable", "hedge")):
        return False
    if stays and _STAYS.search(" ".join(line.tokens)):
        return True
    return any(hit.name == name and not _is_denied(line, hit.start) for hit in line.of("value"))


_STAYING = frozenset("stay staying stick sticking stand standing".split())
_STAYS = re.compile(r"\b(?:stay|stick|stand)(?:ing)? (?:with|to|at|by) (?:the )?\d[\d.]* dollars")


def _is_denied(line: Line, place: int) -> bool:
    """A "not" stands right before it; "no risk: we take it back" is no denial."""
    return is_denied(line, place, 2)


def objections_answered(line: Line) -> list[str]:
    """The objections that it answers."""
    rival = not _RIVALS.isdisjoint(line.words)
    if not (rival or "value" in line.hits):
        return []
    if line.question or line.staged or "quote" in line.places:
        return []
    found = [
        _ANSWERS[hit.name]
        for hit in line.of("value")
        if hit.name in _ANSWERS and not _is_denied(line, hit.start)
    ]
    if rival and not (_OURS_TOO.isdisjoint(line.words) or line.figures):
        found.append("competitor")
    return list(dict.fromkeys(found))


_RIVALS = frozenset(name.lower().split()[0] for name in RIVALS)
_OURS_TOO = frozenset("we us our ours weve were".split())


_WORKING = frozenset("working business work weekdays workday workdays".split())
_DAYS = frozenset("day days workday workdays weekdays".split())
_COMING = frozenset(
    "deliver delivered delivery delivers arrive arrives arriving ship ships shipped shipping "
    "there here receive reach reaches get takes have yours hands doorstep".split()
)
_OTHER_DAYS = frozenset(
    "message email mail hear reply return returns returned refund refunded warranty back "
    "confirmation not cant cannot wont".split()
)


def delivery_days(line: Line) -> list[tuple[str, str]]:
    """(days, product) until it is delivered: "in 3 working days", "delivery takes 3 days"."""
    if _DAYS.isdisjoint(line.words) or is_idle(line):
        return []
    tokens, found = line.tokens, []
    for figure in line.figures:
        at, end = figure.start, figure.end
        clause = tokens[clause_start(tokens, at) : end + 8]
        if not _OTHER_DAYS.isdisjoint(clause):
            continue
        if figure.kind != "number" or _DAYS.isdisjoint(tokens[end : end + 2]):
            continue
        working = not _WORKING.isdisjoint(tokens[end : end + 2])
        rough = not _ROUGH_DAYS.isdisjoint(tokens[max(0, at - 2) : at])
        listed = not {"to", "or"}.isdisjoint((*tokens[at - 1 : at], *tokens[end : end + 1]))
        if (working or not _COMING.isdisjoint(line.words)) and not (rough or listed):
            found.append((figure.value, line.object_at(at)))
    return found


_ROUGH_DAYS = frozenset("about around roughly approximately least between up under".split())
