"""A policy by what somebody writes behind --policy.

planner                a scripted agent of the environment's domain, or one of its null policies
runs/cql-0, cql-0      a finished run of `convgym train`
policy.zip             a file that some learner here wrote
my_module:MyPolicy     what a callable makes
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import load_env_creator

import convgym.envs.registration as registration
from convgym.cli.learners import learner_called, policy_in
from convgym.cli.run_folder import RunFolder
from convgym.data.building import read_recipe
from convgym.data.recipes import recipe_ids
from convgym.errors import ConvGymError, InvalidConfiguration, told
from convgym.policies.policy import ActPolicy, Policy, Script
from convgym.policies.roster import null_policies
from convgym.simulator import domain_name, scripted_agents

ACTING = {"observation": "features", "action": "act"}
SPEAKING = {"observation": "dict", "action": "text"}
SPOKEN = "ConvGym/Scenarios-v0"
"""The id without acts and features."""


def policy_called(
    name: str, env: gym.Env[Any, Any], root: Path = Path("runs"), **arguments: Any
) -> Policy:
    """The policy; raises InvalidConfiguration where there is none that plays in `env`."""
    found = _made(name, env, root, arguments)
    fits(found, env)
    return found


def _made(name: str, env: gym.Env[Any, Any], root: Path, arguments: Mapping[str, Any]) -> Policy:
    saved = saved_policy(name, root)
    if saved is not None:
        return saved
    module, colon, maker = name.partition(":")
    if colon:
        return _of_module(module, maker, arguments)
    known = _scripted(env)
    if name in known:
        return known[name](**arguments)  # type: ignore[no-any-return]
    if name.endswith(".zip") or "/" in name:
        raise InvalidConfiguration(f"there is no policy in {name}; give a run or its policy.zip")
    raise InvalidConfiguration(
        f"no policy is called {name!r}; there are {', '.join(known) or 'no scripted ones here'}; "
        "or give a run, a policy.zip or module:callable"
    )


def saved_policy(name: str, root: Path = Path("runs")) -> Policy | None:
    """The policy of a run or in a file; None where there is neither."""
    run = run_called(name, root)
    if run is not None:
        return _of_run(run)
    return policy_in(Path(name)) if Path(name).is_file() else None


def run_called(name: str, root: Path) -> RunFolder | None:
    """The run of this name or path, finished or not; None where there is none."""
    for place in (Path(name), root / name):
        if (place / "config.yaml").is_file():
            return RunFolder(place)
    return None


def environment_of(run: RunFolder, scored: bool = False) -> tuple[str | None, dict[str, Any]]:
    """Id and keywords of the environment that a run learnt in, or that its data come from.

    `scored`: with the keywords that it is scored with.
    """
    config = run.read_config()
    env, keywords = config.get("env"), dict(config.get("env_keywords") or {})
    if scored:
        keywords |= (config.get("evaluation") or {}).get("keywords") or {}
    if env is None and config.get("dataset") in recipe_ids():
        env = read_recipe(config["dataset"]).environment["id"]
    return env, keywords


def _of_run(run: RunFolder) -> Policy:
    if not run.policy.is_file():
        raise InvalidConfiguration(
            f"{run.path} has no policy yet; let it learn on: {run.resuming}"
        )
    algorithm = str(run.read_config().get("algorithm"))
    return learner_called(algorithm).load(run.policy)


def _of_module(module: str, maker: str, arguments: Mapping[str, Any]) -> Policy:
    try:
        made: Policy = getattr(importlib.import_module(module), maker)(**arguments)
        return made
    except ConvGymError:
        raise
    except Exception as error:  # it is somebody's own
        raise InvalidConfiguration(
            f"no policy can be made of {module}:{maker} ({type(error).__name__}: {told(error)}); "
            "name it as module:callable"
        ) from error


def _scripted(env: gym.Env[Any, Any]) -> dict[str, Any]:
    """Makers of the domain's scripted agents and null policies."""
    try:
        known: dict[str, Any] = dict(scripted_agents(env))
    except InvalidConfiguration:
        return {}
    return known | null_policies(domain_name(env))


