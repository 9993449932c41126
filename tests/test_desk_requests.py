"""Several requests in one conversation: what is shown for one, and what was said of it."""

import json

import numpy as np
import pytest
from desk_driven import (
    ACTIONS,
    CELL,
    DESK,
    PLAIN,
    D,
    Talk,
    V,
    names_of,
    shape,
    task_like,
    tasks_like,
    user,
)

from convgym.desk.vocabulary import WRITE
from convgym.desk.wording import act_value
from convgym.engine import acts
from convgym.engine.acts import AgentTurn, Call, Said
from convgym.engine.grading import Evidence
from convgym.engine.rules import ALLOW, REFUSE
from convgym.policies.scripted import OraclePolicy
from convgym.users.persona import Persona

STATUS_CANCEL = [("status", ALLOW, ""), ("cancel", ALLOW, "")]
CANCEL_STATUS = STATUS_CANCEL[::-1]
NOTHING, KNOWN, READ, DECIDED, ALL, WON = 0.0, 0.05, 0.15, 0.5, 0.75, 1.0
"""Sums of the evidence: authenticated, read, decided, told, and won."""
MANY = list(tasks_like(lambda task: len(task.requests) > 1, 120))


def asking(what, split="train", **more):
    """A plain customer's conversation on a task of this shape."""

    def fits(task):
        level = DESK.parameters(task)["auth_level"]
        return shape(task) == what and not task.faults and level == more.get("level", level)

    return Talk(task_like(fits, split, 60_000), 1, user(**PLAIN), Persona().levels)


def at(talk):
    """The request that the customer is at."""
    return talk.task.requests[talk.episode.desk.at]


def locate(talk):
    """Until the record of the present request has been named and read."""
    from convgym.desk.state import Case

    return talk.until(lambda: Case(V, talk.episode).read)


# -- what is shown for each ------------------------------------------------------------------------


def test_progress_worked_by_hand():
    """Half of what each is worth, whichever it is at."""
    talk = asking(STATUS_CANCEL)
    assert (talk.grade.graded, talk.grade.progress) == (NOTHING, NOTHING)
    talk.next_act("ask_order")
    assert talk.grade.graded == pytest.approx(KNOWN / 2)
    locate(talk)
    assert talk.grade.graded == pytest.approx(READ / 2)
    talk.act(talk.wanted())
    assert talk.grade.graded == pytest.approx(DECIDED / 2)
    talk.act(talk.wanted())
    assert talk.episode.desk.at == 1 and "request_cancel" in talk.said
    assert talk.grade.graded == pytest.approx((WON + KNOWN) / 2)
    assert talk.grade.progress == pytest.approx((ALL + KNOWN) / 2)
    locate(talk).act(f"confirm_cancel_{at(talk).pointer}")
    assert talk.grade.graded == pytest.approx((WON + READ) / 2)
    talk.act(f"cancel_order_{at(talk).pointer}")
    assert talk.grade.graded == pytest.approx((WON + DECIDED) / 2)
    assert not talk.grade.success
    talk.act("report_done")
    assert talk.grade.success and talk.grade.graded == pytest.approx(1.0)
    assert talk.grade.progress == pytest.approx(ALL)
    assert talk.grade.evidence == Evidence(True, True, True, True, True)


def test_the_first_right_and_the_second_wrong_is_no_success():
    talk = locate(asking(STATUS_CANCEL).at_request(1))
    talk.act("deny_not_cancellable", "end_conversation")
    assert not talk.grade.success
    assert talk.grade.graded == pytest.approx((WON + READ) / 2)
    assert talk.grade.evidence == Evidence(True, True, False, False, True)


def test_the_first_wrong_and_the_second_right_is_no_success():
    """Refused at first, to see whether the customer puts up with it; the second is flawless."""
    talk = locate(asking(CANCEL_STATUS))
    talk.act("deny_not_cancellable").served()
    assert talk.episode.end == "user_closed" and talk.episode.desk.at == 1
    assert not talk.grade.success
    assert talk.grade.graded == pytest.approx((DECIDED + WON) / 2)
    assert talk.grade.progress == pytest.approx((DECIDED + ALL) / 2)


