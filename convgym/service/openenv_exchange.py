"""One client of OpenEnv: its messages, and the session of ours that they play.

    reset {seed, episode_id, env_id, keywords, …}  ─► a session, or its next episode; … are options
    step  {message} │ {act} │ {vector}             ─► a turn
    state                                          ─► episode_id, step_count, …
    close                                          ─► the session is closed

Another environment, or other keywords, open another session in place of the one before. Whatever
comes, there is an answer; nothing raises but cancellation.
"""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from convgym.service.environment_sessions import EnvironmentSessions
from convgym.service.openenv_contract import action_of, envelope, error_of, failure
from convgym.service.problems import INTERNAL, Problem, clean, problem_of
from convgym.service.requests import CloseRequest, ResetRequest, StepRequest
from convgym.service.state import State

_OWN = ("seed", "env_id", "keywords")
NOT_BEGUN = "there is no episode yet; send a reset first"


class Exchange:
    """Of one owner, with one session at a time."""

    def __init__(self, state: State, sessions: EnvironmentSessions, owner: str) -> None:
        self._state, self._sessions, self._owner = state, sessions, owner
        self.session_id: str | None = None

    async def answer(self, text: str) -> dict[str, Any] | None:
        """What answers a message; None where the client says good-bye."""
        try:
            message = json.loads(text)
        except (ValueError, RecursionError):
            return error_of("INVALID_JSON", "the message is no JSON")
        kind = message.get("type") if isinstance(message, dict) else None
        data = message.get("data", {}) if isinstance(message, dict) else {}
        if kind == "close":
            return None
        if kind not in ("reset", "step", "state"):
            return error_of(
                "UNKNOWN_TYPE", "a message has a type: reset, step, state or close"
            )  # there is nothing of MCP here
        if not isinstance(data, dict):
            return error_of("VALIDATION_ERROR", "the data of a message are an object")
        try:
            if kind == "state":
                return {"type": "state", "data": self.state()}
            found = await (self.reset(data) if kind == "reset" else self.step(data))
            return {"type": "observation", "data": found}
        except Exception as error:
            problem = problem_of(error)
            if problem.message == INTERNAL:
                self._state.raised(error)
            return failure(problem)

    async def reset(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Begin an episode; raises Problem."""
        named = data.get("episode_id")
        if named is not None and not (isinstance(named, str) and len(named) <= 255):
            raise Problem(422, "not_allowed", "episode_id is a text of at most 255 characters")
        given: dict[str, Any] = {name: data[name] for name in _OWN if data.get(name) is not None}
        given["options"] = {
            name: one for name, one in data.items() if name not in (*_OWN, "episode_id")
        }
        try:
            asked = ResetRequest.model_validate(given)
        except ValidationError as error:
            raise Problem(422, "not_allowed", _sentence(error)) from None
        if self.session_id is not None and not (asked.keywords or asked.env_id):
            asked = asked.model_copy(update={"session_id": self.session_id})
        else:
            self.close()
        record = await self._sessions.reset(self._owner, asked)
        self.session_id = str(record["session_id"])
        self._session().name = clean(named) if named else secrets.token_hex(8)
        return envelope(record, began=True)

    async def step(self, action: Mapping[str, Any]) -> dict[str, Any]:
        """One turn; raises Problem."""
        if self.session_id is None:
            raise Problem(409, "no_session", NOT_BEGUN)
        self._session()
        asked = StepRequest(session_id=self.session_id, action=action_of(action), turn=None)
        return envelope(await self._sessions.step(self._owner, asked), began=False)

    def state(self) -> dict[str, Any]:
        """Where the episode stands; raises Problem 404 where its session was closed."""
        if self.session_id is None:
            return {"episode_id": None, "step_count": 0}
        session = self._session()
        return {"episode_id": session.name, **session.play.standing()}

    def close(self) -> None:
        """Close the session, if there is one; one that is busy is left to become idle."""
        if self.session_id is not None:
            with contextlib.suppress(Problem):
                self._sessions.close(self._owner, CloseRequest(session_id=self.session_id))
        self.session_id = None

    def _session(self) -> Any:
        session = self._state.sessions.get(self._owner, str(self.session_id))
        if session.play.side != "agent":
            raise Problem(422, "not_allowed", "in this session its client is the user; see /v1/env")
        return session


def _sentence(error: ValidationError) -> str:
    """What is wrong first, and where; nothing of what was sent."""
    first: Any = next(iter(error.errors()), {})
    where = ".".join(str(part) for part in first.get("loc", ()))[:80]
    return clean(f"{where}: {first.get('msg', 'it is not valid')}")
