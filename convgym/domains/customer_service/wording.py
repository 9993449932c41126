"""Words for this desk's acts: the customer's turns, and the agent's acts as replies.

The agent's wording sees only the *view*: what the customer said and what tools returned,
a plain dictionary that the `dict` observation carries as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from convgym.domains.customer_service import rules
from convgym.domains.customer_service.tasks import Task
from convgym.domains.customer_service.vocabulary import (
    ACTIONS,
    END_CONVERSATION,
    FACT_CHANNEL,
    FACT_ETA,
    FACT_FEE,
    FACT_STATUS,
    FACTS,
    FIND_CUSTOMER,
    GET_ORDER,
    GET_STATED_ORDER,
    LAYOUT,
    LIST_ORDERS,
    QUESTIONS,
    SLOTS,
    TRANSFER_TO_HUMAN,
    USER_ACTS,
    VERIFY_CUSTOMER,
    WRITE,
    WRITE_TOOLS,
    WRITES,
    U,
)
from convgym.domains.customer_service.world import (
    CATEGORIES,
    ORDERS_EACH,
    REASONS,
    STAGES,
    World,
    date_text,
)
from convgym.engine import acts
from convgym.engine.episode import Episode
from convgym.language.phrases import PhraseBank, packaged_banks
from convgym.language.retrieval import packaged_indexes
from convgym.language.voice import Spoken, Voice

_PACKAGE = "convgym.domains.customer_service"


def user_voices() -> dict[str, Voice]:
    """The customer's wordings: `train` and `held_out`."""
    banks = packaged_banks(_PACKAGE, "user_phrases.toml")
    indexes = packaged_indexes(_PACKAGE, "user_turns.toml")
    return {part: Voice(bank, indexes[part]) for part, bank in banks.items()}


def agent_banks() -> dict[str, PhraseBank]:
    """The agent's wordings: `train` and `held_out`."""
    return packaged_banks(_PACKAGE, "agent_phrases.toml")


@cache
def _spoken_as(act: int) -> str:
    return USER_ACTS[act].removesuffix("_wrong")


_VALUES: dict[str, Callable[[World, Task], str]] = {
    "inform_email": lambda shop, task: shop.email(task.customer),
    "inform_email_wrong": lambda shop, task: shop.wrong_email(task.customer),
    "inform_postcode": lambda shop, task: shop.postcode_text(task.customer),
    "inform_postcode_wrong": lambda shop, task: shop.wrong_postcode(task.customer),
    "inform_order": lambda shop, task: shop.order_id(task.order),
    "inform_order_wrong": lambda shop, task: shop.wrong_order_id(task.order),
    "inform_item": lambda shop, task: shop.item_name(task.order),
    "inform_category": lambda shop, task: CATEGORIES[shop.category(task.order)],
    "inform_placed": lambda shop, task: date_text(-shop.placed[task.order]),
    "inform_address": lambda shop, task: shop.address(task.customer),
}


def act_value(shop: World, task: Task, name: str) -> str:
    """The value that a customer's act, by name, states; empty where it states none."""
    if name in _VALUES:
        return _VALUES[name](shop, task)
    return name.removeprefix("inform_reason_") if name.startswith("inform_reason_") else ""


def goal_values(shop: World, task: Task) -> dict[str, str]:
    """Every value that this customer can state, by act."""
    return {name: value(shop, task) for name, value in _VALUES.items()}


_FIRST = tuple(U[name] for name in USER_ACTS if name == "greet" or name.startswith("request_"))
_PLAIN = (*_FIRST, *(U[name] for name in USER_ACTS if name.startswith("inform_")))

_VALUE_OF = {"inform_placed": "date"}


def spoken(shop: World, task: Task, turn_acts: tuple[int, ...]) -> list[Spoken]:
    """A customer's acts by name, with the slot and the value of those that state one."""
    said = []
    if all(act in _PLAIN for act in turn_acts):
        # Who answers first and then remembers why they came writes it the other way round.
        turn_acts = tuple(sorted(turn_acts, key=lambda act: act not in _FIRST))
    for act in turn_acts:
        name = _spoken_as(act)
        if name.startswith("inform_") and not name.startswith("inform_reason_"):
            slot = _VALUE_OF.get(name, name.removeprefix("inform_"))
            said.append(Spoken(name, slot, act_value(shop, task, USER_ACTS[act])))
        else:
            said.append(Spoken(name))
    return said


def acts_json(shop: World, task: Task, turn_acts: tuple[int, ...]) -> str:
    """A customer's turn as a JSON list of `{"act", "value"}`."""
    rows = []
    for act in turn_acts:
        value = act_value(shop, task, USER_ACTS[act])
        name = _spoken_as(act)
        rows.append(f'{{"act": "{name}", "value": "{value}"}}' if value else f'{{"act": "{name}"}}')
    return f"[{', '.join(rows)}]"


# -- the view ------------------------------------------------------------------------------------


