"""A service desk and its customer on integer rows: `ServiceDesk` and `Engine`, in their order.

    open_rows   task, persona, keys ─► begin_desk, begin_user ─► the customer's first words
    step_rows   act number ─► take_act ─► said, calls ─┐
    step_turns  said, calls of a turn ─────────────────┴─► take_turn ─► belief, results, acts, grade

What is looked up stands in `batch_tables`, tasks are made in `batch_tasks`, words in `batch_words`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.desk.batch_case import begin_desk, clear, desk_fields
from convgym.desk.batch_grading import grade_row, grades
from convgym.desk.batch_hearing import hear_said, note_user
from convgym.desk.batch_tables import all_knowledge, desk_tables, narrowed, task_fields
from convgym.desk.batch_tasks import DeskTasks
from convgym.desk.batch_tools import call_tool
from convgym.desk.batch_user import answer
from convgym.desk.batch_words import DeskWords
from convgym.desk.tools import RIGHT, STATED_WRONG
from convgym.desk.vocabulary import (
    END_CONVERSATION,
    FIND,
    GET_STATED,
    KEY,
    SECRET,
    TRANSFER_TO_HUMAN,
    VERIFY,
    WRITE,
)
from convgym.engine import acts
from convgym.engine.batch import (
    CALL_WIDTH,
    EPISODE_FIELDS,
    GOING_ON,
    MOST_CALLS,
    MOST_SAID,
    SAID_WIDTH,
    USER_CLOSED,
    Cells,
    Fields,
    Ints,
    action_rows,
    begin_turn,
    call,
    close_turn,
    is_legal,
    numbers,
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
    USER_FIELDS,
    begin_user,
    users,
)

TURN: Fields = [
    *numbers("n_said n_calls reply_length"),
    ("said", np.int32, (MOST_SAID, SAID_WIDTH)),
    ("calls", np.int32, (MOST_CALLS, CALL_WIDTH)),
]
"""A turn of the agent's that is not one act: what it says and calls, and its characters."""


class BatchedDesk:
    """`BatchedDomain` of a declared desk."""

    def __init__(self, desk: Any, model: DecisionModel, max_turns: int) -> None:
        self._most_turns = max_turns
        fields = [*EPISODE_FIELDS, *USER_FIELDS, *desk_fields(len(desk.declaration.kinds))]
        self.episode: np.dtype[np.void] = np.dtype(fields, align=True)
        self.task: np.dtype[np.void] = np.dtype(task_fields(desk), align=True)
        self.turn: np.dtype[np.void] = np.dtype(TURN, align=True)
        self._T = desk_tables(desk)
        self._D = narrowed(users(desk.vocabulary, model, all_knowledge(desk)))
        self._A = narrowed(action_rows(desk.actions, desk.layout["always"]))
        self._G = grades()
        self._no_turns = np.zeros(0, dtype=self.turn)
        self._tasks = DeskTasks(desk, self._T)
        self._words = DeskWords(desk)

    # -- tasks -------------------------------------------------------------------------------------

    def compile(self, split: str, number: int, into: np.void) -> None:
        """Write the task called `<split>-<number>` into a record of `task`."""
        self._tasks.compile(split, number, into)

    def draw(self, split: str, numbers: NDArray[np.int64], into: NDArray[np.void]) -> None:
        """Write the tasks of a split with these numbers into records of `task`."""
        self._tasks.draw(split, numbers, into)

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
            self._T, self._D, self._A, self._G, rows, actions, self._no_turns, episodes, belief,
            tasks, self._most_turns, grades,
        )  # fmt: skip

    def step_turns(
        self,
        rows: Ints,
        turns: NDArray[np.void],
        episodes: NDArray[np.void],
        belief: Cells,
        tasks: NDArray[np.void],
        grades: bool,
    ) -> None:
        """Take a whole turn in each of these rows; `turns` has a record of `turn` for each."""
        actions = np.full(len(rows), -1, dtype=np.int32)
        _step(
            self._T, self._D, self._A, self._G, rows, actions, turns, episodes, belief, tasks,
            self._most_turns, grades,
        )  # fmt: skip

    # -- words -------------------------------------------------------------------------------------

    def results_text(self, turn: np.void, task: np.void) -> tuple[str, ...]:
        """What the tools answered in a step."""
        return self._words.results_text(turn)

    def acts_json(self, turn: np.void, task: np.void) -> str:
        """The customer's turn as JSON."""
        return self._words.acts_json(turn, task)

    def spoken(self, turn: np.void, task: np.void) -> list[Spoken]:
        """The customer's turn as acts by name with their values."""
        return self._words.spoken(turn, task)


@loop
def _open(T: Any, D: Any, rows: Ints, episodes: Any, belief: Cells, tasks: Any) -> None:
    for row in rows:
        open_row(T[0], D[0], episodes[row], tasks[row], belief[row])


@loop
def _step(
    T: Any, D: Any, A: Any, G: Any, rows: Ints, actions: Ints, turns: Any,
    episodes: Any, belief: Cells, tasks: Any, most_turns: int, grades: bool,
) -> None:  # fmt: skip
    for place, row in enumerate(rows):
        e, t, b = episodes[row], tasks[row], belief[row]
        begin_turn(e)
        if actions[place] >= 0:
            take_act(T[0], A[0], e, t, b, actions[place])
        else:
            copy_turn(e, turns[place])
        take_turn(T[0], D[0], e, t, b)
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
def copy_turn(e: Any, turn: Any) -> None:
    """A whole turn, as it is handed in."""
    e.n_said, e.n_calls, e.reply_length = turn.n_said, turn.n_calls, turn.reply_length
    for at in range(turn.n_said):
        for column in range(SAID_WIDTH):
            e.said[at, column] = turn.said[at, column]
    for at in range(turn.n_calls):
        for column in range(CALL_WIDTH):
            e.calls[at, column] = turn.calls[at, column]


@kernel
def take_turn(T: Any, D: Any, e: Any, t: Any, b: Cells) -> None:
    """What was said and called: calls run, the speech is heard, then the call that ends."""
    last = -1
    for at in range(e.n_calls):
        tool = e.calls[at, 0]
        if tool == TRANSFER_TO_HUMAN or tool == END_CONVERSATION:
            if last < 0:
                last = at
        else:
            run_call(T, e, t, b, at)
    if speaks(e):
        hear_said(T, e, t, b)
        answer(D, e)
        note_user(T, e, t, b)
        if e.closing:
            e.end = USER_CLOSED
    if last >= 0 and e.end == GOING_ON:
        run_call(T, e, t, b, last)


@kernel
def run_call(T: Any, e: Any, t: Any, b: Cells, at: int) -> None:
    """Run the call at this place of the turn."""
    tool, argument = np.int64(e.calls[at, 0]), np.int64(e.calls[at, 1])
    call_tool(T, e, t, b, tool, argument, np.int64(e.calls[at, 2]), np.int64(e.calls[at, 3]))
