"""Words for the acts of the shop: the buyer's voices, and the agent's acts as replies.

    act number + view ─► phrase key ─► wording of the bank ─► names in braces filled in
                     └─► a tool: <think>…</think><tool_call>…</tool_call>

The agent's wording knows nothing but the *view*: what the buyer has said and what tools returned.
What a newcomer would get wrong: an answer to "I need it soon" names days only where the view leaves
no doubt which product is spoken of, since days of another one would be a falsehood.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from convgym.domains.sales.rules import MORE_FOR_MANY
from convgym.domains.sales.vocabulary import (
    ACTIONS,
    ADD_ADDON,
    BOOK_ORDER,
    CREATE_QUOTE,
    DENIALS,
    END_CONVERSATION,
    FACT_FEATURE,
    GET_PRODUCT,
    HELD,
    LOWER,
    OBJECTIONS,
    OFFERS,
    SEARCH_CATALOGUE,
    SLOTS,
    TRANSFER_TO_HUMAN,
)
from convgym.engine import acts
from convgym.engine.actions import Action
from convgym.language.phrases import PhraseBank, packaged_banks
from convgym.language.retrieval import packaged_indexes
from convgym.language.voice import Voice

PACKAGE = "convgym.domains.sales"
View = Mapping[str, Any]
_TOOLS = {
    SEARCH_CATALOGUE: "search_catalogue",
    GET_PRODUCT: "get_product",
    CREATE_QUOTE: "create_quote",
    ADD_ADDON: "add_addon",
    BOOK_ORDER: "book_order",
    TRANSFER_TO_HUMAN: "transfer_to_human",
    END_CONVERSATION: "end_conversation",
}
_PLAIN = {
    acts.ASK_INTENT: "ask_intent",
    acts.ASK_MORE: "ask_more",
    acts.APOLOGISE: "apologise",
    acts.CLOSE: "close",
    acts.REPORT_DONE: "report_done",
}


def user_voices() -> dict[str, Voice]:
    """The buyer's wordings: `train` and `held_out`."""
    banks = packaged_banks(PACKAGE, "user_phrases.toml")
    indexes = packaged_indexes(PACKAGE, "user_turns.toml")
    return {part: Voice(bank, indexes[part]) for part, bank in banks.items()}


def agent_banks() -> dict[str, PhraseBank]:
    """The agent's wordings: `train` and `held_out`."""
    return packaged_banks(PACKAGE, "agent_phrases.toml")


def agent_text(number: int, view: View, bank: PhraseBank, drawn: int) -> str:
    """An act as a reply: words for speech, a thought and a call for a tool."""
    action = ACTIONS.actions[number]
    if action.kind >= acts.FIRST_TOOL:
        name = _TOOLS[action.kind]
        call = json.dumps({"name": name, "arguments": _arguments(action, view)})
        thought = bank.pick(f"think_{name}", drawn)
        return f"<think>{thought}</think><tool_call>{call}</tool_call>"
    phrase = bank.pick(phrase_key(action, view), drawn)
    for name, value in _values(action, view).items():
        phrase = phrase.replace("{" + name + "}", value)
    return phrase


# -- speech ----------------------------------------------------------------------------------------


def phrase_key(action: Action, view: View) -> str:
    """Under which name the wordings of an act of speech stand."""
    kind, argument = action.kind, action.argument
    if kind in _PLAIN:
        return _PLAIN[kind]
    if kind == acts.ASK:
        return f"ask_{SLOTS[argument]}"
    if kind == acts.DENY:
        return f"deny_{DENIALS[argument]}"
    if kind == acts.OFFER:
        return f"offer_{OFFERS[argument]}"
    if kind == acts.EXPLAIN:
        return _explanation(argument, view)
    product = _product(action, view)
    quote = product.get("quote", {})
    if kind == acts.RECOMMEND:
        return "recommend" if _met(product, view) else "recommend_plain"
    if kind == acts.TELL:
        assert argument == FACT_FEATURE
        return f"inform_feature_{'has' if product.get('has_asked') else 'lacks'}"
    if kind == acts.CONFIRM:
        return "confirm_addon" if quote.get("addon") else "confirm"
    if kind == acts.QUOTE:
        lower = quote.get("discount", "0%") != "0%"
        return "hold_price" if argument == HELD else f"quote_{'lower' if lower else 'list'}"
    assert kind == acts.CHAT
    return "greet"


