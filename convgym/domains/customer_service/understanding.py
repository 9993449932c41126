"""What an agent's words mean at this desk, in two steps.

    read_speech(text)          ─► Claim, …      cached on the text; knows no episode
    ground(desk, episode, …)   ─► AgentTurn     values checked against world and reads

A claim is what a sentence asserts, asks or offers *now*: questions, conditions, hedges,
quotations and denials of a thing assert nothing about it. A value that the desk has not
read makes a claim unsupported, a value that differs from what was read makes it false.
Writes, transfers and endings come from tool calls only.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from functools import cache, lru_cache
from importlib.resources import files
from typing import NamedTuple, Protocol

from convgym.domains.customer_service.figures import dates, percentages, written_out
from convgym.domains.customer_service.intentions import (
    explains_on,
    explains_why,
    explains_word,
    promises,
    waits,
)
from convgym.domains.customer_service.moods import Around, awaited, taken_back
from convgym.domains.customer_service.questions import (
    asks,
    asks_intent,
    asks_more,
    asks_name,
    asks_which_matter,
    confirms,
    is_listed,
    order_named,
    orders_named,
    short,
    tells_where,
)
from convgym.domains.customer_service.refusals import (
    LATE,
    is_general,
    is_hedged,
    is_rule,
    is_ruled,
    offers,
    offers_credit,
    own_stages,
    refusal,
)
from convgym.domains.customer_service.reports import place_told, reported, unreported
from convgym.language.understanding import Lexicon, Sentence

__all__ = ["HARMLESS", "LATE", "STATUS", "UNLABELLED", "Claim", "lexicon", "read_speech"]

LONGEST_CACHED = 1024
FAR = 10
"""Sentences before a question for a yes in which the write may be named."""
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
UNLABELLED = ("jargon", "chat", "locate", "who")
"""Acts that labelled replies leave out."""
HARMLESS = frozenset(
    "greet ask_intent apologise wait close explain ask(email) ask(postcode) ask(order) "
    "ask(reason) ask(address) ask(more)".split()
)
"""Labels that carry no value and change nothing: what a reranker may propose."""
STATUS = ("processing", "packed", "shipped", "delivered")
"""Names of the stages of an order, in their order."""

_WEIGHTY = frozenset("inform done deny offer confirm promise".split())
"""What a reply takes back where it takes back anything: "just kidding"."""

_GIVING = frozenset("take taking send sending bring ship accept give hand mail".split())
_ABOUT = frozenset("about information know whether sure mention".split())
_SOFT = ("ask", "ask_intent")
"""What an explanation only seems to say: "the e-mail helps me find your account"."""
_ORDERING = frozenset("please kindly provide share could".split())
_DEMANDING = frozenset(
    "please need needed required require must kindly provide let may could grateful would "
    "appreciate".split()
)


_OTHERS = re.compile(
    r"^\s*(?:customer|user|system|tool)\s*:.*$|\{[^{}]*\"[^{}]*\}", re.IGNORECASE | re.MULTILINE
)
"""What is not said by the agent: lines of somebody else, and raw data."""


class Claim(NamedTuple):
    """One speech act with its value as it was said, not yet checked."""

    act: str
    """greet, ask_intent, ask, inform, confirm, deny, offer, done, promise, explain, apologise,
    close, wait; and, not labelled, jargon, chat (filler) and locate (where the number is found)."""
    slot: str = ""
    value: str = ""
    """What is told; of an address that is asked about or done the place: "7 harbour view exeter";
    of a return or cancellation that is asked about the fee, where one is named."""
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
    cues = tomllib.loads(path.read_text(encoding="utf-8"))
    return Lexicon(cues["concepts"], cues["marks"])


class Reranker(Protocol):
    """Proposes labels for a reply in which nothing was read (`convgym.language.reranker`)."""

    def propose(self, text: str) -> Sequence[str]: ...


def read_speech(text: str, reranker: Reranker | None = None) -> tuple[Claim, ...]:
    """The claims of a speech; short texts are remembered."""
    claims = _cached(text) if len(text) <= LONGEST_CACHED else _read(text)
    if reranker is None or any(claim.act not in UNLABELLED for claim in claims):
        return claims
    labels = [label for label in reranker.propose(text) if label in HARMLESS]
    return (*(_labelled(label) for label in labels), *claims)


def _labelled(label: str) -> Claim:
    act, _, slot = label.partition("(")
    return Claim(act, slot.rstrip(")"))


@lru_cache(maxsize=8192)
def _cached(text: str) -> tuple[Claim, ...]:
    return _read(text)


def _read(text: str) -> tuple[Claim, ...]:
    sentences = lexicon().read(written_out(_OTHERS.sub(" ", text)))
    claims: list[Claim] = []
    order = ""
    for sentence in sentences:
        _mark_return(sentence)
    for place, sentence in enumerate(sentences):
        order = order_named(sentence) or order
        before = sentences[max(0, place - FAR) : place]
        _read_sentence(sentence, before, sentences[place + 1 : place + 1 + REACH], order, claims)
    if any(s.has("retraction") and not (s.question or _conditional(s)) for s in sentences):
        claims = [claim for claim in claims if claim.act not in _WEIGHTY]
    made_up = any(s.has("made_up") and not s.question for s in sentences)
    found = tuple(dict.fromkeys(_weighed(claims, made_up)))
    if not found:
        if any(s.has("thanks_for") for s in sentences):
            return (Claim("greet"),)
        if any(s.has("verify", "filler") for s in sentences):
            return (Claim("chat"),)
    if any(s.has("jargon") for s in sentences):
        found = (*found, Claim("jargon"))
    return found


def _mark_return(s: Sentence) -> None:
    """"Take the headphones back" is a return, whatever stands between."""
    if "back" in s.tokens and not s.has("return", "refund", "original", "credit"):
        place = s.tokens.index("back")
        if s.word_before(_GIVING, place, 7):
            s.places["return"] = [place]


def _weighed(claims: list[Claim], made_up: bool) -> list[Claim]:
    """Leave out what other claims of the same reply make nonsense of."""
    needed = any(claim.act == "ask" and claim.slot != "more" for claim in claims)
    retry = any(claim.act == "ask" and claim.slot in ("email", "postcode") for claim in claims)
    weighed = ("deny", "confirm", "offer", "promise", "done")
    slots = {act: {c.slot for c in claims if c.act == act} for act in weighed}
    asked = [claim for claim in claims if claim.act == "confirm"]
    dropped, gone = set(), set()
    if retry:
        dropped.add(("deny", "unverified"))  # another try is no refusal
    if len(slots["deny"]) > MOST_REASONS:
        dropped |= {("deny", reason) for reason in slots["deny"]}  # whatever fits
    if len(slots["confirm"]) > 1 or len({claim.order for claim in asked} - {""}) > 1:
        dropped |= {("confirm", write) for write in slots["confirm"]}  # a yes to which?
    if len(slots["offer"]) > MOST_OFFERS:
        dropped |= {("offer", offer) for offer in slots["offer"]}
    for write in slots["promise"] - {"transfer"}:
        if needed or write in slots["confirm"] | slots["done"] or len(slots["promise"]) > 2:
            dropped.add(("promise", write))  # a readiness, or done by now
    if "return" in slots["promise"] | slots["done"]:
        dropped.add(("offer", "return_later"))
    for claim in claims:
        if claim.act == "undone":
            dropped |= {c[:2] for c in claims if _clash(c, claim, "done", (claim.slot,))}
        if claim.act == "untold":
            untold = ("inform", claim.slot, claim.value)
            gone |= {c for c in claims if c[:3] == untold and c.order == claim.order}
        if claim.act == "confirm":
            reasons = _AGAINST[claim.slot]
            denied = [c for c in claims if _clash(c, claim, "deny", reasons)]
            dropped |= {c[:2] for c in denied} | ({claim[:2]} if denied else set())
            dropped |= {c[:2] for c in claims if _clash(c, claim, "done", (claim.slot,))}
    return [
        claim
        for claim in claims
        if claim[:2] not in dropped
        and claim not in gone
        and claim.act not in ("undone", "untold")
        and not (made_up and claim.act in ("inform", "done"))
    ]


def _clash(claim: Claim, other: Claim, act: str, slots: tuple[str, ...]) -> bool:
    """`claim` is an act on one of `slots`, of no other order than `other`."""
    apart = claim.order and other.order and claim.order != other.order
    return claim.act == act and claim.slot in slots and not apart


def _read_sentence(
    s: Sentence, before: Around, after: Around, order: str, out: list[Claim]
) -> None:
    order, began = order_named(s) or order, len(out)
    far, before = before, before[-REACH:]
    _small_talk(s, before, out)
    matter: list[Claim] = []
    asking = False
    if explains_word(s):
        matter.append(Claim("explain"))
    elif tells_where(s):
        matter += [Claim("ask", "order"), Claim("locate")]
    elif not is_listed(s, before):
        _read_matter(s, far, after, order, matter)
        asking = any(claim.act in _SOFT for claim in matter)
        demanding = (_DEMANDING if asking else _ORDERING).intersection(s.tokens)
        asks_for = any(s.tokens[at - 1 : at + 1] == ["to", "ask"] for at in range(len(s.tokens)))
        soft = not (demanding or asks_for) and len(matter) <= asking
        if soft and explains_why(s):
            matter = [Claim("explain")]
        elif not asking and explains_on(s, bool(matter)):
            matter.append(Claim("explain"))
    handing = any(claim[:2] == ("promise", "transfer") for claim in matter)
    if handing and _MOMENTS.isdisjoint(s.tokens):
        pass  # "let me find you someone who can"
    elif waits(s) and not (
        asking and "," not in s.tokens[: s.at("wait")[0]] and s.at("wait")[0] > 5
    ):
        out.append(Claim("wait"))
    if not matter and asks_name(s):
        matter.append(Claim("who"))
    out += matter
    if s.has("sorry") and not _leads_into_no(s, after, out[began:]):
        out.append(Claim("apologise"))


_MOMENTS = frozenset("hold moment second sec minute wait line bear".split())


def _read_matter(s: Sentence, before: Around, after: Around, order: str, out: list[Claim]) -> None:
    """What a sentence asks, asserts, refuses, offers or promises."""
    far, before = before, before[-REACH:]
    of_others = s.tokens[0] in _THEY and any(n.has("governor") for n in before[-1:])
    unsure = is_hedged(s) or of_others
    if asks_which_matter(s):
        out.append(Claim("ask_intent"))
        return
    asked = asks(s, before, after)
    out += [Claim("ask", slot) for slot in asked]
    confirmed = "" if asked else confirms(s, far)
    if confirmed:
        place = _place_meant(s, before) if confirmed == "address" else _share(s, before)
        orders = [named for _, named in orders_named(s)] or [order]
        out += [Claim("confirm", confirmed, place, named) for named in orders]
    elif not {"email", "postcode"}.intersection(asked) and asks_more(s):
        out.append(Claim("ask", "more"))
    elif "reason" not in asked and asks_intent(s, asked):
        out.append(Claim("ask_intent"))
    reason = ""
    if not (s.question or unsure or _conditional(s)):
        reason = refusal(s, [*reversed(before), *after])
        if reason:
            out.append(Claim("deny", reason, order=order))
        _tells_status(s, order, out)
        if not confirmed:
            _tells_date(s, order, out)
        if not is_rule(s):
            _tells_terms(s, before, out)
        deed = min(s.at("created", "cancelled", "changed", "stored", "managed"), default=0)
        taken = taken_back(s, deed, "governor", "unsaid") and deed
        if not (reason or confirmed or taken or is_general(s, deed)):
            for write in reported(s, before):
                place = _place_meant(s, before) if write == "address" else ""
                out.append(Claim("done", write, place, order))
        out += [Claim("undone", write, order=order) for write in unreported(s)]
    if not confirmed:
        out += [Claim("promise", promise, order=order) for promise in promises(s, before)]
    if not (s.has("quote") or confirmed):
        out += [Claim("offer", offer) for offer in offers(s, before, reason, _conditional(s))]


_THEY = frozenset("they their them theyre these those".split())


def _leads_into_no(s: Sentence, after: Around, claims: list[Claim]) -> bool:
    """A "sorry" that only leads into a refusal, or into not having understood."""
    if s.near("negation", s.places["sorry"][0], 3):
        return True
    if any(claim.act == "deny" for claim in claims):
        return True
    if s.joined and after and refusal(after[0], [s, *after[1:]]):
        return True
    for n in (s, *after[:1]) if s.joined else (s,):
        lost = any(n.tokens[at - 1 : at] not in (["you"], ["youve"]) for at in n.at("not_found"))
        if lost or n.has("unable"):
            return True
    return False


def _place_meant(s: Sentence, before: Around) -> str:
    """The place named here, else the one named last."""
    return next((place for n in (s, *reversed(before)) if (place := place_told(n))), "")


def _share(s: Sentence, before: Around) -> str:
    """The fee on which a yes is asked for, as it was named last: "… with a fee of 15%?"."""
    charging = [n for n in (s, *reversed(before)) if n.has("fee", "fee_verb")]
    return next((str(share) for n in charging for _, share in percentages(n.tokens)), "")


def _conditional(s: Sentence) -> bool:
    """It begins with its condition; one that trails after an assertion takes nothing back."""
    return s.has("condition") and s.places["condition"][0] <= 4


# -- small talk ------------------------------------------------------------------------------------


_TIMES_OF_DAY = frozenset(("morning", "afternoon", "evening"))


def _small_talk(s: Sentence, before: Around, out: list[Claim]) -> None:
    closes = any(not awaited(s, place) for place in s.at("bye")) or _wishes_well(s)
    if (
        s.has("hello") and not (closes or "but" in s.tokens[:1] or (before and before[-1].joined))
    ) or (s.tokens[0] in _TIMES_OF_DAY and (short(s) or "here" in s.tokens[:6])):
        out.append(Claim("greet"))
    if closes:
        out.append(Claim("close"))


def _wishes_well(s: Sentence) -> bool:
    """"Have a lovely day", but not "before you run off and enjoy your day"."""
    if s.tokens[0] == "enjoy" and len(s.tokens) <= 6:
        return True
    if len(s.tokens) > 2 and any(
        token == "enjoy" and s.tokens[at - 1] == "," and len(s.tokens) - at <= 5
        for at, token in enumerate(s.tokens)
    ):
        return True
    wished = [w for w in s.at("wish") if not (s.near("negation", w, 3) or awaited(s, w))]
    return any(0 < place - w <= 6 for place in s.at("pleasant_time") for w in wished)


# -- assertions ------------------------------------------------------------------------------------


def _tells_status(s: Sentence, order: str, out: list[Claim]) -> None:
    told = [(at, stage, _subject(s, at) or order) for at, stage in own_stages(s)]
    for name in STATUS:
        if any(s.near("negation", at, 2) and not is_ruled(s, at) for at in s.at(name)):
            out.append(Claim("untold", "status", name, order))
    last = {(stage, subject): at for at, stage, subject in told}
    for at, stage, subject in told:
        later = range(stage + 1, len(STATUS))
        if not any(at < last.get((other, subject), 0) for other in later):
            # Not "was packed yesterday", where it "is now shipped".
            out.append(Claim("inform", "status", STATUS[stage], subject))


def _subject(s: Sentence, place: int) -> str:
    """The order number nearest before `place`, else the first in the sentence."""
    named = orders_named(s)
    earlier = [token for at, token in named if at <= place]
    return earlier[-1] if earlier else (named[0][1] if named else "")


def _tells_date(s: Sentence, order: str, out: list[Claim]) -> None:
    """A date is that of the delivery, unless something else is dated."""
    found = dates(s.tokens)
    if not found or s.has("placed"):
        return
    strange = ("return", "refund", "changed", "cancel", "cancelled", *STATUS)
    if not s.has("arrival", "delivered") and s.has(*strange):
        return
    for place, date in found:
        delivered = s.at("delivered")
        if s.has("window") and not any(at < place <= at + 4 for at in delivered):
            continue
        if any(s.near("negation", at, 4) and at < place <= at + 4 for at in delivered):
            continue
        if any(s.near("negation", at, 2) and at < place <= at + 4 for at in s.at("arrival")):
            out.append(Claim("untold", "eta", date, _subject(s, place) or order))
            continue
        if any(s.near(stage, place, 3) for stage in STATUS[:3]) and s.has("delivered"):
            continue  # "shipped on 5 March and delivered on 9 March"
        other = s.near("negation", place, 3) or s.near("other_date", place, 3)
        if not (other or _is_unreal(s, place)):
            out.append(Claim("inform", "eta", date, _subject(s, place) or order))


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


def _tells_terms(s: Sentence, before: Around, out: list[Claim]) -> None:
    if s.tokens[0] in _ANYBODY or not (s.has(*_MONEY) or short(s)):
        return
    if taken_back(s, min(s.at(*_MONEY), default=0), "governor", "unsaid"):
        return
    about_fee = s.has("fee", "fee_verb") or (short(s) and any(n.has("fee") for n in before[-1:]))
    percents = percentages(s.tokens) if about_fee else []
    charged = [
        Claim("inform", "fee", str(percent))
        for place, percent in percents
        if not (s.near("negation", place, 3) or _is_lifted(s, place))
        and not taken_back(s, place, "unsaid")
    ]
    out += charged
    if not charged and (s.has("no_fee") or (s.has("fee") and _fee_denied(s))):
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
        if channel == "original" and s.has("fee", "no_fee") and not s.has("refund", "going_back"):
            continue  # "15% of what you originally paid"
        out.append(Claim("inform", "channel", channel))


_MONEY = ("fee", "fee_verb", "no_fee", "original", "credit")
_ANYBODY = frozenset("customers people shoppers everyone buyers others".split())


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
