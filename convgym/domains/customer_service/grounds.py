"""Why an exchange, a refund, an end, a claim or a dispute is refused, and two more rules.

A ground that leaves nothing open refuses by itself ("size M is sold out", "the warranty has
expired"); one that is a mere fact of a record ("it is prepaid", "the charge is pending") refuses
beside an inability, in its sentence or in one next to it.
"""

from __future__ import annotations

from collections.abc import Callable

from convgym.domains.customer_service.matters import HEAP, about, in_play, is_vouched
from convgym.language.moods import Around, awaited, is_planned
from convgym.language.understanding import Sentence

WHATEVER = "whatever"
"""A sentence that names grounds of any kind gives none."""
_MOST = 2
_FAMILIES = (
    ("sold_out",), ("minimum_term", "prepaid"), ("claim",), ("charge", "valid"), ("come_back",),
)  # fmt: skip
_NEAR = 3
"""Sentences to either side in which the matter, or the inability, may be named."""


def ground(s: Sentence, around: Around) -> str:
    """The reason for which this sentence refuses; empty where it refuses for none of these."""
    if s.has("rule", "withheld") or s.tokens[0] in _CONDITIONS:
        return ""
    if s.has(HEAP) or sum(s.has(*marks) for marks in _FAMILIES) > _MOST:
        return WHATEVER
    near = (s, *around[: 2 * _NEAR])
    for reason, holds in _GROUNDS.items():
        if holds(s, near):
            return reason
    return ""


_CONDITIONS = frozenset("if once when whenever unless".split())


def may_ground(s: Sentence) -> bool:
    """A quick look, whether there is anything to read at all."""
    return in_play(s) and (s.has_any(_MARKS) or not _BEFORE.isdisjoint(s.words))


_MARKS = frozenset((
    "sold_out", "in_stock", "come_back", "at_ours", "no_trace", "pending", "in_time",
    "prepaid", "minimum_term", "not_over", "covers", "excluded", "expired", "lasts",
    "too_late", "valid", "belongs", "too_many", "unserved", "cannot_reach",
))  # fmt: skip


# -- in what mood ----------------------------------------------------------------------------------


def _stands(s: Sentence, at: int) -> bool:
    """What is at `at` is said now: not denied, awaited, doubted or willed."""
    if s.near("negation", at, 5) or awaited(s, at) or is_planned(s, at):
        return False
    return is_vouched(s, at)


def _denied(s: Sentence, at: int, reach: int = 6) -> bool:
    """What is at `at` is said not to be."""
    if not is_vouched(s, at) or awaited(s, at):
        return False
    return s.near("negation", at, reach) or s.near("unable", at, reach)


def _said(s: Sentence, mark: str) -> bool:
    return any(_stands(s, at) for at in s.at(mark))


def _unable(near: Around) -> bool:
    """It cannot be, here or in a sentence beside it."""
    return any(
        n.has("unable", "not_over") or ("only" in n.words and "only" in n.places) or _none_is(n)
        for n in near
        if not n.question and (n is near[0] or not n.has(*_OF_ORDERS))
    )


_OF_ORDERS = ("cancel", "address", "new_address", "return")
"""What else may be impossible in the sentence beside."""


_DEEDS = frozenset("credit refund claim exchange dispute termination cancellation".split())


def _none_is(s: Sentence) -> bool:
    """"No credit can be issued." """
    return any(
        token == "no" and not _DEEDS.isdisjoint(s.tokens[at + 1 : at + 2])
        for at, token in enumerate(s.tokens)
    )


def _near(near: Around, *matters: str) -> bool:
    return any(about(n, matter) for n in near for matter in matters)


# -- stock -----------------------------------------------------------------------------------------

_LEFT = frozenset("no none nothing not havent dont hold hold any".split())


def _out_of_stock(s: Sentence, near: Around) -> bool:
    if not (s.has("sold_out", "in_stock") or "left" in s.words):
        return False
    if not (_near(near, "exchange") or any(_is_of_wares(n) for n in near)):
        return False
    if s.tokens[0] in _WHAT and "this" not in s.words:
        return False  # "what is not in stock cannot be sent"
    if any(_stands(s, at) for at in s.at("sold_out")):
        return True
    if any(_denied(s, at) or "no" in s.tokens[at : at + 3] for at in s.at("in_stock")):
        return True
    left = [at for at, token in enumerate(s.tokens) if token == "left"]
    return any(s.word_before(_LEFT, at, 6) for at in left) and _near(near, "exchange")


