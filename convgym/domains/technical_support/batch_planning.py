"""`planning` and `diagnosis` on integers: the plan of a flawless agent, walked through in a row.

    tables(), planner(), a task's record ─► plan ─► w: acts, writes, expertise; the rule that
                                                    decides

`w` is scratch paper, a record of `WALK`: the device, the facts seen so far, what is suspected. `T`
is the record of `tables()`, `G` that of `planner()`, `t` a task's. Sets of faults are those of
`diagnosis`: a bit for each fault of the kind, and `WORKS`; sets of operations have a bit for each.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.domains.technical_support import diagnosis, physics
from convgym.domains.technical_support.batch_records import (
    change,
    fires,
    is_met,
    observe,
    technician_due,
)
from convgym.domains.technical_support.batch_tables import (
    AUTH_LEVEL,
    EFFECTS,
    FACT,
    FIRST_BOOKING,
    REASONS,
    RECORD_FACTS,
    SOLVED,
    _lists,
)
from convgym.domains.technical_support.diagnosis import (
    BOOKING,
    DOING,
    DONE,
    LOOKING,
    LOST,
    OUT,
    WATER,
    WORKS,
)
from convgym.domains.technical_support.facts import EVENTS, OFFERS
from convgym.domains.technical_support.faults import COMPONENTS, FAULTS, OF_KIND, Fault
from convgym.domains.technical_support.planning import LOOK_FOR, MISSING, MOST_ACTS, STEP_FOR
from convgym.domains.technical_support.rules import RULES
from convgym.domains.technical_support.vocabulary import (
    AREA_STATUS,
    BOOKINGS,
    FIRST_READ,
    FIRST_WRITE,
    KINDS,
    LOOK,
    LOOKS,
    OK,
    OPERATION,
    OPERATIONS,
    PLAN_READ,
    RAISE_LIMIT,
    RESTART,
    SERVICE,
    UNLOCK_SIM,
    VALUE,
    VALUES,
)
from convgym.engine.batch import numbers, record
from convgym.engine.kernel import kernel

_FACTS = len(FACT)
_MOST_KEPT = 10
"""Moves that are kept, as a power of two: some hundreds are ever made."""
WALK = np.dtype(
    [
        *numbers("seen_working acts decided expertise suspects absent looked"),
        ("written", np.int64),
        ("device", np.int8, (COMPONENTS,)),
        ("facts", np.int32, (_FACTS,)),
        ("moves", np.int64, (1 << _MOST_KEPT,)),
    ],
    align=True,
)
"""One walk through a case. `decided` is the rule that settles the case by the facts seen so far,
-1 for none; `device`, `facts` and `seen_working` are called as in an episode's record. `moves` are
kept from walk to walk: what was known with the move that follows from it."""

_BITS = WORKS.bit_length()
_MOVES = 64
"""Moves are one number, the kind times this plus the look or operation."""
_LOOKS, _MOVE_BITS, _KIND_BITS = len(LOOKS), 9, 3
_SPREAD, _UNKEPT = np.uint64(0x9E3779B97F4A7C15), np.uint64(64 - _MOST_KEPT)
assert LOST * _MOVES < 1 << _MOVE_BITS and len(KINDS) <= 1 << _KIND_BITS
assert _BITS + len(LOOKS) + _KIND_BITS + _MOVE_BITS < 63, "what is known and a move in one number"
_DAMAGE, _WET, _UPDATE = LOOK["damage"], VALUE["wet"], OPERATION["update_software"]
_BY_LOOK, _BY_STEP, _BY_PIN, _BY_WORD = range(4)
"""What makes up for a missing obligation."""
_NEVER_TRIED = 1 << RAISE_LIMIT | 1 << UNLOCK_SIM
assert max(len(LOOKS), len(OPERATIONS)) <= _MOVES


# -- tables ----------------------------------------------------------------------------------------


@cache
def planner() -> NDArray[np.void]:
    """What the planner looks up beside `tables()`.  # (1,)"""
    return record(**_of_devices(), **_of_faults(), **_of_rules())


