"""Every agent against every user: success with 95 % intervals, as Markdown.

    python scripts/cross_play.py [--id ConvGym/CustomerService-v0] [--episodes 200]
                                 [--split test] [--seed 0] [--folder FOLDER] [--json FILE]

All agents meet the same tasks and the same personas with each user; the users are policies of
`user_0` in the two-sided environment, the first one the simulated user itself. A second table says
what the users do: agent turns, and the nats per turn of their acts under the simulated user, which
is what the realistic reward pays, in [-20, 0].
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from convgym.engine.keys import child
from convgym.errors import ConvGymError
from convgym.evaluation.intervals import mean_interval, wilson
from convgym.multi_agent import (
    AGENT,
    SIDES,
    USER,
    BoundUser,
    ContraryUser,
    ErraticUser,
    RandomActsUser,
    TerseUser,
    TwoSidedEnv,
    UserPolicy,
    env,
)
from convgym.policies.policy import Policy
from convgym.policies.roster import ladder


@dataclass(frozen=True)
class Opponent:
    """A user of the matrix."""

    name: str
    make: Callable[[TwoSidedEnv], UserPolicy]
    options: Mapping[str, Any] = field(default_factory=dict)
    """Reset options, such as the persona."""


USERS = (
    Opponent("simulated", BoundUser),
    Opponent("frustrated novice", BoundUser, {"persona": "frustrated_novice"}),
    Opponent("terse", TerseUser),
    Opponent("erratic", ErraticUser),
    Opponent("random acts", RandomActsUser),
    Opponent("contrary", ContraryUser),
)


@dataclass
class Cell:
    """What one agent made of one user."""

    successes: int = 0
    lengths: int = 0
    """Agent turns, over all episodes."""
    nats: list[float] = field(default_factory=list)
    """Log-likelihood of the user per turn, of each episode."""

    def text(self, episodes: int) -> str:
        """Success with its interval."""
        low, high = wilson(self.successes, episodes)
        return f"{self.successes / episodes:.2f} [{low:.2f}, {high:.2f}]"


def converse(
    two_sided: TwoSidedEnv, agent: Policy, user: UserPolicy, seed: int, options: dict[str, Any]
) -> tuple[bool, int, float]:
    """One conversation: whether it was a success, its agent turns, the user's nats per turn."""
    two_sided.reset(seed=seed, options=options)
    agent.reset(seed)
    user.reset(child(seed, 0))
    success, turns, nats, said = False, 0, 0.0, 0
    for side in two_sided.agent_iter():
        observation, reward, terminated, truncated, info = two_sided.last()
        action = None
        if side == USER:
            nats += reward
            if not (terminated or truncated):
                action, _ = user.predict(observation, action_masks=info["action_mask"])
                said += 1
        elif terminated or truncated:
            success, turns = info["success"], info["turn"]
        else:
            seen = two_sided.gymnasium_observation(observation)
            action, _ = agent.predict(seen, action_masks=info["action_mask"])
        two_sided.step(action)
    return success, turns, nats / said


def cell(
    two_sided: TwoSidedEnv, agent: Policy, user: Opponent, episodes: int, split: str, seed: int
) -> Cell:
    """Play the first `episodes` tasks of `split`."""
    policy, found = user.make(two_sided), Cell()
    for index in range(episodes):
        options = {"task_id": f"{split}-{index}", **user.options}
        success, turns, nats = converse(two_sided, agent, policy, child(seed, index), options)
        found.successes += success
        found.lengths += turns
        found.nats.append(nats)
    return found


def matrix(
    environment_id: str, episodes: int, split: str, seed: int, **keywords: Any
) -> dict[str, dict[str, Cell]]:
    """Cells by agent and user."""
    two_sided = env(
        environment_id,
        **keywords,
        observation="features",
        action="act",
        user_action="act",
        user_observation="message",
        user_reward="realistic",
    )
    agents = ladder(keywords.get("folder", two_sided.conversation.domain.domain))
    return {
        name: {
            user.name: cell(two_sided, make(), user, episodes, split, seed) for user in USERS
        }
        for name, make in agents.items()
    }


def markdown(cells: Mapping[str, Mapping[str, Cell]], episodes: int) -> str:
    """Both tables."""
    names = [user.name for user in USERS]
    lines = [f"| {AGENT} \\ {USER} | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for agent, row in cells.items():
        lines.append(f"| {agent} | {' | '.join(row[name].text(episodes) for name in names)} |")
    lines += ["", "| user | agent turns | nats per turn |", "|---|---|---|"]
    for name in names:
        column = [row[name] for row in cells.values()]
        turns = sum(found.lengths for found in column) / (episodes * len(column))
        nats = [value for found in column for value in found.nats]
        low, high = mean_interval(nats)
        mean = math.fsum(nats) / len(nats)
        lines.append(f"| {name} | {turns:.1f} | {mean:.2f} [{low:.2f}, {high:.2f}] |")
    return "\n".join(lines)


def main() -> None:
    """Print the matrix."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--id", choices=tuple(SIDES), default=next(iter(SIDES)))
    parser.add_argument("--episodes", type=int, default=200, help="of each pair")
    parser.add_argument("--split", default="test")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", help="of ConvGym/OwnDomain-v0")
    parser.add_argument("--json", help="write successes and turns to this file as well")
    arguments = parser.parse_args()
    folder = {"folder": arguments.folder} if arguments.folder else {}
    if arguments.episodes < 1:
        parser.error(f"--episodes {arguments.episodes}: it must be 1 or more")
    try:
        cells = matrix(arguments.id, arguments.episodes, arguments.split, arguments.seed, **folder)
    except ConvGymError as error:
        sys.exit(f"cross_play: {error}")
    print(markdown(cells, arguments.episodes))
    if arguments.json:
        found = {
            agent: {name: [one.successes, one.lengths] for name, one in row.items()}
            for agent, row in cells.items()
        }
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({"episodes": arguments.episodes, "cells": found}, file, indent=1)


if __name__ == "__main__":
    main()
