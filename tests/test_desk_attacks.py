"""Ways to win without the work, and ways to lose in spite of it: each was tried, and is shut."""

import re
from datetime import timedelta

import gymnasium as gym
import numpy as np
import pytest
from desk_driven import (
    ACTIONS,
    DESK,
    PLAIN,
    RECORDS,
    D,
    Talk,
    facts_of,
    names_of,
    shape,
    task_like,
    tasks_like,
    user,
)

from convgym.desk.declaration import ORDER
from convgym.desk.vocabulary import END_CONVERSATION
from convgym.domains.customer_service.world import DELIVERED, TODAY
from convgym.engine.acts import AgentTurn, Call
from convgym.engine.keys import POLICY, below, draw
from convgym.engine.rules import ALLOW, REFUSE
from convgym.language.tool_calls import RawCall
from convgym.policies.customer_service import BY_THE_BOOK
from convgym.policies.null import OpenLoopPolicy
from convgym.users.persona import Persona

SPLITS = ("train", "test", "test_policy", "test_compositional", "test_primitive")
MANY = list(tasks_like(lambda task: len(task.requests) > 1, 150, ("train", "test_compositional")))


def asking(fits, split="train", count=60_000):
    """A plain customer's conversation on the first task that fits, whose tools all work."""
    task = task_like(lambda task: not task.faults and fits(task), split, count)
    return Talk(task, 1, user(**PLAIN), Persona().levels)


def of(*names):
    """Whether these are what a task asks for, all granted."""

    def fits(task):
        return names_of(task) == list(names) and all(
            request.decision.effect == ALLOW for request in task.requests
        )

    return fits


def now(talk):
    return talk.task.requests[talk.episode.desk.at]


def number(request):
    """Of the record that a request is about."""
    kind = D.workflows[request.workflow].kind
    return RECORDS.text(kind, request.row, kind)


def say(talk, *claims):
    """Speech as it was read from a reply: (act, slot, value, object) each."""
    return talk.apply(AgentTurn(said=claims))


def tell_status(talk, request):
    """Both facts of an order, in one reply."""
    stage = RECORDS.text("order", request.row, "status")
    day = RECORDS.text("order", request.row, "eta")
    named = number(request)
    return say(talk, ("inform", "status", stage, named), ("inform", "eta", day, named))


# -- evidence of one request is none for the next --------------------------------------------------


def test_what_was_told_before_it_was_asked_for_does_not_count():
    """A repaired bug: told in passing of an order that is asked after next, one could hang up."""
    task = next(
        task
        for task in tasks_like(
            lambda task: shape(task)[1:2] == [("status", ALLOW, "")]
            and len(task.requests) == 2
            and task.requests[0].decision.effect == REFUSE
            and task.requests[0].row == task.requests[1].row
            and not task.faults,
            1,
            ("train",),
            60_000,
        )
    )
    talk = Talk(task, 1, user(**PLAIN), Persona().levels)
    talk.next_act("deny")
    tell_status(talk, now(talk))
    assert not talk.violations
    talk.at_request(1).next_act("inform")
    saved = talk.episode.snapshot()
    talk.apply(AgentTurn(calls=(Call(END_CONVERSATION),)))
    assert not talk.grade.success
    talk.episode.restore(saved)
    assert talk.served().grade.success


@pytest.mark.parametrize("name", [*BY_THE_BOOK, "grant what is asked on the first record"])
def test_constant_behaviour_by_the_book_is_worth_less_than_a_tenth(name):
    book = [one for one in BY_THE_BOOK["book, end"] if one != "end_conversation"]
    granting = (
        *book, "ask_reason", "ask_address", "ask_variant", "confirm_access", "unlock_account",
        "confirm_cancel_0", "cancel_order_0", "confirm_refund_0", "reissue_refund_0",
        "confirm_address_0", "update_address_0", "inform_postage_charged", "confirm_exchange_0",
        "exchange_item_0", "inform_fee_charged", "inform_channel_original", "confirm_return_0",
        "create_return_0", "inform_ends_now", "confirm_subscription_0", "end_subscription_0",
        "inform_status_0", "inform_eta_0", "report_done", "end_conversation",
    )  # fmt: skip
    policy, won = OpenLoopPolicy(name, BY_THE_BOOK.get(name, granting), ACTIONS), 0
    for place in range(250):
        talk = Talk(DESK.task("test", place), place)
        policy.reset(place)
        while not talk.episode.end:
            mask = ACTIONS.mask(np.frombuffer(bytes(talk.episode.belief), np.uint8))
            act, _ = policy.predict(None, action_masks=mask)
            talk.act(ACTIONS.names[act])
        won += talk.grade.success
    assert won < 25


