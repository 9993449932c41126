"""The words of the desk: belief cells, the agent's actions, the customer's acts.

Numbers and order of all three are frozen for v0: data sets and policies depend on them.
"""

from __future__ import annotations

from convgym.domains.customer_service.rules import DENIALS, OFFERS, WORKFLOWS
from convgym.domains.customer_service.world import ORDERS_EACH, REASONS
from convgym.engine.actions import Action, ActionTable
from convgym.engine.acts import (
    APOLOGISE,
    ASK,
    ASK_INTENT,
    ASK_MORE,
    CHAT,
    CLOSE,
    CONFIRM,
    DENY,
    EXPLAIN,
    FIRST_TOOL,
    OFFER,
    REPORT_DONE,
    TELL,
)
from convgym.engine.belief import BeliefLayout

ORDERS = range(ORDERS_EACH)
WRITES = ("cancel", "return", "address")
PROMISES = (*WRITES, "transfer")
WRITE_TOOLS = ("cancel_order", "create_return", "update_address")
SLOTS = ("email", "postcode", "order", "reason", "address")
EMAIL, POSTCODE, ORDER, REASON, NEW_ADDRESS = range(5)

# What the customer can say; a turn is a short list of these numbers.
USER_ACTS = (
    "greet",
    "request_status",
    "request_cancel",
    "request_return",
    "request_address",
    "inform_email",
    "inform_email_wrong",
    "inform_postcode",
    "inform_postcode_wrong",
    "inform_order",
    "inform_order_wrong",
    "inform_item",
    "inform_placed",
    "inform_reason_damaged",
    "inform_reason_wrong_item",
    "inform_reason_changed_mind",
    "inform_reason_too_late",
    "inform_address",
    "affirm",
    "negate",
    "hold",
    "dont_know",
    "ask_back",
    "challenge",
    "challenge_done",
    "correct_order",
    "ask_fee",
    "ask_channel",
    "ask_alternative",
    "push_back",
    "accept_alternative",
    "decline_offer",
    "accept_refusal",
    "frustrated",
    "give_up",
    "thank",
    "bye",
    "no_more",
    "acknowledge",
    "inform_category",
    "no_luck",
    "ask_why",
    "ask_meaning",
    "ask_sure",
    "ask_next",
    "remind_promise",
    "tangent",
)
U = {name: number for number, name in enumerate(USER_ACTS)}

QUESTIONS = ("ask_why", "ask_meaning", "ask_sure", "ask_next")
"""What the customer may ask that an explanation answers."""

# The agent cannot hear that a memory is wrong: both variants raise the same cell.
HEARD_AS = tuple(name.removesuffix("_wrong") for name in USER_ACTS)
SAID = tuple(dict.fromkeys(HEARD_AS))


def _cells() -> list[str]:
    cells = ["always", "turn", "errors"]
    cells += [f"wants_{workflow}" for workflow in WORKFLOWS]
    cells += ["policy_two_factors", "policy_fee"]
    cells += ["heard_email", "heard_postcode", "heard_order", "heard_item", "heard_placed"]
    cells += ["heard_category"]
    cells += ["heard_reason", *(f"reason_{reason}" for reason in REASONS), "heard_address"]
    cells += ["email_rejected", "postcode_rejected", "order_rejected"]
    cells += ["found", "verified", "authenticated", "failures", "listed", "read_any"]
    cells += ["wrote"]
    for k in ORDERS:
        cells += [f"seen_{k}", f"read_{k}"]
        cells += [f"processing_{k}", f"packed_{k}", f"shipped_{k}", f"delivered_{k}"]
        cells += [f"cancellable_{k}", f"address_open_{k}", f"in_window_{k}"]
        cells += [f"final_sale_{k}", f"large_{k}", f"credit_late_{k}"]
        cells += [f"id_matches_{k}", f"item_matches_{k}", f"placed_matches_{k}"]
        cells += [f"told_status_{k}", f"told_eta_{k}"]
        cells += [f"confirmed_{write}_{k}" for write in WRITES]
        cells += [f"wrote_{write}_{k}" for write in WRITES]
    cells += ["told_fee_charged", "told_fee_waived", "told_channel_original"]
    cells += ["told_channel_credit", "told_done"]
    cells += [f"denied_{reason}" for reason in DENIALS]
    cells += [f"offered_{offer}" for offer in OFFERS]
    cells += [f"asked_{slot}" for slot in SLOTS]
    cells += [f"said_{act}" for act in SAID]
    return cells


