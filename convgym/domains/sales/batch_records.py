"""What the shop keeps of an episode, as fields of a row, and how the belief follows from it.

`convgym.domains.sales.records` on integers, under the same names. Sets of products and the quotes
are columns with a place for every product of the catalogue: a search in words can show any of
them. `T` are the shop's tables, `e` is an episode's record, `b` one with its belief as `cell`, `t`
its task.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from convgym.domains.sales import cells, rules
from convgym.domains.sales.batch_rules import (
    BULK_ABOVE,
    FACTS,
    LARGE_ABOVE,
    PARAMETERS,
    STRETCH,
    authority,
    breaches,
)
from convgym.domains.sales.vocabulary import LAYOUT, OBJECTIONS, SWITCHES, U
from convgym.domains.sales.world import EACH, IN_VIEW, PRODUCTS
from convgym.engine.batch import Fields, numbers
from convgym.engine.kernel import kernel

TERMS_WIDTH = 4
"""What a yes is given to: product (-1: nothing), per mille off, pieces, 1 with the add-on."""
DESK_FIELDS: Fields = [
    *numbers(
        "needs n_view searched named priced objected feature rival countered addon booked "
        "decided_right transferred"
    ),
    ("in_view", np.int32, (IN_VIEW,)),
    ("asked_to_confirm", np.int32, (TERMS_WIDTH,)),
    ("confirmed", np.int32, (TERMS_WIDTH,)),
    ("discount", np.int16, (PRODUCTS,)),
    ("quantity", np.int16, (PRODUCTS,)),
    ("flags", np.uint8, (PRODUCTS,)),
    ("facts", np.int32, (len(FACTS),)),
]
"""`DeskState`. `discount` and `quantity` are those of quotes; `facts` is where those of an event
are written down for the rules."""
IS_READ, IS_RECOMMENDED, IS_LIKED, IS_REJECTED, IS_QUOTED, HAS_ADDON, IS_TOLD, IS_HELD = (
    1 << bit for bit in range(8)
)
"""Bits of `flags`; the last four are the quote's."""
OF_QUOTE = IS_QUOTED | HAS_ADDON | IS_TOLD | IS_HELD
WITHIN_BUDGET = SWITCHES.index("within_budget")

# -- cells ---------------------------------------------------------------------------------------

_SEEN = cells.IN_VIEW["seen"][0]
_WIDTH = cells.IN_VIEW["seen"][1] - _SEEN
(
    _READ, _FITS, _IN_STOCK, _OVER_BUDGET, _CLEARANCE, _LAST, _LARGE, _RECOMMENDED, _LIKED,
    _REJECTED, _QUOTED, _TOLD_PRICE, _HELD_PRICE, _DISCOUNTED, _AT_FLOOR, _CONFIRMED,
) = (cells.IN_VIEW[name][0] - _SEEN for name in tuple(cells.IN_VIEW)[1:])  # fmt: skip
assert tuple(cells.IN_VIEW) == (
    "seen", "read", "fits", "in_stock", "over_budget", "clearance", "last", "large", "recommended",
    "liked", "rejected", "quoted", "told_price", "held_price", "discounted", "at_floor",
    "confirmed",
)  # fmt: skip
assert all(
    block[k] == block[0] + k * _WIDTH for block in cells.IN_VIEW.values() for k in range(IN_VIEW)
)
POLICY, WANTS, NEEDS = (np.array(block) for block in (cells.POLICY, cells.WANTS, cells.NEEDS))
ASKED, DENIED = np.array(cells.ASKED), np.array(cells.DENIED)
PENDING, ANSWERED = np.array(cells.PENDING), np.array(cells.ANSWERED)
OFFERED = np.array(cells.OFFERED)
_CELLS = len(LAYOUT)


@kernel
def begin_desk(e: Any) -> None:
    """A fresh record."""
    e.needs = e.n_view = e.objected = e.rival = e.countered = e.addon = 0
    e.decided_right = e.transferred = 0
    e.searched = e.named = e.priced = e.feature = e.booked = -1
    e.asked_to_confirm[0] = e.confirmed[0] = -1
    e.flags[:] = 0


@kernel
def check(T: Any, e: Any, t: Any, event: int) -> None:
    """Mark all obligations that `event` breaks; its facts are written down."""
    e.violations |= breaches(T, t, e, event)


