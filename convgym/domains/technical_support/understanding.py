"""What an agent's words mean at the support desk: claims, in order of speech.

    cues.toml ─► SpeechReader ─► claims ─┬─► steps of two halves    "unplug it, … plug it back in"
                                         ├─► words of the trade     check(wifi_name), technical
                                         └─► what only this desk knows: settings that are lost, a
                                             deed that is not named, how something is done

A claim is (act, slot, value, object), all text, not yet held against anything: that is
`convgym.domains.technical_support.grounding`. What a newcomer would get wrong: how a thing is
done ("here is how: hold the button for ten seconds") explains, and is no step to be done again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Protocol

from convgym.language.cues import Cues, Denial
from convgym.language.deeds import reports
from convgym.language.lines import Line, is_denied, is_hedged, is_idle, is_own, of_others
from convgym.language.phrases import packaged, packaged_banks
from convgym.language.reranker import NearestLabel
from convgym.language.spans import Hit, Spans, Tag
from convgym.language.speech import Claim, SpeechReader, _common

__all__ = ["HARMLESS", "UNLABELLED", "Claim", "own_reranker", "read_speech"]

_PACKAGE = "convgym.domains.technical_support"
TECHNICAL = "technical"
"""Value of a check or a step that is told in words of the trade."""
UNLABELLED = ("jargon", "chat")
"""Acts that labelled replies leave out."""
HARMLESS = frozenset(
    ["greet", "ask_intent", "apologise", "wait", "close", "explain"]
    + [f"ask({slot})" for slot in ("phone", "pin", "device", "more")]
    + ["check(service)"]
)
"""Labels that carry no value and change nothing: what a reranker may propose."""


class Reranker(Protocol):
    """Proposes labels for a reply in which nothing was read."""

    def propose(self, text: str) -> tuple[str, ...]:
        """Labels such as `ask(phone)`."""
        ...


def read_speech(text: str, reranker: Reranker | None = None) -> tuple[Claim, ...]:
    """The claims of a reply, before any grounding."""
    found = tuple(_settled(_reader().read(_normalised(text))))
    if reranker is None or any(claim.act not in UNLABELLED for claim in found):
        return found
    labels = (label for label in reranker.propose(text) if label in HARMLESS)
    return (*map(_claim_of, labels), *found)


def _claim_of(label: str) -> Claim:
    act, _, slot = label.rstrip(")").partition("(")
    return Claim(act, slot)


@cache
def own_reranker() -> NearestLabel:
    """Train wordings that mean one thing, by character n-grams; proposes harmless acts only."""
    bank = packaged_banks(_PACKAGE, "agent_phrases.toml")["train"]
    examples = []
    for act in bank:
        for phrase in bank.variants(act):
            labels = {str(claim) for claim in read_speech(phrase)}
            if len(labels) == 1:
                examples.append((phrase, labels.pop()))
    return NearestLabel(examples, allowed=HARMLESS)


@cache
def _reader() -> _Reader:
    return _Reader(Cues.load(packaged(_PACKAGE, "cues.toml")))


# -- before it is read -----------------------------------------------------------------------------

_SOON = re.compile(r"\bas soon as(?! (?:possible|you can|i can|we can))\b", re.IGNORECASE)
_REPORTING = re.compile(
    r"\b(tell me|let me know|say so|say|shout|(?:come|get|report) back to me|report back|"
    r"give me a (?:shout|sign|word))( (?:that|again))? (?:once|when|whenever|the moment|after)\b",
    re.IGNORECASE,
)
_YES = re.compile(
    r"\bif you (?:say yes|agree|confirm|are (?:okay|ok|happy|fine) with (?:that|this|it)|approve)"
    r",? (?:then )?(i|we)(?:['’]ll| will|['’]d| would)\b",
    re.IGNORECASE,
)
_TIED = re.compile(r"\bmy hands are tied\b", re.IGNORECASE)
_AGAIN = re.compile(r"\bonce (?:more|again)\b", re.IGNORECASE)
_ONLY_ONCE = re.compile(r"\bonce(?= ?[,.;:!?]| and\b|$)", re.IGNORECASE | re.MULTILINE)


_WHETHER = re.compile(
    r",?;? (?:and|then)(?: then| please| also)* ((?:please )?(?:tell me|let me know|see|report)"
    r"(?: please)? (?:if|whether))\b",
    re.IGNORECASE,
)


def _normalised(text: str) -> str:
    """When the customer is to speak, and of what, is no condition of what it is to do."""
    text = _WHETHER.sub(r". \1", text)
    text = _AGAIN.sub("again", _SOON.sub("when", text))
    text = _TIED.sub("I cannot help", _YES.sub(r"\1 would", text))
    return _ONLY_ONCE.sub("", _REPORTING.sub(r"\1 that", text))


# -- one sentence ----------------------------------------------------------------------------------

_OWN: dict[str, tuple[str, ...]] = {
    # What follows is how it is done.
    "heading": (
        "here -/is/are how", "heres how", "this is how", "thats how -/you do", "that is how you do",
        "how -/do you do/to do that/it/this", "how that/this/it works", "how it goes", "how it is done",
        "you do that/it/this like/by/with", "it goes/works like this", "you do so", "to do that/this/so/it , ",
        "in detail", "what i mean/meant -/is", "the way to do it/that/this", "step by step",
        "what that/this/it means/is/meant", "the steps are", "let me explain", "to explain",
        "easily done", "easy to do", "simpler than it sounds",
    ),
    # Where a thing is found, or which key it is.
    "where": (
        "you/youll -/will/can/also/usually/always find it/that/them/the",
        "it is/its the/a/an -/very small/little/tiny/white/black/round/big/tall lamp/light/button/key/switch/hole/lever/plug/socket/sign/symbol/card/tray/label/sticker",
        "it is/its the/a/an lamp/light/button/key/switch/hole/lever/socket/sign/symbol/sticker",
        "it is/its/are/sits/stands -/right/just/directly next to/at", "is the -/very tiny/small/little/round hole/button/key/lamp/switch",
        "it is/its/sits/stands -/right/usually on/at/in/under/below/behind the back/rear/front/side/bottom/underside/top/label/sticker/menu/corner/settings/app/box",
        "the one/lamp/button/key/switch/sign/symbol with", "look for the", "the one next/beside/behind/under/on/at",
        "it is/its written/printed", "settings then", "under about", "in settings/- under", "find it in/on/under",
    ),
    "manual": (
        "go -/in/on/back to/into the/your/- settings/menu/system", "open -/the/your settings/menu",
        "hold it/them/- down", "hold the/that button/key/it -/down", "press and hold", "tap -/on settings/update/start",
        "swipe down from", "a paper clip", "then tap/press/choose/select/pick/click", "just hold it/the", "scroll down",
    ),
    "finished": ("done", "taken care of", "sorted", "completed", "gone through", "went through"),
    "sure": (
        "i/we/im -/am/are -/quite/very/absolutely/completely/entirely/fully/really sure/certain/positive",
        "you can -/fully/safely/really/certainly rely/count/trust", "rest/be assured", "beyond -/any doubt",
        "there is/theres no doubt", "no doubt about it", "i stand by", "double checked",
        "checked it/that/this -/once again/twice/myself/more", "looked at it -/once again/more/twice", "looked it up",
        "you can trust me",
    ),
    # How things go on.
    "onward": (
        "hear from us/me", "keep you informed/posted/updated", "get back to you",
        "nothing -/left/else/more for you to do", "nothing -/else/more/that you have/need/need to do",
        "need not do anything", "dont/not need/have to do anything", "you will/youll get/receive a/an/- -/short text/sms/mail/email/letter/message/confirmation",
        "what happens next", "the next step/steps is/are/will", "lean back", "let you know how/as/by", "how it goes on",
        "after that youll/you", "next i/we will/ill/well", "then well/we go/continue",
    ),
    "refusing": (
        "cannot/cant/couldnt/unable .. help/support/assist/work/do/give/offer/provide/proceed/continue/touch/cover",
        "not -/be able/allowed/possible/permitted -/for/to -/me/us/to .. help/support/assist/work/do/give/offer/provide/proceed/continue/touch",
        "can/may/must/could/will/do not .. help/support/assist/work/do/give/offer/provide/proceed/continue/touch",
        "dont/wont/mustnt .. help/support/assist/work/do/give/offer/provide/proceed/continue/touch",
        "nothing -/that i/we can", "nothing i/we can do", "my/our hands are tied", "no support/help for/with/from",
        "no technical help/support", "cannot/cant/unable/not able -/to go on", "have/has to stop/refuse/decline",
        "not possible for me/us", "cannot/cant look after",
    ),
    # What a list of things to tell or to look at begins with.
    "listing": (
        "need two/three/four/some/these/several/a -/few/couple -/of/more things/details/items", "need the following",
        "check two/three/four/these/some/several/the -/following/quick/more things/points/items", "check the following",
        "two/three/four/few/couple -/of/quick/short/more checks/questions/things", "the following things/points/checks/details",
        "look at two/three/four/these/the/following -/following things/points",
    ),
    "gratis": ("free", "free of -/any charge", "costs/cost nothing", "nothing to pay", "no charge/cost/fee -/at/for", "without -/any charge/cost", "wont/not cost -/you anything"),
}
"""Own kinds of phrases beside those of `cues.toml`."""
_ONLY_DONE = frozenset(
    "it its is that thats this has have been now all done ok okay great right and perfect so i ive "
    "we weve just for you taken care of sorted completed complete successfully already there "
    "alright gone went through everything good news , well yes go finally as promised on my our "
    "side end from here job deed thing".split()
)
_UNITS = {
    "delivery": frozenset(("day", "days", "working", "business")),
    "interruption": frozenset(("minute", "minutes", "min", "mins")),
}
"""What the figure of a term counts."""
_UNNAMED = ("settings_lost", "unplug_first")
"""Terms that are a sentence and no figure."""
_UNSURE = frozenset("could might may never should".split())
_TAKES = ("step", "stepping", "do", "doing", "done", "noun", "offer", "because", "alone")
"""Kinds of phrases that a thing to look at is only a part of: "take the card out"."""
_HELPING = (
    "unsupported_device", "area_outage", "overdue_bill", "not_covered", "recalled", "unverified",
)
"""Reasons to help with nothing at all; others refuse one deed."""
_NEAR = 2
"""Sentences to either side of a ground in which the refusal may stand."""
_KNOWING = frozenset("i ive we weve you youve your knowing having my".split())
_HINGES = frozenset("before until till unless without".split())


class _Reader(SpeechReader):
    """The declared reader, with what only this desk's agents say."""

    def __init__(self, cues: Cues) -> None:
        super().__init__(cues)
        own = [
            (Tag(kind, ""), phrase.replace(" , ", "")) for kind, them in _OWN.items()
            for phrase in them
        ]  # fmt: skip
        self._spans = Spans([*_common()[1], *self.cues.entries(), *own])

    def __reduce__(self) -> tuple[type[SpeechReader], tuple[Cues]]:
        return (_Reader, (self.cues,))

    def _of_line(self, line: Line, before: list[Line], after: list[Line]) -> list[Claim]:
        _settle_overlaps(line)
        claims = [c for c in super()._of_line(line, before, after) if _is_in_place(line, c)]
        slots = {claim.slot for claim in claims}
        if _is_told_how(line, before):
            claims = [c for c in claims if c.act not in ("instruct", "check", "inform", "deny")]
            return [*claims, Claim("explain")]
        claims += [claim for claim in _listed(line, before) if claim not in claims]
        claims += [Claim("offer", name) for name in _offered(line) if name not in slots]
        claims += [Claim("inform", *told) for told in _priced(line) if told[0] not in slots]
        claims += [Claim("inform", term, "yes") for term in _UNNAMED if _tells(line, term)]
        if _is_free(line):
            claims.append(Claim("inform", "technician_fee", "0"))
        denied = {claim.slot for claim in claims if claim.act == "deny"}
        claims += [
            Claim("deny", reason)
            for reason in (
                *_refused_help(line, before, after), *_refused_deeds(line, self.cues.denials)
            )
            if reason not in denied
        ]  # fmt: skip
        acts = {claim.act for claim in claims}
        if "done" not in acts and _is_only_done(line):
            claims.append(Claim("done"))
        telling = acts & {"ask", "inform", "confirm", "deny", "done", "explain", "offer"}
        if not telling and _shows_how(line, claims):
            claims.append(Claim("explain"))
        elif not telling and _locates(line, claims):
            claims.append(Claim("locate"))
        return _without_idle_words(line, claims)


