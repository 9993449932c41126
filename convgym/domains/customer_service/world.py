"""The shop: customers with orders, subscriptions and charges, immutable, the same in every process.

    customer c ── orders         3c, 3c+1, 3c+2 (newest first)   item, stage, days, variant, return
               ── subscriptions  2c, 2c+1                        plan, months, how it is paid
               └─ charges        3c, 3c+1, 3c+2                  amount, days, state, purpose

Everything is an integer column; names, e-mail addresses and dates are put together only
where somebody reads them. One seeded table is shared by all environments of a process;
what an episode changes lives in its own diff.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from convgym.engine import keys
from convgym.language.figures import MONTHS

CUSTOMERS = 6000
ORDERS_EACH = 3
SUBSCRIPTIONS_EACH = 2
CHARGES_EACH = 3
_WORLD_KEY = 0x0C057043A5E2D100
TODAY = date(2026, 3, 16)

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
SIZES = ("size S", "size M", "size L", "size XL")
COLOURS = ("black", "white", "blue", "red", "green")
PLANS: tuple[tuple[str, int], ...] = (  # name, cents a month
    ("coffee box", 1990),
    ("razor box", 990),
    ("book club", 1490),
    ("vitamin box", 2490),
    ("snack box", 1790),
    ("flower box", 2990),
    ("wine box", 3990),
    ("tea box", 1290),
)
DUPLICATE, UNASSIGNED, ORDER, PLAN = range(4)
"""What a charge is shown to be for."""
PENDING, BOOKED = range(2)
DEPENDS = {"stock": "variant", "town": "address"}
"""Fields that rest on a detail: what is in stock of what is wanted, and where it is to go."""

Column = NDArray[np.int64]


def _drawn(count: int, rows: int, index: int, table: int = 0) -> Column:
    """A column of draws below `count`; every column has an index of its own.  # (rows,)"""
    every = np.arange(rows, dtype=np.uint64)
    drawn = keys.draw_batch(_WORLD_KEY + table, keys.WORLD, every, index)
    return keys.below_batch(drawn, count)