LAYOUT = BeliefLayout(_cells())
SAID_CELL = tuple(LAYOUT[f"said_{heard}"] for heard in HEARD_AS)

# Facts the agent can tell: `argument` of TELL.
FACTS = ("status", "eta", "fee", "channel")
FACT_STATUS, FACT_ETA, FACT_FEE, FACT_CHANNEL = range(4)

# Tools: kinds of action from FIRST_TOOL on.
(
    FIND_CUSTOMER,
    VERIFY_CUSTOMER,
    LIST_ORDERS,
    GET_STATED_ORDER,
    GET_ORDER,
    WRITE,
    TRANSFER_TO_HUMAN,
    END_CONVERSATION,
) = range(FIRST_TOOL, FIRST_TOOL + 8)


def _actions() -> list[Action]:
    actions = [Action("greet", CHAT), Action("ask_intent", ASK_INTENT)]
    actions += [Action(f"ask_{slot}", ASK, argument=i) for i, slot in enumerate(SLOTS)]
    actions += [Action("ask_more", ASK_MORE)]
    for fact in (FACT_STATUS, FACT_ETA):
        actions += [
            Action(f"inform_{FACTS[fact]}_{k}", TELL, fact, k, needs=(f"read_{k}",))
            for k in ORDERS
        ]
    # Value 1 is "a fee is charged" and "as store credit".
    terms = ("wants_return", "heard_reason", "read_any")
    actions += [
        Action("inform_fee_charged", TELL, FACT_FEE, value=1, needs=terms),
        Action("inform_fee_waived", TELL, FACT_FEE, value=0, needs=terms),
        Action("inform_channel_original", TELL, FACT_CHANNEL, value=0, needs=terms),
        Action("inform_channel_credit", TELL, FACT_CHANNEL, value=1, needs=terms),
    ]
    confirm_needs = {"address": ("heard_address",)}
    for i, write in enumerate(WRITES):
        needs = confirm_needs.get(write, ())
        actions += [
            Action(f"confirm_{write}_{k}", CONFIRM, i, k, needs=(f"seen_{k}", *needs))
            for k in ORDERS
        ]
    asked_for = ("cancel", "return", "return", "return", "address")
    actions += [
        Action(f"deny_{reason}", DENY, i, needs=tuple(f"wants_{w}" for w in asked_for[i : i + 1]))
        for i, reason in enumerate(DENIALS)
    ]
    actions += [
        Action(f"offer_{offer}", OFFER, i, needs=(f"wants_{WRITES[i]}",))
        for i, offer in enumerate(OFFERS)
    ]
    actions += [
        Action("report_done", REPORT_DONE, needs=("wrote",)),
        Action("apologise", APOLOGISE),
        Action("close", CLOSE),
        Action("find_customer", FIND_CUSTOMER, needs=("heard_email",)),
        Action("verify_customer", VERIFY_CUSTOMER, needs=("found", "heard_postcode")),
        Action("list_orders", LIST_ORDERS, needs=("found",)),
        Action("get_stated_order", GET_STATED_ORDER, needs=("found", "heard_order")),
    ]
    actions += [Action(f"get_order_{k}", GET_ORDER, 0, k, needs=(f"seen_{k}",)) for k in ORDERS]
    write_needs = {"return": ("heard_reason",), "address": ("heard_address",)}
    for i, write in enumerate(WRITES):
        needs = write_needs.get(write, ())
        actions += [
            Action(f"{WRITE_TOOLS[i]}_{k}", WRITE, i, k, needs=(f"seen_{k}", *needs))
            for k in ORDERS
        ]
    actions += [
        Action("transfer_to_human", TRANSFER_TO_HUMAN),
        Action("end_conversation", END_CONVERSATION),
        Action("explain", EXPLAIN),
    ]
    return actions


ACTIONS = ActionTable(_actions(), LAYOUT)
