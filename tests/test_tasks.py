"""Tasks are right by construction: branch, decision, splits, lengths, and nothing for free."""

import itertools
from collections import Counter
from dataclasses import asdict

import numpy as np
import pytest

from convgym.domains.customer_service import rules, tasks
from convgym.domains.customer_service.desk import CustomerServiceDesk, knowledge
from convgym.domains.customer_service.rules import parameter_dict
from convgym.domains.customer_service.tasks import draw_task
from convgym.domains.customer_service.vocabulary import ACTIONS, U
from convgym.domains.customer_service.world import CUSTOMERS, ORDERS_EACH, world
from convgym.engine.engine import Engine
from convgym.engine.episode import Episode
from convgym.engine.rules import ALLOW, REFUSE, TRANSFER, Decision
from convgym.engine.tasks import SPLITS, parse_task_id
from convgym.errors import InvalidConfiguration
from convgym.policies.scripted import OraclePolicy
from convgym.users import decisions
from convgym.users.agenda import AgendaUser
from convgym.users.decisions import DecisionModel
from convgym.users.persona import Persona, draw_levels

SHOP = world()
DESK = CustomerServiceDesk()
SCALE = np.array([DESK.scales.get(name, 1.0) for name in DESK.layout], dtype=np.float32)
SAMPLE = {
    split: [draw_task(split, number * (count // 2000)) for number in range(2000)]
    for split, count in SPLITS.items()
}
every_split = pytest.mark.parametrize("split", SPLITS)

INTENDED = {
    tasks.TELL_STATUS: ("status", ALLOW, "", ""),
    tasks.CANCEL_OK: ("cancel", ALLOW, "", ""),
    tasks.CANCEL_LATE: ("cancel", REFUSE, "not_cancellable", "return_later"),
    tasks.RETURN_OK: ("return", ALLOW, "", ""),
    tasks.RETURN_OLD: ("return", REFUSE, "outside_window", "store_credit"),
    tasks.RETURN_FINAL: ("return", REFUSE, "final_sale", ""),
    tasks.RETURN_EARLY: ("return", REFUSE, "not_delivered", ""),
    tasks.RETURN_LARGE: ("return", TRANSFER, "transfer_large", ""),
    tasks.ADDRESS_OK: ("address", ALLOW, "", ""),
    tasks.ADDRESS_LATE: ("address", REFUSE, "already_shipped", "pickup"),
}


@every_split
def test_the_rules_decide_what_the_branch_intends(split):
    for task in SAMPLE[split]:
        if task.branch == tasks.IMPOSTOR:
            assert task.decision == Decision(REFUSE, "unverified")
            assert parameter_dict(task.parameters)["auth_level"] == 2
            continue
        workflow, *outcome = INTENDED[task.branch]
        facts = rules.order_facts(SHOP, task.order, task.reason)
        decided = rules.decide(task.workflow, facts, parameter_dict(task.parameters))
        assert rules.WORKFLOWS[task.workflow] == workflow
        assert task.decision == decided == Decision(*outcome)


@every_split
def test_parameters_and_terms_are_those_of_the_rules(split):
    for task in SAMPLE[split]:
        parameters = parameter_dict(task.parameters)
        facts = rules.order_facts(SHOP, task.order, task.reason)
        assert all(parameters[name] in values for name, values in rules.PARAMETERS.items())
        assert task.fee == rules.RULES.term("fee", facts, parameters)
        assert task.channel == rules.RULES.term("channel", facts, parameters)
        assert task.order == task.customer * ORDERS_EACH + task.pointer


@every_split
def test_every_branch_comes_as_often_as_it_should(split):
    counted = Counter(task.branch for task in SAMPLE[split])
    assert sum(tasks.WEIGHTS) == 100
    for branch, weight in enumerate(tasks.WEIGHTS):
        share = weight / 100
        deviation = np.sqrt(share * (1 - share) / 2000)
        assert abs(counted[branch] / 2000 - share) < 4 * deviation
    assert len({task.workflow for task in SAMPLE[split] if task.branch == tasks.IMPOSTOR}) == 4


@every_split
def test_at_most_a_quarter_are_refusals(split):
    refused = [task.decision.effect == REFUSE for task in SAMPLE[split]]
    assert sum(refused) <= 0.25 * len(refused)
    reasons = Counter(task.decision.reason for task in SAMPLE[split] if task.decision.reason)
    assert set(reasons) == {*rules.DENIALS, "transfer_large"}


def test_splits_share_no_customer_and_no_task():
    customers = {
        split: {order // ORDERS_EACH for pool in tasks._pools(split).values() for order in pool}
        for split in SPLITS
    }
    for one, other in itertools.combinations(SPLITS, 2):
        assert not customers[one] & customers[other]
    assert sum(map(len, customers.values())) == CUSTOMERS
    for split, sample in SAMPLE.items():
        assert {task.customer for task in sample} <= customers[split]
    bodies = {
        split: {
            tuple(v for k, v in asdict(task).items() if k not in ("task_id", "split", "decision"))
            for task in sample
        }
        for split, sample in SAMPLE.items()
    }
    for one, other in itertools.combinations(SPLITS, 2):
        assert not bodies[one] & bodies[other]
    assert all(len(distinct) > 1950 for distinct in bodies.values()), "tasks hardly repeat"


@every_split
def test_a_task_is_rebuilt_from_its_name(split):
    for task in SAMPLE[split][::20]:
        name, number = parse_task_id(task.task_id)
        assert (name, task.split) == (split, split)
        assert draw_task.__wrapped__(name, number) == task


@pytest.mark.parametrize(
    "task_id", ["", "-", "test", "test-", "-3", "test--3", "test-2000", "test-1.0", "tests-1",
                "test-٣", "test-1 ", None, 4, ("test", 1)], ids=repr,
)  # fmt: skip
def test_what_is_no_task_is_refused_by_name(task_id):
    with pytest.raises(InvalidConfiguration) as refused:
        parse_task_id(task_id)
    assert repr(task_id) in str(refused.value)


# -- the shop --------------------------------------------------------------------------------------


def test_what_memory_gets_wrong_belongs_to_nobody():
    orders, customers = range(CUSTOMERS * ORDERS_EACH), range(CUSTOMERS)
    ids = {SHOP.order_id(order) for order in orders}
    assert len(ids) == len(orders)
    assert not ids & {SHOP.wrong_order_id(order) for order in orders}
    emails = {SHOP.email(customer) for customer in customers}
    assert len(emails) == CUSTOMERS
    assert not emails & {SHOP.wrong_email(customer) for customer in customers}
    for customer in customers:
        wrong = SHOP.wrong_postcode(customer)
        assert wrong != SHOP.postcode_text(customer)
        assert len(wrong) == 5
        assert SHOP.customer_by_email(SHOP.wrong_email(customer)) == -1
        assert SHOP.customer_by_email(SHOP.email(customer)) == customer
    assert all(SHOP.order_by_id(SHOP.wrong_order_id(order)) == -1 for order in orders)
    assert all(SHOP.order_by_id(SHOP.order_id(order)) == order for order in orders)


def test_an_order_can_always_be_told_from_its_owners_others():
    """No two orders of one customer were placed on one day, newest first."""
    placed = np.array(SHOP.placed).reshape(-1, ORDERS_EACH)
    assert (np.diff(placed, axis=1) > 0).all()
    assert (placed[:, 0] > 0).all()
    assert placed.max() < 365, "a date without a year is one day"
    days = np.array([SHOP.days_since_delivery(order) for order in range(len(SHOP.item))])
    assert (days < np.array(SHOP.placed)).all()
    assert ((days >= 0) == (np.array(SHOP.stage) == 3)).all()


# -- nothing for free ------------------------------------------------------------------------------


def begin(task, key, user, persona=None):
    episode = Episode(task, key, key, DESK.layout.row())
    DESK.open(episode, persona.levels if persona else draw_levels(key))
    Engine(DESK, user, 30).open(episode)
    return episode


@every_split
def test_the_goal_does_not_hold_at_the_start(split):
    user = AgendaUser(U)
    for number, task in enumerate(SAMPLE[split]):
        graded = DESK.grade(begin(task, number, user))
        assert not graded.success
        assert graded.graded == graded.progress == 0.0


def oracle_turns(task, key, user, persona=None):
    """Turns the oracle took, whether it succeeded, and what was said unasked."""
    episode, engine = begin(task, key, user, persona), Engine(DESK, user, 30)
    policy = OraclePolicy()
    while not episode.end:
        row = np.frombuffer(bytes(episode.belief), np.uint8)
        mask = ACTIONS.mask(row)
        number, _ = policy.predict(row * SCALE, deterministic=True, action_masks=mask)
        engine.apply(episode, DESK.turn(episode, number))
    return episode.turn, DESK.grade(episode).success


SILENT = {"greet_only": 0.0, "front_load": 0.0, "volunteer": 0.0}
UNQUESTIONING = {"ask_why": 0.0, "ask_meaning": 0.0, "doubt": 0.0, "ask_next": 0.0}
SURE = {"misremember": 0.0, "look_up": 1.0, "push_again": 0.0, "accept": 1.0, "close_now": 1.0}


class Fixed(DecisionModel):
    """These choices always turn out the same way; the others are the user's."""

    def __init__(self, **wanted):
        super().__init__()
        self.wanted = {decisions.NUMBER[name]: value for name, value in wanted.items()}

    def choice(self, point, persona, situation=0):
        if point in self.wanted:
            return (2**32 if self.wanted[point] else 0, 0, 0)
        return super().choice(point, persona, situation)


def is_ambiguous(task):
    """The customer comes to name the thing, and has bought that thing twice."""
    first = task.customer * ORDERS_EACH
    bought = [SHOP.item[first + k] for k in range(ORDERS_EACH)]
    named = task.knowledge in (tasks.KNOWS_ITEM, tasks.KNOWS_VAGUELY, tasks.MISTAKEN)
    return named and bought.count(SHOP.item[task.order]) > 1


@every_split
@pytest.mark.parametrize("ambiguous", [False, True])
def test_the_oracle_length_is_exact_for_a_user_who_answers_and_no_more(split, ambiguous):
    """Who forgets nothing, offers and asks nothing, disputes nothing and hangs up at once."""
    user, looked = AgendaUser(U, Fixed(**SILENT, **UNQUESTIONING, **SURE)), Counter()
    for number, task in enumerate(SAMPLE[split]):
        identified = task.branch != tasks.IMPOSTOR
        if (is_ambiguous(task) and identified) == ambiguous:
            assert oracle_turns(task, number, user, Persona()) == (task.oracle_length, True)
            looked[task.knowledge] += 1
    if ambiguous:
        known_by_item = {tasks.KNOWS_ITEM, tasks.KNOWS_VAGUELY, tasks.MISTAKEN}
        assert set(looked) == known_by_item and min(looked.values()) > 10
    else:
        assert set(looked) == set(range(len(tasks.KNOWLEDGES))) and min(looked.values()) > 100


@every_split
def test_slips_and_disputes_only_ever_take_longer(split):
    """A lower bound as long as nothing is volunteered, whatever else the user does."""
    user = AgendaUser(U, Fixed(**SILENT))
    for number, task in enumerate(SAMPLE[split][:1000]):
        turns, success = oracle_turns(task, number, user)
        assert success
        assert turns >= task.oracle_length


@every_split
def test_what_is_volunteered_saves_one_question_each(split):
    """With the user as it is: shorter by at most e-mail and order, which may come unasked."""
    user = AgendaUser(U)
    shorter = 0
    for number, task in enumerate(SAMPLE[split][:1000]):
        turns, success = oracle_turns(task, number, user)
        assert success
        assert turns >= task.oracle_length - 2
        shorter += turns < task.oracle_length
    assert shorter > 50


# -- the document ----------------------------------------------------------------------------------


@every_split
def test_a_document_is_its_parameters_and_nothing_else(split):
    by_document = {}
    for task in SAMPLE[split]:
        document = DESK.policy_document(task)
        assert by_document.setdefault(document, task.parameters) == task.parameters
        for value in (SHOP.order_id(task.order), SHOP.email(task.customer)):
            assert value not in document
    assert len(set(by_document.values())) == len(by_document)
    assert len(by_document) > 1000


@every_split
def test_a_customer_can_say_what_the_task_needs(split):
    """Every slot that the oracle asks for has a ladder, and an impostor's postcode is wrong."""
    for task in SAMPLE[split]:
        known = knowledge(task)
        email, postcode, order, reason, address = known.ladders
        assert email and postcode and order
        assert bool(reason) == (task.workflow == rules.RETURN)
        assert bool(address) == (task.workflow == rules.ADDRESS)
        assert (postcode == (U["inform_postcode_wrong"],)) == (task.branch == tasks.IMPOSTOR)
        assert known.alternative == bool(task.decision.alternative)
        assert known.must_look_up == (task.knowledge == tasks.LOOKS_UP)
