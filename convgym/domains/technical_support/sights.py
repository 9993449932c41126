"""What a customer says that it sees: a thing, and what it is like.

    "the power light is on, but the internet light is red"
        └─► clauses ─► things named, else what was asked about last ─► values that they can have

A thing can only have the values that it has on this kind of device. A "not" turns what is said
round; a bare yes or no answers the check that was asked about last; a deed is told where a step
was asked for. Knows nothing of numbers and names, nor of what else a customer can say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from convgym.domains.technical_support.dialogue import CHECK_NAMES, SEEN, STEP_NAMES, seen_name
from convgym.domains.technical_support.physics import CHECKS_OF, VALUES_OF
from convgym.domains.technical_support.tasks import Task
from convgym.domains.technical_support.vocabulary import (
    CHECKS,
    LOOK,
    OK,
    SERVICE,
    VALUE,
    VALUE_NAMES,
)
from convgym.language.phrases import packaged, read_tables
from convgym.language.spans import Hit, Spans, Tag

PACKAGE = "convgym.domains.technical_support"

_SHORT_ANSWERS = {
    "did_it": "done|ok done|okay done|did it|i did|i did it|ive done it|ive done that|all done|"
    "yes done|done that|ok i did|just did|yep done|did that|finished|ok thats done",
    "affirm": "sure|sure thing|do it|please do|definitely|absolutely|of course|correct|agreed|"
    "yes|yes please|yeah|yep|ok yes|go ahead|ok go ahead",
    "negate": "no|nope|stop|dont|dont do it|dont do that|please dont|no dont|not that|no stop|nah",
    "decline_offer": "no thanks|no thank you|not interested",
    "ask_back": "what|sorry|huh|pardon|what do you mean|hm|hmm|come again",
    "acknowledge": "great|perfect|cool|nice|good|fine|ok then|okay then|i see|right|alright|ok|"
    "okay",
    "challenge": "thats wrong|thats not right|thats not true|not true|i doubt it",
    "no_more": "thats all|thats it|thats everything|nothing else|nothing more|im done",
    "ask_how": "how|how so|where|how do i do that|how do i do it|where is that|where is it",
    "not_done": "not yet|havent|i havent|didnt|no i didnt|i didnt|no i havent",
    "cannot_tell": "no idea|not sure|cant tell|i cant tell|hard to say|dunno",
}
"""Sentences that are too short for a tagger, and sure."""
_SAME = re.compile(
    r"\b(?:still|it)? ?(?:does ?n[o']?t work|doesnt work|not working|isnt working|no change|"
    r"(?:the )?same(?: as before| problem| thing| issue)?|no difference|no better|"
    r"did(?:nt| not) (?:help|work)|(?:has|is) ?n[o']?t (?:helped|changed)|hasnt helped)\b"
)
_DEED = re.compile(
    r"^(?:ok(?:ay)? |so |and |then |now |yes |right |well )*(?:i|ive|we|weve|just)\b(?! (?:see|can|"
    r"have (?:no|a|the)|dont|do not|cant|think|looked|checked|had a look))"
)
_CLAUSE = re.compile(r"[,;:]| but | and (?=the |its |it |there |my )|\n| - ")
_WORD = re.compile(r"[a-z0-9]+|%")
_PUNCTUATION = str.maketrans({"'": "", "’": "", "‘": "", "`": "", "-": " ", "–": " "})


@cache
def cues() -> dict[str, Any]:
    """The phrases of `user_cues.toml`."""
    return read_tables(packaged(PACKAGE, "user_cues.toml"))


@cache
def short_answers() -> dict[str, str]:
    """Acts of sentences that are too short for a tagger, by their plain words."""
    return {words: act for act, them in _SHORT_ANSWERS.items() for words in them.split("|")}


def plain(sentence: str) -> str:
    """The words of a sentence, in small letters, one blank between them."""
    return " ".join(_tokens(sentence))


def _tokens(text: str) -> list[str]:
    return _WORD.findall(text.lower().translate(_PUNCTUATION))


# -- what is seen ----------------------------------------------------------------------------------


@cache
def _spans() -> Spans:
    entries = [
        (Tag("thing", name), phrase)
        for name, them in cues()["things"].items() for phrase in them
    ]  # fmt: skip
    entries += [
        (Tag("value", name), phrase)
        for name, them in cues()["values"].items() for phrase in them
    ]  # fmt: skip
    for name, them in cues()["sees"].items():
        look, value = _pair(name)
        entries += [
            (Tag(f"sees {look}", CHECKS[look].name, VALUE_NAMES[value]), phrase) for phrase in them
        ]
    entries += [
        (Tag("symptom", name), phrase)
        for name, them in cues()["symptoms"].items() for phrase in them
    ]  # fmt: skip
    return Spans(entries)


@cache
def _pairs() -> dict[str, tuple[int, int]]:
    return {seen_name(*pair): pair for pair in SEEN}


def _pair(name: str) -> tuple[int, int]:
    return _pairs()[name]


def seen(sentence: str, task: Task, asked: Sequence[str], short: str) -> Iterator[str]:
    """Acts of seeing in a sentence; a problem where the device cannot be like that."""
    if short:
        yield from _answered(short, task, asked)
        return
    lowered = sentence.lower().translate(_PUNCTUATION)
    looks = [LOOK[name] for name in asked if name in CHECK_NAMES]
    newest = LOOK[asked[-1]] if asked and asked[-1] in CHECK_NAMES else -1
    last = newest if newest in CHECKS_OF[task.kind] else -1
    for clause in _CLAUSE.split(lowered):
        tokens = _tokens(clause)
        hits = _spans().find(tokens) if tokens else {}
        service = _of_service(clause, hits, task, asked, newest)
        found = []
        for look in _things(hits, task) or [last]:
            if look < 0 or look == SERVICE or (look not in looks and _DEED.search(clause)):
                continue
            value = _value_of(hits, look, task.kind, tokens)
            if value >= 0:
                found.append(f"see_{seen_name(look, value)}")
                last = look
        if service and not (found and newest not in (SERVICE, -1)):
            found = [service]
        afterwards = bool(found) and not service and _newest_step(asked) and _NOW.search(clause)
        if afterwards or _tells_a_deed(clause, asked):
            found = ["did_it", *found]
        yield from found


def _newest_step(asked: Sequence[str]) -> bool:
    return bool(asked) and asked[-1] in STEP_NAMES


_NOW = re.compile(r"\b(?:now|again)\b")
LEFT = re.compile(
    r"\b(?:not|never|havent|didnt|hadnt|couldnt|cant|cannot|wont|dont|skipped|left (?:it|that)|"
    r"will|would|want|need|ll|how|to)\b"
)


def _tells_a_deed(clause: str, asked: Sequence[str]) -> bool:
    """"Done", "I turned it off", where a step was asked for last."""
    if not _newest_step(asked):
        return False
    if short_answers().get(plain(clause)) == "did_it":
        return True
    words = _tokens(clause)
    past = any(word.endswith("ed") or word in _PAST for word in words)
    return bool(_DEED.search(clause.strip())) and past and not LEFT.search(clause)


_PAST = frozenset(
    "did done put set took taken reset shut held let got chose chosen cut swapped ran gave".split()
)


def _answered(short: str, task: Task, asked: Sequence[str]) -> Iterator[str]:
    """What a bare yes or no says of the thing that was asked about last."""
    look = LOOK.get(asked[-1], -1) if asked and asked[-1] in CHECK_NAMES else -1
    if look not in CHECKS_OF[task.kind] or short not in ("affirm", "negate"):
        return
    yes = short == "affirm"
    if look == LOOK["damage"]:
        yield f"see_{seen_name(look, VALUE['wet'] if yes else OK)}"
    elif yes:
        yield f"see_{seen_name(look, OK)}"
    elif look == SERVICE:
        yield f"see_{seen_name(look, task.symptom)}"
    else:
        others = [v for v in VALUES_OF[task.kind][look] if v not in (OK, VALUE["absent"])]
        if len(others) == 1:
            yield f"see_{seen_name(look, others[0])}"


def _things(hits: dict[str, list[Hit]], task: Task) -> list[int]:
    """The checks that are named, as far as this kind of device has them."""
    kept: list[Hit] = []
    for hit in sorted(hits.get("thing", ()), key=lambda hit: hit.start - hit.end):
        if LOOK[hit.name] in CHECKS_OF[task.kind] and not any(
            hit.start < other.end and other.start < hit.end for other in kept
        ):
            kept.append(hit)
    return list(dict.fromkeys(LOOK[hit.name] for hit in sorted(kept, key=lambda h: h.start)))


def _value_of(hits: dict[str, list[Hit]], look: int, kind: int, tokens: Sequence[str]) -> int:
    """What is said of a thing: the longest phrase, one of its own before others; -1 for nothing."""
    allowed = VALUES_OF[kind][look]
    found: list[tuple[tuple[int, int, int, int], int]] = []
    for own, rows in ((1, hits.get(f"sees {look}", ())), (0, hits.get("value", ()))):
        for hit in rows:
            value = VALUE[hit.value or hit.name]
            weight = (hit.end - hit.start, own, int(value != OK), -hit.start)
            if value in allowed and _is_denied(tokens, hit.start):
                value = OK if value != OK else _OTHERWISE.get(CHECKS[look].name, -1)
            if value in allowed:
                found.append((weight, value))
    return max(found)[1] if found else -1


_DENYING = frozenset(
    "not isnt arent dont doesnt didnt wasnt werent never hasnt havent hardly".split()
)
_OTHERWISE = {
    **dict.fromkeys(("power_cable", "data_cable"), VALUE["loose"]),
    **dict.fromkeys(("power_light", "power_switch", "signal", "wifi_light"), VALUE["off"]),
    **dict.fromkeys(("clock", "source", "network_settings", "wifi_name"), VALUE["wrong"]),
    "account": VALUE["signed_out"],
    "software": VALUE["old"],
    "battery": VALUE["empty"],
    "picture": VALUE["poor"],
}
"""What a thing is that is not as it should be, where nothing else is said of it."""


def _is_denied(tokens: Sequence[str], place: int) -> bool:
    """A "not" stands up to three words before."""
    return not _DENYING.isdisjoint(tokens[max(0, place - 3) : place])


def _weight(hit: Hit) -> tuple[int, int]:
    """Longer phrases first, then what comes first."""
    return hit.end - hit.start, -hit.start


def _of_service(
    clause: str, hits: dict[str, list[Hit]], task: Task, asked: Sequence[str], newest: int
) -> str:
    """Whether it works, said in a clause: the request at first, later what a new try has shown."""
    possible = VALUES_OF[task.kind][SERVICE]
    symptoms = [hit for hit in hits.get("symptom", ()) if VALUE[hit.name] in possible]
    fine = [hit for hit in hits.get(f"sees {SERVICE}", ()) if hit.value == "ok"]
    if not asked:
        if not symptoms:
            other = "symptom" in hits and not fine
            return "trouble that this device does not have" if other else ""
        names = {hit.name for hit in symptoms}
        own = VALUE_NAMES[task.symptom]
        return f"request_{own}" if own in names else "a symptom that is not this customer's"
    if newest not in (SERVICE, -1) and not (fine or _SAME.search(clause)):
        return ""
    denied = bool(_SAME.search(clause))
    if symptoms and not (fine and not denied and len(symptoms) < len(fine)):
        ours = [hit for hit in symptoms if VALUE[hit.name] == task.symptom]
        longest = max(symptoms, key=_weight)
        chosen = ours[0] if ours and _weight(ours[0]) >= _weight(longest) else longest
        return f"see_{seen_name(SERVICE, VALUE[chosen.name])}"
    if denied:
        return f"see_{seen_name(SERVICE, task.symptom)}"
    return f"see_{seen_name(SERVICE, OK)}" if fine else ""
