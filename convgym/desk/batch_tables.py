"""What a desk's kernels look up: declaration, cells, rules and records as fields of one record.

    Declaration, Vocabulary ─► cells and numbers by workflow, kind, pointer, rule, act of the user
    RuleSet                 ─► conditions, one after the other: source of a value (op) operand
    Records                 ─► world: what rules weigh, a row for each account and each record

A table that is shorter for one member than for another is filled up with -1. A kind of record is
its number, -1 is the account; a place among cells by pointer is 0 where there is no pointer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from convgym.desk.declaration import ACCOUNT, Workflow
from convgym.desk.tasks import KNOWLEDGES, Request, Task
from convgym.engine.batch import record
from convgym.engine.episode import Episode
from convgym.engine.rules import ALLOW, REFUSE, TRANSFER, Condition, Decision, Rule
from convgym.users.persona import TRAITS
from convgym.users.user_batch import (
    MOST_REQUESTS,
)
from convgym.users.user_state import Knowledge

if TYPE_CHECKING:
    from convgym.desk.desk import ServiceDesk
    from convgym.desk.world import Records

ALLOWED, REFUSED, TRANSFERS = range(3)
EFFECTS = {ALLOW: ALLOWED, REFUSE: REFUSED, TRANSFER: TRANSFERS}

ALWAYS, OF_ACCOUNT, OF_RECORD, OF_POLICY, NOWHERE, FACTORS, CONFIRMED, NEEDED = range(8)
"""Where the value comes from that a condition compares."""
OPERATORS = (">", "<", "==", "!=", ">=", "<=")
MORE, LESS, EQUAL, UNEQUAL, AT_LEAST, AT_MOST = range(len(OPERATORS))

MOST_BITS = 31
"""Facts and terms, violations, or records of a kind, which are bits of one whole number."""


def filled(rows: Sequence[Any], depth: int = 2) -> NDArray[np.int64]:
    """Nested lists as an array of `depth` dimensions, filled up with -1; none is empty."""
    shape = [max(1, len(rows))]
    level: list[Any] = list(rows)
    for _ in range(depth - 1):
        shape.append(max([1, *(len(row) for row in level)]))
        level = [one for row in level for one in row]
    table = np.full(shape, -1, dtype=np.int64)

    def fill(at: tuple[int, ...], part: Any) -> None:
        if len(at) == depth:
            table[at] = part
            return
        for place, one in enumerate(part):
            fill((*at, place), one)

    fill((), rows)
    return table


def runs(cells: Iterable[int]) -> list[tuple[int, int]]:
    """Cells as (first, one after the last) of those that stand side by side."""
    every = sorted(set(cells))
    if not every:
        return [(0, 0)]
    breaks = [place for place, (one, other) in enumerate(pairwise(every), 1) if other > one + 1]
    ends = [0, *breaks, len(every)]
    return [(every[start], every[stop - 1] + 1) for start, stop in pairwise(ends)]


class Conditions:
    """Conditions of rules as columns, one after the other."""

    def __init__(self, desk: ServiceDesk, fields: dict[str, list[str]]) -> None:
        self._d, self._depends = desk.declaration, desk._tasks.depends
        self._fields = fields
        self._parameters = list(desk.declaration.parameters)
        self._rows: list[tuple[int, ...]] = []

    def of_rule(self, when: Sequence[Condition], workflow: Workflow) -> tuple[int, int]:
        """Compile what a rule for `workflow` asks: the first of its conditions, and the next's."""
        first = len(self._rows)
        for one in when:
            detail = one.field in workflow.details
            hidden = self._depends.get(one.field, "") in workflow.details
            self._rows.append((*self._source(one.field, workflow), *self._compared(one),
                               int(detail), int(hidden)))
        return first, len(self._rows)

    def of_obligation(self, conditions: Sequence[Condition]) -> tuple[int, int]:
        """Compile what an obligation asks of a change."""
        sources = {"factors": FACTORS, "confirmed": CONFIRMED, "auth_level": NEEDED}
        first = len(self._rows)
        for one in conditions:
            self._rows.append((sources[one.field], 0, *self._compared(one), 0, 0))
        return first, len(self._rows)

    def _source(self, field: str, workflow: Workflow) -> tuple[int, int]:
        """Where a field stands; what a policy names covers what a record or account does."""
        if field in self._parameters:
            return OF_POLICY, self._parameters.index(field)
        if workflow.kind and field in self._fields[workflow.kind]:
            return OF_RECORD, self._fields[workflow.kind].index(field)
        if field in self._fields[ACCOUNT]:
            return OF_ACCOUNT, self._fields[ACCOUNT].index(field)
        return (ALWAYS if field == "always" else NOWHERE), 0

    def _compared(self, one: Condition) -> tuple[int, int, int]:
        op = OPERATORS.index(one.op)
        if isinstance(one.operand, str):
            return op, 0, self._parameters.index(one.operand)
        return op, one.operand, -1

    def columns(self) -> dict[str, list[int]]:
        """The compiled conditions by name of their columns."""
        names = ("source", "column", "op", "number", "parameter", "by_detail", "hidden")
        rows = self._rows or [(ALWAYS, 0, EQUAL, 1, -1, 0, 0)]
        return {name: [row[at] for row in rows] for at, name in enumerate(names)}


