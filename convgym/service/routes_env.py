"""Routes of environment sessions."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from convgym.service.environment_sessions import EnvironmentSessions
from convgym.service.guard import OWNER
from convgym.service.requests import CloseRequest, ResetRequest, StepRequest


def env_routes(sessions: EnvironmentSessions) -> APIRouter:
    """`/v1/env/reset`, `/v1/env/step`, `/v1/env/close`."""
    router = APIRouter(prefix="/v1/env")

    @router.post("/reset")
    async def reset(asked: ResetRequest, request: Request) -> dict[str, Any]:
        return await sessions.reset(request.scope[OWNER], asked)

    @router.post("/step")
    async def step(asked: StepRequest, request: Request) -> dict[str, Any]:
        return await sessions.step(request.scope[OWNER], asked)

    @router.post("/close")
    async def close(asked: CloseRequest, request: Request) -> dict[str, Any]:
        sessions.close(request.scope[OWNER], asked)
        return {"closed": True}

    return router