@cache
def walk() -> NDArray[np.void]:
    """Scratch paper for one walk after the other, with the moves that are kept.  # (1,)"""
    return np.zeros(1, WALK)


def _of_devices() -> dict[str, NDArray[np.int32]]:
    """What looks and operations tell, by kind of device."""
    kinds, looks, operations = len(KINDS), len(LOOKS), len(OPERATIONS)
    fits = np.full((kinds, looks, len(VALUES)), -1, dtype=np.int32)
    excluded = np.zeros((kinds, looks, len(VALUES)), dtype=np.int32)
    alike = np.zeros((kinds, looks, _BITS), dtype=np.int32)
    after = np.zeros((kinds, operations, _BITS), dtype=np.int32)
    brings = np.zeros((kinds, operations), dtype=np.int32)
    cost = np.zeros((kinds, operations), dtype=np.int32)
    for kind in range(kinds):
        faults = diagnosis._faults(kind)
        for look in range(looks):
            rows = diagnosis.CONSISTENT[kind][look]
            for value, row in rows.items():
                fits[kind, look, value] = row
                excluded[kind, look, value] = diagnosis.EXCLUDED[kind][look][value]
            alike[kind, look, -1] = rows[OK]
            for bit, fault in enumerate(faults):
                shown = diagnosis._shown(fault, look)
                alike[kind, look, bit] = rows[shown if shown >= 0 else OK]
        for operation, rows_after in diagnosis._AFTER[kind].items():
            after[kind, operation, : len(faults)] = rows_after[:-1]
            after[kind, operation, -1] = rows_after[-1]
            brings[kind, operation] = diagnosis._broken_by(kind, operation)
        for operation in set(range(operations)) - set(BOOKINGS):
            effect, by_agent, rest = diagnosis._cost(kind, operation)
            cost[kind, operation] = (effect * 2 + by_agent) * 100_000 + rest
    return {
        "fits": fits,
        "excluded": excluded,
        "everything": np.array([diagnosis.everything(kind) for kind in range(kinds)]),
        "alike": alike,
        "after": after,
        "brings": brings,
        "cost": cost,
        "looks_of": _lists(physics.LOOKS_OF),
        "trouble": np.array([100 + word.level for word in LOOKS], dtype=np.int32),
    }


def _of_faults() -> dict[str, NDArray[Any]]:
    """What mends each fault of a kind, and the move that is left where nothing does."""
    fixes = np.zeros((len(KINDS), _BITS), dtype=np.int64)
    ending = np.full((len(KINDS), _BITS), -1, dtype=np.int32)
    for kind in range(len(KINDS)):
        for bit, number in enumerate(OF_KIND[kind]):
            fault = FAULTS[number]
            fixes[kind, bit] = _bits(fault.fixes)
            ending[kind, bit] = _ending(fault)
    return {"fixes": fixes, "ending": ending}


def _ending(fault: Fault) -> int:
    if fault.name in ("wet", "outage"):
        assert fault.remedy < 0, "it is not booked"
        return (WATER if fault.name == "wet" else OUT) * _MOVES
    return BOOKING * _MOVES + fault.remedy if fault.remedy >= 0 else -1


def _bits(places: Iterable[int]) -> int:
    return sum(1 << place for place in set(places))


def _of_rules() -> dict[str, Any]:
    """What each event asks for and each operation is decided by, and what rules decide."""
    number = {rule.code: place for place, rule in enumerate(RULES.rules)}
    of_each = [*(EVENTS[operation] for operation in range(len(OPERATIONS))), ("solved",)]
    events = list(dict.fromkeys(event for row in of_each for event in row))
    obliging = [[number[r.code] for r in RULES._obliging.get(on, ())] for on in events]
    deciding = [
        [number[rule.code] for event in row for rule in RULES.deciding(event)] for row in of_each
    ]
    made_up = [_made_up(MISSING.get(rule.code, "")) for rule in RULES.rules]
    decisions = [rule.decision if rule.decides else None for rule in RULES.rules]
    return {
        "events_of": _lists([[events.index(event) for event in row] for row in of_each]),
        "obliging": _lists(obliging),
        "deciding_case": _lists([[number[r.code] for r in RULES.deciding("support")]])[0],
        "deciding_it": _lists(deciding),
        "made_up_by": [sort for sort, _ in made_up],
        "made_up_with": [what for _, what in made_up],
        "shows": [
            next((FACT._fields.index(f) for f, by in LOOK_FOR.items() if by == look), -1)
            for look in range(len(LOOKS))
        ],
        "effect": [EFFECTS.index(one.effect) if one else -1 for one in decisions],
        "reason": [REASONS.index(one.reason) if one else -1 for one in decisions],
        "alternative": [
            OFFERS.index(one.alternative) if one and one.alternative else -1 for one in decisions
        ],
    }


