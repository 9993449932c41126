"""Connections that may not dawdle: a request's headers come in time, or the connection is closed.

uvicorn waits for headers as long as the client likes, so that a thousand half-written requests
would take up a thousand connections for ever. A clock runs here from the connection, and from the
first byte after an answer, until the headers are there; for the body the guard has its own.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol


def timed_protocol(header_timeout_s: float) -> type[H11Protocol]:
    """uvicorn's protocol with this clock."""

    class TimedProtocol(H11Protocol):
        _clock: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._begin_clock()

        def data_received(self, data: bytes) -> None:
            if self._clock is None and (self.cycle is None or self.cycle.response_complete):
                self._begin_clock()
            before = self.cycle
            super().data_received(data)
            if self.cycle is not before:
                self._stop_clock()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_clock()
            super().connection_lost(exc)

        def handle_websocket_upgrade(self, event: Any) -> None:
            self._stop_clock()  # the connection is another protocol's from now on
            super().handle_websocket_upgrade(event)

        def _begin_clock(self) -> None:
            self._clock = self.loop.call_later(header_timeout_s, self._too_late)

        def _stop_clock(self) -> None:
            if self._clock is not None:
                self._clock.cancel()
                self._clock = None

        def _too_late(self) -> None:
            self._clock = None
            if self.cycle is None or self.cycle.response_complete:
                self.transport.abort()

    return TimedProtocol
