"""What the agent's speech means to this buyer, and what the ledger says of it.

    ask         which slot was asked for
    recommend   whether the product has been read, has all the must-haves, and is not too dear
    quote       the price of the quote, or a falsehood
    tell        true, false or unsupported
    deny        whether it is so: no lower price is allowed, or nothing is there to sell
    offer       the alternative that the rules provide, or the add-on
    confirm     whether product, pieces and add-on are those that the buyer wants
    done        whether the booking it reports is there

A buyer's turn knows products by their rows, and prices in per mille of the list price.
"""

from __future__ import annotations

from convgym.domains.sales import cells, rules
from convgym.domains.sales.records import (
    DeskState,
    check,
    lacking,
    terms,
)
from convgym.domains.sales.vocabulary import (
    ADDON,
    DENIALS,
    FACT_FEATURE,
    FACTS,
    HELD,
    OFFERS,
    PRICE_DENIALS,
    PROMISES,
)
from convgym.domains.sales.world import World, percent_text
from convgym.engine import acts
from convgym.engine.acts import Heard, Said
from convgym.engine.episode import Episode
from convgym.engine.rules import ALLOW, REFUSE

LACKS_FIRST, LACKS_SECOND, TOO_DEAR = range(3)
"""`argument` of what is heard of a product that the buyer will not have."""
ASKED = 1
"""`pointer` of a fact heard: it answers what the buyer has asked."""


