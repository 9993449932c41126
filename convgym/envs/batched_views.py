"""What `observation="dict"` shows of batched episodes, beside features and words.

    record, belief, plain task ─► in_view ─► Domain.view ─► JSON
                      └─────────► policy document
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from convgym.engine.batched_domain import BatchedDomain
from convgym.engine.tasks import parse_task_id
from convgym.envs.batched_episodes import BatchedEpisodes, Rows, task_ids
from convgym.envs.batched_words import BatchedWords
from convgym.envs.domain import Domain
from convgym.envs.modes import MESSAGE_LENGTH


class BatchedViews:
    """Views of a batch of episodes; the plain task of each row is made when it begins."""

    def __init__(
        self, episodes: BatchedEpisodes, batched: BatchedDomain, domain: Domain, words: BatchedWords
    ) -> None:
        self._episodes, self._batched, self._domain = episodes, batched, domain
        self._words = words
        self._tasks: list[Any] = [None] * len(episodes.records)
        self._policies = [""] * len(episodes.records)
        self.left_out: frozenset[str] = frozenset()
        """Names of what is not shown."""

    def begin(self, rows: Rows) -> None:
        """New episodes in these rows."""
        if {"policy", "view"} <= self.left_out:
            return
        splits, numbers = self._episodes.splits[rows], self._episodes.numbers[rows]
        for row, task_id in zip(rows.tolist(), task_ids(splits, numbers), strict=True):
            task = self._domain.task(*parse_task_id(task_id))
            self._tasks[row] = task
            self._policies[row] = self._domain.policy_document(task)

    def observed(self, rows: Rows, features: Any) -> dict[str, Any]:
        """Observations of these rows, by name; `features` are theirs."""
        results = self._words.results(rows, self._episodes.quotes)
        parts: dict[str, Callable[[], Any]] = {
            "features": lambda: features,
            "message": lambda: tuple(text[:MESSAGE_LENGTH] for text in self._words.said(rows)),
            "policy": lambda: tuple(self._policies[row] for row in rows.tolist()),
            "tool_results": lambda: tuple(text[:MESSAGE_LENGTH] for text in results),
            "tools": lambda: (self._domain.tools,) * len(rows),
            "turn": lambda: self._episodes.records["turn"][rows, None].astype(np.int64),
            "view": lambda: tuple(self._view(row) for row in rows.tolist()),
        }
        return {name: part() for name, part in parts.items() if name not in self.left_out}

    def _view(self, row: int) -> str:
        episodes = self._episodes
        seen = self._batched.in_view(
            episodes.records[row], episodes.belief[row], self._tasks[row]
        )
        return json.dumps(self._domain.view(seen))
