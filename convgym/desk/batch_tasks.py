"""Tasks of a desk as records: from tasks themselves, or drawn in compiled code from tables.

    Fits, Plan     ─► tables, once for all splits with the same rules, and once for each split
    split, numbers ─► keys ─► draw_tasks (`batch_draws`) ─► records that `task_fields` describes

`F` is the record of what rules can decide on which rows, with four arrays beside it:

    decided  (rows × ways,) of each workflow: the rule that decides a row, under each way to set
             parameters and details
    can      (rows × workflows,) of each kind: bit i + 1 where rule i can decide, bit 0 where none
             can
    having   (accounts, effects, workflows): bit i where a workflow can be decided with an effect
             on record i of an account
    values   (ways × width,) of each workflow: the ways

`P` is a split's, with `pools`, the rows of each outcome of first requests. An outcome's place in
tables is one more than its number, which is -1 where no rule decides.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convgym.desk.batch_draws import draw_tasks
from convgym.desk.batch_tables import EFFECTS, filled, offer_number
from convgym.desk.declaration import ACCOUNT, Declaration
from convgym.desk.plans import Plan
from convgym.desk.tasks import KNOWLEDGES, Fits, Request, Tasks
from convgym.engine.batch import Ints, record
from convgym.engine.rules import ALLOW, Decision
from convgym.engine.tasks import SPLITS, split_keys

if TYPE_CHECKING:
    from convgym.desk.desk import ServiceDesk

_NEVER = 1 << 62
"""More than any draw."""
MOST_RULES = MOST_WORKFLOWS = 62
"""Rules that decide one workflow, and workflows; they are bits of a whole number."""


class FitTables(NamedTuple):
    """See the module; one for the rules of most splits, and one for those of `test_policy`."""

    record: NDArray[np.void]
    decided: NDArray[np.int8]
    can: NDArray[Any]
    having: NDArray[Any]
    values: NDArray[np.int64]


class PlanTables(NamedTuple):
    """See the module; one for each split."""

    record: NDArray[np.void]
    pools: NDArray[np.int64]
    keys: NDArray[np.uint64]


class DeskTasks:
    """The tasks of one desk, as records that `task_fields` describes."""

    def __init__(self, desk: ServiceDesk, tables: NDArray[np.void]) -> None:
        self._desk, self._T = desk, tables

    def compile(self, split: str, number: int, into: np.void) -> None:
        """Write the task called `<split>-<number>` into a record, from the task itself."""
        desk, T = self._desk, self._T[0]
        task = desk.task(split, number)
        for name in into.dtype.names or ():
            into[name] = 0
        for name in ("account", "impostor", "faulty", "faults", "oracle_length", "parameters"):
            into[name] = getattr(task, name)
        into["requests"], into["new_rules"] = len(task.requests), split == "test_policy"
        for at, request in enumerate(task.requests):
            for name in ("workflow", "row", "pointer", "knowledge", "detail"):
                into[name][at] = getattr(request, name)
            decision = request.decision
            into["effect"][at] = EFFECTS[decision.effect]
            into["reason"][at] = desk.v.reason_number.get(decision.reason, -1)
            into["alternative"][at] = offer_number(desk, decision.alternative)
            into["terms"][at][: len(request.terms)] = request.terms
            w = request.workflow
            sort = (task.impostor * len(KNOWLEDGES) + request.knowledge) * 2
            sort += bool(decision.alternative)
            word = request.detail if T["worded"][w] else 0
            into["knows"][at] = T["knows"][w] + sort * T["words"][w] + word

    def draw(
        self, split: str, numbers: NDArray[np.int64], rows: Ints, into: NDArray[np.void]
    ) -> None:
        """Write the tasks of a split with these numbers into these rows."""
        plan = _plan_tables(self._desk, split)
        fits = _fit_tables(self._desk, split == "test_policy")
        draw_tasks(
            self._T, fits.record, fits.decided, fits.can, fits.having, fits.values,
            plan.record, plan.pools, plan.keys, numbers, rows, into,
        )  # fmt: skip


# -- tables ----------------------------------------------------------------------------------------


@lru_cache(maxsize=8)
def _fit_tables(desk: ServiceDesk, new_rules: bool) -> FitTables:
    """Of all splits with new rules, or without; made once for all batches of a desk."""
    tasks, d = desk._tasks, desk.declaration
    split = "test_policy" if new_rules else "train"
    fits = [tasks.fits(workflow, split) for workflow in d.workflows]
    most = max(len(d.rules.deciding(workflow.name)) for workflow in d.workflows)
    assert most <= MOST_RULES, f"{most} rules decide one workflow; {MOST_RULES} can"
    count = len(d.workflows)
    assert count <= MOST_WORKFLOWS, f"{count} workflows; {MOST_WORKFLOWS} can be declared"
    parameters = list(d.parameters)
    can, places = _can(d, fits, most)
    columns = {
        "new_rules": int(new_rules),
        **_offsets("decided", [fit.decided.size for fit in fits]),
        **places,
        **_offsets("values", [len(fit.values) * len(fit.values[0]) for fit in fits]),
        "ways": [len(fit.values) for fit in fits],
        "width": [len(fit.values[0]) for fit in fits],
        "n_set": [len(fit.parameters) for fit in fits],
        "sets": _wide(
            [[parameters.index(name) for name in fit.parameters] for fit in fits],
            len(parameters),
        ),
        "decisive": [len(fit.details) for fit in fits],
        "options": filled([list(values) for values in d.parameters.values()]),
        "n_options": [len(values) for values in d.parameters.values()],
        "n_tools": len(tasks.tools),
        "knowledges": tasks._knowledges,
        "weight": [workflow.weight for workflow in d.workflows],
        "apart": [
            sum(1 << w for w, two in enumerate(d.names) if (one, two) in tasks.held_out_pairs)
            for one in d.names
        ],
        **_outcomes(desk, fits, most + 1),
    }
    made = record(**columns)
    return FitTables(
        made,
        np.concatenate([fit.decided.ravel() for fit in fits]),
        can,
        _having([fit.each for fit in fits], desk.records.accounts, can, made[0]),
        np.array([value for fit in fits for way in fit.values for value in way] or [0]),
    )


@lru_cache(maxsize=32)
def _plan_tables(desk: ServiceDesk, split: str) -> PlanTables:
    """Of a split; made once for all batches of a desk."""
    tasks, d = desk._tasks, desk.declaration
    plan = tasks.plan(split)
    most = 1 + max(len(d.rules.deciding(workflow.name)) for workflow in d.workflows)
    count = len(d.workflows)
    numbers = [d.names.index(workflow.name) for workflow in plan.workflows]
    outcomes = [plan.outcomes[number] for number in numbers]
    pools, starts, sizes = _pools(tasks, plan, split, [which for _, which in outcomes])
    open_to = [d.names.index(workflow.name) for workflow in d.workflows_for(split)]
    columns = {
        "total": plan.total,
        "impostors": plan.impostors,
        "counts": plan.counts,
        "compositional": int(split == "test_compositional"),
        "number": _wide([numbers], count)[0],
        "cumulative": _wide([plan.cumulative], count, fill=_NEVER)[0],
        "n_open": len(open_to),
        "open_to": _wide([open_to], count)[0],
        "outcome": _wide([which for _, which in outcomes], most, count),
        "up_to": _wide([up_to for up_to, _ in outcomes], most, count, _NEVER),
        "pool_from": _wide(starts, most, count),
        "pool_size": _wide(sizes, most, count),
    }
    return PlanTables(record(**columns), pools, split_keys(d.name, split, SPLITS[split]))


def _wide(rows: Any, width: int, count: int = 0, fill: int = -1) -> NDArray[np.int64]:
    """Lists as rows of one width, so that what is compiled for one split fits all."""
    table = np.full((max(len(rows), count), width), fill, dtype=np.int64)
    for row, values in enumerate(rows):
        table[row, : len(values)] = values
    return table


def _offsets(name: str, sizes: list[int]) -> dict[str, list[int]]:
    """Where the part of each workflow begins."""
    return {f"{name}_from": [0, *np.cumsum(sizes).tolist()][:-1]}


def _can(d: Declaration, fits: list[Fits], most: int) -> tuple[NDArray[Any], dict[str, list[int]]]:
    """What can decide each row: of one record for all workflows on its kind, then the next.

    Beside it where a workflow's first entry stands, and how far it is to the next.
    """
    width = np.min_scalar_type((1 << most + 1) - 1)
    parts, first, step, at = [], [0] * len(fits), [1] * len(fits), 0
    for kind in (ACCOUNT, *d.kind):
        on = [w for w, workflow in enumerate(d.workflows) if workflow.kind == kind]
        if not on:
            continue
        table = np.zeros((len(fits[on[0]].decided), len(on)), dtype=width)
        for column, w in enumerate(on):
            for outcome in range(-1, len(fits[w].rules)):
                there = (fits[w].decided == outcome).any(axis=1)
                table[:, column] |= there.astype(width) << width.type(outcome + 1)
            first[w], step[w] = at + column, len(on)
        at += table.size
        parts.append(table.ravel())
    return np.concatenate(parts), {"can_from": first, "can_step": step}


def _having(each: list[int], accounts: int, can: NDArray[Any], F: Any) -> NDArray[Any]:
    """Bits of an account's records on which each workflow can be decided with each effect."""
    effects = F["with_effect"].shape[1]
    width = np.min_scalar_type((1 << max(each)) - 1)
    having = np.zeros((accounts, effects, len(each)), dtype=width)
    for w, count in enumerate(each):
        rows = F["can_from"][w] + np.arange(accounts * count) * F["can_step"][w]
        for effect in range(effects):
            there = (can[rows].astype(np.uint64) & F["with_effect"][w, effect]) != 0
            bits = there.reshape(accounts, count) << np.arange(count)
            having[:, effect, w] = bits.sum(axis=1)
    return having


