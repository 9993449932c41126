"""The `infos` of batched episodes: the keys of a single environment, as arrays over rows.

    numbers, masks, short texts   at once, gathered from tables
    user_acts, tool_results       when somebody reads them
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.engine import batch, keys
from convgym.engine.batch import ENDS, TURN_FIELDS
from convgym.engine.batched_domain import BatchedDomain
from convgym.engine.turn_words import acts_json, results_text
from convgym.envs.batched_episodes import BatchedEpisodes, Rows
from convgym.envs.conditions import Conditions
from convgym.envs.late_infos import LateInfos
from convgym.language.voice import RETRIEVAL, SOURCE, TEMPLATE
from convgym.users.decisions import LOG_UNIT

_TURN = np.dtype(TURN_FIELDS)
_ENDS = np.array(ENDS, dtype=object)
_TEMPLATE = np.array(["", TEMPLATE], dtype=object)
_READ = (
    "turn", "answered", "log_prob", "errors", "violations", "progress", "graded", "truncated",
    "end", "wording_key", "user_turn",
)  # fmt: skip
Columns = Mapping[str, NDArray[Any]]
"""Fields of some rows' records."""


class BatchedInfos:
    """Makes `infos` of a batch of episodes as they stand."""

    def __init__(
        self, episodes: BatchedEpisodes, batched: BatchedDomain, conditions: Conditions,
        violations: tuple[str, ...],
    ) -> None:  # fmt: skip
        self._episodes, self._batched, self._conditions = episodes, batched, conditions
        self._violations = violations
        self._named = {0: ""}
        """Violations in words, by their bits."""

    def of(
        self, rows: Rows | None, masks: NDArray[np.int8], shaping: NDArray[np.float64] | None
    ) -> LateInfos:
        """The infos of these rows, None for all; where others stand, nothing does.

        `masks` and `shaping` have one entry for each of the rows.
        """
        episodes = self._episodes
        count = len(episodes.records)
        chosen: Any = slice(None) if rows is None else rows
        records = {name: episodes.records[name][chosen] for name in _READ}
        ended, graded = episodes.ended[chosen], episodes.graded[chosen]
        succeeded = episodes.succeeded[chosen]
        answered = records["answered"] != 0
        lengths = episodes.tasks["oracle_length"][chosen].astype(np.int64)
        values = {
            "task_id": episodes.task_ids[chosen],
            "split": episodes.splits[chosen],
            "turn": records["turn"].astype(np.int64),
            "difficulty": episodes.difficulty[chosen],
            "wording": self._sources(records, answered),
            "user_log_prob": np.where(answered, records["log_prob"] * LOG_UNIT, 0.0),
            "errors": records["errors"].astype(np.int64),
            "violations": self._in_words(records["violations"]),
            "milestones": np.where(graded, records["progress"], 0.0),
            "action_mask": masks,
            "cost_characters": episodes.characters[chosen],
            "success": succeeded,
            "failure_reason": self._reasons(records, ended, succeeded),
            "oracle_length": np.where(ended, lengths, 0),
        }
        given: dict[str, Any] = {}
        for key, value in values.items():
            given[key] = _spread(value, rows, count)
            given[f"_{key}"] = _standing(rows, count)
        late = {
            **self._worded_late(rows),
            "reward_terms": self._terms_late(rows, records, ended, succeeded, shaping),
        }
        for key in late:
            given[f"_{key}"] = _standing(rows, count)
        return LateInfos(given, late)

    # -- at once -----------------------------------------------------------------------------------

    def _sources(
        self, records: Columns, answered: NDArray[np.bool_]
    ) -> NDArray[np.object_]:
        """Where the words of each user's turn come from."""
        realism = self._conditions.words["train"].voice.realism
        named = _TEMPLATE[answered.view(np.int8)]
        if realism:
            drawn = keys.draw_batch(
                records["wording_key"], keys.WORDING, records["user_turn"] - 1, SOURCE
            )
            named[answered & (keys.below_batch(drawn, 50) < realism)] = RETRIEVAL
        return named

    def _in_words(self, bits: NDArray[np.int32]) -> NDArray[np.object_]:
        different, which = np.unique(bits, return_inverse=True)
        for one in different.tolist():
            if one not in self._named:
                named = (name for bit, name in enumerate(self._violations) if one >> bit & 1)
                self._named[one] = " ".join(named)
        names = np.array([self._named[one] for one in different.tolist()], dtype=object)
        return names[which]

    @staticmethod
    def _reasons(
        records: Columns, ended: NDArray[np.bool_], succeeded: NDArray[np.bool_]
    ) -> NDArray[np.object_]:
        named = np.full(len(ended), "", dtype=object)
        lost = np.flatnonzero(ended & ~succeeded)
        why = _ENDS[records["end"][lost]]
        why[records["violations"][lost] != 0] = "violation"
        named[lost] = why
        return named

    # -- when it is read ---------------------------------------------------------------------------

    def _worded_late(self, rows: Rows | None) -> dict[str, Callable[[], Any]]:
        episodes, batched = self._episodes, self._batched
        turns = np.empty(len(episodes.records), dtype=_TURN)
        batch.copy_turns(episodes.records, turns)
        splits, numbers = episodes.splits.copy(), episodes.numbers.copy()
        wanted = np.arange(len(turns), dtype=np.int32) if rows is None else rows
        words, quotes = batched.words, episodes.quotes

        def acts() -> NDArray[np.object_]:
            tasks = episodes.tasks_of(splits, numbers)
            return as_objects(acts_json(words, turns, tasks, wanted), wanted, len(turns))

        def results() -> NDArray[np.object_]:
            texts = results_text(words, turns, wanted, quotes)
            return as_objects(texts, wanted, len(turns))

        return {"user_acts": acts, "tool_results": results}

    def _terms_late(
        self,
        rows: Rows | None,
        records: Columns,
        ended: NDArray[np.bool_],
        succeeded: NDArray[np.bool_],
        shaping: NDArray[np.float64] | None,
    ) -> Callable[[], Any]:
        """The terms of each reward as JSON; arrays that change with the next step are copied."""
        terms: dict[str, NDArray[np.float64]] = {"success": succeeded.astype(np.float64)}
        if shaping is not None:
            terms["milestones"] = shaping
        elif self._conditions.reward == "graded":
            graded = np.where(records["truncated"] != 0, 0.0, records["graded"])
            terms = {"graded": graded, **terms}
        scored = self._graded_rows(rows) if shaping is not None else ended.copy()
        count = len(self._episodes.records)

        def made() -> NDArray[np.object_]:
            named = np.full(len(scored), "{}", dtype=object)
            for row in np.flatnonzero(scored).tolist():
                own = {key: round(float(values[row]), 9) for key, values in terms.items()}
                named[row] = json.dumps(own)
            return _spread(named, rows, count)

        return made

    def _graded_rows(self, rows: Rows | None) -> NDArray[np.bool_]:
        graded = self._episodes.graded
        return graded.copy() if rows is None else graded[rows]


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
    if rows is None:
        return np.ones(count, dtype=bool)
    standing = np.zeros(count, dtype=bool)
    standing[rows] = True
    return standing


def as_objects(texts: list[str], rows: Rows, count: int) -> NDArray[np.object_]:
    """Texts of some rows among those of all, which have None."""
    spread = np.full(count, None, dtype=object)
    spread[rows] = texts
    return spread
