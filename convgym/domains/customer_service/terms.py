"""What is told of the terms of a change, before the customer says yes to it.

    "A fee of 15% applies."               fee 15
    "It goes back to your card."          channel original
    "We pay the postage."                 postage free
    "It will be repaired."                remedy repair
    "It runs to the end of the month."    ends later
"""

from __future__ import annotations

from convgym.domains.customer_service.changes import variants
from convgym.domains.customer_service.claims import Claim
from convgym.domains.customer_service.matters import HEAP, about, in_play, is_vouched, runs_on
from convgym.domains.customer_service.refusals import offers_credit
from convgym.language.figures import dates, percentages
from convgym.language.moods import Around, awaited, taken_back
from convgym.language.understanding import Sentence


def tell_terms(s: Sentence, before: Around, short: bool) -> list[Claim]:
    """The terms that a sentence tells; `short`: it is but a few words."""
    if s.tokens[0] in _ANYBODY:
        return []
    found = _money_told(s, before, short)
    if in_play(s) and s.has(*_OTHERS) and not s.has(HEAP):
        told = (
            ("postage", _postage(s, before)),
            ("remedy", _remedy(s, before)),
            ("ends", _ends(s, before)),
        )
        found += [Claim("inform", term, value) for term, value in told if value]
    return found


_ANYBODY = frozenset("customers people shoppers everyone buyers others".split())

# -- fee and channel -------------------------------------------------------------------------------

_MONEY = ("fee", "fee_verb", "no_fee", "original", "credit")
_ABOUT = frozenset("about information know whether sure mention".split())


def _money_told(s: Sentence, before: Around, short: bool) -> list[Claim]:
    if not (s.has(*_MONEY) or short):
        return []
    if taken_back(s, min(s.at(*_MONEY), default=0), "governor", "unsaid"):
        return []
    about_fee = s.has("fee", "fee_verb") or (short and any("fee" in n.places for n in before[-1:]))
    percents = percentages(s.tokens) if about_fee else []
    found = [
        Claim("inform", "fee", str(percent))
        for place, percent in percents
        if not (s.near("negation", place, 3) or _is_lifted(s, place))
        and not taken_back(s, place, "unsaid")
    ]
    if not found and ("no_fee" in s.places or ("fee" in s.places and _fee_denied(s))):
        found.append(Claim("inform", "fee", "0"))
    ways = s.at("original", "credit")
    if "original" in s.places and "credit" in s.places and "or" in s.tokens[min(ways) : max(ways)]:
        return found  # one of the two
    for channel in ("original", "credit"):
        places = s.at(channel)
        if not places or s.near("negation", places[0], 5) or s.near("unable", places[0], 5):
            continue
        if channel == "credit" and offers_credit(s, before):
            continue
        if channel == "original" and s.has("fee", "no_fee") and not s.has("refund", "going_back"):
            continue  # "15% of what you originally paid"
        if about(s, "refund") and ("again" in s.places or dates(s.tokens)):
            continue  # "I've sent the refund to your card again" is no term of a return
        found.append(Claim("inform", "channel", channel))
    return found


def _is_lifted(s: Sentence, place: int) -> bool:
    """"You asked about the 10% fee: that won't apply here." """
    denied = [at for at in s.at("negation") if place < at <= place + 6]
    return any(not _APPLYING.isdisjoint(s.tokens[at + 1 : at + 3]) for at in denied)


_APPLYING = frozenset("apply applies charged due be needed".split())


def _fee_denied(s: Sentence) -> bool:
    """A "not" up to six words before "fee", or four after."""
    for place in s.at("fee"):
        if s.word_before(_ABOUT, place, 4):
            continue
        if s.near("negation", place, 6) or s.near("unable", place, 6):
            return True
        if any(place < at <= place + 4 for at in s.at("negation")):
            return True
    return False


# -- postage, remedy, ends -------------------------------------------------------------------------

_OTHERS = ("postage", "swap", "repair", "replace", "at_once", "paid_month")


def _stands(s: Sentence, at: int) -> bool:
    return is_vouched(s, at) and not awaited(s, at)


