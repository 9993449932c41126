"""Language-model learners as the command line finds them; torch is loaded when one is used.

    grpo, gspo, …      conversations with the environment, one loop        trainers.llm.command
    llm_ppo, llm_a2c, llm_trpo       the same; the bare names are those of learners over acts

Without another word they train the model that comes with ConvGym on the conversations it knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import gymnasium as gym

from convgym.errors import ConvGymError, InvalidConfiguration, MissingExtra, told
from convgym.policies.policy import Policy
from trainers import profiles
from trainers.devices import computing_on
from trainers.llm.embedded.folder import embedded_folder
from trainers.llm.embedded.tuned import ENVIRONMENT, HELD_OUT, MODEL, TUNED, tuned

if TYPE_CHECKING:
    from convgym.cli.learners import Job

_SUMMARIES = {
    "grpo": "group-relative policy optimisation of a language model",
    "bnpo": "GRPO whose mean is over the tokens of the step",
    "dapo": "GRPO with a higher upper clip, and groups of one reward drawn anew",
    "dr_grpo": "GRPO without the division by the group's spread and by lengths",
    "gspo": "GRPO with ratios of whole conversations",
    "gspo_token": "GSPO with an advantage for every turn",
    "gepo": "GRPO with ratios to the group's expected probability",
    "cispo": "capped importance weights, so that every token keeps its gradient",
    "rloo": "the group's other conversations as baseline",
    "reinforce++": "no groups, advantages whitened over the batch",
    "ppo": "proximal policy optimisation of a language model, with a critic",
    "vapo": "PPO with a λ by length and the likelihood of good conversations",
    "a2c": "advantage actor-critic of a language model, one step on fresh conversations",
    "trpo": "trust-region steps of a language model on GRPO's objective",
}
_DESKS = ("ConvGym/CustomerService-v0", "ConvGym/TechnicalSupport-v0", "ConvGym/Sales-v0")
_NEEDED = ("torch", "transformers")


def need_packages(extra: str) -> None:
    """Raises MissingExtra where one of them is not installed."""
    for package in _NEEDED:
        try:
            found = find_spec(package) is not None
        except ValueError:  # it is blocked, or half imported
            found = False
        if not found:
            raise MissingExtra(package, extra)


class LanguageEntry:
    """One algorithm of `trainers.llm.run_options.OPTIONS`."""

    extra = "llm"
    source: Literal["env", "dataset"] = "env"
    unit = "iterations"

    def __init__(self, algorithm: str, name: str | None = None) -> None:
        self.algorithm, self.name = algorithm, name or algorithm
        self.summary = _SUMMARIES[algorithm]
        self.profiles = profiles.language(algorithm)

    def options(self) -> type[Any]:
        """The dataclass of its options; raises MissingExtra."""
        need_packages(self.extra)
        from trainers.llm.run_options import OPTIONS

        return OPTIONS[self.algorithm]

    def defaults(self, env: str | None, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """The numbers of scripts/train_grpo.py for the embedded model; the loop's for others."""
        found: dict[str, Any] = {
            "steps": TUNED["iterations"], "checkpoint_every": 10, "evaluation": {"every": 20},
        }  # fmt: skip
        return found | places(env) | self._learner(options)

    def _learner(self, options: Mapping[str, Any]) -> dict[str, Any]:
        if options.get("model", MODEL) == MODEL:
            return {"learner": tuned(self.algorithm)}
        # What makes the algorithm what it is, whatever the model.
        return {"learner": {"trust_region": {}}} if self.algorithm == "trpo" else {}

    def check(self, job: Job) -> list[str]:
        """Sentences about what `train` would do; raises what it would."""
        from trainers.llm.command import text_environment

        with computing_on(job.device, self.extra):
            pass
        config = job.options.config(iterations=job.steps)
        text_environment(job).close()
        check_model(job.options, config.sampling.max_context)
        each = config.seeds_per_iteration * config.group_size
        return [
            f"would let the model {job.options.model} talk in {job.env}: {each} conversations an "
            f"iteration, {config.group_size} of each task",
            *strangers(job),
        ]

    def environment(self, job: Job) -> gym.Env[Any, Any]:
        """One that it learns in."""
        from trainers.llm.command import make_env

        return make_env(str(job.env), job.env_keywords)

    def train(self, job: Job) -> Any:
        """Learn, from the checkpoint on where there is one."""
        from trainers.llm.command import optimize

        with computing_on(job.device, self.extra):
            return optimize(job)

    def reads(self, path: Path) -> bool:
        """Whether a file is a language model's policy."""
        return is_policy(path)

    def load(self, path: Path) -> Policy:
        """The policy in a file."""
        need_packages(self.extra)
        from trainers.llm.language_policy import LanguagePolicy

        return LanguagePolicy.load(path)


def places(env: str | None) -> dict[str, Any]:
    """Where a language model learns and is scored where nobody says otherwise."""
    found: dict[str, Any] = {} if env else {"env": ENVIRONMENT}
    if env in (None, ENVIRONMENT):
        found["env_keywords"] = {"topic": "status", "difficulty": 0.2, "reward": "graded"}
    elif env in _DESKS:
        found["env_keywords"] = {
            "observation": "dict", "action": "text", "difficulty": 0.2, "reward": "graded",
        }  # fmt: skip
    if env in (None, ENVIRONMENT, *_DESKS):
        words = {"keywords": {"phrases": HELD_OUT["phrases"]}}
        found["evaluation"] = {"every": 20, **words}
    return found


def strangers(job: Job) -> list[str]:
    """A sentence where the embedded model is to speak for somebody it has never heard of."""
    if job.options.model != MODEL or job.env == ENVIRONMENT:
        return []
    return [
        f"the embedded model has learnt to speak in {ENVIRONMENT} only; in {job.env} it begins "
        "as one that knows few of the words, and learner.model names another"
    ]


def check_model(options: Any, max_context: int) -> None:
    """Raises InvalidConfiguration where a folder holds no model, or none that reads so much."""
    place = embedded_folder() if options.model == MODEL else Path(options.model)
    if options.lora is not None and find_spec("peft") is None:
        raise MissingExtra("peft", "llm")
    if not place.is_dir():
        if place.is_absolute() or options.model[0] in ".~" or options.model.count("/") > 1:
            raise InvalidConfiguration(
                f"there is no model in {options.model}; give a folder as transformers writes it, "
                f"a name of the hub, or {MODEL}"
            )
        return  # a name of the hub, which is asked when it is needed
    if (place / "adapter_config.json").is_file():
        return
    from transformers import AutoConfig

    try:
        reads = getattr(AutoConfig.from_pretrained(place), "max_position_embeddings", None)
    except (OSError, ValueError) as error:
        raise InvalidConfiguration(
            f"{options.model} holds no language model: {told(error)}"
        ) from error
    if reads is not None and max_context > reads:
        raise InvalidConfiguration(
            f"learner.sampling.max_context={max_context}, and {options.model} reads {reads} tokens "
            "at most; lower it"
        )


def is_policy(path: Path) -> bool:
    """Whether a file is a language model's policy, told without torch."""
    from trainers.llm.policy_file import about_policy

    try:
        about_policy(path)
    except ConvGymError:
        return False
    return True
