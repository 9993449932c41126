"""What a reply asks of the customer for the six matters: which record, and which detail.

    "Which of your plans?"             subscription
    "The amount or the date?"          charge
    "Which size would you like?"       variant
    "What is broken?"                  defect
    "Why do you dispute it?"           cause

"What is wrong with it?" asks for the reason of a return, unless a charge or a warranty is in
sight.
"""

from __future__ import annotations

from convgym.domains.customer_service.changes import variants
from convgym.domains.customer_service.matters import about, is_sum
from convgym.language.moods import Around
from convgym.language.understanding import Sentence

_ORDERED = frozenset("order orders purchase parcel package".split())


def kind_in_sight(s: Sentence, before: Around) -> str:
    """Which kind of record the sentence is about, else the one before: subscription, charge, ""."""
    for n in (s, *reversed(before[-2:])):
        if not _ORDERED.isdisjoint(n.words):
            return ""
        if about(n, "subscription"):
            return "subscription"
        if about(n, "billing"):
            return "charge"
    return ""


def asks_record(s: Sentence, requested: bool) -> str:
    """A subscription or a charge that is asked for here in so many words."""
    if not requested or "unable" in s.places:
        return ""
    for kind, mark, matter in (
        ("subscription", "which_plan", "subscription"),
        ("charge", "which_charge", "billing"),
    ):
        if s.has(mark) and about(s, matter) and not _is_told(s, mark):
            return kind
    if s.question and about(s, "subscription") and _either(s):
        return "subscription"
    return "charge" if asks_which_sum(s) else ""


def asks_which_sum(s: Sentence) -> bool:
    """"Is it the $24.90 or the $31.00 one?" """
    sums = [at for at, token in enumerate(s.tokens) if is_sum(token)]
    return s.question and len(sums) > 1 and "or" in s.tokens[sums[0] : sums[-1]]


def _is_told(s: Sentence, mark: str) -> bool:
    return not s.question and not {"matches", "noted", "thanks", "thank"}.isdisjoint(s.words)


def _either(s: Sentence) -> bool:
    """"Is it the snack box or the flower box?" """
    return "or" in s.words and s.tokens[0] in _EITHER and len(s.at("plan")) > 1


_EITHER = frozenset("is do was did you are".split())


def asks_variant(s: Sentence, before: Around, requested: bool) -> bool:
    """The size or the colour that is to be sent instead."""
    if not (s.has("size_word", "instead_of_it", "like_to_have") or len(variants(s)) > 1):
        return False
    if s.has("address", "new_address", "unable", "sold_out", "waitlist") or "wrong" in s.words:
        return False
    near = (s, *before[-2:])
    swapping = any(about(n, "exchange") for n in near)
    if "which_size" in s.places and (requested or s.question):
        return True
    places = variants(s)
    named = {name for _, name in places}
    if "size_word" in s.places and not named:
        if requested or s.question:
            return not s.has("in_stock", "covers")
        return _SIZE_ONLY.issuperset(s.words)  # "New size"
    either = len(named) > 1 and "or" in s.tokens[places[0][0] : places[-1][0]]
    if s.question and either and (swapping or "order_slot" not in s.places):
        if swapping or "request" in s.places or all(name.startswith("size") for name in named):
            return s.tokens[0] not in ("shall", "should") or "which" in s.words
    if not (s.question or "request" in s.places):
        return False
    if not ("like_to_have" in s.places and "instead_of_it" in s.places):
        return False
    return (swapping or "size_word" in s.places or _ONE_INSTEAD.issubset(s.words)) and not named


_ONE_INSTEAD = frozenset(("which", "one", "instead"))


_SIZE_ONLY = frozenset(
    "size colour color variant new needed you need please wanted desired and the your or other "
    "preferred want".split()
)


def asks_defect(s: Sentence, around: Around, reason: bool) -> bool:
    """The defect, in words of defects or of warranties; `reason`: why something comes back."""
    if s.has("return", "reason_option") or about(s, "billing"):
        return False
    if s.has("sorry", "excluded") or ("unable" in s.places and not s.question):
        return False
    near = (s, *around)
    repairing = any(n.has("repairing", "broken_down") for n in near)
    if reason:
        return repairing or (
            "broken_down" in s.places and not any("return" in n.places for n in near)
        )
    trouble = "trouble" in s.places and repairing
    if not ("defect" in s.places or trouble) or (
        "do_warranty" in s.places and "confirm" in s.places
    ):
        return False
    if s.question and "broken_down" in s.places and s.tokens[0] in _DOES:
        return True
    wondering = not _WONDERING.isdisjoint(s.words) or "request" in s.places
    either = "or" in s.words and s.tokens[0] in _DOES
    return either or (wondering and (s.question or "request" in s.places))


_WONDERING = frozenset("what whats how which describe where".split())
_DOES = frozenset("does doesnt is did has was do".split())


def asks_cause(s: Sentence, before: Around, reason: bool) -> bool:
    """Why a charge is disputed."""
    near = (s, *before[-1:])
    if asks_which_sum(s):
        return False
    if not any(about(n, "billing") for n in near):
        return False
    if reason or ("why_word" in s.places and (s.question or "request" in s.places)):
        return "invoice" not in s.places and (
            "why_word" in s.places or "which_charge" not in s.places
        )
    if not (s.question and "cause_option" in s.places) or "do_billing" in s.places:
        return False
    return "which_charge" not in s.places or _WHICH.isdisjoint(s.words)


_WHICH = frozenset("which what tell give number".split())
