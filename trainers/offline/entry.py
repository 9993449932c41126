"""Offline learners over acts as the command line finds them; torch is loaded when one is used."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import gymnasium as gym

from convgym.errors import InvalidConfiguration
from convgym.language.archive import DAMAGE, opened
from convgym.policies.policy import Policy
from trainers import profiles
from trainers.devices import computing_on, torch_module

if TYPE_CHECKING:
    from convgym.cli.learners import Job
    from trainers.offline.config import Shapes

_SUMMARIES = {
    "bc": "behavioural cloning: does as the data did",
    "bcq": "batch-constrained Q-learning: values of acts that the data show",
    "bear": "Q-learning kept near the data by a distance of distributions",
    "cql": "conservative Q-learning, tuned on ConvGym's own conversations",
    "candidate_cql": "conservative Q-learning over vectors of candidate replies",
    "decision_transformer": "predicts acts from the return that is asked for",
    "dqn": "double Q-learning without a conservative term",
    "iql": "implicit Q-learning: never asks for values of acts beyond the data",
    "mc": "returns of the data as values, then the best act that the data show",
}


class OfflineEntry:
    """One algorithm of `trainers.offline.registry.ACTS`."""

    extra = "offline"
    source: Literal["env", "dataset"] = "dataset"
    unit = "updates"

    def __init__(self, algorithm: str, name: str | None = None) -> None:
        self.algorithm, self.name = algorithm, name or algorithm
        self.summary = _SUMMARIES[algorithm]
        self.profiles = profiles.offline(algorithm)

    def options(self) -> type[Any]:
        """The dataclass of its options; raises MissingExtra."""
        torch_module(self.extra)
        from trainers.offline.registry import config_of

        return config_of(self.algorithm, discrete=True)

    def defaults(self, env: str | None, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Options found on validation tasks of all three domains."""
        torch_module(self.extra)
        from trainers.offline.tuned import STEPS, tuned

        if self.algorithm == "decision_transformer":  # most of what is tuned it does not read
            return {"steps": STEPS, "checkpoint_every": 500, "learner": {"discount": 0.98}}
        chosen = tuned(self.algorithm).to_dict()
        own = {name: value for name, value in chosen.items() if name not in ("config", "seed")}
        return {"steps": STEPS, "checkpoint_every": 500, "learner": own}

    def check(self, job: Job) -> list[str]:
        """Sentences about what `train` would do; raises what it would."""
        from convgym.data.loading import packaged_ids
        from convgym.data.recipes import recipe_ids
        from trainers.offline.stored_data import open_dataset

        with computing_on(job.device, self.extra):
            pass  # or there would be no use in looking at the data
        assert job.dataset is not None
        where = _local(job.dataset)
        if where is None and job.dataset in (*packaged_ids(), *recipe_ids()):
            return [f"would get the dataset {job.dataset}, which is not in Minari's local root yet"]
        dataset = open_dataset(job.dataset)  # raises where there is none
        self._shapes(dataset)
        return [
            f"would learn from {dataset.total_episodes:,} conversations with "
            f"{dataset.total_steps:,} turns of {job.dataset}"
        ]

    def environment(self, job: Job) -> gym.Env[Any, Any] | None:
        """The named environment, or the one that the data say."""
        from trainers.offline.environments import Flat, Masked, make_env
        from trainers.offline.stored_data import open_dataset

        if job.env is not None:
            return Flat(make_env(job.env, job.env_keywords))
        assert job.dataset is not None
        dataset = open_dataset(job.dataset)
        if dataset.env_spec is None:
            return None
        return Flat(Masked(dataset.recover_environment(eval_env=True, **job.env_keywords)))

    def train(self, job: Job) -> Any:
        """Learn, from the checkpoint on where there is one."""
        from trainers.offline.stored_data import chosen, open_dataset, read_source

        assert job.dataset is not None
        dataset = open_dataset(job.dataset)
        with computing_on(job.device, self.extra):
            return job.options.create(job.device).fit(
                chosen(read_source(dataset, job.options.discount), best=job.best),
                job.steps,
                job.evaluators,
                shapes=self._shapes(dataset),
                evaluate_every=job.evaluate_every,
                report_every=max(1, min(500, job.steps // 20)),
                callbacks=job.callbacks,
                checkpoint=job.checkpoint,
                checkpoint_every=job.checkpoint_every,
            )

    def _shapes(self, dataset: Any) -> Shapes:
        """What networks must fit; raises InvalidConfiguration for data that are not of acts."""
        from trainers.offline.config import Shapes
        from trainers.offline.environments import flat_size

        actions = dataset.action_space
        if not isinstance(actions, gym.spaces.Discrete):
            raise InvalidConfiguration(
                f"the dataset's actions are {actions}, and {self.name} chooses among acts; take a "
                "dataset of acts, or scripts/train_offline.py for vectors"
            )
        candidates = self._candidates(dataset) if self.algorithm == "candidate_cql" else None
        return Shapes(
            flat_size(dataset.observation_space), int(actions.n), True, candidates=candidates
        )

    def _candidates(self, dataset: Any) -> Any:
        """The vector of each act's candidate reply.  (acts, dim)"""
        if dataset.env_spec is not None and dataset.env_spec.id.startswith("ConvGym/"):
            env = gym.make(dataset.env_spec.id, observation="features", action="embedding")
            return env.unwrapped.candidate_vectors.copy()  # type: ignore[attr-defined]
        raise InvalidConfiguration(
            "candidate_cql knows acts by the vectors of their candidate replies, which this "
            "dataset's environment has not; take cql"
        )

    def reads(self, path: Path) -> bool:
        """Whether a file is a policy of an offline learner."""
        try:
            with opened(path) as archive:
                written = str(json.loads(archive.read("about.json"))["format"])
        except DAMAGE:
            return False
        return written.startswith("convgym") and "tabular" not in written

    def load(self, path: Path) -> Policy:
        """The policy in a file."""
        from trainers.offline.saved_policies import load_policy

        return load_policy(path)


def _local(dataset: str) -> Path | None:
    """Where a dataset lies, if it is on this machine."""
    from convgym.data.local_root import local_path

    if (Path(dataset) / "data").is_dir():
        return Path(dataset)
    place = local_path(dataset)
    return place if (place / "data").exists() else None
