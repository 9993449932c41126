"""Several trials at a time by Ray Tune; who draws them and who keeps them stays the same.

    this process   Asks.suggest ─► Run.begin        Gives.__call__ ─► Run.hear ─► stop?
                        ▲ draws from trials.sqlite3      ▲ step, value
    Ray's workers       └──────────► attempt(…) ─────────┘─► score, or why it failed

Ray Tune starts, places and stops; optuna draws and prunes here, in the one process that writes to
the file, so that a search begun on Ray may go on without it. In which order trials end is Ray's
affair: with more than one worker, what is drawn after the first few is no longer the same each
time.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from convgym.crew.ray_crew import ray_running
from convgym.errors import MissingExtra
from trainers.tuning.attempt import Ended, attempt
from trainers.tuning.subjects import Scored, Subject

try:
    from ray import tune
    from ray.tune.search import Searcher
except ImportError as error:
    raise MissingExtra(error.name or "ray", "ray") from error

if TYPE_CHECKING:
    from trainers.tuning.search import Run

def on_ray(run: Run, total: int, workers: int) -> None:
    """Trials until there are `total`, `workers` at a time, each on one core.

    Uses the Ray that is running, or one of its own for as long as it takes. Raises
    KeyboardInterrupt where Ray ended before all trials had.
    """
    missing = total - run.trials.over()
    if missing <= 0:
        return
    asks, aside = _Asks(run), run.folder.path.resolve() / "ray"
    try:
        with ray_running(workers):
            tune.Tuner(
                tune.with_resources(_trainable(run.subject, run.folder.path.resolve()), {"cpu": 1}),
                tune_config=tune.TuneConfig(
                    search_alg=asks,
                    num_samples=missing,
                    max_concurrent_trials=workers,
                    reuse_actors=True,
                ),
                run_config=tune.RunConfig(
                    name=f"from-{run.trials.over()}",
                    storage_path=os.fspath(aside),
                    stop=_Gives(asks),
                    verbose=0,
                ),
            ).fit()
    finally:
        shutil.rmtree(aside, ignore_errors=True)  # Ray's copy of what trials.sqlite3 has
    if run.trials.over() < total:
        raise KeyboardInterrupt


def _trainable(subject: Subject, folder: Path) -> Any:
    """What a worker does with a trial's number and options."""

    def learn(config: Mapping[str, Any]) -> None:
        def heard(step: int, value: float) -> bool:
            tune.report({"step": step, "value": value})
            return False  # who is to stop is stopped by Ray

        place = folder / "trials" / f"{config['number']:04d}"
        tune.report(_plain(attempt(subject, config["changes"], place, heard)))

    return learn


def _plain(ended: Ended) -> dict[str, Any]:
    found: dict[str, Any] = {"ended": True, "error": ended.error}
    if ended.scored is not None:
        low, high = ended.scored.interval
        found |= {"score": ended.scored.value, "low": low, "high": high}
    return found


class _Asks(Searcher):  # type: ignore[misc]
    """Ray Tune's question for the next trial, answered by the search."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self.run: Run | None = run
        self.numbers: dict[str, int] = {}
        self.pruned: set[str] = set()

    def suggest(self, trial_id: str) -> dict[str, Any] | None:
        """The next trial's number and options."""
        assert self.run is not None
        number, changes = self.run.begin()
        self.run.folder.trial(number)
        self.numbers[trial_id] = number
        return {"number": number, "changes": changes}

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """How a trial ended."""
        assert self.run is not None
        found = result or {}
        if trial_id in self.pruned:
            ended = Ended(pruned=True)
        elif "score" in found:
            interval = (found["low"], found["high"])
            ended = Ended(scored=Scored(value=found["score"], interval=interval))
        else:
            ended = Ended(error=found.get("error") or "its worker on Ray ended without a word")
        self.run.end(self.numbers.pop(trial_id), ended)

    # Ray keeps a copy of what it runs; the trials are in a file of their own.

    def save(self, checkpoint_path: str) -> None:
        """Nothing: all there is to keep is in trials.sqlite3."""
        Path(checkpoint_path).touch()

    def restore(self, checkpoint_path: str) -> None:
        """Nothing."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "run": None}


class _Gives(tune.Stopper):  # type: ignore[misc]
    """Ray Tune's question whether to go on with a trial, answered by the pruner."""

    def __init__(self, asks: _Asks) -> None:
        self._asks = asks

    def __call__(self, trial_id: str, result: Mapping[str, Any]) -> bool:
        """Whether it is given up."""
        run = self._asks.run
        if run is None or "value" not in result or trial_id in self._asks.pruned:
            return False
        number = self._asks.numbers[trial_id]
        if run.hear(number, int(result["step"]), float(result["value"])):
            self._asks.pruned.add(trial_id)
            return True
        return False

    def stop_all(self) -> bool:
        """The search ends with its last trial."""
        return False
