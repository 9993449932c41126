"""Tasks: who wants what, under which policy, at what price they walk away, and what is right.

A task is a pure function of its split and number. The branch comes first; then week and needs
are taken from the pool that the branch needs; then quantity, budget and parameters are drawn
among those that make the branch true; then the price at which the buyer walks away. So every
task is valid by construction, and no loop of unknown length stands inside `reset`.

    walk-away price W = target + x (list − target);  P(W ≥ target + x (list − target)):
        x         0    .25   .50   .75    1        the share of real buyers that still bought
        share    .96   .94   .89   .82   .66       when this was the last price asked
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cache
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from convgym.domains.sales import rules, shelves
from convgym.domains.sales.lengths import oracle_length
from convgym.domains.sales.vocabulary import (
    CLEAR,
    KNOWN,
    LOOKS_UP,
    MISTAKEN,
    OBJECTIONS,
    PARTIAL,
    ROUGH,
    VAGUE,
    WITHHELD,
)
from convgym.domains.sales.world import CATEGORIES, EACH, FEATURES_EACH, RIVALS, World, world
from convgym.engine import keys
from convgym.engine.rules import ALLOW, TRANSFER, Decision
from convgym.engine.tasks import SPLITS, TaskTable, kept_task, split_key, split_keys

# Branches: what makes two tasks end differently. The last four turn on a held-out rule.
SELL, SOLD_OUT, NOT_CARRIED, BULK, MANY, LAST, LARGE, NO_ADDON = range(8)
BRANCHES = ("sell", "sold out", "not carried", "bulk", "many", "last", "large", "no add-on")
_USUAL_WEIGHTS = (84, 5, 5, 6, 0, 0, 0, 0)
_WEIGHTS: dict[str, tuple[int, ...]] = {
    "test_compositional": (100, 0, 0, 0, 0, 0, 0, 0),
    "test_policy": (0, 0, 0, 0, 45, 11, 13, 31),
}
_POOL_OF = (
    shelves.IN_STOCK,
    shelves.ALL_SOLD_OUT,
    shelves.NOTHING_FITS,
    shelves.CARRIED,
    shelves.MANY_LEFT,
    shelves.ONE_LEFT_WITH,
    shelves.ALL_COSTLY,
    shelves.IN_STOCK,
)
SWITCH_OF = {
    MANY: "quantity_discount",
    LAST: "last_piece",
    LARGE: "large_total",
    NO_ADDON: "addon_never",
}
"""The held-out rule that a branch turns on."""
_BUDGET_FIRST, _WITHIN_BUDGET, _CLEARANCE_FIRM, _ADDON_FIRST = (1 << bit for bit in range(4))
"""Bits of the draw that says which of the other rules are in force."""

HELD_OUT_CATEGORY = len(CATEGORIES) - 1
_COSTLY_CATEGORIES = 3
"""The first categories, in which two pieces can be a large order."""
HELD_OUT_OBJECTION = OBJECTIONS.index("returns")
_USUAL_OBJECTIONS = len(OBJECTIONS) - 1

_KNOWLEDGES = (CLEAR,) * 2 + (PARTIAL,) * 3 + (VAGUE, LOOKS_UP, MISTAKEN)
_BUDGETS = (KNOWN, KNOWN, ROUGH, WITHHELD)
_QUANTITIES = (1, 1, 1, 1, 1, 2, 2, 3)
TARGETS = (800, 840, 880, 920)
"""What a buyer hopes to pay, per mille of the list price."""

BANDS = ((6600, 1000, 1300), (1600, 750, 1000), (700, 500, 750), (500, 250, 500), (200, 0, 250),
         (400, -400, 0))  # fmt: skip
"""Share in ten-thousandths, and x in thousandths from and to: the survival function on top."""

# Numbers of a task's draws.
(
    _BRANCH, _CATEGORY, _POOL, _MEANT, _QUANTITY, _FIRST, _NICE, _WHICH_NICE, _KNOWLEDGE, _KIND,
    _BUDGET, _TARGET, _WALK, _OBJECTS, _OBJECTION, _ADDON, _RIVAL, _WRONG, _SWITCHES, _AUTHORITY,
    _STEP, _BULK, _STRETCH, _MANY, _LARGE,
) = range(25)  # fmt: skip
_DRAWS = range(_LARGE + 1)


@dataclass(frozen=True, slots=True)
class Task:
    """Everything hidden from the agent, as integers."""

    task_id: str
    split: str
    branch: int
    week: int
    category: int
    must: int
    """Bit set of the features that the product must have; one or two."""
    first: int
    """The must-have that comes to mind first."""
    nice: int
    """A feature that the buyer asks about; -1 for none."""
    wrong: int
    """What a poor memory says instead of the must-haves; -1 where there is nothing to mix up."""
    quantity: int
    knowledge: int
    budget: int
    """Cents a piece."""
    budget_kind: int
    target: int
    """What the buyer hopes to pay, per mille of the list price."""
    walk: int
    """The most it pays, in millionths of the list price."""
    objection: int
    """What it has against it beside the price; -1 for nothing."""
    wants_addon: bool
    rival: int
    switches: int
    """Bit set of `vocabulary.SWITCHES`: rules in force."""
    parameters: tuple[int, ...]
    eligible: tuple[int, ...]
    """Products that fit, are in stock in this quantity and are not too dear."""
    allowed: int
    """The most that may be given on one of them, per mille off the list price."""
    best: tuple[int, ...]
    """Those of `eligible` on which that may be given."""
    decision: Decision

    @property
    def oracle_length(self) -> int:
        """Agent acts needed when the buyer says at once what it is asked, and nothing unasked, asks
        nothing of its own, and objects to a price only where it is above what it pays."""
        return oracle_length(self)

    @property
    def second(self) -> int:
        """The other must-have; -1 where there is one only."""
        return (self.must & ~(1 << self.first)).bit_length() - 1

    def pays(self, discount: int) -> bool:
        """Whether it pays the list price less `discount` per mille."""
        return (1000 - discount) * 1000 <= self.walk


def signature(task: Task) -> Hashable:
    """What distinguishes two tasks in substance: the shelf, the wish, the buyer, the policy in
    force, and the first discount at which it buys."""
    parameters, discount = rules.parameter_dict(task.parameters), 0
    while not task.pays(discount) and discount < task.allowed:
        discount = rules.next_discount(parameters, discount, task.allowed)
    return (
        *(task.week, task.category, task.must, task.first, task.nice, task.quantity),
        *(task.knowledge, task.wrong if task.knowledge == MISTAKEN else -1),
        *(task.budget_kind, task.objection, task.wants_addon, task.target),
        *(task.switches, task.parameters, task.eligible),
        *(discount, task.decision.effect, task.decision.reason),
    )


def weeks_of(split: str) -> range:
    """Weeks that tasks of a split play in; training, validation and tests share none."""
    return _WEEKS.get(split, _TEST_WEEKS)


_WEEKS, _TEST_WEEKS = {"train": range(40), "validation": range(40, 52)}, range(52, 64)


def held_out_objection(category: int) -> int:
    """The objection that training never meets with this category."""
    return category % _USUAL_OBJECTIONS


def walk_position(drawn: int) -> int:
    """x in thousandths, from a number in [0, 10,000); see the table on top."""
    for share, low, high in BANDS:
        if drawn < share:
            return low + drawn * (high - low) // share
        drawn -= share
    raise AssertionError("the shares add up to 10,000")


# How hard a task is: points for what makes scripted policies fail on it (measured on train).
_BRANCH_POINTS = np.array([0, 2, 2, 1, 1, 2, 1, 1])
_KNOWLEDGE_POINTS = np.array([0, 1, 1, 1, 1])
_VAGUE_BUDGET_POINTS, _ADDON_POINTS = 3, 1


@cache
def _tops(split: str) -> tuple[int, ...]:
    """Percent of the tasks of a split that are of a branch or of one before it."""
    return tuple(accumulate(_WEIGHTS.get(split, _USUAL_WEIGHTS)))


@cache
def table(split: str) -> TaskTable:
    """Topic (the category) and hardness of all tasks of a split.  # (tasks,) each"""
    every = split_keys("sales", split, SPLITS[split])

    def pick(index: int, count: int) -> NDArray[np.int64]:
        return keys.below_batch(keys.draw_batch(every, keys.TASK, 0, index), count)

    branch = np.searchsorted(_tops(split), pick(_BRANCH, 100), side="right")
    knowledge = np.array(_KNOWLEDGES)[pick(_KNOWLEDGE, len(_KNOWLEDGES))]
    kind = np.array(_BUDGETS)[pick(_KIND, len(_BUDGETS))]
    switches = pick(_SWITCHES, 16)
    hardness = _BRANCH_POINTS[branch] + _KNOWLEDGE_POINTS[knowledge]
    hardness += _VAGUE_BUDGET_POINTS * ((kind != KNOWN) & (switches & _BUDGET_FIRST > 0))
    hardness += _ADDON_POINTS * (switches & _ADDON_FIRST > 0)
    held_out = split == "test_primitive"
    costly, usual = pick(_CATEGORY, _COSTLY_CATEGORIES), pick(_CATEGORY, HELD_OUT_CATEGORY)
    usual = np.where(branch == LARGE, costly, usual)
    return TaskTable(np.full_like(usual, HELD_OUT_CATEGORY) if held_out else usual, hardness)


