"""The tools of the shop: searches, reads, quotes and the booking, each answering in JSON.

A read sets belief cells; a booking goes into the episode's diff. The rules are asked which
obligations a quote or a booking breaks. A tool does what it is told: that a policy forbids a
discount is found out by the grading, not by the tool.
"""

from __future__ import annotations

import json
from functools import lru_cache

from convgym.domains.sales import cells, rules
from convgym.domains.sales.records import (
    DeskState,
    Quote,
    allowed,
    check,
    error_json,
    pieces,
    refresh,
    terms,
    violate,
)
from convgym.domains.sales.vocabulary import (
    ADD_ADDON,
    BOOK_ORDER,
    CREATE_QUOTE,
    END_CONVERSATION,
    GET_PRODUCT,
    LOWER,
    SEARCH_CATALOGUE,
    TRANSFER_TO_HUMAN,
)
from convgym.domains.sales.world import (
    ADDONS,
    CATEGORIES,
    World,
    money_text,
    names_of,
    percent_text,
)
from convgym.engine.acts import Call
from convgym.engine.episode import Episode
from convgym.engine.rules import ALLOW

MOST_DISCOUNT = 900
"""Per mille off; no quote is made below a tenth of the list price."""
MOST_PIECES = 999

NOT_IN_VIEW = "no such product is in view; call search_catalogue first"
NOT_IN_STOCK = "there are not so many pieces of this product in stock"
BOOKED_ALREADY = "an order has been booked already"
NOT_QUOTED = "no quote was made for this product; call create_quote first"
ADDED_ALREADY = "the add-on is in the quote, or the order is booked, already"
ENDED, LEFT = '{"ended": true}', '{"transferred": true}'


class ShopTools:
    """Runs calls against the catalogue; holds no episode's state.

    What the fields of a `Call` mean:

        search_catalogue    argument: category, detail: features asked for
        get_product         pointer: product in view
        create_quote        pointer, argument: pieces, detail: per mille off
        add_addon           pointer
        book_order          pointer
    """

    def __init__(self, shop: World) -> None:
        self.shop = shop

    def call_of(self, episode: Episode, tool: int, argument: int, pointer: int) -> Call:
        """The call that a pointer-and-no-more act stands for: filled in from what was heard."""
        desk: DeskState = episode.desk
        if tool == SEARCH_CATALOGUE:
            return Call(tool, episode.task.category, detail=desk.needs)
        if tool == CREATE_QUOTE:
            product = desk.view[pointer]
            quote = desk.quotes.get(product)
            discount = quote.discount if quote else 0
            if argument == LOWER:
                lowest = allowed(self.shop, episode, product, pieces(episode))
                discount = rules.next_discount(desk.parameters, discount, lowest)
            return Call(tool, pieces(episode), pointer, min(discount, MOST_DISCOUNT))
        return Call(tool, argument, pointer)

    def call(self, episode: Episode, call: Call) -> str:
        """Run one tool."""
        tool = call.tool
        if tool == SEARCH_CATALOGUE:
            return self._search(episode, call.argument, call.detail)
        if tool == TRANSFER_TO_HUMAN:
            return self._transfer(episode)
        if tool == END_CONVERSATION:
            episode.end = "agent_ended"
            episode.note("end_conversation", "")
            return ENDED
        if not 0 <= call.pointer < len(episode.desk.view):
            return self.fail(episode, NOT_IN_VIEW)
        product = episode.desk.view[call.pointer]
        if tool == GET_PRODUCT:
            return self._get(episode, call.pointer, product)
        if tool == CREATE_QUOTE:
            return self._quote(episode, call.pointer, product, call.argument, call.detail)
        if product not in episode.desk.quotes:
            return self.fail(episode, NOT_QUOTED)
        if tool == ADD_ADDON:
            return self._add_addon(episode, product)
        assert tool == BOOK_ORDER
        return self._book(episode, product)

    def fail(self, episode: Episode, sentence: str) -> str:
        """Charge an error to the budget."""
        episode.errors += 1
        episode.note("error", sentence)
        return error_json(sentence)

    def _search(self, episode: Episode, category: int, mask: int) -> str:
        desk, week = episode.desk, episode.task.week
        desk.view = self.shop.shown(week, category, mask)
        # A search in another category has not looked for what is wanted.
        desk.searched = mask if category == episode.task.category else -1
        episode.belief[cells.SEARCHED] = 1
        refresh(self.shop, episode)
        names = names_of(category, mask)
        episode.note("search_catalogue", f"{CATEGORIES[category]}: {', '.join(names) or 'any'}")
        return found_text(self.shop, week, category, mask, desk.view)

    def _get(self, episode: Episode, pointer: int, product: int) -> str:
        week, shop = episode.task.week, self.shop
        episode.desk.read |= 1 << product
        refresh(shop, episode)
        episode.note("get_product", shop.name(product))
        return product_text(shop, week, pointer, product)

    def _quote(
        self, episode: Episode, pointer: int, product: int, quantity: int, discount: int
    ) -> str:
        desk: DeskState = episode.desk
        week, shop = episode.task.week, self.shop
        if shop.stock[week][product] < quantity:
            return self.fail(episode, NOT_IN_STOCK)
        if desk.booked >= 0:
            return self.fail(episode, BOOKED_ALREADY)
        before = desk.quotes.get(product)
        last = before.discount if before else 0
        facts = {
            "first": int(before is None),
            "discount": discount,
            "lower": int(discount > last),
            "by": discount - last,
            "objected": int(desk.objected and desk.priced == product),
            "beyond": discount - allowed(shop, episode, product, quantity),
        }
        check(episode, "quote", facts)
        addon = before.addon if before else False
        if before is None or before[:2] != (discount, quantity):
            desk.quotes[product] = Quote(discount, quantity, addon)
            desk.objected &= desk.priced != product
        refresh(shop, episode)
        episode.belief[cells.PRICE_ACCEPTED] &= last == discount
        episode.note(
            "create_quote", f"{shop.name(product)} x {quantity}: {percent_text(discount)} off"
        )
        return quote_text(shop, week, pointer, product, quantity, discount)

    def _add_addon(self, episode: Episode, product: int) -> str:
        desk: DeskState = episode.desk
        quote = desk.quotes[product]
        if quote.addon or desk.booked >= 0:
            return self.fail(episode, ADDED_ALREADY)
        desk.quotes[product] = quote._replace(addon=True)
        episode.belief[cells.ADDON_ADDED] = 1
        refresh(self.shop, episode)
        episode.note("add_addon", ADDONS[episode.task.category][0])
        return added_text(episode.task.category)

    def _book(self, episode: Episode, product: int) -> str:
        desk, task, belief = episode.desk, episode.task, episode.belief
        if desk.booked >= 0:
            return self.fail(episode, BOOKED_ALREADY)
        quote = desk.quotes[product]
        agreed = desk.confirmed == terms(product, quote)
        check(
            episode,
            "book",
            {"confirmed": int(agreed), "offered": int(belief[cells.OFFERED_ADDON])},
        )
        asked_for = (
            task.decision.effect == ALLOW
            and product in task.eligible
            and quote.quantity == task.quantity
            and quote.addon == (desk.addon == 1)
        )
        if not asked_for:
            violate(episode, "booked_what_was_not_asked")
        price = rules.quoted_price(self.shop.price[task.week][product], quote.discount)
        episode.diff.update(difference(product, quote, price))
        desk.booked = product
        desk.decided_right |= bool(agreed and asked_for)
        belief[cells.WROTE] = 1
        episode.note("book_order", self.shop.name(product))
        total = price * quote.quantity + quote.addon * ADDONS[task.category][1]
        return booked_text(task.week, product, total)

    def _transfer(self, episode: Episode) -> str:
        task, desk, belief = episode.task, episode.desk, episode.belief
        episode.end = "transferred"
        desk.transferred = True
        reason = task.decision.reason
        read = any(desk.read >> product & 1 for product in task.eligible)
        right = bool(belief[cells.BULK]) if reason == "bulk" else reason == "large_total" and read
        desk.decided_right |= right
        episode.note("transfer_to_human", "right" if right else "wrong")
        return LEFT


