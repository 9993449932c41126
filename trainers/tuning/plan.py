"""What a search is, as it is written down before its first trial.

Plan ─► <folder>/search.yaml ─► --resume reads it, and refuses one that is another search
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from convgym.cli.learners import learner_called
from convgym.cli.run_config import TASKS, merged
from convgym.cli.typed import check_known
from convgym.cli.yaml_text import plain, read_yaml, to_yaml
from convgym.data.packed_files import whole_file
from convgym.envs.episode_setup import is_whole
from convgym.errors import InvalidConfiguration, told
from trainers.tuning.learner_runs import GRPO, LearnerRuns, family_of
from trainers.tuning.ranges import Range
from trainers.tuning.spaces import Space, space_for
from trainers.tuning.subjects import METRICS, Subject

PRUNERS = ("median", "hyperband", "none")
SAMPLERS = ("tpe", "random")
TRIALS = 20
"""Of a search, where nobody says how many."""
_SCORES = 5
"""Of a trial while it learns, where nobody says how often."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A search; the same plan and one worker make the same trials."""

    given: Mapping[str, Any]
    """What is changed in each trial: a configuration as `convgym train` takes it."""
    space: Mapping[str, Mapping[str, Any]]
    """The ranges, by the full names of the options."""
    space_name: str
    """What the space was called, or "own"."""
    metric: str = "success"
    """success or return, on validation tasks; the return where an environment has no success."""
    pruner: str = "median"
    """median, hyperband or none: when a trial is given up before its end."""
    sampler: str = "tpe"
    """tpe, or random."""
    seed: int = 0
    """Of what is drawn, and of every trial's learner."""
    trials: int = TRIALS
    """In all; a search may be given more, and is the same one."""

    def __post_init__(self) -> None:
        if not (is_whole(self.trials) and self.trials >= 1):
            raise InvalidConfiguration(f"trials={self.trials!r}; it is a number from 1")
        for name, known in (("metric", METRICS), ("pruner", PRUNERS), ("sampler", SAMPLERS)):
            if getattr(self, name) not in known:
                raise InvalidConfiguration(
                    f"{name}={getattr(self, name)!r}; it is one of {', '.join(known)}"
                )

    def subject(self) -> Subject:
        """What is searched."""
        return LearnerRuns(self.given, self.metric)

    def ranges(self) -> Space:
        """The space itself."""
        subject = self.subject()
        return {name: Range.of(one, subject.hint(name), name) for name, one in self.space.items()}

    @property
    def every(self) -> int:
        """Steps between two scores while a trial learns."""
        return int(self.given.get("evaluation", {}).get("every", 0))

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {one.name: plain(getattr(self, one.name)) for one in fields(self)}

    def write(self, path: Path) -> None:
        """Whole or not at all."""
        with whole_file(path) as file:
            file.write(to_yaml(self.to_dict()).encode())

    @classmethod
    def read(cls, path: Path) -> Plan:
        """What `write` wrote; raises InvalidConfiguration for anything else."""
        stored = read_yaml(path)
        check_known(stored, [one.name for one in fields(cls)])
        try:
            return cls(**stored)
        except TypeError as error:
            raise InvalidConfiguration(f"{path} is no search: {told(error)}") from None


def planned(
    given: Mapping[str, Any],
    space: str | Path | Mapping[str, Any] | None,
    *,
    metric: str,
    pruner: str,
    sampler: str,
    trials: int = TRIALS,
) -> Plan:
    """The plan of a search for what is given, complete; raises InvalidConfiguration."""
    given = _in_domain(given, space)
    evaluation = dict(given.get("evaluation") or {})
    if pruner != "none":
        evaluation = {"every": max(1, LearnerRuns(given, metric).steps // _SCORES), **evaluation}
    whole = merged(given, {"evaluation": evaluation})
    subject = LearnerRuns(whole, metric)
    found = space_for(space, subject)
    named = space if isinstance(space, str) else subject.family if space is None else "own"
    kept = subject.configuration({})
    return Plan(
        given={name: value for name, value in kept.items() if name != "name"},
        space={name: one.to_dict() for name, one in found.items()},
        space_name=named,
        metric=metric,
        pruner=pruner,
        sampler=sampler,
        seed=int(kept["seed"]),
        trials=trials,
    )


def _in_domain(given: Mapping[str, Any], space: Any) -> Mapping[str, Any]:
    """A domain's space is for its environment, and says so where nobody else does."""
    domain = space.replace("-", "_") if isinstance(space, str) else ""
    if domain not in TASKS:
        return given
    algorithm = given.get("algorithm")
    if isinstance(algorithm, str) and family_of(learner_called(algorithm)) == GRPO:
        raise InvalidConfiguration(
            f"the search space {domain!r} says how far discounts and returns reach, which "
            f"{algorithm} has no options for; take grpo, full, conservative or aggressive"
        )
    env, dataset = TASKS[domain]
    if given.get("env") not in (None, env) or (
        given.get("env") is None and given.get("dataset") not in (None, dataset)
    ):
        other = given.get("env") or given.get("dataset")
        raise InvalidConfiguration(
            f"the search space {domain!r} is for {env}, and the run is in {other}; take that "
            "domain's space, or the learner's family"
        )
    return {**given, "env": env}
