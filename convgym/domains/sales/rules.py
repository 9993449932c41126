"""The shop's sales policy: parameters that vary per episode and the rules that use them.

`RULES` is the only place where the policy stands. The document that the agent reads, the
lowest price that is allowed, what is right for a task, and the obligations that may be broken
all come from it. Eight of its rules are switched on in some episodes only, and four of those
in no split but `test_policy`.

    switches ─► policy(switches) ─► document | term("authority") | decide | breaches
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from convgym.domains.sales.vocabulary import DENIALS, PRICE_DENIALS, SWITCHES
from convgym.domains.sales.world import ADDONS, CATEGORIES, money_text, percent_text
from convgym.engine.rules import OBLIGE, REFUSE, TERM, TRANSFER, Condition, Decision, Rule, RuleSet

PARAMETERS: dict[str, tuple[int, ...]] = {
    "authority": (50, 100, 150, 200),
    "step": (25, 50, 100),
    "bulk_above": (5, 8, 12),
    "stretch": (100, 200),
    "many_from": (3, 4),
    "large_above": (100000, 150000, 200000, 300000, 400000),
}
"""Allowed values of each parameter. Per mille of the list price, pieces, and cents."""
PARAMETER_NAMES = tuple(PARAMETERS)
NEVER = 10**9
MOST_STEPS = 4
"""Steps from the list price down to the authority, at most."""
MORE_FOR_MANY = 50
"""Per mille that the authority grows by for many pieces."""
OWN_STRETCH = 250
"""Per mille of the budget that a list price may lie above it before the buyer will not hear more
of the product, whatever the rules say."""
HELD_OUT = ("quantity_discount", "last_piece", "large_total", "addon_never")
"""Switches that are on in `test_policy` alone."""

VIOLATIONS = (
    "recommended_before_needs",
    "recommended_before_budget",
    "recommended_over_budget",
    "recommended_unread",
    "told_a_falsehood",
    "first_quote_below_list",
    "discounted_too_fast",
    "discounted_unasked",
    "discount_beyond_authority",
    "booked_without_confirmation",
    "booked_what_was_not_asked",
    "booked_before_addon",
    "offered_addon_again",
    "offered_addon_against_rules",
)

RULES = RuleSet(
    (
        Rule(
            "recommended_before_needs",
            on="recommend",
            effect=OBLIGE,
            text="Find out what the product must have, and how many pieces are wanted, before you "
            "recommend anything; who names the price of a quote recommends the product.",
            requires=(Condition("needs", "==", 1), Condition("quantity_known", "==", 1)),
        ),
        Rule(
            "recommended_before_budget",
            on="recommend",
            effect=OBLIGE,
            text="Find out the buyer's budget per piece, as a sum and not roughly, before you "
            "recommend anything.",
            requires=(Condition("budget_known", "==", 1),),
        ),
        Rule(
            "recommended_over_budget",
            on="recommend",
            effect=OBLIGE,
            text="Recommend nothing whose list price is more than {stretch} above the budget.",
            when=(Condition("budget_known", "==", 1),),
            requires=(Condition("excess", "<=", "stretch"),),
        ),
        Rule(
            "recommended_unread",
            on="recommend",
            effect=OBLIGE,
            text="Read a product before you recommend it or say what it has.",
            requires=(Condition("read", "==", 1),),
        ),
        Rule(
            "told_a_falsehood",
            on="tell",
            effect=OBLIGE,
            text="Say nothing that is not so, and name no price but the list price and that of the "
            "quote you have made. Do not say that no lower price is possible while one is.",
            requires=(Condition("true", "==", 1),),
        ),
        Rule(
            "first_quote_below_list",
            on="quote",
            effect=OBLIGE,
            text="The first quote for a product is at its list price.",
            when=(Condition("first", "==", 1),),
            requires=(Condition("discount", "==", 0),),
        ),
        Rule(
            "discounted_unasked",
            on="quote",
            effect=OBLIGE,
            text="Make a lower quote only after the buyer has objected to the price of the one "
            "before, or asked for less.",
            when=(Condition("lower", "==", 1), Condition("first", "==", 0)),
            requires=(Condition("objected", "==", 1),),
        ),
        Rule(
            "discounted_too_fast",
            on="quote",
            effect=OBLIGE,
            text="Go down by at most {step} of the list price at a time.",
            when=(Condition("first", "==", 0),),
            requires=(Condition("by", "<=", "step"),),
        ),
        Rule(
            "discount_beyond_authority",
            on="quote",
            effect=OBLIGE,
            text="",
            requires=(Condition("beyond", "<=", 0),),
        ),
        Rule(
            "clearance_price",
            on="authority",
            effect=TERM,
            text="",
            when=(Condition("clearance", "==", 1),),
            value=0,
        ),
        Rule(
            "last_piece_price",
            on="authority",
            effect=TERM,
            text="",
            when=(Condition("left", "==", 0),),
            value=0,
            held_out=True,
        ),
        Rule(
            "authority_for_many",
            on="authority",
            effect=TERM,
            text="From {many_from} pieces on you may give {authority_more} off the list price.",
            when=(Condition("quantity", ">=", "many_from"),),
            value="authority_more",
            held_out=True,
        ),
        Rule(
            "authority",
            on="authority",
            effect=TERM,
            text="You may give up to {authority} off the list price where no other rule applies.",
            value="authority",
        ),
        Rule(
            "clearance_firm",
            on="discount",
            effect=REFUSE,
            text="There is no discount on clearance goods, reason: clearance_firm.",
            when=(Condition("clearance", "==", 1),),
        ),
        Rule(
            "last_piece",
            on="discount",
            effect=REFUSE,
            text="There is no discount on the last pieces, when nothing is left in stock after the "
            "order, reason: last_piece.",
            when=(Condition("left", "==", 0),),
            held_out=True,
        ),
        Rule(
            "beyond_authority",
            on="discount",
            effect=REFUSE,
            text="When the quote is as low as you may go, refuse to go lower, reason: "
            "beyond_authority where no other reason applies, and leave the buyer in peace.",
            when=(Condition("beyond", ">=", 0),),
        ),
        Rule(
            "not_carried",
            on="availability",
            effect=REFUSE,
            text="Where a search for all that the buyer needs finds nothing, refuse, reason: "
            "not_carried, and offer the nearest product.",
            when=(Condition("found", "==", 0),),
            alternative="nearest",
        ),
        Rule(
            "out_of_stock",
            on="availability",
            effect=REFUSE,
            text="Where all that it finds is out of stock, refuse, reason: out_of_stock, and offer "
            "the waitlist.",
            when=(Condition("available", "==", 0),),
            alternative="waitlist",
        ),
        Rule(
            "bulk",
            on="quantity",
            effect=TRANSFER,
            text="Search for what the buyer needs, then transfer to a human in business sales any "
            "wish for more than {bulk_above} pieces.",
            when=(Condition("quantity", ">", "bulk_above"),),
        ),
        Rule(
            "large_total",
            on="total",
            effect=TRANSFER,
            text="Once you have read what fits, transfer to a human any order whose list price "
            "comes to more than {large_above} in all.",
            when=(Condition("total", ">", "large_above"),),
            held_out=True,
        ),
        Rule(
            "booked_without_confirmation",
            on="book",
            effect=OBLIGE,
            text="Before you book, ask the buyer to confirm product, pieces and price, and wait "
            "for the yes. Book what was quoted and nothing else, and say that it is done.",
            requires=(Condition("confirmed", "==", 1),),
        ),
        Rule(
            "booked_before_addon",
            on="book",
            effect=OBLIGE,
            text="Offer the add-on of the category before you book.",
            requires=(Condition("offered", "==", 1),),
        ),
        Rule(
            "offered_addon_again",
            on="addon",
            effect=OBLIGE,
            text="Offer an add-on at most once in a conversation.",
            requires=(Condition("offered", "==", 0),),
        ),
        Rule(
            "offered_addon_against_rules",
            on="addon",
            effect=OBLIGE,
            text="At present no add-ons are sold: offer none.",
            requires=(Condition("sold", "==", 1),),
            held_out=True,
        ),
    )
)

_SWITCH_OF = {
    "recommended_before_budget": "budget_first",
    "recommended_over_budget": "within_budget",
    "clearance_price": "clearance_firm",
    "clearance_firm": "clearance_firm",
    "last_piece_price": "last_piece",
    "last_piece": "last_piece",
    "authority_for_many": "quantity_discount",
    "large_total": "large_total",
    "booked_before_addon": "addon_first",
    "offered_addon_against_rules": "addon_never",
}
"""The switch that a rule hangs on; the others are always in force."""

Parameters = dict[str, int]


def switch_bits(*names: str) -> int:
    """The bit set of switches by name."""
    return sum(1 << SWITCHES.index(name) for name in dict.fromkeys(names))


def is_on(switches: int, name: str) -> bool:
    """Whether the switch called `name` is on."""
    return bool(switches & _BIT_OF[name])


_BIT_OF = {name: 1 << place for place, name in enumerate(SWITCHES)}


@lru_cache(maxsize=1 << len(SWITCHES))
def policy(switches: int) -> RuleSet:
    """The rules in force with these switches."""
    return RuleSet(
        tuple(
            rule
            for rule in RULES.rules
            if rule.code not in _SWITCH_OF or is_on(switches, _SWITCH_OF[rule.code])
        )
    )


def parameter_dict(values: Sequence[int]) -> Parameters:
    """Values in the order of `PARAMETER_NAMES`, by name, with what follows from them.

    The same dictionary for the same values: it is only read.
    """
    return _parameter_dict(tuple(values))


@lru_cache(maxsize=4096)
def _parameter_dict(values: tuple[int, ...]) -> Parameters:
    parameters = dict(zip(PARAMETER_NAMES, values, strict=True))
    parameters["authority_more"] = parameters["authority"] + MORE_FOR_MANY
    return parameters


def authority(
    switches: int, parameters: Parameters, clearance: int, stock: int, quantity: int
) -> int:
    """Per mille off the list price that may be given on a product at most."""
    facts = {"clearance": clearance, "left": stock - quantity, "quantity": quantity}
    return policy(switches).term("authority", facts, parameters)


def price_refusal(
    switches: int, allowed: int, clearance: int, stock: int, quantity: int, discount: int
) -> Decision:
    """What the policy says of a wish for less than `discount` per mille off."""
    facts = {
        "clearance": clearance,
        "left": stock - quantity,
        "beyond": discount - allowed,
    }
    return policy(switches).decide("discount", facts, {})


def next_discount(parameters: Parameters, discount: int, allowed: int) -> int:
    """One step below `discount`, stopping at what is allowed; beyond it where nothing is left."""
    lower = discount + parameters["step"]
    return min(lower, allowed) if discount < allowed else lower


def excess(list_price: int, budget: int) -> int:
    """Per mille that a list price lies above the budget, rounded up; below 0 where it does not."""
    return -((budget - list_price) * 1000 // budget)


def quoted_price(list_price: int, discount: int) -> int:
    """Cents a piece at a discount in per mille, rounded up."""
    return -(-list_price * (1000 - discount) // 1000)


def document(switches: int, parameters: Parameters) -> str:
    """The policy document of an episode, as the agent reads it."""
    wording = {
        "authority": percent_text(parameters["authority"]),
        "authority_more": percent_text(parameters["authority_more"]),
        "step": percent_text(parameters["step"]),
        "stretch": percent_text(parameters["stretch"]),
        "bulk_above": str(parameters["bulk_above"]),
        "many_from": str(parameters["many_from"]),
        "large_above": money_text(parameters["large_above"]),
    }
    addons = ", ".join(
        f"{category}: {name} at {money_text(price)}"
        for category, (name, price) in zip(CATEGORIES, ADDONS, strict=True)
    )
    head = f"You are a sales agent of an online shop. Add-ons, per order: {addons}.\n"
    return head + policy(switches).document(wording)


assert {*DENIALS} <= {rule.code for rule in RULES.rules}
assert DENIALS[:PRICE_DENIALS] == ("beyond_authority", "clearance_firm", "last_piece")
