"""What the batched support engine looks things up in, and the fields of its records.

    cells, physics, handling, rules, hearing, world ─► tables() ─► one record, `T` to the kernels

Compiled from the tables of the single engine, whose order of numbers stays. Beside them stand the
fields of an episode's and of a task's record, and the codes of what tools answer.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.domains.technical_support import cells, handling, hearing, physics, records
from convgym.domains.technical_support.dialogue import (
    CONFIRMS,
    FACTS,
    PROMISES,
    SAW,
    SEEN,
    SEES,
    STEP_NAMES,
    TELLS,
    USER_ACTS,
)
from convgym.domains.technical_support.facts import EVENTS, EVIDENCE, PARAMETER_NAMES, TOLD
from convgym.domains.technical_support.facts import RECORD_FACTS as OF_RECORDS
from convgym.domains.technical_support.faults import COMPONENTS
from convgym.domains.technical_support.goals import FOUND_BY_FAULT
from convgym.domains.technical_support.rules import (
    BIT,
    DECIDING,
    REFUSALS,
    RULES,
    TRANSFERS,
)
from convgym.domains.technical_support.verdict import _SEEN_BY
from convgym.domains.technical_support.vocabulary import (
    BOOKINGS,
    CHECKS,
    FIRST_READ,
    FIRST_WRITE,
    KINDS,
    LOOK,
    LOOKS,
    OPERATION,
    OPERATIONS,
    STEPS,
    VALUES,
)
from convgym.domains.technical_support.world import CUSTOMERS, world
from convgym.engine.batch import EPISODE_FIELDS, Fields, fields_together, numbers, record
from convgym.engine.grading import CLOSING, WEIGHTS
from convgym.engine.rules import _OPERATORS, ALLOW, OBLIGE, REFUSE, TRANSFER, Condition, Rule
from convgym.users.user_batch import (
    USER_FIELDS,
)


def _run(block: Iterable[int]) -> int:
    """The first of cells that lie side by side."""
    places = list(block)
    assert places == list(range(places[0], places[0] + len(places))), "cells in a row"
    return places[0]


# Cells that lie side by side, by the first of them.
POLICY, KIND = _run(cells.POLICY), _run(cells.KIND)
CAN = _run((*cells.CAN_LOOK, *cells.CAN_OPERATE))
LOOKED, ASKED_STEP, AGE = _run(cells.LOOKED), _run(cells.ASKED_STEP), _run(cells.AGE)
TOLD_CELL, CONFIRMED = _run(cells.TOLD_CELL), _run(cells.CONFIRMED)
DENIED, OFFERED, ASKED_FOR = _run(cells.DENIED), _run(cells.OFFERED), _run(cells.ASKED_FOR)
FIRST_SEEN = _run(cells.SEES.values())
AFTER_SEEN = FIRST_SEEN + len(SEEN)
DAMAGE = LOOK["damage"]
FIRST_DAMAGE = _run(cells.SEES_OF[DAMAGE])
AFTER_DAMAGE = FIRST_DAMAGE + len(cells.SEES_OF[DAMAGE])
HEARD, REJECTED = np.array(cells.HEARD), np.array(cells.REJECTED)
SEEN_DEVICE, READ_DEVICE = np.array(cells.SEEN_DEVICE), np.array(cells.READ_DEVICE)
IN_HAND_OF = np.array(cells.IN_HAND_OF)
SERIAL_MATCHES = np.array(cells.SERIAL_MATCHES)
KIND_MATCHES, ROOM_MATCHES = np.array(cells.KIND_MATCHES), np.array(cells.ROOM_MATCHES)
OF_ACCOUNT = np.array(cells.OF_ACCOUNT)
OF_DEVICE = np.array((*cells.OF_DEVICE, *cells.IN_HAND_OF, *cells.CONFIRMED))
"""Cells that are cleared where another account is opened, or another device is read."""
REASON_CELLS, OFFER_CELLS = len(cells.DENIED), len(cells.OFFERED)

FIRST_BOOKING = min(BOOKINGS)
assert tuple(range(FIRST_BOOKING, len(OPERATIONS))) == BOOKINGS, "bookings are the last writes"
REASONS = (*REFUSALS, *TRANSFERS)
"""Reasons by number; what can be denied comes first, in the order of its cells."""
EFFECTS = (ALLOW, REFUSE, TRANSFER)
ALLOWED, REFUSED, HANDED_OVER = range(len(EFFECTS))
"""Effects of the decision of a task."""
UNVERIFIED = REASONS.index("unverified")
SOLVED = len(OPERATIONS)
"""Row of the end of a mended case, after those of the operations, among what has to come first."""

_FACTS = (*OF_RECORDS, *EVIDENCE, "technician_due")
FACT: Any = namedtuple("FACT", _FACTS)(*range(len(_FACTS)))  # type: ignore[misc]
"""Number of each fact for the rules; those of the records come first."""
RECORD_FACTS = len(OF_RECORDS)
DISCLOSED = records.VIOLATION["disclosed_before_authentication"]
FALSEHOOD = records.VIOLATION[records.FALSEHOOD]
AGAINST = records.VIOLATION[records.AGAINST]
"""Bits of the violations that need no condition."""
AUTH_LEVEL = PARAMETER_NAMES.index("auth_level")

# Codes of results; what a text is made of besides is said where it is made.
(
    ENDED,
    HANDED,
    NO_ACCOUNT,
    ACCOUNT,
    NOT_OPEN,
    VERIFIED,
    NOT_VERIFIED,
    LISTED,
    NO_DEVICE,
    DEVICE,
    NO_SUCH_DEVICE,
    NOT_READ,
    NOTHING_SHOWN,
    SHOWN,
    AREA,
    DONE_BEFORE,
    WRITTEN,
) = range(1, 18)

MOST_ELSEWHERE = 128
"""Devices beside the one that is meant of which it is kept what was written there: as many as four
calls a turn can reach in 70 turns."""
SUPPORT_FIELDS: Fields = [
    *numbers(
        "account in_hand asked_last step applied asked_to_confirm last_write seen_working "
        "decided_right transferred n_elsewhere"
    ),
    ("written", np.int64),
    ("reported", np.int64),
    ("stated", np.int32, (3,)),
    ("device", np.int8, (COMPONENTS,)),
    ("elsewhere", np.int16, (MOST_ELSEWHERE, 2)),
    ("facts", np.int32, (len(_FACTS),)),
    *numbers("first_step tried checks_come staying"),
    *numbers("explained_checks skilled puzzle puzzled_by booked"),
    ("truth", np.int16, (len(CHECKS),)),
    ("alike", np.int16, (len(CHECKS),)),
    ("told_to", np.int16, (len(STEPS),)),
]
"""`DeskState` and `SupportState`. `asked_last` is the check, or after those the step, asked for
last; `stated` is the desk's `heard`, `first_step` the user's `step`, `explained_checks` its
`knows`; `elsewhere` holds (row, bits of writes from the first on) of other devices, `facts` is
scratch paper."""
EPISODE = fields_together(*EPISODE_FIELDS, *USER_FIELDS, *SUPPORT_FIELDS)
TASK = np.dtype(
    [
        *numbers(
            "branch kind customer device pointer knowledge known symptom fault outages overdue "
            "raised replaced active effect reason alternative expertise oracle_length"
        ),
        ("required", np.int64),
        ("allowed", np.int64),
        ("faults", np.int32, (3,)),
        ("parameters", np.int32, (len(PARAMETER_NAMES),)),
        ("facts", np.int32, (RECORD_FACTS,)),
        ("state", np.int8, (COMPONENTS,)),
    ],
    align=True,
)
"""A `Task`, its goal, and what the rules ask of its records. `known` is its row of the table of
knowledge, `fault` the component of its last fault; reason, alternative and missing
faults are -1."""


# -- rules -----------------------------------------------------------------------------------------

_NUMBER = {rule.code: number for number, rule in enumerate(RULES.rules)}
_SIGNS = tuple(_OPERATORS)
ABOVE, BELOW, EQUAL, UNEQUAL, AT_LEAST, AT_MOST = (
    _SIGNS.index(sign) for sign in (">", "<", "==", "!=", ">=", "<=")
)


def _conditions(name: str, rows: Sequence[tuple[Condition, ...]]) -> dict[str, NDArray[np.int32]]:
    """Conditions of each rule: number of the fact (-1: no more), sign, parameter (-1), operand."""
    made = np.full((len(rows), max(map(len, rows)) + 1, 4), -1, dtype=np.int32)
    for row, conditions in zip(made, rows, strict=True):
        for place, condition in zip(row, conditions, strict=False):
            named = isinstance(condition.operand, str)
            parameter = PARAMETER_NAMES.index(str(condition.operand)) if named else -1
            value = 0 if isinstance(condition.operand, str) else condition.operand
            sign = _SIGNS.index(condition.op)
            place[:] = _FACTS.index(condition.field), sign, parameter, value
    return {name: made}


def _lists(rows: Sequence[Sequence[int]]) -> NDArray[np.int32]:
    """Rows of unlike length, each with a -1 after its last."""
    made = np.full((len(rows), max(map(len, rows)) + 1), -1, dtype=np.int32)
    for row, values in zip(made, rows, strict=True):
        row[: len(values)] = values
    return made


def _on(events: Iterable[str], *, obligations: bool) -> list[int]:
    named = set(events)
    return [
        number
        for number, rule in enumerate(RULES.rules)
        if rule.on in named and (rule.effect == OBLIGE if obligations else rule.decides)
    ]


def _bit(rule: Rule) -> int:
    return BIT.get(rule.code, 0)


def _rules() -> dict[str, NDArray[np.int32]]:
    of_each = [EVENTS[operation] for operation in range(len(OPERATIONS))]
    terms = RULES.of_term("technician_due")
    assert not any(rule.effect == ALLOW for rule in RULES.rules), "whatever fires forbids"
    return {
        **_conditions("when", [rule.when for rule in RULES.rules]),
        **_conditions("requires", [rule.requires for rule in RULES.rules]),
        "rule_bit": _ints(_bit(rule) for rule in RULES.rules),
        "rule_facts": _ints(
            sum({1 << _FACTS.index(one.field) for one in rule.when}) for rule in RULES.rules
        ),
        "rule_violation": _ints(
            records.VIOLATION[rule.code] if rule.effect == OBLIGE else 0 for rule in RULES.rules
        ),
        "finding": _ints(_NUMBER[code] for code in cells.FINDING),
        "finding_cell": _ints(cells.FINDING.values()),
        "obliged": _lists([_on(events, obligations=True) for events in [*of_each, ("solved",)]]),
        "deciding": _lists([_on(("support", *each), obligations=False) for each in of_each]),
        "due": _ints(_NUMBER[rule.code] for rule in terms),
        "due_parameter": _ints(
            PARAMETER_NAMES.index(rule.value) if isinstance(rule.value, str) else -1
            for rule in terms
        ),
        "due_value": _ints(0 if isinstance(rule.value, str) else rule.value for rule in terms),
    }


def _ints(values: Iterable[int]) -> NDArray[np.int32]:
    return np.array(list(values), dtype=np.int32)


# -- what is said and heard ------------------------------------------------------------------------


def _user_acts() -> dict[str, NDArray[np.int32]]:
    """What an act of the customer's leaves in the belief; -1 for nothing."""
    every = range(len(USER_ACTS))
    return {
        "saw_look": _ints(SAW.get(act, (-1, -1))[0] for act in every),
        "saw_value": _ints(SAW.get(act, (-1, -1))[1] for act in every),
        "said_cell": _ints(cells.SAID_CELL.get(act, -1) for act in every),
        "raises": _ints(cells.RAISES.get(act, -1) for act in every),
        "states": _ints(cells.STATES.get(act, (-1, -1))[0] for act in every),
        "states_what": _ints(cells.STATES.get(act, (-1, -1))[1] for act in every),
        "sees": _by_value(SEES, FIRST_READ),
        "sees_cell": _by_value(cells.SEES, len(LOOKS)),
        "sees_first": _ints(row[0] if row else 0 for row in cells.SEES_OF),
        "sees_count": _ints(len(row) for row in cells.SEES_OF),
        "shown_by": _ints(cells.SHOWN_BY.get(look, -1) for look in range(len(LOOKS))),
    }


