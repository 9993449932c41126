"""`convgym train`: a configuration becomes a run in a folder of its own.

    given ─► resolved ─► runs/<name> ─► learner.train ─► policy.zip ─► scores ─► report.json
                            │                │ rows
                            └─ --resume      └─► metrics.jsonl, progress

Knows no learner: each is found by its name (`convgym.cli.learners`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gymnasium as gym

from convgym.cli.learners import Job, Learner, Row, Trained, learner_called
from convgym.cli.progress import Bar
from convgym.cli.run_config import RunConfig, merged, resolved
from convgym.cli.run_folder import MetricsLog, RunFolder, free_name, read_metrics
from convgym.cli.yaml_text import to_yaml
from convgym.errors import ConvGymError, InvalidConfiguration
from convgym.evaluation.scores import Score, score
from convgym.policies.policy import Policy, RandomPolicy

Say = Callable[[str], None]
_SHOWN = 7
"""Columns of a row that a line of progress has room for; all are in the metrics."""
_LATER = ("steps", "device", "evaluation", "name")
"""What may be said otherwise when a run goes on."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What `convgym train` was asked for."""

    given: Mapping[str, Any]
    """As in a configuration, file, options and --set together."""
    root: Path
    resume: bool = False
    dry_run: bool = False


def train(asked: Asked, say: Say, tell: Say) -> None:
    """Learn and score; `tell` hears of progress. Raises what the learner does."""
    if asked.resume:
        folder, config = _taken_up(asked)
    else:
        config = resolved(asked.given)
        RunFolder.check_new(asked.root, config.name)
        folder = RunFolder(asked.root / (config.name or free_name(asked.root, config)))
    learner = learner_called(config.algorithm)
    job = job_of(config, folder)
    if asked.dry_run:
        _rehearse(learner, job, config, folder, asked.resume, say)
        return
    learner.check(job)  # what cannot be learnt leaves no folder behind
    if not asked.resume:
        name = config.name or free_name(asked.root, config)
        folder = RunFolder.begin(asked.root, name, lambda new: new.write_config(config))
    try:
        with folder.held():
            _learn(learner, config, folder, say, tell)
    except ConvGymError:  # as where a dataset that had to be fetched first does not fit
        if not asked.resume and not folder.learning:
            folder.discard()
        raise


def _taken_up(asked: Asked) -> tuple[RunFolder, RunConfig]:
    """The run to go on with, and its configuration with what was changed."""
    folder = RunFolder.begun(asked.root, asked.given.get("name"))
    stored = folder.read_config()
    algorithm = asked.given.get("algorithm", stored.get("algorithm"))
    if algorithm != stored.get("algorithm"):
        raise InvalidConfiguration(
            f"{folder.path} was begun with algorithm={stored.get('algorithm')!r}, and now it is "
            f"{algorithm!r}; go on with the same, or begin a run of another --name"
        )
    before = resolved(stored)
    config = resolved(merged(stored, asked.given))
    was, now = before.to_dict(), config.to_dict()
    other = [name for name in now if was[name] != now[name] and name not in _LATER]
    if other:
        raise InvalidConfiguration(
            f"{folder.path} was begun with {other[0]}={was[other[0]]!r}, and now it is "
            f"{now[other[0]]!r}; go on with the same, or begin a run of another --name"
        )
    learnt = max((row["step"] for row in read_metrics(folder.metrics)), default=0)
    if config.steps < min(before.steps, learnt):
        raise InvalidConfiguration(
            f"{folder.path} has learnt {learnt:,.0f} steps already, and --steps {config.steps:,} "
            "would not be what it learnt; give more"
        )
    if folder.finished and config.steps <= before.steps:
        raise InvalidConfiguration(
            f"{folder.path} is finished after {before.steps:,} steps; give more with --steps"
        )
    return folder, config


def job_of(config: RunConfig, folder: RunFolder, **more: Any) -> Job:
    """The run, as its learner is told of it."""
    return Job(
        options=config.options(),
        env=config.env,
        env_keywords=config.env_keywords,
        dataset=config.dataset,
        best=config.best,
        steps=config.steps,
        device=config.device,
        checkpoint=folder.checkpoint,
        checkpoint_every=config.checkpoint_every,
        evaluation_episodes=config.evaluation.episodes,
        evaluation_keywords=config.evaluation.keywords,
        **more,
    )


def _rehearse(
    learner: Learner, job: Job, config: RunConfig, folder: RunFolder, resume: bool, say: Say
) -> None:
    """The configuration, and what would be done with it."""
    done = learner.check(job)
    say(to_yaml(config.to_dict()))
    for sentence in done:
        say(f"# {sentence}")
    begins = f"go on in {folder.path}" if resume else f"begin in {folder.path}"
    say(f"# would {begins}: {config.steps:,} {learner.unit} by {learner.name}")
    if config.evaluation.episodes:
        say(
            f"# would score it in {config.evaluation.episodes:,} conversations of the split "
            f"{config.evaluation.split}"
        )
    say("# nothing was learnt or written")


