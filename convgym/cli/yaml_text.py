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
            if not isinstance(key, yaml.ScalarNode):
                raise _wrong(key, "a name is a text, no list and no mapping")
            if key.value in met:
                raise _wrong(key, f"{key.value[:40]!r} stands there twice")
            met.add(key.value)
        return super().construct_mapping(node, deep)

    def construct_number(self, node: Any) -> Any:
        """YAML takes 017 for 15 and 1:30 for 90, which nobody means."""
        digits = node.value.lstrip("+-").replace("_", "")
        if ":" in digits or (digits[:1] == "0" and digits[1:2].isdigit()):
            raise _wrong(node, f"{node.value[:40]!r} is another number in YAML, write it plainly")
        is_int = node.tag == _INT
        return self.construct_yaml_int(node) if is_int else self.construct_yaml_float(node)


_INT, _FLOAT = "tag:yaml.org,2002:int", "tag:yaml.org,2002:float"
for _tag in (_INT, _FLOAT):
    _Plain.add_constructor(_tag, _Plain.construct_number)


def _wrong(node: Any, what: str) -> yaml.YAMLError:
    return yaml.YAMLError(f"line {node.start_mark.line + 1}: {what}")


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a file; raises InvalidConfiguration for anything else."""
    try:
        with path.open("rb") as file:
            content = file.read(_MOST + 1)
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
        said = " ".join(what.partition(";")[0].split())  # behind it Python advises programmers
        raise InvalidConfiguration(f"{where} is no YAML: {line}{said}") from None


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
