"""Sales conversations that come to a point in acts, and go on there in words."""

import dataclasses
import json
import re
from functools import cache
from pathlib import Path

from sales_driven import DESK, act_of, begin
from sales_seller import BUYER, PATIENT

from convgym.domains.sales import cells
from convgym.domains.sales.descriptions import features_placed
from convgym.domains.sales.labels import is_label, labels
from convgym.domains.sales.user_understanding import understand_user
from convgym.domains.sales.vocabulary import ACTIONS, HEARD_AS, SAID, U
from convgym.domains.sales.world import (
    CATEGORIES,
    EVERY_NAME,
    FEATURES,
    FEATURES_EACH,
    RIVALS,
)
from convgym.evaluation.labelled import Reading
from convgym.policies.sales import OraclePolicy

DATA = Path(__file__).parent / "data"
USES = tuple(use for features in FEATURES for _, use in features)

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


def rows(name):
    """The rows of a file of JSON lines under tests/data."""
    return [json.loads(line) for line in (DATA / name).read_text("utf-8").splitlines()]


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
        "OTHER": next(name for name in EVERY_NAME if name not in shown),
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


def weighty(episode, said=()):
    """What a conversation counts that could move its outcome, by name."""
    desk, belief = episode.desk, episode.belief
    counted = {
        "agreed": "affirm" in said or "accept_price" in said,
        "done": belief[cells.TOLD_DONE],
        "decided": desk.decided_right,
        "prices": any(quote.told for quote in desk.quotes.values()),
        "recommended": desk.recommended,
        "denied": any(belief[cell] for cell in cells.DENIED),
        "offered": any(belief[cell] for cell in cells.OFFERED),
        "addon": belief[cells.OFFERED_ADDON],
        "answered": any(belief[cell] for cell in cells.ANSWERED),
    }
    return {name for name, holds in counted.items() if holds}


# -- labelled replies and messages -----------------------------------------------------------------

_SUM = re.compile(r"[$€£] ?(\d[\d,]*)(?:\.(\d\d))?|\b(\d[\d,]*) (?:dollars|bucks)\b")
_SHARE = re.compile(r"\b(\d{1,2})(?:\.(\d))? ?(?:%|percent\b|per cent\b)")
_NUMBERS = "one two three four five six seven eight nine ten".split()
_PIECES = re.compile(rf"\b(\d{{1,3}}|{'|'.join(_NUMBERS)})\b", re.IGNORECASE)


def buyer_of(text, acts):
    """A task whose buyer has every value of the text: as budget, as need, as question, ….

    Which of these a value is stays open, but for one thing: whether there is a second need.
    """
    named = [feature for feature, _ in features_placed(text)]
    named += [f for f, use in enumerate(USES) if use in text.lower()]
    has = {}
    for number, category in enumerate(CATEGORIES):
        if category.removesuffix("s") in text.lower():
            has["category"] = number
    if named:
        own = [feature % FEATURES_EACH for feature in named]
        must = sum(1 << feature for feature in set(own))
        if "inform_need_part" in acts:
            must |= 1 << (own[0] + 1) % FEATURES_EACH
        has |= {"category": named[0] // FEATURES_EACH, "must": must}
        has |= {"first": own[0], "nice": own[-1]}
    for whole, cents, plain in _SUM.findall(text):
        has["budget"] = int((whole or plain).replace(",", "")) * 100 + int(cents or 0)
    for whole, tenth in _SHARE.findall(text):
        has["target"] = 1000 - int(whole) * 10 - int(tenth or 0)
    for number, name in enumerate(RIVALS):
        if name in text:
            has["rival"] = number
    counted = _PIECES.findall(_SHARE.sub(" ", _SUM.sub(" ", text)))
    for word in counted[:1]:
        spelt = word.lower() in _NUMBERS
        has["quantity"] = _NUMBERS.index(word.lower()) + 1 if spelt else int(word)
    return dataclasses.replace(DESK.task("train", 0), **has)


def acts_heard(row):
    """Names of the acts that are read of a labelled message of such a buyer."""
    numbers, _ = understand_user(row["text"], buyer_of(row["text"], row["acts"]))
    return {HEARD_AS[number] for number in numbers}


def replies(name):
    """The agent's replies of a labelled file, as they are read."""
    return Reading.of(DATA / name, lambda row: labels(row["text"]), is_label)


def messages(name, read=acts_heard):
    """The buyer's messages of a labelled file, as `read` reads them."""
    return Reading.of(DATA / name, read, SAID.__contains__)
