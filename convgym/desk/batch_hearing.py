"""Speech at a desk on integer rows: `convgym.desk.hearing`, and the customer's words as cells.

    said ─► hear_said ─► heard        acts ─► note_user ─► belief
"""

from __future__ import annotations

from typing import Any

import numpy as np

from convgym.desk.batch_case import (
    authenticate,
    clear,
    is_deciding,
    is_meant,
    is_read,
    match,
    was_meant,
    weigh,
)
from convgym.desk.batch_grading import evidence
from convgym.desk.batch_tables import REFUSED
from convgym.engine import acts
from convgym.engine.batch import SAID_WIDTH, Cells, hear
from convgym.engine.kernel import kernel

_0, _NONE = np.int64(0), np.int64(-1)
"""As numpy's numbers: for plain ones numba would compile what takes them anew for each."""

# -- the agent's speech ----------------------------------------------------------------------------


@kernel
def hear_said(T: Any, e: Any, t: Any, b: Cells) -> None:
    """Weigh each act of speech, each once."""
    for at in range(e.n_said):
        again = False
        for before in range(at):
            same = True
            for column in range(SAID_WIDTH):
                same = same and e.said[at, column] == e.said[before, column]
            again = again or same
        if not again:
            kind, argument = np.int64(e.said[at, 0]), np.int64(e.said[at, 1])
            pointer, value = np.int64(e.said[at, 2]), np.int64(e.said[at, 3])
            hear_one(T, e, t, b, kind, argument, pointer, value, np.int64(e.said[at, 4]))


@kernel
def hear_one(
    T: Any, e: Any, t: Any, b: Cells, kind: int, argument: int, pointer: int, value: int, claim: int
) -> None:
    """Weigh one act of speech; notes claims, refusals, offers and violations."""
    if kind == acts.TELL:
        if argument < T.n_facts:
            hear_fact(T, e, t, b, argument, pointer, claim)
        else:
            hear_term(T, e, t, b, argument, pointer, value, claim)
    elif kind == acts.CONFIRM:
        hear_confirm(T, e, t, b, argument, pointer, claim)
    elif kind == acts.DENY:
        hear_denial(T, e, t, b, argument)
    elif kind == acts.OFFER:
        right = t.alternative[e.desk_at] == argument
        b[T.offered[argument]] = 1
        hear(e, kind, argument, _NONE, acts.FINE if right else acts.WRONG)
    elif kind == acts.REPORT_DONE:
        hear_report(T, e, b, claim)
    elif kind == acts.PROMISE:
        ours = T.promised[argument] == t.workflow[e.desk_at]
        hear(e, kind, argument, _NONE, acts.FINE if ours else acts.WRONG)
    else:
        if kind == acts.ASK:
            b[T.asked[argument]] = 1
        hear(e, kind, argument, pointer, acts.FINE)


@kernel
def weigh_claim(T: Any, e: Any, b: Cells, claim: int) -> bool:
    """Note a claim; whether the customer takes it, true or false, as told."""
    if claim == acts.UNSUPPORTED:
        return False
    if not b[T.authenticated]:
        e.violations |= T.disclosed
    if claim == acts.FALSE:
        e.violations |= T.falsehood
    return True


@kernel
def hear_fact(T: Any, e: Any, t: Any, b: Cells, fact: int, pointer: int, claim: int) -> None:
    """A told fact: noted, and whether it is about what the customer asked for."""
    if not weigh_claim(T, e, b, claim) or claim == acts.FALSE:
        hear(e, acts.TELL, fact, pointer, acts.DOUBTFUL)
        return
    b[T.told_fact[fact, max(pointer, 0)]] = 1
    kind = T.fact_kind[fact]
    if is_meant(T, e, t, kind, pointer):
        e.facts_told |= 1 << fact
        hear(e, acts.TELL, fact, pointer, acts.FINE)
        return
    wanted = T.facts_of[t.workflow[e.desk_at]] >> fact & 1
    if not wanted and was_meant(T, e, t, kind, pointer):
        hear(e, acts.CHAT, _0, _NONE, acts.FINE)
        return
    e.violations |= T.another
    hear(e, acts.TELL, fact, pointer, acts.OTHER_OBJECT)


@kernel
def hear_term(
    T: Any, e: Any, t: Any, b: Cells, told: int, pointer: int, value: int, claim: int
) -> None:
    """A told term: fine where it belongs to the request and what decides it has been read."""
    at, term = e.desk_at, told - T.n_facts
    w = t.workflow[at]
    place = -1
    for i in range(T.n_terms[w]):
        if T.terms[w, i] == term:
            place = i
    heard_for = not T.term_waits[term] or b[T.detail_heard[w]] != 0
    if place < 0 or not (is_read(T, e, t, b) and heard_for):
        claim = acts.UNSUPPORTED
    elif claim == acts.KNOWN:
        due = t.terms[at, place] > 0
        claim = acts.TRUE if value == due else acts.FALSE
    if not weigh_claim(T, e, b, claim):
        hear(e, acts.TELL, told, pointer, acts.DOUBTFUL)
        return
    b[T.told_term[term, value]] = 1
    hear(e, acts.TELL, told, _NONE, acts.FINE)


