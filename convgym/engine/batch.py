"""Many episodes as rows of integers: what every domain's batched engine is made of.

    episodes  (n,) records      one an episode: counters, the turn, the user's and the desk's record
    belief    (n, cells) uint8  the same cells as a single episode's belief
    tasks     (n,) records      what is hidden, compiled by the domain

A domain adds fields and compiles two loops over rows: one that opens episodes and one that takes a
step. Row i after any steps equals, bit for bit, the plain episode with the same task, keys, persona
and actions; the single engine is what this one is tested against, and it is written in its order
and under its names.

A step goes through one row:

    action ─► said, calls ─► calls run ─► results ─► speech is weighed ─► heard
                                                           └─► user answers ─► acts ─► belief
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.engine import keys
from convgym.engine.actions import ActionTable
from convgym.engine.engine import ERROR_BUDGET
from convgym.engine.kernel import kernel, loop

Ints = NDArray[np.int32]
Cells = NDArray[np.uint8]
Keys = NDArray[np.uint64]
Fields = list[tuple[Any, ...]]
"""Fields of a numpy record: name, type and, of an array, its shape."""

MOST_SAID, SAID_WIDTH = 16, 5
"""Acts of speech in one turn: kind, argument, pointer, value, claim."""
MOST_CALLS, CALL_WIDTH = 4, 4
"""Calls in one turn: tool, argument, pointer, detail."""
MOST_HEARD, HEARD_WIDTH = MOST_SAID, 4
"""What is heard: kind, argument, pointer, verdict."""
MOST_RESULTS, RESULT_WIDTH = 18, 6
"""What calls and errors returned: a code of the domain's and what its text is made of."""
MOST_ACTS = 24
"""Acts of a user's turn."""
TRAITS = 11


def numbers(names: str) -> Fields:
    """A whole number for each name."""
    return [(name, np.int32) for name in names.split()]


TURN_FIELDS: Fields = [
    *numbers("answered n_acts about n_results user_turn"),
    ("acts", np.int32, (MOST_ACTS,)),
    ("results", np.int32, (MOST_RESULTS, RESULT_WIDTH)),
]
"""What a step brought: all that its texts are made of, beside the task. `user_turn` counts the
turns that the user has had."""
EPISODE_FIELDS: Fields = [
    ("user_key", np.uint64),
    ("wording_key", np.uint64),
    ("graded", np.float64),
    ("progress", np.float64),
    *TURN_FIELDS,
    *numbers("turn errors violations end truncated log_prob success"),
    *numbers("n_errors n_said n_calls n_heard"),
    ("said", np.int32, (MOST_SAID, SAID_WIDTH)),
    ("calls", np.int32, (MOST_CALLS, CALL_WIDTH)),
    ("heard", np.int32, (MOST_HEARD, HEARD_WIDTH)),
    ("persona", np.int32, (TRAITS,)),
]
"""What every episode has. `answered` is 1 in a step in which the user had the floor; `about` is the
request that its values belong to; `n_errors` counts the errors of this turn, `errors` all."""
STANDING_FIELDS: Fields = [
    *numbers("turn errors violations end truncated log_prob answered user_turn success"),
    ("oracle_length", np.int32),
    ("graded", np.float64),
    ("progress", np.float64),
    ("wording_key", np.uint64),
]
"""How an episode stands: what rewards and infos are made of, close together. The oracle's length
is 0 while it goes on."""


@cache
def shared(kind: np.dtype[np.void]) -> np.dtype[np.void]:
    """The one dtype that serves for all that equal it.

    Numba knows at once what it has compiled for a record if its dtype is the same object; else it
    compares all fields, in ten microseconds a call.
    """
    return kind


def fields_together(*fields: tuple[Any, ...]) -> np.dtype[np.void]:
    """A record of these fields: single numbers as they come, then arrays, short ones first.

    What all steps read then lies in a few lines of cache, away from what few of them fill.
    """

    def length(field: tuple[Any, ...]) -> int:
        return int(np.prod(field[2])) if len(field) > 2 else 0

    return shared(np.dtype(sorted(fields, key=length), align=True))


def record(**columns: Any) -> NDArray[np.void]:
    """Tables as the fields of one record, which a kernel takes as one pointer.  # (1,)"""
    arrays = {
        name: np.asarray(values) if hasattr(values, "dtype") else np.array(values, dtype=np.int64)
        for name, values in columns.items()
    }
    kind = np.dtype([(name, a.dtype, a.shape) for name, a in arrays.items()], align=True)
    made = np.zeros(1, dtype=shared(kind))
    for name, values in arrays.items():
        made[name][0] = values
    return made


