"""What the rules speak of: parameters, facts of records and conversation, terms, offers, events.

    records, area ─► RECORD_FACTS ┐
    the conversation ─► EVIDENCE  ├─► conditions of `convgym.domains.technical_support.rules`
    the task ─► PARAMETERS        ┘
    an operation ─► EVENTS: what it is for the rules

All values are integers; names of parameters and facts never meet.
"""

from __future__ import annotations

from convgym.domains.technical_support.vocabulary import (
    KIND_NAMES,
    OPERATION,
    OPERATIONS,
    PHONE,
    ROUTER,
    TV_BOX,
    WRITES,
)
from convgym.domains.technical_support.world import AREAS, FOREIGN

NEVER = 10**6
"""Months since something that never was."""

PARAMETERS: dict[str, tuple[int, ...]] = {
    "auth_level": (1, 2),
    "warranty": (12, 24, 36),
    "limit_fee": (3, 5, 8, 12),
    "technician_fee": (20, 40, 60),
    "uncovered_kind": tuple(range(len(KIND_NAMES))),
    "raises": (1, 2),
    "remote_area": tuple(range(len(AREAS))),
    # of held-out rules
    "recalled_model": tuple(range(FOREIGN)),
    "recalled_kind": tuple(range(len(KIND_NAMES))),
    "replaced_window": (6, 12, 24),
    "maintenance_area": tuple(range(len(AREAS))),
    "interruption": (5, 10, 30),
    "delivery": (2, 4, 7),
}
"""Allowed values of each parameter: factors, months, dollars, minutes, days, rows by index."""
PARAMETER_NAMES = tuple(PARAMETERS)
HELD_OUT_PARAMETERS = PARAMETER_NAMES[PARAMETER_NAMES.index("recalled_model") :]

TOLD = (
    "limit_fee",
    "technician_fee",
    "settings_lost",
    "interruption",
    "delivery",
    "unplug_first",
)
"""Terms that may have to be told before something is done. `limit_fee`, `technician_fee`,
`interruption` and `delivery` have the value of the parameter of that name; the last three are
asked for by held-out rules alone."""
OFFERS = (
    "partner_shop",
    "text_message",
    "payment_plan",
    "plan_upgrade",
    "paid_repair",
    "wait_for_renewal",
    "exchange_kit",
    "loan_device",
    "callback",
)
"""Alternatives that a refusal may have to come with."""

RECORD_FACTS = (
    "kind",
    "model",
    "third_party",
    "months",
    "replaced",
    "plan",
    "overdue",
    "raised",
    "area",
    "outage",
    "wet",
)
"""Facts of the records, the area and (`wet`) the customer's answer; see `FACT_SOURCES`."""
FACT_SOURCES = {
    "kind": "device",
    "model": "device",
    "third_party": "device",
    "months": "device",
    "replaced": "device",
    "plan": "account",
    "overdue": "account",
    "area": "account",
    "raised": "plan_read",
    "outage": "area_status",
    "wet": "damage",
}
"""Where each is read: the account's or the device's record, a read, or a check."""

EVIDENCE = (
    "factors",
    "failures",
    "confirmed",
    "line_tested",
    "plan_read",
    "area_read",
    "cable_checked",
    "damage_checked",
    "restarted",
    "restarted_last",
    "updated",
    "agreed_reset",
    *(f"told_{term}" for term in TOLD),
)
"""Facts of the conversation, 0 or 1 but for counts. `confirmed` belongs to the write at hand;
`restarted_last`: the last operation on the device was a restart."""

EVENTS: dict[int, tuple[str, ...]] = {
    **{op: ("instruct",) for op in range(len(OPERATIONS) - len(WRITES))},
    OPERATION["factory_reset"]: ("instruct", "factory_reset"),
    OPERATION["replug_power"]: ("instruct", "cable_work"),
    OPERATION["replug_cable"]: ("instruct", "cable_work"),
    OPERATION["swap_cable"]: ("instruct", "cable_work"),
    OPERATION["refill"]: ("instruct", "cable_work"),
    OPERATION["clear_jam"]: ("instruct", "cable_work"),
    OPERATION["reseat_card"]: ("instruct", "cable_work"),
    OPERATION["reset_port"]: ("write", "remote", "reset_port", "line_work"),
    OPERATION["push_config"]: ("write", "remote", "push_config"),
    OPERATION["unlock_sim"]: ("write", "remote", "unlock_sim"),
    OPERATION["raise_limit"]: ("write", "raise_limit"),
    OPERATION["order_replacement"]: ("write", "order_replacement"),
    OPERATION["book_technician"]: ("write", "book_technician", "line_work"),
}
"""Events that each operation is for the rules."""
ON_THE_LINE = (ROUTER, PHONE, TV_BOX)
"""Kinds that an outage or maintenance concerns; the first ones, for conditions."""
assert tuple(range(TV_BOX + 1)) == ON_THE_LINE