def view(shop: World, episode: Episode) -> dict[str, Any]:
    """All that the agent has in sight, by name; holds nothing it has not seen or heard."""
    task, desk, belief = episode.task, episode.desk, episode.belief
    heard: dict[str, str] = {}
    for name in ("email", "postcode", "order"):
        variant = desk.heard[SLOTS.index(name)]
        if variant:
            act = f"inform_{name}" if variant == 1 else f"inform_{name}_wrong"
            heard[name] = act_value(shop, task, act)
    for name in ("item", "placed", "category", "address"):
        if belief[LAYOUT[f"heard_{name}"]]:
            heard[name] = act_value(shop, task, f"inform_{name}")
    if belief[LAYOUT["heard_reason"]]:
        heard["reason"] = REASONS[task.reason]
    orders: dict[str, dict[str, str]] = {}
    for pointer in range(ORDERS_EACH):
        if belief[LAYOUT[f"seen_{pointer}"]]:
            row = desk.customer * ORDERS_EACH + pointer
            orders[str(pointer)] = {"order": shop.order_id(row), "item": shop.item_name(row)}
            if belief[LAYOUT[f"read_{pointer}"]]:
                orders[str(pointer)]["status"] = STAGES[shop.stage[row]]
                orders[str(pointer)]["date"] = date_text(shop.due[row])
    written = next(
        (w for w in WRITES for k in range(ORDERS_EACH) if belief[LAYOUT[f"wrote_{w}_{k}"]]), ""
    )
    return {
        "heard": heard,
        "orders": orders,
        "policy": {name: desk.parameters[name] for name in ("fee", "return_window")},
        "wrote": written,
        "question": _question(belief),
    }


def _question(belief: bytearray) -> str:
    """What the customer has just asked for an explanation of."""
    asked = next((name for name in QUESTIONS if belief[LAYOUT[f"said_{name}"]]), "")
    if asked == "ask_meaning":
        terms = belief[LAYOUT["told_fee_charged"]] or belief[LAYOUT["told_fee_waived"]]
        return "meaning" if terms or belief[LAYOUT["told_channel_original"]] else "order"
    return asked.removeprefix("ask_")


# -- the agent's acts in words ---------------------------------------------------------------------


def _order_in_view(seen: Mapping[str, Any], pointer: int) -> dict[str, str]:
    """The order an act points at; the only or last read one where it points at none."""
    orders: Mapping[str, dict[str, str]] = seen["orders"]
    if pointer >= 0:
        return orders.get(str(pointer), {})
    stated = seen["heard"].get("order", "")
    read = [order for order in orders.values() if "status" in order]
    return next((o for o in read if o["order"] == stated), read[-1] if read else {})


def _phrase_key(number: int, seen: Mapping[str, Any], order: Mapping[str, str]) -> str:
    action = ACTIONS.actions[number]
    kind, argument = action.kind, action.argument
    if kind == acts.TELL:
        if argument == FACT_STATUS:
            return "inform_status"
        if argument == FACT_ETA:
            delivered = order.get("status") == STAGES[-1]
            return "inform_eta_delivered" if delivered else "inform_eta_coming"
        if argument == FACT_FEE:
            return "inform_fee_charged" if action.value else "inform_fee_waived"
        assert argument == FACT_CHANNEL, FACTS
        return "inform_channel_credit" if action.value else "inform_channel_original"
    if kind == acts.CONFIRM:
        return f"confirm_{WRITES[argument]}"
    if kind == acts.REPORT_DONE:
        return f"done_{seen['wrote'] or 'cancel'}"
    if kind == acts.DENY:
        return f"deny_{rules.DENIALS[argument]}"
    if kind == acts.OFFER:
        return f"offer_{rules.OFFERS[argument]}"
    if kind == acts.EXPLAIN:
        return f"explain_{seen['question'] or 'next'}"
    return action.name


_TOOL_OF = {
    FIND_CUSTOMER: "find_customer",
    VERIFY_CUSTOMER: "verify_customer",
    LIST_ORDERS: "list_orders",
    GET_STATED_ORDER: "get_order",
    GET_ORDER: "get_order",
    TRANSFER_TO_HUMAN: "transfer_to_human",
    END_CONVERSATION: "end_conversation",
}


def _tool_call(number: int, seen: Mapping[str, Any], order: Mapping[str, str]) -> tuple[str, str]:
    """Name of the tool and the call in Hermes style."""
    action = ACTIONS.actions[number]
    heard = seen["heard"]
    name = WRITE_TOOLS[action.argument] if action.kind == WRITE else _TOOL_OF[action.kind]
    arguments: dict[str, str] = {}
    if name == "find_customer":
        arguments["email"] = heard.get("email", "")
    elif name == "verify_customer":
        arguments["postcode"] = heard.get("postcode", "")
    elif action.kind == GET_STATED_ORDER:
        arguments["order"] = heard.get("order", "")
    elif action.pointer >= 0:
        arguments["order"] = order.get("order", f"order:{action.pointer + 1}")
    if name == "create_return":
        arguments["reason"] = heard.get("reason", "")
    elif name == "update_address":
        arguments["address"] = heard.get("address", "")
    call = json.dumps({"name": name, "arguments": arguments})
    return name, f"<tool_call>{call}</tool_call>"


def agent_text(number: int, seen: Mapping[str, Any], bank: PhraseBank, drawn: int) -> str:
    """An act as a reply: words for speech, a thought and a call for a tool."""
    action = ACTIONS.actions[number]
    order = _order_in_view(seen, action.pointer)
    if action.kind >= acts.FIRST_TOOL:
        name, call = _tool_call(number, seen, order)
        thought = f"think_{name}"
        return f"<think>{bank.pick(thought, drawn)}</think>{call}" if thought in bank else call
    phrase = bank.pick(_phrase_key(number, seen, order), drawn)
    values = {
        "order": order.get("order", ""),
        "item": order.get("item", ""),
        "status": order.get("status", ""),
        "date": order.get("date", ""),
        "fee": str(seen["policy"]["fee"]),
        "days": str(seen["policy"]["return_window"]),
        "address": seen["heard"].get("address", ""),
    }
    for name, value in values.items():
        if "{" not in phrase:
            break
        phrase = phrase.replace("{" + name + "}", value)
    return phrase
