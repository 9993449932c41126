"""Tasks: who calls about which order, under which policy, and what would be right.

A task is a pure function of its split and number. Workflow and branch come first; then an
order is taken from the pool that the branch needs; then parameters are drawn among those
values that make the branch true. So every task is valid by construction, nothing is
rejected, and no loop of unknown length stands inside `reset`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from convgym.domains.customer_service import rules
from convgym.domains.customer_service.world import (
    CUSTOMERS,
    DELIVERED,
    ORDERS_EACH,
    PACKED,
    REASONS,
    SHIPPED,
    World,
    world,
)
from convgym.engine import keys
from convgym.engine.rules import ALLOW, REFUSE, Decision
from convgym.engine.tasks import SPLITS, TaskTable, split_key, split_keys

KNOWS_ID, KNOWS_ITEM, LOOKS_UP, KNOWS_VAGUELY, MISTAKEN = range(5)
KNOWLEDGES = ("number", "item", "looks up", "vague", "mistaken")
_KNOWLEDGES = (KNOWS_ID,) * 3 + (KNOWS_ITEM,) * 2 + (LOOKS_UP, KNOWS_VAGUELY, MISTAKEN)

# Branches: what makes two tasks of one workflow end differently. Weights are percent.
(
    TELL_STATUS,
    CANCEL_OK,
    CANCEL_LATE,
    RETURN_OK,
    RETURN_OLD,
    RETURN_FINAL,
    RETURN_EARLY,
    RETURN_LARGE,
    ADDRESS_OK,
    ADDRESS_LATE,
    IMPOSTOR,
) = range(11)
WEIGHTS = (27, 16, 6, 18, 4, 4, 3, 5, 12, 3, 2)
_BRANCH_WORKFLOW = (
    rules.STATUS,
    rules.CANCEL,
    rules.CANCEL,
    rules.RETURN,
    rules.RETURN,
    rules.RETURN,
    rules.RETURN,
    rules.RETURN,
    rules.ADDRESS,
    rules.ADDRESS,
    rules.CANCEL,
)
_CUMULATIVE = np.cumsum(WEIGHTS).tolist()


@dataclass(frozen=True, slots=True)
class Task:
    """Everything hidden from the agent, as integers."""

    task_id: str
    split: str
    branch: int
    workflow: int
    customer: int
    order: int
    """Row of the order that the user means."""
    pointer: int
    """Its place among the customer's orders, 0 the newest."""
    knowledge: int
    """How the user can name the order: by number, by item, by number after a look, by the kind
    of goods first, or by a wrong number first."""
    reason: int
    """Why it is sent back, an index into REASONS."""
    parameters: tuple[int, ...]
    decision: Decision
    fee: int
    """Percent that is right to tell; for returns."""
    channel: int
    """0 original payment, 1 store credit; for returns."""
    oracle_length: int
    """Agent acts needed when the user remembers everything right and says nothing unasked."""


@cache
def _pools(split: str) -> dict[int, list[int]]:
    """Order rows of this split's customers that fit each branch."""
    shop = world()
    share = keys.draw_batch(
        0x5B117, keys.WORLD, np.arange(CUSTOMERS, dtype=np.uint64), 99
    ) % np.uint64(10)
    low, high = {"train": (0, 6), "validation": (6, 8), "test": (8, 10)}[split]
    owner = np.repeat((share >= low) & (share < high), ORDERS_EACH)
    stage, days = shop.columns["stage"], shop.columns["days"]
    amount = shop.columns["amount"]
    delivered = stage == DELIVERED
    fits = {
        TELL_STATUS: stage >= 0,
        CANCEL_OK: stage <= PACKED,
        CANCEL_LATE: (stage == PACKED) | (stage == SHIPPED),
        RETURN_OK: delivered,
        RETURN_OLD: delivered & (days > 14),
        RETURN_FINAL: delivered,
        RETURN_EARLY: stage == SHIPPED,
        RETURN_LARGE: delivered & (amount > 20000),
        ADDRESS_OK: stage <= PACKED,
        ADDRESS_LATE: stage == SHIPPED,
        IMPOSTOR: stage <= SHIPPED,
    }
    return {branch: np.flatnonzero(owner & rows).tolist() for branch, rows in fits.items()}


def _allowed(branch: int, shop: World, order: int) -> dict[str, tuple[int, ...]]:
    """Parameter values under which `branch` is true of `order`."""
    stage, days = shop.stage[order], shop.days_since_delivery(order)
    amount, category = shop.amount[order], shop.category(order)
    allowed = dict(rules.PARAMETERS)

    def keep(name: str, wanted: bool, holds: list[bool]) -> None:
        allowed[name] = tuple(
            value for value, held in zip(allowed[name], holds, strict=True) if held == wanted
        )

    if branch in (CANCEL_OK, CANCEL_LATE):
        keep("cancel_stage", branch == CANCEL_OK, [stage <= v for v in allowed["cancel_stage"]])
    if branch in (ADDRESS_OK, ADDRESS_LATE):
        keep("address_stage", branch == ADDRESS_OK, [stage <= v for v in allowed["address_stage"]])
    if branch in (RETURN_OK, RETURN_OLD, RETURN_FINAL, RETURN_LARGE):
        final = branch == RETURN_FINAL
        keep("final_sale", final, [v == category for v in allowed["final_sale"]])
        inside = branch != RETURN_OLD
        keep("return_window", inside, [days <= v for v in allowed["return_window"]])
        large = branch == RETURN_LARGE
        keep("transfer_above", large, [amount > v for v in allowed["transfer_above"]])
    if branch == IMPOSTOR:
        allowed["auth_level"] = (2,)
    return allowed


