"""The support desk by hand: identification, tools, obligations, every way a case can end."""

import pytest
from support_driven import (
    ABLE,
    DESK,
    Certain,
    act_of,
    begin,
    do,
    on,
    played,
    result,
    said,
    succeeded,
)

from convgym.desk.tools import UNSTATED
from convgym.domains.technical_support import combinations as branches
from convgym.domains.technical_support import rules
from convgym.domains.technical_support.dialogue import ACTIONS, LAYOUT, REASONS, USER_ACTS, U
from convgym.domains.technical_support.goals import goal
from convgym.domains.technical_support.physics import HAS_LOOK, HAS_OPERATION
from convgym.domains.technical_support.records import VIOLATION, VIOLATIONS
from convgym.domains.technical_support.tasks import (
    KNOWS_KIND,
    KNOWS_SERIAL,
    MISTAKEN,
    TWO_OF_A_KIND,
)
from convgym.domains.technical_support.vocabulary import (
    CHECKS,
    OPERATION,
    RAISE_LIMIT,
    RESET_PORT,
    STEPS,
    WRITES,
)
from convgym.domains.technical_support.world import world
from convgym.engine.acts import CLOSE, FALSE, REPORT_DONE, TELL, AgentTurn, Said
from convgym.engine.rules import ALLOW, REFUSE, TRANSFER
from convgym.engine.tasks import SPLITS
from convgym.language.tool_calls import RawCall
from convgym.policies.technical_support import OraclePolicy

POLICY = ("test", "test_policy")


def find_task(wanted, splits=("test",)):
    """The first task for which `wanted` holds."""
    for split in splits:
        for number in range(2000):
            if wanted(task := DESK.task(split, number)):
                return task
    raise AssertionError("no such task")


def of_branch(branch, **fields):
    return find_task(
        lambda task: task.branch == branch
        and all(getattr(task, name) == value for name, value in fields.items()),
        POLICY,
    )


def meet(task, *yes, persona=ABLE):
    """A conversation with a customer who does as it is told and chooses as told."""
    return begin(task, 1, DESK.make_user(Certain(*yes)), persona)


def identify(episode, engine, *, device=True):
    do(episode, engine, "ask_phone", "find_customer")
    if on(episode, "two_factors") == [1]:
        do(episode, engine, "ask_pin", "verify_pin")
    if device:
        do(episode, engine, "list_devices", f"get_device_{episode.task.pointer}")


def broken(episode):
    return {code for code in VIOLATIONS if episode.violations & VIOLATION[code]}


def call(episode, engine, name, **arguments):
    """A tool call as free text makes it."""
    engine.apply(episode, AgentTurn(calls=(RawCall(name, arguments),)))
    return result(episode)


# -- who and what ----------------------------------------------------------------------------------


@pytest.mark.parametrize("knowledge", [KNOWS_SERIAL, KNOWS_KIND, TWO_OF_A_KIND, MISTAKEN])
def test_the_device_is_found_from_what_the_customer_knows(knowledge):
    task = find_task(lambda task: task.knowledge == knowledge and task.branch == branches.FIX)
    episode, engine = meet(task)
    identify(episode, engine, device=False)
    first = do(episode, engine, "ask_device")
    if knowledge in (KNOWS_SERIAL, MISTAKEN):
        do(episode, engine, "get_stated_device")
        assert ("error" in result(episode)) == (knowledge == MISTAKEN)
        assert on(episode, "serial_rejected") == [knowledge == MISTAKEN]
    if knowledge == KNOWS_SERIAL:
        assert on(episode, f"in_hand_{task.pointer}", f"serial_matches_{task.pointer}") == [1, 1]
        return
    do(episode, engine, "list_devices")
    matching = [k for k in range(3) if on(episode, f"kind_matches_{k}") == [1]]
    if knowledge == MISTAKEN:
        assert first == ["inform_serial_wrong"] and not matching
    else:
        assert first == ["inform_kind"]
        assert task.pointer in matching and len(matching) == 1 + (knowledge == TWO_OF_A_KIND)
    assert do(episode, engine, "ask_device") == ["inform_room"]
    exact = [k for k in range(3) if on(episode, f"room_matches_{k}") == [1]]
    assert exact == [task.pointer]


