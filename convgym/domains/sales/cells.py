"""Indices of the belief cells that the shop writes, looked up by name once.

A tuple holds one index per place in view, feature, slot or reason, in the order of `vocabulary`.
"""

from __future__ import annotations

from convgym.domains.sales.vocabulary import (
    DENIALS,
    LAYOUT,
    OBJECTIONS,
    SAID_CELL,
    SLOTS,
    SWITCHES,
    VIEW,
    U,
)
from convgym.domains.sales.world import CATEGORIES, FEATURES_EACH

ALWAYS = LAYOUT["always"]
POLICY = LAYOUT.block("policy_{}", SWITCHES)
WANTS = LAYOUT.block("wants_{}", CATEGORIES)
HEARD_REQUEST = LAYOUT["heard_request"]
HEARD_NEEDS, HEARD_PART = LAYOUT["heard_needs"], LAYOUT["heard_part"]
NEEDS = LAYOUT.block("need_{}", range(FEATURES_EACH))
NEEDS_ALL = slice(NEEDS[0], NEEDS[-1] + 1)
HEARD_BUDGET, HEARD_BUDGET_ROUGH = LAYOUT["heard_budget"], LAYOUT["heard_budget_rough"]
HEARD_QUANTITY, BULK = LAYOUT["heard_quantity"], LAYOUT["bulk"]
HEARD_USE = LAYOUT["heard_use"]
ASKED = LAYOUT.block("asked_{}", SLOTS)
SEARCHED, SEARCH_OLD, NONE_FOUND = (
    LAYOUT["searched"],
    LAYOUT["search_old"],
    LAYOUT["none_found"],
)
IN_VIEW = {
    name: LAYOUT.block(name + "_{}", VIEW)
    for name in (
        "seen",
        "read",
        "fits",
        "in_stock",
        "over_budget",
        "clearance",
        "last",
        "large",
        "recommended",
        "liked",
        "rejected",
        "quoted",
        "told_price",
        "held_price",
        "discounted",
        "at_floor",
        "confirmed",
    )
}
PLACES = slice(IN_VIEW["seen"][0], IN_VIEW["confirmed"][-1] + 1)
"""All of them in one piece: place by place, each in the order of `IN_VIEW`."""
assert [block[k] for k in VIEW for block in IN_VIEW.values()] == [
    *range(PLACES.start, PLACES.stop)
]
PENDING_FEATURE = LAYOUT["pending_feature"]
PRICE_ASKED, PRICE_OBJECTED = LAYOUT["price_asked"], LAYOUT["price_objected"]
PRICE_ACCEPTED = LAYOUT["price_accepted"]
PENDING = LAYOUT.block("pending_{}", OBJECTIONS)
ANSWERED = LAYOUT.block("answered_{}", OBJECTIONS)
OFFERED_ADDON, ADDON_ADDED = LAYOUT["offered_addon"], LAYOUT["addon_added"]
ADDON_TAKEN, ADDON_DECLINED = LAYOUT["addon_taken"], LAYOUT["addon_declined"]
OFFERED = (LAYOUT["offered_waitlist"], LAYOUT["offered_nearest"], OFFERED_ADDON)
WROTE, TOLD_DONE = LAYOUT["wrote"], LAYOUT["told_done"]
DENIED = LAYOUT.block("denied_{}", DENIALS)
FIRST_SAID = min(SAID_CELL)

OBJECTS = tuple(U[f"object_{objection}"] for objection in OBJECTIONS)
HEARING = {  # cells that a buyer's act sets and nothing clears
    U["inform_use"]: HEARD_USE,
    U["inform_need_part"]: HEARD_PART,
    U["inform_needs"]: HEARD_NEEDS,
    U["inform_needs_wrong"]: HEARD_NEEDS,
    U["inform_budget"]: HEARD_BUDGET,
    U["inform_budget_rough"]: HEARD_BUDGET_ROUGH,
    U["inform_quantity"]: HEARD_QUANTITY,
    U["ask_price"]: PRICE_ASKED,
    U["take_addon"]: ADDON_TAKEN,
    U["decline_addon"]: ADDON_DECLINED,
}
