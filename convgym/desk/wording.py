"""Words for a desk's acts: the customer's turns, and the agent's acts as replies.

The agent's wording sees only the *view*: what the customer said and what tools returned, a plain
dictionary that the `dict` observation carries as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from convgym.desk import state
from convgym.desk.declaration import ACCOUNT
from convgym.desk.state import Case
from convgym.desk.tasks import KNOWLEDGES, Request, Task
from convgym.desk.vocabulary import (
    END_CONVERSATION,
    FIND,
    GET,
    GET_STATED,
    LIST,
    TRANSFER_TO_HUMAN,
    VERIFY,
    WRITE,
    described_by,
)
from convgym.engine import acts
from convgym.engine.acts import UserTurn
from convgym.engine.episode import Episode
from convgym.engine.keys import WORDING, draw
from convgym.engine.rules import ALLOW, REFUSE
from convgym.language.phrases import PhraseBank
from convgym.language.voice import Spoken

if TYPE_CHECKING:
    from convgym.desk.desk import ServiceDesk

# -- the customer's acts in words ------------------------------------------------------------------


def value_slots(desk: ServiceDesk) -> dict[str, str]:
    """Placeholder of the value that each informing act of the customer states."""
    d = desk.declaration
    slots = {f"inform_{name}": name for name in (d.account.key, d.account.secret)}
    for kind in d.kinds:
        slots |= {f"inform_{name}": name for name in (kind.name, *described_by(kind))}
        slots[f"inform_{kind.date}"] = "date"
    slots |= {f"inform_{name}": name for name, words in d.details.items() if not words}
    return slots


class Source(NamedTuple):
    """Where the value that an act of the customer states comes from."""

    of: int
    """`WORD`, `OF_ACCOUNT` or `OF_RECORD`."""
    text: str
    """The word itself, empty for none; else the field of the account or of the record."""
    wrong: bool = False
    """It is as a poor memory has it."""


WORD, OF_ACCOUNT, OF_RECORD = range(3)


def value_sources(desk: ServiceDesk) -> dict[str, Source]:
    """Where the value of each of the customer's acts comes from, by name."""
    return {act: _source(desk, act) for act in desk.v.user_acts}


def _source(desk: ServiceDesk, act: str) -> Source:
    d = desk.declaration
    name, wrong = act.removesuffix("_wrong"), act.endswith("_wrong")
    field = name.removeprefix("inform_")
    if field in (d.account.key, d.account.secret):
        return Source(OF_ACCOUNT, field, wrong)
    if f"inform_{field}" in desk.value_slots:
        return Source(OF_RECORD, field, wrong)
    for detail, words in d.details.items():
        if field.removeprefix(f"{detail}_") in words:
            return Source(WORD, field.removeprefix(f"{detail}_"))
    return Source(WORD, "")


def act_value(desk: ServiceDesk, task: Task, request: Request, act: str) -> str:
    """The value that a customer's act, by name, states; empty where it states none."""
    of, text, wrong = desk.value_sources[act]
    if of == WORD:
        return text
    read = desk.records.wrong if wrong else desk.records.text
    if of == OF_ACCOUNT:
        return read(ACCOUNT, task.account, text)
    return read(desk.declaration.workflows[request.workflow].kind, request.row, text)


def goal_values(desk: ServiceDesk, task: Task) -> dict[str, str]:
    """Every value that this customer can state, by act and request; hidden until it does."""
    values = {}
    for place, request in enumerate(task.requests):
        workflow = desk.declaration.workflows[request.workflow]
        names = [f"inform_{desk.declaration.account.key}"]
        names += [f"inform_{desk.declaration.account.secret}"]
        if workflow.kind:
            kind = desk.declaration.kind[workflow.kind]
            names += [f"inform_{kind.name}", f"inform_{kind.name}_wrong"]
            names += [f"inform_{field}" for field in described_by(kind)]
        names += [f"inform_{x}" for x in workflow.details if not desk.declaration.details[x]]
        for name in names:
            values[f"{place}:{name}"] = act_value(desk, task, request, name)
    return values


def spoken(desk: ServiceDesk, episode: Episode, turn: UserTurn) -> list[Spoken]:
    """A customer's acts by name, with the slot and the value of those that state one."""
    task: Task = episode.task
    request, names = task.requests[turn.about], desk.v.user_acts
    said_names = [names[act] for act in turn.acts]
    if all(name.startswith(("greet", "request_", "inform_")) for name in said_names):
        # Who answers first and then remembers why they came writes it the other way round.
        said_names.sort(key=lambda name: name.startswith("inform_"))
    said = []
    for name in said_names:
        plain = name.removesuffix("_wrong")
        slot = desk.value_slots.get(plain, "")
        if slot:
            said.append(Spoken(plain, slot, act_value(desk, task, request, name)))
        else:
            said.append(Spoken(plain))
    return said


