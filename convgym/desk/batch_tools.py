"""The tools of a desk on integer rows: `convgym.desk.tools`, call by call.

What a tool answers is a code with the numbers that its text is made of (`batch_words`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from convgym.desk.batch_case import (
    authenticate,
    clear,
    duties_hold,
    is_deciding,
    match,
    needed_factors,
    weigh,
)
from convgym.desk.batch_tables import ALLOWED, TRANSFERS
from convgym.desk.tools import RIGHT, STATED_WRONG
from convgym.desk.vocabulary import (
    END_CONVERSATION,
    FIND,
    GET,
    GET_STATED,
    KEY,
    LIST,
    SECRET,
    TRANSFER_TO_HUMAN,
    VERIFY,
)
from convgym.engine.batch import AGENT_ENDED, TRANSFERRED, Cells, result
from convgym.engine.kernel import kernel

(
    NOT_AVAILABLE,
    NO_ACCOUNT,
    NOT_OPEN,
    OPENED,
    VERIFIED,
    NOT_VERIFIED,
    LISTED,
    NO_RECORD,
    READ,
    MADE_BEFORE,
    MADE,
    HANDED_OVER,
    HUNG_UP,
) = np.arange(1, 14)
"""Codes of results, as numpy's numbers, since numba would compile `result` anew for each plain one.
Their numbers: of a tool; account, 1 where it needs verification; kind, account;
kind; kind, row, pointer; change, row."""

_0 = np.int64(0)


@kernel
def tool_number(T: Any, tool: int, argument: int) -> int:
    """Place of a call's tool in `Tasks.tools`."""
    if tool == FIND:
        return 0
    if tool == VERIFY:
        return 1
    if tool == LIST:
        return 2 + 2 * argument
    if tool == GET or tool == GET_STATED:
        return 3 + 2 * argument
    return len(T.rejected) * 2 - 2 + argument


@kernel
def call_tool(
    T: Any, e: Any, t: Any, b: Cells, tool: int, argument: int, pointer: int, detail: int
) -> None:
    """Run one tool."""
    if tool == TRANSFER_TO_HUMAN:
        transfer(T, e, t, b)
        return
    if tool == END_CONVERSATION:
        e.end = AGENT_ENDED
        result(e, HUNG_UP, _0, _0, _0, _0)
        return
    number = tool_number(T, tool, argument)
    fails = e.faults > 0 and t.faulty == number
    b[T.tool_failed] = fails
    if fails:
        e.faults -= 1
        result(e, NOT_AVAILABLE, number, _0, _0, _0)
    elif tool == FIND:
        find(T, e, t, b, detail)
    elif not b[T.found]:
        fail(e, NOT_OPEN, _0)
    elif tool == VERIFY:
        verify(T, e, t, b, detail)
    elif tool == LIST:
        list_records(T, e, t, b, argument)
    elif tool == GET or tool == GET_STATED:
        get(T, e, t, b, argument, pointer)
    else:
        write(T, e, t, b, argument, pointer, detail)


@kernel
def fail(e: Any, code: int, number: int) -> None:
    """Charge an error to the budget."""
    e.errors += 1
    result(e, code, number, _0, _0, _0)


@kernel
def find(T: Any, e: Any, t: Any, b: Cells, account: int) -> None:
    """Look an account up; another one than before forgets what was read of the last."""
    if account < 0:
        b[T.rejected[KEY]] = 1
        result(e, NO_ACCOUNT, _0, _0, _0, _0)
        return
    if e.account != account:
        e.account = account
        e.write_asked = e.pointer_asked = -1
        for run in range(len(T.of_account)):
            clear(b, np.int64(T.of_account[run, 0]), np.int64(T.of_account[run, 1]))
    b[T.found] = 1
    authenticate(T, e, t, b)
    weigh(T, e, t, b)
    result(e, OPENED, account, 1 - np.int64(b[T.authenticated]), _0, _0)


