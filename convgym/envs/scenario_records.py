"""A user's own scenarios: records of what somebody wants and can say, checked on loading.

    {"id": "late-parcel", "topic": "delivery", "context": "…",
     "user_responses": ["My parcel is late.", {"text": "It's order K4471.", "id": "number"}],
     "metadata": {"success": {"must_mention": ["friday"], "after": {"friday": ["number"]}}}}
        └─► ScenarioRecord: responses with an act, triggers and what they wait for; criteria

A plain text gets all of this from its words. All problems of a file are told at once, each with
its line. Knows no environment and no agent.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import Any

from convgym.conversation import Conversation
from convgym.engine.tasks import SPLITS
from convgym.envs.criteria import Criteria, Phrases, criteria_of, phrases_of
from convgym.envs.episode_setup import persona_or_ranges
from convgym.envs.reply import stems_of
from convgym.errors import InvalidConfiguration, told
from convgym.language.phrases import packaged
from convgym.language.style import Style, style_of
from convgym.randomization.personas import PersonaGenerator
from convgym.spaces import sanitize
from convgym.users.persona import Persona

REQUEST, INFORM, QUESTION, OBJECTION, GREET, THANKS = (
    "request", "inform", "question", "objection", "greet", "thanks",
)  # fmt: skip
ACTS = (REQUEST, INFORM, QUESTION, OBJECTION, GREET, THANKS)
AGENT = "agent:"
"""Begins what a response `needs` of the agent instead of the user: "agent: refund"."""
TEXT_LENGTH = 1000
_LENGTHS = {"id": 120, "topic": 120, "context": 4000, "policy": 3500}
MOST_RESPONSES = 40
FIELDS = ("id", "topic", "context", "user_responses", "policy", "metadata")
KNOWN_METADATA = (
    "expected_resolution", "persona", "style", "difficulty", "max_turns", "split", "success",
)  # fmt: skip
"""Keys of `metadata` that mean something; they may stand beside it, too. Others are kept."""
RESPONSE_FIELDS = ("text", "id", "act", "when", "needs", "optional")
_SHOWN_PROBLEMS = 20

_THANKS = re.compile(
    r"\b(?:thanks|thank you|thx|cheers|much appreciated|appreciate it|that'?s all|that is all"
    r"|nothing else|good ?bye|bye|have a (?:good|nice|great))\b",
    re.IGNORECASE,
)
_OBJECTION = re.compile(
    r"^\s*(?:but\b|however\b|hmm|no way"
    r"|that(?:'s| is| seems| sounds) (?:too|very|quite|a bit|not)\b"
    r"|i (?:don'?t|do not) (?:think|agree|want|like|accept)|i'?m not (?:happy|sure|convinced))",
    re.IGNORECASE,
)
_GREETING = re.compile(
    r"^\s*(?:hi|hello|hey|good (?:morning|afternoon|evening|day))(?: there| all)?[\s.,!]*$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Response:
    """One thing that the user says."""

    id: str
    texts: tuple[str, ...]
    """The same thing in other words; the first is the one that it is judged by."""
    act: str
    when: Phrases = ()
    """Phrases of the agent that bring it out; empty: its own words decide."""
    needs: tuple[str, ...] = ()
    """Ids of responses that come first."""
    topics: Phrases = ()
    """Phrases that the agent has to have said or asked first."""
    optional: bool = False
    """The user is content without having said it."""


@dataclass(frozen=True, slots=True)
class ScenarioRecord:
    """One situation, ready to be played; made by `scenarios_of`."""

    id: str
    topic: str
    context: str
    policy: str
    """What the agent reads: facts and rules of this scenario."""
    responses: tuple[Response, ...]
    criteria: Criteria = field(default_factory=Criteria)
    expected_resolution: str = ""
    persona: Persona | PersonaGenerator | None = None
    style: Style | None = None
    difficulty: int = 50
    """In hundredths; 50 where the record does not say."""
    max_turns: int = 0
    """0: the environment's."""
    split: str = ""
    """Empty: any."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """As it was written."""

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of its responses."""
        return tuple(response.id for response in self.responses)


