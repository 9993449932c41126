"""The words of the support desk: belief cells, the agent's actions, the customer's acts.

Numbers and order of all three are frozen for v0: data sets and policies depend on them.
"""

from __future__ import annotations

from convgym.domains.technical_support.facts import OFFERS, TOLD
from convgym.domains.technical_support.physics import LOOKS_OF, VALUES_OF
from convgym.domains.technical_support.rules import DECIDING, OPTIONAL_CODES, REFUSALS
from convgym.domains.technical_support.vocabulary import (
    CHECKS,
    FIRST_READ,
    FIRST_WRITE,
    KINDS,
    LOOKS,
    OPERATIONS,
    READS,
    STEPS,
    SYMPTOMS,
    VALUE_NAMES,
    WRITES,
)
from convgym.domains.technical_support.world import DEVICES_EACH
from convgym.engine import acts
from convgym.engine.actions import Action, ActionTable
from convgym.engine.belief import BeliefLayout

VIEW = range(DEVICES_EACH)
"""Pointers: places among the customer's devices."""
SLOTS = ("phone", "pin", "device")
PHONE, PIN, DEVICE = range(3)
FACTS = tuple(word.name for word in READS)
"""Facts that can be told: what a read has shown."""
WARRANTY = "warranty"
"""A fact that only free text tells: whether a replacement is still free."""
TELLS = (*TOLD, *FACTS, WARRANTY)
"""What can be told: `argument` of TELL; terms first."""
WRITE_NAMES = tuple(word.name for word in WRITES)
STEP_NAMES = tuple(word.name for word in STEPS)
CHECK_NAMES = tuple(word.name for word in CHECKS)
CONFIRMS = (*WRITE_NAMES, "factory_reset")
"""What a yes is asked for: `argument` of CONFIRM."""
PROMISES = (*WRITE_NAMES, "transfer")
"""What free text may promise: `argument` of PROMISE."""
REASONS = REFUSALS
QUESTIONS = ("ask_why", "ask_meaning", "ask_sure", "ask_next", "ask_how")
"""What the customer may ask that an explanation answers."""

# -- what shows -----------------------------------------------------------------------------------

SHOWN: tuple[tuple[int, ...], ...] = tuple(
    tuple(sorted({value for kind in range(len(KINDS)) for value in VALUES_OF[kind][look]}))
    if any(look in looks for looks in LOOKS_OF)
    else ()
    for look in range(len(LOOKS))
)
"""Values that each check or read can show on some device."""
SEEN = tuple(
    (look, value) for look in range(len(LOOKS)) for value in SHOWN[look]
)
"""All pairs of a look and a value; those of checks come first, and are acts of the customer."""


def seen_name(look: int, value: int) -> str:
    """Such as `power_light_red`."""
    return f"{LOOKS[look].name}_{VALUE_NAMES[value]}"


# -- the customer's acts --------------------------------------------------------------------------

_MANNERS = (
    "affirm",
    "negate",
    "hold",
    "dont_know",
    "ask_back",
    "challenge",
    "challenge_done",
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
    "no_luck",
    "ask_why",
    "ask_meaning",
    "ask_sure",
    "ask_next",
    "remind_promise",
    "tangent",
)
USER_ACTS = (
    "greet",
    *(f"request_{symptom}" for symptom in SYMPTOMS),
    "inform_phone",
    "inform_phone_wrong",
    "inform_pin",
    "inform_pin_wrong",
    "inform_serial",
    "inform_serial_wrong",
    "inform_kind",
    "inform_room",
    "correct_device",
    *(f"see_{seen_name(look, value)}" for look, value in SEEN if look < FIRST_READ),
    "cannot_tell",
    "ask_how",
    "no_such_part",
    "did_it",
    "claim_it",
    "not_done",
    "one_by_one",
    "ask_limit_fee",
    "ask_technician_fee",
    *_MANNERS,
)
"""What the customer can say; a turn is a short list of these numbers."""
U = {name: number for number, name in enumerate(USER_ACTS)}
SEES = {pair: U[f"see_{seen_name(*pair)}"] for pair in SEEN if pair[0] < FIRST_READ}
"""The act that says what a check has shown."""
SAW = {act: pair for pair, act in SEES.items()}
HEARD_AS = tuple(
    "did_it" if name == "claim_it" else name.removesuffix("_wrong")
    if name.startswith("inform_") else name
    for name in USER_ACTS
)
"""The agent cannot hear that a memory is wrong, nor that something was not done."""
SAID = tuple(
    dict.fromkeys(HEARD_AS[act] for act in range(len(USER_ACTS)) if act not in SAW)
)
"""Acts with a cell for the newest turn; what was seen has cells of its own."""

# -- belief cells ---------------------------------------------------------------------------------


