"""Splits, names and documents of tasks: what is kept apart, and nothing for free."""

import itertools
from collections import Counter

import numpy as np
import pytest
from desk_driven import DESK, RECORDS, D, Talk, facts_of, names_of, outcome

from convgym.desk.tasks import KNOWS_ID, LOOKS_UP
from convgym.domains.customer_service.world import CUSTOMERS, DELIVERED
from convgym.engine.rules import REFUSE
from convgym.engine.tasks import SPLITS, parse_task_id
from convgym.errors import InvalidConfiguration
from convgym.users.agenda import AgendaUser

DRAWN = 1000
SAMPLE = {
    split: [DESK.task(split, number * (count // DRAWN)) for number in range(DRAWN)]
    for split, count in SPLITS.items()
}
every_split = pytest.mark.parametrize("split", SPLITS)
FAMILIAR = ("train", "validation", "test", "test_persona", "test_lexical")
"""Splits that ask for nothing that training does not ask for."""
NEW_WORKFLOWS = {"warranty", "billing"}
NEW_RULES = {"too_many_returns", "not_served", "prepaid"}
PAIRS = DESK._tasks.held_out_pairs


def pairs_of(task):
    """Every two things that a task asks for, in their order."""
    return set(itertools.combinations(names_of(task), 2))


# -- splits ----------------------------------------------------------------------------------------


def test_what_is_held_out_is_what_is_declared():
    assert {workflow.name for workflow in D.workflows if workflow.held_out} == NEW_WORKFLOWS
    assert {rule.code for rule in D.rules.rules if rule.held_out} == NEW_RULES
    assert DESK.splits == tuple(SPLITS)
    assert {frozenset(pair) for pair in PAIRS} == {frozenset(pair[::-1]) for pair in PAIRS}
    singly = set(D.names) - NEW_WORKFLOWS
    apart = {frozenset(pair) for pair in PAIRS}
    assert len(apart) == len(singly) * (len(singly) - 1) // 2 // 3
    assert {name for pair in PAIRS for name in pair} <= singly


def test_training_validation_and_tests_share_no_customer():
    met = {split: {task.account for task in sample} for split, sample in SAMPLE.items()}
    tests = set().union(*(met[split] for split in SPLITS if split.startswith("test")))
    for one, other in itertools.combinations((met["train"], met["validation"], tests), 2):
        assert not one & other
    assert len(met["train"]) > 700 and len(met["validation"]) > 500 and len(tests) > 1000


def test_the_customers_of_a_split_are_kept_apart_by_construction():
    """Not only those that were drawn: all that can be."""
    pools = {}
    for split in SPLITS:
        plan = DESK._tasks.plan(split)
        found = set()
        for workflow in plan.workflows:
            fits = DESK._tasks.fits(workflow, split)
            for out in plan.outcomes[D.names.index(workflow.name)][1]:
                found |= {int(row) // fits.each for row in fits.rows(out, *plan.accounts)}
        pools[split] = found
    tests = set().union(*(pools[split] for split in SPLITS if split.startswith("test")))
    assert not pools["train"] & pools["validation"]
    assert not tests & (pools["train"] | pools["validation"])
    assert len(tests | pools["train"] | pools["validation"]) <= CUSTOMERS == RECORDS.accounts


@every_split
def test_no_task_of_one_split_is_one_of_another(split):
    def bodies(name):
        return {(t.account, t.impostor, t.requests, t.parameters) for t in SAMPLE[name]}

    for other in SPLITS:
        assert other == split or not bodies(split) & bodies(other)


@pytest.mark.parametrize("split", FAMILIAR)
def test_nothing_held_out_is_met_where_it_should_not_be(split):
    for task in SAMPLE[split]:
        assert not set(names_of(task)) & NEW_WORKFLOWS
        assert not pairs_of(task) & PAIRS
        assert not {request.decision.reason for request in task.requests} & NEW_RULES


def test_all_of_training_meets_nothing_held_out():
    """Every task of the split, from the table; and the pairs of every fifth."""
    held_out = [D.names.index(name) for name in NEW_WORKFLOWS]
    for split in FAMILIAR:
        assert not np.isin(DESK.table(split).topic, held_out).any()
    met = Counter()
    for number in range(2, SPLITS["train"], 5):
        task = DESK._tasks._draw("train", number)
        met.update(frozenset(pair) for pair in itertools.combinations(names_of(task), 2))
    assert not set(met) & {frozenset(pair) for pair in PAIRS}
    common = set(D.names) - NEW_WORKFLOWS
    everything = {frozenset(pair) for pair in itertools.combinations(common, 2)}
    assert set(met) == everything - {frozenset(pair) for pair in PAIRS}, "and all others"


def test_every_task_of_test_primitive_asks_for_a_new_workflow_and_nothing_else_new():
    for task in SAMPLE["test_primitive"]:
        assert names_of(task)[0] in NEW_WORKFLOWS
        assert not pairs_of(task) & PAIRS
        assert not {request.decision.reason for request in task.requests} & NEW_RULES


def test_every_task_of_test_compositional_asks_for_a_new_pair_of_old_things():
    met = set()
    for task in SAMPLE["test_compositional"]:
        assert pairs_of(task) & PAIRS
        assert not set(names_of(task)) & NEW_WORKFLOWS
        assert not {request.decision.reason for request in task.requests} & NEW_RULES
        met |= {frozenset(pair) for pair in pairs_of(task) & PAIRS}
    assert met == {frozenset(pair) for pair in PAIRS}, "every held-out pair"


def test_every_task_of_test_policy_is_under_a_new_rule():
    """It stands in the document, and first requests are for what it is about."""
    decided = Counter()
    for task in SAMPLE["test_policy"]:
        rules = D.rules_for("test_policy").deciding(names_of(task)[0])
        assert {rule.code for rule in rules} & NEW_RULES
        assert not set(names_of(task)) & NEW_WORKFLOWS
        assert not pairs_of(task) & PAIRS
        decided[task.requests[0].decision.reason] += 1
    new = sum(decided[code] for code in NEW_RULES)
    assert 0.3 < new / DRAWN < 0.5 and all(decided[code] > 50 for code in NEW_RULES)


# -- names -----------------------------------------------------------------------------------------


@every_split
def test_a_task_is_rebuilt_from_its_name(split):
    for task in SAMPLE[split][::20]:
        name, number = parse_task_id(task.task_id)
        assert (name, task.split) == (split, split)
        assert DESK._tasks._draw(name, number) == task


@pytest.mark.parametrize(
    "task_id", ["", "-", "test", "test-", "-3", "test--3", "test-2000", "test-1.0", "tests-1",
                "test-٣", "test-1 ", None, 4, ("test", 1)], ids=repr,
)  # fmt: skip
def test_what_is_no_task_is_refused_by_name(task_id):
    with pytest.raises(InvalidConfiguration) as refused:
        parse_task_id(task_id)
    assert repr(task_id) in str(refused.value)


# -- the shop --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["", *(kind.name for kind in D.kinds)])
def test_what_memory_gets_wrong_belongs_to_nobody(kind):
    each = D.kind[kind].each if kind else 1
    rows, field = range(CUSTOMERS * each), kind or D.account.key
    right = {RECORDS.text(kind, row, field) for row in rows}
    wrong = {RECORDS.wrong(kind, row, field) for row in rows}
    assert len(right) == len(rows) and not right & wrong
    assert all(RECORDS.find(kind, RECORDS.text(kind, row, field)) == row for row in rows)
    assert all(RECORDS.find(kind, one) == -1 for one in wrong)
    if not kind:
        for row in rows:
            secret = RECORDS.wrong("", row, D.account.secret)
            assert secret != RECORDS.text("", row, D.account.secret) and len(secret) == 5


def test_a_record_can_always_be_told_from_its_owners_others_by_its_date():
    """No two of a kind were made on one day; orders and charges come newest first."""
    for kind, field in (("order", "placed"), ("subscription", "started"), ("charge", "days")):
        ago = RECORDS.columns[kind][field].reshape(-1, D.kind[kind].each)
        ordered = np.diff(np.sort(ago, axis=1), axis=1)
        assert (ordered > 0).all() and ago.min() > 0
        assert ago.max() < 365, "a date without a year is one day"
        if kind != "subscription":
            assert (np.diff(ago, axis=1) > 0).all()
    orders = RECORDS.columns["order"]
    assert (orders["days"] < orders["placed"]).all()
    assert ((orders["days"] >= 0) == (orders["stage"] == DELIVERED)).all()
    assert (orders["received"] <= orders["days"]).all(), "nothing comes back before it came"
    assert (orders["wanted"] != orders["variant"]).all(), "nobody wants what they have"


# -- nothing for free ------------------------------------------------------------------------------


@every_split
def test_the_goal_does_not_hold_at_the_start(split):
    user = AgendaUser(DESK.vocabulary)
    for number, task in enumerate(SAMPLE[split]):
        graded = Talk(task, number, user).grade
        assert not graded.success
        assert graded.graded == graded.progress == 0.0


# -- the document ----------------------------------------------------------------------------------


@every_split
def test_a_document_is_its_parameters_and_nothing_else(split):
    by_document = {}
    shown = [name for name in D.parameters if shows(split, name)]
    for task in SAMPLE[split]:
        document = DESK.policy_document(task)
        values = DESK.parameters(task)
        seen = tuple(values[name] for name in shown)
        assert by_document.setdefault(document, seen) == seen
        assert RECORDS.text("", task.account, "email") not in document
        for request in task.requests:
            kind = D.workflows[request.workflow].kind
            assert not kind or RECORDS.text(kind, request.row, kind) not in document
    assert len(set(by_document.values())) == len(by_document) > 900


def shows(split, parameter):
    """Whether a split's policy names a parameter."""
    texts = "".join(rule.text for rule in rules_in(split))
    return f"{{{parameter}}}" in texts


def rules_in(split):
    """The rules that a split's document has to hold."""
    workflows = D.workflows_for(split)
    terms = {term for workflow in workflows for term in workflow.terms}
    on = {"disclose", "write", "tell", "unverified", *(w.name for w in workflows), *terms}
    return [rule for rule in D.rules_for(split).rules if rule.on in on]


def written(rule, task):
    """A rule's sentence as this task's document would say it."""
    named = DESK.parameters(task)
    words = {name: D.wordings[name][D.parameters[name].index(named[name])] for name in named}
    return rule.text.format_map(words)


@every_split
def test_the_document_holds_what_holds_in_the_split_and_no_word_of_the_rest(split):
    there = {rule.code for rule in rules_in(split)}
    for task in SAMPLE[split][:200]:
        lines = [line.removeprefix("- ") for line in DESK.policy_document(task).splitlines()]
        for rule in D.rules.rules:
            if rule.text:
                assert (written(rule, task) in lines) == (rule.code in there), rule.code
        reasons = {r.decision.reason for r in D.refusals if r.code in there}
        for reason in set(D.reasons) - reasons:
            assert not any(reason in line for line in lines), reason
    if split != "test_primitive":
        document = "\n".join(lines).lower()
        for word in ("warranty", "dispute", "charge can", "credited", "claim"):
            assert word not in document, f"{split} tells of what only test_primitive asks for"


# -- what the customer knows -----------------------------------------------------------------------


@every_split
def test_a_customer_can_say_what_the_task_needs(split):
    """Every slot that is asked for has a ladder, no other has; an impostor's secret is wrong."""
    for task in SAMPLE[split]:
        for name, request in zip(names_of(task), task.requests, strict=True):
            workflow, known = D.workflow[name], DESK._knowledge(task, request)
            ladders = dict(zip(D.slots, known.ladders, strict=True))
            needed = {"email", "postcode", *workflow.details} | ({workflow.kind} - {""})
            assert {slot for slot, ladder in ladders.items() if ladder} == needed
            wrong = DESK.vocabulary["inform_postcode_wrong"]
            assert (ladders["postcode"] == (wrong,)) == task.impostor
            assert known.alternative == bool(request.decision.alternative)
            assert known.must_look_up == (request.knowledge == LOOKS_UP)
            assert workflow.kind or request.knowledge == KNOWS_ID


def test_refusals_have_the_offers_of_their_rules():
    offers = {
        "not_cancellable": "return_later", "outside_window": "store_credit",
        "already_shipped": "pickup", "out_of_stock": "waitlist",
        "no_return_received": "new_label", "minimum_term": "pause", "not_covered": "paid_repair",
        "out_of_warranty": "paid_repair", "charge_valid": "send_invoice",
        "too_many_returns": "store_credit", "not_served": "pickup", "prepaid": "pause",
    }  # fmt: skip
    for task in itertools.chain.from_iterable(SAMPLE.values()):
        for request in task.requests:
            effect, reason, offer = outcome(request)
            assert offer == (offers.get(reason, "") if effect == REFUSE else "")
    assert facts_of(task, task.requests[0])["always"] == 1
