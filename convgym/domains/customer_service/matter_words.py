"""Finds what each sentence of a reply is about, and takes away what its words no longer mean there.

    "Shall I end your coffee box?"       about a subscription
    "It started on 3 May. I ended it."   the second sentence is about what the first is about
    "I've cancelled your wine box."      about a subscription: no order is cancelled
    "The charge C12345 was refunded."    about a charge: it is no fee, and no refund is missing
    "We received your return."           nothing was delivered to the customer
"""

from __future__ import annotations

from collections.abc import Sequence

from convgym.domains.customer_service.matter_deeds import NOUNS, is_deed, note_deeds
from convgym.domains.customer_service.matters import (
    ABOUT,
    ABOUT_ANY,
    ANY,
    HEAP,
    IN_PLAY,
    LETTERS,
    MATTERS,
    about,
    drop,
    is_sum,
    note,
    numbers,
)
from convgym.language.understanding import Sentence

_NAMED_BY = {
    "swap": "exchange",
    "payback": "refund",
    "plan": "subscription",
    "lock": "access",
    "claim": "warranty",
    "charge": "billing",
}
"""The mark that names each matter."""
_SIGNS = (
    *_NAMED_BY, "at_once", "paid_month", "credited", "postage", "repair", "at_ours", "no_trace",
    "come_back", "replace", "broken_down",
)  # fmt: skip
"""Marks of a sentence in which there may be something to note or to take away."""
_TRIGGERS = frozenset(_SIGNS) | frozenset(
    "sold_out in_stock waitlist back_in new_label pause self_paid invoice size_word size_name "
    "which_size instead_of_it like_to_have defect cause_option repairing unserved cannot_reach "
    "too_many minimum_term prepaid covers excluded to_end which_plan which_charge".split()
)
"""Without one of these a reply says nothing of the six matters."""
_MOST = 3
"""Matters that a sentence can be about and still say something."""
_ORDERED = frozenset("order orders purchase parcel package item".split())
_POINTING = frozenset("it this that them these those both one".split())


def settle(sentences: Sequence[Sentence], numbered: bool) -> None:
    """Note in each sentence of a reply what it is about; see the module.

    `numbered`: the reply has numbers of subscriptions or charges in it.
    """
    if not (numbered or any(s.has_any(_TRIGGERS) for s in sentences)):
        return
    last = ""
    for s in sentences:
        s.places[IN_PLAY] = [0]
        _rename_once(s)
        signed = numbered or s.has(*_SIGNS)
        if signed:
            _name(s, numbered)
        if not (signed or last):
            continue
        ordered = not _ORDERED.isdisjoint(s.words)
        if last and not s.has(*ABOUT_ANY) and (not ordered or "credited" in s.places):
            _point(s, last)
        last = _finish(s) or ("" if ordered or numbers(s, "w") else last)


def _rename_once(s: Sentence) -> None:
    """"Once more" is no condition, as "once it has arrived" is."""
    if "once" not in s.words:
        return
    for at, token in enumerate(s.tokens[:-1]):
        if token == "once" and s.tokens[at + 1] in ("more", "again"):
            s.tokens[at] = "anew"
    s.words = frozenset(s.tokens)


def _finish(s: Sentence) -> str:
    """Note the deeds and clear what is no longer meant; the matter that goes on, if any."""
    found = [matter for matter in MATTERS if about(s, matter)]
    if len(found) > _MOST:
        for concept in ABOUT_ANY:
            s.places.pop(concept, None)
        s.places[HEAP] = [0]
        return ""
    if found:
        s.places[ANY] = s.at(*ABOUT_ANY)
        note_deeds(s)
        _clear_of_matters(s)
    _clear_of_goods(s)
    return found[-1] if found else ""


# -- what it is about ------------------------------------------------------------------------------


def _name(s: Sentence, numbered: bool) -> None:
    """Note the matters that are named here."""
    for mark, matter in _NAMED_BY.items():
        note(s, ABOUT[matter], s.places.get(mark, ()))
    if numbered:
        for matter, letter in LETTERS.items():
            note(s, ABOUT[matter], [place for place, _ in numbers(s, letter)])
    _note_replacing(s)
    _unname(s)
    if s.has("at_once", "paid_month"):
        _note_running(s)
    if "credited" in s.places:
        _note_credited(s)


_REPLACING = frozenset("replace replacing replaced".split())


def _note_replacing(s: Sentence) -> None:
    """"Replace size S with size M" is an exchange."""
    if "size_word" in s.places and "replace" in s.places:
        note(s, ABOUT["exchange"], [at for at, t in enumerate(s.tokens) if t in _REPLACING])


_RUNS = frozenset("ends stops runs continues stays remains end stop".split())
_BY_US = frozenset("i we ill well you and let me shall can now gladly id wed just".split())


def _note_running(s: Sentence) -> None:
    """"It stops at once": what else could it be than a subscription."""
    places = [at for at, token in enumerate(s.tokens) if token in _RUNS]
    by_us = any(s.word_before(_BY_US, at, 1) for at in places)
    if not by_us and _ORDERED.isdisjoint(s.words):
        note(s, ABOUT["subscription"], places[:1])


_STORE = frozenset("store shop voucher balance".split())


def _note_credited(s: Sentence) -> None:
    """"The $24.90 has been credited", "shall I give you the $24.90 back?": that is a charge."""
    sums = [at for at, t in enumerate(s.tokens) if is_sum(t) and s.tokens[at - 1] == "the"]
    back = [at for at in s.at("return") if s.tokens[at] == "back"]
    if sums and _STORE.isdisjoint(s.words) and len(back) == len(s.at("return")):
        note(s, ABOUT["billing"], sums)
        drop(s, "return", back)


