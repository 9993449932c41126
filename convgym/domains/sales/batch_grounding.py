"""What a reply says and calls in the state of a row: `convgym.domains.sales.grounding` and the
second half of `calls` on integers, under the same names.

    a row of `calls`  ─► is it in view?      ─► e.calls | an answer that quotes the reply
    rows of `claims`  ─► which product, true? ─► e.said  ─► weighed, as one reply

`r` is the record of a reply (`batch_reading`); what it holds is numbers, and texts are compared no
more. `T` are the shop's tables, `e` an episode's record, `b` one with its belief as `cell`, `t` its
task.
"""

from __future__ import annotations

from typing import Any

from convgym.domains.sales import cells
from convgym.domains.sales.batch_hearing import product_at
from convgym.domains.sales.batch_reading import (
    ABSENT,
    ADDON_PRICE,
    ARGUMENT,
    ASKED_FOR,
    AUTHORITY,
    CONFIRM,
    DELIVERY,
    DENY,
    DETAIL,
    DISCOUNT,
    DONE,
    FEATURE,
    FLOOR,
    HANDLE,
    HOLD,
    KIND,
    LIST_PRICE,
    MOST_SUMS,
    NAMED,
    NOTHING,
    OFFER,
    PRICE,
    PROBLEM,
    PRODUCT,
    RECOMMEND,
    SAVING,
    SLOT,
    SOME,
    SPOKEN,
    STOCK,
    SUMS,
    TOOL,
    TOTAL,
    VALUE,
)
from convgym.domains.sales.batch_records import (
    HAS_ADDON,
    IS_QUOTED,
    IS_READ,
    IS_RECOMMENDED,
    IS_TOLD,
    PENDING,
    allowed,
    has,
    pieces,
)
from convgym.domains.sales.batch_rules import PARAMETERS, authority, price_refusal, quoted_price
from convgym.domains.sales.batch_shelves import nearest
from convgym.domains.sales.grounding import _DOLLAR, _ELSEWHERE_FEATURE, ELSEWHERE
from convgym.domains.sales.tools import order_id
from convgym.domains.sales.vocabulary import (
    ADDON,
    DENIALS,
    FACT_AUTHORITY,
    FACT_DELIVERY,
    FACT_FEATURE,
    FACT_LIST_PRICE,
    FACT_STOCK,
    HELD,
    NEAREST,
    OBJECTIONS,
    PRICE_DENIALS,
    TOLD,
)
from convgym.domains.sales.world import EACH, FEATURES_EACH, PRODUCTS
from convgym.engine import acts
from convgym.engine.batch import QUOTED, SAID_WIDTH, result, say
from convgym.engine.kernel import kernel

_AUTHORITY = PARAMETERS.index("authority")
_OUT_OF_STOCK = DENIALS.index("out_of_stock")
_DELIVERY = OBJECTIONS.index("delivery")
_FIRST_ORDER, _ORDERS_A_WEEK = 10000, 1000
assert order_id(3, 5) == f"S{_FIRST_ORDER + 3 * _ORDERS_A_WEEK + 5}"
_GONE = -1
"""Kind of an act of speech that is left out."""


@kernel
def place_in_view(e: Any, named: int) -> int:
    """Place in view of a product that is named; -1 where it is not in view."""
    if named >= HANDLE:
        place = named - HANDLE - 1
        return place if place < e.n_view else -1
    for place in range(e.n_view):
        if e.in_view[place] == named:
            return place
    return -1


# -- calls ---------------------------------------------------------------------------------------


@kernel
def take_reading(e: Any, r: Any) -> None:
    """Answer the errors of a reply, and note which tools it calls and that it speaks."""
    for place in range(r.n_errors):
        e.errors += 1
        result(e, QUOTED, place, 0, 0, 0)
    e.n_errors, e.n_calls, e.n_said = r.n_errors, r.n_calls, r.n_claims
    e.reply_length = r.length
    for at in range(r.n_calls):
        e.calls[at, 0] = r.calls[at, TOOL]


