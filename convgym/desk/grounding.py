"""From a reply in free text to an agent turn: values held against the records and the reads.

    reply ─► parse_reply ─► calls  ─► RawCall ─► ground_call   ─► Call   when it is run
                        └─► speech ─► claims  ─► ground_speech ─► Said   when it is heard

A claim is (act, slot, value, object): what a sentence asserts, asks or offers, and of which record
by its number; whoever reads the speech makes them, this module holds them against the state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from convgym.desk.declaration import ACCOUNT, Declaration, Workflow
from convgym.desk.state import Case
from convgym.desk.tools import RIGHT, STATED_WRONG, UNSTATED
from convgym.desk.vocabulary import (
    END_CONVERSATION,
    FIND,
    GET,
    KEY,
    LIST,
    SECRET,
    TRANSFER_TO_HUMAN,
    VERIFY,
    WRITE,
)
from convgym.engine import acts
from convgym.engine.acts import AgentTurn, Call, Said
from convgym.engine.episode import Episode
from convgym.language.tool_calls import RawCall, check_arguments, parse_reply

if TYPE_CHECKING:
    from convgym.desk.desk import ServiceDesk

MOST_ACTS = 8
"""Acts of one reply that are heard; nobody answers more at once."""
_PASTIME = ("greet", "apologise", "wait", "chat", "promise", "explain", "locate", "jargon")
_PLAIN = {
    "greet": acts.CHAT,
    "wait": acts.CHAT,
    "chat": acts.CHAT,
    "explain": acts.EXPLAIN,
    "locate": acts.EXPLAIN,
    "jargon": acts.JARGON,
    "ask_intent": acts.ASK_INTENT,
    "apologise": acts.APOLOGISE,
    "close": acts.CLOSE,
}


def _schema(description: str, **properties: Any) -> dict[str, Any]:
    return {
        "description": description,
        "parameters": {
            "type": "object",
            "properties": {
                name: {"type": "string", **(text if isinstance(text, dict) else {
                    "description": text
                })}
                for name, text in properties.items()
            },
            "required": list(properties),
            "additionalProperties": False,
        },
    }


def tool_schemas(d: Declaration) -> dict[str, dict[str, Any]]:
    """JSON schema of each tool, by name."""
    schemas = {
        d.account.find: _schema(
            f"Open the account of a {d.account.name}.",
            **{d.account.key: f"{d.account.key} of the account"},
        ),
        d.account.verify: _schema(
            "Check the second factor.", **{d.account.secret: f"what the {d.account.name} said"}
        ),
    }
    for kind in d.kinds:
        schemas[f"list_{kind.many}"] = _schema(f"List the {kind.many} of the open account.")
        schemas[f"get_{kind.name}"] = _schema(
            f"Read one {kind.name}.", **{kind.name: f"its number, or a handle: {kind.name}:1"}
        )
    for workflow in d.writes:
        properties: dict[str, Any] = {}
        if workflow.kind:
            properties[workflow.kind] = f"its number, or a handle: {workflow.kind}:1"
        for name in workflow.details:
            words = d.details[name]
            properties[name] = {"enum": list(words)} if words else f"{name} as it was said"
        said = workflow.tool.replace("_", " ").capitalize()
        schemas[workflow.tool] = _schema(f"{said}.", **properties)
    schemas["transfer_to_human"] = _schema("Hand the conversation over and leave it.")
    schemas["end_conversation"] = _schema("Hang up.")
    return schemas


def understand(text: str, read_speech: Callable[[str], Sequence[Any]]) -> AgentTurn:
    """A sanitised reply as an agent turn, not yet held against any state.

    Speech that only passes the time ("let me check", "I'll cancel it") keeps the floor beside a
    call; speech without any meaning is unclear to the customer where nothing else comes with it.
    """
    parsed = parse_reply(text)
    said: tuple[Any, ...] = ()
    if parsed.speech:
        said = tuple(read_speech(parsed.speech)[:MOST_ACTS])
        if parsed.calls and all(claim[0] in _PASTIME for claim in said):
            said = ()
        elif not said:
            said = (Said(acts.UNCLEAR),)
    return AgentTurn(said, parsed.calls, parsed.errors, parsed.speech)


def ground_speech(desk: ServiceDesk, case: Case, said: Sequence[Any]) -> list[Said]:
    """Acts of speech with their claims held against what the desk has read by now."""
    claims = desk.left_standing(case, said)
    grounded = [act if isinstance(act, Said) else _ground(desk, case, *act) for act in claims]
    heard = list(dict.fromkeys(act for act in grounded if act is not None))
    return heard or [Said(acts.UNCLEAR)] * bool(said)


# -- calls -----------------------------------------------------------------------------------------


def ground_call(desk: ServiceDesk, episode: Episode, raw: RawCall) -> Call | str:
    """A checked call with rows and pointers, or one sentence of what is wrong with it."""
    body = desk.schemas.get(raw.name)
    if body is None:
        return f"there is no tool {raw.name[:40]!r}; there are {', '.join(desk.schemas)}"
    problem = check_arguments(body["parameters"], raw.arguments)
    if problem:
        return f"{raw.name}: {problem}"
    arguments: Mapping[str, str] = raw.arguments
    d, case = desk.declaration, Case(desk.v, episode)
    if raw.name == d.account.find:
        return Call(FIND, detail=desk.records.find(ACCOUNT, arguments[d.account.key]))
    if raw.name == d.account.verify:
        return Call(VERIFY, detail=_secret(desk, case, arguments[d.account.secret]))
    for i, kind in enumerate(d.kinds):
        if raw.name == f"list_{kind.many}":
            return Call(LIST, i)
        if raw.name == f"get_{kind.name}":
            return Call(GET, i, _pointer(desk, case, kind.name, arguments[kind.name]))
    for i, workflow in enumerate(d.writes):
        if raw.name == workflow.tool:
            named = arguments.get(workflow.kind, "")
            pointer = _pointer(desk, case, workflow.kind, named) if workflow.kind else -1
            detail = 0
            for name in reversed(workflow.details):
                detail = _detail(desk, case, workflow, name, arguments[name])
            return Call(WRITE, i, pointer, detail)
    ends = {"transfer_to_human": TRANSFER_TO_HUMAN, "end_conversation": END_CONVERSATION}
    return Call(ends[raw.name])


def _secret(desk: ServiceDesk, case: Case, tried: str) -> int:
    """RIGHT, STATED_WRONG or UNSTATED, as the tools count them."""
    field, records, tried = desk.declaration.account.secret, desk.records, tried.strip()
    own = case.episode.task.account
    if case.desk.account >= 0 and tried == records.text(ACCOUNT, case.desk.account, field):
        return RIGHT
    stated = (
        "",
        records.text(ACCOUNT, own, field),
        records.wrong(ACCOUNT, own, field),
    )[case.desk.heard[SECRET]]
    return STATED_WRONG if tried and tried == stated else UNSTATED


def _detail(desk: ServiceDesk, case: Case, workflow: Workflow, name: str, said: str) -> int:
    """Which word it is; 1 where a text is what the customer wants, to its last word."""
    words = desk.declaration.details[name]
    if words:
        return words.index(said)
    kind, row = case.workflow.kind, case.request.row
    if workflow.name != case.workflow.name or not desk.records.agrees(kind, row, name, said):
        return 0
    return int(_last_word(said) == _last_word(desk.records.text(kind, row, name)))


def _last_word(text: str) -> str:
    words = "".join(c if c.isalnum() else " " for c in text.casefold()).split()
    return words[-1] if words else ""


def _pointer(desk: ServiceDesk, case: Case, kind: str, named: str) -> int:
    """Place of a named record among those of the open account; -1 where it is not one."""
    account, each = case.desk.account, desk.declaration.kind[kind].each
    if account < 0:
        return -1
    named = named.strip()
    before, _, number = named.lower().partition(":")
    if number and before == kind:
        number = number.strip()
        if len(number) == 1 and number.isdecimal() and 1 <= int(number) <= each:
            pointer = int(number) - 1
            return pointer if case.belief[desk.v.of[kind].seen[pointer]] else -1
        return -1
    row = desk.records.find(kind, named)
    return row % each if row >= 0 and row // each == account else -1


# -- claims ----------------------------------------------------------------------------------------


def _ground(
    desk: ServiceDesk, case: Case, act: str, slot: str, value: str, named: str
) -> Said | None:
    d, v = desk.declaration, desk.v
    if act in _PLAIN:
        return Said(_PLAIN[act])
    if act == "ask" and slot == "more":
        return Said(acts.ASK_MORE)
    if act == "ask":
        return Said(acts.ASK, v.slots.index(slot)) if slot in v.slots else None
    if act == "who":
        return Said(acts.ASK, KEY)  # customers say who they are by their account
    if act in ("confirm", "done", "promise"):
        slot = desk.write_meant(case, slot, named)
    if act == "inform":
        return _ground_told(desk, case, slot, value, named) if slot in v.told else None
    if act == "confirm" and slot in v.writes:
        return _ground_confirm(desk, case, slot, value, named)
    if act == "promise" and slot in v.promises:
        return Said(acts.PROMISE, v.promises.index(slot))
    if act == "deny":
        return _ground_denial(desk, case, slot, named)
    if act == "offer" and slot in d.offers:
        return _ground_offer(case, slot)
    if act == "done" and slot in v.writes:
        return _ground_report(desk, case, slot, value, named)
    return None


def _ground_confirm(desk: ServiceDesk, case: Case, slot: str, value: str, named: str) -> Said:
    """A question for a yes; what is named with it must be what the customer wants."""
    number = desk.v.writes.index(slot)
    workflow = desk.declaration.writes[number]
    pointer = _record_meant(desk, case, workflow.kind, named) if workflow.kind else -1
    meant = desk.agrees_on(case, slot, value)
    return Said(acts.CONFIRM, number, pointer, claim=acts.KNOWN if meant else acts.FALSE)


def _ground_denial(desk: ServiceDesk, case: Case, slot: str, named: str) -> Said | None:
    kind = case.workflow.kind
    if named and kind and case.desk.account >= 0:
        meant = _named(desk, case, kind, named)
        if meant is not None and case.request.pointer not in meant:
            return None  # of another record
    reason = desk.reason_meant(case, slot)
    if reason not in desk.v.reason_number:
        return None
    if not case.belief[desk.v.can_deny[desk.v.reason_number[reason]]]:
        if any(reason == one.decision.reason for one in case.earlier):
            return Said(acts.CHAT)  # why an earlier request was refused, said once more
    if case.belief[desk.v.wrote] and desk.sounds_done(case, reason):
        return None  # what has been done is not refused: "it is off and will not be sent"
    return Said(acts.DENY, desk.v.reason_number[reason])


def _ground_offer(case: Case, offer: str) -> Said:
    number = case.v.declaration.offers.index(offer)
    if not case.belief[case.v.can_offer[number]]:
        if any(offer == one.decision.alternative for one in case.earlier):
            return Said(acts.CHAT)  # what was offered for an earlier request
    return Said(acts.OFFER, number)


def _ground_report(desk: ServiceDesk, case: Case, slot: str, value: str, named: str) -> Said:
    number = desk.v.writes.index(slot)
    workflow = desk.declaration.writes[number]
    written = [bool(case.belief[cell]) for cell in desk.v.written[number]]
    meant = _named(desk, case, workflow.kind, named) if named and workflow.kind else None
    if meant is not None:
        written = [written[pointer] for pointer in meant]
    true = any(written) and desk.agrees_with_report(case, slot, value)
    if true and slot in case.earlier_names:
        return Said(acts.CHAT)  # what was done for an earlier request, said once more
    return Said(acts.REPORT_DONE, claim=acts.KNOWN if true else acts.FALSE)


def labels_in_view(desk: ServiceDesk, episode: Episode) -> tuple[str, ...]:
    """The labels of the records in view, each once: what a reply may call them by."""
    case = Case(desk.v, episode)
    labels = (label for kind in desk.declaration.kinds for label in _labels(desk, case, kind.name))
    return tuple(dict.fromkeys(filter(None, labels)))


def _labels(desk: ServiceDesk, case: Case, kind: str) -> list[str]:
    """Labels of the records of a kind, in their order; empty texts for those not in view."""
    each, label = desk.declaration.kind[kind].each, desk.declaration.kind[kind].label
    first = case.desk.account * each
    return [
        desk.records.text(kind, first + k, label) if case.belief[cell] else ""
        for k, cell in enumerate(desk.v.of[kind].seen)
    ]


def _named(desk: ServiceDesk, case: Case, kind: str, named: str) -> list[int] | None:
    """Pointers that a number, handle or label may stand for; None: it names another kind."""
    pointer = _pointer(desk, case, kind, named)
    if pointer >= 0:
        return [pointer]
    labels = _labels(desk, case, kind)
    if named in labels:
        return [k for k, label in enumerate(labels) if label == named]
    others = (other.name for other in desk.declaration.kinds if other.name != kind)
    return None if any(named in _labels(desk, case, other) for other in others) else []


def _record_meant(desk: ServiceDesk, case: Case, kind: str, named: str) -> int:
    """The record that a sentence is about: the one named, else the one in hand.

    In hand is the record among those read that fits what the customer said: its number, else its
    date, else its label. A label that names two means the one in hand.
    """
    meant = _named(desk, case, kind, named) if named else None
    if meant is not None and len(meant) < 2:
        return meant[0] if meant else -1
    cells, belief = desk.v.of[kind], case.belief
    read = [k for k, cell in enumerate(cells.read) if belief[cell] and k in (meant or [k])]
    said = (cells.id_matches, cells.date_matches, cells.label_matches)
    fitting = ([k for k in read if belief[matches[k]]] for matches in said)
    chosen = next(filter(None, fitting), read)
    return chosen[0] if len(chosen) == 1 else -1


def _ground_told(desk: ServiceDesk, case: Case, slot: str, value: str, named: str) -> Said:
    d, told = desk.declaration, desk.v.told.index(slot)
    if slot in d.terms:
        said = desk.term_told(case, told, value)
        return Said(acts.CHAT) if _was_due(case, slot, said) else said
    kind = d.facts[slot]
    pointer = _record_meant(desk, case, kind, named)
    if pointer < 0 or not case.belief[desk.v.of[kind].read[pointer]]:
        return Said(acts.TELL, told, pointer, claim=acts.UNSUPPORTED)
    row = case.desk.account * d.kind[kind].each + pointer
    true = desk.records.agrees(kind, row, slot, value)
    return Said(acts.TELL, told, pointer, claim=acts.TRUE if true else acts.FALSE)


def _was_due(case: Case, term: str, said: Said) -> bool:
    """Whether it is a term of an earlier request, told once more, rightly."""
    if term in case.workflow.terms or said.claim == acts.FALSE:
        return False
    for request, name in zip(case.earlier, case.earlier_names, strict=True):
        terms = case.v.declaration.workflow[name].terms
        if term in terms and request.terms:
            return said.value == (request.terms[terms.index(term)] > 0)
    return False
