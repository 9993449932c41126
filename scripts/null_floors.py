"""The floors of the null policies: what must score about nothing, and what it scores.

    python scripts/null_floors.py [--env ConvGym/CustomerService-v0] [--episodes 1000]
                                  [--split test] [--seed 0]

Success and mean graded reward with the upper end of Wilson's 95 % interval; a graded reward
lies in [0, 1], so its sum is put in where a count of successes would stand, which is on the
safe side. Exits with an error where an upper end lies above the limit.

A second table, without a limit, is of agents that authenticate by the book and then do one
constant thing: they are right where that one thing is.
"""

from __future__ import annotations

import argparse
import math
import sys
from functools import cache
from typing import Any, NamedTuple

import gymnasium

import convgym  # noqa: F401  registers the environments
from convgym.envs.registration import ENVIRONMENTS
from convgym.evaluation.evaluate import evaluate
from convgym.evaluation.intervals import wilson
from convgym.policies.policy import ActPolicy
from convgym.policies.roster import by_the_book, null_policies

LIMIT = 0.02
ENVIRONMENT = "ConvGym/CustomerService-v0"


class Floor(NamedTuple):
    """What one null policy scored."""

    policy: str
    success: float
    success_upper: float
    graded: float
    graded_upper: float

    def __str__(self) -> str:
        return (
            f"| {self.policy:<27} | {self.success:.4f} | {self.success_upper:.4f} "
            f"| {self.graded:.4f} | {self.graded_upper:.4f} |"
        )


@cache
def domain_of(environment: str) -> str:
    """The name under which an environment's scripted agents are found."""
    base: Any = gymnasium.make(environment, disable_env_checker=True).unwrapped
    name: str = base.make_domain().domain
    return name


def floor(
    name: str, episodes: int, split: str = "test", seed: int = 0, environment: str = ENVIRONMENT
) -> Floor:
    """Play one of the domain's null policies or of its agents by the book, by its name."""
    domain = domain_of(environment)
    policy = (null_policies(domain) | by_the_book(domain))[name]()
    acting = isinstance(policy, ActPolicy)
    env = gymnasium.make(
        environment,
        observation="features" if acting else "message",
        action="act" if acting else "text",
        reward="graded",
    )
    scored = evaluate(policy, env, episodes=episodes, seed=seed, split=split)
    graded = min(max(scored.return_, 0.0), 1.0)
    share = wilson_of_share(graded, episodes)
    return Floor(name, scored.success, scored.success_interval[1], graded, share)


def wilson_of_share(share: float, n: int) -> float:
    """Upper end for a mean in [0, 1], its sum rounded up to a count."""
    return wilson(min(n, math.ceil(share * n)), n)[1]


def names(environment: str = ENVIRONMENT) -> tuple[str, ...]:
    """All null policies."""
    return tuple(null_policies(domain_of(environment)))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", default=ENVIRONMENT, choices=tuple(ENVIRONMENTS))
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--split", default="test")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    print(f"| {'null policy':<27} | success | upper | graded | upper |")
    print(f"|{'-' * 29}|---|---|---|---|")
    over = []
    given = (arguments.episodes, arguments.split, arguments.seed, arguments.env)
    for name in names(arguments.env):
        scored = floor(name, *given)
        print(scored, flush=True)
        if max(scored.success_upper, scored.graded_upper) > LIMIT:
            over.append(name)
    print(f"\n| {'by the book':<27} | success | upper | graded | upper |")
    print(f"|{'-' * 29}|---|---|---|---|")
    for name in by_the_book(domain_of(arguments.env)):
        print(floor(name, *given), flush=True)
    if over:
        sys.exit(f"above {LIMIT}: {', '.join(over)}")


if __name__ == "__main__":
    main()
