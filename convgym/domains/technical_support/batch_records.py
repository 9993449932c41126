"""`convgym.domains.technical_support.records` on rows: the device, what was seen, the rules.

Every function stands under the name of the one it repeats; `T` is the record of `tables()`, `e` an
episode's, `task` a task's, `b` a row of the belief.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from convgym.domains.technical_support import cells
from convgym.domains.technical_support.batch_tables import (
    ABOVE,
    AFTER_DAMAGE,
    AFTER_SEEN,
    AGE,
    AT_LEAST,
    AT_MOST,
    BELOW,
    CAN,
    CONFIRMED,
    DAMAGE,
    EQUAL,
    FACT,
    FIRST_BOOKING,
    FIRST_DAMAGE,
    FIRST_SEEN,
    IN_HAND_OF,
    KIND,
    KIND_MATCHES,
    LOOKED,
    OF_DEVICE,
    READ_DEVICE,
    RECORD_FACTS,
    ROOM_MATCHES,
    SEEN_DEVICE,
    SERIAL_MATCHES,
    SOLVED,
    TOLD_CELL,
)
from convgym.domains.technical_support.dialogue import FRESH, MOST_COUNTED, STALE
from convgym.domains.technical_support.facts import NEVER, TOLD
from convgym.domains.technical_support.faults import COMPONENTS
from convgym.domains.technical_support.records import UPDATE
from convgym.domains.technical_support.vocabulary import (
    AREA_STATUS,
    FIRST_READ,
    FIRST_WRITE,
    KINDS,
    LINE_TEST,
    LOOK,
    LOOKS,
    NOT_THERE,
    OK,
    OPERATIONS,
    PLAN_READ,
    RESTART,
    VALUE,
)
from convgym.domains.technical_support.world import DEVICES_EACH
from convgym.engine.batch import Cells
from convgym.engine.kernel import kernel

_KINDS, _OPERATIONS, _TERMS = len(KINDS), len(OPERATIONS), len(TOLD)
_CAN = len(LOOKS) + len(OPERATIONS)
_AREA_OUT = cells.SEES[AREA_STATUS, VALUE["outage"]]
_WET = cells.SEES[DAMAGE, VALUE["wet"]]
_PLAN_READ, _AREA_READ = cells.SHOWN_BY[PLAN_READ], cells.SHOWN_BY[AREA_STATUS]
_LINE_TESTED, _DAMAGE_CHECKED = cells.SHOWN_BY[LINE_TEST], cells.SHOWN_BY[DAMAGE]
_CABLE_CHECKED = cells.SHOWN_BY[LOOK["data_cable"]]
_TOLD_FACT = FACT.told_limit_fee
_OF_ACCOUNT = 1 << FACT.plan | 1 << FACT.area | 1 << FACT.overdue
_OF_DEVICE = (
    1 << FACT.kind | 1 << FACT.model | 1 << FACT.third_party | 1 << FACT.months | 1 << FACT.replaced
)
assert FACT[_TOLD_FACT : _TOLD_FACT + _TERMS] == tuple(getattr(FACT, f"told_{n}") for n in TOLD)


@kernel
def violate(e: Any, bit: int) -> None:
    """Mark a broken obligation."""
    e.violations |= bit


# -- the one device --------------------------------------------------------------------------------


@kernel
def observe(T: Any, e: Any, kind: int, look: int) -> int:
    """What a check or read shows of the device now; `NOT_THERE` without it."""
    if not T.has_look[kind, look]:
        return NOT_THERE
    for place in range(COMPONENTS):
        value = T.shows[kind, look, place, e.device[place]]
        if value >= 0:
            return value
    return OK


@kernel
def works(e: Any) -> bool:
    """Whether every component does."""
    return first_broken(e) < 0


@kernel
def first_broken(e: Any) -> int:
    """The component that makes the symptom; -1 where all works."""
    for place in range(COMPONENTS):
        if e.device[place]:
            return place
    return -1


@kernel
def act_on(T: Any, e: Any, kind: int, step: int) -> None:
    """The customer does a step on the device; what was asked for is done once, not twice."""
    if step == e.step:
        if e.applied:
            return
        e.applied = 1
    change(T, e, kind, step)


@kernel
def change(T: Any, e: Any, kind: int, operation: int) -> None:
    """The device after a step or write."""
    if operation < FIRST_BOOKING:
        e.seen_working = 0
    down = 0
    for place in range(COMPONENTS):
        if e.device[place]:
            down |= 1 << place
    for place in range(COMPONENTS):
        state = e.device[place]
        if not T.hindered[kind, operation, place, state] & down:
            e.device[place] = T.effect[kind, operation, place, state]


# -- what the agent has seen of it -----------------------------------------------------------------


@kernel
def known_kind(b: Cells) -> int:
    """The kind of device that the conversation is about, as far as it was said or read; or -1."""
    for kind in range(_KINDS):
        if b[KIND + kind]:
            return kind
    return -1


@kernel
def note_look(T: Any, e: Any, b: Cells, task: Any, look: int, value: int) -> None:
    """A check was answered, or a read made."""
    seen = T.sees_cell[look, value]
    if seen < 0:
        return
    first = T.sees_first[look]
    for cell in range(first, first + T.sees_count[look]):
        b[cell] = 0
    b[seen] = FRESH
    if T.shown_by[look] >= 0:
        b[T.shown_by[look]] = 1
    if look < FIRST_READ:
        b[LOOKED + look] = min(b[LOOKED + look] + 1, MOST_COUNTED)
    if look == DAMAGE or look >= FIRST_READ:
        weigh(T, e, b, task)


@kernel
def note_operation(T: Any, b: Cells, operation: int) -> None:
    """A step was reported as done, or a write made: what was seen before it is old now."""
    if operation >= FIRST_BOOKING:
        b[AGE + operation] = 1
        return
    for cell in range(AGE, AGE + FIRST_BOOKING):
        age = np.int64(b[cell])
        b[cell] = min(age + (age > 0), 255)
    b[AGE + operation] = 1
    kind = known_kind(b)
    old = STALE
    if kind < 0 or T.side_effect[kind, operation]:
        old = 0
    for cell in range(FIRST_SEEN, FIRST_DAMAGE):
        b[cell] = old if b[cell] else 0
    for cell in range(FIRST_DAMAGE, AFTER_DAMAGE):
        b[cell] = STALE if b[cell] else 0
    for cell in range(AFTER_DAMAGE, AFTER_SEEN):
        b[cell] = old if b[cell] else 0
    for cell in range(LOOKED, LOOKED + FIRST_READ):
        b[cell] = 0


@kernel
def hold_device(T: Any, e: Any, b: Cells, pointer: int) -> None:
    """A device of the account in view was read: from now on it is the one in hand."""
    if e.in_hand != pointer:
        for cell in OF_DEVICE:
            b[cell] = 0
        e.asked_to_confirm = -1
    e.in_hand = pointer
    b[SEEN_DEVICE[pointer]] = b[READ_DEVICE[pointer]] = 1
    b[IN_HAND_OF[pointer]] = b[cells.IN_HAND] = 1
    note_kind(T, b, T.kind[e.account * DEVICES_EACH + pointer])


@kernel
def note_kind(T: Any, b: Cells, kind: int) -> None:
    """The kind of device is known: what it has can be asked for."""
    if b[KIND + kind]:  # nothing else writes these cells
        return
    for other in range(_KINDS):
        b[KIND + other] = other == kind
    for place in range(_CAN):
        b[CAN + place] = T.can[kind, place]


@kernel
def match(T: Any, e: Any, b: Cells, task: Any) -> None:
    """Which of the devices in view fit what the customer said of the one that is meant."""
    if e.account != task.customer:
        return
    told = b[cells.HEARD_KIND] or b[cells.HEARD_ROOM]
    for k in range(DEVICES_EACH):
        if b[SEEN_DEVICE[k]]:
            meant = k == task.pointer
            same = T.kind[task.customer * DEVICES_EACH + k] == task.kind
            b[SERIAL_MATCHES[k]] = meant and e.stated[2] == 1
            b[KIND_MATCHES[k]] = told and same
            b[ROOM_MATCHES[k]] = meant and b[cells.HEARD_ROOM] > 0


# -- what the rules make of it ---------------------------------------------------------------------


@kernel
def holds(T: Any, e: Any, task: Any, field: int, sign: int, parameter: int, value: int) -> bool:
    """`Condition.holds`, of the facts that lie in the episode."""
    fact = e.facts[field]
    operand = task.parameters[parameter] if parameter >= 0 else value
    if sign == EQUAL:
        return fact == operand
    if sign == ABOVE:
        return fact > operand
    if sign == BELOW:
        return fact < operand
    if sign == AT_LEAST:
        return fact >= operand
    if sign == AT_MOST:
        return fact <= operand
    return fact != operand


@kernel
def fires(T: Any, e: Any, task: Any, rule: int) -> bool:
    """Whether a rule is on and all its conditions hold."""
    bit = T.rule_bit[rule]
    if bit and not task.active & bit:
        return False
    for place in range(T.when.shape[1]):
        one = T.when[rule, place]
        if one[0] < 0:
            break
        if not holds(T, e, task, one[0], one[1], one[2], one[3]):
            return False
    return True


@kernel
def is_met(T: Any, e: Any, task: Any, rule: int) -> bool:
    """Whether all that an obligation requires holds."""
    for place in range(T.requires.shape[1]):
        one = T.requires[rule, place]
        if one[0] < 0:
            break
        if not holds(T, e, task, one[0], one[1], one[2], one[3]):
            return False
    return True


@kernel
def technician_due(T: Any, e: Any, task: Any) -> int:
    """Dollars that a technician costs the customer whose plan is among the facts."""
    for place in range(len(T.due)):
        if fires(T, e, task, T.due[place]):
            parameter = T.due_parameter[place]
            return task.parameters[parameter] if parameter >= 0 else T.due_value[place]
    return 0


@kernel
def is_meant(e: Any, task: Any) -> bool:
    """Whether the device in hand is the one that the customer means."""
    return e.account == task.customer and e.in_hand == task.pointer


@kernel
def known_facts(T: Any, e: Any, b: Cells, task: Any) -> int:
    """Lay the facts of the records out as far as they were read; bits of those that were."""
    facts = e.facts
    known = 0
    if e.account >= 0:
        known |= _OF_ACCOUNT
        facts[FACT.plan], facts[FACT.area] = T.plan[e.account], T.area[e.account]
        facts[FACT.overdue] = task.overdue if e.account == task.customer else 0
    if e.in_hand >= 0:
        known |= _OF_DEVICE
        row = e.account * DEVICES_EACH + e.in_hand
        facts[FACT.kind], facts[FACT.model] = T.kind[row], T.model[row]
        facts[FACT.third_party], facts[FACT.months] = T.foreign[row], T.months[row]
        facts[FACT.replaced] = task.replaced if row == task.device else NEVER
    if b[_PLAN_READ]:
        known |= 1 << FACT.raised
        facts[FACT.raised] = task.raised if is_meant(e, task) else 0
    if b[_AREA_READ]:
        known |= 1 << FACT.outage
        facts[FACT.outage] = b[_AREA_OUT] > 0
    if b[_DAMAGE_CHECKED]:
        known |= 1 << FACT.wet
        facts[FACT.wet] = b[_WET] > 0
    return known


@kernel
def weigh(T: Any, e: Any, b: Cells, task: Any) -> None:
    """What the policy makes of what has been read."""
    known = known_facts(T, e, b, task)
    for place in range(len(T.finding)):
        rule = T.finding[place]
        needed = T.rule_facts[rule]
        b[T.finding_cell[place]] = needed & known == needed and fires(T, e, task, rule)
    if known >> FACT.plan & 1:
        b[cells.TECHNICIAN_DUE] = technician_due(T, e, task) > 0


@kernel
def factors(b: Cells) -> int:
    """How many factors the customer has been identified by."""
    return np.int64(b[cells.FOUND]) + np.int64(b[cells.VERIFIED])


@kernel
def evidence(T: Any, e: Any, b: Cells, task: Any, write: int) -> None:
    """Lay all facts out: the records as they are, and what has passed in the conversation."""
    facts = e.facts
    for fact in range(RECORD_FACTS):
        facts[fact] = task.facts[fact]
    for term in range(_TERMS):
        facts[_TOLD_FACT + term] = b[TOLD_CELL + term]
    facts[FACT.factors] = factors(b)
    facts[FACT.failures] = b[cells.FAILURES]
    facts[FACT.confirmed] = b[CONFIRMED + write - FIRST_WRITE] if write >= 0 else 0
    facts[FACT.line_tested] = b[_LINE_TESTED]
    facts[FACT.plan_read] = b[_PLAN_READ]
    facts[FACT.area_read] = b[_AREA_READ]
    facts[FACT.cable_checked] = b[_CABLE_CHECKED]
    facts[FACT.damage_checked] = b[_DAMAGE_CHECKED]
    facts[FACT.restarted] = b[AGE + RESTART] > 0
    facts[FACT.restarted_last] = b[AGE + RESTART] == 1
    facts[FACT.updated] = b[AGE + UPDATE] > 0
    facts[FACT.agreed_reset] = b[cells.AGREED_RESET]
    facts[FACT.technician_due] = technician_due(T, e, task)


@kernel
def is_allowed(T: Any, e: Any, b: Cells, task: Any, write: int) -> bool:
    """Whether the policy allows a write on the customer's device, by what can be known of it."""
    for fact in range(RECORD_FACTS):
        e.facts[fact] = task.facts[fact]
    e.facts[FACT.outage] = e.facts[FACT.raised] = e.facts[FACT.wet] = 0
    known_facts(T, e, b, task)
    for place in range(T.deciding.shape[1]):
        rule = T.deciding[write, place]
        if rule < 0:
            break
        if fires(T, e, task, rule):
            return False
    return True


@kernel
def check(T: Any, e: Any, b: Cells, task: Any, operation: int) -> None:
    """Mark all obligations that an operation, or `SOLVED`, breaks now."""
    write = operation if FIRST_WRITE <= operation < _OPERATIONS else -1
    evidence(T, e, b, task, write)
    for place in range(T.obliged.shape[1]):
        rule = T.obliged[operation, place]
        if rule < 0:
            break
        if fires(T, e, task, rule) and not is_met(T, e, task, rule):
            violate(e, T.rule_violation[rule])


@kernel
def check_end(T: Any, e: Any, b: Cells, task: Any) -> None:
    """Mark what ought to have come before a mended case is closed."""
    if e.seen_working and not e.written >> FIRST_BOOKING:
        check(T, e, b, task, SOLVED)