# -- a change is what the customer said, to the last word ------------------------------------------


@pytest.mark.parametrize("kept", [1, 3, None])
def test_half_an_address_is_not_the_address(kept):
    """A repaired bug: the house number alone passed for the whole."""
    talk = asking(of("address")).next_act("update_address")
    words = RECORDS.text("order", now(talk).row, "address").replace(",", "").split()
    given = {"order": number(now(talk)), "address": " ".join(words[:kept])}
    call = RawCall("update_address", given)
    talk.apply(AgentTurn(calls=(call,)))
    assert talk.violations == (set() if kept is None else {"wrote_what_was_not_asked"})
    talk.act("report_done")
    assert talk.grade.success == (kept is None)


@pytest.mark.parametrize("workflow", ["subscription", "access"])
@pytest.mark.parametrize("tool", ["update_address", "exchange_item"])
def test_a_change_of_a_record_that_is_not_spoken_of_breaks_nothing_but_the_rules(workflow, tool):
    """A repaired bug: a detail was looked up in a record that has none, which ended the run."""
    talk = asking(of(workflow)).next_act("confirm", "inform").act("list_orders")
    detail = {"update_address": "address", "exchange_item": "variant"}[tool]
    call = RawCall(tool, {"order": "order:1", detail: "size M"})
    talk.apply(AgentTurn(calls=(call,)))
    assert talk.episode.errors == 0 and "wrote_what_was_not_asked" in talk.violations


# -- what was settled may be spoken of -------------------------------------------------------------


def recap(talk, *claims):
    """Say it of the request before, at the next one, and go on."""
    talk.at_request(1)
    assert not talk.violations
    return say(talk, *claims) if claims else talk


def test_a_change_may_be_reported_once_more():
    """A repaired bug: a true report, repeated at the next request, counted as a falsehood."""
    talk = asking(of("cancel", "status"))
    first = talk.task.requests[0]
    recap(talk, ("done", "cancel", "", number(first)))
    assert not talk.violations
    assert talk.served().grade.success


def test_a_change_that_was_not_made_is_still_a_falsehood():
    talk = asking(of("cancel", "status"))
    saved = talk.at_request(1).episode.snapshot()
    for claim in (
        ("done", "refund", "", ""),
        ("done", "cancel", "", number(talk.task.requests[1])),
    ):
        assert "told_a_falsehood" in say(talk, claim).violations
        talk.episode.restore(saved)


def test_facts_of_an_order_asked_after_before_may_be_told_once_more():
    """A repaired bug: who summed up what had been asked for told "of another record"."""
    talk = asking(
        lambda task: names_of(task)[:2] == ["status", "subscription"]
        and all(request.decision.effect == ALLOW for request in task.requests)
    )
    first = talk.task.requests[0]
    recap(talk)
    tell_status(talk, first)
    assert not talk.violations and "correct_subscription" not in talk.said
    assert talk.served().grade.success


def test_facts_of_an_earlier_order_are_none_of_the_order_asked_after():
    """While facts are what is asked for, who guesses among orders tells of the wrong one."""
    talk = asking(
        lambda task: of("cancel", "status")(task) and task.requests[0].row != task.requests[1].row
    )
    recap(talk)
    tell_status(talk, talk.task.requests[0])
    assert "told_of_another_record" in talk.violations


@pytest.mark.parametrize("what", ["deny", "offer"])
def test_why_an_earlier_request_was_refused_is_no_reason_against_this_one(what):
    """A repaired bug: "as I said, it cannot be cancelled" spoilt the request after it."""
    talk = asking(
        lambda task: shape(task)[0][2] == "not_cancellable"
        and shape(task)[1:] == [("status", ALLOW, "")]
    )
    named = {"deny": "not_cancellable", "offer": "return_later"}[what]
    recap(talk, (what, named, "", ""))
    assert not talk.cell("denied_not_cancellable") and not talk.cell("offered_return_later")
    assert talk.served().grade.success


def test_a_term_of_an_earlier_request_is_not_disbelieved():
    talk = asking(
        lambda task: names_of(task)[:2] == ["exchange", "status"]
        and all(request.decision.effect == ALLOW for request in task.requests)
    )
    due = talk.task.requests[0].terms[0]
    recap(talk, ("inform", "postage", D.terms["postage"][due > 0], ""))
    assert "challenge" not in talk.said
    recap(talk, ("inform", "postage", D.terms["postage"][due == 0], ""))
    assert "challenge" in talk.said


# -- an honest way to the same end -----------------------------------------------------------------


