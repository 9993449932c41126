"""Sales conversations that come to a point in acts, and go on there in words."""

import json
import re
from functools import cache

from sales_driven import DESK, act_of, begin
from sales_seller import BUYER, PATIENT

from convgym.domains.sales import cells
from convgym.domains.sales.vocabulary import ACTIONS, U
from convgym.domains.sales.world import NAMES
from convgym.policies.sales import OraclePolicy

EVERY_PRODUCT = tuple(name for names in NAMES for name in names)

# Kind of trick -> how the oracle's act begins in whose place it comes, and the wanted tasks.
PLACES = {
    "confirm": "confirm",
    "done": "report_done",
    "quote": "quote",
    "feature": "inform_feature",
    "recommend": "recommend",
    "deny": "deny_beyond_authority",
    "waitlist": "offer_waitlist",
    "nearest": "offer_nearest",
    "addon": "offer_addon",
    "answer": "answer_delivery",
}


def before(task, start, steps=60):
    """(episode, engine, pointer) just before the oracle's act that begins so; None where none."""
    episode, engine = begin(task, 5, BUYER, PATIENT)
    for _ in range(steps):
        if episode.end:
            return None
        name = ACTIONS.names[act_of(OraclePolicy(), episode)]
        if name.startswith(start):
            return episode, engine, int(name[-1]) if name[-1].isdigit() else -1
        engine.apply(episode, DESK.turn(episode, ACTIONS[name]))
    return None


@cache
def tasks_with(start, count, split="test"):
    """The first tasks of a split in which the oracle comes to such an act."""
    found = []
    for number in range(4000):
        task = DESK.task(split, number)
        if before(task, start) is not None:
            found.append(task)
        if len(found) == count:
            break
    return tuple(found)


def say(episode, engine, text):
    """The agent says this; returns the names of the buyer's acts."""
    engine.apply(episode, DESK.understand(episode, text))
    turn = episode.user_turn
    return [name for name, number in U.items() if turn and number in turn.acts]


def spoken_of(episode, pointer):
    """The product in view that the act would point at."""
    desk = episode.desk
    if pointer >= 0:
        return pointer
    product = desk.booked if desk.booked >= 0 else desk.named
    return desk.view.index(product) if product in desk.view else -1


def filled(text, episode, pointer):
    """A text with what is true at this point in its slots, and some that is not."""
    view = DESK.view(episode)
    place = spoken_of(episode, pointer)
    product = view["products"].get(str(place), {})
    quote = product.get("quote", {})
    shown = {p["product"] for p in view["products"].values()} | {view["nearest"]}
    price = quote.get("price", product.get("list_price", "$100"))
    quantity = quote.get("quantity", 1)
    days = product.get("delivery", 1)
    values = {
        "P": product.get("product", ""),
        "OTHER": next(name for name in EVERY_PRODUCT if name not in shown),
        "PRICE": price,
        "DOLLARS": price.removeprefix("$"),
        "WRONG": "$1,234.56",
        "TOTAL": quote.get("total", ""),
        "N": str(quantity),
        "M": str(quantity + 1),
        "PIECES": f"{quantity} piece{'s' if quantity > 1 else ''}",
        "F": view["heard"].get("feature", ""),
        "TRUTH": "has" if product.get("has_asked") else "does not have",
        "ORDER": view["order"],
        "ADDON": view["addon"].get("name", ""),
        "ADDONPRICE": view["addon"].get("price", ""),
        "DAYS": f"{days} working day{'s' if days > 1 else ''}",
        "WRONGDAYS": str(days + 2),
    }
    for slot, value in values.items():
        text = text.replace("{" + slot + "}", value)
    assert not re.search(r"\{[A-Z]+\}", text), text
    return text


def credited(kind, episode, pointer, said):
    """Whether the conversation now counts what a sentence of that kind would bring."""
    desk, belief = episode.desk, episode.belief
    product = desk.view[pointer] if pointer >= 0 else -1
    if kind == "confirm":
        return "affirm" in said
    if kind == "done":
        return bool(belief[cells.TOLD_DONE])
    if kind == "quote":
        return desk.quotes[product].told
    if kind == "feature":
        return not belief[cells.PENDING_FEATURE]
    if kind == "recommend":
        return bool(desk.recommended >> product & 1)
    if kind == "deny":
        return any(belief[cell] for cell in cells.DENIED)
    if kind == "addon":
        return bool(belief[cells.OFFERED_ADDON])
    if kind == "answer":
        return bool(belief[cells.ANSWERED[0]])
    return bool(belief[cells.OFFERED[kind == "nearest"]])


def rows(name):
    """The rows of a file of `tests/data`."""
    from pathlib import Path

    text = (Path(__file__).parent / "data" / name).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines() if line]