def acts_json(desk: ServiceDesk, episode: Episode, turn: UserTurn) -> str:
    """A customer's turn as a JSON list of `{"act", "value"}`."""
    task: Task = episode.task
    request, heard_as, names = task.requests[turn.about], desk.v.heard_as, desk.v.user_acts
    return state.acts_json(
        [(heard_as[act], act_value(desk, task, request, names[act])) for act in turn.acts]
    )


# -- the view --------------------------------------------------------------------------------------


def view(desk: ServiceDesk, episode: Episode) -> dict[str, Any]:
    """All that the agent has in sight, by name; holds nothing it has not seen or heard."""
    case, d, v = Case(desk.v, episode), desk.declaration, desk.v
    task, belief, request = episode.task, case.belief, case.request
    heard: dict[str, str] = {}
    stated = (d.account.key, d.account.secret, *(kind.name for kind in d.kinds))
    for slot, name in enumerate(stated):
        variant = case.desk.heard[slot]
        if variant:
            act = f"inform_{name}" if variant == 1 else f"inform_{name}_wrong"
            heard[name] = act_value(desk, task, request, act)
    if case.workflow.kind:
        for field in described_by(d.kind[case.workflow.kind]):
            if belief[v.layout[f"heard_{field}"]]:
                heard[field] = act_value(desk, task, request, f"inform_{field}")
    for name in case.workflow.details:
        if belief[v.heard_detail[name]]:
            words = d.details[name]
            heard[name] = (
                words[request.detail] if words else act_value(desk, task, request, f"inform_{name}")
            )
    records: dict[str, dict[str, dict[str, str]]] = {}
    for kind in d.kinds:
        cells = v.of[kind.name]
        seen = [k for k in range(kind.each) if belief[cells.seen[k]]]
        if seen:
            first = case.desk.account * kind.each
            records[kind.name] = {
                str(k): desk.shown(kind.name, first + k, bool(belief[cells.read[k]])) for k in seen
            }
    wants = d.names[request.workflow] if belief[v.wants[request.workflow]] else ""
    return {
        "wants": wants,
        "about": _in_hand(desk, case),
        "heard": heard,
        "records": records,
        "policy": desk.policy_view(case, wants),
        "wrote": wants if belief[v.wrote] else "",
        "question": _question(desk, case),
    }


def _in_hand(desk: ServiceDesk, case: Case) -> str:
    """Place of the record that this request is about, as far as it has been named and read."""
    if case.workflow.kind == ACCOUNT:
        return ""
    cells, belief = desk.v.of[case.workflow.kind], case.belief
    read = [k for k, cell in enumerate(cells.read) if belief[cell]]
    for matches in (cells.id_matches, cells.date_matches, cells.label_matches):
        fitting = [k for k in read if belief[matches[k]]]
        if fitting:
            return str(fitting[-1])
    return ""


def _question(desk: ServiceDesk, case: Case) -> str:
    """What the customer has just asked for an explanation of."""
    asked = next((name for name, cell in desk.v.questions if case.belief[cell]), "")
    return desk.meaning_of(case) if asked == "ask_meaning" else asked.removeprefix("ask_")


# -- the agent's acts in words ---------------------------------------------------------------------


def record_in_view(desk: ServiceDesk, seen: Mapping[str, Any], number: int) -> dict[str, str]:
    """The record an act points at; the one the request is about where it points at none."""
    action, d = desk.actions.actions[number], desk.declaration
    if action.kind in (GET, GET_STATED, LIST):
        kind = d.kinds[action.argument].name
    elif action.kind in (WRITE, acts.CONFIRM):
        kind = d.writes[action.argument].kind
    else:
        kind = d.workflow[seen["wants"]].kind if seen["wants"] else ACCOUNT
    records: Mapping[str, dict[str, str]] = seen["records"].get(kind, {})
    return records.get(str(action.pointer) if action.pointer >= 0 else seen["about"], {})


def phrase_key(desk: ServiceDesk, number: int, seen: Mapping[str, Any]) -> str:
    """Under which name the wordings of an act stand."""
    action, d = desk.actions.actions[number], desk.declaration
    kind, argument = action.kind, action.argument
    if kind == acts.TELL:
        name = desk.v.told[argument]
        return f"inform_{name}_{d.terms[name][action.value]}" if name in d.terms else (
            f"inform_{name}"
        )
    if kind == acts.CONFIRM:
        return f"confirm_{d.writes[argument].name}"
    if kind == acts.REPORT_DONE:
        return f"done_{seen['wrote'] or d.writes[0].name}"
    if kind == acts.DENY:
        return f"deny_{d.reasons[argument]}"
    if kind == acts.OFFER:
        return f"offer_{d.offers[argument]}"
    if kind == acts.EXPLAIN:
        return f"explain_{seen['question'] or 'next'}"
    return action.name


