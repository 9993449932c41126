"""What the shop keeps of an episode, and how the belief follows from it.

    heard, searched, read, quoted ──► refresh ──► the cells of the products in view

Everything here has passed before the agent's eyes: the cells are computed from what the buyer
said, what tools returned and what the policy document says, never from the task's goal.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from convgym.domains.sales import cells, rules
from convgym.domains.sales.vocabulary import VIEW
from convgym.domains.sales.world import EACH, World
from convgym.engine.episode import Episode

VIOLATION = {name: 1 << bit for bit, name in enumerate(rules.VIOLATIONS)}


class Quote(NamedTuple):
    """A quote as it stands."""

    discount: int
    """Per mille off the list price."""
    quantity: int
    addon: bool = False
    told: bool = False
    """The buyer has been told its price."""
    held: bool = False
    """The agent has stood by it."""


Terms = tuple[int, int, int, bool]
"""What a yes is given to: product, per mille off, pieces, with the add-on or without."""


def terms(product: int, quote: Quote) -> Terms:
    """What the quote for a product offers."""
    return product, quote.discount, quote.quantity, quote.addon


class DeskState:
    """What the shop keeps of one episode beside the belief."""

    __slots__ = (
        "addon",
        "asked_to_confirm",
        "booked",
        "confirmed",
        "countered",
        "decided_right",
        "feature",
        "liked",
        "named",
        "needs",
        "objected",
        "parameters",
        "priced",
        "quotes",
        "read",
        "recommended",
        "rejected",
        "rival",
        "searched",
        "transferred",
        "view",
    )

    def __init__(self, parameters: rules.Parameters) -> None:
        self.parameters = parameters
        self.needs = 0  # features that the buyer has said it must have
        self.view: list[int] = []  # products of the newest search
        self.searched = -1  # the features that it asked for; -1 before any search
        self.read = 0  # bit sets of products: read, recommended, …
        self.recommended = 0
        self.liked = 0
        self.rejected = 0
        self.named = -1  # the product spoken of last
        self.quotes: dict[int, Quote] = {}
        self.priced = -1  # the product whose price was told last
        self.objected = False  # the buyer has objected to that price
        self.asked_to_confirm: Terms | None = None
        self.confirmed: Terms | None = None  # what the buyer has said yes to
        self.feature = -1  # what the buyer has asked about, and was not told
        self.rival = False  # the buyer has named another shop
        self.countered = False  # it has said how much less it would like to pay
        self.addon = 0  # 1 the buyer takes it, 2 it does not
        self.booked = -1
        self.decided_right = False
        self.transferred = False

    def copy(self) -> DeskState:
        """An independent copy."""
        copy = DeskState(self.parameters)
        for name in self.__slots__:
            setattr(copy, name, getattr(self, name))
        copy.view, copy.quotes = list(self.view), dict(self.quotes)
        return copy


def violate(episode: Episode, code: str) -> None:
    """Mark a broken obligation; the first time it goes into the ledger."""
    if not episode.violations & VIOLATION[code]:
        episode.violations |= VIOLATION[code]
        episode.note("violation", code)


def check(episode: Episode, event: str, facts: dict[str, int]) -> None:
    """Mark all obligations that `event` breaks."""
    task = episode.task
    broken = rules.policy(task.switches).breaches(event, facts, episode.desk.parameters)
    for code in broken:
        if broken[code]:
            violate(episode, code)


def allowed(shop: World, episode: Episode, product: int, quantity: int) -> int:
    """Per mille off the list price that may be given on a product at most."""
    task = episode.task
    return rules.authority(
        task.switches,
        episode.desk.parameters,
        shop.clearance[task.week][product],
        shop.stock[task.week][product],
        quantity,
    )


def pieces(episode: Episode) -> int:
    """How many the buyer wants, as far as it has said so."""
    return episode.task.quantity if episode.belief[cells.HEARD_QUANTITY] else 1


def lacking(shop: World, episode: Episode, product: int, needs: int) -> int:
    """Bit set of those of the needs that a product does not meet."""
    if product // EACH != episode.task.category:
        return needs
    return needs & ~shop.features[product]


def too_dear(shop: World, episode: Episode, product: int) -> bool:
    """Whether the list price is further above the budget that was named than may be."""
    task = episode.task
    if not episode.belief[cells.HEARD_BUDGET]:
        return False
    within = rules.is_on(task.switches, "within_budget")
    limit = episode.desk.parameters["stretch"] if within else rules.OWN_STRETCH
    return rules.excess(shop.price[task.week][product], task.budget) > limit


def refresh(shop: World, episode: Episode) -> None:
    """Compute the cells of the products in view anew."""
    belief, desk, task = episode.belief, episode.desk, episode.task
    week, quantity = task.week, pieces(episode)
    limit = desk.parameters["large_above"] or rules.NEVER
    for k in VIEW:
        if k >= len(desk.view):
            for block in cells.IN_VIEW.values():
                belief[block[k]] = 0
            continue
        product = desk.view[k]
        bit, stock = 1 << product, shop.stock[week][product]
        read = bool(desk.read & bit)
        quote = desk.quotes.get(product)
        found = {
            "seen": True,
            "read": read,
            "fits": read and desk.needs and not lacking(shop, episode, product, desk.needs),
            "in_stock": read and stock >= quantity,
            "over_budget": too_dear(shop, episode, product),
            "clearance": read and shop.clearance[week][product],
            "last": read and stock == quantity,
            "large": read and shop.price[week][product] * quantity > limit,
            "recommended": desk.recommended & bit,
            "liked": desk.liked & bit,
            "rejected": desk.rejected & bit,
            "quoted": quote is not None,
            "told_price": quote is not None and quote.told,
            "held_price": quote is not None and quote.held,
            "discounted": quote is not None and quote.discount > 0,
            "at_floor": read
            and quote is not None
            and quote.discount >= allowed(shop, episode, product, quote.quantity),
            "confirmed": quote is not None and desk.confirmed == terms(product, quote),
        }
        for name, holds in found.items():
            belief[cells.IN_VIEW[name][k]] = bool(holds)
    searched = belief[cells.SEARCHED]
    belief[cells.SEARCH_OLD] = searched and desk.searched != desk.needs
    belief[cells.NONE_FOUND] = searched and desk.searched >= 0 and not desk.view
    heard = belief[cells.HEARD_QUANTITY]
    belief[cells.BULK] = heard and quantity > desk.parameters["bulk_above"]
    belief[cells.PRICE_OBJECTED] = desk.objected
    belief[cells.PENDING_FEATURE] = desk.feature >= 0


def error_json(sentence: str) -> str:
    """What a tool answers when it cannot do what it was asked."""
    return json.dumps({"error": sentence})
