"""Answers of tools and the buyer's turns as text, from the numbers that a row keeps.

    results   (code, numbers) ─► text
    acts      (act, what its value is made of) ─► JSON, `Spoken`
"""

from __future__ import annotations

import json
from functools import lru_cache
from types import SimpleNamespace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from convgym.domains.sales import batch_tools as codes
from convgym.domains.sales import tools
from convgym.domains.sales import view as views
from convgym.domains.sales.records import error_json
from convgym.domains.sales.tasks import Task
from convgym.domains.sales.vocabulary import ACTIONS, HEARD_AS, USER_ACTS
from convgym.domains.sales.world import PRODUCTS, world
from convgym.engine.batch import ILLEGAL
from convgym.engine.turn_words import Numbers
from convgym.language.voice import Spoken

_FIXED = {
    codes.LEFT: tools.LEFT,
    codes.ENDED: tools.ENDED,
    codes.NOT_IN_VIEW: error_json(tools.NOT_IN_VIEW),
    codes.NOT_IN_STOCK: error_json(tools.NOT_IN_STOCK),
    codes.BOOKED_ALREADY: error_json(tools.BOOKED_ALREADY),
    codes.NOT_QUOTED: error_json(tools.NOT_QUOTED),
    codes.ADDED_ALREADY: error_json(tools.ADDED_ALREADY),
}


@lru_cache(maxsize=1 << 14)
def _result(code: int, first: int, second: int, third: int, fourth: int, _: int) -> str:
    if code in _FIXED:
        return _FIXED[code]
    if code == ILLEGAL:
        return error_json(f"{ACTIONS.names[first]} refers to nothing seen so far")
    shop = world()
    if code == codes.FOUND:
        shown = shop.shown(first, second, third)
        return tools.found_text(shop, first, second, third, shown)
    if code == codes.ADDED:
        return tools.added_text(first)
    week, product = divmod(first, PRODUCTS)
    if code == codes.READ:
        return tools.product_text(shop, week, second, product)
    if code == codes.QUOTED:
        return tools.quote_text(shop, week, second, product, fourth, third)
    assert code == codes.BOOKED
    return tools.booked_text(week, product, second)


# -- the buyer's turn ------------------------------------------------------------------------------

_MADE_OF = {
    "request_product": ("category",),
    "inform_use": ("category", "first"),
    "inform_need_part": ("category", "first"),
    "inform_needs": ("category", "must"),
    "inform_needs_wrong": ("category", "wrong"),
    "inform_budget": ("budget",),
    "inform_budget_rough": ("budget",),
    "inform_quantity": ("quantity",),
    "reject_first": ("category", "first"),
    "reject_second": ("category", "second"),
    "ask_feature": ("category", "nice"),
    "counter_offer": ("target",),
    "object_competitor": ("rival",),
}
"""Fields of a task that the value of an act is made of."""
_FIELDS: tuple[tuple[str, ...], ...] = tuple(_MADE_OF.get(name, ()) for name in USER_ACTS)
assert _MADE_OF.keys() == views.SLOT_OF.keys()


@lru_cache(maxsize=16384)
def _said(act: int, first: int, second: int) -> tuple[str, Spoken]:
    """An act as JSON, and by name with its slot and value."""
    name, fields = USER_ACTS[act], _FIELDS[act]
    # All that the value of this act asks of a task; anything else would be missed.
    task = cast(Task, SimpleNamespace(**dict(zip(fields, (first, second), strict=False))))
    value = views.act_value(task, name)
    row = {"act": HEARD_AS[act], "value": value} if value else {"act": HEARD_AS[act]}
    return json.dumps(row), Spoken(HEARD_AS[act], views.SLOT_OF[name] if value else "", value)


_NAMED = tuple(sorted({field for fields in _FIELDS for field in fields}))
_PLACES = np.array(
    [[_NAMED.index(f) if f else len(_NAMED) for f in (*fields, "", "")[:2]] for fields in _FIELDS]
)
"""Place among `_NAMED` of the two fields of each act; behind them for none.  (acts, 2)"""


class SalesWords:
    """`TurnWords` of the sales desk."""

    names = HEARD_AS
    opening = np.isin(np.arange(len(USER_ACTS)), views.OPENING)
    informs = opening & ~np.isin(np.arange(len(USER_ACTS)), views.FIRST)

    result = staticmethod(_result)

    def stated(
        self, acts: Numbers, of: NDArray[np.int32], about: Numbers, tasks: NDArray[np.void]
    ) -> Numbers:
        """Two fields of the buyer's task; 0 where a value is made of fewer.  (n, 2)"""
        fields = np.stack([*(tasks[name] for name in _NAMED), np.zeros(len(tasks), np.int64)])
        return fields[_PLACES[acts], of[:, None]].astype(np.int64)

    def act_json(self, act: int, first: int, second: int) -> str:
        """An act as a JSON object."""
        return _said(act, first, second)[0]

    def act(self, act: int, first: int, second: int) -> Spoken:
        """An act by name, with the slot and the value of one that states something."""
        return _said(act, first, second)[1]
