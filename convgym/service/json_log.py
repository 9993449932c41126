"""One JSON object a line about what a service does; no keys, no headers, no texts of anybody.

    {"time": "2026-01-02T03:04:05.678Z", "event": "request", "route": "/v1/reply", "status": 200, …}

Knows nothing of what it writes; whoever calls it leaves out what is nobody's business.
"""

from __future__ import annotations

import contextlib
import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from threading import Lock
from typing import Any, TextIO


class JsonLog:
    """Writes events to a stream; may be used from any thread, and never raises."""

    def __init__(self, stream: TextIO | None = None) -> None:
        """`stream`: standard error where none is given."""
        self._stream, self._lock = stream, Lock()

    def __call__(self, event: str, **fields: Any) -> None:
        """One line."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = json.dumps({"time": now, "event": event, **fields}, default=str)
        # A full disk or a closed pipe ends no conversation.
        with self._lock, contextlib.suppress(OSError, ValueError):
            print(line, file=self._stream or sys.stderr, flush=True)


def where_raised(error: BaseException) -> dict[str, Any]:
    """The kind of an exception and the lines it came through.

    Without its message, which may quote what somebody sent.
    """
    frames = traceback.extract_tb(error.__traceback__)[-8:]
    return {
        "error": type(error).__name__,
        "at": [f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in frames],
    }


class ServerLog(logging.Handler):
    """Hands what the server's own logger says to a `JsonLog`."""

    def __init__(self, log: JsonLog) -> None:
        super().__init__(logging.INFO)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """One line; of an exception its kind and place alone."""
        raised = record.exc_info[1] if record.exc_info else None
        if raised is not None:
            self._log("server", level=record.levelname, **where_raised(raised))
        else:
            self._log("server", level=record.levelname, message=record.getMessage()[:300])
