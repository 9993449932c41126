"""Refusals and what is offered in their place, read from sentences of an agent's reply.

A refusal is an inability ("cannot", "no longer", "only before") with a topic (cancel, return,
address, identity) and often a ground (shipped, the window, final sale). Topic and ground may
stand in the sentences around, as in a bulleted reply.
"""

from __future__ import annotations

from collections.abc import Sequence

from convgym.language.understanding import Sentence

LATE = "late"
"""A refusal that says only that it is too late; what for is what the customer asked."""

_AWAITING = frozenset(
    "once when while until till before after unless upon soon moment minute if".split()
)
_GROUNDS = ("processing", "packed", "shipped", "delivered")
Around = Sequence[Sentence]

# The words between a subject and its participle, and those that make a plan of it.
_GROUP = frozenset(
    "been being have has had is are was were am now just already also all successfully "
    "officially fully safely currently still got get gotten its thats theyre".split()
)
_PLANNED = frozenset(
    "be will would shall should can could may might must to ill well id wed youll youd itll "
    "theyll cannot cant wont lets let ask after before by".split()
)
_WANTING = frozenset("want wanted wants like likes need needs prefer wish".split())


def is_planned(s: Sentence, place: int) -> bool:
    """The participle at `place` is willed or expected: "will be", "to have been", "want it"."""
    at = place - 1
    while at >= 0 and s.tokens[at] in _GROUP:
        at -= 1
    if at >= 0 and s.tokens[at] in _PLANNED:
        return True
    return at == place - 1 and s.word_before(_WANTING, place, 6)


def awaited(s: Sentence, place: int) -> bool:
    """What stands at `place` is yet to come: "until it has been delivered"."""
    return s.word_before(_AWAITING, place, 6)


def refusal(s: Sentence, around: Around) -> str:
    """Why something is refused in this sentence; empty where nothing is."""
    blocked = _blocked(s, around)
    anywhere = blocked or any(_blocked(n, ()) for n in around)
    if _is_unverified(s, blocked, anywhere):
        return "unverified"
    if _is_over(s, anywhere):
        return "outside_window"
    if _is_final_sale(s):
        return "final_sale"
    return _by_topic(s, around) if blocked else ""


def _blocked(s: Sentence, around: Around) -> bool:
    """It says that something cannot be, or only under what is not so."""
    if s.has("over") and s.has("cancel", "address") and not s.has("created", "changed", "stored"):
        return True
    if s.has("unable") or (s.has("shut") and s.has("address", "changed", "cancel", "return")):
        return True
    return s.has("only") and (
        s.has("negation") or any(n.has(*_GROUNDS) or _is_undelivered(n) for n in (s, *around))
    )


def _by_topic(s: Sentence, around: Around) -> str:
    if s.has("cancel") or any(s.near("unable", place, 8) for place in s.at("cancelled")):
        return "not_cancellable"
    if s.has("cancelled"):
        return ""  # "it is cancelled and will no longer be sent"
    if s.has("address", "new_address", "routed") or (s.has("changed") and not s.has("return")):
        return "already_shipped"
    near = (s, *around)
    if any(n.has("return") for n in near):
        if any(_is_undelivered(n) for n in near):
            return "not_delivered"
        if s.has("days") or any(_is_over(n, True) for n in near):
            return "outside_window"
        if s.has("return"):
            shown = any(n.has("processing", "packed", "shipped") for n in near)
            return "not_delivered" if shown else ""
    if any(n.has("cancel") for n in around):
        return "not_cancellable"
    if any(n.has("address") for n in around):
        return "already_shipped"
    return LATE if s.has(*_GROUNDS) or any(n.has(*_GROUNDS) for n in around[:1]) else ""


def _is_unverified(s: Sentence, blocked: bool, anywhere: bool) -> bool:
    places = s.at("verify")
    if any(awaited(s, place) for place in places):
        return False
    if places:
        return blocked or s.has("failed") or any(s.near("negation", p, 4) for p in places)
    return s.has("claimed", "postcode") and s.has("failed") and anywhere


def _is_final_sale(s: Sentence) -> bool:
    if s.has("final_sale"):
        return not s.near("negation", s.at("final_sale")[0], 3)
    return "final" in s.tokens and ("sale" in s.tokens or "sales" in s.tokens)


def _is_over(s: Sentence, blocked: bool) -> bool:
    """The time for returns is over; "more than 30 days" says so only beside an inability."""
    places = s.at("over") if s.has("window", "days") else []
    if s.has("window") or (s.has("days") and blocked):
        places += s.at("exceeding")
    return any(not s.near("negation", place, 3) for place in places)


def _is_undelivered(s: Sentence) -> bool:
    """Not arrived yet, or to be awaited: "until it has been delivered"."""
    if s.has("only") and s.has("negation") and s.has("delivered", "arrival"):
        return True
    if s.has("undelivered"):
        return s.has("delivered", "arrival") or "undelivered" in s.tokens
    if any(is_planned(s, place) for place in s.at("delivered")):
        return True
    return any(
        s.near("negation", place, 5) or awaited(s, place) or s.tokens[place + 1 :] == ["no"]
        for place in s.at("delivered", "arrival")
    )


def offers(s: Sentence, before: Around, reason: str, conditional: bool) -> list[str]:
    """What is offered here; `reason` is what the same sentence refuses."""
    found = []
    for concept, offer in (("pickup", "pickup"), ("credit", "store_credit")):
        if s.has(concept) and (concept == "pickup" or offers_credit(s, before)):
            place = s.at(concept)[0]
            if not (s.near("negation", place, 3) or s.near("unable", place, 4)):
                found.append(offer)
    if comes_later(s, before) and reason in ("", "not_cancellable", LATE) and not conditional:
        found.append("return_later")
    return found


def offers_credit(s: Sentence, before: Around) -> bool:
    """Goodwill, or offered without a word of the refund; "rather than your card" is no offer."""
    if s.has("goodwill") or (s.has("offer") and not s.has("refund", "original", "fee")):
        return True
    return len(s.tokens) <= 5 and any(n.has("goodwill") for n in before[-2:])


def comes_later(s: Sentence, before: Around) -> bool:
    """A return after the arrival: "once it is there", "let it come, and then …"."""
    last = before[-1:]
    if s.has("window", "days", "over") or any(s.near("unable", p, 6) for p in s.at("return")):
        return False
    if not s.has("return"):
        return s.has("later") and any(n.has("return") and n.has("offer") for n in last)
    arrives = s.at("arrival", "delivered")
    if s.has("later") or any(awaited(s, place) for place in arrives):
        return True
    follows = s.has("sequence") or any(n.has("offer") for n in before[:-1])
    arrives += s.at("take_in")
    return follows and bool(arrives or any(n.has("arrival", "delivered", "take_in") for n in last))
