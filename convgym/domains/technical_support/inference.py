"""What the belief cells say of the device: notes read back, suspects, and the next move.

    cells ─► Notes ─► suspects(kind, notes, trust) ─► next_move ─► Move

Nothing but the cells is used, so this is what any policy could work out from them. How much of
what a customer said is believed has three degrees:

    ALL     everything, also what was seen before the last operation
    RECENT  only what was seen since then
    FIRM    only what cannot be a slip: what the desk read itself, what nobody gets wrong, and
            what was looked at twice since the last operation

A step that was asked for once may only be claimed to be done; asked for twice it was done.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from convgym.domains.technical_support import cells
from convgym.domains.technical_support.diagnosis import (
    CONSISTENT,
    EXCLUDED,
    LOST,
    Knowledge,
    Move,
    everything,
    next_move,
)
from convgym.domains.technical_support.dialogue import FRESH, LAYOUT, SCALES
from convgym.domains.technical_support.faults import FAULTS, OF_KIND
from convgym.domains.technical_support.handling import CERTAIN
from convgym.domains.technical_support.physics import EFFECT
from convgym.domains.technical_support.vocabulary import FIRST_READ, FIRST_WRITE

ALL, RECENT, FIRM = range(3)
SURE_AFTER = 2
"""Times that a step has to be asked for until it is certainly done, and a check answered until
it is certainly right."""
_UNSCALED = np.array([1.0 / SCALES.get(name, 1.0) for name in LAYOUT])


class Notes(NamedTuple):
    """What the cells hold of the device, as integers."""

    seen: tuple[tuple[int, int, int, int], ...]
    """(look, value, whether since the last operation, times looked since then)."""
    done: tuple[tuple[int, int, int], ...]
    """(operation, how many operations ago from 1, times that a step was asked for)."""


def notes_of(row: NDArray[np.float32]) -> Notes:
    """The notes in a row of scaled features.  # (cells,)"""
    whole = np.rint(row * _UNSCALED).astype(np.int64)
    seen = tuple(
        (
            look,
            value,
            int(whole[cell] == FRESH),
            int(whole[cells.LOOKED[look]]) if look < FIRST_READ else SURE_AFTER,
        )
        for (look, value), cell in cells.SEES.items()
        if whole[cell]
    )
    done = tuple(
        (
            operation,
            int(whole[cell]),
            int(whole[cells.ASKED_STEP[operation]]) if operation < FIRST_WRITE else SURE_AFTER,
        )
        for operation, cell in enumerate(cells.AGE)
        if whole[cell]
    )
    return Notes(seen, done)


def known(kind: int, notes: Notes, trust: int, *, doubts: bool = True) -> Knowledge:
    """What can be wrong by these notes; no suspects at all where they contradict each other.

    Without `doubts` whatever is reported as done counts as done.
    """
    suspects, absent, looked, symptom = everything(kind), 0, 0, -1
    for look, value, fresh, times in notes.seen:
        firm = look in CERTAIN or look >= FIRST_READ or times >= SURE_AFTER
        fits = CONSISTENT[kind][look].get(value)
        if fits is None or (trust > ALL and not fresh) or (trust == FIRM and not firm):
            continue
        absent |= EXCLUDED[kind][look][value]
        if fresh:
            suspects &= fits
            looked |= 1 << look
    suspects &= ~absent
    left = suspects
    for operation, age, times in notes.done:
        if times >= SURE_AFTER or not doubts:
            since = tuple(o for o, a, _ in notes.done if a < age)
            left &= ~_mended(kind, operation, since, times > SURE_AFTER or not doubts)
    # Where all that mends what is suspected has been done, something was done too early.
    return Knowledge(left or (suspects if trust == FIRM else 0), absent, looked, symptom)


@lru_cache(maxsize=1 << 14)
def _mended(kind: int, operation: int, since: tuple[int, ...], again: bool) -> int:
    """Bits of the faults that cannot be the first one after an operation and those `since`.

    A fault that the operation mends was hidden behind an earlier one at that time, or is gone; it
    is there again only where something since then can have uncovered it, or brought it about. An
    operation that mends the earlier one, too, has mended both only where it was done `again`.
    """
    since = since if again else (*since, operation)
    gone = 0
    faults = [FAULTS[number] for number in OF_KIND[kind]]
    for number, fault in enumerate(faults):
        if operation not in fault.fixes:
            continue
        uncovered = any(
            later in earlier.fixes
            for later in since
            for earlier in faults
            if earlier.component < fault.component
        )
        broken = any(
            int(EFFECT[kind, later, fault.component, 0]) == fault.state for later in since
        )
        if not (uncovered or broken):
            gone |= 1 << number
    return gone


def move_of(kind: int, notes: Notes, trust: int = ALL, *, doubts: bool = True) -> Move:
    """What to do next by these notes, believing as much of them as does not contradict itself.

    With `doubts` reports that lead nowhere are believed less and less, beginning at `trust`.
    """
    while True:
        knowledge = known(kind, notes, trust, doubts=doubts)
        move = next_move(kind, knowledge) if knowledge.suspects else Move(LOST)
        if move.kind != LOST or trust == FIRM or not doubts:
            return move
        trust += 1
