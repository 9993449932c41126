"""What is in sight, by name, and the values that a customer's acts state.

The agent's wording sees only the *view*: what the customer said and what tools returned, a plain
dictionary that the `dict` observation carries as JSON. A customer's values follow from its task
alone, so that a turn can be put into words at any later time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from convgym.desk import state
from convgym.domains.technical_support import cells, rules
from convgym.domains.technical_support.dialogue import (
    CHECK_NAMES,
    FRESH,
    HEARD_AS,
    QUESTIONS,
    SAW,
    SEEN,
    STEP_NAMES,
    USER_ACTS,
    VIEW,
    U,
)
from convgym.domains.technical_support.records import known_kind
from convgym.domains.technical_support.tasks import Task
from convgym.domains.technical_support.tools import described, record
from convgym.domains.technical_support.vocabulary import (
    CHECKS,
    FIRST_READ,
    KIND_NAMES,
    KINDS,
    LOOKS,
    OPERATIONS,
    PLAN_READ,
    STEPS,
    VALUE_NAMES,
    Word,
    plain_words,
)
from convgym.domains.technical_support.world import DEVICES_EACH, PLANS, world
from convgym.engine.episode import Episode
from convgym.language.voice import Spoken

SPOKEN_KINDS = ("router", "phone", "TV box", "laptop", "printer", "camera")
"""What a customer calls each kind of device."""


def _device(task: Task) -> str:
    return SPOKEN_KINDS[task.kind]


def _placed(task: Task) -> str:
    return f"{_device(task)} in the {world().room_name(task.device)}"


VALUES: dict[str, tuple[str, Callable[[Task], str]]] = {
    "inform_phone": ("phone", lambda task: world().phone(task.customer)),
    "inform_phone_wrong": ("phone", lambda task: world().wrong_phone(task.customer)),
    "inform_pin": ("pin", lambda task: world().pin_text(task.customer)),
    "inform_pin_wrong": ("pin", lambda task: world().wrong_pin(task.customer)),
    "inform_serial": ("serial", lambda task: world().serial(task.device)),
    "inform_serial_wrong": ("serial", lambda task: world().wrong_serial(task.device)),
    "inform_kind": ("device", _device),
    "inform_room": ("device", _placed),
    "correct_device": ("device", _placed),
}
"""Slot and value of each act that states one; what was seen names the `thing` looked at."""


def slot_and_value(task: Task, act: int) -> tuple[str, str]:
    """The slot that a customer's act fills, and with what; empty where it states nothing."""
    if act in SAW:
        return "thing", plain_words(task.kind, LOOKS[SAW[act][0]])
    slot, value = VALUES.get(USER_ACTS[act], ("", None))
    return slot, value(task) if value else ""


def goal_values(task: Task) -> dict[str, str]:
    """Every value that this customer can state, by act."""
    return {name: value(task) for name, (_, value) in VALUES.items()}


FIRST = (U["greet"], *(act for name, act in U.items() if name.startswith("request_")))
OPENING = (*FIRST, *(act for name, act in U.items() if name.startswith("inform_")))
"""Acts of which a first turn is made, and those of them that are said first."""


def spoken(task: Task, turn_acts: tuple[int, ...]) -> list[Spoken]:
    """A customer's acts by name, with the slot and the value of those that state one."""
    if all(act in OPENING for act in turn_acts):
        # Who answers first and then remembers why they called writes it the other way round.
        turn_acts = tuple(sorted(turn_acts, key=lambda act: act not in FIRST))
    return [Spoken(HEARD_AS[act], *slot_and_value(task, act)) for act in turn_acts]


def acts_json(task: Task, turn_acts: tuple[int, ...]) -> str:
    """A customer's turn as a JSON list of `{"act", "value"}`."""
    return state.acts_json(
        [(HEARD_AS[act], "" if act in SAW else slot_and_value(task, act)[1]) for act in turn_acts]
    )


_SEEN = [
    (look, (cells.SEES[look, value], LOOKS[look].name, VALUE_NAMES[value])) for look, value in SEEN
]
_CHECKS = tuple(row for look, row in _SEEN if look < FIRST_READ)
_READS = tuple(row for look, row in _SEEN if look >= FIRST_READ)
"""(cell, name, value) of all that checks and reads can show."""


