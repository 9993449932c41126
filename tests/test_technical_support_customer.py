"""The customer at the device: what becomes of a look and a step, and that every slip ends."""

import itertools
import math

import pytest
from support_driven import ABLE, DESK, Certain, act_of, begin, do, on, played, said

from convgym.domains.technical_support.customer import SupportState
from convgym.domains.technical_support.dialogue import SAW, USER_ACTS, U
from convgym.domains.technical_support.faults import FAULT, FAULTS
from convgym.domains.technical_support.physics import CHECKS_OF, STEPS_OF, VALUES_OF, observe
from convgym.domains.technical_support.physics import do as changed
from convgym.domains.technical_support.vocabulary import (
    CHECKS,
    OPERATION,
    SERVICE,
    STEPS,
    VALUE_NAMES,
)
from convgym.engine import acts
from convgym.engine.acts import AgentTurn, Said
from convgym.policies.policy import RandomPolicy
from convgym.policies.technical_support import OraclePolicy, PlannerPolicy
from convgym.users import agenda, decisions
from convgym.users.decisions import LOG_UNIT, DecisionModel
from convgym.users.persona import Persona

NOVICE = Persona(expertise=0, accuracy=1, compliance=1, patience=1)


def task_with(*faults, split="test", **fields):
    """A task that is worked on, with exactly these faults."""
    wanted = tuple(FAULT[code] for code in faults)
    for number in range(2000):
        task = DESK.task(split, number)
        if task.faults == wanted and task.decision.effect == "allow":
            if all(getattr(task, name) == value for name, value in fields.items()):
                return task
    raise AssertionError(f"no task has {faults}")


def in_hand(task, *yes, persona=ABLE, key=1):
    """An episode with the device in hand, and its engine; the customer chooses as told."""
    model = Certain(*yes)
    user = DESK.make_user(model)
    episode, engine = begin(task, key, user, persona)
    do(episode, engine, "ask_phone", "find_customer")
    if on(episode, "two_factors") == [1]:
        do(episode, engine, "ask_pin", "verify_pin")
    do(episode, engine, "list_devices", f"get_device_{task.pointer}")
    return episode, engine, model


def say(episode, engine, *said_acts):
    """One reply with several acts."""
    engine.apply(episode, AgentTurn(tuple(said_acts), text="words"))
    return said(episode)


def check(name):
    return Said(acts.CHECK, [word.name for word in CHECKS].index(name))


def instruct(name, value=0):
    return Said(acts.INSTRUCT, OPERATION[name], value=value)


# -- looking ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(0, 60, 3))
def test_who_sees_right_says_what_the_device_shows(number):
    task = DESK.task("test", number)
    episode, engine, _ = in_hand(task)
    for look in CHECKS_OF[task.kind]:
        episode.user.knows |= 1 << look
        value = observe(task.kind, task.state, look)
        name = f"see_{CHECKS[look].name}_{VALUE_NAMES[value]}"
        assert name in do(episode, engine, f"check_{CHECKS[look].name}")
        assert on(episode, f"sees_{name[4:]}", f"looked_{CHECKS[look].name}")[0] == 2


@pytest.mark.parametrize("slip", ["misobserve", "cannot_tell"])
def test_a_slip_of_the_eye_ends_at_the_second_look(slip):
    """For every check of every kind: the first look may be wrong, the second is the truth."""
    seen = set()
    for number in range(80):
        task = DESK.task("test", number)
        episode, engine, _ = in_hand(task, slip)
        for look in CHECKS_OF[task.kind]:
            name, truth = CHECKS[look].name, VALUE_NAMES[observe(task.kind, task.state, look)]
            first = do(episode, engine, f"check_{name}")
            second = do(episode, engine, f"check_{name}")
            assert second == [f"see_{name}_{truth}"] or name == "service"
            if name in ("service", "damage"):
                assert first[0] == f"see_{name}_{truth}"
            elif slip == "cannot_tell":
                assert first == ["cannot_tell"]
            else:
                wrong = SAW[U[first[0]]]
                assert wrong[0] == look and first != second
                assert wrong[1] in VALUES_OF[task.kind][look]
            seen.add((task.kind, look))
    assert len(seen) > 50