def _without_idle_words(line: Line, claims: list[Claim]) -> list[Claim]:
    """"Tell me what it says" of a screen asks for no matter, a look at the time is no farewell."""
    acts = {claim.act for claim in claims}
    idle = {claim for claim in claims if _is_by_the_way(line, claim, acts)}
    if acts & {"inform", "deny"}:
        idle |= {Claim("ask", "more"), Claim("ask_intent")}
    if acts & {"check", "instruct"}:
        idle.add(Claim("ask_intent"))
    if Claim("check", "clock") in claims and "goodbye" not in line.tokens:
        idle.add(Claim("close"))
    return [claim for claim in claims if claim not in idle]


_LOOKERS = frozenset(
    "look check tell see watch describe read whether what which how verify inspect confirm is are "
    "does do has have if find".split()
)


def _is_by_the_way(line: Line, claim: Claim, acts: set[str]) -> bool:
    """A thing that is only named: "choose your network and enter the password"."""
    if claim.act != "check":
        return False
    if claim.slot == "service" and acts & {"confirm", "ask"}:
        return True  # "is it all right if …", "could you try the PIN again"
    if ("inform", "unplug_first") in {(c, t) for c in acts for t in _UNNAMED if _tells(line, t)}:
        return True
    places = [hit.start for hit in line.of("check") if hit.name == claim.slot]
    if "instruct" not in acts or not places:
        return False
    return _LOOKERS.isdisjoint(line.tokens[: places[0] + 1])


