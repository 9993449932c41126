"""What is in sight, by name, and the values that a buyer's acts state.

The agent's wording sees only the *view*: what the buyer said and what tools returned, a plain
dictionary that the `dict` observation carries as JSON. A buyer's values follow from its task
alone, so that a turn can be put into words at any later time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from convgym.desk import state
from convgym.domains.sales import cells, rules
from convgym.domains.sales.records import DeskState
from convgym.domains.sales.tasks import Task
from convgym.domains.sales.tools import order_id
from convgym.domains.sales.vocabulary import (
    HEARD_AS,
    OBJECTIONS,
    QUESTIONS,
    SAID_CELL,
    USER_ACTS,
    U,
)
from convgym.domains.sales.world import (
    ADDONS,
    CATEGORIES,
    FEATURES,
    RIVALS,
    World,
    money_text,
    names_of,
    percent_text,
)
from convgym.engine.episode import Episode
from convgym.language.voice import Spoken


def needs_text(category: int, mask: int) -> str:
    """`touchscreen and numeric keypad`: how features are named together."""
    return " and ".join(names_of(category, mask))


def rough_budget(budget: int) -> int:
    """Cents, to the nearest hundred dollars; of a small sum to the nearest fifty."""
    unit = 10000 if budget >= 50000 else 5000
    return max(unit, (budget + unit // 2) // unit * unit)


def _feature(task: Task, feature: int) -> str:
    return FEATURES[task.category][feature][0] if feature >= 0 else ""


_VALUES: dict[str, Callable[[Task], str]] = {
    "request_product": lambda task: CATEGORIES[task.category],
    "inform_use": lambda task: FEATURES[task.category][task.first][1],
    "inform_need_part": lambda task: _feature(task, task.first),
    "inform_needs": lambda task: needs_text(task.category, task.must),
    "inform_needs_wrong": lambda task: _feature(task, task.wrong),
    "inform_budget": lambda task: money_text(task.budget),
    "inform_budget_rough": lambda task: money_text(rough_budget(task.budget)),
    "inform_quantity": lambda task: str(task.quantity),
    "reject_first": lambda task: _feature(task, task.first),
    "reject_second": lambda task: _feature(task, task.second),
    "ask_feature": lambda task: _feature(task, task.nice),
    "counter_offer": lambda task: percent_text(1000 - task.target),
    "object_competitor": lambda task: RIVALS[task.rival],
}
SLOT_OF = {
    "request_product": "category",
    "inform_use": "use",
    "inform_need_part": "needs",
    "inform_needs": "needs",
    "inform_needs_wrong": "needs",
    "inform_budget": "budget",
    "inform_budget_rough": "budget",
    "inform_quantity": "quantity",
    "reject_first": "missing",
    "reject_second": "missing",
    "ask_feature": "feature",
    "counter_offer": "percent",
    "object_competitor": "rival",
}
"""The placeholder of an act's value in its wordings."""
assert SLOT_OF.keys() == _VALUES.keys()


def act_value(task: Task, name: str) -> str:
    """The value that a buyer's act, by name, states; empty where it states none."""
    return _VALUES[name](task) if name in _VALUES else ""


def goal_values(task: Task) -> dict[str, str]:
    """Every value that this buyer can state, by act."""
    return {name: value(task) for name, value in _VALUES.items()}


FIRST = (U["greet"], U["request_product"])
OPENING = (*FIRST, *(U[name] for name in USER_ACTS if name.startswith("inform_")))
"""Acts of which a first turn is made, and those of them that are said first."""


def in_spoken_order(turn_acts: tuple[int, ...]) -> tuple[int, ...]:
    """A buyer's acts in the order in which they are put into words."""
    if all(act in OPENING for act in turn_acts):
        # Who answers first and then remembers why they came writes it the other way round.
        return tuple(sorted(turn_acts, key=lambda act: act not in FIRST))
    return turn_acts


