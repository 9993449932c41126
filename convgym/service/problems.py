"""What a client is told when it gets no answer: a status, a code, one sentence.

    {"error": {"message": "…", "type": "rate_limit", "code": "rate_limit", "param": null}}

The shape is OpenAI's, so that its clients read it. Nothing of a traceback is in it.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from convgym.errors import ConvGymError

INTERNAL = "something went wrong here; the service has noted it under this request's id"


class Problem(Exception):
    """Ends a request with `status`."""

    def __init__(
        self, status: int, code: str, message: str, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message
        self.headers = headers or {}


def problem_of(error: Exception) -> Problem:
    """What an exception is to a client; for one that is nobody's fault but ours, a 500."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, gym.error.ResetNeeded):
        return Problem(409, "episode_over", "the episode is over; reset the session, or close it")
    if isinstance(error, ConvGymError):
        return Problem(422, "not_allowed", clean(str(error)))
    return Problem(500, "internal", INTERNAL)


def body_of(problem: Problem) -> dict[str, Any]:
    """The JSON object."""
    told = {"message": problem.message, "type": problem.code, "code": problem.code, "param": None}
    return {"error": told}


def clean(text: str, most: int = 600) -> str:
    """A text that can be written as UTF-8, and is not too long."""
    return text[:most].encode("utf-8", "replace").decode("utf-8")
