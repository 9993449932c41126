"""A read reply held against the state of a row: `convgym.desk.grounding`, in its order.

    Reading.calls  ─► ground_call   ─► e.calls   when it is run
    Reading.claims ─► ground_speech ─► e.said    when it is heard

What a text says whatever the state stands in the reading (`batch_reading`): rows, numbers of names,
and of each value the range of codes that agree with it. What is left is looked up here, under the
names of the functions that are repeated.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from convgym.desk.grounding import MOST_ACTS
from convgym.desk.tools import RIGHT, STATED_WRONG, UNSTATED
from convgym.desk.vocabulary import (
    END_CONVERSATION,
    GET,
    SECRET,
    TRANSFER_TO_HUMAN,
    VERIFY,
    WRITE,
)
from convgym.engine import acts
from convgym.engine.batch import MOST_CALLS, Cells, Fields, numbers, say
from convgym.engine.kernel import kernel

TOOL, ARGUMENT, NAMED, LOW, HIGH, DETAIL = range(6)
"""Columns of a call. `NAMED` is the record that it names, `DETAIL` what it says beside that: the
row of an account, the code of a secret, which word."""
ACT = 0
"""First column of a claim; `ARGUMENT`, `NAMED`, `LOW` and `HIGH` are those of calls."""
SORT, EXPLAINED = 5, 6
"""Columns of a claim: which sort of check its value takes, and what takes the claim away: the code
of its fact on the record that is meant, or -1."""
CALL_COLUMNS, CLAIM_COLUMNS = 6, 7

MALFORMED, MALFORMED_LAST = -1, -2
"""In place of a tool: a call that is answered by a sentence of the reply's own, at once or last."""
NOBODYS, UNNAMED, FIRST_HANDLE = -1, -2, -3
"""Instead of a place in the world: no record's number, no name at all, a handle: "order:1"."""
ANYTHING, NEVER, OF_DETAIL, OF_SHARE = range(4)
"""Sorts of check: right whatever is said, wrong whatever is said, `LOW` to `HIGH` has the code of
what the customer wants, `LOW` is the share that the policy asks for."""

READING: Fields = [
    *numbers("n_errors n_calls n_claims reply_length"),
    ("calls", np.int32, (MOST_CALLS, CALL_COLUMNS)),
    ("claims", np.int32, (MOST_ACTS, CLAIM_COLUMNS)),
]
"""A read reply; `reply_length` counts the characters of its speech."""

_0, _NONE = np.int64(0), np.int64(-1)
_KNOWN, _TRUE, _FALSE, _UNSUPPORTED = np.arange(4)
"""As numpy's numbers: for plain ones numba would compile what takes them anew for each."""
assert (acts.KNOWN, acts.TRUE, acts.FALSE, acts.UNSUPPORTED) == (0, 1, 2, 3)

# -- calls -----------------------------------------------------------------------------------------


@kernel
def leaves(tool: int) -> bool:
    """Whether a call leaves the conversation, and so has to wait for what is said."""
    return tool == TRANSFER_TO_HUMAN or tool == END_CONVERSATION or tool == MALFORMED_LAST


@kernel
def ground_call(T: Any, e: Any, t: Any, b: Cells, r: Any, at: int) -> None:
    """The call at this place as the tools take it."""
    tool, argument = np.int64(r.calls[at, TOOL]), np.int64(r.calls[at, ARGUMENT])
    pointer, detail = _NONE, np.int64(r.calls[at, DETAIL])
    if tool == VERIFY:
        stated = np.int64(e.stated[SECRET])
        detail = secret(T.secrets, e.account, t.account, stated, detail)
    elif tool == GET:
        pointer = pointer_of(T, e, b, argument, r.calls[at, NAMED])
    elif tool == WRITE:
        w = np.int64(T.workflow_of[argument])
        if T.kind[w] >= 0:
            pointer = pointer_of(T, e, b, T.kind[w], r.calls[at, NAMED])
        if T.wanted[w] >= 0:
            own = w == t.workflow[e.desk_at]
            detail = np.int64(own and is_wanted(T, e, t, r.calls[at, LOW], r.calls[at, HIGH]))
    call = e.calls[at]
    call[0], call[1], call[2], call[3] = tool, argument, pointer, detail


@kernel
def secret(secrets: Any, account: int, customer: int, stated: int, tried: int) -> int:
    """RIGHT, STATED_WRONG or UNSTATED, as the tools count them.

    `secrets` are the right one of each account and the one misremembered; `account` is open,
    `customer` the one of who speaks, who has said variant `stated` of it, 0 for none.
    """
    if tried < 0:
        return UNSTATED
    if account >= 0 and secrets[account, 0] == tried:
        return RIGHT
    if stated > 0 and secrets[customer, stated - 1] == tried:
        return STATED_WRONG
    return UNSTATED