@kernel
def ground_call(e: Any, r: Any, at: int) -> bool:
    """Fill in what a call points at now; where it cannot be run, answer that and charge it."""
    named, problem, pointer = r.calls[at, PRODUCT], r.calls[at, PROBLEM], -1
    if named != NOTHING:
        pointer = place_in_view(e, named)
        if pointer < 0:
            problem = r.calls[at, ABSENT]
    if problem >= 0:
        e.errors += 1
        result(e, QUOTED, problem, 0, 0, 0)
        return False
    e.calls[at, 1], e.calls[at, 2] = r.calls[at, ARGUMENT], pointer
    e.calls[at, 3] = r.calls[at, DETAIL]
    return True


# -- claims, one by one --------------------------------------------------------------------------


@kernel
def ground_speech(T: Any, e: Any, b: Any, t: Any, r: Any) -> None:
    """Write down what the claims of a reply say, held against what the desk knows by now."""
    e.n_said = 0
    for at in range(r.n_claims):
        kind, slot = r.claims[at, KIND], r.claims[at, SLOT]
        value, named = r.claims[at, VALUE], r.claims[at, NAMED]
        if kind == SPOKEN:
            add(e, slot, value, -1, 0, acts.KNOWN)
        elif kind == FEATURE:
            feature(T, e, t, slot, value, named)
        elif kind == DELIVERY or kind == STOCK:
            of_shelf(T, e, b, t, kind, value, named)
        elif kind == RECOMMEND:
            recommended(T, e, b, t, slot, named)
        elif kind == FLOOR or kind == DENY:
            denied(T, e, b, t, r, kind, slot, named)
        elif kind == OFFER:
            offered(T, e, b, t, r, slot, value)
        elif kind == DONE:
            reported(T, e, t, r, at)
        else:
            of_price(T, e, b, t, r, at)
    weigh(e, b)
    if r.n_claims and not e.n_said:
        say(e, acts.UNCLEAR, 0, -1, 0, acts.KNOWN)


@kernel
def add(e: Any, kind: int, argument: int, pointer: int, value: int, claim: int) -> None:
    """One more act of speech; what is said already is not said again."""
    for at in range(e.n_said):
        if (
            e.said[at, 0] == kind
            and e.said[at, 1] == argument
            and e.said[at, 2] == pointer
            and e.said[at, 3] == value
            and e.said[at, 4] == claim
        ):
            return
    say(e, kind, argument, pointer, value, claim)


@kernel
def tell(e: Any, fact: int, pointer: int, true: bool) -> None:
    """One more fact, true or false."""
    add(e, acts.TELL, fact, pointer, 0, acts.TRUE if true else acts.FALSE)


@kernel
def pointer_of(e: Any, named: int) -> int:
    """Place in view; -1 where no product is named, `ELSEWHERE` for one out of view."""
    if named == NOTHING:
        return -1
    place = place_in_view(e, named)
    return place if place >= 0 else ELSEWHERE


# -- what is told of a product -------------------------------------------------------------------


@kernel
def feature(T: Any, e: Any, t: Any, has_it: int, number: int, named: int) -> None:
    """A feature that a product is said to have or to lack, held against what was read of it."""
    pointer = pointer_of(e, named)
    product = product_at(e, pointer)
    if number == ASKED_FOR:
        if e.feature < 0:
            add(e, acts.CHAT, 0, -1, 0, acts.KNOWN)
            return
        number = t.category * FEATURES_EACH + e.feature
    if not has(e, product, IS_READ):
        add(e, acts.TELL, FACT_FEATURE, pointer, 0, acts.UNSUPPORTED)
        return
    category, place = number // FEATURES_EACH, number % FEATURES_EACH
    own = product // EACH == category
    held = own and T.features[product] >> place & 1 == 1
    value = (1 + 2 * place if own else _ELSEWHERE_FEATURE + 1) + has_it
    claim = acts.TRUE if held == (has_it != 0) else acts.FALSE
    add(e, acts.TELL, FACT_FEATURE, pointer, value, claim)


