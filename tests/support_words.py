"""Views, wordings and messages that the tests of technical support's words share."""

import json
from functools import cache
from pathlib import Path

from convgym.domains.technical_support import wording
from convgym.domains.technical_support.dialogue import (
    ACTIONS,
    CHECK_NAMES,
    FACTS,
    SHOWN,
    STEP_NAMES,
    TELLS,
    WRITE_NAMES,
)
from convgym.domains.technical_support.physics import CHECKS_OF, STEPS_OF
from convgym.domains.technical_support.remarks import UNNAMED
from convgym.domains.technical_support.tasks import draw_task
from convgym.domains.technical_support.vocabulary import (
    CHECKS,
    KIND_NAMES,
    KINDS,
    LOOK,
    STEPS,
    VALUE_NAMES,
)
from convgym.domains.technical_support.world import world
from convgym.engine import acts

DATA = Path(__file__).parent / "data"
POLICY = {
    "limit_fee": "5",
    "technician_fee": "40",
    "interruption": "10",
    "delivery": "4",
    "warranty": "24",
}
_LABELS = {
    "greet": "greet",
    "ask_intent": "ask_intent",
    "ask_more": "ask(more)",
    "apologise": "apologise",
    "close": "close",
}


def rows(name):
    """The rows of a file of JSON lines under tests/data."""
    return [json.loads(line) for line in (DATA / name).read_text("utf-8").splitlines()]


def view_of(kind, **others):
    """All that an agent has in sight, with a device of this kind in hand."""
    device = {"handle": "device:1", "kind": KINDS[kind], "name": KIND_NAMES[kind]}
    usual = {
        "heard": {"phone": "0712345678", "pin": "1234", "serial": "D12345"},
        "account": {},
        "devices": {},
        "device": {**device, "serial": "D12345"},
        "seen": {},
        "reads": {},
        "asked": {"kind": "", "name": "", "plain": "", "explanation": ""},
        "policy": POLICY,
        "done": "",
        "question": "",
    }
    return usual | others


def _cases(kind):
    """(number, view, label) of every act of speech that fits this kind of device."""
    plain = view_of(kind)
    for number, action in enumerate(ACTIONS.actions):
        argument = action.argument
        if action.kind >= acts.FIRST_TOOL:
            continue
        if action.kind == acts.CHECK:
            if argument in CHECKS_OF[kind]:
                yield number, plain, f"check({CHECK_NAMES[argument]})"
        elif action.kind == acts.INSTRUCT:
            if argument in STEPS_OF[kind]:
                yield number, plain, f"instruct({STEP_NAMES[argument]})"
        elif action.kind == acts.TELL:
            for view, label in _told(kind, TELLS[argument]):
                yield number, view, label
        elif action.kind == acts.REPORT_DONE:
            for write in WRITE_NAMES:
                yield number, view_of(kind, done=write), f"done({write})"
        elif action.kind == acts.EXPLAIN:
            for question in ("why", "meaning", "sure", "next"):
                yield number, view_of(kind, question=question), "explain"
            words = [CHECKS[i] for i in CHECKS_OF[kind]] + [STEPS[i] for i in STEPS_OF[kind]]
            for word in words:
                asked = {"name": word.name, "explanation": word.explanation}
                yield number, view_of(kind, question="how", asked=asked), "explain"
        else:
            act, _, slot = action.name.partition("_")
            yield number, plain, _LABELS.get(action.name, f"{act}({slot})")


def _told(kind, name):
    if name in FACTS:
        for value in (VALUE_NAMES[v] for v in SHOWN[LOOK[name]]):
            yield view_of(kind, reads={name: value}), f"inform({name}={value})"
        yield view_of(kind), f"inform({name}=)"
    elif name in UNNAMED:
        yield view_of(kind), f"inform({name})"
    else:
        yield view_of(kind), f"inform({name}={POLICY[name]})"
        if name == "technician_fee":
            free = POLICY | {name: "0"}
            yield view_of(kind, policy=free), f"inform({name}=0)"


def spoken_by_agents(part):
    """(act, label, text) of every wording of every act, in each view that changes it, once."""
    bank, seen = wording.agent_banks()[part], set()
    for kind in range(len(KINDS)):
        for number, view, label in _cases(kind):
            action = ACTIONS.actions[number]
            phrases = wording.wordings_of(wording.phrase_keys(action, view), bank)
            for place in range(len(phrases)):
                drawn = -(-place * 2**32 // len(phrases))  # the smallest draw that picks it
                text = wording.agent_text(number, view, bank, drawn)
                if (label, text) not in seen:
                    seen.add((label, text))
                    yield action.name, label, text


@cache
def task_of(kind, symptom=""):
    """The first task of training about a device of this kind, with this symptom."""
    return next(
        task
        for task in (draw_task("train", number) for number in range(5000))
        if KINDS[task.kind] == kind and symptom in ("", VALUE_NAMES[task.symptom])
    )


def filled(text, task):
    """A customer's message with the values of its task in it."""
    provider = world()
    values = {
        "phone": provider.phone(task.customer),
        "pin": provider.pin_text(task.customer),
        "serial": provider.serial(task.device),
        "room": provider.room_name(task.device),
    }
    for name, value in values.items():
        text = text.replace("{" + name + "}", value)
    return text
