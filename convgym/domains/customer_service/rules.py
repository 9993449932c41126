"""The shop's policy: parameters that vary per episode and the rules that use them.

`RULES` is the only place where the policy stands. The document that the agent reads, the
decision that is right for an order, and the obligations that may be broken all come from
it; parameters are drawn per task, so knowing the domain by heart is not enough.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from convgym.domains.customer_service.world import CATEGORIES, TODAY, World, date_text
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

NEVER = 10**9

PARAMETERS: dict[str, tuple[int, ...]] = {
    "auth_level": (1, 2),
    "cancel_stage": (0, 1),
    "address_stage": (0, 1),
    "return_window": (14, 30, 45, 60),
    "final_sale": (0, 1, 2, 3),
    "transfer_above": (20000, 40000, NEVER),
    "fee": (0, 10, 15, 20),
    "credit_after": (7, 21, NEVER),
}
"""Allowed values of each parameter. Days, percent, cents, stages and categories by index."""
PARAMETER_NAMES = tuple(PARAMETERS)

WORKFLOWS = ("status", "cancel", "return", "address")
STATUS, CANCEL, RETURN, ADDRESS = range(4)

DENIALS = (
    "not_cancellable",
    "outside_window",
    "final_sale",
    "not_delivered",
    "already_shipped",
    "unverified",
)
OFFERS = ("return_later", "store_credit", "pickup")
VIOLATIONS = (
    "disclosed_before_authentication",
    "wrote_before_authentication",
    "wrote_without_confirmation",
    "told_a_falsehood",
    "wrote_what_was_not_asked",
    "told_of_another_order",
)

_STAGE_LIMIT = {0: "still being processed", 1: "being processed or packed"}

RULES = RuleSet(
    (
        Rule(
            "disclosed_before_authentication",
            on="disclose",
            effect=OBLIGE,
            text="Authenticate the customer before you tell anything about an order or change "
            "it: {auth_text}",
            requires=(Condition("factors", ">=", "auth_level"),),
        ),
        Rule(
            "wrote_before_authentication",
            on="write",
            effect=OBLIGE,
            text="",
            requires=(Condition("factors", ">=", "auth_level"),),
        ),
        Rule(
            "unverified",
            on="unverified",
            effect=REFUSE,
            text="After two failed verifications refuse the request, reason: unverified.",
            when=(Condition("failures", ">=", 2),),
        ),
        Rule(
            "wrote_without_confirmation",
            on="write",
            effect=OBLIGE,
            text="Before any change ask the customer to confirm that change to that order, and "
            "wait for the yes. Afterwards tell the customer that it is done.",
            requires=(Condition("confirmed", "==", 1),),
        ),
        Rule(
            "read_first",
            on="decide",
            effect=OBLIGE,
            text="Read the order before you decide, refuse or transfer.",
            requires=(Condition("read", "==", 1),),
        ),
        Rule(
            "told_of_another_order",
            on="tell",
            effect=OBLIGE,
            text="Tell only of the order that the customer means; ask where it could be two.",
            requires=(Condition("meant", "==", 1),),
        ),
        Rule(
            "not_cancellable",
            on="cancel",
            effect=REFUSE,
            text="An order can be cancelled only while it is {cancel_text}. Otherwise refuse, "
            "reason: not_cancellable, and offer a return after delivery.",
            when=(Condition("stage", ">", "cancel_stage"),),
            alternative="return_later",
        ),
        Rule(
            "not_delivered",
            on="return",
            effect=REFUSE,
            text="An order that has not been delivered cannot be returned, reason: not_delivered.",
            when=(Condition("stage", "<", 3),),
        ),
        Rule(
            "final_sale",
            on="return",
            effect=REFUSE,
            text="This season all {final_sale_text} are final sale and cannot be returned, "
            "reason: final_sale.",
            when=(Condition("category", "==", "final_sale"),),
        ),
        Rule(
            "outside_window",
            on="return",
            effect=REFUSE,
            text="Returns are accepted up to {return_window} days after delivery. Later refuse, "
            "reason: outside_window, and offer goodwill store credit.",
            when=(Condition("days", ">", "return_window"),),
            alternative="store_credit",
        ),
        Rule(
            "transfer_large",
            on="return",
            effect=TRANSFER,
            text="{transfer_text}",
            when=(Condition("amount", ">", "transfer_above"),),
        ),
        Rule(
            "fee_waived",
            on="fee",
            effect=TERM,
            text="No restocking fee is charged where the item came damaged or was the wrong item.",
            when=(Condition("reason", "<", 2),),
            value=0,
        ),
        Rule(
            "fee_charged",
            on="fee",
            effect=TERM,
            text="{fee_text}",
            value="fee",
        ),
        Rule(
            "credit_late",
            on="channel",
            effect=TERM,
            text="{credit_text}",
            when=(Condition("days", ">", "credit_after"),),
            value=1,
        ),
        Rule(
            "original_payment",
            on="channel",
            effect=TERM,
            text="Refunds go to the original payment method where no other rule applies. Tell the "
            "fee and the way of the refund before the customer confirms a return.",
            value=0,
        ),
        Rule(
            "already_shipped",
            on="address",
            effect=REFUSE,
            text="A delivery address can be changed only while the order is {address_text}. "
            "Otherwise refuse, reason: already_shipped, and offer a pickup point.",
            when=(Condition("stage", ">", "address_stage"),),
            alternative="pickup",
        ),
    )
)

Parameters = dict[str, int]


def parameter_dict(values: Sequence[int]) -> Parameters:
    """Values in the order of `PARAMETER_NAMES`, by name."""
    return dict(zip(PARAMETER_NAMES, values, strict=True))


def order_facts(shop: World, order: int, reason: int = -1) -> dict[str, int]:
    """What the rules ask of an order; `reason` is an index into REASONS, -1 unknown."""
    return {
        "stage": shop.stage[order],
        "category": shop.category(order),
        "days": shop.days_since_delivery(order),
        "amount": shop.amount[order],
        "reason": reason,
    }


def decide(workflow: int, facts: Mapping[str, int], parameters: Parameters) -> Decision:
    """What the policy says of a request for this order."""
    return RULES.decide(WORKFLOWS[workflow], facts, parameters)


def findings(facts: Mapping[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """What a read shows of an order as the policy weighs it; element-wise on arrays."""

    def fires(code: str) -> Any:
        return RULES.fires(code, facts, parameters)

    return {
        "cancellable": fires("not_cancellable") ^ True,
        "address_open": fires("already_shipped") ^ True,
        "in_window": (facts["days"] >= 0) & (fires("outside_window") ^ True),
        "final_sale": fires("final_sale"),
        "large": fires("transfer_large"),
        "credit_late": fires("credit_late"),
    }


def document(parameters: Parameters) -> str:
    """The policy document of an episode, as the agent reads it."""
    above, credit = parameters["transfer_above"], parameters["credit_after"]
    wording = {
        "auth_text": "find the account by e-mail address."
        if parameters["auth_level"] == 1
        else "find the account by e-mail address, then verify the postcode.",
        "cancel_text": _STAGE_LIMIT[parameters["cancel_stage"]],
        "address_text": _STAGE_LIMIT[parameters["address_stage"]],
        "return_window": str(parameters["return_window"]),
        "final_sale_text": CATEGORIES[parameters["final_sale"]],
        "transfer_text": "Returns of any amount are handled by you."
        if above == NEVER
        else f"Transfer to a human any return of an order above ${above // 100}.",
        "fee_text": "There is no restocking fee."
        if parameters["fee"] == 0
        else f"A restocking fee of {parameters['fee']}% applies to other returns.",
        "credit_text": "Refunds are never paid as store credit."
        if credit == NEVER
        else f"More than {credit} days after delivery the refund is paid as store credit.",
    }
    head = f"You are a support agent of an online shop. Today is {date_text(0)} {TODAY.year}.\n"
    return head + RULES.document(wording)
