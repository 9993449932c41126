"""The catalogue, the policy and the cells as the columns of one record, for kernels.

What a search needs stands by places in the order of prices, cheapest first: `order` names the
product of each place, `held` is for each feature the bit set of places that have it.
"""

from __future__ import annotations

from itertools import product as every
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.domains.sales import batch_rules, cells
from convgym.domains.sales.vocabulary import SAID_CELL
from convgym.domains.sales.world import ADDONS, CATEGORIES, EACH, FEATURES_EACH, WEEKS, World
from convgym.engine.batch import record
from convgym.engine.grading import WEIGHTS


def tables(shop: World) -> NDArray[np.void]:
    """All that kernels look up.  # (1,)"""
    shelves = (WEEKS, len(CATEGORIES))
    order = np.zeros((*shelves, EACH), dtype=np.int32)
    held = np.zeros((*shelves, FEATURES_EACH), dtype=np.int32)
    for week, category in every(*map(range, shelves)):
        price = shop.price[week]
        products = range(category * EACH, (category + 1) * EACH)
        order[week, category] = sorted(products, key=lambda p: (price[p], p))
        for place, product in enumerate(order[week, category].tolist()):
            for f in range(FEATURES_EACH):
                held[week, category, f] |= (shop.features[product] >> f & 1) << place
    return record(
        features=_column(shop.features),
        price=_column(shop.price),
        stock=_column(shop.stock),
        clearance=_column(shop.clearance),
        delivery=_column(shop.delivery),
        order=order,
        held=held,
        addon_price=_column([price for _, price in ADDONS]),
        said_cell=_column(SAID_CELL),
        hearing_cell=_column([cells.HEARING.get(act, -1) for act in range(len(SAID_CELL))]),
        weights=np.array(WEIGHTS),
        **batch_rules.compiled(),
    )


def _column(values: Any) -> NDArray[np.int32]:
    return np.array(values, dtype=np.int32)