def difference(product: int, quote: Quote, price: int) -> dict[tuple[str, int, str], int | str]:
    """Rows that a booking adds."""
    return {
        ("orders", product, "quantity"): quote.quantity,
        ("orders", product, "price"): price,
        ("orders", product, "addon"): int(quote.addon),
    }


def order_id(week: int, product: int) -> str:
    """`S` and five digits."""
    return f"S{10000 + week * 1000 + product}"


# -- what the tools answer ---------------------------------------------------------------------

_REMEMBERED = 1 << 14
"""Texts of each sort that are kept: the shop has few pages, and they are read again and again."""


@lru_cache(maxsize=_REMEMBERED)
def found_text(shop: World, week: int, category: int, mask: int, view: tuple[int, ...]) -> str:
    """Products that a search shows; where there is none, the one that comes nearest."""
    rows = [
        {
            "handle": f"product:{k + 1}",
            "product": shop.name(product),
            "list_price": money_text(shop.price[week][product]),
        }
        for k, product in enumerate(view)
    ]
    found: dict[str, object] = {"products": rows}
    if not rows:
        found["nearest"] = shop.name(shop.nearest(week, category, mask))
    return json.dumps(found)


@lru_cache(maxsize=_REMEMBERED)
def product_text(shop: World, week: int, pointer: int, product: int) -> str:
    """All that a product's page says."""
    return json.dumps(
        {
            "handle": f"product:{pointer + 1}",
            "product": shop.name(product),
            "list_price": money_text(shop.price[week][product]),
            "features": shop.feature_names(product),
            "stock": shop.stock[week][product],
            "clearance": bool(shop.clearance[week][product]),
            "delivery_days": shop.delivery[week][product],
        }
    )


@lru_cache(maxsize=_REMEMBERED)
def quote_text(
    shop: World, week: int, pointer: int, product: int, quantity: int, discount: int
) -> str:
    """A quote as it was made."""
    price = rules.quoted_price(shop.price[week][product], discount)
    return json.dumps(
        {
            "handle": f"product:{pointer + 1}",
            "product": shop.name(product),
            "price": money_text(price),
            "discount": percent_text(discount),
            "quantity": quantity,
            "total": money_text(price * quantity),
        }
    )


def added_text(category: int) -> str:
    """The add-on of a category is in the quote."""
    name, price = ADDONS[category]
    return json.dumps({"added": name, "price": money_text(price)})


def booked_text(week: int, product: int, total: int) -> str:
    """The order's number and what it comes to."""
    return json.dumps({"order": order_id(week, product), "total": money_text(total)})
