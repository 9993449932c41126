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
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from convgym.cli.run_config import RunConfig, is_name
from convgym.cli.yaml_text import read_yaml, to_yaml
from convgym.data.packed_files import whole_file
from convgym.errors import InvalidConfiguration

RUNS = Path("runs")
_CONFIG = "config.yaml"


class RunFolder:
    """One run's folder, by its path."""

    def __init__(self, path: Path) -> None:
        self.path, self.name = path, path.name
        self.config = path / _CONFIG
        self.checkpoint = path / "checkpoint.zip"
        self.metrics = path / "metrics.jsonl"
        self.policy = path / "policy.zip"
        self.report = path / "report.json"

    @property
    def finished(self) -> bool:
        """Whether the run came to its end."""
        return self.report.is_file()

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

    def write_report(self, report: Mapping[str, Any]) -> None:
        """Write what came out; from now on the run is finished."""
        with whole_file(self.report) as file:
            file.write((json.dumps(report, indent=1) + "\n").encode())

    @contextmanager
    def held(self) -> Iterator[None]:
        """Nobody else learns here meanwhile; raises InvalidConfiguration where somebody does."""
        lock = FileLock(self.path / ".lock", timeout=0)
        try:
            lock.acquire()
        except Timeout:
            raise InvalidConfiguration(
                f"another process is learning in {self.path}; wait for it, or give another --name"
            ) from None
        try:
            for left in self.path.glob("*.part"):  # of a process that was killed while writing
                left.unlink(missing_ok=True)
            yield
        finally:
            lock.release()


def begin(root: Path, config: RunConfig) -> RunFolder:
    """A new folder that holds the configuration; its name is the configuration's, or made of it.

    Raises InvalidConfiguration where the name is taken or nothing can be written.
    """
    check_new(root, config.name)
    name = config.name or free_name(root, config)
    folder = RunFolder(root / name)
    aside = root / f".{name}.{os.getpid()}.part"
    try:
        aside.mkdir(parents=True)
        RunFolder(aside).write_config(config)
        aside.rename(folder.path)
    except OSError as error:
        raise InvalidConfiguration(
            f"the run cannot be kept in {folder.path}: {error.strerror}; give another --name or "
            "--runs"
        ) from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return folder


def check_new(root: Path, name: str | None) -> None:
    """Raises InvalidConfiguration for the name of a run that there is."""
    if name is not None and (root / name).exists():
        raise InvalidConfiguration(
            f"there is a run in {root / name} already; go on with it by --resume, or give another "
            "--name"
        )


def begun(root: Path, name: str | None) -> RunFolder:
    """The run to go on with: the named one, or the newest that is not finished.

    Raises InvalidConfiguration where there is none.
    """
    if name is not None:
        folder = RunFolder(root / name) if is_name(name) else None
        if folder is None or not folder.config.is_file():
            known = ", ".join(run.name for run in runs_in(root)) or "none"
            raise InvalidConfiguration(f"there is no run {name!r} in {root}; there are: {known}")
        return folder
    left = [run for run in runs_in(root) if not run.finished]
    if not left:
        raise InvalidConfiguration(
            f"no run in {root} is unfinished; name one with --name, and give it more --steps"
        )
    return max(left, key=lambda run: run.config.stat().st_mtime)


def runs_in(root: Path) -> list[RunFolder]:
    """All runs, by name."""
    return [RunFolder(place.parent) for place in sorted(root.glob(f"[!.]*/{_CONFIG}"))]


def free_name(root: Path, config: RunConfig) -> str:
    """Algorithm, data and seed; with a number behind where that name is taken."""
    place = (config.dataset or config.env or "").removeprefix("convgym/").removeprefix("ConvGym/")
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", place).lower()
    words = re.sub(r"[^a-z0-9]+", "-", re.sub(r"-v\d+$", "", words)).strip("-")[-60:].strip("-")
    first = "-".join(filter(None, (config.algorithm, words, str(config.seed))))
    name, number = first, 1
    while (root / name).exists():
        number += 1
        name = f"{first}-{number}"
    return name


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
