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
from itertools import pairwise
from typing import Protocol

from convgym.domains.customer_service.alternatives import alternatives
from convgym.domains.customer_service.changes import (
    changes_reported,
    changes_undone,
    variant_told,
)
from convgym.domains.customer_service.claims import (
    HARMLESS,
    LATE,
    REASONS,
    STATUS,
    TERMS,
    UNLABELLED,
    Claim,
)
from convgym.domains.customer_service.facts import tell_date, tell_status
from convgym.domains.customer_service.grounds import ground, may_ground
from convgym.domains.customer_service.intentions import (
    explains_on,
    explains_why,
    explains_word,
    promises,
    waits,
)
from convgym.domains.customer_service.matter_words import settle
from convgym.domains.customer_service.matters import (
    MATTERS,
    about,
    in_play,
    is_about_any,
    number_of,
)
from convgym.domains.customer_service.questions import (
    asks,
    asks_intent,
    asks_more,
    asks_name,
    asks_which_matter,
    confirms,
    is_listed,
    orders_named,
    short,
    tells_where,
)
from convgym.domains.customer_service.refusals import (
    is_general,
    is_hedged,
    is_rule,
    offers,
    refusal,
)
from convgym.domains.customer_service.reports import place_told, reported, unreported
from convgym.domains.customer_service.terms import tell_terms
from convgym.language.figures import percentages, written_out
from convgym.language.moods import Around, awaited, taken_back
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
    "return": ("outside_window", "final_sale", "not_delivered", "too_many_returns"),
    "address": ("already_shipped", LATE, "not_served"),
    "exchange": ("outside_window", "not_delivered", "out_of_stock"),
    "refund": ("no_return_received", "refund_pending"),
    "subscription": ("prepaid", "minimum_term"),
    "access": ("unverified",),
    "warranty": ("not_covered", "out_of_warranty", "not_delivered"),
    "billing": ("charge_pending", "dispute_late", "charge_valid"),
}
"""The refusals that a question for a yes to that write contradicts."""

_WEIGHED = ("ask", "deny", "confirm", "offer", "promise", "done")
_CONSISTENT = frozenset(
    "greet ask_intent ask explain locate who apologise close wait chat jargon".split()
)
"""Acts that no other act makes nonsense of, and that make none of any other."""
_TWO_VALUED = ("postage", "remedy", "ends")
_WEIGHTY = frozenset("inform done deny offer confirm promise".split())
"""What a reply takes back where it takes back anything: "just kidding"."""

_GIVING = frozenset("take taking send sending bring ship accept give hand mail".split())
_SOFT = ("ask", "ask_intent")
"""What an explanation only seems to say: "the e-mail helps me find your account"."""
_ORDERING = frozenset("please kindly provide share could".split())
_DEMANDING = frozenset(
    "please need needed required require must kindly provide let may could grateful would "
    "appreciate".split()
)
_LETTER_OF = {
    "prepaid": "s", "minimum_term": "s",
    "charge_pending": "c", "dispute_late": "c", "charge_valid": "c",
}  # fmt: skip
"""What the numbers of the records begin with that a refusal is about; those of orders with W."""


_OTHERS = re.compile(
    r"^\s*(?:customer|user|system|tool)\s*:.*$|\{[^{}]*\"[^{}]*\}", re.IGNORECASE | re.MULTILINE
)
"""What is not said by the agent: lines of somebody else, and raw data."""
_RULE = re.compile(
    r"^(?!.*\b(?:I|I'm|I've|[Yy]ours?|[Yy]ou)\b)(?:.*, reason: (?:" + "|".join(REASONS) + r")\b|"
    r".*\bbefore the customer confirms\b|[^\w\n]*Transfer to a human\b).*$",
    re.MULTILINE,
)
"""A line of the policy document: it tells the agent what to do, and no customer of any record."""
_OF_POLICY = (", reason: ", "before the customer confirms", "Transfer to a human")
_NUMBER = re.compile(r"[WwSsCc]\d{5}")
_FIVE_DIGITS = re.compile(r"\d{5}")


