"""The folder of a training run: what is in it is whole, whoever is killed and whenever.

runs/<name>/config.yaml       resolved; there from the first moment
            checkpoint.zip    the learner's own, written as training goes
            metrics.jsonl     a line for each report; no step twice, killed or not
            policy.zip        what was learnt
            report.json       scores; written last, so that who has one is finished
            .lock             held by who is learning
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from convgym.cli.named_folder import NamedFolder, numbered
from convgym.cli.run_config import RunConfig
from convgym.cli.yaml_text import read_yaml, to_yaml
from convgym.data.packed_files import whole_file

RUNS = Path("runs")


class RunFolder(NamedFolder):
    """One run's folder, by its path."""

    kind, doing, first = "run", "learning", "config.yaml"
    command, usual_root = "train", RUNS
    root_option, more_option = "--runs", "--steps"

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.config = path / self.first
        self.checkpoint = path / "checkpoint.zip"
        self.metrics = path / "metrics.jsonl"
        self.policy = path / "policy.zip"

    @property
    def learning(self) -> bool:
        """Whether there is anything in it that was learnt."""
        return self.checkpoint.exists() or self.metrics.exists()

    def discard(self) -> None:
        """Remove it, and the folder of runs where it was the only one."""
        shutil.rmtree(self.path, ignore_errors=True)
        with suppress(OSError):
            self.path.parent.rmdir()

    def read_config(self) -> dict[str, Any]:
        """The configuration it was begun with."""
        return read_yaml(self.config)

    def write_config(self, config: RunConfig) -> None:
        """Write the configuration, whole or not at all."""
        with whole_file(self.config) as file:
            file.write(to_yaml(config.to_dict()).encode())


def free_name(root: Path, config: RunConfig) -> str:
    """Algorithm, data and seed; with a number behind where that name is taken."""
    place = (config.dataset or config.env or "").removeprefix("convgym/").removeprefix("ConvGym/")
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", place).lower()
    words = re.sub(r"[^a-z0-9]+", "-", re.sub(r"-v\d+$", "", words)).strip("-")[-60:].strip("-")
    return numbered(root, "-".join(filter(None, (config.algorithm, words, str(config.seed)))))


class MetricsLog:
    """Rows as lines of JSON, in the order of their steps, no step twice.

    A run that goes on tells its history again, and repeats what came after its checkpoint: a row
    of a step that is known takes the old one's place. A line that was cut short is left out.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows = {row["step"]: row for row in read_metrics(path)}
        if path.exists():
            self._write()

    def __call__(self, row: Mapping[str, float]) -> None:
        """Keep a row."""
        step, new = row["step"], dict(row)
        if self._rows.get(step) == new:
            return
        last = not self._rows or step > max(self._rows)
        self._rows[step] = new
        if last:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(new) + "\n")
        else:
            self._write()

    def _write(self) -> None:
        lines = [json.dumps(self._rows[step]) + "\n" for step in sorted(self._rows)]
        with whole_file(self._path) as file:
            file.write("".join(lines).encode())


def read_metrics(path: Path) -> list[dict[str, float]]:
    """The rows of a run, without lines that were cut short or are no row."""
    rows = []
    for line in path.read_bytes().splitlines() if path.is_file() else []:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict) and isinstance(row.get("step"), int | float):
            rows.append(row)
    return rows