_ORDERS = frozenset("inspect examine review report feel read assess".split())


def _listed(line: Line, before: list[Line]) -> list[Claim]:
    """What is asked for, or to be looked at, in a list below "please check three things"."""
    if line.sentence.question or line.staged or line.has("negation", "condition"):
        return []
    looks = [Claim("check", hit.name) for hit in line.of("check")]
    if line.tokens[0] in _ORDERS:
        return looks[:1]
    if len(line.tokens) > _ITEM:
        return []
    for earlier in reversed(before):
        if earlier.of("listing"):
            return [*(Claim("ask", hit.name) for hit in line.of("ask")), *looks][:1]
        if len(earlier.tokens) > _ITEM or not (earlier.of("ask") or earlier.of("check")):
            return []
    return []


_ITEM = 9
"""Words of an item of a list, at most."""


def _offered(line: Line) -> list[str]:
    """"Would a loan device help you?", "what do you think of a loan device?" """
    opening = tuple(line.tokens[:4])
    if not (opening[:1] == ("would",) or opening == ("what", "do", "you", "think")):
        return []
    if not line.sentence.question or line.has("negation", "unable") or "have" in opening:
        return []
    return [hit.name for hit in line.of("offer")][:1]


def _priced(line: Line) -> list[tuple[str, str]]:
    """"A visit would cost you $40" names a price, though it is a "would"."""
    if line.sentence.question or line.staged or is_hedged(line) or line.has("condition"):
        return []
    if line.has("negation", "unable", "governor", "unsaid", "rule") or of_others(line):
        return []
    would = {"would", "itd", "thatd"}.isdisjoint(line.tokens)
    sums = [figure for figure in line.figures if figure.kind == "money"]
    names = {hit.name for hit in line.of("name")} & {"limit_fee", "technician_fee"}
    if would or len(sums) != 1 or len(names) != 1 or not _ABOUT.isdisjoint(line.tokens):
        return []
    return [(names.pop(), sums[0].value)]


