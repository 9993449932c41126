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

from convgym.domains.customer_service.refusals import (
    LATE,
    Around,
    awaited,
    comes_later,
    is_general,
    is_hedged,
    is_rule,
    offers,
    offers_credit,
    own_stages,
    refusal,
)
from convgym.domains.customer_service.reports import place_named, reported, unreported
from convgym.domains.customer_service.world import MONTHS
from convgym.language.understanding import Lexicon, Sentence

__all__ = ["LATE", "STATUS", "UNLABELLED", "Claim", "lexicon", "read_speech"]

LONGEST_CACHED = 1024
REACH = 4
"""Sentences to either side that can complete what one leaves open, as in a bulleted reply."""
MOST_REASONS = 2
"""A reply that refuses for more reasons than this says whatever fits, and refuses nothing."""
MOST_OFFERS = 2
_AGAINST = {
    "cancel": ("not_cancellable", LATE),
    "return": ("outside_window", "final_sale", "not_delivered"),
    "address": ("already_shipped", LATE),
}
"""The refusals that a question for a yes to that write contradicts."""
UNLABELLED = ("jargon",)
"""Acts that labelled replies leave out: how something is said, not what."""
STATUS = ("processing", "packed", "shipped", "delivered")
"""Names of the stages of an order, in their order."""

_MONTH = {month.lower(): month for month in MONTHS}
_MONTH.update({month.lower()[:3]: month for month in MONTHS})
_MENTIONS = frozenset("thanks thank for this with".split())
_GIVING = frozenset("take taking send sending bring ship accept give hand mail".split())
_ABOUT = frozenset("about information know whether sure mention".split())
_PERFECT = frozenset("has have been was were ive weve will".split())
_SLOT_CUES = ("email", "postcode", "order_slot", "reason", "new_address", "address", "name_noun")
_IMPERATIVES = frozenset("cancel return change update send redirect move switch refund".split())
_NOTED = frozenset("noted entered down".split())
"""Taken down, not yet done, where a question follows."""
_NO_PROPOSAL = frozenset("did have has was were had what which why where who how when".split())
"""First words of a question that proposes nothing."""


class Claim(NamedTuple):
    """One speech act with its value as it was said, not yet checked."""

    act: str
    """greet, ask_intent, ask, inform, confirm, deny, offer, done, apologise, close, wait."""
    slot: str = ""
    value: str = ""
    """What is told; of an address that is asked about or done the place: "7 harbour view"."""
    order: str = ""
    """The order number that it is about; empty where none is named."""

    def __str__(self) -> str:
        if not self.slot:
            return self.act
        told = f"={self.value}" if self.act == "inform" else ""
        return f"{self.act}({self.slot}{told})"


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
    for sentence in sentences:
        _mark_return(sentence)
    for place, sentence in enumerate(sentences):
        order = _order_named(sentence) or order
        before = sentences[max(0, place - REACH) : place]
        _read_sentence(sentence, before, sentences[place + 1 : place + 1 + REACH], order, claims)
    made_up = any(s.has("made_up") and not s.question for s in sentences)
    found = tuple(dict.fromkeys(_weighed(claims, made_up)))
    if not found and any(s.has("wait", "verify") for s in sentences):
        return (Claim("wait"),)
    return found


def _mark_return(s: Sentence) -> None:
    """"Take the headphones back" is a return, whatever stands between."""
    if "back" in s.tokens and not s.has("return", "refund", "original", "credit"):
        place = s.tokens.index("back")
        if s.word_before(_GIVING, place, 7):
            s.places["return"] = [place]


def _weighed(claims: list[Claim], made_up: bool) -> list[Claim]:
    """Leave out what other claims of the same reply make nonsense of."""
    retry = any(claim.act == "ask" and claim.slot in ("email", "postcode") for claim in claims)
    slots = {act: {c.slot for c in claims if c.act == act} for act in ("deny", "confirm", "offer")}
    asked = [claim for claim in claims if claim.act == "confirm"]
    dropped = set()
    if retry:
        dropped.add(("deny", "unverified"))  # another try is no refusal
    if len(slots["deny"]) > MOST_REASONS:
        dropped |= {("deny", reason) for reason in slots["deny"]}  # whatever fits
    if len(slots["confirm"]) > 1 or len({claim.order for claim in asked} - {""}) > 1:
        dropped |= {("confirm", write) for write in slots["confirm"]}  # a yes to which?
    if len(slots["offer"]) > MOST_OFFERS:
        dropped |= {("offer", offer) for offer in slots["offer"]}
    for claim in claims:
        if claim.act == "undone":
            dropped |= {c[:2] for c in claims if _clash(c, claim, "done", (claim.slot,))}
        if claim.act == "confirm":
            reasons = _AGAINST[claim.slot]
            denied = [c for c in claims if _clash(c, claim, "deny", reasons)]
            dropped |= {c[:2] for c in denied} | ({claim[:2]} if denied else set())
            dropped |= {c[:2] for c in claims if _clash(c, claim, "done", (claim.slot,))}
    return [
        claim
        for claim in claims
        if claim[:2] not in dropped
        and claim.act != "undone"
        and not (made_up and claim.act in ("inform", "done"))
    ]