def _outcomes(desk: ServiceDesk, fits: list[Fits], most: int) -> dict[str, NDArray[Any]]:
    """What each outcome of a workflow means, and the acts that it takes to serve it."""
    workflows = desk.declaration.workflows
    shape = (len(workflows), most)
    tables = {
        name: np.full(shape, -1, dtype=np.int64)
        for name in ("effect", "reason", "alternative", "serving")
    }
    with_effect = np.zeros((len(workflows), len(EFFECTS)), dtype=np.uint64)
    for w, (workflow, fit) in enumerate(zip(workflows, fits, strict=True)):
        for place, decision in enumerate((Decision(ALLOW), *(rule.decision for rule in fit.rules))):
            effect = EFFECTS[decision.effect]
            request = Request(w, 0, 0, 0, 0, decision, ())
            tables["effect"][w, place] = effect
            tables["reason"][w, place] = desk.v.reason_number.get(decision.reason, -1)
            tables["alternative"][w, place] = offer_number(desk, decision.alternative)
            tables["serving"][w, place] = desk._tasks._serving_length(request, workflow)
            with_effect[w, effect] |= np.uint64(1) << np.uint64(place)
    return {**tables, "with_effect": with_effect}


def _pools(
    tasks: Tasks, plan: Plan, split: str, outcomes: list[list[int]]
) -> tuple[NDArray[np.int64], list[list[int]], list[list[int]]]:
    """Rows of each outcome of each first workflow, one after the other; where, and how many."""
    parts: list[NDArray[np.int64]] = []
    starts, sizes, at = [], [], 0
    for workflow, which in zip(plan.workflows, outcomes, strict=True):
        own = [tasks.fits(workflow, split).rows(outcome, *plan.accounts) for outcome in which]
        sizes.append([len(rows) for rows in own])
        starts.append([at + sum(sizes[-1][:place]) for place in range(len(own))])
        at += sum(sizes[-1])
        parts += own
    return np.concatenate(parts), starts, sizes
