"""Claims of free text held against what was read, and the customer's side of the device."""

import json

import numpy as np
import pytest
from support_driven import ABLE, DESK, Certain, act_of, begin, do, on, said

from convgym.domains.technical_support import combinations as branches
from convgym.domains.technical_support import role, rules
from convgym.domains.technical_support.customer import mistaken_for
from convgym.domains.technical_support.dialogue import (
    CHECK_NAMES,
    SAW,
    STEP_NAMES,
    TELLS,
    USER_ACTS,
    U,
)
from convgym.domains.technical_support.faults import FAULT
from convgym.domains.technical_support.grounding import ground_speech
from convgym.domains.technical_support.handling import CERTAIN
from convgym.domains.technical_support.physics import CHECKS_OF
from convgym.domains.technical_support.user_side import SupportSide
from convgym.domains.technical_support.view import SPOKEN_KINDS, slot_and_value, spoken
from convgym.domains.technical_support.vocabulary import VALUE_NAMES
from convgym.domains.technical_support.world import world
from convgym.engine import acts
from convgym.engine.acts import AgentTurn, Said
from convgym.envs.user_side import known_acts
from convgym.language.tool_calls import RawCall
from convgym.policies.technical_support import OraclePolicy

SIDE = SupportSide(DESK)
CABLE_LOOSE = (FAULT["router.cable.loose"],)


def router(*yes, **fields):
    """An episode about a router with a device in hand and the area read."""
    for number in range(2000):
        task = DESK.task("test", number)
        wanted = all(getattr(task, name) == value for name, value in fields.items())
        if task.kind == 0 and task.branch == branches.FIX and wanted:
            break
    episode, engine = begin(task, 1, DESK.make_user(Certain(*yes)), ABLE)
    do(episode, engine, "ask_phone", "find_customer")
    if on(episode, "two_factors") == [1]:
        do(episode, engine, "ask_pin", "verify_pin")
    do(episode, engine, "list_devices", f"get_device_{task.pointer}", "get_area_status")
    return episode, engine


def one(episode, *claim):
    """The act of speech that one claim stands for."""
    (grounded,) = ground_speech(episode, [(*claim, "", "", "")[:4]])
    return grounded


# -- claims ----------------------------------------------------------------------------------------


def test_requests_and_questions():
    episode, _ = router()
    assert one(episode, "ask", "pin") == Said(acts.ASK, 1)
    assert one(episode, "who") == Said(acts.ASK, 0)
    assert one(episode, "ask", "more") == Said(acts.ASK_MORE)
    assert one(episode, "explain") == Said(acts.EXPLAIN)
    look, step = CHECK_NAMES.index("power_light"), STEP_NAMES.index("restart")
    assert one(episode, "check", "power_light") == Said(acts.CHECK, look)
    assert one(episode, "check", "power_light", "technical") == Said(acts.CHECK, look, value=1)
    assert one(episode, "instruct", "restart") == Said(acts.INSTRUCT, step)
    assert one(episode, "check", "nothing").kind == acts.UNCLEAR
    assert ground_speech(episode, []) == []


def test_numbers_of_the_policy():
    episode, _ = router()
    right = episode.desk.parameters["limit_fee"]
    told = TELLS.index("limit_fee")
    assert one(episode, "inform", "limit_fee", str(right)) == Said(acts.TELL, told)
    assert one(episode, "inform", "limit_fee", str(right + 1)).claim == acts.FALSE
    due = rules.technician_due(
        episode.task.active, {"plan": world().plan[episode.task.customer]}, episode.desk.parameters
    )
    assert one(episode, "inform", "technician_fee", str(due)).claim == acts.KNOWN
    assert one(episode, "inform", "technician_fee", str(due + 20)).claim == acts.FALSE
    fresh, _ = begin(episode.task, 1, persona=ABLE)
    assert one(fresh, "inform", "technician_fee", str(due)).claim == acts.UNSUPPORTED


def test_what_a_read_has_shown():
    episode, engine = router(faults=router()[0].task.faults)
    assert one(episode, "inform", "line_test", "ok").claim == acts.UNSUPPORTED
    do(episode, engine, "run_line_test")
    shown = json.loads(episode.tool_results[0])["result"]
    for value in ("ok", "port_error", "no_answer"):
        expected = acts.TRUE if value == shown else acts.FALSE
        assert one(episode, "inform", "line_test", value).claim == expected
    assert one(episode, "inform", "line_test").claim == acts.TRUE
    other = f"device:{1 + (episode.task.pointer + 1) % 3}"
    assert one(episode, "inform", "line_test", shown, other).claim == acts.UNSUPPORTED
    months = world().months[episode.task.device]
    free = months <= episode.desk.parameters["warranty"]
    assert one(episode, "inform", "warranty", "yes").claim == (acts.TRUE if free else acts.FALSE)
    assert one(episode, "inform", "warranty", "no").claim == (acts.FALSE if free else acts.TRUE)