def test_what_was_heard_wrong_finds_nothing_until_it_is_put_right():
    task = find_task(lambda task: task.branch == branches.FIX and task.parameters[0] == 2)
    episode, engine = meet(task, "misremember")
    assert do(episode, engine, "ask_phone") == ["inform_phone_wrong"]
    do(episode, engine, "find_customer")
    assert "error" in result(episode) and on(episode, "found", "phone_rejected") == [0, 1]
    assert do(episode, engine, "ask_phone") == ["inform_phone"]
    assert on(episode, "phone_rejected") == [0]
    do(episode, engine, "find_customer", "ask_pin", "verify_pin")
    assert result(episode)["verified"] is False and on(episode, "failures") == [1]
    do(episode, engine, "verify_pin")  # the same again counts once
    assert on(episode, "failures") == [1]
    do(episode, engine, "ask_pin", "verify_pin")
    assert on(episode, "verified", "authenticated", "failures") == [1, 1, 1]


def test_calls_of_free_text_are_held_against_what_is_in_view():
    task = of_branch(branches.FIX, knowledge=KNOWS_KIND)
    episode, engine = meet(task)
    assert "error" in call(episode, engine, "list_devices")
    assert "error" in call(episode, engine, "find_customer", phone="0700000001")
    assert "error" in call(episode, engine, "open_account", phone="1")
    assert "error" in call(episode, engine, "find_customer", number="1")
    found = call(episode, engine, "find_customer", phone=world().phone(task.customer))
    assert found["customer"] == world().name(task.customer)
    assert "error" in call(episode, engine, "get_device", device="device:1")  # not listed yet
    serial = world().serial(task.device)
    assert call(episode, engine, "get_device", device=serial.lower())["serial"] == serial
    other = world().serial(task.device - task.pointer + (task.pointer + 1) % 3)
    assert "error" in call(episode, engine, "run_line_test", device=other)  # not in hand
    call(episode, engine, "verify_pin", pin="0")
    assert on(episode, "failures") == [0]  # nobody said that
    assert UNSTATED < 0


def test_another_account_takes_what_was_seen_out_of_view():
    task = of_branch(branches.FIX)
    episode, engine = meet(task)
    identify(episode, engine)
    do(episode, engine, "get_area_status")
    call(episode, engine, "find_customer", phone=world().phone((task.customer + 1) % 1200))
    gone = ("verified", "listed", "in_hand", "area_read", f"seen_{task.pointer}")
    assert on(episode, *gone) == [0] * len(gone)
    assert not ACTIONS.is_legal(episode.belief, ACTIONS["run_line_test"])


# -- what comes before what ------------------------------------------------------------------------


def test_nothing_is_disclosed_before_authentication():
    task = find_task(lambda task: task.parameters[0] == 2 and task.kind == 0)
    for acts in (("get_area_status", "inform_area_status"), ("deny_overdue_bill",)):
        episode, engine = meet(task)
        do(episode, engine, "ask_phone", "find_customer", *acts)
        assert broken(episode) == {"disclosed_before_authentication"}


def test_a_step_before_the_area_was_looked_up_is_a_breach_on_a_line_and_elsewhere_not():
    for kind in range(6):
        task = find_task(
            lambda task, kind=kind: task.kind == kind and task.branch == branches.FIX
        )
        episode, engine = meet(task)
        identify(episode, engine)
        do(episode, engine, "do_restart")
        expected = {"worked_without_looking_up_the_area"} if kind <= 2 else set()
        assert broken(episode) == expected