def test_a_thing_that_has_changed_can_be_seen_wrong_again_and_one_that_has_not_cannot():
    task = task_with("router.cable.loose")
    episode, engine, model = in_hand(task)
    assert do(episode, engine, "check_data_cable") == ["see_data_cable_loose"]
    model.yes.add(decisions.MISOBSERVE)
    assert do(episode, engine, "check_data_cable") == ["see_data_cable_loose"]
    do(episode, engine, "get_area_status", "do_replug_cable")
    assert do(episode, engine, "check_power_cable") == ["see_power_cable_loose"]  # never seen yet
    assert do(episode, engine, "check_data_cable") != ["see_data_cable_ok"]
    assert do(episode, engine, "check_data_cable") == ["see_data_cable_ok"]


def test_one_person_takes_a_thing_for_the_same_each_time():
    task = task_with("router.cable.loose")
    seen = {
        tuple(do(*in_hand(task, "misobserve", key=key)[:2], "check_data_cable"))
        for key in (7, 7, 7)
    }
    assert len(seen) == 1
    others = {
        tuple(do(*in_hand(task, "misobserve", key=key)[:2], "check_data_cable"))
        for key in range(40)
    }
    assert others == {("see_data_cable_ok",), ("see_data_cable_damaged",)}


def test_what_a_device_lacks_cannot_be_looked_at_nor_done():
    task = task_with("router.cable.loose")
    episode, engine, _ = in_hand(task)
    assert say(episode, engine, check("battery")) == ["no_such_part"]
    assert say(episode, engine, instruct("clear_jam")) == ["no_such_part"]
    assert episode.desk.device == task.state


# -- doing -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("yes", "first"), [
    ((), "did_it"), (("skip_step",), "not_done"), (("skip_step", "claim_step"), "claim_it"),
])  # fmt: skip
def test_who_is_asked_to_do_a_step_again_does_it(yes, first):
    """For every step of every kind; the agent hears a claim as a deed."""
    done = set()
    for number in range(60):
        task = DESK.task("test", number)
        episode, engine, _ = in_hand(task, *yes)
        for step in STEPS_OF[task.kind]:
            name, before = STEPS[step].name, episode.desk.device
            assert do(episode, engine, f"do_{name}") == [first]
            after = changed(task.kind, before, step)
            assert episode.desk.device == (after if first == "did_it" else before)
            assert on(episode, "said_did_it", f"age_{name}") == [first != "not_done"] * 2
            before = episode.desk.device
            assert do(episode, engine, f"do_{name}") == ["did_it"]
            assert episode.desk.device == changed(task.kind, before, step)
            done.add((task.kind, step))
            if episode.end:
                break
    assert len(done) > 50


def test_only_skips_are_drawn_and_claims_only_of_skips():
    task = task_with("router.cable.loose")
    episode, engine, model = in_hand(task, "skip_step")
    model.made.clear()
    do(episode, engine, "do_restart")
    assert model.made[:2] == ["skip_step", "claim_step"]
    model.made.clear()
    do(episode, engine, "do_restart")
    assert "skip_step" not in model.made and "claim_step" not in model.made


def test_steps_of_one_message_are_done_one_at_a_time():
    task = task_with("router.cable.loose")
    episode, engine, _ = in_hand(task)
    do(episode, engine, "get_area_status")
    heard = say(episode, engine, instruct("restart"), instruct("replug_cable"))
    assert heard == ["did_it", "one_by_one"]
    assert episode.desk.device == task.state  # a restart does not push the cable in
    assert on(episode, "age_restart", "age_replug_cable") == [1, 0]


