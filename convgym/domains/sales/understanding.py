"""A sales agent's free text: tool calls, and what its words claim, price by price.

    reply ─► parse_reply ─► calls ─► RawCall
                        └─► speech ─► plain_words ─► SalesReader ─► Claim ─► grounding ─► Said
                                                       ├─ cues.toml         this domain's talk
                                                       ├─ descriptions.py   what products have
                                                       ├─ prices.py         sums and discounts
                                                       └─ assertions.py     the rest

What a newcomer would get wrong: nothing here knows what is true. A claim is what a sentence says,
with product and figures as they are named; it is held against the shop when it is heard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from operator import itemgetter
from pathlib import Path
from typing import Any, Protocol

from convgym.domains.sales.assertions import (
    ASIDE,
    SOON,
    books,
    delivery_days,
    names_addon,
    objections_answered,
    offered,
    product_claims,
    says,
    terms_named,
)
from convgym.domains.sales.delexicalisation import delexicalised, lexicalised, sentences_of
from convgym.domains.sales.descriptions import PACKAGE
from convgym.domains.sales.grounding import ground_speech
from convgym.domains.sales.plain_words import NAMED, plain
from convgym.domains.sales.prices import QUOTE, prices_told
from convgym.domains.sales.world import EVERY_NAME
from convgym.engine import acts
from convgym.engine.acts import AgentTurn, Said
from convgym.language import speech
from convgym.language.cues import Cues
from convgym.language.lines import Line, is_conditional, is_denied
from convgym.language.own_words import labels_itself
from convgym.language.phrases import packaged, packaged_banks
from convgym.language.reranker import NearestLabel
from convgym.language.spans import Tag
from convgym.language.speech import (
    ACT,
    ACT_AND_SLOT,
    MOST_CHARACTERS,
    Claim,
    SpeechReader,
    Spoken,
    naming,
)
from convgym.language.tool_calls import parse_reply

__all__ = ["HARMLESS", "ground_speech", "own_reranker", "read_speech", "understand"]

HARMLESS = (
    "greet", "ask_intent", "ask(need)", "ask(budget)", "ask(quantity)", "ask(more)", "apologise",
    "close", "explain", "wait",
)  # fmt: skip
"""Claims that a reranker may propose: a wrong one costs a moment, and no money."""
MOST_ACTS = 16
"""Acts of one reply that are heard."""
MOST_PRICES = 3
"""Different prices that one reply may name for one product; who names more says every value."""
MOST_ANSWERS = 3
LONGEST_ALIKE, ALIKE_CACHED = 2048, 8192
"""Characters of a reply that is remembered without its products, features and figures, and how
many such replies are."""
_PASTIME = ("greet", "apologise", "wait", "chat", "promise", "explain", "jargon")


class Reranker(Protocol):
    """Asked about replies in which nothing was read."""

    def propose(self, text: str) -> Sequence[str]:
        """Labels of harmless claims."""


# -- a reply ---------------------------------------------------------------------------------------


def understand(text: str, reranker: Reranker | None = None) -> AgentTurn:
    """A sanitised reply as an agent turn, not yet held against any state.

    Speech that only passes the time ("let me check") keeps the floor beside a call; speech
    without any meaning is unclear to the buyer where nothing else comes with it.
    """
    parsed = parse_reply(text)
    said: tuple[Any, ...] = ()
    if parsed.speech:
        said = tuple(read_speech(parsed.speech, reranker)[:MOST_ACTS])
        if parsed.calls and all(claim.act in _PASTIME for claim in said):
            said = ()
        elif not said:
            said = (Said(acts.UNCLEAR),)
    return AgentTurn(said, parsed.calls, parsed.errors, parsed.speech)


def read_speech(text: str, reranker: Reranker | None = None) -> tuple[Claim, ...]:
    """What an agent's words claim, in order of speech; empty where nothing is understood."""
    claims = _reader().read(text, EVERY_NAME)
    if reranker is None or any(claim.act not in ("chat", "jargon") for claim in claims):
        return claims
    labels = (label for label in reranker.propose(text) if label in HARMLESS)
    return (*(_claim_of(label) for label in labels), *claims)


def _claim_of(label: str) -> Claim:
    act, _, slot = label.removesuffix(")").partition("(")
    return Claim(act, slot)