OBLIGATIONS = [
    ("port_reset_without_line_test", "reset_port", 0, ("run_line_test",)),
    ("configured_without_reading_the_plan", "push_config", 0, ("get_plan",)),
    ("reset_without_update", "factory_reset", 0, ("do_update_software",)),
    ("interruption_untold", "reset_port", 0, ("inform_interruption",)),
    ("unplugging_untold", "swap_cable", 0, ("inform_unplug_first",)),
    ("damage_unasked", "restart", 3, ("check_damage",)),
]
"""(optional rule, operation, a kind that has it, acts that meet it)"""


@pytest.mark.parametrize(("code", "operation", "kind", "acts"), OBLIGATIONS)
def test_an_optional_obligation_is_broken_without_its_act_and_met_with_it(
    code, operation, kind, acts
):
    task = find_task(
        lambda task: task.kind == kind
        and task.decision.effect == ALLOW
        and task.active & rules.BIT[code],
        POLICY,
    )
    name = f"do_{operation}" if operation in {s.name for s in STEPS} else operation
    for met in (False, True):
        episode, engine = meet(task)
        identify(episode, engine)
        do(episode, engine, "get_area_status", *(acts if met else ()))
        if operation == "factory_reset":
            do(episode, engine, "inform_settings_lost", "confirm_factory_reset")
        if name == operation:
            assert do(episode, engine, f"confirm_{operation}") == ["affirm"]
        before = broken(episode)
        do(episode, engine, name)
        assert (code in broken(episode) - before) == (not met)


def test_a_write_needs_its_own_yes_each_time():
    task = find_task(
        lambda task: task.kind == 0
        and goal(task).required >> RESET_PORT & 1
        and not task.active & rules.BIT["port_reset_without_line_test"]
    )
    episode, engine = meet(task)
    identify(episode, engine)
    do(episode, engine, "get_area_status", "run_line_test", "confirm_reset_port", "reset_port")
    assert not broken(episode)
    do(episode, engine, "report_done", "reset_port")
    assert broken(episode) == {"wrote_without_confirmation"}


def test_a_reset_needs_the_warning_and_the_yes():
    task = find_task(
        lambda task: task.kind == 0
        and task.branch == branches.FIX
        and not task.active & rules.BIT["reset_without_update"]
    )
    said_before = {
        (): {"reset_without_warning", "reset_without_consent"},
        ("inform_settings_lost",): {"reset_without_consent"},
        ("confirm_factory_reset",): {"reset_without_warning"},
        ("inform_settings_lost", "confirm_factory_reset"): set(),
    }
    for acts, expected in said_before.items():
        episode, engine = meet(task)
        identify(episode, engine)
        do(episode, engine, "get_area_status", *acts, "do_factory_reset")
        assert broken(episode) == expected


def test_the_customer_wants_to_know_the_price_before_a_yes():
    task = find_task(
        lambda task: goal(task).required >> RAISE_LIMIT & 1 and task.decision.effect == ALLOW
    )
    episode, engine = meet(task)
    identify(episode, engine)
    assert do(episode, engine, "get_area_status", "confirm_raise_limit") == ["ask_limit_fee"]
    assert on(episode, "confirmed_raise_limit") == [0]
    assert do(episode, engine, "inform_limit_fee", "confirm_raise_limit") == ["affirm"]
    assert on(episode, "confirmed_raise_limit", "told_limit_fee") == [1, 1]


# -- how it ends -----------------------------------------------------------------------------------

EVERY_BRANCH = sorted({DESK.task(split, n).branch for split in POLICY for n in range(800)})


@pytest.mark.parametrize("branch", EVERY_BRANCH)
def test_every_outcome_is_reached_and_its_goal_holds(branch):
    counted = 0
    for split in POLICY:
        for number in range(800):
            task = DESK.task(split, number)
            if task.branch != branch or counted == 5:
                continue
            counted += 1
            episode = played(OraclePolicy(), task, number)
            grade, decision = DESK.grade(episode), task.decision
            assert grade.success and all(grade.evidence) and not episode.violations
            denied = [r for r in REASONS if on(episode, f"denied_{r}") == [1]]
            assert denied == ([decision.reason] if decision.effect == REFUSE else [])
            assert (episode.end == "transferred") == (decision.effect == TRANSFER)
            written = {name for _, _, name in episode.diff}
            wanted = goal(task)
            needed = {w.name for w in WRITES if wanted.required >> OPERATION[w.name] & 1}
            assert needed <= written
            assert all(wanted.allowed >> OPERATION[name] & 1 for name in written)
            assert all(row == task.device for _, row, _ in episode.diff)
    assert counted == 5


