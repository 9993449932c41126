"""The support desk and its customers as rows of integers: `BatchedDomain` of technical support.

    action ─► act_of ─► said, calls ─► take ─► results, heard ─► answer ─► note_user ─► settle
           batch_tools          batch_tools, batch_hearing    batch_user   here     batch_verdict

The single engine (`desk`, `records`, `hearing`, `tools`, `customer`, `verdict`) is what each kernel
repeats, reaction by reaction; the ledger is not kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.domains.technical_support import batch_words as words
from convgym.domains.technical_support import cells
from convgym.domains.technical_support.batch_hearing import hear_said
from convgym.domains.technical_support.batch_records import (
    act_on,
    check_end,
    match,
    note_kind,
    note_look,
    note_operation,
    works,
)
from convgym.domains.technical_support.batch_tables import (
    AUTH_LEVEL,
    CONFIRMED,
    EPISODE,
    HEARD,
    POLICY,
    REJECTED,
    TASK,
    tables,
)
from convgym.domains.technical_support.batch_tasks import compile_task
from convgym.domains.technical_support.batch_tools import call_of, ends, run
from convgym.domains.technical_support.batch_user import answer, knowledges
from convgym.domains.technical_support.batch_verdict import grade
from convgym.domains.technical_support.desk import SupportDesk
from convgym.domains.technical_support.dialogue import ACTIONS, LAYOUT, U
from convgym.domains.technical_support.faults import COMPONENTS
from convgym.domains.technical_support.rules import OPTIONAL_CODES
from convgym.domains.technical_support.vocabulary import CHECKS, OK, SERVICE, STEPS
from convgym.engine.acts import FIRST_TOOL
from convgym.engine.batch import (
    GOING_ON,
    USER_CLOSED,
    Cells,
    Ints,
    action_rows,
    begin_turn,
    call,
    close_turn,
    is_legal,
    refuse_illegal,
    say,
    speaks,
)
from convgym.engine.kernel import kernel, loop
from convgym.language.voice import Spoken
from convgym.users.agenda_batch import (
    open_user,
)
from convgym.users.decisions import DecisionModel
from convgym.users.user_batch import (
    begin_user,
    users,
)

_DID_IT, _CLAIM_IT = U["did_it"], U["claim_it"]
_AFFIRM, _NOT_DONE = U["affirm"], U["not_done"]
_CHECKS, _STEPS, _CELLS, _OPTIONAL = len(CHECKS), len(STEPS), len(LAYOUT), len(OPTIONAL_CODES)
_CONFIRMS = len(cells.CONFIRMED)


_BELIEF = np.dtype([("cells", np.uint8, (_CELLS,))])


def _cells(belief: Cells) -> NDArray[np.void]:
    """The same rows as records: numba counts references to a row of an array, not to a record."""
    return belief.view(_BELIEF)[:, 0]


class BatchedSupport:
    """`BatchedDomain` of one desk, decision model and cap of agent turns."""

    episode = EPISODE
    task = TASK

    def __init__(self, desk: SupportDesk, model: DecisionModel, max_turns: int) -> None:
        self._desk, self._most = desk, max_turns
        self._tables = tables()
        self._actions = action_rows(ACTIONS, cells.ALWAYS)
        self._users = users(U, model, knowledges())

    def compile(self, split: str, number: int, into: np.void) -> None:
        """Write the task called `<split>-<number>` into a record of `task`."""
        compile_task(self._desk.task(split, number), into)

    def open_rows(
        self, rows: Ints, episodes: NDArray[np.void], belief: Cells, tasks: NDArray[np.void]
    ) -> None:
        """Begin these rows: their tasks, keys and personas are set, all else is made anew."""
        open_rows(self._tables, self._users, rows, episodes, _cells(belief), tasks)

    def step_rows(
        self,
        rows: Ints,
        actions: Ints,
        episodes: NDArray[np.void],
        belief: Cells,
        tasks: NDArray[np.void],
        grades: bool,
    ) -> None:
        """Take one act in each of these rows; episodes that end are graded, with `grades` all."""
        step_rows(
            self._tables, self._users, self._actions, rows, actions, episodes,
            _cells(belief), tasks, self._most, grades,
        )  # fmt: skip

    def turn_rows(
        self,
        rows: Ints,
        said: Ints,
        calls: Ints,
        episodes: NDArray[np.void],
        belief: Cells,
        tasks: NDArray[np.void],
        grades: bool,
    ) -> None:
        """Take one whole turn in each of these rows: acts of speech and calls, as a reply in text
        brings them; kinds and tools of -1 are none.  # (n, MOST_SAID, 5), (n, MOST_CALLS, 4)"""
        turn_rows(
            self._tables, self._users, rows, said, calls, episodes, _cells(belief), tasks,
            self._most, grades,
        )  # fmt: skip

    def results_text(self, turn: np.void, task: np.void) -> tuple[str, ...]:
        """What the tools answered in a step."""
        count = turn["n_results"]
        if not count:
            return ()
        made = words.result_text
        return tuple([made(*row) for row in turn["results"][:count, :4].tolist()])

    def acts_json(self, turn: np.void, task: np.void) -> str:
        """The customer's turn as JSON."""
        return words.turn_json(turn["acts"][: turn["n_acts"]].tolist(), int(task["device"]))

    def spoken(self, turn: np.void, task: np.void) -> list[Spoken]:
        """The customer's turn as acts by name with their values."""
        acts = turn["acts"][: turn["n_acts"]].tolist()
        return words.turn_spoken(acts, int(task["kind"]), int(task["device"]))


