"""A desk's tasks drawn on integer rows: `convgym.desk.tasks.Tasks`, draw by draw.

The tables `F` and `P`, and the arrays beside them, are described in `batch_tasks`; `T` is that of
the desk, `t` the record of the task that is made.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.desk.batch_case import term_value
from convgym.desk.batch_tables import ALLOWED, REFUSED, TRANSFERS
from convgym.desk.tasks import (
    _COUNT,
    _DETAIL,
    _EFFECT,
    _FAULT,
    _FAULT_TOOL,
    _FAULTS,
    _FAULTY,
    _IMPOSTOR,
    _KNOWLEDGE,
    _KNOWLEDGES,
    _LATER_GRANTED,
    _MOST_FAULTS,
    _OUTCOME,
    _PARAMETER,
    _ROW,
    _STRIDE,
    _VALUES,
    _WORKFLOW,
    KNOWLEDGES,
    KNOWS_LABEL,
    KNOWS_VAGUELY,
    LOOKS_UP,
    MISTAKEN,
)
from convgym.engine.batch import Ints, Keys, below, draw
from convgym.engine.kernel import kernel, loop
from convgym.engine.keys import TASK

_SORTS, _DRAWS = len(KNOWLEDGES), len(_KNOWLEDGES)
_1, _2, _4, _56 = np.uint64(1), np.uint64(2), np.uint64(4), np.uint64(56)
_ODD, _PAIRS = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333)
_FOURS, _EACH = np.uint64(0x0F0F0F0F0F0F0F0F), np.uint64(0x0101010101010101)
_LISTS = np.array([sort in (KNOWS_LABEL, KNOWS_VAGUELY, MISTAKEN) for sort in range(_SORTS)])
"""By what a customer knows, whether records are listed to find the one that is meant."""
_LOCATING = np.array(
    [3 if s == MISTAKEN else 2 if s in (LOOKS_UP, KNOWS_VAGUELY) else 1 for s in range(_SORTS)]
)
"""Acts until it is known which record is meant, listing and asking which of several apart."""


@loop
def draw_tasks(
    T: Any, F: Any, decided: NDArray[np.int8], can: NDArray[Any], having: NDArray[Any],
    values: NDArray[np.int64], P: Any, pools: NDArray[np.int64], keys: Keys,
    numbers: NDArray[np.int64], rows: Ints, into: Any,
) -> int:  # fmt: skip
    """The tasks of these numbers, one in each of these rows; gives a number without meaning.

    `keys` has one for each task of the split.
    """
    for at in range(len(rows)):
        begin_task(T[0], F[0], P[0], pools, keys[numbers[at]], into[rows[at]])
    # What tasks are made of lies far apart: asked for one after the other, it is waited for once.
    touched = 0
    for at in range(len(rows)):
        touched += touch(T[0], F[0], decided, having, into[rows[at]])
    for at in range(len(rows)):
        draw_task(T[0], F[0], decided, can, having, values, P[0], keys[numbers[at]], into[rows[at]])
    return touched


@kernel
def touch(T: Any, F: Any, decided: Any, having: Any, t: Any) -> int:
    """Read what the rest of a task is made of; the sum is there so that nobody leaves it out."""
    w, row = t.workflow[0], np.int64(t.row[0])
    facts = row if T.kind[w] < 0 else T.base[T.kind[w]] + row
    ways = decided[F.decided_from[w] + row * F.ways[w]]
    return ways + having[t.account, 0, 0] + T.world[t.account, 0] + T.world[facts, 0]


@kernel
def pick(key: np.uint64, index: int, count: int) -> int:
    """One of a task's draws, below `count`."""
    return below(draw(key, TASK, 0, index), count)


@kernel
def each_of(T: Any, w: int) -> int:
    """How many records of the workflow's kind an account has."""
    return 1 if T.kind[w] < 0 else np.int64(T.each[T.kind[w]])


@kernel
def begin_task(T: Any, F: Any, P: Any, pools: Any, key: np.uint64, t: Any) -> None:
    """Whose task it is, and what is asked for first."""
    clear_task(t)
    for p in range(len(t.parameters)):
        t.parameters[p] = F.options[p, pick(key, _PARAMETER + p, F.n_options[p])]
    drawn, first = pick(key, _WORKFLOW, P.total), 0
    for place in range(len(P.cumulative)):
        first += drawn >= P.cumulative[place]
    drawn, o = pick(key, _OUTCOME, 10_000), 0
    for place in range(P.up_to.shape[1]):
        o += drawn >= P.up_to[first, place]
    w, outcome = P.number[first], P.outcome[first, o]
    row = pools[P.pool_from[first, o] + pick(key, _ROW, P.pool_size[first, o])]
    t.workflow[0], t.row[0], t.effect[0] = w, row, outcome
    t.account = row // each_of(T, w)
    t.impostor = P.impostors > pick(key, _IMPOSTOR, 100)
    t.new_rules = F.new_rules


