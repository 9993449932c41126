"""Trials in an SQLite file: what is drawn, what was heard, what came out; nothing finished is lost.

    next() ─► draw by (seed, number, trials that ended) ─► stored whole ─► learnt ─► finish, prune
       ▲                                                        │ killed             or fail
       └────── the same trial again, options and checkpoint kept ◄┘

What a newcomer would get wrong: optuna's own random state lives in a process and dies with it. Here
each trial draws with a state of its own, so that one worker that was killed and resumed tries the
same options in the same order as one that never was. Knows nothing of what is learnt.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from convgym.engine.keys import child
from convgym.errors import InvalidConfiguration, MissingExtra, told
from trainers.tuning.spaces import Space
from trainers.tuning.subjects import Scored

try:
    import optuna
except ImportError as error:
    raise MissingExtra(error.name or "optuna", "tune") from error

State = Literal["finished", "pruned", "failed", "running"]
_NAME = "convgym"
"""Of the study in its file; hyperband's brackets are drawn by it."""
_STARTUP = 8
"""Trials drawn at random before any is drawn by what the others earned."""
_BEFORE_PRUNING = 4
"""Whole trials before one is given up because it is below their median."""
_STATES: dict[str, State] = {"COMPLETE": "finished", "PRUNED": "pruned", "FAIL": "failed"}


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One trial, as far as it is known."""

    number: int
    state: State
    changes: Mapping[str, Any]
    """Options by their full name."""
    value: float | None
    """Its score; of a pruned one the newest that was heard."""
    interval: tuple[float, float] | None
    heard: Mapping[int, float]
    """Scores while learning, by step."""
    seconds: float | None
    """From its first beginning to its end."""
    error: str
    """Why it failed; "" where it did not."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "number": self.number, "state": self.state, "value": self.value,
            "interval": None if self.interval is None else list(self.interval),
            "changes": dict(self.changes), "error": self.error, "seconds": self.seconds,
            "heard": {str(step): value for step, value in self.heard.items()},
        }  # fmt: skip


