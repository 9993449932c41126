"""A search for options: trials one after the other, or on Ray, in a folder of their own.

    planned ─► tuning/<name> ─► draw ─► learn ─► score ─► … ─► config.yaml, report.md, report.json
                   └─ resume ─────┘

    found = quick_hpo("cql", "offline", trials=20)
    found.best.changes, found.config

Each trial is scored on validation tasks, never on the test split. A trial that fails is recorded
with its sentence, and the search goes on; a search that was killed goes on where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from convgym.cli.run_config import merged
from convgym.cli.yaml_text import to_yaml
from convgym.envs.episode_setup import is_whole
from convgym.errors import InvalidConfiguration
from trainers.tuning.attempt import Ended, attempt, clear
from trainers.tuning.plan import TRIALS, Plan, planned
from trainers.tuning.search_folder import SEARCHES, SearchFolder, free_name
from trainers.tuning.subjects import Subject
from trainers.tuning.trial_log import TrialLog, log_called

if TYPE_CHECKING:
    from trainers.tuning.trials import Trial, Trials

Say = Callable[[str], None]
BACKENDS = ("optuna", "ray")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a search was asked for; what is None is the default, or what the search began with."""

    given: Mapping[str, Any] = field(default_factory=dict)
    """A configuration as `convgym train` takes it, or a part of one."""
    space: str | Path | Mapping[str, Any] | None = None
    trials: int | None = None
    """In all, those before an interruption included; 20 if nobody ever said."""
    name: str | None = None
    metric: str | None = None
    pruner: str | None = None
    sampler: str | None = None
    backend: str = "optuna"
    workers: int = 1
    log: str | None = None
    root: Path = SEARCHES
    resume: bool = False
    dry_run: bool = False


@dataclass(frozen=True, kw_only=True)
class Found:
    """What a search came to."""

    folder: Path
    plan: Plan
    trials: list[Trial]
    best: Trial | None
    """The finished one with the highest score."""
    config: Mapping[str, Any]
    """The best configuration, as in config.yaml."""
    importances: Mapping[str, float]
    """Share of each option in what decides about the score; {} where too little is known."""


def quick_hpo(
    algorithm: str = "stub",
    space: str | Path | Mapping[str, Any] | None = None,
    *,
    trials: int | None = None,
    env: str | None = None,
    dataset: str | None = None,
    steps: int | None = None,
    seed: int | None = None,
    episodes: int | None = None,
    every: int | None = None,
    config: Mapping[str, Any] | None = None,
    metric: Literal["success", "return"] | None = None,
    pruner: Literal["median", "hyperband", "none"] | None = None,
    sampler: Literal["tpe", "random"] | None = None,
    backend: Literal["optuna", "ray"] = "optuna",
    workers: int = 1,
    log: Literal["wandb"] | None = None,
    name: str | None = None,
    folder: str | Path = SEARCHES,
    resume: bool = False,
    say: Say | None = None,
) -> Found:
    """Search for the options of a learner that score best on validation tasks.

    algorithm  a learner of `convgym train`
    space      "offline", "online", "grpo", "full", "conservative", "aggressive", a domain, a file,
               or {"learning_rate": {"range": [1e-4, 1e-2], "log": True}}; None: the family's own
    trials     in all, 20 if it is not given, or as many as a search that is resumed began with;
               those before are among them
    steps      of each trial, as the learner counts; env, dataset, seed as in a run
    episodes   validation conversations of a score; every: steps between two while it learns
    config     all else of a run, as `convgym train --config` takes it
    metric     "success" (the return where an environment knows no success) or "return"
    pruner     "median", "hyperband" or "none": when a trial is given up
    backend    "optuna" runs here, one after the other; "ray" runs `workers` at a time by Ray Tune
    log        "wandb": every trial is a run of Weights & Biases as well

    With one worker the same call makes the same trials, killed and resumed or not. Raises
    InvalidConfiguration for what there is not, MissingExtra where optuna, Ray or W&B is missing,
    and InvalidConfiguration with the first trial's sentence where all failed.
    """
    evaluation = {"episodes": episodes, "every": every}
    options = {"env": env, "dataset": dataset, "steps": steps, "seed": seed}
    given = merged(
        config or {},
        {
            **{one: value for one, value in options.items() if value is not None},
            "evaluation": {one: value for one, value in evaluation.items() if value is not None},
        },
    )
    asked = Asked(
        given={"algorithm": algorithm, **given} if not resume else given, space=space,
        trials=trials, name=name, metric=metric, pruner=pruner, sampler=sampler, backend=backend,
        workers=workers, log=log, root=Path(folder), resume=resume,
    )  # fmt: skip
    found = search(asked, say or (lambda line: None), lambda line: None)
    assert found is not None
    return found