@kernel
def allowed(T: Any, e: Any, t: Any, product: int, quantity: int) -> int:
    """Per mille off the list price that may be given on a product at most."""
    return authority(T, t, e, product, quantity)


@kernel
def pieces(b: Any, t: Any) -> int:
    """How many the buyer wants, as far as it has said so."""
    return t.quantity if b.cell[cells.HEARD_QUANTITY] else 1


@kernel
def lacking(T: Any, t: Any, product: int, needs: int) -> int:
    """Bit set of those of the needs that a product does not meet."""
    if product // EACH != t.category:
        return needs
    return needs & ~T.features[product]


@kernel
def is_beyond(list_price: int, budget: int, limit: int) -> bool:
    """`excess(list_price, budget) > limit` without a division: x rounded down is below a whole
    number where x is."""
    return (budget - list_price) * 1000 < -limit * budget


@kernel
def has(e: Any, product: int, flag: int) -> bool:
    """Whether a product has one of the `flags`; no product has none."""
    return product >= 0 and e.flags[product] & flag != 0


@kernel
def ask_to_confirm(e: Any, product: int) -> None:
    """Note what the quote for a product offers as what a yes would be given to."""
    e.asked_to_confirm[0] = product
    e.asked_to_confirm[1] = e.discount[product]
    e.asked_to_confirm[2] = e.quantity[product]
    e.asked_to_confirm[3] = e.flags[product] & HAS_ADDON != 0


@kernel
def is_confirmed(e: Any, product: int) -> bool:
    """Whether the quote for a product offers what the buyer has said yes to."""
    with_addon = e.flags[product] & HAS_ADDON != 0
    return (
        e.confirmed[0] == product
        and e.confirmed[1] == e.discount[product]
        and e.confirmed[2] == e.quantity[product]
        and (e.confirmed[3] != 0) == with_addon
    )


@kernel
def refresh(T: Any, e: Any, b: Any, t: Any) -> None:
    """Compute the cells of the products in view anew."""
    wanted = pieces(b, t)
    limit = t.parameters[LARGE_ABOVE]
    if not limit:
        limit = rules.NEVER
    heard_budget, stretch = b.cell[cells.HEARD_BUDGET] != 0, rules.OWN_STRETCH
    if t.switches >> WITHIN_BUDGET & 1:
        stretch = t.parameters[STRETCH]
    for cell in range(_SEEN, _SEEN + IN_VIEW * _WIDTH):
        b.cell[cell] = 0
    for k in range(e.n_view):
        seen = _SEEN + k * _WIDTH
        product = e.in_view[k]
        flags, price, stock = e.flags[product], T.price[t.week, product], T.stock[t.week, product]
        read, quoted = flags & IS_READ != 0, flags & IS_QUOTED != 0
        b.cell[seen] = 1
        b.cell[seen + _READ] = read
        b.cell[seen + _FITS] = read and e.needs and not lacking(T, t, product, e.needs)
        b.cell[seen + _IN_STOCK] = read and stock >= wanted
        b.cell[seen + _OVER_BUDGET] = heard_budget and is_beyond(price, t.budget, stretch)
        b.cell[seen + _CLEARANCE] = read and T.clearance[t.week, product]
        b.cell[seen + _LAST] = read and stock == wanted
        b.cell[seen + _LARGE] = read and price * wanted > limit
        b.cell[seen + _RECOMMENDED] = flags & IS_RECOMMENDED != 0
        b.cell[seen + _LIKED] = flags & IS_LIKED != 0
        b.cell[seen + _REJECTED] = flags & IS_REJECTED != 0
        b.cell[seen + _QUOTED] = quoted
        b.cell[seen + _TOLD_PRICE] = flags & IS_TOLD != 0
        b.cell[seen + _HELD_PRICE] = flags & IS_HELD != 0
        b.cell[seen + _DISCOUNTED] = quoted and e.discount[product] > 0
        b.cell[seen + _AT_FLOOR] = (
            quoted
            and read
            and e.discount[product] >= allowed(T, e, t, product, e.quantity[product])
        )
        b.cell[seen + _CONFIRMED] = quoted and is_confirmed(e, product)
    searched = b.cell[cells.SEARCHED] != 0
    b.cell[cells.SEARCH_OLD] = searched and e.searched != e.needs
    b.cell[cells.NONE_FOUND] = searched and e.searched >= 0 and not e.n_view
    b.cell[cells.BULK] = b.cell[cells.HEARD_QUANTITY] and t.quantity > t.parameters[BULK_ABOVE]
    b.cell[cells.PRICE_OBJECTED] = e.objected
    b.cell[cells.PENDING_FEATURE] = e.feature >= 0