def _learn(learner: Learner, config: RunConfig, folder: RunFolder, say: Say, tell: Say) -> None:
    """Learn, save, score, report."""
    folder.reopen()
    folder.write_config(config)
    say(f"{learner.name} learns {config.steps:,} {learner.unit} in {folder.path}")
    progress = Progress(config.steps, tell)
    evaluation = config.evaluation
    judge = Judge(learner, job_of(config, folder), config)
    more: dict[str, Any] = {"callbacks": (MetricsLog(folder.metrics), progress)}
    if evaluation.every and evaluation.episodes:
        more |= {
            "evaluate_every": evaluation.every,
            "evaluators": {"validation": judge.on_validation},
        }
    try:
        with _warnings_told(tell, progress):
            policy: Trained = learner.train(job_of(config, folder, **more))
    except (KeyboardInterrupt, OSError):  # such as a disk that is full
        progress.close()
        kept = "the newest checkpoint" if folder.checkpoint.exists() else "the beginning"
        tell(f"go on from {kept} with: {folder.resuming}")
        raise
    progress.close()
    policy.save(folder.policy)
    report: dict[str, Any] = {
        "run": folder.name, "algorithm": config.algorithm, "steps": config.steps,
    }  # fmt: skip
    for name, rise in progress.risen().items():
        say(f"{name} while learning: {rise[0]:.3f} at first, {rise[1]:.3f} in the end")
    report |= judge.report(policy, say)
    folder.write_report(report)
    say(f"the policy is in {folder.policy}; talk with it: convgym evaluate --policy {folder.path}")


@contextmanager
def _warnings_told(tell: Say, progress: Progress) -> Iterator[None]:
    """What learners warn of, as one line each."""
    before = warnings.showwarning

    def shown(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(category, RuntimeWarning | UserWarning):
            progress.close()
            tell(f"warning: {message}")
        else:
            before(message, category, *where, **more)

    with warnings.catch_warnings():
        warnings.showwarning = shown
        yield


class Judge:
    """Scores policies where the run says; makes the environment when it is first needed."""

    def __init__(self, learner: Learner, job: Job, config: RunConfig) -> None:
        keywords = {**job.env_keywords, **config.evaluation.keywords}
        self._learner, self._job = learner, replace(job, env_keywords=keywords)
        self._config = config
        self._made: list[gym.Env[Any, Any] | None] = []

    def _env(self) -> gym.Env[Any, Any] | None:
        if not self._made:
            self._made.append(self._learner.environment(self._job))
        return self._made[0]

    def on_validation(self, policy: Policy) -> float:
        """Success on validation tasks, or the mean return where there is no success."""
        found = self.validation(policy)
        if found is None:
            return float("nan")
        return found.return_ if found.success is None else found.success

    def validation(self, policy: Policy) -> Score | None:
        """What it scores on validation tasks; None where there is no environment."""
        env, config = self._env(), self._config
        if env is None:
            return None
        episodes = config.evaluation.episodes
        return score(policy, env, episodes, seed=config.seed, split="validation")

    def report(self, policy: Policy, say: Say) -> dict[str, Any]:
        """The policy's score, and beside it that of random legal acts."""
        evaluation, config = self._config.evaluation, self._config
        env = self._env() if evaluation.episodes else None
        if env is None:
            if evaluation.episodes:
                say(
                    "the data have no environment: see off-policy evaluation for what it would earn"
                )
            return {}
        found: dict[str, Any] = {"split": evaluation.split}
        # A seed that no score while learning had.
        keywords: dict[str, Any] = {"seed": config.seed + 1_000_000, "split": evaluation.split}
        _, info = env.reset(seed=0)
        acting = isinstance(env.action_space, gym.spaces.Discrete)
        if acting and info.get("action_mask") is not None:
            chance = score(RandomPolicy(), env, evaluation.episodes, **keywords)
            say(str(chance))
            found["random"] = chance.to_dict()
        earned = score(policy, env, evaluation.episodes, **keywords)
        say(str(earned))
        return {**found, "score": earned.to_dict()}


class Progress:
    """Rows as they come: shown, and kept to say what has risen."""

    def __init__(self, total: int, tell: Say) -> None:
        self._bar = Bar(total, tell)
        self._rows: list[Row] = []

    def __call__(self, row: Row) -> None:
        """Say how far it is."""
        self._rows.append(row)
        names = [name for name in row if name != "step"][:_SHOWN]
        self._bar.at(row["step"], "  ".join(f"{name} {row[name]:.3g}" for name in names))

    def close(self) -> None:
        """Nothing more comes."""
        self._bar.close()

    def risen(self) -> dict[str, tuple[float, float]]:
        """First and last value of what was earned while learning."""
        found = {}
        for name in ("return", "success"):
            values = [row[name] for row in self._rows if name in row]
            if len(values) > 1:
                found[name] = (values[0], values[-1])
        return found