def search(asked: Asked, say: Say, tell: Say) -> Found | None:
    """Search, and say what was found; None after a rehearsal. `tell` hears of each trial."""
    _check(asked)
    if asked.resume:
        folder, plan = _taken_up(asked)
    else:
        SearchFolder.check_new(asked.root, asked.name)
        plan = planned(
            asked.given,
            asked.space,
            metric=asked.metric or "success",
            pruner=asked.pruner or "median",
            sampler=asked.sampler or "tpe",
            trials=asked.trials or TRIALS,
        )
        folder = SearchFolder(asked.root / (asked.name or free_name(asked.root, plan)))
    subject = plan.subject()
    would = subject.rehearse()  # what cannot be learnt leaves no folder behind
    if asked.dry_run:
        _rehearse(asked, plan, subject, folder, would, say)
        return None
    from trainers.tuning.trials import Trials  # or MissingExtra before there is a folder

    run_all = _backend(asked.backend)
    log = log_called(asked.log, folder.name, folder.path)

    if not asked.resume:
        folder = SearchFolder.begin(asked.root, folder.name, lambda new: plan.write(new.plan))
    with folder.held():
        folder.reopen()
        plan.write(folder.plan)  # with as many trials as are asked for now
        trials = Trials(
            folder.trials, plan.ranges(), seed=plan.seed, pruner=plan.pruner, sampler=plan.sampler,
            steps=subject.steps, every=plan.every, first=_as_it_is(plan, subject),
        )  # fmt: skip
        say(f"{plan.trials} trials of {subject.algorithm} in {folder.path}")
        run = Run(folder, plan, subject, trials, log, tell)
        try:
            run_all(run, plan.trials, asked.workers)
        except (KeyboardInterrupt, OSError):  # such as a disk that is full
            tell(f"go on with: {folder.resuming}")
            raise
        finally:
            if log is not None:
                log.close()
        return run.found(say)


class Run:
    """One process that searches: what a backend calls when trials begin, are heard of and end."""

    def __init__(
        self, folder: SearchFolder, plan: Plan, subject: Subject, trials: Trials,
        log: TrialLog | None, tell: Say,
    ) -> None:  # fmt: skip
        self.folder, self.plan, self.subject, self.trials = folder, plan, subject, trials
        self._log, self._tell = log, tell

    def begin(self) -> tuple[int, dict[str, Any]]:
        """The next trial's number and options."""
        number = self.trials.next()
        changes = self.trials.changes(number)
        if self._log is not None:
            self._log.begin(number, changes)
        return number, changes

    def hear(self, number: int, step: int, value: float) -> bool:
        """A score while it learns; whether to give it up."""
        if self._log is not None:
            self._log.hear(number, step, value)
        return self.trials.hear(number, step, value)

    def end(self, number: int, ended: Ended) -> None:
        """Keep how it ended, then throw away what only an interrupted trial needs."""
        from trainers.tuning.search_report import best_of, told

        if ended.scored is not None:
            self.trials.finish(number, ended.scored)
        elif ended.pruned:
            self.trials.prune(number)
        else:
            self.trials.fail(number, ended.error)
        clear(self.folder.trial(number))
        known = self.trials.all()
        trial, best = known[number], best_of(known)
        if best is not None and best.number == number:
            self.folder.write_config(self.subject.configuration(best.changes))
        if self._log is not None:
            self._log.end(trial)
        self._tell(told(trial))

    def found(self, say: Say) -> Found:
        """Write the report, and say it; raises InvalidConfiguration where all trials failed."""
        from trainers.tuning.search_report import best_of, counted, page, plain_report, told

        folder, plan, trials = self.folder, self.plan, self.trials.all()
        best, shares = best_of(trials), self.trials.importances()
        config = self.subject.configuration({} if best is None else best.changes)
        commands = []
        if best is not None:
            folder.write_config(config)
            commands = [self.subject.command(folder.config)]
        folder.write_page(page(folder.name, plan, trials, shares, commands))
        folder.write_report(plain_report(folder.name, plan, trials, shares))
        say(f"{counted(trials)}; the table is in {folder.page}")
        if best is None:
            errors = [one.error for one in trials if one.error]
            first = f", the first with: {errors[0]}" if errors else ""
            raise InvalidConfiguration(f"no trial of {len(trials)} was finished{first}")
        say(f"best: {told(best)}")
        done = [one.value for one in trials if one.state == "finished"]
        if len(done) > 1 and len(set(done)) == 1:
            say(
                f"all that were finished have the same {plan.metric}, so nothing is known of the "
                "options; take more steps, or another metric"
            )
        for name, share in list(shares.items())[:3]:
            say(f"{name} decides about {share:.0%} of the score")
        say(f"the configuration is in {folder.config}: {commands[0]}")
        return Found(
            folder=folder.path, plan=plan, trials=trials, best=best, config=config,
            importances=shares,
        )  # fmt: skip


