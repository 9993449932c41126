"""What a row's conversation was worth: `convgym.domains.sales.verdict` on integers."""

from __future__ import annotations

from typing import Any

from convgym.domains.sales import cells
from convgym.domains.sales.batch_records import DENIED, OFFERED
from convgym.domains.sales.batch_rules import ALLOWS, REASONS, TRANSFERS, authority
from convgym.domains.sales.batch_tools import any_read
from convgym.domains.sales.vocabulary import PRICE_DENIALS
from convgym.engine.grading import CLOSING
from convgym.engine.kernel import kernel

_BULK = REASONS.index("bulk")


@kernel
def grade(T: Any, e: Any, b: Any, t: Any) -> None:
    """The verdict on the episode as it stands."""
    heard = b.cell[cells.HEARD_NEEDS] != 0 or b.cell[cells.HEARD_PART] != 0
    understood = b.cell[cells.SEARCHED] != 0 and heard and b.cell[cells.HEARD_QUANTITY] != 0
    told_of, unavailable = 0, False
    for k in range(DENIED.shape[0]):
        if b.cell[DENIED[k]]:
            told_of += 1
            unavailable = unavailable or k >= PRICE_DENIALS
    offered = b.cell[OFFERED[0]] + b.cell[OFFERED[1]]
    bulk, alternative = t.reason == _BULK, t.alternative >= 0
    read = e.searched == t.must if bulk or alternative else any_read(e, t)
    if t.effect == ALLOWS:
        told = b.cell[cells.TOLD_DONE] != 0 and not unavailable
        decided = e.decided_right != 0
    else:
        understood = understood and e.needs == t.must
        if t.effect == TRANSFERS:
            decided, told = e.transferred != 0 and e.decided_right != 0, told_of == 0
        else:
            decided = e.decided_right != 0 and told_of == 1
            told = e.resolved != 0 and (offered == 1) == alternative and offered < 2
    # What is booked stays as it was quoted, so that the diff holds the booking and nothing else.
    clean = e.violations == 0 and (t.effect == ALLOWS or e.booked < 0)
    write_grade(T, e, t, understood, read, decided, told, clean)


@kernel
def write_grade(
    T: Any, e: Any, t: Any, understood: bool, read: bool, decided: bool, told: bool, clean: bool
) -> None:
    """`convgym.engine.grading.grade`; a sale is paid by its price."""
    progress, complete = 0.0, True
    complete = complete and understood
    progress += T.weights[0] * complete
    complete = complete and read
    progress += T.weights[1] * complete
    complete = complete and decided
    progress += T.weights[2] * complete
    complete = complete and told
    progress += T.weights[3] * complete
    success = complete and clean
    e.success = success
    e.graded = progress + CLOSING * success if clean else 0.0
    e.progress = progress if clean else 0.0
    if success and t.effect == ALLOWS:
        e.graded -= CLOSING * (1000 - price_place(T, e, t)) / 1000


@kernel
def price_place(T: Any, e: Any, t: Any) -> int:
    """Where the booked price lies between the lowest allowed, 0, and the list price, 1000."""
    lowest = authority(T, t, e, e.booked, e.quantity[e.booked])
    return (lowest - e.discount[e.booked]) * 1000 // lowest if lowest else 1000
