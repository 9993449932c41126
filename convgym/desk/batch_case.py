"""The request an episode is at, on integer rows: `convgym.desk.state` and what tools find out.

Every function stands under the name of the one it repeats. `T` is the record of the desk's tables
(`convgym.desk.batch_tables`), `e` an episode's, `t` its task's, `b` its belief.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from convgym.desk.batch_tables import (
    ALWAYS,
    AT_LEAST,
    AT_MOST,
    CONFIRMED,
    EQUAL,
    FACTORS,
    LESS,
    MORE,
    NEEDED,
    NOWHERE,
    OF_ACCOUNT,
    OF_POLICY,
    OF_RECORD,
    UNEQUAL,
)
from convgym.engine.batch import Cells, Fields, numbers
from convgym.engine.kernel import kernel
from convgym.users.user_batch import (
    MOST_REQUESTS,
)


def desk_fields(kinds: int) -> Fields:
    """The desk's record, in the order of `DeskState`, for so many kinds of record.

    `levels` has for each request how many pieces of evidence there were when it was settled; `made`
    a bit for each request whose change was made as it was asked for.
    """
    return [
        *numbers(
            "account desk_at write_asked pointer_asked decided_right facts_told handed_over faults "
            "made"
        ),
        ("stated", np.int32, (2 + kinds,)),
        ("levels", np.int32, (MOST_REQUESTS,)),
    ]


@kernel
def begin_desk(e: Any, t: Any) -> None:
    """A fresh record."""
    e.account = e.write_asked = e.pointer_asked = -1
    e.desk_at = e.decided_right = e.facts_told = e.handed_over = e.made = 0
    e.faults = t.faults
    for slot in range(len(e.stated)):
        e.stated[slot] = 0
    for at in range(len(e.levels)):
        e.levels[at] = 0


@kernel
def clear(b: Cells, first: int, last: int) -> None:
    """Put out the cells from the first to before the last.

    A loop, since numba takes much longer to compile slices that something is assigned to; over
    numbers without a sign, which cannot count from the end, so that it is one fill of memory.
    """
    for cell in range(np.uint64(first), np.uint64(last)):
        b[cell] = 0


@kernel
def has_yes(T: Any, e: Any, t: Any, b: Cells) -> bool:
    """Whether the customer has said yes to the change that it asks for."""
    write = T.write_of[t.workflow[e.desk_at]]
    if write < 0:
        return False
    return b[T.confirmed[write, max(t.pointer[e.desk_at], 0)]] != 0


@kernel
def is_read(T: Any, e: Any, t: Any, b: Cells) -> bool:
    """The record that the customer means was read, and the customer has said which it is."""
    if e.account != t.account:
        return False
    kind = T.kind[t.workflow[e.desk_at]]
    if kind < 0:
        return b[T.found] != 0
    k = t.pointer[e.desk_at]
    if not b[T.read[kind, k]]:
        return False
    if b[T.id_matches[kind, k]] or b[T.label_matches[kind, k]]:
        return True
    return has_yes(T, e, t, b)


@kernel
def is_deciding(T: Any, e: Any, t: Any, b: Cells) -> bool:
    """The customer is authenticated, and what is in question was named and has been read."""
    return b[T.authenticated] != 0 and is_read(T, e, t, b)


@kernel
def needed_factors(T: Any, e: Any, t: Any) -> int:
    """How many factors this request needs."""
    level = t.parameters[T.auth_level]
    return max(level, T.factors[t.workflow[e.desk_at]])


@kernel
def authenticate(T: Any, e: Any, t: Any, b: Cells) -> None:
    """Whether the factors suffice for this request."""
    needed = needed_factors(T, e, t)
    b[T.two_factors] = needed == 2
    b[T.authenticated] = np.int64(b[T.found]) + np.int64(b[T.verified]) >= needed


@kernel
def is_meant(T: Any, e: Any, t: Any, kind: int, pointer: int) -> bool:
    """Whether a record in view is the one that the customer means."""
    if kind != T.kind[t.workflow[e.desk_at]] or pointer != t.pointer[e.desk_at]:
        return False
    return e.account == t.account


@kernel
def was_meant(T: Any, e: Any, t: Any, kind: int, pointer: int) -> bool:
    """Whether a record in view is one that an earlier request was about."""
    if e.account != t.account:
        return False
    for at in range(e.desk_at):
        if kind == T.kind[t.workflow[at]] and pointer == t.pointer[at]:
            return True
    return False


# -- rules -----------------------------------------------------------------------------------------

_WHEN = {MORE: 0b100, LESS: 0b001, EQUAL: 0b010, UNEQUAL: 0b101, AT_LEAST: 0b110, AT_MOST: 0b011}
_HOLDS = np.array([_WHEN[op] for op in sorted(_WHEN)])
"""By operator, whether it holds of a value that is less (bit 0), equal (1) or more (2)."""


@kernel
def compared(value: int, op: int, operand: int) -> bool:
    """`convgym.engine.rules`: value (op) operand."""
    # Without a branch for each operator, which processors cannot foresee.
    order = 1 + np.int64(value > operand) - np.int64(value < operand)
    return (_HOLDS[op] >> order & 1) != 0


@kernel
def is_known(T: Any, first: int, last: int, heard: int) -> bool:
    """Whether all is there that these conditions compare; `heard`: the customer's detail is."""
    for c in range(first, last):
        if not heard and (T.hidden[c] or T.source[c] == NOWHERE):
            return False
        if T.source[c] == NOWHERE and not T.by_detail[c]:
            return False
    return True


