"""What the shop keeps of an episode, and how the belief follows from it.

    heard, searched, read, quoted ──► refresh ──► the cells of the products in view

Everything here has passed before the agent's eyes: the cells are computed from what the buyer
said, what tools returned and what the policy document says, never from the task's goal.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from convgym.domains.sales import cells, rules
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
        "allowed",
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
        "rests_on",
        "rival",
        "searched",
        "shelf",
        "transferred",
        "view",
        "wish",
    )

    def __init__(self, parameters: rules.Parameters) -> None:
        self.parameters = parameters
        self.needs = 0  # features that the buyer has said it must have
        self.allowed: dict[tuple[int, int], int] = {}  # looked up so far, by product and pieces
        self.view: tuple[int, ...] = ()  # products of the newest search
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
        self.rests_on: tuple[Any, ...] = ()  # what the cells of the products in view rest on
        self.wish = (0, 0, 0)  # needs, pieces and leeway as far as they have been said
        self.shelf: dict[int, bytes] = {}  # what cells of products hold for this wish
        self.decided_right = False
        self.transferred = False

    def copy(self) -> DeskState:
        """An independent copy."""
        copy = DeskState(self.parameters)
        for name in self.__slots__:
            setattr(copy, name, getattr(self, name))
        copy.quotes = dict(self.quotes)
        return copy


def violate(episode: Episode, code: str) -> None:
    """Mark a broken obligation; the first time it goes into the ledger."""
    if not episode.violations & VIOLATION[code]:
        episode.violations |= VIOLATION[code]
        episode.note("violation", code)


def check(episode: Episode, event: str, facts: dict[str, int]) -> None:
    """Mark all obligations that `event` breaks."""
    policy = rules.policy(episode.task.switches)
    for code in policy.broken(event, facts, episode.desk.parameters):
        violate(episode, code)


def allowed(shop: World, episode: Episode, product: int, quantity: int) -> int:
    """Per mille off the list price that may be given on a product at most."""
    task, known = episode.task, episode.desk.allowed
    if (product, quantity) not in known:
        known[product, quantity] = rules.authority(
            task.switches,
            episode.desk.parameters,
            shop.clearance[task.week][product],
            shop.stock[task.week][product],
            quantity,
        )
    return int(known[product, quantity])


def pieces(episode: Episode) -> int:
    """How many the buyer wants, as far as it has said so."""
    return episode.task.quantity if episode.belief[cells.HEARD_QUANTITY] else 1


def lacking(shop: World, episode: Episode, product: int, needs: int) -> int:
    """Bit set of those of the needs that a product does not meet."""
    if product // EACH != episode.task.category:
        return needs
    return needs & ~shop.features[product]


_WITHIN_BUDGET = 1 << rules.SWITCHES.index("within_budget")


def leeway(episode: Episode) -> int:
    """Per mille that a list price may lie above the budget; `NEVER` before one is named."""
    if not episode.belief[cells.HEARD_BUDGET]:
        return rules.NEVER
    within = episode.task.switches & _WITHIN_BUDGET
    stretch: int = episode.desk.parameters["stretch"]
    return stretch if within else rules.OWN_STRETCH


def refresh(shop: World, episode: Episode) -> None:
    """Compute the cells of the products in view anew, where what they rest on has changed."""
    belief, desk = episode.belief, episode.desk
    searched, heard = belief[cells.SEARCHED], belief[cells.HEARD_QUANTITY]
    if desk.view or desk.rests_on:
        _refresh_places(shop, episode)
    belief[cells.SEARCH_OLD] = searched and desk.searched != desk.needs
    belief[cells.NONE_FOUND] = searched and desk.searched >= 0 and not desk.view
    belief[cells.BULK] = heard and episode.task.quantity > desk.parameters["bulk_above"]
    belief[cells.PRICE_OBJECTED] = desk.objected
    belief[cells.PENDING_FEATURE] = desk.feature >= 0


def _refresh_places(shop: World, episode: Episode) -> None:
    belief, desk = episode.belief, episode.desk
    rests_on = (
        desk.view,
        belief[cells.HEARD_QUANTITY],
        belief[cells.HEARD_BUDGET],
        desk.needs,
        desk.read,
        desk.recommended,
        desk.liked,
        desk.rejected,
        desk.confirmed,
        tuple(desk.quotes.items()) if desk.quotes else (),
    )
    if desk.rests_on != rests_on:
        desk.rests_on = rests_on
        belief[cells.PLACES] = _in_view(shop, episode).ljust(_ALL_PLACES, b"\0")


_ALL_PLACES = cells.PLACES.stop - cells.PLACES.start
_LIKED = tuple(bytes((bits & 1, bits >> 1 & 1, bits >> 2)) for bits in range(8))
_UNQUOTED = bytes(6)
_UNTOUCHED = _LIKED[0] + _UNQUOTED


def _in_view(shop: World, episode: Episode) -> bytes:
    """The cells of the products in view, one product after the other, as in `cells.IN_VIEW`."""
    desk, found = episode.desk, b""
    wish = (desk.needs, pieces(episode), leeway(episode))
    if desk.wish != wish:
        desk.wish, desk.shelf = wish, {}
    shelf, quotes = desk.shelf, desk.quotes
    spoken_of = desk.recommended | desk.rejected | desk.liked
    for product in desk.view:
        read = desk.read >> product & 1
        place = product << 1 | read
        if place not in shelf:
            shelf[place] = _on_shelf(shop, episode, product, read, *wish)
        found += shelf[place]
        if not (spoken_of >> product & 1 or product in quotes):
            found += _UNTOUCHED
            continue
        liked = desk.recommended >> product & 1 | (desk.liked >> product & 1) << 1
        found += _LIKED[liked | (desk.rejected >> product & 1) << 2]
        quote: Quote | None = quotes.get(product)
        if quote is None:
            found += _UNQUOTED
            continue
        at_floor = read and quote.discount >= allowed(shop, episode, product, quote.quantity)
        agreed = desk.confirmed is not None and desk.confirmed == terms(product, quote)
        found += bytes((1, quote.told, quote.held, quote.discount > 0, at_floor, agreed))
    return found


def _on_shelf(
    shop: World, episode: Episode, product: int, read: int, needs: int, quantity: int, over: int
) -> bytes:
    """The cells of a product that what is done with it does not change."""
    week, desk = episode.task.week, episode.desk
    price = shop.price[week][product]
    dear = rules.excess(price, episode.task.budget) > over
    if not read:
        return bytes((1, 0, 0, 0, dear, 0, 0, 0))
    stock, clearance = shop.stock[week][product], shop.clearance[week][product]
    fits = needs > 0 and not lacking(shop, episode, product, needs)
    large = price * quantity > (desk.parameters["large_above"] or rules.NEVER)
    return bytes((1, 1, fits, stock >= quantity, dear, clearance, stock == quantity, large))


def error_json(sentence: str) -> str:
    """What a tool answers when it cannot do what it was asked."""
    return f'{{"error": {json.dumps(sentence)}}}'
