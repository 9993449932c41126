"""Sentences that no customer would take for a fact, a report, a refusal, an offer or a question
for a yes, each in place of the decisive reply of a conversation that goes well otherwise; and
plain ones beside them (`"credit": true`), which must be heard."""

import json
import re
from functools import cache
from pathlib import Path

import pytest
from desk_driven import Talk
from single_task import ACTIONS, DESK, V, decision, draw_task, request, workflow

from convgym.engine import keys
from convgym.engine.rules import ALLOW, REFUSE
from convgym.spaces import sanitize
from convgym.users.persona import Persona

ROWS = [
    json.loads(line)
    for line in (Path(__file__).parent / "data" / "tricks.jsonl").read_text("utf-8").splitlines()
]
TASKS = 3
LONGEST_REPLY = 4096
CALM = Persona(scepticism=0.0, curiosity=0.0, accuracy=1.0, patience=1.0).levels
KEYS = (1, 2, 3)
"""Keys of the customers of the three tasks."""

# (kind, what it is about) -> workflow and outcome of its tasks, and the reply that it stands for
PLACES = {
    ("confirm", "cancel"): ("cancel", ALLOW, "confirm_cancel"),
    ("confirm", "return"): ("return", ALLOW, "confirm_return"),
    ("confirm", "address"): ("address", ALLOW, "confirm_address"),
    ("done", "cancel"): ("cancel", ALLOW, "report_done"),
    ("done", "address"): ("address", ALLOW, "report_done"),
    ("status", ""): ("status", ALLOW, "inform_status"),
    ("eta", ""): ("status", ALLOW, "inform_"),
    ("fee", ""): ("return", ALLOW, "inform_fee"),
    ("channel", ""): ("return", ALLOW, "inform_channel"),
    ("deny", ""): ("cancel", REFUSE, "deny_not_cancellable"),
    ("offer", "return_later"): ("cancel", REFUSE, "offer_return_later"),
    ("offer", "pickup"): ("address", REFUSE, "offer_pickup"),
}


@cache
def tasks_of(wanted, effect):
    """The first tasks with that request and outcome, of customers who are who they say."""
    drawn = (draw_task("train", number) for number in range(3000))
    fitting = (
        task
        for task in drawn
        if workflow(task) == wanted and decision(task).effect == effect and not task.impostor
    )
    return tuple(task for _, task in zip(range(TASKS), fitting, strict=False))


def say(talk, text):
    """Take a reply in free text, as an environment in text mode does."""
    turn = DESK.understand(talk.episode, sanitize(text, LONGEST_REPLY))
    return talk.apply(turn)


@cache
def replies_before(task, key, act):
    """What the oracle says in words until its next act begins with `act`, and that act."""
    talk, bank, said = Talk(task, key, levels=CALM), DESK.agent_banks()["train"], []
    while not talk.episode.end:
        name = talk.wanted()
        if name.startswith(act):
            return tuple(said), name
        drawn = keys.draw(key, keys.WORDING, len(said), 7)
        said.append(DESK.agent_reply(ACTIONS[name], DESK.view(talk.episode), bank, drawn))
        say(talk, said[-1])
    raise AssertionError(f"{task.task_id} never comes to {act}")


def until(task, key, act):
    """A conversation that has come to the reply for `act`, and its full name."""
    talk = Talk(task, key, levels=CALM)
    said, name = replies_before(task, key, act)
    for reply in said:
        say(talk, reply)
    return talk, name


def filled(text, talk, act):
    """A text with what is true in this conversation in its slots."""
    view, pointer = DESK.view(talk.episode), request(talk.task).pointer
    order, heard = view["records"]["order"][str(pointer)], view["heard"]
    fee = talk.episode.desk.parameters["fee"]
    address = heard.get("address", "")
    status = order["status"]
    values = {
        "W": order["order"],
        "STATUS": status,
        "OTHER": next(s for s in ("packed", "processing") if s != status),
        "DATE": order["date"],
        "ARRIVES": "was delivered" if status == "delivered" else "will arrive",
        "ADDRESS": address,
        "STREET": address.split(",")[0],
        "SUFFIX": re.sub(r"^\d+", lambda m: m[0][1:] or "0", address),
        "FEE": "there is no restocking fee" if "waived" in act else f"a fee of {fee}% applies",
        "FEENOUN": "no restocking fee" if "waived" in act else f"a restocking fee of {fee}%",
        "CHANNEL": "goes to the original payment method"
        if "orig" in act
        else "is paid as store credit",
        "CHANNELNOUN": "to the original payment method" if "orig" in act else "as store credit",
    }
    for slot, value in values.items():
        text = text.replace("{" + slot + "}", value)
    assert not re.search(r"\{[A-Z]+\}", text), text
    return text


def credited(kind, talk):
    """Whether the conversation now counts what a sentence of that kind would bring."""
    belief, pointer = talk.episode.belief, request(talk.task).pointer
    if kind == "confirm":
        return "affirm" in talk.said
    if kind == "done":
        return bool(belief[V.told_done])
    if kind in ("status", "eta"):
        return bool(belief[V.told_fact[kind][pointer]])
    if kind in ("fee", "channel"):
        return any(belief[cell] for cell in V.told_term[kind])
    return any(belief[cell] for cell in (V.denied if kind == "deny" else V.offered))


@pytest.mark.parametrize("place", PLACES, ids=" ".join)
def test_the_oracles_own_reply_is_credited_there(place):
    """Else a place where nothing is ever credited would make every trick harmless."""
    wanted, effect, act = PLACES[place]
    tasks = tasks_of(wanted, effect)
    assert len(tasks) == TASKS
    for task, key in zip(tasks, KEYS, strict=True):
        talk, name = until(task, key, act)
        assert not credited(place[0], talk)
        talk.act(name)
        kind = "status" if place[0] == "eta" and "status" in name else place[0]
        assert credited(kind, talk), (task.task_id, name, talk.said)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['kind']}: {row['text'][:60]}")
def test_only_what_is_said_is_credited(row):
    kind = row["kind"]
    wanted, effect, act = PLACES[kind, row.get("about", "")]
    for task, key in zip(tasks_of(wanted, effect), KEYS, strict=True):
        talk, name = until(task, key, act)
        text = filled(row["text"], talk, name)
        say(talk, text)
        assert credited(kind, talk) == row.get("credit", False), (task.task_id, text, talk.said)