def _explanation(argument: int, view: View) -> str:
    """Which objection is answered, or which question."""
    if not argument:
        return f"explain_{view['question'] or 'next'}"
    answered = OBJECTIONS[argument - 1]
    exact = answered == "delivery" and _spoken_of(view)
    return f"answer_{answered}_days" if exact else f"answer_{answered}"


def _product(action: Action, view: View) -> Mapping[str, Any]:
    """The product that an act points at; for an answer the one that is spoken of."""
    if action.pointer >= 0:
        return dict(view["products"].get(str(action.pointer), {}))
    return _spoken_of(view)


def _spoken_of(view: View) -> Mapping[str, Any]:
    """The product whose price was told, or the only one that would do; else empty."""
    products = [p for p in view["products"].values() if "delivery" in p]
    told = [p for p in products if p.get("quote", {}).get("told")]
    fitting = [p for p in products if _met(p, view) and p["stock"] >= _pieces(view)]
    found = next((some for some in (told, fitting, products) if some), [])
    return found[0] if len(found) == 1 else {}


def _met(product: Mapping[str, Any], view: View) -> list[str]:
    """The needs, where a product that was read has all of them."""
    needs: list[str] = view["heard"].get("needs", [])
    return needs if set(needs) <= set(product.get("features", [])) else []


def _pieces(view: View) -> int:
    return int(view["heard"].get("quantity", 1))


def _values(action: Action, view: View) -> dict[str, str]:
    """What stands in braces."""
    heard, product, addon = view["heard"], _product(action, view), view["addon"]
    quote = product.get("quote", {})
    quantity = quote.get("quantity", _pieces(view))
    days = product.get("delivery", 0)
    return {
        "product": product.get("product", "product"),
        "price": quote.get("price", product.get("list_price", "")),
        "discount": quote.get("discount", ""),
        "total": quote.get("total", ""),
        "pieces": "1 piece" if quantity == 1 else f"{quantity} pieces",
        "needs": _joined(heard.get("needs", [])) or "the features that you need",
        "feature": heard.get("feature", "that feature"),
        "rival": heard.get("rival", "the other shop"),
        "days": f"{days} working day{'s' if days != 1 else ''}",
        "nearest": view["nearest"] or "nearest product",
        "addon": addon.get("name", "extra"),
        "addon_price": addon.get("price", "a small sum"),
        "order": view["order"],
    }


def _joined(names: list[str]) -> str:
    return " and ".join(names)


# -- tools -----------------------------------------------------------------------------------------


def _arguments(action: Action, view: View) -> dict[str, str]:
    """The arguments of a call, all strings."""
    heard = view["heard"]
    if action.kind == SEARCH_CATALOGUE:
        features = ", ".join(heard.get("needs", []))
        return {"category": heard.get("category", ""), "features": features}
    if action.kind in (TRANSFER_TO_HUMAN, END_CONVERSATION):
        return {}
    product = _product(action, view)
    arguments = {"product": product.get("product", f"product:{action.pointer + 1}")}
    if action.kind == CREATE_QUOTE:
        quote = product.get("quote", {})
        arguments["quantity"] = str(_pieces(view))
        arguments["discount"] = _discount(quote, action.argument == LOWER, view)
    return arguments


def _discount(quote: Mapping[str, Any], lower: bool, view: View) -> str:
    """Percent as a plain number: that of the quote, or one step more, within the authority."""
    percent = _percent(quote.get("discount", "0%"))
    if lower:
        step, most = _percent(view["policy"]["step"]), _percent(view["policy"]["authority"])
        if percent >= most:  # more is allowed for many pieces only, where the rules say so
            most += Decimal(MORE_FOR_MANY) / 10
        percent = min(percent + step, most) if percent < most else percent + step
    return f"{min(percent, Decimal(90)).normalize():f}"


def _percent(text: str) -> Decimal:
    return Decimal(text.removesuffix("%"))
