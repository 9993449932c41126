"""The sales desk and its buyers on rows of integers.

    open_rows   task ─► records, belief ─► the buyer's opening
    step_rows   act ─► said, calls ─► tools run ─► speech is weighed ─► the buyer answers ─► belief

Each row equals, bit for bit, what `SalesDesk` and `Buyer` make of the same task, keys, persona and
actions. `T` are the shop's tables, `D` those of the users, `A` those of the actions.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.domains.sales import batch_user, batch_words, cells
from convgym.domains.sales.batch_hearing import hear_said
from convgym.domains.sales.batch_records import DESK_FIELDS, POLICY, begin_desk, note_user
from convgym.domains.sales.batch_rules import FACTS
from convgym.domains.sales.batch_tables import tables
from convgym.domains.sales.batch_tasks import TASK_FIELDS, compile_task, draw_rows, plan
from convgym.domains.sales.batch_tools import act, run, run_calls
from convgym.domains.sales.batch_user import BUYER_FIELDS, begin_buyer
from convgym.domains.sales.batch_verdict import grade
from convgym.domains.sales.desk import SalesDesk
from convgym.engine.batch import (
    EPISODE_FIELDS,
    GOING_ON,
    USER_CLOSED,
    Cells,
    Ints,
    action_rows,
    begin_turn,
    close_turn,
    speaks,
)
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

Records = NDArray[np.void]
GIVEN = -1
"""Instead of an action: what is said and called stands in the row already."""


class BatchedSales:
    """A `BatchedDomain`: the sales desk on rows."""

    # Whatever a step looks at in any case lies together: single numbers first.
    episode = np.dtype(
        sorted(
            [*EPISODE_FIELDS, *USER_FIELDS, *DESK_FIELDS, *BUYER_FIELDS],
            key=lambda field: np.dtype([field]).itemsize,
        ),
        align=True,
    )
    task = np.dtype(TASK_FIELDS, align=True)

    def __init__(self, desk: SalesDesk, model: DecisionModel, max_turns: int) -> None:
        self._desk, self._max_turns = desk, max_turns
        self._tables = tables(desk.shop)
        self._actions = action_rows(desk.actions, cells.ALWAYS)
        self._facts = np.zeros(1, [("facts", np.int32, (len(FACTS),))])
        self._users = users(desk.vocabulary, model, batch_user.all_known())

    def compile(self, split: str, number: int, into: np.void) -> None:
        """Write the task called `<split>-<number>` into a record of `task`."""
        compile_task(self._desk.task(split, number), into)

    def draw(self, split: str, numbers: NDArray[np.int64], into: Records) -> None:
        """`compile` for many at once.  (n,) → (n,) records"""
        made, pools = _plan(split)
        draw_rows(self._tables, made, self._facts, pools, numbers, into)

    def open_rows(self, rows: Ints, episodes: Records, belief: Cells, tasks: Records) -> None:
        """Begin these rows: their tasks, keys and personas are set, all else is made anew."""
        open_rows(self._tables, self._users, rows, episodes, _as_records(belief), tasks)

    def step_rows(
        self,
        rows: Ints,
        actions: Ints,
        episodes: Records,
        belief: Cells,
        tasks: Records,
        grades: bool,
    ) -> None:
        """Take one act in each of these rows; `actions` has one number for each of them.

        Episodes that end are graded; with `grades` the others are, too. `GIVEN` takes what is
        said and called from the row's record.
        """
        tables, cells = (self._tables, self._users, self._actions), _as_records(belief)
        step_rows(*tables, rows, actions, episodes, cells, tasks, self._max_turns, grades)

    def results_text(self, episode: np.void, task: np.void) -> tuple[str, ...]:
        """What the tools answered in the newest step."""
        return batch_words.results_text(episode)

    def acts_json(self, episode: np.void, task: np.void) -> str:
        """The buyer's newest turn as JSON."""
        return batch_words.acts_json(episode, task)

    def spoken(self, episode: np.void, task: np.void) -> list[Any]:
        """The buyer's newest turn as acts by name with their values (`Spoken`)."""
        return batch_words.spoken(episode, task)


def _as_records(belief: Cells) -> Records:
    """The same cells as records, which a kernel takes as one pointer.  (n, cells) → (n,)"""
    return belief.view([("cell", belief.dtype, belief.shape[1:])]).reshape(-1)


@cache
def _plan(split: str) -> tuple[Records, NDArray[np.int32]]:
    return plan(split)


@loop
def open_rows(T: Any, D: Any, rows: Ints, episodes: Any, belief: Any, tasks: Any) -> None:
    """Begin an episode in each of these rows."""
    for place in range(rows.shape[0]):
        row = rows[place]
        open_row(T[0], D[0], episodes[row], belief[row], tasks[row])


@loop
def step_rows(
    T: Any, D: Any, A: Any, rows: Ints, actions: Ints, episodes: Any, belief: Any, tasks: Any,
    most_turns: int, grades: bool,
) -> None:  # fmt: skip
    """Take one agent turn in each of these rows."""
    for place in range(rows.shape[0]):
        row = rows[place]
        e, b, t = episodes[row], belief[row], tasks[row]
        take_turn(T[0], A[0], e, b, t, actions[place])
        apply(T[0], D[0], e, b, t)
        close_turn(e, b.cell, most_turns)
        if grades or e.end != GOING_ON:
            grade(T[0], e, b, t)


@kernel
def open_row(T: Any, D: Any, e: Any, b: Any, t: Any) -> None:
    """Fresh records, the public policy cells, and the buyer's first words."""
    e.turn = e.errors = e.violations = e.end = e.truncated = 0
    e.n_acts = e.log_prob = e.n_results = e.n_errors = e.n_said = e.n_calls = e.n_heard = 0
    e.success = 0
    e.graded = e.progress = 0.0
    for cell in range(b.cell.shape[0]):
        b.cell[cell] = 0
    b.cell[cells.ALWAYS] = 1
    for switch in range(POLICY.shape[0]):
        b.cell[POLICY[switch]] = t.switches >> switch & 1
    begin_desk(e)
    begin_user(e)
    begin_buyer(e, t)
    open_user(D, e)
    note_user(T, e, b, t)


@kernel
def take_turn(T: Any, A: Any, e: Any, b: Any, t: Any, action: int) -> None:
    """Write down what the agent says and calls in this turn."""
    said, calls, length = e.n_said, e.n_calls, e.reply_length
    begin_turn(e)
    if action == GIVEN:
        e.n_said, e.n_calls, e.reply_length = said, calls, length
    else:
        e.reply_length = 0
        act(T, A, e, b, t, action)


@kernel
def apply(T: Any, D: Any, e: Any, b: Any, t: Any) -> None:
    """Run what was called, hear what was said, and let the buyer answer."""
    last = run_calls(T, e, b, t)
    if speaks(e):
        hear_said(T, e, b, t)
        batch_user.answer(D, e)
        note_user(T, e, b, t)
        if e.closing:
            e.end = USER_CLOSED
    if last >= 0 and e.end == GOING_ON:
        run(T, e, b, t, last)
