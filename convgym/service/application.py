"""The service as an ASGI application: its routes, and what they share.

    POST /v1/reply               history ─► reply
    POST /v1/chat/completions    the same as OpenAI has it, whole or streamed
    GET  /v1/models              what replies
    POST /v1/outcome             what a conversation came to, for the log
    POST /v1/env/reset|step|close    sessions: as the agent of an environment, or as its user
    GET  /v1/service             what there is to play, and what is shown
    GET  /v1/datasets|episodes|episode    local Minari datasets
    GET  /v1/reports|report      HTML reports
    GET  /healthz  /metrics      for machines
    WS   /ws, POST /reset …      as OpenEnv has them, with `openenv`; see `routes_openenv`
    GET  /  /page/…              for people

Every request passes `guard` first. Making the application binds nothing; `server` does.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

from convgym.errors import MissingExtra

try:
    from fastapi import FastAPI, Request
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import JSONResponse, Response
    from starlette.exceptions import HTTPException
except ImportError as error:
    raise MissingExtra(error.name or "fastapi", "serve") from error

from convgym.service.environment_sessions import EnvironmentSessions
from convgym.service.guard import Guard
from convgym.service.json_log import JsonLog
from convgym.service.keys import KeyRing
from convgym.service.metrics import CONTENT_TYPE
from convgym.service.page_files import page_file
from convgym.service.problems import Problem, body_of, clean, problem_of
from convgym.service.responders import Responder
from convgym.service.routes_data import data_routes
from convgym.service.routes_env import env_routes
from convgym.service.routes_openenv import openenv_routes
from convgym.service.routes_reply import reply_routes
from convgym.service.settings import ServiceSettings
from convgym.service.state import State

_SWEEP_S = 5.0


def create_app(
    settings: ServiceSettings | None = None,
    keys: KeyRing | None = None,
    responder: Responder | None = None,
    log: JsonLog | None = None,
    others: Sequence[tuple[Responder, float]] = (),
) -> Any:
    """The service, guarded; an ASGI application.

    `responder`: what replies; without one, `settings.environments` can be played as agent alone.
    `others`: what replies beside it, each with its share of the conversations.

    Raises InvalidConfiguration where it is open to other machines without keys, for an environment
    or a file that there is not, and for shares that leave `responder` nothing.
    """
    settings, keys, log = settings or ServiceSettings(), keys or KeyRing(), log or JsonLog()
    state = State(settings, keys, responder, log, others)
    app = FastAPI(
        title="ConvGym", version="1.0.0", docs_url=None, redoc_url=None, lifespan=_lifespan(state)
    )
    sessions = EnvironmentSessions(state)
    app.include_router(env_routes(sessions))
    if settings.openenv:
        app.include_router(openenv_routes(state, sessions))
    app.include_router(reply_routes(state))
    app.include_router(data_routes(state))

    @app.get("/healthz")
    async def healthz() -> dict[str, Any]:
        return {"status": "ok", "key_needed": len(keys) > 0}

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(state.metrics.text(), media_type=CONTENT_TYPE)

    @app.get("/v1/service")
    async def service() -> dict[str, Any]:
        return state.told()

    @app.get("/")
    async def index() -> Response:
        return page_file("index.html")

    @app.get("/page/{name}")
    async def page(name: str) -> Response:
        return page_file(name)

    @app.exception_handler(RequestValidationError)
    async def not_valid(request: Request, error: RequestValidationError) -> JSONResponse:
        sort = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if any(tuple(one["loc"]) == ("body",) for one in error.errors()) and "json" not in sort:
            return _told(Problem(415, "not_json", _NO_JSON))
        return _told(Problem(422, "not_allowed", _sentence(error)))

    @app.exception_handler(HTTPException)
    async def not_found(_: Request, error: HTTPException) -> JSONResponse:
        code = {404: "no_route", 405: "no_method"}.get(error.status_code, "bad_request")
        return _told(Problem(error.status_code, code, clean(str(error.detail))))

    # Of kinds that are not known the guard hears as well: Starlette raises them again.
    for kind in (*state.known_errors, Exception):
        app.add_exception_handler(kind, _answered)
    return Guard(app, settings, keys, state.metrics, log)


_NO_JSON = (
    "the request's body is not said to be JSON; send it with the header "
    "Content-Type: application/json"
)


async def _answered(_: Request, error: Exception) -> JSONResponse:
    return _told(problem_of(error))


def _told(problem: Problem) -> JSONResponse:
    return JSONResponse(body_of(problem), problem.status, problem.headers)


def _sentence(error: RequestValidationError) -> str:
    """What is wrong first, and where; nothing of what was sent."""
    first: dict[str, Any] = next(iter(error.errors()), {})
    if first.get("type") == "json_invalid":
        return "the request's body is no JSON"
    where = ".".join(str(part) for part in first.get("loc", ()) if part != "body")[:80]
    what = str(first.get("msg", "it is not valid")).rstrip(".")
    return clean(f"{where}: {what}" if where else f"the request's body: {what}")


def _lifespan(state: State) -> Any:
    @contextlib.asynccontextmanager
    async def life(_: Any) -> AsyncIterator[None]:
        state.begin()
        sweeping = asyncio.create_task(_sweep(state))
        try:
            yield
        finally:
            sweeping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await sweeping
            state.end()

    return life


async def _sweep(state: State) -> None:
    """Close what has been idle for too long."""
    while True:
        await asyncio.sleep(_SWEEP_S)
        try:
            state.sessions.expire()
            state.chats.expire()
        except Exception as error:  # one odd session must not end the sweeping
            state.raised(error)