# -- loops over rows -------------------------------------------------------------------------------


@loop
def open_rows(T: Any, D: Any, rows: Ints, episodes: Any, belief: Any, tasks: Any) -> None:
    """`SupportDesk.open` and the customer's first turn."""
    for place in range(len(rows)):
        row = rows[place]
        e, task, b = episodes[row], tasks[row], belief[row].cells
        open_desk(e, b, task)
        open_customer(e, task)
        open_user(D[0], e)
        note_user(T[0], e, b, task)


@loop
def step_rows(
    T: Any,
    D: Any,
    A: Any,
    rows: Ints,
    actions: Ints,
    episodes: Any,
    belief: Any,
    tasks: Any,
    most_turns: int,
    grades: bool,
) -> None:
    """One act in each of these rows."""
    for place in range(len(rows)):
        row = rows[place]
        e, task, b = episodes[row], tasks[row], belief[row].cells
        begin_turn(e)
        act_of(A[0], e, b, task, actions[place])
        take_turn(T[0], D[0], e, b, task, most_turns, grades)


@loop
def turn_rows(
    T: Any,
    D: Any,
    rows: Ints,
    said: Ints,
    calls: Ints,
    episodes: Any,
    belief: Any,
    tasks: Any,
    most_turns: int,
    grades: bool,
) -> None:
    """One turn of speech and calls in each of these rows."""
    for place in range(len(rows)):
        row = rows[place]
        e, task, b = episodes[row], tasks[row], belief[row].cells
        begin_turn(e)
        for act in said[place]:
            if act[0] >= 0:
                say(e, act[0], act[1], act[2], act[3], act[4])
        for made in calls[place]:
            if made[0] >= 0:
                call(e, made[0], made[1], made[2], made[3])
        take_turn(T[0], D[0], e, b, task, most_turns, grades)


# -- one row ---------------------------------------------------------------------------------------


@kernel
def open_desk(e: Any, b: Cells, task: Any) -> None:
    """A fresh record of the desk's, and the public policy cells."""
    e.turn = -1
    begin_turn(e)
    e.errors = e.violations = e.end = e.truncated = e.success = 0
    e.graded = e.progress = 0.0
    e.account = e.in_hand = e.asked_last = e.step = e.asked_to_confirm = e.last_write = -1
    e.applied = e.written = e.reported = e.seen_working = e.decided_right = e.transferred = 0
    e.n_elsewhere = 0
    e.stated[:] = 0
    for place in range(COMPONENTS):
        e.device[place] = task.state[place]
    for cell in range(_CELLS):
        b[cell] = 0
    b[cells.ALWAYS] = 1
    b[cells.TWO_FACTORS] = task.parameters[AUTH_LEVEL] == 2
    for bit in range(_OPTIONAL):
        b[POLICY + bit] = task.active >> bit & 1


