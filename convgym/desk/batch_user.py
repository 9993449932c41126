"""The customer of a desk on integer rows: `convgym.users.agenda.AgendaUser.answer`."""

from __future__ import annotations

from typing import Any

from convgym.engine import acts
from convgym.engine.kernel import kernel
from convgym.users import agenda_batch as agenda
from convgym.users.user_batch import any_heard, order_heard


@kernel
def answer(D: Any, e: Any) -> None:
    """React to each act in turn, then see to one's own business."""
    bother_before, content_before, at_before = e.bother, e.satisfied, e.at
    question, waited, promised = e.question, e.waiting, e.promised
    order_heard(e)
    agenda.wait(e)
    agenda.come_back(D, e)
    for at in range(e.n_heard):
        if not e.closing:
            heard = e.heard[at]
            agenda.react(D, e, heard[0], heard[1], heard[2], heard[3])
    if question and not e.closing:
        agenda.mind_question(e, question)
    agenda.remind(D, e, waited, promised)
    done = e.closing or e.satisfied
    refusing = any_heard(e, acts.DENY) or any_heard(e, acts.OFFER)
    if e.denied and not done and refusing:
        agenda.face_refusal(D, e)
    if e.satisfied and not e.closing:
        agenda.part(D, e, content_before != 0)
    agenda.conclude(D, e, bother_before, at_before)
