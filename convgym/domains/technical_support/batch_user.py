"""`convgym.domains.technical_support.customer` on rows: a customer at a device.

Functions stand under the names of those they repeat; `T` is the record of `tables()`, `D` that
of the decision model and of what customers know, `e` an episode's, `task` a task's.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from convgym.domains.technical_support.batch_records import act_on, observe
from convgym.domains.technical_support.batch_tables import FIRST_BOOKING
from convgym.domains.technical_support.customer import (
    _EXPERTISE,
    _STAYING,
    A_CHECK,
    A_STEP,
    MOST_ALIKE,
    NOTHING_PUZZLES,
    TRIES,
    WRONG_VALUE,
    knowledge,
)
from convgym.domains.technical_support.dialogue import U
from convgym.domains.technical_support.faults import FAULTS
from convgym.domains.technical_support.handling import (
    ABLE,
    DONE,
    EXPLAINED,
    LEFT,
    MISSEEN,
    NEEDS_HELP,
    SEEN,
    UNABLE,
)
from convgym.domains.technical_support.hearing import TECHNICAL
from convgym.domains.technical_support.tasks import KNOWLEDGES, Task, draw_task
from convgym.domains.technical_support.vocabulary import CHECKS, EXPERT, OK, SERVICE
from convgym.engine import acts
from convgym.engine.batch import below, draw
from convgym.engine.kernel import kernel
from convgym.engine.keys import USER
from convgym.engine.rules import REFUSE, Decision
from convgym.users import agenda_batch as agenda
from convgym.users import decisions
from convgym.users.agenda import _REFUSING
from convgym.users.user_batch import (
    AFFIRM,
    ASK_NEXT,
    THANK,
    decide,
    general,
    order_heard,
    out,
    sort_heard,
)
from convgym.users.user_state import MEANING, NEXT, NOTHING, Knowledge

_CHECKS = len(CHECKS)
_ASK_HOW, _NO_SUCH_PART, _CANNOT_TELL = U["ask_how"], U["no_such_part"], U["cannot_tell"]
_DID_IT, _CLAIM_IT, _NOT_DONE = U["did_it"], U["claim_it"], U["not_done"]
_ONE_BY_ONE = U["one_by_one"]
_STAYS = np.array([kind in _STAYING for kind in range(acts.FIRST_TOOL)])
_REFUSES = np.array([kind in _REFUSING for kind in range(acts.FIRST_TOOL)])

# -- what customers know ---------------------------------------------------------------------------

_SYMPTOMS = tuple(sorted({fault.symptom for fault in FAULTS}))
_DECISIONS = (
    Decision(REFUSE, "overdue_bill"),
    Decision(REFUSE, "overdue_bill", "payment_plan"),
    Decision(REFUSE, "unverified"),
)
"""One for each sort of decision that a customer's knowledge depends on."""
BY_SYMPTOM = np.full(max(_SYMPTOMS) + 1, -1, dtype=np.int32)
"""First row of the table of knowledge for each symptom."""
BY_SYMPTOM[list(_SYMPTOMS)] = np.arange(len(_SYMPTOMS)) * len(KNOWLEDGES) * len(_DECISIONS)


def known_row(task: Task) -> int:
    """Row of what this task's customer knows."""
    sort = 2 if task.decision.reason == "unverified" else int(bool(task.decision.alternative))
    return int(BY_SYMPTOM[task.symptom]) + task.knowledge * len(_DECISIONS) + sort


@cache
def knowledges() -> tuple[Knowledge, ...]:
    """All that a customer of this desk can know, by row."""
    some = draw_task("train", 0)
    fault_of = {fault.symptom: fault.number for fault in FAULTS}
    return tuple(
        knowledge(
            replace(some, faults=(fault_of[symptom],), knowledge=known, decision=decision)
        )
        for symptom in _SYMPTOMS
        for known in range(len(KNOWLEDGES))
        for decision in _DECISIONS
    )


# -- a turn ----------------------------------------------------------------------------------------