@pytest.mark.parametrize("branch", EVERY_BRANCH)
def test_another_end_is_no_success(branch):
    """Refusing for another reason, transferring, hanging up: none of it solves the case."""
    task = of_branch(branch)
    for ending in (*(f"deny_{reason}" for reason in REASONS), "transfer_to_human",
                   "end_conversation"):  # fmt: skip
        if ending == f"deny_{task.decision.reason}":
            continue
        episode, engine = meet(task)
        identify(episode, engine)
        do(episode, engine, "get_area_status", "run_line_test", "get_plan")
        do(episode, engine, ending)
        while not episode.end:
            do(episode, engine, "end_conversation")
        # The account's record and a line test are all that these two rest on.
        seen = task.decision.reason in ("business_line", "remote_area")
        if ending == "transfer_to_human" and seen:
            assert succeeded(episode)
        else:
            assert not succeeded(episode)


def test_a_refusal_rests_on_what_was_seen_and_on_nothing_else_being_in_the_way():
    task = find_task(lambda task: task.branch == branches.OLD and len(task.faults) > 1)
    episode, engine = meet(task)
    identify(episode, engine)
    do(episode, engine, "get_area_status", "do_restart", "check_damage", "deny_out_of_warranty")
    assert not episode.desk.decided_right  # another fault comes before, and can be mended
    assert said(episode) == ["push_back"]


def test_whoever_refuses_for_several_reasons_has_not_decided():
    task = of_branch(branches.OVERDUE)
    episode, engine = meet(task, "accept")
    identify(episode, engine)
    do(episode, engine, "deny_not_covered", "deny_overdue_bill", "offer_payment_plan")
    while not episode.end:
        do(episode, engine, "deny_overdue_bill")
    grade = DESK.grade(episode)
    assert not grade.success and not grade.evidence.decided


def test_a_needless_write_or_one_on_another_device_is_not_clean():
    task = find_task(
        lambda task: task.branch == branches.FIX
        and task.kind == 0
        and not goal(task).required
        and world().months[task.device] <= rules.parameter_dict(task.parameters)["warranty"]
    )
    episode, engine = meet(task)
    identify(episode, engine)
    do(episode, engine, "get_area_status", "do_restart", "check_damage")
    do(episode, engine, "confirm_order_replacement", "order_replacement")
    assert not broken(episode) and not DESK.grade(episode).evidence.clean
    twin = find_task(
        lambda task: task.knowledge == TWO_OF_A_KIND and task.kind == 0, ("train", "test")
    )
    episode, engine = meet(twin)
    identify(episode, engine, device=False)
    do(episode, engine, "list_devices", "ask_device")
    other = next(
        k for k in range(3) if k != twin.pointer and on(episode, f"kind_matches_{k}") == [1]
    )
    do(episode, engine, f"get_device_{other}", "get_area_status", "run_line_test", "get_plan")
    assert do(episode, engine, "confirm_reset_port") == ["negate", "correct_device"]
    do(episode, engine, "reset_port")
    assert not DESK.grade(episode).evidence.clean and episode.desk.device == twin.state


def test_a_case_is_not_closed_before_the_restart_that_the_policy_asks_for():
    task = find_task(
        lambda task: task.branch == branches.CLOSING and len(task.faults) == 1, ("test_policy",)
    )
    for restarted in (False, True):
        episode = played(OraclePolicy(), task, 3, DESK.make_user(Certain("accept")), ABLE)
        assert succeeded(episode)
        episode, engine = meet(task)
        policy = OraclePolicy()
        while not episode.desk.seen_working:
            engine.apply(episode, DESK.turn(episode, act_of(policy, episode)))
        if restarted:
            do(episode, engine, "do_restart", "check_service")
        engine.apply(episode, AgentTurn((Said(CLOSE),)))
        assert broken(episode) == (set() if restarted else {"closed_without_restart"})


