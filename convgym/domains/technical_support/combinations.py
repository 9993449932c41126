"""Which faults meet on one device, and in which split.

    faults ──┬── held out (declared)     only in test_primitive, one at least in each task
             └── the others, met singly everywhere
    pairs  ──┬── held out (by hash, ⅓)   only in test_compositional, one at least in each task
             └── the others

One to three faults meet, one to a component. Whatever can only be booked, refused or handed over
comes last in causal order: all before it can be found and mended first, nothing hides behind it.
Each branch of a task has its condition on the faults, so a drawn combination always fits.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations

from convgym.domains.technical_support.facts import EVENTS
from convgym.domains.technical_support.faults import FAULTS, OF_KIND, Fault
from convgym.domains.technical_support.vocabulary import (
    BOOK_TECHNICIAN,
    KINDS,
    ORDER_REPLACEMENT,
    RAISE_LIMIT,
    RESET_PORT,
    RESTART,
)
from convgym.engine import keys

# Branches: what makes two tasks end differently, or go another way.
(
    FIX,
    UNSUPPORTED,
    OUTAGE,
    OLD,
    OVERDUE,
    UNCOVERED,
    LIMITED,
    WATER,
    BUSINESS_CALL,
    REMOTE,
    IMPOSTOR,
    CLOSING,
    INTERRUPTING,
    DELIVERING,
    UNPLUGGING,
    ASKING,
    RECALLED,
    REPLACED,
    MAINTAINED,
) = range(19)
BRANCHES = 19
AT_ONCE = (UNSUPPORTED, OVERDUE, UNCOVERED, BUSINESS_CALL, IMPOSTOR, RECALLED)
"""Branches that are decided before any fault is looked for."""
MOST_FAULTS = 3
_PAIR_KEY = 0x9A1250FFA117

Faults = tuple[int, ...]


@cache
def pair_held_out(one: int, other: int) -> bool:
    """Whether two faults meet in test_compositional only; each of them is met without the other."""
    low, high = sorted((one, other))
    return keys.below(keys.draw(_PAIR_KEY, keys.TASK, low, high), 3) == 0


@cache
def meeting(kind: int) -> tuple[Faults, ...]:
    """All combinations of one to three faults that can meet on a device of this kind."""
    return tuple(
        faults
        for size in range(1, MOST_FAULTS + 1)
        for faults in combinations(OF_KIND[kind], size)
        if len({FAULTS[number].component for number in faults}) == size
        and all(FAULTS[number].mendable for number in faults[:-1])
    )


def in_split(split: str, faults: Faults) -> bool:
    """Whether this combination may occur in `split`."""
    primitive = any(FAULTS[number].held_out for number in faults)
    known = [number for number in faults if not FAULTS[number].held_out]
    compositional = any(pair_held_out(*pair) for pair in combinations(known, 2))
    if split == "test_primitive":
        return primitive and not compositional
    return not primitive and compositional == (split == "test_compositional")


def _only(fault: Fault, event: str) -> bool:
    """Whether nothing but operations of this event mends it."""
    return fault.mendable and all(event in EVENTS[operation] for operation in fault.fixes)


def fits(branch: int, faults: Faults) -> bool:
    """Whether a task of this branch can have these faults."""
    present = [FAULTS[number] for number in faults]
    last = present[-1]
    if branch == WATER:
        return last.name == "wet"
    if branch == OUTAGE:
        return last.name == "outage"
    if not last.mendable and last.remedy < 0:
        return False
    if branch in (OLD, DELIVERING, REPLACED):
        return last.remedy == ORDER_REPLACEMENT
    if branch == REMOTE:
        return last.remedy == BOOK_TECHNICIAN
    if branch == LIMITED:
        return last.fixes == (RAISE_LIMIT,)
    if branch == MAINTAINED:
        return last.remedy == BOOK_TECHNICIAN or last.fixes == (RESET_PORT,)
    if branch == CLOSING:
        return last.mendable and not any(RESTART in fault.fixes for fault in present)
    if branch == INTERRUPTING:
        return any(_only(fault, "remote") for fault in present)
    if branch == UNPLUGGING:
        return any(_only(fault, "cable_work") for fault in present)
    if branch == ASKING:  # the customer must do something, and nobody would ask for water anyway
        wet = next(FAULTS[number] for number in OF_KIND[last.kind] if FAULTS[number].name == "wet")
        by_hand = last.mendable and any(_only(fault, "instruct") for fault in present)
        return by_hand and all(fault.symptom != wet.symptom for fault in present)
    return True


@cache
def possible(split: str, branch: int, kind: int, size: int) -> tuple[Faults, ...]:
    """What a task of this split, branch, kind and number of faults is drawn from."""
    return tuple(
        faults
        for faults in meeting(kind)
        if len(faults) == size and in_split(split, faults) and fits(branch, faults)
    )


@cache
def kinds_of(split: str, branch: int) -> tuple[int, ...]:
    """Kinds of device that can be in a task of this split and branch."""
    return tuple(
        kind
        for kind in range(len(KINDS))
        if any(possible(split, branch, kind, size) for size in range(1, MOST_FAULTS + 1))
    )
