"""Tasks of a desk: who asks for what, on which records, under which policy.

A task is a pure function of its split and number, and valid by construction:

    workflow ─► outcome (the rule that is to decide, or none) ─► a record on which it can
             ─► parameters under which it does ─► knowledge, details ─► the next request

Which records and parameters fit an outcome is worked out once per workflow, for all of them at
once; nothing is rejected, and no loop of unknown length stands inside `reset`. What a split holds
out: `test_primitive` asks for a workflow, `test_compositional` for two workflows in one task, and
`test_policy` for a rule that training never meets.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.desk.declaration import ACCOUNT, Declaration, Workflow
from convgym.desk.plans import Plan
from convgym.desk.world import Records
from convgym.engine import keys
from convgym.engine.rules import ALLOW, REFUSE, TRANSFER, Decision, Rule
from convgym.engine.tasks import SPLITS, TaskTable, kept_task, split_key, split_keys
from convgym.errors import InvalidConfiguration

KNOWS_ID, KNOWS_LABEL, LOOKS_UP, KNOWS_VAGUELY, MISTAKEN = range(5)
KNOWLEDGES = ("number", "item", "looks up", "vague", "mistaken")
_KNOWLEDGES = (KNOWS_ID,) * 3 + (KNOWS_LABEL,) * 2 + (LOOKS_UP, KNOWS_VAGUELY, MISTAKEN)
_LATER_GRANTED = 80
_FAULTY = 15
"""Percent of tasks in which a tool fails at first."""
_MOST_FAULTS = 2
_NOT_ASKED = -2

# Numbers of a task's draws; those of the i-th request are moved by i × _STRIDE.
_WORKFLOW, _OUTCOME, _ROW, _VALUES, _KNOWLEDGE, _DETAIL, _EFFECT = range(7)
_STRIDE = 32
_IMPOSTOR, _COUNT, _FAULT, _FAULT_TOOL, _FAULTS, _PARAMETER = 128, 129, 130, 131, 132, 160

# How hard a task is: points for what makes scripted policies fail on it (measured on train).
_KNOWLEDGE_POINTS = np.array([0, 1, 1, 2, 2])
_EFFECT_POINTS = {ALLOW: 0, REFUSE: 3, TRANSFER: 1}
_REQUEST_POINTS = 3
_FAULT_POINTS = 1


@dataclass(frozen=True, slots=True)
class Request:
    """One thing that is wanted, as integers."""

    workflow: int
    row: int
    """Row of the record that is meant; of the account, where the workflow is about that."""
    pointer: int
    """Its place among the account's records, 0 the newest; -1 for the account itself."""
    knowledge: int
    """How it can be named: by number, by label, by number after a look, vaguely, or wrongly."""
    detail: int
    """Which word the first detail is; 1 for a text of the customer's own, 0 without details."""
    decision: Decision
    terms: tuple[int, ...]
    """What is right to tell for each term of the workflow, as its rule gives it."""


@dataclass(frozen=True, slots=True)
class Task:
    """Everything hidden from the agent."""

    task_id: str
    split: str
    account: int
    requests: tuple[Request, ...]
    parameters: tuple[int, ...]
    """In the order of the declaration's parameters."""
    impostor: bool
    """The customer is somebody else, and does not know the secret."""
    faulty: int
    """Number of the tool that fails at first, in the order of `tools`; -1 for none."""
    faults: int
    """How often it does."""
    oracle_length: int
    """Agent acts needed when the customer answers what it is asked and no more, and no tool fails.

    Who remembers a number wrong all along says it at first; slips of memory are not counted."""