@cache
def lexicon() -> Lexicon:
    """The concepts of `cues.toml` with the marks of `matter_cues.toml`, compiled."""
    folder = files("convgym.domains.customer_service")
    cues, matters = (
        tomllib.loads(folder.joinpath(name).read_text(encoding="utf-8"))
        for name in ("cues.toml", "matter_cues.toml")
    )
    return Lexicon(cues["concepts"], {**cues["marks"], **matters["marks"]})


class Reranker(Protocol):
    """Proposes labels for a reply in which nothing was read (`convgym.language.reranker`)."""

    def propose(self, text: str) -> Sequence[str]:
        """The labels of what is most like it, or nothing."""


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
    text = written_out(_own_words(text))
    sentences = lexicon().read(text)
    claims: list[Claim] = []
    named = {"w": "", "s": "", "c": ""}
    letters: set[str] = set()
    if _FIVE_DIGITS.search(text):
        letters = {number[0].lower() for number in _NUMBER.findall(text)}
    for sentence in sentences:
        if "back" in sentence.words:
            _mark_return(sentence)
    settle(sentences, not letters <= {"w"})
    for place, sentence in enumerate(sentences):
        if letters:
            _note_numbers(sentence, named)
        before = sentences[max(0, place - FAR) : place]
        _read_sentence(sentence, before, sentences[place + 1 : place + 1 + REACH], named, claims)
    concepts: set[str] = set().union(*[s.places for s in sentences])
    if "retraction" in concepts and any(
        "retraction" in s.places and not (s.question or _conditional(s)) for s in sentences
    ):
        claims = [claim for claim in claims if claim.act not in _WEIGHTY]
    made_up = "made_up" in concepts and any(
        "made_up" in s.places and not s.question for s in sentences
    )
    found = tuple(dict.fromkeys(_weighed(claims, made_up)))
    if not found:
        if "thanks_for" in concepts:
            return (Claim("greet"),)
        if not concepts.isdisjoint(("verify", "filler")):
            return (Claim("chat"),)
    if "jargon" in concepts:
        found = (*found, Claim("jargon"))
    return found


def _own_words(text: str) -> str:
    """`text` without lines of somebody else, raw data and what is read out of the policy."""
    if any(words in text for words in _OF_POLICY):
        text = _RULE.sub(" ", text)
    return _OTHERS.sub(" ", text) if ":" in text or "{" in text else text


def _note_numbers(s: Sentence, named: dict[str, str]) -> None:
    """Keep the first number of each kind that the sentence names."""
    for token in reversed(s.tokens):
        if len(token) == 6 and token[0] in named and token[1:].isdigit():
            named[token[0]] = token.upper()


def _mark_return(s: Sentence) -> None:
    """"Take the headphones back" is a return, whatever stands between."""
    if not s.has("return", "refund", "original", "credit"):
        place = s.tokens.index("back")
        if s.word_before(_GIVING, place, 7):
            s.places["return"] = [place]


