"""Environment sessions: bounded in number, idle time and size, each one its key's own.

    reset ─► Session(id, owner, play) ─► step, step, … ─► close │ idle too long │ shutdown
                                                              └─► on_close hears of it, once

An id is 192 random bits. Another key's session is answered like one that never was. Knows neither
HTTP nor environments.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import Any

from convgym.service.problems import Problem

_UNKNOWN = "there is no such session; it may have been closed, or idle for too long"


class Session:
    """One conversation under way; `play` is whatever plays it."""

    def __init__(self, owner: str, play: Any, now: float) -> None:
        self.id = secrets.token_urlsafe(24)
        self.owner, self.play, self.used = owner, play, now
        self.characters = 0
        self.busy = False
        self.name = ""
        """What a client calls its episode; "" where it has no name for it."""

    def __repr__(self) -> str:  # an id is a secret: it must not get into a log by accident
        return f"Session(owner={self.owner!r})"


class Sessions:
    """All sessions of a service."""

    def __init__(
        self,
        most: int,
        most_each: int,
        idle_s: float,
        most_characters: int,
        on_close: Callable[[Session], None] = lambda session: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most, self._most_each, self._idle = most, most_each, idle_s
        self._most_characters = most_characters
        self._on_close, self._clock = on_close, clock
        self._all: dict[str, Session] = {}

    def __len__(self) -> int:
        return len(self._all)

    def check_room(self, owner: str) -> None:
        """Raises Problem 429 or 503 where `owner` can open no other session now."""
        self.expire()
        if sum(one.owner == owner for one in self._all.values()) >= self._most_each:
            raise Problem(
                429, "too_many_sessions",
                f"this key has {self._most_each} sessions open, which is the most; close some",
            )  # fmt: skip
        if len(self._all) >= self._most:
            raise Problem(503, "busy", "all sessions are taken; try again later",
                          {"Retry-After": "10"})  # fmt: skip

    def open(self, owner: str, play: Any) -> Session:
        """A new session; raises as `check_room` does."""
        self.check_room(owner)
        session = Session(owner, play, self._clock())
        self._all[session.id] = session
        return session

    def get(self, owner: str, session_id: str) -> Session:
        """A session of `owner`; raises Problem 404 for any other."""
        session = self._all.get(session_id)
        if session is None or session.owner != owner:
            raise Problem(404, "no_session", _UNKNOWN)
        if not session.busy and self._clock() - session.used > self._idle:
            self.close(session)
            raise Problem(404, "no_session", _UNKNOWN)
        return session

    def hold(self, session: Session, characters: int = 0) -> None:
        """Take it for one step; `free` gives it back, when the step is really over.

        Raises Problem 409 where it is taken, 413 where it is full.
        """
        if session.busy:
            raise Problem(409, "session_busy", "this session has a step under way; await it first")
        if session.characters + characters > self._most_characters:
            raise Problem(
                413, "session_full",
                f"this session has taken {self._most_characters} characters; open another",
            )  # fmt: skip
        session.busy, session.used = True, self._clock()
        session.characters += characters

    def free(self, session: Session) -> None:
        """Give it back."""
        session.busy, session.used = False, self._clock()

    def close(self, session: Session) -> None:
        """Forget it; a second time does nothing."""
        if self._all.pop(session.id, None) is not None:
            self._on_close(session)

    def expire(self) -> int:
        """Close what has been idle for too long; returns how many."""
        now = self._clock()
        old = [s for s in self._all.values() if not s.busy and now - s.used > self._idle]
        for session in old:
            self.close(session)
        return len(old)

    def close_all(self) -> None:
        """At shutdown."""
        for session in list(self._all.values()):
            self.close(session)
