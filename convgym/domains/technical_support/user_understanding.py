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
from collections.abc import Collection, Iterator, Sequence
from functools import cache

from convgym.domains.technical_support.dialogue import (
    CHECK_NAMES,
    SAW,
    SEEN,
    STEP_NAMES,
    U,
    seen_name,
)
from convgym.domains.technical_support.physics import CHECKS_OF, VALUES_OF
from convgym.domains.technical_support.sights import LEFT, PACKAGE, cues, plain, seen, short_answers
from convgym.domains.technical_support.tasks import Task
from convgym.domains.technical_support.vocabulary import (
    CHECKS,
    FIRST_READ,
    LOOK,
    VALUE_NAMES,
    plain_words,
)
from convgym.domains.technical_support.world import ROOMS, world
from convgym.language.phrases import packaged, read_tables
from convgym.language.tagging import ActTagger, off_topic
from convgym.language.understanding import Lexicon

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


# -- the tagger ------------------------------------------------------------------------------------


@cache
def user_tagger(part: str = "all") -> ActTagger:
    """What reads a customer's words, fitted once in a process.

    `part` says to which wordings: `train` leaves those out that are kept for measuring.
    """
    nothing = off_topic(PACKAGE)
    tables = cues()["ideas"]
    examples: list[tuple[str, Collection[str]]] = [*user_examples(part)]
    examples += [(text, ()) for text in nothing]
    for act, ideas in tables.items():
        examples += [(phrase, (act,)) for phrase in Lexicon(ideas).phrases()]
    ideas = {idea: phrases for table in tables.values() for idea, phrases in table.items()}
    ideas |= {f"thing {name}": phrases for name, phrases in cues()["things"].items()}
    ideas |= {f"value {name}": phrases for name, phrases in cues()["values"].items()}
    ideas |= {f"symptom {name}": phrases for name, phrases in cues()["symptoms"].items()}
    return ActTagger(examples, ideas, _VALUES, _MOST_FEATURES)


def user_examples(part: str) -> list[tuple[str, frozenset[str]]]:
    """The customer's wordings and turns with their acts: `train`, `held_out` or `all`.

    A thing that was looked at is called what it is called on one of the devices that have it.
    """
    examples = []
    for name in ("user_phrases.toml", "user_turns.toml"):
        for acts, by_register in _tables(name, part):
            done = frozenset(acts.split("+"))
            wordings = [text for texts in by_register.values() for text in texts]
            examples += [
                (_with_thing(text, acts, number), done) for number, text in enumerate(wordings)
            ]
    return examples


def _tables(name: str, part: str = "all") -> Iterator[tuple[str, dict[str, list[str]]]]:
    """Acts and their wordings by register, of one part or of all."""
    for found, table in read_tables(packaged(PACKAGE, name)).items():
        if part in (found, "all"):
            yield from table.items()


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
    own = _own_wording(plain(text), task, asked)
    if own:
        return own, ""
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
        short = short_answers().get(plain(sentence), "")
        for act in () if sentence.rstrip().endswith("?") else seen(sentence, task, asked, short):
            (acts if act in U else problems).append(act)
        own = () if acts or short else _own_wording(plain(sentence), task, asked)
        acts += own
        if not short and not own:
            acts += _rest(tagger, sentence, told.get(number, ()), task, asked, acts)
        found += acts or ([short] if short else [])
    acts_found = tuple(dict.fromkeys(found))
    if not acts_found and not problems:
        return (), NOTHING
    return acts_found, "; ".join(dict.fromkeys(problems))


# -- the desk's own wordings -----------------------------------------------------------------------


@cache
def _own_wordings() -> dict[str, tuple[str, ...]]:
    """Acts that each wording of the customer stands for, by its plain words; no values in it."""
    found: dict[str, list[str]] = {}
    for acts, by_register in _tables("user_phrases.toml"):
        things = _names_of_things().get(acts, ())
        for text in (text for texts in by_register.values() for text in texts):
            named = "{thing}" in text
            if not named and "{" in text:
                continue
            for thing in things if named else ("",):
                found.setdefault(plain(text.replace("{thing}", thing)), []).append(acts)
    return {words: tuple(dict.fromkeys(acts)) for words, acts in found.items() if words}


def _own_wording(words: str, task: Task, asked: Sequence[str]) -> tuple[str, ...]:
    """The one act that these plain words are a wording of, in this situation, if there is one."""
    fitting = [act for act in _own_wordings().get(words, ()) if _fits(act, task, asked)]
    return tuple(fitting) if len(fitting) == 1 else ()


def _fits(act: str, task: Task, asked: Sequence[str]) -> bool:
    if act.startswith("request_"):
        return not asked and act == f"request_{VALUE_NAMES[task.symptom]}"
    if act in ("did_it", "not_done"):
        return bool(_steps(asked))
    if act in ("affirm", "negate"):  # to a check they say what is seen
        return not asked or asked[-1] not in CHECK_NAMES
    if U[act] not in SAW:
        return True
    look, value = SAW[U[act]]
    last = next((name for name in reversed(asked) if name in CHECK_NAMES), "")
    return CHECKS[look].name == last and value in VALUES_OF[task.kind][look]


# -- what the tagger is asked ----------------------------------------------------------------------

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
        left = act == "did_it" and (not _steps(asked) or LEFT.search(plain(sentence)))
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