# -- what the buyer said ---------------------------------------------------------------------------

_REQUEST_PRODUCT, _INFORM_NEEDS, _INFORM_NEEDS_WRONG, _INFORM_NEED_PART = (
    U["request_product"], U["inform_needs"], U["inform_needs_wrong"], U["inform_need_part"]
)  # fmt: skip
_REJECT_FIRST, _REJECT_SECOND, _REJECT_DEAR = (
    U["reject_first"], U["reject_second"], U["reject_dear"]
)  # fmt: skip
_ASK_FEATURE, _LIKE_PRODUCT = U["ask_feature"], U["like_product"]
_COUNTER_OFFER, _OBJECT_PRICE = U["counter_offer"], U["object_price"]
_FIRST_OBJECT, _LAST_OBJECT = cells.OBJECTS[0], cells.OBJECTS[-1]
assert tuple(range(_FIRST_OBJECT, _LAST_OBJECT + 1)) == cells.OBJECTS
_COMPETITOR = U["object_competitor"]
assert OBJECTIONS.index("competitor") == _COMPETITOR - _FIRST_OBJECT
_TAKE_ADDON, _DECLINE_ADDON = U["take_addon"], U["decline_addon"]
_ACCEPT_PRICE, _AFFIRM = U["accept_price"], U["affirm"]


@kernel
def note_user(T: Any, e: Any, b: Any, t: Any) -> None:
    """Put what the buyer said into the belief."""
    for cell in range(cells.FIRST_SAID, _CELLS):
        b.cell[cell] = 0
    for place in range(e.n_acts):
        act = e.acts[place]
        b.cell[T.said_cell[act]] = 1
        if T.hearing_cell[act] >= 0:
            b.cell[T.hearing_cell[act]] = 1
        note_act(e, b, t, act)
    for f in range(NEEDS.shape[0]):
        b.cell[NEEDS[f]] = e.needs >> f & 1
    refresh(T, e, b, t)


@kernel
def note_act(e: Any, b: Any, t: Any, act: int) -> None:
    """What one act of the buyer's changes beside its own cells."""
    if act == _REQUEST_PRODUCT:
        b.cell[cells.HEARD_REQUEST] = b.cell[WANTS[t.category]] = 1
    elif act == _INFORM_NEEDS:
        e.needs = t.must
    elif act == _INFORM_NEEDS_WRONG:
        e.needs = 1 << t.wrong
    elif act in (_INFORM_NEED_PART, _REJECT_FIRST):
        e.needs |= 1 << t.first
    elif act == _REJECT_SECOND:
        e.needs |= 1 << t.second
    elif act == _ASK_FEATURE:
        e.feature = t.nice
    elif act == _LIKE_PRODUCT and e.named >= 0:
        e.flags[e.named] |= IS_LIKED
    elif act in (_COUNTER_OFFER, _OBJECT_PRICE):
        e.objected = e.priced >= 0
        e.countered |= act == _COUNTER_OFFER
        b.cell[cells.PRICE_ACCEPTED] = 0
    elif _FIRST_OBJECT <= act <= _LAST_OBJECT:
        b.cell[PENDING[act - _FIRST_OBJECT]] = 1
        e.rival |= act == _COMPETITOR
    elif act in (_TAKE_ADDON, _DECLINE_ADDON):
        e.addon = 1 if act == _TAKE_ADDON else 2
    if act in (_REJECT_FIRST, _REJECT_SECOND, _REJECT_DEAR):
        if e.named >= 0:
            e.flags[e.named] |= IS_REJECTED
    if act in (_ACCEPT_PRICE, _AFFIRM):
        b.cell[cells.PRICE_ACCEPTED] = 1
    if act == _AFFIRM and e.asked_to_confirm[0] >= 0:
        for place in range(TERMS_WIDTH):
            e.confirmed[place] = e.asked_to_confirm[place]


assert PARAMETERS[: len(rules.PARAMETER_NAMES)] == rules.PARAMETER_NAMES
