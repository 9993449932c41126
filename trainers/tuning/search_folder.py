"""The folder of a search: what is in it is whole, whoever is killed and whenever.

tuning/<name>/search.yaml        the plan; there from the first moment
              trials.sqlite3     every trial, by optuna; what is finished is never lost
              trials/0007/       a trial's metrics, and its checkpoint while it learns
              config.yaml        the best configuration so far
              report.json, .md   what came out; written last
              .lock              held by who is searching
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from convgym.cli.named_folder import NamedFolder, clear_parts, numbered
from convgym.cli.yaml_text import to_yaml
from convgym.data.packed_files import whole_file
from trainers.tuning.plan import Plan

SEARCHES = Path("tuning")


class SearchFolder(NamedFolder):
    """One search's folder, by its path."""

    kind, doing, first = "search", "searching", "search.yaml"
    command, usual_root = "tune", SEARCHES
    root_option, more_option = "--folder", "--trials"

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.plan = path / self.first
        self.trials = path / "trials.sqlite3"
        self.config = path / "config.yaml"
        self.page = path / "report.md"

    def trial(self, number: int) -> Path:
        """The folder of one trial, made where there is none."""
        found = self.path / "trials" / f"{number:04d}"
        found.mkdir(parents=True, exist_ok=True)
        clear_parts(found)
        return found

    def write_config(self, config: Mapping[str, Any]) -> None:
        """Write the best configuration, whole or not at all."""
        with whole_file(self.config) as file:
            file.write(to_yaml(dict(config)).encode())

    def write_page(self, page: str) -> None:
        """Write what came out, for people."""
        with whole_file(self.page) as file:
            file.write(page.encode())


def free_name(root: Path, plan: Plan) -> str:
    """Algorithm, space and seed; with a number behind where that name is taken."""
    space = plan.space_name.replace("_", "-")
    return numbered(root, f"{plan.given['algorithm']}-{space}-{plan.seed}")