def _tool_call(
    desk: ServiceDesk, number: int, seen: Mapping[str, Any], record: Mapping[str, str]
) -> tuple[str, str]:
    """Name of the tool and the call in Hermes style."""
    action, d, heard = desk.actions.actions[number], desk.declaration, seen["heard"]
    arguments: dict[str, str] = {}
    if action.kind == FIND:
        name = d.account.find
        arguments[d.account.key] = heard.get(d.account.key, "")
    elif action.kind == VERIFY:
        name = d.account.verify
        arguments[d.account.secret] = heard.get(d.account.secret, "")
    elif action.kind == LIST:
        name = f"list_{d.kinds[action.argument].many}"
    elif action.kind in (GET, GET_STATED):
        kind = d.kinds[action.argument].name
        name = f"get_{kind}"
        stated = heard.get(kind, "") if action.kind == GET_STATED else ""
        arguments[kind] = stated or record.get(kind, f"{kind}:{action.pointer + 1}")
    elif action.kind == WRITE:
        workflow = d.writes[action.argument]
        name = workflow.tool
        if workflow.kind:
            handle = f"{workflow.kind}:{action.pointer + 1}"
            arguments[workflow.kind] = record.get(workflow.kind, handle)
        for detail in workflow.details:
            arguments[detail] = heard.get(detail, "")
    else:
        name = {
            TRANSFER_TO_HUMAN: "transfer_to_human", END_CONVERSATION: "end_conversation"
        }[action.kind]
    call = json.dumps({"name": name, "arguments": arguments})
    return name, f"<tool_call>{call}</tool_call>"


def agent_text(
    desk: ServiceDesk, number: int, seen: Mapping[str, Any], bank: PhraseBank, drawn: int
) -> str:
    """An act as a reply: words for speech, a thought and a call for a tool."""
    action = desk.actions.actions[number]
    record = record_in_view(desk, seen, number)
    if action.kind >= acts.FIRST_TOOL:
        name, call = _tool_call(desk, number, seen, record)
        thought = f"think_{name}"
        return f"<think>{bank.pick(thought, drawn)}</think>{call}" if thought in bank else call
    phrase = bank.pick(desk.phrase_key(number, seen, record), drawn)
    if "{" in phrase:
        for name, value in {**seen["policy"], **seen["heard"], **record}.items():
            phrase = phrase.replace("{" + name + "}", value)
    return phrase


def agent_text_of(desk: ServiceDesk, episode: Episode, number: int) -> str:
    """An act of the running episode in words of the train bank."""
    drawn = draw(episode.wording_key, WORDING, episode.turn, 100)
    return agent_text(desk, number, view(desk, episode), desk.agent_banks()["train"], drawn)


# -- for people ------------------------------------------------------------------------------------


def scenario(desk: ServiceDesk, task: Task) -> tuple[str, str]:
    """(context, expected resolution): what the customer is in, and what would be right."""
    contexts, right = [], []
    who = desk.records.text(ACCOUNT, task.account, "name")
    if task.impostor:
        secret = desk.declaration.account.secret
        who = f"Somebody who writes in the name of {who} and does not know the {secret}"
    for request in task.requests:
        workflow = desk.declaration.workflows[request.workflow]
        about = ""
        if workflow.kind:
            kind = desk.declaration.kind[workflow.kind]
            number = desk.records.text(kind.name, request.row, kind.name)
            label = desk.records.text(kind.name, request.row, kind.label)
            about = f" for {label} ({number}), known by {KNOWLEDGES[request.knowledge]}"
        for name in workflow.details:
            words = desk.declaration.details[name]
            said = words[request.detail] if words else desk.records.text(
                workflow.kind, request.row, name
            )
            about += f", {name}: {said.replace('_', ' ')}"
        contexts.append(f"asks for {workflow.name}{about}")
        right.append(resolution(desk, request))
    return f"{who} {', and '.join(contexts)}.", " Then ".join(right)


def resolution(desk: ServiceDesk, request: Request) -> str:
    """What would be right for one request, in a sentence."""
    decision = request.decision
    if decision.effect == REFUSE:
        instead = decision.alternative.replace("_", " ")
        offer = f" and offers {instead} instead" if instead else ""
        reason = decision.reason.replace("_", " ")
        return f"The agent refuses, because it is {reason}{offer}, and stands by it."
    if decision.effect != ALLOW:
        return "The agent hands the customer over to a person."
    workflow = desk.declaration.workflows[request.workflow]
    if workflow.facts:
        return f"The agent tells {' and '.join(workflow.facts)}."
    terms = f"tells {' and '.join(workflow.terms)}, " if workflow.terms else ""
    return f"The agent {terms}asks for a yes, calls {workflow.tool} and says that it is done."