def _clash(claim: Claim, other: Claim, act: str, slots: tuple[str, ...]) -> bool:
    """`claim` is an act on one of `slots`, of no other order than `other`."""
    apart = claim.order and other.order and claim.order != other.order
    return claim.act == act and claim.slot in slots and not apart


def _read_sentence(
    s: Sentence, before: Around, after: Around, order: str, out: list[Claim]
) -> None:
    unsure = is_hedged(s)
    order = _order_named(s) or order
    _small_talk(s, out)
    asked = _asks(s, before, after, out)
    confirms = "" if asked else _confirms(s, before)
    if confirms:
        place = _place_meant(s, before) if confirms == "address" else ""
        orders = [named for _, named in _orders_named(s)] or [order]
        out += [Claim("confirm", confirms, place, named) for named in orders]
    elif _asks_more(s):
        out.append(Claim("ask", "more"))
    elif s.has("ask_intent") or (_requests(s) and s.has("matter") and not asked):
        out.append(Claim("ask_intent"))
    reason = ""
    if not (s.question or unsure or _conditional(s)):
        reason = refusal(s, [*reversed(before), *after])
        if reason:
            out.append(Claim("deny", reason, order=order))
        elif s.has("sorry"):
            out.append(Claim("apologise"))
        _tells_status(s, order, out)
        if not confirms:
            _tells_date(s, order, out)
        if not is_rule(s):
            _tells_terms(s, before, out)
        deed = min(s.at("created", "cancelled", "changed", "stored", "managed"), default=0)
        if not (reason or confirms or is_general(s, deed)):
            for write in reported(s, before):
                place = _place_meant(s, before) if write == "address" else ""
                out.append(Claim("done", write, place, order))
        out += [Claim("undone", write, order=order) for write in unreported(s)]
    elif s.has("sorry"):
        out.append(Claim("apologise"))
    if not (s.has("quote") or confirms):
        out += [Claim("offer", offer) for offer in offers(s, before, reason, _conditional(s))]


def _place_meant(s: Sentence, before: Around) -> str:
    """The street named here, else the one named last."""
    return next((place for n in (s, *reversed(before)) if (place := place_named(n))), "")


def _conditional(s: Sentence) -> bool:
    """It begins with its condition; one that trails after an assertion takes nothing back."""
    return s.has("condition") and s.places["condition"][0] <= 4


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


def _short(s: Sentence) -> bool:
    return len(s.tokens) <= 4


# -- small talk ------------------------------------------------------------------------------------


def _small_talk(s: Sentence, out: list[Claim]) -> None:
    closes = any(not awaited(s, place) for place in s.at("bye")) or _wishes_well(s)
    if s.has("hello") and not closes:
        out.append(Claim("greet"))
    if closes:
        out.append(Claim("close"))


def _wishes_well(s: Sentence) -> bool:
    """"Have a lovely day", but not "before you run off and enjoy your day"."""
    wished = [w for w in s.at("wish") if not (s.near("negation", w, 3) or awaited(s, w))]
    return any(0 < place - w <= 6 for place in s.at("pleasant_time") for w in wished)


def _asks_more(s: Sentence) -> bool:
    if not s.has("other") or s.has("unable"):
        return False
    trails = len(s.tokens) - s.at("other")[-1] <= 5
    return _requests(s) or _short(s) or trails or s.has("help")


def _requests(s: Sentence) -> bool:
    return s.question or s.has("request")


# -- questions -------------------------------------------------------------------------------------


def _asks(s: Sentence, before: Around, after: Around, out: list[Claim]) -> bool:
    """Requests for a slot; one listed under or above a request is requested too."""
    requested = _requests(s) or (s.leads and not after[0].has(*_SLOT_CUES))
    if not requested and len(s.tokens) <= 14 and _PERFECT.isdisjoint(s.tokens):
        requested = any(n.has("request") for n in (*before[-2:], *after[:2]))
    again = any(n.has("retry") and _requests(n) for n in after[:1])
    if not (requested or again or _short(s)):
        return False
    mismatch = s.has("verify", "claimed", "postcode") and s.has("failed", "unable")
    if mismatch and not (s.question or again):
        return False
    slots = [slot for slot in ("email", "postcode") if s.has(slot) and not _told_about(s, slot)]
    if requested and not s.has("unable") and _asks_reason(s):
        slots.append("reason")
    elif _asks_address(s, requested, before):
        slots = [*(slot for slot in slots if slot != "postcode"), "address"]
    if s.has("order_slot") or "address" not in slots:
        if _asks_order(s, requested):
            slots.append("order")
    out += [Claim("ask", slot) for slot in slots]
    return bool(slots)


def _told_about(s: Sentence, slot: str) -> bool:
    """A slot that is talked about, not asked for: "thanks for your email"."""
    return not _requests(s) and s.word_before(_MENTIONS, s.at(slot)[0], 3)


def _asks_reason(s: Sentence) -> bool:
    return s.has("reason") or (s.question and s.has("fault") and "or" in s.tokens)