def test_deeds_and_refusals():
    episode, engine = router()
    assert one(episode, "confirm", "factory_reset") == Said(acts.CONFIRM, 6)
    other = world().serial(episode.task.device - episode.task.pointer
                           + (episode.task.pointer + 1) % 3)  # fmt: skip
    assert one(episode, "confirm", "reset_port", "", other).claim == acts.FALSE
    assert one(episode, "deny", "area_outage") == Said(acts.DENY, 3)
    assert one(episode, "offer", "callback").kind == acts.OFFER
    assert one(episode, "promise", "transfer") == Said(acts.PROMISE, 6)
    assert one(episode, "done", "reset_port") == Said(acts.REPORT_DONE, 1)
    do(episode, engine, "run_line_test", "get_plan", "confirm_reset_port", "reset_port")
    assert not episode.violations or not episode.violations & 1
    before = episode.violations
    engine.apply(episode, AgentTurn((("done", "reset_port", "", ""),), text="done"))
    assert episode.violations == before and on(episode, "unreported") == [0]
    engine.apply(episode, AgentTurn((("done", "unlock_sim", "", ""),), text="done"))
    assert "challenge_done" in said(episode) and episode.violations != before


# -- words of the customer -------------------------------------------------------------------------


def test_every_value_of_a_customer_follows_from_its_task():
    for number in range(100):
        task = DESK.task("test", number)
        for act, name in enumerate(USER_ACTS):
            slot, value = slot_and_value(task, act)
            assert bool(slot) == bool(value)
            assert bool(value) == (name.startswith(("see_", "inform_")) or name == "correct_device")
        made = spoken(task, (U["claim_it"], U["inform_serial_wrong"], U["see_damage_wet"]))
        assert [one.act for one in made] == ["did_it", "inform_serial", "see_damage_wet"]
        assert made[1].value == world().wrong_serial(task.device)


def test_who_plays_the_customer_is_told_what_it_knows_and_sees_and_no_more():
    for number in range(60):
        episode, _ = begin(DESK.task("test", number), 1, persona=ABLE)
        task, told = episode.task, role.describe(episode)
        assert world().phone(task.customer) in told and SPOKEN_KINDS[task.kind] in told
        assert (world().serial(task.device) in told) == (task.knowledge == 0)
        impostor = task.decision.reason == "unverified"
        assert (world().pin_text(task.customer) in told) != impostor
        assert all(rule.text[:30] not in told for rule in rules.RULES.rules if rule.text)
        assert told.count("\n- ") == len(CHECKS_OF[task.kind])


def test_somebody_else_who_says_a_step_is_done_has_done_it():
    """A person or a model at the device: the deed follows the word, a claim moves nothing."""
    for act, changes in (("did_it", True), ("claim_it", False), ("not_done", False)):
        episode, engine = router(faults=CABLE_LOOSE)
        device, number = episode.desk.device, STEP_NAMES.index("factory_reset")
        taken = engine.take(episode, AgentTurn((Said(acts.INSTRUCT, number),)))
        turn = acts.UserTurn((U[act],), 0.0, False)
        engine.settle(episode, taken, turn)
        assert (episode.desk.device != device) == changes
        assert on(episode, "age_factory_reset") == [act != "not_done"]


# -- the device in the customer's hands ------------------------------------------------------------


def known(episode, own):
    return SIDE.truthful(episode, own, known_acts(episode.user, U))


def test_looking_tells_the_truth_and_opens_what_can_be_said():
    episode, _ = router()
    own = SIDE.open(episode)
    assert not known(episode, own)[list(SAW)].any()
    for look in CHECKS_OF[0]:
        answer = json.loads(
            SIDE.call(episode, own, RawCall("look_at", {"what": CHECK_NAMES[look]}))
        )
        opened = [SAW[act] for act in SAW if known(episode, own)[act] and SAW[act][0] == look]
        slip = VALUE_NAMES[mistaken_for(episode, look)]  # the one that this person may take it for
        assert {VALUE_NAMES[value] for _, value in opened} == {answer["shows"], slip}
        assert (slip == answer["shows"]) == (look in CERTAIN)
    assert known(episode, own)[list(SAW)].sum() == 2 * len(CHECKS_OF[0]) - len(
        set(CERTAIN) & set(CHECKS_OF[0])
    )
    missing = SIDE.call(episode, own, RawCall("look_at", {"what": "battery"}))
    assert "no such thing" in missing