class Draws:
    """The draws of one task, by number."""

    __slots__ = ("drawn",)

    def __init__(self, split: str, number: int) -> None:
        self.drawn = keys.draws(split_key("sales", split, number), keys.TASK, 0, _DRAWS)

    def pick(self, index: int, count: int) -> int:
        """A number below `count`."""
        return self.drawn[index] * count >> 32  # `keys.below`, written out: asked 20 times a task

    def one_of(self, index: int, options: tuple[int, ...] | list[int]) -> int:
        """One of the options."""
        return options[self.drawn[index] * len(options) >> 32]


def draw_task(split: str, number: int) -> Task:
    """The task called `<split>-<number>`; the same in every process."""
    task: Task = kept_task(_draw_task, split, number)
    return task


def _draw_task(split: str, number: int) -> Task:
    shop, draws = world(), Draws(split, number)
    branch = bisect_right(_tops(split), draws.pick(_BRANCH, 100))
    category = draws.pick(_CATEGORY, _COSTLY_CATEGORIES if branch == LARGE else HELD_OUT_CATEGORY)
    if split == "test_primitive":
        category = HELD_OUT_CATEGORY
    shelf = shelves.pool(weeks_of(split), category, _POOL_OF[branch])
    week, must = shelf[draws.pick(_POOL, len(shelf))]
    fits = shelves.fitting(week, category, must)
    switches = _switches(draws.pick(_SWITCHES, 16), branch)
    values = _parameters(draws, branch, switches)
    meant, quantity = _meant(draws, shop, branch, week, fits, values)
    budget = _budget(draws, shop, week, meant if fits else shop.nearest(week, category, must))
    within = rules.is_on(switches, "within_budget")
    stretch = values["stretch"] if within else rules.OWN_STRETCH
    sold = shelves.on_sale(shop, week, category, quantity, budget, stretch)
    eligible = tuple([p for p in fits if sold >> p % EACH & 1])
    if branch == LARGE:
        total = min(shop.price[week][p] for p in eligible) * quantity
        limits = [limit for limit in rules.PARAMETERS["large_above"] if limit < total]
        values["large_above"] = draws.one_of(_LARGE, limits)
    allowed, best = _lowest(shop, week, switches, values, eligible, quantity)
    target = draws.one_of(_TARGET, TARGETS)
    walk = _walk(draws, branch, target, allowed, values["authority"])

    pair = must.bit_count() == 2
    musts, others = _apart(must)
    wrongs = shelves.wrong_needs(week, category, must, sold)
    # A transfer comes before anything is recommended, so nothing would come out.
    mixes_up = bool(wrongs) and branch not in (BULK, LARGE)
    wrong = draws.one_of(_WRONG, wrongs) if mixes_up else -1
    knowledge = draws.one_of(_KNOWLEDGE, _KNOWLEDGES)
    if (knowledge == PARTIAL and not pair) or (knowledge == MISTAKEN and wrong < 0):
        knowledge = CLEAR
    decision = _decision(shop, branch, week, switches, allowed, best, quantity, walk)
    return Task(
        task_id=f"{split}-{number}",
        split=split,
        branch=branch,
        week=week,
        category=category,
        must=must,
        first=musts[draws.pick(_FIRST, len(musts))],
        nice=draws.one_of(_WHICH_NICE, others) if draws.pick(_NICE, 3) else -1,
        wrong=wrong,
        quantity=quantity,
        knowledge=knowledge,
        budget=budget,
        budget_kind=draws.one_of(_KIND, _BUDGETS),
        target=target,
        walk=walk,
        objection=_objection(draws, split, category),
        wants_addon=bool(draws.pick(_ADDON, 2)),
        rival=draws.pick(_RIVAL, len(RIVALS)),
        switches=switches,
        parameters=tuple(values[name] for name in rules.PARAMETER_NAMES),
        eligible=eligible,
        allowed=allowed,
        best=best,
        decision=decision,
    )


