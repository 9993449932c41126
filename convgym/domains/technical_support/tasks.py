"""Tasks: who calls about which device, what is broken on it, and what would be right.

A task is a pure function of its split and number. Branch, kind of device and faults come first,
then a device from the pool that the branch needs, then parameters and optional rules such that
the branch is what the rules decide. So every task is valid by construction: nothing is rejected,
and no loop of unknown length stands inside `reset`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from convgym.domains.technical_support import combinations as branches
from convgym.domains.technical_support import rules
from convgym.domains.technical_support.combinations import kinds_of, possible
from convgym.domains.technical_support.facts import EVENTS, NEVER, PARAMETERS
from convgym.domains.technical_support.faults import FAULTS, State, break_device
from convgym.domains.technical_support.planning import Case, Plan, plan
from convgym.domains.technical_support.rules import BIT, OPTIONAL
from convgym.domains.technical_support.vocabulary import KINDS
from convgym.domains.technical_support.world import (
    AREAS,
    BASIC,
    BUSINESS,
    CUSTOMERS,
    DEVICES_EACH,
    FOREIGN,
    PLUS,
    World,
    world,
)
from convgym.engine import keys
from convgym.engine.rules import OBLIGE, REFUSE, TERM, Decision
from convgym.engine.tasks import (
    SPLITS,
    TaskTable,
    check_split,
    kept_task,
    split_key,
    split_keys,
)

DOMAIN = "technical-support"
KNOWS_SERIAL, KNOWS_KIND, TWO_OF_A_KIND, MISTAKEN = range(4)
KNOWLEDGES = ("serial", "kind", "two of a kind", "mistaken")
_KNOWLEDGES = (KNOWS_SERIAL,) * 2 + (KNOWS_KIND,) * 4 + (TWO_OF_A_KIND,) * 2 + (MISTAKEN,)

_COMMON = {
    branches.FIX: 78,
    branches.UNSUPPORTED: 2,
    branches.OUTAGE: 3,
    branches.OLD: 3,
    branches.OVERDUE: 2,
    branches.UNCOVERED: 2,
    branches.LIMITED: 2,
    branches.WATER: 2,
    branches.BUSINESS_CALL: 2,
    branches.REMOTE: 2,
    branches.IMPOSTOR: 2,
}
_POLICY = {
    branches.CLOSING: 22,
    branches.INTERRUPTING: 14,
    branches.DELIVERING: 10,
    branches.UNPLUGGING: 16,
    branches.ASKING: 18,
    branches.RECALLED: 7,
    branches.REPLACED: 6,
    branches.MAINTAINED: 7,
}
RULE_OF = {
    branches.OVERDUE: "overdue_bill",
    branches.UNCOVERED: "not_covered",
    branches.LIMITED: "limit_reached",
    branches.BUSINESS_CALL: "business_line",
    branches.REMOTE: "remote_area",
    branches.CLOSING: "closed_without_restart",
    branches.INTERRUPTING: "interruption_untold",
    branches.DELIVERING: "delivery_untold",
    branches.UNPLUGGING: "unplugging_untold",
    branches.ASKING: "damage_unasked",
    branches.RECALLED: "recalled",
    branches.REPLACED: "replaced_recently",
    branches.MAINTAINED: "maintenance",
}
"""The optional rule that each branch turns on."""
SIZES = (45, 38, 17)
"""Percent of tasks with one, two and three faults, where the split and branch have all three."""
_SHARES = dict(zip(SPLITS, (36, 8, 12, 9, 9, 9, 8, 9), strict=True))
"""Percent of the customers in each split."""
_BRANCH_POINTS = np.zeros(branches.BRANCHES, dtype=np.int64)
for _branch, _points in {
    branches.OLD: 3,
    branches.LIMITED: 3,
    branches.REMOTE: 3,
    branches.OUTAGE: 2,
    branches.WATER: 2,
    branches.CLOSING: 2,
    branches.INTERRUPTING: 2,
    branches.DELIVERING: 3,
    branches.UNPLUGGING: 2,
    branches.ASKING: 2,
    branches.REPLACED: 3,
    branches.MAINTAINED: 3,
}.items():
    _BRANCH_POINTS[_branch] = _points
_SIZE_POINTS = np.full((branches.BRANCHES, 4), [0, 0, 3, 6])
_SIZE_POINTS[list(branches.AT_ONCE)] = 0
_KNOWLEDGE_POINTS = np.array([0, 0, 1, 2])

# Numbers of a task's draws.
(
    _BRANCH,
    _KIND,
    _SIZE,
    _FAULTS,
    _KNOWLEDGE,
    _DEVICE,
    _OUTAGE_1,
    _OUTAGE_2,
    _OVERDUE,
    _RAISED,
    _REPLACED,
    _MONTHS_AGO,
    _ACTIVE,
) = range(13)
_PARAMETER = 16


@dataclass(frozen=True, slots=True)
class Task:
    """Everything hidden from the agent, as integers."""

    task_id: str
    split: str
    branch: int
    kind: int
    customer: int
    device: int
    """Row of the device that the user means."""
    pointer: int
    """Its place among the customer's devices."""
    knowledge: int
    """How the user can name it: by serial, by kind, by kind though there are two, or by a wrong
    serial first."""
    faults: tuple[int, ...]
    """In causal order."""
    outages: int
    """Bits of the areas without service."""
    overdue: int
    """Whether a bill is overdue."""
    raised: int
    """How often the limit was raised this month."""
    replaced: int
    """Months since the device was last replaced; `facts.NEVER`."""
    parameters: tuple[int, ...]
    active: int
    """Bits of the optional rules of this episode."""
    decision: Decision
    expertise: int
    """Highest level of what the customer has to look at or do on the shortest way."""
    oracle_length: int
    """Agent acts needed when the user remembers everything right and says nothing unasked."""

    @property
    def symptom(self) -> int:
        """What the user notices: a value of the check `service`."""
        return FAULTS[self.faults[0]].symptom

    @property
    def state(self) -> State:
        """The device as the conversation begins."""
        return break_device(self.faults)