def scenarios_of(given: Any = None) -> tuple[ScenarioRecord, ...]:
    """Scenarios from a list of records, or the path of a JSONL file; None: the packaged ones.

    Raises InvalidConfiguration that names every problem with its line or place and field.
    """
    if given is None:
        given = packaged("convgym.envs", "scenarios.jsonl")
    problems: list[str] = []
    if isinstance(given, str | os.PathLike):
        source, rows = f"the scenario file {os.fspath(given)}", _lines(Path(given), problems)
    elif isinstance(given, Sequence) and not isinstance(given, bytes):
        source = "scenarios="
        rows = [(f"scenario {place}", row) for place, row in enumerate(given)]
    else:
        raise InvalidConfiguration(
            f"scenarios={given!r:.60}; it takes a list of records, or the path of a JSONL file"
        )
    records: list[ScenarioRecord] = []
    first: dict[str, str] = {}
    for where, row in rows:
        found: list[str] = []
        record = _record(row, found)
        name = row.get("id") if isinstance(row, Mapping) else None
        called = f"{where} ({name!r:.40})" if isinstance(name, str) else where
        if record is not None and record.id in first:
            found.append(f"id is that of {first[record.id]}; each scenario needs its own")
        problems += [f"{called}: {problem}" for problem in found]
        if record is not None:
            first.setdefault(record.id, where)
            records.append(record)
    if not rows and not problems:
        problems.append("there is no scenario; give at least one")
    if problems:
        raise InvalidConfiguration(_told(source, problems))
    return tuple(records)


def _told(source: str, problems: Sequence[str]) -> str:
    rest = len(problems) - _SHOWN_PROBLEMS
    shown = [f"  {problem}" for problem in problems[:_SHOWN_PROBLEMS]]
    more = [f"  and {rest} more"] if rest > 0 else []
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    return "\n".join([f"{source} has {count}:", *shown, *more])