_ABOUT = frozenset("about around roughly or between could might usually up least most from".split())


def _settle_overlaps(line: Line) -> None:
    """Of two names in the same words the longer one counts, of a thing and a deed the deed."""
    for kind in ("step", "stepping"):
        if kind in line.hits:
            line.hits[kind] = _longest(line.hits[kind])
    looks = line.hits.get("check")
    if not looks:
        return
    deeds = [hit for kind in _TAKES for hit in line.of(kind) if hit.end - hit.start > 1]
    looks = [hit for hit in looks if not any(_overlap(hit, other) for other in deeds)]
    line.hits["check"] = _longest(looks)


def _longest(hits: Sequence[Hit]) -> list[Hit]:
    kept: list[Hit] = []
    for hit in sorted(hits, key=lambda hit: (hit.start - hit.end, hit.start)):
        if not any(_overlap(hit, other) and hit.name != other.name for other in kept):
            kept.append(hit)
    return sorted(kept, key=lambda hit: hit.start)


def _overlap(one: Hit, other: Hit) -> bool:
    return one.start < other.end and other.start < one.end


def _is_in_place(line: Line, claim: Claim) -> bool:
    """Days of a delivery are days; what costs nothing is said to be free, or to cost $0."""
    if claim.act == "offer":
        ruling = line.tokens[0] == "the" and not _RULING.isdisjoint(line.tokens[1:3])
        return not (ruling or line.tokens[:3] == ["would", "you", "have"])
    if claim.act != "inform":
        return True
    hits = [h for h in line.of("value") if (h.name, h.value) == (claim.slot, claim.value)]
    if hits and not any(_stands(line, hit) for hit in hits):
        return False
    if claim.slot == "warranty" and _VERBS.isdisjoint(line.tokens):
        return False
    units = _UNITS.get(claim.slot)
    if units is not None:
        return any(
            figure.value == claim.value
            and not units.isdisjoint(line.tokens[figure.end : figure.end + 1])
            for figure in line.figures
        )
    if claim.slot == "limit_fee" and claim.value == "0":
        return bool(line.of("gratis")) or any(figure.kind == "money" for figure in line.figures)
    return True