def _weighed(claims: list[Claim], made_up: bool) -> list[Claim]:
    """Leave out what other claims of the same reply make nonsense of."""
    if _CONSISTENT.issuperset([claim.act for claim in claims]):
        return claims
    slots: dict[str, set[str]] = {act: set() for act in _WEIGHED}
    for claim in claims:
        slots.setdefault(claim.act, set()).add(claim.slot)
    asked = [claim for claim in claims if claim.act == "confirm"]
    needed = not slots["ask"] <= {"more"}
    dropped, gone = set(), set()
    if not slots["ask"].isdisjoint(("email", "postcode")):
        dropped.add(("deny", "unverified"))  # another try is no refusal
    if len(slots["deny"]) > MOST_REASONS:
        dropped |= {("deny", reason) for reason in slots["deny"]}  # whatever fits
    if len(slots["confirm"]) > 1 or len({claim.order for claim in asked} - {""}) > 1:
        dropped |= {("confirm", write) for write in slots["confirm"]}  # a yes to which?
    if len(slots["offer"]) > MOST_OFFERS:
        dropped |= {("offer", offer) for offer in slots["offer"]}
    told = {claim[1:3] for claim in claims if claim.slot in _TWO_VALUED}
    if len(told) > 1:
        for term in _TWO_VALUED:
            if all((term, value) in told for value in TERMS[term]):
                dropped.add(("inform", term))  # one of the two
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
    s: Sentence, before: Around, after: Around, named: dict[str, str], out: list[Claim]
) -> None:
    began = len(out)
    far, before = before, before[-REACH:]
    _small_talk(s, before, out)
    matter: list[Claim] = []
    asking = False
    located = tells_where(s)
    if explains_word(s) and not _tells_more(s, before, after):
        matter.append(Claim("explain"))
    elif located:
        matter += [Claim("ask", located), Claim("locate")]
    elif not is_listed(s, before):
        _read_matter(s, far, after, named, matter)
        asking = any(claim.act in _SOFT for claim in matter)
        if len(matter) <= asking and explains_why(s) and not _demands(s, asking):
            matter = [Claim("explain")]
        elif not asking and (explains_on(s, bool(matter)) or _goes_on(s, matter)):
            if not (_offers_another(matter) or _is_of_nobody(s)):
                matter.append(Claim("explain"))
    if "wait" not in s.places or (
        _MOMENTS.isdisjoint(s.words) and any(c[:2] == ("promise", "transfer") for c in matter)
    ):
        pass  # "let me find you someone who can"
    elif waits(s) and not (
        asking and "," not in s.tokens[: s.at("wait")[0]] and s.at("wait")[0] > 5
    ):
        if not (_changes(matter) and _MOMENTS.isdisjoint(s.words)):
            out.append(Claim("wait"))  # but not "let me open that claim"
    if not matter and asks_name(s):
        matter.append(Claim("who"))
    out += matter
    if "sorry" in s.places:
        trails = s.tokens[-2:] == [",", "sorry"] and any(claim.act == "deny" for claim in out)
        if not (trails or _leads_into_no(s, after, out[began:])):
            out.append(Claim("apologise"))


def _demands(s: Sentence, asking: bool) -> bool:
    """It wants something beside what it explains; `asking`: it asks for a slot."""
    if not (_DEMANDING if asking else _ORDERING).isdisjoint(s.words):
        return True
    return "ask" in s.words and ("to", "ask") in pairwise(s.tokens)


def _tells_more(s: Sentence, before: Around, after: Around) -> bool:
    """What looks like an explanation is a term or a refusal of one of the six matters."""
    if not in_play(s):
        return False
    if "paid_month" in s.places and "means" not in s.places:
        return True
    return may_ground(s) and bool(ground(s, [*reversed(before), *after]))


_PERSONS = frozenset("you your youll youre it its well ill im i this that them".split())


def _is_of_nobody(s: Sentence) -> bool:
    """A rule of the shop on one of the six matters: "a charge can be disputed for 60 days"."""
    if not is_about_any(s) or not _PERSONS.isdisjoint(s.words):
        return False
    return not (about(s, "refund") and s.tokens[0] == "the")


def _goes_on(s: Sentence, claims: list[Claim]) -> bool:
    """What follows on what was done: "it's paid out again, you'll see it in a few days"."""
    if not claims or "next_step" not in s.places or "," not in s.words:
        return False
    return any(claim.act == "done" and claim.slot in ("refund", "billing") for claim in claims)


_MOMENTS = frozenset("hold moment second sec minute wait line bear".split())
_NEW_OFFERS = frozenset("waitlist new_label pause paid_repair send_invoice".split())