def narrowed(tables: NDArray[np.void]) -> NDArray[np.void]:
    """The same tables in the narrowest whole numbers that hold them: less to fetch.  # (1,)"""
    assert tables.dtype.names is not None
    columns: dict[str, Any] = {}
    for name in tables.dtype.names:
        column = np.asarray(tables[name][0])
        if column.dtype.kind == "i":
            ends = {np.min_scalar_type(end) for end in (column.min(), column.max(), -1)}
            column = column.astype(np.result_type(np.int16, *ends))
        columns[name] = column
    return record(**columns)


def desk_tables(desk: ServiceDesk, more: Mapping[str, Any]) -> NDArray[np.void]:
    """All that the kernels of a desk look up, `more` among it.  # (1,)"""
    d = desk.declaration
    assert len(d.violations) <= MOST_BITS, "violations are bits of a whole number"
    assert len(desk.v.told) <= MOST_BITS, "facts and terms are bits of a whole number"
    fields = _weighed_fields(desk)
    conditions = Conditions(desk, fields)
    columns = {
        **_cells(desk),
        **_cells_of_kinds(desk),
        **_hearing(desk),
        **_workflows(desk),
        **_rules(desk, conditions),
        **_terms(desk, conditions),
        **_obligations(desk, conditions),
        **_world(desk, fields),
        **conditions.columns(),
        **more,
    }
    return narrowed(record(**columns))


# -- cells -----------------------------------------------------------------------------------------


def _cells(desk: ServiceDesk) -> dict[str, Any]:
    v, d = desk.v, desk.declaration
    kinds = [kind.name for kind in d.kinds]
    single = (
        "always", "requests", "tool_failed", "two_factors", "found", "verified", "authenticated",
        "failures", "wrote", "told_done", "first_said",
    )  # fmt: skip
    return {
        **{name: getattr(v, name) for name in single},
        "wants": v.wants,
        "handled": v.handled,
        "can_deny": filled(v.can_deny, 1),
        "denied": filled(v.denied, 1),
        "can_offer": filled(v.can_offer, 1),
        "offered": filled(v.offered, 1),
        "asked": v.asked,
        "rejected": [v.rejected[slot] for slot in range(2 + len(kinds))],
        "told_fact": filled([v.told_fact[fact] for fact in d.facts]),
        "told_term": filled([v.told_term[term] for term in d.terms]),
        "confirmed": filled(v.confirmed),
        "written": filled(v.written),
        "of_request": runs(v.of_request),
        "of_account": runs(v.of_account),
    }


