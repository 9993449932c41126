"""A run of the command line by a language-model learner: its model, its environment, its loop.

    Job ─► text_environment ─► PolicyOptimizer ─► rows, checkpoint ─► LanguagePolicy
                                   └─ held-out conversations: the same, on the validation split

Rows have the names that all learners' rows have: `return`, `return_std`, `success`, `length` in
agent turns, `validation`; the others are the loop's own.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from convgym.errors import ConvGymError, InvalidConfiguration
from trainers.callbacks import Callback, Row
from trainers.llm.embedded.folder import embedded_folder
from trainers.llm.embedded.tuned import ENVIRONMENT, MODEL
from trainers.llm.language_model import LanguageModel
from trainers.llm.language_policy import LanguagePolicy, quietly
from trainers.llm.policy_engine import collector_of
from trainers.llm.policy_optimizer import PolicyOptimizer
from trainers.llm.run_options import LanguageOptions, ModelOptions
from trainers.llm.text_environment import TextEnvironment
from trainers.reward_watch import RewardWatch

if TYPE_CHECKING:
    from convgym.cli.learners import Job

_FIRST = ("step", "return", "success", "length", "validation", "loss", "entropy", "kl")
"""Columns that stand first, for who has room for few."""
_NAMED = {
    "reward_mean": "return",
    "reward_std": "return_std",
    "turns_mean": "length",
    "evaluation_success": "validation",
    "evaluation_reward": "validation_return",
}


def make_env(env_id: str, keywords: Mapping[str, Any]) -> gym.Env[Any, Any]:
    """The environment; raises InvalidConfiguration where Gymnasium cannot make it."""
    try:
        return gym.make(env_id, disable_env_checker=True, **keywords)
    except ConvGymError:
        raise
    except (gym.error.Error, ImportError, TypeError, ValueError) as error:
        what = str(error).partition(" was raised from")[0].rstrip(".")
        raise InvalidConfiguration(
            f"{env_id!r} cannot be made with {dict(keywords)} ({what}); a language model learns in "
            f"any environment of texts, such as {ENVIRONMENT}"
        ) from None


def text_environment(job: Job, changes: Mapping[str, Any] | None = None) -> TextEnvironment:
    """The job's environment as messages, with other keywords where `changes` say so.

    Raises InvalidConfiguration where it cannot be made, or is none of texts.
    """
    assert job.env is not None
    env_id, keywords = job.env, {**job.env_keywords, **(changes or {})}
    return TextEnvironment(lambda: make_env(env_id, keywords), system=job.options.system)


def held_out(job: Job) -> TextEnvironment:
    """Whom the model is scored on while it learns: people of the validation split, if there are."""
    whole = make_env(str(job.env), job.env_keywords)
    split = {"split": "validation"} if hasattr(whole.unwrapped, "draws_tasks") else {}
    whole.close()
    return text_environment(job, {**split, **job.evaluation_keywords})


def loaded(options: ModelOptions, device: str) -> LanguageModel:
    """The model of the options; raises InvalidConfiguration where there is none."""
    with quietly():
        return LanguageModel.load(
            embedded_folder() if options.model == MODEL else options.model,
            dtype=options.dtype,
            device=device,
            lora=options.lora,
        )


def policy_of(model: LanguageModel, job: Job, environment: TextEnvironment) -> LanguagePolicy:
    """The model as it is now, as a policy of the job's environment."""
    options = job.options
    prompt = environment.prompt() if options.system is None else ""
    return LanguagePolicy(
        model, options.sampling, system=options.system, prompt=prompt, origin=options.model
    )


def optimize(job: Job) -> LanguagePolicy:
    """Learn by conversations, from the checkpoint on where there is one."""
    options: LanguageOptions = job.options
    model, environment = loaded(options, job.device), text_environment(job)
    config = options.config(
        iterations=job.steps,
        save_every=job.checkpoint_every,
        evaluate_every=job.evaluate_every,
        evaluation_episodes=max(1, job.evaluation_episodes),
    )
    told = RewardWatch([named(job.callbacks)], tell=_told)
    evaluation = collector_of(held_out(job), model, config) if job.evaluate_every else None
    run = PolicyOptimizer(model, environment, config, [told], evaluation=evaluation)
    if job.evaluate_every:  # where it began, also for a run that goes on: the watch compares
        told({"step": 0.0, **run.evaluate()})
    if job.checkpoint.is_file():
        run.restore(job.checkpoint)
    run.train(job.checkpoint)
    if run.stopped:
        _told(f"the run ended early: {run.stopped}")
    return policy_of(model, job, environment)


def named(callbacks: Sequence[Callback]) -> Callable[[Row], bool]:
    """One callback that tells others a row in the names that all learners have."""

    def tell(row: Row) -> bool:
        known = {_NAMED.get(name, name): value for name, value in row.items()}
        first = {name: known[name] for name in _FIRST if name in known}
        return any([callback({**first, **known}) is True for callback in callbacks])

    return tell


def _told(sentence: str) -> None:
    warnings.warn(sentence, RuntimeWarning, stacklevel=3)
