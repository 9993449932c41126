"""Options of a dataclass that are of another kind than their field says.

    learning_rate="x"   ─► learning_rate='x'; it takes a finite number
    group_size=2.5      ─► group_size=2.5; it takes a whole number

A `__post_init__` asks this first, so that its own comparisons meet numbers only. Looks at numbers,
truth values and inner dataclasses; anything else is the dataclass's own to check.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, get_args, get_type_hints

from convgym.envs.episode_setup import is_whole
from convgym.errors import InvalidConfiguration
from convgym.rewards.outcome import is_number

_hints: Callable[[type[Any]], Mapping[str, Any]] = cache(get_type_hints)  # type: ignore[assignment]


def check_kinds(options: Any) -> None:
    """Raises InvalidConfiguration for the first field whose value is of no kind of its type."""
    hints = _hints(type(options))
    for one in fields(options):
        value, hint = getattr(options, one.name), hints[one.name]
        kinds = [kind for kind in get_args(hint) or (hint,) if kind is not type(None)]
        known = all(kind in (int, float, bool) or is_dataclass(kind) for kind in kinds)
        if known and not (value is None and type(None) in get_args(hint)):
            if not any(_is_of(value, kind) for kind in kinds):
                takes = " or ".join(_told(kind) for kind in kinds)
                raise InvalidConfiguration(f"{one.name}={str(value)[:60]!r}; it takes {takes}")


def _is_of(value: Any, kind: Any) -> bool:
    if kind is bool:
        return isinstance(value, bool)
    if kind is int:
        return is_whole(value)
    return is_number(value) if kind is float else isinstance(value, kind)


def _told(kind: Any) -> str:
    named = {int: "a whole number", float: "a finite number", bool: "True or False"}
    article = "an" if kind.__name__[0] in "AEIOU" else "a"
    return named.get(kind) or f"{article} {kind.__name__}"
