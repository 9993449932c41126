"""The provider's policy: who is helped, how far, and what has to come before what.

    decide("support")  ─► whether this case is worked on at all
    decide(<write>)    ─► whether the remedy it turns out to need may be given
    breaches(<event>)  ─► what ought to have come first: looks, steps, terms told, a yes

`RULES` holds every rule there is; an episode has those that are always on and a drawn subset of
the optional ones (`rule_set(active)`), each with drawn parameters, so knowing the domain by heart
is not enough. Those that are `held_out` stand in policies of the split `test_policy` only.
Facts are integers: see `convgym.domains.technical_support.facts`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from convgym.domains.technical_support.facts import EVENTS, PARAMETER_NAMES
from convgym.domains.technical_support.vocabulary import KIND_NAMES, TV_BOX
from convgym.domains.technical_support.world import AREAS, BASIC, BUSINESS, MODELS, PLUS
from convgym.engine.rules import (
    OBLIGE,
    REFUSE,
    TERM,
    TRANSFER,
    Condition,
    Decision,
    Rule,
    RuleSet,
)


def _is(field: str, op: str, operand: int | str) -> tuple[Condition, ...]:
    return (Condition(field, op, operand),)


def _oblige(code: str, on: str, field: str, text: str, *, held_out: bool = False) -> Rule:
    return Rule(code, on, OBLIGE, text, requires=_is(field, "==", 1), held_out=held_out)


ALWAYS: tuple[Rule, ...] = (
    Rule(
        "disclosed_before_authentication",
        on="disclose",
        effect=OBLIGE,
        text="Authenticate the customer before you tell anything of the account or change it: "
        "{auth_level}",
        requires=_is("factors", ">=", "auth_level"),
    ),
    Rule(
        "wrote_before_authentication",
        on="write",
        effect=OBLIGE,
        text="",
        requires=_is("factors", ">=", "auth_level"),
    ),
    Rule(
        "unverified",
        on="unverified",
        effect=REFUSE,
        text="After two failed verifications refuse, reason: unverified.",
        when=_is("failures", ">=", 2),
    ),
    _oblige(
        "wrote_without_confirmation",
        "write",
        "confirmed",
        "Before each change that you make ask the customer to confirm it, and wait for the yes. "
        "Afterwards tell the customer that it is done.",
    ),
    Rule(
        "unsupported_device",
        on="support",
        effect=REFUSE,
        text="Only our own devices are supported. For a device of another maker refuse, reason: "
        "unsupported_device, and offer the partner shop.",
        when=_is("third_party", "==", 1),
        alternative="partner_shop",
    ),
    Rule(
        "area_outage",
        on="support",
        effect=REFUSE,
        text="Look up the area before anything is done to a router, a phone or a TV box. In an "
        "outage refuse further work, reason: area_outage, and offer a text message when it is "
        "over.",
        when=_is("outage", "==", 1),
        alternative="text_message",
    ),
    *(
        Rule(
            f"{code}_without_looking_up_the_area",
            on=on,
            effect=OBLIGE,
            text="",
            when=_is("kind", "<=", TV_BOX),
            requires=_is("area_read", "==", 1),
        )
        for code, on in (("worked", "instruct"), ("wrote", "write"))
    ),
    Rule(
        "water_damage",
        on="support",
        effect=TRANSFER,
        text="Transfer to a human as soon as you know that a device got wet. Ask for it before "
        "you order or refuse a replacement.",
        when=_is("wet", "==", 1),
    ),
    _oblige("replaced_without_asking_for_damage", "order_replacement", "damage_checked", ""),
    _oblige(
        "replaced_without_restart",
        "order_replacement",
        "restarted",
        "Order or refuse a replacement only for a device that a restart did not bring back.",
    ),
    Rule(
        "out_of_warranty",
        on="order_replacement",
        effect=REFUSE,
        text="A replacement is free in the first {warranty} months after the purchase. Later "
        "refuse it, reason: out_of_warranty, and offer a paid repair.",
        when=_is("months", ">", "warranty"),
        alternative="paid_repair",
    ),
    _oblige(
        "technician_without_line_test",
        "book_technician",
        "line_tested",
        "Book a technician only after a line test and after the customer has checked the cable, "
        "and after you told what it costs: ${technician_fee}.",
    ),
    _oblige("technician_without_cable_check", "book_technician", "cable_checked", ""),
    Rule(
        "technician_fee_untold",
        on="book_technician",
        effect=OBLIGE,
        text="",
        when=_is("technician_due", ">", 0),
        requires=_is("told_technician_fee", "==", 1),
    ),
    _oblige(
        "limit_fee_untold",
        "raise_limit",
        "told_limit_fee",
        "More data costs ${limit_fee}: tell so before you raise a limit.",
    ),
    _oblige(
        "reset_without_warning",
        "factory_reset",
        "told_settings_lost",
        "Have a factory reset done only after you told that all settings are lost, and after the "
        "yes to that.",
    ),
    _oblige("reset_without_consent", "factory_reset", "agreed_reset", ""),
    Rule(
        "technician_charged",
        on="technician_due",
        effect=TERM,
        text="",
        value="technician_fee",
    ),
)
"""Rules of every episode."""

OPTIONAL: tuple[Rule, ...] = (
    Rule(
        "business_line",
        on="support",
        effect=TRANSFER,
        text="Transfer customers with a business plan to the business desk.",
        when=_is("plan", "==", BUSINESS),
    ),
    Rule(
        "overdue_bill",
        on="support",
        effect=REFUSE,
        text="While a bill is overdue refuse technical help, reason: overdue_bill, and offer a "
        "payment plan.",
        when=_is("overdue", "==", 1),
        alternative="payment_plan",
    ),
    Rule(
        "not_covered",
        on="support",
        effect=REFUSE,
        text="The basic plan does not cover a {uncovered_kind}: refuse, reason: not_covered, and "
        "offer the larger plan.",
        when=(*_is("plan", "==", BASIC), *_is("kind", "==", "uncovered_kind")),
        alternative="plan_upgrade",
    ),
    Rule(
        "limit_reached",
        on="raise_limit",
        effect=REFUSE,
        text="A limit can be raised {raises} a month. After that refuse, reason: limit_reached, "
        "and offer to remind the customer of the renewal.",
        when=_is("raised", ">=", "raises"),
        alternative="wait_for_renewal",
    ),
    Rule(
        "remote_area",
        on="book_technician",
        effect=TRANSFER,
        text="Technicians for {remote_area} are planned by hand: transfer to a human.",
        when=_is("area", "==", "remote_area"),
    ),
    _oblige(
        "port_reset_without_line_test",
        "reset_port",
        "line_tested",
        "Reset a port only after a line test.",
    ),
    _oblige(
        "configured_without_reading_the_plan",
        "push_config",
        "plan_read",
        "Send settings to a device only after a look at the plan.",
    ),
    Rule(
        "unlocked_without_pin",
        on="unlock_sim",
        effect=OBLIGE,
        text="Unlock a SIM only for a customer whose PIN was verified.",
        requires=_is("factors", ">=", 2),
    ),
    _oblige(
        "reset_without_update",
        "factory_reset",
        "updated",
        "Have a factory reset done only after an update was tried.",
    ),
    Rule(
        "technician_free",
        on="technician_due",
        effect=TERM,
        text="With the plus plan a technician costs nothing, and no price need be told.",
        when=_is("plan", "==", PLUS),
        value=0,
    ),
    # held out
    Rule(
        "recalled",
        on="support",
        effect=REFUSE,
        text="The {recalled_model} is recalled. Do not work on one; refuse, reason: recalled, and "
        "offer the exchange kit.",
        when=(*_is("kind", "==", "recalled_kind"), *_is("model", "==", "recalled_model")),
        alternative="exchange_kit",
        held_out=True,
    ),
    Rule(
        "replaced_recently",
        on="order_replacement",
        effect=REFUSE,
        text="What was replaced less than {replaced_window} months ago is not replaced again: "
        "refuse, reason: replaced_recently, and offer a loan device.",
        when=_is("replaced", "<", "replaced_window"),
        alternative="loan_device",
        held_out=True,
    ),
    Rule(
        "maintenance",
        on="line_work",
        effect=REFUSE,
        text="During the maintenance in {maintenance_area} no port is reset and no technician "
        "booked there: refuse, reason: maintenance, and offer to call back.",
        when=_is("area", "==", "maintenance_area"),
        alternative="callback",
        held_out=True,
    ),
    _oblige(
        "closed_without_restart",
        "solved",
        "restarted_last",
        "When the fault is mended have the customer restart the device and try it once more "
        "before you end the conversation.",
        held_out=True,
    ),
    _oblige(
        "interruption_untold",
        "remote",
        "told_interruption",
        "Before you change anything from here (port, settings, SIM) tell that the service is "
        "interrupted for {interruption} minutes.",
        held_out=True,
    ),
    _oblige(
        "delivery_untold",
        "order_replacement",
        "told_delivery",
        "Before you order a replacement tell that it takes {delivery} days.",
        held_out=True,
    ),
    _oblige(
        "unplugging_untold",
        "cable_work",
        "told_unplug_first",
        "Before the customer touches a cable, a card, paper or ink tell them to unplug the device.",
        held_out=True,
    ),
    _oblige(
        "damage_unasked",
        "instruct",
        "damage_checked",
        "Ask whether the device got wet before you have the customer do anything with it.",
        held_out=True,
    ),
)
"""Rules that an episode may have: bit i of a task's `active` is the i-th."""
OPTIONAL_CODES = tuple(rule.code for rule in OPTIONAL)
BIT = {code: 1 << number for number, code in enumerate(OPTIONAL_CODES)}
HELD_OUT = sum(BIT[rule.code] for rule in OPTIONAL if rule.held_out)
"""Bits of the rules of `test_policy` alone."""
COMMON = (1 << len(OPTIONAL)) - 1 & ~HELD_OUT

