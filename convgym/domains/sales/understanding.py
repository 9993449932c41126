"""A sales agent's free text: tool calls, and what its words claim, price by price.

    reply ─► parse_reply ─► calls ─► RawCall
                        └─► speech ─► plain ─► SalesReader ─► Claim ─► grounding.ground_speech ─► Said
                                                 ├─ cues.toml         what is said in this domain
                                                 ├─ descriptions.py   what a product has and lacks
                                                 └─ prices.py         sums, discounts, pieces

What a newcomer would get wrong: nothing here knows what is true. A claim is what a sentence says,
with product and figures as they are named; it is held against the shop when it is heard.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any, Protocol

from convgym.domains.sales.descriptions import (
    PACKAGE,
    described,
    feature_name,
    marked,
    short_answer,
)
from convgym.domains.sales.grounding import ground_speech
from convgym.domains.sales.prices import QUOTE, clause_start, named_sums, pieces, prices_told
from convgym.domains.sales.world import CATEGORIES, NAMES, RIVALS
from convgym.engine import acts
from convgym.engine.acts import AgentTurn, Said
from convgym.language.deeds import verbs
from convgym.language.lines import Line, is_conditional, is_denied, is_idle
from convgym.language.phrases import packaged, packaged_banks
from convgym.language.reranker import NearestLabel
from convgym.language.speech import Claim, SpeechReader
from convgym.language.tool_calls import parse_reply

__all__ = ["HARMLESS", "ground_speech", "own_reranker", "read_speech", "understand"]

PRODUCTS = tuple(name for names in NAMES for name in names)
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
_ANSWERS = {
    "shipping": "delivery", "trust": "trust", "competitor": "competitor", "returns": "returns",
}  # fmt: skip
_ASIDE = (*_ANSWERS, "hold", "sure", "next", "fits")
"""Facts of the cue file that are read here, with moods of their own."""
_PASTIME = ("greet", "apologise", "wait", "chat", "promise", "explain", "jargon")
_BEFORE = 4
"""Sentences before a request for a yes that can name what it is to."""
_ITEM = 9


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
    claims = _reader().read(text, PRODUCTS)
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

    def _lines(self, text: str, names: tuple[str, ...]) -> list[Line]:
        return super()._lines(plain(text), names)

    def _of_line(self, line: Line, before: list[Line], after: list[Line]) -> list[Claim]:
        claims = [
            _own_act(claim, line, before) for claim in super()._of_line(line, before, after)
        ]
        slots = {(claim.act, claim.slot) for claim in claims}
        unwanted = set()
        if not slots.isdisjoint((("confirm", "book"), ("promise", "book"))):
            unwanted.add(("offer", "addon"))  # "shall I book it with the protection plan?"
        if _is_taken_back(line):
            unwanted |= {("confirm", "book"), ("done", "book"), ("promise", "book")}
        if any(_is_taken_back(near) and (near.sentence.question or near.sentence.leads)
               for near in before[-2:]):  # fmt: skip
            unwanted.add(("confirm", "book"))  # "If it were cheaper, shall I book it?"
        if line.has("quote"):
            unwanted |= {("ask", slot) for slot in ("need", "budget", "quantity")}
        if line.tokens[1:2] == ["about"] and line.tokens[2:3] and line.tokens[2][0].isdigit():
            unwanted.add(("recommend", ""))  # "how about $1,186.55 for the Aster Slim?"
        if any(act == "ask" and slot != "more" for act, slot in slots):
            unwanted.add(("ask_intent", ""))  # "what price range do you have in mind?"
        if ("hold", "") in slots:
            unwanted.add(("wait", ""))  # "I stand by $1,249"
        if line.sentence.joined and after and any(after[0].of(k) for k in ("alone", "because")):
            unwanted.add(("apologise", ""))  # "I'm sorry, but it is sold out"
        claims = [claim for claim in claims if (claim.act, claim.slot) not in unwanted]
        return [_grounded(claim, line, before, after) for claim in claims]

    def _assertions(
        self, line: Line, before: list[Line], after: list[Line], proposed: bool
    ) -> list[tuple[int, Claim]]:
        told = [
            (place, claim)
            for place, claim in super()._assertions(line, before, after, proposed)
            if claim.act != "quote" and claim.slot not in _ASIDE
        ]
        refused = bool(line.of("alone")) or any(claim.act == "deny" for _, claim in told)
        if not refused:
            told += _described(line, before)
        if not proposed and ("done", "book") not in {claim[:2] for _, claim in told}:
            addon = any(hit.name == "addon" for hit in [h for n in before[-1:] for h in n.of("offer")])
            told += [
                (p.place, Claim("price", p.role, p.value, p.product))
                for p in prices_told(line, addon)
            ]
            if _says(line, "hold"):
                told.append((0, Claim("hold", object=line.object_at(len(line.tokens)))))
        told += [(0, Claim("answer", name)) for name in _answers(line)]
        told += [(0, Claim("inform", "delivery", days, named)) for days, named in _days(line)]
        told += [(0, Claim("offer", name)) for name in _offered(line, before)]
        if _says(line, "next") and _SOON.isdisjoint(line.tokens):
            told = [pair for pair in told if pair[1] != Claim("answer", "delivery")]
        if not told and (_says(line, "sure") or _says(line, "next")):
            told.append((0, Claim("explain")))
        return told

    def _weighed(
        self, claims: list[Claim], lines: list[Line], retracted: bool, made_up: bool
    ) -> list[Claim]:
        kept = set(super()._weighed(claims, lines, retracted, made_up))
        kept -= _overdone(claims)
        if retracted or made_up:
            kept = {claim for claim in kept if claim.act not in _TOLD}
        mentioned = "; ".join(dict.fromkeys(hit.value for line in lines for hit in line.named))
        found = [_settled(claim, mentioned) for claim in claims if claim in kept]
        gone = _beside_others({(claim.act, claim.slot) for claim in found})
        return [claim for claim in found if (claim.act, claim.slot) not in gone]


@cache
def _reader() -> SalesReader:
    return SalesReader(packaged(PACKAGE, "cues.toml"))


_TOLD = ("feature", "price", "hold")
_PRICE_REASONS = ("beyond_authority", "clearance_firm", "last_piece")
_WEIGHTY = frozenset(
    "recommend inform quote hold answer deny offer confirm done promise".split()
)


_UNDOING = frozenset("cancel cancelling cancelled canceled undo undid delete withdraw".split())
_ASKED = frozenset("asked asks wondered".split())


def _is_taken_back(line: Line) -> bool:
    """"Shall I cancel the order?", "booked, and then I cancelled it", "if I had it, may I book?" """
    tokens = line.tokens
    if not _UNDOING.isdisjoint(tokens) or not _ASKED.isdisjoint(tokens[:4]):
        return True
    return tokens[0] == "if" and is_conditional(line)


def _own_act(claim: Claim, line: Line, before: list[Line]) -> Claim:
    """Deeds that are an offer or nothing here, by their names in the vocabulary."""
    act, slot = claim.act, claim.slot
    if act == "ask" and slot == "intent":
        if line.sentence.question or _begs(line):
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
    return not _is_taken(line) and any(hit.name == "addon" for hit in line.of("offer"))


def _grounded(claim: Claim, line: Line, before: list[Line], after: list[Line]) -> Claim:
    """A yes and a report with the figures they name, a "no lower price" with its ground."""
    if claim.act in ("confirm", "done") and claim.slot == "book":
        return claim._replace(value=_terms(claim.act, line, before))
    if claim[:2] in (("deny", "floor"), ("deny", "beyond_authority")):
        around = (line, *before[-_GROUND:], *after[:_GROUND])
        named = {hit.name for near in around for hit in near.of("because")
                 if not (near.sentence.question or is_denied(near, hit.start, 3))}  # fmt: skip
        named &= set(_PRICE_REASONS) - {claim.slot}
        return claim._replace(slot=named.pop()) if len(named) == 1 else claim
    return claim


_GROUND = 2
"""Sentences to either side in which the ground of "no lower price" may stand."""


def _beside_others(slots: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """What says nothing of its own beside other claims of the same reply."""
    gone = set()
    if any(act in _WEIGHTY for act, _ in slots):
        gone |= {("ask_intent", ""), ("wait", "")}
    if any(act in ("ask", "ask_intent", "explain") for act, _ in slots):
        gone.add(("wait", ""))
    if any(act == "ask" and slot != "more" for act, slot in slots):
        gone.add(("explain", ""))
    if any(("deny", reason) in slots for reason in _PRICE_REASONS):
        gone |= {("deny", "floor"), ("hold", "")}
    if any(act == "deny" for act, _ in slots):
        gone |= {("inform", "stock"), ("wait", ""), ("explain", "")}
    if ("offer", "nearest") in slots:
        gone |= {("recommend", ""), ("recommend", "quote")}
    return gone


def _settled(claim: Claim, mentioned: str) -> Claim:
    """The claim by the name that it has outside."""
    act, slot = claim.act, claim.slot
    if act == "feature":
        return claim._replace(act="inform")
    if act == "price":
        act, slot = ("quote", "") if slot == QUOTE else ("inform", slot)
        return claim._replace(act=act, slot=slot)
    if act == "inform" and slot == "available":
        return claim._replace(slot="stock")
    if act == "offer" and slot == "nearest":
        return claim._replace(value=mentioned)
    return claim


def _overdone(claims: list[Claim]) -> set[Claim]:
    """Features said to be there and not, more prices than anybody names, answers to everything."""
    gone: set[Claim] = set()
    features = {claim[1:] for claim in claims if claim.act == "feature"}
    for claim in claims:
        other = "lacks" if claim.slot == "has" else "has"
        if claim.act == "feature" and (other, *claim[2:]) in features:
            gone.add(claim)
    prices: dict[str, set[str]] = {}
    for claim in claims:
        if claim.act == "price" and claim.slot == QUOTE:
            prices.setdefault(claim.object, set()).add(claim.value)
    for claim in claims:
        if claim.act == "price" and len(prices.get(claim.object, ())) > MOST_PRICES:
            gone.add(claim)
    if len({claim.slot for claim in claims if claim.act == "answer"}) > MOST_ANSWERS:
        gone |= {claim for claim in claims if claim.act == "answer"}
    return gone


# -- parts of a sentence ---------------------------------------------------------------------------


def _terms(act: str, line: Line, before: list[Line]) -> str:
    """What a yes would be to, or what is reported: "pieces 3; sum 1186.55; order S15012"."""
    items = [line]
    if act == "confirm":
        for earlier in reversed(before[-_BEFORE:]):
            if earlier.sentence.question or len(earlier.tokens) > _ITEM:
                break
            items.insert(0, earlier)
    found = []
    for item in items:
        found += [f"pieces {number}" for number in pieces(item)]
        found += [f"sum {value}" for value in named_sums(item)]
        found += [f"order {t.upper()}" for t in item.tokens if _ORDER.fullmatch(t)]
    return "; ".join(dict.fromkeys(found))


_ORDER = re.compile(r"[a-z]{1,3}\d{4,6}")


def _described(line: Line, before: list[Line]) -> list[tuple[int, Claim]]:
    """Features, short answers for the one that was asked about, and what fits the buyer."""
    told = [
        (d.place, Claim("feature", "has" if d.has else "lacks", feature_name(d.feature), d.product))
        for d in described(line, before)
    ]
    if not told and (answer := short_answer(line)) is not None:
        told.append((0, Claim("feature", "has" if answer else "lacks", "asked", line.obj)))
    told += [(0, Claim("recommend", object=name)) for name in _best(line)]
    told += [
        (hit.start, Claim("recommend", object=line.object_at(hit.start)))
        for hit in line.of("value")
        if hit.name == "fits" and line.object_at(hit.start) and _says(line, "fits")
        and not is_idle(line)
    ]  # fmt: skip
    if line.object_at(0) and any(hit.name == "nearest" for hit in line.of("offer")):
        if not (is_idle(line) or line.has("negation")):
            told.append((0, Claim("offer", "nearest")))
    return told


def _best(line: Line) -> list[str]:
    """"The best match that I have found for you is the Aster Slim." """
    if len(line.named) != 1 or not line.of("recommending") or line.sentence.question:
        return []
    at = line.named[0].start - 1
    at -= line.tokens[at : at + 1] == ["the"]
    last = line.tokens[at] if at > 0 else ""
    return [line.named[0].value] if last in ("is", "be") and not is_idle(line) else []


_SOON = frozenset("soon quick quickly fast wait days day same".split())
_OFFERING = frozenset("offer add include like care interested want one".split())
_THAT = frozenset("that it one this too".split())


_PROPOSES = frozenset("may shall can could would do should might how what perhaps maybe".split())


def _offered(line: Line, before: list[Line]) -> list[str]:
    """What it offers: "Shall I include the floor mat?", "we could inform you via our waitlist"."""
    if line.staged or line.has("quote", "governor", "rule"):
        return []
    if _offers_it(line, before):
        return ["addon"]
    tokens = line.tokens
    asks = line.sentence.question and not (
        _PROPOSES.isdisjoint(tokens[:3]) and _OFFERING.isdisjoint(tokens)
    )
    able = not {"can", "could", "may", "possible"}.isdisjoint(tokens) and "you" in tokens
    if not (asks or able) or line.has("negation", "unable") or _is_taken(line):
        return []
    return [hit.name for hit in line.of("offer") if hit.name != "nearest" or line.named]


def _is_taken(line: Line) -> bool:
    """It speaks of an order that the thing belongs to: "shall I book it with the floor mat?"."""
    return any(hit.name == "book" for kind in ("do", "doing", "done") for hit in verbs(line, kind))


def _offers_it(line: Line, before: list[Line]) -> bool:
    """"We also have a floor mat. Would you like one?" """
    if not line.sentence.question or len(line.tokens) > 14 or line.of("noun"):
        return False
    named = any(hit.name == "addon" for near in before[-1:] for hit in near.of("offer"))
    return named and not (_OFFERING.isdisjoint(line.tokens) or _THAT.isdisjoint(line.tokens))


def _says(line: Line, name: str) -> bool:
    """A cue of the fact stands there, and is neither denied, asked nor made to depend."""
    if line.sentence.question or line.staged or line.has("quote"):
        return False
    if is_conditional(line) or (name == "hold" and line.has("unable", "hedge")):
        return False
    if name == "hold" and _STAYS.search(" ".join(line.tokens)):
        return True
    return any(hit.name == name and not _is_denied(line, hit.start) for hit in line.of("value"))


_STAYS = re.compile(r"\b(?:stay|stick|stand)(?:ing)? (?:with|to|at|by) (?:the )?\d[\d.]* dollars")


def _is_denied(line: Line, place: int) -> bool:
    """A "not" stands right before it, and what was denied is no risk: "no risk: we take it back"."""
    return is_denied(line, place, 2)


def _answers(line: Line) -> list[str]:
    """The objections that it answers."""
    if line.sentence.question or line.staged or line.has("quote"):
        return []
    found = [
        _ANSWERS[hit.name]
        for hit in line.of("value")
        if hit.name in _ANSWERS and not _is_denied(line, hit.start)
    ]
    tokens = line.tokens
    if not (_RIVALS.isdisjoint(tokens) or _OURS_TOO.isdisjoint(tokens) or line.figures):
        found.append("competitor")
    return list(dict.fromkeys(found))


_RIVALS = frozenset(name.lower().split()[0] for name in RIVALS)
_OURS_TOO = frozenset("we us our ours weve were".split())


_WORKING = frozenset("working business work weekdays workday workdays".split())
_DAYS = frozenset("day days workday workdays weekdays".split())
_COMING = frozenset(
    "deliver delivered delivery delivers arrive arrives arriving ship ships shipped shipping "
    "there here receive reach reaches get takes have yours hands doorstep".split()
)
_OTHER_DAYS = frozenset(
    "message email mail hear reply return returns returned refund refunded warranty back confirmation "
    "not cant cannot wont".split()
)


def _days(line: Line) -> list[tuple[str, str]]:
    """(working days, product) until it is delivered: "in 3 working days", "delivery takes 3 days"."""
    tokens = line.tokens
    if is_idle(line):
        return []
    found = []
    for figure in line.figures:
        at, end = figure.start, figure.end
        clause = tokens[clause_start(tokens, at) : end + 8]
        if not _OTHER_DAYS.isdisjoint(clause):
            continue
        if figure.kind != "number" or _DAYS.isdisjoint(tokens[end : end + 2]):
            continue
        working = not _WORKING.isdisjoint(tokens[end : end + 2])
        rough = not _ROUGH_DAYS.isdisjoint(tokens[max(0, at - 2) : at])
        listed = tokens[end : end + 1] in (["to"], ["or"]) or tokens[at - 1 : at] in (["to"], ["or"])
        if (working or not _COMING.isdisjoint(tokens)) and not (rough or listed):
            found.append((figure.value, line.object_at(at)))
    return found


_ROUGH_DAYS = frozenset("about around roughly approximately least between up under".split())
# -- plain words -----------------------------------------------------------------------------------

_OURS = re.compile(
    r"\bmy(?! (?:own|lunch|dinner|breakfast|friends?|family|wife|husband|partner|mother|father|son"
    r"|daughter|cat|dog|car|flat|house|home)\b)",
    re.IGNORECASE,
)
_OPINION = re.compile(
    r"\bI(?: (?:really|honestly|do|truly))? (?:think|believe|feel|reckon)(?: that)?"
    r"(?= (?:you(?:'ll|’ll| will|'d|’d| would)|it(?:'s|’s| is) (?:well |really )?(?:worth|a)\b"
    r"|(?:that|this)(?:'s|’s| is) a|(?:that|this|the) [\w ]{0,24}(?:suit|great|perfect|ideal|best|right"
    r"|what you)))",
    re.IGNORECASE,
)
_ONE_DAY = re.compile(r"\b(?:one|a single|a)(?= (?:working|business|work) day\b)", re.IGNORECASE)
_SHORT_NAME = re.compile(
    r"\b([Tt]he )("
    + "|".join(name.split()[0] for name in PRODUCTS)
    + r")(?! (?:"
    + "|".join(dict.fromkeys(name.split()[1] for name in PRODUCTS))
    + r")\b)(?![\w-])"
)
_FULL = {name.split()[0]: name for name in PRODUCTS}
assert len(_FULL) == len(PRODUCTS)
assert len(CATEGORIES) == len(NAMES)


_INTEREST = re.compile(r"\b(?:can|could|may|might) I interest you in\b", re.IGNORECASE)
_AS_SAID = re.compile(r"\bas (?:quoted|agreed|discussed|described|planned|mentioned)\b", re.IGNORECASE)
_PLURAL = re.compile(
    r"\b((?:matching|suitable|fitting|such|single|any|no)(?: of)?(?: (?:the|our))?)"
    r"((?: office| coffee)? (?:laptop|phone|camera|chair|machine|product|model|item))s\b",
    re.IGNORECASE,
)
_FROM_HERE = re.compile(
    r"\b(?:from what|as far as) I can (?:see|tell|judge)[^,.;!?\n]*,"
    r"(?=[^.!?\n]*\b(?:recommend|suggest|suit|go for|pick)\b)",
    re.IGNORECASE,
)


_CONTRACTED = re.compile(
    r"\b(do|does|did|is|are|was|were|has|have|had|would|could|should|wo) not\b", re.IGNORECASE
)
_SHORT_NO = re.compile(
    r"\bit (?:doesn['’]?t|hasn['’]?t)(?= *(?:[.,!;:]|$))", re.IGNORECASE | re.MULTILINE
)
_AS_ASKED = re.compile(
    r"\b(?:just )?as you(?:'ve| have)? (?:asked|requested|wanted|wished|said|told me)"
    r"(?: for)?(?: it| that)?\b",
    re.IGNORECASE,
)
_IF_I_WERE = re.compile(
    r"\b(?:if I (?:were|was|had)|were I)(?: (?:you|to (?:choose|pick|decide)|in your (?:shoes|place)))"
    r"[^,.!?\n]{0,30},",
    re.IGNORECASE,
)
_YOU_MIGHT = re.compile(r"\byou (?:might|may)(?= (?:like|love|enjoy|want|be interested))", re.IGNORECASE)
_AS_FAR = re.compile(r"\bas far as (?:I|we) (?:may|can|could) go\b", re.IGNORECASE)
_THEIR_PRICE = re.compile(r"\btheir(?= prices?\b)", re.IGNORECASE)
_WHY_NOT = re.compile(r"\bwhy (?:not|don['’]t you) (?:go for|take|choose|pick|try)\b", re.IGNORECASE)
_LETS_SAY = re.compile(
    r"\blet(?:['’]s| us) (?:say|make it|call it|settle (?:on|at|for)|agree on)(?= (?:\$|\d))", re.IGNORECASE
)
_COLON = re.compile(r"(?<=\w \w)(\w*):[ ]+(?=[a-z])")
_MAY_NOT = re.compile(
    r"\b(I|we) may not(?= (?:discount|give|go|reduce|lower|offer|sell|take|grant)\b)", re.IGNORECASE
)
_IF_AGREED = re.compile(
    r",? if (?:you agree|you['’]re (?:okay|ok|fine) with (?:that|it)"
    r"|that(?:['’]s| is) (?:ok|okay|all right|alright|fine)(?: (?:with|by|for) you)?)[.!]?[ ]*$",
    re.IGNORECASE | re.MULTILINE,
)
_MOMENT_AGO = re.compile(r"\b(?:just )?a (?:moment|minute|second) ago\b", re.IGNORECASE)
_THINK_OF = re.compile(r"\bwhat (?:do|would) you (?:think of|think about|say to)\b", re.IGNORECASE)
_SIMPLY = re.compile(r"\b(is|are) (?:simply|basically|just)(?= (?:no|nothing|not)\b)", re.IGNORECASE)
_SUCH_A = re.compile(
    r"\ban?(?= (?:laptop|phone|camera|(?:office )?chair|(?:coffee )?machine|product|model)\b"
    r"[^.!?\n]{0,60}\b(?:range|catalogue|assortment|carry|sell)\b)",
    re.IGNORECASE,
)
_NO_STOCK = re.compile(
    r"(^|[.!?:]\s+)No(?= (?:stock|pieces|room|more|lower|further|such|product|model)\b)", re.MULTILINE
)
_HEY = re.compile(r"\bhey+(?!\w)", re.IGNORECASE)
_PERHAPS = re.compile(r"\b(?:perhaps|maybe)(?= (?:you(?:'|’)?d|you would|i can|i could|we can)\b)", re.IGNORECASE)
_THESE = re.compile(r"\b(?:these|those)(?= are\b)", re.IGNORECASE)
_WHAT_SETS = re.compile(r"\bwhat(?= (?:sets|makes|distinguishes) (?:us|our)\b)", re.IGNORECASE)
_SHOULD_IT = re.compile(r"\b(what|which features|how) should it\b", re.IGNORECASE)


def plain(text: str) -> str:
    """`text` with what only this shop's grammar needs: one word for each feature, whole names.

    "I think it's well worth it" is no guess, "my authority" is nobody else's, "the Aster" is the
    Aster Slim, and "any laptops" are one that there is not.
    """
    text = _AS_FAR.sub("the limit of what I am allowed", text)
    text = _THEIR_PRICE.sub("the", _YOU_MIGHT.sub("you would", _IF_I_WERE.sub("", text)))
    text = _WHY_NOT.sub("how about", _LETS_SAY.sub("I offer", _COLON.sub(r"\1, ", text)))
    text = _MAY_NOT.sub(r"\1 am not allowed to", _IF_AGREED.sub(". Is that okay?", _MOMENT_AGO.sub("just", text)))
    text = _THINK_OF.sub("how about", _SIMPLY.sub(r"\1", text))
    text = _SUCH_A.sub("the", _NO_STOCK.sub(r"\1there is no", text))
    text = _HEY.sub("hey", _PERHAPS.sub("", text))
    text = _CONTRACTED.sub(r"\1n't", _WHAT_SETS.sub("it", _THESE.sub("they", marked(text))))
    text = _SHOULD_IT.sub(r"\1 must it", _SHORT_NO.sub("it lacks that", _AS_ASKED.sub("", text)))
    text = _OPINION.sub("", _OURS.sub("our", text))
    text = _PLURAL.sub(r"\1\2", _ONE_DAY.sub("1", text))
    text = _FROM_HERE.sub("", _AS_SAID.sub("", _INTEREST.sub("would you be interested in", text)))
    return _SHORT_NAME.sub(lambda m: m[1] + _FULL[m[2]], text)
