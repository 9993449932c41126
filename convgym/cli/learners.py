"""Learners by name: what the command line asks of one, and where it finds them.

    pyproject.toml   [project.entry-points."convgym.learners"]
                     cql = "trainers.entry_points:cql"
    learner_called("cql") ─► Learner ─► options, defaults, profiles     light: nothing is loaded
                                    ─► check(job), train(job)           torch and the like

Any installed package may add names to the group. Nothing of `trainers` is imported here: an entry
point is text until its learner is asked for. From a checkout the names of its own pyproject.toml
hold, whether or not it was installed since they were written.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import gymnasium as gym

from convgym.errors import ConvGymError, InvalidConfiguration
from convgym.policies.policy import Policy

GROUP = "convgym.learners"
PROFILES = ("conservative", "balanced", "aggressive", "experimental")
Row = Mapping[str, float]


class Trained(Policy, Protocol):
    """A policy that can be written to a file."""

    def save(self, path: Any) -> None:
        """Write one file, whole or not at all."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """One run, as a learner is told of it."""

    options: Any
    """An instance of `Learner.options()`."""
    env: str | None
    env_keywords: Mapping[str, Any]
    dataset: str | None
    """Id of a Minari dataset or its folder; None for who learns while playing."""
    best: float
    """Share of the recorded conversations, by return, that is learnt from."""
    steps: int
    """In all, those before an interruption included."""
    device: str
    checkpoint: Path
    """A file that is gone on from where it exists."""
    checkpoint_every: int
    evaluate_every: int = 0
    evaluators: Mapping[str, Callable[[Policy], float]] | None = None
    """By name; a learner that plays many conversations at once may score itself instead, under
    the same names."""
    evaluation_episodes: int = 0
    """Conversations of such a score."""
    evaluation_keywords: Mapping[str, Any] = field(default_factory=dict)
    """What the environment is made with in a score, over `env_keywords`."""
    callbacks: Sequence[Callable[[Row], bool | None]] = ()
    """Each hears every row, `step` among it; True stops the run."""


@runtime_checkable
class Learner(Protocol):
    """What stands behind a name in the group `convgym.learners`; importing it must be quick."""

    name: str
    summary: str
    """One line for lists."""
    extra: str
    """Of pyproject.toml, that it needs; "" for none."""
    source: Literal["env", "dataset"]
    """What it learns from."""
    unit: str
    """What a step is, in the plural."""
    profiles: Mapping[str, Mapping[str, Any]]
    """What each of `PROFILES` changes, as a run's configuration says it."""

    def options(self) -> type[Any]:
        """The dataclass of its options; raises MissingExtra."""

    def defaults(self, env: str | None, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """What a run's configuration says where nobody says otherwise; `options` were given."""

    def check(self, job: Job) -> list[str]:
        """Everything but learning: sentences about what `train` would do; raises what it would."""

    def environment(self, job: Job) -> gym.Env[Any, Any] | None:
        """Where its policy is to be scored; None for data that people made."""

    def train(self, job: Job) -> Trained:
        """Learn, from the checkpoint on where there is one."""

    def reads(self, path: Path) -> bool:
        """Whether a file is a policy of this kind, told without loading it."""

    def load(self, path: Path) -> Policy:
        """The policy in a file; raises InvalidConfiguration."""


@cache
def entries(group: str = GROUP) -> dict[str, EntryPoint]:
    """All that is there, by name; a checkout's own over installed ones."""
    found = {entry.name: entry for entry in entry_points(group=group)}
    checkout = Path(__file__).parents[2] / "pyproject.toml"
    if checkout.is_file():  # in site-packages there is none
        project = tomllib.loads(checkout.read_text("utf-8")).get("project", {})
        if project.get("name") == "convgym":
            written = project.get("entry-points", {}).get(group, {})
            found |= {name: EntryPoint(name, value, group) for name, value in written.items()}
    return dict(sorted(found.items()))


def learner_called(name: str) -> Learner:
    """The learner; raises InvalidConfiguration for a name that there is not."""
    known = entries()
    if name not in known:
        meant = get_close_matches(name, known, 1)
        hint = f"did you mean {meant[0]!r}? There" if meant else "there"
        raise InvalidConfiguration(
            f"no learner is called {name!r}; {hint} are {', '.join(known) or 'none installed'}"
        )
    try:
        found = known[name].load()
    except ConvGymError:
        raise
    except Exception as error:  # of whatever package it comes from
        raise InvalidConfiguration(
            f"the learner {name!r} cannot be loaded from {known[name].value} ({error}); "
            "reinstall the package that brings it"
        ) from error
    if not isinstance(found, Learner):
        raise InvalidConfiguration(
            f"{known[name].value} is no learner; convgym.cli.learners.Learner says what one has"
        )
    return found


def policy_in(path: Path) -> Policy:
    """The policy in a file, whoever of the learners wrote it.

    Raises InvalidConfiguration for a file that none of them reads.
    """
    if not path.is_file():
        raise InvalidConfiguration(f"there is no file {path}; give a policy's file or a run")
    for name in entries():
        learner = learner_called(name)
        if learner.reads(path):
            return learner.load(path)
    raise InvalidConfiguration(
        f"{path} is no policy of any learner here; give the policy.zip of a run"
    )
