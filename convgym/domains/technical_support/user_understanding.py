"""A customer's free text as acts: what a person or a model says when it plays the customer.

    "it's dark, and the lead is loose"       asked: power_light
        ├── values        who and which device     inform_phone, inform_serial, inform_room …
        ├── what is seen  thing + value            see_power_light_off, see_power_cable_loose
        └── the rest      the tagger               did_it, ask_how, affirm, push_back …

What is said of a thing that is not named goes to what the agent asked about last; only values
that the thing can have on this kind of device count. An act that states a number comes from the
number alone, and from what the customer knows: the account's own is `inform_phone`, any other
one `inform_phone_wrong`. What a newcomer would get wrong: "no" to "did it get wet?" says that it
is dry, so a bare yes or no is an answer to the check asked about last, if there is one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache
from typing import Any

from convgym.domains.technical_support.dialogue import CHECK_NAMES, SEEN, STEP_NAMES, U, seen_name
from convgym.domains.technical_support.physics import CHECKS_OF, VALUES_OF
from convgym.domains.technical_support.tasks import Task
from convgym.domains.technical_support.vocabulary import (
    CHECKS,
    FIRST_READ,
    LOOK,
    OK,
    SERVICE,
    SYMPTOMS,
    VALUE,
    VALUE_NAMES,
    plain_words,
)
from convgym.domains.technical_support.world import ROOMS, world
from convgym.language.phrases import packaged, read_tables
from convgym.language.spans import Hit, Spans, Tag
from convgym.language.tagging import ActTagger
from convgym.language.understanding import Lexicon

_PACKAGE = "convgym.domains.technical_support"
NOTHING = "nothing in it that this desk understands"
MOST_CHARACTERS = 2000
"""How far a message is read."""
_MOST_FEATURES = 1536
_SURE = 0.25
"""Score from which on the tagger's best guess at what was seen is taken."""
_LIKELY, _AHEAD = 0.12, 1.3
"""Least score of any other act where nothing was read, and how far ahead it has to be."""

_KINDS = (
    r"(?:home )?router|modem|hub",
    r"(?:mobile |cell |smart)?phone(?! number)|mobile(?! (?:data|internet|number))|handset",
    r"tv box|set[- ]top box|receiver|box",
    r"laptop|notebook|computer|pc",
    r"(?<!default )printer",
    r"(?:security )?cam(?:era)?(?!['’]s)",
)
"""What customers call each kind of device."""
_ANY_KIND = "|".join(_KINDS)
_ANY_ROOM = "|".join(ROOMS)
_NEVER = r"(?!)"
_VALUES = {
    "order": _NEVER,
    "postcode": _NEVER,
    "email": _NEVER,
    "date": _NEVER,
    "phone": r"\b0\d(?:[ -]?\d){7,9}\b",
    "serial": r"\bd[ -]?\d{5}\b",
    "pin": r"\b\d{4}\b",
    "device": rf"\b(?:router|phone(?! number)|tv box|laptop|printer|camera(?!['’]s))"
    rf"(?: in the (?:{_ANY_ROOM}))?\b",
}
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


# -- the tagger ------------------------------------------------------------------------------------


@cache
def user_tagger(part: str = "all") -> ActTagger:
    """What reads a customer's words, fitted once in a process.

    `part` says to which wordings: `train` leaves those out that are kept for measuring.
    """
    nothing = read_tables(packaged(_PACKAGE, "user_background.toml"))["background"]
    tables = _cues()["ideas"]
    examples: list[tuple[str, Collection[str]]] = [*user_examples(part)]
    examples += [(text, ()) for text in nothing]
    for act, ideas in tables.items():
        examples += [(phrase, (act,)) for phrase in Lexicon(ideas).phrases()]
    ideas = {idea: phrases for table in tables.values() for idea, phrases in table.items()}
    ideas |= {f"thing {name}": phrases for name, phrases in _cues()["things"].items()}
    ideas |= {f"value {name}": phrases for name, phrases in _cues()["values"].items()}
    ideas |= {f"symptom {name}": phrases for name, phrases in _cues()["symptoms"].items()}
    return ActTagger(examples, ideas, _VALUES, _MOST_FEATURES)


