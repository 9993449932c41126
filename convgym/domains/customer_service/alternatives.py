"""What is offered in place of what an exchange, refund, end, claim or credit would have brought.

    "I can put you on the waiting list."      waitlist
    "Shall I pause it for now?"               pause: a question, but for another thing than asked
    "I've sent you a new label."              nothing: no offer any more

The older three offers are read in `refusals.py`.
"""

from __future__ import annotations

from convgym.domains.customer_service.matters import in_play, is_vouched
from convgym.domains.customer_service.refusals import is_rule
from convgym.language.understanding import Sentence

_MARKS = ("waitlist", "when_back", "new_label", "pause", "self_paid", "invoice")


def alternatives(s: Sentence) -> list[str]:
    """What is offered here."""
    if not in_play(s) or not s.has(*_MARKS) or is_rule(s) or s.has("quote", "governor", "withheld"):
        return []
    return [offer for offer, holds in _OFFERS.items() if holds(s)]


def _offered(s: Sentence, at: int) -> bool:
    """An offer now: not denied, nor what somebody else does."""
    if s.near("negation", at, 4) or not is_vouched(s, at):
        return False
    if any(s.tokens[p] not in ("to", "against") and at - 8 <= p <= at + 5 for p in s.at("unable")):
        return False
    if s.question and s.tokens[0] in _PAST:
        return False
    willing = "offer" in s.places or not _WILLING.isdisjoint(s.words)
    return willing or (s.question and len(s.tokens) <= 9)


_WILLING = frozenset(
    "can could might would will may shall should id wed ill well want youd like happy glad pleased "
    "let how welcome instead alternative alternatively option suggest propose possible "
    "helps".split()
)
_HANDING = frozenset(
    "send sending sent email mail forward get receive give have look post copy show let provide "
    "offer welcome".split()
)
_PAST = frozenset("did have has was were had is are".split())
"""First words of a question that offers nothing."""


def _waitlist(s: Sentence) -> bool:
    if s.tokens[:3] == ["do", "you", "like"]:
        return False  # "Do you like waiting lists?"
    if "waitlist" in s.places:
        return any(_offered(s, at) for at in s.at("waitlist"))
    return "when_back" in s.places and "back_in" in s.places and _offered(s, s.at("when_back")[0])


def _new_label(s: Sentence) -> bool:
    return any(_offered(s, at) for at in s.at("new_label"))


def _pause(s: Sentence) -> bool:
    if "pause" not in s.places or "no_pause" in s.places:
        return False
    return any(_offered(s, at) for at in s.at("pause"))


def _paid_repair(s: Sentence) -> bool:
    if not ("self_paid" in s.places and "repair" in s.places):
        return False
    return any(_offered(s, at) for at in s.at("repair"))


def _send_invoice(s: Sentence) -> bool:
    if "self_paid" in s.places or not (s.question or not _HANDING.isdisjoint(s.words)):
        return False
    return any(_offered(s, at) for at in s.at("invoice"))


_OFFERS = {
    "waitlist": _waitlist,
    "new_label": _new_label,
    "pause": _pause,
    "paid_repair": _paid_repair,
    "send_invoice": _send_invoice,
}