def _asks_address(s: Sentence, requested: bool, before: Around) -> bool:
    if place_named(s) or any(place_named(n) for n in before[-1:]):
        return False
    if s.has("confirm", "confirm_question") and s.has("cancel", "return", "changed", "stored"):
        return False
    if s.has("new_address"):
        return True
    return requested and s.has("address") and not s.has("unable", "email", "postcode")


def _asks_order(s: Sentence, requested: bool) -> bool:
    named = len(_orders_named(s))
    if named:
        return named > 1 and s.question and "or" in s.tokens
    if s.has("order_slot"):
        return not _told_about(s, "order_slot")
    return requested and s.has("order_noun") and s.has("name_noun") and not s.has("reason")


def _confirms(s: Sentence, before: Around) -> str:
    """The write that the customer is asked to say yes to; empty where none is."""
    if not _proposes(s):
        return ""
    write = _write_named(s)
    for earlier in reversed(before):
        done = earlier.has("passive") and _NOTED.isdisjoint(earlier.tokens)
        if write or (done and reported(earlier, ())):
            break
        if not earlier.has("unable", "later", "reason", "pickup", "sequence"):
            write = _write_named(earlier)
    return "" if write == "return" and comes_later(s, before) else write


def _proposes(s: Sentence) -> bool:
    """It asks for a yes: in so many words, or by a question that names what would be done."""
    if s.has("reason", "email", "postcode", "pickup", "credit", "other", "hedge", "quote"):
        return False
    if "keep" in s.tokens:
        return False  # "keep it or cancel it" is no question for a yes
    if s.has("unable") and not s.question:
        return False
    if s.has("confirm") or ("yes" in s.tokens and (_requests(s) or _short(s))):
        return True
    if not s.question or s.tokens[0] in _NO_PROPOSAL:
        return False
    if s.has("confirm_question"):
        return True
    ordered = s.tokens[0] in _IMPERATIVES and len(s.tokens) > 1 and "or" not in s.tokens
    return bool((ordered or _order_named(s)) and _write_named(s))


def _write_named(s: Sentence) -> str:
    if any(not s.near("negation", place, 5) for place in s.at("cancel", "cancelled")):
        if not s.has("address"):
            return "cancel"
    if place_named(s) or (s.has("address", "new_address") and s.has("changed", "stored")):
        return "address"
    return "return" if s.has("return") else ""


# -- assertions ------------------------------------------------------------------------------------


def _tells_status(s: Sentence, order: str, out: list[Claim]) -> None:
    told = [(at, stage, _subject(s, at) or order) for at, stage in own_stages(s)]
    last = {(stage, subject): at for at, stage, subject in told}
    for at, stage, subject in told:
        later = range(stage + 1, len(STATUS))
        if not any(at < last.get((other, subject), 0) for other in later):
            # Not "was packed yesterday", where it "is now shipped".
            out.append(Claim("inform", "status", STATUS[stage], subject))


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
            if at == place - 2 and tokens[place - 1] != "of":
                continue
            day = tokens[at].rstrip("stndrh") if 0 <= at < len(tokens) else ""
            if day.isdecimal() and len(day) <= 2 and 1 <= int(day) <= 31:
                found.append((place, f"{int(day)} {month}"))
                break
    return found


def _tells_date(s: Sentence, order: str, out: list[Claim]) -> None:
    """A date is that of the delivery, unless something else is dated."""
    if s.has("placed", "window"):
        return
    if not s.has("arrival", "delivered") and s.has("return", "refund", "changed", *STATUS):
        return
    for place, date in _dates(s):
        delivered = s.at("delivered")
        if any(s.near("negation", at, 4) and at < place <= at + 4 for at in delivered):
            continue
        if any(s.near(stage, place, 3) for stage in STATUS[:3]) and s.has("delivered"):
            continue  # "shipped on 5 March and delivered on 9 March"
        if not (s.near("negation", place, 3) or s.near("other_date", place, 3)):
            out.append(Claim("inform", "eta", date, _subject(s, place) or order))


def _tells_terms(s: Sentence, before: Around, out: list[Claim]) -> None:
    about_fee = s.has("fee") or (_short(s) and any(n.has("fee") for n in before[-1:]))
    charged = [
        Claim("inform", "fee", str(int(token)))
        for place, token in enumerate(s.tokens)
        if token.isdecimal()
        and len(token) <= 3
        and s.tokens[place + 1 : place + 2] in (["%"], ["percent"])
        and about_fee
        and not s.near("negation", place, 3)
    ]
    out += charged
    if not charged and (s.has("no_fee") or _fee_denied(s)):
        out.append(Claim("inform", "fee", "0"))
    ways = s.at("original", "credit")
    if s.has("original") and s.has("credit") and "or" in s.tokens[min(ways) : max(ways)]:
        return  # one of the two
    for channel in ("original", "credit"):
        places = s.at(channel)
        if not places or s.near("negation", places[0], 5) or s.near("unable", places[0], 5):
            continue
        if channel == "credit" and offers_credit(s, before):
            continue
        if channel == "original" and s.has("fee", "no_fee") and not s.has("refund"):
            continue  # "15% of what you originally paid"
        out.append(Claim("inform", "channel", channel))


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
