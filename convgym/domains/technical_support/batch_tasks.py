"""Tasks of the support desk as records: each from the task itself, or drawn in compiled code.

    compile_task   Task ─► record of `batch_tables.TASK`
    draw           split, numbers ─► records; `batch_draws`, from the tables made here

What a split's tasks are drawn from is one record, `P`, with two arrays beside it:

    pools     device rows, of one branch, kind and knowledge after the other
    meetings  (n, 3) faults that meet, of one branch, kind and size after the other; -1 for none
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convgym.domains.technical_support import combinations as branches
from convgym.domains.technical_support import rules, tasks
from convgym.domains.technical_support.batch_draws import draw_tasks
from convgym.domains.technical_support.batch_planning import planner, walk
from convgym.domains.technical_support.batch_tables import (
    EFFECTS,
    FACT,
    REASONS,
    RECORD_FACTS,
    tables,
)
from convgym.domains.technical_support.batch_user import _DECISIONS, BY_SYMPTOM, known_row
from convgym.domains.technical_support.facts import EVENTS, OFFERS, PARAMETERS
from convgym.domains.technical_support.faults import FAULTS
from convgym.domains.technical_support.goals import facts_of, goal, only_write
from convgym.domains.technical_support.rules import BIT, RULES
from convgym.domains.technical_support.tasks import KNOWLEDGES, RULE_OF, Task
from convgym.domains.technical_support.vocabulary import KINDS
from convgym.engine.batch import record
from convgym.engine.tasks import _stem


def compile_task(task: Task, into: Any) -> None:
    """Write a task into a record of `TASK`."""
    wanted, decision, facts = goal(task), task.decision, facts_of(task)
    for name in _SAME:
        into[name] = getattr(task, name)
    into["known"] = known_row(task)
    into["fault"] = FAULTS[task.faults[-1]].component
    into["effect"] = EFFECTS.index(decision.effect)
    into["reason"] = REASONS.index(decision.reason) if decision.reason else -1
    into["alternative"] = OFFERS.index(decision.alternative) if decision.alternative else -1
    into["required"], into["allowed"] = wanted.required, wanted.allowed
    into["faults"] = [*task.faults, -1, -1][:3]
    into["facts"] = [facts[name] for name in FACT._fields[:RECORD_FACTS]]


_SAME = (
    "branch",
    "kind",
    "customer",
    "device",
    "pointer",
    "knowledge",
    "symptom",
    "outages",
    "overdue",
    "raised",
    "replaced",
    "active",
    "expertise",
    "oracle_length",
    "parameters",
    "state",
)
"""Fields that a record has of its task as they are."""


class SplitTables(NamedTuple):
    """See the module."""

    record: NDArray[np.void]
    pools: NDArray[np.int32]
    meetings: NDArray[np.int32]


def draw(
    split: str, numbers: NDArray[np.int64], rows: NDArray[np.int32], into: NDArray[np.void]
) -> None:
    """Write the tasks of a split with these numbers into these rows, which are `TASK` records."""
    of = split_tables(split)
    shared = (tables(), planner(), common_tables())
    draw_tasks(*shared, of.record, of.pools, of.meetings, walk(), numbers, rows, into)


# -- tables ----------------------------------------------------------------------------------------


@cache
def common_tables() -> NDArray[np.void]:
    """What the tasks of all splits are made with: `K`.  # (1,)"""
    events = {"support": 1}
    for name in (name for row in EVENTS.values() for name in row):
        events.setdefault(name, 1 << len(events))

    def touched(number: int) -> int:
        named = {name for op in tasks._operations((number,)) for name in EVENTS[op]}
        return sum(events[name] for name in named)

    options = [list(values) for values in PARAMETERS.values()]
    writes = [only_write(fault.number) for fault in FAULTS]
    known = BY_SYMPTOM[:, None] + np.arange(len(KNOWLEDGES)) * len(_DECISIONS)
    return record(
        component=[fault.component for fault in FAULTS],
        state=[fault.state for fault in FAULTS],
        symptom=[fault.symptom for fault in FAULTS],
        dead=[tasks._is_dead((fault.number,)) for fault in FAULTS],
        needed=[1 << write if write >= 0 else 0 for write in writes],
        touches=[touched(fault.number) for fault in FAULTS],
        options=_padded(options, max(map(len, options))),
        n_options=[len(values) for values in options],
        own=[BIT[RULE_OF[b]] if b in RULE_OF else 0 for b in range(branches.BRANCHES)],
        deciding=[RULES.rules.index(rule) for rule in tasks._DECIDING],
        belongs=[events[rule.on] for rule in tasks._DECIDING],
        on_support=events["support"],
        common=rules.COMMON,
        known=known,
        identifying=[
            [tasks._identification(knowledge, factors) for factors in range(3)]
            for knowledge in range(len(KNOWLEDGES))
        ],
    )


@cache
def split_tables(split: str) -> SplitTables:
    """What the tasks of a split are drawn from."""
    shape = (branches.BRANCHES, len(KINDS))
    kinds = np.zeros(shape, dtype=np.int8)
    n_kinds = np.zeros(branches.BRANCHES, dtype=np.int8)
    sizes = np.zeros((*shape, 100), dtype=np.int8)
    knowledge = np.zeros((*shape, len(tasks._KNOWLEDGES)), dtype=np.int8)
    met = np.zeros((2, *shape, branches.MOST_FAULTS + 1), dtype=np.int32)
    pooled = np.zeros((2, *shape, len(KNOWLEDGES)), dtype=np.int32)
    meetings: list[tuple[int, ...]] = []
    pools: list[int] = []
    for branch in tasks._weights(split):
        n_kinds[branch] = len(branches.kinds_of(split, branch))
        for place, kind in enumerate(branches.kinds_of(split, branch)):
            kinds[branch, place] = kind
            sizes[branch, kind] = tasks._size_table(split, branch, kind)
            for count in range(1, branches.MOST_FAULTS + 1):
                found = branches.possible(split, branch, kind, count)
                met[:, branch, kind, count] = len(meetings), len(found)
                meetings += found
            for drawn, wished in enumerate(tasks._KNOWLEDGES):
                knowledge[branch, kind, drawn] = tasks._knowledge(split, branch, kind, wished)
            for one in range(len(KNOWLEDGES)):
                rows = tasks._pool(split, branch, kind, one)
                pooled[:, branch, kind, one] = len(pools), len(rows)
                pools += rows
    made = record(
        stem=np.uint64(_stem(tasks.DOMAIN, split)),
        held_out=rules.HELD_OUT if split == "test_policy" else 0,
        branch=np.array(tasks._branch_table(split), dtype=np.int8),
        kinds=kinds,
        n_kinds=n_kinds,
        sizes=sizes,
        knowledge=knowledge,
        meetings_from=met[0],
        n_meetings=met[1],
        pool_from=pooled[0],
        pool_size=pooled[1],
    )
    return SplitTables(
        made, np.array(pools, dtype=np.int32), _padded(meetings, branches.MOST_FAULTS)
    )


def _padded(rows: Any, width: int) -> NDArray[np.int32]:
    """Rows of unlike length, each filled up with -1."""
    table = np.full((len(rows), width), -1, dtype=np.int32)
    for row, values in enumerate(rows):
        table[row, : len(values)] = values
    return table
