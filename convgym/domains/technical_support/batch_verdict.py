"""`convgym.domains.technical_support.verdict` on rows: what a conversation was worth.

Every function stands under the name of the one it repeats; `T` is the record of `tables()`, `e` an
episode's, `task` a task's, `b` a row of the belief.
"""

from __future__ import annotations

from typing import Any

from convgym.domains.technical_support import cells
from convgym.domains.technical_support.batch_records import first_broken, is_meant
from convgym.domains.technical_support.batch_tables import (
    DENIED,
    FIRST_BOOKING,
    HANDED_OVER,
    OFFER_CELLS,
    OFFERED,
    REASON_CELLS,
    REFUSED,
    UNVERIFIED,
)
from convgym.domains.technical_support.faults import COMPONENTS
from convgym.domains.technical_support.vocabulary import ORDER_REPLACEMENT
from convgym.engine.batch import Cells
from convgym.engine.kernel import kernel


@kernel
def grounded(T: Any, e: Any, b: Cells, task: Any, reason: int) -> bool:
    """Whether what decides for `reason` has been seen, and nothing else is in the way."""
    if reason == UNVERIFIED:
        return b[cells.FAILURES] >= 2 and not b[cells.AUTHENTICATED]
    if not (e.account == task.customer and b[cells.AUTHENTICATED]):
        return False
    if not has_seen(T, e, b, task, reason):
        return False
    if T.found_by_fault[reason]:
        return first_broken(e) == task.fault
    return True


@kernel
def has_seen(T: Any, e: Any, b: Cells, task: Any, reason: int) -> bool:
    """Whether all that `DECIDING` names for a reason was read."""
    if T.needs_device[reason] and not is_meant(e, task):
        return False
    for place in range(T.needs_cells.shape[1]):
        cell = T.needs_cells[reason, place]
        if cell < 0:
            break
        if not b[cell]:
            return False
    return True


@kernel
def grade(T: Any, e: Any, b: Cells, task: Any) -> None:
    """The verdict on the episode as it stands: evidence, each on top of what comes before it."""
    reasons = 0
    for place in range(REASON_CELLS):
        reasons += b[DENIED + place]
    offers = 0
    for place in range(OFFER_CELLS):
        offers += b[OFFERED + place]
    if task.reason == UNVERIFIED:
        authenticated = read = b[cells.FAILURES] >= 2
    else:
        authenticated = e.account == task.customer and b[cells.AUTHENTICATED] > 0
        read = is_meant(e, task) if task.reason < 0 else has_seen(T, e, b, task, task.reason)
    if task.effect == REFUSED:
        # Naming every reason there is, the right one among them, is no reason; nor is offering
        # everything an offer.
        decided = e.decided_right != 0 and reasons == 1
        told = e.resolved != 0 and offers == (1 if task.alternative >= 0 else 0)
    elif task.effect == HANDED_OVER:
        decided = e.transferred != 0 and e.decided_right != 0
        told = reasons == 0
    else:
        decided = is_mended(T, e, task)
        told = is_told(e, task) and reasons == 0
    clean = e.violations == 0 and e.n_elsewhere == 0 and not e.written & ~task.allowed
    progress, complete = 0.0, True
    for place in range(4):
        if place == 0:
            complete = complete and authenticated
        elif place == 1:
            complete = complete and read
        elif place == 2:
            complete = complete and decided
        else:
            complete = complete and told
        progress += T.weights[place] * complete
    success = complete and clean
    e.success = success
    e.graded = progress + T.closing * success if clean else 0.0
    e.progress = progress if clean else 0.0


@kernel
def is_mended(T: Any, e: Any, task: Any) -> bool:
    """The device is settled; where a new one comes, whatever is behind what ails it comes new."""
    if e.written & task.required != task.required:
        return False
    first = first_broken(e)
    if first < 0:
        return True
    if T.remedy[task.kind, first, e.device[first]] == ORDER_REPLACEMENT:
        return e.written >> ORDER_REPLACEMENT & 1 == 1
    for place in range(COMPONENTS):
        if e.device[place]:
            remedy = T.remedy[task.kind, place, e.device[place]]
            if remedy < 0 or not e.written >> remedy & 1:
                return False
    return True


@kernel
def is_told(e: Any, task: Any) -> bool:
    """The customer has seen that it works, or was told of the booking; and of what had to be
    written."""
    if e.reported & task.required != task.required:
        return False
    return task.required >> FIRST_BOOKING != 0 or e.seen_working != 0