@kernel
def of_shelf(T: Any, e: Any, b: Any, t: Any, kind: int, value: int, named: int) -> None:
    """When a product would come, and how many of it there are."""
    pointer = pointer_of(e, named)
    product = product_at(e, pointer)
    fact = FACT_DELIVERY if kind == DELIVERY else FACT_STOCK
    if not has(e, product, IS_READ):
        add(e, acts.TELL, fact, pointer, 0, acts.UNSUPPORTED)
    elif kind == STOCK:
        stock = T.stock[t.week, product]
        tell(e, fact, pointer, stock > 0 if value == SOME else stock == value)
    elif value == T.delivery[t.week, product] and b.cell[PENDING[_DELIVERY]]:
        add(e, acts.EXPLAIN, 1 + _DELIVERY, -1, 0, acts.KNOWN)
    else:
        tell(e, fact, pointer, value == T.delivery[t.week, product])


# -- prices --------------------------------------------------------------------------------------


@kernel
def of_price(T: Any, e: Any, b: Any, t: Any, r: Any, at: int) -> None:
    """Whatever is said of a price: it is that of the product named or spoken of, else that of the
    only one quoted."""
    kind, value = r.claims[at, KIND], r.claims[at, VALUE]
    pointer = pointer_of(e, r.claims[at, NAMED])
    product = product_at(e, pointer)
    if pointer < 0 and not has(e, product, IS_QUOTED):
        only = only_quoted(e)
        if only >= 0:
            pointer, product = only, e.in_view[only]
    if kind == PRICE:
        quoted(T, e, t, r, pointer, product, value)
    elif kind == TOTAL or kind == DISCOUNT or kind == SAVING:
        quoted_sum(T, e, b, t, r, kind, pointer, product, value)
    elif kind == LIST_PRICE:
        list_price(T, e, t, r, pointer, product, value)
    elif kind == ADDON_PRICE:
        if value != T.addon_price[t.category]:
            tell(e, FACT_LIST_PRICE, pointer, False)
    elif kind == AUTHORITY:
        right = value == t.parameters[_AUTHORITY]
        if product >= 0 and not right:
            right = value == allowed(T, e, t, product, pieces(b, t))
        tell(e, FACT_AUTHORITY, pointer, right)
    elif kind == HOLD:
        # Of a price that was not told there is nothing to stand by.
        if has(e, product, IS_QUOTED) and has(e, product, IS_TOLD):
            add(e, acts.QUOTE, HELD, pointer, price_of(T, e, t, product), acts.KNOWN)
    elif kind == CONFIRM:
        true = has(e, product, IS_QUOTED) and agrees(T, e, t, r, at, product)
        add(e, acts.CONFIRM, 0, pointer, 0, acts.KNOWN if true else acts.FALSE)


@kernel
def only_quoted(e: Any) -> int:
    """Place of the only product in view with a quote; -1 where there are none or several."""
    found = -1
    for place in range(e.n_view):
        if e.flags[e.in_view[place]] & IS_QUOTED:
            if found >= 0:
                return -1
            found = place
    return found


@kernel
def price_of(T: Any, e: Any, t: Any, product: int) -> int:
    """Cents a piece, as it is quoted."""
    return quoted_price(T.price[t.week, product], e.discount[product])


@kernel
def is_total(T: Any, e: Any, t: Any, product: int, price: int, spoken: int) -> bool:
    """Whether a sum is what the quote comes to, with the add-on of the category or without."""
    total = price * e.quantity[product]
    return spoken == total or spoken == total + T.addon_price[t.category]


@kernel
def tell_price(e: Any, r: Any, pointer: int, price: int) -> None:
    """A true price, told or promised to hold."""
    add(e, acts.QUOTE, HELD if r.holds else TOLD, pointer, price, acts.KNOWN)