@cache
def own_reranker() -> NearestLabel:
    """Train wordings that mean one thing, by character n-grams; proposes harmless acts only."""
    bank = packaged_banks(PACKAGE, "agent_phrases.toml")["train"]
    examples = []
    for name in bank:
        for phrase in bank.variants(name):
            labels = {str(claim) for claim in read_speech(phrase)}
            if len(labels) == 1:
                examples.append((phrase, labels.pop()))
    return NearestLabel(examples, allowed=HARMLESS)


# -- the reader ------------------------------------------------------------------------------------


class SalesReader(SpeechReader):
    """The reader of declared cues, with this shop's features and prices."""

    def __init__(self, cues: Cues | str | Path | Mapping[str, Any]) -> None:
        """As `SpeechReader`; its products need not be handed over as names."""
        super().__init__(cues)
        self._alike: Callable[[str, bool], tuple[Claim, ...]] = lru_cache(ALIKE_CACHED)(
            self._read_alike
        )

    def __reduce__(self) -> tuple[type[SpeechReader], tuple[Cues]]:
        return (SalesReader, (self.cues,))

    def _entries(self) -> Iterable[tuple[Tag, str]]:
        named = ((tag._replace(value=NAMED[tag.value]), words) for tag, words in naming(NAMED))
        return (*super()._entries(), *named)

    def _sentences(self, text: str, names: tuple[str, ...], known: dict[str, str]) -> list[Spoken]:
        return super()._sentences(plain(text), (), known)

    def _read(self, text: str, names: tuple[str, ...]) -> tuple[Claim, ...]:
        text = text[:MOST_CHARACTERS]
        sentences, labelled = self._sentences(text, (), {}), labels_itself(text)
        remembers = speech.LONGEST_CACHED >= 0 and len(text) <= LONGEST_ALIKE
        aside = delexicalised(sentences) if remembers else None
        if aside is None:
            return self._meaning(self._lines(sentences, (), {}), labelled)
        words, values = aside
        return lexicalised(self._alike(words, labelled), values)

    def _read_alike(self, words: str, labelled: bool) -> tuple[Claim, ...]:
        """The claims of sentences in stand-ins."""
        return self._meaning(self._lines(sentences_of(words), (), {}), labelled)

    def _of_line(self, line: Line, before: list[Line], after: list[Line]) -> list[Claim]:
        claims = super()._of_line(line, before, after)
        if not claims:
            return claims
        claims = list(dict.fromkeys([_own_act(claim, line) for claim in claims]))
        slots = set(map(ACT_AND_SLOT, claims))
        unwanted = set()
        if not _BOOKINGS.isdisjoint(slots):
            if slots & _BOOKINGS != {("done", "book")}:
                unwanted.add(("offer", "addon"))  # "shall I book it with the protection plan?"
            if _is_taken_back(line):
                unwanted |= _BOOKINGS
            for near in before[-2:]:
                if (near.question or near.sentence.leads) and _is_taken_back(near):
                    unwanted.add(("confirm", "book"))  # "If it were cheaper, shall I book it?"
        if "quote" in line.places:
            unwanted |= {("ask", slot) for slot in ("need", "budget", "quantity")}
        if line.tokens[1:2] == ["about"] and line.tokens[2:3] and line.tokens[2][0].isdigit():
            unwanted.add(("recommend", ""))  # "how about $1,186.55 for the Aster Slim?"
        if "ask" in line.hits and _asks_for_a_slot(slots):
            unwanted.add(("ask_intent", ""))  # "what price range do you have in mind?"
        if ("hold", "") in slots:
            unwanted.add(("wait", ""))  # "I stand by $1,249"
        if line.sentence.joined and after and any(after[0].of(k) for k in ("alone", "because")):
            unwanted.add(("apologise", ""))  # "I'm sorry, but it is sold out"
        if not unwanted.isdisjoint(slots):
            claims = [claim for claim in claims if claim[:2] not in unwanted]
        if _GROUNDED.isdisjoint(slots):
            return claims
        return [_grounded(claim, line, before, after) for claim in claims]

    def _facts(self, line: Line) -> list[tuple[int, Claim]]:
        own = "name" in line.hits or any(hit.name not in ASIDE for hit in line.of("value"))
        return super()._facts(line) if own else []

    def _prices(self, line: Line) -> list[tuple[int, Claim]]:
        return []  # they are told by their roles, in `_assertions`

    def _assertions(
        self, line: Line, before: list[Line], after: list[Line], proposed: bool
    ) -> list[tuple[int, Claim]]:
        told = super()._assertions(line, before, after, proposed)
        refused = "alone" in line.hits
        booked = proposed
        if told:
            told = [(place, claim) for place, claim in told if claim.slot not in ASIDE]
            refused = refused or any([claim.act == "deny" for _, claim in told])
            booked = booked or any([claim[:2] == ("done", "book") for _, claim in told])
        if not refused:
            told += product_claims(line, before)
        if not booked:
            addon = bool(before) and names_addon(before[-1])
            for place, role, value, product in prices_told(line, addon):
                told.append((place, Claim("price", role, value, product)))
            if says(line, "hold"):
                told.append((0, Claim("hold", object=line.object_at(len(line.tokens)))))
        for name in objections_answered(line):
            told.append((0, Claim("answer", name)))
        for days, product in delivery_days(line):
            told.append((0, Claim("inform", "delivery", days, product)))
        for name in offered(line, before):
            told.append((0, Claim("offer", name)))
        if "value" not in line.hits:
            return told
        if told and SOON.isdisjoint(line.words) and says(line, "next"):
            told = [pair for pair in told if pair[1] != Claim("answer", "delivery")]
        if not told and (says(line, "sure") or says(line, "next")):
            told.append((0, Claim("explain")))
        return told

    def _weighed(
        self, claims: list[Claim], lines: list[Line], retracted: bool, made_up: bool
    ) -> list[Claim]:
        kept = super()._weighed(claims, lines, retracted, made_up)
        if len(claims) > 1 and (overdone := _overdone(claims)):
            kept = [claim for claim in kept if claim not in overdone]
        if retracted or made_up:
            kept = [claim for claim in kept if claim.act not in _TOLD]
        found = [_settled(claim, lines) for claim in kept]
        if len(found) > 1 and (gone := _beside_others(set(map(ACT_AND_SLOT, found)))):
            return [claim for claim in found if claim[:2] not in gone]
        return found