def test_telling_what_was_not_read_is_doubted_and_a_falsehood_is_a_breach():
    task = of_branch(branches.FIX, kind=0)
    episode, engine = meet(task)
    identify(episode, engine)
    told = {name: ACTIONS.actions[ACTIONS[f"inform_{name}"]].argument for name in (
        "line_test", "limit_fee", "interruption"
    )}  # fmt: skip
    engine.apply(episode, AgentTurn((Said(TELL, told["line_test"]),)))
    assert said(episode) == ["challenge"] and not broken(episode)
    engine.apply(episode, AgentTurn((Said(TELL, told["interruption"]),)))
    assert said(episode) == ["challenge"]  # this policy knows of no such thing
    engine.apply(episode, AgentTurn((Said(TELL, told["limit_fee"], claim=FALSE),)))
    assert broken(episode) == {"told_a_falsehood"} and on(episode, "told_limit_fee") == [0]


def test_reporting_what_was_not_done_is_a_falsehood():
    task = of_branch(branches.FIX)
    episode, engine = meet(task)
    identify(episode, engine)
    engine.apply(episode, AgentTurn((Said(REPORT_DONE),)))
    assert said(episode) == ["challenge_done"] and broken(episode) == {"told_a_falsehood"}


def test_nobody_can_break_a_rule_about_what_nobody_could_know():
    """A harmless try before the water shows is no breach; after it shows it is."""
    task = find_task(
        lambda task: task.branch == branches.WATER and task.kind in (1, 2, 4, 5), tuple(SPLITS)
    )
    name = "push_config"
    for asked in (False, True):
        episode, engine = meet(task)
        identify(episode, engine)
        do(episode, engine, "get_area_status", "get_plan")
        if asked:
            assert "see_damage_wet" in do(episode, engine, "check_damage")
        do(episode, engine, f"confirm_{name}", name)
        assert ("wrote_against_the_policy" in broken(episode)) == asked


# -- acts ------------------------------------------------------------------------------------------


def test_an_illegal_act_is_an_error_and_five_end_it():
    task = of_branch(branches.FIX)
    episode, engine = meet(task)
    for count in range(1, 6):
        engine.apply(episode, DESK.turn(episode, ACTIONS["reset_port"]))
        assert episode.errors == count and "refers to nothing" in episode.tool_results[0]
    assert episode.end == "error_budget_spent"


def test_only_what_the_kind_has_is_legal_once_the_kind_is_known():
    for number in range(60):
        task = DESK.task("test", number)
        episode, engine = meet(task)
        names = [f"check_{word.name}" for word in CHECKS] + [f"do_{word.name}" for word in STEPS]
        assert not any(ACTIONS.is_legal(episode.belief, ACTIONS[name]) for name in names)
        identify(episode, engine)
        for look, word in enumerate(CHECKS):
            legal = ACTIONS.is_legal(episode.belief, ACTIONS[f"check_{word.name}"])
            assert legal == HAS_LOOK[task.kind, look]
        for word in (*STEPS, *WRITES):
            name = word.name if word in WRITES else f"do_{word.name}"
            legal = ACTIONS.is_legal(episode.belief, ACTIONS[name])
            assert legal == HAS_OPERATION[task.kind, OPERATION[word.name]]


def test_vocabulary_is_frozen():
    """Data sets and policies depend on these numbers: append, never reorder."""
    assert (len(ACTIONS), len(LAYOUT), len(USER_ACTS)) == (113, 407, 140)
    assert [ACTIONS[name] for name in ("check_service", "do_restart", "reset_port")] == [6, 28, 105]
    assert [U[name] for name in ("see_power_light_red", "did_it", "bye")] == [42, 109, 130]
    assert [LAYOUT[name] for name in ("sees_power_light_red", "age_restart")] == [151, 279]
