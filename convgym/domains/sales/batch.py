"""The sales desk and its buyers on rows of integers.

    open_rows   task ─► records, belief ─► the buyer's opening
    read        text ─► reading
    step_rows   act | reading ─► calls run ─► said ─► weighed ─► the buyer answers ─► belief

Each row equals, bit for bit, what `SalesDesk` and `Buyer` make of the same task, keys, persona and
actions. `T` are the shop's tables, `D` those of the users, `A` those of the actions.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.domains.sales import batch_user, cells
from convgym.domains.sales.batch_grounding import ground_call, ground_speech, take_reading
from convgym.domains.sales.batch_hearing import hear_said
from convgym.domains.sales.batch_reading import READING_FIELDS, write_reading
from convgym.domains.sales.batch_records import DESK_FIELDS, POLICY, begin_desk, note_user
from convgym.domains.sales.batch_rules import FACTS
from convgym.domains.sales.batch_tables import tables
from convgym.domains.sales.batch_tasks import TASK_FIELDS, compile_task, draw_rows, plan
from convgym.domains.sales.batch_tools import act, is_ending, run
from convgym.domains.sales.batch_user import BUYER_FIELDS, begin_buyer
from convgym.domains.sales.batch_verdict import grade
from convgym.domains.sales.batch_view import episode_in_view
from convgym.domains.sales.batch_words import SalesWords
from convgym.domains.sales.desk import SalesDesk, reader
from convgym.engine.batch import (
    EPISODE_FIELDS,
    GOING_ON,
    USER_CLOSED,
    Cells,
    Ints,
    action_rows,
    begin_turn,
    close_turn,
    fields_together,
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

Records = NDArray[np.void]


class BatchedSales:
    """A `BatchedDomain`: the sales desk on rows."""

    episode = fields_together(*EPISODE_FIELDS, *USER_FIELDS, *DESK_FIELDS, *BUYER_FIELDS)
    task = np.dtype(TASK_FIELDS, align=True)
    reading = np.dtype(READING_FIELDS, align=True)
    reads = True
    words = SalesWords()

    def __init__(self, desk: SalesDesk, model: DecisionModel, max_turns: int) -> None:
        self._desk, self._max_turns = desk, max_turns
        self._tables = tables(desk.shop)
        self._actions = action_rows(desk.actions, cells.ALWAYS)
        self._facts = np.zeros(1, [("facts", np.int32, (len(FACTS),))])
        self._users = users(desk.vocabulary, model, batch_user.all_known())
        self._no_readings = np.zeros(1, self.reading)

    def compile(self, split: str, number: int, into: np.void) -> None:
        """Write the task called `<split>-<number>` into a record of `task`."""
        compile_task(self._desk.task(split, number), into)

    def draw(self, split: str, numbers: NDArray[np.int64], rows: Ints, into: Records) -> None:
        """`compile` for many at once, into these rows."""
        made, pools = _plan(split)
        draw_rows(self._tables, made, self._facts, pools, numbers, rows, into)

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

        Episodes that end are graded; with `grades` the others are, too.
        """
        self._step(rows, actions, False, self._no_readings, episodes, belief, tasks, grades)

    def read(self, text: str, into: np.void) -> tuple[str, ...]:
        """Write what a sanitised reply says into a record of `reading`.

        Gives the sentences that answers to it may quote (`QUOTED`), in the order of their numbers.
        """
        return write_reading(reader().understand(text, self._desk.reranker), into)

    def step_readings(
        self,
        rows: Ints,
        which: Ints,
        readings: Records,
        episodes: Records,
        belief: Cells,
        tasks: Records,
        grades: bool,
    ) -> None:
        """Take a reply in each of these rows: that at its place `which` in `readings`."""
        self._step(rows, which, True, readings, episodes, belief, tasks, grades)

    def _step(
        self,
        rows: Ints,
        numbers: Ints,
        in_words: bool,
        readings: Records,
        episodes: Records,
        belief: Cells,
        tasks: Records,
        grades: bool,
    ) -> None:
        step_rows(
            self._tables, self._users, self._actions, rows, numbers, in_words, readings,
            episodes, _as_records(belief), tasks, self._max_turns, grades,
        )  # fmt: skip

    def in_view(self, row: np.void, belief: Cells, task: Any) -> Episode:
        """As much of the plain episode as its view is told from."""
        return episode_in_view(row, belief, task)


_BELIEF = np.dtype([("cell", np.uint8, (len(cells.LAYOUT),))])


def _as_records(belief: Cells) -> Records:
    """The same cells as records, which a kernel takes as one pointer.  (n, cells) → (n,)"""
    return belief.view(_BELIEF).reshape(-1)


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
    T: Any, D: Any, A: Any, rows: Ints, numbers: Ints, in_words: bool, readings: Any,
    episodes: Any, belief: Any, tasks: Any, most_turns: int, grades: bool,
) -> None:  # fmt: skip
    """Take one agent turn in each of these rows: an act or, `in_words`, a reply, by its number."""
    for place in range(rows.shape[0]):
        row = rows[place]
        e, b, t = episodes[row], belief[row], tasks[row]
        r = readings[numbers[place] if in_words else 0]
        begin_turn(e)
        if in_words:
            take_reading(e, r)
        else:
            e.reply_length = 0
            act(T[0], A[0], e, b, t, numbers[place])
        apply(T[0], D[0], e, b, t, r, in_words)
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
def apply(T: Any, D: Any, e: Any, b: Any, t: Any, r: Any, in_words: bool) -> None:
    """Run what was called, hear what was said, and let the buyer answer; what leaves is last."""
    last, speaking = -1, speaks(e)
    for at in range(e.n_calls):
        if not is_ending(e.calls[at, 0]):
            run_call(T, e, b, t, r, in_words, at)
        elif last < 0:
            last = at
    if speaking:
        if in_words:
            ground_speech(T, e, b, t, r)
        hear_said(T, e, b, t)
        batch_user.answer(D, e)
        note_user(T, e, b, t)
        if e.closing:
            e.end = USER_CLOSED
    if last >= 0 and e.end == GOING_ON:
        run_call(T, e, b, t, r, in_words, last)


@kernel
def run_call(T: Any, e: Any, b: Any, t: Any, r: Any, in_words: bool, at: int) -> None:
    """Run one call; what it points at is looked up now, after the calls before it."""
    if not in_words or ground_call(e, r, at):
        run(T, e, b, t, at)
