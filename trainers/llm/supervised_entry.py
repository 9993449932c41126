"""SFT and DPO as the command line finds them; torch is loaded when one is used."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import gymnasium as gym

from convgym.policies.policy import Policy
from trainers import profiles
from trainers.devices import computing_on
from trainers.llm.embedded.tuned import MAX_TURNS, MODEL, SAMPLING
from trainers.llm.entry import check_model, is_policy, need_packages, places, strangers

if TYPE_CHECKING:
    from convgym.cli.learners import Job

_TEXTS = {
    "ConvGym/CustomerService-v0": "convgym/customer-service-text/expert-v0",
    "ConvGym/TechnicalSupport-v0": "convgym/technical-support-text/expert-v0",
    "ConvGym/Sales-v0": "convgym/sales-text/expert-v0",
}
"""Of each environment its recorded conversations in words."""


class SFTEntry:
    """Supervised fine-tuning on recorded conversations."""

    name, extra, unit = "sft", "llm", "updates"
    source: Literal["env", "dataset"] = "dataset"
    summary = "a language model imitates recorded conversations, or the best of them"
    profiles = profiles.supervised()

    def options(self) -> type[Any]:
        """The dataclass of its options; raises MissingExtra."""
        need_packages(self.extra)
        from trainers.llm.supervised_options import SFTOptions

        return SFTOptions

    def defaults(self, env: str | None, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """The oracle's conversations in words, as messages."""
        found: dict[str, Any] = {
            "steps": 300, "checkpoint_every": 50,
            "env_keywords": {"observation": "message", "action": "text"},
            "dataset": _TEXTS.get(env or "ConvGym/CustomerService-v0"),
        }  # fmt: skip
        own = options.get("model", MODEL) == MODEL
        return found | (
            {"learner": {"system": ""}} if own else {"learner": {"learning_rate": 1e-5}}
        )

    def check(self, job: Job) -> list[str]:
        """Sentences about what `train` would do; raises what it would."""
        from convgym.data.loading import packaged_ids
        from convgym.data.local_root import local_path
        from convgym.data.recipes import recipe_ids
        from trainers.llm.supervised_command import open_texts

        with computing_on(job.device, self.extra):
            pass
        job.options.config(job.best)
        check_model(job.options, job.options.sampling.max_context)
        source = str(job.dataset)
        known = source in (*packaged_ids(), *recipe_ids())
        if known and not (local_path(source) / "data").exists():
            return [f"would get the dataset {source}, which is not in Minari's local root yet"]
        dataset = open_texts(source)
        return [
            f"would learn from {dataset.total_episodes:,} conversations with "
            f"{dataset.total_steps:,} turns of {source}"
        ]

    def environment(self, job: Job) -> gym.Env[Any, Any] | None:
        """The named environment, or the one that the data say."""
        from trainers.llm.command import make_env
        from trainers.llm.supervised_command import open_texts

        if job.env is not None:
            return make_env(job.env, job.env_keywords)
        dataset = open_texts(str(job.dataset))
        if dataset.env_spec is None:
            return None
        return dataset.recover_environment(eval_env=True, **job.env_keywords)

    def train(self, job: Job) -> Any:
        """Learn, from the checkpoint on where there is one."""
        from trainers.llm.supervised_command import imitate

        with computing_on(job.device, self.extra):
            return imitate(job)

    def reads(self, path: Path) -> bool:
        """Whether a file is a language model's policy."""
        return is_policy(path)

    def load(self, path: Path) -> Policy:
        """The policy in a file."""
        need_packages(self.extra)
        from trainers.llm.language_policy import LanguagePolicy

        return LanguagePolicy.load(path)


class DPOEntry(SFTEntry):
    """Direct preference optimisation on the model's own conversations."""

    name = "dpo"
    source: Literal["env", "dataset"] = "env"
    summary = "a language model prefers those of its own conversations that earned more"
    profiles = profiles.preferring()

    def options(self) -> type[Any]:
        """The dataclass of its options; raises MissingExtra."""
        need_packages(self.extra)
        from trainers.llm.supervised_options import DPOOptions

        return DPOOptions

    def defaults(self, env: str | None, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Numbers for the embedded model; of others the class's own."""
        found: dict[str, Any] = {"steps": 150, "checkpoint_every": 25, **places(env)}
        if "evaluation" in found:
            found["evaluation"] = {**found["evaluation"], "every": 0}
        if options.get("model", MODEL) == MODEL:
            found["learner"] = {
                "learning_rate": 3e-4, "warmup": 10, "imitation": 0.2, "system": "",
                "sampling": dict(SAMPLING), "max_turns": MAX_TURNS,
            }  # fmt: skip
        return found

    def check(self, job: Job) -> list[str]:
        """Sentences about what `train` would do; raises what it would."""
        from trainers.llm.command import text_environment

        with computing_on(job.device, self.extra):
            pass
        options = job.options
        text_environment(job).close()
        check_model(options, options.sampling.max_context)
        return [
            f"would let the model {options.model} talk in {job.env}, {options.tasks} times "
            f"{options.group_size} conversations, and learn from pairs of them",
            *strangers(job),
        ]

    def environment(self, job: Job) -> gym.Env[Any, Any] | None:
        """One that it talks in."""
        from trainers.llm.command import make_env

        return make_env(str(job.env), job.env_keywords)

    def train(self, job: Job) -> Any:
        """Learn, from the checkpoint on where there is one."""
        from trainers.llm.supervised_command import prefer

        with computing_on(job.device, self.extra):
            return prefer(job)
