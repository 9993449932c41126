"""The words of the shop: belief cells, the agent's actions, the buyer's acts.

Numbers and order of all three are frozen for v0: data sets and policies depend on them.
"""

from __future__ import annotations

from convgym.domains.sales.world import CATEGORIES, FEATURES_EACH, IN_VIEW
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
    QUOTE,
    RECOMMEND,
    REPORT_DONE,
    TELL,
)
from convgym.engine.belief import BeliefLayout

VIEW = range(IN_VIEW)
"""Pointers: places in the newest search's result."""
SLOTS = ("need", "budget", "quantity")
NEED, BUDGET, QUANTITY = range(3)

# How a buyer knows what the product must have, and its budget.
KNOWLEDGES = ("clear", "partial", "vague", "looks up", "mistaken")
CLEAR, PARTIAL, VAGUE, LOOKS_UP, MISTAKEN = range(5)
BUDGETS = ("known", "rough", "withheld")
KNOWN, ROUGH, WITHHELD = range(3)
OBJECTIONS = ("delivery", "trust", "competitor", "returns")
"""What a buyer may have against it beside the price; an answer of the same name settles it."""
DENIALS = ("beyond_authority", "clearance_firm", "last_piece", "out_of_stock", "not_carried")
"""Reasons of refusals: three against a lower price, two against having the thing at all."""
PRICE_DENIALS = 3
"""That many of `DENIALS`, from the first, are against a lower price."""
OFFERS = ("waitlist", "nearest", "addon")
WAITLIST, NEAREST, ADDON = range(3)
PROMISES = ("book", "transfer")
"""What free text may promise: `argument` of PROMISE."""
TOLD, HELD = range(2)
"""`argument` of QUOTE: the price of the quote is named, or is stood by."""
SWITCHES = (
    "budget_first",
    "within_budget",
    "clearance_firm",
    "addon_first",
    "quantity_discount",
    "last_piece",
    "large_total",
    "addon_never",
)
"""Rules that are in force in some episodes only."""

# What the buyer can say; a turn is a short list of these numbers.
USER_ACTS = (
    "greet",
    "request_product",
    "inform_use",
    "inform_need_part",
    "inform_needs",
    "inform_needs_wrong",
    "inform_budget",
    "inform_budget_rough",
    "withhold_budget",
    "inform_quantity",
    "like_product",
    "reject_first",
    "reject_second",
    "reject_dear",
    "ask_feature",
    "ask_price",
    "counter_offer",
    "object_price",
    "object_delivery",
    "object_trust",
    "object_competitor",
    "object_returns",
    "accept_price",
    "take_addon",
    "decline_addon",
    "affirm",
    "negate",
    "correct_product",
    "hold",
    "no_luck",
    "dont_know",
    "ask_back",
    "challenge",
    "challenge_done",
    "ask_alternative",
    "push_back",
    "accept_alternative",
    "decline_offer",
    "accept_refusal",
    "walk_away",
    "frustrated",
    "give_up",
    "thank",
    "bye",
    "no_more",
    "acknowledge",
    "ask_why",
    "ask_meaning",
    "ask_sure",
    "ask_next",
    "remind_promise",
    "tangent",
)
U = {name: number for number, name in enumerate(USER_ACTS)}
QUESTIONS = ("ask_why", "ask_meaning", "ask_sure", "ask_next")
"""What the buyer may ask that a general explanation answers."""

_HEARD = {
    "inform_needs_wrong": "inform_needs",
    "reject_first": "reject_product",
    "reject_second": "reject_product",
}
HEARD_AS = tuple(_HEARD.get(name, name) for name in USER_ACTS)
"""The agent cannot hear that a memory is wrong, nor which need came first in a buyer's mind."""
SAID = tuple(dict.fromkeys(HEARD_AS))


def _cells() -> list[str]:
    cells = ["always", "turn", "errors"]
    cells += [f"policy_{switch}" for switch in SWITCHES]
    cells += [f"wants_{category}" for category in CATEGORIES] + ["heard_request"]
    cells += ["heard_use", "heard_part", "heard_needs"]
    cells += [f"need_{f}" for f in range(FEATURES_EACH)]
    cells += ["heard_budget", "heard_budget_rough", "heard_quantity", "bulk"]
    cells += [f"asked_{slot}" for slot in SLOTS]
    cells += ["searched", "search_old", "none_found"]
    for k in VIEW:
        cells += [f"seen_{k}", f"read_{k}", f"fits_{k}", f"in_stock_{k}", f"over_budget_{k}"]
        cells += [f"clearance_{k}", f"last_{k}", f"large_{k}"]
        cells += [f"recommended_{k}", f"liked_{k}", f"rejected_{k}"]
        cells += [f"quoted_{k}", f"told_price_{k}", f"held_price_{k}"]
        cells += [f"discounted_{k}", f"at_floor_{k}"]
        cells += [f"confirmed_{k}"]
    cells += ["pending_feature", "price_asked", "price_objected", "price_accepted"]
    for objection in OBJECTIONS:
        cells += [f"pending_{objection}", f"answered_{objection}"]
    cells += ["offered_addon", "addon_taken", "addon_declined", "addon_added"]
    cells += ["wrote", "told_done"]
    cells += [f"denied_{reason}" for reason in DENIALS]
    cells += ["offered_waitlist", "offered_nearest"]
    cells += [f"said_{act}" for act in SAID]
    return cells


