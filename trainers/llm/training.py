"""Train an agent in one call.

    train("folder", "ConvGym/CustomerService-v0", num_episodes=4096)          conversations
    train("folder", ["What is 2 + 2?", …], reward_fn=…, num_episodes=512)     single turns

A thin face of `PolicyOptimizer`: the environment says how many turns there are, so that nothing
has to be chosen. What it trains and what it resumes is exactly the loop's.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym

from convgym.envs.episode_setup import is_whole
from convgym.errors import InvalidConfiguration
from trainers.callbacks import Callback
from trainers.llm.agent import Agent
from trainers.llm.language_model import LanguageModel
from trainers.llm.policy_config import PolicyOptimizerConfig
from trainers.llm.policy_optimizer import PolicyOptimizer
from trainers.llm.profiles import profile as profile_called
from trainers.llm.prompts import PromptEnvironment
from trainers.llm.text_environment import RewardFunction, TextEnvironment
from trainers.reward_watch import RewardWatch


def checkpoint_of(save_path: str | os.PathLike[str]) -> Path:
    """The run itself: a file beside the folder of the agent that it made."""
    folder = Path(save_path)
    return folder.with_name(f"{folder.name}.run")


@dataclass(frozen=True, eq=False)
class Trained:
    """What came of a run."""

    agent: Agent
    rows: list[dict[str, float]]
    """One for each iteration."""
    config: PolicyOptimizerConfig


def train(
    agent_or_model: Agent | LanguageModel | str | os.PathLike[str],
    environment: TextEnvironment | str | Callable[..., Any] | Sequence[str],
    reward_fn: RewardFunction | None = None,
    *,
    num_episodes: int = 6400,
    profile: str = "balanced",
    save_path: str | os.PathLike[str] | None = None,
    resume_from_checkpoint: str | os.PathLike[str] | None = None,
    config_overrides: Mapping[str, Any] | None = None,
    callbacks: Sequence[Callback] = (),
) -> Trained:
    """Learn from `num_episodes` conversations, rounded up to whole iterations.

    environment             a Gymnasium id, a callable that makes one, or prompts: then each is a
                            conversation of one turn, and `reward_fn` is needed
    reward_fn               of all messages and the last info, added to the environment's reward
    profile                 "conservative", "balanced", "aggressive" or "experimental"
    config_overrides        options of `PolicyOptimizerConfig`, over the profile's
    callbacks               hear rows with the numbers of `trainers.reward_watch`, which warns where
                            the reward rises without success
    save_path               a folder for the agent; the run's checkpoint is a file beside it
    resume_from_checkpoint  such a save_path, or a checkpoint: the run goes on as it would have,
                            with the model that it began with

    Raises InvalidConfiguration for a stub, which cannot learn, and for options there are not.
    """
    agent = agent_or_model if isinstance(agent_or_model, Agent) else Agent(agent_or_model)
    if agent.model is None:
        raise InvalidConfiguration(
            "a stub has no weights and cannot learn; give a folder or a name of a language model"
        )
    if save_path is not None and Path(save_path).exists() and not Path(save_path).is_dir():
        raise InvalidConfiguration(f"save_path={save_path} is no folder; name one, or a new place")
    config = _config(agent, num_episodes, profile, config_overrides)
    optimizer = PolicyOptimizer(
        agent.model,
        _environment(environment, reward_fn, agent),
        config,
        [RewardWatch(callbacks)],
    )
    if resume_from_checkpoint is not None:
        given = Path(resume_from_checkpoint)
        optimizer.restore(given if given.is_file() else checkpoint_of(given))
    rows = optimizer.train(None if save_path is None else checkpoint_of(save_path))
    if save_path is not None and optimizer.ranks.first:
        agent.save(save_path)
    optimizer.ranks.wait()
    return Trained(agent, rows, config)


def _config(
    agent: Agent, num_episodes: int, profile: str, overrides: Mapping[str, Any] | None
) -> PolicyOptimizerConfig:
    if not (is_whole(num_episodes) and num_episodes >= 1):
        raise InvalidConfiguration(f"num_episodes={num_episodes}; it is a whole number from 1")
    config = PolicyOptimizerConfig().changed(
        **{"sampling": agent.sampling, **profile_called(profile), **(overrides or {})}
    )
    if "iterations" in (overrides or {}):
        return config
    each = config.seeds_per_iteration * config.group_size
    return config.changed(iterations=math.ceil(num_episodes / each))


def _environment(
    environment: TextEnvironment | str | Callable[..., Any] | Sequence[str],
    reward_fn: RewardFunction | None,
    agent: Agent,
) -> TextEnvironment:
    if isinstance(environment, TextEnvironment):
        if reward_fn is not None:
            raise InvalidConfiguration(
                "reward_fn comes beside a TextEnvironment; give it to TextEnvironment itself"
            )
        return environment
    system = agent.system or None
    if isinstance(environment, str | gym.Env) or callable(environment):
        return TextEnvironment(environment, reward_fn, system=system)
    if reward_fn is None and isinstance(environment, Sequence):
        raise InvalidConfiguration("prompts have no rewards of their own; give a reward_fn")
    if not isinstance(environment, Sequence) or not environment:
        raise InvalidConfiguration(
            f"environment is a {type(environment).__name__}; pass an id, a callable that makes "
            "one, or a list of prompts"
        )
    prompts = list(environment)
    return TextEnvironment(lambda: PromptEnvironment(prompts), reward_fn, system=system)
