"""All that the evaluation kit says of one policy, as one object, JSON and a page of Markdown.

    assess(policy, Plan(…))
       ├─ runs        n tasks × k customers × m times            repeated
       ├─ success     with standard error and interval           intervals, bootstrap
       ├─ pass^k      over customers, and over one's own runs    pass_k
       ├─ variance    task, user, agent                          variance
       ├─ slices      by trait; worst decile; worst slice        slices
       └─ personas    the same tasks with each built-in persona  repeated, once a task
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from convgym.crew.crew import Backend, Crew
from convgym.errors import InvalidConfiguration
from convgym.evaluation.assessment_tables import tables
from convgym.evaluation.bootstrap import RESAMPLES, TaskBootstrap, share
from convgym.evaluation.intervals import NORMAL, Estimate, mean_interval, standard_error
from convgym.evaluation.pass_k import agent_pass_k, user_pass_k
from convgym.evaluation.repeated import (
    Plan,
    RepeatedEvaluation,
    crew_for,
    evaluate_repeatedly,
)
from convgym.evaluation.shares import Source
from convgym.evaluation.slices import (
    TraitSlices,
    WorstDecile,
    WorstSlice,
    trait_slices,
    worst_decile,
    worst_slice,
)
from convgym.evaluation.variance import VarianceSplit, crossed, nested
from convgym.policies.policy import Policy
from convgym.users.persona import BUILT_IN


@dataclass(frozen=True, kw_only=True)
class Assessment:
    """What a policy scored, how surely, and with whom it fails."""

    policy: str
    plan: dict[str, Any]
    shape: tuple[int, int, int]
    """Tasks, users, agents."""
    success: Estimate
    standard_error: float
    """Of `success`, over tasks; 0.015 is 1.5 points."""
    return_: Estimate
    turns: float
    """Mean agent turns."""
    pass_k: tuple[Estimate, ...]
    """pass^1 … pass^users, over customers."""
    agent_pass_k: tuple[Estimate, ...]
    """pass^1 … pass^agents, over the runs with one customer."""
    variance: VarianceSplit
    traits: tuple[TraitSlices, ...]
    """Empty where the environment hides personas, or all customers are alike."""
    personas: dict[str, Estimate]
    """Success with each built-in persona that was asked for."""
    worst_decile: WorstDecile | None
    """None where each task was played with one customer."""
    worst_slice: WorstSlice | None
    failures: dict[str, int]
    """Failed runs by the beginning of `failure_reason`, most frequent first."""
    notes: tuple[str, ...]
    """What is missing or must be read with care, and why."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "policy": self.policy,
            "plan": self.plan,
            "shape": list(self.shape),
            "success": self.success.to_dict(),
            "standard_error": self.standard_error,
            "return": self.return_.to_dict(),
            "turns": self.turns,
            "pass_k": [estimate.to_dict() for estimate in self.pass_k],
            "agent_pass_k": [estimate.to_dict() for estimate in self.agent_pass_k],
            "variance": self.variance.to_dict(),
            "traits": [trait.to_dict() for trait in self.traits],
            "personas": {name: found.to_dict() for name, found in self.personas.items()},
            "worst_decile": None if self.worst_decile is None else self.worst_decile.to_dict(),
            "worst_slice": None if self.worst_slice is None else self.worst_slice.to_dict(),
            "failures": dict(self.failures),
            "notes": list(self.notes),
        }

    def summary(self) -> str:
        """One line: success with its standard error and interval."""
        tasks, users, agents = self.shape
        return (
            f"{self.policy} in {self.plan['env_id']}: success {self.success}, standard error "
            f"{100 * self.standard_error:.2f} points, {tasks} tasks × {users} users × {agents} "
            f"agents, {self.turns:.1f} turns"
        )

    def to_markdown(self) -> str:
        """A page with a table for each part."""
        lines = [f"# {self.policy}", "", self.summary()]
        for table in tables(self):
            lines += table.markdown()
        if self.notes:
            lines += ["", *(f"- {note}" for note in self.notes)]
        return "\n".join([*lines, ""])


def assess(
    policy: Policy,
    plan: Plan,
    *,
    personas: Sequence[str] = tuple(BUILT_IN),
    workers: int = 1,
    backend: Backend = "local",
    source: Source | None = None,
    resamples: int = RESAMPLES,
    progress: Callable[[str, int], None] | None = None,
) -> Assessment:
    """Play the plan, and its tasks once more with each of `personas`, and say what came out.

    `progress` hears what is being played and how many of its tasks are done; workers, backend and
    source are those of `evaluate_repeatedly`. Raises InvalidConfiguration as `Plan` and
    `play_personas` do.
    """
    heard = None if progress is None else partial(progress, "drawn")
    with crew_for(policy, workers, backend, source) as crew:
        played = evaluate_repeatedly(policy, plan, crew=crew, progress=heard)
        met = play_personas(policy, plan, personas, crew=crew, progress=progress)
    return assessment_of(played, met, resamples=resamples)