def _cells_of_kinds(desk: ServiceDesk) -> dict[str, Any]:
    """By kind of record, and by pointer where there are several."""
    kinds = desk.declaration.kinds
    assert all(kind.each <= MOST_BITS for kind in kinds), "records are bits of a whole number"
    of = [desk.v.of[kind.name] for kind in kinds]
    one = ("listed", "read_any", "label_heard", "date_heard")
    several = ("seen", "read", "id_matches", "label_matches", "date_matches")
    return {
        "each": filled([kind.each for kind in kinds], 1),
        **{name: filled([getattr(cells, name) for cells in of], 1) for name in one},
        **{name: filled([getattr(cells, name) for cells in of]) for name in several},
    }


def _hearing(desk: ServiceDesk) -> dict[str, Any]:
    """By act of the user: the cells it raises, and which variant of which slot it states."""
    v = desk.v
    every = range(len(v.user_acts))
    variants = [v.variants.get(act, (-1, 0)) for act in every]
    return {
        "said": v.said,
        "raises": filled([v.raises.get(act, ()) for act in every]),
        "states": [slot for slot, _ in variants],
        "variant": [variant for _, variant in variants],
        "affirm": desk.vocabulary["affirm"],
        "request_act": [desk.vocabulary[f"request_{name}"] for name in desk.declaration.names],
    }


# -- workflows and rules ---------------------------------------------------------------------------


def _workflows(desk: ServiceDesk) -> dict[str, Any]:
    d, v = desk.declaration, desk.v
    kinds = [kind.name for kind in d.kinds]
    facts, terms = list(d.facts), list(d.terms)
    words = [[len(d.details[name]) for name in workflow.details] for workflow in d.workflows]
    return {
        "kind": [kinds.index(w.kind) if w.kind else -1 for w in d.workflows],
        "write_of": [v.writes.index(w.name) if w.tool else -1 for w in d.workflows],
        "workflow_of": filled([d.names.index(name) for name in v.writes], 1),
        "promised": filled(
            [d.names.index(name) if name in d.names else -1 for name in v.promises], 1
        ),
        "detailed": [len(w.details) for w in d.workflows],
        "detail_heard": [v.heard_detail[w.details[0]] if w.details else -1 for w in d.workflows],
        "words": [max([1, *counts]) for counts in words],
        "worded": [int(any(counts)) for counts in words],
        "factors": [w.factors for w in d.workflows],
        "n_facts": len(facts),
        "facts_of": [sum(1 << facts.index(fact) for fact in w.facts) for w in d.workflows],
        "fact_kind": filled([kinds.index(kind) if kind else -1 for kind in d.facts.values()], 1),
        "terms": filled([[terms.index(term) for term in w.terms] for w in d.workflows]),
        "n_terms": [len(w.terms) for w in d.workflows],
        "auth_level": list(d.parameters).index("auth_level"),
        "unverified": v.reason_number["unverified"],
        "n_denied": len(v.denied),
        "n_offered": len(v.offered),
        "knows": knowledge_starts(desk),
    }


def _rules(desk: ServiceDesk, conditions: Conditions) -> dict[str, Any]:
    """The rules that decide each workflow, those that are held out among them."""
    d, v = desk.declaration, desk.v
    of = [d.rules.deciding(workflow.name) for workflow in d.workflows]
    spans = [
        [conditions.of_rule(rule.when, workflow) for rule in rules]
        for workflow, rules in zip(d.workflows, of, strict=True)
    ]

    def by_rule(value: Any) -> NDArray[np.int64]:
        return filled([[value(rule) for rule in rules] for rules in of])

    return {
        "n_rules": [len(rules) for rules in of],
        "rule_from": filled([[span[0] for span in row] for row in spans]),
        "rule_to": filled([[span[1] for span in row] for row in spans]),
        "rule_held_out": by_rule(lambda rule: int(rule.held_out)),
        "rule_refuses": by_rule(lambda rule: int(rule.effect == REFUSE)),
        "rule_reason": by_rule(lambda rule: v.reason_number.get(rule.decision.reason, -1)),
        "rule_offer": by_rule(lambda rule: offer_number(desk, rule.alternative)),
        "findings": filled([v.findings[workflow.name] for workflow in d.workflows], 3),
        "due": filled([v.due[workflow.name] for workflow in d.workflows], 3),
    }