def _offers_another(claims: list[Claim]) -> bool:
    return any(claim.act == "offer" and claim.slot in _NEW_OFFERS for claim in claims)


def _changes(claims: list[Claim]) -> bool:
    return any(claim.act == "promise" and claim.slot in MATTERS for claim in claims)


def _read_matter(
    s: Sentence, before: Around, after: Around, named: dict[str, str], out: list[Claim]
) -> None:
    """What a sentence asks, asserts, refuses, offers or promises."""
    far, before = before, before[-REACH:]
    if asks_which_matter(s):
        out.append(Claim("ask_intent"))
        return
    if len(s.tokens) <= 4 and s.tokens[0] in _LABELS:
        return  # "deny: out_of_stock" is nobody's language
    order = named["w"]
    instead = alternatives(s)
    asked = asks(s, before, after)
    if instead:
        asked = [slot for slot in asked if slot not in _BY_THE_WAY]
    out += [Claim("ask", slot) for slot in asked]
    confirmed = [] if asked or instead else confirms(s, far)
    for write in confirmed:
        out += _confirmed(s, before, write, named)
    if confirmed:
        pass
    elif _ASKED_ALONE.isdisjoint(asked) and asks_more(s):
        out.append(Claim("ask", "more"))
    elif _NO_INTENT.isdisjoint(asked) and not instead and asks_intent(s, asked):
        out.append(Claim("ask_intent"))
    reason = ""
    of_others = s.tokens[0] in _THEY and any("governor" in n.places for n in before[-1:])
    if not (s.question or of_others or is_hedged(s) or _conditional(s)):
        reason = refusal(s, [*reversed(before), *after])
        if reason:
            letter = _LETTER_OF.get(reason, "w")
            out.append(Claim("deny", reason, order=named[letter]))
        out += tell_status(s, order)
        if not confirmed:
            out += tell_date(s, order)
        if not is_rule(s):
            out += tell_terms(s, before, short(s))
        if is_about_any(s) and not (reason or confirmed):
            for write in changes_reported(s):
                sent = _variant_meant(s, before) if write == "exchange" else ""
                out.append(Claim("done", write, sent, number_of(s, write, named)))
        if not (reason or confirmed or _is_no_report(s)):
            for write in reported(s, before):
                place = _place_meant(s, before) if write == "address" else ""
                out.append(Claim("done", write, place, order))
        out += [Claim("undone", write, order=order) for write in unreported(s)]
        if is_about_any(s):
            for write in changes_undone(s):
                out.append(Claim("undone", write, order=number_of(s, write, named)))
    elif _is_natural(s) and s.has("at_once", "paid_month"):
        out += tell_terms(s, before, False)
    if not confirmed:
        out += [
            Claim("promise", promise, order=number_of(s, promise, named))
            for promise in promises(s, before)
        ]
    if not ("quote" in s.places or confirmed):
        out += [Claim("offer", offer) for offer in offers(s, before, reason, _conditional(s))]
    out += [Claim("offer", offer) for offer in instead]


def _is_no_report(s: Sentence) -> bool:
    """What is done stands under a doubt, or in a rule of the shop."""
    deed = min(s.at("created", "cancelled", "changed", "stored", "managed"), default=0)
    return is_general(s, deed) or bool(deed and taken_back(s, deed, "governor", "unsaid"))


_ASKED_ALONE = frozenset(("email", "postcode", "defect"))
_IF = frozenset("if once when".split())
_DOER = frozenset("we i you its it".split())


def _is_natural(s: Sentence) -> bool:
    """"If we end it, it stops at once": what else could it depend on."""
    return not s.question and s.tokens[0] in _IF and not _DOER.isdisjoint(s.tokens[1:2])


_LABELS = frozenset(("deny", "offer", "inform"))
_BY_THE_WAY = frozenset("email postcode reason order variant".split())
"""What an offer only seems to ask for: "shall I email you the invoice?"."""
_NO_INTENT = frozenset("reason subscription charge variant defect cause".split())