def _made_up(field: str) -> tuple[int, int]:
    """How `provide` makes up for an obligation that asks for this fact, and its number."""
    if field in LOOK_FOR:
        return _BY_LOOK, LOOK_FOR[field]
    if field in STEP_FOR:
        return _BY_STEP, STEP_FOR[field]
    if field == "factors":
        return _BY_PIN, FACT.factors
    return _BY_WORD, FACT._fields.index(field) if field else -1


# -- the next move ---------------------------------------------------------------------------------


@kernel
def size_of(bits: int) -> int:
    """How many bits of the lowest 32 are set."""
    bits -= bits >> 1 & 0x55555555
    bits = (bits & 0x33333333) + (bits >> 2 & 0x33333333)
    bits = bits + (bits >> 4) & 0x0F0F0F0F
    return (bits * 0x01010101 & 0xFFFFFFFF) >> 24


@kernel
def next_move(G: Any, w: Any, kind: int) -> int:
    """`diagnosis.next_move`, made anew only where it is not kept."""
    known = (np.int64(w.suspects) << _LOOKS | w.looked) << _KIND_BITS | kind
    place = np.int64(np.uint64(known) * _SPREAD >> _UNKEPT)
    if w.moves[place] >> _MOVE_BITS != known:
        move = made_move(G, kind, w.suspects, w.looked)
        w.moves[place] = known << _MOVE_BITS | move
    return w.moves[place] & (1 << _MOVE_BITS) - 1


@kernel
def made_move(G: Any, kind: int, suspects: int, looked: int) -> int:
    """`diagnosis.next_move`: the kind of the move times `_MOVES` plus its number."""
    if not looked >> SERVICE & 1:
        return LOOKING * _MOVES + SERVICE
    if suspects == WORKS:
        return DONE * _MOVES
    if not suspects & WORKS:
        move = sure_move(G, kind, suspects)
        if move >= 0:
            return move
    size = size_of(suspects)
    best, least, left = -1, 0, 0
    for place in range(G.looks_of.shape[1]):
        look = G.looks_of[kind, place]
        if look < 0:
            break
        if not looked >> look & 1:
            split = split_by(G, kind, suspects, look)
            worth = split * G.trouble[look]
            if best < 0 or worth < least:
                best, least, left = look, worth, split
    if best >= 0 and left < size * size:
        return LOOKING * _MOVES + best
    return try_move(G, kind, suspects)


@kernel
def sure_move(G: Any, kind: int, suspects: int) -> int:
    """What to do where something is broken for certain and all suspects ask for the same."""
    common, some, ending = -1, 0, -2
    for bit in range(_BITS - 1):
        if suspects >> bit & 1:
            fixes = G.fixes[kind, bit]
            common &= fixes
            some |= fixes
            if ending == -2:
                ending = G.ending[kind, bit]
            elif ending != G.ending[kind, bit]:
                ending = -1
    if common:
        return DOING * _MOVES + cheapest(G, kind, common)
    return -1 if some else ending


@kernel
def cheapest(G: Any, kind: int, operations: int) -> int:
    """The operation of this set that costs least."""
    best = -1
    for operation in range(FIRST_BOOKING):
        if operations >> operation & 1:
            if best < 0 or G.cost[kind, operation] < G.cost[kind, best]:
                best = operation
    return best


