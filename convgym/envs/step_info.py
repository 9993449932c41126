"""`info` of the steps of one episode at a time; what is dear to make is made when it is read."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.engine.episode import Episode
from convgym.envs.domain import Domain
from convgym.envs.late_infos import NOT_MADE, LateInfos

_PLAIN: dict[str, Any] = {
    "task_id": "",
    "split": "",
    "turn": 0,
    "difficulty": -1.0,
    "wording": "",
    "user_acts": "[]",
    "user_log_prob": 0.0,
    "tool_results": "",
    "errors": 0,
    "violations": "",
    "milestones": 0.0,
    "action_mask": NOT_MADE,
    "cost_characters": 0,
    "success": False,
    "reward_terms": "{}",
    "failure_reason": "",
    "oracle_length": 0,
}
"""A step in which nothing of note happens."""
KEYS = tuple(_PLAIN)
"""What every info has, in this order."""
CANDIDATE = "candidate"
"""Beside them with `action="embedding"`: the act that the newest action was decoded to, or -1."""


class StepInfo:
    """Makes the infos of an environment of `domain`; `action="text"` has masks of ones."""

    def __init__(self, domain: Domain, action: str) -> None:
        self._domain, self._all_legal = domain, action == "text"
        self._ones = np.ones(len(domain.actions), dtype=np.int8)
        self._plain = _PLAIN | ({CANDIDATE: -1} if action == "embedding" else {})
        self.candidate = -1

    def begin(self, task: Any, difficulty: float) -> None:
        """The next episode."""
        names = {"task_id": task.task_id, "split": task.split, "difficulty": difficulty}
        self._plain = {**self._plain, **names}
        self.candidate = -1

    def mask(self, belief: bytes | bytearray | None) -> NDArray[np.int8]:
        """1 for each act that is legal with these cells; all, where there are none.  # (actions,)
        """
        if self._all_legal or belief is None:
            return self._ones.copy()
        return self._domain.actions.mask(np.frombuffer(belief, np.uint8))

    def of(self, episode: Episode, wording: str, characters: int) -> LateInfos:
        """The step that has just been taken; grades and rewards are the caller's to put in."""
        turn, task, cells = episode.user_turn, episode.task, bytes(episode.belief)

        def make(key: str) -> Any:
            if key == "action_mask":
                return self.mask(cells)
            if key == "oracle_length":
                return task.oracle_length
            assert key == "user_acts" and turn is not None
            return self._domain.acts_json(episode, turn)

        info = LateInfos(self._plain, make)
        info["turn"] = episode.turn
        if episode.errors:
            info["errors"] = episode.errors
        if episode.tool_results:
            info["tool_results"] = "\n".join(episode.tool_results)
        if CANDIDATE in info:
            info[CANDIDATE] = self.candidate
        if characters:
            info["cost_characters"] = characters
        if turn is not None:
            info["wording"], info["user_acts"] = wording, NOT_MADE
            info["user_log_prob"] = turn.log_prob
        if episode.violations:
            named = enumerate(self._domain.violations)
            info["violations"] = " ".join(n for bit, n in named if episode.violations >> bit & 1)
        return info