@kernel
def hold(
    T: Any, t: Any, first: int, last: int, account: int, place: int, heard: int, detail: int
) -> bool:
    """Whether these conditions hold of a record; `place` is its row in the world."""
    for c in range(first, last):
        source = T.source[c]
        if heard and T.by_detail[c]:
            value = detail
        elif source == OF_RECORD:
            value = T.world[place, T.column[c]]
        elif source == OF_ACCOUNT:
            value = T.world[account, T.column[c]]
        elif source == OF_POLICY:
            value = t.parameters[T.column[c]]
        else:
            assert source == ALWAYS
            value = 1
        operand = T.number[c]
        if T.parameter[c] >= 0:
            operand = t.parameters[T.parameter[c]]
        if not compared(value, T.op[c], operand):
            return False
    return True


@kernel
def term_value(
    T: Any, t: Any, term: int, new_rules: int, account: int, place: int, heard: int, detail: int
) -> int:
    """What the first rule gives that holds; the last one always does."""
    for r in range(T.n_term_rules[term]):
        if T.term_held_out[term, r] and not new_rules:
            continue
        first, last = T.term_from[term, r], T.term_to[term, r]
        if hold(T, t, first, last, account, place, heard, detail):
            if T.term_parameter[term, r] >= 0:
                return t.parameters[T.term_parameter[term, r]]
            return T.term_number[term, r]
    return 0


@kernel
def duties_hold(
    T: Any, t: Any, first: int, last: int, factors: int, confirmed: int, needed: int, most: int
) -> bool:
    """Whether what an obligation asks of a change holds.

    `needed` are the factors for the request made, `most` those for it and for the change.
    """
    for c in range(first, last):
        source = T.source[c]
        if source == FACTORS:
            value = factors
        elif source == CONFIRMED:
            value = confirmed
        else:
            assert source == NEEDED
            value = needed
        operand = T.number[c]
        if T.parameter[c] == T.auth_level:
            operand = most
        elif T.parameter[c] >= 0:
            operand = t.parameters[T.parameter[c]]
        if not compared(value, T.op[c], operand):
            return False
    return True


# -- what reading finds out ------------------------------------------------------------------------


@kernel
def match(T: Any, e: Any, t: Any, b: Cells) -> None:
    """Which records in view fit what the customer said of the one that is meant."""
    at = e.desk_at
    kind = T.kind[t.workflow[at]]
    if e.account != t.account or kind < 0:
        return
    named = e.stated[2 + kind] == 1
    dated, labelled = b[T.date_heard[kind]], b[T.label_heard[kind]]
    alike = T.alike[T.base[kind] + t.row[at]]
    for k in range(T.each[kind]):
        if b[T.seen[kind, k]]:
            meant = k == t.pointer[at]
            b[T.id_matches[kind, k]] = meant and named
            b[T.date_matches[kind, k]] = dated if meant else 0
            b[T.label_matches[kind, k]] = labelled if alike >> k & 1 else 0


@kernel
def weigh(T: Any, e: Any, t: Any, b: Cells) -> None:
    """What the policy makes of what has been read, for the request that is made."""
    w = t.workflow[e.desk_at]
    if e.account < 0 or not b[T.wants[w]]:
        return
    kind, detail = T.kind[w], t.detail[e.desk_at]
    heard = 0
    if T.detailed[w]:
        heard = np.int64(b[T.detail_heard[w]])
    places = 1 if kind < 0 else T.each[kind]
    for k in range(places):
        row = np.int64(e.account)
        if kind >= 0:
            if not b[T.read[kind, k]]:
                continue
            row = T.base[kind] + row * T.each[kind] + k
        for r in range(T.n_rules[w]):
            first, last = T.rule_from[w, r], T.rule_to[w, r]
            in_force = t.new_rules or not T.rule_held_out[w, r]
            b[T.findings[w, k, r]] = (
                in_force
                and is_known(T, first, last, heard)
                and hold(T, t, first, last, e.account, row, heard, detail)
            )
        for i in range(T.n_terms[w]):
            term = T.terms[w, i]
            if is_term_known(T, t, term, heard):
                value = term_value(T, t, term, t.new_rules, e.account, row, heard, detail)
                b[T.due[w, k, i]] = value > 0


@kernel
def is_term_known(T: Any, t: Any, term: int, heard: int) -> bool:
    """Whether all is there that the rules of a term ask for."""
    for r in range(T.n_term_rules[term]):
        if t.new_rules or not T.term_held_out[term, r]:
            if not is_known(T, T.term_from[term, r], T.term_to[term, r], heard):
                return False
    return True