@kernel
def quoted(T: Any, e: Any, t: Any, r: Any, pointer: int, product: int, spoken: int) -> None:
    """A price: of the quote, its total, the list price, or a falsehood."""
    if has(e, product, IS_QUOTED):
        price = price_of(T, e, t, product)
        if spoken == price or is_total(T, e, t, product, price, spoken):
            tell_price(e, r, pointer, price)
            return
    if product >= 0 and spoken == T.price[t.week, product]:
        tell(e, FACT_LIST_PRICE, pointer, True)
    else:
        add(e, acts.QUOTE, TOLD, pointer, spoken, acts.FALSE)


@kernel
def quoted_sum(
    T: Any, e: Any, b: Any, t: Any, r: Any, role: int, pointer: int, product: int, spoken: int
) -> None:
    """A total, a discount, or what is saved."""
    if product < 0:
        add(e, acts.QUOTE, TOLD, pointer, 0, acts.FALSE)
        return
    listed = T.price[t.week, product]
    if not has(e, product, IS_QUOTED):
        if role == TOTAL and spoken == listed * pieces(b, t):
            tell(e, FACT_LIST_PRICE, pointer, True)
        else:
            add(e, acts.QUOTE, TOLD, pointer, 0, acts.FALSE)
        return
    price = price_of(T, e, t, product)
    if role == SAVING:
        saved = listed - price
        apart = saved - spoken
        apart_of_all = saved * e.quantity[product] - spoken
        right = saved != 0 and (0 <= apart < _DOLLAR or 0 <= apart_of_all < _DOLLAR)
    elif role == DISCOUNT:
        right = spoken == e.discount[product]
    else:
        right = is_total(T, e, t, product, price, spoken)
    if right:
        tell_price(e, r, pointer, price)
    else:
        add(e, acts.QUOTE, TOLD, pointer, price, acts.FALSE)


@kernel
def list_price(T: Any, e: Any, t: Any, r: Any, pointer: int, product: int, spoken: int) -> None:
    """A price called the list price; where the quote is at list, it tells the quote too."""
    true = product >= 0 and spoken == T.price[t.week, product]
    at_list = has(e, product, IS_QUOTED) and not e.discount[product]
    if true and at_list and not r.quotes:
        tell_price(e, r, pointer, spoken)
    else:
        tell(e, FACT_LIST_PRICE, pointer, true)


# -- recommendations, refusals, offers -----------------------------------------------------------


@kernel
def nearest_found(T: Any, e: Any, b: Any, t: Any) -> int:
    """The product that comes nearest to what was searched for in vain; -1 where none is."""
    if not b.cell[cells.NONE_FOUND]:
        return -1
    return nearest(T, t.week, t.category, e.searched)


@kernel
def recommended(T: Any, e: Any, b: Any, t: Any, with_quote: int, named: int) -> None:
    """A product recommended: the nearest one found is offered, one spoken of is small talk."""
    if named == NOTHING:
        return
    # As in the plain grounding, a name that is no product's is no nearest one's, either.
    if (named if named < PRODUCTS else -1) == nearest_found(T, e, b, t):
        add(e, acts.OFFER, NEAREST, -1, 0, acts.KNOWN)
        return
    pointer = pointer_of(e, named)
    product = product_at(e, pointer)
    if with_quote and has(e, product, IS_RECOMMENDED):
        add(e, acts.CHAT, 0, -1, 0, acts.KNOWN)  # "would you like a quote for it?"
    else:
        add(e, acts.RECOMMEND, 0, pointer, 0, acts.KNOWN)