def test_a_step_can_be_done_once_it_was_asked_for_and_makes_what_was_seen_old():
    episode, engine = router(faults=CABLE_LOOSE)
    own = SIDE.open(episode)
    call = RawCall("do", {"step": "factory_reset"})
    assert "nobody has asked" in SIDE.call(episode, own, call)
    assert not known(episode, own)[U["did_it"]]
    SIDE.call(episode, own, RawCall("look_at", {"what": "service"}))
    before, number = episode.desk.device, STEP_NAMES.index("factory_reset")
    taken = engine.take(episode, AgentTurn((Said(acts.INSTRUCT, number),)))
    assert known(episode, own)[U["did_it"]] and SIDE.rests_on(episode, own, (U["did_it"],)) == (
        len(CHECK_NAMES) + number,
    )
    assert json.loads(SIDE.call(episode, own, call))["done"]
    after = episode.desk.device
    assert after != before and own.seen == 0
    assert SIDE.rests_on(episode, own, (U["did_it"],)) == ()
    engine.settle(episode, taken, acts.UserTurn((U["did_it"],), 0.0, False))
    assert episode.desk.device == after  # done once, not twice


@pytest.mark.parametrize("call", [
    RawCall("open_wallet", {}), RawCall("look_at", {}), RawCall("look_at", {"what": "moon"}),
    RawCall("do", {"step": 3}), RawCall("do", {"step": "restart", "how": "fast"}),
])  # fmt: skip
def test_bad_calls_are_answered(call):
    episode, _ = router()
    own = SIDE.open(episode)
    assert "error" in json.loads(SIDE.call(episode, own, call))


def test_a_booking_reaches_the_customer_as_a_message():
    episode, engine = router()
    own = SIDE.open(episode)
    do(episode, engine, "do_restart", "check_damage", "confirm_order_replacement")
    do(episode, engine, "order_replacement")
    for _ in range(2):
        SIDE.sync(episode, own)
    assert own.messages == ["Your replacement is on its way."]
    assert "replacement" in SIDE.call(episode, own, RawCall("read_messages", {}))


def test_with_tools_the_role_does_not_tell_what_the_device_shows():
    episode, _ = router()
    told = SIDE.describe(episode, SIDE.open(episode), role.describe(episode))
    assert "- the power light" not in told and "with your tools" in told
    assert world().phone(episode.task.customer) in told


def test_the_simulated_customer_looks_and_does_before_it_speaks():
    """Making the calls that its turn rests on first changes nothing of the conversation."""
    moved = 0
    for number in range(60):
        task = DESK.task("test", number)
        plain, engine = begin(task, number)
        handled, other = begin(task, number)
        own = SIDE.open(handled)
        policy = OraclePolicy(noise=0.2)
        policy.reset(number)
        while not plain.end:
            act = act_of(policy, plain)
            engine.apply(plain, DESK.turn(plain, act))
            taken = other.take(handled, DESK.turn(handled, act))
            SIDE.sync(handled, own)
            answer = None
            while taken.heard is not None:
                trial = handled.snapshot()
                answer = other.user.answer(trial, taken.heard)
                calls = SIDE.rests_on(handled, own, answer.acts)
                if not calls:
                    handled.restore(trial)
                    break
                moved += len(calls)
                for place in calls:
                    SIDE.call(handled, own, SIDE.calls[place])
                    SIDE.sync(handled, own)
            other.settle(handled, taken, answer)
            SIDE.sync(handled, own)
            assert said(handled) == said(plain)
            assert bytes(handled.belief) == bytes(plain.belief)
            assert handled.desk.device == plain.desk.device
        assert handled.end == plain.end
    assert moved > 200


def test_the_side_has_a_call_for_each_look_and_each_step():
    assert len(SIDE.calls) == len(CHECK_NAMES) + len(STEP_NAMES) + 1
    assert {tool["function"]["name"] for tool in json.loads(SIDE.tools)} == {
        "look_at", "do", "read_messages",
    }  # fmt: skip
    assert np.all([isinstance(text, str) for text in SIDE.utterances])