@kernel
def open_customer(e: Any, task: Any) -> None:
    """A fresh record of the customer's."""
    begin_user(e)
    e.requests = 1
    e.knows[0] = task.known
    e.first_step = e.puzzled_by = -1
    e.tried = e.checks_come = e.staying = 0
    e.explained_checks = e.skilled = e.puzzle = e.booked = 0
    for look in range(_CHECKS):
        e.truth[look] = -1
        e.alike[look] = 0
    for step in range(_STEPS):
        e.told_to[step] = 0


@kernel
def act_of(A: Any, e: Any, b: Cells, task: Any, action: int) -> None:
    """The speech or the call that an action number stands for."""
    if not is_legal(A.needs, b, action):
        refuse_illegal(e, action)
    elif A.kind[action] < FIRST_TOOL:
        say(e, A.kind[action], A.argument[action], A.pointer[action], A.value[action], 0)
    else:
        call_of(e, task, A.kind[action], A.argument[action], A.pointer[action])


@kernel
def take_turn(
    T: Any, D: Any, e: Any, b: Cells, task: Any, most_turns: int, grades: bool
) -> None:
    """All that follows from what was said and called: `Engine.apply`, and the verdict."""
    last = -1
    for place in range(e.n_calls):
        one = e.calls[place]
        if not ends(one[0]):
            run(T, e, b, task, one[0], one[1], one[2], one[3])
        elif last < 0:
            last = place
    if speaks(e):
        hear_said(T, e, b, task)
        answer(T, D, e, task)
        note_user(T, e, b, task)
        if e.closing:
            e.end = USER_CLOSED
    if last >= 0 and e.end == GOING_ON:
        run(T, e, b, task, e.calls[last, 0], 0, -1, -1)
    close_turn(e, b, most_turns)
    if grades or e.end != GOING_ON:
        grade(T, e, b, task)


# -- what the customer said ------------------------------------------------------------------------


@kernel
def note_user(T: Any, e: Any, b: Cells, task: Any) -> None:
    """Put what the customer said into the belief, and what it did to the device."""
    for cell in range(cells.FIRST_SAID, _CELLS):
        b[cell] = 0
    # What was done comes before what is seen of it, in whatever order it is told.
    for place in range(e.n_acts):
        act = e.acts[place]
        if act == _DID_IT or act == _CLAIM_IT:
            b[T.said_cell[act]] = 1
            note_deed(T, e, b, task, act)
    for place in range(e.n_acts):
        act = e.acts[place]
        if act != _DID_IT and act != _CLAIM_IT:
            note_act(T, e, b, task, act)
    if (b[cells.HEARD_KIND] or b[cells.HEARD_ROOM]) and e.in_hand < 0:
        note_kind(T, b, task.kind)
    match(T, e, b, task)
    if e.closing:
        check_end(T, e, b, task)


@kernel
def note_act(T: Any, e: Any, b: Cells, task: Any, act: int) -> None:
    """What one act leaves in the belief."""
    look = T.saw_look[act]
    if look >= 0:
        value = T.saw_value[act]
        note_look(T, e, b, task, look, value)
        if look == SERVICE:
            e.seen_working = value == OK and works(e)
        return
    b[T.said_cell[act]] = 1
    raised, slot = T.raises[act], T.states[act]
    if raised >= 0:
        if raised == cells.HEARD_REQUEST and not b[raised]:
            note_look(T, e, b, task, SERVICE, task.symptom)
        b[raised] = 1
    elif slot >= 0:
        e.stated[slot] = T.states_what[act]
        b[HEARD[slot]] = 1
        b[REJECTED[slot]] = 0
    elif act == _AFFIRM:
        note_yes(e, b)
    elif act == _NOT_DONE:
        e.step = -1


@kernel
def note_deed(T: Any, e: Any, b: Cells, task: Any, act: int) -> None:
    """The step that was asked for is said to be done."""
    step = e.step
    if step < 0:
        return
    if act == _DID_IT:
        act_on(T, e, task.kind, step)
    e.seen_working = 0
    e.step = -1
    note_operation(T, b, step)


@kernel
def note_yes(e: Any, b: Cells) -> None:
    asked = e.asked_to_confirm
    if asked < 0:
        return
    if asked < _CONFIRMS:
        b[CONFIRMED + asked] = 1
    else:
        b[cells.AGREED_RESET] = 1
    e.asked_to_confirm = -1