def _by_value(pairs: dict[tuple[int, int], int], looks: int) -> NDArray[np.int32]:
    made = np.full((looks, len(VALUES)), -1, dtype=np.int32)
    for (look, value), number in pairs.items():
        made[look, value] = number
    return made


def _speech() -> dict[str, NDArray[np.int32]]:
    basis = dict.fromkeys(TELLS, -1) | {"technician_fee": cells.FOUND}
    basis |= {fact: cells.SHOWN_BY[LOOK[fact]] for fact in FACTS}
    rule_of = hearing._RULE_OF_TERM
    priced = [hearing._PRICED.get(OPERATION[name], "") for name in CONFIRMS]
    needed = [DECIDING.get(reason, ()) for reason in REASONS]
    assert all(name in {"account", "device", *_SEEN_BY} for names in needed for name in names)
    return {
        "basis_rule": _ints(BIT[rule_of[name]] if name in rule_of else 0 for name in TELLS),
        "basis_cell": _ints(basis[name] for name in TELLS),
        "is_term": _ints(name in TOLD for name in TELLS),
        "told_parameter": _ints(
            PARAMETER_NAMES.index(name) if name in PARAMETER_NAMES else -1 for name in TOLD
        ),
        "priced": _ints(TELLS.index(term) if term else -1 for term in priced),
        "by_plan": _ints(term == "technician_fee" for term in priced),
        "confirms_step": _ints(name in STEP_NAMES for name in CONFIRMS),
        "promised": _ints(OPERATION.get(name, -1) for name in PROMISES),
        "needs_device": _ints("device" in names for names in needed),
        "needs_cells": _lists([[_SEEN_BY[n] for n in names if n in _SEEN_BY] for names in needed]),
        "found_by_fault": _ints(reason in FOUND_BY_FAULT for reason in REASONS),
    }


