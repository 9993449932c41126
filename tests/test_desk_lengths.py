"""The oracle's length: exact for a customer who answers and no more, a bound for anybody else."""

from collections import Counter

import pytest
from desk_driven import DESK, PLAIN, RECORDS, SILENT, D, Talk, names_of, task_like, user

from convgym.desk.tasks import KNOWLEDGES
from convgym.engine.rules import ALLOW, REFUSE, TRANSFER
from convgym.engine.tasks import SPLITS
from convgym.users.persona import Persona

every_split = pytest.mark.parametrize("split", SPLITS)
NAMED = ("item", "vague", "mistaken")
"""Customers who come to describe the record instead of giving its number."""


def some(split, count):
    """The first tasks of a split in which no tool fails."""
    number = found = 0
    while found < count:
        task = DESK.task(split, number)
        number += 1
        if not task.faults:
            found += 1
            yield number, task


def has_twin(request):
    """Whether another record of the account would be described alike."""
    kind = D.workflows[request.workflow].kind
    if not kind:
        return False
    first, label = request.row - request.pointer, D.kind[kind].label
    labels = [RECORDS.text(kind, first + k, label) for k in range(D.kind[kind].each)]
    return labels.count(RECORDS.text(kind, request.row, label)) > 1


@every_split
def test_it_is_exact_for_a_customer_who_answers_what_is_asked_and_no_more(split):
    """Who forgets nothing, offers and asks nothing, disputes nothing, and goes on at once."""
    customer, met = user(**PLAIN), Counter()
    for number, task in some(split, 800):
        talk = Talk(task, number, customer, Persona().levels).served()
        assert (talk.episode.turn, talk.grade.success) == (task.oracle_length, True), task
        for request in task.requests:
            named = KNOWLEDGES[request.knowledge] in NAMED
            met[request.decision.effect] += 1
            met[KNOWLEDGES[request.knowledge]] += 1
            met["twin, described" if named else "numbered"] += has_twin(request)
        met[len(task.requests)] += 1
        met["impostor"] += task.impostor
    want = {ALLOW, REFUSE, TRANSFER, *KNOWLEDGES, 1, 2, 3, "twin, described", "impostor"}
    want -= {1, TRANSFER, "impostor"} if split == "test_compositional" else set()
    want -= {"impostor"} if split in ("test_primitive", "test_policy") else set()
    assert all(met[what] >= 3 for what in want), met


@every_split
def test_slips_and_disputes_only_ever_take_longer(split):
    """A lower bound as long as nothing is volunteered, whatever else the customer does."""
    customer = user(**SILENT)
    for number, task in some(split, 300):
        talk = Talk(task, number, customer).served()
        assert talk.grade.success
        assert talk.episode.turn >= task.oracle_length


@every_split
def test_what_is_volunteered_saves_one_question_each(split):
    """With the customer as it is: shorter by the key and one number a request, at most."""
    customer, shorter = user(), 0
    for number, task in some(split, 300):
        talk = Talk(task, number, customer).served()
        assert talk.grade.success
        assert talk.episode.turn >= task.oracle_length - 1 - len(task.requests)
        shorter += talk.episode.turn < task.oracle_length
    assert shorter > 15


@every_split
def test_a_tool_that_fails_costs_its_failures_and_nothing_else(split):
    """Where the oracle needs the tool: exactly as many turns more as it fails."""
    customer, needed = user(**PLAIN), 0
    for number in range(2000):
        task = DESK.task(split, number)
        if task.faults:
            talk = Talk(task, number, customer, Persona().levels).served()
            failed = sum(entry.event == "tool_failed" for entry in talk.episode.ledger)
            assert talk.grade.success and talk.episode.errors == 0
            assert talk.episode.turn == task.oracle_length + failed
            assert failed in (0, task.faults)
            needed += failed > 0
    assert needed > 50


# -- worked by hand --------------------------------------------------------------------------------


def known(task, *knowledges):
    return [KNOWLEDGES[request.knowledge] for request in task.requests] == [*knowledges]


def plain_status(task, knowledge, twin):
    return (
        names_of(task) == ["status"]
        and known(task, knowledge)
        and not task.impostor
        and not task.faults
        and DESK.parameters(task)["auth_level"] == 1
        and has_twin(task.requests[0]) == twin
    )


@pytest.mark.parametrize(
    ("knowledge", "twin", "acts"),
    [
        ("number", False, "ask_order get_stated_order"),
        ("number", True, "ask_order get_stated_order"),
        ("item", False, "ask_order list_orders get_order"),
        ("item", True, "ask_order list_orders ask_order get_order"),
        ("looks up", False, "ask_order ask_order get_stated_order"),
        ("vague", False, "ask_order ask_order list_orders get_order"),
        ("mistaken", False, "ask_order get_stated_order ask_order list_orders get_order"),
        ("mistaken", True, "ask_order get_stated_order ask_order list_orders ask_order get_order"),
    ],
)
def test_where_an_order_is_asked_for_with_one_factor(knowledge, twin, acts):
    task = task_like(lambda task: plain_status(task, knowledge, twin), "train", 20_000)
    acts = ["ask_email", "find_customer", *acts.split(), "inform_status", "inform_eta"]
    assert task.oracle_length == len(acts)
    talk = Talk(task, 1, user(**PLAIN), Persona().levels)
    done = []
    while not talk.episode.end:
        done.append(talk.wanted())
        talk.act(done[-1])
    pointer = f"_{task.requests[0].pointer}"
    assert [name.removesuffix(pointer) for name in done] == acts


def test_what_the_first_request_left_in_view_is_not_fetched_again():
    """Two requests on one order, known by its item both times: asked again, and no more."""
    task = task_like(
        lambda task: len(task.requests) == 2
        and known(task, "item", "item")
        and task.requests[0].row == task.requests[1].row
        and names_of(task)[0] == "status"
        and [D.workflow[name].kind for name in names_of(task)] == ["order", "order"]
        and not task.faults
        and not has_twin(task.requests[0]),
        "train",
        40_000,
    )
    talk = Talk(task, 1, user(**PLAIN), Persona().levels).at_request(1)
    assert talk.wanted() == "ask_order"
    talk.act("ask_order")
    assert talk.said == ["inform_item"]
    assert not talk.wanted().startswith(("list", "get"))


def test_a_detail_is_asked_before_a_refusal_that_depends_on_it_alone():
    """A defect decides whether it is under warranty; a reason decides no return."""
    for name, asked in (("warranty", "ask_defect"), ("return", "ask_reason")):
        split = "test_primitive" if name == "warranty" else "train"
        task = task_like(
            lambda task, name=name: names_of(task) == [name]
            and task.requests[0].decision.effect == REFUSE
            and not (task.impostor or task.faults),
            split,
        )
        talk = Talk(task, 1, user(**PLAIN), Persona().levels)
        done = []
        while not talk.episode.end:
            done.append(talk.wanted())
            talk.act(done[-1])
        assert (asked in done) == (name == "warranty")
        assert len(done) == task.oracle_length