@kernel
def answer(T: Any, D: Any, e: Any, task: Any) -> None:
    """React to each act in turn, then see to one's own business."""
    begin_answer(e)
    sort_heard(e, acts.INSTRUCT)
    bother_before, content_before, at_before = e.bother, e.satisfied != 0, e.at
    question, waited, promised = e.question, e.waiting, e.promised
    order_heard(e)
    agenda.wait(e)
    agenda.come_back(D, e)
    refusing = False
    for place in range(e.n_heard):
        act = e.heard[place]
        refusing = refusing or _REFUSES[act[0]]
        if not e.closing:
            react(T, D, e, task, act[0], act[1], act[2], act[3])
    if question and not e.closing:
        mind_question(e, question)
    agenda.remind(D, e, waited, promised)
    if e.denied and refusing and not (e.closing or e.satisfied):
        agenda.face_refusal(D, e)
    if e.satisfied and not e.closing:
        part(D, e, content_before)
    agenda.conclude(D, e, bother_before, at_before)


@kernel
def begin_answer(e: Any) -> None:
    """What there is to do and to look at in this turn."""
    e.first_step = -1
    e.checks_come = e.tried = 0
    e.staying = e.n_heard > 0
    for place in range(e.n_heard):
        kind = e.heard[place, 0]
        if kind == acts.INSTRUCT and e.first_step < 0:
            e.first_step = e.heard[place, 1]
        if kind == acts.CHECK:
            e.checks_come = 1
        if not _STAYS[kind]:
            e.staying = 0


@kernel
def react(
    T: Any, D: Any, e: Any, task: Any, kind: int, argument: int, pointer: int, verdict: int
) -> None:
    """What one act brings about."""
    if kind == acts.CHECK:
        check(T, D, e, task, argument, pointer)
    elif kind == acts.INSTRUCT:
        instruct(T, D, e, task, argument, pointer)
    elif kind == acts.CONFIRM:
        confirm(T, D, e, argument, pointer, verdict)
    elif kind == acts.REPORT_DONE:
        report_done(T, D, e, task, argument, verdict)
    elif kind == acts.EXPLAIN:
        explain(T, D, e, task)
    else:
        agenda.react(D, e, kind, argument, pointer, verdict)


# -- looking ---------------------------------------------------------------------------------------


@kernel
def check(T: Any, D: Any, e: Any, task: Any, look: int, words: int) -> None:
    """Look at a part that was asked about; ask how, where it does not know."""
    if e.explained:
        e.explained_checks |= 1 << look
    if not T.has_look[task.kind, look]:
        out(e, _NO_SUCH_PART)
        return
    able = ability(e, T.check_level[look], words, e.explained_checks >> look & 1)
    if able == UNABLE:
        ask_how(e, A_CHECK, look)
    else:
        see(T, D, e, task, look, able)


@kernel
def see(T: Any, D: Any, e: Any, task: Any, look: int, able: int) -> None:
    """`SupportUser._look` and `handling.sight`."""
    truth = observe(T, e, task.kind, look)
    first = e.truth[look] != truth
    e.truth[look] = truth
    e.alike[look] += 1
    e.bother += e.alike[look] > MOST_ALIKE
    doubtful = first and not T.certain[look]
    cannot = doubtful and able == ABLE and decide(D, e, decisions.CANNOT_TELL, look)
    wrong = doubtful and not cannot and decide(D, e, decisions.MISOBSERVE, look)
    value = truth
    if not T.certain[look]:
        outcome = T.sight[able, 1 if cannot else 0, 1 if wrong else 0]
        if outcome == MISSEEN:
            value = mistaken_for(T, e, task.kind, look, truth)
        elif outcome != SEEN:
            out(e, _CANNOT_TELL)
            return
    out(e, T.sees[look, value])
    if look == SERVICE:
        e.tried = 1
        e.satisfied = value == OK or e.booked != 0
        if e.satisfied:  # nothing is owed any more
            e.waiting = e.promised = 0


@kernel
def mistaken_for(T: Any, e: Any, kind: int, look: int, truth: int) -> int:
    """The value that this customer tells where it sees a thing wrong; always the same one."""
    drawn = draw(e.user_key, USER, 0, WRONG_VALUE + decisions.STRIDE * look)
    return np.int64(T.others[kind, look, truth, below(drawn, T.other_count[kind, look, truth])])


# -- doing -----------------------------------------------------------------------------------------


@kernel
def instruct(T: Any, D: Any, e: Any, task: Any, step: int, words: int) -> None:
    """Do a step that it was told to do; one at a time, and ask how, where it does not know."""
    if step != e.first_step:
        e.bother += 1
        out(e, _ONE_BY_ONE)
        return
    if not T.has_operation[task.kind, step]:
        out(e, _NO_SUCH_PART)
        return
    if e.explained:
        e.skilled |= 1 << step
    e.told_to[step] += 1
    e.bother += e.told_to[step] > MOST_ALIKE + 1
    do(T, D, e, task, step, words)