@cache
def _apart(needs: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The features that are needed, and the others."""
    features = range(FEATURES_EACH)
    return tuple(f for f in features if needs >> f & 1), tuple(
        f for f in features if not needs >> f & 1
    )


@cache
def _switches(bits: int, branch: int) -> int:
    """Which of the rules that come and go are in force."""
    on = []
    if bits & _BUDGET_FIRST:
        on.append("budget_first")
        if bits & _WITHIN_BUDGET:
            on.append("within_budget")
    # Else clearance would decide, not the held-out rule.
    if bits & _CLEARANCE_FIRM and branch not in (MANY, LAST):
        on.append("clearance_firm")
    if bits & _ADDON_FIRST and branch != NO_ADDON:
        on.append("addon_first")
    if branch in SWITCH_OF:
        on.append(SWITCH_OF[branch])
    return rules.switch_bits(*on)


def _parameters(draws: Draws, branch: int, switches: int) -> dict[str, int]:
    """Numbers of the policy; one whose rule is not in force stands nowhere, and so is the same."""
    options = rules.PARAMETERS
    authority = draws.one_of(_AUTHORITY, options["authority"])
    steps = _steps(authority)
    stretch = options["stretch"] if rules.is_on(switches, "within_budget") else (0,)
    return {
        "authority": authority,
        "step": draws.one_of(_STEP, steps),
        "bulk_above": draws.one_of(_BULK, options["bulk_above"]),
        "stretch": draws.one_of(_STRETCH, stretch),
        "many_from": draws.one_of(_MANY, options["many_from"]) if branch == MANY else 0,
        "large_above": 0,
    }


@cache
def _steps(authority: int) -> tuple[int, ...]:
    """Steps in which discounts may be given, a few of which reach the limit."""
    return tuple(
        s for s in rules.PARAMETERS["step"] if s <= authority <= rules.MOST_STEPS * s
    )


def _meant(
    draws: Draws, shop: World, branch: int, week: int, fits: tuple[int, ...],
    values: dict[str, int],
) -> tuple[int, int]:  # fmt: skip
    """The product that budget and quantity are made for (-1: none fits), and the pieces."""
    stock = shop.stock[week]
    least = {SOLD_OUT: 0, BULK: 0, MANY: shelves.MOST_SOLD, LARGE: 2}.get(branch, 1)
    options = [p for p in fits if stock[p] >= least]
    meant = draws.one_of(_MEANT, options) if options else -1
    quantity = draws.one_of(_QUANTITY, _QUANTITIES)
    if branch == BULK:
        quantity = values["bulk_above"] + 1 + draws.pick(_QUANTITY, 12)
    elif branch == MANY:
        quantity = draws.one_of(_QUANTITY, range_of(values["many_from"], shelves.MOST_SOLD))
    elif branch == LAST:
        quantity = stock[meant]
    elif branch == LARGE:
        quantity = draws.one_of(_QUANTITY, range_of(2, min(4, stock[meant])))
    elif branch in (SELL, NO_ADDON):
        quantity = min(quantity, stock[meant])
    return meant, quantity


def range_of(low: int, high: int) -> tuple[int, ...]:
    """Both ends included."""
    return tuple(range(low, high + 1))


def _budget(draws: Draws, shop: World, week: int, product: int) -> int:
    """Cents a piece: about the list price of the product, up to the next ten dollars."""
    return -(-shop.price[week][product] * (950 + draws.pick(_BUDGET, 201)) // 1_000_000) * 1000


def _lowest(
    shop: World, week: int, switches: int, values: dict[str, int], eligible: tuple[int, ...],
    quantity: int,
) -> tuple[int, tuple[int, ...]]:  # fmt: skip
    """The most that may be given on an eligible product, and on which ones."""
    parameters = rules.parameter_dict([values[name] for name in rules.PARAMETER_NAMES])
    clearance, stock = shop.clearance[week], shop.stock[week]
    given = {
        p: rules.authority(switches, parameters, clearance[p], stock[p], quantity)
        for p in eligible
    }
    allowed = max(given.values(), default=parameters["authority"])
    return allowed, tuple(p for p in eligible if given[p] == allowed)


def _walk(draws: Draws, branch: int, target: int, allowed: int, authority: int) -> int:
    """The walk-away price; where a held-out rule is to decide, a price that it decides on."""
    if branch == MANY:
        low, high = 1000 - allowed, 1000 - authority
    elif branch == LAST:
        low, high = 1000 - authority, 1000
    elif branch == NO_ADDON:
        low, high = 1000 - allowed, 1050
    else:
        return target * 1000 + walk_position(draws.pick(_WALK, 10_000)) * (1000 - target)
    return low * 1000 + draws.pick(_WALK, (high - low) * 1000)


def _objection(draws: Draws, split: str, category: int) -> int:
    """-1 in three of ten tasks; training never meets a category's held-out one."""
    held_out = held_out_objection(category)
    if split == "test_compositional":
        return held_out
    if draws.pick(_OBJECTS, 10) < 3:
        return -1
    if split == "test_primitive":
        usual = range_of(0, _USUAL_OBJECTIONS - 1)
        return draws.one_of(_OBJECTION, (*usual, *(HELD_OUT_OBJECTION,) * _USUAL_OBJECTIONS))
    return draws.one_of(_OBJECTION, [o for o in range(_USUAL_OBJECTIONS) if o != held_out])


def _decision(
    shop: World, branch: int, week: int, switches: int, allowed: int, best: tuple[int, ...],
    quantity: int, walk: int,
) -> Decision:  # fmt: skip
    """What is right in the end."""
    if branch in (SOLD_OUT, NOT_CARRIED):
        facts = {"found": branch == SOLD_OUT, "available": 0}
        return rules.policy(switches).decide("availability", facts, {})
    if branch == BULK:
        return Decision(TRANSFER, "bulk")
    if branch == LARGE:
        return Decision(TRANSFER, "large_total")
    if (1000 - allowed) * 1000 <= walk:
        return Decision(ALLOW)
    p = best[0]
    clearance, stock = shop.clearance[week][p], shop.stock[week][p]
    return rules.price_refusal(switches, allowed, clearance, stock, quantity, allowed)
