"""What a sales conversation is worth, on cases worked by hand."""

import dataclasses
import json

import pytest
from sales_driven import DESK, begin, played
from sales_seller import (
    BUYER,
    PATIENT,
    SHOP,
    Plain,
    at,
    do,
    objected,
    quoted,
    requote,
    sale,
)

from convgym.domains.sales import tasks
from convgym.domains.sales.tasks import draw_task
from convgym.domains.sales.vocabulary import OBJECTIONS
from convgym.engine.rules import REFUSE, TRANSFER
from convgym.policies.sales import FirmOraclePolicy, OraclePolicy
from convgym.users.decisions import NUMBER


def outcome(policy, task, key=1):
    episode = played(policy, task, key, BUYER, PATIENT)
    return DESK.grade(episode), episode


def test_a_sale_is_worth_more_the_nearer_it_is_to_the_list_price():
    """Authority 20 %, steps of 5 %: 1, .9375, .875, .8125 and .75 by hand."""
    base = next(
        task
        for task in (draw_task("train", number) for number in range(20000))
        if task.branch == tasks.SELL and task.parameters[:2] == (200, 50) and task.objection < 0
    )
    for steps, worth in enumerate((1.0, 0.9375, 0.875, 0.8125, 0.75)):
        task = dataclasses.replace(base, switches=0, walk=1_000_000 - 50_000 * steps)
        verdict, episode = outcome(OraclePolicy(), task)
        assert verdict.success
        assert verdict.graded == pytest.approx(worth)
        booked = {field: value for (_, _, field), value in episode.diff.items()}
        list_price = SHOP.price[task.week][episode.desk.booked]
        assert booked["price"] == -(-list_price * (1000 - 50 * steps) // 1000)
        assert booked["quantity"] == task.quantity


def test_standing_by_a_price_pays():
    """Who pays the list price and haggles twice gets two steps, or one if the first was held."""
    task = sale(objection=-1)
    task = dataclasses.replace(task, walk=1_200_000, parameters=(200, 50, *task.parameters[2:]))

    class Haggler(Plain):
        NEVER = tuple(name for name in Plain.NEVER if name != "haggle")

        def choice(self, point, persona, situation=0):
            if point == NUMBER["haggle"]:
                return (2**32, 0, 0)
            return super().choice(point, persona, situation)

    user = DESK.make_user(Haggler())
    soft, firm = (
        DESK.grade(played(policy, task, 1, user, PATIENT))
        for policy in (OraclePolicy(), FirmOraclePolicy())
    )
    assert soft.success and firm.success
    assert (soft.graded, firm.graded) == (pytest.approx(0.875), pytest.approx(0.9375))


def test_giving_everything_away_at_once_is_worth_nothing():
    episode, engine, k = objected()
    requote(episode, engine, k, 200)
    do(episode, engine, f"quote_{k}", f"confirm_{k}", f"book_order_{k}", "report_done")
    assert episode.diff
    verdict = DESK.grade(episode)
    assert not verdict.success
    assert verdict.graded == 0.0


@pytest.mark.parametrize("reason", ["beyond_authority", "clearance_firm"])
def test_a_price_refusal_needs_the_lowest_quote_and_no_other_reason(reason):
    task = next(
        task
        for task in (draw_task("train", number) for number in range(9000))
        if task.decision.reason == reason and task.objection < 0
    )
    verdict, episode = outcome(OraclePolicy(), task)
    assert verdict.success
    assert verdict.graded == 1.0
    assert not episode.diff
    # Refused at the first price: a falsehood where a lower one was allowed.
    if task.allowed:
        episode, engine, _ = at("lower_quote", task)
        do(episode, engine, f"deny_{reason}")
        assert not DESK.grade(episode).evidence.decided
    # Every reason there is, the right one among them, is no reason.
    episode, engine, _ = at(f"deny_{reason}", task)
    do(episode, engine, "deny_out_of_stock", f"deny_{reason}", f"deny_{reason}")
    assert not DESK.grade(episode).success


@pytest.mark.parametrize(("reason", "offer"), [("out_of_stock", "waitlist"),
                                               ("not_carried", "nearest")])  # fmt: skip
def test_having_nothing_to_sell_needs_the_search_the_reads_and_the_right_offer(reason, offer):
    task = next(
        task
        for task in (draw_task("train", number) for number in range(9000))
        if task.decision.reason == reason and task.knowledge == 0
    )
    assert outcome(OraclePolicy(), task)[0].success
    other = {"waitlist": "nearest", "nearest": "waitlist"}[offer]
    episode, engine, _ = at(f"offer_{offer}", task)
    do(episode, engine, f"offer_{other}", f"offer_{offer}")
    assert not DESK.grade(episode).success
    episode, engine, _ = at("search_catalogue", task)
    do(episode, engine, f"deny_{reason}")  # before any search
    assert not DESK.grade(episode).evidence.decided
    assert DESK.vocabulary["push_back"] in episode.user_turn.acts


def test_a_transfer_is_right_for_many_pieces_only_once_they_are_known():
    task = next(
        task
        for task in (draw_task("train", number) for number in range(900))
        if task.decision.effect == TRANSFER
    )
    assert outcome(OraclePolicy(), task)[0].success
    for start in ("ask_need", "ask_quantity", "search_catalogue"):
        episode, engine, _ = at(start, task)
        do(episode, engine, "transfer_to_human")
        assert not DESK.grade(episode).success
    episode, engine, _ = at("create_quote")
    do(episode, engine, "transfer_to_human")
    assert DESK.grade(episode).graded < 0.2


def test_a_refusal_is_no_success_where_the_buyer_does_not_leave_in_peace():
    task = next(
        task
        for task in (draw_task("train", number) for number in range(9000))
        if task.decision == tasks.Decision(REFUSE, "beyond_authority") and task.objection < 0
    )
    episode, engine, _ = at("deny_beyond_authority", task)
    do(episode, engine, f"hold_price_{quoted(episode)}", "end_conversation")
    assert not DESK.grade(episode).success


def test_the_privileged_record_is_json_and_complete():
    for number in range(60):
        task = draw_task("test_policy", number)
        episode, _ = begin(task, number)
        told = json.loads(json.dumps(DESK.privileged(episode)))
        assert told["walk"] == task.walk
        assert told["decision"] == [task.decision.effect, task.decision.reason]
        assert told["objection"] in ("", *OBJECTIONS)
        assert len(told["eligible"]) == len(task.eligible)
