"""Planned episodes, played by one worker or by many; the rollouts in the order of the plans.

    plans  0 1 2 3 4 5 …  ─► shares ─► each worker: its environment, its policy, `play` ─► rollouts

An episode is decided by its plan alone (`convgym.evaluation.evaluate.plans`), so that the rollouts
are the same for any number of workers of any kind. This process plays in the environment it was
given; any other makes its own from the environment's `spec`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import gymnasium as gym

from convgym.crew.crew import Backend, Work, crew_of
from convgym.errors import InvalidConfiguration
from convgym.evaluation.rollout import Rollout, play
from convgym.evaluation.side_by_side import ENDING, Plan
from convgym.policies.policy import Policy

Source = Callable[[gym.Env[Any, Any]], Policy]
"""How a worker gets its policy, for its environment: by the name of a script, or from a file."""


def play_plans(
    policy: Policy,
    env: gym.Env[Any, Any],
    plans: Sequence[Plan],
    *,
    deterministic: bool = False,
    workers: int = 1,
    backend: Backend = "local",
    source: Source | None = None,
    progress: Callable[[int], None] | None = None,
) -> list[Rollout]:
    """All plans, with sums and endings alone; `progress` hears how many are done.

    Raises InvalidConfiguration for an environment or a policy that other processes cannot have, and
    whatever the policy raises.
    """
    if workers == 1 and backend == "local":
        make = partial(_work, env, policy, deterministic)
    else:
        make = partial(playing, _spec(env), source or partial(given, policy), deterministic)
    played: list[Rollout] = []
    with crew_of(make, workers, backend) as crew:
        for found in crew.results(crew.cut(plans)):
            played += found
            if progress is not None:
                progress(len(played))
    return played


def playing(spec: Any, source: Source, deterministic: bool) -> Work:
    """What a worker of its own does with plans: play them in an environment made from `spec`."""
    env = gym.make(spec, disable_env_checker=True)
    return _work(env, source(env), deterministic)


def _work(env: gym.Env[Any, Any], policy: Policy, deterministic: bool) -> Work:
    def work(share: Sequence[Plan], _: None) -> list[Rollout]:
        return [_played(env, policy, plan, deterministic) for plan in share]

    return work


def _played(env: gym.Env[Any, Any], policy: Policy, plan: Plan, deterministic: bool) -> Rollout:
    seed, options = plan
    rollout = play(
        env, policy, seed=seed, options=options or None, deterministic=deterministic, keep=False
    )
    info = rollout.final_info
    rollout.final_info = {name: info[name] for name in ENDING if name in info}
    return rollout


def given(policy: Policy, _: gym.Env[Any, Any]) -> Policy:
    """A source that has the policy already, which is sent."""
    return policy


def _spec(env: gym.Env[Any, Any]) -> Any:
    """From which a worker makes the same environment."""
    if env.spec is None:
        raise InvalidConfiguration(
            f"other processes cannot make this {type(env.unwrapped).__name__}, for it has no spec; "
            "make it with gymnasium.make, or play with one worker here"
        )
    randomizer = getattr(env.unwrapped, "randomizer", None)
    if getattr(randomizer, "curriculum", "none") != "none":
        raise InvalidConfiguration(
            "a curriculum goes by what was played before, so that shares of it would differ from "
            "the whole; play with one worker here, or leave the curriculum away"
        )
    return env.spec
