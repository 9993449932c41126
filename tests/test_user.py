"""What the simulated user never does, whatever the agent does."""

from collections import Counter

import pytest
from hypothesis import given
from single_task import (
    ACTIONS,
    DESK,
    OFFERS,
    USER_ACTS,
    U,
    V,
    decision,
    draw_task,
    knowledge,
    request,
    workflow,
)
from user_driven import (
    ANY_TALK,
    Recorded,
    begin,
    conversation,
    oracle_act,
    said_in,
    speech,
    thorough,
)

from convgym.engine import acts
from convgym.engine.acts import AgentTurn, Said
from convgym.engine.rules import ALLOW
from convgym.users import decisions
from convgym.users.agenda import MOST_DISPUTES, AgendaUser
from convgym.users.decisions import GRACE
from convgym.users.persona import Persona

# -- what it says ----------------------------------------------------------------------------------


@thorough
@given(*ANY_TALK)
def test_it_states_only_what_it_knows(number, key, script):
    opening, steps = conversation(number, key, script)
    task = opening.before.task
    known = knowledge(task)
    stated = {act for act in said_in([opening, *steps]) if USER_ACTS[act].startswith("inform_")}
    can_state = {act for ladder in known.ladders for act in ladder} | set(known.misremembered)
    assert stated <= can_state
    requests = {act for act in said_in([opening, *steps]) if USER_ACTS[act].startswith("request_")}
    assert requests <= {known.request}


@thorough
@given(*ANY_TALK)
def test_it_answers_rung_by_rung(number, key, script):
    """A slip at most once, at first; then down the ladder, never up again."""
    opening, steps = conversation(number, key, script)
    known = knowledge(opening.before.task)
    said = said_in([opening, *steps])
    for slot, ladder in enumerate(known.ladders):
        slip = known.misremembered[slot]
        own = [act for act in said if act in ladder or act == slip]
        if slip in own and slip not in ladder:
            assert own.count(slip) == 1
            assert own[0] == slip
            own = own[1:]
        places = [ladder.index(act) for act in own]
        assert places == sorted(places)
        if slot != known.main_slot and places:
            assert places[0] == 0


@thorough
@given(*ANY_TALK)
def test_it_answers_what_it_was_asked(number, key, script):
    """What is stated was asked for, now or before a question of its own that is answered now;
    or it belongs to the object, which may come unasked."""
    _, steps = conversation(number, key, script)
    for step in steps:
        known = knowledge(step.before.task)
        asked = {said.argument for said in step.turn.said if said.kind == acts.ASK}
        if any(said.kind == acts.EXPLAIN for said in step.turn.said):
            asked.add(step.before.user.owed)
        for act in step.answer.acts if step.answer else ():
            slots = {
                slot
                for slot, ladder in enumerate(known.ladders)
                if act in ladder or act == known.misremembered[slot]
            }
            assert not slots or slots & (asked | {known.main_slot, known.first_slot})


@thorough
@given(*ANY_TALK)
def test_it_confirms_its_own_request_on_its_own_order_alone(number, key, script):
    for step in conversation(number, key, script)[1]:
        if step.answer and U["affirm"] in step.answer.acts:
            task = step.before.task
            wanted = workflow(task)
            asked = [
                (V.writes[said.argument], said.pointer)
                for said in step.turn.said
                if said.kind == acts.CONFIRM
            ]
            assert (wanted, request(task).pointer) in asked
            assert step.before.desk.account == task.account


# -- when it leaves --------------------------------------------------------------------------------


def left_after_a_yes(steps):
    """Whether the user left with its yes given, nothing done yet and nothing refused since."""
    waiting = False
    for step in steps:
        refused = any(said.kind == acts.DENY for said in step.turn.said)
        waiting = waiting and not refused and not step.after.diff
        if step.answer and step.answer.closed and waiting:
            return True
        if step.answer and U["affirm"] in step.answer.acts and not refused:
            waiting = not step.after.diff
    return False


@thorough
@given(*ANY_TALK)
def test_it_never_leaves_between_its_yes_and_the_deed(number, key, script):
    assert not left_after_a_yes(conversation(number, key, script)[1])


@pytest.mark.parametrize("last", ["offer_pickup", "offer_store_credit", "close", "greet"])
def test_no_wrong_refusal_of_before_makes_it_leave_after_its_yes(last):
    """Refused wrongly three times, then asked properly, then spoken to: it must wait."""
    for number in range(2000):
        task = draw_task("train", number)
        if workflow(task) == "cancel" and decision(task).effect == ALLOW:
            break
    user = Recorded()
    waited = 0
    for key in range(200):
        episode, engine = begin(task, key, user, Persona(patience=1.0))
        script = ["deny_not_cancellable"] * 3 + [None] * 20
        for name in script:
            if episode.end or episode.user.waiting:
                break
            sensible = DESK.turn(episode, oracle_act(episode))
            engine.apply(episode, AgentTurn((speech(ACTIONS[name]),)) if name else sensible)
        if not episode.end and episode.user.waiting:
            engine.apply(episode, AgentTurn((speech(ACTIONS[last]),)))
            assert not episode.end
            waited += 1
    assert waited > 20


