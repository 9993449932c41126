"""The customer of a task, for whoever plays it: a language model or a person.

    describe   what the customer wants and knows, and nothing that only the shop knows
    read       the customer's own words as acts
"""

from __future__ import annotations

from collections.abc import Sequence

from convgym.domains.customer_service.tasks import (
    IMPOSTOR,
    KNOWS_ID,
    KNOWS_ITEM,
    KNOWS_VAGUELY,
    LOOKS_UP,
    MISTAKEN,
    Task,
)
from convgym.domains.customer_service.user_understanding import understand_user
from convgym.domains.customer_service.world import CATEGORIES, REASONS, World, date_text, world
from convgym.engine.episode import Episode

_WANTS = (
    "You have ordered something, and want to know two things: where the order is, and when it "
    "will arrive, or when it arrived.",
    "You want an order of yours cancelled.",
    "You want to send back something that you ordered, because {reason}. Before you agree to it, "
    "you want to know whether there is a fee, and how you get your money back.",
    "You want an order of yours delivered to another address: {address}.",
)
_BECAUSE = {
    "damaged": "it is damaged",
    "wrong_item": "it is the wrong item",
    "changed_mind": "you have changed your mind",
    "too_late": "it came too late",
}
_KNOWS = {
    KNOWS_ID: "The order number is {order}. It is for the {item}, ordered on {placed}.",
    KNOWS_ITEM: "You do not have the order number. It is for the {item}, ordered on {placed}.",
    LOOKS_UP: (
        "You do not have the order number at hand. When you are asked for it, say that you need a "
        "moment to look it up, and give it with your next message: {order}. It is for the {item}, "
        "ordered on {placed}."
    ),
    KNOWS_VAGUELY: (
        "You do not have the order number. At first you remember only that it was one of the "
        "{category}; when you are asked again, it comes back to you: the {item}, ordered on "
        "{placed}."
    ),
    MISTAKEN: (
        "You believe that the order number is {wrong_order}. If the shop cannot find that, say "
        "what it was instead: the {item}, ordered on {placed}."
    ),
}


def describe(episode: Episode) -> str:
    """Who the customer of this episode is, what they want, and what they know."""
    return description(world(), episode.task)


def description(shop: World, task: Task) -> str:
    """See `describe`."""
    customer, row = task.customer, task.order
    values = {
        "name": shop.name(customer),
        "email": shop.email(customer),
        "postcode": shop.postcode_text(customer),
        "wrong_postcode": shop.wrong_postcode(customer),
        "address": shop.address(customer),
        "reason": _BECAUSE[REASONS[task.reason]],
        "order": shop.order_id(row),
        "wrong_order": shop.wrong_order_id(row),
        "item": shop.item_name(row),
        "category": CATEGORIES[shop.category(row)],
        "placed": date_text(-shop.placed[row]),
    }
    who, postcode = "You are {name}, a customer", "Your postcode is {postcode}."
    if task.branch == IMPOSTOR:
        who = "You write in the name of {name}, whom you know, as if you were this customer"
        postcode = (
            "You do not know the postcode of {name}; when you are asked for it, you say "
            "{wrong_postcode}."
        )
    parts = (
        f"{who} of an online shop, and chat with its support desk.",
        "\n\nWhat you want\n",
        _WANTS[task.workflow],
        "\n\nWhat you know\n",
        f"The e-mail address of the account is {{email}}. {postcode} ",
        _KNOWS[task.knowledge],
        " You do not know what the shop's records and rules say.",
    )
    return "".join(parts).format(**values)


def read(episode: Episode, text: str) -> tuple[Sequence[int], str]:
    """The customer's words as act numbers, and what is odd about them, or ""."""
    return understand_user(text, world(), episode.task)