# -- what a task is drawn from -------------------------------------------------------------------


def _weights(split: str) -> dict[int, int]:
    return _POLICY if split == "test_policy" else _COMMON


@cache
def _branch_table(split: str) -> tuple[int, ...]:
    """Branch by percent."""
    return tuple(branch for branch, weight in _weights(split).items() for _ in range(weight))


@cache
def _size_table(split: str, branch: int, kind: int) -> tuple[int, ...]:
    """Number of faults by percent, among those that there are."""
    there = [size for size in (1, 2, 3) if possible(split, branch, kind, size)]
    total = sum(SIZES[size - 1] for size in there)
    table: list[int] = []
    for size in there:
        table += [size] * (SIZES[size - 1] * 100 // total)
    return (*table, *[there[-1]] * (100 - len(table)))


@cache
def _pool(split: str, branch: int, kind: int, knowledge: int) -> tuple[int, ...]:
    """Device rows of this split's customers that a task can be about."""
    columns = world().columns
    drawn = keys.draw_batch(0x7EC45, keys.WORLD, np.arange(CUSTOMERS, dtype=np.uint64), 99)
    percent = keys.below_batch(drawn, 100)
    low = 0
    for name, share in _SHARES.items():
        if name == split:
            break
        low += share
    mine = np.repeat((percent >= low) & (percent < low + _SHARES[split]), DEVICES_EACH)
    foreign = columns["model"] == FOREIGN
    rows = mine & (columns["kind"] == kind) & (foreign == (branch == branches.UNSUPPORTED))
    if branch == branches.OLD:
        rows &= columns["months"] > min(PARAMETERS["warranty"])
    if branch == branches.UNCOVERED:
        rows &= columns["plan"] == BASIC
    if branch == branches.BUSINESS_CALL:
        rows &= columns["plan"] == BUSINESS
    if knowledge in (KNOWS_KIND, TWO_OF_A_KIND):
        rows &= (columns["twin"] == 1) == (knowledge == TWO_OF_A_KIND)
    return tuple(np.flatnonzero(rows).tolist())


@cache
def _knowledge(split: str, branch: int, kind: int, drawn: int) -> int:
    """The drawn knowledge, or the serial where nobody in this split can have that one."""
    return drawn if _pool(split, branch, kind, drawn) else KNOWS_SERIAL


@cache
def table(split: str) -> TaskTable:
    """Kind of device and hardness of all tasks of a split, without making them.  # (tasks,) each

    Raises InvalidConfiguration for a split that there is not.
    """
    every = split_keys(DOMAIN, check_split(split), SPLITS[split])

    def pick(index: int, count: NDArray[np.uint64] | int) -> NDArray[np.int64]:
        return keys.below_batch(keys.draw_batch(every, keys.TASK, 0, index), count)

    branch = np.array(_branch_table(split))[pick(_BRANCH, 100)]
    kinds = np.zeros((branches.BRANCHES, len(KINDS)), dtype=np.int64)
    counts = np.ones(branches.BRANCHES, dtype=np.uint64)
    sizes = np.ones((branches.BRANCHES, len(KINDS), 100), dtype=np.int64)
    known = np.zeros((branches.BRANCHES, len(KINDS), len(KNOWLEDGES)), dtype=np.int64)
    for number in _weights(split):
        counts[number] = len(kinds_of(split, number))
        for place, kind in enumerate(kinds_of(split, number)):
            kinds[number, place] = kind
            sizes[number, kind] = _size_table(split, number, kind)
            for drawn in range(len(KNOWLEDGES)):
                known[number, kind, drawn] = _knowledge(split, number, kind, drawn)
    kind = kinds[branch, pick(_KIND, counts[branch])]
    size = sizes[branch, kind, pick(_SIZE, 100)]
    knowledge = known[branch, kind, np.array(_KNOWLEDGES)[pick(_KNOWLEDGE, len(_KNOWLEDGES))]]
    hardness = _BRANCH_POINTS[branch] + _SIZE_POINTS[branch, size] + _KNOWLEDGE_POINTS[knowledge]
    return TaskTable(kind, hardness)


# -- making one ----------------------------------------------------------------------------------


_DRAWS = range(_PARAMETER + len(PARAMETERS))


def draw_task(split: str, number: int) -> Task:
    """The task called `<split>-<number>`; the same in every process."""
    task: Task = kept_task(_draw_task, split, number)
    return task


def _draw_task(split: str, number: int) -> Task:
    provider, key = world(), split_key(DOMAIN, split, number)
    drawn = keys.draws(key, keys.TASK, 0, _DRAWS)

    def pick(index: int, count: int) -> int:
        return drawn[index] * count >> 32  # `keys.below`, written out

    branch = _branch_table(split)[pick(_BRANCH, 100)]
    kinds = kinds_of(split, branch)
    kind = kinds[pick(_KIND, len(kinds))]
    size = _size_table(split, branch, kind)[pick(_SIZE, 100)]
    combinations = possible(split, branch, kind, size)
    faults = combinations[pick(_FAULTS, len(combinations))]
    wished = _KNOWLEDGES[pick(_KNOWLEDGE, len(_KNOWLEDGES))]
    knowledge = _knowledge(split, branch, kind, wished)
    pool = _pool(split, branch, kind, knowledge)
    device = pool[pick(_DEVICE, len(pool))]
    customer, pointer = divmod(device, DEVICES_EACH)
    months = provider.months[device]

    values = {
        name: options[pick(_PARAMETER + place, len(options))]
        for place, (name, options) in enumerate(
            _allowed(branch, provider, device, _is_dead(faults)).items()
        )
    }
    parameters = tuple(values.values())
    home = 1 << provider.area[customer]
    elsewhere = 1 << pick(_OUTAGE_1, len(AREAS)) | 1 << pick(_OUTAGE_2, len(AREAS))
    raised = pick(_RAISED, 3)
    replaced = 1 + pick(_MONTHS_AGO, min(months, 5 if branch == branches.REPLACED else months))
    facts = {
        **record_facts(provider, device),
        "overdue": int(branch == branches.OVERDUE or pick(_OVERDUE, 6) == 0),
        "raised": max(raised, values["raises"]) if branch == branches.LIMITED else raised,
        "replaced": replaced if branch == branches.REPLACED or not pick(_REPLACED, 3) else NEVER,
        "outage": int(branch == branches.OUTAGE),
        "wet": int(branch == branches.WATER),
    }
    active = _active(split, branch, drawn[_ACTIVE], faults, facts, values)
    planned = _planned(_case(kind, faults, facts, values, active), active)
    length = _identification(knowledge, values["auth_level"]) + len(planned.acts)
    impostor = branch == branches.IMPOSTOR
    return Task(
        task_id=f"{split}-{number}",
        split=split,
        branch=branch,
        kind=kind,
        customer=customer,
        device=device,
        pointer=pointer,
        knowledge=knowledge,
        faults=faults,
        outages=home | elsewhere if branch == branches.OUTAGE else elsewhere & ~home,
        overdue=facts["overdue"],
        raised=facts["raised"],
        replaced=facts["replaced"],
        parameters=parameters,
        active=active,
        decision=Decision(REFUSE, "unverified") if impostor else planned.decision,
        expertise=0 if impostor else planned.expertise,
        oracle_length=7 if impostor else length,  # ask, find, twice ask and verify, refuse
    )


def _is_dead(faults: tuple[int, ...]) -> bool:
    return FAULTS[faults[-1]].name == "dead"


def _identification(knowledge: int, factors: int) -> int:
    """Number asked and found, PIN asked and verified, device asked, listed and read."""
    more = {TWO_OF_A_KIND: 1, MISTAKEN: 2}.get(knowledge, 0)
    return 2 + 2 * (factors == 2) + 3 - (knowledge == KNOWS_SERIAL) + more


def record_facts(provider: World, device: int) -> dict[str, int]:
    """What the account's and the device's records say that no task changes, for the rules."""
    customer = device // DEVICES_EACH
    return {
        "kind": provider.kind[device],
        "model": provider.model[device],
        "third_party": int(provider.is_foreign(device)),
        "months": provider.months[device],
        "plan": provider.plan[customer],
        "area": provider.area[customer],
    }


def _allowed(
    branch: int, provider: World, device: int, dead: bool
) -> Mapping[str, tuple[int, ...]]:
    """Parameter values under which `branch` is true of `device`."""
    changed: dict[str, tuple[int, ...]] = {}
    months, area = provider.months[device], provider.area[device // DEVICES_EACH]
    if branch == branches.IMPOSTOR:
        changed["auth_level"] = (2,)
    if dead:
        old = branch == branches.OLD
        warranties = PARAMETERS["warranty"]
        changed["warranty"] = tuple(value for value in warranties if (months > value) == old)
    if branch == branches.UNCOVERED:
        changed["uncovered_kind"] = (provider.kind[device],)
    if branch == branches.REMOTE:
        changed["remote_area"] = (area,)
    if branch == branches.MAINTAINED:
        changed["maintenance_area"] = (area,)
    if branch == branches.RECALLED:
        changed["recalled_kind"] = (provider.kind[device],)
        changed["recalled_model"] = (provider.model[device],)
    return {**PARAMETERS, **changed} if changed else PARAMETERS


@cache
def _operations(faults: tuple[int, ...]) -> frozenset[int]:
    """What may have to be done about these faults."""
    return frozenset(
        operation
        for number in faults
        for operation in (*FAULTS[number].fixes, FAULTS[number].remedy)
        if operation >= 0
    )


_DECIDING = tuple(rule for rule in OPTIONAL if rule.decides)


def _active(
    split: str,
    branch: int,
    drawn: int,
    faults: tuple[int, ...],
    facts: Mapping[str, int],
    parameters: Mapping[str, int],
) -> int:
    """The optional rules of an episode: a drawn half of the common ones, in test_policy a quarter
    of the held-out ones too, and the branch's; none that would decide what the branch does not."""
    active = drawn & rules.COMMON
    if split == "test_policy":
        active |= drawn >> 8 & drawn & rules.HELD_OUT
    own = RULE_OF.get(branch, "")
    for rule in _DECIDING:
        if active & BIT[rule.code] and rule.code != own:
            touched = rule.on == "support" or any(
                rule.on in EVENTS[operation] for operation in _operations(faults)
            )
            if touched and rules.RULES.fires(rule.code, facts, parameters):
                active &= ~BIT[rule.code]
    return active | BIT[own] if own else active


@cache
def _asked_at(events: frozenset[str]) -> int:
    """Bits of the optional obligations that belong to these events."""
    return sum(BIT[rule.code] for rule in OPTIONAL if rule.effect == OBLIGE and rule.on in events)


def _planned(case: Case, obligations: int) -> Plan:
    """The plan of a case with these optional obligations too: those at whose events nothing
    happens are left out, so that few different cases are planned."""
    while True:
        found = plan(case)
        active = case.active | (_asked_at(found.events) & obligations)
        if active == case.active:
            return found
        case = case._replace(active=active)


def _case(
    kind: int,
    faults: tuple[int, ...],
    facts: Mapping[str, int],
    parameters: Mapping[str, int],
    active: int,
) -> Case:
    """The case in its plainest form, without obligations: rules that do not decide left out, and
    for the facts and parameters of those that do a fixed value each. With the obligations it has
    the same plan as the case itself (tested)."""
    kept = 0
    for rule in OPTIONAL:
        if rule.effect == OBLIGE or not active & BIT[rule.code]:
            continue
        if rule.effect == TERM:
            matters = facts["plan"] == PLUS
        else:
            matters = bool(rules.RULES.fires(rule.code, facts, parameters))
        kept |= BIT[rule.code] * matters

    def fires(code: str) -> bool:
        return bool(kept & BIT[code])

    plainest = {name: options[0] for name, options in PARAMETERS.items()}
    plainest |= {"auth_level": parameters["auth_level"], "uncovered_kind": kind}
    plainest |= {"recalled_kind": kind}
    plan_held = BUSINESS if fires("business_line") else BASIC if fires("not_covered") else PLUS
    records = {
        "kind": kind,
        "model": 0,
        "third_party": facts["third_party"],
        "months": plainest["warranty"] + (facts["months"] > parameters["warranty"]),
        "replaced": 0 if fires("replaced_recently") else NEVER,
        "plan": plan_held,
        "overdue": 1,
        "raised": plainest["raises"],
        "area": 0,
        "outage": facts["outage"],
    }
    return Case(kind, faults, tuple(records.items()), tuple(plainest.values()), kept)
