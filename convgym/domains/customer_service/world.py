"""The shop: customers and their orders, immutable, the same in every process.

    customer c ── orders 3c, 3c+1, 3c+2 (newest first)
                     └── item → category, price;  stage;  days

Everything is an integer column; names, e-mail addresses and dates are put together only
where somebody reads them. One seeded table is shared by all environments of a process;
what an episode changes lives in its own diff.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache

import numpy as np
from numpy.typing import NDArray

from convgym.engine import keys

CUSTOMERS = 1500
ORDERS_EACH = 3
_WORLD_KEY = 0x0C057043A5E2D100
TODAY = date(2026, 3, 16)
MONTHS = (  # not strftime: %B follows the machine's locale
    "January February March April May June July August September October November December"
).split()

STAGES = ("being processed", "packed", "shipped", "delivered")
PROCESSING, PACKED, SHIPPED, DELIVERED = range(4)
CATEGORIES = ("clothing", "electronics", "home goods", "beauty products")
REASONS = ("damaged", "wrong_item", "changed_mind", "too_late")

ITEMS: tuple[tuple[str, int, int], ...] = (  # name, category, price in cents
    ("rain jacket", 0, 8900),
    ("running shoes", 0, 11900),
    ("wool sweater", 0, 6900),
    ("denim jeans", 0, 7400),
    ("leather belt", 0, 3500),
    ("winter coat", 0, 24900),
    ("silk scarf", 0, 5900),
    ("hiking boots", 0, 21900),
    ("wireless headphones", 1, 15900),
    ("tablet computer", 1, 44900),
    ("bluetooth speaker", 1, 7900),
    ("mechanical keyboard", 1, 12900),
    ("fitness tracker", 1, 9900),
    ("digital camera", 1, 52900),
    ("gaming monitor", 1, 32900),
    ("phone charger", 1, 2500),
    ("desk lamp", 2, 4500),
    ("coffee maker", 2, 13900),
    ("standing desk", 2, 41900),
    ("air purifier", 2, 22900),
    ("cotton bedsheets", 2, 6400),
    ("kitchen scale", 2, 2900),
    ("office chair", 2, 28900),
    ("wall mirror", 2, 9400),
    ("face cream", 3, 3900),
    ("perfume set", 3, 8400),
    ("hair dryer", 3, 6900),
    ("makeup kit", 3, 5400),
    ("electric shaver", 3, 12400),
    ("facial steamer", 3, 4900),
    ("massage device", 3, 23900),
    ("sun lotion", 3, 1900),
)
_FIRST = (
    "Alice Bruno Carla David Elena Felix Grace Hugo Irene Jonas Karin Lucas Maria Nils "
    "Olivia Peter Quinn Rosa Simon Tara Ursula Victor Wanda Yusuf Zoe Amir Bella Cesar "
    "Diana Emil Freya Gavin"
).split()
_LAST = (
    "Adams Baker Castro Dunn Evans Fischer Garcia Hughes Ivanov Jensen Keller Lopez Moore "
    "Novak Olsen Patel Quist Rossi Silva Turner Usher Vogel Walsh Xu Young Zimmer Archer "
    "Brooks Cohen Dalton Ellis Foster"
).split()
STREETS = (
    "Maple Street",
    "Oak Avenue",
    "Station Road",
    "Mill Lane",
    "Harbour View",
    "Church Street",
    "Park Road",
    "Garden Close",
)
TOWNS = ("Ashford", "Brighton", "Camden", "Derby", "Exeter", "Falmouth", "Grantham", "Hereford")


@dataclass(frozen=True)
class World:
    """Integer columns; rows of `orders` belong to customer `row // ORDERS_EACH`."""

    first: list[int]
    last: list[int]
    number: list[int]
    postcode: list[int]
    new_street: list[int]
    new_number: list[int]
    new_town: list[int]
    item: list[int]
    amount: list[int]
    """Cents."""
    stage: list[int]
    placed: list[int]
    """Days before today."""
    due: list[int]
    """Days after today for what is under way; minus the days since delivery otherwise."""
    columns: dict[str, NDArray[np.int64]]
    """The same order columns as arrays, for vectorised choice."""

    def name(self, customer: int) -> str:
        """First and last name."""
        return f"{_FIRST[self.first[customer]]} {_LAST[self.last[customer]]}"

    def email(self, customer: int) -> str:
        """The address the account is kept under."""
        return (
            f"{_FIRST[self.first[customer]]}.{_LAST[self.last[customer]]}"
            f"{self.number[customer]}@example.com"
        ).lower()

    def wrong_email(self, customer: int) -> str:
        """What a customer with a poor memory writes instead; belongs to nobody."""
        name = f"{_FIRST[self.first[customer]]}.{_LAST[self.last[customer]]}"
        number = CUSTOMERS + (self.number[customer] * 7 + 3) % CUSTOMERS  # no account has it
        return f"{name}{number}@example.com".lower()

    def postcode_text(self, customer: int) -> str:
        """Five digits."""
        return f"{self.postcode[customer]:05d}"

    def wrong_postcode(self, customer: int) -> str:
        """A postcode that is not this customer's."""
        return f"{(self.postcode[customer] + 4321) % 90000 + 10000:05d}"

    def address(self, customer: int) -> str:
        """Where the customer would like parcels to go from now on."""
        return (
            f"{self.new_number[customer]} {STREETS[self.new_street[customer]]}, "
            f"{TOWNS[self.new_town[customer]]}"
        )

    def order_id(self, order: int) -> str:
        """`W` and five digits, unlike any other order's."""
        return f"W{10000 + (order * 7919 + 1234) % 89989}"

    def wrong_order_id(self, order: int) -> str:
        """A number off by one, as memory has it: no order has it (tested)."""
        return f"W{10000 + (order * 7919 + 1235) % 89989}"

    def item_name(self, order: int) -> str:
        """What was bought."""
        return ITEMS[self.item[order]][0]

    def category(self, order: int) -> int:
        """Index into `CATEGORIES`."""
        return ITEMS[self.item[order]][1]

    def days_since_delivery(self, order: int) -> int:
        """Days; -1 while it is not delivered."""
        return -self.due[order] if self.stage[order] == DELIVERED else -1

    def customer_by_email(self, email: str) -> int:
        """Row of the account kept under `email`, -1 where there is none."""
        return _accounts().get(email.strip().lower(), -1)

    def order_by_id(self, order_id: str) -> int:
        """Row of an order, -1 where there is none."""
        return _order_rows().get(order_id.strip().upper(), -1)