@kernel
def draw_task(
    T: Any, F: Any, decided: Any, can: Any, having: Any, values: Any, P: Any,
    key: np.uint64, t: Any,
) -> None:  # fmt: skip
    """`Tasks._draw`."""
    w, row, outcome = np.int64(t.workflow[0]), np.int64(t.row[0]), np.int64(t.effect[0])
    draw_request(T, F, decided, values, key, t, 0, w, row, outcome)
    t.requests = count = 1
    if not t.impostor and t.effect[0] != TRANSFERS:
        drawn = pick(key, _COUNT, 100)
        for place in range(len(P.counts)):
            count += drawn >= P.counts[place]
    for place in range(1, count):
        if not draw_later(T, F, decided, can, having, values, P, key, t, place, place == count - 1):
            break
        t.requests = place + 1
    if t.impostor:
        t.parameters[T.auth_level] = 2
        t.effect[0], t.reason[0], t.alternative[0] = REFUSED, T.unverified, -1
    if pick(key, _FAULT, 100) < _FAULTY:
        t.faulty = pick(key, _FAULT_TOOL, F.n_tools)
        t.faults = 1 + pick(key, _FAULTS, _MOST_FAULTS)
    for at in range(t.requests):
        complete(T, t, at)
    t.oracle_length = oracle_length(T, t)


@kernel
def clear_task(t: Any) -> None:
    """Nothing is asked for yet."""
    for at in range(len(t.workflow)):
        t.workflow[at] = t.row[at] = t.pointer[at] = t.knowledge[at] = t.detail[at] = 0
        t.effect[at] = t.reason[at] = t.alternative[at] = t.knows[at] = 0
        for i in range(t.terms.shape[1]):
            t.terms[at, i] = 0
    t.faulty = -1
    t.faults = t.oracle_length = 0


@kernel
def draw_request(
    T: Any, F: Any, decided: Any, values: Any, key: np.uint64, t: Any,
    place: int, w: int, row: int, outcome: int,
) -> None:  # fmt: skip
    """A request that rule `outcome` decides; sets the parameters that make it so."""
    at = place * _STRIDE
    ways = F.ways[w]
    begin = F.decided_from[w] + row * ways
    count = 0
    for way in range(ways):
        count += decided[begin + way] == outcome
    left, chosen, met = pick(key, _VALUES + at, count), 0, 0
    for way in range(ways):
        met += decided[begin + way] == outcome
        chosen += met <= left
    given = F.values_from[w] + chosen * F.width[w]
    for i in range(F.n_set[w]):
        t.parameters[F.sets[w, i]] = values[given + i]
    detail = 0
    if F.decisive[w]:
        detail = values[given + F.n_set[w]]
    elif T.worded[w]:
        detail = pick(key, _DETAIL + at, T.words[w])
    elif T.detailed[w]:
        detail = 1
    t.workflow[place], t.row[place], t.detail[place] = w, row, detail
    t.pointer[place] = -1 if T.kind[w] < 0 else row % each_of(T, w)
    t.knowledge[place] = F.knowledges[w, pick(key, _KNOWLEDGE + at, _DRAWS)]
    t.effect[place] = F.effect[w, outcome + 1]
    t.reason[place] = F.reason[w, outcome + 1]
    t.alternative[place] = F.alternative[w, outcome + 1]
    t.oracle_length += F.serving[w, outcome + 1]


# -- further requests ------------------------------------------------------------------------------


