"""A service desk and its customer on integer rows: `ServiceDesk` and `Engine`, in their order.

    open_rows      task, persona, keys ─► begin_desk, begin_user ─► the customer's first words
    step_rows      act number ─► take_act ─► said, calls ─┐
    step_readings  a reply that was read ─────────────────┴─► take_turn ─► belief, results, grade

What is looked up stands in `batch_tables`, tasks are made in `batch_tasks`, words in `batch_words`,
replies are read in `batch_reading`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.desk.batch_case import begin_desk, clear, desk_fields
from convgym.desk.batch_grading import grade_row, grades
from convgym.desk.batch_grounding import (
    MALFORMED,
    READING,
    ground_call,
    ground_speech,
    leaves,
)
from convgym.desk.batch_hearing import hear_said, note_user
from convgym.desk.batch_reading import DeskReader, Forms, grounding_tables
from convgym.desk.batch_tables import all_knowledge, desk_tables, narrowed, task_fields
from convgym.desk.batch_tasks import DeskTasks
from convgym.desk.batch_tools import call_tool, fail
from convgym.desk.batch_user import answer
from convgym.desk.batch_view import episode_in_view
from convgym.desk.batch_words import DeskWords
from convgym.desk.tools import RIGHT, STATED_WRONG
from convgym.desk.vocabulary import (
    FIND,
    GET_STATED,
    KEY,
    SECRET,
    VERIFY,
    WRITE,
)
from convgym.engine import acts
from convgym.engine.batch import (
    EPISODE_FIELDS,
    GOING_ON,
    QUOTED,
    USER_CLOSED,
    Cells,
    Ints,
    action_rows,
    begin_turn,
    call,
    close_turn,
    fields_together,
    is_legal,
    refuse_illegal,
    say,
    shared,
    speaks,
)
from convgym.engine.episode import Episode
from convgym.engine.kernel import kernel, loop
from convgym.users.agenda_batch import (
    open_user,
)
from convgym.users.decisions import DecisionModel
from convgym.users.user_batch import (
    USER_FIELDS,
    begin_user,
    users,
)


class BatchedDesk:
    """`BatchedDomain` of a declared desk; it reads replies where it is told their `forms`."""

    reading: np.dtype[np.void] = np.dtype(READING, align=True)

    def __init__(
        self, desk: Any, model: DecisionModel, max_turns: int, forms: Forms | None = None
    ) -> None:
        self._desk, self._most_turns = desk, max_turns
        own = desk_fields(len(desk.declaration.kinds))
        self.episode = fields_together(*EPISODE_FIELDS, *USER_FIELDS, *own)
        self.task = shared(np.dtype(task_fields(desk), align=True))
        self._T = desk_tables(desk, grounding_tables(desk, forms))
        self._D = narrowed(users(desk.vocabulary, model, all_knowledge(desk)))
        self._A = narrowed(action_rows(desk.actions, desk.layout["always"]))
        self._G = grades()
        self._no_readings = np.zeros(1, dtype=self.reading)
        self.reads = forms is not None
        base = self._T["base"][0].tolist()
        self._reader = None if forms is None else DeskReader(desk, forms, base)
        self._tasks = DeskTasks(desk, self._T)
        self.words = DeskWords(desk)

    # -- tasks -------------------------------------------------------------------------------------

    def compile(self, split: str, number: int, into: np.void) -> None:
        """Write the task called `<split>-<number>` into a record of `task`."""
        self._tasks.compile(split, number, into)

    def draw(
        self, split: str, numbers: NDArray[np.int64], rows: Ints, into: NDArray[np.void]
    ) -> None:
        """Write the tasks of a split with these numbers into these rows."""
        self._tasks.draw(split, numbers, rows, into)

    # -- rows --------------------------------------------------------------------------------------

    def open_rows(
        self, rows: Ints, episodes: NDArray[np.void], belief: Cells, tasks: NDArray[np.void]
    ) -> None:
        """Begin these rows: their tasks, keys and personas are set, all else is made anew."""
        _open(self._T, self._D, rows, episodes, belief, tasks)

    def step_rows(
        self,
        rows: Ints,
        actions: Ints,
        episodes: NDArray[np.void],
        belief: Cells,
        tasks: NDArray[np.void],
        grades: bool,
    ) -> None:
        """Take one act in each of these rows; `actions` has one number for each of them."""
        _step(
            self._T, self._D, self._A, self._G, rows, actions, self._no_readings, episodes,
            belief, tasks, self._most_turns, grades,
        )  # fmt: skip

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
        _step(
            self._T, self._D, self._A, self._G, rows, -1 - which, readings, episodes, belief,
            tasks, self._most_turns, grades,
        )  # fmt: skip

    # -- texts -------------------------------------------------------------------------------------

    def read(self, text: str, into: np.void) -> tuple[str, ...]:
        """Write what a sanitised reply says into a record of `reading`.

        Gives the sentences that answers to it may quote (`QUOTED`), in the order of their numbers.
        """
        assert self._reader is not None, "this desk does not read"
        return self._reader.read(text, into)

    def in_view(self, row: np.void, belief: Cells, task: Any) -> Episode:
        """As much of the plain episode as its view is told from."""
        return episode_in_view(self._desk, row, belief, task)


@loop
def _open(T: Any, D: Any, rows: Ints, episodes: Any, belief: Cells, tasks: Any) -> None:
    for row in rows:
        open_row(T[0], D[0], episodes[row], tasks[row], belief[row])


@loop
def _step(
    T: Any, D: Any, A: Any, G: Any, rows: Ints, actions: Ints, readings: Any,
    episodes: Any, belief: Cells, tasks: Any, most_turns: int, grades: bool,
) -> None:  # fmt: skip
    # An action below 0 is a reply: -1 is the first of `readings`, -2 the next.
    for place, row in enumerate(rows):
        e, t, b = episodes[row], tasks[row], belief[row]
        action = np.int64(actions[place])
        begin_turn(e)
        if action >= 0:
            take_act(T[0], A[0], e, t, b, action)
        take_turn(T[0], D[0], e, t, b, readings[max(-1 - action, 0)], action < 0)
        close_turn(e, b, most_turns)
        if grades or e.end != GOING_ON:
            grade_row(T[0], G[0], e, t, b)


@kernel
def open_row(T: Any, D: Any, e: Any, t: Any, b: Cells) -> None:
    """`ServiceDesk.open`, then `Engine.open`."""
    e.turn = e.errors = e.violations = e.end = e.truncated = 0
    e.n_acts = e.n_results = e.n_errors = e.n_said = e.n_calls = e.n_heard = e.log_prob = 0
    e.success = 0
    e.graded = e.progress = 0.0
    clear(b, np.int64(0), len(b))
    b[T.always] = 1
    b[T.two_factors] = t.parameters[T.auth_level] == 2
    begin_desk(e, t)
    begin_user(e)
    e.requests = t.requests
    for at in range(len(e.knows)):
        e.knows[at] = t.knows[at]
    open_user(D, e)
    note_user(T, e, t, b)


@kernel
def take_act(T: Any, A: Any, e: Any, t: Any, b: Cells, action: int) -> None:
    """The turn that an act number stands for (`ServiceDesk.turn`)."""
    if not is_legal(A.needs, b, action):
        refuse_illegal(e, action)
        return
    e.reply_length = 0
    kind, argument = np.int64(A.kind[action]), np.int64(A.argument[action])
    pointer, detail = np.int64(A.pointer[action]), np.int64(-1)
    if kind < acts.FIRST_TOOL:
        say(e, kind, argument, pointer, A.value[action], acts.KNOWN)
    elif kind == FIND:
        if e.stated[KEY] == 1:
            detail = np.int64(t.account)
        call(e, kind, argument, pointer, detail)
    elif kind == VERIFY:
        right = e.stated[SECRET] == 1 and e.account == t.account
        call(e, kind, argument, pointer, RIGHT if right else STATED_WRONG)
    elif kind == GET_STATED:
        found = e.stated[2 + argument] == 1 and e.account == t.account
        found = found and T.kind[t.workflow[e.desk_at]] == argument
        if found:
            pointer = np.int64(t.pointer[e.desk_at])
        call(e, kind, argument, pointer, detail)
    elif kind == WRITE:
        call(e, kind, argument, pointer, np.int64(t.detail[e.desk_at]))
    else:
        call(e, kind, argument, pointer, detail)


@kernel
def take_turn(T: Any, D: Any, e: Any, t: Any, b: Cells, r: Any, read: bool) -> None:
    """Calls run, the speech is heard, then the call that ends; with `read` they are those of `r`.

    What a call or a claim of a reply means is settled when its turn comes.
    """
    if read:
        begin_reply(e, r)
    last = -1
    for at in range(e.n_calls):
        if read:
            ground_call(T, e, t, b, r, at)
        if not leaves(np.int64(e.calls[at, 0])):
            run_call(T, e, t, b, at)
        elif last < 0:
            last = at
    if read:
        ground_speech(T, e, t, b, r)
    if speaks(e):
        hear_said(T, e, t, b)
        answer(D, e)
        note_user(T, e, t, b)
        if e.closing:
            e.end = USER_CLOSED
    if last >= 0 and e.end == GOING_ON:
        run_call(T, e, t, b, last)


@kernel
def begin_reply(e: Any, r: Any) -> None:
    """What is malformed is charged first."""
    e.n_calls, e.reply_length, e.n_errors = r.n_calls, r.reply_length, r.n_errors
    for place in range(r.n_errors):
        fail(e, QUOTED, np.int64(place))


@kernel
def run_call(T: Any, e: Any, t: Any, b: Cells, at: int) -> None:
    """Run the call at this place of the turn."""
    tool, argument = np.int64(e.calls[at, 0]), np.int64(e.calls[at, 1])
    if tool <= MALFORMED:
        fail(e, QUOTED, argument)
        return
    call_tool(T, e, t, b, tool, argument, np.int64(e.calls[at, 2]), np.int64(e.calls[at, 3]))