class Trials:
    """The trials of a search; only one process at a time may have them open."""

    def __init__(
        self, path: Path, space: Space, *, seed: int, pruner: str, sampler: str,
        steps: int, every: int, first: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        self.space, self._seed, self._sampler = space, seed, sampler
        self._first = first
        self._open: dict[int, Any] = {}
        self._heard: dict[int, set[int]] = {}
        with _quiet():
            try:
                self._study = optuna.create_study(
                    storage=f"sqlite:///{path.resolve()}",
                    study_name=_NAME,
                    direction="maximize",
                    pruner=_pruner(pruner, steps, every),
                    load_if_exists=True,
                )
                self._left = [one for one in self._all() if one.state.name == "RUNNING"]
            except Exception as error:  # of optuna, SQLAlchemy or SQLite, whatever is in the file
                what = told(error)
                raise InvalidConfiguration(
                    f"{path} cannot be read as a store of trials ({what}); take another --name"
                ) from error

    # -- from the beginning to the end of one ------------------------------------------------------

    def next(self) -> int:
        """Begin a trial, an interrupted one first; its number."""
        with _quiet():
            if self._left:
                # optuna has no public way to go on with a trial that a dead process left running.
                trial = optuna.trial.Trial(self._study, self._left.pop(0)._trial_id)
            else:
                if not any(one.state.name == "WAITING" for one in self._all()):
                    # First stored whole, then begun: no kill leaves half a suggestion.
                    self._study.enqueue_trial(self._drawn(len(self._all())))
                trial = self._study.ask()
            for name, values in self.space.items():
                values.suggested(trial, name)
        self._open[trial.number] = trial
        self._heard[trial.number] = set(self._all()[trial.number].intermediate_values)
        return int(trial.number)

    def hear(self, number: int, step: int, value: float) -> bool:
        """A score while it learns; whether to give the trial up.

        A trial that goes on tells again what is known; that is heard once.
        """
        trial, known = self._open[number], self._heard[number]
        with _quiet():
            if step not in known:
                trial.report(value, step)
                known.add(step)
            elif step != max(known):
                return False
            return bool(trial.should_prune())

    def finish(self, number: int, scored: Scored) -> None:
        """It came to its end."""
        with _quiet():
            trial = self._open.pop(number)
            trial.set_user_attr("interval", list(scored.interval))
            self._study.tell(trial, scored.value)

    def prune(self, number: int) -> None:
        """It was given up."""
        with _quiet():
            self._study.tell(self._open.pop(number), state=optuna.trial.TrialState.PRUNED)

    def fail(self, number: int, sentence: str) -> None:
        """It could not be learnt, and this is why."""
        with _quiet():
            trial = self._open.pop(number)
            trial.set_user_attr("error", sentence)
            self._study.tell(trial, state=optuna.trial.TrialState.FAIL)

    # -- what there is -----------------------------------------------------------------------------

    def changes(self, number: int) -> dict[str, Any]:
        """The options of a trial that was begun."""
        return self._changes(self._open[number])

    def all(self) -> list[Trial]:
        """All trials, in the order of their numbers."""
        return [self._record(one) for one in self._all() if one.state.name != "WAITING"]

    def over(self) -> int:
        """How many came to an end, whichever."""
        return sum(one.state.is_finished() for one in self._all())

    def importances(self) -> dict[str, float]:
        """How much each option decides about the score, by PED-ANOVA (arXiv:2304.10255).

        Shares with the sum 1, greatest first; {} where fewer than four trials were finished, or
        all scored the same.
        """
        done = [one for one in self._all() if one.state.name == "COMPLETE"]
        if len(done) < 4 or len({one.value for one in done}) == 1:
            return {}
        with _quiet():
            found = optuna.importance.get_param_importances(self._study)
        return {name: float(share) for name, share in found.items()}

    # -- inside ------------------------------------------------------------------------------------

    def _drawn(self, number: int) -> dict[str, Any]:
        """What the trial of this number tries, as it is stored."""
        if number == 0 and self._first is not None:
            kept = {name: one.stored(self._first[name]) for name, one in self.space.items()}
            if None not in kept.values():
                return kept
        sampler: Any = optuna.samplers.RandomSampler(_state(self._seed, number))
        if self._sampler == "tpe":
            sampler = optuna.samplers.TPESampler(
                seed=_state(self._seed, number), n_startup_trials=_STARTUP
            )
        aside = optuna.create_study(direction="maximize", sampler=sampler)
        for one in self._all():
            if one.state.name in ("COMPLETE", "PRUNED"):
                aside.add_trial(one)
        trial = aside.ask()
        for name, values in self.space.items():
            values.suggested(trial, name)
        drawn = trial.params
        for name, values in self.space.items():
            if values.ends is not None and values.step is None:
                drawn[name] = values.stored(drawn[name])
        return dict(drawn)

    def _all(self) -> list[Any]:
        return list(self._study.get_trials(deepcopy=False))

    def _changes(self, trial: Any) -> dict[str, Any]:
        """Of choices the choice itself; a trial that was cut off in the beginning has not all."""
        fixed = optuna.trial.FixedTrial(dict(trial.params))
        return {
            name: values.suggested(fixed, name)
            for name, values in self.space.items()
            if name in trial.params
        }

    def _record(self, trial: Any) -> Trial:
        state = _STATES.get(trial.state.name, "running")
        interval = trial.user_attrs.get("interval")
        return Trial(
            number=trial.number,
            state=state,
            changes=self._changes(trial),
            value=None if state in ("failed", "running") else trial.value,
            interval=None if interval is None else (interval[0], interval[1]),
            heard=dict(sorted(trial.intermediate_values.items())),
            seconds=None if trial.duration is None else trial.duration.total_seconds(),
            error=str(trial.user_attrs.get("error", "")) if state == "failed" else "",
        )


def _pruner(name: str, steps: int, every: int) -> Any:
    if name == "median":
        return optuna.pruners.MedianPruner(n_startup_trials=_BEFORE_PRUNING)
    if name == "hyperband":
        return optuna.pruners.HyperbandPruner(min_resource=max(1, every), max_resource=steps)
    return optuna.pruners.NopPruner()


def _state(seed: int, number: int) -> int:
    """The random state of one trial's draw."""
    return child(seed, number) & 0x7FFFFFFF


@contextmanager
def _quiet() -> Iterator[None]:
    """Without optuna's own lines and its notes about experimental parts."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        optuna.logging.set_verbosity(before)
