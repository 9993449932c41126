"""The page's files, and under which rules a browser runs them."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from fastapi.responses import Response

from convgym.service.problems import Problem

_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_NAMES = frozenset({"index.html", "page.css", "page.js", "play.js", "browse.js", "icon.svg"})
_POLICY = (
    "default-src 'none'; script-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "style-src 'self' 'unsafe-inline'; frame-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
"""Styles may stand in the text, since a report that is opened in a frame has its own."""


def page_file(name: str) -> Response:
    """A file of the page; raises Problem 404 for any other name."""
    if name not in _NAMES:
        raise Problem(404, "no_route", "Not Found")
    kind = _KINDS[name[name.rindex(".") :]]
    return Response(_content(name), headers={"Content-Security-Policy": _POLICY}, media_type=kind)


@cache
def _content(name: str) -> bytes:
    return files("convgym.service").joinpath("page", name).read_bytes()
