"""How a device behaves: integer tables, read for one device or for a batch of them.

    observe(kind, state, look)   a look passes over the components in causal order and shows the
                                 first that has something to show: what is broken hides what
                                 comes after it
    do(kind, state, operation)   each component changes by a table of its own state, if all that
                                 the change needs works; all at once, from the state before

    SHOWS   [kind, look, component, state]       value, -1: passes over
    EFFECT  [kind, operation, component, state]  the state after
    NEEDS   [kind, operation, component, state]  bits of the components that must work for it

Compiled from `convgym.domains.technical_support.devices`. Knows nothing of people.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from convgym.domains.technical_support.devices import DEVICES, Device
from convgym.domains.technical_support.faults import (
    COMPONENTS,
    FAULTS,
    OF_KIND,
    STATE_NUMBERS,
    STATES,
    State,
)
from convgym.domains.technical_support.vocabulary import (
    FIRST_READ,
    FIRST_WRITE,
    KINDS,
    LOOK,
    LOOKS,
    NOT_THERE,
    OK,
    OPERATION,
    OPERATIONS,
    SERVICE,
    VALUE,
)

Integers = NDArray[np.int64]


def _ancestors(device: Device) -> dict[str, frozenset[str]]:
    """Everything that each component comes after, at any distance."""
    known: dict[str, frozenset[str]] = {}
    for component in device.components:
        direct = frozenset(component.after)
        known[component.name] = direct.union(*(known[name] for name in component.after))
    return known


def _compile_shows() -> NDArray[np.int16]:
    shows = np.full((len(KINDS), len(LOOKS), COMPONENTS, STATES), -1, dtype=np.int16)
    for kind, device in enumerate(DEVICES):
        place = {component.name: n for n, component in enumerate(device.components)}
        before = _ancestors(device)
        for fault in (FAULTS[number] for number in OF_KIND[kind]):
            shows[kind, SERVICE, fault.component, fault.state] = fault.symptom
        for sight in device.sights:
            row = shows[kind, LOOK[sight.look]]
            named = {target.partition(".")[0] for target in sight.shows}
            if sight.masked:
                for hidden in set().union(*(before[name] for name in named)) - named:
                    row[place[hidden], 1:] = VALUE[sight.masked]
            # A whole component first, then its single states.
            for target in sorted(sight.shows, key=lambda name: "." in name):
                component, dot, _ = target.partition(".")
                states = STATE_NUMBERS[kind][target] if dot else slice(1, None)
                row[place[component], states] = VALUE[sight.shows[target]]
    return shows


def _compile_operations() -> tuple[NDArray[np.int8], NDArray[np.int32], list[set[int]]]:
    shape = (len(KINDS), len(OPERATIONS), COMPONENTS, STATES)
    effect = np.broadcast_to(np.arange(STATES, dtype=np.int8), shape).copy()
    needs = np.zeros(shape, dtype=np.int32)
    possible: list[set[int]] = []
    for kind, device in enumerate(DEVICES):
        place = {component.name: n for n, component in enumerate(device.components)}
        before = _ancestors(device)

        def bits(
            names: tuple[str, ...],
            place: dict[str, int] = place,
            before: dict[str, frozenset[str]] = before,
        ) -> int:
            closed = set(names).union(*(before[name] for name in names))
            return sum(1 << place[name] for name in closed)

        done = {OPERATION["restart"]}  # anything can be restarted
        for item in device.breaks:
            cell = place[item.component], STATE_NUMBERS[kind][f"{item.component}.{item.state}"]
            for fix in item.fixes:
                operation = OPERATION[fix.operation]
                done.add(operation)
                effect[(kind, operation, *cell)] = 0
                needed = tuple(before[item.component]) if fix.needs is None else fix.needs
                needs[(kind, operation, *cell)] = bits(needed)
            if item.remedy:
                done.add(OPERATION[item.remedy])
        for side in device.side_effects:
            state = STATE_NUMBERS[kind][f"{side.component}.{side.state}"]
            operation = OPERATION[side.step]
            done.add(operation)
            effect[kind, operation, place[side.component], 0] = state
            needs[kind, operation, place[side.component], 0] = bits(side.needs)
        possible.append(done)
    return effect, needs, possible


SHOWS = _compile_shows()
EFFECT, NEEDS, _POSSIBLE = _compile_operations()
REMEDY = np.full((len(KINDS), COMPONENTS, STATES), -1, dtype=np.int64)
"""The booking that settles a broken component, -1 for none."""
for _fault in FAULTS:
    REMEDY[_fault.kind, _fault.component, _fault.state] = _fault.remedy

LOOKS_OF = tuple(
    tuple(int(look) for look in np.flatnonzero((SHOWS[kind] >= 0).any(axis=(1, 2))))
    for kind in range(len(KINDS))
)
"""Checks and reads that each kind of device has."""
CHECKS_OF = tuple(tuple(look for look in looks if look < FIRST_READ) for looks in LOOKS_OF)
OPERATIONS_OF = tuple(tuple(sorted(done)) for done in _POSSIBLE)
"""Steps and writes that each kind of device has."""
STEPS_OF = tuple(tuple(op for op in done if op < FIRST_WRITE) for done in OPERATIONS_OF)
VALUES_OF = tuple(
    tuple(
        tuple(sorted({OK, *(int(value) for value in SHOWS[kind, look].ravel() if value >= 0)}))
        for look in range(len(LOOKS))
    )
    for kind in range(len(KINDS))
)
"""What each check or read of each kind can show, in order."""
HAS_LOOK = np.array([[look in looks for look in range(len(LOOKS))] for looks in LOOKS_OF])
HAS_OPERATION = np.array([[op in done for op in range(len(OPERATIONS))] for done in OPERATIONS_OF])

# The same tables without what never matters, for one device at a time.
_SIGHTS = tuple(
    tuple(
        tuple(
            (component, tuple(row.tolist()))
            for component, row in enumerate(SHOWS[kind, look])
            if (row >= 0).any()
        )
        for look in range(len(LOOKS))
    )
    for kind in range(len(KINDS))
)
_CHANGES = tuple(
    tuple(
        tuple(
            (component, tuple(row.tolist()), tuple(NEEDS[kind, operation, component].tolist()))
            for component, row in enumerate(EFFECT[kind, operation])
            if (row != np.arange(STATES)).any()
        )
        for operation in range(len(OPERATIONS))
    )
    for kind in range(len(KINDS))
)


HAS_LOOK_ROWS: list[list[bool]] = HAS_LOOK.tolist()
HAS_OPERATION_ROWS: list[list[bool]] = HAS_OPERATION.tolist()


def observe(kind: int, state: State, look: int) -> int:
    """What a check or read shows of a device in this state: a value, `NOT_THERE` without it."""
    if not HAS_LOOK_ROWS[kind][look]:
        return NOT_THERE
    for component, row in _SIGHTS[kind][look]:
        value = row[state[component]]
        if value >= 0:
            return value
    return OK


def broken(state: State) -> int:
    """Bit set of the components that do not work."""
    return sum(1 << component for component, value in enumerate(state) if value)


def do(kind: int, state: State, operation: int) -> State:
    """The state after a step or write; the same state where it does nothing."""
    changes = _CHANGES[kind][operation]
    if not changes:
        return state
    down, after = broken(state), list(state)
    for component, row, needs in changes:
        if not needs[state[component]] & down:
            after[component] = row[state[component]]
    return tuple(after)


def works(state: State) -> bool:
    """Whether every component does: what the customer called for."""
    return not any(state)


def settled(kind: int, state: State, booked: int) -> bool:
    """Whether all works but what a booking among the bits `booked` takes care of."""
    remedies = (int(REMEDY[kind, place, value]) for place, value in enumerate(state) if value)
    return all(remedy >= 0 and booked >> remedy & 1 for remedy in remedies)


# -- batches -------------------------------------------------------------------------------------


def observe_batch(kinds: Integers, states: Integers, looks: Integers) -> Integers:
    """`observe`, element by element.  # (n,), (n, COMPONENTS), (n,) → (n,)"""
    rows = SHOWS[kinds, looks]  # (n, COMPONENTS, STATES)
    shown = np.take_along_axis(rows, states[:, :, None], axis=2)[:, :, 0]
    first = (shown >= 0).argmax(axis=1)
    value = np.take_along_axis(shown, first[:, None], axis=1)[:, 0].astype(np.int64)
    value = np.where(value >= 0, value, OK)
    return np.where(HAS_LOOK[kinds, looks], value, NOT_THERE)


def do_batch(kinds: Integers, states: Integers, operations: Integers) -> Integers:
    """`do`, element by element.  # (n,), (n, COMPONENTS), (n,) → (n, COMPONENTS)"""
    down = ((states != 0) << np.arange(COMPONENTS)).sum(axis=1)
    place = states[:, :, None]
    after = np.take_along_axis(EFFECT[kinds, operations], place, axis=2)[:, :, 0]
    needs = np.take_along_axis(NEEDS[kinds, operations], place, axis=2)[:, :, 0]
    return np.where(needs & down[:, None], states, after).astype(np.int64)


@cache
def has_side_effect(kind: int, operation: int) -> bool:
    """Whether the operation can break what works."""
    return bool((EFFECT[kind, operation, :, 0] != 0).any())
