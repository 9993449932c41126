"""What every request passes before the service sees it, and every answer on its way out.

    host? ─► route is open, or a key? ─► rate? ─► body: not too large, not too slow ─► the service
     421            401                   429           413, 408                          │
                                                      metrics, one log line ◄── 500 where it raised

The body is read here, whole and bounded, so that nothing behind it waits for a client. Knows
nothing of conversations.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from convgym.service.json_log import JsonLog, where_raised
from convgym.service.keys import KeyRing, bearer
from convgym.service.metrics import Metrics
from convgym.service.problems import INTERNAL, Problem, body_of
from convgym.service.rate_limit import TokenBuckets
from convgym.service.settings import ServiceSettings, is_loopback

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

OWNER = "convgym.owner"
"""Under this name a request's scope holds the name of its key."""
OPEN_PATHS = ("/", "/healthz", "/health")
OPEN_FOLDER = "/page/"
"""The page holds no secrets: whoever opens it types a key."""
_PORT = re.compile(r":\d+$|(?<=\]):$")
_SAFE = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
]
_WRONG_KEYS_PER_S, _WRONG_KEYS_AT_ONCE = 1.0, 20


class Gone(Exception):
    """The client left before it had said what it wants."""


class Guard:
    """ASGI middleware around the whole service."""

    def __init__(
        self, app: App, settings: ServiceSettings, keys: KeyRing, metrics: Metrics, log: JsonLog
    ) -> None:
        self.app, self._settings, self._keys = app, settings, keys
        self._metrics, self._log = metrics, log
        self._rate = TokenBuckets(settings.requests_per_s, settings.burst)
        self._wrong = TokenBuckets(_WRONG_KEYS_PER_S, _WRONG_KEYS_AT_ONCE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, or one web socket; `lifespan` goes through."""
        if scope["type"] == "http":
            await self._request(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif self._settings.openenv:
            await self._socket(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1003})

    async def _socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A web socket: let in as a request is, and held to its key's rate message by message."""
        begun, name = time.perf_counter(), secrets.token_hex(8)
        status = 101

        async def paced() -> MutableMapping[str, Any]:
            message = await receive()
            if message["type"] == "websocket.receive":
                while wait := self._rate.take(scope[OWNER]):
                    await asyncio.sleep(wait)
            return message

        try:
            self._admit(scope)
            self._check_origin(scope)
            await self.app(scope, paced, send)
        except Problem as problem:
            status = problem.status
            await send({"type": "websocket.close", "code": 1008, "reason": problem.code})
        except Exception as error:
            status = 500
            self._log("raised", id=name, **where_raised(error))
            self._metrics.count("convgym_errors_total", kind=type(error).__name__)
        finally:
            self._note({**scope, "method": "WS"}, name, status, 0, time.perf_counter() - begun)

    @staticmethod
    def _check_origin(scope: Scope) -> None:
        """A page from elsewhere may open a web socket to here, for no browser asks us first."""
        headers = dict(scope["headers"])
        origin = headers.get(b"origin")
        if origin is not None and origin.partition(b"://")[2] != headers.get(b"host", b""):
            raise Problem(403, "wrong_origin", "this page is not the service's own")

    async def _request(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun, status, size = time.perf_counter(), 0, 0
        name = secrets.token_hex(8)

        async def sent(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                named = {key.lower() for key, _ in message.get("headers", ())}
                more = [(key, value) for key, value in _SAFE if key not in named]
                message = {**message, "headers": [
                    *message.get("headers", ()), *more, (b"x-request-id", name.encode()),
                ]}  # fmt: skip
            await send(message)

        try:
            self._admit(scope)
            body = await self._body(scope, receive)
            size = len(body)
            await self.app(scope, _replayed(body, receive), sent)
        except Problem as problem:
            await _refuse(sent, problem)
        except Gone:
            status = 499
        except Exception as error:
            self._log("raised", id=name, **where_raised(error))
            self._metrics.count("convgym_errors_total", kind=type(error).__name__)
            if not status:
                await _refuse(sent, Problem(500, "internal", INTERNAL))
        finally:
            self._note(scope, name, status, size, time.perf_counter() - begun)

    def _admit(self, scope: Scope) -> None:
        """Raises Problem for who is not let in."""
        headers = {key: value for key, value in scope["headers"]}
        if not len(self._keys):
            # A page from elsewhere could point its own name at this machine.
            host = _PORT.sub("", headers.get(b"host", b"").decode("latin-1").lower())
            if not is_loopback(host):
                raise Problem(421, "wrong_host", "this service answers to localhost alone")
        path = scope["path"]
        if path in OPEN_PATHS or path.startswith(OPEN_FOLDER):
            return
        given = headers.get(b"authorization", b"").decode("latin-1")
        owner = self._keys.owner(bearer(given))
        if owner is None:
            client = (scope.get("client") or ("?",))[0]
            wait = self._wrong.take(str(client))
            if wait:
                raise _too_often(wait)
            raise Problem(
                401, "no_key", "a key is needed, as the header `Authorization: Bearer …`",
                {"WWW-Authenticate": "Bearer"},
            )  # fmt: skip
        scope[OWNER] = owner
        wait = self._rate.take(owner)
        if wait:
            raise _too_often(wait)

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        """The whole body; raises Problem for one that is too large or too slow, Gone for half."""
        most = self._settings.max_body_bytes
        told = dict(scope["headers"]).get(b"content-length", b"0")
        if told.isdigit() and int(told[:20]) > most:
            raise _too_large(most)
        parts, size = [], 0
        try:
            async with asyncio.timeout(self._settings.body_timeout_s):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Gone
                    part = message.get("body", b"")
                    size += len(part)
                    if size > most:
                        raise _too_large(most)
                    parts.append(part)
                    if not message.get("more_body"):
                        return b"".join(parts)
        except TimeoutError:
            raise Problem(
                408, "too_slow", "the request did not arrive in time", {"Connection": "close"}
            ) from None

    def _note(self, scope: Scope, name: str, status: int, size: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "other")
        method = scope["method"] if scope["method"] in ("GET", "POST", "HEAD", "WS") else "other"
        self._metrics.count(
            "convgym_requests_total", route=route, method=method, status=str(status)
        )
        if OWNER in scope and method != "WS":
            self._metrics.observe("convgym_request_seconds", seconds, route=route)
        self._log(
            "request", id=name, method=method, route=route, status=status, bytes_in=size,
            ms=round(1000 * seconds, 2), key=scope.get(OWNER, ""),
        )  # fmt: skip


def _replayed(body: bytes, receive: Receive) -> Receive:
    """`receive` of a request whose body has been read."""
    read = False

    async def again() -> MutableMapping[str, Any]:
        nonlocal read
        if read:
            return await receive()  # by now only that the client has left
        read = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


async def _refuse(send: Send, problem: Problem) -> None:
    body = json.dumps(body_of(problem)).encode()
    headers = {"Content-Type": "application/json", **problem.headers}
    try:
        await send({
            "type": "http.response.start",
            "status": problem.status,
            "headers": [
                (b"content-length", str(len(body)).encode()),
                *((key.lower().encode(), value.encode()) for key, value in headers.items()),
            ],
        })  # fmt: skip
        await send({"type": "http.response.body", "body": body})
    except OSError:  # it has left
        pass


def _too_large(most: int) -> Problem:
    return Problem(
        413, "too_large", f"the request is larger than {most} bytes", {"Connection": "close"}
    )


def _too_often(wait: float) -> Problem:
    seconds = max(1, int(wait + 0.999))
    return Problem(
        429, "rate_limit", f"too many requests; try again in {seconds} s",
        {"Retry-After": str(seconds)},
    )  # fmt: skip
