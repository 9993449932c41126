"""A read reply held against the state of a row: `grounding` and the second half of `calls`.

    Reading.calls  ─► ground_call   ─► e.calls   when it is run
    Reading.claims ─► ground_speech ─► e.said    when it is heard

What a text says whatever the state stands in the reading (`batch_reading`); what is left is looked
up here, under the names of the functions that are repeated. `T` is the record of `tables()`, `e` an
episode's, `task` a task's, `b` a row of the belief, `r` that of a reply.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from convgym.desk.batch_grounding import secret
from convgym.desk.grounding import MOST_ACTS
from convgym.domains.technical_support.batch_records import technician_due
from convgym.domains.technical_support.batch_tables import FACT, SEEN_DEVICE
from convgym.domains.technical_support.batch_tools import ends
from convgym.domains.technical_support.dialogue import FACTS, PIN, TELLS, VERIFY_PIN, WARRANTY
from convgym.domains.technical_support.facts import PARAMETER_NAMES
from convgym.domains.technical_support.world import DEVICES_EACH
from convgym.engine import acts
from convgym.engine.batch import MOST_CALLS, QUOTED, Cells, Fields, numbers, result, say
from convgym.engine.kernel import kernel

TOOL, ARGUMENT, NAMED, DETAIL = range(4)
"""Columns of a call. `NAMED` is the device that it names, `DETAIL` the row of an account, or a PIN
as a number."""
ACT, VALUE = TOOL, DETAIL
"""Columns of a claim; the two between are those of calls. `VALUE` is what is told: a number, 1 or 0
for yes or no, the cell that says that it was seen; of a check or a step it is in which words."""
COLUMNS = 4

MALFORMED, MALFORMED_LAST = -1, -2
"""In place of a tool: a call that is answered by a sentence of the reply's own, at once or last."""
NOBODYS, UNNAMED, FIRST_HANDLE = -1, -2, -3
"""Instead of a device's row: no device's serial, no name at all, a handle: "device:1"."""
UNTOLD, UNLIKE = -1, -2
"""Instead of what is told: nothing that could be wrong; what agrees with nothing."""

READING: Fields = [
    *numbers("n_errors n_calls n_claims reply_length"),
    ("calls", np.int32, (MOST_CALLS, COLUMNS)),
    ("claims", np.int32, (MOST_ACTS, COLUMNS)),
]
"""A read reply; `reply_length` counts the characters of its speech."""

_TECHNICIAN_FEE, _WARRANTY = TELLS.index("technician_fee"), TELLS.index(WARRANTY)
_AREA_STATUS = TELLS.index(FACTS[-1])
"""The fact that is no device's."""
_WARRANTY_MONTHS = PARAMETER_NAMES.index("warranty")

# -- calls -----------------------------------------------------------------------------------------


@kernel
def begin_reply(e: Any, r: Any) -> None:
    """What is malformed is charged first."""
    e.n_calls, e.reply_length, e.n_errors = r.n_calls, r.reply_length, r.n_errors
    for place in range(r.n_errors):
        quote(e, place)


@kernel
def quote(e: Any, place: int) -> None:
    """Charge an error that is answered by a sentence of the reply's own."""
    e.errors += 1
    result(e, QUOTED, place, 0, 0, 0)


@kernel
def leaves(tool: int) -> bool:
    """Whether a call leaves the conversation, and so has to wait for what is said."""
    return ends(tool) or tool == MALFORMED_LAST


@kernel
def ground_call(T: Any, e: Any, b: Cells, task: Any, r: Any, at: int) -> None:
    """The call at this place as the tools take it."""
    call = e.calls[at]
    call[0], call[1] = r.calls[at, TOOL], r.calls[at, ARGUMENT]
    call[2], call[3] = pointer_of(e, b, r.calls[at, NAMED]), r.calls[at, DETAIL]
    if call[0] == VERIFY_PIN:
        stated, tried = np.int64(e.stated[PIN]), r.calls[at, DETAIL]
        call[3] = secret(T.pins, e.account, task.customer, stated, tried)