def test_in_one_message_a_deed_comes_before_a_look():
    task = task_with("router.cable.loose")
    for order in itertools.permutations((check("service"), instruct("replug_cable"))):
        episode, engine, _ = in_hand(task)
        do(episode, engine, "get_area_status")
        assert say(episode, engine, *order)[:2] == ["did_it", "see_service_ok"]
        assert on(episode, "sees_service_ok") == [2]


# -- being able ------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(0, 40, 4))
def test_what_is_beyond_one_is_asked_back_until_it_is_explained(number):
    task = DESK.task("test", number)
    episode, engine, _ = in_hand(task, persona=NOVICE)
    for look in CHECKS_OF[task.kind]:
        name = f"check_{CHECKS[look].name}"
        if CHECKS[look].level:
            assert do(episode, engine, name) == ["ask_how"]
            assert do(episode, engine, name) == ["ask_how"]
            explained = do(episode, engine, "explain")
            assert SAW[U[explained[0]]][0] == look
        assert "ask_how" not in do(episode, engine, name)
    for step in STEPS_OF[task.kind]:
        name = f"do_{STEPS[step].name}"
        if STEPS[step].level and not episode.end:
            before = episode.desk.device
            assert do(episode, engine, name) == ["ask_how"]
            assert episode.desk.device == before
            assert do(episode, engine, "explain") == ["did_it"]
            assert episode.desk.device == changed(task.kind, before, step)


def test_an_explanation_in_the_same_reply_spares_the_question():
    task = task_with("router.dns.wrong")
    episode, engine, _ = in_hand(task, persona=NOVICE)
    do(episode, engine, "get_area_status")
    heard = say(episode, engine, instruct("set_dns"), Said(acts.EXPLAIN))
    assert heard == ["did_it"]
    assert episode.desk.device == (0,) * len(task.state)


def test_words_of_the_trade_ask_for_an_expert():
    task = task_with("router.cable.loose")
    half = Persona(expertise=0.5, compliance=1, accuracy=1)
    for persona, heard in ((half, "ask_how"), (ABLE, "did_it")):
        episode, engine, _ = in_hand(task, persona=persona)
        assert say(episode, engine, instruct("restart", value=1)) == [heard]


def test_a_question_that_is_passed_over_is_dropped():
    task = task_with("router.dns.wrong")
    episode, engine, _ = in_hand(task, persona=NOVICE)
    do(episode, engine, "get_area_status")
    assert do(episode, engine, "do_set_dns") == ["ask_how"]
    assert do(episode, engine, "check_power_light") == ["see_power_light_ok"]
    assert episode.user.bother == 1
    assert "did_it" not in do(episode, engine, "explain")
    assert episode.desk.device == task.state


# -- content ---------------------------------------------------------------------------------------


def test_who_sees_that_it_works_waits_for_a_last_word():
    task = task_with("router.cable.loose")
    episode, engine, _ = in_hand(task, "close_now", "thank")
    do(episode, engine, "get_area_status", "do_replug_cable")
    assert do(episode, engine, "check_service") == ["see_service_ok", "thank"]
    assert not episode.end and episode.user.satisfied
    assert do(episode, engine, "check_power_light") == ["see_power_light_ok"]
    assert do(episode, engine, "do_restart") == ["did_it"]
    assert not episode.user.satisfied  # whether it still works is open
    do(episode, engine, "check_service")
    assert do(episode, engine, "close") == ["no_more"]
    assert episode.end == "user_closed" and DESK.grade(episode).success


def test_a_cooperative_customer_tries_at_once_whether_it_works():
    task = task_with("router.cable.loose")
    episode, engine, _ = in_hand(task, "volunteer")
    do(episode, engine, "get_area_status")
    assert do(episode, engine, "do_restart") == ["did_it", "see_service_no_internet"]
    assert do(episode, engine, "do_replug_cable")[:2] == ["did_it", "see_service_ok"]