def _confirmed(s: Sentence, before: Around, write: str, named: dict[str, str]) -> list[Claim]:
    """A yes that is asked for, once for each order that is named."""
    if write in MATTERS:
        sent = _variant_meant(s, before) if write == "exchange" else ""
        return [Claim("confirm", write, sent, number_of(s, write, named))]
    place = _place_meant(s, before) if write == "address" else _share(s, before)
    orders = [number for _, number in orders_named(s)] or [named["w"]]
    return [Claim("confirm", write, place, number) for number in orders]


def _variant_meant(s: Sentence, before: Around) -> str:
    """What is sent in exchange as it is told here, else as it was told last."""
    return next((told for n in (s, *reversed(before)) if (told := variant_told(n))), "")


_THEY = frozenset("they their them theyre these those".split())


def _leads_into_no(s: Sentence, after: Around, claims: list[Claim]) -> bool:
    """A "sorry" that only leads into a refusal, or into not having understood."""
    if s.near("negation", s.places["sorry"][0], 3):
        return True
    if any(claim.act == "deny" for claim in claims):
        return True
    if in_play(s) and _feels(s) and not s.joined:
        return False
    if s.joined and after and refusal(after[0], [s, *after[1:]]):
        return True
    for n in (s, *after[:1]) if s.joined else (s,):
        lost = any(n.tokens[at - 1 : at] not in (["you"], ["youve"]) for at in n.at("not_found"))
        if lost or "unable" in n.places:
            return True
    return False


_FEELING = frozenset((("to", "hear"), ("that", "you"), ("you", "cant"), ("you", "got")))


def _feels(s: Sentence) -> bool:
    """"Sorry that you can't log in" is sorry for the customer, and refuses nothing."""
    at = s.places["sorry"][0]
    return any(tuple(s.tokens[p : p + 2]) in _FEELING for p in (at + 1, at + 2))


def _place_meant(s: Sentence, before: Around) -> str:
    """The place named here, else the one named last."""
    return next((place for n in (s, *reversed(before)) if (place := place_told(n))), "")


def _share(s: Sentence, before: Around) -> str:
    """The fee on which a yes is asked for, as it was named last: "… with a fee of 15%?"."""
    charging = [n for n in (s, *reversed(before)) if n.has("fee", "fee_verb")]
    return next((str(share) for n in charging for _, share in percentages(n.tokens)), "")


def _conditional(s: Sentence) -> bool:
    """It begins with its condition; one that trails after an assertion takes nothing back."""
    return "condition" in s.places and s.places["condition"][0] <= 4


# -- small talk ------------------------------------------------------------------------------------


_TIMES_OF_DAY = frozenset(("morning", "afternoon", "evening"))


def _small_talk(s: Sentence, before: Around, out: list[Claim]) -> None:
    closes = any(not awaited(s, place) for place in s.places.get("bye", ())) or _wishes_well(s)
    if (
        "hello" in s.places
        and not (closes or "but" in s.tokens[:1] or (before and before[-1].joined))
    ) or (s.tokens[0] in _TIMES_OF_DAY and (short(s) or "here" in s.tokens[:6])):
        out.append(Claim("greet"))
    if closes:
        out.append(Claim("close"))


def _wishes_well(s: Sentence) -> bool:
    """"Have a lovely day", but not "before you run off and enjoy your day"."""
    if s.tokens[0] == "enjoy" and len(s.tokens) <= 6:
        return True
    if "enjoy" in s.words and any(
        pair == (",", "enjoy") and len(s.tokens) - at <= 6
        for at, pair in enumerate(pairwise(s.tokens))
    ):
        return True
    if "wish" not in s.places or "pleasant_time" not in s.places:
        return False
    wished = [w for w in s.at("wish") if not (s.near("negation", w, 3) or awaited(s, w))]
    return any(0 < place - w <= 6 for place in s.at("pleasant_time") for w in wished)
