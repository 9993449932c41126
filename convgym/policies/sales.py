"""Scripted sellers: random < keyword < slot-filling < planner < oracle, and null policies.

Each is a function of what `reset` and `step` return, the belief and the mask, and of nothing
else. The ladder measures a task's difficulty and makes behaviour data; the oracle shows that
every task can be solved with what can be obtained. It goes for the deal, not for the price: it
gives way as soon as it may. `FirmOraclePolicy` stands by each price once before it does.
"""

from __future__ import annotations

from collections.abc import Callable

from convgym.domains.sales.vocabulary import ACTIONS, LAYOUT, OBJECTIONS, QUESTIONS, VIEW
from convgym.domains.sales.world import NAMES, money_text
from convgym.policies.null import FixedReplies, fixed_replies
from convgym.policies.policy import RandomPolicy, Script, Sight


class View(Sight):
    """A belief row, read by the names of its cells, and by places in view."""

    __slots__ = ()

    def places(self, *patterns: str) -> list[int]:
        """Places k in view for which all cells `pattern_k` are set; `!pattern` wants it unset."""
        return [
            k
            for k in VIEW
            if all(self(f"{p.removeprefix('!')}_{k}") != p.startswith("!") for p in patterns)
        ]


class SalesScript(Script):
    """A script of this desk."""

    layout, actions, sight = LAYOUT, ACTIONS, View


class KeywordPolicy(SalesScript):
    """Answers the newest words only: no plan, no rules, the first product in view."""

    name = "keyword"

    def choose(self, see: View) -> str:
        """A reflex for what was said last."""
        for objection in OBJECTIONS:
            if see(f"said_object_{objection}"):
                return f"answer_{objection}"
        if see("wrote"):
            return "close" if see("told_done") else "report_done"
        if see("confirmed_0"):
            return "book_order_0"
        if see("said_accept_price"):
            return "confirm_0"
        if see("said_counter_offer") or see("said_object_price"):
            return "lower_quote_0" if see("told_price_0") else "quote_0"
        if see("quoted_0"):
            return "quote_0"
        if see("said_ask_price"):
            return "create_quote_0"
        if see("seen_0"):
            return "recommend_0" if see("read_0") else "get_product_0"
        if see("said_inform_quantity"):
            return "search_catalogue"
        if see("said_inform_needs"):
            return "ask_quantity"
        return "ask_need" if see("heard_request") else "ask_intent"


class SlotFillingPolicy(SalesScript):
    """Collects what a form needs, then sells the first product that fits; never refuses."""

    name = "slot-filling"

    def choose(self, see: View) -> str:
        """The first empty slot, else the deed."""
        if not see("heard_request"):
            return "ask_intent"
        if see("wrote"):
            return "close" if see("told_done") else "report_done"
        if not (see("heard_needs") or see("heard_part")):
            return "ask_need"
        if not see("asked_budget"):
            return "ask_budget"
        if not see("heard_quantity"):
            return "ask_quantity"
        for objection in OBJECTIONS:
            if see(f"said_object_{objection}"):
                return f"answer_{objection}"
        if not see("searched") or see("search_old"):
            return "search_catalogue"
        unread = see.places("seen", "!read")
        fitting = see.places("fits", "in_stock", "!rejected")
        if not fitting:
            return f"get_product_{unread[0]}" if unread else "apologise"
        k = fitting[0]
        if not see(f"recommended_{k}"):
            return f"recommend_{k}"
        if not see(f"quoted_{k}"):
            return f"create_quote_{k}"
        if not see(f"told_price_{k}"):
            return f"quote_{k}"
        if see(f"confirmed_{k}"):
            return f"book_order_{k}"
        if see("price_objected"):
            return f"lower_quote_{k}"
        return f"confirm_{k}" if see("price_accepted") else "explain"