@kernel
def verify(T: Any, e: Any, t: Any, b: Cells, matches: int) -> None:
    """Compare the secret; a wrong one counts once as a failure."""
    if matches == RIGHT:
        b[T.verified] = 1
        authenticate(T, e, t, b)
        result(e, VERIFIED, _0, _0, _0, _0)
        return
    # Only what the customer said counts, and the same thing tried again counts once.
    if matches == STATED_WRONG and not b[T.rejected[SECRET]]:
        b[T.failures] = min(np.int64(b[T.failures]) + 1, 255)
        b[T.rejected[SECRET]] = 1
    result(e, NOT_VERIFIED, _0, _0, _0, _0)


@kernel
def list_records(T: Any, e: Any, t: Any, b: Cells, kind: int) -> None:
    """Show all records of a kind that the account has."""
    for k in range(T.each[kind]):
        b[T.seen[kind, k]] = 1
    b[T.listed[kind]] = 1
    match(T, e, t, b)
    result(e, LISTED, kind, np.int64(e.account), _0, _0)


@kernel
def get(T: Any, e: Any, t: Any, b: Cells, kind: int, pointer: int) -> None:
    """Read one record, which may decide the request."""
    if pointer < 0:
        b[T.rejected[2 + kind]] = 1
        result(e, NO_RECORD, kind, _0, _0, _0)
        return
    b[T.seen[kind, pointer]] = b[T.read[kind, pointer]] = b[T.read_any[kind]] = 1
    match(T, e, t, b)
    weigh(T, e, t, b)
    result(e, READ, kind, e.account * T.each[kind] + pointer, pointer, _0)


@kernel
def write(
    T: Any, e: Any, t: Any, b: Cells, change: int, pointer: int, detail: int
) -> None:
    """Change a record, or say why it cannot be changed; charges what the rules forbid."""
    w, at = T.workflow_of[change], e.desk_at
    kind = T.kind[w]
    if kind >= 0 and pointer < 0:
        fail(e, NO_RECORD, np.int64(kind))
        return
    place = max(pointer, 0)
    if b[T.written[change, place]]:
        fail(e, MADE_BEFORE, _0)
        return
    row = np.int64(e.account)
    if kind >= 0:
        row = row * T.each[kind] + pointer
    breach(T, e, t, b, change, place)
    asked_for = w == t.workflow[at] and row == t.row[at] and t.effect[at] == ALLOWED
    if not (asked_for and (not T.detailed[w] or detail == t.detail[at])):
        e.violations |= T.not_asked
    else:
        e.made |= 1 << at
        e.decided_right = 1
    b[T.written[change, place]] = b[T.wrote] = 1
    result(e, MADE, change, row, _0, _0)


@kernel
def breach(T: Any, e: Any, t: Any, b: Cells, change: int, place: int) -> None:
    """Which obligations a change breaks, before it is made."""
    factors = np.int64(b[T.found]) + np.int64(b[T.verified])
    confirmed = np.int64(b[T.confirmed[change, place]])
    needed = needed_factors(T, e, t)
    most = max(needed, T.factors[T.workflow_of[change]])
    for duty in range(T.n_duties):
        first, last = T.duty_when[duty, 0], T.duty_when[duty, 1]
        if duties_hold(T, t, first, last, factors, confirmed, needed, most):
            first, last = T.duty_requires[duty, 0], T.duty_requires[duty, 1]
            if not duties_hold(T, t, first, last, factors, confirmed, needed, most):
                e.violations |= T.duty_bit[duty]


@kernel
def transfer(T: Any, e: Any, t: Any, b: Cells) -> None:
    """Hand over to a person, which ends the conversation; right where the rules say so."""
    e.end = TRANSFERRED
    e.handed_over = 1
    if t.effect[e.desk_at] == TRANSFERS and is_deciding(T, e, t, b):
        e.decided_right = 1
    result(e, HANDED_OVER, _0, _0, _0, _0)