# -- how something is done -------------------------------------------------------------------------


def _is_told_how(line: Line, before: list[Line]) -> bool:
    """It stands under "here is how", or is that heading itself."""
    if line.sentence.question or line.staged or is_hedged(line):
        return False
    if _heads(line):
        return True
    for earlier in reversed(before):
        if earlier.sentence.question:
            return _heads(earlier)
        if _heads(earlier):
            return True
    return False


def _heads(line: Line) -> bool:
    """A heading of an explanation: at the beginning, or all there is."""
    if line.has("unable") or "proceed" in line.tokens:
        return False
    no = line.sentence.at("negation")
    return any(hit.start <= 4 and all(at >= hit.end for at in no) for hit in line.of("heading"))


def _shows_how(line: Line, claims: Sequence[Claim]) -> bool:
    """Where a thing is found, how a key is pressed, that it is certain, or how it goes on."""
    if line.sentence.question or line.staged or line.has("quote", "condition"):
        return False
    if _assures(line):
        return True
    if line.has("governor"):
        return False
    if line.of("sure") and not line.has("negation", "unable"):
        return True
    if line.of("onward") and not line.has("unable"):
        return True
    if is_hedged(line) or line.has("negation", "unable"):
        return False
    if any(claim.act in ("instruct", "check") for claim in claims):
        return False
    return bool(line.of("manual"))


def _locates(line: Line, claims: Sequence[Claim]) -> bool:
    """Where a thing is found, or which key it is."""
    if line.sentence.question or line.staged or is_hedged(line) or line.has("negation", "unable"):
        return False
    if any(claim.act in ("instruct", "check") for claim in claims) or line.has("condition"):
        return False
    return bool(line.of("where"))


def _assures(line: Line) -> bool:
    """"There is no doubt about it": the "no" is its own."""
    return any("doubt" in line.tokens[hit.start : hit.end] for hit in line.of("sure"))


# -- what is told ----------------------------------------------------------------------------------


def _tells(line: Line, term: str) -> bool:
    """A warning that hangs on the deed itself: "if we do this, all settings will be lost"."""
    hits = [hit for hit in line.of("value") if hit.name == term]
    if term == "unplug_first" and not _FIRST.isdisjoint(line.tokens):
        hits += [hit for hit in line.of("step") if hit.name == "power_off"]
    if not hits or line.sentence.question or line.staged or is_hedged(line):
        return False
    if line.carried or of_others(line) or line.has("governor", "unsaid", "rule"):
        return False
    return any(_stands(line, hit) for hit in hits)


_FIRST = frozenset("first before beforehand safety".split())


def _stands(line: Line, hit: Hit) -> bool:
    """Neither doubted nor denied, before it or in its own words: "the line could be fine"."""
    if not _UNSURE.isdisjoint(line.tokens[max(0, hit.start - 4) : hit.end]):
        return False
    if hit.value in ("ok", "yes") and not _NOT.isdisjoint(line.tokens[hit.start : hit.end]):
        return False
    return not is_denied(line, hit.start)


