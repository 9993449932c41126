"""The folder of a search: what is in it is whole, whoever is killed and whenever.

tuning/<name>/search.yaml        the plan; there from the first moment
              trials.sqlite3     every trial, by optuna; what is finished is never lost
              trials/0007/       a trial's metrics, and its checkpoint while it learns
              config.yaml        the best configuration so far
              report.json, .md   what came out; written last
              .lock              held by who is searching
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from convgym.cli.run_config import is_name
from convgym.cli.yaml_text import to_yaml
from convgym.data.packed_files import whole_file
from convgym.errors import InvalidConfiguration
from trainers.tuning.plan import Plan

SEARCHES = Path("tuning")
_PLAN = "search.yaml"


class SearchFolder:
    """One search's folder, by its path."""

    def __init__(self, path: Path) -> None:
        self.path, self.name = path, path.name
        self.plan = path / _PLAN
        self.trials = path / "trials.sqlite3"
        self.config = path / "config.yaml"
        self.report = path / "report.json"
        self.page = path / "report.md"

    def trial(self, number: int) -> Path:
        """The folder of one trial, made where there is none."""
        found = self.path / "trials" / f"{number:04d}"
        found.mkdir(parents=True, exist_ok=True)
        for left in found.glob("*.part"):  # of a process that was killed while writing
            left.unlink(missing_ok=True)
        return found

    def write_config(self, config: Mapping[str, Any]) -> None:
        """Write the best configuration, whole or not at all."""
        with whole_file(self.config) as file:
            file.write(to_yaml(dict(config)).encode())

    def write_report(self, report: Mapping[str, Any], page: str) -> None:
        """Write what came out."""
        with whole_file(self.page) as file:
            file.write(page.encode())
        with whole_file(self.report) as file:
            file.write((json.dumps(report, indent=1) + "\n").encode())

    @contextmanager
    def held(self) -> Iterator[None]:
        """Nobody else searches here meanwhile; raises InvalidConfiguration where somebody does."""
        lock = FileLock(self.path / ".lock", timeout=0)
        try:
            lock.acquire()
        except Timeout:
            raise InvalidConfiguration(
                f"another process is searching in {self.path}; wait for it, or give another --name"
            ) from None
        try:
            yield
        finally:
            lock.release()


def begin(root: Path, name: str, plan: Plan) -> SearchFolder:
    """A new folder that holds the plan; raises InvalidConfiguration where it cannot be made."""
    check_new(root, name)
    folder = SearchFolder(root / name)
    aside = root / f".{name}.{os.getpid()}.part"
    try:
        aside.mkdir(parents=True)
        plan.write(SearchFolder(aside).plan)
        aside.rename(folder.path)
    except OSError as error:
        raise InvalidConfiguration(
            f"the search cannot be kept in {folder.path}: {error.strerror}; give another --name "
            "or folder"
        ) from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return folder


def check_new(root: Path, name: str | None) -> None:
    """Raises InvalidConfiguration for what is no name, or is taken."""
    if name is not None and not is_name(name):
        raise InvalidConfiguration(
            f"name={name[:60]!r}; a search's name is letters, digits, '.', '_' and '-', and begins "
            "with none of the last three"
        )
    if name is not None and (root / name).exists():
        raise InvalidConfiguration(
            f"there is a search in {root / name} already; go on with it by --resume, or give "
            "another --name"
        )


def begun(root: Path, name: str | None) -> SearchFolder:
    """The search to go on with: the named one, or the newest without a report.

    Raises InvalidConfiguration where there is none.
    """
    there = [SearchFolder(place.parent) for place in sorted(root.glob(f"[!.]*/{_PLAN}"))]
    if name is not None:
        found = [folder for folder in there if folder.name == name]
        if not found:
            known = ", ".join(folder.name for folder in there) or "none"
            raise InvalidConfiguration(f"there is no search {name!r} in {root}; there are: {known}")
        return found[0]
    left = [folder for folder in there if not folder.report.is_file()]
    if not left:
        raise InvalidConfiguration(
            f"no search in {root} is unfinished; name one with --name, and give it more --trials"
        )
    return max(left, key=lambda folder: folder.plan.stat().st_mtime)


def free_name(root: Path, plan: Plan) -> str:
    """Algorithm, space and seed; with a number behind where that name is taken."""
    first = f"{plan.given['algorithm']}-{plan.space_name.replace('_', '-')}-{plan.seed}"
    name, number = first, 1
    while (root / name).exists():
        number += 1
        name = f"{first}-{number}"
    return name