@kernel
def split_by(G: Any, kind: int, suspects: int, look: int) -> int:
    """Suspects left after a look, summed over the suspects."""
    total = 0
    for bit in range(_BITS):
        if suspects >> bit & 1:
            total += size_of(suspects & G.alike[kind, look, bit])
    return total


@kernel
def try_move(G: Any, kind: int, suspects: int) -> int:
    """The operation that would mend most of the suspects, the cheapest of those."""
    best, most = -1, 0
    for operation in range(FIRST_BOOKING):
        count = 0
        if not _NEVER_TRIED >> operation & 1:
            for bit in range(_BITS - 1):
                if suspects >> bit & 1:
                    count += G.fixes[kind, bit] >> operation & 1
        cheaper = count == most and best >= 0 and G.cost[kind, operation] < G.cost[kind, best]
        if count > most or cheaper:
            best, most = operation, count
    return DOING * _MOVES + best if best >= 0 else LOST * _MOVES


# -- the walk --------------------------------------------------------------------------------------


@kernel
def plan(T: Any, G: Any, w: Any, t: Any) -> int:
    """`planning.plan` of a task: the rule that refuses or transfers in the end, or -1."""
    begin(T, G, w, t)
    if w.decided < 0:
        look(T, G, w, t, SERVICE)
    while w.decided < 0 and w.acts < MOST_ACTS:
        move = next_move(G, w, t.kind)
        sort, number = move // _MOVES, move % _MOVES
        if sort == LOOKING:
            look(T, G, w, t, number)
        elif sort == DOING or sort == BOOKING:
            if sort == BOOKING:
                oblige(T, G, w, t, number)
            rule = w.decided
            if rule < 0:
                rule = first_of(T, w, t, G.deciding_it[number])
            if rule >= 0:
                return finish(G, w, rule)
            if sort == DOING or next_move(G, w, t.kind) == move:
                operate(T, G, w, t, number)
                if number >= FIRST_BOOKING and w.written >> number & 1:
                    return -1
        elif sort == DONE:
            before = w.acts
            oblige(T, G, w, t, SOLVED)
            if w.acts == before:
                return -1
        else:
            look(T, G, w, t, _DAMAGE if sort == WATER else AREA_STATUS)
    return finish(G, w, w.decided)


@kernel
def begin(T: Any, G: Any, w: Any, t: Any) -> None:
    """`planning._Desk`: what has to be read is neutral until it is."""
    w.acts = w.expertise = w.written = w.absent = w.looked = 0
    w.suspects = G.everything[t.kind]
    for place in range(COMPONENTS):
        w.device[place] = t.state[place]
    for fact in range(_FACTS):
        w.facts[fact] = t.facts[fact] if fact < RECORD_FACTS else 0
    w.facts[FACT.outage] = w.facts[FACT.raised] = w.facts[FACT.wet] = 0
    w.facts[FACT.factors] = t.parameters[AUTH_LEVEL]
    w.facts[FACT.technician_due] = technician_due(T, w, t)
    w.decided = first_of(T, w, t, G.deciding_case)


@kernel
def first_of(T: Any, w: Any, t: Any, rules: Any) -> int:
    """The first of these rules that fires; -1 where none does."""
    for place in range(len(rules)):
        rule = rules[place]
        if rule < 0:
            break
        if fires(T, w, t, rule):
            return rule
    return -1


@kernel
def finish(G: Any, w: Any, rule: int) -> int:
    """A reason to give and something to offer, or a transfer."""
    if rule >= 0:
        w.acts += 2 if G.alternative[rule] >= 0 else 1
    return rule


