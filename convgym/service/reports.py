"""Reports as HTML pages in one folder: which there are, and one of them."""

from __future__ import annotations

from pathlib import Path

from convgym.service.problems import Problem

MOST_BYTES = 20_000_000


def reports(folder: Path | None) -> list[dict[str, object]]:
    """Name and size of each, by name; no folders within the folder, nothing hidden."""
    if folder is None:
        return []
    found = (path for path in sorted(folder.glob("*.html")) if _can_be_asked_for(path.name))
    return [
        {"name": path.name, "bytes": path.stat().st_size}
        for path in found
        if path.is_file() and path.resolve().parent == folder.resolve()
    ]


def _can_be_asked_for(name: str) -> bool:
    """Not hidden, and a text: a name in other bytes than UTF-8 stands in no JSON."""
    return not name.startswith(".") and name.isprintable()


def report(folder: Path | None, name: str) -> str:
    """The page that is called so; raises Problem 404 for a name that `reports` does not list."""
    if folder is None or name not in [one["name"] for one in reports(folder)]:
        raise Problem(404, "no_report", "there is no such report here; /v1/reports lists them")
    path = folder / name
    if path.stat().st_size > MOST_BYTES:
        raise Problem(413, "too_large", f"this report is larger than {MOST_BYTES} bytes")
    return path.read_text(encoding="utf-8", errors="replace")
