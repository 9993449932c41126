"""Sets of a category's products as bit sets of places, the cheapest first.

    matching: all that has what is needed ─► cheapest: those of them that a search shows

Place k in week w is product `T.order[w, category, k]`. What `convgym.domains.sales.shelves` and
the catalogue's searches give as lists, in the order of prices, is here the order of bits.
"""

from __future__ import annotations

from typing import Any

from convgym.domains.sales.world import EACH, FEATURES_EACH, IN_VIEW
from convgym.engine.kernel import kernel

_EVERY_PLACE = (1 << EACH) - 1


@kernel
def count_of(bits: int) -> int:
    """How many members a bit set has."""
    count = 0
    while bits:
        bits &= bits - 1
        count += 1
    return count


@kernel
def lowest(bits: int) -> int:
    """The first member of a bit set that is not empty."""
    place = 0
    while not bits >> place & 1:
        place += 1
    return place


@kernel
def member(bits: int, number: int) -> int:
    """The member of a bit set that comes after `number` others."""
    for _ in range(number):
        bits &= bits - 1
    return lowest(bits)


@kernel
def matching(T: Any, week: int, category: int, needs: int) -> int:
    """Products that have all features of `needs`; -1, which is no set of features, has none."""
    found = _EVERY_PLACE if needs >= 0 else 0
    for f in range(FEATURES_EACH):
        if needs >> f & 1:
            found &= T.held[week, category, f]
    return found


@kernel
def cheapest(bits: int) -> int:
    """What a search shows of what it finds."""
    shown = 0
    for _ in range(IN_VIEW):
        shown |= bits & -bits
        bits &= bits - 1
    return shown


@kernel
def nearest(T: Any, week: int, category: int, needs: int) -> int:
    """The cheapest product in stock that lacks the fewest features of `needs`."""
    best, least = -1, 0
    for place in range(EACH):
        product = T.order[week, category, place]
        lacks = count_of(needs & ~T.features[product])
        if not T.stock[week, product]:
            lacks += FEATURES_EACH + 1
        if best < 0 or lacks < least:
            best, least = product, lacks
    return best