# -- the device and who handles it -----------------------------------------------------------------


def _device() -> dict[str, NDArray[np.generic]]:
    kinds, looks, operations = range(len(KINDS)), range(len(LOOKS)), range(len(OPERATIONS))
    return {
        "shows": physics.SHOWS.astype(np.int16),
        "has_look": physics.HAS_LOOK.astype(np.int8),
        "has_operation": physics.HAS_OPERATION.astype(np.int8),
        "can": np.hstack([physics.HAS_LOOK, physics.HAS_OPERATION]).astype(np.uint8),
        "effect": physics.EFFECT.astype(np.int8),
        "hindered": physics.NEEDS.astype(np.int32),
        "remedy": physics.REMEDY.astype(np.int8),
        "side_effect": np.array(
            [[physics.has_side_effect(kind, one) for one in operations] for kind in kinds], np.int8
        ),
        "whole": np.array(
            [[records.other_device_shows(kind, look) for look in looks] for kind in kinds], np.int16
        ),
        "others": handling._OTHER_TABLE.astype(np.int16),
        "other_count": handling._OTHER_COUNT.astype(np.int16),
        "attempt": np.array(handling.ATTEMPT, dtype=np.int8),
        "sight": np.array(handling.SIGHT, dtype=np.int8),
        "check_level": handling.CHECK_LEVEL.astype(np.int32),
        "step_level": handling.STEP_LEVEL.astype(np.int32),
        "certain": np.array([look in handling.CERTAIN for look in looks], dtype=np.int8),
    }


@cache
def tables() -> NDArray[np.void]:
    """All that the kernels look up.  # (1,)"""
    provider = world()
    columns = {
        name: np.array(getattr(provider, name), dtype=np.int16)
        for name in ("kind", "model", "months", "plan", "area")
    }
    foreign = [provider.is_foreign(row) for row in range(len(provider.model))]
    pins = [(provider.pin_text(row), provider.wrong_pin(row)) for row in range(CUSTOMERS)]
    return record(
        **columns,
        foreign=np.array(foreign, dtype=np.int8),
        pins=np.array(pins).astype(np.int16),
        **_rules(),
        **_user_acts(),
        **_speech(),
        **_device(),
        weights=np.array(WEIGHTS),
        closing=np.array(CLOSING),
    )


assert len(STEPS) == FIRST_WRITE and len(cells.CONFIRMED) == len(CONFIRMS) - 1
assert tuple(cells.DENIED[0] + n for n in range(len(REFUSALS))) == cells.DENIED
