"""The customer of a desk on integer rows: `convgym.users.agenda.AgendaUser.answer`."""

from __future__ import annotations

from typing import Any

from convgym.engine import acts
from convgym.engine.kernel import kernel
from convgym.users import agenda_batch as agenda
from convgym.users import decisions
from convgym.users.user_batch import (
    ACKNOWLEDGE,
    TANGENT,
    any_heard,
    decide,
    end_turn,
    general,
    order_heard,
)


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
            react(D, e, at)
    if question and not e.closing:
        agenda.mind_question(e, question)
    agenda.remind(D, e, waited, promised)
    done = e.closing or e.satisfied
    refusing = any_heard(e, acts.DENY) or any_heard(e, acts.OFFER)
    if e.denied and not done and refusing:
        agenda.face_refusal(D, e)
    if e.satisfied and not e.closing:
        agenda.part(D, e, content_before != 0)
    if not e.intent_said and not e.closing:
        agenda.request(D, e)
    # Who has just got what it wanted, and goes on to the next thing, does not leave over it.
    bothered = e.bother > bother_before and e.at == at_before
    if bothered and not (e.closing or e.satisfied or e.waiting):
        agenda.lose_patience(D, e)
    if e.n_acts == 0:
        general(D, e, ACKNOWLEDGE)
    if not e.closing and decide(D, e, decisions.TANGENT, 0):
        general(D, e, TANGENT)
    end_turn(e)


@kernel
def react(D: Any, e: Any, at: int) -> None:
    """To one of the things heard; idle talk asks for nothing."""
    kind, argument = e.heard[at, 0], e.heard[at, 1]
    pointer, verdict = e.heard[at, 2], e.heard[at, 3]
    if kind == acts.ASK_INTENT:
        agenda.ask_intent(D, e)
    elif kind == acts.ASK:
        agenda.ask(D, e, argument)
    elif kind == acts.ASK_MORE:
        agenda.ask_more(D, e)
    elif kind == acts.TELL:
        agenda.tell(D, e, argument, pointer, verdict)
    elif kind == acts.CONFIRM:
        agenda.confirm(D, e, pointer, verdict)
    elif kind == acts.DENY:
        agenda.deny(e, verdict)
    elif kind == acts.OFFER:
        agenda.offer(D, e, verdict)
    elif kind == acts.REPORT_DONE:
        agenda.report_done(D, e, verdict)
    elif kind == acts.APOLOGISE:
        agenda.apologise(e)
    elif kind == acts.CLOSE:
        agenda.close(D, e)
    elif kind == acts.UNCLEAR:
        agenda.unclear(D, e)
    elif kind == acts.EXPLAIN:
        agenda.explain(D, e)
    elif kind == acts.PROMISE:
        agenda.promise(e, verdict)
    elif kind == acts.JARGON:
        agenda.jargon(D, e, argument)