_WARES = frozenset("size colour color black white blue red green variant item xl".split())
_WHAT = frozenset(("what", "whatever", "anything", "items", "variants"))


def _is_of_wares(s: Sentence) -> bool:
    return s.has("size_word", "waitlist", "when_back") or not _WARES.isdisjoint(s.words)


# -- refunds ---------------------------------------------------------------------------------------

_OURS = frozenset(
    "us we our warehouse here back record records log desk weve id im returns in".split()
)
_NEVER = frozenset("never nothing no without".split())


def _no_return_received(s: Sentence, near: Around) -> bool:
    if "no_trace" in s.places and (_near(near, "refund") or "return" in s.places):
        return is_vouched(s, s.at("no_trace")[0])
    if "at_ours" in s.places and _HOUSE.intersection(s.words):
        return all(is_vouched(s, at) and not awaited(s, at) for at in s.at("at_ours"))
    if not _near(near, "refund"):
        return False
    if "come_back" not in s.places or _OURS.isdisjoint(s.words):
        return False
    places = s.at("come_back")
    missing = any(_denied(s, at, 8) or s.word_before(_NEVER, at, 8) for at in places)
    missing = missing or any(s.tokens[at] in ("no", "missing") for at in places)
    waits = "days" not in s.places and any(awaited(s, at) for at in places)
    waits = waits and _unable(near)
    return (missing or waits) and all(is_vouched(s, at) for at in places)


_HOUSE = frozenset("warehouse back us".split())


def _refund_pending(s: Sentence, near: Around) -> bool:
    if not _near(near, "refund") or _near((s,), "billing"):
        return False
    if not s.has("pending", "in_time"):
        return False
    late = [n for n in near if n.has("unable", "not_over", "wait", "in_time") and not n.question]
    held = any(n.has("unable", "not_over") or not _WAITING.isdisjoint(n.words) for n in late)
    places = s.at("pending", "in_time")
    return held and any(is_vouched(s, at) for at in places)


_WAITING = frozenset("wait longer soon patient".split())


# -- subscriptions ---------------------------------------------------------------------------------


_ENDING = frozenset(
    "end ended ending terminate terminated terminating cancelled stopped stop".split()
)


def _to_end(near: Around) -> bool:
    """It is about ending a subscription."""
    return _near(near, "subscription") or any(not _ENDING.isdisjoint(n.words) for n in near)


def _prepaid(s: Sentence, near: Around) -> bool:
    return "prepaid" in s.places and _to_end(near) and _unable(near) and _said(s, "prepaid")


def _minimum_term(s: Sentence, near: Around) -> bool:
    months = [at for at, token in enumerate(s.tokens) if token in _TERM]
    if not (months or "minimum_term" in s.places):
        return False
    if not (_to_end(near) or ("minimum_term" in s.places and s.has("not_over", "unable"))):
        return False
    if "prepaid" in s.places and "minimum_term" not in s.places:
        return False
    if not all(is_vouched(s, at) for at in (*s.at("minimum_term"), *months)):
        return False
    if "not_over" in s.places and "paid_month" not in s.places:
        return True
    if "minimum_term" in s.places:
        waits = any(s.word_before(_BEFORE, at, 7) for at in s.at("minimum_term"))
        return _unable(near) and (waits or not _said(s, "expired"))
    first = [at for at in months if s.word_before(_BEFORE, at, 7)]
    return bool(first) and (_unable((s,)) or "only" in s.words)


_TERM = frozenset("months month term commitment".split())
_BEFORE = frozenset("before until after till".split())


# -- warranties ------------------------------------------------------------------------------------


def _in_warranty(near: Around) -> bool:
    return _near(near, "warranty")


_DAMAGES = frozenset("crack cracks cracked water damage damages defect defects fall drop".split())


def _not_covered(s: Sentence, near: Around) -> bool:
    if not s.has("covers", "excluded"):
        return False
    if not (_in_warranty(near) or _DAMAGES.intersection(s.words)):
        return False
    if any(_stands(s, at) for at in s.at("excluded")):
        return True
    covers = s.at("covers")
    return any(_denied(s, at, 8) or s.tokens[at + 1 : at + 2] == ["neither"] for at in covers)


