"""The buyer's side of the shop: a wallet, a list of needs and a mailbox, unseen by the agent.

    open_wallet       what it has for this, and what it would pay at most
    read_list         what the product must have, and how many are needed
    search_mailbox    a mail about every order that was really booked

Who has to look its needs up reads them on the list and cannot state them before. What a buyer can
truthfully say of a product follows from that product: it does not like what it cannot use, turns
nothing down that would do, and takes no price above the one at which it walks away.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from convgym.domains.sales import rules
from convgym.domains.sales.records import DeskState, Terms, lacking
from convgym.domains.sales.tasks import Task
from convgym.domains.sales.view import act_value
from convgym.domains.sales.vocabulary import OBJECTIONS, U
from convgym.domains.sales.world import money_text, percent_text
from convgym.engine.episode import Episode
from convgym.language.tool_calls import RawCall, check_arguments

if TYPE_CHECKING:
    from convgym.domains.sales.desk import SalesDesk

OPEN_WALLET, READ_LIST, SEARCH_MAILBOX = range(3)
_DESCRIPTIONS = {
    "open_wallet": "See what you have for this, and what you would pay at most.",
    "read_list": "Read your list: what it must have, and how many you need.",
    "search_mailbox": "Search your mailbox for mails of the shop.",
}
_SCHEMA: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
_ON_LIST = "(it stands on your list)"


class BuyerRecord:
    """What a buyer has read and received in one episode."""

    __slots__ = ("has_read", "mails")

    def __init__(self) -> None:
        self.has_read = False
        self.mails: dict[int, str] = {}  # of bookings, by product

    def copy(self) -> BuyerRecord:
        """An independent copy."""
        copy = BuyerRecord()
        copy.has_read, copy.mails = self.has_read, {**self.mails}
        return copy


class SalesSide:
    """The tools of `user_0` in `ConvGym/Sales-v0`; see the module."""

    calls = tuple(RawCall(name, {}) for name in _DESCRIPTIONS)
    tools = json.dumps(
        [
            {
                "type": "function",
                "function": {"name": name, "description": text, "parameters": _SCHEMA},
            }
            for name, text in _DESCRIPTIONS.items()
        ]
    )
    utterances: tuple[str, ...] = (
        "Hello, I am looking for something.",
        "What does it cost?",
        "That is too expensive.",
        "Yes, please.",
        "No, that is not what I want.",
        "One moment, I have to look at my list.",
        "I do not know.",
        "Why do you need that?",
        "That cannot be right.",
        '<tool_call>{"name": "read_list", "arguments": {}}</tool_call>',
    )
    """Nothing of it ends a conversation."""

    def __init__(self, desk: SalesDesk) -> None:
        self._shop = desk.shop

    def open(self, episode: Episode) -> BuyerRecord:
        """Nothing read, and no mail."""
        return BuyerRecord()

    def describe(self, episode: Episode, own: BuyerRecord, role: str) -> str:
        """The role without the needs that stand on the list alone."""
        if not episode.user.knowledge.must_look_up:
            return role
        return role.replace(act_value(episode.task, "inform_needs"), _ON_LIST)

    # -- what is true ------------------------------------------------------------------------------

    def truthful(
        self, episode: Episode, own: BuyerRecord, known: NDArray[np.int8]
    ) -> NDArray[np.int8]:
        """What holds of the needs, the product spoken of last and the price on the table."""
        if episode.user.knowledge.must_look_up and not own.has_read:
            known[U["inform_needs"]] = 0
        for name, holds in self._claims(episode):
            if not holds:
                known[U[name]] = 0
        return known

    def _claims(self, episode: Episode) -> Iterator[tuple[str, bool]]:
        """Acts that say something of product, price or taste, and whether it is so."""
        task, desk = episode.task, episode.desk
        product = desk.named
        lacks = lacking(self._shop, episode, product, task.must) if product >= 0 else 0
        dear = product >= 0 and self._too_dear(task, product)
        yield "like_product", product >= 0 and not lacks and not dear
        yield "reject_first", bool(lacks >> task.first & 1)
        yield "reject_second", bool(lacks) and not lacks >> task.first & 1
        yield "reject_dear", dear and not lacks
        yield "ask_feature", task.nice >= 0
        yield "take_addon", task.wants_addon
        for number, name in enumerate(OBJECTIONS):
            yield f"object_{name}", number == task.objection
        pays = self._pays(task, desk.priced, desk)
        yield "accept_price", pays
        asked: Terms | None = desk.asked_to_confirm
        yield "affirm", pays if asked is None else _bears(task, asked[1])

    def _too_dear(self, task: Task, product: int) -> bool:
        price = self._shop.price[task.week][product]
        return bool(rules.excess(price, task.budget) > rules.OWN_STRETCH)

    @staticmethod
    def _pays(task: Task, product: int, desk: DeskState) -> bool:
        quote = desk.quotes.get(product)
        return quote is not None and quote.told and _bears(task, quote.discount)

    # -- tools -------------------------------------------------------------------------------------

    def call(self, episode: Episode, own: BuyerRecord, call: RawCall) -> str:
        """Look into the wallet, at the list or into the mailbox."""
        if call.name not in _DESCRIPTIONS:
            there = ", ".join(_DESCRIPTIONS)
            return _error(f"you have no tool {call.name[:40]!r}; you have {there}")
        problem = check_arguments(_SCHEMA, call.arguments)
        if problem:
            return _error(f"{call.name}: {problem}")
        if call.name == "open_wallet":
            return json.dumps(self._wallet(episode))
        if call.name == "search_mailbox":
            return json.dumps({"mails": list(own.mails.values())})
        own.has_read = True
        needs = act_value(episode.task, "inform_needs")
        return json.dumps({"must have": needs, "pieces": episode.task.quantity})

    def _wallet(self, episode: Episode) -> dict[str, str]:
        """What it pays, for the product whose price was told last in money as well."""
        task, product = episode.task, episode.desk.priced
        least = max(1000 - task.walk // 1000, 0)
        seen = {
            "budget a piece": money_text(task.budget),
            "least discount": percent_text(least) if task.walk < 1_000_000 else "none",
        }
        if product >= 0:
            most = self._shop.price[task.week][product] * min(task.walk, 1_000_000) // 1_000_000
            seen["at most for this one"] = money_text(most)
        return seen

    def rests_on(
        self, episode: Episode, own: BuyerRecord, acts: Sequence[int]
    ) -> tuple[int, ...]:
        """Who states needs that have to be looked up has read the list."""
        looks = episode.user.knowledge.must_look_up and not own.has_read
        return (READ_LIST,) if looks and U["inform_needs"] in acts else ()

    def sync(self, episode: Episode, own: BuyerRecord) -> None:
        """A mail for each order that was booked."""
        booked = {product for table, product, _ in episode.diff if table == "orders"}
        for product in sorted(booked):
            pieces = episode.diff["orders", product, "quantity"]
            price = int(episode.diff["orders", product, "price"])
            own.mails[product] = (
                f"Your order: {pieces} x {self._shop.name(product)} at {money_text(price)}."
            )


def _bears(task: Task, discount: int) -> bool:
    """Whether a price of so many per mille off the list is at most what the buyer pays."""
    return (1000 - discount) * 1000 <= task.walk


def _error(sentence: str) -> str:
    return json.dumps({"error": sentence})