class OraclePolicy(SalesScript):
    """Follows the policy document to the letter and recovers from every slip."""

    name = "oracle"
    recovers = True
    holds_first = False

    def choose(self, see: View) -> str:
        """Find out what is wanted, find it, sell it, or say why not."""
        if self.recovers and any(see(f"said_{question}") for question in QUESTIONS):
            return "explain"
        if not see("heard_request"):
            return "ask_intent"
        if see("wrote"):
            return "close" if see("told_done") else "report_done"
        for objection in OBJECTIONS:
            if see(f"pending_{objection}"):
                return f"answer_{objection}"
        return self._qualify(see) or self._find(see) or self._sell(see, self._choice(see))

    def _qualify(self, see: View) -> str:
        known = see("heard_needs") or (see("heard_part") and not self.recovers)
        if not known:
            return "ask_need"
        if see("policy_budget_first") and not see("heard_budget"):
            tried = see("asked_budget") and not self.recovers
            if not tried:
                return "ask_budget"
        return "" if see("heard_quantity") else "ask_quantity"

    def _find(self, see: View) -> str:
        """What has to come before a product can be recommended; empty when one is there."""
        if not see("searched") or see("search_old"):
            return "search_catalogue"
        if see("bulk"):
            return "transfer_to_human"
        if see("none_found"):
            return self._refuse(see, "not_carried", "nearest")
        unread = see.places("seen", "!read")
        usable = self._usable(see)
        if unread and (self.recovers or not usable):
            return f"get_product_{unread[0]}"
        if not usable:
            return self._refuse(see, "out_of_stock", "waitlist")
        if see("policy_large_total") and see.places("fits", "in_stock", "large"):
            return "transfer_to_human"
        return ""

    @staticmethod
    def _usable(see: View) -> list[int]:
        return see.places("fits", "in_stock", "!over_budget", "!rejected")

    def _choice(self, see: View) -> int:
        """The product to sell: one whose price can move, if there is one; and stay with it."""
        usable = self._usable(see)
        begun = [k for k in usable if see(f"quoted_{k}") or see(f"liked_{k}")]
        if begun:
            return begun[0]
        moving = [k for k in usable if not self._firm(see, k)]
        return moving[0] if moving and self.recovers else usable[0]

    @staticmethod
    def _firm(see: View, k: int) -> str:
        """Why the price of a product cannot move at all; empty where it can."""
        if see("policy_clearance_firm") and see(f"clearance_{k}"):
            return "clearance_firm"
        return "last_piece" if see("policy_last_piece") and see(f"last_{k}") else ""

    def _sell(self, see: View, k: int) -> str:
        if not see(f"recommended_{k}"):
            return f"recommend_{k}"
        if see("pending_feature") and (self.recovers or see("said_ask_feature")):
            return f"inform_feature_{k}"
        if not see(f"quoted_{k}"):
            return f"create_quote_{k}"
        if not see(f"told_price_{k}"):
            return f"quote_{k}"
        if see("price_accepted"):
            return self._close_deal(see, k)
        if see(f"at_floor_{k}"):
            return self._refuse(see, self._firm(see, k) or "beyond_authority", "")
        if see("price_objected"):
            return self._give_way(see, k)
        return f"hold_price_{k}"

    def _give_way(self, see: View, k: int) -> str:
        holds = self.holds_first and not see(f"held_price_{k}")
        return f"hold_price_{k}" if holds else f"lower_quote_{k}"

    def _close_deal(self, see: View, k: int) -> str:
        if see("policy_addon_first") and not see("offered_addon"):
            return "offer_addon"
        if see("addon_taken") and not see("addon_added"):
            return f"add_addon_{k}"
        return f"book_order_{k}" if see(f"confirmed_{k}") else f"confirm_{k}"

    def _refuse(self, see: View, reason: str, offer: str) -> str:
        """Refuse, offer what there is, and stand by it when the buyer disputes it."""
        if not see(f"denied_{reason}"):
            return f"deny_{reason}"
        if offer and (self.recovers or see("said_ask_alternative")):
            return f"offer_{offer}"
        return f"deny_{reason}" if self.recovers else "apologise"


class FirmOraclePolicy(OraclePolicy):
    """The oracle, but it stands by each price once before it gives way: some take it then."""

    name = "firm oracle"
    holds_first = True


