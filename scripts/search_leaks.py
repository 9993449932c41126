"""Searches whole episodes for hidden values: in observations and info, before anybody said them.

    python scripts/search_leaks.py [--episodes 20000]

A goal value (e-mail, postcode, order number, item, date, address, right or misremembered) may stand
in an observation or in `info` once the customer has stated it, or a tool has returned it. Every
text an agent is given is searched, with several agents, action modes and realisms, on all splits.
Exit code 1 if one is found.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import gymnasium as gym

import convgym  # noqa: F401  registers the environments
from convgym.engine.keys import below, child, draw
from convgym.engine.tasks import SPLITS
from convgym.policies.policy import ActPolicy
from convgym.policies.rendered import RenderedPolicy
from convgym.policies.scripted import LADDER

ENVIRONMENT = "ConvGym/CustomerService-v0"
MODES: tuple[dict[str, Any], ...] = (
    {"observation": "dict", "action": "act"},
    {"observation": "transcript", "action": "act", "realism": 0.5},
    {"observation": "dict", "action": "text", "realism": 0.25, "style": "chatty"},
    {"observation": "dict", "action": "act", "difficulty": 1.0, "reward": "milestones"},
)


def texts(observation: Any, info: dict[str, Any]) -> Iterator[str]:
    """Every text that the agent is given."""
    if isinstance(observation, str):
        yield observation
    else:
        yield from (value for value in observation.values() if isinstance(value, str))
    yield from (value for value in info.values() if isinstance(value, str))


def stands(value: str, text: str) -> bool:
    """Whether a value stands in a text as a word of its own."""
    if value not in text:
        return False
    return re.search(rf"(?<![A-Za-z0-9]){re.escape(value)}(?![A-Za-z0-9])", text) is not None


def leaks(env: gym.Env[Any, Any], policy: Any, seed: int) -> Iterator[tuple[str, str]]:
    """(act, value) of each goal value that shows too early in one episode."""
    base: Any = env.unwrapped
    observation, info = env.reset(seed=seed)
    policy.reset(seed)
    hidden = base._domain.goal_values(base._episode.task)
    prompt = base.system_prompt
    hidden = {act: value for act, value in hidden.items() if value not in prompt}
    over = False
    while True:
        stated = {act.get("value") for act in json.loads(info["user_acts"])} | {None}
        shown = info["tool_results"]
        hidden = {a: v for a, v in hidden.items() if v not in stated and v not in shown}
        seen = "\n".join(texts(observation, info))
        yield from ((act, value) for act, value in hidden.items() if stands(value, seen))
        if over:
            return
        action, _ = policy.predict(observation, action_masks=info["action_mask"])
        observation, _, terminated, truncated, info = env.step(action)
        over = terminated or truncated


def search(episodes: int, seed: int = 0) -> Counter[str]:
    """Acts whose values leaked, with how often."""
    found: Counter[str] = Counter()
    for number, mode in enumerate(MODES):
        env = gym.make(
            ENVIRONMENT, disable_env_checker=True, split=tuple(SPLITS)[number % len(SPLITS)], **mode
        )
        for index in range(episodes // len(MODES)):
            key = child(seed, index)
            policy: ActPolicy = LADDER[below(draw(key, 7, 0, 0), len(LADDER))]()
            speaks = mode["action"] == "text"
            agent: Any = RenderedPolicy(policy) if speaks else policy
            if mode["observation"] == "transcript":
                agent = LADDER[0]()  # reads nothing but the mask
            for act, value in leaks(env, agent, key >> 33):
                found[act] += 1
                print(f"{mode}: seed {key >> 33}: {act} {value!r} before it was said")
    return found


def main() -> int:
    """Search and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--episodes", type=int, default=20_000)
    arguments = parser.parse_args()
    found = search(arguments.episodes)
    print(f"{arguments.episodes} episodes searched, {sum(found.values())} leaks {dict(found)}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