def _out_of_warranty(s: Sentence, near: Around) -> bool:
    if not _in_warranty(near) or _near((s,), "exchange", "subscription", "billing"):
        return False
    if "expired" in s.places and ("warranty" in s.words or _near((s,), "warranty")):
        for at in s.at("expired"):
            if _stands(s, at) and not s.near("condition", at, 8):
                return True
    if "lasts" in s.places and _unable(near):
        return any(is_vouched(s, at) for at in s.at("lasts"))
    return False


# -- charges ---------------------------------------------------------------------------------------


_CREDITING = frozenset("dispute disputed credit credited reverse reversed".split())


def _to_credit(near: Around) -> bool:
    """It is about crediting a charge."""
    return _near(near, "billing") or any(
        "unable" in n.places and not _CREDITING.isdisjoint(n.words) for n in near
    )


def _charge_pending(s: Sentence, near: Around) -> bool:
    if not ("pending" in s.places and _to_credit(near) and (_unable(near) or "only" in s.words)):
        return False
    for at in s.at("pending"):
        if not is_vouched(s, at):
            continue
        if awaited(s, at):
            return True
        if s.near("unable", at, 4):
            continue
        if s.tokens[at] in ("pending", "reserved", "only", "not") or s.near("negation", at, 5):
            return not (s.tokens[at] == "pending" and s.near("negation", at, 3))
    return False


def _dispute_late(s: Sentence, near: Around) -> bool:
    if not (_near(near, "billing") and s.has("too_late", "expired")):
        return False
    places = [*s.at("too_late"), *(at for at in s.at("expired") if s.has("too_late", "days"))]
    if not any(_stands(s, at) for at in places):
        return False
    if "expired" in s.places and "too_late" in s.places:
        return True
    if {"late", "old", "ago", "far"}.intersection(s.words):
        return True
    return _unable((s,)) or s.has("exceeding", "over")


def _charge_valid(s: Sentence, near: Around) -> bool:
    if not _near(near, "billing"):
        return False
    if any(_is_valid(s, at) for at in s.at("valid")):
        return True
    return bool("belongs" in s.places and _said(s, "belongs") and _unable((s, *near[1:2])))


_ITS = frozenset("charge it its thats amount charged charges proves find is".split())


def _is_valid(s: Sentence, at: int) -> bool:
    denied = s.near("negation", at, 5) or awaited(s, at) or not is_vouched(s, at)
    denied = denied or s.tokens[at - 1 : at] == ["the"]  # "the right charge"
    return _of_charge(s, at) and not denied


def _of_charge(s: Sentence, at: int) -> bool:
    """The charge is valid, and not your address is correct."""
    if s.tokens[at] == "right" and s.tokens[at + 1 : at + 2] in (["away"], ["now"]):
        return False
    if s.tokens[at] == "nothing":
        return True
    return s.word_before(_ITS, at, 8) or "charge" in s.tokens[at : at + 3]


# -- two more --------------------------------------------------------------------------------------


def _too_many_returns(s: Sentence, near: Around) -> bool:
    if "too_many" not in s.places:
        return False
    returns = (
        "return" in s.places or "returns" in s.words or any("return" in n.places for n in near)
    )
    counted = any("this_year" in n.places for n in near) or "account" in s.words
    if not (returns and counted):
        return False
    return any(_stands(s, at) for at in s.at("too_many"))


def _not_served(s: Sentence, near: Around) -> bool:
    if any(is_vouched(s, at) and not awaited(s, at) for at in s.at("unserved")):
        return True
    return any(is_vouched(s, at) and _is_town(s, at) for at in s.at("cannot_reach"))


_YOURS = frozenset("your the another a it you this both two an any".split())
_TRANSPORT = frozenset(("deliver", "ship"))


def _is_town(s: Sentence, at: int) -> bool:
    """"Not able to deliver to Derby", but not "to your new address"."""
    verb = next(p for p in range(at, len(s.tokens)) if s.tokens[p] in _TRANSPORT)
    return _YOURS.isdisjoint(s.tokens[verb + 2 : verb + 3])


_GROUNDS: dict[str, Callable[[Sentence, Around], bool]] = {
    "too_many_returns": _too_many_returns,
    "not_served": _not_served,
    "out_of_stock": _out_of_stock,
    "no_return_received": _no_return_received,
    "refund_pending": _refund_pending,
    "minimum_term": _minimum_term,
    "prepaid": _prepaid,
    "out_of_warranty": _out_of_warranty,
    "not_covered": _not_covered,
    "charge_pending": _charge_pending,
    "dispute_late": _dispute_late,
    "charge_valid": _charge_valid,
}
