"""The support desk and its customers as rows of integers: `BatchedDomain` of technical support.

    action ─► act_of ─► said, calls ─► take ─► results, heard ─► answer ─► note_user ─► settle
           batch_tools          batch_tools, batch_hearing    batch_user   here     batch_verdict
    text ─► read ─► reading ─► ground ─► said, calls ─► …
           batch_reading  batch_grounding

The single engine (`desk`, `records`, `hearing`, `tools`, `customer`, `verdict`) is what each kernel
repeats, reaction by reaction; the ledger is not kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.domains.technical_support import cells
from convgym.domains.technical_support.batch_grounding import (
    MALFORMED,
    READING,
    begin_reply,
    ground_call,
    ground_speech,
    leaves,
    quote,
)
from convgym.domains.technical_support.batch_hearing import hear_said
from convgym.domains.technical_support.batch_reading import NO_EPISODE, write_reading
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
from convgym.domains.technical_support.batch_tasks import compile_task, draw
from convgym.domains.technical_support.batch_tools import call_of, run
from convgym.domains.technical_support.batch_user import answer, knowledges
from convgym.domains.technical_support.batch_verdict import grade
from convgym.domains.technical_support.batch_view import episode_in_view
from convgym.domains.technical_support.batch_words import SupportWords
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
    close_turn,
    is_legal,
    refuse_illegal,
    say,
    speaks,
)
from convgym.engine.episode import Episode
from convgym.engine.kernel import kernel, loop
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
    reading = np.dtype(READING, align=True)
    reads = True
    words = SupportWords()

    def __init__(self, desk: SupportDesk, model: DecisionModel, max_turns: int) -> None:
        self._desk, self._most = desk, max_turns
        self._tables = tables()
        self._actions = action_rows(ACTIONS, cells.ALWAYS)
        self._users = users(U, model, knowledges())
        self._no_readings = np.zeros(1, self.reading)

    def compile(self, split: str, number: int, into: np.void) -> None:
        """Write the task called `<split>-<number>` into a record of `task`."""
        compile_task(self._desk.task(split, number), into)

    def draw(
        self, split: str, numbers: NDArray[np.int64], rows: Ints, into: NDArray[np.void]
    ) -> None:
        """`compile` for many at once, into these rows."""
        draw(split, numbers, rows, into)

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
            self._tables, self._users, self._actions, rows, actions, self._no_readings, episodes,
            _cells(belief), tasks, self._most, grades,
        )  # fmt: skip

    def read(self, text: str, into: np.void) -> tuple[str, ...]:
        """Write what a sanitised reply says into a record of `reading`.

        Gives the sentences that answers to it may quote (`QUOTED`), in the order of their numbers.
        """
        return write_reading(self._desk.understand(NO_EPISODE, text), into)

    def step_readings(
        self,
        rows: Ints,
        which: Ints,
        readings: NDArray[np.void],
        episodes: NDArray[np.void],
        belief: Cells,
        tasks: NDArray[np.void],
        grades: bool,
    ) -> None:
        """Take a reply in each of these rows: that at its place `which` in `readings`."""
        step_rows(
            self._tables, self._users, self._actions, rows, -1 - which, readings, episodes,
            _cells(belief), tasks, self._most, grades,
        )  # fmt: skip

    def in_view(self, row: np.void, belief: Cells, task: Any) -> Episode:
        """As much of the plain episode as its view is told from."""
        return episode_in_view(row, belief, task)


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
    readings: Any,
    episodes: Any,
    belief: Any,
    tasks: Any,
    most_turns: int,
    grades: bool,
) -> None:
    """One turn in each of these rows: an act, or a reply: -1 is the first reading, -2 the next."""
    for place in range(len(rows)):
        row, action = rows[place], np.int64(actions[place])
        e, task, b = episodes[row], tasks[row], belief[row].cells
        begin_turn(e)
        if action >= 0:
            act_of(A[0], e, b, task, action)
        r = readings[max(-1 - action, 0)]
        take_turn(T[0], D[0], e, b, task, r, action < 0, most_turns, grades)


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
    e.reply_length = 0
    if not is_legal(A.needs, b, action):
        refuse_illegal(e, action)
    elif A.kind[action] < FIRST_TOOL:
        say(e, A.kind[action], A.argument[action], A.pointer[action], A.value[action], 0)
    else:
        call_of(e, task, A.kind[action], A.argument[action], A.pointer[action])


@kernel
def take_turn(
    T: Any, D: Any, e: Any, b: Cells, task: Any, r: Any, read: bool, most_turns: int, grades: bool
) -> None:
    """All that follows from what was said and called: `Engine.apply`, and the verdict.

    With `read` they are those of `r`: what a call or a claim means is settled when its turn comes.
    """
    if read:
        begin_reply(e, r)
    last = -1
    for place in range(e.n_calls):
        if read:
            ground_call(T, e, b, task, r, place)
        if not leaves(e.calls[place, 0]):
            run_call(T, e, b, task, place)
        elif last < 0:
            last = place
    if read:
        ground_speech(T, e, b, task, r)
    if speaks(e):
        hear_said(T, e, b, task)
        answer(T, D, e, task)
        note_user(T, e, b, task)
        if e.closing:
            e.end = USER_CLOSED
    if last >= 0 and e.end == GOING_ON:
        run_call(T, e, b, task, last)
    close_turn(e, b, most_turns)
    if grades or e.end != GOING_ON:
        grade(T, e, b, task)


@kernel
def run_call(T: Any, e: Any, b: Cells, task: Any, at: int) -> None:
    """Run the call at this place of the turn."""
    one = e.calls[at]
    if one[0] <= MALFORMED:
        quote(e, one[1])
    else:
        run(T, e, b, task, one[0], one[1], one[2], one[3])


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
    """Note that the customer agreed to what was asked last."""
    asked = e.asked_to_confirm
    if asked < 0:
        return
    if asked < _CONFIRMS:
        b[CONFIRMED + asked] = 1
    else:
        b[cells.AGREED_RESET] = 1
    e.asked_to_confirm = -1
