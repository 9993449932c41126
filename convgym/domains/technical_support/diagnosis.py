"""What can still be wrong, as bit sets, and the next thing worth doing.

    suspects: bit i      the i-th fault of this kind is the first that is present
              bit WORKS  nothing is wrong
    absent:   bit i      the i-th fault is certainly not present, first or later
    looked:   bit l      the look l was made since the last operation

    a value was seen    saw(kind, knowledge, look, value)
    an operation ran    did(kind, knowledge, operation)

A fault that hides behind an earlier one is found after that one is mended: in causal order, one
after the other. Everything is a function of what was seen, so an agent that keeps the three
integers knows as much as one that keeps the whole conversation. The updates are sound: a true
observation never excludes the truth (tested).
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import NamedTuple

from convgym.domains.technical_support.faults import FAULTS, OF_KIND, Fault
from convgym.domains.technical_support.physics import (
    EFFECT,
    LOOKS_OF,
    OPERATIONS_OF,
    SHOWS,
    VALUES_OF,
    has_side_effect,
)
from convgym.domains.technical_support.vocabulary import (
    BOOKINGS,
    FIRST_WRITE,
    KINDS,
    LOOKS,
    OK,
    OPERATIONS,
    RAISE_LIMIT,
    SERVICE,
    UNLOCK_SIM,
)

WORKS = 1 << max(map(len, OF_KIND))
"""The bit of "nothing is wrong"; the same for all kinds."""
LOOKING, DOING, BOOKING, WATER, OUT, DONE, LOST = range(7)
"""Kinds of `Move`: look, operate, book a remedy; or stop, since it got wet, the network is out,
all works, or nothing is left to look at or to try: a report was wrong, begin anew."""


class Move(NamedTuple):
    """What to do next."""

    kind: int
    number: int = -1
    """The look or operation."""


def _faults(kind: int) -> tuple[Fault, ...]:
    return tuple(FAULTS[number] for number in OF_KIND[kind])


@cache
def everything(kind: int) -> int:
    """All suspects: nothing is known."""
    return (1 << len(OF_KIND[kind])) - 1 | WORKS


def bit(kind: int, fault: int) -> int:
    """The bit of a fault in the suspects of its kind."""
    return 1 << OF_KIND[kind].index(fault)


def _shown(fault: Fault, look: int) -> int:
    return int(SHOWS[fault.kind, look, fault.component, fault.state])


def _consistent(kind: int, look: int, value: int) -> int:
    """Suspects under which a look may show `value`: their own, or one of what hides behind."""
    allowed = WORKS if value == OK else 0
    faults = _faults(kind)
    for number, fault in enumerate(faults):
        own = _shown(fault, look)
        behind = value == OK or any(
            _shown(later, look) == value for later in faults if later.component > fault.component
        )
        if own == value or (own < 0 and behind):
            allowed |= 1 << number
    return allowed


CONSISTENT: tuple[tuple[dict[int, int], ...], ...] = tuple(
    tuple(
        {value: _consistent(kind, look, value) for value in VALUES_OF[kind][look]}
        for look in range(len(LOOKS))
    )
    for kind in range(len(KINDS))
)
"""Suspects that fit each value of each look, by kind."""


def _excluded(kind: int, look: int, value: int) -> int:
    """Faults that would have shown something else than `value`, whatever else is broken."""
    faults = _faults(kind)
    showing = [fault.component for fault in faults if _shown(fault, look) == value]
    return sum(
        1 << number
        for number, fault in enumerate(faults)
        if _shown(fault, look) not in (-1, value)
        and all(fault.component <= component for component in showing)
    )


EXCLUDED: tuple[tuple[dict[int, int], ...], ...] = tuple(
    tuple(
        {value: _excluded(kind, look, value) for value in VALUES_OF[kind][look]}
        for look in range(len(LOOKS))
    )
    for kind in range(len(KINDS))
)
"""Faults that are absent where a look shows a value, by kind."""


class Knowledge(NamedTuple):
    """What is known of a device."""

    suspects: int
    absent: int = 0
    looked: int = 0
    symptom: int = -1
    """What the check `service` showed since the last operation, which nobody gets wrong; or -1."""


def nothing_known(kind: int) -> Knowledge:
    """Before the first look."""
    return Knowledge(everything(kind))


def saw(kind: int, knowledge: Knowledge, look: int, value: int) -> Knowledge:
    """Knowledge after a look showed `value`.

    Where it contradicts what was known, as after a wrong report, only the symptom and this value
    are kept, or the symptom alone; a value that says nothing of the device changes nothing.
    """
    fits = CONSISTENT[kind][look].get(value)
    if fits is None:
        return knowledge
    looked = knowledge.looked | 1 << look
    symptom = value if look == SERVICE else knowledge.symptom
    excluded = EXCLUDED[kind][look][value]
    absent = knowledge.absent | excluded
    suspects = knowledge.suspects & fits & ~absent
    if not suspects:
        absent, suspects = excluded, everything(kind) & fits & ~excluded
        if symptom >= 0:
            suspects &= CONSISTENT[kind][SERVICE][symptom]
    if not suspects:
        absent, suspects = 0, CONSISTENT[kind][SERVICE][symptom]
    return Knowledge(suspects, absent, looked, symptom)


def _broken_by(kind: int, operation: int) -> int:
    """Faults that an operation can bring about."""
    return sum(
        1 << number
        for number, fault in enumerate(_faults(kind))
        if int(EFFECT[kind, operation, fault.component, 0]) == fault.state
    )


def _after(kind: int, operation: int, number: int) -> int:
    """Suspects after an operation, if the `number`-th fault (or none) was the first one."""
    faults, breaks = _faults(kind), _broken_by(kind, operation)
    if number == len(faults):
        return WORKS | breaks
    first = faults[number]
    if operation in first.fixes:
        later = sum(1 << n for n, f in enumerate(faults) if f.component > first.component)
        return later | WORKS | breaks
    earlier = sum(1 << n for n, f in enumerate(faults) if f.component < first.component)
    return 1 << number | (breaks & earlier)


_AFTER: tuple[dict[int, tuple[int, ...]], ...] = tuple(
    {
        operation: tuple(
            _after(kind, operation, number) for number in range(len(OF_KIND[kind]) + 1)
        )
        for operation in OPERATIONS_OF[kind]
    }
    for kind in range(len(KINDS))
)


def did(kind: int, knowledge: Knowledge, operation: int, *, sure: bool = True) -> Knowledge:
    """Knowledge after an operation; not `sure` where the customer may only say it was done."""
    suspects, absent = knowledge.suspects, knowledge.absent
    rows = _AFTER[kind].get(operation)
    if rows is None:
        return Knowledge(suspects, absent)
    absent &= ~_broken_by(kind, operation)
    left = rows[-1] if suspects & WORKS else 0
    for number, row in enumerate(rows[:-1]):
        if suspects >> number & 1:
            left |= row
    left &= ~absent
    return Knowledge(left if sure else left | suspects, absent)


def _split(kind: int, suspects: int, look: int) -> int:
    """Suspects left after a look, summed over the suspects: small is informative."""
    rows = CONSISTENT[kind][look]
    total = (suspects & rows[OK]).bit_count() if suspects & WORKS else 0
    for number, fault in enumerate(_faults(kind)):
        if suspects >> number & 1:
            shown = _shown(fault, look)
            total += (suspects & rows[shown if shown >= 0 else OK]).bit_count()
    return total


def next_move(kind: int, knowledge: Knowledge) -> Move:
    """What to do, knowing this.

    Whether it works now comes first. Then mend what is certain; else look where it tells most
    for its trouble; else try what would mend most of it, without side effects if it can be; book
    only what nothing else mends. What costs money or opens a lock is never tried, only done.
    """
    return _next_move(kind, knowledge.suspects, knowledge.looked)


@lru_cache(maxsize=1 << 14)
def _next_move(kind: int, suspects: int, looked: int) -> Move:
    if not looked >> SERVICE & 1:
        return Move(LOOKING, SERVICE)
    if suspects == WORKS:
        return Move(DONE)
    members = [f for n, f in enumerate(_faults(kind)) if suspects >> n & 1]
    certain = not suspects & WORKS
    common = set.intersection(*(set(fault.fixes) for fault in members)) if certain else set()
    if common:
        return Move(DOING, min(common, key=lambda operation: _cost(kind, operation)))
    if certain and not any(fault.fixes for fault in members):
        remedies = {fault.remedy for fault in members}
        if {fault.name for fault in members} == {"wet"}:
            return Move(WATER)
        if {fault.name for fault in members} == {"outage"}:
            return Move(OUT)
        if len(remedies) == 1 and -1 not in remedies:
            return Move(BOOKING, remedies.pop())
    size = suspects.bit_count()
    open_looks = [look for look in LOOKS_OF[kind] if not looked >> look & 1]
    if open_looks:
        best = min(open_looks, key=lambda look: (_worth(kind, suspects, look), look))
        if _split(kind, suspects, best) < size * size:
            return Move(LOOKING, best)
    tries = {fix for fault in members for fix in fault.fixes} - {RAISE_LIMIT, UNLOCK_SIM}
    if tries:
        return Move(
            DOING,
            min(
                tries,
                key=lambda op: (-sum(op in f.fixes for f in members), _cost(kind, op)),
            ),
        )
    return Move(LOST)


def _worth(kind: int, suspects: int, look: int) -> int:
    """Small is good: what is left after the look, more for what takes expertise."""
    return _split(kind, suspects, look) * (100 + LOOKS[look].level)


def _cost(kind: int, operation: int) -> tuple[int, int, int]:
    """Side effects, then a write, then the expertise it takes."""
    by_agent = 0 if operation < FIRST_WRITE else 1
    assert operation not in BOOKINGS
    effect = int(has_side_effect(kind, operation))
    return effect, by_agent, OPERATIONS[operation].level * 100 + operation
