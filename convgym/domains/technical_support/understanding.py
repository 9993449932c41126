"""What an agent's words mean at the support desk: claims, in order of speech.

    cues.toml, remarks.toml ─► claims ─┬─► steps of two halves    "unplug it, … plug it back in"
                                       ├─► words of the trade     check(wifi_name), "technical"
                                       └─► grounds of a refusal, looks of the desk's own

A claim is (act, slot, value, object), all text, not yet held against anything: that is
`convgym.domains.technical_support.grounding`. What a newcomer would get wrong: how a thing is
done ("here is how: hold the button for ten seconds") explains, and is no step to be done again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Protocol

from convgym.domains.technical_support import remarks
from convgym.domains.technical_support.remarks import PACKAGE, UNNAMED
from convgym.language.cues import Cues
from convgym.language.lines import Line
from convgym.language.phrases import packaged, packaged_banks
from convgym.language.reranker import NearestLabel
from convgym.language.rewriting import Rewriting
from convgym.language.spans import Tag
from convgym.language.speech import MOST_CHARACTERS, Claim, SpeechReader

__all__ = [
    "HARMLESS", "TECHNICAL", "UNLABELLED", "Claim", "Reranker", "own_reranker", "read_speech",
    "shown_as_quotes",
]  # fmt: skip

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
    proposed = (label for label in reranker.propose(text) if label in HARMLESS)
    return (*map(_claim_of, proposed), *found)


def _claim_of(label: str) -> Claim:
    act, _, slot = label.rstrip(")").partition("(")
    return Claim(act, slot)


@cache
def own_reranker() -> NearestLabel:
    """Train wordings that mean one thing, by character n-grams; proposes harmless acts only."""
    bank = packaged_banks(PACKAGE, "agent_phrases.toml")["train"]
    examples = []
    for act in bank:
        for phrase in bank.variants(act):
            meant = {str(claim) for claim in read_speech(phrase)}
            if len(meant) == 1:
                examples.append((phrase, meant.pop()))
    return NearestLabel(examples, allowed=HARMLESS)


# -- before it is read -----------------------------------------------------------------------------

_REWORDED = Rewriting(
    (
    # "I can send a text if that helps" offers one; "tell me if it works" is another matter.
    ("help helps work works suit suits",
     r"(?<!\bme)(?<!know)(?<!see)(?<!check)(?<!report)(?<!test),? if (?:that|this|it)"
     r"(?: would|['’]d)? (?:helps?|works?|suits?)(?: (?:for )?you)?\b", ""),
    ("one", r"(?<=\w),? if you (?:happen to )?have (?:one|a spare one|another one)"
     r"(?: (?:at hand|to hand|handy|around|available|lying around))?\b", ""),
    ("right", r"\b(that|this|it) be all right\b", r"\1 be okay"),
    ("like", r"\b(I|we)(?:['’]ll| will) (?=(?:send|offer|give|arrange|lend) you\b[^.!?\n]{0,60}"
     r"\bif you(?:['’]d| would) like\b)", r"\1 can "),
    ("unplug", r"\b(unplug (?:the|your) [\w-]+ (?:cable|lead)), (?=and )", r"\1 "),
    # A ground that says where it is written is the agent's own nonetheless.
    ("policy policies rules guidelines",
     r"\b(?:as per|per|according to|due to|under|in line with|because of|based on) (?:our"
     r"|company|the company|the company's) (?:policy|policies|rules|guidelines),?"
     r"(?= (?:I|we)\b)", ""),
    ("policy policies",
     r"\b(?:our|the|company) polic(?:y|ies) (?:does not|doesn['’]t|do not|don['’]t) "
     r"(?:allow|permit) (?:me|us) to\b", "I am not allowed to"),
    ("outage outages disruption disruptions",
     r"\b(?:do not|don['’]t|cannot|can['’]t) (?:currently |actually )?(?:see|find) any"
     r"(?= (?:\w+ )?(?:outages?|disruptions?)\b)", "see no"),
    ("outage outages disruption disruptions",
     r"\b(?:are not|aren['’]t|is not|isn['’]t) any(?= (?:\w+ )?(?:outages?|disruptions?)\b)",
     "are no"),
    ("about around roughly approximately",
     r"\b(for|takes?|lasts?) (?:about|around|roughly|approximately)(?= \d+ min)", r"\1"),
    ("know", r"\blet me know(?= (?:if|whether)(?! you\b))", "tell me"),
    ("once when after",
     r"\b((?:once|when|after)\b[^,.:;!?\n]{0,40}), ((?:please )?tell me (?:if|whether))\b",
     r"\1. \2"),
    ("able", r"\b(?:may|might) be able to\b", "can"),
    ("settings", r"\ball of (your|the|its) settings\b", r"\1 settings"),
    ("try", r"\btry (?=(?:another|a (?:different|new|spare)|the (?:other|spare)) )", "use "),
    ("let", r"\blet me tell you\b[^.:!?\n]{0,30}:", ""),
    # What is to be told afterwards is a sentence of its own, and no condition.
    ("if whether", r",?;? (?:and|then)(?: then| please| also)* "
     r"((?:please )?(?:tell me|let me know|see|report)(?: please)? (?:if|whether))\b", r". \1"),
    ("soon", r"\bas soon as(?! (?:possible|you can|i can|we can))\b", "when"),
    ("once", r"\bonce (?:more|again)\b", "again"),
    ("if", r"\bif you (?:say yes|agree|confirm|are (?:okay|ok|happy|fine) with (?:that|this|it)"
     r"|approve),? (?:then )?(i|we)(?:['’]ll| will|['’]d| would)\b", r"\1 would"),
    ("tied", r"\bmy hands are tied\b", "I cannot help"),
    ("once when whenever moment after",
     r"\b(tell me|let me know|say so|say|shout|(?:come|get|report) back to me|report back|"
     r"give me a (?:shout|sign|word))( (?:that|again))? (?:once|when|whenever|the moment|after)"
     r"\b", r"\1 that"),
    ("once", r"\bonce(?= ?[,.;:!?]| and\b|$)", ""),
    ("going about planning",
     r"\b(?:was|were) (?:just |only )?(?:going|about|planning) to\b", "might"),
))  # fmt: skip
"""Cues, pattern, and what stands for it: when the customer is to speak, and of what, is no
condition of what it is to do."""


_FENCED = re.compile(r"```(json\b)?(.*?)```", re.DOTALL | re.IGNORECASE)


def shown_as_quotes(text: str) -> str:
    """A reply in which what stands between fences is a quote, line by line; calls are left.

    "```\\nI have reset the port.\\n```" shows a text, as "> I have reset the port." does.
    """
    return _FENCED.sub(_as_quote, text) if "```" in text else text


def _as_quote(fenced: re.Match[str]) -> str:
    of_json, body = fenced.groups()
    if of_json or "{" in body:
        return fenced.group()
    return "\n" + "\n".join(f"> {line}" for line in body.splitlines() if line.strip()) + "\n"


def _normalised(text: str) -> str:
    return _REWORDED(text[:MOST_CHARACTERS])


# -- one sentence ----------------------------------------------------------------------------------


class _Reader(SpeechReader):
    """The declared reader, with what only this desk's agents say."""

    def _entries(self) -> Iterable[tuple[Tag, str]]:
        return (*super()._entries(), *remarks.entries())

    def __reduce__(self) -> tuple[type[SpeechReader], tuple[Cues]]:
        return (_Reader, (self.cues,))

    def _of_line(self, line: Line, before: list[Line], after: list[Line]) -> list[Claim]:
        if remarks.is_of_policy(line):
            return []
        if any(map(remarks.is_of_policy, after[:2])):  # "The Nova 1 is recalled. … refuse, …"
            return [c for c in self._of_own(line, before, []) if c.act != "deny"]
        return self._of_own(line, before, after)

    def _of_own(self, line: Line, before: list[Line], after: list[Line]) -> list[Claim]:
        """The claims of a sentence that is not read out of the policy."""
        remarks.settle_overlaps(line)
        claims = super()._of_line(line, before, after)
        if remarks.is_told_how(line, before):
            claims = [c for c in claims if c.act not in ("instruct", "check", "inform", "deny")]
            return [*claims, Claim("explain")]
        claims = [c for c in claims if _is_in_place(line, c)]
        for claim in self._remarked(line, before, after):
            if not any(claim[:2] == other[:2] for other in claims):
                claims.append(claim)
        acts = {claim.act for claim in claims}
        if acts.isdisjoint(_TELLING):
            if remarks.explains(line) or (acts.isdisjoint(_ASKING) and remarks.shows_keys(line)):
                claims.append(Claim("explain"))
            elif acts.isdisjoint(_ASKING) and remarks.locates(line):
                claims.append(Claim("locate"))
        return _without_idle_words(line, claims)

    def _remarked(self, line: Line, before: list[Line], after: list[Line]) -> Iterable[Claim]:
        """What the cues do not declare."""
        yield from (Claim(*pair) for pair in (remarks.listed(line, before),) if pair[0])
        yield from (Claim("offer", name) for name in (remarks.offered(line),) if name)
        yield from (Claim("inform", *told) for told in (remarks.priced(line),) if told[0])
        yield from (Claim("inform", term, "yes") for term in UNNAMED if remarks.tells(line, term))
        if remarks.is_free(line):
            yield Claim("inform", "technician_fee", "0")
        for reason in remarks.refusals(line, before, after, self.cues.denials):
            yield Claim("deny", reason)
        if remarks.is_only_done(line):
            yield Claim("done")


