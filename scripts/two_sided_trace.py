"""AEC with the user bound against the Gymnasium environment: the same seed, the same trace.

    python scripts/two_sided_trace.py [--id ConvGym/CustomerService-v0] [--episodes 1000] [--seed 0]

Each variant plays `--episodes` episodes on both, with agents that take turns, and compares every
observation, reward, flag and info of the agent, with its type. Exit code 1 where one differs.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np

from convgym.engine.keys import POLICY, below, child, draw
from convgym.multi_agent import AGENT, SIDES, BoundUser, TwoSidedEnv, env
from convgym.policies.policy import Policy, RandomPolicy
from convgym.policies.rendered import RenderedPolicy
from convgym.policies.roster import ladder

VARIANTS: tuple[dict[str, Any], ...] = (
    {"observation": "features", "action": "act"},
    {"observation": "dict", "action": "act", "reward": "milestones", "discount": 0.9},
    {"observation": "transcript", "action": "act", "reward": "graded", "privileged": True},
    {"observation": "dict", "action": "text", "realism": 0.5},
    {"observation": "message", "action": "text", "phrases": "held_out"},
)
Step = tuple[Any, float, bool, bool, dict[str, Any]]


class Utterer:
    """Says one of the space's utterances at random."""

    name, propensity = "utterer", float("nan")

    def __init__(self, utterances: tuple[str, ...]) -> None:
        self._utterances, self._key, self._step = utterances, 0, 0

    def reset(self, seed: int) -> None:
        """Begin an episode."""
        self._key, self._step = seed, 0

    def predict(self, observation: Any, *rest: Any, **more: Any) -> tuple[str, Any]:
        """The next one."""
        drawn = draw(self._key, POLICY, self._step, 0)
        self._step += 1
        return self._utterances[below(drawn, len(self._utterances))], None


def agents(two_sided: TwoSidedEnv, folder: str = "") -> list[Policy]:
    """The agents that play a variant: the domain's ladder, or at random what sees too little."""
    observation, action = two_sided.conversation.modes
    domain = folder or two_sided.conversation.domain.domain
    sees = observation in ("features", "dict")
    acting = [make() for make in ladder(domain).values()] if sees else []
    if action == "act":
        return [*acting] or [RandomPolicy()]
    space: Any = two_sided.action_space(AGENT)
    return [*(RenderedPolicy(policy, domain=domain) for policy in acting),
            Utterer(space.utterances)]  # fmt: skip


def two_sided_trace(
    two_sided: TwoSidedEnv, agent: Policy, user: BoundUser, **reset: Any
) -> list[Step]:
    """What the agent gets in one episode of the AEC environment."""
    two_sided.reset(**reset)
    agent.reset(reset.get("seed") or 0)
    user.reset(0)
    steps: list[Step] = []
    for side in two_sided.agent_iter():
        observation, reward, terminated, truncated, info = two_sided.last()
        over = terminated or truncated
        if side == AGENT:
            seen = two_sided.gymnasium_observation(observation)
            steps.append((seen, reward, terminated, truncated, info))
            action = None if over else agent.predict(seen, action_masks=info["action_mask"])[0]
        else:
            action = None if over else user.predict(observation)[0]
        two_sided.step(action)
    return steps


def gymnasium_trace(single: gym.Env[Any, Any], agent: Policy, **reset: Any) -> list[Step]:
    """The same of the Gymnasium environment."""
    observation, info = single.reset(**reset)
    agent.reset(reset.get("seed") or 0)
    steps: list[Step] = [(observation, 0.0, False, False, info)]
    while not (steps[-1][2] or steps[-1][3]):
        seen, mask = steps[-1][0], steps[-1][4]["action_mask"]
        step: Any = single.step(agent.predict(seen, action_masks=mask)[0])
        steps.append(step)
    return steps


def differences(first: Any, second: Any, where: str = "") -> Iterator[str]:
    """Where two values differ, in type or in content."""
    if isinstance(first, dict) and isinstance(second, dict):
        for key in {**first, **second}:
            yield from differences(first.get(key), second.get(key), f"{where}/{key}")
    elif isinstance(first, tuple | list) and isinstance(second, tuple | list):
        for place, (one, other) in enumerate(itertools.zip_longest(first, second)):
            yield from differences(one, other, f"{where}/{place}")
    elif isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
        if first.dtype != second.dtype or not np.array_equal(first, second):
            yield where
    elif type(first) is not type(second) or first != second:
        yield f"{where}: {first!r} and {second!r}"


def compare(environment_id: str, episodes: int, seed: int, **keywords: Any) -> list[str]:
    """Differences of the first `episodes` episodes; a third goes on without a new seed."""
    two_sided = env(environment_id, **keywords)
    own = {"user_action", "user_observation", "user_reward", "acts_per_turn", "max_cycles"}
    rest = {name: value for name, value in keywords.items() if name not in own}
    single = gym.make(environment_id, disable_env_checker=True, **rest)
    user, found = BoundUser(two_sided), []
    for episode in range(episodes):
        playing = agents(two_sided, keywords.get("folder", ""))
        agent = playing[episode % len(playing)]
        reset = {} if episode % 3 == 2 else {"seed": child(seed, episode)}
        first = two_sided_trace(two_sided, agent, user, **reset)
        second = gymnasium_trace(single, agent, **reset)
        found += list(differences(first, second, f"episode {episode}, {agent.name}"))
    return found


def main() -> int:
    """Print how many episodes were compared, and where they differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--id", choices=tuple(SIDES), default=next(iter(SIDES)))
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    wrong = 0
    for variant, user_action in itertools.product(VARIANTS, ("act", "text")):
        keywords = {**variant, "user_action": user_action}
        found = compare(arguments.id, arguments.episodes, arguments.seed, **keywords)
        print(f"{arguments.episodes} episodes, {len(found)} differences: {keywords}", flush=True)
        print("".join(f"  {line[:200]}\n" for line in found[:5]), end="")
        wrong += len(found)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
