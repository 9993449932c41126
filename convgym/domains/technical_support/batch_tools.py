"""`tools` of the support desk on rows: reads and writes, and codes of what they answer.

Every function stands under the name of the one it repeats; `T` is the record of `tables()`, `e` an
episode's, `task` a task's, `b` a row of the belief.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from convgym.desk.tools import RIGHT, STATED_WRONG
from convgym.domains.technical_support import batch_tables as codes
from convgym.domains.technical_support import cells
from convgym.domains.technical_support.batch_records import (
    change,
    check,
    check_end,
    factors,
    hold_device,
    is_allowed,
    is_meant,
    match,
    note_look,
    note_operation,
    observe,
    violate,
    weigh,
)
from convgym.domains.technical_support.batch_tables import (
    AGAINST,
    AUTH_LEVEL,
    CONFIRMED,
    HANDED_OVER,
    MOST_ELSEWHERE,
    OF_ACCOUNT,
    REJECTED,
    SEEN_DEVICE,
)
from convgym.domains.technical_support.batch_verdict import grounded
from convgym.domains.technical_support.dialogue import (
    END_CONVERSATION,
    FIND_CUSTOMER,
    GET_DEVICE,
    GET_STATED,
    LIST_DEVICES,
    PIN,
    READ,
    TRANSFER_TO_HUMAN,
    VERIFY_PIN,
)
from convgym.domains.technical_support.facts import NEVER
from convgym.domains.technical_support.tools import SERIAL
from convgym.domains.technical_support.vocabulary import (
    AREA_STATUS,
    FIRST_WRITE,
    NOT_THERE,
    OK,
    ORDER_REPLACEMENT,
    PLAN_READ,
    PUSH_CONFIG,
    RESET_PORT,
    VALUE,
)
from convgym.domains.technical_support.world import DEVICES_EACH
from convgym.engine.batch import AGENT_ENDED, TRANSFERRED, Cells, call, result
from convgym.engine.kernel import kernel

_OUTAGE = VALUE["outage"]


@kernel
def call_of(e: Any, task: Any, tool: int, argument: int, pointer: int) -> None:
    """The call that an act stands for: filled in from what the customer has said."""
    own = e.account == task.customer
    if tool == FIND_CUSTOMER:
        call(e, tool, 0, -1, task.customer if e.stated[0] == 1 else -1)
    elif tool == VERIFY_PIN:
        call(e, tool, 0, -1, RIGHT if own and e.stated[PIN] == 1 else STATED_WRONG)
    elif tool == GET_STATED:
        found = own and e.stated[SERIAL] == 1
        call(e, GET_DEVICE, 0, task.pointer if found else -1, -1)
    elif tool == GET_DEVICE:
        call(e, tool, 0, pointer, -1)
    else:
        call(e, tool, argument, e.in_hand, -1)


@kernel
def ends(tool: int) -> bool:
    """Transfers and endings."""
    return tool == TRANSFER_TO_HUMAN or tool == END_CONVERSATION


@kernel
def run(
    T: Any, e: Any, b: Cells, task: Any, tool: int, argument: int, pointer: int, detail: int
) -> None:
    """Run one tool."""
    if tool == TRANSFER_TO_HUMAN:
        transfer(T, e, b, task)
    elif tool == END_CONVERSATION:
        check_end(T, e, b, task)
        e.end = AGENT_ENDED
        result(e, codes.ENDED, 0, 0, 0, 0)
    elif tool == FIND_CUSTOMER:
        find(T, e, b, task, detail)
    elif not b[cells.FOUND]:
        fail(e, codes.NOT_OPEN)
    elif tool == VERIFY_PIN:
        verify(e, b, task, detail)
    elif tool == LIST_DEVICES:
        list_devices(T, e, b, task)
    elif tool == READ and argument == AREA_STATUS:
        read_area(T, e, b, task)
    elif tool == GET_DEVICE:
        get_device(T, e, b, task, pointer)
    elif pointer < 0:
        fail(e, codes.NO_SUCH_DEVICE)
    elif pointer != e.in_hand:
        fail(e, codes.NOT_READ)
    elif tool == READ:
        read(T, e, b, task, argument)
    else:
        write(T, e, b, task, argument)


@kernel
def fail(e: Any, code: int) -> None:
    """Charge an error to the budget."""
    e.errors += 1
    result(e, code, 0, 0, 0, 0)


# -- the account -----------------------------------------------------------------------------------


@kernel
def find(T: Any, e: Any, b: Cells, task: Any, account: int) -> None:
    """Look an account up; another one than before forgets what was seen of the last."""
    if account < 0:
        b[REJECTED[0]] = 1
        result(e, codes.NO_ACCOUNT, 0, 0, 0, 0)
        return
    if e.account != account:
        e.account = account
        e.in_hand = e.asked_to_confirm = -1
        for cell in OF_ACCOUNT:
            b[cell] = 0
    b[cells.FOUND] = 1
    authenticate(b, task)
    weigh(T, e, b, task)
    overdue = task.overdue if account == task.customer else 0
    result(e, codes.ACCOUNT, account, overdue, 0 if b[cells.AUTHENTICATED] else 1, 0)


@kernel
def authenticate(b: Cells, task: Any) -> None:
    """As many proofs as this episode's policy asks for make the customer known."""
    b[cells.AUTHENTICATED] = factors(b) >= task.parameters[AUTH_LEVEL]


