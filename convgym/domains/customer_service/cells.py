"""Indices of the belief cells that the desk writes, looked up by name once.

A tuple holds one index per order, write, reason or offer, in the order of `vocabulary`.
"""

from __future__ import annotations

from convgym.domains.customer_service import rules
from convgym.domains.customer_service.vocabulary import (
    EMAIL,
    FACT_CHANNEL,
    FACT_ETA,
    FACT_FEE,
    FACT_STATUS,
    LAYOUT,
    ORDER,
    ORDERS,
    POSTCODE,
    SAID_CELL,
    SLOTS,
    WRITES,
    U,
)
from convgym.domains.customer_service.world import REASONS

ALWAYS = LAYOUT["always"]
FOUND, VERIFIED, AUTH = LAYOUT["found"], LAYOUT["verified"], LAYOUT["authenticated"]
FAILURES, LISTED = LAYOUT["failures"], LAYOUT["listed"]
READ_ANY, WROTE = LAYOUT["read_any"], LAYOUT["wrote"]
SEEN = LAYOUT.block("seen_{}", ORDERS)
READ = LAYOUT.block("read_{}", ORDERS)
STAGE = tuple(
    LAYOUT.block("{}_" + str(k), ("processing", "packed", "shipped", "delivered"))
    for k in ORDERS
)
ITEM_MATCH = LAYOUT.block("item_matches_{}", ORDERS)
ID_MATCH = LAYOUT.block("id_matches_{}", ORDERS)
PLACED_MATCH = LAYOUT.block("placed_matches_{}", ORDERS)
TOLD = {
    FACT_STATUS: LAYOUT.block("told_status_{}", ORDERS),
    FACT_ETA: LAYOUT.block("told_eta_{}", ORDERS),
    FACT_FEE: (LAYOUT["told_fee_waived"], LAYOUT["told_fee_charged"]),
    FACT_CHANNEL: (LAYOUT["told_channel_original"], LAYOUT["told_channel_credit"]),
}
CONFIRMED = tuple(LAYOUT.block(f"confirmed_{write}_{{}}", ORDERS) for write in WRITES)
WRITTEN = tuple(LAYOUT.block(f"wrote_{write}_{{}}", ORDERS) for write in WRITES)
DENIED = LAYOUT.block("denied_{}", rules.DENIALS)
OFFERED = LAYOUT.block("offered_{}", rules.OFFERS)
ASKED = LAYOUT.block("asked_{}", SLOTS)
WANTS = LAYOUT.block("wants_{}", rules.WORKFLOWS)
REJECTED = {
    EMAIL: LAYOUT["email_rejected"],
    POSTCODE: LAYOUT["postcode_rejected"],
    ORDER: LAYOUT["order_rejected"],
}
FIRST_SAID = min(SAID_CELL)


TWO_FACTORS, POLICY_FEE = LAYOUT["policy_two_factors"], LAYOUT["policy_fee"]
HEARD_ITEM, HEARD_PLACED = LAYOUT["heard_item"], LAYOUT["heard_placed"]
HEARD_REASON, TOLD_DONE = LAYOUT["heard_reason"], LAYOUT["told_done"]
READING = {  # what a read shows of an order, as the policy weighs it
    name: LAYOUT.block(name + "_{}", ORDERS)
    for name in ("cancellable", "address_open", "in_window", "final_sale", "large", "credit_late")
}
OF_ACCOUNT = tuple(
    LAYOUT[name] for name in LAYOUT if name[-2:] in ("_0", "_1", "_2") and name[:5] != "said_"
)


def _hearing() -> dict[int, tuple[int, ...]]:
    """Cells that a customer's act sets, by act number."""
    cells: dict[int, tuple[int, ...]] = {}
    for workflow in rules.WORKFLOWS:
        cells[U[f"request_{workflow}"]] = (LAYOUT[f"wants_{workflow}"],)
    for slot in ("email", "postcode", "order"):
        for suffix in ("", "_wrong"):
            cells[U[f"inform_{slot}{suffix}"]] = (LAYOUT[f"heard_{slot}"],)
    cells[U["inform_item"]] = (LAYOUT["heard_item"],)
    cells[U["inform_placed"]] = (LAYOUT["heard_placed"],)
    cells[U["inform_category"]] = (LAYOUT["heard_category"],)
    cells[U["inform_address"]] = (LAYOUT["heard_address"],)
    for reason in REASONS:
        cells[U[f"inform_reason_{reason}"]] = (LAYOUT["heard_reason"], LAYOUT[f"reason_{reason}"])
    return cells


HEARING = _hearing()
RESTATES = {  # these clear the mark that the desk could not find what was said before
    U["inform_email"]: REJECTED[EMAIL],
    U["inform_email_wrong"]: REJECTED[EMAIL],
    U["inform_postcode"]: REJECTED[POSTCODE],
    U["inform_postcode_wrong"]: REJECTED[POSTCODE],
    U["inform_order"]: REJECTED[ORDER],
    U["inform_order_wrong"]: REJECTED[ORDER],
}
VARIANT = {  # act number → (slot, 1 right / 2 wrong)
    U["inform_email"]: (EMAIL, 1),
    U["inform_email_wrong"]: (EMAIL, 2),
    U["inform_postcode"]: (POSTCODE, 1),
    U["inform_postcode_wrong"]: (POSTCODE, 2),
    U["inform_order"]: (ORDER, 1),
    U["inform_order_wrong"]: (ORDER, 2),
}


