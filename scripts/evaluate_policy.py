"""Assess a policy: pass^k, intervals, parts of the variance, slices, worst decile.

    python scripts/evaluate_policy.py convgym.policies.scripted:PlannerPolicy \
        [--env ConvGym/CustomerService-v0] [--keywords '{"observation": "features"}'] \
        [--split test] [--tasks 200] [--users 8] [--agents 2] [--seed 0] [--workers 2] \
        [--personas all|none|NAME,NAME] [--json out.json] [--runs out.jsonl]

A policy is named as module:callable, and made by calling it with --arguments, a JSON object.
Prints a page of Markdown; `--summary` prints its line with the standard error alone.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from pathlib import Path
from typing import Any

import convgym  # noqa: F401  registers the environments
from convgym.errors import ConvGymError, InvalidConfiguration
from convgym.evaluation.assessment import assessment_of, play_personas
from convgym.evaluation.repeated import Plan, evaluate_repeatedly
from convgym.policies.policy import Policy
from convgym.users.persona import BUILT_IN

ACTING = {"observation": "features", "action": "act"}


def policy_of(name: str, arguments: dict[str, Any]) -> Policy:
    """The policy that `module:callable` makes; raises InvalidConfiguration where it cannot be."""
    module, _, maker = name.partition(":")
    try:
        made: Policy = getattr(importlib.import_module(module), maker)(**arguments)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise InvalidConfiguration(
            f"no policy can be made of {name!r} ({error}); name it as module:callable"
        ) from None
    return made


def _object(text: str) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError(f"{text[:40]!r} is no JSON object")
    return value


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    it = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    it.add_argument("policy")
    it.add_argument("--arguments", type=_object, default={}, help="of the policy, as JSON")
    it.add_argument("--env", default="ConvGym/CustomerService-v0")
    it.add_argument("--keywords", type=_object, default=ACTING, help="of the environment")
    it.add_argument("--options", type=_object, default={}, help="reset options for all episodes")
    it.add_argument("--split", default="test")
    it.add_argument("--tasks", type=int, default=200)
    it.add_argument("--users", type=int, default=8)
    it.add_argument("--agents", type=int, default=2)
    it.add_argument("--seed", type=int, default=0)
    it.add_argument("--deterministic", action="store_true")
    it.add_argument("--shared-users", action="store_true")
    it.add_argument("--vary-wording", action="store_true")
    it.add_argument("--personas", default="all")
    it.add_argument("--workers", type=int, default=1)
    it.add_argument("--summary", action="store_true")
    it.add_argument("--json", type=Path)
    it.add_argument("--runs", type=Path)
    return it


def main(given: list[str] | None = None) -> int:
    """Play, print, and write what was asked for."""
    asked = parser().parse_args(given)
    named = {"all": ",".join(BUILT_IN), "none": ""}.get(asked.personas, asked.personas)
    try:
        plan = Plan(
            env_id=asked.env,
            keywords=asked.keywords,
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
        policy = policy_of(asked.policy, asked.arguments)
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