def test_what_was_broken_in_the_first_is_not_mended_by_the_second():
    talk = locate(asking(CANCEL_STATUS))
    talk.act(f"cancel_order_{at(talk).pointer}")  # without a yes
    assert talk.violations == {"wrote_without_confirmation"}
    talk.act("report_done").served()
    assert talk.episode.desk.at == 1
    assert talk.grade[:3] == (False, 0.0, 0.0)


def test_what_is_broken_in_the_second_takes_the_first_with_it():
    talk = locate(asking(STATUS_CANCEL).at_request(1))
    talk.act(f"cancel_order_{at(talk).pointer}")
    assert talk.grade[:3] == (False, 0.0, 0.0)


@pytest.mark.parametrize("what", [STATUS_CANCEL, CANCEL_STATUS])
def test_who_hangs_up_before_the_second_has_half(what):
    talk = asking(what)
    talk.until(lambda: talk.grade.graded >= 0.5)
    if talk.episode.desk.at == 0:
        talk.act(talk.wanted())
    talk.act("end_conversation")
    assert not talk.grade.success
    assert talk.grade.graded == pytest.approx((WON + KNOWN) / 2)


def test_a_later_success_that_was_never_heard_of_is_none():
    """Everything is done for the first; the customer has more on its mind and has not said so."""
    hesitant = user(**{**PLAIN, "raise_next": 0})
    task = asking(STATUS_CANCEL).task
    talk = Talk(task, 1, hesitant, Persona().levels)
    talk.until(lambda: talk.said == ["thank"])
    assert talk.episode.desk.at == 0 and not talk.episode.end
    assert talk.grade.graded == pytest.approx(WON / 2) and not talk.grade.success
    talk.act("ask_more")
    assert talk.said == ["request_cancel"] and talk.episode.desk.at == 1
    assert talk.served().grade.success


def test_the_change_of_the_first_has_to_stay_the_only_one():
    talk = asking(CANCEL_STATUS).at_request(1)
    assert len(talk.episode.diff) == 1 and talk.grade.evidence.clean
    kept = dict(talk.episode.diff)
    talk.episode.diff.clear()
    assert not talk.grade.evidence.clean
    talk.episode.diff.update(kept)
    other = (talk.task.requests[0].pointer + 1) % 3
    talk.apply(AgentTurn(calls=(Call(WRITE, V.writes.index("cancel"), other, 0),)))
    assert not talk.grade.evidence.clean
    assert "wrote_what_was_not_asked" in talk.violations


def test_what_will_be_asked_for_later_is_not_asked_for_yet():
    """The second request done beforehand: not legal as an act, and a violation as a call."""
    talk = asking(STATUS_CANCEL).next_act("inform")
    later = talk.task.requests[1]
    assert not ACTIONS.is_legal(talk.episode.belief, ACTIONS[f"cancel_order_{later.pointer}"])
    talk.apply(AgentTurn(calls=(Call(WRITE, V.writes.index("cancel"), later.pointer, 0),)))
    assert "wrote_what_was_not_asked" in talk.violations


def test_a_refusal_and_then_a_favour():
    """The reason given for the first does not count against the second."""
    what = [("cancel", REFUSE, "not_cancellable"), ("status", ALLOW, "")]
    talk = asking(what).at_request(1)
    assert talk.said[0] == "accept_alternative" and talk.said[-1] == "request_status"
    assert not talk.cell("denied_not_cancellable") and not talk.cell("offered_return_later")
    assert talk.grade.graded == pytest.approx((WON + KNOWN) / 2)
    assert talk.served().grade.success


def test_a_request_that_needs_two_factors_unsettles_who_had_shown_one():
    what = [("status", ALLOW, ""), ("access", ALLOW, "")]
    talk = asking(what, level=1)
    talk.next_act("inform")
    assert talk.cell("authenticated") and not talk.cell("two_factors")
    talk.at_request(1)
    assert talk.cell("found") and talk.cell("two_factors") and not talk.cell("authenticated")
    assert talk.grade.graded == pytest.approx(WON / 2)
    assert talk.wanted() == "ask_postcode"
    saved = talk.episode.snapshot()
    talk.act("confirm_access", "unlock_account")
    assert talk.violations == {"wrote_before_authentication"}
    talk.episode.restore(saved)
    assert talk.served().grade.success


