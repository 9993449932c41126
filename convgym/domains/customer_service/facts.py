"""What is told of an order: the stage that it is in, and the day on which it arrives or arrived."""

from __future__ import annotations

from convgym.domains.customer_service.claims import STATUS, Claim
from convgym.domains.customer_service.matters import about, is_about_any
from convgym.domains.customer_service.questions import orders_named
from convgym.domains.customer_service.refusals import is_ruled, own_stages
from convgym.language.figures import dates
from convgym.language.moods import taken_back
from convgym.language.understanding import Sentence


def tell_status(s: Sentence, order: str) -> list[Claim]:
    """The stages that are told of orders; `order`: the number of the one in hand."""
    out: list[Claim] = []
    told = [(at, stage, _subject(s, at) or order) for at, stage in own_stages(s)]
    for name in STATUS:
        stands = s.places.get(name, ())
        if any(s.near("negation", at, 2) and not is_ruled(s, at) for at in stands):
            out.append(Claim("untold", "status", name, order))
    last = {(stage, subject): at for at, stage, subject in told}
    for at, stage, subject in told:
        later = range(stage + 1, len(STATUS))
        if not any(at < last.get((other, subject), 0) for other in later):
            # Not "was packed yesterday", where it "is now shipped".
            out.append(Claim("inform", "status", STATUS[stage], subject))
    return out


def _subject(s: Sentence, place: int) -> str:
    """The order number nearest before `place`, else the first in the sentence."""
    named = orders_named(s)
    earlier = [token for at, token in named if at <= place]
    return earlier[-1] if earlier else (named[0][1] if named else "")


def tell_date(s: Sentence, order: str) -> list[Claim]:
    """The day of a delivery: a date is that, unless something else is dated."""
    found = dates(s.tokens)
    if not found or "placed" in s.places or _is_of_another(s):
        return []
    out: list[Claim] = []
    strange = ("return", "refund", "changed", "cancel", "cancelled", *STATUS)
    if not s.has("arrival", "delivered") and s.has(*strange):
        return []
    for place, date in found:
        delivered = s.at("delivered")
        if "window" in s.places and not any(at < place <= at + 4 for at in delivered):
            continue
        if any(s.near("negation", at, 4) and at < place <= at + 4 for at in delivered):
            continue
        if any(s.near("negation", at, 2) and at < place <= at + 4 for at in s.at("arrival")):
            out.append(Claim("untold", "eta", date, _subject(s, place) or order))
            continue
        if any(s.near(stage, place, 3) for stage in STATUS[:3]) and "delivered" in s.places:
            continue  # "shipped on 5 March and delivered on 9 March"
        other = s.near("negation", place, 3) or s.near("other_date", place, 3)
        if not (other or _is_unreal(s, place)):
            out.append(Claim("inform", "eta", date, _subject(s, place) or order))
    return out


def _is_of_another(s: Sentence) -> bool:
    """A subscription began, a charge was made, a refund was paid on that day."""
    if not is_about_any(s):
        if "come_back" in s.places and "us" in s.words:
            return True  # a return
        return not _PAYMENTS.isdisjoint(s.words) and "delivered" not in s.places
    ordered = bool(orders_named(s)) or not _PARCEL.isdisjoint(s.words)
    if ordered and "arrival" in s.places and "delivered" not in s.places:
        return about(s, "refund") or about(s, "billing")
    return not (ordered and "delivered" in s.places)


_PAYMENTS = frozenset("payment payments invoice statement".split())
_PARCEL = frozenset("order parcel package delivery".split())
_NOT_ON = frozenset("before after except between".split())
_NEVER = frozenset("never neither nor".split())
_IF_AT_ALL = frozenset("would could".split())
_SAYING = frozenset("like love say you".split())


def _is_unreal(s: Sentence, place: int) -> bool:
    """The date at `place` is no day of arrival: "after 5 March", "it could arrive on 5 March"."""
    tokens = s.tokens
    if taken_back(s, place, "governor", "unsaid"):
        return True
    if s.word_before(_NOT_ON, place, 3) or s.word_before(_NEVER, place, 6):
        return True
    unreal = [at for at in range(place) if tokens[at] in _IF_AT_ALL]
    if any(_SAYING.isdisjoint(tokens[at + 1 : at + 2]) for at in unreal):
        return True
    return any(
        len(token) == 4 and token.isdigit() and token[:2] != "20"
        for token in tokens[place + 1 : place + 3]
    )
