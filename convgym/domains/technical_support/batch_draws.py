"""Tasks drawn on integer rows: `tasks.draw_task`, and of `goals.goal` what a record holds.

`P` is the record of a split and `pools`, `meetings` stand beside it, all described in
`batch_tasks`; `K` is what they share. `T`, `G` and `w` are the planner's (`batch_planning`), `t` is
the record of the task that is made, of `batch_tables.TASK`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.domains.technical_support import combinations as branches
from convgym.domains.technical_support.batch_planning import plan
from convgym.domains.technical_support.batch_records import fires
from convgym.domains.technical_support.batch_tables import (
    ALLOWED,
    AUTH_LEVEL,
    FACT,
    REFUSED,
    UNVERIFIED,
)
from convgym.domains.technical_support.facts import NEVER, PARAMETER_NAMES
from convgym.domains.technical_support.faults import COMPONENTS
from convgym.domains.technical_support.goals import _HARMLESS
from convgym.domains.technical_support.tasks import (
    _ACTIVE,
    _BRANCH,
    _DEVICE,
    _FAULTS,
    _KIND,
    _KNOWLEDGE,
    _KNOWLEDGES,
    _MONTHS_AGO,
    _OUTAGE_1,
    _OUTAGE_2,
    _OVERDUE,
    _PARAMETER,
    _RAISED,
    _REPLACED,
    _SIZE,
)
from convgym.domains.technical_support.world import AREAS, DEVICES_EACH
from convgym.engine.batch import below, child, draw
from convgym.engine.kernel import kernel, loop
from convgym.engine.keys import EPISODE, TASK

_IMPOSTOR, _OLD, _LIMITED = branches.IMPOSTOR, branches.OLD, branches.LIMITED
_OUTAGE, _WATER, _OVERDUE_BILL = branches.OUTAGE, branches.WATER, branches.OVERDUE
_REPLACED_ONCE, _RECALLED = branches.REPLACED, branches.RECALLED
_UNCOVERED, _REMOTE, _MAINTAINED = branches.UNCOVERED, branches.REMOTE, branches.MAINTAINED
_PARAMETERS, _AREAS, _SORTS = len(PARAMETER_NAMES), len(AREAS), len(_KNOWLEDGES)
_WARRANTY, _RAISES = PARAMETER_NAMES.index("warranty"), PARAMETER_NAMES.index("raises")
_UNCOVERED_KIND = PARAMETER_NAMES.index("uncovered_kind")
_RECALLED_KIND = PARAMETER_NAMES.index("recalled_kind")
_RECALLED_MODEL = PARAMETER_NAMES.index("recalled_model")
_REMOTE_AREA = PARAMETER_NAMES.index("remote_area")
_MAINTENANCE_AREA = PARAMETER_NAMES.index("maintenance_area")


@loop
def draw_tasks(
    T: Any, G: Any, K: Any, P: Any, pools: NDArray[np.int32], meetings: NDArray[np.int32],
    walk: Any, numbers: NDArray[np.int64], rows: NDArray[np.int32], into: Any,
) -> None:  # fmt: skip
    """The tasks of a split with these numbers, one in each of these rows."""
    for at in range(len(rows)):
        key = child(P[0].stem, numbers[at], EPISODE)
        draw_task(T[0], G[0], K[0], P[0], pools, meetings, key, walk[0], into[rows[at]])


@kernel
def pick(key: np.uint64, index: int, count: int) -> int:
    """One of a task's draws, below `count`."""
    return below(draw(key, TASK, 0, index), count)


@kernel
def draw_task(
    T: Any, G: Any, K: Any, P: Any, pools: Any, meetings: Any, key: np.uint64, w: Any, t: Any
) -> None:
    """`tasks.draw_task`."""
    t.branch = P.branch[pick(key, _BRANCH, len(P.branch))]
    t.kind = P.kinds[t.branch, pick(key, _KIND, P.n_kinds[t.branch])]
    size = P.sizes[t.branch, t.kind, pick(key, _SIZE, P.sizes.shape[2])]
    first = P.meetings_from[t.branch, t.kind, size]
    place = first + pick(key, _FAULTS, P.n_meetings[t.branch, t.kind, size])
    draw_faults(K, t, meetings[place], size)
    t.knowledge = P.knowledge[t.branch, t.kind, pick(key, _KNOWLEDGE, _SORTS)]
    first = P.pool_from[t.branch, t.kind, t.knowledge]
    t.device = pools[first + pick(key, _DEVICE, P.pool_size[t.branch, t.kind, t.knowledge])]
    t.customer, t.pointer = t.device // DEVICES_EACH, t.device % DEVICES_EACH
    last = t.faults[size - 1]
    draw_parameters(T, K, key, t, K.dead[last] != 0)
    draw_records(T, key, t)
    lay_facts(T, t)
    draw_active(T, K, P, key, w, t, size)
    t.known = K.known[t.symptom, t.knowledge]
    if t.branch == _IMPOSTOR:
        t.effect, t.reason, t.alternative = REFUSED, UNVERIFIED, -1
        t.expertise, t.oracle_length = 0, 7  # ask, find, twice ask and verify, refuse
        t.required, t.allowed = 0, _HARMLESS
        t.known += 2
        return
    rule = plan(T, G, w, t)
    t.expertise = w.expertise
    t.oracle_length = w.acts + K.identifying[t.knowledge, t.parameters[AUTH_LEVEL]]
    t.effect, t.reason, t.alternative = ALLOWED, -1, -1
    if rule >= 0:
        t.effect, t.reason = G.effect[rule], G.reason[rule]
        t.alternative = G.alternative[rule]
        t.known += t.alternative >= 0
    t.required = 0
    if t.effect == ALLOWED:
        for place in range(size):
            t.required |= K.needed[t.faults[place]]
    t.allowed = (t.required if t.effect == ALLOWED else w.written) | _HARMLESS


