"""Where trials are shown beside their own folder: Weights & Biases, if it is installed.

    log_called("wandb", …) ─► TrialLog.begin ─► hear … ─► end      a run of W&B for each trial

Nothing is sent that is not in the folder as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from convgym.errors import InvalidConfiguration, MissingExtra

if TYPE_CHECKING:
    from trainers.tuning.trials import Trial

PROJECT = "convgym"


class TrialLog(Protocol):
    """What listens to a search."""

    def begin(self, number: int, changes: Mapping[str, Any]) -> None:
        """A trial begins, or goes on."""

    def hear(self, number: int, step: int, value: float) -> None:
        """A score while it learns."""

    def end(self, trial: Trial) -> None:
        """It ended."""

    def close(self) -> None:
        """The search ended, or was interrupted."""


class WandbLog:
    """A run of W&B for each trial, grouped by the search; `WANDB_MODE` and its like are W&B's."""

    def __init__(self, name: str, folder: Path) -> None:
        try:
            import wandb
        except ImportError as error:
            raise MissingExtra(error.name or "wandb", "wandb") from error
        self._wandb: Any = wandb
        self._name, self._folder = name, folder
        self._runs: dict[int, Any] = {}

    def begin(self, number: int, changes: Mapping[str, Any]) -> None:
        """Begin its run, or go on with it."""
        self._runs[number] = self._wandb.init(
            project=PROJECT,
            group=self._name,
            name=f"{self._name}-{number}",
            id=f"{self._name}-{number}",
            config=dict(changes),
            dir=str(self._folder),
            resume="allow",
            reinit="create_new",
        )

    def hear(self, number: int, step: int, value: float) -> None:
        """A point of its curve."""
        self._runs[number].log({"validation": value}, step=step)

    def end(self, trial: Trial) -> None:
        """Its summary."""
        run = self._runs.pop(trial.number)
        run.summary["state"] = trial.state
        if trial.value is not None:
            run.summary["score"] = trial.value
        if trial.error:
            run.summary["error"] = trial.error
        run.finish(exit_code=int(trial.state == "failed"))

    def close(self) -> None:
        """End what was interrupted."""
        for run in self._runs.values():
            run.finish(exit_code=1)
        self._runs.clear()


def log_called(name: str | None, search: str, folder: Path) -> TrialLog | None:
    """The log of a name, None for none; raises InvalidConfiguration or MissingExtra."""
    if name is None:
        return None
    if name != "wandb":
        raise InvalidConfiguration(f"log={name!r}; it is wandb, or none at all")
    return WandbLog(search, folder)