# Ends. What a domain's own calls end it with lies among them.
(
    GOING_ON,
    AGENT_ENDED,
    TRANSFERRED,
    USER_CLOSED,
    ERROR_BUDGET_SPENT,
    TURN_CAP,
) = range(6)
ENDS = ("", "agent_ended", "transferred", "user_closed", "error_budget_spent", "turn_cap")
"""What the numbers of ends mean."""

ILLEGAL = 0
"""Code of the result of an act that refers to nothing seen so far; its number comes next."""
QUOTED = -1
"""Code of a result that quotes the reply; which of the reply's sentences it is comes next."""

_MASK = 0xFFFFFFFFFFFFFFFF
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_STREAM = np.uint64(0xD1B54A32D192ED03)
_TURN = np.uint64(0x8CB92BA72F3D8DD7)
_INDEX = np.uint64(0xC2B2AE3D27D4EB4F)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)
_NO_BIT = np.uint8(0)
_27, _30, _31, _32 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(32)


@kernel
def mix(x: np.uint64) -> np.uint64:
    """`convgym.engine.keys.mix`."""
    x = (x ^ (x >> _30)) * _MIX1
    x = (x ^ (x >> _27)) * _MIX2
    return x ^ (x >> _31)


@kernel
def child(key: np.uint64, index: int, stream: int) -> np.uint64:
    """`convgym.engine.keys.child`."""
    return mix(key + np.uint64(stream) * _STREAM + np.uint64(index + 1) * _GOLDEN)


@kernel
def draw(key: np.uint64, stream: int, turn: int, index: int) -> np.uint64:
    """`convgym.engine.keys.draw`."""
    x = key + np.uint64(stream) * _STREAM + np.uint64(turn) * _TURN + np.uint64(index) * _INDEX
    return mix(x) >> _32


@kernel
def below(drawn: np.uint64, count: int) -> np.int64:
    """`convgym.engine.keys.below`."""
    return np.int64((drawn * np.uint64(count)) >> _32)


def action_needs(table: ActionTable, always: int) -> Ints:
    """Cells that each action needs, padded with -1; `always` is set anyway.  # (actions, most)"""
    lists = [[c for c in dict.fromkeys(row) if c != always] for row in table.needs.tolist()]
    needs = np.full((len(lists), max(1, max(map(len, lists)))), -1, dtype=np.int32)
    for row, cells in enumerate(lists):
        needs[row, : len(cells)] = cells
    return needs


def action_rows(table: ActionTable, always: int) -> NDArray[np.void]:
    """A table of actions as the fields of a record; see `action_needs`.  # (1,)"""
    columns = {
        name: [getattr(action, name) for action in table.actions]
        for name in ("kind", "argument", "pointer", "value")
    }
    return record(**columns, needs=action_needs(table, always))


@kernel
def is_legal(needs: Ints, b: Cells, action: int) -> bool:
    """Whether the agent has seen what an action needs."""
    for column in range(needs.shape[1]):
        cell = needs[action, column]
        if cell < 0:
            return True
        if not b[cell]:
            return False
    return True


@loop
def see(
    needs: Ints,
    scale: NDArray[np.float32],
    belief: Cells,
    legal: NDArray[np.int8],
    features: NDArray[np.float32],
) -> None:
    """1 for each action that is legal, and cells as numbers.

    (n, cells) → (n, actions), (n, cells); one of the two may have no rows, and is left out then.
    """
    # Eight rows at a time, a bit each: an action is legal in those in which all its cells are set.
    (count, cells), (actions, most) = belief.shape, needs.shape
    wanted = np.empty((most, actions), dtype=np.uint16)
    for action in range(actions):
        for column in range(most):
            cell = needs[action, column]
            wanted[column, action] = cell if cell >= 0 else cells
    is_set, bits = np.zeros(cells + 1, dtype=np.uint8), np.zeros(actions, dtype=np.uint8)
    is_set[cells] = 255
    for first in range(0, count, 8):
        last = min(first + 8, count)
        if len(features):
            for row in range(first, last):
                for cell in range(cells):
                    features[row, cell] = np.float32(belief[row, cell]) * scale[cell]
        if not len(legal):
            continue
        for cell in range(cells):
            is_set[cell] = 0
        for row in range(first, last):
            b, bit = belief[row], np.uint8(1 << row - first)
            for cell in range(cells):
                is_set[cell] |= bit if b[cell] else _NO_BIT
        for action in range(actions):
            bits[action] = is_set[wanted[0, action]]
        for column in range(1, most):
            for action in range(actions):
                bits[action] &= is_set[wanted[column, action]]
        for row in range(first, last):
            mask, bit = legal[row], np.uint8(1 << row - first)
            for action in range(actions):
                mask[action] = 1 if bits[action] & bit else 0


