"""What a sentence of this desk's agents says beside what its cues declare.

    "All settings will be lost if we do that."    a warning that hangs on the deed itself
    "A visit would cost you $40."                 a price, though it is a "would"
    "It's the small lamp next to the switch."     where a thing is found
    "Here is how: hold the button …"              how it is done: an explanation, and no step
    "I cannot help while a bill is overdue."      a refusal of everything, for a reason

Each function is a question about one sentence (`convgym.language.lines.Line`) that was read with
the phrases of `cues.toml` and `remarks.toml`. Knows nothing of claims.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache

from convgym.language.cues import Denial
from convgym.language.deeds import reports
from convgym.language.lines import Line, is_denied, is_hedged, is_idle, is_own, of_others
from convgym.language.phrases import packaged, read_tables
from convgym.language.spans import Hit, Tag

Lines = Sequence[Line]
PACKAGE = "convgym.domains.technical_support"


@cache
def entries() -> tuple[tuple[Tag, str], ...]:
    """The phrases of `remarks.toml`, each with its kind."""
    tables = read_tables(packaged(PACKAGE, "remarks.toml"))
    return tuple((Tag(kind, ""), phrase) for kind, them in tables.items() for phrase in them)


# -- names that lie in one another -----------------------------------------------------------------

_TAKES = ("do", "doing", "done", "noun", "offer", "because", "alone")
"""Kinds of phrases that a thing to look at is only a part of: "unlock the SIM card"."""


def settle_overlaps(line: Line) -> None:
    """Of two names in the same words the longer one counts, of a thing and a deed the deed."""
    for kind in ("step", "stepping"):
        if kind in line.hits:
            line.hits[kind] = _longest(line.hits[kind])
    looks = line.hits.get("check")
    if looks:
        deeds = [hit for kind in _TAKES for hit in line.of(kind) if hit.end - hit.start > 1]
        alone = [hit for hit in looks if not any(_overlap(hit, other) for other in deeds)]
        line.hits["check"] = _longest(alone)


def _longest(hits: Sequence[Hit]) -> list[Hit]:
    kept: list[Hit] = []
    for hit in sorted(hits, key=lambda hit: (hit.start - hit.end, hit.start)):
        if not any(_overlap(hit, other) and hit.name != other.name for other in kept):
            kept.append(hit)
    return sorted(kept, key=lambda hit: hit.start)


def _overlap(one: Hit, other: Hit) -> bool:
    return one.start < other.end and other.start < one.end


# -- how something is done -------------------------------------------------------------------------


def is_told_how(line: Line, before: Lines) -> bool:
    """It stands under "here is how", or is that heading itself; a question ends it."""
    if line.sentence.question or line.staged or is_hedged(line):
        return False
    if _heads(line):
        return True
    for earlier in reversed(before):
        if _heads(earlier) or earlier.sentence.question:
            return _heads(earlier)
    return False


def _heads(line: Line) -> bool:
    """A heading of an explanation: at the beginning, or all there is."""
    if line.has("unable") or "proceed" in line.tokens:
        return False
    no = line.sentence.at("negation")
    return any(hit.start <= 4 and all(at >= hit.end for at in no) for hit in line.of("heading"))


def explains(line: Line) -> bool:
    """That something is certain, or how things go on."""
    if line.sentence.question or line.staged or line.has("quote", "condition"):
        return False
    if any("doubt" in line.tokens[hit.start : hit.end] for hit in line.of("sure")):
        return True  # "there is no doubt about it": the "no" is its own
    if line.has("governor"):
        return False
    certain = bool(line.of("sure")) and not line.has("negation", "unable")
    return certain or (bool(line.of("onward")) and not line.has("unable"))


def shows_keys(line: Line) -> bool:
    """Which keys are pressed: "go to Settings, then hold the button"."""
    return bool(line.of("manual")) and not _is_open(line) and not line.has("governor")


def locates(line: Line) -> bool:
    """Where a thing is found, or which key it is."""
    return bool(line.of("where")) and not _is_open(line)


def _is_open(line: Line) -> bool:
    s = line.sentence
    return (
        s.question
        or line.staged
        or is_hedged(line)
        or line.has("negation", "unable", "condition", "quote")
    )


# -- what is told ----------------------------------------------------------------------------------

UNNAMED = ("settings_lost", "unplug_first")
"""Terms that are a sentence and no figure."""
_UNITS = {
    "delivery": frozenset(("day", "days", "working", "business")),
    "interruption": frozenset(("minute", "minutes", "min", "mins")),
}
"""What the figure of a term counts."""
_UNSURE = frozenset("could might may never should".split())
_NOT = frozenset("not wont wouldnt isnt arent dont doesnt never hardly".split())
_FIRST = frozenset("first before beforehand safety".split())
_VERBS = frozenset("is its isnt are has hasnt still remains falls ran runs expired ended".split())
_ABOUT = frozenset("about around roughly or between could might usually up least most from".split())


def tells(line: Line, term: str) -> bool:
    """A warning that hangs on the deed itself: "if we do this, all settings will be lost"."""
    hits = [hit for hit in line.of("value") if hit.name == term]
    if term == "unplug_first" and not _FIRST.isdisjoint(line.tokens):
        hits += [hit for hit in line.of("step") if hit.name == "power_off"]
    if not hits or line.sentence.question or line.staged or is_hedged(line):
        return False
    if line.carried or of_others(line) or line.has("governor", "unsaid", "rule"):
        return False
    return any(_stands(line, hit) for hit in hits)


def is_in_place(line: Line, fact: str, value: str) -> bool:
    """Whether a fact that was read is one: days of a delivery are days, a value is not doubted."""
    hits = [hit for hit in line.of("value") if (hit.name, hit.value) == (fact, value)]
    if hits and not any(_stands(line, hit) for hit in hits):
        return False
    if fact == "warranty":
        return not _VERBS.isdisjoint(line.tokens)
    if fact == "limit_fee" and value == "0":
        return bool(line.of("gratis")) or any(figure.kind == "money" for figure in line.figures)
    if (fact, value) == ("area_status", "outage") and _PAST.search(" ".join(line.tokens)):
        return False
    units = _UNITS.get(fact)
    return units is None or any(
        figure.value == value and not units.isdisjoint(line.tokens[figure.end : figure.end + 1])
        for figure in line.figures
    )


_PAST = re.compile(
    r"^(?!.*\b(?:until|once|when|after|if|not|isnt|hasnt|before)\b).*"
    r"\b(?:been|is|was)(?: now| already| just| finally)? (?:resolved|over|fixed|cleared|ended)\b"
)
"""An outage that has been, and is no more."""


def _stands(line: Line, hit: Hit) -> bool:
    """Neither doubted nor denied, before it or in its own words: "the line could be fine"."""
    if not _UNSURE.isdisjoint(line.tokens[max(0, hit.start - 4) : hit.end]):
        return False
    if hit.value in ("ok", "yes") and not _NOT.isdisjoint(line.tokens[hit.start : hit.end]):
        return False
    return not is_denied(line, hit.start)


def is_free(line: Line) -> bool:
    """Whether a technician is said to cost nothing."""
    if not line.of("gratis") or is_idle(line) or line.has("governor", "unsaid", "condition"):
        return False
    if any(figure.kind == "money" and figure.value != "0" for figure in line.figures):
        return False
    free = line.of("gratis")[0]
    no = line.sentence.near("negation", free.start, 3) and line.tokens[free.start] == "free"
    return not no and any(hit.name == "technician_fee" for hit in line.of("name"))


def priced(line: Line) -> tuple[str, str]:
    """Term and sum of "a visit would cost you $40"; empty texts where there is no such price."""
    if line.sentence.question or line.staged or is_hedged(line) or of_others(line):
        return "", ""
    if line.has("condition", "negation", "unable", "governor", "unsaid", "rule"):
        return "", ""
    sums = [figure for figure in line.figures if figure.kind == "money"]
    names = {hit.name for hit in line.of("name")} & {"limit_fee", "technician_fee"}
    would = not {"would", "itd", "thatd"}.isdisjoint(line.tokens)
    if not would or len(sums) != 1 or len(names) != 1 or not _ABOUT.isdisjoint(line.tokens):
        return "", ""
    return names.pop(), sums[0].value


_ONLY_DONE = frozenset(
    "it its is that thats this has have been now all done ok okay great right and perfect so i ive "
    "we weve just for you taken care of sorted completed complete successfully already there "
    "alright gone went through everything good news , well yes go finally as promised on my our "
    "side end from here job deed thing".split()
)


def is_only_done(line: Line) -> bool:
    """A report of what was done last, in no other words: "That is done now"."""
    if not line.of("finished") or line.sentence.question or line.staged or len(line.tokens) > 12:
        return False
    if line.has("negation", "unable", "condition", "governor") or reports(line):
        return False
    return _ONLY_DONE.issuperset(line.tokens)


# -- what is asked, or offered ---------------------------------------------------------------------

_ORDERS = frozenset("inspect examine review report feel read assess".split())
_ITEM = 9
"""Words of an item of a list, at most."""
_RULING = frozenset("policy policies rules rule manual script document".split())
_LOOKERS = frozenset(
    "look check tell see watch describe read whether what which how verify inspect confirm is are "
    "does do has have if find".split()
)


def listed(line: Line, before: Lines) -> tuple[str, str]:
    """Act and slot of an item below "please check three things", or of "inspect the cable"."""
    if line.sentence.question or line.staged or line.has("negation", "condition"):
        return "", ""
    looks = [("check", hit.name) for hit in line.of("check")]
    if line.tokens[0] in _ORDERS and looks:
        return looks[0]
    items = [*(("ask", hit.name) for hit in line.of("ask")), *looks]
    if len(line.tokens) > _ITEM or not items:
        return "", ""
    for earlier in reversed(before):
        if earlier.of("listing"):
            return items[0]
        if len(earlier.tokens) > _ITEM or not (earlier.of("ask") or earlier.of("check")):
            break
    return "", ""


def offered(line: Line) -> str:
    """What "would a loan device help you?" or "what do you think of one?" offers, or nothing."""
    opening = line.tokens[:4]
    for hit in line.of("offer"):
        if hit.name == "partner_shop" and not _CAN.isdisjoint(line.tokens[hit.end : hit.end + 2]):
            return "" if is_idle(line) or line.has("negation", "unable") else hit.name
    if opening[:1] != ["would"] and opening != ["what", "do", "you", "think"]:
        return ""
    if not line.sentence.question or line.has("negation", "unable") or "have" in opening:
        return ""
    return next((hit.name for hit in line.of("offer")), "")


_CAN = frozenset("can could would will helps looks repairs".split())


def is_no_offer(line: Line) -> bool:
    """The policy offers it, or would have: "would you have liked one?"."""
    ruling = line.tokens[0] == "the" and not _RULING.isdisjoint(line.tokens[1:3])
    return ruling or line.tokens[:3] == ["would", "you", "have"]


_WHO_REFUSES = frozenset("i we to must cannot not dont wont ill id well should".split())
_INSTRUCTIONS = ("tell so", "tell them", "need be told", "months after the purchase")
"""What the policy says to the agent, or of everybody."""
_INSTRUCTING = frozenset(words.split()[0] for words in _INSTRUCTIONS)


def is_of_policy(line: Line) -> bool:
    """A line of the policy document, read out: "refuse, reason: recalled, and offer …"."""
    tokens = line.tokens
    if "refuse" in line.words:
        for at, token in enumerate(tokens):
            if token == "refuse" and _WHO_REFUSES.isdisjoint(tokens[max(0, at - 2) : at]):
                return True
    if _INSTRUCTING.isdisjoint(line.words):
        return False
    said = f" {' '.join(tokens)} "
    return any(f" {words} " in said for words in _INSTRUCTIONS)


def is_by_the_way(line: Line, look: str, *, beside_step: bool) -> bool:
    """A thing that is only named: "choose your network and enter the password", "the symbol in the
    corner of the screen".
    """
    places = [hit.start for hit in line.of("check") if hit.name == look]
    if not places:
        return False
    tokens, others = line.tokens, {hit.name for hit in line.of("check")} - {look}
    if look == "screen" and others and not _WHERE.isdisjoint(tokens[places[0] - 2 : places[0] + 1]):
        return True
    return beside_step and _LOOKERS.isdisjoint(tokens[: places[0] + 1])


_WHERE = frozenset("of on from in".split())


def is_ground(line: Line, look: str) -> bool:
    """Why something is to be done: "since the light is red, could you check the cable?"."""
    tokens = line.tokens
    opening = next((at for at, word in enumerate(tokens[:2]) if word in _GIVEN), -1)
    if opening < 0 or "," not in tokens[opening + 1 :]:
        return False
    end = tokens.index(",", opening + 1)
    places = [hit.start for hit in line.of("check") if hit.name == look]
    return bool(places) and max(places) < end


_GIVEN = frozenset(("since", "because", "as"))


def is_what_if(line: Line) -> bool:
    """No step, but what comes of it: "what happens when you turn it on?"."""
    return not {"happens", "happened"}.isdisjoint(line.tokens)


# -- what is refused -------------------------------------------------------------------------------

_HELPING = frozenset(
    "unsupported_device area_outage overdue_bill not_covered recalled unverified".split()
)
"""Reasons to help with nothing at all; others refuse one deed."""
_NEAR = 2
"""Sentences to either side of a ground in which the refusal may stand."""
_KNOWING = frozenset("i ive we weve you youve your knowing having my".split())
_HINGES = frozenset("before until till unless without".split())


def refusals(line: Line, before: Lines, after: Lines, denials: Mapping[str, Denial]) -> list[str]:
    """Reasons that the generic reading leaves out, each once.

    Of "I cannot help you, because …" what is refused is no deed; a rule of the house refuses
    where an offer follows: "The basic plan covers no laptops. …"; and "a replacement is not
    possible, because your device …" is general in form, yet speaks of this one.
    """
    found: list[str] = []
    if "because" not in line.hits and "alone" not in line.hits:
        return found
    around = (line, *before[-_NEAR:], *after[:_NEAR])
    deeds = _deeds_refused(line)
    for hit in (*line.of("because"), *line.of("alone")):
        if hit.name in found or _is_denied_ground(line, hit):
            continue
        helping = hit.name in _HELPING and (
            any(_refuses(n) for n in around)
            or (hit.tag.kind == "alone" and any(n.of("offer") for n in after[:_NEAR]))
        )
        if helping or not deeds.isdisjoint(denials[hit.name].of):
            found.append(hit.name)
    return found


def _deeds_refused(line: Line) -> set[str]:
    """The deeds of "a replacement is not possible, because your device …"."""
    if line.tokens[0] not in ("a", "an", "another") or not line.has("unable"):
        return set()
    if not (is_own(line) or "device" in line.tokens):
        return set()
    return {hit.name for kind in ("do", "noun") for hit in line.of(kind)}


def _is_denied_ground(line: Line, hit: Hit) -> bool:
    s = line.sentence
    if s.question or line.staged or is_hedged(line) or of_others(line) or line.carried:
        return True
    if line.has("governor", "unsaid", "rule") or _is_if(line):
        return True
    # "I cannot help while a bill is overdue": the "not" before it is the refusal's own.
    own = any(refusal.start < hit.start for refusal in line.of("refusing"))
    return s.near("negation", hit.start, 4) and not own


def _refuses(line: Line) -> bool:
    """It says that the agent cannot help; not before it has what it needs."""
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