# -- inside ----------------------------------------------------------------------------------------


def _check(asked: Asked) -> None:
    for number in (asked.workers, *(() if asked.trials is None else (asked.trials,))):
        if not (is_whole(number) and number >= 1):
            raise InvalidConfiguration(
                f"trials={asked.trials!r}, workers={asked.workers!r}; both are numbers from 1"
            )
    if asked.backend not in BACKENDS:
        raise InvalidConfiguration(f"backend={asked.backend!r}; it is one of {', '.join(BACKENDS)}")
    if asked.workers > 1 and asked.backend == "optuna":
        raise InvalidConfiguration(
            f"workers={asked.workers}; the backend optuna runs one trial after the other. Take "
            "backend ray for several at a time"
        )


def _taken_up(asked: Asked) -> tuple[SearchFolder, Plan]:
    """The search to go on with; raises InvalidConfiguration where it was begun otherwise."""
    folder = SearchFolder.begun(asked.root, asked.name)
    plan = Plan.read(folder.plan)
    given = {name: one for name, one in asked.given.items() if name != "name"}
    again = planned(
        merged(plan.given, given),
        dict(plan.space) if asked.space is None else asked.space,
        metric=asked.metric or plan.metric,
        pruner=asked.pruner or plan.pruner,
        sampler=asked.sampler or plan.sampler,
        trials=asked.trials or plan.trials,
    )
    was, now = _compared(plan), _compared(again)
    if other := [name for name in was if was[name] != now.get(name)]:
        raise InvalidConfiguration(
            f"{folder.path} was begun with another {other[0]}; go on with the same, or begin a "
            "search of another --name"
        )
    return folder, replace(plan, trials=again.trials)


def _compared(plan: Plan) -> dict[str, Any]:
    """What must be the same for trials to be comparable."""
    whole = plan.to_dict()
    del whole["space_name"], whole["trials"]
    given = dict(whole.pop("given"))
    given.pop("device", None)
    return {**whole, **given}


def _as_it_is(plan: Plan, subject: Subject) -> dict[str, Any]:
    """What the configuration has of the options without any search; it is the first trial."""
    return {name: subject.default(name) for name in plan.space}


def _rehearse(
    asked: Asked, plan: Plan, subject: Subject, folder: SearchFolder, would: list[str], say: Say
) -> None:
    say(to_yaml(plan.to_dict()))
    for line in would:
        say(f"# {line}")
    begins = f"go on in {folder.path}" if asked.resume else f"begin in {folder.path}"
    evaluation = plan.given["evaluation"]
    say(
        f"# would {begins}: {plan.trials} trials of {subject.steps:,} steps by "
        f"{subject.algorithm}, each scored in {evaluation['episodes']:,} validation conversations"
    )
    say("# nothing was learnt or written")


def _backend(name: str) -> Callable[[Run, int, int], None]:
    if name == "ray":
        from trainers.tuning.ray_trials import on_ray

        return on_ray
    return _one_by_one


def _one_by_one(run: Run, total: int, workers: int) -> None:
    """Here, one after the other."""
    while run.trials.over() < total:
        number, changes = run.begin()

        def heard(step: int, value: float, number: int = number) -> bool:
            return run.hear(number, step, value)

        run.end(number, attempt(run.subject, changes, run.folder.trial(number), heard))