def play_personas(
    policy: Policy,
    plan: Plan,
    personas: Sequence[str] = tuple(BUILT_IN),
    *,
    workers: int = 1,
    crew: Crew | None = None,
    progress: Callable[[str, int], None] | None = None,
) -> dict[str, RepeatedEvaluation]:
    """The plan's tasks with each of these built-in personas, once a task.

    None is played where the plan's options fix a persona. Raises InvalidConfiguration for a name
    that no built-in persona has.
    """
    check_personas(personas)
    met = {}
    for name in () if "persona" in plan.options else personas:
        alone = replace(plan, users=1, agents=1, options={**plan.options, "persona": name})
        heard = None if progress is None else partial(progress, name)
        met[name] = evaluate_repeatedly(
            policy, alone, workers=workers, crew=crew, progress=heard
        )
    return met


def check_personas(names: Sequence[str]) -> None:
    """Raises InvalidConfiguration for a name that no built-in persona has."""
    unknown = [name for name in names if name not in BUILT_IN]
    if unknown:
        raise InvalidConfiguration(
            f"no built-in persona is called {unknown[0]!r}; there are {', '.join(BUILT_IN)}"
        )


def assessment_of(
    played: RepeatedEvaluation,
    personas: Mapping[str, RepeatedEvaluation] | None = None,
    *,
    resamples: int = RESAMPLES,
) -> Assessment:
    """What runs that have been played say; the bootstrap's draws follow the plan's seed."""
    success, levels, shape = played.success, played.personas, played.shape
    bootstrap = TaskBootstrap(shape[0], played.plan.seed, resamples)
    returns = played.returns.mean(axis=(1, 2)).tolist()
    several = levels is not None and len(np.unique(levels.reshape(-1, levels.shape[2]), axis=0)) > 1
    shared = played.plan.shared_users and shape[1] > 1
    reasons = Counter(
        run.failure_reason.partition(":")[0] for run in played.runs if not run.success
    )
    return Assessment(
        policy=played.policy,
        plan=played.plan.to_dict(),
        shape=shape,
        success=_success(played, bootstrap),
        standard_error=standard_error(success.mean(axis=(1, 2)).tolist()),
        return_=Estimate(float(np.mean(returns)), *mean_interval(returns), NORMAL),
        turns=float(np.mean([run.turns for run in played.runs])),
        pass_k=user_pass_k(success, bootstrap),
        agent_pass_k=agent_pass_k(success, bootstrap),
        variance=crossed(success) if shared else nested(success, bootstrap),
        traits=trait_slices(success, levels, bootstrap) if several and levels is not None else (),
        personas={
            name: _success(met, bootstrap) for name, met in (personas or {}).items()
        },
        worst_decile=worst_decile(success, played.task_ids, bootstrap) if shape[1] > 1 else None,
        worst_slice=worst_slice(success, levels, bootstrap)
        if several and levels is not None
        else None,
        failures=dict(sorted(reasons.items(), key=lambda item: (-item[1], item[0]))),
        notes=_notes(shape, levels is not None, several, shared),
    )


def _success(played: RepeatedEvaluation, bootstrap: TaskBootstrap) -> Estimate:
    """Wilson where each task was played once, else by redrawing tasks."""
    tasks, users, agents = played.shape
    won = played.success.sum(axis=(1, 2)).astype(np.float64)
    return share(won, np.full(tasks, float(users * agents)), bootstrap)


def _notes(
    shape: tuple[int, int, int], known: bool, several: bool, shared: bool
) -> tuple[str, ...]:
    _, users, agents = shape
    notes = []
    if users == 1:
        notes.append("One customer a task: no pass^k above 1, no worst decile.")
    if agents == 1:
        notes.append(
            "One run with each customer: the agent's own chance is not told apart from the user's."
        )
    if not known:
        notes.append("The environment does not show personas; there are no slices by trait.")
    elif not several:
        notes.append("All customers have one persona; there are no slices by trait.")
    if shared:
        notes.append(
            "All tasks share these customers: intervals hold for these customers, and parts of "
            "the variance have none."
        )
    return tuple(notes)