@cache
def _cues() -> dict[str, Any]:
    return read_tables(packaged(_PACKAGE, "user_cues.toml"))


def user_examples(part: str) -> list[tuple[str, frozenset[str]]]:
    """The customer's wordings and turns with their acts: `train`, `held_out` or `all`.

    A thing that was looked at is called what it is called on one of the devices that have it.
    """
    examples = []
    for name in ("user_phrases.toml", "user_turns.toml"):
        for found, table in read_tables(packaged(_PACKAGE, name)).items():
            if part in (found, "all"):
                for acts, by_register in table.items():
                    done = frozenset(acts.split("+"))
                    wordings = [text for texts in by_register.values() for text in texts]
                    examples += [
                        (_with_thing(text, acts, number), done)
                        for number, text in enumerate(wordings)
                    ]
    return examples


def _with_thing(text: str, act: str, number: int) -> str:
    if "{thing}" not in text:
        return text
    names = _names_of_things()[act]
    return text.replace("{thing}", names[number % len(names)])


@cache
def _names_of_things() -> dict[str, tuple[str, ...]]:
    """What the thing that each act of seeing is about is called, on all devices that have it."""
    names: dict[str, tuple[str, ...]] = {}
    for look, value in SEEN:
        if look < FIRST_READ:
            kinds = [k for k, row in enumerate(VALUES_OF) if value in row[look]]
            kinds = [k for k in kinds if look in CHECKS_OF[k]]
            called = dict.fromkeys(plain_words(kind, CHECKS[look]) for kind in kinds)
            names[f"see_{seen_name(look, value)}"] = tuple(called)
    return names


# -- reading ---------------------------------------------------------------------------------------


def understand_user(
    text: str, task: Task, asked: Sequence[str] = ()
) -> tuple[tuple[int, ...], str]:
    """(act numbers in the order of the text, what of it could not be taken up).

    `asked`: names of the checks and steps that the agent asked for last, the newest last. Both
    are empty for an empty text.
    """
    names, problem = understand(text, task, asked)
    return tuple(U[name] for name in names), problem


def understand(text: str, task: Task, asked: Sequence[str] = ()) -> tuple[tuple[str, ...], str]:
    """As `understand_user`, with the names of the acts."""
    text = text[:MOST_CHARACTERS]
    if not text.strip():
        return (), ""
    tagger = user_tagger()
    sentences = tagger.sentences(text)
    told: dict[int, list[str]] = {}
    for act, number in tagger.spot(text):
        told.setdefault(number, []).append(act)
    found: list[str] = []
    problems: list[str] = []
    for number, sentence in enumerate(sentences):
        acts: list[str] = []
        for act in _stated(sentence, task, told.get(number, ())):
            (acts if act in U else problems).append(act)
        short = _short_answers().get(_plain(sentence), "")
        seen = [] if sentence.rstrip().endswith("?") else list(_seen(sentence, task, asked, short))
        wrong = [act for act in seen if act not in U]
        problems += wrong
        acts += [act for act in seen if act in U]
        if short and not seen:
            acts.append(short)
        elif not short:
            acts += _rest(tagger, sentence, told.get(number, ()), task, asked, acts)
        found += acts
    acts_found = tuple(dict.fromkeys(found))
    if not acts_found and not problems:
        return (), NOTHING
    return acts_found, "; ".join(dict.fromkeys(problems))


_ANSWERS = ("affirm", "negate", "acknowledge", "dont_know", "no_luck", "cannot_tell", "ask_back")
"""What the tagger may take a sentence for that says what was seen."""


