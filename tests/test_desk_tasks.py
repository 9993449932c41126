"""Tasks are right by construction: the rule that is meant decides, on records that bear it out."""

import itertools
import json
import math
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from desk_driven import DESK, RECORDS, D, V, facts_of, names_of

from convgym.desk.tasks import KNOWLEDGES, Fits, tenths
from convgym.engine.keys import TASK, below, draw
from convgym.engine.rules import ALLOW, REFUSE, TRANSFER, Decision
from convgym.engine.tasks import SPLITS

ROOT = Path(__file__).parents[1]
DRAWN = 1000
SAMPLE = {
    split: [DESK.task(split, number * (count // DRAWN)) for number in range(DRAWN)]
    for split, count in SPLITS.items()
}
UNVERIFIED = Decision(REFUSE, "unverified")
every_split = pytest.mark.parametrize("split", SPLITS)
every_workflow = pytest.mark.parametrize("workflow", D.workflows, ids=lambda w: w.name)


def spread(share, count=DRAWN):
    """Four deviations of a share of that many draws."""
    return 4 * math.sqrt(share * (1 - share) / count)


# -- what decides ----------------------------------------------------------------------------------


@every_split
def test_the_rules_decide_every_request_as_the_task_says(split):
    """One set of parameters serves all of a task's requests, so no two contradict each other."""
    rules = D.rules_for(split)
    for task in SAMPLE[split]:
        parameters = DESK.parameters(task)
        if task.impostor:
            assert [request.decision for request in task.requests] == [UNVERIFIED]
            assert parameters["auth_level"] == 2
            continue
        for name, request in zip(names_of(task), task.requests, strict=True):
            assert rules.decide(name, facts_of(task, request), parameters) == request.decision


def possible(split):
    """What may become of a request in a split, by workflow."""
    can = {workflow.name: {(ALLOW, "")} for workflow in D.workflows_for(split)}
    for rule in D.rules_for(split).rules:
        if rule.decides and rule.on in can:
            can[rule.on].add((rule.effect, rule.decision.reason))
    return can


@every_split
def test_everything_possible_happens_to_first_requests_and_nothing_else_to_any(split):
    first, later, can = {}, {}, possible(split)
    for task in SAMPLE[split]:
        for place, (name, request) in enumerate(zip(names_of(task), task.requests, strict=True)):
            if not task.impostor:
                met = later if place else first
                what = (request.decision.effect, request.decision.reason)
                met.setdefault(name, Counter())[what] += 1
    for name, met in first.items():
        handed_over = {one for one in can[name] if one[0] == TRANSFER}
        apart = handed_over if split == "test_compositional" else set()
        assert set(met) == can[name] - apart
    assert len(first) >= {"test_primitive": 2, "test_policy": 3}.get(split, 7)
    for name, met in later.items():
        assert set(met) <= can[name]


@every_workflow
@pytest.mark.parametrize("split", ["train", "test_policy"])
def test_on_arrays_as_one_by_one(workflow, split):
    """What all records under all policies come to at once, against `decide` on numbers."""
    fits, rules = Fits(D, RECORDS, workflow, split), D.rules_for(split)
    deciding = rules.deciding(workflow.name)
    rows, ways = fits.decided.shape
    assert rows == RECORDS.accounts * DESK._tasks.each(workflow)
    every = {name: 0 for name in D.parameters}
    seen = Counter()
    for number in range(400):
        row, way = (below(draw(number, TASK, 1, at), n) for at, n in ((0, rows), (1, ways)))
        facts = {"always": 1}
        for field, column in RECORDS.columns[""].items():
            facts[field] = int(column[row // fits.each])
        for field, column in RECORDS.columns[workflow.kind].items() if workflow.kind else ():
            facts[field] = int(column[row])
        named = dict(zip((*fits.parameters, *fits.details), fits.values[way], strict=True))
        decided = rules.decide(workflow.name, facts | named, every | named)
        outcome = int(fits.decided[row, way])
        assert decided == (deciding[outcome].decision if outcome >= 0 else Decision(ALLOW))
        seen[outcome] += 1
    assert len(seen) == 1 + len(deciding), "every outcome was compared"


def test_no_parameter_decides_two_workflows():
    owners = {}
    for rule in D.rules.rules:
        for one in rule.when if rule.decides and rule.on in D.names else ():
            if isinstance(one.operand, str):
                owners.setdefault(one.operand, set()).add(rule.on)
    assert owners and all(len(workflows) == 1 for workflows in owners.values())


@every_split
def test_terms_are_those_of_the_rules(split):
    for task in SAMPLE[split]:
        parameters = DESK.parameters(task)
        assert all(parameters[name] in values for name, values in D.parameters.items())
        for name, request in zip(names_of(task), task.requests, strict=True):
            terms = D.workflow[name].terms
            if request.decision.effect == ALLOW:
                facts = facts_of(task, request) | parameters  # a rule may ask for either
                right = tuple(D.rules.term(term, facts, parameters) for term in terms)
                assert request.terms == right


# -- what a task is made of ------------------------------------------------------------------------


@every_split
def test_requests_are_of_one_account_and_of_different_sorts(split):
    for task in SAMPLE[split]:
        names = names_of(task)
        assert len(set(names)) == len(names)
        for name, request in zip(names, task.requests, strict=True):
            kind = D.workflow[name].kind
            each = D.kind[kind].each if kind else 1
            assert request.row // each == task.account
            assert request.pointer == (request.row % each if kind else -1)
            assert request.knowledge in range(len(KNOWLEDGES))


@every_split
def test_who_is_handed_over_wants_nothing_after_it(split):
    seen = Counter()
    for task in SAMPLE[split]:
        for request in task.requests[:-1]:
            assert request.decision.effect != TRANSFER
        seen[task.requests[-1].decision.effect == TRANSFER, len(task.requests) > 1] += 1
        assert not task.impostor or len(task.requests) == 1
    assert seen[True, False] + seen[True, True] > 0 or split == "test_compositional"


@every_split
def test_one_to_three_requests(split):
    counted = Counter(len(task.requests) for task in SAMPLE[split])
    assert set(counted) == ({2, 3} if split == "test_compositional" else {1, 2, 3})
    assert counted[3] / DRAWN == pytest.approx(0.3 if len(counted) == 2 else 0.145, abs=0.05)


@every_split
def test_tools_fail_in_a_sixth_of_the_tasks(split):
    faulty = [task for task in SAMPLE[split] if task.faults]
    assert abs(len(faulty) / DRAWN - 0.15) < spread(0.15)
    assert {task.faults for task in faulty} == {1, 2}
    tools = DESK._tasks.tools
    assert {tools[task.faulty] for task in faulty} == set(tools) == set(DESK.schemas) - {
        "transfer_to_human",
        "end_conversation",
    }
    assert all(task.faulty == -1 for task in SAMPLE[split] if not task.faults)


def test_every_word_of_every_detail_is_said():
    said = {name: Counter() for name in D.details}
    for task in itertools.chain.from_iterable(SAMPLE.values()):
        for name, request in zip(names_of(task), task.requests, strict=True):
            for detail in D.workflow[name].details:
                said[detail][request.detail] += 1
    for name, words in D.details.items():
        assert set(said[name]) == (set(range(len(words))) if words else {1})


@every_split
def test_first_requests_come_as_often_as_they_should(split):
    """By their weights; 73 in 100 granted where a rule can refuse, the rest spread evenly."""
    counted, sure = Counter(), Counter()
    for task in SAMPLE[split]:
        first = D.workflows[task.requests[0].workflow]
        counted[first.name] += 1
        if not task.impostor:
            sure[first.name, task.requests[0].decision.effect == ALLOW] += 1
    begin = {name: D.workflow[name].weight for name in counted}
    for name, weight in begin.items():
        share = weight / sum(begin.values())
        assert abs(counted[name] / DRAWN - share) < spread(share)
        of_it = sure[name, True] + sure[name, False]
        can = {effect for effect, _ in possible(split)[name]}
        can -= {TRANSFER} if split == "test_compositional" else set()
        granted = 1.0 if can == {ALLOW} else 0.45 if split == "test_policy" else 0.73
        assert abs(sure[name, True] / of_it - granted) < spread(granted, of_it) + 1e-9


@every_split
def test_at_most_a_quarter_are_refusals(split):
    """But for `test_policy`, whose new rules are refusals: there it is less than a half."""
    refused = [r.decision.effect == REFUSE for task in SAMPLE[split] for r in task.requests]
    assert sum(refused) / len(refused) <= (0.5 if split == "test_policy" else 0.25)
    reasons = Counter(
        r.decision.reason for task in SAMPLE[split] for r in task.requests if r.decision.reason
    )
    assert max(reasons.values()) < 0.12 * len(refused), "no one reason is right for many"


@every_split
def test_tasks_hardly_repeat(split):
    tasks = SAMPLE[split]
    signatures = {DESK.signature(task) for task in tasks}
    assert len(signatures) > 0.95 * len(tasks)
    bodies = {(task.account, task.impostor, task.requests, task.parameters) for task in tasks}
    assert len(bodies) == len(tasks)


# -- the table -------------------------------------------------------------------------------------

EFFECT = {ALLOW: 0, TRANSFER: 1, REFUSE: 3}
KNOWING = {"number": 0, "item": 1, "looks up": 1, "vague": 2, "mistaken": 2}


@every_split
def test_the_table_says_what_the_drawn_tasks_are(split):
    """Topic and hardness of the first request, counted from the task itself."""
    table = DESK.table(split)
    assert table.topic.shape == table.hardness.shape == (SPLITS[split],)
    for task in SAMPLE[split]:
        number, first = int(task.task_id.rpartition("-")[2]), task.requests[0]
        assert table.topic[number] == first.workflow
        points = EFFECT[first.decision.effect] + KNOWING[KNOWLEDGES[first.knowledge]]
        points += 3 * (len(task.requests) - 1) + bool(task.faults)
        assert table.hardness[number] == points


def test_an_impostor_is_refused_and_counts_as_hard():
    found = [task for tasks in SAMPLE.values() for task in tasks if task.impostor]
    assert len(found) > 60
    for task in found:
        number = int(task.task_id.rpartition("-")[2])
        assert DESK.table(task.split).hardness[number] >= EFFECT[REFUSE]


# -- records ---------------------------------------------------------------------------------------


def test_a_tenth_of_the_accounts_is_a_tenth():
    counted = Counter(tenths(RECORDS.accounts).tolist())
    assert set(counted) == set(range(10))
    share = RECORDS.accounts / 10
    assert all(abs(count - share) < 4 * math.sqrt(0.9 * share) for count in counted.values())


@every_split
def test_the_twins_of_a_task_differ_in_their_date(split):
    twins = 0
    for task in SAMPLE[split]:
        for request in task.requests:
            kind = D.workflows[request.workflow].kind
            if not kind:
                continue
            first = request.row - request.pointer
            each = range(first, first + D.kind[kind].each)
            dates = [RECORDS.text(kind, row, D.kind[kind].date) for row in each]
            assert len(set(dates)) == len(dates)
            label = RECORDS.text(kind, request.row, D.kind[kind].label)
            alike = [row for row in each if RECORDS.text(kind, row, D.kind[kind].label) == label]
            assert alike == [row for row in each if RECORDS.same_label(kind, request.row, row)]
            twins += len(alike) > 1
    assert twins > 50


# -- another process -------------------------------------------------------------------------------

_PRINT = """
import hashlib, json
from convgym.domains.catalogue import domain_called
desk = domain_called("customer-service")
found = {}
for split in desk.splits:
    tasks = repr([desk.task(split, number) for number in range(3, 1999, 40)])
    table = desk.table(split)
    whole = tasks.encode() + table.topic.tobytes() + table.hardness.tobytes()
    found[split] = hashlib.sha256(whole).hexdigest()
print(json.dumps(found))
"""


def test_a_task_is_rebuilt_from_its_name_in_any_process():
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    printed = [
        subprocess.run(
            [sys.executable, "-c", _PRINT],
            env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1")
    ]
    scope = {}
    exec(_PRINT.replace("print(json.dumps(found))", ""), scope)
    assert json.loads(printed[0]) == json.loads(printed[1]) == scope["found"]
    assert len(set(scope["found"].values())) == len(SPLITS)


def test_the_same_task_without_the_memory_of_it():
    for split in SPLITS:
        for number in (0, 7, SPLITS[split] - 1):
            assert DESK._tasks._draw(split, number) == DESK.task(split, number)
    assert V.declaration is D
