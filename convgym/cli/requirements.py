"""What ConvGym needs by extra, as its own metadata say, and whether a version is within bounds."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

_NEED = re.compile(r"^([A-Za-z0-9._-]+)(?:\[([^\]]*)\])?\s*([^;]*)(?:;\s*(.*))?$")
_EXTRA = re.compile(r"""extra\s*==\s*["']([^"']+)["']""")


def needs() -> dict[str, dict[str, str]]:
    """Packages and their bounds by extra, "" for the core; extras of extras taken apart."""
    found: dict[str, dict[str, str]] = {"": {}}
    nested: list[tuple[str, str]] = []
    for line in _declared():
        matched = _NEED.match(line)
        assert matched is not None, line
        name, extras, bounds, marker = matched.groups()
        named = _EXTRA.search(marker or "")
        extra = named[1] if named else ""
        if name.lower() == "convgym":
            nested += [(extra, one.strip()) for one in (extras or "").split(",")]
            found.setdefault(extra, {})
        else:
            found.setdefault(extra, {})[name] = bounds.strip()
    for outer, inner in nested:
        found[outer] |= found.get(inner, {})
    return found


def _declared() -> list[str]:
    """Requirements as the installed package has them, or a checkout's pyproject.toml."""
    checkout = Path(__file__).parents[2] / "pyproject.toml"
    if checkout.is_file():
        project = tomllib.loads(checkout.read_text("utf-8")).get("project", {})
        if project.get("name") == "convgym":
            return [*project["dependencies"]] + [
                f'{line.partition(";")[0]}; extra == "{extra}"'
                for extra, lines in project["optional-dependencies"].items()
                for line in lines
            ]
    return metadata.requires("convgym") or []


def within(version: str, bounds: str) -> bool:
    """Whether a version satisfies bounds such as `>=1.0,<2`; what cannot be read does."""
    compare: dict[str, Callable[[Any, Any], bool]] = {
        ">=": lambda a, b: a >= b, "<=": lambda a, b: a <= b, "==": lambda a, b: a == b,
        "<": lambda a, b: a < b, ">": lambda a, b: a > b,
    }  # fmt: skip
    for bound in filter(None, (one.strip() for one in bounds.split(","))):
        sign = next((sign for sign in compare if bound.startswith(sign)), None)
        if sign is not None:
            pair = (_numbers(version), _numbers(bound.removeprefix(sign)))
            width = max(map(len, pair))
            mine, theirs = (each + (0,) * (width - len(each)) for each in pair)
            if not compare[sign](mine, theirs):
                return False
    return True


def _numbers(version: str) -> tuple[int, ...]:
    released = re.match(r"\s*(\d+(?:\.\d+)*)", version)
    return tuple(int(part) for part in released[1].split(".")) if released else ()
