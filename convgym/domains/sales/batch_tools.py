"""The tools of the shop on integers: `convgym.domains.sales.tools`, under the same names.

What a tool answers is a code and the numbers that its text is made of (`batch_words`).
"""

from __future__ import annotations

from typing import Any

from convgym.domains.sales import cells
from convgym.domains.sales.batch_records import (
    HAS_ADDON,
    IS_QUOTED,
    IS_READ,
    OF_QUOTE,
    allowed,
    check,
    is_confirmed,
    pieces,
    refresh,
)
from convgym.domains.sales.batch_rules import (
    ALLOWS,
    BEYOND,
    BY,
    CONFIRMED,
    DISCOUNT,
    FIRST,
    IS_LOWER,
    OBJECTED,
    OFFERED,
    ON_BOOK,
    ON_QUOTE,
    REASONS,
    next_discount,
    quoted_price,
)
from convgym.domains.sales.batch_shelves import cheapest, matching
from convgym.domains.sales.records import VIOLATION
from convgym.domains.sales.tools import MOST_DISCOUNT
from convgym.domains.sales.vocabulary import (
    ADD_ADDON,
    BOOK_ORDER,
    CREATE_QUOTE,
    END_CONVERSATION,
    GET_PRODUCT,
    LOWER,
    SEARCH_CATALOGUE,
    TRANSFER_TO_HUMAN,
)
from convgym.domains.sales.world import EACH, PRODUCTS
from convgym.engine.acts import FIRST_TOOL
from convgym.engine.batch import (
    AGENT_ENDED,
    TRANSFERRED,
    call,
    is_legal,
    refuse_illegal,
    result,
    say,
)
from convgym.engine.kernel import kernel

# Codes of results; 0 is that of an illegal act. `row` is week × PRODUCTS + product.
(
    FOUND,  # week, category, features
    READ,  # row, pointer
    QUOTED,  # row, pointer, discount, pieces
    ADDED,  # category
    BOOKED,  # row, total
    LEFT,
    ENDED,
    NOT_IN_VIEW,
    NOT_IN_STOCK,
    BOOKED_ALREADY,
    NOT_QUOTED,
    ADDED_ALREADY,
) = range(1, 13)
_BULK, _LARGE_TOTAL = REASONS.index("bulk"), REASONS.index("large_total")
_NOT_ASKED_FOR = VIOLATION["booked_what_was_not_asked"]


@kernel
def act(T: Any, A: Any, e: Any, b: Any, t: Any, action: int) -> None:
    """Write down what an action number says or calls: `SalesDesk.turn`."""
    if not is_legal(A.needs, b.cell, action):
        refuse_illegal(e, action)
        return
    kind, argument, pointer = A.kind[action], A.argument[action], A.pointer[action]
    if kind < FIRST_TOOL:
        say(e, kind, argument, pointer, A.value[action], 0)
    elif kind == SEARCH_CATALOGUE:
        call(e, kind, t.category, -1, e.needs)
    elif kind == CREATE_QUOTE:
        product = e.in_view[pointer]
        discount = e.discount[product] if e.flags[product] & IS_QUOTED else 0
        if argument == LOWER:
            lowest = allowed(T, e, t, product, pieces(b, t))
            discount = next_discount(t, discount, lowest)
        call(e, kind, pieces(b, t), pointer, min(discount, MOST_DISCOUNT))
    else:
        call(e, kind, argument, pointer, -1)


@kernel
def is_ending(tool: int) -> bool:
    """Transfers and endings, which wait for what is said."""
    return tool in (TRANSFER_TO_HUMAN, END_CONVERSATION)


@kernel
def run(T: Any, e: Any, b: Any, t: Any, at: int) -> None:
    """Run one tool: `ShopTools.call`."""
    tool, argument = e.calls[at, 0], e.calls[at, 1]
    pointer, detail = e.calls[at, 2], e.calls[at, 3]
    if tool == SEARCH_CATALOGUE:
        search(T, e, b, t, argument, detail)
    elif tool == TRANSFER_TO_HUMAN:
        transfer(e, b, t)
    elif tool == END_CONVERSATION:
        e.end = AGENT_ENDED
        result(e, ENDED, 0, 0, 0, 0)
    elif not 0 <= pointer < e.n_view:
        fail(e, NOT_IN_VIEW)
    else:
        product = e.in_view[pointer]
        if tool == GET_PRODUCT:
            e.flags[product] |= IS_READ
            refresh(T, e, b, t)
            result(e, READ, t.week * PRODUCTS + product, pointer, 0, 0)
        elif tool == CREATE_QUOTE:
            quote(T, e, b, t, pointer, product, argument, detail)
        elif not e.flags[product] & IS_QUOTED:
            fail(e, NOT_QUOTED)
        elif tool == ADD_ADDON:
            add_addon(T, e, b, t, product)
        elif tool == BOOK_ORDER:
            book(T, e, b, t, product)