def _lines(path: Path, problems: list[str]) -> list[tuple[str, Any]]:
    """(line, value) of each line of a JSONL file that can be read."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidConfiguration(
            f"the scenario file {path} cannot be read ({told(error)}); give a JSONL file in UTF-8, "
            "one record a line"
        ) from error
    if _is_array(text):
        raise InvalidConfiguration(
            f"the scenario file {path} is one JSON array; write one record a line, without the "
            "brackets and the commas between"
        )
    rows: list[tuple[str, Any]] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            rows.append((f"line {number}", json.loads(line)))
        except (ValueError, RecursionError) as error:
            problems.append(
                f"line {number}: it is no JSON ({told(error)}); write one record on one line"
            )
    return rows


def _is_array(text: str) -> bool:
    """Whether a file that should hold JSON lines is a single JSON list of records."""
    try:
        whole = json.loads(text) if text.lstrip().startswith("[") else None
    except (ValueError, RecursionError):
        return False
    return bool(whole) and isinstance(whole, list) and all(isinstance(row, dict) for row in whole)


def _record(row: Any, problems: list[str]) -> ScenarioRecord | None:
    """The record, or None where nothing can be made of it; what is wrong goes to `problems`."""
    if isinstance(row, ScenarioRecord):
        return row
    if not isinstance(row, Mapping):
        problems.append(
            f"it is a {type(row).__name__}; a scenario is a mapping with {', '.join(FIELDS)}"
        )
        return None
    before = len(problems)
    for name in row:
        if name not in FIELDS and name not in KNOWN_METADATA:
            problems.append(
                f"{name!r:.40} is no field; there are {', '.join(FIELDS)}, and what is your own "
                "goes into metadata"
            )
    texts: dict[str, Any] = {
        name: _text(name, row.get(name, ""), problems, length, needed=name == "id")
        for name, length in _LENGTHS.items()
    }
    metadata = row.get("metadata", {})
    if not (isinstance(metadata, Mapping) and all(isinstance(key, str) for key in metadata)):
        problems.append(f"metadata is {metadata!r:.60}; it takes a mapping with texts as keys")
        metadata = {}
    known = {key: metadata[key] for key in KNOWN_METADATA if key in metadata}
    for key in KNOWN_METADATA:
        if key in row and key in known:
            problems.append(f"{key} stands both in the record and in its metadata; give it once")
        if key in row:
            known[key] = row[key]
    responses = _responses(row.get("user_responses"), problems)
    ids = [response.id for response in responses]
    settings = _settings(known, problems)
    success = known.get("success")
    criteria = Criteria() if success is None else criteria_of(success, ids, problems)
    if len(problems) > before:
        return None
    return ScenarioRecord(
        **texts, responses=responses, criteria=criteria, metadata=dict(metadata), **settings
    )


def _text(
    name: str, value: Any, problems: list[str], length: int = TEXT_LENGTH, *, needed: bool = True
) -> str:
    if not isinstance(value, str):
        problems.append(f"{name} is {value!r:.60}; it takes a text")
        return ""
    if len(value) > length:
        problems.append(f"{name} has {len(value)} characters; it takes at most {length}")
    text = sanitize(value, length).strip()
    if needed and not text:
        problems.append(f"{name} is missing or empty; give a text")
    return text


def _settings(known: Mapping[str, Any], problems: list[str]) -> dict[str, Any]:
    """Persona, style, difficulty, turns, split and resolution; None is as good as absent."""
    settings: dict[str, Any] = {}
    given = {key: value for key, value in known.items() if value is not None}
    for key, read in (("persona", persona_or_ranges), ("style", style_of)):
        if key in given:
            try:
                settings[key] = read(given[key])
            except InvalidConfiguration as error:
                problems.append(f"{key}: {told(error)}")
    if "expected_resolution" in given:
        settings["expected_resolution"] = _text(
            "expected_resolution", given["expected_resolution"], problems, 4000, needed=False
        )
    if "difficulty" in given:
        value = given["difficulty"]
        number = isinstance(value, Real) and not isinstance(value, bool)
        if number and 0.0 <= value <= 1.0:
            settings["difficulty"] = round(value * 100)
        else:
            problems.append(f"difficulty is {value!r:.60}; it takes a number from 0 to 1")
    if "max_turns" in given:
        value = given["max_turns"]
        if type(value) is int and 2 <= value <= 200:
            settings["max_turns"] = value
        else:
            problems.append(f"max_turns is {value!r:.60}; it takes 2 to 200 agent turns")
    if "split" in given:
        if isinstance(given["split"], str) and given["split"] in SPLITS:
            settings["split"] = given["split"]
        else:
            problems.append(f"split is {given['split']!r:.60}; it takes one of {', '.join(SPLITS)}")
    return settings


# -- responses -------------------------------------------------------------------------------------


def _responses(given: Any, problems: list[str]) -> tuple[Response, ...]:
    if not (isinstance(given, list | tuple) and 1 <= len(given) <= MOST_RESPONSES):
        what = "is missing" if given is None else f"is {given!r:.60}"
        problems.append(
            f"user_responses {what}; it takes a list of 1 to {MOST_RESPONSES} texts or records"
        )
        return ()
    ids = [_id(place, one) for place, one in enumerate(given)]
    for place, name in enumerate(ids):
        if name in ids[:place]:
            problems.append(f"user_responses[{place}].id is {name!r:.40}, which an earlier one has")
    found = [_response(place, one, ids, problems) for place, one in enumerate(given)]
    responses = tuple(one for one in found if one is not None)
    if len(responses) == len(given):
        opening = responses[0]
        if opening.when or opening.needs or opening.topics:
            problems.append("user_responses[0] opens the conversation; it takes no when or needs")
        for stuck in _unreachable(responses):
            problems.append(
                f"the response {stuck!r:.40} can never be said: what it needs waits for itself"
            )
    return responses


def _id(place: int, given: Any) -> str:
    name = given.get("id") if isinstance(given, Mapping) else None
    return name if isinstance(name, str) and name else f"r{place + 1}"


def _response(
    place: int, given: Any, ids: Sequence[str], problems: list[str]
) -> Response | None:
    where = f"user_responses[{place}]"
    before = len(problems)
    if isinstance(given, str):
        given = {"text": given}
    if not isinstance(given, Mapping):
        problems.append(f"{where} is {given!r:.60}; it takes a text or a mapping")
        return None
    for name in given:
        if name not in RESPONSE_FIELDS:
            problems.append(f"{where} has {name!r:.40}; it takes {', '.join(RESPONSE_FIELDS)}")
    listed = given.get("text", "")
    listed = [listed] if isinstance(listed, str) else listed
    if not (isinstance(listed, list | tuple) and listed):
        problems.append(f"{where}.text is {listed!r:.60}; it takes a text or a list of wordings")
        return None
    texts = tuple(_text(f"{where}.text", one, problems) for one in listed)
    act = given.get("act", act_of(texts[0], place))
    if act not in ACTS:
        problems.append(f"{where}.act is {act!r:.40}; it takes one of {', '.join(ACTS)}")
    optional = given.get("optional", False)
    if not isinstance(optional, bool):
        problems.append(f"{where}.optional is {optional!r:.40}; it takes true or false")
    if "id" in given and ids[place] != given["id"]:
        problems.append(f"{where}.id is {given['id']!r:.40}; it takes a text")
    when = phrases_of(f"{where}.when", given.get("when", ()), problems)
    needs, topics = _needs(where, given.get("needs", ()), ids, problems)
    if len(problems) > before:
        return None
    return Response(ids[place], texts, act, when, needs, topics, optional)


def _needs(
    where: str, given: Any, ids: Sequence[str], problems: list[str]
) -> tuple[tuple[str, ...], Phrases]:
    listed = [given] if isinstance(given, str) else given
    if not (isinstance(listed, list | tuple) and all(isinstance(one, str) for one in listed)):
        problems.append(f"{where}.needs is {given!r:.60}; it takes a list of ids and agent topics")
        return (), ()
    needs, topics = [], []
    for one in listed:
        if one in ids:
            needs.append(one)
        elif one.startswith(AGENT) and stems_of(one.removeprefix(AGENT)):
            topics.append(one.removeprefix(AGENT).strip())
        else:
            problems.append(
                f"{where}.needs has {one!r:.40}; it takes ids of responses, here {', '.join(ids)}, "
                f"and what the agent has to bring up, written '{AGENT} refund'"
            )
    return tuple(needs), tuple(topics)


def _unreachable(responses: Sequence[Response]) -> list[str]:
    """Ids of responses that wait for each other in a circle."""
    said: set[str] = set()
    grew = True
    while grew:
        ready = {one.id for one in responses if one.id not in said and said.issuperset(one.needs)}
        said |= ready
        grew = bool(ready)
    return [one.id for one in responses if one.id not in said]


def act_of(text: str, place: int) -> str:
    """What a plain text does, by its words and its place in the list."""
    if _GREETING.match(text):
        return GREET
    if place == 0:
        return REQUEST
    if "?" in text:
        return QUESTION
    if _THANKS.search(text) and len(text.split()) <= 12:
        return THANKS
    return OBJECTION if _OBJECTION.match(text) else INFORM


# -- records from conversations ------------------------------------------------------------------


def record_of(
    conversation: Conversation,
    scenario: Mapping[str, Any] | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """A conversation as a scenario: what its user said, in order, each thing once.

    `scenario`: the `to_dict()` of a generated `Scenario` that was played, which brings topic,
    context, persona, difficulty and expected resolution. `fields` replace whatever comes of that,
    e.g. `id=`, or `metadata={"success": …}`.
    """
    said = dict.fromkeys(m.content.strip() for m in conversation.said_by("user"))
    generated = dict(scenario or {})
    metadata: dict[str, Any] = {"conversation": conversation.conversation_id}
    for key in ("expected_resolution", "persona", "difficulty"):
        if key in generated:
            metadata[key] = generated[key]
    return {
        "id": str(generated.get("id", conversation.conversation_id)),
        "topic": str(generated.get("topic", "")),
        "context": str(generated.get("context", "")),
        "user_responses": [text for text in said if text],
        "metadata": metadata,
        **fields,
    }


def write_scenarios(records: Iterable[Mapping[str, Any]], path: str | os.PathLike[str]) -> None:
    """Write records as JSONL, once all of them have been checked."""
    rows = [dict(record) for record in records]
    scenarios_of(rows)
    Path(path).write_text("".join(_dumped(rows)), encoding="utf-8")


def _dumped(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    return (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