# Transfers and refusals of the whole case come first, and terms with a condition before the rest.
_ORDER = (
    "unverified",
    "business_line",
    "unsupported_device",
    "recalled",
    "area_outage",
    "overdue_bill",
    "not_covered",
    "water_damage",
    "technician_free",
)
RULES = RuleSet(
    tuple(
        sorted(
            (*ALWAYS, *OPTIONAL),
            key=lambda rule: _ORDER.index(rule.code) if rule.code in _ORDER else len(_ORDER),
        )
    )
)

REFUSALS = tuple(rule.code for rule in RULES.rules if rule.effect == REFUSE)
TRANSFERS = tuple(rule.code for rule in RULES.rules if rule.effect == TRANSFER)
VIOLATIONS = tuple(rule.code for rule in RULES.rules if rule.effect == OBLIGE)

DECIDING: dict[str, tuple[str, ...]] = {
    "business_line": ("account",),
    "unsupported_device": ("device",),
    "recalled": ("device",),
    "area_outage": ("account", "area_read"),
    "overdue_bill": ("account",),
    "not_covered": ("account", "device"),
    "water_damage": ("damage_checked",),
    "out_of_warranty": ("device", "damage_checked", "restarted"),
    "replaced_recently": ("device", "damage_checked", "restarted"),
    "limit_reached": ("plan_read",),
    "remote_area": ("account", "line_tested"),
    "maintenance": ("account", "line_tested"),
}
"""What must have been seen before each reason is given: records read, or fields of `EVIDENCE`."""