@cache
def _reader() -> SalesReader:
    return SalesReader(packaged(PACKAGE, "cues.toml"))


_TOLD = ("feature", "price", "hold")
_PRICE_REASONS = ("beyond_authority", "clearance_firm", "last_piece")
_WONDERING = frozenset(("ask", "ask_intent", "explain"))
_WEIGHTY = frozenset(
    "recommend inform quote hold answer deny offer confirm done promise".split()
)


_BOOKINGS = frozenset((("confirm", "book"), ("done", "book"), ("promise", "book")))
_UNDOING = frozenset("cancel cancelling cancelled canceled undo undid delete withdraw".split())
_ASKED = frozenset("asked asks wondered".split())


def _is_taken_back(line: Line) -> bool:
    """"Shall I cancel the order?", "booked, and then cancelled", "if I had it, may I book?" """
    if not _UNDOING.isdisjoint(line.words) or not _ASKED.isdisjoint(line.tokens[:4]):
        return True
    return line.tokens[0] == "if" and is_conditional(line)


_RENAMED = frozenset("ask confirm promise done".split())


def _own_act(claim: Claim, line: Line) -> Claim:
    """Deeds that are an offer or nothing here, by their names in the vocabulary."""
    act, slot, _, _ = claim
    if act not in _RENAMED:
        return claim
    if act == "ask" and slot == "intent":
        if line.question or _begs(line):
            return Claim("ask_intent")
        return Claim("explain" if line.has("purpose") else "chat")
    if slot == "waitlist" and act in ("confirm", "promise", "done"):
        return Claim("offer", "waitlist")
    if act == "confirm" and (slot == "addon" or (slot == "book" and _is_about_addon(line))):
        return Claim("offer", "addon")
    if act == "confirm" and slot == "quote" and claim.object:
        return Claim("recommend", "quote", object=claim.object)
    if act in ("confirm", "promise", "done") and slot in ("addon", "quote", "lower"):
        return Claim("chat")
    return claim


def _begs(line: Line) -> bool:
    """"Tell me what you are looking for"; not "I only show you what you are looking for"."""
    return bool(_BEGGING.intersection(line.tokens[:4]))


