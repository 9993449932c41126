"""`info` of a step in which nothing of note happens: its keys, in their order."""

from __future__ import annotations

from typing import Any

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
    "action_mask": None,
    "cost_characters": 0,
    "success": False,
    "reward_terms": "{}",
    "failure_reason": "",
    "oracle_length": 0,
}
"""The mask is always put in."""


def plain_info(task: Any, difficulty: float) -> dict[str, Any]:
    """It for all steps of an episode, which copy it and put in what did happen."""
    return {**_PLAIN, "task_id": task.task_id, "split": task.split, "difficulty": difficulty}