_FEES = frozenset("restocking restock fee fees".split())
_SHARES = frozenset(("%", "percent", "pct", "cent"))


def _unname(s: Sentence) -> None:
    """Take away what only looks like a matter: "plan B", "free of charge", "swap the address"."""
    for mark, matter, reach in (("no_plan", "subscription", 2), ("no_charge", "billing", 3)):
        for start in s.at(mark):
            drop(s, ABOUT[matter], range(start - 1, start + reach + 1))
    if about(s, "exchange") and s.has("address", "new_address") and "size_word" not in s.places:
        if "exchange" not in s.words:
            del s.places[ABOUT["exchange"]]
    if about(s, "billing") and not (_FEES.isdisjoint(s.words) and _SHARES.isdisjoint(s.words)):
        del s.places[ABOUT["billing"]]
    if about(s, "billing") and about(s, "refund") and "again" not in s.places:
        del s.places[ABOUT["refund"]]  # a charge is refunded


def _point(s: Sentence, matter: str) -> None:
    """"Shall I end it?", of what the sentence before is about."""
    pointing = [at for at, token in enumerate(s.tokens) if token in _POINTING]
    deeds = [at for at, token in enumerate(s.tokens) if is_deed(token, matter)]
    nouns = [at for at, token in enumerate(s.tokens) if token in NOUNS[matter]]
    if nouns or (deeds and (pointing or len(s.tokens) <= _SHORT)):
        note(s, ABOUT[matter], (pointing or nouns or deeds)[:1])


_SHORT = 8
"""Words of a sentence that can do without "it": "Want me to send again?" """

# -- what words no longer mean ---------------------------------------------------------------------

_NOT_OF_ORDERS = (
    ("subscription", "cancel"), ("subscription", "cancelled"), ("billing", "cancel"),
    ("billing", "cancelled"), ("exchange", "cancelled"), ("warranty", "cancelled"),
    ("refund", "cancelled"),
)  # fmt: skip
_MADE = frozenset("processed processing progress".split())
_OURS = frozenset("us we warehouse our here back in".split())


def _clear_of_matters(s: Sentence) -> None:
    """Take away concepts of orders whose words belong to a matter here."""
    for matter, concept in _NOT_OF_ORDERS:
        if about(s, matter) and s.has(concept):
            drop(s, concept, [p for p in s.at(concept) if not _is_of_order(s, p)])
    first = min(s.places[ANY])
    if about(s, "billing"):
        for concept in ("credit", "original", "ask_intent"):
            s.places.pop(concept, None)
        if _FEES.isdisjoint(s.words):
            _clear_fees(s)
            s.places.pop("refund", None)
    if (about(s, "exchange") or about(s, "warranty")) and _FEES.isdisjoint(s.words):
        _clear_fees(s)
    if about(s, "exchange") and not s.has("address", "new_address"):
        s.places.pop("changed", None)
        drop(s, "delivered", [p for p in s.at("delivered") if s.tokens[p - 1] == "the"])
    made = [p for p in s.at("processing") if _MADE.intersection(s.tokens[p : p + 2])]
    drop(s, "processing", [p for p in made if p > first])  # the claim is being processed
    if about(s, "refund") and "come_back" in s.places and not _OURS.isdisjoint(s.words):
        if "you" not in s.tokens[-2:]:
            s.places.pop("delivered", None)
            s.places.pop("arrival", None)
    if about(s, "refund") or about(s, "billing"):
        drop(s, "shipped", [p for p in s.at("shipped") if p > first])  # the money is on its way


def _clear_fees(s: Sentence) -> None:
    for concept in ("fee", "fee_verb", "no_fee"):
        s.places.pop(concept, None)


def _clear_of_goods(s: Sentence) -> None:
    """The same of what is repaired, replaced, sent back or broken, whatever it is about."""
    if s.has("postage", "repair") and _FEES.isdisjoint(s.words):
        _clear_fees(s)
    if "replace" in s.places and not s.has("address", "new_address"):
        drop(s, "changed", [p for p in s.at("changed") if s.tokens[p] in _REPLACING])
    if "broken_down" in s.places:
        drop(s, "cancelled", [p for p in s.at("cancelled") if s.tokens[p] == "stopped"])
    drop(s, "delivered", [p for p in s.at("delivered") if _is_receipt(s, p)])


_SENT_BACK = frozenset(("return", "returned"))
_BEING = frozenset("was has been is now just have were already".split())
_SHOP = frozenset("we weve have already".split())


def _is_receipt(s: Sentence, at: int) -> bool:
    """"We received your return", "your return was received": nothing was delivered."""
    if at and s.tokens[at - 1] in _SHOP:
        return not _SENT_BACK.isdisjoint(s.tokens[at + 1 : at + 4])
    place = at - 1
    while place > 0 and s.tokens[place] in _BEING:
        place -= 1
    return place >= 0 and s.tokens[place] in _SENT_BACK


_NEVER = 99


def _is_of_order(s: Sentence, at: int) -> bool:
    """What stands at `at` is done to an order: of what is named next to it, that is nearest.

    A participle looks back first, "your order is cancelled", a verb ahead: "cancel your order".
    """
    orders = [p for p, t in enumerate(s.tokens) if t in _ORDERED]
    orders += [p for p, _ in numbers(s, "w")]
    others = s.places[ANY]
    begin = max((p + 1 for p in range(at) if s.tokens[p] in (",", "and")), default=0)
    ahead, behind = range(at + 1, at + 8), range(begin, at)
    for reach in (behind, ahead) if s.tokens[at].endswith("ed") else (ahead, behind):
        order = min((p for p in orders if p in reach), default=_NEVER)
        other = min((p for p in others if p in reach), default=_NEVER)
        if min(order, other) < _NEVER:
            return order < other
    return False