def view(episode: Episode) -> dict[str, Any]:
    """All that the agent has in sight, by name; holds nothing it has not seen or heard."""
    belief, desk = episode.belief, episode.desk
    questions = (name for name in QUESTIONS if belief[cells.SAID_CELL[U[name]]])
    return {
        "heard": _heard(episode),
        "account": _account(episode),
        "devices": {
            str(k): {
                **described(episode, k),
                **({**record(episode, k), "read": "yes"} if belief[cells.READ_DEVICE[k]] else {}),
            }
            for k in VIEW
            if belief[cells.SEEN_DEVICE[k]]
        },
        "device": _device_meant(episode),
        "seen": {name: value for cell, name, value in _CHECKS if belief[cell] == FRESH},
        "reads": _reads(episode),
        "asked": _asked(episode),
        "policy": _policy(episode),
        "done": OPERATIONS[desk.last_write].name if desk.last_write >= 0 else "",
        "question": next(questions, "").removeprefix("ask_"),
    }


def _heard(episode: Episode) -> dict[str, str]:
    task, desk, belief = episode.task, episode.desk, episode.belief
    heard: dict[str, str] = {}
    if belief[cells.HEARD_REQUEST]:
        heard["symptom"] = VALUE_NAMES[task.symptom]
    for name, variant in zip(("phone", "pin", "serial"), desk.heard, strict=True):
        if variant:
            act = f"inform_{name}" + ("_wrong" if variant == 2 else "")
            heard[name] = VALUES[act][1](task)
    if belief[cells.HEARD_KIND] or belief[cells.HEARD_ROOM]:
        heard["kind"] = _device(task)
    if belief[cells.HEARD_ROOM]:
        heard["room"] = world().room_name(task.device)
    return heard


def _account(episode: Episode) -> dict[str, Any]:
    account, task = episode.desk.account, episode.task
    if account < 0:
        return {}
    return {
        "name": world().name(account),
        "phone": world().phone(account),
        "area": world().area_name(account),
        "plan": PLANS[world().plan[account]],
        "overdue": bool(task.overdue and account == task.customer),
    }


def _device_meant(episode: Episode) -> dict[str, str]:
    """The device in hand; only its kind where the customer has named it and none was read."""
    desk, kind = episode.desk, known_kind(episode.belief)
    if kind < 0:
        return {}
    named = {"kind": KINDS[kind], "name": KIND_NAMES[kind]}
    if desk.in_hand < 0:
        return named
    row = desk.account * DEVICES_EACH + desk.in_hand
    return {"handle": f"device:{desk.in_hand + 1}", **named, "serial": world().serial(row)}


def _reads(episode: Episode) -> dict[str, Any]:
    belief, task = episode.belief, episode.task
    reads: dict[str, Any] = {name: value for cell, name, value in _READS if belief[cell]}
    if belief[cells.SHOWN_BY[PLAN_READ]]:
        meant = episode.desk.in_hand == task.pointer
        reads["raised"] = task.raised if meant else 0
    return reads


def _asked(episode: Episode) -> dict[str, str]:
    """What the agent has asked for last."""
    if not episode.desk.asked:
        return {"kind": "", "name": "", "plain": "", "explanation": ""}
    name = episode.desk.asked[-1]
    check = name in CHECK_NAMES
    word: Word = CHECKS[CHECK_NAMES.index(name)] if check else STEPS[STEP_NAMES.index(name)]
    kind = known_kind(episode.belief)
    plain = plain_words(kind, word) if kind >= 0 else word.plain
    return {
        "kind": "check" if check else "step",
        "name": name,
        "plain": plain,
        "explanation": word.explanation,
    }


def _policy(episode: Episode) -> dict[str, str]:
    """Numbers of the policy that the agent may have to name."""
    parameters, account = episode.desk.parameters, episode.desk.account
    names = ("limit_fee", "technician_fee", "interruption", "delivery", "warranty")
    numbers = {name: str(parameters[name]) for name in names}
    if account >= 0:
        numbers["technician_fee"] = str(
            rules.technician_due(
                episode.task.active, {"plan": world().plan[account]}, parameters
            )
        )
    return numbers


def goal_in_words(task: Task) -> Mapping[str, str]:
    """Names of what is hidden of a task, for `privileged`."""
    return {
        "kind": KINDS[task.kind],
        "symptom": VALUE_NAMES[task.symptom],
        "serial": world().serial(task.device),
    }