def _terms(desk: ServiceDesk, conditions: Conditions) -> dict[str, Any]:
    """The rules that give each term; `term_waits`: one of them asks for the workflow's detail."""
    d = desk.declaration
    owners = [next(w for w in d.workflows if term in w.terms) for term in d.terms]
    of = [d.rules.of_term(term) for term in d.terms]
    parameters = list(d.parameters)
    spans = [
        [conditions.of_rule(rule.when, workflow) for rule in rules]
        for workflow, rules in zip(owners, of, strict=True)
    ]

    def number(rule: Rule) -> int:
        return 0 if isinstance(rule.value, str) else rule.value

    def parameter(rule: Rule) -> int:
        return parameters.index(rule.value) if isinstance(rule.value, str) else -1

    asked = [{one.field for rule in rules for one in rule.when} for rules in of]
    return {
        "n_term_rules": filled([len(rules) for rules in of], 1),
        "term_from": filled([[span[0] for span in row] for row in spans]),
        "term_to": filled([[span[1] for span in row] for row in spans]),
        "term_held_out": filled([[int(rule.held_out) for rule in rules] for rules in of]),
        "term_number": filled([[number(rule) for rule in rules] for rules in of]),
        "term_parameter": filled([[parameter(rule) for rule in rules] for rules in of]),
        "term_waits": filled(
            [int(not one.isdisjoint(w.details)) for one, w in zip(asked, owners, strict=True)], 1
        ),
    }


def _obligations(desk: ServiceDesk, conditions: Conditions) -> dict[str, Any]:
    """What a change breaks, as bits of the violations."""
    rules = [r for r in desk.declaration.rules.rules if r.effect == "oblige" and r.on == "write"]
    when = [conditions.of_obligation(rule.when) for rule in rules]
    requires = [conditions.of_obligation(rule.requires) for rule in rules]
    bits = {code: 1 << at for at, code in enumerate(desk.violations)}
    return {
        "n_duties": len(rules),
        "duty_bit": filled([bits[rule.code] for rule in rules], 1),
        "duty_when": filled(when),
        "duty_requires": filled(requires),
        "disclosed": bits["disclosed_before_authentication"],
        "falsehood": bits["told_a_falsehood"],
        "not_asked": bits["wrote_what_was_not_asked"],
        "another": bits["told_of_another_record"],
    }


def offer_number(desk: ServiceDesk, alternative: str) -> int:
    """-1 without an alternative; where it is one that nobody can offer, as many as there are."""
    offers = desk.declaration.offers
    if not alternative:
        return -1
    return offers.index(alternative) if alternative in offers else len(offers)


# -- the world -------------------------------------------------------------------------------------


def _weighed_fields(desk: ServiceDesk) -> dict[str, list[str]]:
    """Fields of accounts and of each kind of record that some rule asks for."""
    asked = {one.field for rule in desk.declaration.rules.rules for one in rule.when}
    return {
        kind: [name for name in columns if name in asked]
        for kind, columns in desk.records.columns.items()
    }