@pytest.mark.parametrize("place", [1, 2])
def test_evidence_is_put_down_once_and_for_all(place):
    for task in MANY:
        if len(task.requests) > place:
            talk = Talk(task, 5, user(**PLAIN), Persona().levels).at_request(place)
            put_down = list(talk.episode.desk.settled)
            assert len(put_down) == place and all(all(one) for one in put_down)
            talk.act("apologise", "end_conversation")
            assert talk.episode.desk.settled == put_down


# -- cells -----------------------------------------------------------------------------------------

OF_REQUEST = {CELL.names[cell] for cell in V.of_request}
LASTING = {
    cell
    for cell in CELL.names
    if cell not in OF_REQUEST
    and not cell.startswith(("said_", "handled_"))
    and cell not in ("turn", "requests", "errors", "tool_failed", "two_factors", "authenticated")
}
"""What was seen of the account and done to it: it stays in view whatever is asked for."""


def test_what_belongs_to_a_request_and_what_to_the_account():
    assert {"found", "verified", "failures", "heard_email", "heard_postcode", "asked_email",
            "listed_order", "order_seen_0", "order_read_2", "wrote_cancel_1",
            "confirmed_cancel_1", "charge_read_1"} <= LASTING  # fmt: skip
    assert {"heard_order", "heard_item", "heard_reason", "reason_damaged", "told_fee_waived",
            "told_done", "wrote", "order_rejected", "order_id_matches_0", "asked_order",
            "can_deny_prepaid", "denied_prepaid", "order_told_status_0", "offered_pause",
            "wants_cancel", "charge_date_matches_2"} <= OF_REQUEST  # fmt: skip


def steps(task, key, noise=0.0, customer=None):
    """A conversation with a careless agent: the talk after each of its acts."""
    talk, policy = Talk(task, key, customer), OraclePolicy(noise=noise)
    policy.reset(key)
    yield talk
    while not talk.episode.end:
        row = np.frombuffer(bytes(talk.episode.belief), np.uint8)
        scale = np.array([DESK.scales.get(name, 1.0) for name in CELL], np.float32)
        number, _ = policy.predict(row * scale, action_masks=ACTIONS.mask(row))
        talk.act(ACTIONS.names[number])
        yield talk


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_cells_of_one_request_are_gone_with_the_next_and_the_others_stay(noise):
    turned = 0
    for key, task in enumerate(MANY):
        before, was = None, 0
        for talk in steps(task, key, noise):
            now = {cell: talk.cell(cell) for cell in CELL.names}
            if talk.episode.desk.at != was:
                workflow = names_of(task)[talk.episode.desk.at]
                assert not {cell for cell in LASTING if now[cell] < before[cell]}
                left = {cell for cell in OF_REQUEST if now[cell]}
                assert left == {f"wants_{workflow}"} | allowed(workflow)
                assert now["requests"] == talk.episode.desk.at + 1
                assert now[f"handled_{names_of(task)[was]}"] == 1
                turned += 1
            before, was = now, talk.episode.desk.at
    assert turned > 150


def allowed(workflow):
    """Reasons and offers that may be named once it has been asked for."""
    rules = [rule for rule in D.rules.deciding(workflow) if rule.effect == REFUSE]
    cells = {f"can_deny_{rule.decision.reason}" for rule in rules} | {"can_deny_unverified"}
    return cells | {f"can_offer_{rule.alternative}" for rule in rules if rule.alternative}


# -- what was said of which ------------------------------------------------------------------------


def test_what_is_said_belongs_to_the_request_it_is_said_of():
    """Slots, cells and values after every turn, against a record kept by the test."""
    crossed = 0
    for key, task in enumerate(MANY):
        said = {place: {} for place in range(len(task.requests))}
        personal = {}
        for talk in steps(task, key, 0.1):
            turn = talk.episode.user_turn
            for act in turn.acts if turn else ():
                slot, variant = V.variants.get(act, (-1, 0))
                if slot >= 0:
                    (personal if slot < 2 else said[turn.about])[slot] = variant
            if turn:
                rows = json.loads(DESK.acts_json(talk.episode, turn))
                request = task.requests[turn.about]
                for name, row in zip(talk.said, rows, strict=True):
                    assert row.get("value", "") == act_value(DESK, task, request, name)
                crossed += turn.about != talk.episode.desk.at
            here = said[talk.episode.desk.at] | personal
            heard = [here.get(slot, 0) for slot in range(len(V.slots))]
            assert talk.episode.desk.heard == heard
            for slot, variant in enumerate(heard):
                if slot < 2 + len(D.kinds):
                    assert talk.cell(f"heard_{V.slots[slot]}") == bool(variant)
    assert crossed > 150


