"""The shop's policy on integers: `convgym.domains.sales.rules`, rule by rule, for kernels.

    RULES ─► compiled() ─► columns of the shop's tables ─► breaches | term | decide

A rule is a row, a condition is a row. `T` are the tables, `t` is a task's record, and `f` one in
whose field `facts` the facts of an event are written down by their numbers.
"""

from __future__ import annotations

from typing import Any

from convgym.domains.sales import rules
from convgym.domains.sales.records import VIOLATION
from convgym.domains.sales.vocabulary import DENIALS, OFFERS, SWITCHES
from convgym.engine.kernel import kernel
from convgym.engine.rules import ALLOW, OBLIGE, REFUSE, TRANSFER, Condition, Rule

_RULES = rules.RULES.rules
FACTS = tuple(dict.fromkeys(c.field for rule in _RULES for c in (*rule.when, *rule.requires)))
EVENTS = tuple(dict.fromkeys(rule.on for rule in _RULES))
PARAMETERS = tuple(rules.parameter_dict([0] * len(rules.PARAMETER_NAMES)))
"""Those of a task, and what follows from them."""
REASONS = (*DENIALS, "bulk", "large_total")
EFFECTS = (ALLOW, REFUSE, TRANSFER)
ALLOWS, REFUSES, TRANSFERS = range(3)
_OPERATORS = ("==", "<=", ">=", "<", ">", "!=")
_EQUAL, _AT_MOST, _AT_LEAST, _LESS, _MORE = range(5)

NEEDS_KNOWN, QUANTITY_KNOWN, BUDGET_KNOWN, EXCESS, READ = map(
    FACTS.index, ("needs", "quantity_known", "budget_known", "excess", "read")
)
TRUE = FACTS.index("true")
FIRST, DISCOUNT, IS_LOWER, OBJECTED, BY, BEYOND = map(
    FACTS.index, ("first", "discount", "lower", "objected", "by", "beyond")
)
CLEARANCE, LEFT, QUANTITY = map(FACTS.index, ("clearance", "left", "quantity"))
FOUND, AVAILABLE = map(FACTS.index, ("found", "available"))
CONFIRMED, OFFERED, SOLD = map(FACTS.index, ("confirmed", "offered", "sold"))
(
    ON_RECOMMEND, ON_TELL, ON_QUOTE, ON_BOOK, ON_ADDON, ON_AUTHORITY, ON_DISCOUNT, ON_AVAILABILITY,
) = map(
    EVENTS.index,
    ("recommend", "tell", "quote", "book", "addon", "authority", "discount", "availability"),
)  # fmt: skip
STEP, BULK_ABOVE, STRETCH, LARGE_ABOVE = map(
    PARAMETERS.index, ("step", "bulk_above", "stretch", "large_above")
)


def _switch(rule: Rule) -> int:
    """The switch that a rule hangs on; -1 for one that is always in force."""
    if rule in rules.policy(0).rules:
        return -1
    hung = [bit for bit in range(len(SWITCHES)) if rule in rules.policy(1 << bit).rules]
    assert len(hung) == 1, f"{rule.code} hangs on one switch"
    return hung[0]


def compiled() -> dict[str, Any]:
    """Columns of the rules and of their conditions, by name."""
    conditions: list[Condition] = []
    bounds = []
    for rule in _RULES:
        first = len(conditions)
        conditions += rule.when
        requires = len(conditions)
        conditions += rule.requires
        bounds.append((first, requires, len(conditions)))
    most = max(sum(rule.on == event for rule in _RULES) for event in EVENTS)
    by_event = [
        [number for number, rule in enumerate(_RULES) if rule.on == event] for event in EVENTS
    ]
    named = [c.operand if isinstance(c.operand, str) else "" for c in conditions]
    valued = [rule.value if isinstance(rule.value, str) else "" for rule in _RULES]
    decided = [rule.decision if rule.decides else None for rule in _RULES]
    return {
        "rules_of": [row + [-1] * (most - len(row)) for row in by_event],
        "rule_switch": [_switch(rule) for rule in _RULES],
        "rule_when": [first for first, _, _ in bounds],
        "rule_requires": [requires for _, requires, _ in bounds],
        "rule_behind": [behind for _, _, behind in bounds],
        "rule_violation": [
            VIOLATION[rule.code] if rule.effect == OBLIGE else 0 for rule in _RULES
        ],
        "rule_value": [rule.value if isinstance(rule.value, int) else 0 for rule in _RULES],
        "rule_parameter": [PARAMETERS.index(name) if name else -1 for name in valued],
        "rule_effect": [EFFECTS.index(d.effect) if d else -1 for d in decided],
        "rule_reason": [REASONS.index(d.reason) if d else -1 for d in decided],
        "rule_alternative": [
            OFFERS.index(d.alternative) if d and d.alternative else -1 for d in decided
        ],
        "condition_field": [FACTS.index(c.field) for c in conditions],
        "condition_operator": [_OPERATORS.index(c.op) for c in conditions],
        "condition_operand": [
            0 if name else c.operand for c, name in zip(conditions, named, strict=True)
        ],
        "condition_parameter": [PARAMETERS.index(name) if name else -1 for name in named],
    }