_BEGGING = frozenset("tell please let which".split())


def _is_about_addon(line: Line) -> bool:
    """"May I offer you the floor mat with your order?" asks for no yes to the order."""
    return names_addon(line) and not books(line)


def _grounded(claim: Claim, line: Line, before: list[Line], after: list[Line]) -> Claim:
    """A yes and a report with the figures they name, a "no lower price" with its ground."""
    if claim.act in ("confirm", "done") and claim.slot == "book":
        return claim._replace(value=terms_named(claim.act, line, before))
    if claim[:2] in (("deny", "floor"), ("deny", "beyond_authority")):
        around = (line, *before[-_GROUND:], *after[:_GROUND])
        named = {hit.name for near in around for hit in near.of("because")
                 if not (near.question or is_denied(near, hit.start, 3))}  # fmt: skip
        named &= set(_PRICE_REASONS) - {claim.slot}
        return claim._replace(slot=named.pop()) if len(named) == 1 else claim
    return claim


_GROUNDED = frozenset(
    (("confirm", "book"), ("done", "book"), ("deny", "floor"), ("deny", "beyond_authority"))
)
"""Claims to which their sentence, or those around it, add something."""
_GROUND = 2
"""Sentences to either side in which the ground of "no lower price" may stand."""


def _beside_others(slots: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """What says nothing of its own beside other claims of the same reply."""
    gone: set[tuple[str, str]] = set()
    acts = {*map(itemgetter(0), slots)}
    if not _WEIGHTY.isdisjoint(acts):
        gone |= {("ask_intent", ""), ("wait", "")}
    if not _WONDERING.isdisjoint(acts):
        gone.add(("wait", ""))
    if "ask" in acts and _asks_for_a_slot(slots):
        gone.add(("explain", ""))
    if "deny" in acts:
        if any(("deny", reason) in slots for reason in _PRICE_REASONS):
            gone |= {("deny", "floor"), ("hold", "")}
        gone |= {("inform", "stock"), ("wait", ""), ("explain", "")}
    if ("offer", "nearest") in slots:
        gone |= {("recommend", ""), ("recommend", "quote")}
    return gone


def _asks_for_a_slot(slots: set[tuple[str, str]]) -> bool:
    """It asks for something of the buyer's, not only for anything else."""
    return any([act == "ask" and slot != "more" for act, slot in slots])


def _settled(claim: Claim, lines: list[Line]) -> Claim:
    """The claim by the name that it has outside."""
    act, slot, value, product = claim
    if act == "feature":
        return Claim("inform", slot, value, product)
    if act == "price" and slot == QUOTE:
        return Claim("quote", "", value, product)
    if act == "price":
        return Claim("inform", slot, value, product)
    if act == "inform" and slot == "available":
        return claim._replace(slot="stock")
    if act == "offer" and slot == "nearest":
        mentioned = dict.fromkeys(hit.value for line in lines for hit in line.named)
        return claim._replace(value="; ".join(mentioned))
    return claim


_REPEATED = frozenset(("feature", "price", "answer"))


def _overdone(claims: list[Claim]) -> set[Claim]:
    """Features said to be there and not, more prices than anybody names, answers to everything."""
    gone: set[Claim] = set()
    if _REPEATED.isdisjoint(map(ACT, claims)):
        return gone
    features = [claim for claim in claims if claim.act == "feature"]
    answers = [claim for claim in claims if claim.act == "answer"]
    prices: dict[str, set[str]] = {}
    for claim in claims:
        if claim.act == "price" and claim.slot == QUOTE:
            prices.setdefault(claim.object, set()).add(claim.value)
    if len(features) > 1:
        said = {claim[1:] for claim in features}
        opposite = {"has": "lacks", "lacks": "has"}
        gone |= {claim for claim in features if (opposite[claim.slot], *claim[2:]) in said}
    overpriced = {name for name, values in prices.items() if len(values) > MOST_PRICES}
    if overpriced:
        gone |= {claim for claim in claims if claim.act == "price" and claim.object in overpriced}
    if len(answers) > MOST_ANSWERS and len({claim.slot for claim in answers}) > MOST_ANSWERS:
        gone.update(answers)
    return gone
