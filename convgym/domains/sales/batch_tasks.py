"""Tasks as records: each compiled from the plain one, or drawn where it is needed.

    compile_task   Task ─► record                     draw_rows   (split, numbers) ─► records

`draw_rows` is `convgym.domains.sales.tasks.draw_task` on integers, under the same names and in the
same order. What differs between splits stands in a plan: the shares of the branches, the pools,
and the objections. A set of a category's products is a bit set of their places in the order of
prices, so that its lowest bit is the cheapest.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.domains.sales import rules, shelves, tasks
from convgym.domains.sales.batch_lengths import oracle_length
from convgym.domains.sales.batch_records import WITHIN_BUDGET, is_beyond
from convgym.domains.sales.batch_rules import (
    ALLOWS,
    AVAILABLE,
    EFFECTS,
    FOUND,
    LARGE_ABOVE,
    ON_AVAILABILITY,
    PARAMETERS,
    REASONS,
    STRETCH,
    TRANSFERS,
    authority,
    fires,
    price_refusal,
)
from convgym.domains.sales.batch_shelves import (
    cheapest,
    count_of,
    lowest,
    matching,
    member,
    nearest,
)
from convgym.domains.sales.batch_user import known_of
from convgym.domains.sales.tasks import (
    BANDS,
    BRANCHES,
    BULK,
    LARGE,
    LAST,
    MANY,
    NO_ADDON,
    NOT_CARRIED,
    SELL,
    SOLD_OUT,
    TARGETS,
    Task,
)
from convgym.domains.sales.vocabulary import BUDGETS, CLEAR, MISTAKEN, OFFERS, PARTIAL
from convgym.domains.sales.world import CATEGORIES, EACH, FEATURES_EACH, IN_VIEW, RIVALS
from convgym.engine.batch import Fields, Ints, below, child, draw, numbers, record
from convgym.engine.kernel import kernel, loop
from convgym.engine.keys import EPISODE, TASK
from convgym.engine.tasks import _stem

_SAME = (
    "branch week category must first second nice wrong quantity knowledge budget budget_kind "
    "target walk objection wants_addon rival switches allowed oracle_length"
)
TASK_FIELDS: Fields = [
    *numbers(f"{_SAME} effect reason alternative known n_eligible n_best"),
    ("eligible", np.int32, (IN_VIEW,)),
    ("best", np.int32, (IN_VIEW,)),
    ("parameters", np.int32, (len(PARAMETERS),)),
]
"""`Task`. `effect`, `reason` and `alternative` are rows of `EFFECTS`, `REASONS` and `OFFERS`, -1
for none; `known` is the row of what the buyer knows; `eligible` and `best` end with -1."""


def compile_task(task: Task, into: np.void) -> None:
    """Write a task into a record."""
    for name in _SAME.split():
        into[name] = getattr(task, name)
    decision = task.decision
    into["effect"] = EFFECTS.index(decision.effect)
    into["reason"] = REASONS.index(decision.reason) if decision.reason else -1
    into["alternative"] = OFFERS.index(decision.alternative) if decision.alternative else -1
    into["known"] = known_of(task)
    into["parameters"] = tuple(rules.parameter_dict(task.parameters).values())
    for name in ("eligible", "best"):
        products = getattr(task, name)
        into[f"n_{name}"] = len(products)
        into[name] = -1
        into[name][: len(products)] = products


# -- what a split draws from -----------------------------------------------------------------------


class _Asked(tasks.Draws):
    """Draws that note what they are asked to choose among, and choose as they are told."""

    def __init__(self, **chosen: int) -> None:
        self.chosen = chosen
        self.options: dict[int, tuple[int, ...]] = {}

    def pick(self, index: int, count: int) -> int:
        """The last of `count`, which is never a special case."""
        return count - 1

    def one_of(self, index: int, options: tuple[int, ...] | list[int]) -> int:
        """The first of the options, or the one that was asked for."""
        self.options[index] = tuple(options)
        return options[self.chosen.get(str(index), 0)]


def _padded(lists: list[tuple[int, ...]], width: int) -> NDArray[np.int32]:
    table = np.full((len(lists), width), -1, dtype=np.int32)
    for row, values in enumerate(lists):
        table[row, : len(values)] = values
    return table


def _common_plan() -> dict[str, Any]:
    """What all splits share."""
    every_bits = range(16)
    steps = []
    for place in range(len(rules.PARAMETERS["authority"])):
        asked = _Asked(**{str(tasks._AUTHORITY): place})
        tasks._parameters(asked, SELL, 0)
        steps.append(asked.options[tasks._STEP])
    return {
        "switches": [
            [tasks._switches(bits, branch) for branch in range(len(BRANCHES))]
            for bits in every_bits
        ],
        "authority": rules.PARAMETERS["authority"],
        "steps": _padded(steps, max(map(len, steps))),
        "n_steps": [len(options) for options in steps],
        "bulk_above": rules.PARAMETERS["bulk_above"],
        "stretch": rules.PARAMETERS["stretch"],
        "many_from": rules.PARAMETERS["many_from"],
        "large_above": rules.PARAMETERS["large_above"],
        "quantities": tasks._QUANTITIES,
        "knowledges": tasks._KNOWLEDGES,
        "budgets": tasks._BUDGETS,
        "targets": TARGETS,
        "bands": BANDS,
    }


def plan(split: str) -> tuple[NDArray[np.void], NDArray[np.int32]]:
    """What the tasks of a split are drawn from: a record (1,), and its pools as (n, 2) of week and
    needs."""
    weights = tasks._WEIGHTS.get(split, tasks._USUAL_WEIGHTS)
    weeks = tasks.weeks_of(split)
    held_out = split == "test_primitive"
    pools: list[tuple[int, int]] = []
    first = np.zeros((len(BRANCHES), len(CATEGORIES)), dtype=np.int64)
    count = np.zeros_like(first)
    objections = []
    may_have_none = False
    for category in range(len(CATEGORIES)):
        for branch in np.flatnonzero(weights).tolist():
            if held_out == (category == tasks.HELD_OUT_CATEGORY):
                pool = shelves.pool(weeks, category, tasks._POOL_OF[branch])
                first[branch, category], count[branch, category] = len(pools), len(pool)
                pools += pool
        asked = _Asked()
        drawn = tasks._objection(asked, split, category)
        may_have_none = bool(asked.options)
        objections.append(asked.options.get(tasks._OBJECTION, (drawn,)))
    made = record(
        stem=np.uint64(_stem("sales", split)),
        tops=np.cumsum(weights),
        category=tasks.HELD_OUT_CATEGORY if held_out else -1,
        pool_first=first,
        pool_count=count,
        objections=_padded(objections, 2 * len(CATEGORIES)),
        n_objections=[len(options) for options in objections],
        may_have_none=may_have_none,
        **_common_plan(),
    )
    return made, np.array(pools, dtype=np.int32)


# -- drawing ---------------------------------------------------------------------------------------

_BULK_REASON, _LARGE_REASON = REASONS.index("bulk"), REASONS.index("large_total")
_BULK_PIECES = 12
"""How many numbers of pieces a bulk order is drawn from."""
_EVERY_FEATURE = (1 << FEATURES_EACH) - 1
_AUTHORITY, _BULK_ABOVE, _MANY_FROM, _MORE, _STEP = (
    PARAMETERS.index(name)
    for name in ("authority", "bulk_above", "many_from", "authority_more", "step")
)


@loop
def draw_rows(
    T: Any, P: Any, F: Any, pools: Ints, numbers: NDArray[np.int64], rows: Ints, into: Any
) -> None:
    """The tasks of these numbers, one in each of these rows.

    `F` is a record with room for `facts`.
    """
    for at in range(len(rows)):
        key = child(P[0].stem, numbers[at], EPISODE)
        draw_task(T[0], P[0], pools, key, into[rows[at]], F[0])


@kernel
def pick(key: np.uint64, index: int, count: int) -> int:
    """A number below `count`."""
    return int(below(draw(key, TASK, 0, index), count))


@kernel
def draw_task(T: Any, P: Any, pools: Ints, key: np.uint64, t: Any, f: Any) -> None:
    """One task, in the order of `tasks.draw_task`."""
    percent, branch = pick(key, tasks._BRANCH, 100), 0
    while P.tops[branch] <= percent:
        branch += 1
    t.branch = branch
    costly = tasks._COSTLY_CATEGORIES if branch == LARGE else tasks.HELD_OUT_CATEGORY
    t.category = pick(key, tasks._CATEGORY, costly) if P.category < 0 else P.category
    count = P.pool_count[branch, t.category]
    shelf = P.pool_first[branch, t.category] + pick(key, tasks._POOL, count)
    t.week, t.must = pools[shelf, 0], pools[shelf, 1]
    fits = cheapest(matching(T, t.week, t.category, t.must))
    t.switches = P.switches[pick(key, tasks._SWITCHES, 16), branch]
    draw_parameters(P, key, t)
    meant = draw_quantity(T, P, key, t, fits)
    list_price = T.price[t.week, meant]
    t.budget = -(-list_price * (950 + pick(key, tasks._BUDGET, 201)) // 1_000_000) * 1000
    on_sale = affordable(T, t)
    write_eligible(T, P, key, t, fits & on_sale, f)
    draw_walk(P, key, t)
    draw_memory(T, P, key, t, on_sale)
    decide(T, t, f)
    t.first = member(t.must, pick(key, tasks._FIRST, count_of(t.must)))
    rest = t.must & ~(1 << t.first)
    t.second = lowest(rest) if rest else -1
    t.nice = -1
    if pick(key, tasks._NICE, 3):
        others = _EVERY_FEATURE & ~t.must
        t.nice = member(others, pick(key, tasks._WHICH_NICE, count_of(others)))
    t.budget_kind = P.budgets[pick(key, tasks._KIND, P.budgets.shape[0])]
    t.objection = -1
    if not (P.may_have_none and pick(key, tasks._OBJECTS, 10) < 3):
        chosen = pick(key, tasks._OBJECTION, P.n_objections[t.category])
        t.objection = P.objections[t.category, chosen]
    t.wants_addon = pick(key, tasks._ADDON, 2)
    t.rival = pick(key, tasks._RIVAL, len(RIVALS))
    kind = t.knowledge * len(BUDGETS) + t.budget_kind
    t.known = (kind * 2 + (t.wrong >= 0)) * 2 + (t.alternative >= 0)
    t.oracle_length = oracle_length(T, t)


@kernel
def draw_parameters(P: Any, key: np.uint64, t: Any) -> None:
    """Numbers of the policy."""
    drawn = pick(key, tasks._AUTHORITY, P.authority.shape[0])
    most = P.authority[drawn]
    t.parameters[_AUTHORITY], t.parameters[_MORE] = most, most + rules.MORE_FOR_MANY
    t.parameters[_STEP] = P.steps[drawn, pick(key, tasks._STEP, P.n_steps[drawn])]
    t.parameters[_BULK_ABOVE] = P.bulk_above[pick(key, tasks._BULK, P.bulk_above.shape[0])]
    t.parameters[STRETCH] = t.parameters[_MANY_FROM] = t.parameters[LARGE_ABOVE] = 0
    if t.switches >> WITHIN_BUDGET & 1:
        t.parameters[STRETCH] = P.stretch[pick(key, tasks._STRETCH, P.stretch.shape[0])]
    if t.branch == MANY:
        t.parameters[_MANY_FROM] = P.many_from[pick(key, tasks._MANY, P.many_from.shape[0])]


@kernel
def draw_quantity(T: Any, P: Any, key: np.uint64, t: Any, fits: int) -> int:
    """The pieces; the product that they and the budget are made for, or the nearest to none."""
    branch, least = t.branch, 1
    if branch in (SOLD_OUT, BULK):
        least = 0
    elif branch == MANY:
        least = shelves.MOST_SOLD
    elif branch == LARGE:
        least = 2
    options = 0
    for place in range(EACH):
        if fits >> place & 1 and T.stock[t.week, T.order[t.week, t.category, place]] >= least:
            options |= 1 << place
    if options:
        place = member(options, pick(key, tasks._MEANT, count_of(options)))
        meant = T.order[t.week, t.category, place]
    else:
        meant = nearest(T, t.week, t.category, t.must)
    stock = T.stock[t.week, meant]
    t.quantity = P.quantities[pick(key, tasks._QUANTITY, P.quantities.shape[0])]
    if branch == BULK:
        t.quantity = t.parameters[_BULK_ABOVE] + 1 + pick(key, tasks._QUANTITY, _BULK_PIECES)
    elif branch == MANY:
        low = t.parameters[_MANY_FROM]
        t.quantity = low + pick(key, tasks._QUANTITY, shelves.MOST_SOLD - low + 1)
    elif branch == LAST:
        t.quantity = stock
    elif branch == LARGE:
        t.quantity = 2 + pick(key, tasks._QUANTITY, min(4, stock) - 1)
    elif branch in (SELL, NO_ADDON):
        t.quantity = min(t.quantity, stock)
    return meant


@kernel
def affordable(T: Any, t: Any) -> int:
    """Products of the category in stock in this quantity, and not too far above the budget."""
    stretch = rules.OWN_STRETCH
    if t.switches >> WITHIN_BUDGET & 1:
        stretch = t.parameters[STRETCH]
    found = 0
    for place in range(EACH):
        product = T.order[t.week, t.category, place]
        dear = is_beyond(T.price[t.week, product], t.budget, stretch)
        if T.stock[t.week, product] >= t.quantity and not dear:
            found |= 1 << place
    return found


@kernel
def write_eligible(T: Any, P: Any, key: np.uint64, t: Any, places: int, f: Any) -> None:
    """What would do, the most that may be given on one of them, and on which ones; and the order
    that is a large one, where that is to decide."""
    t.n_eligible = t.n_best = 0
    t.eligible[:] = -1
    t.best[:] = -1
    for place in range(EACH):
        if places >> place & 1:
            t.eligible[t.n_eligible] = T.order[t.week, t.category, place]
            t.n_eligible += 1
    if t.branch == LARGE:
        total = T.price[t.week, t.eligible[0]] * t.quantity
        limits = 0
        for place in range(P.large_above.shape[0]):
            limits |= (P.large_above[place] < total) << place
        chosen = member(limits, pick(key, tasks._LARGE, count_of(limits)))
        t.parameters[LARGE_ABOVE] = P.large_above[chosen]
    t.allowed = -1 if t.n_eligible else t.parameters[_AUTHORITY]
    for place in range(t.n_eligible):
        product = t.eligible[place]
        given = authority(T, t, f, product, t.quantity)
        if given > t.allowed:
            t.allowed = given
            t.n_best = 0
            t.best[:] = -1
        if given == t.allowed:
            t.best[t.n_best] = product
            t.n_best += 1


@kernel
def draw_walk(P: Any, key: np.uint64, t: Any) -> None:
    """What the buyer hopes to pay, and what it pays at most."""
    t.target = P.targets[pick(key, tasks._TARGET, P.targets.shape[0])]
    most = t.parameters[_AUTHORITY]
    if t.branch == MANY:
        low, high = 1000 - t.allowed, 1000 - most
    elif t.branch == LAST:
        low, high = 1000 - most, 1000
    elif t.branch == NO_ADDON:
        low, high = 1000 - t.allowed, 1050
    else:
        drawn, band = pick(key, tasks._WALK, 10_000), 0
        while drawn >= P.bands[band, 0]:
            drawn -= P.bands[band, 0]
            band += 1
        start, stop = P.bands[band, 1], P.bands[band, 2]
        position = start + drawn * (stop - start) // P.bands[band, 0]
        t.walk = t.target * 1000 + position * (1000 - t.target)
        return
    t.walk = low * 1000 + pick(key, tasks._WALK, (high - low) * 1000)


@kernel
def draw_memory(T: Any, P: Any, key: np.uint64, t: Any, on_sale: int) -> None:
    """How the buyer knows what it needs, and what it may mix that up with."""
    wrongs, meets = 0, matching(T, t.week, t.category, t.must)
    # A transfer comes before anything is recommended, so nothing would come out.
    if t.branch != BULK and t.branch != LARGE:
        for f in range(FEATURES_EACH):
            sold = cheapest(T.held[t.week, t.category, f]) & on_sale
            if not t.must >> f & 1 and sold and not sold & meets:
                wrongs |= 1 << f
    t.wrong = -1
    if wrongs:
        t.wrong = member(wrongs, pick(key, tasks._WRONG, count_of(wrongs)))
    t.knowledge = P.knowledges[pick(key, tasks._KNOWLEDGE, P.knowledges.shape[0])]
    pair = count_of(t.must) == 2
    if (t.knowledge == PARTIAL and not pair) or (t.knowledge == MISTAKEN and t.wrong < 0):
        t.knowledge = CLEAR


@kernel
def decide(T: Any, t: Any, f: Any) -> None:
    """What is right in the end."""
    rule = -1
    t.effect, t.reason = ALLOWS, -1
    if t.branch == SOLD_OUT or t.branch == NOT_CARRIED:
        f.facts[FOUND], f.facts[AVAILABLE] = t.branch == SOLD_OUT, 0
        rule = fires(T, t, f, ON_AVAILABILITY)
    elif t.branch == BULK:
        t.effect, t.reason = TRANSFERS, _BULK_REASON
    elif t.branch == LARGE:
        t.effect, t.reason = TRANSFERS, _LARGE_REASON
    elif (1000 - t.allowed) * 1000 > t.walk:
        rule = price_refusal(T, t, f, t.allowed, t.best[0], t.quantity, t.allowed)
    t.alternative = -1
    if rule >= 0:
        t.effect, t.reason = T.rule_effect[rule], T.rule_reason[rule]
        t.alternative = T.rule_alternative[rule]
