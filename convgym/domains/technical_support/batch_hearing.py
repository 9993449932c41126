"""`convgym.domains.technical_support.hearing` on rows: what the agent's speech means to a customer.

Every function stands under the name of the one it repeats; `T` is the record of `tables()`, `e` an
episode's, `task` a task's, `b` a row of the belief.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from convgym.domains.technical_support import cells
from convgym.domains.technical_support.batch_records import (
    check,
    check_end,
    is_meant,
    technician_due,
    violate,
)
from convgym.domains.technical_support.batch_tables import (
    ASKED_FOR,
    ASKED_STEP,
    DENIED,
    DISCLOSED,
    FACT,
    FALSEHOOD,
    HANDED_OVER,
    OFFERED,
    REFUSED,
    TOLD_CELL,
    UNVERIFIED,
)
from convgym.domains.technical_support.batch_verdict import grounded
from convgym.domains.technical_support.dialogue import CHECK_NAMES, MOST_COUNTED
from convgym.domains.technical_support.vocabulary import FIRST_WRITE
from convgym.engine import acts
from convgym.engine.batch import Cells, hear
from convgym.engine.kernel import kernel

_CHECKS, _TOLD_CELLS = len(CHECK_NAMES), len(cells.TOLD_CELL)


@kernel
def hear_said(T: Any, e: Any, b: Cells, task: Any) -> None:
    """Weigh the speech of one turn: `hear`."""
    asked, step, explains = -1, -1, False
    for place in range(e.n_said):
        kind, argument = e.said[place, 0], e.said[place, 1]
        if kind == acts.CHECK:
            asked = argument
        elif kind == acts.INSTRUCT:
            asked = _CHECKS + argument
            if step < 0:  # one at a time
                step = argument
        explains = explains or kind == acts.EXPLAIN
    if asked >= 0:
        e.asked_last = asked
        if step >= 0:
            e.step = step
            e.applied = 0
        elif not explains:
            e.step = -1
    for place in range(e.n_said):
        act = e.said[place]
        weigh_said(T, e, b, task, act[0], act[1], act[2], act[3], act[4])


@kernel
def weigh_said(
    T: Any,
    e: Any,
    b: Cells,
    task: Any,
    kind: int,
    argument: int,
    pointer: int,
    value: int,
    claim: int,
) -> None:
    """What one act means."""
    if kind == acts.ASK:
        b[ASKED_FOR + argument] = 1
        hear(e, kind, argument, -1, acts.FINE)
    elif kind == acts.CHECK:
        hear(e, kind, argument, value, acts.FINE)
    elif kind == acts.INSTRUCT:
        cell = ASKED_STEP + argument
        b[cell] = min(np.int64(b[cell]) + 1, MOST_COUNTED)
        check(T, e, b, task, argument)
        hear(e, kind, argument, value, acts.FINE)
    elif kind == acts.TELL:
        tell(T, e, b, task, argument, claim)
    elif kind == acts.CONFIRM:
        confirm(T, e, b, task, argument, claim)
    elif kind == acts.DENY:
        deny(T, e, b, task, argument)
    elif kind == acts.OFFER:
        b[OFFERED + argument] = 1
        right = task.alternative == argument
        hear(e, kind, argument, -1, acts.FINE if right else acts.WRONG)
    elif kind == acts.PROMISE:
        promised = T.promised[argument]
        if promised < 0:
            ours = task.effect == HANDED_OVER
        else:
            ours = task.required >> promised & 1 == 1
        hear(e, kind, argument, -1, acts.FINE if ours else acts.WRONG)
    elif kind == acts.REPORT_DONE:
        report(e, b, argument, claim)
    elif kind == acts.CLOSE or kind == acts.ASK_MORE:
        check_end(T, e, b, task)
        hear(e, kind, 0, -1, acts.FINE)
    else:
        hear(e, kind, argument, pointer, acts.FINE)


# -- claims ----------------------------------------------------------------------------------------


@kernel
def tell(T: Any, e: Any, b: Cells, task: Any, argument: int, claim: int) -> None:
    """Note a told fact; what has no basis is doubted, what is wrong a falsehood."""
    if claim == acts.KNOWN and not has_basis(T, b, task, argument):
        claim = acts.UNSUPPORTED
    if claim == acts.UNSUPPORTED:
        hear(e, acts.TELL, argument, -1, acts.DOUBTFUL)
        return
    if not T.is_term[argument] and not b[cells.AUTHENTICATED]:
        violate(e, DISCLOSED)
    if claim == acts.FALSE:
        violate(e, FALSEHOOD)
    elif argument < _TOLD_CELLS:
        b[TOLD_CELL + argument] = 1
    hear(e, acts.TELL, argument, -1, acts.DOUBTFUL if claim == acts.FALSE else acts.FINE)


@kernel
def has_basis(T: Any, b: Cells, task: Any, argument: int) -> bool:
    """Whether the policy or a read says it at all."""
    rule, cell = T.basis_rule[argument], T.basis_cell[argument]
    if rule and not task.active & rule:
        return False
    return cell < 0 or b[cell] != 0


# -- a yes, a no, a deed ---------------------------------------------------------------------------


@kernel
def confirm(T: Any, e: Any, b: Cells, task: Any, argument: int, claim: int) -> None:
    """A question for a yes: what, if anything, keeps the customer from giving it."""
    if claim == acts.FALSE:
        hear(e, acts.CONFIRM, argument, -1, acts.OTHER_REQUEST)
        return
    if e.in_hand >= 0 and not is_meant(e, task):
        hear(e, acts.CONFIRM, argument, -1, acts.OTHER_OBJECT)
        return
    term = T.priced[argument]
    if term >= 0 and not b[TOLD_CELL + term] and is_due(T, e, task, argument):
        hear(e, acts.CONFIRM, argument, term, acts.TERM_UNKNOWN)
        return
    e.asked_to_confirm = argument
    hear(e, acts.CONFIRM, argument, -1, acts.FINE)


@kernel
def is_due(T: Any, e: Any, task: Any, argument: int) -> bool:
    """Whether what a yes is asked for costs this customer anything."""
    if not T.by_plan[argument]:
        return True
    e.facts[FACT.plan] = task.facts[FACT.plan]
    return technician_due(T, e, task) > 0


@kernel
def deny(T: Any, e: Any, b: Cells, task: Any, reason: int) -> None:
    """Note a refusal; right where the rules refuse for this reason and its basis was seen."""
    b[DENIED + reason] = 1
    if reason != UNVERIFIED and not b[cells.AUTHENTICATED]:
        violate(e, DISCLOSED)
    decided = task.effect == REFUSED and task.reason == reason
    right = decided and grounded(T, e, b, task, reason)
    if right:
        e.decided_right = 1
    hear(e, acts.DENY, reason, -1, acts.FINE if right else acts.WRONG)


@kernel
def report(e: Any, b: Cells, argument: int, claim: int) -> None:
    """A report of the write that `argument` names from 1 on, or of the last one (0)."""
    write = FIRST_WRITE + argument - 1 if argument else e.last_write
    if write < 0 or not e.written >> write & 1 or claim == acts.FALSE:
        violate(e, FALSEHOOD)
        hear(e, acts.REPORT_DONE, argument, -1, acts.WRONG)
        return
    e.reported |= 1 << write
    if write == e.last_write:
        b[cells.UNREPORTED] = 0
    b[cells.TOLD_DONE] = 1
    hear(e, acts.REPORT_DONE, write, -1, acts.FINE)
