"""How many acts a seller needs who goes by the book: `convgym.domains.sales.lengths` on integers.

Products are places in the order of prices, sets of them bit sets (`batch_shelves`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from convgym.domains.sales import rules
from convgym.domains.sales.batch_records import WITHIN_BUDGET, is_beyond
from convgym.domains.sales.batch_rules import REASONS, REFUSES, STRETCH, next_discount
from convgym.domains.sales.batch_shelves import cheapest, count_of, lowest, matching
from convgym.domains.sales.lengths import BUDGET_ASKS, NEED_ASKS, REFUSE_AND_OFFER, SALE
from convgym.domains.sales.vocabulary import MISTAKEN, SWITCHES
from convgym.domains.sales.world import EACH
from convgym.engine.kernel import kernel

_NEED_ASKS, _BUDGET_ASKS = np.array(NEED_ASKS), np.array(BUDGET_ASKS)
_BULK, _LARGE_TOTAL = REASONS.index("bulk"), REASONS.index("large_total")
_BUDGET_FIRST, _CLEARANCE_FIRM, _LAST_PIECE, _ADDON_FIRST = map(
    SWITCHES.index, ("budget_first", "clearance_firm", "last_piece", "addon_first")
)


@kernel
def oracle_length(T: Any, t: Any) -> int:
    """Agent acts from the first question to the end of the conversation."""
    steps = _NEED_ASKS[t.knowledge] + 1  # the quantity
    if t.switches >> _BUDGET_FIRST & 1:
        steps += _BUDGET_ASKS[t.budget_kind]
    read = rejected = 0
    if t.knowledge == MISTAKEN:
        tried, read, rejected = try_needs(T, t, 1 << t.wrong, read, rejected)
        steps += tried
    if t.reason == _BULK:
        return steps + 2  # search, transfer
    fits = cheapest(matching(T, t.week, t.category, t.must))
    if t.reason == _LARGE_TOTAL:
        return steps + 1 + count_of(fits & ~read) + 1
    if t.alternative >= 0:
        return steps + 1 + count_of(fits & ~read) + REFUSE_AND_OFFER
    tried, read, rejected = try_needs(T, t, t.must, read, rejected)
    steps += tried + (t.nice >= 0) + (t.objection >= 0) + 2 + lowered(t)  # quote, price
    if t.effect == REFUSES:
        return steps + 1
    if t.switches >> _ADDON_FIRST & 1:
        steps += 1 + t.wants_addon
    return steps + SALE


@kernel
def try_needs(T: Any, t: Any, needs: int, read: int, rejected: int) -> tuple[int, int, int]:
    """Search for needs, read what is new, recommend until one is liked or shows the mistake."""
    fits = cheapest(matching(T, t.week, t.category, needs))
    steps = 1 + count_of(fits & ~read)
    read |= fits
    limit = rules.OWN_STRETCH
    if t.switches >> WITHIN_BUDGET & 1:
        limit = t.parameters[STRETCH]
    knows_budget = t.switches >> _BUDGET_FIRST & 1 == 1
    usable = moving = 0
    for place in range(EACH):
        product = T.order[t.week, t.category, place]
        dear = knows_budget and is_beyond(T.price[t.week, product], t.budget, limit)
        if fits >> place & 1 and T.stock[t.week, product] >= t.quantity and not dear:
            usable |= 1 << place
            if not is_firm(T, t, product):
                moving |= 1 << place
    while True:
        usable &= ~rejected
        chosen = lowest(usable & moving if usable & moving else usable)
        product = T.order[t.week, t.category, chosen]
        steps += 1
        dear = is_beyond(T.price[t.week, product], t.budget, rules.OWN_STRETCH)
        if t.must & ~T.features[product] or not dear:
            return steps, read, rejected
        rejected |= 1 << chosen


@kernel
def is_firm(T: Any, t: Any, product: int) -> bool:
    """Whether no discount at all may be given on a product."""
    if T.clearance[t.week, product] and t.switches >> _CLEARANCE_FIRM & 1:
        return True
    last = T.stock[t.week, product] == t.quantity
    return last and t.switches >> _LAST_PIECE & 1 == 1


@kernel
def lowered(t: Any) -> int:
    """Acts spent on going down: a lower quote and its price each."""
    discount = steps = 0
    while (1000 - discount) * 1000 > t.walk and discount < t.allowed:
        discount = next_discount(t, discount, t.allowed)
        steps += 2
    return steps