@cache
def date_text(days_from_today: int) -> str:
    """`14 March`: the one way dates are written in this shop."""
    day = TODAY + timedelta(days=days_from_today)
    return f"{day.day} {MONTHS[day.month - 1]}"


@cache
def _accounts() -> dict[str, int]:
    shop = world()
    return {shop.email(customer): customer for customer in range(CUSTOMERS)}


@cache
def _order_rows() -> dict[str, int]:
    shop = world()
    return {shop.order_id(order): order for order in range(CUSTOMERS * ORDERS_EACH)}


@cache
def world() -> World:
    """The one shop of this version, built once per process."""
    customers = np.arange(CUSTOMERS, dtype=np.uint64)
    orders = np.arange(CUSTOMERS * ORDERS_EACH, dtype=np.uint64)

    def column(rows: NDArray[np.uint64], index: int, count: int) -> NDArray[np.int64]:
        drawn = keys.draw_batch(_WORLD_KEY, keys.WORLD, rows, index)
        return keys.below_batch(drawn, count)

    item = column(orders, 0, len(ITEMS))
    # A quarter of the customers bought the same thing twice: "my headphones" is ambiguous.
    twins = column(customers, 1, 4) == 0
    twin_of = column(customers, 2, ORDERS_EACH)
    rows = np.flatnonzero(twins)
    source = rows * ORDERS_EACH + twin_of[rows]
    target = rows * ORDERS_EACH + (twin_of[rows] + 1) % ORDERS_EACH
    item[target] = item[source]

    stage = np.array([0, 0, 1, 1, 2, 2, 3, 3, 3, 3])[column(orders, 3, 10)]
    delivered_ago = 1 + column(orders, 4, 56)
    due = np.where(stage == DELIVERED, -delivered_ago, 1 + column(orders, 5, 9))
    since = np.where(stage == DELIVERED, delivered_ago, 0) + 2 + column(orders, 6, 4)
    # Newest first, and no two orders of a customer on one day.
    placed = np.maximum(since, 1).reshape(-1, ORDERS_EACH)
    placed = placed + np.arange(ORDERS_EACH)[None, :] * 70
    price = np.array([row[2] for row in ITEMS])[item]
    amount = price + 100 * column(orders, 7, 8)
    columns = {
        "item": item,
        "category": np.array([row[1] for row in ITEMS])[item],
        "amount": amount,
        "stage": stage,
        "days": np.where(stage == DELIVERED, delivered_ago, -1),
    }
    return World(
        first=column(customers, 10, len(_FIRST)).tolist(),
        last=column(customers, 11, len(_LAST)).tolist(),
        number=customers.astype(np.int64).tolist(),
        postcode=(10000 + column(customers, 12, 90000)).tolist(),
        new_street=column(customers, 13, len(STREETS)).tolist(),
        new_number=(1 + column(customers, 14, 180)).tolist(),
        new_town=column(customers, 15, len(TOWNS)).tolist(),
        item=item.tolist(),
        amount=amount.tolist(),
        stage=stage.tolist(),
        placed=placed.ravel().tolist(),
        due=due.tolist(),
        columns=columns,
    )
