"""What must be worth nothing in technical support, and what is worth little: constant agents.

Null policies speak text without listening; agents by the book identify the customer, look at what
the rules ask for, and then do one constant thing.
"""

from __future__ import annotations

from collections.abc import Callable

from convgym.domains.technical_support.dialogue import REASONS
from convgym.domains.technical_support.vocabulary import VALUE
from convgym.policies.null import FixedReplies, fixed_replies

_IDENTIFIED = ("ask_intent", "ask_phone", "find_customer", "ask_pin", "verify_pin")
_BOOK = (
    *_IDENTIFIED,
    "ask_device", "ask_device", "get_stated_device", "list_devices",
    "get_device_0", "get_device_1", "get_device_2", "get_device_0",
    "get_area_status", "run_line_test", "get_plan", "check_damage",
)  # fmt: skip
_CLOSE = ("check_service", "close", "close")


def _write(name: str) -> tuple[str, ...]:
    return (f"confirm_{name}", name, "report_done")


BY_THE_BOOK: dict[str, tuple[str, ...]] = {
    "book, end": (*_BOOK, "end_conversation"),
    "book, transfer": (*_BOOK, "transfer_to_human"),
    "identify, transfer": (*_IDENTIFIED, "transfer_to_human"),
    "book, refuse for an outage": (*_BOOK, *("deny_area_outage", "offer_text_message") * 3),
    "book, refuse as too old": (
        *_BOOK, "do_restart", "do_restart", *("deny_out_of_warranty", "offer_paid_repair") * 3
    ),
    "book, refuse for everything": (
        *_BOOK, *(f"deny_{reason}" for reason in REASONS), "end_conversation"
    ),
    "book, restart": (*_BOOK, "do_restart", "explain", "do_restart", *_CLOSE),
    "book, power": (
        *_BOOK, "check_power_cable", "do_replug_power", "do_switch_on", "do_charge", *_CLOSE
    ),
    "book, cables": (*_BOOK, "do_replug_cable", "do_swap_cable", *_CLOSE),
    "book, update": (*_BOOK, "do_update_software", "explain", "do_update_software", *_CLOSE),
    "book, reset the port": (*_BOOK, *_write("reset_port"), *_CLOSE),
    "book, raise the limit": (*_BOOK, "inform_limit_fee", *_write("raise_limit"), *_CLOSE),
    "book, replace": (
        *_BOOK, "do_restart", "do_restart", *_write("order_replacement"), "close", "close"
    ),
    "book, technician": (
        *_BOOK, "check_data_cable", "check_data_cable", "inform_technician_fee",
        *_write("book_technician"), "close", "close",
    ),
}  # fmt: skip
"""Agents that identify by the book, look at what the rules ask for, and do one constant thing."""

_REFUSALS = (
    "I am sorry, but we only support our own devices.",
    "There is an outage in your area, so there is nothing more I can do.",
    "Unfortunately your bill is overdue, so I cannot help you.",
    "I am afraid that your plan does not cover this device.",
    "The warranty has run out, so I cannot replace it.",
    "Your limit was raised already, and cannot be raised again this month.",
    "I could not verify your identity, so I cannot go on.",
    "I can send you a text message when it is over.",
    "I can offer you a paid repair.",
)
_CONFIRMATIONS = (
    "Shall I reset the port? Please confirm with yes.",
    "Shall I order a replacement for you? Please confirm with yes.",
    "Do you want me to book a technician? Please confirm with yes.",
    "Is it all right to set it back to how it came?",
)
_PROMISES = (
    "I will reset the port for you.",
    "I will order a replacement right away.",
    "I will transfer you to a colleague.",
)
_EXPLANATIONS = (
    "I ask for this to find your account.",
    "It is the small lamp next to the switch.",
    "Hold the button for ten seconds.",
    "After that it should work again.",
)
_QUESTIONS = (
    "What is the phone number of your account, what is your PIN, and which device is it?",
)
_STEPS = (
    "Please restart it.", "Please push the cable in at both ends.", "Please update it.",
    "Does it work now?",
)  # fmt: skip
_EVERYTHING = " ".join(
    [f"Your line shows: {value.replace('_', ' ')}." for value in VALUE]
    + [f"A technician costs ${fee}." for fee in (0, 20, 40, 60)]
    + [f"More data costs ${fee}." for fee in (3, 5, 8, 12)]
    + ["There is an outage in your area.", "There is no outage.", "All settings will be lost."]
    + ["I have reset the port.", "I have ordered a replacement.", "I have booked a technician."]
)
NULL_POLICIES: dict[str, Callable[[], FixedReplies]] = fixed_replies({
    "refuse-always": _REFUSALS,
    "confirm-everything": _CONFIRMATIONS,
    "promise-everything": _PROMISES,
    "explain-always": _EXPLANATIONS,
    "ask-everything": _QUESTIONS,
    "instruct-always": _STEPS,
    "say-every-value": (_EVERYTHING,),
})
"""Null policies in text, by name; `RandomToolPolicy` is the one in acts."""