_LAST = (
    "\n- Tell the customer nothing but what you have read, and change nothing where these rules "
    "refuse it or leave it to others."
)
Parameters = dict[str, int]


@cache
def rule_set(active: int) -> RuleSet:
    """The policy with the optional rules of these bits."""
    return RuleSet(
        tuple(rule for rule in RULES.rules if rule.code not in BIT or active & BIT[rule.code])
    )


def parameter_dict(values: Sequence[int]) -> Parameters:
    """Values in the order of `PARAMETER_NAMES`, by name."""
    return dict(zip(PARAMETER_NAMES, values, strict=True))


def technician_due(active: int, facts: Mapping[str, int], parameters: Parameters) -> int:
    """Dollars that a technician costs this customer."""
    return rule_set(active).term("technician_due", facts, parameters)


def decide(
    active: int, operation: int, facts: Mapping[str, int], parameters: Parameters
) -> Decision:
    """What the policy says of the case, and, if it allows it, of one operation (-1 for none)."""
    rules = rule_set(active)
    decision = rules.decide("support", facts, parameters)
    for event in EVENTS.get(operation, ()):
        if decision.reason:
            break
        decision = rules.decide(event, facts, parameters)
    return decision


def breaches(
    active: int, operation: int, facts: Mapping[str, Any], parameters: Mapping[str, Any]
) -> dict[str, Any]:
    """Whether an operation breaks each obligation that belongs to it; element-wise on arrays."""
    rules = rule_set(active)
    broken: dict[str, Any] = {}
    for event in EVENTS[operation]:
        broken |= rules.breaches(event, facts, parameters)
    return broken


def broken(
    active: int, operation: int, facts: Mapping[str, int], parameters: Parameters
) -> list[str]:
    """Codes of the obligations that an operation breaks."""
    rules = rule_set(active)
    return [code for on in EVENTS[operation] for code in rules.broken(on, facts, parameters)]


def document(active: int, parameters: Parameters) -> str:
    """The policy document of an episode, as the agent reads it."""
    kind, model = parameters["recalled_kind"], parameters["recalled_model"]
    wording = {name: str(value) for name, value in parameters.items()} | {
        "auth_level": "find the account by phone number."
        if parameters["auth_level"] == 1
        else "find the account by phone number, then verify the PIN.",
        "uncovered_kind": KIND_NAMES[parameters["uncovered_kind"]],
        "raises": ("once", "twice")[parameters["raises"] - 1],
        "remote_area": AREAS[parameters["remote_area"]],
        "maintenance_area": AREAS[parameters["maintenance_area"]],
        "recalled_model": f"{KIND_NAMES[kind]} {MODELS[kind][model]}",
    }
    head = "You are a technical support agent of an internet and phone provider.\n"
    return head + rule_set(active).document(wording) + _LAST
