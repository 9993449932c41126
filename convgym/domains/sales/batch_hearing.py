"""What the agent's speech means to this buyer: `convgym.domains.sales.hearing` on integers.

Under the same names and in the same order. The cells of the products in view are not computed
anew after each act of speech: nothing reads them before the buyer's answer is noted, and that
does it.
"""

from __future__ import annotations

from typing import Any

from convgym.domains.sales import cells, rules
from convgym.domains.sales.batch_records import (
    ANSWERED,
    ASKED,
    DENIED,
    HAS_ADDON,
    IS_HELD,
    IS_QUOTED,
    IS_READ,
    IS_RECOMMENDED,
    IS_TOLD,
    OFFERED,
    PENDING,
    ask_to_confirm,
    check,
    has,
    is_beyond,
    lacking,
)
from convgym.domains.sales.batch_rules import (
    ALLOWS,
    BUDGET_KNOWN,
    EXCESS,
    NEEDS_KNOWN,
    ON_ADDON,
    ON_RECOMMEND,
    ON_TELL,
    QUANTITY_KNOWN,
    READ,
    REFUSES,
    SOLD,
    TRUE,
    authority,
    excess,
    price_refusal,
)
from convgym.domains.sales.batch_rules import OFFERED as OFFERED_BEFORE
from convgym.domains.sales.hearing import ASKED as ANSWERS_WHAT_WAS_ASKED
from convgym.domains.sales.hearing import LACKS_FIRST, LACKS_SECOND, TOO_DEAR
from convgym.domains.sales.vocabulary import ADDON, FACT_FEATURE, HELD, PRICE_DENIALS, SWITCHES
from convgym.engine import acts
from convgym.engine.batch import hear
from convgym.engine.kernel import kernel

_ADDON_NEVER = SWITCHES.index("addon_never")


@kernel
def hear_said(T: Any, e: Any, b: Any, t: Any) -> None:
    """Weigh each act of speech of this turn."""
    for at in range(e.n_said):
        kind, argument, pointer = e.said[at, 0], e.said[at, 1], e.said[at, 2]
        value, claim = e.said[at, 3], e.said[at, 4]
        if kind == acts.RECOMMEND:
            recommend(T, e, b, t, pointer)
        elif kind == acts.QUOTE:
            quote(T, e, b, t, argument, pointer, claim)
        elif kind == acts.TELL:
            fact(T, e, t, argument, pointer, value, claim)
        elif kind == acts.DENY:
            denial(T, e, b, t, argument)
        elif kind == acts.OFFER:
            offer(T, e, b, t, argument)
        elif kind == acts.CONFIRM:
            confirm(T, e, b, t, pointer, claim)
        elif kind == acts.REPORT_DONE:
            report(T, e, b, t, claim)
        elif kind == acts.PROMISE:
            ours = argument == 0 and t.effect == ALLOWS
            hear(e, acts.PROMISE, argument, -1, acts.FINE if ours else acts.WRONG)
        else:
            if kind == acts.ASK:
                b.cell[ASKED[argument]] = 1
            elif kind == acts.EXPLAIN and argument:
                b.cell[ANSWERED[argument - 1]] = 1
                b.cell[PENDING[argument - 1]] = 0
            hear(e, kind, argument, pointer, acts.FINE)


@kernel
def product_at(e: Any, pointer: int) -> int:
    """The product pointed at; the one spoken of last where none is; -1 for nothing."""
    if 0 <= pointer < e.n_view:
        return e.in_view[pointer]
    return e.named if pointer < 0 else -1


@kernel
def unwanted(T: Any, t: Any, product: int) -> int:
    """What the buyer has against a product: LACKS_FIRST, …; -1 where it would do."""
    lacks = lacking(T, t, product, t.must)
    if lacks:
        return LACKS_FIRST if lacks >> t.first & 1 else LACKS_SECOND
    dear = is_beyond(T.price[t.week, product], t.budget, rules.OWN_STRETCH)
    return TOO_DEAR if dear else -1


