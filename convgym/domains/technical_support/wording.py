"""Words for the acts of the support desk: the customer's voices, and the agent's acts as replies.

    act number + view ─► phrase keys ─► wordings of the bank ─► names in braces filled in
                     └─► a tool: <think>…</think><tool_call>…</tool_call>

The agent's wording knows nothing but the *view*: what the customer has said and what tools
returned. What a newcomer would get wrong: a check or a step has wordings of its own beside those
that serve all of them, and is named in the plain words of the kind of device in hand.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from convgym.domains.technical_support.dialogue import (
    ACTIONS,
    CHECK_NAMES,
    CONFIRMS,
    END_CONVERSATION,
    FACTS,
    FIND_CUSTOMER,
    GET_DEVICE,
    GET_STATED,
    LIST_DEVICES,
    READ,
    REASONS,
    SLOTS,
    STEP_NAMES,
    TELLS,
    TRANSFER_TO_HUMAN,
    VERIFY_PIN,
    WRITE,
    WRITE_NAMES,
)
from convgym.domains.technical_support.facts import OFFERS
from convgym.domains.technical_support.vocabulary import (
    CHECKS,
    FIRST_READ,
    FIRST_WRITE,
    KINDS,
    LOOKS,
    STEPS,
    plain_words,
)
from convgym.engine import acts
from convgym.engine.actions import Action
from convgym.engine.keys import below
from convgym.language.phrases import PhraseBank, packaged_banks
from convgym.language.retrieval import packaged_indexes
from convgym.language.voice import Voice

PACKAGE = "convgym.domains.technical_support"
View = Mapping[str, Any]
ALONE = ("service", "account", "damage")
"""Checks whose plain words are a clause ("whether it got wet"): no common wording takes them."""
_PLAIN = {
    acts.CHAT: "greet",
    acts.ASK_INTENT: "ask_intent",
    acts.ASK_MORE: "ask_more",
    acts.APOLOGISE: "apologise",
    acts.CLOSE: "close",
}
_TOOLS = {
    FIND_CUSTOMER: "find_customer",
    VERIFY_PIN: "verify_pin",
    LIST_DEVICES: "list_devices",
    GET_STATED: "get_device",
    GET_DEVICE: "get_device",
    TRANSFER_TO_HUMAN: "transfer_to_human",
    END_CONVERSATION: "end_conversation",
}


def user_voices() -> dict[str, Voice]:
    """The customer's wordings: `train` and `held_out`."""
    banks = packaged_banks(PACKAGE, "user_phrases.toml")
    indexes = packaged_indexes(PACKAGE, "user_turns.toml")
    return {part: Voice(bank, indexes[part]) for part, bank in banks.items()}


def agent_banks() -> dict[str, PhraseBank]:
    """The agent's wordings: `train` and `held_out`."""
    return packaged_banks(PACKAGE, "agent_phrases.toml")


def agent_text(number: int, view: View, bank: PhraseBank, drawn: int) -> str:
    """An act as a reply: words for speech, a thought and a call for a tool."""
    action = ACTIONS.actions[number]
    if action.kind >= acts.FIRST_TOOL:
        name = _tool(action)
        call = json.dumps({"name": name, "arguments": _arguments(action, view)})
        thought = bank.pick(f"think_{name}", drawn)
        return f"<think>{thought}</think><tool_call>{call}</tool_call>"
    wordings = wordings_of(phrase_keys(action, view), bank)
    phrase = wordings[below(drawn, len(wordings))]
    for name, value in _values(action, view).items():
        phrase = phrase.replace("{" + name + "}", value)
    return phrase


# -- speech ----------------------------------------------------------------------------------------


def phrase_keys(action: Action, view: View) -> tuple[str, ...]:
    """Under which names the wordings of an act of speech stand."""
    kind, argument = action.kind, action.argument
    if kind in _PLAIN:
        return (_PLAIN[kind],)
    if kind == acts.ASK:
        return (f"ask_{SLOTS[argument]}",)
    if kind == acts.CHECK:
        name = CHECK_NAMES[argument]
        return (f"check_{name}",) if name in ALONE else ("check", f"check_{name}")
    if kind == acts.INSTRUCT:
        return ("do", f"do_{STEP_NAMES[argument]}")
    if kind == acts.TELL:
        return (f"inform_{_told(TELLS[argument], view)}",)
    if kind == acts.CONFIRM:
        return (f"confirm_{CONFIRMS[argument]}",)
    if kind == acts.DENY:
        return (f"deny_{REASONS[argument]}",)
    if kind == acts.OFFER:
        return (f"offer_{OFFERS[argument]}",)
    if kind == acts.REPORT_DONE:
        return (f"done_{view['done'] or WRITE_NAMES[0]}",)
    assert kind == acts.EXPLAIN
    question = view["question"]
    if question == "how" and not view["asked"]["explanation"]:
        question = "next"
    return (f"explain_{question or 'next'}",)


def _told(name: str, view: View) -> str:
    if name in FACTS:
        return f"{name}_{view['reads'].get(name, 'none')}"
    if name == "technician_fee" and view["policy"][name] == "0":
        return f"{name}_free"
    return name


@cache
def wordings_of(keys: tuple[str, ...], bank: PhraseBank) -> tuple[str, ...]:
    """All wordings under some names, those that a bank lacks left out."""
    return tuple(phrase for key in keys if key in bank for phrase in bank.variants(key))


def _values(action: Action, view: View) -> dict[str, str]:
    """What stands in braces."""
    device = view["device"]
    kind = KINDS.index(device["kind"]) if device else 0
    values = {
        **view["policy"],
        "device": device["name"] if device else "device",
        "explanation": view["asked"]["explanation"],
    }
    if action.kind == acts.CHECK:
        values["thing"] = plain_words(kind, CHECKS[action.argument])
    elif action.kind == acts.INSTRUCT:
        values["step"] = plain_words(kind, STEPS[action.argument])
    return values


# -- tools -----------------------------------------------------------------------------------------


def _tool(action: Action) -> str:
    if action.kind == READ:
        return LOOKS[FIRST_READ:][action.argument - FIRST_READ].technical
    if action.kind == WRITE:
        return WRITE_NAMES[action.argument - FIRST_WRITE]
    return _TOOLS[action.kind]


def _arguments(action: Action, view: View) -> dict[str, str]:
    """The arguments of a call, all strings."""
    heard, tool = view["heard"], _tool(action)
    if action.kind == FIND_CUSTOMER:
        return {"phone": heard.get("phone", "")}
    if action.kind == VERIFY_PIN:
        return {"pin": heard.get("pin", "")}
    if action.kind == GET_STATED:
        return {"device": heard.get("serial", "")}
    if action.kind == GET_DEVICE:
        return {"device": f"device:{action.pointer + 1}"}
    if action.kind in _TOOLS or tool == "get_area_status":
        return {}
    return {"device": view["device"].get("handle", "device:1")}