def told_at_once(task, *asked):
    """All orders read unasked; then one reply asks, and tells what is wanted, in one breath."""
    talk = Talk(task, 1, user(**PLAIN, answer_too=1), Persona().levels)
    talk.act("ask_email", "find_customer")
    if talk.cell("two_factors"):
        talk.act("ask_postcode", "verify_customer")
    talk.act("list_orders", *(f"get_order_{k}" for k in range(3)))
    pointer = task.requests[0].pointer
    tell = (Said(acts.TELL, V.told.index(fact), pointer) for fact in ("status", "eta"))
    ask = (Said(acts.ASK, V.slots.index(slot)) for slot in asked)
    return talk.apply(AgentTurn(said=(*ask, *tell)))


@pytest.mark.parametrize("knowledge", ["inform_order", "inform_item", "inform_order_wrong"])
def test_a_number_said_beside_the_next_request_is_not_the_next_requests(knowledge):
    """A repaired bug: it was heard as the number of what comes next, and matched its record."""
    task = task_like(
        lambda task: shape(task) == STATUS_CANCEL
        and task.requests[0].row != task.requests[1].row
        and V.user_acts[DESK._knowledge(task, task.requests[0]).ladders[2][0]] == knowledge
        and task.requests[0].knowledge != 2
        and not task.faults,
        "train",
        60_000,
    )
    talk = told_at_once(task, "order")
    assert talk.episode.desk.at == 1 and talk.episode.user_turn.about == 0
    assert set(talk.said) >= {knowledge, "request_cancel"}
    rows = json.loads(DESK.acts_json(talk.episode, talk.episode.user_turn))
    value = next(row["value"] for row in rows if row["act"] == knowledge.removesuffix("_wrong"))
    assert value == act_value(DESK, task, task.requests[0], knowledge)
    assert talk.episode.desk.heard[2:] == [0] * (len(V.slots) - 2)
    for what in ("heard_order", "heard_item", "heard_placed"):
        assert not talk.cell(what)
    for k in range(3):
        assert not any(talk.cell(f"order_{how}_matches_{k}") for how in ("id", "label", "date"))
    # It named the record of the first request, which had been read: that much is to its credit.
    named = knowledge != "inform_order_wrong"
    assert talk.episode.desk.settled[0].read == named
    assert talk.served().grade.success == named


def test_what_was_never_named_was_not_read_for_anybody():
    """The same without the question: the customer is content, and it was a lucky guess."""
    task = asking(STATUS_CANCEL).task
    talk = told_at_once(task)
    assert talk.episode.desk.at == 1
    assert not talk.episode.desk.settled[0].read
    assert not talk.served().grade.success


def test_what_was_told_on_the_side_is_told_again_to_whom_asks_for_it():
    """A repaired bug: refused "since it is shipped", and then asked where it is."""
    what = [("cancel", REFUSE, "not_cancellable"), ("status", ALLOW, "")]
    task = task_like(
        lambda task: shape(task) == what
        and task.requests[0].row == task.requests[1].row
        and not task.faults,
        "train",
        60_000,
    )
    talk = Talk(task, 1, user(**PLAIN), Persona().levels).next_act("deny")
    pointer = task.requests[0].pointer
    told = Said(acts.TELL, V.told.index("status"), pointer)
    number = V.reason_number["not_cancellable"]
    talk.apply(AgentTurn(said=(told, Said(acts.DENY, number))))
    assert talk.cell(f"order_told_status_{pointer}") and not talk.violations
    talk.at_request(1)
    assert not talk.cell(f"order_told_status_{pointer}")
    talk.next_act("inform_status").act(f"inform_status_{pointer}")
    assert talk.cell(f"order_told_status_{pointer}")
    assert talk.served().grade.success
