"""Trials of the learners that `convgym train` knows: a run each, scored on validation tasks.

    configuration + changes ─► resolved ─► learner.train ─► rows with `validation` ─► score

A trial is the run that `convgym train` would make of the same configuration, and is scored by the
same protocol; tasks of the test split are never met.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from convgym.cli.learners import Learner, Row, learner_called
from convgym.cli.run_config import RunConfig, merged, resolved
from convgym.cli.run_folder import MetricsLog, RunFolder
from convgym.cli.training import Judge, job_of
from convgym.cli.typed import dotted_options, hints_of, inner_options
from convgym.errors import InvalidConfiguration
from trainers.tuning.subjects import Changes, Heard, Scored, nested

_OF_RUNS = ("best", "steps")
"""What may be searched of a run beside its learner's options."""
GRPO = "grpo"
"""The family of language models that talk, whichever of their algorithms it is."""


def family_of(learner: Learner) -> str:
    """The named space that a learner belongs to, by what it learns from.

    Who imitates recorded conversations is "offline", a language model too.
    """
    if learner.source == "dataset":
        return "offline"
    return GRPO if learner.extra == "llm" else "online"


@dataclass(frozen=True)
class LearnerRuns:
    """Trials of one learner; `given` is a configuration as `convgym train` takes it."""

    given: Mapping[str, Any]
    metric: str = "success"
    base: RunConfig = field(init=False)

    def __post_init__(self) -> None:
        base = resolved({**self.given, "name": None})
        if not base.evaluation.episodes:
            raise InvalidConfiguration(
                "evaluation.episodes=0 scores nothing, and a search goes by scores; take 2 or more"
            )
        object.__setattr__(self, "base", base)

    @cached_property
    def learner(self) -> Learner:
        """What learns."""
        return learner_called(self.base.algorithm)

    @property
    def algorithm(self) -> str:
        """The learner's name."""
        return self.base.algorithm

    @property
    def family(self) -> str:
        """By what it learns from."""
        return family_of(self.learner)

    @property
    def steps(self) -> int:
        """Of each trial."""
        return self.base.steps

    def names(self) -> list[str]:
        """The learner's options, those of options among them, and those of a run."""
        all_of_them = dotted_options(self.learner.options(), "learner")
        own = [name for name in all_of_them if not name.endswith(".seed")]
        return own + [name for name in _OF_RUNS if name != "best" or self.family == "offline"]

    def hint(self, name: str) -> Any:
        """The type of the dataclass's field."""
        *path, last = name.split(".")
        kind: type[Any] = self.learner.options() if path else RunConfig
        for part in path[1:]:
            kind = inner_options(kind)[part]
        return hints_of(kind)[last]

    def default(self, name: str) -> Any:
        """As the configuration has it; None where it is a part of something that there is not."""
        whole: Any = self.base.to_dict()
        for part in name.split("."):
            whole = None if whole is None else whole[part]
        return whole

    def configuration(self, changes: Changes) -> dict[str, Any]:
        """Resolved, with these changes."""
        return self._config(changes).to_dict()

    def command(self, config: Path) -> str:
        """`convgym train`."""
        return f"convgym train --config {config}"

    def check(self, changes: Changes) -> None:
        """By the learner's own dataclass."""
        self._config(changes).options()

    def rehearse(self) -> list[str]:
        """What the learner says it would do."""
        job = job_of(self.base, RunFolder(Path("trial")))
        said = self.learner.check(job)
        if self.learner.environment(job) is None:
            raise InvalidConfiguration(
                "these data have no environment to score a policy in, and a search goes by scores; "
                "give env"
            )
        return said

    def run(self, changes: Changes, folder: Path, heard: Heard) -> Scored:
        """Learn and score."""
        config, place = self._config(changes), RunFolder(folder)
        judge = Judge(self.learner, job_of(config, place), config)

        def on_validation(policy: Any) -> float:
            return self._score(judge, policy).value

        def listens(row: Row) -> bool:
            found, step = self._heard_of(row), int(row["step"])
            return found is not None and step > 0 and heard(step, found)  # at 0 all are alike

        more: dict[str, Any] = {"callbacks": (MetricsLog(place.metrics), listens)}
        if config.evaluation.every:
            evaluators = {"validation": on_validation}
            more |= {"evaluate_every": config.evaluation.every, "evaluators": evaluators}
        return self._score(judge, self.learner.train(job_of(config, place, **more)))

    def _heard_of(self, row: Row) -> float | None:
        """The metric in a row; a learner that scores itself tells returns beside successes."""
        found = row.get("validation")
        return row.get("validation_return", found) if self.metric == "return" else found

    def _score(self, judge: Judge, policy: Any) -> Scored:
        found = judge.validation(policy)
        assert found is not None  # `rehearse` has seen to it
        if self.metric == "success" and found.success is not None:
            assert found.success_interval is not None
            return Scored(value=found.success, interval=found.success_interval)
        return Scored(value=found.return_, interval=found.return_interval)

    def _config(self, changes: Changes) -> RunConfig:
        return resolved(merged(self.base.to_dict(), nested(changes)))