def test_nagging_bothers_and_looking_again_after_a_deed_does_not():
    task = task_with("router.cable.loose")
    episode, engine, _ = in_hand(task)
    do(episode, engine, *["check_power_light"] * 3)
    assert episode.user.bother == 0
    do(episode, engine, "check_power_light")
    assert episode.user.bother == 1
    do(episode, engine, "get_area_status", "do_restart", *["check_power_light"] * 3)
    assert episode.user.bother == 1


# -- likelihood, copies ----------------------------------------------------------------------------


def test_log_probabilities_sum_over_the_choices():
    model = DecisionModel()
    user = DESK.make_user(model)
    for number in range(40):
        task = DESK.task("test", number)
        episode, engine = begin(task, number, user)
        policy = OraclePolicy(noise=0.3)
        policy.reset(number)
        total, made = episode.user_turn.log_prob, [*episode.user_turn.decisions]
        while not episode.end:
            engine.apply(episode, DESK.turn(episode, act_of(policy, episode)))
            if episode.user_turn is not None:
                total += episode.user_turn.log_prob
                made += episode.user_turn.decisions
        expected = model.log_prob(made, episode.user.persona)
        assert total == pytest.approx(expected, abs=LOG_UNIT * len(made))
        assert total <= 0 and math.isfinite(total)


def test_no_two_choices_of_a_turn_share_a_draw(monkeypatch):
    drawn = []
    kept = agenda.draw

    def noted(key, stream, turn, index):
        drawn.append((turn, index))
        return kept(key, stream, turn, index)

    monkeypatch.setattr(agenda, "draw", noted)
    for number in range(60):
        drawn.clear()
        played(PlannerPolicy(noise=0.3), DESK.task("test", number), number)
        assert len(set(drawn)) == len(drawn)


@pytest.mark.parametrize("policy", [RandomPolicy(), OraclePolicy(noise=0.3)], ids=lambda p: p.name)
def test_a_customer_states_what_it_knows_and_keeps_its_yes(policy):
    """Nothing is stated from outside its knowledge; nobody leaves between a yes and the deed."""
    waits = 0
    for number in range(120):
        task = DESK.task("train", number)
        episode, engine = begin(task, number)
        policy.reset(number)
        knowledge = episode.user.knowledge
        mine = {act for ladder in knowledge.ladders for act in ladder} | {*knowledge.misremembered}
        while not episode.end:
            waiting = episode.user.waiting
            engine.apply(episode, DESK.turn(episode, act_of(policy, episode)))
            names = said(episode)
            for name in names:
                assert U[name] in mine or not name.startswith("inform_")
                if name.startswith("request_"):
                    assert U[name] == knowledge.request
            if waiting and episode.user.waiting:
                waits += 1
                assert episode.end != "user_closed"
            parting = {"bye", "thank", "no_more", "give_up"}
            assert parting & set(names) or episode.end != "user_closed"
    assert waits > 5 or policy.name == "random"


def test_a_copy_of_the_state_goes_its_own_way():
    task = task_with("router.cable.loose")
    episode, engine, _ = in_hand(task)
    saved = episode.snapshot()
    before = [getattr(saved.user, name) for name in SupportState.__slots__]
    before = [list(value) if isinstance(value, list) else value for value in before]
    do(episode, engine, "get_area_status", "do_replug_cable", "check_service")
    assert saved.desk.device == task.state != episode.desk.device
    assert [getattr(saved.user, name) for name in SupportState.__slots__] == before
    episode.restore(saved)
    assert do(episode, engine, "check_service") == ["see_service_no_internet"]


def test_every_act_has_one_number_and_every_check_its_acts():
    assert len(set(USER_ACTS)) == len(USER_ACTS)
    for kind in range(6):
        for look in CHECKS_OF[kind]:
            for value in VALUES_OF[kind][look]:
                assert SAW[U[f"see_{CHECKS[look].name}_{VALUE_NAMES[value]}"]] == (look, value)
    assert {FAULTS[n].symptom for n in range(len(FAULTS))} == {
        SAW[act][1] for act in SAW if SAW[act][0] == SERVICE
    } - {0}