@kernel
def pointer_of(e: Any, b: Cells, named: int) -> int:
    """Place of a device among those of the open account; -1 where it is not one of them."""
    if e.account < 0:
        return -1
    if named <= FIRST_HANDLE:
        pointer = FIRST_HANDLE - named
        return pointer if b[SEEN_DEVICE[pointer]] else -1
    if named >= 0 and named // DEVICES_EACH == e.account:
        return named % DEVICES_EACH
    return -1


# -- claims ----------------------------------------------------------------------------------------


@kernel
def ground_speech(T: Any, e: Any, b: Cells, task: Any, r: Any) -> None:
    """Acts of speech with their claims held against what the desk has read by now."""
    for at in range(r.n_claims):
        kind, argument = r.claims[at, ACT], r.claims[at, ARGUMENT]
        named, value = r.claims[at, NAMED], r.claims[at, VALUE]
        if kind == acts.TELL:
            add(e, kind, argument, 0, told(T, e, b, task, argument, named, value))
        elif kind == acts.CONFIRM or kind == acts.REPORT_DONE:
            another = is_of_another(e, b, named)
            add(e, kind, argument, 0, acts.FALSE if another else acts.KNOWN)
        else:
            add(e, kind, argument, value, acts.KNOWN)


@kernel
def add(e: Any, kind: int, argument: int, value: int, claim: int) -> None:
    """One more act of speech; what is said already is not said again."""
    for at in range(e.n_said):
        said = e.said[at]
        if said[0] == kind and said[1] == argument and said[3] == value and said[4] == claim:
            return
    say(e, kind, argument, -1, value, claim)


@kernel
def is_of_another(e: Any, b: Cells, named: int) -> bool:
    """Whether a device is named that is not the one in hand."""
    return named != UNNAMED and pointer_of(e, b, named) != e.in_hand


@kernel
def told(T: Any, e: Any, b: Cells, task: Any, argument: int, named: int, value: int) -> int:
    """How a term or a fact stands to the truth."""
    if argument == _WARRANTY:
        return warranty(T, e, task, value)
    if T.is_term[argument]:
        return term(T, e, task, argument, value)
    return fact(T, e, b, argument, named, value)


@kernel
def term(T: Any, e: Any, task: Any, argument: int, value: int) -> int:
    """KNOWN where it is what the policy says: whether there is a basis for it is found later."""
    if value == UNTOLD:
        return acts.KNOWN
    right = np.int64(task.parameters[T.told_parameter[argument]])
    if argument == _TECHNICIAN_FEE:
        if e.account < 0:
            return acts.UNSUPPORTED
        e.facts[FACT.plan] = T.plan[e.account]
        right = technician_due(T, e, task)
    return acts.KNOWN if value == right else acts.FALSE


@kernel
def fact(T: Any, e: Any, b: Cells, argument: int, named: int, value: int) -> int:
    """Whether a fact is true, false or without a basis in what was read."""
    if not b[T.basis_cell[argument]]:
        return acts.UNSUPPORTED
    if argument != _AREA_STATUS and is_of_another(e, b, named):
        return acts.UNSUPPORTED
    if value == UNTOLD:
        return acts.TRUE
    return acts.TRUE if value != UNLIKE and b[value] else acts.FALSE


@kernel
def warranty(T: Any, e: Any, task: Any, value: int) -> int:
    """Whether a replacement would still be free, by the record of the device in hand."""
    if e.in_hand < 0 or value == UNLIKE:
        return acts.UNSUPPORTED
    months = T.months[e.account * DEVICES_EACH + e.in_hand]
    free = months <= task.parameters[_WARRANTY_MONTHS]
    return acts.TRUE if free == (value == 1) else acts.FALSE
