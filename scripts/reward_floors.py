"""What each reward is worth to agents that solve nothing, and to one that does.

    python scripts/reward_floors.py [--tasks 500] [--split test] [--seed 0]

Mean score of ended conversations, and in brackets the upper end of a 95 % interval: Wilson's,
the sum of scores put in where a count of successes would stand, which is on the safe side.
Exits with an error where the upper end of a reward that sees success lies above the limit for
a null policy; fewer than 200 tasks cannot pass.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Mapping
from typing import Any

import gymnasium

from convgym.engine.keys import child
from convgym.evaluation.intervals import wilson
from convgym.evaluation.rollout import play
from convgym.policies.null import NULL_POLICIES, RandomToolPolicy
from convgym.policies.policy import Policy
from convgym.policies.rendered import RenderedPolicy
from convgym.policies.scripted import PlannerPolicy
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
ENVIRONMENT = "convgym:ConvGym/CustomerService-v0"
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
ACTING: Mapping[str, Policy] = {"random-tool": RandomToolPolicy(), "planner": PlannerPolicy()}


def policies() -> dict[str, Policy]:
    """The null policies, then the planner in acts and in words, for scale."""
    nulls: dict[str, Policy] = {name: make() for name, make in NULL_POLICIES.items()}
    return {**nulls, **ACTING, "planner in words": RenderedPolicy(PlannerPolicy())}


def is_null(name: str) -> bool:
    """Whether a policy must be worth about nothing."""
    return name in NULL_POLICIES or name == RandomToolPolicy.name


def outcomes(name: str, tasks: int, split: str = "test", seed: int = 0) -> list[Outcome]:
    """What one policy leaves of the first tasks of a split."""
    policy = policies()[name]
    env: Any = ConversationReward(
        gymnasium.make(
            ENVIRONMENT,
            observation="dict" if name.startswith("planner") else "message",
            action="act" if name in ACTING else "text",
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
    parser.add_argument("--tasks", type=int, default=500)
    parser.add_argument("--split", default="test")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.tasks < 1:
        parser.error(f"--tasks {arguments.tasks}: it takes 1 or more")
    found = {
        name: outcomes(name, arguments.tasks, arguments.split, arguments.seed)
        for name in policies()
    }
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