_NOT = frozenset("not wont wouldnt isnt arent dont doesnt never hardly".split())
_RULING = frozenset("policy policies rules rule manual script document".split())
_VERBS = frozenset("is its isnt are has hasnt still remains falls ran runs expired ended".split())


def _is_free(line: Line) -> bool:
    """"The technician is free of charge for you"."""
    if not line.of("gratis") or is_idle(line):
        return False
    if any(figure.kind == "money" and figure.value != "0" for figure in line.figures):
        return False
    names = [hit for hit in line.of("name") if hit.name == "technician_fee"]
    free = line.of("gratis")[0]
    no = line.sentence.near("negation", free.start, 3) and line.tokens[free.start] == "free"
    return bool(names) and not no and not line.has("governor", "unsaid", "condition")


def _is_only_done(line: Line) -> bool:
    """"That is done now": a report of what was done last, in no other words."""
    tokens = line.tokens
    if not line.of("finished") or line.sentence.question or line.staged or len(tokens) > 12:
        return False
    if line.has("negation", "unable", "condition", "governor") or reports(line):
        return False
    return _ONLY_DONE.issuperset(tokens)


# -- what is refused -------------------------------------------------------------------------------


def _refused_help(line: Line, before: list[Line], after: list[Line]) -> list[str]:
    """Reasons for which nothing at all can be done: "I cannot help you, because …".

    A rule of the house refuses where an offer follows: "The basic plan covers no laptops. …"
    """
    found = []
    around = (line, *before[-_NEAR:], *after[:_NEAR])
    for hit in (*line.of("because"), *line.of("alone")):
        if hit.name not in _HELPING or hit.name in found or _is_denied_ground(line, hit):
            continue
        instead = hit.tag.kind == "alone" and any(n.of("offer") for n in after[:_NEAR])
        if instead or any(_refuses(n) for n in around):
            found.append(hit.name)
    return found


def _refused_deeds(line: Line, denials: Mapping[str, Denial]) -> list[str]:
    """"A replacement is not possible, because your device …": general in form, yet of this one."""
    if line.tokens[0] not in ("a", "an", "another") or not line.has("unable"):
        return []
    if not (is_own(line) or "device" in line.tokens):
        return []
    named = {hit.name for kind in ("do", "noun") for hit in line.of(kind)}
    return [
        hit.name
        for hit in line.of("because")
        if not named.isdisjoint(denials[hit.name].of) and not _is_denied_ground(line, hit)
    ]


def _is_denied_ground(line: Line, hit: Hit) -> bool:
    s = line.sentence
    if s.question or line.staged or is_hedged(line) or of_others(line) or line.carried:
        return True
    if line.has("governor", "unsaid", "rule") or _is_if(line):
        return True
    return s.near("negation", hit.start, 4) and not _is_refusal_before(line, hit)


def _is_refusal_before(line: Line, hit: Hit) -> bool:
    """The "not" before it is the refusal's own: "I cannot help while a bill is overdue"."""
    return any(refusal.start < hit.start for refusal in line.of("refusing"))


def _refuses(line: Line) -> bool:
    """It says that the agent cannot help."""
    if not line.of("refusing") or line.sentence.question or line.staged or is_hedged(line):
        return False
    if line.has("governor", "quote", "rule", "others") or _is_if(line):
        return False
    return not any(
        token in _HINGES and not _KNOWING.isdisjoint(line.tokens[at + 1 : at + 2])
        for at, token in enumerate(line.tokens)
    )


def _is_if(line: Line) -> bool:
    return line.has("condition") and "if" in line.tokens


# -- the whole reply -------------------------------------------------------------------------------

_READS = {"look_line": "line_test", "look_plan": "plan_read", "look_area": "area_status"}
"""Deeds that only look: what was looked at."""
_GROUND_OF = {
    "out_of_warranty": ("warranty",),
    "area_outage": ("area_status",),
    "limit_reached": ("plan_read",),
}
"""Facts that belong to a refusal where they stand beside it."""
_ON = ("power_on", "switch_on", "replug_power")
_HALVES = ("power_off", "power_on")


