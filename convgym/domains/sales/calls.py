"""Tool calls of free text: the schemas, and arguments held against what is in view.

    RawCall ─► check_arguments ─► ground_call ─► Call, when it is run
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from convgym.domains.sales.tools import MOST_DISCOUNT, MOST_PIECES
from convgym.domains.sales.vocabulary import (
    ADD_ADDON,
    BOOK_ORDER,
    CREATE_QUOTE,
    END_CONVERSATION,
    GET_PRODUCT,
    SEARCH_CATALOGUE,
    TRANSFER_TO_HUMAN,
)
from convgym.domains.sales.world import CATEGORIES, mask_of, product_by_name
from convgym.engine.acts import Call
from convgym.engine.episode import Episode
from convgym.language.tool_calls import RawCall, check_arguments


def _schema(description: str, /, *optional: str, **properties: str) -> dict[str, Any]:
    return {
        "description": description,
        "parameters": {
            "type": "object",
            "properties": {
                name: {"type": "string", "description": text} for name, text in properties.items()
            },
            "required": [name for name in properties if name not in optional],
            "additionalProperties": False,
        },
    }


_PRODUCT = "name of a product in view, or its handle, such as product:1"
TOOLS: dict[str, dict[str, Any]] = {
    "search_catalogue": _schema(
        "Find products of a category that have all the features named, cheapest first.",
        "features",
        category="what sort of product",
        features="features that it must have, with commas between; empty for any",
    ),
    "get_product": _schema(
        "Read one product: features, stock, clearance, days of delivery.", product=_PRODUCT
    ),
    "create_quote": _schema(
        "Make a quote for a product; it replaces the one before.",
        product=_PRODUCT,
        quantity="pieces, such as 2",
        discount="percent off the list price, such as 0 or 7.5",
    ),
    "add_addon": _schema("Put the add-on of the category into a quote.", product=_PRODUCT),
    "book_order": _schema("Book what was quoted for a product.", product=_PRODUCT),
    "transfer_to_human": _schema("Hand the conversation over and leave it."),
    "end_conversation": _schema("Hang up."),
}
TOOLS["search_catalogue"]["parameters"]["properties"]["category"]["enum"] = list(CATEGORIES)
TOOLS_JSON = json.dumps(
    [{"type": "function", "function": {"name": name, **body}} for name, body in TOOLS.items()]
)
_NUMBER = {
    "search_catalogue": SEARCH_CATALOGUE,
    "get_product": GET_PRODUCT,
    "create_quote": CREATE_QUOTE,
    "add_addon": ADD_ADDON,
    "book_order": BOOK_ORDER,
    "transfer_to_human": TRANSFER_TO_HUMAN,
    "end_conversation": END_CONVERSATION,
}
ENDING = ("transfer_to_human", "end_conversation")

UTTERANCES = (
    "Hello, how can I help you today?",
    "What should it be able to do?",
    "What is your budget?",
    "How many pieces do you need?",
    "I am sorry for the trouble.",
    "Is there anything else I can do for you?",
    "Thank you for your visit, goodbye.",
    '<tool_call>{"name": "search_catalogue", "arguments": {"category": "laptops"}}</tool_call>',
    '<tool_call>{"name": "get_product", "arguments": {"product": "product:1"}}</tool_call>',
    '<tool_call>{"name": "create_quote", "arguments": {"product": "product:1", "quantity": "1", '
    '"discount": "0"}}</tool_call>',
    '<tool_call>{"name": "transfer_to_human", "arguments": {}}</tool_call>',
)
"""What a random text policy says."""


def ground_call(episode: Episode, raw: RawCall) -> Call | str:
    """A checked call with rows and pointers, or one sentence of what is wrong with it."""
    body = TOOLS.get(raw.name)
    if body is None:
        return f"there is no tool {raw.name[:40]!r}; there are {', '.join(TOOLS)}"
    problem = check_arguments(body["parameters"], raw.arguments)
    if problem:
        return f"{raw.name}: {problem}"
    arguments: Mapping[str, str] = raw.arguments
    tool = _NUMBER[raw.name]
    if tool == SEARCH_CATALOGUE:
        return _search(arguments)
    if "product" not in arguments:
        return Call(tool)
    pointer = pointer_of(episode, arguments["product"])
    if pointer < 0:
        named = arguments["product"][:40]
        return f"{raw.name}: no product {named!r} is in view; search for it first"
    if tool == CREATE_QUOTE:
        return _quote(pointer, arguments)
    return Call(tool, 0, pointer)


def pointer_of(episode: Episode, named: str) -> int:
    """Place in view of a product, by name or handle; -1 where it is not in view."""
    view: list[int] = episode.desk.view
    named = named.strip().lower()
    if named.startswith("product:"):
        number = named[8:].strip()
        if len(number) == 1 and number in "123456789" and int(number) <= len(view):
            return int(number) - 1
        return -1
    product = product_by_name(named)
    return view.index(product) if product in view else -1


def per_mille(text: str) -> int:
    """`"7.5"` or `"7.5%"` → 75; -1 for what is no percentage with at most one decimal."""
    whole, _, rest = text.strip().removesuffix("%").strip().partition(".")
    rest = rest.rstrip("0")
    digits = whole + rest
    if not (digits.isascii() and digits.isdigit() and whole and len(whole) <= 3 and len(rest) < 2):
        return -1
    return int(whole) * 10 + int(rest or 0)


def _search(arguments: Mapping[str, str]) -> Call | str:
    category = CATEGORIES.index(arguments["category"])
    named = [name for name in arguments.get("features", "").split(",") if name.strip()]
    mask = mask_of(category, named[:16])
    if mask < 0:
        return (
            "search_catalogue: one of the features is not known of "
            f"{arguments['category']}; write them as the buyer does, with commas between"
        )
    return Call(SEARCH_CATALOGUE, category, detail=mask)


def _quote(pointer: int, arguments: Mapping[str, str]) -> Call | str:
    quantity, discount = arguments["quantity"].strip(), per_mille(arguments["discount"])
    counted = quantity.isascii() and quantity.isdigit() and len(quantity) <= 3
    if not counted or not 1 <= int(quantity) <= MOST_PIECES:
        return f"create_quote: the quantity is not a whole number from 1 to {MOST_PIECES}"
    if not 0 <= discount <= MOST_DISCOUNT:
        return f"create_quote: the discount is not a percentage from 0 to {MOST_DISCOUNT // 10}"
    return Call(CREATE_QUOTE, int(quantity), pointer, discount)