def _postage(s: Sentence, before: Around) -> str:
    """Who pays for the parcels of an exchange."""
    if not ("postage" in s.places or (about(s, "exchange") and "we_pay" in s.places)):
        return ""
    if "you_pay" in s.places and "we_pay" in s.places and "or" in s.words:
        return ""
    if {"free", "charged"}.issubset(s.words) and "negation" not in s.places:
        return ""
    if "orders" in s.words and _THIS_ONE.isdisjoint(s.words):
        return ""  # a rule: "is free for orders of $50 and more"
    payers = [(at, payer) for at, token in enumerate(s.tokens) if (payer := _payer(s, at, token))]
    for at, payer in payers if "postage" in s.places else ():
        if _stands(s, at):
            denied = s.near("negation", at, 6) or s.near("unable", at, 6)
            denied = denied or not _NONE.isdisjoint(s.tokens[at + 1 : at + 3])
            return "free" if (payer == "we") != denied else "charged"
    for at in s.at("you_pay"):
        if _stands(s, at):
            denied = s.near("negation", at, 3) or "no" in s.tokens[at : at + 5]
            return "free" if denied else "charged"
    for at in s.at("we_pay"):
        if _stands(s, at):
            denied = s.near("negation", at, 4) or s.near("unable", at, 4)
            denied = denied and s.tokens[at] not in ("no", "nothing", "costs", "zero", "without")
            return "charged" if denied else "free"
    if any(s.near("negation", at, 4) for at in s.at("postage")):
        return "free"
    return ""


_THIS_ONE = frozenset("you your yours youll we well it its this that i ill".split())
_NONE = frozenset(("no", "nothing"))
_PAYING = frozenset("pay bear cover carry paying bearing covering".split())
_YOU = frozenset("you youd youll youve".split())
_WE = frozenset("we wed well i ill weve".split())


def _payer(s: Sentence, at: int, token: str) -> str:
    """Who pays, bears or covers at `at`: you, we, or nobody that is named."""
    if token not in _PAYING:
        return ""
    for place in range(at - 1, max(-1, at - 8), -1):
        if s.tokens[place] in _YOU:
            return "you"
        if s.tokens[place] in _WE:
            return "we"
        if s.tokens[place] == ",":
            break
    return ""


_HOW = frozenset("be gets well we get receive send getting receiving entitled".split())
_ELSE = ("address", "new_address", "credit", "placed")


def _remedy(s: Sentence, before: Around) -> str:
    """What the warranty brings."""
    if "self_paid" in s.places or not s.has("repair", "replace"):
        return ""
    if (about(s, "exchange") or variants(s) or s.has(*_ELSE)) and not about(s, "warranty"):
        return ""
    sure = any(about(n, "warranty") or "repairing" in n.places for n in (s, *before[-2:]))
    found = []
    for mark, value in (("repair", "repair"), ("replace", "replacement")):
        for at in s.at(mark):
            if s.near("negation", at, 4) or s.near("unable", at, 6) or not _stands(s, at):
                continue
            if not (sure or (s.word_before(_HOW, at, 3) and s.tokens[at] != "fixed")):
                continue
            if s.tokens[at : at + 2] == ["a", "new"] and not (sure or "defect" in s.places):
                continue
            if len(s.tokens) > 4 and s.tokens[at] in ("repair", "fix") and not s.has(*_VERBAL):
                continue  # a heap of words
            found.append((at, value))
    values = {value for _, value in found}
    return values.pop() if len(values) == 1 else ""


_VERBAL = ("passive", "warranty_gives", "we_do", "repairing")
_BY_US = frozenset("i ill well we id let me lets shall".split())
_RUNNING = frozenset(
    "end ends ended ending stop stops stopped stopping over effect is runs terminates".split()
)


def _ends(s: Sentence, before: Around) -> str:
    """When a subscription stops."""
    if not any(about(n, "subscription") for n in (s, *before[-2:])):
        if not ("paid_month" in s.places or runs_on(s)):
            return ""
    if s.has("minimum_term", "prepaid"):
        return ""
    if "at_once" in s.places and "paid_month" in s.places and "negation" not in s.places:
        return ""
    for at in s.at("paid_month"):
        if is_vouched(s, at) and runs_on(s) and not s.near("negation", at, 9):
            return "later"
    for at in s.at("at_once"):
        if _stands(s, at) and not s.near("negation", at, 5) and _stops(s, at):
            return "now"
    return ""


def _stops(s: Sentence, at: int) -> bool:
    """The subscription stops then; not "I'll stop it at once"."""
    moment = s.tokens[at : at + 2] == ["the", "moment"]  # "the moment we end it, it stops"
    first = moment or s.tokens[at - 1 : at] == ["effective"]  # "effective at once, it stops"
    reach = [*range(max(0, at - 6), at), *(range(at + 3, len(s.tokens)) if first else ())]
    places = [p for p in reach if s.tokens[p] in _RUNNING]
    return any(not s.word_before(_BY_US, p, 2 if moment else 4) for p in places)