LAYOUT = BeliefLayout(_cells())
SAID_CELL = tuple(LAYOUT[f"said_{heard}"] for heard in HEARD_AS)

# Facts that can be told: `argument` of TELL. Acts tell of the feature that was asked for; the
# others come from free text alone.
FACTS = ("feature", "stock", "delivery", "list_price", "authority")
FACT_FEATURE, FACT_STOCK, FACT_DELIVERY, FACT_LIST_PRICE, FACT_AUTHORITY = range(5)

# Tools: kinds of action from FIRST_TOOL on.
(
    SEARCH_CATALOGUE,
    GET_PRODUCT,
    CREATE_QUOTE,
    ADD_ADDON,
    BOOK_ORDER,
    TRANSFER_TO_HUMAN,
    END_CONVERSATION,
) = range(FIRST_TOOL, FIRST_TOOL + 7)
SAME, LOWER = range(2)
"""`argument` of CREATE_QUOTE from an act: at the present discount, or one step lower."""


def _actions() -> list[Action]:
    actions = [Action("greet", CHAT), Action("ask_intent", ASK_INTENT)]
    actions += [Action(f"ask_{slot}", ASK, argument=i) for i, slot in enumerate(SLOTS)]
    actions += [Action("ask_more", ASK_MORE)]
    actions += [Action(f"recommend_{k}", RECOMMEND, 0, k, needs=(f"seen_{k}",)) for k in VIEW]
    asked = ("pending_feature",)
    actions += [
        Action(f"inform_feature_{k}", TELL, FACT_FEATURE, k, needs=(f"read_{k}", *asked))
        for k in VIEW
    ]
    actions += [Action(f"quote_{k}", QUOTE, TOLD, k, needs=(f"quoted_{k}",)) for k in VIEW]
    actions += [
        Action(f"hold_price_{k}", QUOTE, HELD, k, needs=(f"told_price_{k}",)) for k in VIEW
    ]
    actions += [
        Action(f"answer_{objection}", EXPLAIN, 1 + i, needs=("heard_request",))
        for i, objection in enumerate(OBJECTIONS)
    ]
    actions += [
        Action(f"deny_{reason}", DENY, i, needs=("heard_request",))
        for i, reason in enumerate(DENIALS)
    ]
    actions += [
        Action(f"offer_{offer}", OFFER, i, needs=("heard_request",))
        for i, offer in enumerate(OFFERS)
    ]
    actions += [Action(f"confirm_{k}", CONFIRM, 0, k, needs=(f"quoted_{k}",)) for k in VIEW]
    actions += [
        Action("report_done", REPORT_DONE, needs=("wrote",)),
        Action("apologise", APOLOGISE),
        Action("close", CLOSE),
        Action("explain", EXPLAIN),
        Action("search_catalogue", SEARCH_CATALOGUE, needs=("heard_request",)),
    ]
    actions += [
        Action(f"get_product_{k}", GET_PRODUCT, 0, k, needs=(f"seen_{k}",)) for k in VIEW
    ]
    actions += [
        Action(f"create_quote_{k}", CREATE_QUOTE, SAME, k, needs=(f"seen_{k}",)) for k in VIEW
    ]
    actions += [
        Action(f"lower_quote_{k}", CREATE_QUOTE, LOWER, k, needs=(f"quoted_{k}",)) for k in VIEW
    ]
    actions += [Action(f"add_addon_{k}", ADD_ADDON, 0, k, needs=(f"quoted_{k}",)) for k in VIEW]
    actions += [Action(f"book_order_{k}", BOOK_ORDER, 0, k, needs=(f"quoted_{k}",)) for k in VIEW]
    actions += [
        Action("transfer_to_human", TRANSFER_TO_HUMAN),
        Action("end_conversation", END_CONVERSATION),
    ]
    return actions


ACTIONS = ActionTable(_actions(), LAYOUT)