@kernel
def pointer_of(T: Any, e: Any, b: Cells, kind: int, named: int) -> int:
    """Place of a named record among those of the open account; -1 where it is not one."""
    if e.account < 0:
        return -1
    if named <= FIRST_HANDLE:
        pointer = FIRST_HANDLE - named
        return pointer if b[T.seen[kind, pointer]] else -1
    row, each = named - T.base[kind], np.int64(T.each[kind])
    if named >= 0 and row >= 0 and row // each == e.account:
        return row % each
    return -1


@kernel
def is_wanted(T: Any, e: Any, t: Any, low: int, high: int) -> bool:
    """Whether what was said of the detail is what the customer wants."""
    text = T.wanted[t.workflow[e.desk_at]]
    code = np.int64(t.detail[e.desk_at])
    if text >= 0:
        code = np.int64(T.codes[text, t.row[e.desk_at]])
    return low <= code < high


# -- claims ----------------------------------------------------------------------------------------


@kernel
def ground_speech(T: Any, e: Any, t: Any, b: Cells, r: Any) -> None:
    """Acts of speech with their claims held against what the desk has read by now."""
    for at in range(r.n_claims):
        if not is_explained(T, e, t, r, at):
            ground(T, e, t, b, r, at)
    if r.n_claims > 0 and e.n_said == 0:
        plainly(e, acts.UNCLEAR, _0)


@kernel
def plainly(e: Any, kind: int, argument: int) -> None:
    """Say an act that is about no record and claims nothing."""
    say(e, kind, argument, _NONE, _0, _KNOWN)


@kernel
def is_explained(T: Any, e: Any, t: Any, r: Any, at: int) -> bool:
    """Whether it only gives the ground of a refusal beside it: `left_standing` leaves it out."""
    if r.claims[at, EXPLAINED] < 0:
        return False
    fact, kind = r.claims[at, ARGUMENT], T.kind[t.workflow[e.desk_at]]
    if T.fact_kind[fact] != kind or T.codes[fact, t.row[e.desk_at]] != r.claims[at, EXPLAINED]:
        return False
    named = r.claims[at, NAMED]
    return named == UNNAMED or named == T.base[kind] + t.row[e.desk_at]


@kernel
def ground(T: Any, e: Any, t: Any, b: Cells, r: Any, at: int) -> None:
    """Say what a claim comes to here, if anything."""
    kind, argument = np.int64(r.claims[at, ACT]), np.int64(r.claims[at, ARGUMENT])
    if kind == acts.TELL and argument < T.n_facts:
        ground_fact(T, e, b, r, at)
    elif kind == acts.TELL:
        ground_term(T, e, t, r, at)
    elif kind == acts.DENY:
        ground_denial(T, e, t, b, r, at)
    elif kind == acts.OFFER:
        ground_offer(T, e, t, b, argument)
    elif kind == acts.CONFIRM or kind == acts.REPORT_DONE or kind == acts.PROMISE:
        named = np.int64(r.claims[at, NAMED] != UNNAMED)
        change = np.int64(T.write_meant[t.workflow[e.desk_at], named, argument])
        if change < 0:
            return
        if kind == acts.PROMISE:
            plainly(e, kind, change)
        elif change < len(T.workflow_of):
            agrees = change != argument or agrees_on(T, e, t, r, at)
            if kind == acts.CONFIRM:
                ground_confirm(T, e, b, r, at, change, agrees)
            else:
                ground_report(T, e, t, b, r, at, change, agrees)
    else:
        plainly(e, kind, argument)


@kernel
def ground_fact(T: Any, e: Any, b: Cells, r: Any, at: int) -> None:
    """A fact that is told: true or false of a record that was read, else without a basis."""
    fact = np.int64(r.claims[at, ARGUMENT])
    kind, claim = np.int64(T.fact_kind[fact]), _UNSUPPORTED
    pointer = record_meant(T, e, b, kind, r.claims[at, NAMED])
    if pointer >= 0 and b[T.read[kind, pointer]]:
        code = T.codes[fact, e.account * T.each[kind] + pointer]
        claim = _TRUE if r.claims[at, LOW] <= code < r.claims[at, HIGH] else _FALSE
    say(e, acts.TELL, fact, pointer, _0, claim)


@kernel
def ground_term(T: Any, e: Any, t: Any, r: Any, at: int) -> None:
    """A term as it was told; `HIGH` is which of its two values that is."""
    told, value = np.int64(r.claims[at, ARGUMENT]), np.int64(r.claims[at, HIGH])
    if r.claims[at, SORT] == OF_SHARE and r.claims[at, LOW] != t.parameters[T.share]:
        say(e, acts.TELL, told, _NONE, value, _FALSE)
    elif was_due(T, e, t, told - T.n_facts, value):
        plainly(e, acts.CHAT, _0)
    else:
        say(e, acts.TELL, told, _NONE, value, _KNOWN)


@kernel
def was_due(T: Any, e: Any, t: Any, term: int, value: int) -> bool:
    """Whether it is a term of an earlier request, told once more, rightly."""
    if place_of_term(T, t.workflow[e.desk_at], term) >= 0:
        return False
    for at in range(e.desk_at):
        place = place_of_term(T, t.workflow[at], term)
        if place >= 0:
            return value == (t.terms[at, place] > 0)
    return False


