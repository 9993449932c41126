"""From a reply in free text to an agent turn: values held against the world and the reads.

    reply ─► parse_reply ─► calls  ─► RawCall ─► ground_call   ─► Call   when it is run
                        └─► speech ─► Claim   ─► ground_speech ─► Said   when it is heard
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from convgym.domains.customer_service import cells
from convgym.domains.customer_service.reports import ELSEWHERE
from convgym.domains.customer_service.rules import ADDRESS, CANCEL, DENIALS, OFFERS
from convgym.domains.customer_service.tasks import Task
from convgym.domains.customer_service.tools import RIGHT, STATED_WRONG, UNSTATED
from convgym.domains.customer_service.understanding import (
    LATE,
    STATUS,
    Claim,
    Reranker,
    read_speech,
)
from convgym.domains.customer_service.vocabulary import (
    EMAIL,
    END_CONVERSATION,
    FACT_CHANNEL,
    FACT_ETA,
    FACT_FEE,
    FACT_STATUS,
    FACTS,
    FIND_CUSTOMER,
    GET_ORDER,
    LIST_ORDERS,
    POSTCODE,
    PROMISES,
    SLOTS,
    TRANSFER_TO_HUMAN,
    VERIFY_CUSTOMER,
    WRITE,
    WRITE_TOOLS,
    WRITES,
)
from convgym.domains.customer_service.world import (
    ORDERS_EACH,
    REASONS,
    STREETS,
    TOWNS,
    World,
    date_text,
)
from convgym.engine import acts
from convgym.engine.acts import AgentTurn, Call, Said
from convgym.engine.episode import Episode
from convgym.language.tool_calls import RawCall, check_arguments, parse_reply

MOST_ACTS = 8
"""Acts of one reply that are heard; nobody answers more at once."""


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


_ORDER = "order number such as W12345, or a handle in view such as order:1"
TOOLS: dict[str, dict[str, Any]] = {
    "find_customer": _schema("Open the account of a customer.", email="e-mail of the account"),
    "verify_customer": _schema("Check the second factor.", postcode="what the customer said"),
    "list_orders": _schema("List the orders of the open account, newest first."),
    "get_order": _schema("Read one order: status, dates, amount.", order=_ORDER),
    "cancel_order": _schema("Cancel an order.", order=_ORDER),
    "create_return": _schema("Create a return.", order=_ORDER, reason="why it comes back"),
    "update_address": _schema("Change where it goes.", order=_ORDER, address="new address"),
    "transfer_to_human": _schema("Hand the conversation over and leave it."),
    "end_conversation": _schema("Hang up."),
}
TOOLS["create_return"]["parameters"]["properties"]["reason"]["enum"] = list(REASONS)
TOOLS_JSON = json.dumps(
    [{"type": "function", "function": {"name": name, **body}} for name, body in TOOLS.items()]
)

UTTERANCES = (
    "Hello, how can I help you today?",
    "Could you tell me the email address of your account?",
    "May I have the postcode of your account?",
    "Which order is this about?",
    "I am sorry for the trouble.",
    "Is there anything else I can do for you?",
    "Thank you for contacting us, goodbye.",
    '<tool_call>{"name": "list_orders", "arguments": {}}</tool_call>',
    '<tool_call>{"name": "get_order", "arguments": {"order": "order:1"}}</tool_call>',
    '<tool_call>{"name": "transfer_to_human", "arguments": {}}</tool_call>',
)
"""What a random text policy says."""

_TOOL_NUMBER = {
    "find_customer": FIND_CUSTOMER,
    "verify_customer": VERIFY_CUSTOMER,
    "list_orders": LIST_ORDERS,
    "get_order": GET_ORDER,
    "transfer_to_human": TRANSFER_TO_HUMAN,
    "end_conversation": END_CONVERSATION,
}
_PASTIME = ("greet", "apologise", "wait", "chat", "promise", "explain", "locate", "jargon")
_CHAT = {
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


def understand(text: str, reranker: Reranker | None = None) -> AgentTurn:
    """A sanitised reply as an agent turn, not yet held against any state.

    Speech that only passes the time ("let me check", "I'll cancel it") keeps the floor beside a
    call; speech without any meaning is unclear to the customer where nothing else comes with it.
    A `reranker`, where one is given, is asked about speech in which nothing was read.
    """
    parsed = parse_reply(text)
    said: tuple[Said | Claim, ...] = ()
    if parsed.speech:
        said = read_speech(parsed.speech, reranker)[:MOST_ACTS]
        if parsed.calls and all(claim.act in _PASTIME for claim in said):
            said = ()
        elif not said:
            said = (Said(acts.UNCLEAR),)
    return AgentTurn(said, parsed.calls, parsed.errors, parsed.speech)


def ground_speech(
    shop: World, episode: Episode, said: Sequence[Said | Claim]
) -> list[Said]:
    """Acts of speech with their claims held against what the desk has read by now."""
    grounded = [
        _ground_claim(shop, episode, act) if isinstance(act, Claim) else act for act in said
    ]
    heard = list(dict.fromkeys(act for act in grounded if act is not None))
    return heard or [Said(acts.UNCLEAR)] * bool(said)


# -- calls -----------------------------------------------------------------------------------------


def ground_call(shop: World, episode: Episode, raw: RawCall) -> Call | str:
    """A checked call with rows and pointers, or one sentence of what is wrong with it."""
    body = TOOLS.get(raw.name)
    if body is None:
        return f"there is no tool {raw.name[:40]!r}; there are {', '.join(TOOLS)}"
    problem = check_arguments(body["parameters"], raw.arguments)
    if problem:
        return f"{raw.name}: {problem}"
    arguments: Mapping[str, str] = raw.arguments
    if raw.name == "find_customer":
        return Call(FIND_CUSTOMER, detail=shop.customer_by_email(arguments["email"]))
    if raw.name == "verify_customer":
        return Call(VERIFY_CUSTOMER, detail=_postcode(shop, episode, arguments["postcode"]))
    if raw.name in WRITE_TOOLS:
        write = WRITE_TOOLS.index(raw.name)
        pointer = _pointer(shop, episode, arguments["order"])
        return Call(WRITE, write, pointer, _detail(shop, episode.task, raw.name, arguments))
    pointer = _pointer(shop, episode, arguments["order"]) if "order" in arguments else -1
    return Call(_TOOL_NUMBER[raw.name], pointer=pointer)


def _postcode(shop: World, episode: Episode, tried: str) -> int:
    """RIGHT, STATED_WRONG or UNSTATED, as `ShopTools` counts them."""
    desk, customer, tried = episode.desk, episode.task.customer, tried.strip()
    if desk.customer >= 0 and tried == shop.postcode_text(desk.customer):
        return RIGHT
    stated = (
        "",
        shop.postcode_text(customer),
        shop.wrong_postcode(customer),
    )[desk.heard[POSTCODE]]
    return STATED_WRONG if tried and tried == stated else UNSTATED


def _detail(shop: World, task: Task, name: str, arguments: Mapping[str, str]) -> int:
    """Reason of a return; 1 where the address is the one the customer wants."""
    if name == "create_return":
        return REASONS.index(arguments["reason"])
    if name == "update_address":
        return int(_plain(arguments["address"]) == _plain(shop.address(task.customer)))
    return 1


def _plain(text: str) -> str:
    return " ".join("".join(c if c.isalnum() else " " for c in text.lower()).split())


def _pointer(shop: World, episode: Episode, named: str) -> int:
    """Place of a named order among those of the open account; -1 where it is not one."""
    customer = episode.desk.customer
    if customer < 0:
        return -1
    named = named.strip()
    if named.lower().startswith("order:"):
        number = named[6:].strip()
        if len(number) == 1 and number.isdigit() and 1 <= int(number) <= ORDERS_EACH:
            pointer = int(number) - 1
            return pointer if episode.belief[cells.SEEN[pointer]] else -1
        return -1
    row = shop.order_by_id(named)
    return row % ORDERS_EACH if row >= 0 and row // ORDERS_EACH == customer else -1


# -- claims ----------------------------------------------------------------------------------------


def _ground_claim(shop: World, episode: Episode, claim: Claim) -> Said | None:
    act, slot = claim.act, claim.slot
    if act in _CHAT:
        return Said(_CHAT[act])
    if claim == ("ask", "more", "", ""):
        return Said(acts.ASK_MORE)
    if act == "ask":
        return Said(acts.ASK, SLOTS.index(slot))
    if act == "who":
        return Said(acts.ASK, EMAIL)  # customers say who they are by their account
    if act == "inform":
        return _ground_fact(shop, episode, claim)
    if act == "confirm":
        pointer = _order_meant(shop, episode, claim.order)
        if slot == "address":
            meant = bool(claim.value) and _is_address_meant(shop, episode, claim.value)
        else:
            meant = claim.value in ("", "0", str(episode.desk.parameters["fee"]))
        claimed = acts.KNOWN if meant else acts.FALSE
        return Said(acts.CONFIRM, WRITES.index(slot), pointer, claim=claimed)
    if act == "promise":
        return Said(acts.PROMISE, PROMISES.index(slot))
    if act == "deny":
        if claim.order and episode.desk.customer >= 0:
            if _pointer(shop, episode, claim.order) != episode.task.pointer:
                return None  # of another order
        reason = _too_late_for(episode) if slot == LATE else slot
        done = _WRITE_AGAINST.get(reason, -1)
        if done >= 0 and any(episode.belief[cell] for cell in cells.WRITTEN[done]):
            return None  # what has been done is not refused: "it is off and will not be sent"
        return Said(acts.DENY, DENIALS.index(reason)) if reason else None
    if act == "offer":
        return Said(acts.OFFER, OFFERS.index(slot))
    assert act == "done", act
    written = [bool(episode.belief[cell]) for cell in cells.WRITTEN[WRITES.index(slot)]]
    if claim.order:
        pointer = _pointer(shop, episode, claim.order)
        written = written[pointer : pointer + 1] if pointer >= 0 else []
    # What follows the street in a report may be anything; only another town makes it false.
    place = " ".join(word for word in claim.value.split() if slot != "address" or _is_place(word))
    true = any(written) and _is_address_meant(shop, episode, place)
    return Said(acts.REPORT_DONE, claim=acts.KNOWN if true else acts.FALSE)


def _is_address_meant(shop: World, episode: Episode, place: str) -> bool:
    """Whether the place that is named, if one is, is the one the customer wants."""
    named = _plain(place).split()
    return named == _plain(shop.address(episode.task.customer)).split()[: len(named)]


_WRITE_AGAINST = {
    "not_cancellable": WRITES.index("cancel"),
    "already_shipped": WRITES.index("address"),
}
_PLACES = frozenset(" ".join((*STREETS, *TOWNS, ELSEWHERE)).lower().split())


def _is_place(word: str) -> bool:
    return word in _PLACES or word.isdigit()


def _too_late_for(episode: Episode) -> str:
    """The refusal meant by "too late": that of what the customer has asked for."""
    if episode.belief[cells.WANTS[CANCEL]]:
        return "not_cancellable"
    return "already_shipped" if episode.belief[cells.WANTS[ADDRESS]] else ""


def _order_meant(shop: World, episode: Episode, named: str) -> int:
    """The order that a sentence is about: the one named, else the one in hand.

    In hand is the order that was read last among those that fit the customer's words.
    """
    belief = episode.belief
    if named:
        return _pointer(shop, episode, named)
    read = [k for k in range(ORDERS_EACH) if belief[cells.READ[k]]]
    fitting = [k for k in read if belief[cells.ID_MATCH[k]]] or [
        k for k in read if belief[cells.ITEM_MATCH[k]]
    ]
    chosen = fitting or read
    return chosen[0] if len(chosen) == 1 else -1


def _ground_fact(shop: World, episode: Episode, claim: Claim) -> Said:
    fact, belief = FACTS.index(claim.slot), episode.belief
    if fact == FACT_FEE:
        percent = int(claim.value)
        wrong = percent not in (0, episode.desk.parameters["fee"])
        known = acts.FALSE if wrong else acts.KNOWN
        return Said(acts.TELL, fact, value=int(percent > 0), claim=known)
    if fact == FACT_CHANNEL:
        return Said(acts.TELL, fact, value=int(claim.value == "credit"))
    assert fact in (FACT_STATUS, FACT_ETA)
    pointer = _order_meant(shop, episode, claim.order)
    if pointer < 0 or not belief[cells.READ[pointer]]:
        return Said(acts.TELL, fact, pointer, claim=acts.UNSUPPORTED)
    row = episode.desk.customer * ORDERS_EACH + pointer
    truth = STATUS[shop.stage[row]] if fact == FACT_STATUS else date_text(shop.due[row])
    return Said(
        acts.TELL, fact, pointer, claim=acts.TRUE if claim.value == truth else acts.FALSE
    )