@kernel
def look(T: Any, G: Any, w: Any, t: Any, which: int) -> None:
    """Make a check or a read."""
    value = observe(T, w, t.kind, which)
    # True observations never contradict what is known, so something is always suspected.
    fits = G.fits[t.kind, which, value]
    if fits >= 0:
        w.looked |= 1 << which
        w.absent |= G.excluded[t.kind, which, value]
        w.suspects &= fits & ~w.absent
    if which == SERVICE and w.acts == 0:  # the customer has said so
        return
    w.acts += 1
    if which < FIRST_READ:
        w.expertise = max(w.expertise, T.check_level[which])
    if G.shows[which] >= 0:
        w.facts[G.shows[which]] = 1
    if which == AREA_STATUS:
        w.facts[FACT.outage] = t.facts[FACT.outage]
    elif which == PLAN_READ:
        w.facts[FACT.raised] = t.facts[FACT.raised]
    elif which == _DAMAGE:
        w.facts[FACT.wet] = value == _WET
    else:
        return
    w.decided = first_of(T, w, t, G.deciding_case)


@kernel
def operate(T: Any, G: Any, w: Any, t: Any, operation: int) -> None:
    """Have a step done, or make a write, with what has to come first."""
    oblige(T, G, w, t, operation)
    if w.decided < 0:  # else what came first has settled the case
        carry_out(T, G, w, t, operation)


@kernel
def carry_out(T: Any, G: Any, w: Any, t: Any, operation: int) -> None:
    """Have a step done; or have a write confirmed, make it and report it."""
    if operation < FIRST_WRITE:
        w.acts += 1
        w.expertise = max(w.expertise, T.step_level[operation])
    else:
        w.acts += 3
        w.written |= 1 << operation
    change(T, w, t.kind, operation)
    if T.has_operation[t.kind, operation]:
        left = 0
        for bit in range(_BITS):
            if w.suspects >> bit & 1:
                left |= G.after[t.kind, operation, bit]
        w.absent &= ~G.brings[t.kind, operation]
        w.suspects = left & ~w.absent
    w.looked = 0
    if operation == RESTART:
        w.facts[FACT.restarted] = 1
    w.facts[FACT.restarted_last] = operation == RESTART
    if operation == _UPDATE:
        w.facts[FACT.updated] = 1


@kernel
def oblige(T: Any, G: Any, w: Any, t: Any, operation: int) -> None:
    """Do what the rules ask for before an operation, or before the end (`SOLVED`)."""
    for place in range(G.events_of.shape[1]):
        event = G.events_of[operation, place]
        if event < 0:
            break
        missing = breaches(T, G, w, t, event)
        for at in range(G.obliging.shape[1]):
            if missing >> at & 1 and w.decided < 0:
                rule = G.obliging[event, at]
                if G.made_up_by[rule] == _BY_STEP:
                    step = G.made_up_with[rule]
                    oblige_step(T, G, w, t, step)
                    if w.decided < 0:
                        carry_out(T, G, w, t, step)
                else:
                    provide(T, G, w, t, rule)


@kernel
def oblige_step(T: Any, G: Any, w: Any, t: Any, step: int) -> None:
    """`oblige`, for a step that makes up for something itself: it asks for looks alone."""
    for place in range(G.events_of.shape[1]):
        event = G.events_of[step, place]
        if event < 0:
            break
        missing = breaches(T, G, w, t, event)
        for at in range(G.obliging.shape[1]):
            if missing >> at & 1 and w.decided < 0:
                provide(T, G, w, t, G.obliging[event, at])


@kernel
def breaches(T: Any, G: Any, w: Any, t: Any, event: int) -> int:
    """Places of the obligations that an event would break, as bits; a write is confirmed."""
    missing = 0
    w.facts[FACT.confirmed] = 1
    for place in range(G.obliging.shape[1]):
        rule = G.obliging[event, place]
        if rule < 0:
            break
        if fires(T, w, t, rule) and not is_met(T, w, t, rule):
            missing |= 1 << place
    return missing


@kernel
def provide(T: Any, G: Any, w: Any, t: Any, rule: int) -> None:
    """The act that makes up for a missing obligation, but for steps."""
    sort, what = G.made_up_by[rule], G.made_up_with[rule]
    if sort == _BY_LOOK:
        look(T, G, w, t, what)
    elif sort == _BY_PIN:
        w.acts += 2  # asked for and verified
        w.facts[what] = 2
    else:
        w.acts += 1  # told, or agreed on
        w.facts[what] = 1
