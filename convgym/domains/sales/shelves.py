"""What a week's shelf holds for a wish: which needs can be met in it, and by which products.

    needs (bit set) ─► fitting: what a search shows ─► affordable: in stock, and not too dear

The pools are the (week, needs) that a branch of tasks can be drawn from.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations

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


def affordable(
    shop: World, week: int, fits: tuple[int, ...], quantity: int, budget: int, stretch: int
) -> tuple[int, ...]:
    """Those in stock in this quantity whose list price is not too far above the budget."""
    price, stock = shop.price[week], shop.stock[week]
    return tuple(
        p for p in fits if stock[p] >= quantity and rules.excess(price[p], budget) <= stretch
    )


def wrong_needs(
    shop: World, week: int, category: int, must: int, quantity: int, budget: int, stretch: int
) -> list[int]:
    """Other features that the buyer may mix up: there is something to sell for them, and none of
    it would do, so that it comes out."""
    found = []
    for f in range(FEATURES_EACH):
        if not must >> f & 1:
            fits = fitting(week, category, 1 << f)
            sold = affordable(shop, week, fits, quantity, budget, stretch)
            if sold and all(must & ~shop.features[product] for product in sold):
                found.append(f)
    return found


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
