"""The `infos` of batched episodes: the keys of a single environment, as arrays over rows.

    standing, turns, masks ─► Reported ─► LateInfos: each key is made when somebody reads it
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.engine import keys
from convgym.engine.batch import ENDS
from convgym.engine.batched_domain import BatchedDomain
from convgym.engine.turn_words import acts_json, results_text
from convgym.envs.batched_episodes import SPLIT_NAMES, BatchedEpisodes, Rows, task_ids
from convgym.envs.conditions import Conditions
from convgym.envs.late_infos import NOT_MADE, LateInfos
from convgym.envs.step_info import CANDIDATE, KEYS
from convgym.language.voice import RETRIEVAL, SOURCE, TEMPLATE
from convgym.users.decisions import LOG_UNIT

_ENDS = np.array(ENDS, dtype=object)
_TEMPLATE = np.array(["", TEMPLATE], dtype=object)
Texts = NDArray[np.object_]


class BatchedInfos:
    """Makes `infos` of a batch of episodes as they stood at the newest look."""

    def __init__(
        self, episodes: BatchedEpisodes, batched: BatchedDomain, conditions: Conditions,
        violations: tuple[str, ...],
    ) -> None:  # fmt: skip
        self._episodes, self._batched, self._conditions = episodes, batched, conditions
        self._violations = violations
        keys = (*KEYS, CANDIDATE) if conditions.action == "embedding" else KEYS
        self._late = {name: NOT_MADE for key in keys for name in (key, f"_{key}")}

    def of(
        self,
        rows: Rows | None,
        masks: NDArray[np.int8],
        shaping: NDArray[np.float64] | None = None,
    ) -> LateInfos:
        """The infos of these rows, None for all; where others stand, nothing does.

        `masks` has one entry for each of the rows; `shaping`, what milestones have added to the
        newest reward, one for each row there is.
        """
        count = len(self._episodes.records)
        reported = Reported(
            self._episodes, self._batched, self._conditions, self._violations, rows, masks, shaping
        )

        def made(key: str) -> NDArray[Any]:
            if key.startswith("_"):
                return _standing(rows, count)
            return _spread(getattr(reported, key)(), rows, count)

        return LateInfos(self._late, made)


class Reported:
    """What some rows' infos are made of: arrays that no later step changes.

    A method for each of `KEYS` and for `CANDIDATE`; it gives an array, one entry for each row.
    """

    def __init__(
        self, episodes: BatchedEpisodes, batched: BatchedDomain, conditions: Conditions,
        violations: tuple[str, ...], rows: Rows | None, masks: NDArray[np.int8],
        shaping: NDArray[np.float64] | None,
    ) -> None:  # fmt: skip
        self._batched, self._conditions, self._violations = batched, conditions, violations
        self._rows: Any = slice(None) if rows is None else rows
        self._standing, self._turns = episodes.standing, episodes.turns
        self._ended, self._succeeded = episodes.ended, episodes.succeeded
        self._tasks_of = episodes.tasks_of
        self._splits, self._numbers = episodes.splits.copy(), episodes.numbers.copy()
        self._difficulty, self._characters = episodes.difficulty.copy(), episodes.characters.copy()
        self._acts = None if episodes.acts is None else episodes.acts.copy()
        self._quotes, self._masks, self._shaping = episodes.quotes, masks, shaping

    def _number(self, name: str) -> NDArray[Any]:
        """A field of the rows' standing."""
        return self._standing[name][self._rows]

    def _places(self) -> Rows:
        """The rows by their numbers."""
        return np.arange(len(self._standing), dtype=np.int32)[self._rows]

    # -- the task --------------------------------------------------------------------------------

    def task_id(self) -> Texts:
        """The id of each row's task."""
        return _objects(task_ids(self._splits[self._rows], self._numbers[self._rows]))

    def split(self) -> Texts:
        """The split that each task is of."""
        return SPLIT_NAMES[self._splits[self._rows]]

    def difficulty(self) -> NDArray[np.float64]:
        """Difficulty of each task, from 0 to 1."""
        return self._difficulty[self._rows]

    # -- the turn --------------------------------------------------------------------------------

    def turn(self) -> NDArray[np.int64]:
        """Agent turns so far."""
        return self._number("turn").astype(np.int64)

    def action_mask(self) -> NDArray[np.int8]:
        """Which acts are legal now.  # (k, actions)"""
        return self._masks

    def candidate(self) -> NDArray[np.int64]:
        """The candidate reply that each vector was decoded to."""
        assert self._acts is not None
        return self._acts[self._rows]

    def cost_characters(self) -> NDArray[np.int64]:
        """Characters of each agent's newest reply."""
        return self._characters[self._rows]

    def user_log_prob(self) -> NDArray[np.float64]:
        """Log-probability of what each user has chosen to do, in nats; 0 before it answers."""
        answered = self._number("answered") != 0
        return np.where(answered, self._number("log_prob") * LOG_UNIT, 0.0)

    def wording(self) -> Texts:
        """Where the words of each user's turn come from."""
        answered = self._number("answered") != 0
        realism = self._conditions.words["train"].voice.realism
        named = _TEMPLATE[answered.view(np.int8)]
        if realism:
            turns = self._number("user_turn") - 1
            drawn = keys.draw_batch(self._number("wording_key"), keys.WORDING, turns, SOURCE)
            named[answered & (keys.below_batch(drawn, 50) < realism)] = RETRIEVAL
        return named

    def user_acts(self) -> Texts:
        """The user's acts of this turn, as JSON."""
        tasks = self._tasks_of(self._splits, self._numbers)
        return _objects(acts_json(self._batched.words, self._turns, tasks, self._places()))

    def tool_results(self) -> Texts:
        """What tools have answered in this turn."""
        words = self._batched.words
        return _objects(results_text(words, self._turns, self._places(), self._quotes))

    # -- what became of it -----------------------------------------------------------------------

    def errors(self) -> NDArray[np.int64]:
        """Errors that each agent was charged so far."""
        return self._number("errors").astype(np.int64)

    def violations(self) -> Texts:
        """Rules that each agent has broken, in words."""
        bits = self._number("violations").tolist()
        return _objects([violations_in_words(self._violations, one) for one in bits])

    def milestones(self) -> NDArray[np.float64]:
        """Progress of each task, from 0 to 1."""
        return self._number("progress")

    def success(self) -> NDArray[np.bool_]:
        """Whether each task has been solved."""
        return self._succeeded[self._rows]

    def failure_reason(self) -> Texts:
        """Why each ended episode failed; "" where it goes on or succeeded."""
        lost = self._ended[self._rows] & ~self.success()
        reasons = np.where(lost, _ENDS[self._number("end")], "")
        reasons[lost & (self._number("violations") != 0)] = "violation"
        return reasons

    def oracle_length(self) -> NDArray[np.int64]:
        """Acts that a flawless agent needs."""
        return self._number("oracle_length").astype(np.int64)

    def reward_terms(self) -> Texts:
        """The terms of each reward as JSON."""
        terms = {"success": self.success().astype(np.float64)}
        graded = self._ended[self._rows]
        if self._shaping is not None:
            graded = graded | (self._number("turn") > 0)
            terms["milestones"] = self._shaping[self._rows]
        elif self._conditions.reward == "graded":
            kept = self._number("truncated") == 0
            terms = {"graded": np.where(kept, self._number("graded"), 0.0), **terms}
        named = np.full(len(graded), "{}", dtype=object)
        for row in np.flatnonzero(graded).tolist():
            own = {key: round(float(values[row]), 9) for key, values in terms.items()}
            named[row] = json.dumps(own)
        return named


@cache
def violations_in_words(names: tuple[str, ...], bits: int) -> str:
    """The violations that are among `bits`."""
    return " ".join(name for bit, name in enumerate(names) if bits >> bit & 1)


def _objects(texts: list[str]) -> Texts:
    made = np.empty(len(texts), dtype=object)
    made[:] = texts
    return made


def _spread(values: NDArray[Any], rows: Rows | None, count: int) -> NDArray[Any]:
    """Values of some rows among those of all, which have nothing."""
    if rows is None:
        return values.copy() if values.base is not None else values
    empty = None if values.dtype == object else 0
    spread = np.full((count, *values.shape[1:]), empty, dtype=values.dtype)
    spread[rows] = values
    return spread


def _standing(rows: Rows | None, count: int) -> NDArray[np.bool_]:
    """In which rows something stands."""
    standing = np.zeros(count, dtype=bool)
    standing[slice(None) if rows is None else rows] = True
    return standing
