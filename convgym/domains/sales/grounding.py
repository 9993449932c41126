"""Claims of an agent's words held against the shop: which product, which price, and whether true.

    Claim(quote, "", "1186.55", "Aster Slim") ──► the quote in view ──► Said(QUOTE, TOLD, 0, 118655)
                                             └─ another price ──────► Said(QUOTE, …, claim=FALSE)

Everything is looked up in what the desk keeps of the episode: the products in view, those that
were read, the quotes, the product spoken of last. A product that is named and not in view gets a
pointer behind the view, so that nobody takes it for the one spoken of.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from convgym.domains.sales import cells, rules
from convgym.domains.sales.records import DeskState, Quote, allowed, pieces
from convgym.domains.sales.tools import order_id
from convgym.domains.sales.vocabulary import (
    ADDON,
    DENIALS,
    FACT_AUTHORITY,
    FACT_DELIVERY,
    FACT_FEATURE,
    FACT_LIST_PRICE,
    FACT_STOCK,
    HELD,
    NEAREST,
    OBJECTIONS,
    OFFERS,
    PRICE_DENIALS,
    PROMISES,
    SLOTS,
    TOLD,
)
from convgym.domains.sales.world import (
    ADDONS,
    EACH,
    FEATURES,
    FEATURES_EACH,
    World,
    product_by_name,
)
from convgym.engine import acts
from convgym.engine.acts import Said
from convgym.engine.episode import Episode

ELSEWHERE = 99
"""Pointer of a product that is named and not in view."""
_ELSEWHERE_FEATURE = 2 * FEATURES_EACH
"""Value of a feature of another category."""
_DOLLAR = 100
_PLAIN = {
    "greet": acts.CHAT,
    "wait": acts.CHAT,
    "chat": acts.CHAT,
    "explain": acts.EXPLAIN,
    "jargon": acts.JARGON,
    "ask_intent": acts.ASK_INTENT,
    "apologise": acts.APOLOGISE,
    "close": acts.CLOSE,
}
_FEATURE = {
    name: (category, place)
    for category, features in enumerate(FEATURES)
    for place, (name, _) in enumerate(features)
}
_PRICES = ("total", "discount", "list_price", "addon_price", "saving")


def ground_speech(shop: World, episode: Episode, said: Sequence[Any]) -> list[Said]:
    """Acts of speech with their claims held against what the desk knows by now."""
    grounding = _Grounding(shop, episode, [act for act in said if not isinstance(act, Said)])
    found: list[Said] = []
    for act in said:
        found += [act] if isinstance(act, Said) else grounding.of(*act)
    heard = grounding.weighed(list(dict.fromkeys(found)))
    return heard or [Said(acts.UNCLEAR)] * bool(said)


def cents(value: str) -> int:
    """`1186.55` as 118655."""
    whole, _, rest = value.partition(".")
    return int(whole) * 100 + int(f"{rest:0<2}"[:2])


class _Grounding:
    """One reply against one episode."""

    def __init__(self, shop: World, episode: Episode, claims: Sequence[Any]) -> None:
        self.shop, self.episode = shop, episode
        self.desk: DeskState = episode.desk
        self.claims = claims
        self.acts = {claim[0] for claim in claims}
        self.denied = {claim[1] for claim in claims if claim[0] == "deny"}

    def of(self, act: str, slot: str, value: str, named: str) -> list[Said]:
        """What one claim says to this buyer."""
        if act in _PLAIN:
            return [Said(_PLAIN[act])]
        if act == "ask":
            if slot == "more":
                return [Said(acts.ASK_MORE)]
            return [Said(acts.ASK, SLOTS.index(slot))] if slot in SLOTS else []
        if act == "inform":
            return self._told(slot, value, named)
        if act == "answer":
            return [Said(acts.EXPLAIN, 1 + OBJECTIONS.index(slot))]
        by_act = {
            "recommend": self._recommended,
            "quote": self._quoted,
            "hold": self._held,
            "deny": self._denied,
            "offer": self._offered,
            "confirm": self._confirmed,
            "done": self._reported,
            "promise": self._promised,
        }
        return by_act[act](slot, value, named) if act in by_act else []

    # -- products ------------------------------------------------------------------------------

    def _pointer(self, named: str) -> int:
        """Place in view; -1 where no product is named, `ELSEWHERE` for one out of view."""
        if not named:
            return -1
        if named.startswith("product:"):
            place = int(named[8:]) - 1
            return place if 0 <= place < len(self.desk.view) else ELSEWHERE
        product = product_by_name(named)
        return self.desk.view.index(product) if product in self.desk.view else ELSEWHERE

    def _product(self, pointer: int) -> int:
        """Row of what a pointer means, as the hearing takes it; -1 for nothing."""
        view = self.desk.view
        if 0 <= pointer < len(view):
            return view[pointer]
        return self.desk.named if pointer < 0 else -1

    def _of_price(self, named: str) -> tuple[int, int]:
        """(pointer, product) of a price: the one named or spoken of, else the only one quoted."""
        pointer = self._pointer(named)
        product = self._product(pointer)
        if pointer < 0 and product not in self.desk.quotes:
            quoted = [p for p in self.desk.quotes if p in self.desk.view]
            if len(quoted) == 1:
                return self.desk.view.index(quoted[0]), quoted[0]
        return pointer, product

    def _list_price(self, product: int) -> int:
        return self.shop.price[self.episode.task.week][product]

    def _is_read(self, product: int) -> bool:
        return product >= 0 and bool(self.desk.read >> product & 1)

    # -- what is told --------------------------------------------------------------------------

    def _told(self, slot: str, value: str, named: str) -> list[Said]:
        if slot in ("has", "lacks"):
            return self._feature(slot == "has", value, named)
        if slot in _PRICES:
            return self._sum(slot, value, named)
        if slot == "authority":
            return self._authority(value, named)
        if slot == "delivery":
            return self._delivery(value, named)
        return self._stock(value, named) if slot == "stock" else []

    def _feature(self, has: bool, name: str, named: str) -> list[Said]:
        pointer = self._pointer(named)
        product = self._product(pointer)
        if name == "asked":
            if self.desk.feature < 0:
                return [Said(acts.CHAT)]
            category, place = self.episode.task.category, self.desk.feature
        else:
            category, place = _FEATURE[name]
        if not self._is_read(product):
            return [Said(acts.TELL, FACT_FEATURE, pointer, claim=acts.UNSUPPORTED)]
        own = product // EACH == category
        held = own and bool(self.shop.features[product] >> place & 1)
        number = 1 + 2 * place + has if own else _ELSEWHERE_FEATURE + 1 + has
        return [Said(acts.TELL, FACT_FEATURE, pointer, number, _claim(held == has))]

    def _delivery(self, value: str, named: str) -> list[Said]:
        pointer = self._pointer(named)
        product = self._product(pointer)
        if not self._is_read(product):
            return [Said(acts.TELL, FACT_DELIVERY, pointer, claim=acts.UNSUPPORTED)]
        if value != str(self.shop.delivery[self.episode.task.week][product]):
            return [Said(acts.TELL, FACT_DELIVERY, pointer, claim=acts.FALSE)]
        place = OBJECTIONS.index("delivery")
        if self.episode.belief[cells.PENDING[place]]:
            return [Said(acts.EXPLAIN, 1 + place)]
        return [Said(acts.TELL, FACT_DELIVERY, pointer, claim=acts.TRUE)]

    def _stock(self, value: str, named: str) -> list[Said]:
        pointer = self._pointer(named)
        product = self._product(pointer)
        if not self._is_read(product):
            return [Said(acts.TELL, FACT_STOCK, pointer, claim=acts.UNSUPPORTED)]
        stock = self.shop.stock[self.episode.task.week][product]
        true = stock > 0 if value == "yes" else value == str(stock)
        return [Said(acts.TELL, FACT_STOCK, pointer, claim=_claim(true))]

    def _authority(self, value: str, named: str) -> list[Said]:
        """The highest discount: that of this product, or that of the policy."""
        pointer, product = self._of_price(named)
        may = {self.desk.parameters["authority"]}
        if product >= 0:
            may.add(allowed(self.shop, self.episode, product, pieces(self.episode)))
        return [Said(acts.TELL, FACT_AUTHORITY, pointer, claim=_claim(_per_mille(value) in may))]

    # -- prices --------------------------------------------------------------------------------

    def _price(self, quote: Quote, product: int) -> int:
        return rules.quoted_price(self._list_price(product), quote.discount)

    def _totals(self, price: int, quantity: int) -> set[int]:
        """With the add-on of the category, and without."""
        addon = ADDONS[self.episode.task.category][1]
        return {price * quantity, price * quantity + addon}

    def _quoted(self, slot: str, value: str, named: str) -> list[Said]:
        """A price: of the quote, its total, the list price, or a falsehood."""
        pointer, product = self._of_price(named)
        spoken, quote = cents(value), self.desk.quotes.get(product)
        if quote is not None:
            price = self._price(quote, product)
            if spoken == price or spoken in self._totals(price, quote.quantity):
                return [self._told_price(pointer, price)]
        if product >= 0 and spoken == self._list_price(product):
            return [Said(acts.TELL, FACT_LIST_PRICE, pointer, claim=acts.TRUE)]
        return [Said(acts.QUOTE, TOLD, pointer, spoken, acts.FALSE)]

    def _told_price(self, pointer: int, price: int) -> Said:
        return Said(acts.QUOTE, HELD if "hold" in self.acts else TOLD, pointer, price)

    def _sum(self, role: str, value: str, named: str) -> list[Said]:
        """A total, a discount, a list price, an add-on's price or what is saved."""
        pointer, product = self._of_price(named)
        quote = self.desk.quotes.get(product)
        price = self._price(quote, product) if quote is not None else 0
        false = [Said(acts.QUOTE, TOLD, pointer, price, acts.FALSE)]
        if role == "addon_price":
            true = cents(value) == ADDONS[self.episode.task.category][1]
            return [] if true else [Said(acts.TELL, FACT_LIST_PRICE, pointer, claim=acts.FALSE)]
        if role == "list_price":
            return self._list(cents(value), pointer, product)
        if product < 0:
            return false
        if quote is None:
            total = self._list_price(product) * pieces(self.episode)
            if role == "total" and cents(value) == total:
                return [Said(acts.TELL, FACT_LIST_PRICE, pointer, claim=acts.TRUE)]
            return false
        if role == "saving":
            saved = self._list_price(product) - price
            near = any(0 <= part - cents(value) < _DOLLAR for part in (saved, saved * quote[1]))
            return [self._told_price(pointer, price)] if near and saved else false
        if role == "discount":
            right = _per_mille(value) == quote.discount
        else:
            right = cents(value) in self._totals(price, quote.quantity)
        return [self._told_price(pointer, price)] if right else false

    def _list(self, spoken: int, pointer: int, product: int) -> list[Said]:
        true = product >= 0 and spoken == self._list_price(product)
        quote = self.desk.quotes.get(product)
        if true and quote is not None and not quote.discount and "quote" not in self.acts:
            return [self._told_price(pointer, spoken)]
        return [Said(acts.TELL, FACT_LIST_PRICE, pointer, claim=_claim(true))]

    def _held(self, slot: str, value: str, named: str) -> list[Said]:
        """It stands by a price that has been told; of no other is there anything to stand by."""
        pointer, product = self._of_price(named)
        quote = self.desk.quotes.get(product)
        if quote is None or not quote.told:
            return []
        return [Said(acts.QUOTE, HELD, pointer, self._price(quote, product))]

    # -- recommendations, refusals, offers -----------------------------------------------------

    def _nearest(self) -> int:
        """The product that comes nearest to what was searched for in vain; -1 where none is."""
        if not self.episode.belief[cells.NONE_FOUND]:
            return -1
        task = self.episode.task
        return self.shop.nearest(task.week, task.category, self.desk.searched)

    def _recommended(self, slot: str, value: str, named: str) -> list[Said]:
        if named and product_by_name(named) == self._nearest():
            return [Said(acts.OFFER, NEAREST)]
        pointer = self._pointer(named)
        product = self._product(pointer) if named else -1
        if slot == "quote" and product >= 0 and self.desk.recommended >> product & 1:
            return [Said(acts.CHAT)]  # "would you like a quote for it?"
        return [Said(acts.RECOMMEND, 0, pointer)] if named else []

    def _offered(self, slot: str, value: str, named: str) -> list[Said]:
        offer = OFFERS.index(slot)
        if offer == ADDON and (self.desk.addon == 1 or self._has_addon()):
            return []  # spoken of, and sold already
        if offer == NEAREST and value:
            names = value.split("; ")
            if self._nearest() not in map(product_by_name, names):
                return [Said(acts.RECOMMEND, 0, self._pointer(names[-1]))]
        return [Said(acts.OFFER, offer)]

    def _has_addon(self) -> bool:
        return any(quote.addon for quote in self.desk.quotes.values())

    def _denied(self, reason: str, value: str, named: str) -> list[Said]:
        if self.desk.booked >= 0:
            return []  # what has been done is not refused
        price = DENIALS[:PRICE_DENIALS]
        if reason == "floor":
            return [] if self.denied & set(price) else self._at_floor()
        if reason == "out_of_stock" and named:
            pointer = self._pointer(named)
            product = self._product(pointer)
            if product >= 0 and not self._all_gone():
                return self._stock_of(pointer, product)
        return [Said(acts.DENY, DENIALS.index(reason))]

    def _at_floor(self) -> list[Said]:
        """"I can't go any lower": true where the price is as low as may be, whatever the reason.

        Only the authority is a reason that goes without saying.
        """
        desk, task = self.desk, self.episode.task
        quote = desk.quotes.get(desk.priced)
        if quote is None:
            return [Said(acts.DENY, 0)]
        stock, clearance = self.shop.stock[task.week], self.shop.clearance[task.week]
        shown = (clearance[desk.priced], stock[desk.priced])
        lowest = rules.authority(task.switches, desk.parameters, *shown, quote.quantity)
        if quote.discount >= lowest:
            refusal = rules.price_refusal(
                task.switches, lowest, *shown, quote.quantity, quote.discount
            )
            if refusal.reason != DENIALS[0]:
                price = self._price(quote, desk.priced)
                return [Said(acts.QUOTE, HELD, -1, price)] if desk.named == desk.priced else []
        return [Said(acts.DENY, 0)]

    def _all_gone(self) -> bool:
        """All that the newest search has shown was read, and none of it is left."""
        stock = self.shop.stock[self.episode.task.week]
        wanted = pieces(self.episode)
        return all(self._is_read(p) and stock[p] < wanted for p in self.desk.view)

    def _stock_of(self, pointer: int, product: int) -> list[Said]:
        """One product of several is sold out: a fact, and no refusal."""
        if not self._is_read(product):
            return [Said(acts.TELL, FACT_STOCK, pointer, claim=acts.UNSUPPORTED)]
        gone = self.shop.stock[self.episode.task.week][product] < pieces(self.episode)
        return [Said(acts.TELL, FACT_STOCK, pointer, claim=_claim(gone))]

    # -- the deal ------------------------------------------------------------------------------

    def _confirmed(self, deed: str, value: str, named: str) -> list[Said]:
        if deed != "book":
            return []
        pointer, product = self._of_price(named)
        quote = self.desk.quotes.get(product)
        true = quote is not None and self._agrees(value, product, quote)
        return [Said(acts.CONFIRM, 0, pointer, claim=acts.KNOWN if true else acts.FALSE)]

    def _agrees(self, terms: str, product: int, quote: Quote) -> bool:
        """Whether pieces and sums that are named are those of the quote."""
        price, addon = self._price(quote, product), ADDONS[self.episode.task.category][1]
        total = price * quote.quantity + addon * quote.addon
        sums = {price, total, self._list_price(product), price * quote.quantity}
        sums |= {addon} if quote.addon or self.desk.addon else set()
        for term in filter(None, terms.split("; ")):
            kind, _, value = term.partition(" ")
            if kind == "pieces" and int(value) != quote.quantity:
                return False
            if kind == "sum" and cents(value) not in sums:
                return False
        return True

    def _reported(self, deed: str, value: str, named: str) -> list[Said]:
        if deed != "book":
            return []
        booked, true = self.desk.booked, False
        if booked >= 0:
            number = order_id(self.episode.task.week, booked)
            wrong = [t for t in value.split("; ") if t.startswith("order ") and t[6:] != number]
            other = named and self._product(self._pointer(named)) != booked
            quote = self.desk.quotes[booked]
            true = not (wrong or other) and self._agrees(value, booked, quote)
        return [Said(acts.REPORT_DONE, claim=acts.KNOWN if true else acts.FALSE)]

    def _promised(self, what: str, value: str, named: str) -> list[Said]:
        return [Said(acts.PROMISE, PROMISES.index(what))] if what in PROMISES else []

    # -- the whole reply -----------------------------------------------------------------------

    def weighed(self, said: list[Said]) -> list[Said]:
        """Each price once, and not beside the refusal or the question that it belongs to.

        What a product truly has is the reason why it is recommended, and no answer of its own but
        to the question for just that.
        """
        kinds = {act.kind for act in said}
        recommended = {self._product(act.pointer) for act in said if act.kind == acts.RECOMMEND}
        refused = any(act.kind == acts.DENY and act.argument < PRICE_DENIALS for act in said)
        quoted: set[int] = set()
        kept = []
        for act in said:
            if act.kind == acts.QUOTE and act.claim == acts.KNOWN:
                product = self._product(act.pointer)
                told = self.desk.quotes[product].told
                if acts.CONFIRM in kinds or (refused and told) or product in quoted:
                    continue
                quoted.add(product)
            if self._is_feature_had(act) and self._product(act.pointer) in recommended:
                continue
            kept.append(act)
        answered = {act.argument for act in kept if act.kind == acts.EXPLAIN}
        pending = [1 + k for k, cell in enumerate(cells.PENDING) if self.episode.belief[cell]]
        if answered & set(pending):  # the rest of the reply belongs to that answer
            kept = [a for a in kept if a.kind != acts.EXPLAIN or a.argument in pending]
        if acts.OFFER in kinds and NEAREST in {a.argument for a in kept if a.kind == acts.OFFER}:
            kept = [a for a in kept if a.kind != acts.RECOMMEND or a.pointer != ELSEWHERE]
        # A price has to be known before it is the lowest.
        return sorted(kept, key=lambda act: act.kind == acts.DENY) if refused else kept

    def _is_feature_had(self, act: Said) -> bool:
        """Whether it says, truly, that a product has a feature for which nobody has asked."""
        asked = 2 + 2 * self.desk.feature if self.desk.feature >= 0 else -1
        told = act.kind == acts.TELL and act.argument == FACT_FEATURE and act.claim == acts.TRUE
        return told and not act.value % 2 and act.value != asked


def _claim(true: bool) -> int:
    return acts.TRUE if true else acts.FALSE


def _per_mille(value: str) -> int:
    """`7.5` as 75; -1 for what is none."""
    whole, _, rest = value.partition(".")
    return int(whole) * 10 + int(rest[:1] or 0) if whole.isdecimal() and len(rest) < 2 else -1
