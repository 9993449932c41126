"""OpenEnv's contract over our sessions, where a service is started with `openenv`.

    WS   /ws                       reset, step, state, close; a connection has a session
    POST /reset  /step             the same one by one; the session's id goes from answer to request
    GET  /state  /schema  /metadata  /health
    POST /mcp                      says that there are no tools

OpenEnv's own clients speak over the web socket. Its reference server forgets everything between two
requests of HTTP; here an answer's `metadata.session_id` is sent back as `session_id`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, WebSocket, WebSocketDisconnect
from pydantic import BaseModel, ConfigDict, Field

from convgym.service.environment_sessions import EnvironmentSessions
from convgym.service.guard import OWNER
from convgym.service.openenv_contract import error_of, schemas
from convgym.service.openenv_exchange import Exchange
from convgym.service.state import State

SOCKET = "/ws"
_NO_TOOLS = {"code": -32601, "message": "this server has no MCP tools; play over /ws"}


class OpenEnvReset(BaseModel):
    """A reset; what is not named here are reset options."""

    model_config = ConfigDict(extra="allow", strict=True)

    session_id: str | None = Field(None, max_length=64)
    """One's own session, for its next episode; None opens one."""


class OpenEnvStep(BaseModel):
    """A step; what is not named here is not looked at, as in OpenEnv."""

    model_config = ConfigDict(extra="ignore", strict=True)

    action: dict[str, Any]
    session_id: str | None = Field(None, max_length=64)
    """What `metadata.session_id` of the reset's answer was."""


def openenv_routes(state: State, sessions: EnvironmentSessions) -> APIRouter:
    """All of the above."""
    router = APIRouter()
    env = state.environments.make()
    known, about = schemas(env), str(type(env.unwrapped).__doc__ or "").strip()
    version = None if env.spec is None else str(env.spec.version)
    env.close()

    def exchange(owner: str, session_id: str | None) -> Exchange:
        found = Exchange(state, sessions, owner)
        found.session_id = session_id
        return found

    @router.post("/reset")
    async def reset(request: Request, asked: OpenEnvReset | None = None) -> dict[str, Any]:
        given = asked or OpenEnvReset(session_id=None)
        own = exchange(request.scope[OWNER], given.session_id)
        return await own.reset(given.model_extra or {})

    @router.post("/step")
    async def step(request: Request, asked: OpenEnvStep) -> dict[str, Any]:
        return await exchange(request.scope[OWNER], asked.session_id).step(asked.action)

    @router.get("/state")
    async def standing(
        request: Request, session_id: Annotated[str | None, Query(max_length=64)] = None
    ) -> dict[str, Any]:
        return exchange(request.scope[OWNER], session_id).state()

    @router.get("/schema")
    async def schema() -> dict[str, Any]:
        return known

    @router.get("/metadata")
    async def metadata() -> dict[str, Any]:
        return {
            "name": state.environments.ids[0],
            "description": about.partition("\n")[0],
            "readme_content": about,
            "version": version,
            "author": None,
            "documentation_url": None,
        }

    @router.get("/health")
    async def health() -> dict[str, Any]:
        return {"status": "healthy"}

    @router.post("/mcp")
    async def mcp(request: Request) -> dict[str, Any]:
        try:
            asked = json.loads(await request.body())
        except (ValueError, RecursionError):
            asked = None
        name = asked.get("id") if isinstance(asked, dict) else None
        shown = name if isinstance(name, str | int) else None
        return {"jsonrpc": "2.0", "id": shown, "error": _NO_TOOLS}

    @router.websocket(SOCKET)
    async def play(socket: WebSocket) -> None:
        await socket.accept()
        own = exchange(socket.scope[OWNER], None)
        try:
            await _played(socket, own, state.settings.session_idle_s, state)
        except (TimeoutError, WebSocketDisconnect, OSError):
            pass
        finally:
            own.close()
        with contextlib.suppress(RuntimeError, OSError):  # it may have left
            await socket.close()

    return router


async def _played(socket: WebSocket, own: Exchange, idle_s: float, state: State) -> None:
    """Answer until the client has left, said good-bye, or been silent for too long."""
    most = state.settings.max_body_bytes
    while True:
        async with asyncio.timeout(idle_s):
            message = await socket.receive()
        if message["type"] == "websocket.disconnect":
            return
        text = message.get("text")
        if text is None:
            answer: dict[str, Any] | None = error_of("INVALID_JSON", "messages are texts")
        elif len(text) > most:
            answer = error_of("VALIDATION_ERROR", f"the message has more than {most} characters")
        else:
            answer = await own.answer(text)
        if answer is None:
            return
        await socket.send_text(json.dumps(answer))