# How hard a task is: points for what makes scripted policies fail on it (measured on train).
_BRANCH_POINTS = np.array([0, 0, 3, 2, 3, 3, 3, 1, 1, 3, 1])
_KNOWLEDGE_POINTS = np.array([0, 1, 1, 2, 2])
_BRANCH, _ORDER, _KNOWLEDGE, _REASON, _IMPOSTORS, _PARAMETER = 0, 1, 2, 3, 4, 8
"""Numbers of a task's draws."""


@cache
def table(split: str) -> TaskTable:
    """Topic and hardness of all tasks of a split, without making them.  # (tasks,) each"""
    every = split_keys("customer-service", split, SPLITS[split])

    def pick(index: int, count: int) -> NDArray[np.int64]:
        return keys.below_batch(keys.draw_batch(every, keys.TASK, 0, index), count)

    branch = np.searchsorted(_CUMULATIVE, pick(_BRANCH, 100), side="right")
    impostor = branch == IMPOSTOR
    workflow = np.where(impostor, pick(_IMPOSTORS, 4), np.array(_BRANCH_WORKFLOW)[branch])
    knowledge = np.array(_KNOWLEDGES)[pick(_KNOWLEDGE, len(_KNOWLEDGES))]
    return TaskTable(workflow, _BRANCH_POINTS[branch] + _KNOWLEDGE_POINTS[knowledge])


@lru_cache(maxsize=65536)
def draw_task(split: str, number: int) -> Task:
    """The task called `<split>-<number>`; the same in every process."""
    shop, key = world(), split_key("customer-service", split, number)

    def pick(index: int, count: int) -> int:
        return keys.below(keys.draw(key, keys.TASK, 0, index), count)

    percent = pick(_BRANCH, 100)
    branch = next(b for b, top in enumerate(_CUMULATIVE) if percent < top)
    pool = _pools(split)[branch]
    order = pool[pick(_ORDER, len(pool))]
    customer, pointer = divmod(order, ORDERS_EACH)
    knowledge = _KNOWLEDGES[pick(_KNOWLEDGE, len(_KNOWLEDGES))]
    reason = pick(_REASON, len(REASONS))
    values = tuple(
        options[pick(_PARAMETER + place, len(options))]
        for place, options in enumerate(_allowed(branch, shop, order).values())
    )
    parameters = rules.parameter_dict(values)
    facts = rules.order_facts(shop, order, reason)
    workflow = _BRANCH_WORKFLOW[branch]
    if branch == IMPOSTOR:
        workflow = pick(_IMPOSTORS, 4)
        decision = Decision(REFUSE, "unverified")
    else:
        decision = rules.decide(workflow, facts, parameters)
    # Two orders of one item: the customer who knows only the item must be asked for the date.
    first = customer * ORDERS_EACH
    twins = shop.item[first : first + ORDERS_EACH].count(shop.item[order]) > 1
    length = _oracle_length(workflow, decision, parameters["auth_level"], knowledge, twins)
    return Task(
        task_id=f"{split}-{number}",
        split=split,
        branch=branch,
        workflow=workflow,
        customer=customer,
        order=order,
        pointer=pointer,
        knowledge=knowledge,
        reason=reason,
        parameters=values,
        decision=decision,
        fee=rules.RULES.term("fee", facts, parameters),
        channel=rules.RULES.term("channel", facts, parameters),
        oracle_length=length,
    )


def _oracle_length(
    workflow: int, decision: Decision, factors: int, knowledge: int, twins: bool
) -> int:
    """E-mail asked and found, postcode asked and verified, order asked, listed and read,
    then the workflow's own acts."""
    if decision.reason == "unverified":
        return 7  # ask, find, ask, verify, ask, verify, refuse
    steps = 2 + 2 * (factors == 2) + 3 - (knowledge == KNOWS_ID)
    steps += {KNOWS_VAGUELY: 1, MISTAKEN: 2}.get(knowledge, 0)
    steps += twins and knowledge in (KNOWS_ITEM, KNOWS_VAGUELY, MISTAKEN)
    if decision.effect == REFUSE:
        return steps + 1 + bool(decision.alternative)
    if decision.effect != ALLOW:
        return steps + 1
    # status: two facts; cancel: confirm, write, report; return: reason and two terms more;
    # address: the new address more
    return steps + (2, 3, 6, 4)[workflow]


assert tuple(SPLITS) == ("train", "validation", "test")