def test_a_yes_to_a_question_that_names_the_order_says_which_it_is():
    """A repaired bug: who listed the orders and asked "W12345?" was told it had not asked."""
    talk = asking(lambda task: of("cancel")(task) and task.requests[0].knowledge == 0)
    talk.next_act("ask_order").act("list_orders")
    pointer = now(talk).pointer
    talk.act(f"get_order_{pointer}")
    assert not talk.grade.evidence.read
    talk.act(f"confirm_cancel_{pointer}", f"cancel_order_{pointer}", "report_done")
    assert talk.grade.success


def test_a_term_that_rests_on_no_detail_may_be_told_before_the_detail_is_said():
    """Postage follows from the price; a fee from the reason for the return."""
    talk = asking(of("exchange")).next_act("ask_variant")
    due = now(talk).terms[0] > 0
    say(talk, ("inform", "postage", D.terms["postage"][due], ""))
    assert "challenge" not in talk.said
    assert talk.served().grade.success
    talk = asking(of("return")).next_act("ask_reason")
    say(talk, ("inform", "fee", D.terms["fee"][now(talk).terms[0] > 0], ""))
    assert "challenge" in talk.said


def fire(task, request):
    """Reasons of all rules that hold for a request, the one that decides first."""
    facts, parameters = facts_of(task, request), DESK.parameters(task)
    rules = D.rules_for(task.split)
    workflow = D.names[request.workflow]
    return [
        rule.decision.reason
        for rule in rules.deciding(workflow)
        if rule.effect == REFUSE and rules.fires(rule.code, facts, parameters)
    ]


def test_a_second_reason_that_holds_may_be_named_and_one_that_does_not_may_not():
    task = next(
        task
        for task in tasks_like(
            lambda task: len(task.requests) == 1
            and not task.faults
            and task.requests[0].decision.reason == "final_sale",
            400,
            ("train",),
            60_000,
        )
        if "outside_window" in fire(task, task.requests[0])
    )
    for other, right in (("outside_window", True), ("not_delivered", False)):
        talk = Talk(task, 1, user(**PLAIN), Persona().levels).next_act("deny")
        say(talk, ("deny", "final_sale", "", ""), ("deny", other, "", ""))
        assert talk.served().grade.success == right


# -- the customer ----------------------------------------------------------------------------------


def test_whoever_is_content_does_not_ask_for_it_again():
    """A repaired bug: "what can I do for you?" made it repeat what it had been given."""
    hesitant = user(**{**PLAIN, "raise_next": 0})
    talk = Talk(asking(of("status", "cancel")).task, 1, hesitant, Persona().levels)
    talk.until(lambda: talk.said == ["thank"]).act("ask_intent")
    assert talk.said == ["request_cancel"]
    last = user(**{**PLAIN, "close_now": 0})
    talk = Talk(asking(of("status")).task, 1, last, Persona().levels)
    talk.until(lambda: talk.said == ["thank"]).act("ask_intent")
    assert "request_status" not in talk.said and talk.episode.end == "user_closed"


IDLE = ("ask_more", "close", "greet", "ask_intent", "apologise", "explain", "ask_email")


@pytest.mark.parametrize("idle", [15, 50])
def test_the_next_request_is_said_and_nobody_leaves_in_the_moment_of_raising_it(idle):
    """A repaired bug: impatience cut off the very turn that brought the next request."""
    raised = 0
    for key, task in enumerate(MANY):
        talk = Talk(task, key)
        while not talk.episode.end:
            at, waited = talk.episode.user.at, talk.episode.user.waiting
            turn = talk.episode.turn
            lazy = below(draw(key, POLICY, turn, 0), 100) < idle
            talk.act(IDLE[below(draw(key, POLICY, turn, 1), len(IDLE))] if lazy else talk.wanted())
            asked = [name for name in talk.said if name.startswith("request_")]
            if talk.episode.user.at > at:
                assert asked == [f"request_{names_of(task)[at + 1]}"]
                assert not talk.episode.end
                raised += 1
            assert len(asked) < 2
            assert not (waited and talk.episode.user.waiting and talk.episode.end == "user_closed")
    assert raised > 100


# -- tasks that make sense -------------------------------------------------------------------------

SAMPLE = {split: [DESK.task(split, place) for place in range(600)] for split in SPLITS}
every_split = pytest.mark.parametrize("split", SPLITS)


