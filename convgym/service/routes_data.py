"""Routes of what has been recorded: local datasets and reports."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from convgym.service import data_browser
from convgym.service.guard import OWNER
from convgym.service.problems import Problem
from convgym.service.reports import report, reports
from convgym.service.state import State

_SANDBOX = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""A report may be anybody's: it runs no script and loads nothing."""
Name = Annotated[str, Query(max_length=300)]
Number = Annotated[int, Query(ge=0, le=2**31)]


def data_routes(state: State) -> APIRouter:
    """`/v1/datasets`, `/v1/episodes`, `/v1/episode`, `/v1/reports`, `/v1/report`."""
    router = APIRouter(prefix="/v1")

    def browsable() -> None:
        if not state.settings.browsable:
            raise Problem(403, "hidden", "this service shows no datasets; start it with --datasets")

    @router.get("/datasets")
    async def all_datasets(request: Request) -> dict[str, Any]:
        browsable()
        return {"datasets": await state.work.run(request.scope[OWNER], data_browser.datasets)}

    @router.get("/episodes")
    async def some_episodes(
        request: Request,
        dataset: Name,
        start: Number = 0,
        count: Annotated[int, Query(ge=1, le=data_browser.MOST_EPISODES)] = 20,
    ) -> dict[str, Any]:
        browsable()
        return await state.work.run(
            request.scope[OWNER], lambda: data_browser.episodes(dataset, start, count)
        )

    @router.get("/episode")
    async def one_episode(request: Request, dataset: Name, index: Number) -> dict[str, Any]:
        browsable()
        return await state.work.run(
            request.scope[OWNER], lambda: data_browser.episode(dataset, index)
        )

    @router.get("/reports")
    async def all_reports() -> dict[str, Any]:
        return {"reports": reports(state.settings.reports)}

    @router.get("/report")
    async def one_report(request: Request, name: Name) -> Response:
        text = await state.work.run(
            request.scope[OWNER], lambda: report(state.settings.reports, name)
        )
        return Response(text, media_type="text/html; charset=utf-8",
                        headers={"Content-Security-Policy": _SANDBOX})  # fmt: skip

    return router