def spoken(task: Task, turn_acts: tuple[int, ...]) -> list[Spoken]:
    """A buyer's acts by name, with the slot and the value of those that state one."""
    said = []
    for act in in_spoken_order(turn_acts):
        name = USER_ACTS[act]
        value = act_value(task, name)
        said.append(Spoken(HEARD_AS[act], SLOT_OF[name] if value else "", value))
    return said


def acts_json(task: Task, turn_acts: tuple[int, ...]) -> str:
    """A buyer's turn as a JSON list of `{"act", "value"}`."""
    return state.acts_json([(HEARD_AS[act], act_value(task, USER_ACTS[act])) for act in turn_acts])


def view(shop: World, episode: Episode) -> dict[str, Any]:
    """All that the agent has in sight, by name; holds nothing it has not seen or heard."""
    task, desk, belief = episode.task, episode.desk, episode.belief
    addon, addon_price = ADDONS[task.category]
    asked = bool(belief[cells.HEARD_REQUEST])
    nearest = belief[cells.NONE_FOUND] and shop.name(
        shop.nearest(task.week, task.category, desk.searched)
    )
    pending = (name for k, name in enumerate(OBJECTIONS) if belief[cells.PENDING[k]])
    questions = (name for name in QUESTIONS if belief[SAID_CELL[U[name]]])
    return {
        "heard": _heard(task, desk, belief),
        "products": {
            str(k): _product(shop, episode, product) for k, product in enumerate(desk.view)
        },
        "nearest": nearest or "",
        "addon": {"name": addon, "price": money_text(addon_price)} if asked else {},
        "policy": {
            "authority": percent_text(desk.parameters["authority"]),
            "step": percent_text(desk.parameters["step"]),
        },
        "order": order_id(task.week, desk.booked) if desk.booked >= 0 else "",
        "objection": next(pending, ""),
        "question": next(questions, "").removeprefix("ask_"),
    }


def _heard(task: Task, desk: DeskState, belief: bytearray) -> dict[str, Any]:
    heard: dict[str, Any] = {}
    if belief[cells.HEARD_REQUEST]:
        heard["category"] = CATEGORIES[task.category]
    if belief[cells.HEARD_USE]:
        heard["use"] = act_value(task, "inform_use")
    if desk.needs:
        heard["needs"] = names_of(task.category, desk.needs)
    if belief[cells.HEARD_BUDGET]:
        heard["budget"] = act_value(task, "inform_budget")
    if belief[cells.HEARD_BUDGET_ROUGH]:
        heard["budget_rough"] = act_value(task, "inform_budget_rough")
    if belief[cells.HEARD_QUANTITY]:
        heard["quantity"] = act_value(task, "inform_quantity")
    if desk.feature >= 0:
        heard["feature"] = act_value(task, "ask_feature")
    if desk.rival:
        heard["rival"] = act_value(task, "object_competitor")
    if desk.countered:
        heard["percent"] = act_value(task, "counter_offer")
    return heard


def _product(shop: World, episode: Episode, product: int) -> dict[str, Any]:
    """One product in view, as far as it has been read and quoted."""
    week, desk = episode.task.week, episode.desk
    price = shop.price[week][product]
    seen: dict[str, Any] = {"product": shop.name(product), "list_price": money_text(price)}
    if desk.read >> product & 1:
        seen["features"] = shop.feature_names(product)
        seen["stock"] = shop.stock[week][product]
        seen["clearance"] = bool(shop.clearance[week][product])
        seen["delivery"] = shop.delivery[week][product]
        seen["has_asked"] = desk.feature >= 0 and bool(shop.features[product] >> desk.feature & 1)
    quote = desk.quotes.get(product)
    if quote is not None:
        piece = rules.quoted_price(price, quote.discount)
        extra = ADDONS[episode.task.category][1] if quote.addon else 0
        seen["quote"] = {
            "price": money_text(piece),
            "discount": percent_text(quote.discount),
            "quantity": quote.quantity,
            "total": money_text(piece * quote.quantity + extra),
            "addon": quote.addon,
            "told": quote.told,
        }
    return seen