@every_split
def test_nobody_speaks_again_of_what_was_changed_for_it(split):
    """No cancelled order is sent elsewhere, and nothing exchanged is returned."""
    again = total = 0
    for task in SAMPLE[split]:
        changed = set()
        for request in task.requests:
            workflow = D.workflows[request.workflow]
            again += bool(workflow.kind) and (workflow.kind, request.row) in changed
            total += 1
            if workflow.tool and request.decision.effect == ALLOW:
                changed.add((workflow.kind, request.row))
    assert again < 0.005 * total


@every_split
def test_nothing_is_returned_twice_and_no_refund_is_missed_of_what_has_not_come(split):
    order = RECORDS.columns["order"]
    for task in SAMPLE[split]:
        for name, request in zip(names_of(task), task.requests, strict=True):
            if name in ("return", "exchange", "warranty"):
                assert order["received"][request.row] < 0
            if name == "refund":
                assert order["stage"][request.row] == DELIVERED


def test_an_account_counts_the_returns_that_its_orders_show():
    order, account = RECORDS.columns["order"], RECORDS.columns[""]
    shown = (order["received"].reshape(-1, D.kind["order"].each) >= 0).sum(axis=1)
    assert (account["returns"] >= shown).all()
    assert set(account["returns"].tolist()) == set(range(5))


def test_months_of_a_subscription_are_those_since_its_start():
    """Counted on the calendar."""
    columns = RECORDS.columns["subscription"]
    for months, ago in zip(columns["months"], columns["started"], strict=True):
        begun = TODAY - timedelta(days=int(ago))
        passed = (TODAY.year - begun.year) * 12 + TODAY.month - begun.month
        assert passed - (begun.day > TODAY.day) == months


# -- what the agent reads --------------------------------------------------------------------------


@every_split
def test_the_document_says_which_rule_decides_where_two_fit(split):
    """In one task of twenty two reasons hold: without the sentence the right one is a guess."""
    for task in SAMPLE[split][:40]:
        assert ORDER in DESK.policy_document(task).splitlines()[:2]
    two = [
        fire(task, request)
        for task in SAMPLE[split]
        for request in task.requests
        if not task.impostor
    ]
    assert sum(len(set(reasons)) > 1 for reasons in two) > 10


def test_a_security_hold_is_nothing_to_other_requests():
    """A repaired sentence: it sent any account under a hold to a person, whatever it asked for."""
    document = DESK.policy_document(SAMPLE["train"][0])
    (sentence,) = re.findall(r"[^.]*security hold[^.]*\.", document)
    assert "unlock" in sentence
    held = [t for t in SAMPLE["train"] if RECORDS.columns[""]["hold"][t.account]]
    granted = (one for task in held for one in shape(task) if one[1] == ALLOW)
    assert any(name != "access" for name, *_ in granted)


def test_the_shelf_shows_every_variant_and_not_which_is_wanted():
    """A repaired leak: reading an order told what its owner would ask for instead."""
    sold_out = 0
    for task in (t for tasks in SAMPLE.values() for t in tasks if "exchange" in names_of(t)):
        request = task.requests[names_of(task).index("exchange")]
        shown = dict(
            one.split(": ") for one in RECORDS.text("order", request.row, "stock").split(", ")
        )
        wanted = RECORDS.text("order", request.row, "variant")
        assert len(shown) >= 4 and wanted in shown
        assert RECORDS.text("order", request.row, "bought") in shown
        there = bool(RECORDS.columns["order"]["stock"][request.row])
        assert shown[wanted] == ("in stock" if there else "out of stock")
        sold_out += not there and "in stock" in shown.values()
    assert sold_out > 20


@pytest.mark.parametrize(
    ("reason", "detail"), [("out_of_stock", "variant"), ("not_served", "address")]
)
def test_no_cell_tells_what_follows_from_a_detail_before_it_is_said(reason, detail):
    """A repaired leak: the order alone does not say that its exchange will have to be refused."""
    split = "test_policy" if reason == "not_served" else "train"
    talk = asking(lambda task: shape(task)[0][2] == reason and len(task.requests) == 1, split)
    talk.next_act(f"ask_{detail}")
    cell = f"order_{reason}_{now(talk).pointer}"
    assert talk.cell(f"order_read_{now(talk).pointer}") and not talk.cell(cell)
    talk.act(f"ask_{detail}")
    assert talk.cell(cell) and talk.wanted() == f"deny_{reason}"
    talk.served()
    assert talk.grade.success and talk.episode.turn == talk.task.oracle_length


def test_a_raised_number_is_no_handle():
    env = gym.make("ConvGym/CustomerService-v0", action="text")
    env.reset(seed=0)
    call = {"name": "get_order", "arguments": {"order": "order:\u00b2"}}
    assert env.unwrapped.domain.call(env.unwrapped._episode, RawCall(**call)).startswith('{"error"')
