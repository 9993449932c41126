"""The catalogue: 72 products in six categories, and what each week makes of them.

    category c ── products 12c … 12c + 11 ── name, features (8 bits), base price
                        │
    week w ─────────────┴── list price, stock, clearance flag, days of delivery

Names and features never change. Price, stock, clearance and delivery are those of a week, and
an episode plays in one week: who knows the catalogue by heart knows nothing of the shelf.
Everything is an integer column, the same in each process; prices are in cents.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from convgym.engine import keys

CATEGORIES = ("laptops", "phones", "cameras", "headphones", "office chairs", "coffee machines")
EACH = 12
"""Products of a category."""
PRODUCTS = EACH * len(CATEGORIES)
FEATURES_EACH = 8
WEEKS = 64
IN_VIEW = 4
"""Products that one search shows at most."""
_WORLD_KEY = 0x5A1E5C0DE5EED001

NAMES: tuple[tuple[str, ...], ...] = (
    (
        "Aster Slim", "Birch Pro", "Cobalt Air", "Delta Work", "Ember Note", "Falcon Edge",
        "Granite Book", "Harbor Lite", "Indigo Studio", "Juniper Flex", "Kestrel Max", "Lumen Go",
    ),
    (
        "Maple One", "Nimbus Mini", "Onyx Plus", "Pearl Ultra", "Quartz Neo", "Raven Prime",
        "Sierra Lite", "Tundra Max", "Umber Zoom", "Vesper Fold", "Willow Core", "Zephyr Edge",
    ),
    (
        "Argus Compact", "Basalt Reflex", "Cygnus Travel", "Dorado Zoom", "Elara Field",
        "Fjord Studio", "Gemini Street", "Halcyon Vlog", "Iris Classic", "Jasper Action",
        "Krypton Macro", "Lyra Pocket",
    ),
    (
        "Alto Wave", "Bravo Tune", "Cadence Quiet", "Duet Studio", "Echo Sport", "Forte Bass",
        "Gamma Call", "Harmonia Air", "Inverno Deep", "Jubilee Live", "Kantor Mix", "Legato Pure",
    ),
    (
        "Arbor Seat", "Bastion Desk", "Calm Curve", "Domus Task", "Ergo Line", "Ferro Frame",
        "Gala Lounge", "Helio Mesh", "Inset Active", "Jura Comfort", "Karst Executive",
        "Linden Swing",
    ),
    (
        "Aroma Bar", "Barista Cube", "Crema Duo", "Dolce Press", "Espro Tower", "Fresco Drip",
        "Gusto Compact", "Herba Steam", "Ischia Lever", "Java Station", "Kaffa Home",
        "Latte Works",
    ),
)  # fmt: skip
EVERY_NAME = tuple(name for names in NAMES for name in names)
"""Of every product, category after category."""

FEATURES: tuple[tuple[tuple[str, str], ...], ...] = (  # name, and what a buyer wants it for
    (
        ("touchscreen", "drawing by hand"),
        ("backlit keyboard", "working in the dark"),
        ("fingerprint reader", "logging in quickly"),
        ("all-day battery", "long train rides"),
        ("dedicated graphics", "video editing"),
        ("numeric keypad", "bookkeeping"),
        ("matte display", "working outdoors"),
        ("stylus support", "taking notes in lectures"),
    ),
    (
        ("wireless charging", "charging on the desk"),
        ("dual SIM", "travelling abroad"),
        ("telephoto lens", "pictures from far away"),
        ("memory card slot", "storing a lot of films"),
        ("headphone jack", "listening with old earphones"),
        ("waterproof casing", "days at the beach"),
        ("fast charging", "topping up in a hurry"),
        ("large display", "reading without glasses"),
    ),
    (
        ("image stabilisation", "shooting by hand at dusk"),
        ("flip screen", "filming oneself"),
        ("weather sealing", "hiking in the rain"),
        ("slow-motion video", "sports clips"),
        ("built-in flash", "family parties"),
        ("eye tracking", "portraits of children"),
        ("silent shutter", "weddings"),
        ("dual card slots", "paid assignments"),
    ),
    (
        ("noise cancelling", "long flights"),
        ("foldable design", "a small bag"),
        ("detachable cable", "home recording"),
        ("multipoint pairing", "switching between two devices"),
        ("ambient mode", "walking in traffic"),
        ("boom microphone", "conference calls"),
        ("low-latency mode", "gaming"),
        ("replaceable ear pads", "many years of use"),
    ),
    (
        ("lumbar support", "a bad back"),
        ("headrest", "leaning back to think"),
        ("mesh back", "hot summers"),
        ("adjustable armrests", "different desks"),
        ("seat depth slider", "very long legs"),
        ("tilt lock", "short naps"),
        ("footrest", "resting the legs"),
        ("heavy-duty frame", "all-day shifts"),
    ),
    (
        ("burr grinder", "fresh beans every morning"),
        ("milk frother", "cappuccino"),
        ("water filter", "hard water"),
        ("thermal jug", "coffee that stays hot"),
        ("descaling alarm", "easy care"),
        ("two-cup brewing", "breakfast for two"),
        ("timer start", "waking up to coffee"),
        ("pressure gauge", "practising espresso"),
    ),
)

ADDONS: tuple[tuple[str, int], ...] = (  # name, price in cents
    ("protection plan", 9900),
    ("protective case", 2900),
    ("padded camera bag", 5900),
    ("travel pouch", 1900),
    ("floor mat", 4900),
    ("cleaning kit", 2400),
)
RIVALS = ("Kastell Direct", "Brightmart", "Onlux", "Merkado")
"""Other shops that a buyer has seen the thing at."""

_CHEAPEST = (549, 249, 299, 59, 119, 79)  # dollars
_DEAREST = (1899, 1199, 1499, 399, 699, 899)


@dataclass(frozen=True, eq=False)
class World:
    """Integer columns; those of a week have a row for each product and week."""

    features: list[int]
    """Bit set of `FEATURES_EACH` features.  # (products,)"""
    price: list[list[int]]
    """List price in cents.  # (weeks, products)"""
    stock: list[list[int]]
    """Pieces.  # (weeks, products)"""
    clearance: list[list[int]]
    """1 where it is being cleared.  # (weeks, products)"""
    delivery: list[list[int]]
    """Working days.  # (weeks, products)"""

    def name(self, product: int) -> str:
        """Two words, unlike any other product's."""
        return EVERY_NAME[product]

    def feature_names(self, product: int) -> list[str]:
        """What the product has."""
        return names_of(product // EACH, self.features[product])

    def matching(self, category: int, mask: int) -> list[int]:
        """Products of a category that have all features of `mask`, in catalogue order."""
        return list(_matching(category, mask))

    def shown(self, week: int, category: int, mask: int) -> tuple[int, ...]:
        """What a search shows: the cheapest `IN_VIEW` of `matching`, cheapest first."""
        return _shown(week, category, mask)

    def nearest(self, week: int, category: int, mask: int) -> int:
        """The cheapest product in stock that lacks the fewest features of `mask`."""
        first, price, stock = category * EACH, self.price[week], self.stock[week]
        return min(
            range(first, first + EACH),
            key=lambda p: (not stock[p], (mask & ~self.features[p]).bit_count(), price[p], p),
        )


def names_of(category: int, mask: int) -> list[str]:
    """Names of the features of a bit set, in the order of `FEATURES`."""
    return [name for f, (name, _) in enumerate(FEATURES[category]) if mask >> f & 1]


def mask_of(category: int, names: list[str]) -> int:
    """The bit set of features by name; -1 where one of them is unknown."""
    known = {name.lower(): 1 << f for f, (name, _) in enumerate(FEATURES[category])}
    mask = 0
    for name in names:
        bit = known.get(name.strip().lower())
        if bit is None:
            return -1
        mask |= bit
    return mask


def money_text(cents: int) -> str:
    """`$1,249` or `$1,186.55`: the one way prices are written in this shop."""
    dollars, rest = divmod(cents, 100)
    return f"${dollars:,}.{rest:02d}" if rest else f"${dollars:,}"


def percent_text(per_mille: int) -> str:
    """`5%` or `7.5%`."""
    whole, tenth = divmod(per_mille, 10)
    return f"{whole}.{tenth}%" if tenth else f"{whole}%"


@cache
def product_by_name(name: str) -> int:
    """Row of the product called `name` in any case; -1 where there is none."""
    wanted = " ".join(name.lower().split())
    for category, names in enumerate(NAMES):
        for place, known in enumerate(names):
            if known.lower() == wanted:
                return category * EACH + place
    return -1


@cache
def _matching(category: int, mask: int) -> tuple[int, ...]:
    features = world().features
    first = category * EACH
    return tuple(p for p in range(first, first + EACH) if features[p] & mask == mask)


@lru_cache(maxsize=1 << 15)
def _shown(week: int, category: int, mask: int) -> tuple[int, ...]:
    price = world().price[week]
    return tuple(sorted(_matching(category, mask), key=lambda p: (price[p], p))[:IN_VIEW])


@cache
def world() -> World:
    """The one catalogue of this version, built once per process."""
    products = np.arange(PRODUCTS, dtype=np.uint64)
    rows = np.arange(WEEKS * PRODUCTS, dtype=np.uint64)

    def column(of: NDArray[np.uint64], index: int, count: int) -> NDArray[np.int64]:
        return keys.below_batch(keys.draw_batch(_WORLD_KEY, keys.WORLD, of, index), count)

    # Each feature is held by 3 to 5 of the 12 products of its category, so that most pairs have
    # a product, and some have none.
    features = np.zeros(PRODUCTS, dtype=np.int64)
    for category in range(len(CATEGORIES)):
        first = category * EACH
        for f in range(FEATURES_EACH):
            order = np.argsort(column(products[first : first + EACH], 10 + f, 1 << 30))
            row = np.array([category * FEATURES_EACH + f], dtype=np.uint64)
            held = 3 + int(column(row, 9, 3)[0])
            features[first + order[:held]] |= 1 << f

    of = np.arange(PRODUCTS) // EACH
    low, high = np.array(_CHEAPEST)[of], np.array(_DEAREST)[of]
    base = low + column(products, 1, 1000) * (high - low) // 1000
    week_base = np.tile(base, WEEKS)
    # A week moves a price by up to a tenth, to a whole dollar ending in 9.
    price = week_base * (900 + column(rows, 2, 201)) // 1000
    price = (price // 10 * 10 + 9) * 100
    stock = np.where(column(rows, 3, 100) < 38, 0, 1 + column(rows, 4, 24))
    clearance = (column(rows, 5, 100) < 18).astype(np.int64)
    delivery = 1 + column(rows, 6, 9)

    def weekly(values: NDArray[np.int64]) -> list[list[int]]:
        table: list[list[int]] = values.reshape(WEEKS, PRODUCTS).tolist()
        return table

    return World(
        features=features.tolist(),
        price=weekly(price),
        stock=weekly(stock),
        clearance=weekly(clearance),
        delivery=weekly(delivery),
    )