class Fits:
    """On which records, under which parameters, each rule decides one workflow."""

    def __init__(
        self,
        d: Declaration,
        records: Records,
        workflow: Workflow,
        split: str,
        among: NDArray[np.bool_] | None = None,
    ) -> None:
        rules = d.rules_for(split)
        self.rules: tuple[Rule, ...] = rules.deciding(workflow.name)
        used = {one.operand for rule in self.rules for one in rule.when}
        fields = {one.field for rule in self.rules for one in rule.when}
        self.parameters = tuple(name for name in d.parameters if name in used)
        self.details = tuple(
            name for name in workflow.details if d.details[name] and name in fields
        )
        choices = [d.parameters[name] for name in self.parameters]
        choices += [tuple(range(len(d.details[name]))) for name in self.details]
        self.values: tuple[tuple[int, ...], ...] = tuple(product(*choices))
        """Every way to set parameters, then details.  (ways,)"""
        self.each = each = d.kind[workflow.kind].each if workflow.kind else 1
        rows = np.arange(records.accounts * each)
        facts: dict[str, Any] = {"always": np.ones((1, 1), dtype=np.int64)}
        for field, column in records.columns[ACCOUNT].items():
            facts[field] = column[rows // each][:, None]
        if workflow.kind:
            for field, column in records.columns[workflow.kind].items():
                facts[field] = column[:, None]
        columns = np.array(self.values, dtype=np.int64).reshape(len(self.values), -1)
        given = {name: columns[None, :, i] for i, name in enumerate(self.parameters)}
        for i, name in enumerate(self.details, start=len(self.parameters)):
            facts[name] = columns[None, :, i]
        decided = rules.first(workflow.name, facts, given)
        self.decided: NDArray[np.int8] = np.broadcast_to(
            decided, (len(rows), len(self.values))
        ).astype(np.int8)
        """The rule that decides, -1 for none, -2 where nobody asks for it.  (rows, ways)"""
        if among is not None:
            self.decided[~among] = _NOT_ASKED
        self.effects: dict[str, NDArray[np.bool_]] = {
            effect: np.asarray(np.isin(self.decided, self._numbers(effect)).any(axis=1))
            for effect in (ALLOW, REFUSE, TRANSFER)
        }
        """Rows on which some way leads to an effect.  (rows,) each"""

    def _numbers(self, effect: str) -> list[int]:
        numbers = [i for i, rule in enumerate(self.rules) if rule.effect == effect]
        return [-1, *numbers] if effect == ALLOW else numbers

    def effect(self, outcome: int) -> str:
        """What becomes of a request that rule `outcome` decides."""
        return self.rules[outcome].effect if outcome >= 0 else ALLOW

    def with_effect(self, effect: str, row: int) -> list[int]:
        """Rules that can decide `row` with this effect."""
        found = sorted(set(self.decided[row].tolist()))
        return [one for one in found if one != _NOT_ASKED and self.effect(one) == effect]

    @lru_cache(maxsize=4096)  # noqa: B019 (lives as long as its desk, which is shared)
    def rows(self, outcome: int, low: int, high: int) -> NDArray[np.int64]:
        """Rows of a range of accounts' tenths on which rule `outcome` can decide.  # (rows,)"""
        return np.flatnonzero(self._tenths(low, high) & (self.decided == outcome).any(axis=1))

    def _tenths(self, low: int, high: int) -> NDArray[np.bool_]:
        share = tenths(len(self.decided) // self.each)
        return np.repeat((share >= low) & (share < high), self.each)


def tenths(accounts: int) -> NDArray[np.int64]:
    """Which tenth of the accounts each belongs to: splits share no customer.  # (accounts,)"""
    drawn = keys.draw_batch(0x5B117, keys.WORLD, np.arange(accounts, dtype=np.uint64), 99)
    return (drawn % np.uint64(10)).astype(np.int64)


class Tasks:
    """All tasks of one desk.

    `among` says by workflow on which rows anybody would ask for it, where that is not all; and
    `depends` on which detail of a request a field rests that the rules weigh: before the customer
    has said it, nobody knows which of the shown values counts.
    """

    def __init__(
        self,
        declaration: Declaration,
        records: Records,
        among: Mapping[str, NDArray[np.bool_]] | None = None,
        depends: Mapping[str, str] | None = None,
    ) -> None:
        self.declaration, self.records = declaration, records
        self.among, self.depends = among or {}, depends or {}
        self._fits: dict[tuple[str, bool], Fits] = {}
        self._plans: dict[str, Plan] = {}
        self._following: dict[tuple[str, ...], list[Workflow]] = {}
        self.table = lru_cache(maxsize=16)(self._table)
        self.facts = lru_cache(maxsize=1 << 14)(self._facts)
        """What the rules ask of one record and its account: (kind, row, account) → mapping."""

    # -- what a split allows -----------------------------------------------------------------------

    @cached_property
    def held_out_pairs(self) -> frozenset[tuple[str, str]]:
        """Workflows that meet in no task but those of `test_compositional`, each way round."""
        d = self.declaration
        names = [workflow.name for workflow in d.workflows if not workflow.held_out]
        pairs = [(one, other) for i, one in enumerate(names) for other in names[i + 1 :]]
        stem = split_key(d.name, "test_compositional", 0)

        def drawn(pair: tuple[str, str]) -> int:
            return keys.draw(stem, keys.TASK, d.names.index(pair[0]), d.names.index(pair[1]))

        apart = sorted(pairs, key=drawn)[: len(pairs) // 3]
        return frozenset((*apart, *((other, one) for one, other in apart)))

    @cached_property
    def splits(self) -> tuple[str, ...]:
        """The splits that this desk has tasks for."""
        d = self.declaration
        lacks = {
            "test_compositional": not self.held_out_pairs,
            "test_primitive": not any(workflow.held_out for workflow in d.workflows),
            "test_policy": not any(rule.held_out for rule in d.rules.rules),
        }
        return tuple(split for split in SPLITS if not lacks.get(split, False))

    def fits(self, workflow: Workflow, split: str) -> Fits:
        """Where each rule can decide `workflow` in a split; worked out once."""
        key = (workflow.name, split == "test_policy")
        if key not in self._fits:
            among = self.among.get(workflow.name)
            self._fits[key] = Fits(self.declaration, self.records, workflow, split, among)
        return self._fits[key]

    def each(self, workflow: Workflow) -> int:
        """How many records of the workflow's kind an account has."""
        return self.declaration.kind[workflow.kind].each if workflow.kind else 1

    def plan(self, split: str) -> Plan:
        """What first requests of a split may be, with their weights."""
        if split not in self._plans:
            if split not in self.splits:
                raise InvalidConfiguration(
                    f"the domain {self.declaration.name!r} has no tasks in the split {split!r}, "
                    f"since it declares nothing that is held out there; it has "
                    f"{', '.join(self.splits)}"
                )
            self._plans[split] = Plan(self, split)
        return self._plans[split]

    # -- one task ----------------------------------------------------------------------------------

    def draw(self, split: str, number: int) -> Task:
        """The task called `<split>-<number>`; the same in every process."""
        task: Task = kept_task(self._draw, split, number)
        return task

    def _draw(self, split: str, number: int) -> Task:
        d, plan = self.declaration, self.plan(split)
        key = split_key(d.name, split, number)
        usual = self._usual_draws
        drawn = dict(zip(usual, keys.draws(key, keys.TASK, 0, usual), strict=True))

        def pick(index: int, count: int) -> int:
            one = drawn.get(index)
            return (keys.draw(key, keys.TASK, 0, index) if one is None else one) * count >> 32

        first = plan.first(pick(_WORKFLOW, plan.total))
        impostor = plan.impostors > pick(_IMPOSTOR, 100)
        values: dict[str, int] = {}
        outcome = plan.outcome(first, pick(_OUTCOME, 10_000))
        fits = self.fits(first, split)
        pool = fits.rows(outcome, *plan.accounts)
        row = int(pool[pick(_ROW, len(pool))])
        account = row // self.each(first)
        requests = [self._request(first, split, row, outcome, values, pick, 0)]
        transfer = fits.effect(outcome) == TRANSFER
        count = 1 if impostor or transfer else plan.count(pick(_COUNT, 100))
        used = [first]
        for place in range(1, count):
            later = self._later(split, used, requests, pick, place, place == count - 1)
            if later is None:
                break
            workflow, row, outcome = later
            requests.append(self._request(workflow, split, row, outcome, values, pick, place))
            used.append(workflow)
        if impostor:
            values["auth_level"] = 2
            requests = [self._unverified(requests[0])]
        parameters = tuple([
            values[name] if name in values else options[drawn[at] * len(options) >> 32]
            for at, (name, options) in self._parameters
        ])
        faulty = pick(_FAULT_TOOL, len(self.tools)) if pick(_FAULT, 100) < _FAULTY else -1
        faults = 1 + pick(_FAULTS, _MOST_FAULTS) if faulty >= 0 else 0
        given = dict(zip(d.parameters, parameters, strict=True))
        complete = tuple(self._with_terms(request, account, given) for request in requests)
        return Task(
            task_id=f"{split}-{number}",
            split=split,
            account=account,
            requests=complete,
            parameters=parameters,
            impostor=impostor,
            faulty=faulty,
            faults=faults,
            oracle_length=self._oracle_length(complete, given, impostor),
        )

    @cached_property
    def _usual_draws(self) -> tuple[int, ...]:
        """Numbers of the draws that most tasks need: not those of later requests."""
        of_first, of_parameters = range(_EFFECT + 1), range(len(self.declaration.parameters))
        return (
            *of_first, *range(_IMPOSTOR, _FAULTS + 1), *(_PARAMETER + i for i in of_parameters),
        )  # fmt: skip

    @cached_property
    def _parameters(self) -> tuple[tuple[int, tuple[str, Sequence[int]]], ...]:
        """Number of the draw, name and options of each."""
        return tuple(enumerate(self.declaration.parameters.items(), start=_PARAMETER))

    @cached_property
    def tools(self) -> tuple[str, ...]:
        """The tools that can fail, in order."""
        d = self.declaration
        names = [d.account.find, d.account.verify]
        for kind in d.kinds:
            names += [f"list_{kind.many}", f"get_{kind.name}"]
        return (*names, *(workflow.tool for workflow in d.writes))

    def _later(
        self,
        split: str,
        used: Sequence[Workflow],
        requests: Sequence[Request],
        pick: Any,
        place: int,
        last: bool,
    ) -> tuple[Workflow, int, int] | None:
        """A further request on a record of the same account; None where nothing is left.

        What was changed at the customer's wish, such as an order that was cancelled, is spoken of
        again only where nothing else is left.
        """
        account = requests[0].row // self.each(used[0])
        changed = {
            (workflow.kind, request.row)
            for workflow, request in zip(used, requests, strict=True)
            if workflow.kind and workflow.tool and request.decision.effect == ALLOW
        }
        drawn = ALLOW if pick(_EFFECT + place * _STRIDE, 100) < _LATER_GRANTED else REFUSE
        effects = dict.fromkeys((drawn, ALLOW, REFUSE, *((TRANSFER,) if last else ())))
        allowed = self._partners(split, used)
        for apart, effect in product((changed, ()), effects):
            open_to: list[tuple[Workflow, list[int]]] = []
            for workflow in allowed:
                each = self.each(workflow)
                start, can = account * each, self.fits(workflow, split).effects[effect]
                rows = [
                    row
                    for row, fit in enumerate(can[start : start + each].tolist(), start)
                    if fit and (workflow.kind, row) not in apart
                ]
                if rows:
                    open_to.append((workflow, rows))
            if open_to:
                total = sum(workflow.weight for workflow, _ in open_to)
                at = pick(_WORKFLOW + place * _STRIDE, total)
                for workflow, rows in open_to:  # noqa: B007 (used where the loop ends)
                    at -= workflow.weight
                    if at < 0:
                        break
                row = rows[pick(_ROW + place * _STRIDE, len(rows))]
                outcomes = self.fits(workflow, split).with_effect(effect, row)
                outcome = outcomes[pick(_OUTCOME + place * _STRIDE, len(outcomes))]
                return workflow, row, outcome
        return None

    def _partners(self, split: str, used: Sequence[Workflow]) -> list[Workflow]:
        """What may follow; the second request of `test_compositional` makes a held-out pair."""
        names = (split, *[workflow.name for workflow in used])
        if names not in self._following:
            self._following[names] = self._all_partners(split, names[1:])
        return self._following[names]

    def _all_partners(self, split: str, names: Sequence[str]) -> list[Workflow]:
        apart = self.held_out_pairs
        free = [w for w in self.declaration.workflows_for(split) if w.name not in names]
        if split != "test_compositional":
            return [w for w in free if not any((name, w.name) in apart for name in names)]
        if len(names) == 1:
            return [w for w in free if (names[0], w.name) in apart]
        return free

    def _request(
        self,
        workflow: Workflow,
        split: str,
        row: int,
        outcome: int,
        values: dict[str, int],
        pick: Any,
        place: int,
    ) -> Request:
        """A request that rule `outcome` decides; sets the parameters that make it so."""
        d, at = self.declaration, place * _STRIDE
        fits = self.fits(workflow, split)
        ways = [way for way, one in enumerate(fits.decided[row].tolist()) if one == outcome]
        way = fits.values[ways[pick(_VALUES + at, len(ways))]]
        values.update(zip(fits.parameters, way, strict=False))
        decisive = dict(zip(fits.details, way[len(fits.parameters) :], strict=True))
        detail = 0
        if workflow.details:
            name = workflow.details[0]
            words = d.details[name]
            detail = decisive.get(name, pick(_DETAIL + at, len(words)) if words else 1)
        number = d.names.index(workflow.name)
        knowledge = self._knowledges[number][pick(_KNOWLEDGE + at, len(_KNOWLEDGES))]
        pointer = row % self.each(workflow) if workflow.kind else -1
        decision = fits.rules[outcome].decision if outcome >= 0 else Decision(ALLOW)
        return Request(number, row, pointer, knowledge, detail, decision, ())

    @cached_property
    def _knowledges(self) -> tuple[tuple[int, ...], ...]:
        """What the draws of `_KNOWLEDGES` come to for each workflow."""
        return tuple(map(self._knowledges_of, self.declaration.workflows))

    def _knowledges_of(self, workflow: Workflow) -> tuple[int, ...]:
        if not workflow.kind:
            return (KNOWS_ID,) * len(_KNOWLEDGES)
        vague = KNOWS_VAGUELY if self.declaration.kind[workflow.kind].vague else KNOWS_LABEL
        return tuple(vague if one == KNOWS_VAGUELY else one for one in _KNOWLEDGES)

    @staticmethod
    def _unverified(request: Request) -> Request:
        return Request(
            request.workflow,
            request.row,
            request.pointer,
            request.knowledge,
            request.detail,
            Decision(REFUSE, "unverified"),
            (),
        )

    def _facts(self, kind: str, row: int, account: int) -> dict[str, int]:
        facts = {"always": 1}
        facts |= {field: column[account] for field, column in self._columns[ACCOUNT].items()}
        if kind:
            facts |= {field: column[row] for field, column in self._columns[kind].items()}
        return facts

    @cached_property
    def _columns(self) -> dict[str, dict[str, list[int]]]:
        """The columns of the records as lists: one number of a list is quicker than of an array."""
        return {
            kind: {field: column.tolist() for field, column in columns.items()}
            for kind, columns in self.records.columns.items()
        }

    def _with_terms(self, request: Request, account: int, parameters: dict[str, int]) -> Request:
        d = self.declaration
        workflow = d.workflows[request.workflow]
        if not workflow.terms:
            return request
        facts = self.facts(workflow.kind, request.row, account) | parameters
        for name in workflow.details:
            facts[name] = request.detail
        terms = tuple(d.rules.term(term, facts, parameters) for term in workflow.terms)
        return Request(
            request.workflow,
            request.row,
            request.pointer,
            request.knowledge,
            request.detail,
            request.decision,
            terms,
        )

    def _oracle_length(
        self, requests: Sequence[Request], parameters: dict[str, int], impostor: bool
    ) -> int:
        """Key asked and found, secret asked and verified, then what each request takes."""
        if impostor:
            return 7  # ask, find, ask, verify, ask, verify, refuse
        workflows = [self.declaration.workflows[request.workflow] for request in requests]
        level = max(parameters["auth_level"], *(workflow.factors for workflow in workflows))
        steps, seen = 2 + 2 * (level == 2), set[tuple[str, int]]()
        for request, workflow in zip(requests, workflows, strict=True):
            if workflow.kind:
                steps += self._locating_length(request, workflow, seen)
            steps += self._serving_length(request, workflow)
        return steps

    def _locating_length(
        self, request: Request, workflow: Workflow, seen: set[tuple[str, int]]
    ) -> int:
        """Acts until it is known which record is meant, and it has been read.

        `seen` is what earlier requests have left in view: records that were read, by kind and
        pointer, and kinds that were listed, with pointer -1. Adds what this request leaves.
        """
        kind = workflow.kind
        # Asked once; asked again after a look, a vague word, or a wrong number that was tried.
        steps = {LOOKS_UP: 2, KNOWS_VAGUELY: 2, MISTAKEN: 3}.get(request.knowledge, 1)
        if request.knowledge in (KNOWS_LABEL, KNOWS_VAGUELY, MISTAKEN):
            steps += (kind, -1) not in seen
            seen.add((kind, -1))
            first = request.row - request.pointer
            steps += sum(
                self.records.same_label(kind, request.row, first + k)
                for k in range(self.each(workflow))
            ) > 1
        steps += (kind, request.pointer) not in seen
        seen.add((kind, request.pointer))
        return steps

    def _serving_length(self, request: Request, workflow: Workflow) -> int:
        """Acts from the reading to the end of a request."""
        details = len(workflow.details)
        effect, steps = request.decision.effect, 1
        if effect == REFUSE:
            steps += bool(request.decision.alternative)
        elif effect == ALLOW and workflow.facts:
            return len(workflow.facts)
        elif effect == ALLOW:
            return details + len(workflow.terms) + 3  # confirm, write, report
        if not details:
            return steps
        # Who refuses or transfers asks for details only where a rule weighs them.
        rules = self.declaration.rules.deciding(workflow.name)
        weighed = {one.field for rule in rules for one in rule.when}
        weighed |= {
            self.depends[one.field]
            for rule in rules
            for one in rule.when
            if one.field in self.depends and rule.decision.reason == request.decision.reason
        }
        return steps + details * (not weighed.isdisjoint(workflow.details))

    def signature(self, task: Task) -> Hashable:
        """What distinguishes two tasks in substance: who, what, on which record, with what end."""
        wanted = (
            (r.workflow, r.row, r.detail, r.decision.effect, r.decision.reason, r.terms)
            for r in task.requests
        )
        return (task.account, task.impostor, *wanted)

    # -- all tasks at once -------------------------------------------------------------------------

    def _table(self, split: str) -> TaskTable:
        """Topic and hardness of all tasks of a split, without making them."""
        d, plan = self.declaration, self.plan(split)
        every = split_keys(d.name, split, SPLITS[split])

        def pick(index: int, count: int) -> NDArray[np.int64]:
            return keys.below_batch(keys.draw_batch(every, keys.TASK, 0, index), count)

        first = plan.number_of(pick(_WORKFLOW, plan.total))
        outcome_drawn, points = pick(_OUTCOME, 10_000), np.zeros(len(every), dtype=np.int64)
        transfers, knowledge = np.zeros(len(every), dtype=bool), pick(_KNOWLEDGE, len(_KNOWLEDGES))
        for number in np.unique(first):
            rows = first == number
            cumulative, outcomes = plan.outcomes[int(number)]
            chosen = np.searchsorted(cumulative, outcome_drawn[rows], side="right")
            fits = self.fits(d.workflows[number], split)
            effects = [fits.effect(outcome) for outcome in outcomes]
            points[rows] = np.array([_EFFECT_POINTS[effect] for effect in effects])[chosen]
            transfers[rows] = np.array([effect == TRANSFER for effect in effects])[chosen]
            knowledge[rows] = np.array(self._knowledges[number])[knowledge[rows]]
        impostor = pick(_IMPOSTOR, 100) < plan.impostors
        points[impostor] = _EFFECT_POINTS[REFUSE]
        counts = 1 + np.searchsorted(plan.counts, pick(_COUNT, 100), side="right")
        counts = np.where(impostor | transfers, 1, counts)
        points += _KNOWLEDGE_POINTS[knowledge] + _REQUEST_POINTS * (counts - 1)
        points += _FAULT_POINTS * (pick(_FAULT, 100) < _FAULTY)
        return TaskTable(first, points)
