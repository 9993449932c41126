"""How a person handles a device: does it, leaves it, only says so, sees wrong, cannot tell.

    draws of SKIP_STEP, CLAIM_STEP ─► attempt ─► DONE | LEFT | CLAIMED | NEEDS_HELP
    draws of CANNOT_TELL, MISOBSERVE ─► sight ─► SEEN | MISSEEN | UNCLEAR | NEEDS_HELP

The draws are the caller's (`convgym.users.decisions`); here stand only the tables of what
follows from them, read for one person or for a batch. An explanation makes up for missing
expertise, and then the customer can tell.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.domains.technical_support.faults import State
from convgym.domains.technical_support.physics import (
    HAS_LOOK,
    HAS_OPERATION,
    HAS_OPERATION_ROWS,
    VALUES_OF,
    do,
    do_batch,
    observe,
    observe_batch,
)
from convgym.domains.technical_support.vocabulary import (
    CANNOT_TELL,
    CHECKS,
    KINDS,
    LOOK,
    LOOKS,
    NOT_THERE,
    SERVICE,
    STEPS,
)
from convgym.engine import keys

UNABLE, ABLE, EXPLAINED = range(3)
"""How far the person is up to it: not without an explanation, by own expertise, or by one."""
DONE, LEFT, CLAIMED, NEEDS_HELP, IMPOSSIBLE = range(5)
"""Outcomes of a step: done, openly not done, not done but said to be, asked back, no such part."""
SEEN, MISSEEN, UNCLEAR, ASKS = range(4)
"""Outcomes of a check: the truth, a wrong value, no idea, and how to do it asked back."""

CERTAIN = (SERVICE, LOOK["damage"])
"""Checks that nobody gets wrong: whether it works is what the customer called for, and whether
something was spilled is remembered, not looked up."""

ATTEMPT: tuple[tuple[tuple[int, int], tuple[int, int]], ...] = (
    ((NEEDS_HELP, NEEDS_HELP), (NEEDS_HELP, CLAIMED)),
    ((DONE, DONE), (LEFT, CLAIMED)),
    ((DONE, DONE), (LEFT, CLAIMED)),
)
"""Outcome of a step by [ability][skips it][claims it]."""
SIGHT: tuple[tuple[tuple[int, int], tuple[int, int]], ...] = (
    ((ASKS, ASKS), (ASKS, ASKS)),
    ((SEEN, MISSEEN), (UNCLEAR, UNCLEAR)),
    ((SEEN, MISSEEN), (SEEN, MISSEEN)),
)
"""Outcome of a check by [ability][cannot tell][misobserves]."""

STEP_LEVEL = np.array([word.level for word in STEPS])
CHECK_LEVEL = np.array([word.level for word in CHECKS])
_ATTEMPT, _SIGHT = np.array(ATTEMPT), np.array(SIGHT)
_OTHERS = tuple(
    tuple(
        {value: tuple(other for other in values if other != value) for value in values}
        for values in row
    )
    for row in VALUES_OF
)
"""What could be said instead of each value, by kind and look; something, where it has the look."""

_MOST_OTHERS = max(len(o) for row in _OTHERS for by_value in row for o in by_value.values())
_OTHER_TABLE = np.zeros((len(KINDS), len(LOOKS), CANNOT_TELL, _MOST_OTHERS), dtype=np.int64)
_OTHER_COUNT = np.zeros((len(KINDS), len(LOOKS), CANNOT_TELL), dtype=np.int64)
for _kind, _row in enumerate(_OTHERS):
    for _look, _by_value in enumerate(_row):
        for _value, _instead in _by_value.items():
            _OTHER_TABLE[_kind, _look, _value, : len(_instead)] = _instead
            _OTHER_COUNT[_kind, _look, _value] = len(_instead)


def ability(level: int, expertise: int, explained: bool) -> int:
    """`UNABLE`, `ABLE` or `EXPLAINED`, for a `Word.level` and a persona's expertise in 0-100."""
    return EXPLAINED if explained else int(expertise >= level)


def attempt(
    kind: int, state: State, step: int, able: int, *, skips: bool, claims: bool
) -> tuple[int, State]:
    """What becomes of a step that the customer was asked to do: the outcome and the new state."""
    if not HAS_OPERATION_ROWS[kind][step]:
        return IMPOSSIBLE, state
    outcome = ATTEMPT[able][skips][claims]
    return outcome, do(kind, state, step) if outcome == DONE else state


def sight(
    kind: int, state: State, check: int, able: int, *, cannot: bool, wrong: bool, drawn: int
) -> tuple[int, int]:
    """What becomes of a check that the customer was asked to make: the outcome and the value.

    The value is `CANNOT_TELL` where nothing was seen. `drawn` in [0, 2**32) chooses among the
    wrong values.
    """
    truth = observe(kind, state, check)
    if check in CERTAIN or truth == NOT_THERE:
        return SEEN, truth
    outcome = SIGHT[able][cannot][wrong]
    if outcome == SEEN:
        return outcome, truth
    if outcome == MISSEEN:
        others = _OTHERS[kind][check][truth]
        return outcome, others[keys.below(drawn, len(others))]
    return outcome, CANNOT_TELL


# -- batches -------------------------------------------------------------------------------------


def ability_batch(level: Any, expertise: Any, explained: Any) -> NDArray[np.int64]:
    """`ability`, element by element.  # (n,)"""
    return np.where(explained, EXPLAINED, np.asarray(expertise) >= level).astype(np.int64)


def attempt_batch(
    kinds: NDArray[np.int64],
    states: NDArray[np.int64],
    steps: NDArray[np.int64],
    able: NDArray[np.int64],
    skips: NDArray[np.int64],
    claims: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """`attempt`, element by element.  # (n,) outcomes, (n, COMPONENTS) states"""
    outcome = np.where(HAS_OPERATION[kinds, steps], _ATTEMPT[able, skips, claims], IMPOSSIBLE)
    after = do_batch(kinds, states, steps)
    return outcome, np.where((outcome == DONE)[:, None], after, states)


def sight_batch(
    kinds: NDArray[np.int64],
    states: NDArray[np.int64],
    checks: NDArray[np.int64],
    able: NDArray[np.int64],
    cannot: NDArray[np.int64],
    wrong: NDArray[np.int64],
    drawn: NDArray[np.uint64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """`sight`, element by element.  # (n,) outcomes, (n,) values"""
    truth = observe_batch(kinds, states, checks)
    there = HAS_LOOK[kinds, checks]
    doubtful = there & ~np.isin(checks, CERTAIN)
    outcome = np.where(doubtful, _SIGHT[able, cannot, wrong], SEEN)
    known = np.where(there, truth, 0)
    place = keys.below_batch(drawn, np.maximum(_OTHER_COUNT[kinds, checks, known], 1))
    other = _OTHER_TABLE[kinds, checks, known, place]
    value = np.where(outcome == SEEN, truth, np.where(outcome == MISSEEN, other, CANNOT_TELL))
    return outcome, value
