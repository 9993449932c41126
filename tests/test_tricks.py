"""Sentences that no customer would take for a fact, a report, a refusal, an offer or a question
for a yes, each in place of the decisive reply of a conversation that goes well otherwise; and
plain ones beside them (`"credit": true`), which must be heard."""

import json
import re
from functools import cache
from pathlib import Path

import pytest
from test_reply import Desk, tasks_of

from convgym.domains.customer_service import cells
from convgym.domains.customer_service.vocabulary import ACTIONS
from convgym.policies.rendered import RenderedPolicy
from convgym.policies.scripted import OraclePolicy

ROWS = [
    json.loads(line)
    for line in (Path(__file__).parent / "data" / "tricks.jsonl").read_text().splitlines()
]
TASKS = 3
CALM = {"scepticism": 0.0, "curiosity": 0.0, "accuracy": 1.0, "patience": 1.0}

# (kind, what it is about) -> workflow and effect of its tasks, and the reply that it stands for
PLACES = {
    ("confirm", "cancel"): (1, "allow", "confirm_cancel"),
    ("confirm", "return"): (2, "allow", "confirm_return"),
    ("confirm", "address"): (3, "allow", "confirm_address"),
    ("done", "cancel"): (1, "allow", "report_done"),
    ("done", "address"): (3, "allow", "report_done"),
    ("status", ""): (0, "allow", "inform_status"),
    ("eta", ""): (0, "allow", "inform_"),
    ("fee", ""): (2, "allow", "inform_fee"),
    ("channel", ""): (2, "allow", "inform_channel"),
    ("deny", ""): (1, "refuse", "deny_not_cancellable"),
    ("offer", "return_later"): (1, "refuse", "offer_return_later"),
    ("offer", "pickup"): (3, "refuse", "offer_pickup"),
}


@cache
def replies_before(task, act):
    """What the oracle says until its next act begins with `act`, and that act."""
    desk, policy = Desk(task, persona=CALM), RenderedPolicy(OraclePolicy())
    policy.reset(1)
    said = []
    while not desk.over:
        mask = ACTIONS.mask((desk.observation["features"] > 0).astype("uint8"))
        chosen, _ = policy.policy.predict(desk.observation, None, None, False, action_masks=mask)
        if ACTIONS.names[chosen].startswith(act):
            return tuple(said), ACTIONS.names[chosen]
        reply, _ = policy.predict(desk.observation, action_masks=desk.info["action_mask"])
        said.append(reply)
        desk.say(reply)
    return None


def until(task, act):
    """A conversation that has come to the reply for `act`."""
    desk = Desk(task, persona=CALM)
    found = replies_before(task, act)
    if found is None:
        return None, ""
    for reply in found[0]:
        desk.say(reply)
    return desk, found[1]


def filled(text, desk, act):
    """A text with what is true in this conversation in its slots."""
    order, heard = desk.read() or {}, desk.view().get("heard", {})
    fee = desk.episode.desk.parameters["fee"]
    address = heard.get("address") or ""
    status = order.get("status", "")
    values = {
        "W": order.get("order", ""),
        "STATUS": status,
        "OTHER": next(s for s in ("packed", "processing") if s != status),
        "DATE": order.get("date", ""),
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
    return text


def credited(kind, desk):
    """Whether the conversation now counts what a sentence of that kind would bring."""
    belief, pointer = desk.episode.belief, desk.episode.task.pointer
    if kind == "confirm":
        return '"affirm"' in desk.info["user_acts"]
    if kind == "done":
        return bool(belief[cells.TOLD_DONE])
    if kind in ("status", "eta"):
        return bool(belief[cells.TOLD[kind == "eta"][pointer]])
    if kind in ("fee", "channel"):
        return any(belief[cell] for cell in cells.TOLD[2 + (kind == "channel")])
    if kind == "deny":
        return any(belief[cell] for cell in cells.DENIED)
    return any(belief[cell] for cell in cells.OFFERED)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['kind']}: {row['text'][:60]}")
def test_only_what_is_said_is_credited(row):
    kind = row["kind"]
    workflow, effect, act = PLACES[kind, row.get("about", "")]
    seen = 0
    for task in tasks_of(workflow, effect, TASKS):
        desk, named = until(task, act)
        if desk is None:
            continue
        seen += 1
        text = filled(row["text"], desk, named)
        desk.say(text)
        assert credited(kind, desk) == row.get("credit", False), (task, text, desk.info)
    assert seen
