"""What an agent's words mean at this desk, in two steps.

    read_speech(text)          ─► Claim, …      cached on the text; knows no episode
    ground(desk, episode, …)   ─► AgentTurn     values checked against world and reads

A claim is what a sentence asserts, asks or offers *now*: questions, conditions, hedges,
quotations and denials of a thing assert nothing about it. A value that the desk has not
read makes a claim unsupported, a value that differs from what was read makes it false.
Writes, transfers and endings come from tool calls only.
"""

from __future__ import annotations

import tomllib
from functools import cache, lru_cache
from importlib.resources import files
from typing import NamedTuple

from convgym.domains.customer_service.rules import DENIALS, OFFERS
from convgym.domains.customer_service.vocabulary import FACTS, SLOTS, WRITES
from convgym.domains.customer_service.world import MONTHS, STAGES
from convgym.language.understanding import Lexicon, Sentence

LONGEST_CACHED = 1024

_STATUS = ("processing", "packed", "shipped", "delivered")
_MONTH = {month.lower(): month for month in MONTHS}
_MONTH.update({month.lower()[:3]: month for month in MONTHS})
_MENTIONS = ("thanks", "thank", "for", "this", "with")
_FOR_YES = ("yes", "shall", "should", "want", "before")
_STREETS = frozenset("street avenue road lane view close drive way court place square".split())
REACH = 4
"""Sentences to either side that can complete what one leaves open, as in a bulleted reply."""
LATE = "late"
"""A refusal that says only that it is too late; what for is what the customer asked."""
Around = list[Sentence]


class Claim(NamedTuple):
    """One speech act with its value as it was said, not yet checked."""

    act: str
    """greet, ask_intent, ask, ask_more, tell, confirm, deny, offer, done, apologise, close."""
    slot: str = ""
    value: str = ""
    order: str = ""
    """The order number or item words it is about; empty where none is named."""


@cache
def lexicon() -> Lexicon:
    """The concepts of `cues.toml`, compiled."""
    path = files("convgym.domains.customer_service").joinpath("cues.toml")
    return Lexicon(tomllib.loads(path.read_text(encoding="utf-8"))["concepts"])


def read_speech(text: str) -> tuple[Claim, ...]:
    """The claims of a speech; short texts are remembered."""
    return _cached(text) if len(text) <= LONGEST_CACHED else _read(text)


@lru_cache(maxsize=8192)
def _cached(text: str) -> tuple[Claim, ...]:
    return _read(text)


def _read(text: str) -> tuple[Claim, ...]:
    sentences = lexicon().read(text)
    claims: list[Claim] = []
    order = ""
    for place, sentence in enumerate(sentences):
        order = _order_named(sentence) or order
        around = sentences[max(0, place - REACH) : place], sentences[place + 1 : place + 1 + REACH]
        _read_sentence(sentence, *around, order, claims)
    if any(claim.act == "deny" for claim in claims):
        claims = [claim for claim in claims if claim.act != "apologise"]
    return tuple(dict.fromkeys(claims))


def _orders_named(s: Sentence) -> list[tuple[int, str]]:
    """(place, order number) of each order that is named."""
    return [
        (place, token.upper())
        for place, token in enumerate(s.tokens)
        if len(token) == 6 and token[0] == "w" and token[1:].isdigit()
    ]


def _order_named(s: Sentence) -> str:
    named = _orders_named(s)
    return named[0][1] if named else ""


def _read_sentence(
    s: Sentence, before: Around, after: Around, order: str, out: list[Claim]
) -> None:
    asserts = not s.question and not s.has("hedge", "quote") and not _conditional(s)
    _small_talk(s, out)
    asked = _asks(s, before, after, out)
    confirmed = not asked and _confirms(s, before, order, out)
    if asserts:
        refused = _refuses(s, before, after, order, out)
        _tells_status(s, order, out, confirmed)
        if not confirmed:
            _tells_date(s, order, out)
        _tells_terms(s, out)
        if not refused and not confirmed:
            _reports(s, order, out)
    _offers(s, out)