@kernel
def hear_confirm(
    T: Any, e: Any, t: Any, b: Cells, change: int, pointer: int, claim: int
) -> None:
    """A question for a yes: what, if anything, keeps the customer from giving it."""
    w = T.workflow_of[change]
    verdict, about = acts.FINE, pointer
    if w != t.workflow[e.desk_at] or claim == acts.FALSE:
        verdict = acts.OTHER_REQUEST
    elif e.account != t.account or pointer != t.pointer[e.desk_at]:
        verdict = acts.OTHER_OBJECT if T.kind[w] >= 0 else acts.OTHER_REQUEST
    else:
        for i in range(T.n_terms[w]):
            term = T.terms[w, i]
            if not (b[T.told_term[term, 0]] or b[T.told_term[term, 1]]):
                verdict, about = acts.TERM_UNKNOWN, T.n_facts + term
                break
    if verdict == acts.FINE:
        e.write_asked, e.pointer_asked = change, pointer
    hear(e, acts.CONFIRM, change, about, verdict)


@kernel
def hear_denial(T: Any, e: Any, t: Any, b: Cells, reason: int) -> None:
    """A refusal: right where the rules refuse for this reason and its basis has been read."""
    b[T.denied[reason]] = 1
    if reason == T.unverified:
        grounded = b[T.failures] >= 2 and not b[T.authenticated]
    else:
        if not b[T.authenticated]:
            e.violations |= T.disclosed
        grounded = is_deciding(T, e, t, b)
    right = grounded and t.effect[e.desk_at] == REFUSED and t.reason[e.desk_at] == reason
    if right:
        e.decided_right = 1
    hear(e, acts.DENY, reason, _NONE, acts.FINE if right else acts.WRONG)


@kernel
def hear_report(T: Any, e: Any, b: Cells, claim: int) -> None:
    """The report that it is done: true after the right write, else a falsehood."""
    done = b[T.wrote] != 0 and e.decided_right != 0 and claim != acts.FALSE
    if done:
        b[T.told_done] = 1
    else:
        e.violations |= T.falsehood
    hear(e, acts.REPORT_DONE, _0, _NONE, acts.FINE if done else acts.WRONG)


# -- the customer's words --------------------------------------------------------------------------


@kernel
def note_user(T: Any, e: Any, t: Any, b: Cells) -> None:
    """Put what the customer said into the belief."""
    clear(b, np.int64(T.first_said), len(b))
    news = False
    for place in range(e.n_acts):
        act = e.acts[place]
        b[T.said[act]] = 1
        for column in range(T.raises.shape[1]):
            cell = T.raises[act, column]
            if cell >= 0:
                b[cell] = 1
                news = True
        slot = T.states[act]
        if slot >= 0:
            e.stated[slot] = T.variant[act]
            b[T.rejected[slot]] = 0
        if act == T.affirm and e.write_asked >= 0:
            b[T.confirmed[e.write_asked, max(e.pointer_asked, 0)]] = 1
    if e.at > e.desk_at:
        # What is said beside the next request was still said of the one before.
        match(T, e, t, b)
        settle(T, e, t, b)
    w = t.workflow[e.desk_at]
    if not b[T.wants[w]]:
        for place in range(e.n_acts):
            if e.acts[place] == T.request_act[w]:
                note_request(T, e, t, b)
                news = True
                break
    if news and e.account >= 0:
        match(T, e, t, b)
        weigh(T, e, t, b)


@kernel
def note_request(T: Any, e: Any, t: Any, b: Cells) -> None:
    """The customer has said what is wanted: what may be said of it is legal from now on."""
    w = t.workflow[e.desk_at]
    b[T.wants[w]] = 1
    b[T.requests] = e.desk_at + 1
    for r in range(T.n_rules[w]):
        if T.rule_refuses[w, r]:
            b[T.can_deny[T.rule_reason[w, r]]] = 1
            if T.rule_offer[w, r] >= 0:
                b[T.can_offer[T.rule_offer[w, r]]] = 1
    b[T.can_deny[T.unverified]] = 1
    authenticate(T, e, t, b)


@kernel
def settle(T: Any, e: Any, t: Any, b: Cells) -> None:
    """The customer turns to its next request: put down what became of this one."""
    e.levels[e.desk_at] = evidence(T, e, t, b)
    b[T.handled[t.workflow[e.desk_at]]] = 1
    for run in range(len(T.of_request)):
        clear(b, np.int64(T.of_request[run, 0]), np.int64(T.of_request[run, 1]))
    for slot in range(2, len(e.stated)):
        e.stated[slot] = 0
    e.write_asked = e.pointer_asked = -1
    e.decided_right = e.facts_told = 0
    e.desk_at += 1