@kernel
def draw_faults(K: Any, t: Any, faults: Any, size: int) -> None:
    """The faults, and the device that has them."""
    for component in range(COMPONENTS):
        t.state[component] = 0
    for place in range(len(t.faults)):
        fault = faults[place]
        t.faults[place] = fault
        if place < size:
            t.state[K.component[fault]] = K.state[fault]
            t.fault = K.component[fault]
    t.symptom = K.symptom[faults[0]]


@kernel
def draw_parameters(T: Any, K: Any, key: np.uint64, t: Any, dead: bool) -> None:
    """Parameters under which the branch is true of the device (`tasks._allowed`)."""
    for p in range(_PARAMETERS):
        t.parameters[p] = K.options[p, pick(key, _PARAMETER + p, K.n_options[p])]
    kind, area = T.kind[t.device], T.area[t.customer]
    if dead:
        t.parameters[_WARRANTY] = draw_warranty(T, K, key, t)
    if t.branch == _IMPOSTOR:
        t.parameters[AUTH_LEVEL] = 2
    elif t.branch == _UNCOVERED:
        t.parameters[_UNCOVERED_KIND] = kind
    elif t.branch == _REMOTE:
        t.parameters[_REMOTE_AREA] = area
    elif t.branch == _MAINTAINED:
        t.parameters[_MAINTENANCE_AREA] = area
    elif t.branch == _RECALLED:
        t.parameters[_RECALLED_KIND] = kind
        t.parameters[_RECALLED_MODEL] = T.model[t.device]


@kernel
def draw_warranty(T: Any, K: Any, key: np.uint64, t: Any) -> int:
    """A warranty that is over just where the branch says so."""
    old, count = t.branch == _OLD, 0
    for option in range(K.n_options[_WARRANTY]):
        count += (T.months[t.device] > K.options[_WARRANTY, option]) == old
    left = pick(key, _PARAMETER + _WARRANTY, count)
    for option in range(K.n_options[_WARRANTY]):
        if (T.months[t.device] > K.options[_WARRANTY, option]) == old:
            if left == 0:
                return K.options[_WARRANTY, option]
            left -= 1
    return 0


@kernel
def draw_records(T: Any, key: np.uint64, t: Any) -> None:
    """What lies over the provider's records."""
    home = 1 << T.area[t.customer]
    elsewhere = 1 << pick(key, _OUTAGE_1, _AREAS) | 1 << pick(key, _OUTAGE_2, _AREAS)
    t.outages = home | elsewhere if t.branch == _OUTAGE else elsewhere & ~home
    t.overdue = t.branch == _OVERDUE_BILL or pick(key, _OVERDUE, 6) == 0
    t.raised = pick(key, _RAISED, 3)
    if t.branch == _LIMITED:
        t.raised = max(t.raised, t.parameters[_RAISES])
    months, again = np.int64(T.months[t.device]), t.branch == _REPLACED_ONCE
    t.replaced = NEVER
    if again or pick(key, _REPLACED, 3) == 0:
        t.replaced = 1 + pick(key, _MONTHS_AGO, min(months, 5) if again else months)


@kernel
def lay_facts(T: Any, t: Any) -> None:
    """`goals.facts_of`."""
    facts = t.facts
    facts[FACT.kind], facts[FACT.model] = T.kind[t.device], T.model[t.device]
    facts[FACT.third_party], facts[FACT.months] = T.foreign[t.device], T.months[t.device]
    facts[FACT.plan], facts[FACT.area] = T.plan[t.customer], T.area[t.customer]
    facts[FACT.replaced], facts[FACT.overdue] = t.replaced, t.overdue
    facts[FACT.raised] = t.raised
    facts[FACT.outage], facts[FACT.wet] = t.branch == _OUTAGE, t.branch == _WATER


@kernel
def draw_active(T: Any, K: Any, P: Any, key: np.uint64, w: Any, t: Any, size: int) -> None:
    """The optional rules of the episode, none that decides what the branch does not."""
    drawn = np.int64(draw(key, TASK, 0, _ACTIVE))
    t.active = drawn & K.common | drawn >> 8 & drawn & P.held_out
    touched = K.on_support
    for place in range(size):
        touched |= K.touches[t.faults[place]]
    for fact in range(len(t.facts)):
        w.facts[fact] = t.facts[fact]
    own = K.own[t.branch]
    for place in range(len(K.deciding)):
        rule = K.deciding[place]
        bit = T.rule_bit[rule]
        if bit != own and K.belongs[place] & touched and fires(T, w, t, rule):
            t.active &= ~bit
    t.active |= own