@thorough
@given(*ANY_TALK)
def test_leaving_is_said(number, key, script):
    """A user who has what it came for may leave without a farewell; nobody else does."""
    for step in conversation(number, key, script)[1]:
        if step.answer:
            parting = {U["bye"], U["give_up"]} & set(step.answer.acts)
            assert step.answer.closed >= bool(parting)
            assert parting or not step.answer.closed or step.after.user.satisfied
            assert (step.after.end == "user_closed") == step.answer.closed
            if U["bye"] in step.answer.acts:
                assert U["give_up"] not in step.answer.acts
                assert step.answer.acts[-1] == U["bye"], "nothing is said after the farewell"


def test_a_user_who_has_left_takes_no_refusal():
    """ "Goodbye. I must refuse." after a refusal: whoever leaves at the first has not taken it."""
    user, left = AgendaUser(U), 0
    for number in range(8000):
        task = draw_task("train", number)
        if decision(task).reason not in ("final_sale", "not_delivered"):
            continue
        episode, engine = begin(task, number, user)
        deny = speech(ACTIONS[f"deny_{decision(task).reason}"])
        while not (episode.end or episode.user.denied):
            engine.apply(episode, DESK.turn(episode, oracle_act(episode)))
        if not episode.end:
            engine.apply(episode, AgentTurn((Said(acts.CLOSE), deny)))
            if episode.user_turn.acts[0] == U["bye"]:  # it did not protest
                left += 1
                assert not episode.user.resolved
                assert not DESK.grade(episode).success
    assert left > 5


@thorough
@given(*ANY_TALK)
def test_it_bears_what_it_can(number, key, script):
    """Below GRACE nobody leaves for lack of patience."""
    for step in conversation(number, key, script)[1]:
        for drawn in step.draws:
            if drawn.point == decisions.LEAVE and drawn.yes:
                assert drawn.bother >= GRACE
        if step.answer and step.answer.acts == (U["give_up"],):
            left = [drawn for drawn in step.draws if drawn.point == decisions.LEAVE]
            assert left or step.before.user.disputes > MOST_DISPUTES


# -- how it takes refusals and reports -------------------------------------------------------------


@thorough
@given(*ANY_TALK)
def test_a_refused_user_takes_the_alternative_where_there_is_one(number, key, script):
    opening, steps = conversation(number, key, script)
    right = decision(opening.before.task)
    said = Counter(said_in(steps))
    offers = [
        OFFERS[act.argument]
        for step in steps
        for act in step.turn.said
        if act.kind == acts.OFFER
    ]
    if right.alternative:
        assert not said[U["accept_refusal"]]
        assert not said[U["accept_alternative"]] or right.alternative in offers
    else:
        assert not said[U["accept_alternative"]] and not said[U["ask_alternative"]]
    for step in steps:
        if step.after.user.resolved and not step.before.user.resolved:
            taken = "accept_alternative" if right.alternative else "accept_refusal"
            assert U[taken] in step.answer.acts
            assert step.after.user.denied == 1, "only a right refusal is taken"


def test_the_alternative_is_asked_for_taken_and_enough():
    """Every refusal with an alternative ends well for an agent that offers it."""
    user, ended = AgendaUser(U), Counter()
    for number in range(3000):
        task = draw_task("train", number)
        if decision(task).alternative:
            episode, engine = begin(task, number, user)
            asked = False
            while not episode.end:
                engine.apply(episode, DESK.turn(episode, oracle_act(episode)))
                if episode.user_turn and U["ask_alternative"] in episode.user_turn.acts:
                    asked = True
            assert U["accept_alternative"] in episode.user_turn.acts
            assert DESK.grade(episode).success
            ended[decision(task).alternative, asked] += 1
    of_test_primitive = {"paid_repair", "send_invoice"}
    assert {offer for offer, _ in ended} == set(OFFERS) - of_test_primitive
    assert all(ended[offer, True] > 10 for offer in set(OFFERS) - of_test_primitive), ended


@thorough
@given(*ANY_TALK)
def test_a_wrong_refusal_is_never_taken(number, key, script):
    for step in conversation(number, key, script)[1]:
        wrong = decision(step.before.task).effect == ALLOW
        if wrong and step.answer:
            taken = {U["accept_refusal"], U["accept_alternative"]}
            assert not taken & set(step.answer.acts)


@thorough
@given(*ANY_TALK)
def test_a_report_of_what_was_not_done_is_challenged(number, key, script):
    for step in conversation(number, key, script)[1]:
        kinds = [said.kind for said in step.turn.said]
        done = bool(step.after.diff) and step.after.desk.decided_right
        if acts.REPORT_DONE in kinds and not done and acts.CLOSE not in kinds:
            assert U["challenge_done"] in step.answer.acts or step.answer.acts == (U["give_up"],)
            assert not step.after.belief[V.told_done]
            assert step.after.violations


def test_what_was_not_looked_up_is_doubted():
    """Status told of an order that was never read."""
    user, doubted = AgendaUser(U), 0
    for number in range(200):
        episode, engine = begin(draw_task("train", number), number, user)
        claim = Said(acts.TELL, 0, -1, claim=acts.UNSUPPORTED)
        engine.apply(episode, AgentTurn((claim,)))
        assert U["challenge"] in episode.user_turn.acts or episode.end
        doubted += U["challenge"] in episode.user_turn.acts
    assert doubted > 150