def manner_of(policy: Policy | None) -> Mapping[str, str]:
    """What an environment shows a policy and takes from it where nobody says otherwise."""
    return SPEAKING if getattr(policy, "speaks", False) else ACTING


def fits(policy: Policy, env: gym.Env[Any, Any]) -> None:
    """Raises InvalidConfiguration where a policy would misread what `env` shows."""
    acting = isinstance(env.action_space, gym.spaces.Discrete)
    for method in ("predict", "reset"):
        if not hasattr(policy, method):
            raise InvalidConfiguration(
                f"a {type(policy).__name__} is no policy: it has no {method}"
            )
    if getattr(policy, "speaks", False) and not isinstance(env.action_space, gym.spaces.Text):
        raise InvalidConfiguration(
            f"a {policy.name} replies in texts, and this environment takes "
            f'{type(env.action_space).__name__} actions; take observation="dict" and action="text"'
        )
    if not isinstance(policy, ActPolicy):
        return
    space = env.observation_space
    parts = space.spaces if isinstance(space, gym.spaces.Dict) else {"features": space}
    cells = parts.get("features")
    if not isinstance(cells, gym.spaces.Box):
        raise InvalidConfiguration(
            f"{policy.name!r} chooses act numbers by features; this environment needs "
            'observation="features" or "dict"'
        )
    reads = len(policy.layout) if isinstance(policy, Script) else policy.cells
    if acting and reads is not None and cells.shape != (reads,):
        raise InvalidConfiguration(
            f"{policy.name!r} belongs to another domain: it reads {reads} cells, and here are "
            f"{cells.shape[0]}; take one of the environment's own, by name"
        )
    if env.reset(seed=0)[1].get("action_mask") is None:
        raise InvalidConfiguration(
            f"{policy.name!r} chooses among the acts that are legal, and this environment's info "
            "has no action_mask; take one of ConvGym's"
        )


def keywords_for(
    env_id: str, given: Mapping[str, Any], manner: Mapping[str, str]
) -> dict[str, Any]:
    """`given`, and where it says nothing of observation and action, `manner`."""
    keywords = dict(given)
    ours = env_id in registration.ENVIRONMENTS
    if ours and env_id != SPOKEN and not manner.keys() & keywords.keys():
        return {**manner, **keywords}
    return keywords


def _no_keyword(env_id: str, unknown: str) -> InvalidConfiguration:
    """That an environment has no such keyword, with the one that may be meant."""
    entry = gym.spec(env_id).entry_point
    create = load_env_creator(entry) if isinstance(entry, str) else entry
    known = [name for name in inspect.signature(create or gym.make).parameters if name != "self"]
    meant = get_close_matches(unknown, known, 1)
    hint = f"did you mean {meant[0]}?" if meant else f"there are {', '.join(known)}"
    return InvalidConfiguration(f"{env_id!r} has no keyword {unknown!r}; {hint}")


def made_env(env_id: str, keywords: Mapping[str, Any]) -> gym.Env[Any, Any]:
    """The environment; raises InvalidConfiguration where Gymnasium cannot make it."""
    registration.register_envs()
    try:
        return gym.make(env_id, disable_env_checker=True, **keywords)
    except ConvGymError:
        raise
    except (gym.error.Error, ImportError, TypeError) as error:
        what = str(error).partition(" was raised from")[0].rstrip(".")
        if unknown := re.search(r"unexpected keyword argument '(\w+)'", what):
            raise _no_keyword(env_id, unknown[1]) from None
        raise InvalidConfiguration(
            f"{env_id!r} cannot be made with {str(dict(keywords))[:200]} ({what}); ConvGym has "
            f"{', '.join(registration.ENVIRONMENTS)}"
        ) from None