# -- a turn ------------------------------------------------------------------------------------


@kernel
def begin_turn(e: Any) -> None:
    """A new turn of the agent: nothing said, called, heard or answered yet."""
    e.turn += 1
    e.answered = e.n_acts = e.n_results = e.n_errors = 0
    e.n_said = e.n_calls = e.n_heard = e.log_prob = 0


@kernel
def say(e: Any, kind: int, argument: int, pointer: int, value: int, claim: int) -> None:
    """One more act of the agent's speech."""
    act = e.said[e.n_said]
    act[0], act[1], act[2], act[3], act[4] = kind, argument, pointer, value, claim
    e.n_said += 1


@kernel
def call(e: Any, tool: int, argument: int, pointer: int, detail: int) -> None:
    """One more call of the agent's."""
    made = e.calls[e.n_calls]
    made[0], made[1], made[2], made[3] = tool, argument, pointer, detail
    e.n_calls += 1


@kernel
def hear(e: Any, kind: int, argument: int, pointer: int, verdict: int) -> None:
    """One more act as the user takes it."""
    act = e.heard[e.n_heard]
    act[0], act[1], act[2], act[3] = kind, argument, pointer, verdict
    e.n_heard += 1


@kernel
def result(e: Any, code: int, first: int, second: int, third: int, fourth: int) -> None:
    """One more answer of a tool."""
    answer = e.results[e.n_results]
    answer[0], answer[1], answer[2], answer[3], answer[4] = code, first, second, third, fourth
    e.n_results += 1


@kernel
def refuse_illegal(e: Any, action: int) -> None:
    """An act that refers to nothing seen so far: an error, and the agent keeps the floor."""
    e.n_errors += 1
    e.errors += 1
    result(e, ILLEGAL, action, 0, 0, 0)


@kernel
def speaks(e: Any) -> bool:
    """Whether the user gets the floor: speech, or nothing at all, which is silence."""
    return e.n_said > 0 or (e.n_calls == 0 and e.n_errors == 0)


@kernel
def close_turn(e: Any, b: Cells, most_turns: int) -> None:
    """The end of a turn: budget and cap, and the counters that the agent sees."""
    if e.end == GOING_ON:
        if e.errors >= ERROR_BUDGET:
            e.end = ERROR_BUDGET_SPENT
        elif e.turn >= most_turns:
            e.end = TURN_CAP
            e.truncated = 1
    b[1] = min(e.turn, 255)
    b[2] = min(e.errors, 255)


assert keys.MASK == _MASK


@loop
def copy_standing(episodes: Any, tasks: Any, standing: Any, turns: Any) -> None:
    """How episodes stand, and what their newest step brought, by row.

    `standing` are records of `STANDING_FIELDS`, `turns` of `TURN_FIELDS`.
    """
    for row in range(len(episodes)):
        e, s, turn = episodes[row], standing[row], turns[row]
        s.turn, s.errors, s.violations, s.end = e.turn, e.errors, e.violations, e.end
        s.truncated, s.log_prob, s.answered = e.truncated, e.log_prob, e.answered
        s.user_turn, s.success, s.wording_key = e.user_turn, e.success, e.wording_key
        s.graded, s.progress = e.graded, e.progress
        s.oracle_length = tasks[row].oracle_length if e.end != GOING_ON else 0
        turn.answered, turn.about = e.answered, e.about
        turn.n_acts, turn.n_results = e.n_acts, e.n_results
        turn.user_turn = e.user_turn
        for place in range(e.n_acts):
            turn.acts[place] = e.acts[place]
        for place in range(e.n_results):
            for column in range(RESULT_WIDTH):
                turn.results[place, column] = e.results[place, column]


# -- a new episode -------------------------------------------------------------------------------


@loop
def draw_keys(
    rows: Ints, run_keys: Keys, counts: NDArray[np.int64], episodes: Any, episode_keys: Keys
) -> None:
    """Keys of the next episodes of these rows; those of tasks are written to `episode_keys`.

    `run_keys` and `counts` are by row: the key of its run, and which episode of it comes next;
    `counts` go on by one.
    """
    for place in range(len(rows)):
        row = rows[place]
        key = child(run_keys[row], counts[row], keys.EPISODE)
        counts[row] += 1
        episodes[row].user_key = child(key, 1, keys.EPISODE)
        episodes[row].wording_key = child(key, 2, keys.EPISODE)
        episode_keys[place] = key


@loop
def draw_numbers(episode_keys: Keys, count: int, out: NDArray[np.int64]) -> None:
    """One of `count` tasks for each key.  (n,) → (n,)"""
    for place in range(len(episode_keys)):
        out[place] = below(draw(episode_keys[place], keys.TASK, 0, 0), count)