def _cells() -> list[str]:
    cells = ["always", "turn", "errors"]
    cells += [f"policy_{code}" for code in OPTIONAL_CODES] + ["two_factors"]
    cells += ["heard_request", "heard_phone", "phone_rejected", "found"]
    cells += ["heard_pin", "pin_rejected", "verified", "authenticated", "failures"]
    cells += ["heard_serial", "serial_rejected", "heard_kind", "heard_room", "listed", "in_hand"]
    cells += [f"kind_{kind}" for kind in KINDS]
    for k in VIEW:
        cells += [f"seen_{k}", f"read_{k}", f"in_hand_{k}"]
        cells += [f"serial_matches_{k}", f"kind_matches_{k}", f"room_matches_{k}"]
    cells += [f"finding_{reason}" for reason in DECIDING] + ["technician_due"]
    cells += [f"can_{word.name}" for word in (*LOOKS, *OPERATIONS)]
    cells += [f"sees_{seen_name(look, value)}" for look, value in SEEN]
    cells += [f"looked_{name}" for name in CHECK_NAMES]
    cells += ["line_tested", "plan_was_read", "area_read", "cable_checked", "damage_checked"]
    cells += [f"asked_{name}" for name in STEP_NAMES]
    cells += [f"age_{word.name}" for word in OPERATIONS]
    cells += ["agreed_reset"] + [f"told_{name}" for name in (*TOLD, *FACTS)]
    cells += [f"confirmed_{name}" for name in WRITE_NAMES]
    cells += ["unreported", "told_done"]
    cells += [f"denied_{reason}" for reason in REASONS]
    cells += [f"offered_{offer}" for offer in OFFERS]
    cells += [f"asked_for_{slot}" for slot in SLOTS]
    cells += [f"said_{act}" for act in SAID]
    return cells


LAYOUT = BeliefLayout(_cells())
MOST_COUNTED = 3
"""Times that a check was answered, or a step asked for, beyond which nobody counts."""
FRESH, STALE = 2, 1
"""Of a cell `sees_…`: seen since the last operation on the device, or before it."""
SCALES: dict[str, float] = {
    "failures": 0.5,
    **{f"sees_{seen_name(*pair)}": 0.5 for pair in SEEN},
    **{f"looked_{name}": 1 / MOST_COUNTED for name in CHECK_NAMES},
    **{f"asked_{name}": 1 / MOST_COUNTED for name in STEP_NAMES},
    **{f"age_{word.name}": 0.1 for word in OPERATIONS},
}

# -- the agent's actions --------------------------------------------------------------------------

# Tools: kinds of action from FIRST_TOOL on.
(
    FIND_CUSTOMER,
    VERIFY_PIN,
    LIST_DEVICES,
    GET_STATED,
    GET_DEVICE,
    READ,
    WRITE,
    TRANSFER_TO_HUMAN,
    END_CONVERSATION,
) = range(acts.FIRST_TOOL, acts.FIRST_TOOL + 9)


def _actions() -> list[Action]:
    actions = [Action("greet", acts.CHAT), Action("ask_intent", acts.ASK_INTENT)]
    actions += [Action(f"ask_{slot}", acts.ASK, i) for i, slot in enumerate(SLOTS)]
    actions += [Action("ask_more", acts.ASK_MORE)]
    actions += [
        Action(f"check_{name}", acts.CHECK, i, needs=(f"can_{name}",))
        for i, name in enumerate(CHECK_NAMES)
    ]
    actions += [
        Action(f"do_{name}", acts.INSTRUCT, i, needs=(f"can_{name}",))
        for i, name in enumerate(STEP_NAMES)
    ]
    actions += [
        Action(f"inform_{term}", acts.TELL, i, needs=("heard_request",))
        for i, term in enumerate(TOLD)
    ]
    shown = ("line_tested", "plan_was_read", "area_read")
    actions += [
        Action(f"inform_{fact}", acts.TELL, TELLS.index(fact), needs=(cell,))
        for fact, cell in zip(FACTS, shown, strict=True)
    ]
    actions += [
        Action(f"confirm_{name}", acts.CONFIRM, i, needs=("in_hand", f"can_{name}"))
        for i, name in enumerate(CONFIRMS)
    ]
    actions += [
        Action(f"deny_{reason}", acts.DENY, i, needs=("heard_request",))
        for i, reason in enumerate(REASONS)
    ]
    actions += [
        Action(f"offer_{offer}", acts.OFFER, i, needs=("heard_request",))
        for i, offer in enumerate(OFFERS)
    ]
    actions += [
        Action("report_done", acts.REPORT_DONE, needs=("unreported",)),
        Action("apologise", acts.APOLOGISE),
        Action("explain", acts.EXPLAIN),
        Action("close", acts.CLOSE),
        Action("find_customer", FIND_CUSTOMER, needs=("heard_phone",)),
        Action("verify_pin", VERIFY_PIN, needs=("found", "heard_pin")),
        Action("list_devices", LIST_DEVICES, needs=("found",)),
        Action("get_stated_device", GET_STATED, needs=("found", "heard_serial")),
    ]
    actions += [Action(f"get_device_{k}", GET_DEVICE, 0, k, needs=(f"seen_{k}",)) for k in VIEW]
    actions += [
        Action("run_line_test", READ, FIRST_READ, needs=("in_hand",)),
        Action("get_plan", READ, FIRST_READ + 1, needs=("in_hand",)),
        Action("get_area_status", READ, FIRST_READ + 2, needs=("found",)),
    ]
    actions += [
        Action(name, WRITE, FIRST_WRITE + i, needs=("in_hand", f"can_{name}"))
        for i, name in enumerate(WRITE_NAMES)
    ]
    actions += [
        Action("transfer_to_human", TRANSFER_TO_HUMAN),
        Action("end_conversation", END_CONVERSATION),
    ]
    return actions


ACTIONS = ActionTable(_actions(), LAYOUT)
