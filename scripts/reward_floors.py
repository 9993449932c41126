"""What each reward is worth to agents that solve nothing, and to one that does.

    python scripts/reward_floors.py [--env ConvGym/CustomerService-v0] [--tasks 500]
                                    [--split test] [--seed 0]

Mean score of ended conversations, and in brackets the upper end of a 95 % interval: Wilson's,
the sum of scores put in where a count of successes would stand, which is on the safe side.
Exits with an error where the upper end of a reward that sees success lies above the limit for
a null policy; fewer than 200 tasks cannot pass.
"""

from __future__ import annotations

import argparse
import math
import sys
from typing import Any

import gymnasium

import convgym  # noqa: F401  registers the environments
from convgym.engine.keys import child
from convgym.envs.registration import ENVIRONMENTS
from convgym.evaluation.intervals import wilson
from convgym.evaluation.rollout import play
from convgym.policies.policy import ActPolicy, Policy
from convgym.policies.rendered import RenderedPolicy
from convgym.policies.roster import ladder, null_policies
from convgym.rewards.combined import CustomerService, SalesAssistant, TechnicalSupport
from convgym.rewards.outcome import Outcome, Reward
from convgym.rewards.single import (
    Conciseness,
    Correctness,
    Engagement,
    Helpfulness,
    Safety,
    SimilarityAware,
    TaskCompletion,
)
from convgym.rewards.wrapper import ConversationReward

LIMIT = 0.02
ENVIRONMENT = "ConvGym/CustomerService-v0"
REWARDS: tuple[Reward, ...] = (
    TaskCompletion(),
    TaskCompletion(partial=1.0, name="task_completion, partial=1"),
    Correctness(),
    CustomerService(),
    TechnicalSupport(),
    SalesAssistant(),
    Helpfulness(),
    Safety(),
    Conciseness(),
    Engagement(),
    SimilarityAware(),
)
SCALE = ("planner", "planner in words")


def policies(environment: str = ENVIRONMENT) -> dict[str, Policy]:
    """The null policies, then the planner in acts and in words, for scale."""
    base: Any = gymnasium.make(environment, disable_env_checker=True).unwrapped
    domain = base.make_domain().domain
    planner = ladder(domain)["planner"]
    made: dict[str, Policy] = {name: make() for name, make in null_policies(domain).items()}
    scale = (planner(), RenderedPolicy(planner(), domain=domain))
    return made | dict(zip(SCALE, scale, strict=True))


def is_null(name: str) -> bool:
    """Whether a policy must be worth about nothing."""
    return name not in SCALE


def outcomes(
    name: str, tasks: int, split: str = "test", seed: int = 0, environment: str = ENVIRONMENT
) -> list[Outcome]:
    """What one policy leaves of the first tasks of a split."""
    policy = policies(environment)[name]
    env: Any = ConversationReward(
        gymnasium.make(
            environment,
            observation="message" if is_null(name) else "dict",
            action="act" if isinstance(policy, ActPolicy) else "text",
        ),
        TaskCompletion(),
    )
    found = []
    for index in range(tasks):
        options = {"task_id": f"{split}-{index}"}
        play(env, policy, seed=child(seed, index), options=options, keep=False)
        found.append(env.outcome)
    return found


def floor(reward: Reward, found: list[Outcome]) -> tuple[float, float]:
    """Mean score, and the upper end of its interval."""
    total = math.fsum(reward(outcome).value for outcome in found)
    n = len(found)
    return total / n, wilson(min(n, math.ceil(total)), n)[1]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", default=ENVIRONMENT, choices=tuple(ENVIRONMENTS))
    parser.add_argument("--tasks", type=int, default=500)
    parser.add_argument("--split", default="test")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.tasks < 1:
        parser.error(f"--tasks {arguments.tasks}: it takes 1 or more")
    given = (arguments.tasks, arguments.split, arguments.seed, arguments.env)
    found = {name: outcomes(name, *given) for name in policies(arguments.env)}
    print(f"| reward | sees success | {' | '.join(found)} |")
    print("|---" * (len(found) + 2) + "|")
    over = []
    for reward in REWARDS:
        cells = []
        for name, ended in found.items():
            mean, upper = floor(reward, ended)
            cells.append(f"{mean:.3f} ({upper:.3f})")
            if reward.sees_success and is_null(name) and upper > LIMIT:
                over.append(f"{reward.name} of {name}")
        print(f"| {reward.name} | {'yes' if reward.sees_success else 'no'} | {' | '.join(cells)} |")
    if over:
        sys.exit(f"above {LIMIT}: {', '.join(over)}")


if __name__ == "__main__":
    main()
