"""Plain values from a file or a command line as the fields of a dataclass, each of its type.

    {"batch_size": "many"}  ─► learner.batch_size='many'; it takes a whole number
    {"batchsize": 3}        ─► there is no 'learner.batchsize'; did you mean learner.batch_size?

Knows nothing of what the fields mean; the dataclass itself refuses values out of range.
"""

from __future__ import annotations

import ast
import inspect
import math
import textwrap
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import date
from difflib import get_close_matches
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from convgym.errors import InvalidConfiguration

hints_of: Callable[[type[Any]], Mapping[str, Any]] = cache(get_type_hints)  # type: ignore[assignment]
"""The types of a dataclass's fields by name."""
_MOST = 2**53 - 1
"""The largest whole number that a text, a float and JSON all hold."""
_NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}


def typed(value: Any, hint: Any, where: str) -> Any:
    """`value` as `hint` says; raises InvalidConfiguration naming `where`."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any or hint is object:
        return value
    if origin in (Union, types.UnionType):
        return _one_of(value, inner, where)
    if origin is Literal:
        if value not in inner:
            raise _refused(value, where, f"one of {', '.join(map(str, inner))}")
        return value
    if origin in (tuple, list) or (isinstance(origin, type) and issubclass(origin, Iterable)):
        return _several(value, origin, inner, where)
    if hint in (dict, Mapping):
        return _mapping(value, where)
    if is_dataclass(hint) and isinstance(hint, type):
        return record(hint, _mapping(value, where), where)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return typed(value, Literal[tuple(one.value for one in hint)], where) and hint(value)
    return _plain(value, hint, where)


def record(kind: type[Any], given: Mapping[str, Any], where: str = "") -> Any:
    """The dataclass `kind` with these fields; raises InvalidConfiguration for unknown ones."""
    check_known(given, options_of(kind), where)
    hints = hints_of(kind)
    return kind(**{name: typed(v, hints[name], _under(where, name)) for name, v in given.items()})


def options_of(kind: type[Any]) -> list[str]:
    """The names of a dataclass's fields that can be given."""
    return [field.name for field in fields(kind) if field.init]


def inner_options(kind: type[Any]) -> dict[str, type[Any]]:
    """The options that are dataclasses, or may be one, by name."""
    found: dict[str, type[Any]] = {}
    for name, hint in hints_of(kind).items():
        parts = (hint, *get_args(hint))
        kinds = [one for one in parts if isinstance(one, type) and is_dataclass(one)]
        if len(kinds) == 1 and name in options_of(kind):
            found[name] = kinds[0]
    return found


def dotted_options(kind: type[Any], where: str) -> list[str]:
    """The full names of all options, those of options among them."""
    inner = inner_options(kind)
    found = []
    for name in options_of(kind):
        found.append(_under(where, name))
        if name in inner:
            found += dotted_options(inner[name], found[-1])
    return found


def check_known(
    given: Iterable[str], known: Iterable[str], where: str = "", more: Iterable[str] = ()
) -> None:
    """Raises InvalidConfiguration for a name not in `known`, with the one that may be meant.

    `more` are full names that may have been meant, too.
    """
    names = list(known)
    for name in given:
        if name not in names:
            full = [_under(where, one) for one in names] + list(more)
            last = [one for one in full if one.rpartition(".")[2] == str(name)]
            meant = last or get_close_matches(_under(where, str(name)), full, 1)
            hint = f"did you mean {meant[0]}?" if meant else f"there are {', '.join(full)}"
            raise InvalidConfiguration(f"there is no {_under(where, str(name))!r}; {hint}")


def documented(kind: type[Any]) -> dict[str, str]:
    """What stands under each field of a dataclass, bases first; "" where nothing does."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if not is_dataclass(base):
            continue
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(base)))
        except (OSError, TypeError):  # made at run time
            continue
        assert isinstance(tree.body[0], ast.ClassDef)
        lines = tree.body[0].body
        for line, following in zip(lines, [*lines[1:], None], strict=True):
            if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
                said = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
                text = following.value.value if said else ""  # type: ignore[union-attr]
                found[line.target.id] = " ".join(str(text).split())
    return {name: found.get(name, "") for name in options_of(kind)}


def default_of(kind: type[Any], name: str) -> Any:
    """A field's default; MISSING where it has none."""
    field = next(one for one in fields(kind) if one.name == name)
    return field.default_factory() if field.default_factory is not MISSING else field.default


# -- single values ---------------------------------------------------------------------------------


def _plain(value: Any, hint: Any, where: str) -> Any:
    kind = _NAMES.get(hint)
    if hint is type(None):
        if value is not None:
            raise _refused(value, where, "nothing (null)")
        return None
    if hint is bool and isinstance(value, bool):
        return value
    if hint is int and not isinstance(value, bool):
        number = _number(value)
        if number is not None and number.is_integer() and abs(number) <= _MOST:
            return value if isinstance(value, int) else int(number)
    elif hint is float and not isinstance(value, bool):
        number = _number(value)
        if number is not None:
            return number
    elif hint is str and isinstance(value, str):
        return value
    elif hint is Path and isinstance(value, str):
        return Path(value)
    elif kind is None and hint is not Path:
        return value  # a type of the learner's own, which it checks itself
    if hint is int and (_number(value) or 0.5).is_integer():
        kind = f"a whole number from -{_MOST:,} to {_MOST:,}"
    if hint is str and isinstance(value, int | float | date):
        kind = "a text (put it in quotes)"
    raise _refused(value, where, kind or "a path")


def _number(value: Any) -> float | None:
    """A finite number; also of a text such as 1e-3, which YAML takes for one."""
    if not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _one_of(value: Any, hints: tuple[Any, ...], where: str) -> Any:
    """As the first of these types that takes it; a value that is of one already is left alone."""
    if value is None and type(None) in hints:
        return None
    kinds = [hint for hint in hints if isinstance(hint, type) and is_dataclass(hint)]
    if len(kinds) == 1 and isinstance(value, Mapping):  # its own sentence says more
        return typed(value, kinds[0], where)
    exact = [hint for hint in hints if isinstance(hint, type) and type(value) is hint]
    refused: list[str] = []
    for hint in (*exact, *hints):
        if hint is not type(None):
            try:
                return typed(value, hint, where)
            except InvalidConfiguration as error:
                refused.append(str(error).partition("it takes ")[2])
    takes = list(dict.fromkeys(refused)) + ["nothing (null)"] * (type(None) in hints)
    raise _refused(value, where, " or ".join(takes))


def _several(value: Any, origin: Any, inner: tuple[Any, ...], where: str) -> Any:
    if issubclass(origin, Mapping):
        return _mapping(value, where)
    if not isinstance(value, list | tuple):
        raise _refused(value, where, "a list, such as [64, 64]")
    if origin is tuple and inner and inner[-1] is not Ellipsis:
        if len(value) != len(inner):
            raise _refused(value, where, f"a list of {len(inner)}")
        hints = inner
    else:
        hints = (inner[0] if inner else Any,) * len(value)
    made = [typed(v, h, f"{where}[{i}]") for i, (v, h) in enumerate(zip(value, hints, strict=True))]
    return made if origin is list else tuple(made)


def _mapping(value: Any, where: str) -> dict[str, Any]:
    if not (isinstance(value, Mapping) and all(isinstance(name, str) for name in value)):
        raise _refused(value, where, "names and values, such as {discount: 0.98}")
    return dict(value)


def _refused(value: Any, where: str, takes: str) -> InvalidConfiguration:
    return InvalidConfiguration(f"{where}={str(value)[:60]!r}; it takes {takes}")


def _under(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name