def _rest(
    tagger: ActTagger,
    sentence: str,
    told: Sequence[str],
    task: Task,
    asked: Sequence[str],
    acts: Sequence[str],
) -> list[str]:
    """What the tagger makes of a sentence, but for what is seen or stated."""
    found = []
    sees = any(act.startswith("see_") for act in acts)
    for act in told:
        if act in tagger.value_acts or act.startswith("see_") or act in acts:
            continue
        if act.startswith("request_"):
            if not asked and act == f"request_{VALUE_NAMES[task.symptom]}":
                found.append(act)
            continue
        left = act == "did_it" and (not _steps(asked) or _LEFT.search(_plain(sentence)))
        if not (left or (sees and act in _ANSWERS)):
            found.append(act)
    if not (found or acts):
        scores = tagger.scores(sentence)
        if asked and asked[-1] in CHECK_NAMES:
            found = _guess(scores, task, LOOK[asked[-1]])
        found = found or _manner(scores, tagger.value_acts)
    return found


def _guess(scores: dict[str, float], task: Task, look: int) -> list[str]:
    """The likeliest value of the thing that was asked about, where nothing else was read."""
    names = [f"see_{seen_name(look, value)}" for value in VALUES_OF[task.kind][look]]
    best = max(names, key=lambda name: scores.get(name, 0.0), default="")
    return [best] if best and scores.get(best, 0.0) >= _SURE else []


def _manner(scores: dict[str, float], value_acts: Collection[str]) -> list[str]:
    """The likeliest of all other acts, if it is ahead of the next."""
    ranked = sorted(
        (
            (score, act)
            for act, score in scores.items()
            if act not in value_acts and not act.startswith(("see_", "request_", "did_"))
        ),
        reverse=True,
    )[:2]
    (best, act), (second, _) = ranked
    return [act] if best >= _LIKELY and best >= _AHEAD * second else []


@cache
def _short_answers() -> dict[str, str]:
    return {words: act for act, them in _SHORT_ANSWERS.items() for words in them.split("|")}


def _plain(sentence: str) -> str:
    return " ".join(_tokens(sentence))


def _tokens(text: str) -> list[str]:
    return _WORD.findall(text.lower().translate(_PUNCTUATION))


def _steps(asked: Sequence[str]) -> list[str]:
    return [name for name in asked if name in STEP_NAMES]


# -- values ----------------------------------------------------------------------------------------


def _stated(sentence: str, task: Task, told: Sequence[str]) -> Iterator[str]:
    """The act of each value; a problem in words where the customer has no such thing."""
    provider, rest = world(), sentence
    for phone in re.finditer(_VALUES["phone"], sentence, re.IGNORECASE):
        right = re.sub(r"\D", "", phone.group()) == provider.phone(task.customer)
        yield "inform_phone" if right else "inform_phone_wrong"
        rest = rest.replace(phone.group(), " ")
    for serial in re.finditer(r"\bd[ -]?(\d{5})\b|(?<![\d.])\b(\d{5})\b(?!\d)", rest, re.I):
        digits = serial.group(1) or serial.group(2)
        right = f"D{digits}" == provider.serial(task.device)
        yield "inform_serial" if right else "inform_serial_wrong"
        rest = rest.replace(serial.group(), " ")
    for pin in re.finditer(r"(?<!\d)\d(?:[ -]?\d){3}(?!\d)", rest):
        if re.sub(r"\D", "", pin.group()) == provider.pin_text(task.customer):
            yield "inform_pin"
        elif re.search(r"\b(?:pin|code|digits?)\b", rest, re.I) or not re.search(
            "[a-z]", rest.replace(pin.group(), ""), re.I
        ):
            yield "inform_pin_wrong"
    yield from _device(rest, task, told)


_MEANT = re.compile(
    rf"\b(?:my|the|it['’]?s|its|about|a|our|this|called) (?:\w+ )?(?:{_ANY_KIND})\b"
    rf"|^\W*(?:{_ANY_KIND})\W*$",
    re.IGNORECASE,
)
_ABOUT_IT = re.compile(r"\b(?:default|right|wrong|chosen|list of) ?(?:one|printer|printers)\b")
_NOT_THAT = re.compile(
    r"\b(?:wrong (?:one|device|thing)|not (?:that|this) one|isn['’]?t (?:it|the one|the right)|"
    r"not the (?:right )?one|other one)\b|^no\b",
    re.IGNORECASE,
)