@kernel
def place_of_term(T: Any, w: int, term: int) -> int:
    """Place among the terms of a workflow; -1 where it is none of them."""
    for place in range(T.n_terms[w]):
        if T.terms[w, place] == term:
            return place
    return -1


@kernel
def ground_confirm(T: Any, e: Any, b: Cells, r: Any, at: int, change: int, agrees: bool) -> None:
    """A question for a yes; what is named with it must be what the customer wants."""
    kind, pointer = np.int64(T.kind[T.workflow_of[change]]), _NONE
    if kind >= 0:
        pointer = record_meant(T, e, b, kind, r.claims[at, NAMED])
    say(e, acts.CONFIRM, change, pointer, _0, _KNOWN if agrees else _FALSE)


@kernel
def agrees_on(T: Any, e: Any, t: Any, r: Any, at: int) -> bool:
    """Whether what is named with a change is what the customer wants."""
    sort, low = r.claims[at, SORT], np.int64(r.claims[at, LOW])
    if sort == OF_SHARE:
        return low == t.parameters[T.share]
    if sort == OF_DETAIL:
        other = T.workflow_of[r.claims[at, ARGUMENT]] != t.workflow[e.desk_at]
        return other or is_wanted(T, e, t, low, r.claims[at, HIGH])
    return sort == ANYTHING


@kernel
def ground_denial(T: Any, e: Any, t: Any, b: Cells, r: Any, at: int) -> None:
    """A refusal of the record at hand; small talk where it repeats one of an earlier request."""
    w, named = t.workflow[e.desk_at], r.claims[at, NAMED]
    if named != UNNAMED and T.kind[w] >= 0 and e.account >= 0:
        if pointer_of(T, e, b, T.kind[w], named) != t.pointer[e.desk_at]:
            return  # of another record
    reason = np.int64(T.reason_meant[r.claims[at, ARGUMENT], w])
    if reason < 0:
        return
    if not b[T.can_deny[reason]]:
        for earlier in range(e.desk_at):
            if t.reason[earlier] == reason:
                plainly(e, acts.CHAT, _0)  # why an earlier request was refused, said once more
                return
    if not (b[T.wrote] and T.sounds_done[reason, w]):
        plainly(e, acts.DENY, reason)  # else: "it is off and will not be sent"


@kernel
def ground_offer(T: Any, e: Any, t: Any, b: Cells, offer: int) -> None:
    """An offer; small talk where it repeats the one of an earlier request."""
    if not b[T.can_offer[offer]]:
        for earlier in range(e.desk_at):
            if t.alternative[earlier] == offer:
                plainly(e, acts.CHAT, _0)  # what was offered for an earlier request
                return
    plainly(e, acts.OFFER, offer)


@kernel
def ground_report(
    T: Any, e: Any, t: Any, b: Cells, r: Any, at: int, change: int, agrees: bool
) -> None:
    """A report is true where such a change was made, on the record that is named, if any is."""
    w, named = np.int64(T.workflow_of[change]), r.claims[at, NAMED]
    kind, made = np.int64(T.kind[w]), False
    if kind >= 0 and named != UNNAMED:
        pointer = pointer_of(T, e, b, kind, named)
        made = pointer >= 0 and b[T.written[change, pointer]] != 0
    else:
        for pointer in range(T.each[kind] if kind >= 0 else 1):
            made = made or b[T.written[change, pointer]] != 0
    true = made and agrees
    for earlier in range(e.desk_at):
        if true and t.workflow[earlier] == w:
            plainly(e, acts.CHAT, _0)  # what was done for an earlier request, said once more
            return
    say(e, acts.REPORT_DONE, _0, _NONE, _0, _KNOWN if true else _FALSE)


# -- which record is meant -------------------------------------------------------------------------


@kernel
def record_meant(T: Any, e: Any, b: Cells, kind: int, named: int) -> int:
    """The record that a sentence is about: the one named, else the one in hand.

    In hand is the record among those read that fits what the customer said: its number, else its
    date, else its label.
    """
    if named != UNNAMED:
        return pointer_of(T, e, b, kind, named)
    for fit in range(4):
        count, chosen = 0, -1
        for k in range(T.each[kind]):
            if b[T.read[kind, k]] and fits(T, b, kind, k, fit):
                count += 1
                chosen = k
        if count > 0:
            return chosen if count == 1 else -1
    return -1


@kernel
def fits(T: Any, b: Cells, kind: int, k: int, fit: int) -> bool:
    """Whether a record fits its number, 0, its date, 1, its label, 2, or anything at all."""
    if fit == 0:
        return b[T.id_matches[kind, k]] != 0
    if fit == 1:
        return b[T.date_matches[kind, k]] != 0
    return fit == 3 or b[T.label_matches[kind, k]] != 0
