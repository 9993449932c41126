"""Devices behave as declared: tables against a slow reading of the declaration, and laws."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convgym.domains.technical_support import diagnosis, handling
from convgym.domains.technical_support.combinations import meeting
from convgym.domains.technical_support.devices import DEVICES
from convgym.domains.technical_support.diagnosis import WORKS, bit, nothing_known
from convgym.domains.technical_support.faults import (
    COMPONENTS,
    FAULT,
    FAULTS,
    OF_KIND,
    WORKING,
    break_device,
)
from convgym.domains.technical_support.physics import (
    CHECKS_OF,
    LOOKS_OF,
    NEEDS,
    OPERATIONS_OF,
    STEPS_OF,
    VALUES_OF,
    do,
    do_batch,
    observe,
    observe_batch,
    settled,
    works,
)
from convgym.domains.technical_support.vocabulary import (
    BOOKINGS,
    CANNOT_TELL,
    CHECKS,
    FIRST_READ,
    FIRST_WRITE,
    KINDS,
    LOCAL,
    LOOK,
    LOOKS,
    NOT_THERE,
    OK,
    OPERATION,
    OPERATIONS,
    ROUTER,
    SERVICE,
    STEPS,
    SYMPTOMS,
    VALUE,
    VALUE_NAMES,
    WRITES,
    plain_words,
)
from convgym.engine.keys import below

every_kind = pytest.mark.parametrize("kind", range(len(KINDS)), ids=KINDS)
every_fault = pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.code)

# -- the slow, obvious second version: names and dictionaries, straight from the declaration -------


def named(kind, state):
    """The broken components of an integer state, by name, with the names of their states."""
    return {
        DEVICES[kind].components[FAULTS[n].component].name: FAULTS[n].name
        for n in OF_KIND[kind]
        if state[FAULTS[n].component] == FAULTS[n].state
    }


def comes_after(kind, component):
    """Everything that a component needs, at any distance."""
    direct = next(c.after for c in DEVICES[kind].components if c.name == component)
    return {*direct, *(far for near in direct for far in comes_after(kind, near))}


def slow_observe(kind, broken, look):
    device, order = DEVICES[kind], [c.name for c in DEVICES[kind].components]
    if look == "service":
        for component in order:
            for item in device.breaks:
                if (item.component, item.state) == (component, broken.get(component)):
                    return item.symptom
        return "ok"
    sights = [sight for sight in device.sights if sight.look == look]
    if not sights:
        return "not_there"
    (sight,) = sights
    about = {target.split(".")[0] for target in sight.shows}
    for component in order:
        if component not in broken:
            continue
        if f"{component}.{broken[component]}" in sight.shows:
            return sight.shows[f"{component}.{broken[component]}"]
        if component in sight.shows:
            return sight.shows[component]
        if component not in about and sight.masked:
            if any(component in comes_after(kind, seen) for seen in about):
                return sight.masked
    return "ok"


def slow_do(kind, broken, operation):
    device, after = DEVICES[kind], dict(broken)

    def all_work(needs):
        return not any(
            name in broken for need in needs for name in {need, *comes_after(kind, need)}
        )

    for item in device.breaks:
        if broken.get(item.component) != item.state:
            continue
        for fix in item.fixes:
            needs = comes_after(kind, item.component) if fix.needs is None else fix.needs
            if fix.operation == operation and all_work(needs):
                del after[item.component]
    for side in device.side_effects:
        if side.step == operation and side.component not in broken and all_work(side.needs):
            after[side.component] = side.state
    return after


@st.composite
def devices(draw):
    """A kind, and a state with any number of broken components."""
    kind = draw(st.integers(0, len(KINDS) - 1))
    state = WORKING
    for number in draw(st.lists(st.sampled_from(OF_KIND[kind]), max_size=6)):
        if FAULTS[number].holds(state):
            state = FAULTS[number].break_(state)
    return kind, state


looks = st.integers(0, len(LOOKS) - 1)
operations = st.integers(0, len(OPERATIONS) - 1)


@given(devices(), looks, operations)
@settings(max_examples=500, deadline=None)
def test_the_tables_are_the_declaration(device, look, operation):
    kind, state = device
    shown = VALUE_NAMES[observe(kind, state, look)]
    assert shown == slow_observe(kind, named(kind, state), LOOKS[look].name)
    after = do(kind, state, operation)
    assert named(kind, after) == slow_do(kind, named(kind, state), OPERATIONS[operation].name)


@given(st.lists(st.tuples(devices(), looks, operations), min_size=1, max_size=20))
@settings(max_examples=150, deadline=None)
def test_a_batch_of_devices_is_as_many_single_ones(rows):
    kinds = np.array([kind for (kind, _), _, _ in rows])
    states = np.array([state for (_, state), _, _ in rows])
    seen = observe_batch(kinds, states, np.array([look for _, look, _ in rows]))
    after = do_batch(kinds, states, np.array([operation for _, _, operation in rows]))
    for row, ((kind, state), look, operation) in enumerate(rows):
        assert seen[row] == observe(kind, state, look)
        assert tuple(after[row]) == do(kind, state, operation)


# -- sizes -----------------------------------------------------------------------------------------


def test_there_is_enough_of_everything():
    assert len(KINDS) >= 5
    assert len(FAULTS) == len(FAULT) >= 44
    assert min(len(faults) for faults in OF_KIND) >= 8
    assert 16 <= len(CHECKS) <= 22 and 20 <= len(STEPS) <= 28
    held = Counter(fault.kind for fault in FAULTS if fault.held_out)
    assert sum(held.values()) >= 8 and set(held) == set(range(len(KINDS)))
    assert all(fault.component < COMPONENTS for fault in FAULTS)


def test_every_word_is_used_and_said_in_three_ways():
    assert {look for row in LOOKS_OF for look in row} == set(range(len(LOOKS)))
    assert {op for row in OPERATIONS_OF for op in row} == set(range(len(OPERATIONS)))
    shown = {value for row in VALUES_OF for values in row for value in values}
    assert shown | {CANNOT_TELL, NOT_THERE} == set(range(len(VALUE_NAMES)))
    for word in (*LOOKS, *OPERATIONS):
        assert word.plain and word.technical and word.explanation.endswith((".", "?"))
    assert len({word.name for word in (*LOOKS, *OPERATIONS)}) == len(LOOKS) + len(OPERATIONS)
    for (kind, name), words in LOCAL.items():
        number = KINDS.index(kind)
        word = next(word for word in (*CHECKS, *STEPS) if word.name == name)
        assert plain_words(number, word) == words != word.plain
        there = LOOK[name] in CHECKS_OF[number] if word in CHECKS else False
        assert there or OPERATION[name] in STEPS_OF[number]
    assert any(word.level for word in CHECKS) and any(word.level for word in STEPS)


@every_kind
def test_a_symptom_leaves_several_faults_open(kind):
    symptoms = Counter(FAULTS[number].symptom for number in OF_KIND[kind])
    assert {VALUE_NAMES[value] for value in symptoms} <= set(SYMPTOMS)
    alone = sum(1 for count in symptoms.values() if count == 1)
    assert alone <= 2 and max(symptoms.values()) >= 3


# -- break, fix, holds -----------------------------------------------------------------------------


@every_fault
def test_break_fix_and_holds(fault):
    broken = fault.break_(WORKING)
    assert works(WORKING) and not works(broken)
    assert fault.holds(WORKING) and not fault.holds(broken)
    assert observe(fault.kind, WORKING, SERVICE) == OK
    assert observe(fault.kind, broken, SERVICE) == fault.symptom
    for operation in range(len(OPERATIONS)):
        mended = fault.holds(do(fault.kind, broken, operation))
        assert mended == (operation in fault.fixes)
    assert not fault.fixes or fault.remedy < 0
    assert set(fault.fixes).isdisjoint(BOOKINGS)
    for booking in BOOKINGS:
        assert do(fault.kind, broken, booking) == broken
        assert settled(fault.kind, broken, 1 << booking) == (booking == fault.remedy)
    assert not settled(fault.kind, broken, 0) and settled(fault.kind, WORKING, 0)


def test_some_faults_are_left_to_the_agent_and_some_to_nobody():
    writes = [fault for fault in FAULTS if fault.fixes and min(fault.fixes) >= FIRST_WRITE]
    assert {op for fault in writes for op in fault.fixes} >= {
        OPERATION[name] for name in ("reset_port", "push_config", "unlock_sim", "raise_limit")
    }
    assert {fault.remedy for fault in FAULTS} == {-1, *BOOKINGS}
    stuck = {fault.name for fault in FAULTS if not fault.fixes and fault.remedy < 0}
    assert stuck == {"wet", "outage"}
    assert sum(1 for fault in FAULTS if fault.name == "wet") == len(KINDS)


@every_fault
def test_what_a_fix_needs_comes_earlier(fault):
    for operation in fault.fixes:
        needs = int(NEEDS[fault.kind, operation, fault.component, fault.state])
        assert needs >> fault.component == 0


def test_reads_are_the_agents_and_change_nothing():
    assert {LOOKS[look].name for look in range(FIRST_READ, len(LOOKS))} == {
        "line_test",
        "plan_read",
        "area_status",
    }
    assert len(OPERATIONS) - FIRST_WRITE == len(WRITES) == 6


# -- causal order, masking, side effects: worked by hand -------------------------------------------


def router(*codes):
    return break_device(tuple(FAULT[f"router.{code}"] for code in codes))


def look_at(state, name, kind=ROUTER):
    return VALUE_NAMES[observe(kind, state, LOOK[name])]


def done(state, name, kind=ROUTER):
    return do(kind, state, OPERATION[name])


def test_an_update_does_nothing_while_the_line_is_down():
    state = router("line.port", "software.old")
    assert done(state, "update_software") == state
    state = done(done(state, "reset_port"), "update_software")
    assert works(state)


def test_without_power_no_light_says_anything():
    state = router("power.loose", "cable.damaged", "dns.wrong")
    dark = {"power_light": "off", "wifi_light": "off", "signal": "off", "wifi_name": "absent"}
    assert {name: look_at(state, name) for name in dark} == dark
    assert look_at(state, "data_cable") == "damaged", "a cable is seen in the dark"
    state = done(state, "replug_power")
    assert look_at(state, "power_light") == "ok" and look_at(state, "service") == "no_internet"


def test_with_the_line_down_nobody_sees_the_name_server():
    assert look_at(router("dns.wrong"), "network_settings") == "wrong"
    assert look_at(router("line.port"), "network_settings") == "absent"
    assert look_at(router("line.port", "dns.wrong"), "network_settings") == "absent"


def test_a_loose_cable_looks_like_a_broken_line_from_the_desk():
    for code in ("cable.loose", "cable.damaged", "line.broken", "line.outage"):
        assert look_at(router(code), "line_test") == "no_answer"
    assert look_at(router("line.port"), "line_test") == "port_error"
    assert look_at(router("cable.loose", "line.port"), "line_test") == "no_answer"
    assert look_at(router("line.outage"), "area_status") == "outage"


def test_a_factory_reset_makes_another_step_necessary():
    state = done(router("software.corrupt"), "factory_reset")
    assert look_at(state, "service") == "no_wifi" and not works(state)
    assert works(done(state, "enter_settings"))
    box = KINDS.index("tv_box")
    state = done(break_device((FAULT["tv_box.software.corrupt"],)), "factory_reset", box)
    for step in ("enter_password", "sign_in", "search_channels"):
        assert not works(state)
        state = done(state, step, box)
    assert works(state)


def test_a_reset_button_is_dead_without_power():
    state = router("power.off", "software.corrupt")
    assert done(state, "factory_reset") == state


def test_a_restart_brings_back_what_hangs_and_not_what_is_dead():
    hung, dead = router("unit.hung"), router("unit.dead")
    assert look_at(hung, "power_light") == look_at(dead, "power_light") == "red"
    assert works(done(hung, "restart"))
    assert done(dead, "restart") == dead


@given(devices(), looks)
@settings(max_examples=300, deadline=None)
def test_the_first_broken_component_makes_the_symptom(device, look):
    kind, state = device
    first = next((place for place, value in enumerate(state) if value), COMPONENTS)
    shorn = tuple(value if place == first else 0 for place, value in enumerate(state))
    assert observe(kind, state, SERVICE) == observe(kind, shorn, SERVICE)


# -- how people handle it --------------------------------------------------------------------------

flags = st.booleans()
drawn = st.integers(0, 2**32 - 1)


@given(devices(), st.integers(0, len(STEPS) - 1), st.integers(0, 2), flags, flags)
@settings(max_examples=300, deadline=None)
def test_only_a_step_that_is_done_changes_anything(device, step, able, skips, claims):
    kind, state = device
    outcome, after = handling.attempt(kind, state, step, able, skips=skips, claims=claims)
    assert (outcome == handling.IMPOSSIBLE) == (step not in STEPS_OF[kind])
    assert after == (do(kind, state, step) if outcome == handling.DONE else state)
    if outcome in (handling.DONE, handling.LEFT):
        assert able != handling.UNABLE and skips == (outcome == handling.LEFT)
    if outcome == handling.CLAIMED:
        assert skips and claims


@given(devices(), st.integers(0, len(CHECKS) - 1), st.integers(0, 2), flags, flags, drawn)
@settings(max_examples=300, deadline=None)
def test_who_sees_wrong_says_something_else_that_could_be(
    device, check, able, cannot, wrong, chance
):
    kind, state = device
    truth = observe(kind, state, check)
    outcome, value = handling.sight(
        kind, state, check, able, cannot=cannot, wrong=wrong, drawn=chance
    )
    if LOOKS[check].name in ("service", "damage") or check not in CHECKS_OF[kind]:
        assert (outcome, value) == (handling.SEEN, truth)
    elif able == handling.UNABLE:
        assert (outcome, value) == (handling.ASKS, CANNOT_TELL)
    elif cannot and able == handling.ABLE:
        assert (outcome, value) == (handling.UNCLEAR, CANNOT_TELL)
    elif wrong:
        others = [other for other in VALUES_OF[kind][check] if other != truth]
        assert (outcome, value) == (handling.MISSEEN, others[below(chance, len(others))])
    else:
        assert (outcome, value) == (handling.SEEN, truth)


def test_an_explanation_makes_up_for_expertise():
    assert handling.ability(60, 20, False) == handling.UNABLE
    assert handling.ability(60, 60, False) == handling.ABLE
    assert handling.ability(60, 20, True) == handling.EXPLAINED
    levels, expertise = np.array([60, 60, 0, 30]), np.array([20, 60, 0, 29])
    explained = np.array([False, False, False, True])
    batch = handling.ability_batch(levels, expertise, explained)
    assert batch.tolist() == [
        handling.ability(int(level), int(own), bool(told))
        for level, own, told in zip(levels, expertise, explained, strict=True)
    ]
    state = router("dns.wrong")
    step = OPERATION["set_dns"]
    outcome, after = handling.attempt(ROUTER, state, step, 0, skips=False, claims=False)
    assert (outcome, after) == (handling.NEEDS_HELP, state)


@given(st.lists(st.tuples(devices(), st.data()), min_size=1, max_size=12))
@settings(max_examples=60, deadline=None)
def test_a_batch_of_people_is_as_many_single_ones(rows):
    kinds = np.array([kind for (kind, _), _ in rows])
    states = np.array([state for (_, state), _ in rows])
    steps = [data.draw(st.integers(0, len(STEPS) - 1)) for _, data in rows]
    checks = [data.draw(st.integers(0, len(CHECKS) - 1)) for _, data in rows]
    able = [data.draw(st.integers(0, 2)) for _, data in rows]
    first = [data.draw(st.integers(0, 1)) for _, data in rows]
    second = [data.draw(st.integers(0, 1)) for _, data in rows]
    chance = [data.draw(drawn) for _, data in rows]
    arrays = [np.array(column) for column in (steps, checks, able, first, second)]
    outcomes, after = handling.attempt_batch(
        kinds, states, arrays[0], arrays[2], arrays[3], arrays[4]
    )
    seen, values = handling.sight_batch(
        kinds, states, arrays[1], arrays[2], arrays[3], arrays[4], np.array(chance, np.uint64)
    )
    for n, ((kind, state), _) in enumerate(rows):
        one, two = bool(first[n]), bool(second[n])
        single = handling.attempt(kind, state, steps[n], able[n], skips=one, claims=two)
        assert single == (outcomes[n], tuple(after[n]))
        looked = handling.sight(
            kind, state, checks[n], able[n], cannot=one, wrong=two, drawn=chance[n]
        )
        assert looked == (seen[n], values[n])


# -- diagnosis -------------------------------------------------------------------------------------


def first_fault(kind, state):
    present = [n for n in OF_KIND[kind] if state[FAULTS[n].component] == FAULTS[n].state]
    return bit(kind, present[0]) if present else WORKS


@given(devices(), st.lists(st.tuples(st.booleans(), looks, operations), max_size=25))
@settings(max_examples=400, deadline=None)
def test_true_observations_never_exclude_the_truth(device, story):
    kind, state = device
    known = nothing_known(kind)
    for looking, look, operation in story:
        if looking and look in LOOKS_OF[kind]:
            known = diagnosis.saw(kind, known, look, observe(kind, state, look))
        elif operation in OPERATIONS_OF[kind]:
            state = do(kind, state, operation)
            known = diagnosis.did(kind, known, operation)
        assert known.suspects & first_fault(kind, state)
        for number in OF_KIND[kind]:
            if state[FAULTS[number].component] == FAULTS[number].state:
                assert not known.absent & bit(kind, number)


@given(devices(), st.lists(st.tuples(looks, operations, st.booleans()), max_size=12))
@settings(max_examples=200, deadline=None)
def test_a_step_that_was_only_said_to_be_done_misleads_nobody_who_is_not_sure(device, story):
    kind, state = device
    known = nothing_known(kind)
    for look, operation, really in story:
        if look in LOOKS_OF[kind]:
            known = diagnosis.saw(kind, known, look, observe(kind, state, look))
        if operation in OPERATIONS_OF[kind]:
            state = do(kind, state, operation) if really else state
            known = diagnosis.did(kind, known, operation, sure=False)
        assert known.suspects & first_fault(kind, state)


def test_a_wrong_report_is_dropped_when_it_contradicts():
    power = [bit(ROUTER, FAULT[f"router.power.{name}"]) for name in ("loose", "off")]
    dead = diagnosis.saw(ROUTER, nothing_known(ROUTER), SERVICE, VALUE["dead"])
    assert dead.suspects == sum(power) and dead.symptom == VALUE["dead"]
    known = diagnosis.saw(ROUTER, dead, LOOK["power_light"], OK)  # not true of a dead router
    assert known.suspects == sum(power), "the symptom is trusted"
    known = diagnosis.saw(ROUTER, dead, LOOK["power_cable"], VALUE["loose"])
    assert known.suspects == power[0]
    known = diagnosis.saw(ROUTER, known, LOOK["power_switch"], VALUE["off"])
    assert known.suspects == power[1], "the later report counts"
    assert diagnosis.saw(ROUTER, known, LOOK["screen"], NOT_THERE) == known
    assert diagnosis.saw(ROUTER, known, LOOK["power_light"], CANNOT_TELL) == known


def plain_diagnosis(kind, state):
    """Moves until the end, doing everything right away."""
    known = diagnosis.saw(kind, nothing_known(kind), SERVICE, observe(kind, state, SERVICE))
    for moves in range(40):
        move = diagnosis.next_move(kind, known)
        if move.kind == diagnosis.LOOKING:
            known = diagnosis.saw(kind, known, move.number, observe(kind, state, move.number))
        elif move.kind == diagnosis.DOING:
            state = do(kind, state, move.number)
            known = diagnosis.did(kind, known, move.number)
        else:
            return move, state, moves
    raise AssertionError("it goes round in circles")


@every_kind
def test_whatever_meets_on_a_device_is_found(kind):
    lengths = []
    for faults in meeting(kind):
        move, state, moves = plain_diagnosis(kind, break_device(faults))
        last = FAULTS[faults[-1]]
        lengths.append(moves)
        if last.mendable:
            assert move.kind == diagnosis.DONE and works(state)
        elif last.remedy >= 0:
            assert move == (diagnosis.BOOKING, last.remedy)
            assert settled(kind, state, 1 << last.remedy)
        else:
            assert move.kind == {"wet": diagnosis.WATER, "outage": diagnosis.OUT}[last.name]
    assert np.mean(lengths) < 4 * 3 and max(lengths) <= 25