_TELLING = frozenset("ask inform confirm deny done explain offer".split())
_ASKING = frozenset(("check", "instruct"))


def _is_in_place(line: Line, claim: Claim) -> bool:
    if claim.act == "offer":
        return not remarks.is_no_offer(line)
    if claim.act == "instruct":
        return not remarks.is_what_if(line)
    return claim.act != "inform" or remarks.is_in_place(line, claim.slot, claim.value)


def _without_idle_words(line: Line, claims: list[Claim]) -> list[Claim]:
    """What is only named, and what sounds like asking for the matter or like a farewell."""
    if not claims:
        return claims
    acts = {claim.act for claim in claims}
    idle = set()
    if acts & {"inform", "deny"}:
        idle |= {Claim("ask", "more"), Claim("ask_intent")}
    if Claim("check", "clock") in claims and "goodbye" not in line.tokens:
        idle.add(Claim("close"))  # "have a look at the time"
    warned = "inform" in acts and remarks.tells(line, "unplug_first")
    for claim in claims:
        if claim.act == "check" and (
            warned
            # "Is it all right if …", "could you try the PIN again"
            or (claim.slot == "service" and acts & {"confirm", "ask"})
            or remarks.is_ground(line, claim.slot)
            or remarks.is_by_the_way(line, claim.slot, beside_step="instruct" in acts)
        ):
            idle.add(claim)
    return [claim for claim in claims if claim not in idle]


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
    reply = _Reply(given, claims)
    return dict.fromkeys(claim for claim in claims if reply.keeps(claim))