@kernel
def recommend(T: Any, e: Any, b: Any, t: Any, pointer: int) -> None:
    """Note a recommendation; one of a product that was not read is doubted."""
    product = product_at(e, pointer)
    if product < 0:
        hear(e, acts.RECOMMEND, 0, -1, acts.DOUBTFUL)
        return
    check_recommended(T, e, b, t, product)
    e.named = product
    e.flags[product] |= IS_RECOMMENDED
    if not e.flags[product] & IS_READ:
        hear(e, acts.RECOMMEND, 0, product, acts.DOUBTFUL)
        return
    against = unwanted(T, t, product)
    if against >= 0:
        hear(e, acts.RECOMMEND, against, product, acts.OTHER_OBJECT)
    else:
        hear(e, acts.RECOMMEND, 0, product, acts.FINE)


@kernel
def check_recommended(T: Any, e: Any, b: Any, t: Any, product: int) -> None:
    """What has to come before a product is put to the buyer, by its name or by its price."""
    e.facts[NEEDS_KNOWN] = b.cell[cells.HEARD_NEEDS] or b.cell[cells.HEARD_PART]
    e.facts[QUANTITY_KNOWN] = b.cell[cells.HEARD_QUANTITY]
    e.facts[BUDGET_KNOWN] = b.cell[cells.HEARD_BUDGET]
    e.facts[EXCESS] = excess(T.price[t.week, product], t.budget)
    e.facts[READ] = e.flags[product] & IS_READ != 0
    check(T, e, t, ON_RECOMMEND)


@kernel
def tell_falsehood(T: Any, e: Any, t: Any) -> None:
    """Something was said that is not so."""
    e.facts[TRUE] = 0
    check(T, e, t, ON_TELL)


@kernel
def quote(T: Any, e: Any, b: Any, t: Any, argument: int, pointer: int, claim: int) -> None:
    """Note a price told or promised; one without a quote, or a false one, is a falsehood."""
    product = product_at(e, pointer)
    if not has(e, product, IS_QUOTED) or claim == acts.FALSE:
        tell_falsehood(T, e, t)
        hear(e, acts.QUOTE, 0, product, acts.DOUBTFUL)
        return
    told = e.flags[product] & IS_TOLD
    check_recommended(T, e, b, t, product)
    name_price(e, product)
    if argument == HELD or told:
        e.flags[product] |= IS_HELD
    against = unwanted(T, t, product)
    if against >= 0:
        hear(e, acts.QUOTE, against, product, acts.OTHER_OBJECT)
    else:
        hear(e, acts.QUOTE, 1000 - e.discount[product], product, acts.FINE)


@kernel
def name_price(e: Any, product: int) -> None:
    """The buyer now knows the price of this quote."""
    if e.priced != product:
        e.objected = 0
    e.named = e.priced = product
    e.flags[product] |= IS_TOLD


@kernel
def fact(
    T: Any, e: Any, t: Any, argument: int, pointer: int, value: int, claim: int
) -> None:
    """Note what is told of a product; what has no basis is doubted, what is wrong a falsehood."""
    product = product_at(e, pointer)
    # 0 is the feature asked for; in words it is named: 1 + 2 f, one more if it is had.
    named_too = value == 0 or value == 1 + 2 * e.feature or value == 2 + 2 * e.feature
    asked = argument == FACT_FEATURE and e.feature >= 0 and named_too
    if claim == acts.KNOWN and not has(e, product, IS_READ):
        claim = acts.UNSUPPORTED
    if claim == acts.FALSE:
        tell_falsehood(T, e, t)
    if claim == acts.FALSE or claim == acts.UNSUPPORTED:
        hear(e, acts.TELL, argument, -1, acts.DOUBTFUL)
        return
    if product >= 0:
        e.named = product
    if asked:
        e.feature = -1
        hear(e, acts.TELL, argument, ANSWERS_WHAT_WAS_ASKED, acts.FINE)
    else:
        hear(e, acts.TELL, argument, -1, acts.FINE)