@kernel
def fail(e: Any, code: int) -> None:
    """Charge an error to the budget."""
    e.errors += 1
    result(e, code, 0, 0, 0, 0)


@kernel
def search(T: Any, e: Any, b: Any, t: Any, category: int, features: int) -> None:
    """Put the products that fit in view, cheapest first."""
    shown = cheapest(matching(T, t.week, category, features))
    e.n_view = 0
    for place in range(EACH):
        if shown >> place & 1:
            e.in_view[e.n_view] = T.order[t.week, category, place]
            e.n_view += 1
    # A search in another category has not looked for what is wanted.
    e.searched = features if category == t.category else -1
    b.cell[cells.SEARCHED] = 1
    refresh(T, e, b, t)
    result(e, FOUND, t.week, category, features, 0)


@kernel
def quote(
    T: Any, e: Any, b: Any, t: Any, pointer: int, product: int, quantity: int, discount: int
) -> None:
    """Make or change a quote; charges a discount that the rules do not allow."""
    if T.stock[t.week, product] < quantity:
        fail(e, NOT_IN_STOCK)
        return
    if e.booked >= 0:
        fail(e, BOOKED_ALREADY)
        return
    is_first = not e.flags[product] & IS_QUOTED
    last = 0 if is_first else e.discount[product]
    e.facts[FIRST] = is_first
    e.facts[DISCOUNT] = discount
    e.facts[IS_LOWER] = discount > last
    e.facts[BY] = discount - last
    e.facts[OBJECTED] = e.objected != 0 and e.priced == product
    e.facts[BEYOND] = discount - allowed(T, e, t, product, quantity)
    check(T, e, t, ON_QUOTE)
    if is_first or e.discount[product] != discount or e.quantity[product] != quantity:
        addon = 0 if is_first else e.flags[product] & HAS_ADDON
        e.flags[product] = e.flags[product] & ~OF_QUOTE | IS_QUOTED | addon
        e.discount[product] = discount
        e.quantity[product] = quantity
        e.objected &= e.priced != product
    refresh(T, e, b, t)
    b.cell[cells.PRICE_ACCEPTED] &= last == discount
    result(e, QUOTED, t.week * PRODUCTS + product, pointer, discount, quantity)


@kernel
def add_addon(T: Any, e: Any, b: Any, t: Any, product: int) -> None:
    """Put the add-on into a quote, once."""
    if e.flags[product] & HAS_ADDON or e.booked >= 0:
        fail(e, ADDED_ALREADY)
        return
    e.flags[product] |= HAS_ADDON
    b.cell[cells.ADDON_ADDED] = 1
    refresh(T, e, b, t)
    result(e, ADDED, t.category, 0, 0, 0)


@kernel
def book(T: Any, e: Any, b: Any, t: Any, product: int) -> None:
    """Book a quote; right where the rules allow it, the customer agreed and it is a best one."""
    if e.booked >= 0:
        fail(e, BOOKED_ALREADY)
        return
    agreed = is_confirmed(e, product)
    e.facts[CONFIRMED] = agreed
    e.facts[OFFERED] = b.cell[cells.OFFERED_ADDON]
    check(T, e, t, ON_BOOK)
    quantity, with_addon = e.quantity[product], e.flags[product] & HAS_ADDON != 0
    asked_for = (
        t.effect == ALLOWS
        and is_eligible(t, product)
        and quantity == t.quantity
        and with_addon == (e.addon == 1)
    )
    if not asked_for:
        e.violations |= _NOT_ASKED_FOR
    price = quoted_price(T.price[t.week, product], e.discount[product])
    e.booked = product
    e.decided_right |= agreed and asked_for
    b.cell[cells.WROTE] = 1
    total = price * quantity
    if with_addon:
        total += T.addon_price[t.category]
    result(e, BOOKED, t.week * PRODUCTS + product, total, 0, 0)


@kernel
def is_eligible(t: Any, product: int) -> bool:
    """Whether a product would do in this task."""
    found = False
    for place in range(t.n_eligible):
        found = found or t.eligible[place] == product
    return found


@kernel
def any_read(e: Any, t: Any) -> bool:
    """Whether a product that would do has been read."""
    found = False
    for place in range(t.n_eligible):
        found = found or e.flags[t.eligible[place]] & IS_READ != 0
    return found


@kernel
def transfer(e: Any, b: Any, t: Any) -> None:
    """Hand over to a person, which ends the conversation; right where the rules say so."""
    e.end = TRANSFERRED
    e.transferred = 1
    bulk = t.reason == _BULK and b.cell[cells.BULK] != 0
    right = bulk or (t.reason == _LARGE_TOTAL and any_read(e, t))
    e.decided_right |= right
    result(e, LEFT, 0, 0, 0, 0)