def _conditional(s: Sentence) -> bool:
    """It begins with its condition; one that trails after an assertion takes nothing back."""
    return s.has("condition") and s.places["condition"][0] <= 4


# -- small talk ------------------------------------------------------------------------------------


def _small_talk(s: Sentence, out: list[Claim]) -> None:
    if s.has("hello"):
        out.append(Claim("greet"))
    if s.has("more") and not s.has("unable") and (s.question or s.has("request") or _short(s)):
        out.append(Claim("ask_more"))
    elif s.has("ask_intent"):
        out.append(Claim("ask_intent"))
    if s.has("sorry"):
        out.append(Claim("apologise"))
    if s.has("bye"):
        out.append(Claim("close"))


def _short(s: Sentence) -> bool:
    return len(s.tokens) <= 4


# -- questions -------------------------------------------------------------------------------------


def _asks(s: Sentence, before: Around, after: Around, out: list[Claim]) -> bool:
    """Requests for a slot; one listed under or above a request is requested too."""
    requested = s.question or s.has("request")
    if not requested and not s.has("passive", "modal") and len(s.tokens) <= 14:
        requested = any(n.has("request") for n in (*before[-2:], *after[:2]))
    if not (requested or _short(s)) or (s.has("failed", "verify") and s.has("unable", "failed")):
        return False
    found = False
    for slot, concept in (("email", "email"), ("postcode", "postcode"), ("order", "order_slot")):
        if s.has(concept) and not _told_about(s, concept):
            out.append(Claim("ask", slot))
            found = True
    if not found and s.question and len(_orders_named(s)) > 1 and "or" in s.tokens:
        out.append(Claim("ask", "order"))
        found = True
    acting = s.has("confirm", "confirm_question") and s.has("cancel", "return", "changed")
    if s.has("reason") and not s.has("unable") and requested:
        out.append(Claim("ask", "reason"))
        found = True
    elif s.has("new_address") and not acting and not _place_named(s):
        out.append(Claim("ask", "address"))
        found = True
    return found


def _told_about(s: Sentence, concept: str) -> bool:
    """A slot that is talked about, not asked for: "thanks for your email"."""
    place = s.places[concept][0]
    if s.question or s.has("request"):
        return False
    return any(word in _MENTIONS for word in s.tokens[max(0, place - 2) : place])


def _place_named(s: Sentence) -> bool:
    """A street with its number: "7 Harbour View"."""
    tokens = s.tokens
    return any(
        token in _STREETS and any(word.isdigit() for word in tokens[max(0, place - 3) : place])
        for place, token in enumerate(tokens)
    )


def _confirms(s: Sentence, before: Around, order: str, out: list[Claim]) -> bool:
    """A request for the customer's explicit yes to a write."""
    strong = s.has("confirm")
    if not (strong or (s.question and s.has("confirm_question"))) or _conditional(s):
        return False
    if s.has("reason", "email", "postcode", "pickup", "credit", "more"):
        return False
    if not s.question and s.has("passive") and s.has("created", "cancelled", "changed"):
        if not any(token in _FOR_YES for token in s.tokens):
            return False  # "I can confirm that it has been cancelled"
    write = _write_named(s)
    for earlier in reversed(before):
        if write or (not strong and not s.question):
            break
        if earlier.has("passive") and earlier.has("created", "cancelled"):
            break
        if not earlier.has("unable", "later", "reason", "pickup"):
            write = _write_named(earlier)
    if not write or (s.has("unable") and not s.question):
        return False
    if s.has("later") and write != "address":
        return False  # an offer for later
    out.append(Claim("confirm", write, order=_order_named(s) or order))
    return True


def _write_named(s: Sentence) -> str:
    if s.has("cancel", "cancelled") and not s.has("address"):
        return "cancel"
    if _place_named(s) or (s.has("address", "new_address") and s.has("changed")):
        return "address"
    return "return" if s.has("return") else ""


# -- refusals ----------------------------------------------------------------------------------------


