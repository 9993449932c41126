"""Tool calls of free text: the schemas, and arguments held against what is in view.

    RawCall ─► check_arguments ─► ground_call ─► Call, when it is run

What the fields of a `Call` mean:

    find_customer   detail: row of the account, -1 for none
    verify_pin      detail: RIGHT, STATED_WRONG or UNSTATED
    get_device      pointer: place among the account's devices, -1 for none of them
    READ, WRITE     argument: look or operation, pointer: the device, -1 for none
"""

from __future__ import annotations

import json
from typing import Any

from convgym.desk.tools import RIGHT, STATED_WRONG, UNSTATED
from convgym.domains.technical_support import cells
from convgym.domains.technical_support.dialogue import (
    END_CONVERSATION,
    FIND_CUSTOMER,
    GET_DEVICE,
    LIST_DEVICES,
    READ,
    TRANSFER_TO_HUMAN,
    VERIFY_PIN,
    VIEW,
    WRITE,
)
from convgym.domains.technical_support.vocabulary import (
    AREA_STATUS,
    LINE_TEST,
    OPERATION,
    PLAN_READ,
    READS,
    WRITES,
)
from convgym.domains.technical_support.world import DEVICES_EACH, world
from convgym.engine.acts import Call
from convgym.engine.episode import Episode
from convgym.language.tool_calls import RawCall, check_arguments

_DEVICE = "its serial number, or a handle: device:1"


def _schema(description: str, /, **properties: str) -> dict[str, Any]:
    return {
        "description": description,
        "parameters": {
            "type": "object",
            "properties": {
                name: {"type": "string", "description": text} for name, text in properties.items()
            },
            "required": list(properties),
            "additionalProperties": False,
        },
    }


TOOLS: dict[str, dict[str, Any]] = {
    "find_customer": _schema("Open an account.", phone="phone number of the account"),
    "verify_pin": _schema("Check the second factor.", pin="what the customer said"),
    "list_devices": _schema("List the devices of the open account."),
    "get_device": _schema("Read one device: model, maker, age.", device=_DEVICE),
    "run_line_test": _schema("Test the line of a device.", device=_DEVICE),
    "get_plan": _schema("Read provisioning, data left, SIM lock, raises.", device=_DEVICE),
    "get_area_status": _schema("Look for an outage where the customer lives."),
    "reset_port": _schema("Restart the line at the provider's end.", device=_DEVICE),
    "push_config": _schema("Send its settings to a device.", device=_DEVICE),
    "unlock_sim": _schema("Lift the lock of a SIM.", device=_DEVICE),
    "raise_limit": _schema("More data this month, for a fee.", device=_DEVICE),
    "order_replacement": _schema("Order a new one by post.", device=_DEVICE),
    "book_technician": _schema("Send somebody to the house.", device=_DEVICE),
    "transfer_to_human": _schema("Hand the conversation over and leave it."),
    "end_conversation": _schema("Hang up."),
}
TOOLS_JSON = json.dumps(
    [{"type": "function", "function": {"name": name, **body}} for name, body in TOOLS.items()]
)
ENDING = ("transfer_to_human", "end_conversation")
READ_TOOLS = {
    "run_line_test": LINE_TEST,
    "get_plan": PLAN_READ,
    "get_area_status": AREA_STATUS,
}
assert tuple(READS[look - LINE_TEST].technical for look in READ_TOOLS.values()) == tuple(READ_TOOLS)
_PLAIN = {
    "list_devices": LIST_DEVICES,
    "transfer_to_human": TRANSFER_TO_HUMAN,
    "end_conversation": END_CONVERSATION,
}

UTTERANCES = (
    "Hello, how can I help you today?",
    "What is the phone number of your account?",
    "Which device is it?",
    "Does it work now?",
    "Please restart it.",
    "Please push the cable in.",
    "I am sorry for the trouble.",
    "Is there anything else I can do for you?",
    "Thank you for calling, goodbye.",
    '<tool_call>{"name": "list_devices", "arguments": {}}</tool_call>',
    '<tool_call>{"name": "run_line_test", "arguments": {"device": "device:1"}}</tool_call>',
    '<tool_call>{"name": "transfer_to_human", "arguments": {}}</tool_call>',
)
"""What a random text policy says."""


def ground_call(episode: Episode, raw: RawCall) -> Call | str:
    """A checked call with rows and pointers, or one sentence of what is wrong with it."""
    body = TOOLS.get(raw.name)
    if body is None:
        return f"there is no tool {raw.name[:40]!r}; there are {', '.join(TOOLS)}"
    problem = check_arguments(body["parameters"], raw.arguments)
    if problem:
        return f"{raw.name}: {problem}"
    if raw.name in _PLAIN:
        return Call(_PLAIN[raw.name])
    if raw.name == "find_customer":
        return Call(FIND_CUSTOMER, detail=world().customer_by_phone(raw.arguments["phone"]))
    if raw.name == "verify_pin":
        return Call(VERIFY_PIN, detail=_secret(episode, raw.arguments["pin"]))
    if raw.name == "get_area_status":
        return Call(READ, AREA_STATUS)
    pointer = pointer_of(episode, raw.arguments["device"])
    if raw.name == "get_device":
        return Call(GET_DEVICE, 0, pointer)
    if raw.name in READ_TOOLS:
        return Call(READ, READ_TOOLS[raw.name], pointer)
    assert raw.name in (word.name for word in WRITES)
    return Call(WRITE, OPERATION[raw.name], pointer)


def pointer_of(episode: Episode, named: str) -> int:
    """Place of a device among those of the open account; -1 where it is not one of them."""
    account = episode.desk.account
    if account < 0:
        return -1
    named = named.strip()
    before, _, number = named.lower().partition(":")
    if before == "device" and number.strip():
        handles = {str(k + 1): k for k in VIEW}
        pointer = handles.get(number.strip(), -1)
        seen = pointer >= 0 and episode.belief[cells.SEEN_DEVICE[pointer]]
        return pointer if seen else -1
    row = world().device_by_serial(named)
    return row % DEVICES_EACH if row >= 0 and row // DEVICES_EACH == account else -1


def _secret(episode: Episode, tried: str) -> int:
    """RIGHT, STATED_WRONG or UNSTATED, as the tools count them."""
    desk, own, tried = episode.desk, episode.task.customer, tried.strip()
    if desk.account >= 0 and tried == world().pin_text(desk.account):
        return RIGHT
    stated = ("", world().pin_text(own), world().wrong_pin(own))[desk.heard[1]]
    return STATED_WRONG if tried and tried == stated else UNSTATED