class Shop:
    """`convgym.desk.world.Records` of the shop."""

    accounts = CUSTOMERS

    def __init__(self) -> None:
        customers = CUSTOMERS
        self.first = _drawn(len(_FIRST), customers, 10).tolist()
        self.last = _drawn(len(_LAST), customers, 11).tolist()
        self.postcode = (10000 + _drawn(90000, customers, 12)).tolist()
        self.new_street = _drawn(len(STREETS), customers, 13).tolist()
        self.new_number = (1 + _drawn(180, customers, 14)).tolist()
        town = _drawn(len(TOWNS), customers, 15)
        one, other = (_drawn(1 << len(COLOURS), customers * ORDERS_EACH, at) for at in (21, 22))
        self._shelf: list[int] = (one | other).tolist()  # bit per variant, three in four are there
        orders = self._orders()
        sent_back = (orders["received"] >= 0).reshape(-1, ORDERS_EACH).sum(axis=1)
        self.columns: dict[str, dict[str, Column]] = {
            "": {
                "returns": np.maximum(_drawn(5, customers, 16), sent_back),
                "hold": (_drawn(5, customers, 17) == 0).astype(np.int64),
                "town": town,
            },
            "order": orders,
            "subscription": self._subscriptions(),
            "charge": {},
        }
        self.columns["charge"] = self._charges()
        self._lists = {
            kind: {name: column.tolist() for name, column in columns.items()}
            for kind, columns in self.columns.items()
        }

    # -- columns -----------------------------------------------------------------------------------

    @cached_property
    def among(self) -> dict[str, NDArray[np.bool_]]:
        """Orders that anybody would ask a thing for, by workflow: see `convgym.desk.tasks`.

        What has come back to the shop already is not returned, exchanged or repaired, and nobody
        misses the refund of what has not arrived.
        """
        order = self.columns["order"]
        kept, arrived = order["received"] < 0, order["stage"] == DELIVERED
        return {"return": kept, "exchange": kept, "warranty": kept, "refund": arrived}

    @staticmethod
    def _orders() -> dict[str, Column]:
        rows = CUSTOMERS * ORDERS_EACH
        item = _drawn(len(ITEMS), rows, 0)
        # A quarter of the customers bought the same thing twice: "my headphones" is ambiguous.
        twin_of = _drawn(ORDERS_EACH, CUSTOMERS, 2)
        twins = np.flatnonzero(_drawn(4, CUSTOMERS, 1) == 0)
        source = twins * ORDERS_EACH + twin_of[twins]
        item[twins * ORDERS_EACH + (twin_of[twins] + 1) % ORDERS_EACH] = item[source]
        stage = np.array([0, 0, 1, 1, 2, 2, 3, 3, 3, 3])[_drawn(10, rows, 3)]
        delivered = stage == DELIVERED
        delivered_ago = 1 + _drawn(56, rows, 4)
        due = np.where(delivered, -delivered_ago, 1 + _drawn(9, rows, 5))
        since = np.where(delivered, delivered_ago, 0) + 2 + _drawn(4, rows, 6)
        # Newest first, and no two orders of a customer on one day.
        placed = np.maximum(since, 1).reshape(-1, ORDERS_EACH)
        placed = placed + np.arange(ORDERS_EACH)[None, :] * 70
        category = np.array([row[1] for row in ITEMS])[item]
        # What came, and what the customer would rather have had.
        choices = np.where(category == 0, len(SIZES), len(COLOURS))
        variant = _drawn(60, rows, 8) % choices
        wanted = (variant + 1 + _drawn(60, rows, 9) % (choices - 1)) % choices
        returned = delivered & (_drawn(2, rows, 18) > 0)
        # Nobody has sent everything back.
        everything = returned.reshape(-1, ORDERS_EACH).all(axis=1)
        returned[np.flatnonzero(everything) * ORDERS_EACH + 1] = False
        return {
            "item": item,
            "category": category,
            "amount": np.array([row[2] for row in ITEMS])[item] + 100 * _drawn(8, rows, 7),
            "stage": stage,
            "days": np.where(delivered, delivered_ago, -1),
            "due": due,
            "placed": placed.ravel(),
            "variant": variant,
            "wanted": wanted,
            "stock": (_drawn(5, rows, 19) > 0).astype(np.int64),
            "received": np.where(returned, _drawn(20, rows, 20) % (delivered_ago + 1), -1),
        }

    @staticmethod
    def _subscriptions() -> dict[str, Column]:
        rows = CUSTOMERS * SUBSCRIPTIONS_EACH
        plan = _drawn(len(PLANS), rows, 0, 1).reshape(-1, SUBSCRIPTIONS_EACH)
        twins = _drawn(6, CUSTOMERS, 1, 1) == 0
        plan[twins, 1] = plan[twins, 0]
        months = _drawn(9, rows, 2, 1).reshape(-1, SUBSCRIPTIONS_EACH) + np.array([0, 2])
        # So many whole months ago, and some days more.
        begun = np.array([(TODAY - _months_before(m)).days for m in range(months.max() + 1)])
        started = begun[months] + 1 + _drawn(26, rows, 3, 1).reshape(-1, SUBSCRIPTIONS_EACH)
        started[:, 1] = np.where(started[:, 0] == started[:, 1], started[:, 1] + 1, started[:, 1])
        return {
            "plan": plan.ravel(),
            "months": months.ravel(),
            "started": started.ravel(),
            "yearly": (_drawn(4, rows, 4, 1) == 0).astype(np.int64),
        }

    @staticmethod
    def _charges() -> dict[str, Column]:
        rows = CUSTOMERS * CHARGES_EACH
        purpose = np.array([DUPLICATE, DUPLICATE, UNASSIGNED, UNASSIGNED, ORDER, ORDER, PLAN])[
            _drawn(7, rows, 0, 2)
        ].reshape(-1, CHARGES_EACH)
        purpose[:, -1] = np.where(purpose[:, -1] == DUPLICATE, ORDER, purpose[:, -1])
        amount = (990 + 10 * _drawn(2000, rows, 1, 2)).reshape(-1, CHARGES_EACH)
        for k in range(CHARGES_EACH - 2, -1, -1):
            # A duplicate charges once more what was charged before it.
            again = purpose[:, k] == DUPLICATE
            amount[again, k] = amount[again, k + 1]
        days = (_drawn(24, rows, 2, 2).reshape(-1, CHARGES_EACH) + np.arange(CHARGES_EACH) * 25) + 1
        state = (_drawn(6, rows, 3, 2) > 0).astype(np.int64)
        return {
            "amount": amount.ravel(),
            "days": days.ravel(),
            "state": state,
            "purpose": purpose.ravel(),
            "valid": (purpose.ravel() >= ORDER).astype(np.int64),
        }

    # -- text --------------------------------------------------------------------------------------

    def text(self, kind: str, row: int, field: str) -> str:
        """See `Records.text`."""
        return self._texts[kind, field](row)

    @cached_property
    def _texts(self) -> dict[tuple[str, str], Callable[[int], str]]:
        account, order = self._lists[""], self._lists["order"]
        plan, charge = self._lists["subscription"], self._lists["charge"]
        return {
            ("", "name"): self.name,
            ("", "email"): self.email,
            ("", "postcode"): lambda row: f"{self.postcode[row]:05d}",
            ("", "returns"): lambda row: str(account["returns"][row]),
            ("", "hold"): lambda row: "security hold" if account["hold"][row] else "none",
            ("", "town"): lambda row: TOWNS[account["town"][row]],
            ("order", "order"): order_id,
            ("order", "item"): lambda row: ITEMS[order["item"][row]][0],
            ("order", "category"): lambda row: CATEGORIES[order["category"][row]],
            ("order", "amount"): lambda row: money(order["amount"][row]),
            ("order", "status"): lambda row: STAGES[order["stage"][row]],
            ("order", "eta"): lambda row: date_text(order["due"][row]),
            ("order", "delivery"): self._delivery,
            ("order", "days"): lambda row: _days(order["days"][row]),
            ("order", "placed"): lambda row: date_text(-order["placed"][row]),
            ("order", "bought"): lambda row: self._kinds(row)[order["variant"][row]],
            ("order", "variant"): lambda row: self._kinds(row)[order["wanted"][row]],
            ("order", "stock"): self._stock,
            ("order", "returned"): self._returned,
            ("order", "address"): lambda row: self.address(row // ORDERS_EACH),
            ("subscription", "subscription"): subscription_id,
            ("subscription", "plan"): lambda row: PLANS[plan["plan"][row]][0],
            ("subscription", "started"): lambda row: date_text(-plan["started"][row]),
            ("subscription", "months"): lambda row: str(plan["months"][row]),
            ("subscription", "paid"): lambda row: "yearly" if plan["yearly"][row] else "monthly",
            ("charge", "charge"): charge_id,
            ("charge", "amount"): lambda row: money(charge["amount"][row]),
            ("charge", "charged"): lambda row: date_text(-charge["days"][row]),
            ("charge", "days"): lambda row: str(charge["days"][row]),
            ("charge", "state"): lambda row: ("pending", "booked")[charge["state"][row]],
            ("charge", "purpose"): self._purpose,
        }

    def name(self, customer: int) -> str:
        """First and last name."""
        return f"{_FIRST[self.first[customer]]} {_LAST[self.last[customer]]}"

    def email(self, customer: int) -> str:
        """The address the account is kept under."""
        return f"{self.name(customer).replace(' ', '.')}{customer}@example.com".lower()

    def address(self, customer: int) -> str:
        """Where the customer would like parcels to go from now on."""
        town = TOWNS[self._lists[""]["town"][customer]]
        return f"{self.new_number[customer]} {STREETS[self.new_street[customer]]}, {town}"

    def _kinds(self, order: int) -> tuple[str, ...]:
        return SIZES if self._lists["order"]["category"][order] == 0 else COLOURS

    def _stock(self, row: int) -> str:
        """Of every variant, since which one is wanted is the customer's to say."""
        order, kinds = self._lists["order"], self._kinds(row)
        there = self._shelf[row] & ~(1 << order["wanted"][row])
        there |= order["stock"][row] << order["wanted"][row]
        words = ("out of stock", "in stock")
        return ", ".join(f"{kind}: {words[there >> k & 1]}" for k, kind in enumerate(kinds))

    def _delivery(self, order: int) -> str:
        day = date_text(self._lists["order"]["due"][order])
        delivered = self._lists["order"]["stage"][order] == DELIVERED
        return f"delivered on {day}" if delivered else f"expected on {day}"

    def _returned(self, order: int) -> str:
        ago = self._lists["order"]["received"][order]
        return "nothing has come back" if ago < 0 else f"return received {ago} days ago"

    def _purpose(self, charge: int) -> str:
        account, k = divmod(charge, CHARGES_EACH)
        purpose = self._lists["charge"]["purpose"][charge]
        if purpose == ORDER:
            return f"order {order_id(account * ORDERS_EACH + k)}"
        if purpose == PLAN:
            return f"plan {subscription_id(account * SUBSCRIPTIONS_EACH)}"
        return ("duplicate", "unassigned")[purpose]

    def wrong(self, kind: str, row: int, field: str) -> str:
        """See `Records.wrong`."""
        if field == "email":
            number = CUSTOMERS + (row * 7 + 3) % CUSTOMERS  # no account has it
            return f"{self.name(row).replace(' ', '.')}{number}@example.com".lower()
        if field == "postcode":
            return f"{(self.postcode[row] + 4321) % 90000 + 10000:05d}"
        return _number(kind, row, 1)

    # -- look-ups ----------------------------------------------------------------------------------

    def find(self, kind: str, text: str) -> int:
        """See `Records.find`."""
        text = text.strip()
        return self._rows[kind].get(text.upper() if kind else text.lower(), -1)

    @cached_property
    def _rows(self) -> dict[str, dict[str, int]]:
        each = {"order": ORDERS_EACH, "subscription": SUBSCRIPTIONS_EACH, "charge": CHARGES_EACH}
        rows = {
            kind: {_number(kind, row): row for row in range(CUSTOMERS * count)}
            for kind, count in each.items()
        }
        rows[""] = {self.email(customer): customer for customer in range(CUSTOMERS)}
        return rows

    def agrees(self, kind: str, row: int, field: str, said: str) -> bool:
        """See `Records.agrees`. An address agrees with its beginning."""
        truth = self.text(kind, row, field)
        if field == "status":
            return said == SHORT_STAGES[self._lists["order"]["stage"][row]] or said == truth
        if field == "address":
            named = plain(said)
            return named == plain(truth)[: len(named)] and bool(named)
        if field == "variant":
            return plain(said)[-1:] == plain(truth)[-1:]
        return plain(said) == plain(truth)

    def same_label(self, kind: str, row: int, other: int) -> bool:
        """See `Records.same_label`."""
        column = {"order": "item", "subscription": "plan", "charge": "amount"}[kind]
        values = self._lists[kind][column]
        return bool(values[row] == values[other])

    def today(self) -> str:
        """See `Records.today`."""
        return f"{date_text(0)} {TODAY.year}"


SHORT_STAGES = ("processing", "packed", "shipped", "delivered")
"""How replies are read to name the stages."""
_NUMBERS = {"order": ("W", 1234), "subscription": ("S", 4321), "charge": ("C", 2718)}


def _number(kind: str, row: int, off: int = 0) -> str:
    """A letter and five digits, unlike any other record's; one off is nobody's (tested)."""
    letter, start = _NUMBERS[kind]
    return f"{letter}{10000 + (row * 7919 + start + off) % 89989}"


def order_id(row: int) -> str:
    """`W` and five digits."""
    return _number("order", row)


def subscription_id(row: int) -> str:
    """`S` and five digits."""
    return _number("subscription", row)


def charge_id(row: int) -> str:
    """`C` and five digits."""
    return _number("charge", row)


def money(cents: int) -> str:
    """`$24.90`."""
    return f"${cents // 100}.{cents % 100:02d}"


def _months_before(months: int) -> date:
    years, month = divmod(TODAY.month - 1 - months, 12)
    return TODAY.replace(year=TODAY.year + years, month=month + 1)


def _days(days: int) -> str:
    return "not delivered" if days < 0 else str(days)


def plain(text: str) -> list[str]:
    """The words of a text in small letters."""
    return "".join(c if c.isalnum() else " " for c in text.lower()).split()


@cache
def date_text(days_from_today: int) -> str:
    """`14 March`: the one way dates are written in this shop."""
    day = TODAY + timedelta(days=days_from_today)
    return f"{day.day} {MONTHS[day.month - 1]}"


@cache
def world() -> Shop:
    """The one shop of this version, built once per process."""
    return Shop()