def _device(sentence: str, task: Task, told: Sequence[str]) -> Iterator[str]:
    """The kind of device and the room that it is in."""
    lowered = sentence.lower()
    own = re.search(rf"\b(?:{_KINDS[task.kind]})\b", lowered)
    room = world().room_name(task.device)
    rooms = re.findall(rf"\b({_ANY_ROOM})\b", lowered)
    if room in rooms:
        yield "correct_device" if _NOT_THAT.search(sentence) else "inform_room"
        return
    if rooms and {"inform_room", "correct_device"}.intersection(told):
        yield "a room that this device is not in"
        return
    if own and _MEANT.search(sentence) and not _ABOUT_IT.search(lowered):
        correcting = _NOT_THAT.search(sentence) and "correct_device" in told
        yield "correct_device" if correcting else "inform_kind"


# -- what is seen ----------------------------------------------------------------------------------


@cache
def _spans() -> Spans:
    entries = [
        (Tag("thing", name), phrase)
        for name, them in _cues()["things"].items() for phrase in them
    ]  # fmt: skip
    entries += [
        (Tag("value", name), phrase)
        for name, them in _cues()["values"].items() for phrase in them
    ]  # fmt: skip
    for name, them in _cues()["sees"].items():
        look, value = _pair(name)
        entries += [
            (Tag(f"sees {look}", CHECKS[look].name, VALUE_NAMES[value]), phrase) for phrase in them
        ]
    entries += [
        (Tag("symptom", name), phrase)
        for name, them in _cues()["symptoms"].items() for phrase in them
    ]  # fmt: skip
    return Spans(entries)


@cache
def _pairs() -> dict[str, tuple[int, int]]:
    return {seen_name(*pair): pair for pair in SEEN}


def _pair(name: str) -> tuple[int, int]:
    return _pairs()[name]


def _seen(sentence: str, task: Task, asked: Sequence[str], short: str) -> Iterator[str]:
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
        if _tells_a_deed(clause, asked) or (found and not service and _newest_step(asked)):
            found = ["did_it", *found]
        yield from found


def _newest_step(asked: Sequence[str]) -> bool:
    return bool(asked) and asked[-1] in STEP_NAMES


_LEFT = re.compile(
    r"\b(?:not|never|havent|didnt|hadnt|couldnt|cant|cannot|wont|dont|skipped|left (?:it|that)|"
    r"will|would|want|need|ll|how|to)\b"
)


def _tells_a_deed(clause: str, asked: Sequence[str]) -> bool:
    """"Done", "I turned it off", where a step was asked for last."""
    if not _newest_step(asked):
        return False
    if _short_answers().get(_plain(clause)) == "did_it":
        return True
    words = _tokens(clause)
    past = any(word.endswith("ed") or word in _PAST for word in words)
    return bool(_DEED.search(clause.strip())) and past and not _LEFT.search(clause)


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


_DENYING = frozenset("not isnt arent dont doesnt didnt wasnt werent never hasnt havent hardly".split())
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
            other = [h for h in hits.get("symptom", ()) if h.name in SYMPTOMS]
            return "trouble that this device does not have" if other and not fine else ""
        names = {hit.name for hit in symptoms}
        own = VALUE_NAMES[task.symptom]
        return f"request_{own}" if own in names else "a symptom that is not this customer's"
    if newest not in (SERVICE, -1) and not (fine or _SAME.search(clause)):
        return ""
    denied = bool(_SAME.search(clause))
    if symptoms and not (fine and not denied and len(symptoms) < len(fine)):
        own = [hit for hit in symptoms if VALUE[hit.name] == task.symptom]
        longest = max(symptoms, key=_weight)
        chosen = own[0] if own and _weight(own[0]) >= _weight(longest) else longest
        return f"see_{seen_name(SERVICE, VALUE[chosen.name])}"
    if denied:
        return f"see_{seen_name(SERVICE, task.symptom)}"
    return f"see_{seen_name(SERVICE, OK)}" if fine else ""


def acts_named(names: Iterable[str]) -> frozenset[int]:
    """Numbers of some acts."""
    return frozenset(U[name] for name in names)
