"""Assess a policy: pass^k, intervals, parts of the variance, slices, worst decile.

    python scripts/evaluate_policy.py planner [--env ConvGym/Sales-v0] [--split test]
                                      [--tasks 200] [--users 8] [--agents 2] [--seed 0]
                                      [--workers 2] [--personas all|none|NAME,NAME]
                                      [--json out.json] [--runs out.jsonl]
    python scripts/evaluate_policy.py oracle --env ConvGym/OwnDomain-v0
                                      --keywords '{"folder": "my_domain"}'
    python scripts/evaluate_policy.py my_module:MyPolicy [--arguments '{"noise": 0.1}']
                                      [--keywords '{"observation": "message", "action": "text"}']

A policy is one of the environment's own scripted agents by name (random, keyword, slot-filling,
planner, oracle), or module:callable, made by calling it with --arguments, a JSON object.
Prints a page of Markdown; `--summary` prints its line with the standard error alone.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym

import convgym
from convgym.engine.tasks import SPLITS
from convgym.errors import ConvGymError, InvalidConfiguration
from convgym.evaluation.assessment import assessment_of, play_personas
from convgym.evaluation.repeated import Plan, evaluate_repeatedly
from convgym.policies.policy import ActPolicy, Policy, Script
from convgym.simulator import scripted_agents
from convgym.users.persona import BUILT_IN

ACTING = {"observation": "features", "action": "act"}
SPOKEN = "ConvGym/Scenarios-v0"
"""The id without acts and features."""


def policy_of(name: str, arguments: Mapping[str, Any], env: gym.Env[Any, Any]) -> Policy:
    """The scripted agent of `env` that is called so, or what `module:callable` makes.

    Raises InvalidConfiguration where there is none, and where it cannot play in `env`.
    """
    module, colon, maker = name.partition(":")
    made: Any
    try:
        if colon:
            made = getattr(importlib.import_module(module), maker)(**arguments)
        else:
            agents = scripted_agents(env)
            if name not in agents:
                raise InvalidConfiguration(
                    f"no scripted agent is called {name!r}; there are {', '.join(agents)}; name "
                    "a policy of your own as module:callable"
                )
            made = agents[name](**arguments)
    except ConvGymError:
        raise
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise InvalidConfiguration(
            f"no policy can be made of {name!r} ({error}); name it as module:callable"
        ) from None
    _fits(made, env)
    return made  # type: ignore[no-any-return]


def _fits(policy: Policy, env: gym.Env[Any, Any]) -> None:
    """Raises InvalidConfiguration where an act policy would misread what `env` shows."""
    if not isinstance(policy, ActPolicy):
        return
    space = env.observation_space
    parts = space.spaces if isinstance(space, gym.spaces.Dict) else {"features": space}
    cells = parts.get("features")
    acting = isinstance(env.action_space, gym.spaces.Discrete)
    if not acting or not isinstance(cells, gym.spaces.Box):
        raise InvalidConfiguration(
            f"{policy.name!r} chooses act numbers by features; this environment needs "
            'action="act" beside observation="features" or "dict"'
        )
    if isinstance(policy, Script) and cells.shape != (len(policy.layout),):
        raise InvalidConfiguration(
            f"{policy.name!r} belongs to another domain: it reads {len(policy.layout)} cells, and "
            f"here are {cells.shape[0]}; take one of the environment's own, by name"
        )


def _made(plan: Plan) -> gym.Env[Any, Any]:
    """The plan's environment; raises InvalidConfiguration where Gymnasium cannot make it."""
    try:
        return plan.make()
    except ConvGymError:
        raise
    except (gym.error.Error, ImportError, TypeError) as error:
        what = str(error).partition(" was raised from")[0].rstrip(".")
        raise InvalidConfiguration(
            f"{plan.env_id!r} cannot be made with {dict(plan.keywords)} ({what}); ConvGym has "
            f"{', '.join(convgym.ENVIRONMENTS)}"
        ) from None


def _keywords(env_id: str, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """What the environment is made with: features and acts, unless `given` says other."""
    keywords = dict(given or {})
    acting = given is None or env_id in convgym.ENVIRONMENTS
    if acting and env_id != SPOKEN and not ACTING.keys() & keywords.keys():
        return ACTING | keywords
    return keywords


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no JSON ({error})") from None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no JSON object")
    return value


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    it = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    it.add_argument("policy", help="a scripted agent's name, or module:callable")
    it.add_argument("--arguments", type=_object, default={}, help="of the policy, as JSON")
    it.add_argument("--env", default="ConvGym/CustomerService-v0", help="the environment's id")
    it.add_argument(
        "--keywords", type=_object, default=None,
        help="of the environment, as JSON; where it says nothing of observation and action, these "
        "are features and act",
    )  # fmt: skip
    it.add_argument("--options", type=_object, default={}, help="reset options for all episodes")
    it.add_argument("--split", default="test", help=", ".join(SPLITS))
    it.add_argument("--tasks", type=int, default=200, help="how many of the split")
    it.add_argument("--users", type=int, default=8, help="customers for each task")
    it.add_argument("--agents", type=int, default=2, help="times the policy meets each customer")
    it.add_argument("--seed", type=int, default=0)
    it.add_argument("--deterministic", action="store_true", help="the policy's likeliest action")
    it.add_argument("--shared-users", action="store_true", help="the same customers for all tasks")
    it.add_argument("--vary-wording", action="store_true", help="other words by other customers")
    it.add_argument(
        "--personas", default="all", help="slices by built-in persona: all, none, or NAME,NAME"
    )
    it.add_argument("--workers", type=int, default=1, help="processes; the result is the same")
    it.add_argument("--summary", action="store_true", help="print one line alone")
    it.add_argument("--json", type=Path, help="write all of it to this file")
    it.add_argument("--runs", type=Path, help="write each episode to this file, a line each")
    return it


def main(given: list[str] | None = None) -> int:
    """Play, print, and write what was asked for."""
    asked = parser().parse_args(given)
    named = {"all": ",".join(BUILT_IN), "none": ""}.get(asked.personas, asked.personas)
    try:
        plan = Plan(
            env_id=asked.env,
            keywords=_keywords(asked.env, asked.keywords),
            split=asked.split,
            tasks=asked.tasks,
            users=asked.users,
            agents=asked.agents,
            seed=asked.seed,
            options=asked.options,
            deterministic=asked.deterministic,
            vary_wording=asked.vary_wording,
            shared_users=asked.shared_users,
        )
        policy = policy_of(asked.policy, asked.arguments, _made(plan))
        names = tuple(filter(None, named.split(",")))
        played = evaluate_repeatedly(policy, plan, workers=asked.workers)
        personas = play_personas(policy, plan, names, workers=asked.workers)
    except ConvGymError as error:
        print(f"evaluate_policy: {error}", file=sys.stderr)
        return 2
    found = assessment_of(played, personas)
    print(found.summary() if asked.summary else found.to_markdown())
    if asked.json is not None:
        asked.json.write_text(json.dumps(found.to_dict(), indent=1) + "\n", encoding="utf-8")
    if asked.runs is not None:
        lines = [json.dumps(run.to_dict()) for run in played.runs]
        asked.runs.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
