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
_MOODS = ("condition", "hedge", "quote")


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
        before = sentences[place - 1] if place else None
        after = sentences[place + 1] if place + 1 < len(sentences) else None
        _read_sentence(sentence, before, after, order, claims)
    denied = any(claim.act == "deny" for claim in claims)
    if denied:
        claims = [claim for claim in claims if claim.act != "apologise"]
    return tuple(dict.fromkeys(claims))


def _order_named(sentence: Sentence) -> str:
    for token in sentence.tokens:
        if len(token) == 6 and token[0] == "w" and token[1:].isdigit():
            return token.upper()
    return ""


def _read_sentence(
    s: Sentence, before: Sentence | None, after: Sentence | None, order: str, out: list[Claim]
) -> None:
    asserts = not s.question and not s.has(*_MOODS)
    start = len(out)
    _small_talk(s, out)
    asked = _asks(s, out)
    confirmed = _confirms(s, before, after, order, out) if not asked else False
    if asserts:
        refused = _refuses(s, before, after, order, out)
        _tells_status(s, order, out, confirmed)
        if not confirmed:
            _tells_date(s, order, out)
        _tells_terms(s, out)
        if not refused and not confirmed:
            _reports(s, order, out)
    _offers(s, out)
    del start


# -- small talk ------------------------------------------------------------------------------------


def _small_talk(s: Sentence, out: list[Claim]) -> None:
    if s.has("hello") and s.places["hello"][0] <= 2:
        out.append(Claim("greet"))
    if s.has("more"):
        out.append(Claim("ask_more"))
    elif s.has("ask_intent"):
        out.append(Claim("ask_intent"))
    if s.has("sorry"):
        out.append(Claim("apologise"))
    if s.has("bye"):
        out.append(Claim("close"))


# -- questions -------------------------------------------------------------------------------------


def _asks(s: Sentence, out: list[Claim]) -> bool:
    """Requests for a slot; a bare slot name on its own line is one too."""
    bare = len(s.tokens) <= 3
    if not (s.question or s.has("request") or bare) or s.has("verify", "failed") and s.has("unable"):
        return False
    found = False
    for slot, concept in (("email", "email"), ("postcode", "postcode"), ("order", "order_slot")):
        if s.has(concept) and not _told_about(s, concept):
            out.append(Claim("ask", slot))
            found = True
    acting = s.has("confirm") and s.has("cancel", "return", "changed")
    if s.has("reason") and not s.has("unable") and (s.question or s.has("request")):
        out.append(Claim("ask", "reason"))
        found = True
    elif s.has("new_address") and not acting:
        out.append(Claim("ask", "address"))
        found = True
    return found


def _told_about(s: Sentence, concept: str) -> bool:
    """A slot that is talked about, not asked for: "thanks for your email"."""
    place = s.places[concept][0]
    return not s.question and any(
        word in ("thanks", "thank", "for", "this", "with") for word in s.tokens[max(0, place - 2) : place]
    ) and not s.has("request")


def _confirms(
    s: Sentence, before: Sentence | None, after: Sentence | None, order: str, out: list[Claim]
) -> bool:
    """A request for the customer's explicit yes to a write."""
    if not s.has("confirm") or s.has("reason", "email", "postcode"):
        return False
    where = s
    write = _write_named(s)
    if not write and before is not None and not _settled(before):
        where, write = before, _write_named(before)
    if not write or (where.has("unable") and not s.question):
        return False
    if not s.question and s.has("passive") and s.has("created", "cancelled") and not s.has("request"):
        if not _asks_for_yes(s):
            return False
    out.append(Claim("confirm", write, order=_order_named(s) or order))
    return True


def _asks_for_yes(s: Sentence) -> bool:
    return any(token in ("yes", "shall", "should", "want", "before") for token in s.tokens)


def _settled(s: Sentence) -> bool:
    return s.has("passive") and s.has("created", "cancelled") and not s.question


def _write_named(s: Sentence) -> str:
    if s.has("cancel", "cancelled") and not s.has("address"):
        return "cancel"
    if s.has("address", "new_address") and s.has("changed", "confirm"):
        return "address"
    if s.has("return"):
        return "return"
    if s.has("changed") or " go to " in s.raw or " delivered to " in s.raw or "deliver to" in s.raw:
        return "address"
    return ""


# -- refusals ----------------------------------------------------------------------------------------


def _refuses(
    s: Sentence, before: Sentence | None, after: Sentence | None, order: str, out: list[Claim]
) -> bool:
    reason = _reason_given(s, before, after)
    if reason:
        out.append(Claim("deny", reason, order=_order_named(s) or order))
    return bool(reason)