class PlannerPolicy(OraclePolicy):
    """The oracle's plan without its recoveries: one try, the first match, no persistence."""

    name = "planner"
    recovers = False


LADDER = (RandomPolicy, KeywordPolicy, SlotFillingPolicy, PlannerPolicy, OraclePolicy)


NULL_SCRIPTS: dict[str, tuple[str, ...]] = {
    "end at once": ("end_conversation",),
    "transfer at once": ("transfer_to_human",),
    "greet only": ("greet",),
    "apologise only": ("apologise",),
    "close only": ("close",),
    "refuse everything": (
        "ask_intent", "deny_beyond_authority", "deny_clearance_firm", "deny_out_of_stock",
        "deny_not_carried", "offer_waitlist", "offer_nearest",
    ),
    "book at once": ("ask_intent", "search_catalogue", "create_quote_0", "book_order_0",
                     "report_done", "close"),
    "recommend everything": ("ask_intent", "search_catalogue", "recommend_0", "recommend_1",
                             "recommend_2", "recommend_3", "close"),
    "cheapest at once": ("ask_intent", "search_catalogue", "create_quote_0", "lower_quote_0",
                         "lower_quote_0", "quote_0", "confirm_0", "book_order_0", "report_done"),
}  # fmt: skip
"""Constant behaviours that must be worth nothing, as acts of `OpenLoopPolicy`."""

_BOOK = (
    "ask_intent", "ask_need", "ask_need", "ask_budget", "ask_budget", "ask_quantity",
    "search_catalogue", "get_product_0", "get_product_1", "get_product_2", "get_product_3",
)  # fmt: skip
_SALE = ("recommend_0", "create_quote_0", "quote_0")
_DEAL = ("confirm_0", "book_order_0", "report_done", "close")
BY_THE_BOOK: dict[str, tuple[str, ...]] = {
    "book, end": (*_BOOK, "end_conversation"),
    "book, transfer": (*_BOOK, "transfer_to_human"),
    "book, out of stock": (*_BOOK, "deny_out_of_stock", "offer_waitlist", "deny_out_of_stock"),
    "book, not carried": (*_BOOK, "deny_not_carried", "offer_nearest", "deny_not_carried"),
    "book, sell at list price": (*_BOOK, *_SALE, "hold_price_0", "hold_price_0", *_DEAL),
    "book, sell at a discount": (*_BOOK, *_SALE, "lower_quote_0", "quote_0", *_DEAL),
}
"""Agents that qualify by the book and then do one constant thing: no null policies."""

_REFUSALS = (
    "I am sorry, but I cannot give you any discount; my authority ends here.",
    "Unfortunately there is no discount on clearance goods.",
    "The last pieces are not discounted.",
    "I am afraid that it is out of stock.",
    "We do not carry anything with these features.",
    "I can put you on the waitlist.",
    "I can show you the nearest product that we have.",
)
_CONFIRMATIONS = (
    "Shall I book it for you? Please confirm with yes.",
    "Do you want me to place the order at this price?",
)
_PROMISES = ("I will book it for you right away.", "I will transfer you to a colleague.")
_EXPLANATIONS = (
    "It will be delivered within a few working days.",
    "All our goods are genuine and come with a full warranty.",
    "We offer better service than the other shop, and the price includes everything.",
    "If you do not like it, you can simply send it back.",
)
_QUESTIONS = (
    "What should it be able to do, what is your budget, and how many pieces do you need?",
)
_EVERYTHING = " ".join(
    [f"I recommend the {name}." for names in NAMES for name in names]
    + [f"It costs {money_text(dollars * 100)}." for dollars in range(59, 1900, 70)]
    + ["It is in stock.", "It has everything you need.", "I have booked the order."]
)
NULL_POLICIES: dict[str, Callable[[], FixedReplies]] = fixed_replies({
    "refuse-always": _REFUSALS,
    "confirm-everything": _CONFIRMATIONS,
    "promise-everything": _PROMISES,
    "explain-always": _EXPLANATIONS,
    "ask-everything": _QUESTIONS,
    "say-every-value": (_EVERYTHING,),
})
"""Null policies in text, by name."""