def _refuses(s: Sentence, before: Around, after: Around, order: str, out: list[Claim]) -> bool:
    reason = _reason_given(s, [*reversed(before), *after])
    if reason:
        out.append(Claim("deny", reason, order=_order_named(s) or order))
    return bool(reason)


def _reason_given(s: Sentence, around: Around) -> str:
    """Why something is refused here; `LATE` where only its being too late is said."""
    unable = s.has("unable")
    if not unable and s.has("failed") and any(n.has("unable") for n in around):
        unable = True
    if s.has("verify", "failed") and (unable or s.has("failed") or _denies(s, "verify")):
        if s.has("verify") or unable:
            return "unverified"
    if _is_over(s):
        return "outside_window"
    if s.has("final_sale"):
        return "" if s.near("negation", s.places["final_sale"][0], 3) else "final_sale"
    if not unable:
        return ""
    if s.has("cancel", "cancelled"):
        return "not_cancellable"
    if s.has("address", "new_address") or (s.has("changed") and not s.has("return")):
        return "already_shipped"
    if s.has("return") or any(n.has("return") for n in around):
        if _undelivered(s) or any(_undelivered(n) for n in around):
            return "not_delivered"
        if any(_is_over(n) for n in around):
            return "outside_window"
        if any(n.has("final_sale") for n in around):
            return "final_sale"
        if s.has("return"):
            return ""
    if any(n.has("cancel") for n in around):
        return "not_cancellable"
    if any(n.has("address") for n in around):
        return "already_shipped"
    return LATE if s.has("shipped", "packed", "delivered") else ""


def _denies(s: Sentence, concept: str) -> bool:
    return any(s.near("negation", place, 4) for place in s.places.get(concept, ()))


def _is_over(s: Sentence) -> bool:
    return s.has("window") and s.has("over") and not s.near("negation", s.places["over"][0], 3)


def _undelivered(s: Sentence) -> bool:
    """Not arrived yet, or to be awaited: "until it has been delivered"."""
    return any(
        s.near("negation", place, 5) or s.near("until", place, 5)
        for concept in ("delivered", "arrival")
        for place in s.places.get(concept, ())
    )


# -- assertions ------------------------------------------------------------------------------------


def _tells_status(s: Sentence, order: str, out: list[Claim], confirmed: bool) -> None:
    for stage, concept in enumerate(_STATUS):
        for place in s.places.get(concept, ()):
            if s.near("negation", place, 4) or s.near("unable", place, 2):
                continue
            if s.near("modal", place, 3) and not s.near("passive", place, 1):
                continue
            if s.near("until", place, 5) or (concept == "delivered" and confirmed):
                continue
            out.append(Claim("tell", "status", STAGES[stage], _subject(s, place) or order))


def _subject(s: Sentence, place: int) -> str:
    """The order number nearest before `place`, else the first in the sentence."""
    named = _orders_named(s)
    earlier = [token for at, token in named if at <= place]
    return earlier[-1] if earlier else (named[0][1] if named else "")


def _dates(s: Sentence) -> list[tuple[int, str]]:
    """(place, "14 March") of each date, whichever way round it is written."""
    found = []
    tokens = s.tokens
    for place, token in enumerate(tokens):
        month = _MONTH.get(token)
        if month is None:
            continue
        for at in (place - 1, place + 1, place - 2):
            if 0 <= at < len(tokens):
                day = tokens[at].rstrip("stndrh")
                if day.isdigit() and 1 <= int(day) <= 31 and (at != place - 2 or tokens[at + 1] == "of"):
                    found.append((place, f"{int(day)} {month}"))
                    break
    return found


def _tells_date(s: Sentence, order: str, out: list[Claim]) -> None:
    if s.has("placed"):
        return
    dates = _dates(s)
    if not dates or not (s.has("arrival", "delivered") or len(s.tokens) <= 4):
        return
    for place, date in dates:
        delivered = s.places.get("delivered", ())
        if any(s.near("negation", at, 4) and at < place <= at + 4 for at in delivered):
            continue
        if s.has("shipped") and not s.has("arrival", "delivered"):
            continue
        if s.near("negation", place, 3):
            continue
        out.append(Claim("tell", "eta", date, _subject(s, place) or order))