class Hearing:
    """Weighs speech against the catalogue; holds no episode's state."""

    def __init__(self, shop: World) -> None:
        self.shop = shop
        self._weigh = {
            acts.RECOMMEND: self._recommend,
            acts.QUOTE: self._quote,
            acts.TELL: self._fact,
            acts.DENY: self._denial,
            acts.OFFER: self._offer,
            acts.CONFIRM: self._confirm,
            acts.REPORT_DONE: self._report,
        }

    def hear(self, episode: Episode, act: Said) -> Heard:
        """Weigh one act of speech; notes claims, refusals, offers and violations."""
        weigh = self._weigh.get(act.kind)
        if weigh:
            return weigh(episode, act)
        if act.kind == acts.ASK:
            episode.belief[cells.ASKED[act.argument]] = 1
        elif act.kind == acts.EXPLAIN and act.argument:
            episode.belief[cells.ANSWERED[act.argument - 1]] = 1
            episode.belief[cells.PENDING[act.argument - 1]] = 0
        elif act.kind == acts.PROMISE:
            ours = act.argument == 0 and episode.task.decision.effect == ALLOW
            episode.note("promise", PROMISES[act.argument])
            return Heard(acts.PROMISE, act.argument, verdict=acts.FINE if ours else acts.WRONG)
        return Heard(act.kind, act.argument, act.pointer)

    def _product(self, episode: Episode, pointer: int) -> int:
        """The product pointed at; the one spoken of last where none is; -1 for nothing."""
        view: tuple[int, ...] = episode.desk.view
        if 0 <= pointer < len(view):
            return view[pointer]
        return int(episode.desk.named) if pointer < 0 else -1

    def _unwanted(self, episode: Episode, product: int) -> int:
        """What the buyer has against a product: LACKS_FIRST, …; -1 where it would do."""
        task = episode.task
        lacks = lacking(self.shop, episode, product, task.must)
        if lacks:
            return LACKS_FIRST if lacks >> task.first & 1 else LACKS_SECOND
        price = self.shop.price[task.week][product]
        return TOO_DEAR if rules.excess(price, task.budget) > rules.OWN_STRETCH else -1

    def _recommend(self, episode: Episode, act: Said) -> Heard:
        desk = episode.desk
        product = self._product(episode, act.pointer)
        if product < 0:
            return Heard(acts.RECOMMEND, 0, -1, acts.DOUBTFUL)
        self._check_recommended(episode, product)
        episode.note("recommend", self.shop.name(product))
        desk.named = product
        desk.recommended |= 1 << product
        if not desk.read >> product & 1:
            return Heard(acts.RECOMMEND, 0, product, acts.DOUBTFUL)
        unwanted = self._unwanted(episode, product)
        if unwanted >= 0:
            return Heard(acts.RECOMMEND, unwanted, product, acts.OTHER_OBJECT)
        return Heard(acts.RECOMMEND, 0, product)

    def _check_recommended(self, episode: Episode, product: int) -> None:
        """What has to come before a product is put to the buyer, by its name or by its price."""
        desk, belief, task = episode.desk, episode.belief, episode.task
        facts = {
            "needs": int(belief[cells.HEARD_NEEDS] or belief[cells.HEARD_PART]),
            "quantity_known": belief[cells.HEARD_QUANTITY],
            "budget_known": belief[cells.HEARD_BUDGET],
            "excess": rules.excess(self.shop.price[task.week][product], task.budget),
            "read": desk.read >> product & 1,
        }
        check(episode, "recommend", facts)

    def _quote(self, episode: Episode, act: Said) -> Heard:
        desk: DeskState = episode.desk
        product = self._product(episode, act.pointer)
        quote = desk.quotes.get(product)
        if quote is None or act.claim == acts.FALSE:
            check(episode, "tell", {"true": 0})
            episode.note("claim", "price: false")
            return Heard(acts.QUOTE, 0, product, acts.DOUBTFUL)
        self._check_recommended(episode, product)
        self._name_price(desk, product)
        if act.argument == HELD or quote.told:
            desk.quotes[product] = desk.quotes[product]._replace(held=True)
        episode.note("price", f"{self.shop.name(product)}: {percent_text(quote.discount)} off")
        unwanted = self._unwanted(episode, product)
        if unwanted >= 0:
            return Heard(acts.QUOTE, unwanted, product, acts.OTHER_OBJECT)
        return Heard(acts.QUOTE, 1000 - quote.discount, product)

    @staticmethod
    def _name_price(desk: DeskState, product: int) -> None:
        """The buyer now knows the price of this quote."""
        if desk.priced != product:
            desk.objected = False
        desk.named = desk.priced = product
        desk.quotes[product] = desk.quotes[product]._replace(told=True)

    def _fact(self, episode: Episode, act: Said) -> Heard:
        desk, fact, claim = episode.desk, act.argument, act.claim
        product = self._product(episode, act.pointer)
        # 0 is the feature asked for; in words it is named: 1 + 2 f, one more if it is had.
        named_too = (0, 1 + 2 * desk.feature, 2 + 2 * desk.feature)
        asked = fact == FACT_FEATURE and desk.feature >= 0 and act.value in named_too
        if claim == acts.KNOWN and not (product >= 0 and desk.read >> product & 1):
            claim = acts.UNSUPPORTED
        named = {acts.FALSE: "false", acts.UNSUPPORTED: "unsupported"}.get(claim, "true")
        episode.note("claim", f"{FACTS[fact]}: {named}")
        if claim == acts.FALSE:
            check(episode, "tell", {"true": 0})
        if claim in (acts.FALSE, acts.UNSUPPORTED):
            return Heard(acts.TELL, fact, -1, acts.DOUBTFUL)
        if product >= 0:
            desk.named = product
        if asked:
            desk.feature = -1
            return Heard(acts.TELL, fact, ASKED)
        return Heard(acts.TELL, fact)

    def _denial(self, episode: Episode, act: Said) -> Heard:
        reason, task, desk = DENIALS[act.argument], episode.task, episode.desk
        episode.belief[cells.DENIED[act.argument]] = 1
        price = act.argument < PRICE_DENIALS
        true = self._at_floor(episode, reason) if price else self._unavailable(episode, reason)
        if price and not true:
            check(episode, "tell", {"true": 0})
        right = true and task.decision.effect == REFUSE and task.decision.reason == reason
        if price:
            right = right and desk.priced in task.best
        desk.decided_right |= right
        episode.note("deny", f"{reason}: {'true' if true else 'false'}")
        return Heard(acts.DENY, act.argument, verdict=acts.FINE if true else acts.WRONG)

    def _at_floor(self, episode: Episode, reason: str) -> bool:
        """Whether the price told last is as low as may be, for this reason."""
        desk, task = episode.desk, episode.task
        quote = desk.quotes.get(desk.priced)
        if quote is None or not quote.told:
            return False
        clearance = self.shop.clearance[task.week][desk.priced]
        stock = self.shop.stock[task.week][desk.priced]
        lowest = rules.authority(
            task.switches, desk.parameters, clearance, stock, quote.quantity
        )
        if quote.discount < lowest:
            return False
        refusal = rules.price_refusal(
            task.switches, lowest, clearance, stock, quote.quantity, quote.discount
        )
        return refusal.reason == reason

    def _unavailable(self, episode: Episode, reason: str) -> bool:
        """Whether a search for all that is needed has shown that nothing can be sold."""
        desk, task = episode.desk, episode.task
        if task.decision.reason != reason or desk.searched != task.must:
            return False
        return all(desk.read >> product & 1 for product in desk.view)

    def _offer(self, episode: Episode, act: Said) -> Heard:
        offer, task, belief = act.argument, episode.task, episode.belief
        episode.note("offer", OFFERS[offer])
        if offer == ADDON:
            sold = not rules.is_on(task.switches, "addon_never")
            check(
                episode, "addon", {"offered": belief[cells.OFFERED_ADDON], "sold": int(sold)}
            )
            belief[cells.OFFERED_ADDON] = 1
            return Heard(acts.OFFER, offer)
        belief[cells.OFFERED[offer]] = 1
        right = task.decision.alternative == OFFERS[offer]
        return Heard(acts.OFFER, offer, verdict=acts.FINE if right else acts.WRONG)

    def _confirm(self, episode: Episode, act: Said) -> Heard:
        desk, task = episode.desk, episode.task
        product = self._product(episode, act.pointer)
        quote = desk.quotes.get(product)
        if quote is None or act.claim == acts.FALSE:
            check(episode, "tell", {"true": 0})
            return Heard(acts.CONFIRM, 0, product, acts.DOUBTFUL)
        episode.note("ask_confirmation", self.shop.name(product))
        self._check_recommended(episode, product)
        self._name_price(desk, product)
        unwanted = self._unwanted(episode, product)
        if unwanted >= 0:
            return Heard(acts.CONFIRM, unwanted, product, acts.OTHER_OBJECT)
        if quote.quantity != task.quantity:
            return Heard(acts.CONFIRM, 0, product, acts.OTHER_REQUEST)
        if quote.addon != (desk.addon == 1):
            return Heard(acts.CONFIRM, 0, product, acts.WRONG)
        desk.asked_to_confirm = terms(product, quote)
        return Heard(acts.CONFIRM, 1000 - quote.discount, product)

    def _report(self, episode: Episode, act: Said) -> Heard:
        done = bool(episode.diff) and episode.desk.decided_right and act.claim != acts.FALSE
        episode.belief[cells.TOLD_DONE] |= done
        episode.note("report_done", "true" if done else "false")
        if not done:
            check(episode, "tell", {"true": 0})
        return Heard(acts.REPORT_DONE, verdict=acts.FINE if done else acts.WRONG)
