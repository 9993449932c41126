"""What a week's shelf holds for a wish: which needs can be met in it, and by which products.

    needs (bit set) ─► fitting: what a search shows ─► on_sale: in stock, and not too dear

The pools are the (week, needs) that a branch of tasks can be drawn from.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import cache
from itertools import accumulate, combinations
from operator import or_

from convgym.domains.sales import rules
from convgym.domains.sales.world import EACH, FEATURES_EACH, IN_VIEW, World, world

# What a pool asks of its shelves.
IN_STOCK, ALL_SOLD_OUT, NOTHING_FITS, CARRIED, MANY_LEFT, ONE_LEFT_WITH, ALL_COSTLY = range(7)
MOST_SOLD = 5
"""Pieces that are sold without a human, at most, in all episodes (`bulk_above`)."""
COSTLY = rules.PARAMETERS["large_above"][0] // 2
"""Cents a piece from which two pieces are a large order somewhere."""

NEEDS: tuple[int, ...] = tuple(
    sum(1 << f for f in chosen)
    for count in (1, 2)
    for chosen in combinations(range(FEATURES_EACH), count)
)
"""All bit sets of one or two must-have features."""


@cache
def fitting(week: int, category: int, must: int) -> tuple[int, ...]:
    """What a search for these needs shows, cheapest first."""
    return tuple(world().shown(week, category, must))


def on_sale(
    shop: World, week: int, category: int, quantity: int, budget: int, stretch: int
) -> int:
    """Bit set of the products of a category that are in stock in this quantity and whose list price
    is not too far above the budget."""
    prices, cheaper, in_stock = _offers(shop, week, category)
    affordable = cheaper[bisect_right(prices, budget * (1000 + stretch) // 1000)]
    return affordable & in_stock[quantity] if quantity < len(in_stock) else 0


@cache
def _offers(
    shop: World, week: int, category: int
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """The prices of a category in order, the bit sets of its products up to each of them, and of
    those in stock in each quantity that any is in stock in."""
    price, stock = (
        of[week][category * EACH : (category + 1) * EACH] for of in (shop.price, shop.stock)
    )
    places = sorted(range(EACH), key=price.__getitem__)
    return (
        tuple(price[place] for place in places),
        tuple(accumulate((1 << place for place in places), or_, initial=0)),
        tuple(
            sum(1 << place for place in range(EACH) if stock[place] >= quantity)
            for quantity in range(max(stock) + 1)
        ),
    )


def wrong_needs(week: int, category: int, must: int, sold: int) -> list[int]:
    """Other features that the buyer may mix up: something that is `sold` is shown for them, and
    none of it would do, so that it comes out."""
    would_do = _having(category, must)
    return [
        f
        for f, shown in enumerate(_shown_for_each(week, category))
        if shown & sold and not (shown & sold & would_do or must >> f & 1)
    ]


@cache
def _having(category: int, must: int) -> int:
    """Bit set of the products of a category that meet all these needs."""
    return sum(1 << product % EACH for product in world().matching(category, must))


@cache
def _shown_for_each(week: int, category: int) -> tuple[int, ...]:
    """For each feature the bit set of what a search for it alone shows."""
    return tuple(
        sum(1 << product % EACH for product in fitting(week, category, 1 << f))
        for f in range(FEATURES_EACH)
    )


@cache
def pool(weeks: range, category: int, kind: int) -> tuple[tuple[int, int], ...]:
    """(week, needs) of a category that suit a kind of tasks, in a fixed order."""
    shop = world()
    return tuple(
        (week, must)
        for week in weeks
        for must in NEEDS
        if _suits(shop, week, category, must, kind)
    )


def _suits(shop: World, week: int, category: int, must: int, kind: int) -> bool:
    matching = shop.matching(category, must)
    if kind == NOTHING_FITS:
        stock = shop.stock[week][category * EACH : (category + 1) * EACH]
        return not matching and any(stock)
    if not 1 <= len(matching) <= IN_VIEW:  # a fifth would not be shown
        return False
    left = [shop.stock[week][p] for p in matching if shop.stock[week][p]]
    if kind == ALL_SOLD_OUT:
        return not left
    if kind == IN_STOCK:
        return bool(left)
    if kind == MANY_LEFT:
        return bool(left) and max(left) >= MOST_SOLD
    if kind == ONE_LEFT_WITH:
        return len(left) == 1 and left[0] <= MOST_SOLD
    if kind == ALL_COSTLY:
        prices = [shop.price[week][p] for p in matching if shop.stock[week][p]]
        return bool(left) and max(left) >= 2 and min(prices) > COSTLY
    return kind == CARRIED