def _reason_given(s: Sentence, before: Sentence | None, after: Sentence | None) -> str:
    unable = s.has("unable")
    if s.has("verify") and (unable or s.has("failed", "negation")):
        return "unverified"
    if s.has("failed") and unable:
        return "unverified"
    if s.has("window") and s.has("over"):
        place = s.places["over"][0]
        if not s.near("negation", place, 3):
            return "outside_window"
    if s.has("final_sale"):
        place = s.places["final_sale"][0]
        return "" if s.near("negation", place, 3) else "final_sale"
    if not unable:
        return ""
    context = [n for n in (before, after) if n is not None]
    if s.has("cancel", "cancelled"):
        return "not_cancellable"
    if s.has("address", "new_address") or (s.has("changed") and not s.has("return")):
        return "already_shipped"
    if s.has("return"):
        if _undelivered(s) or any(_undelivered(n) for n in context):
            return "not_delivered"
        for n in context:
            if n.has("window") and n.has("over"):
                return "outside_window"
            if n.has("final_sale"):
                return "final_sale"
    return ""


def _undelivered(s: Sentence) -> bool:
    for concept in ("delivered", "arrival"):
        for place in s.places.get(concept, ()):
            if s.near("negation", place, 4) or s.near("modal", place, 5):
                return True
    return False


# -- assertions ------------------------------------------------------------------------------------


def _tells_status(s: Sentence, order: str, out: list[Claim], confirmed: bool) -> None:
    for stage, concept in enumerate(_STATUS):
        for place in s.places.get(concept, ()):
            if s.near("negation", place, 4) or s.near("unable", place, 2):
                continue
            if concept in ("shipped", "delivered", "packed") and s.near("modal", place, 3):
                continue
            if concept == "delivered" and (confirmed or s.has("later")):
                continue
            out.append(Claim("tell", "status", STAGES[stage], _subject(s, place) or order))


def _subject(s: Sentence, place: int) -> str:
    """The order number nearest before `place`, else the first in the sentence."""
    named = [
        (at, token.upper())
        for at, token in enumerate(s.tokens)
        if len(token) == 6 and token[0] == "w" and token[1:].isdigit()
    ]
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
    if s.has("credit") and s.has("refund") and not _is_goodwill(s):
        if not s.near("negation", s.places["credit"][0], 5):
            out.append(Claim("tell", "channel", "credit"))


def _fee_denied(s: Sentence) -> bool:
    """A "not" up to six words before "fee", or three after."""
    for place in s.places.get("fee", ()):
        if s.near("negation", place, 6) or s.near("unable", place, 6):
            return True
        if any(place < at <= place + 4 for at in s.places.get("negation", ())):
            return True
    return False


def _is_goodwill(s: Sentence) -> bool:
    return any(word in ("goodwill", "gesture", "courtesy") for word in s.tokens)


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
        place = s.places["created"][0]
        if _is_past(s, place):
            out.append(Claim("done", "return", order=named))
    moved = "now go to" in s.raw or "now has" in s.raw or "now put" in s.raw
    if (s.has("address", "new_address") and s.has("changed")) or moved:
        place = s.places["changed"][0] if s.has("changed") else len(s.tokens)
        word = s.tokens[place] if place < len(s.tokens) else ""
        if moved or (word.endswith("ed") or word == "set") and _is_past(s, place):
            out.append(Claim("done", "address", order=named))


def _is_past(s: Sentence, place: int) -> bool:
    return not (
        s.near("negation", place, 4)
        or s.near("unable", place, 5)
        or (s.near("modal", place, 3) and not s.near("passive", place, 2))
    )


def _offers(s: Sentence, out: list[Claim]) -> None:
    if s.has("quote"):
        return
    if s.has("pickup") and not s.near("negation", s.places["pickup"][0], 3):
        out.append(Claim("offer", "pickup"))
    if s.has("credit") and (_is_goodwill(s) or (s.has("offer") and not s.has("refund"))):
        out.append(Claim("offer", "store_credit"))
    if s.has("return") and s.has("later"):
        first = min(s.places["return"][0], s.places["later"][0])
        blocked = s.near("unable", s.places["return"][0], 6) or (
            s.has("unable") and s.places["unable"][0] < first and not s.has("offer")
        )
        if not blocked and not s.has("condition"):
            out.append(Claim("offer", "return_later"))


assert set(SLOTS) == {"email", "postcode", "order", "reason", "address"}
assert set(WRITES) == {"cancel", "return", "address"} and set(FACTS) >= {"status", "eta"}
assert "unverified" in DENIALS and "pickup" in OFFERS
