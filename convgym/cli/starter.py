"""`convgym init`: a configuration with every option of a learner, and above each what it means.

The words are those that stand under the fields of the dataclasses.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from convgym.cli.learners import learner_called
from convgym.cli.run_config import EvaluationConfig, RunConfig, resolved
from convgym.cli.typed import documented, inner_options, options_of
from convgym.cli.yaml_text import to_yaml
from convgym.data.packed_files import whole_file
from convgym.errors import InvalidConfiguration

_WIDTH = 96


def write_starter(
    path: Path, given: Mapping[str, Any], force: bool, say: Callable[[str], None]
) -> None:
    """Write the resolved configuration of what is given, with comments.

    Raises InvalidConfiguration where there is a file already, unless `force`.
    """
    if path.exists() and not force:
        raise InvalidConfiguration(f"there is {path} already; give another --path, or --force")
    if not path.parent.is_dir():
        raise InvalidConfiguration(f"{path.parent} is no folder; make it, or give another --path")
    text = starter(resolved(given))
    with whole_file(path) as file:
        file.write(text.encode())
    say(f"{path} is written; try it: convgym train --config {path} --dry-run")


def starter(config: RunConfig) -> str:
    """The configuration as YAML, each value with a comment."""
    learner = learner_called(config.algorithm)
    said = documented(RunConfig)
    kinds: dict[str, type[Any]] = {"evaluation": EvaluationConfig, "learner": learner.options()}
    lines = [
        f"# {learner.name}: {learner.summary}",
        "#",
        "#   convgym train --config THIS_FILE [--dry-run] [--set learner.NAME=VALUE]",
        f"#   steps are {learner.unit}; what is left out keeps its default",
        "",
    ]
    for name, value in config.to_dict().items():
        lines += _comment(said[name], "")
        if name in kinds and value:
            lines += [f"{name}:", *_options(kinds[name], value, "  ")]
        else:
            lines.append(_pair(name, value))
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _options(kind: type[Any], values: Mapping[str, Any], indent: str) -> Iterator[str]:
    """A dataclass's options, each under what it means; those of options one step further in."""
    said, inner = documented(kind), inner_options(kind)
    for name, value in values.items():
        more = ""
        if name in inner and value is None:
            more = f" Or names and values: {', '.join(options_of(inner[name]))}."
        yield from _comment(f"{said.get(name, '')}{more}", indent)
        if name in inner and isinstance(value, dict) and value:
            yield f"{indent}{name}:"
            yield from _options(inner[name], value, f"{indent}  ")
        else:
            yield f"{indent}{_pair(name, value)}"


def _comment(text: str, indent: str) -> Iterator[str]:
    yield from textwrap.wrap(
        text, _WIDTH, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# "
    )


def _pair(name: str, value: Any) -> str:
    """`name: value` on one line."""
    if isinstance(value, list | dict):
        inner = ", ".join(
            [to_yaml(one).splitlines()[0] for one in value]
            if isinstance(value, list)
            else [f"{key}: {to_yaml(one).splitlines()[0]}" for key, one in value.items()]
        )
        return f"{name}: [{inner}]" if isinstance(value, list) else f"{name}: {{{inner}}}"
    return to_yaml({name: value}).rstrip("\n")