def _world(desk: ServiceDesk, fields: dict[str, list[str]]) -> dict[str, Any]:
    """The rows of accounts, then those of each kind; `base` is where a kind's begin.

    Bit k of `alike` is set where the record is described as the account's k-th is.
    """
    records, kinds = desk.records, desk.declaration.kinds
    counts = [records.accounts, *(records.accounts * kind.each for kind in kinds)]
    base = np.cumsum([0, *counts])
    world = np.zeros((base[-1], max([1, *map(len, fields.values())])), dtype=np.int64)
    alike = np.zeros(base[-1], dtype=np.int64)
    for start, count, name in zip(base, counts, [ACCOUNT, *(k.name for k in kinds)], strict=False):
        for column, field in enumerate(fields[name]):
            world[start : start + count, column] = records.columns[name][field]
    for start, kind in zip(base[1:], kinds, strict=False):
        same = _alike(records, kind.name, kind.each)
        alike[start : start + len(same)] = same
    return {"world": world, "alike": alike, "base": filled(base[1:-1].tolist(), 1)}


@lru_cache(maxsize=32)
def _alike(records: Records, kind: str, each: int) -> NDArray[np.int64]:
    """Bits of an account's records of a kind that are described alike.  (accounts * each,)

    Every pair is compared, so once for all batches of a desk.
    """
    alike = np.zeros(records.accounts * each, dtype=np.int64)
    for row in range(len(alike)):
        first = row - row % each
        alike[row] |= 1 << row % each
        for other in range(first, row):
            if records.same_label(kind, row, other):
                alike[row] |= 1 << other - first
                alike[other] |= 1 << row - first
    alike.flags.writeable = False
    return alike


# -- what users know -------------------------------------------------------------------------------


def knowledge_starts(desk: ServiceDesk) -> list[int]:
    """Number of the first `Knowledge` of each workflow."""
    counts = [2 * len(KNOWLEDGES) * 2 * len(_details(desk, w)) for w in desk.declaration.workflows]
    return [0, *np.cumsum(counts).tolist()][:-1]


def _details(desk: ServiceDesk, workflow: Workflow) -> range:
    words = [len(desk.declaration.details[name]) for name in workflow.details]
    return range(max([1, *words]))


def all_knowledge(desk: ServiceDesk) -> list[Knowledge]:
    """All that a customer of this desk can know.

    In the order of workflow, impostor or not, sort of knowledge, alternative or none, detail.
    """
    d, known = desk.declaration, []
    for number, workflow in enumerate(d.workflows):
        for impostor in (False, True):
            for knowledge in range(len(KNOWLEDGES)):
                for alternative in ("", "there is one"):
                    for detail in _details(desk, workflow):
                        decision = Decision(REFUSE, "", alternative)
                        request = Request(number, 0, 0, knowledge, detail, decision, ())
                        known.append(_knowledge_of(desk, request, impostor))
    return known


def _knowledge_of(desk: ServiceDesk, request: Request, impostor: bool) -> Knowledge:
    """What the customer of a task with this request alone knows."""
    parameters = tuple(values[0] for values in desk.declaration.parameters.values())
    task = Task("", "train", 0, (request,), parameters, impostor, -1, 0, 0)
    episode = Episode(task, 0, 0, desk.layout.row())
    desk.open(episode, (0,) * len(TRAITS))
    knowledge: Knowledge = episode.user.knowledge
    return knowledge


def task_fields(desk: ServiceDesk) -> list[tuple[Any, ...]]:
    """Fields of a compiled task; those of its requests have an entry for each."""
    d = desk.declaration
    most_terms = max([1, *(len(workflow.terms) for workflow in d.workflows)])
    requests = ("workflow", "row", "pointer", "knowledge", "detail", "effect", "reason",
                "alternative", "knows")  # fmt: skip
    return [
        *((name, np.int32) for name in (
            "account", "impostor", "faulty", "faults", "oracle_length", "requests", "new_rules"
        )),
        *((name, np.int32, (MOST_REQUESTS,)) for name in requests),
        ("parameters", np.int64, (len(d.parameters),)),
        ("terms", np.int64, (MOST_REQUESTS, most_terms)),
    ]  # fmt: skip