@kernel
def in_force(T: Any, t: Any, rule: int) -> bool:
    """Whether a rule belongs to this task's policy."""
    switch = T.rule_switch[rule]
    return switch < 0 or t.switches >> switch & 1 == 1


@kernel
def all_hold(T: Any, t: Any, f: Any, first: int, behind: int) -> bool:
    """Whether conditions `first` up to `behind` all hold."""
    for condition in range(first, behind):
        parameter = T.condition_parameter[condition]
        operand = T.condition_operand[condition]
        if parameter >= 0:
            operand = t.parameters[parameter]
        fact = f.facts[T.condition_field[condition]]
        operator = T.condition_operator[condition]
        if operator == _EQUAL:
            holds = fact == operand
        elif operator == _AT_MOST:
            holds = fact <= operand
        elif operator == _AT_LEAST:
            holds = fact >= operand
        elif operator == _LESS:
            holds = fact < operand
        elif operator == _MORE:
            holds = fact > operand
        else:
            holds = fact != operand
        if not holds:
            return False
    return True


@kernel
def breaches(T: Any, t: Any, f: Any, event: int) -> int:
    """Bit set of the obligations that `event` breaks."""
    broken = 0
    for place in range(T.rules_of.shape[1]):
        rule = T.rules_of[event, place]
        if rule < 0:
            break
        if in_force(T, t, rule):
            requires = T.rule_requires[rule]
            if all_hold(T, t, f, T.rule_when[rule], requires):
                if not all_hold(T, t, f, requires, T.rule_behind[rule]):
                    broken |= T.rule_violation[rule]
    return broken


@kernel
def fires(T: Any, t: Any, f: Any, event: int) -> int:
    """The first rule of a decision or a term whose conditions all hold; -1 where none does."""
    for place in range(T.rules_of.shape[1]):
        rule = T.rules_of[event, place]
        if rule < 0:
            break
        if in_force(T, t, rule):
            if all_hold(T, t, f, T.rule_when[rule], T.rule_requires[rule]):
                return rule
    return -1


@kernel
def authority(T: Any, t: Any, f: Any, product: int, quantity: int) -> int:
    """Per mille off the list price that may be given on a product at most."""
    f.facts[CLEARANCE] = T.clearance[t.week, product]
    f.facts[LEFT] = T.stock[t.week, product] - quantity
    f.facts[QUANTITY] = quantity
    rule = fires(T, t, f, ON_AUTHORITY)
    parameter = T.rule_parameter[rule]
    return t.parameters[parameter] if parameter >= 0 else T.rule_value[rule]


@kernel
def price_refusal(
    T: Any, t: Any, f: Any, allowed: int, product: int, quantity: int, discount: int
) -> int:
    """The rule that refuses less than `discount` per mille off; -1 where none does."""
    f.facts[CLEARANCE] = T.clearance[t.week, product]
    f.facts[LEFT] = T.stock[t.week, product] - quantity
    f.facts[BEYOND] = discount - allowed
    return fires(T, t, f, ON_DISCOUNT)


@kernel
def next_discount(t: Any, discount: int, allowed: int) -> int:
    """One step below `discount`, stopping at what is allowed; beyond it where nothing is left."""
    lower = discount + t.parameters[STEP]
    return min(lower, allowed) if discount < allowed else lower


@kernel
def excess(list_price: int, budget: int) -> int:
    """Per mille that a list price lies above the budget, rounded up; below 0 where it does not."""
    return -((budget - list_price) * 1000 // budget)


@kernel
def quoted_price(list_price: int, discount: int) -> int:
    """Cents a piece at a discount in per mille, rounded up."""
    return -(-list_price * (1000 - discount) // 1000)