def _settled(given: Sequence[Claim]) -> Iterable[Claim]:
    """The claims by the names that the desk knows, each once."""
    claims = _steps_of_two_halves([_named(claim) for claim in given])
    denied = {claim.slot for claim in claims if claim.act == "deny"}
    grounds = {fact for reason in denied for fact in _GROUND_OF.get(reason, ())}
    refused = {deed for reason in denied for deed in _reader().cues.denials[reason].of}
    consents = {claim.slot for claim in claims if claim.act == "confirm"}
    told = {claim.slot for claim in claims if claim.act == "inform" and claim.value}
    plain = {(c.act, c.slot) for c in claims if c.act in ("check", "instruct") and not c.value}
    done = any(claim.act == "done" and claim.slot for claim in claims)
    halves = any(claim[:2] == ("instruct", "power_off") for claim in given)
    asking = any(claim.act == "ask" for claim in claims)
    visit = any(claim.slot == "book_technician" for claim in claims)
    technical = any(claim.value == TECHNICAL for claim in claims)
    found = []
    for claim in claims:
        act, slot, value, _ = claim
        if act in ("check", "instruct") and value and (act, slot) in plain:
            continue  # said in plain words as well
        if act == "instruct" and slot in consents:
            continue  # a yes to it is still asked for
        if act == "inform" and (slot in grounds or (not value and slot in told)):
            continue
        if act == "done" and slot in refused:
            continue  # "I cannot raise it, since your limit has been raised already"
        if (act in ("done", "promise") and slot == "factory_reset") or (
            act == "done" and not slot and done
        ):
            continue
        if slot == "unplug_first" and halves and ("instruct", "restart") in plain:
            continue  # "first unplug it, … and plug it back in"
        if (act == "locate" and asking) or (act == "ask_intent" and plain):
            continue
        if act == "promise" and slot == "transfer" and visit:
            continue  # "somebody will come to your house"
        if (act == "jargon" and technical) or (act in ("confirm", "deny") and slot in _READS):
            continue
        found.append(claim)
    return dict.fromkeys(found)


def _named(claim: Claim) -> Claim:
    act, slot, value, named = claim
    if act == "ask" and slot == "who":
        return Claim("who")
    if slot.endswith(f" {TECHNICAL}"):
        return Claim(act, slot.removesuffix(f" {TECHNICAL}"), TECHNICAL, named)
    if slot in _READS:
        if act == "done":
            return Claim("inform", _READS[slot], "", named)
        if act == "promise":
            return Claim("wait")
    if act == "inform" and slot in _UNNAMED:
        return Claim(act, slot, "", named)
    return claim


def _steps_of_two_halves(claims: Sequence[Claim]) -> list[Claim]:
    """Off and on again is a restart; off alone is none, on alone is to plug in."""
    places = {
        slot: [at for at, claim in enumerate(claims) if claim[:2] == ("instruct", slot)]
        for slot in (*_HALVES, "switch_on", "replug_power")
    }
    off = places["power_off"][:1]
    on = [at for slot in _ON for at in places[slot] if off and at > off[0]]
    whole = any(claim[:2] == ("instruct", "restart") for claim in claims)
    found: list[Claim] = []
    for at, claim in enumerate(claims):
        if on and at == off[0] and not whole:
            found.append(Claim("instruct", "restart", "", claim.object))
        elif at in on or (claim.act == "instruct" and claim.slot in _HALVES and (on or whole)):
            continue
        elif claim[:2] == ("instruct", "power_on"):
            found.append(claim._replace(slot="replug_power"))
        elif claim[:2] != ("instruct", "power_off"):
            found.append(claim)
    return found


def label_of(claim: Claim) -> str:
    """A claim as labelled replies write it."""
    if claim.value == TECHNICAL:
        return f"{claim.act}({claim.slot}, {TECHNICAL})"
    if claim.act == "inform" and claim.slot in _UNNAMED:
        return f"inform({claim.slot})"
    if claim.act == "locate":
        return "explain"
    return str(claim)


def labels(text: str, reranker: Any = None) -> frozenset[str]:
    """The labels of a reply, but for those that labelled replies leave out."""
    return frozenset(
        label_of(claim) for claim in read_speech(text, reranker) if claim.act not in UNLABELLED
    )