def _tells_terms(s: Sentence, out: list[Claim]) -> None:
    charged = False
    for place, token in enumerate(s.tokens):
        percent = token.isdigit() and s.tokens[place + 1 : place + 2] in (["%"], ["percent"])
        if percent and s.has("fee") and not s.near("negation", place, 3):
            out.append(Claim("tell", "fee", str(int(token))))
            charged = True
    if not charged and (s.has("no_fee") or _fee_denied(s)):
        out.append(Claim("tell", "fee", "0"))
    if s.has("original"):
        if not s.near("negation", s.places["original"][0], 5):
            out.append(Claim("tell", "channel", "original"))
    if s.has("credit") and not _is_offer_of_credit(s):
        if not s.near("negation", s.places["credit"][0], 5):
            out.append(Claim("tell", "channel", "credit"))


def _is_offer_of_credit(s: Sentence) -> bool:
    """Goodwill, or offered without a word of the refund; "rather than your card" is no offer."""
    if any(word in ("goodwill", "gesture", "courtesy") for word in s.tokens):
        return True
    return s.has("offer") and not s.has("refund", "original")


def _fee_denied(s: Sentence) -> bool:
    """A "not" up to six words before "fee", or three after."""
    for place in s.places.get("fee", ()):
        if s.near("negation", place, 6) or s.near("unable", place, 6):
            return True
        if any(place < at <= place + 4 for at in s.places.get("negation", ())):
            return True
    return False


def _reports(s: Sentence, order: str, out: list[Claim]) -> None:
    """A write reported as done, in the past or the passive, not promised."""
    named = _order_named(s) or order
    for place in s.places.get("cancelled", ()):
        if _is_past(s, place):
            out.append(Claim("done", "cancel", order=named))
    if "cancel" in s.places and s.has("created") and s.tokens[s.places["cancel"][0]] == "cancellation":
        if _is_past(s, s.places["created"][0]):
            out.append(Claim("done", "cancel", order=named))
    if s.has("return") and s.has("created"):
        if _is_past(s, s.places["created"][0]):
            out.append(Claim("done", "return", order=named))
    if _place_named(s):
        marks = [p for c in ("changed", "created", "passive") for p in s.places.get(c, ())]
        if marks and _is_past(s, max(marks)) and not s.has("confirm"):
            out.append(Claim("done", "address", order=named))
    elif s.has("address", "new_address") and s.has("changed"):
        place = s.places["changed"][0]
        if s.tokens[place].endswith("ed") and _is_past(s, place):
            out.append(Claim("done", "address", order=named))


def _is_past(s: Sentence, place: int) -> bool:
    """Done, not to be done: no "not", "cannot" or "will" that reaches `place`."""
    if s.near("negation", place, 4) or s.near("unable", place, 5):
        return False
    if s.tokens[place] in ("set", "put") and not s.near("passive", place, 4):
        return False
    return not s.near("modal", place, 3) or s.near("passive", place, 2)


def _offers(s: Sentence, out: list[Claim]) -> None:
    if s.has("quote"):
        return
    if s.has("pickup") and not s.near("negation", s.places["pickup"][0], 3):
        out.append(Claim("offer", "pickup"))
    if s.has("credit") and _is_offer_of_credit(s):
        out.append(Claim("offer", "store_credit"))
    if s.has("return") and s.has("later"):
        first = min(s.places["return"][0], s.places["later"][0])
        blocked = s.near("unable", s.places["return"][0], 6) or (
            s.has("unable") and s.places["unable"][0] < first and not s.has("offer")
        )
        if not blocked and not _conditional(s):
            out.append(Claim("offer", "return_later"))


assert set(SLOTS) == {"email", "postcode", "order", "reason", "address"}
assert set(WRITES) == {"cancel", "return", "address"} and set(FACTS) >= {"status", "eta"}
assert "unverified" in DENIALS and "pickup" in OFFERS