class _Reply:
    """What stands in one reply, by which a claim of it is weighed."""

    def __init__(self, given: Sequence[Claim], claims: Sequence[Claim]) -> None:
        def slots(act: str) -> set[str]:
            return {claim.slot for claim in claims if claim.act == act}

        denied = slots("deny")
        denials = _reader().cues.denials
        self.grounds = {fact for reason in denied for fact in _GROUND_OF.get(reason, ())}
        self.refused = {deed for reason in denied for deed in denials[reason].of}
        self.consents = slots("confirm")
        self.told = {claim.slot for claim in claims if claim.act == "inform" and claim.value}
        self.plain = {(c.act, c.slot) for c in claims if c.act in _ASKING and not c.value}
        self.reported = any(slots("done"))
        self.asking = bool(slots("ask"))
        self.halves = ("instruct", "power_off") in {claim[:2] for claim in given}
        self.visit = any(claim.slot == "book_technician" for claim in claims)
        self.technical = any(claim.value == TECHNICAL for claim in claims)

    def keeps(self, claim: Claim) -> bool:
        """Whether a claim stands beside the others."""
        act, slot, value, _ = claim
        if act in _ASKING:
            said_plainly = bool(value) and (act, slot) in self.plain
            return not said_plainly and not (act == "instruct" and slot in self.consents)
        if act == "inform":
            if slot == "unplug_first" and self.halves and ("instruct", "restart") in self.plain:
                return False  # "first unplug it, … and plug it back in"
            bare = not value and slot in self.told and slot not in UNNAMED
            return not (slot in self.grounds or bare)
        if act == "done":
            # "I cannot raise it, since your limit has been raised already"
            known = slot not in self.refused and slot != "factory_reset"
            return known and not (not slot and self.reported)
        if act == "promise":
            comes = slot == "transfer" and self.visit  # "somebody will come to your house"
            return slot != "factory_reset" and not comes
        if act == "locate":
            return not self.asking
        if act == "ask_intent":
            return not self.plain
        return act != "jargon" or not self.technical


def _named(claim: Claim) -> Claim:
    act, slot, _, named = claim
    if act == "ask" and slot == "who":
        return Claim("who")
    if slot.endswith(f" {TECHNICAL}"):
        return Claim(act, slot.removesuffix(f" {TECHNICAL}"), TECHNICAL, named)
    if slot in _READS and act == "done":
        return Claim("inform", _READS[slot], "", named)
    if slot in _READS and act == "promise":
        return Claim("wait")
    if slot in _READS and act == "confirm":
        return Claim("chat")
    if act == "inform" and slot in UNNAMED:
        return Claim(act, slot, "", named)
    return claim


def _steps_of_two_halves(claims: Sequence[Claim]) -> list[Claim]:
    """Off and on again is a restart; off alone is none, on alone is to plug in."""
    if not any([claim.act == "instruct" for claim in claims]):
        return [*claims]
    places = {
        slot: [at for at, claim in enumerate(claims) if claim[:2] == ("instruct", slot)]
        for slot in (*_HALVES, "switch_on", "replug_power")
    }
    off = places["power_off"][:1]
    on = [at for slot in _ON for at in places[slot] if off and at > off[0]]
    whole = any(claim[:2] == ("instruct", "restart") for claim in claims)
    found: list[Claim] = []
    for at, claim in enumerate(claims):
        half = claim.act == "instruct" and claim.slot in _HALVES
        if on and at == off[0] and not whole:
            found.append(Claim("instruct", "restart", "", claim.object))
        elif at in on or (half and (on or whole)) or claim[:2] == ("instruct", "power_off"):
            continue
        elif half:
            found.append(claim._replace(slot="replug_power"))
        else:
            found.append(claim)
    return found


@cache
def _reader() -> _Reader:
    return _Reader(Cues.load(packaged(PACKAGE, "cues.toml")))