@kernel
def verify(e: Any, b: Cells, task: Any, matches: int) -> None:
    """Compare the PIN; a wrong one counts once as a failure."""
    if matches == RIGHT:
        b[cells.VERIFIED] = 1
        authenticate(b, task)
        result(e, codes.VERIFIED, 0, 0, 0, 0)
        return
    # Only what the customer said counts, and the same thing tried again counts once.
    if matches == STATED_WRONG and not b[REJECTED[PIN]]:
        b[cells.FAILURES] = min(np.int64(b[cells.FAILURES]) + 1, 255)
        b[REJECTED[PIN]] = 1
    result(e, codes.NOT_VERIFIED, 0, 0, 0, 0)


# -- devices ---------------------------------------------------------------------------------------


@kernel
def list_devices(T: Any, e: Any, b: Cells, task: Any) -> None:
    """Show the devices of the account."""
    for cell in SEEN_DEVICE:
        b[cell] = 1
    b[cells.LISTED] = 1
    match(T, e, b, task)
    result(e, codes.LISTED, e.account, 0, 0, 0)


@kernel
def get_device(T: Any, e: Any, b: Cells, task: Any, pointer: int) -> None:
    """Read one device and take it in hand."""
    if pointer < 0:
        b[REJECTED[SERIAL]] = 1
        result(e, codes.NO_DEVICE, 0, 0, 0, 0)
        return
    hold_device(T, e, b, pointer)
    match(T, e, b, task)
    weigh(T, e, b, task)
    row = e.account * DEVICES_EACH + pointer
    result(e, codes.DEVICE, row, task.replaced if row == task.device else NEVER, 0, 0)


# -- the provider's side ---------------------------------------------------------------------------


@kernel
def read(T: Any, e: Any, b: Cells, task: Any, look: int) -> None:
    """Look at the device in hand from the desk, as far as that can be seen from there."""
    meant = is_meant(e, task)
    if meant:
        value = observe(T, e, task.kind, look)
    else:
        value = np.int64(T.whole[T.kind[e.account * DEVICES_EACH + e.in_hand], look])
    if value == NOT_THERE:
        b[T.shown_by[look]] = 1
        result(e, codes.NOTHING_SHOWN, e.in_hand, 0, 0, 0)
        return
    note_look(T, e, b, task, look, value)
    raised = -1
    if look == PLAN_READ:
        raised = task.raised if meant else 0
    result(e, codes.SHOWN, e.in_hand, value, raised, 0)


@kernel
def read_area(T: Any, e: Any, b: Cells, task: Any) -> None:
    """Look whether the customer's area has an outage."""
    area = T.area[e.account]
    out = task.outages >> area & 1
    note_look(T, e, b, task, AREA_STATUS, _OUTAGE if out else OK)
    result(e, codes.AREA, e.account, out, 0, 0)


@kernel
def write(T: Any, e: Any, b: Cells, task: Any, operation: int) -> None:
    """Do something to the device in hand, or say why not; charges what the rules forbid."""
    row = e.account * DEVICES_EACH + e.in_hand
    meant = is_meant(e, task)
    place = -1
    made = e.written
    if not meant:
        place = elsewhere(e, row)
        made = np.int64(e.elsewhere[place, 1]) << FIRST_WRITE
    if made >> operation & 1 and operation != RESET_PORT and operation != PUSH_CONFIG:
        fail(e, codes.DONE_BEFORE)
        return
    check(T, e, b, task, operation)
    if meant:
        if not is_allowed(T, e, b, task, operation):
            violate(e, AGAINST)
        e.written |= 1 << operation
        change(T, e, task.kind, operation)
    else:
        e.elsewhere[place, 1] |= 1 << operation - FIRST_WRITE
    e.last_write = operation
    b[CONFIRMED + operation - FIRST_WRITE] = 0
    b[cells.UNREPORTED] = 1
    e.asked_to_confirm = -1
    note_operation(T, b, operation)
    result(e, codes.WRITTEN, e.in_hand, operation == ORDER_REPLACEMENT, 0, 0)


@kernel
def elsewhere(e: Any, row: int) -> int:
    """Place of another device than the one meant among those that were written on; the newest gives
    way where there are too many."""
    for place in range(e.n_elsewhere):
        if e.elsewhere[place, 0] == row:
            return place
    if e.n_elsewhere < MOST_ELSEWHERE:
        e.n_elsewhere += 1
    place = e.n_elsewhere - 1
    e.elsewhere[place, 0] = row
    e.elsewhere[place, 1] = 0
    return place


@kernel
def transfer(T: Any, e: Any, b: Cells, task: Any) -> None:
    """Hand over to a person, which ends the conversation; right where the rules say so."""
    e.end = TRANSFERRED
    e.transferred = 1
    if task.effect == HANDED_OVER and grounded(T, e, b, task, task.reason):
        e.decided_right = 1
    result(e, codes.HANDED, 0, 0, 0, 0)
