"""Online learners as the command line finds them; torch is loaded when one is used."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import gymnasium as gym

from convgym.errors import MissingExtra
from convgym.language.archive import DAMAGE
from convgym.policies.policy import Policy
from trainers import profiles
from trainers.devices import computing_on
from trainers.reward_watch import RewardWatch

if TYPE_CHECKING:
    from convgym.cli.learners import Job

_SUMMARIES = {
    "ppo": "proximal policy optimisation; reads masks in the observation where there are any",
    "maskable_ppo": "proximal policy optimisation over the legal acts",
    "recurrent_ppo": "proximal policy optimisation with a memory",
    "dqn": "deep Q-learning while talking",
    "qr_dqn": "deep Q-learning of the returns' quantiles",
    "a2c": "advantage actor-critic, small and quick",
    "trpo": "trust-region policy optimisation",
}


class OnlineEntry:
    """One algorithm of `trainers.online.configurations`."""

    extra = "sb3"
    source: Literal["env", "dataset"] = "env"
    unit = "agent turns"

    def __init__(self, algorithm: str, make_env: Any) -> None:
        self.name = algorithm
        self.summary = _SUMMARIES[algorithm]
        self.profiles = profiles.online(algorithm)
        self._make_env = make_env

    def options(self) -> type[Any]:
        """The dataclass of its options; raises MissingExtra."""
        for package in ("stable_baselines3", "sb3_contrib"):
            if find_spec(package) is None:
                raise MissingExtra(package, "sb3")
        from trainers.online.configurations import CONFIGURATIONS

        return CONFIGURATIONS[self.name]

    def defaults(self, env: str | None, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """800,000 turns of graded conversations, as in the README."""
        keywords = {"reward": "graded"} if env is None or env.startswith("ConvGym/") else {}
        return {"steps": 800_000, "checkpoint_every": 50_000, "env_keywords": keywords}

    def check(self, job: Job) -> list[str]:
        """Sentences about what `train` would do; raises what it would."""
        from trainers.online.learner import environments_for

        with computing_on(job.device, self.extra):
            environments_for(job.options, lambda: self._make_env(job)).close()
        return [f"would talk in {job.options.n_envs} environments {job.env} side by side"]

    def environment(self, job: Job) -> gym.Env[Any, Any]:
        """One that it learns in."""
        return self._make_env(job)  # type: ignore[no-any-return]

    def train(self, job: Job) -> Any:
        """Learn, from the checkpoint on where there is one."""
        with computing_on(job.device, self.extra):
            return job.options.create(job.device).fit(
                lambda: self._make_env(job),
                job.steps,
                job.evaluators,
                job.evaluate_every,
                callbacks=[RewardWatch(job.callbacks)],
                checkpoint=job.checkpoint,
                checkpoint_every=job.checkpoint_every,
            )

    def reads(self, path: Path) -> bool:
        """Whether a file is an archive of Stable-Baselines3."""
        try:
            with zipfile.ZipFile(path) as archive:
                return {"data", "policy.pth"} <= set(archive.namelist())
        except DAMAGE:
            return False

    def load(self, path: Path) -> Policy:
        """The policy in a file, which may run code: load what you trust."""
        from trainers.online.sb3_policy import SB3Policy

        return SB3Policy.load(path)