@kernel
def denial(T: Any, e: Any, b: Any, t: Any, reason: int) -> None:
    """Note a refusal; right where the rules refuse for this reason."""
    b.cell[DENIED[reason]] = 1
    price = reason < PRICE_DENIALS
    true = at_floor(T, e, t, reason) if price else unavailable(e, t, reason)
    if price and not true:
        tell_falsehood(T, e, t)
    right = true and t.effect == REFUSES and t.reason == reason
    if price and right:
        right = False
        for place in range(t.n_best):
            right = right or t.best[place] == e.priced
    e.decided_right |= right
    hear(e, acts.DENY, reason, -1, acts.FINE if true else acts.WRONG)


@kernel
def at_floor(T: Any, e: Any, t: Any, reason: int) -> bool:
    """Whether the price told last is as low as may be, for this reason."""
    product = e.priced
    if not has(e, product, IS_QUOTED) or not has(e, product, IS_TOLD):
        return False
    quantity, discount = e.quantity[product], e.discount[product]
    lowest = authority(T, t, e, product, quantity)
    if discount < lowest:
        return False
    rule = price_refusal(T, t, e, lowest, product, quantity, discount)
    return rule >= 0 and T.rule_reason[rule] == reason


@kernel
def unavailable(e: Any, t: Any, reason: int) -> bool:
    """Whether a search for all that is needed has shown that nothing can be sold."""
    if t.reason != reason or e.searched != t.must:
        return False
    unread = 0
    for place in range(e.n_view):
        unread += e.flags[e.in_view[place]] & IS_READ == 0
    return unread == 0


@kernel
def offer(T: Any, e: Any, b: Any, t: Any, argument: int) -> None:
    """Note an offer; that of the add-on is held against the rules for it."""
    if argument == ADDON:
        e.facts[OFFERED_BEFORE] = b.cell[cells.OFFERED_ADDON]
        e.facts[SOLD] = t.switches >> _ADDON_NEVER & 1 == 0
        check(T, e, t, ON_ADDON)
        b.cell[cells.OFFERED_ADDON] = 1
        hear(e, acts.OFFER, argument, -1, acts.FINE)
    else:
        b.cell[OFFERED[argument]] = 1
        right = t.alternative == argument
        hear(e, acts.OFFER, argument, -1, acts.FINE if right else acts.WRONG)


@kernel
def confirm(T: Any, e: Any, b: Any, t: Any, pointer: int, claim: int) -> None:
    """Note a question for a yes to a quote, and what speaks against the product."""
    product = product_at(e, pointer)
    if not has(e, product, IS_QUOTED) or claim == acts.FALSE:
        tell_falsehood(T, e, t)
        hear(e, acts.CONFIRM, 0, product, acts.DOUBTFUL)
        return
    check_recommended(T, e, b, t, product)
    name_price(e, product)
    against = unwanted(T, t, product)
    with_addon = e.flags[product] & HAS_ADDON != 0
    if against >= 0:
        hear(e, acts.CONFIRM, against, product, acts.OTHER_OBJECT)
    elif e.quantity[product] != t.quantity:
        hear(e, acts.CONFIRM, 0, product, acts.OTHER_REQUEST)
    elif with_addon != (e.addon == 1):
        hear(e, acts.CONFIRM, 0, product, acts.WRONG)
    else:
        ask_to_confirm(e, product)
        hear(e, acts.CONFIRM, 1000 - e.discount[product], product, acts.FINE)


@kernel
def report(T: Any, e: Any, b: Any, t: Any, claim: int) -> None:
    """Note the report of a booking; without one it is a falsehood."""
    # What differs from the base world is the booking, and nothing else.
    done = e.booked >= 0 and e.decided_right != 0 and claim != acts.FALSE
    b.cell[cells.TOLD_DONE] |= done
    if not done:
        tell_falsehood(T, e, t)
    hear(e, acts.REPORT_DONE, 0, -1, acts.FINE if done else acts.WRONG)
