"""YAML in and out: plain values only, and no key twice.

YAML's own reader takes the last of two equal keys without a word, and expands references to
references without end; both are refused here. JSON is YAML, too.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import yaml

from convgym.errors import InvalidConfiguration

_MOST = 1 << 20
"""Bytes of a configuration; nobody writes a longer one by hand."""


class _Plain(yaml.SafeLoader):
    """Safe, without references and without repeated keys."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError(f"line {self.peek_event().start_mark.line + 1}: no *references")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        met: set[str] = set()
        for key, _ in node.value:
            if key.value in met:
                line = key.start_mark.line + 1
                raise yaml.YAMLError(f"line {line}: {str(key.value)[:40]!r} stands there twice")
            met.add(key.value)
        return super().construct_mapping(node, deep)


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a file; raises InvalidConfiguration for anything else."""
    try:
        content = path.read_bytes()[: _MOST + 1]
        text = content.decode("utf-8")
    except OSError as error:
        raise InvalidConfiguration(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        raise InvalidConfiguration(f"{path} is no text in UTF-8") from None
    if len(content) > _MOST:
        raise InvalidConfiguration(f"{path} has more than {_MOST:,} bytes; it is no configuration")
    found = parsed(text, str(path))
    if not isinstance(found, dict):
        raise InvalidConfiguration(
            f"{path} holds no names and values; `convgym init --path {path.name}` writes a start"
        )
    return found


def parsed(text: str, where: str) -> Any:
    """The value in a text; raises InvalidConfiguration for what is no YAML."""
    try:
        return yaml.load(text, _Plain)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        what = getattr(error, "problem", None) or str(error) or "nested too deeply"
        line = f"line {mark.line + 1}: " if mark else ""
        raise InvalidConfiguration(f"{where} is no YAML: {line}{' '.join(what.split())}") from None


def to_yaml(value: Any) -> str:
    """Plain values, in the order in which they are given."""
    return yaml.safe_dump(plain(value), sort_keys=False, allow_unicode=True, width=96)


def plain(value: Any) -> Any:
    """Tuples as lists, paths as texts, dataclasses as mappings, all the way down."""
    if is_dataclass(value) and not isinstance(value, type):
        value = {one.name: getattr(value, one.name) for one in fields(value) if one.init}
    if isinstance(value, dict):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return str(value) if isinstance(value, Path) else value