@kernel
def offered(T: Any, e: Any, b: Any, t: Any, r: Any, offer: int, mentions: int) -> None:
    """An offer of the add-on or of the nearest product; of another product, a recommendation."""
    if offer == ADDON and (e.addon == 1 or any_addon(e)):
        return  # spoken of, and sold already
    if offer == NEAREST and mentions:
        product = nearest_found(T, e, b, t)
        if product >= 0:
            named = r.mentioned[product // EACH] >> product % EACH & 1 == 1
        else:
            named = r.mentions_other != 0
        if not named:
            pointer = pointer_of(e, r.last_mentioned)
            add(e, acts.RECOMMEND, 0, pointer, 0, acts.KNOWN)
            return
    add(e, acts.OFFER, offer, -1, 0, acts.KNOWN)


@kernel
def any_addon(e: Any) -> bool:
    """Whether the add-on is in any quote."""
    found = 0
    for product in range(PRODUCTS):
        found |= e.flags[product] & HAS_ADDON
    return found != 0


@kernel
def denied(T: Any, e: Any, b: Any, t: Any, r: Any, kind: int, reason: int, named: int) -> None:
    """A refusal, for its reason: prices by the floor, stock by the product that is named."""
    if e.booked >= 0:
        return  # what has been done is not refused
    if kind == FLOOR:
        if not r.denies_price:
            at_floor(T, e, t)
        return
    if reason == _OUT_OF_STOCK and named != NOTHING:
        pointer = pointer_of(e, named)
        product = product_at(e, pointer)
        wanted = pieces(b, t)
        if product >= 0 and not all_gone(T, e, t, wanted):
            if has(e, product, IS_READ):
                tell(e, FACT_STOCK, pointer, T.stock[t.week, product] < wanted)
            else:
                add(e, acts.TELL, FACT_STOCK, pointer, 0, acts.UNSUPPORTED)
            return
    add(e, acts.DENY, reason, -1, 0, acts.KNOWN)


@kernel
def at_floor(T: Any, e: Any, t: Any) -> None:
    """"I can't go any lower": true where the price is as low as may be, whatever the reason.

    Only the authority is a reason that goes without saying.
    """
    product = e.priced
    if has(e, product, IS_QUOTED):
        quantity, discount = e.quantity[product], e.discount[product]
        lowest = authority(T, t, e, product, quantity)
        if discount >= lowest:
            rule = price_refusal(T, t, e, lowest, product, quantity, discount)
            if rule < 0 or T.rule_reason[rule] != 0:
                if e.named == product:
                    price = price_of(T, e, t, product)
                    add(e, acts.QUOTE, HELD, -1, price, acts.KNOWN)
                return
    add(e, acts.DENY, 0, -1, 0, acts.KNOWN)


@kernel
def all_gone(T: Any, e: Any, t: Any, wanted: int) -> bool:
    """All that the newest search has shown was read, and none of it is left."""
    for place in range(e.n_view):
        product = e.in_view[place]
        if not e.flags[product] & IS_READ or T.stock[t.week, product] >= wanted:
            return False
    return True


# -- the deal ------------------------------------------------------------------------------------


@kernel
def agrees(T: Any, e: Any, t: Any, r: Any, at: int, product: int) -> bool:
    """Whether pieces and sums that are named are those of the quote."""
    named, quantity = r.claims[at, VALUE], e.quantity[product]
    if named and named != quantity:
        return False
    price, addon = price_of(T, e, t, product), T.addon_price[t.category]
    with_addon = e.flags[product] & HAS_ADDON != 0
    total = price * quantity
    with_all = total + addon if with_addon else total
    for place in range(SUMS, SUMS + MOST_SUMS):
        spoken = r.claims[at, place]
        if not spoken:
            break
        own = spoken == price or spoken == total or spoken == with_all
        own = own or spoken == T.price[t.week, product]
        if not own and not (spoken == addon and (with_addon or e.addon != 0)):
            return False
    return True


@kernel
def reported(T: Any, e: Any, t: Any, r: Any, at: int) -> None:
    """A report of a booking: true where order, product and figures are those of the booking."""
    booked, true = e.booked, False
    if booked >= 0:
        order, named = r.claims[at, SLOT], r.claims[at, NAMED]
        number = _FIRST_ORDER + t.week * _ORDERS_A_WEEK + booked
        right = order == 0 or order == number
        this = named == NOTHING or product_at(e, pointer_of(e, named)) == booked
        true = right and this and agrees(T, e, t, r, at, booked)
    add(e, acts.REPORT_DONE, 0, -1, 0, acts.KNOWN if true else acts.FALSE)


# -- the whole reply -----------------------------------------------------------------------------


@kernel
def weigh(e: Any, b: Any) -> None:
    """Each price once, and not beside the refusal or the question that it belongs to.

    What a product truly has is the reason why it is recommended, and no answer of its own but to
    the question for just that.
    """
    if e.n_said < 2:
        return
    confirms = refuses = answers = offers_nearest = False
    for at in range(e.n_said):
        kind, argument = e.said[at, 0], e.said[at, 1]
        confirms = confirms or kind == acts.CONFIRM
        refuses = refuses or (kind == acts.DENY and argument < PRICE_DENIALS)
        answers = answers or (kind == acts.EXPLAIN and is_pending(b, argument))
        offers_nearest = offers_nearest or (kind == acts.OFFER and argument == NEAREST)
    for at in range(e.n_said):
        kind, argument, pointer = e.said[at, 0], e.said[at, 1], e.said[at, 2]
        gone = False
        if kind == acts.QUOTE and e.said[at, 4] == acts.KNOWN:
            product = product_at(e, pointer)
            told = e.flags[product] & IS_TOLD != 0
            gone = confirms or (refuses and told) or is_among(e, acts.QUOTE, product, at)
        elif kind == acts.TELL:
            if is_feature_had(e, at):
                gone = is_among(e, acts.RECOMMEND, product_at(e, pointer), e.n_said)
        elif kind == acts.EXPLAIN:
            gone = answers and not is_pending(b, argument)  # the rest belongs to that answer
        elif kind == acts.RECOMMEND:
            gone = offers_nearest and pointer == ELSEWHERE
        if gone:
            e.said[at, 0] = _GONE
    leave_out_gone(e)
    if refuses:
        put_denials_last(e)  # a price has to be known before it is the lowest


@kernel
def is_pending(b: Any, argument: int) -> bool:
    """Whether an explanation answers an objection that is open."""
    return argument > 0 and b.cell[PENDING[argument - 1]] != 0


@kernel
def is_among(e: Any, kind: int, product: int, behind: int) -> bool:
    """Whether a product is spoken of, and not falsely, in this way before a place."""
    for at in range(behind):
        if e.said[at, 0] == kind and e.said[at, 4] == acts.KNOWN:
            if product_at(e, e.said[at, 2]) == product:
                return True
    return False


@kernel
def is_feature_had(e: Any, at: int) -> bool:
    """Whether it says, truly, that a product has a feature for which nobody has asked."""
    if e.said[at, 1] != FACT_FEATURE or e.said[at, 4] != acts.TRUE:
        return False
    value = e.said[at, 3]
    asked = 2 + 2 * e.feature if e.feature >= 0 else -1
    return value % 2 == 0 and value != asked


@kernel
def leave_out_gone(e: Any) -> None:
    """Close the gaps that acts left which turned out to say nothing."""
    kept = 0
    for at in range(e.n_said):
        if e.said[at, 0] != _GONE:
            for column in range(SAID_WIDTH):
                e.said[kept, column] = e.said[at, column]
            kept += 1
    e.n_said = kept


@kernel
def put_denials_last(e: Any) -> None:
    """Refusals come last; else the order stays."""
    first = 0
    for at in range(e.n_said):
        if e.said[at, 0] != acts.DENY:
            for before in range(at, first, -1):
                for column in range(SAID_WIDTH):
                    moved = e.said[before, column]
                    e.said[before, column] = e.said[before - 1, column]
                    e.said[before - 1, column] = moved
            first += 1
