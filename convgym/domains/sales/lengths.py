"""How many acts a seller needs who goes by the book: the yardstick of an episode's length.

Counted by hand, step by step, for a buyer that says at once what it is asked and nothing
unasked, has no questions of its own, raises its objection with the first price, does not haggle
over a price that it pays, takes a refusal, and leaves when it has what it came for. The
simulated seller with that buyer takes exactly as many (tested).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from convgym.domains.sales import rules, shelves
from convgym.domains.sales.vocabulary import MISTAKEN
from convgym.domains.sales.world import world
from convgym.engine.rules import ALLOW, REFUSE

if TYPE_CHECKING:
    from convgym.domains.sales.tasks import Task

REFUSE_AND_OFFER, SALE = 2, 3  # a refusal and its alternative; confirm, book, report
NEED_ASKS = (1, 2, 2, 2, 1)
"""Questions until the needs are said, by knowledge: clear, partial, vague, looks up, mistaken."""
BUDGET_ASKS = (1, 2, 2)


def oracle_length(task: Task) -> int:
    """Agent acts from the first question to the end of the conversation."""
    steps = NEED_ASKS[task.knowledge] + 1  # the quantity
    if rules.is_on(task.switches, "budget_first"):
        steps += BUDGET_ASKS[task.budget_kind]
    read: set[int] = set()
    rejected: set[int] = set()
    if task.knowledge == MISTAKEN:
        steps += _try(task, 1 << task.wrong, read, rejected)
    reason = task.decision.reason
    if reason == "bulk":
        return steps + 2  # search, transfer
    fits = shelves.fitting(task.week, task.category, task.must)
    if reason == "large_total":
        return steps + 1 + len(set(fits) - read) + 1
    if task.decision.alternative:
        return steps + 1 + len(set(fits) - read) + REFUSE_AND_OFFER
    steps += _try(task, task.must, read, rejected)
    steps += (task.nice >= 0) + (task.objection >= 0) + 2 + _lowered(task)  # quote, price
    if task.decision.effect == REFUSE:
        return steps + 1
    assert task.decision.effect == ALLOW
    if rules.is_on(task.switches, "addon_first"):
        steps += 1 + task.wants_addon
    return steps + SALE


def _try(task: Task, needs: int, read: set[int], rejected: set[int]) -> int:
    """Search for needs, read what is new, recommend until one is liked or shows the mistake."""
    shop, week = world(), task.week
    fits = shelves.fitting(week, task.category, needs)
    steps = 1 + len(set(fits) - read)
    read.update(fits)
    knows_budget = rules.is_on(task.switches, "budget_first")
    within = rules.is_on(task.switches, "within_budget")
    limit = rules.parameter_dict(task.parameters)["stretch"] if within else rules.OWN_STRETCH
    while True:
        usable = [
            p
            for p in fits
            if shop.stock[week][p] >= task.quantity
            and p not in rejected
            and not (knows_budget and rules.excess(shop.price[week][p], task.budget) > limit)
        ]
        chosen = next((p for p in usable if not _firm(task, p)), usable[0])
        steps += 1
        lacks = bool(task.must & ~shop.features[chosen])
        dear = rules.excess(shop.price[week][chosen], task.budget) > rules.OWN_STRETCH
        if lacks or not dear:
            return steps
        rejected.add(chosen)


def _firm(task: Task, product: int) -> bool:
    """Whether no discount at all may be given on a product."""
    clearance = world().clearance[task.week][product]
    last = world().stock[task.week][product] == task.quantity
    return bool(
        (clearance and rules.is_on(task.switches, "clearance_firm"))
        or (last and rules.is_on(task.switches, "last_piece"))
    )


def _lowered(task: Task) -> int:
    """Acts spent on going down: a lower quote and its price each."""
    parameters, discount, steps = rules.parameter_dict(task.parameters), 0, 0
    while not task.pays(discount) and discount < task.allowed:
        discount = rules.next_discount(parameters, discount, task.allowed)
        steps += 2
    return steps
