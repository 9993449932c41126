"""Indices of the belief cells that the desk writes, looked up by name once.

A tuple holds one index per pointer, look, operation, reason or term, in the vocabulary's order.
"""

from __future__ import annotations

from convgym.domains.technical_support.dialogue import (
    CHECK_NAMES,
    FACTS,
    HEARD_AS,
    LAYOUT,
    REASONS,
    SAID,
    SAW,
    SEEN,
    SHOWN,
    SLOTS,
    STEP_NAMES,
    USER_ACTS,
    VIEW,
    WRITE_NAMES,
    U,
    seen_name,
)
from convgym.domains.technical_support.facts import OFFERS, TOLD
from convgym.domains.technical_support.rules import DECIDING, OPTIONAL_CODES
from convgym.domains.technical_support.vocabulary import (
    AREA_STATUS,
    BOOKINGS,
    FIRST_READ,
    FIRST_WRITE,
    KINDS,
    LINE_TEST,
    LOOK,
    LOOKS,
    OPERATIONS,
    PLAN_READ,
    SYMPTOMS,
)

ALWAYS = LAYOUT["always"]
POLICY = LAYOUT.block("policy_{}", OPTIONAL_CODES)
TWO_FACTORS, HEARD_REQUEST = LAYOUT["two_factors"], LAYOUT["heard_request"]
FOUND, VERIFIED = LAYOUT["found"], LAYOUT["verified"]
AUTHENTICATED, FAILURES = LAYOUT["authenticated"], LAYOUT["failures"]
HEARD = (LAYOUT["heard_phone"], LAYOUT["heard_pin"], LAYOUT["heard_serial"])
REJECTED = (LAYOUT["phone_rejected"], LAYOUT["pin_rejected"], LAYOUT["serial_rejected"])
HEARD_KIND, HEARD_ROOM = LAYOUT["heard_kind"], LAYOUT["heard_room"]
LISTED, IN_HAND = LAYOUT["listed"], LAYOUT["in_hand"]
KIND = LAYOUT.block("kind_{}", KINDS)
SEEN_DEVICE, READ_DEVICE = LAYOUT.block("seen_{}", VIEW), LAYOUT.block("read_{}", VIEW)
IN_HAND_OF = LAYOUT.block("in_hand_{}", VIEW)
SERIAL_MATCHES = LAYOUT.block("serial_matches_{}", VIEW)
KIND_MATCHES = LAYOUT.block("kind_matches_{}", VIEW)
ROOM_MATCHES = LAYOUT.block("room_matches_{}", VIEW)
FINDING = {reason: LAYOUT[f"finding_{reason}"] for reason in DECIDING}
TECHNICIAN_DUE = LAYOUT["technician_due"]
CAN_LOOK = LAYOUT.block("can_{}", [word.name for word in LOOKS])
CAN_OPERATE = LAYOUT.block("can_{}", [word.name for word in OPERATIONS])
SEES = {pair: LAYOUT[f"sees_{seen_name(*pair)}"] for pair in SEEN}
SEES_OF = tuple(
    tuple(SEES[look, value] for value in SHOWN[look]) for look in range(len(LOOKS))
)
"""The cells of each look."""
FIRST_SEEN, LAST_SEEN = min(SEES.values()), max(SEES.values())
LOOKED = LAYOUT.block("looked_{}", CHECK_NAMES)
SHOWN_BY = {
    LINE_TEST: LAYOUT["line_tested"],
    PLAN_READ: LAYOUT["plan_was_read"],
    AREA_STATUS: LAYOUT["area_read"],
    LOOK["data_cable"]: LAYOUT["cable_checked"],
    LOOK["damage"]: LAYOUT["damage_checked"],
}
"""Looks that the rules ask for."""
ASKED_STEP = LAYOUT.block("asked_{}", STEP_NAMES)
AGE = LAYOUT.block("age_{}", [word.name for word in OPERATIONS])
AGREED_RESET = LAYOUT["agreed_reset"]
TOLD_CELL = LAYOUT.block("told_{}", (*TOLD, *FACTS))
CONFIRMED = LAYOUT.block("confirmed_{}", WRITE_NAMES)
UNREPORTED, TOLD_DONE = LAYOUT["unreported"], LAYOUT["told_done"]
DENIED = LAYOUT.block("denied_{}", REASONS)
OFFERED = LAYOUT.block("offered_{}", OFFERS)
ASKED_FOR = LAYOUT.block("asked_for_{}", SLOTS)
FIRST_SAID = LAYOUT[f"said_{SAID[0]}"]
SAID_CELL = {
    act: LAYOUT[f"said_{HEARD_AS[act]}"] for act in range(len(USER_ACTS)) if act not in SAW
}



def _piece(cells: tuple[int, ...]) -> slice:
    """Neighbouring cells in one piece."""
    assert cells == tuple(range(cells[0], cells[-1] + 1))
    return slice(cells[0], cells[-1] + 1)


KIND_ALL = _piece(KIND)
CAN_ALL = _piece((*CAN_LOOK, *CAN_OPERATE))
SEES_ALL = _piece(tuple(cell for row in SEES_OF for cell in row))
SEES_DAMAGE = _piece(SEES_OF[LOOK["damage"]])
LOOKED_ALL = _piece(LOOKED)
AGE_OF_DEEDS = _piece(AGE[: min(BOOKINGS)])
"""Ages of what changes the device: what is promised for later does not grow old."""
assert [*BOOKINGS] == [*range(min(BOOKINGS), len(AGE))]

OF_DEVICE = (SHOWN_BY[LINE_TEST], SHOWN_BY[PLAN_READ], *SEES_OF[LINE_TEST], *SEES_OF[PLAN_READ])
"""What the provider's side has shown of one device, and no longer holds of another."""
OF_ACCOUNT = (
    VERIFIED,
    AUTHENTICATED,
    LISTED,
    IN_HAND,
    TECHNICIAN_DUE,
    SHOWN_BY[AREA_STATUS],
    *SEES_OF[AREA_STATUS],
    *SEEN_DEVICE,
    *READ_DEVICE,
    *IN_HAND_OF,
    *SERIAL_MATCHES,
    *KIND_MATCHES,
    *ROOM_MATCHES,
    *(FINDING[reason] for reason in FINDING if reason != "water_damage"),
    *OF_DEVICE,
)
"""What was seen of one account and is out of view once another is opened."""

RAISES = {
    **{U[f"request_{symptom}"]: HEARD_REQUEST for symptom in SYMPTOMS},
    U["inform_kind"]: HEARD_KIND,
    U["inform_room"]: HEARD_ROOM,
}
"""Cells that a customer's act sets and nothing clears."""
STATES = {
    U[f"inform_{name}{ending}"]: (slot, variant)
    for slot, name in enumerate(("phone", "pin", "serial"))
    for variant, ending in ((1, ""), (2, "_wrong"))
}
"""(which of `HEARD`, 1 right or 2 wrong) that an act states."""
assert len(CHECK_NAMES) == FIRST_READ and len(STEP_NAMES) == FIRST_WRITE