@kernel
def do(T: Any, D: Any, e: Any, task: Any, step: int, words: int) -> None:
    """`SupportUser._do` and `handling.attempt`."""
    able = ability(e, T.step_level[step], words, e.skilled >> step & 1)
    first = e.told_to[step] == 1
    skips = first and decide(D, e, decisions.SKIP_STEP, step)
    claims = skips and decide(D, e, decisions.CLAIM_STEP, step)
    outcome = T.attempt[able, 1 if skips else 0, 1 if claims else 0]
    if outcome == NEEDS_HELP:
        ask_how(e, A_STEP, step)
        return
    if outcome == LEFT:
        out(e, _NOT_DONE)
        return
    if outcome == DONE:
        act_on(T, e, task.kind, step)
        out(e, _DID_IT)
    else:
        out(e, _CLAIM_IT)
    note_deed(e)
    try_at_once(T, D, e, task, step)


@kernel
def note_deed(e: Any) -> None:
    """Things may be otherwise now: whether it works is open, and looking makes sense again."""
    e.satisfied = e.booked
    for look in range(_CHECKS):
        e.alike[look] = 0


@kernel
def try_at_once(T: Any, D: Any, e: Any, task: Any, operation: int) -> None:
    """Try whether it works now, unasked, where nothing else is to be looked at."""
    if not e.checks_come and decide(D, e, decisions.VOLUNTEER, TRIES + operation):
        see(T, D, e, task, SERVICE, ABLE)


# -- being able ------------------------------------------------------------------------------------


@kernel
def ability(e: Any, level: int, words: int, explained: int) -> int:
    """Whether it can do what is asked: by itself, since it was explained, or not."""
    if explained:
        return EXPLAINED
    if words == TECHNICAL:
        level = max(level, EXPERT)
    return ABLE if e.persona[_EXPERTISE] >= level else UNABLE


@kernel
def ask_how(e: Any, puzzle: int, number: int) -> None:
    """Ask how that is done."""
    e.puzzle, e.puzzled_by = puzzle, number
    e.question = MEANING
    e.fresh = 1
    out(e, _ASK_HOW)


@kernel
def explain(T: Any, D: Any, e: Any, task: Any) -> None:
    """Do at last what it did not know how to do."""
    puzzle, number = e.puzzle, e.puzzled_by
    agenda.explain(D, e)
    e.puzzle = NOTHING_PUZZLES
    if puzzle == A_CHECK:
        e.explained_checks |= 1 << number
        if not e.checks_come:
            check(T, D, e, task, number, -1)
    elif puzzle == A_STEP:
        e.skilled |= 1 << number
        if e.first_step < 0:  # else there is something newer to do
            do(T, D, e, task, number, 0)


@kernel
def mind_question(e: Any, question: int) -> None:
    """As `agenda.mind_question`; an answered question no longer puzzles."""
    agenda.mind_question(e, question)
    if e.question == NOTHING:
        e.puzzle = NOTHING_PUZZLES


# -- what is done for it ---------------------------------------------------------------------------


@kernel
def confirm(T: Any, D: Any, e: Any, argument: int, pointer: int, verdict: int) -> None:
    """To a question for a yes; steps of its own it simply agrees to."""
    if verdict == acts.FINE and T.confirms_step[argument]:
        general(D, e, AFFIRM)  # what it will do itself
    else:
        agenda.confirm(D, e, pointer, verdict)


@kernel
def report_done(T: Any, D: Any, e: Any, task: Any, argument: int, verdict: int) -> None:
    """To the report of a deed: a booking is believed, a deed is tried out."""
    if verdict != acts.FINE:
        agenda.report_done(D, e, verdict)
        return
    e.waiting = e.promised = 0
    if argument >= FIRST_BOOKING:
        e.booked = 1
        agenda.believe(D, e)
    else:
        note_deed(e)
        try_at_once(T, D, e, task, argument)


@kernel
def part(D: Any, e: Any, was_content: bool) -> None:
    """End the conversation; who has tried something asks what is next, or thanks."""
    if was_content and e.staying:
        return
    if was_content or not e.tried:
        agenda.part(D, e, was_content)
    elif decide(D, e, decisions.ASK_NEXT, 0):
        agenda.put(D, e, NEXT, D.acts[ASK_NEXT])
    elif decide(D, e, decisions.THANK, 0):
        general(D, e, THANK)