@kernel
def draw_later(
    T: Any, F: Any, decided: Any, can: Any, having: Any, values: Any, P: Any,
    key: np.uint64, t: Any, place: int, is_last: bool,
) -> bool:  # fmt: skip
    """A further request on a record of the same account; whether anything is left."""
    at, may_follow = place * _STRIDE, followers(F, P, t, place)
    granted = pick(key, _EFFECT + at, 100) < _LATER_GRANTED
    for apart in range(2):
        for turn in range(3 if is_last else 2):
            effect = turn
            if turn < 2 and not granted:
                effect = REFUSED if turn == 0 else ALLOWED
            total = 0
            for i in range(P.n_open):
                w = P.open_to[i]
                some = rows_open(T, having, t, place, apart, effect, w) != 0
                total += F.weight[w] * (may_follow >> w & 1) * some
            if not total:
                continue
            left, chosen, passed = pick(key, _WORKFLOW + at, total), 0, 0
            for i in range(P.n_open):
                w = P.open_to[i]
                some = rows_open(T, having, t, place, apart, effect, w) != 0
                passed += F.weight[w] * (may_follow >> w & 1) * some
                chosen += passed <= left
            chosen = P.open_to[chosen]
            rows = rows_open(T, having, t, place, apart, effect, chosen)
            k = nth_bit(rows, pick(key, _ROW + at, bits_in(rows)))
            row = t.account * each_of(T, chosen) + k
            outcomes = np.uint64(can[F.can_from[chosen] + row * F.can_step[chosen]])
            outcomes &= F.with_effect[chosen, effect]
            outcome = nth_bit(outcomes, pick(key, _OUTCOME + at, bits_in(outcomes))) - 1
            draw_request(T, F, decided, values, key, t, place, chosen, row, outcome)
            return True
    return False


@kernel
def followers(F: Any, P: Any, t: Any, place: int) -> int:
    """Bits of the workflows that may stand beside the requests before (`Tasks._partners`)."""
    bits = -1
    for before in range(place):
        one = t.workflow[before]
        bits &= ~(1 << one)
        if not P.compositional:
            bits &= ~F.apart[one]
        elif place == 1:
            bits &= F.apart[one]
    return bits


@kernel
def rows_open(
    T: Any, having: Any, t: Any, place: int, again: int, effect: int, w: int
) -> np.uint64:
    """Bits of the account's records on which some rule can decide `w` with this effect.

    What was changed at the customer's wish is left out unless it may be spoken of `again`.
    """
    rows = np.uint64(having[t.account, effect, w])
    for before in range(place):
        one = t.workflow[before]
        changed = T.kind[one] == T.kind[w] and T.write_of[one] >= 0
        changed = changed and t.effect[before] == ALLOWED and not again and T.kind[w] >= 0
        rows &= ~(np.uint64(changed) << np.uint64(max(t.pointer[before], 0)))
    return rows


@kernel
def bits_in(bits: np.uint64) -> int:
    """How many bits are set."""
    # The sums of ever wider groups, for which there is one instruction.
    bits -= bits >> _1 & _ODD
    bits = (bits & _PAIRS) + (bits >> _2 & _PAIRS)
    return np.int64(((bits + (bits >> _4)) & _FOURS) * _EACH >> _56)


@kernel
def nth_bit(bits: np.uint64, n: int) -> int:
    """Place of the n-th bit that is set."""
    for _ in range(n):
        bits &= bits - _1
    return bits_in(~bits & (bits - _1))


# -- what follows from the draws -------------------------------------------------------------------


@kernel
def complete(T: Any, t: Any, at: int) -> None:
    """The terms of a request, and what its customer knows."""
    w = t.workflow[at]
    place = np.int64(t.row[at])
    if T.kind[w] >= 0:
        place += T.base[T.kind[w]]
    for i in range(T.n_terms[w]):
        t.terms[at, i] = term_value(T, t, T.terms[w, i], 1, t.account, place, 1, t.detail[at])
    sort = (t.impostor * _SORTS + t.knowledge[at]) * 2
    if t.alternative[at] >= 0:
        sort += 1
    t.knows[at] = T.knows[w] + sort * T.words[w]
    if T.worded[w]:
        t.knows[at] += t.detail[at]


@kernel
def oracle_length(T: Any, t: Any) -> int:
    """`Tasks._oracle_length`; what it takes to serve each request is there."""
    if t.impostor:
        return 7
    level = t.parameters[T.auth_level]
    for at in range(t.requests):
        level = max(level, T.factors[t.workflow[at]])
    steps = t.oracle_length + (4 if level == 2 else 2)
    for at in range(t.requests):
        if T.kind[t.workflow[at]] >= 0:
            steps += locating_length(T, t, at)
    return steps


@kernel
def locating_length(T: Any, t: Any, at: int) -> int:
    """Acts until it is known which record is meant, and it has been read."""
    knowledge, kind = t.knowledge[at], T.kind[t.workflow[at]]
    listed = was_read = False
    for before in range(at):
        if T.kind[t.workflow[before]] == kind:
            listed = listed or _LISTS[t.knowledge[before]]
            was_read = was_read or t.pointer[before] == t.pointer[at]
    alike = np.int64(T.alike[T.base[kind] + t.row[at]])
    steps = _LOCATING[knowledge]
    if _LISTS[knowledge]:
        steps += (not listed) + (alike & (alike - 1) != 0)
    return steps + (not was_read)
