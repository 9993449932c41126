"""Searches whole episodes for hidden values: in observations and info, before anybody said them.

    python scripts/search_leaks.py [--env ConvGym/CustomerService-v0] [--episodes 20000]

A goal value (a key, a number, a name, a date, an address, right or misremembered) may stand in an
observation or in `info` once the customer has stated it, or a tool has returned it. Every text an
agent is given is searched, with several agents, action modes and realisms, on all splits. Of
several requests nothing may show before the customer has come to them. What a desk's view says
beside that is held against what was said and returned so far: a field of a record, a detail that
was heard, what is wanted. Exit code 1 if anything is found.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import gymnasium as gym

import convgym  # noqa: F401  registers the environments
from convgym.domains.catalogue import domain_called
from convgym.engine.keys import below, child, draw
from convgym.envs.registration import ENVIRONMENTS
from convgym.policies.rendered import RenderedPolicy
from convgym.policies.roster import ladder

ENVIRONMENT = "ConvGym/CustomerService-v0"
SHORTEST = 3
"""Characters of a value that is searched for; what is shorter stands anywhere by chance."""
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


class Known:
    """What the customer has said and the tools have returned so far."""

    def __init__(self) -> None:
        self.stated, self.returned = {""}, {""}
        self.asked: set[str] = set()

    def take(self, acts: list[dict[str, Any]], tool_results: str) -> None:
        """Note one step."""
        for act in acts:
            self.stated.add(str(act.get("value", "")))
            self.asked.add(act["act"].removeprefix("request_"))
        for line in tool_results.splitlines():
            self.returned |= set(leaves(json.loads(line)))

    def lacks(self, view: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """(where, value) of what a desk's view says and nobody has said or returned."""
        for kind, records in view.get("records", {}).items():
            for record in records.values():
                fields = {name: text for name, text in record.items() if name != "read"}
                for name, text in fields.items():
                    if not any(stands(text, returned) for returned in self.returned):
                        yield f"view: {kind} {name}", text
        if "records" in view:
            for name, text in view["heard"].items():
                if str(text) not in self.stated:
                    yield f"view: heard {name}", str(text)
            if view["wants"] and view["wants"] not in self.asked:
                yield "view: wants", view["wants"]


def leaves(value: Any) -> Iterator[str]:
    """Every value of a JSON as text."""
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from leaves(inner)
    else:
        yield str(value)


def leaks(env: gym.Env[Any, Any], policy: Any, seed: int) -> Iterator[tuple[str, str]]:
    """(act, value) of each goal value that shows too early in one episode."""
    base: Any = env.unwrapped
    observation, info = env.reset(seed=seed)
    policy.reset(seed)
    hidden = base._domain.goal_values(base._episode.task)
    prompt = base.system_prompt
    hidden = {a: v for a, v in hidden.items() if len(v) >= SHORTEST and v not in prompt}
    over, known = False, Known()
    while True:
        acts = json.loads(info["user_acts"])
        stated = [str(act.get("value", "")) for act in acts]
        told = "\n".join((*stated, info["tool_results"]))
        known.take(acts, info["tool_results"])
        if isinstance(observation, dict):
            yield from known.lacks(json.loads(observation["view"]))
        hidden = {act: value for act, value in hidden.items() if not stands(value, told)}
        seen = "\n".join(texts(observation, info))
        yield from ((act, value) for act, value in hidden.items() if stands(value, seen))
        if over:
            return
        action, _ = policy.predict(observation, action_masks=info["action_mask"])
        observation, _, terminated, truncated, info = env.step(action)
        over = terminated or truncated


def search(episodes: int, seed: int = 0, environment: str = ENVIRONMENT) -> Counter[str]:
    """Acts whose values leaked, with how often."""
    found: Counter[str] = Counter()
    base: Any = gym.make(environment, disable_env_checker=True).unwrapped
    domain = base.make_domain().domain
    agents, splits = tuple(ladder(domain).values()), domain_called(domain).splits
    every = [(mode, split) for mode in MODES for split in splits]
    for number, (mode, split) in enumerate(every):
        env = gym.make(environment, disable_env_checker=True, split=split, **mode)
        for index in range(number, episodes, len(every)):
            key = child(seed, index)
            policy = agents[below(draw(key, 7, 0, 0), len(agents))]()
            agent: Any = RenderedPolicy(policy, domain=domain)
            if mode["action"] == "act":
                agent = policy
            if mode["observation"] == "transcript":
                agent = agents[0]()  # reads nothing but the mask
            for act, value in leaks(env, agent, key >> 33):
                found[act] += 1
                print(f"{mode}: {split}, seed {key >> 33}: {act} {value!r} before it was said")
    return found


def main() -> int:
    """Search and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", default=ENVIRONMENT, choices=tuple(ENVIRONMENTS))
    parser.add_argument("--episodes", type=int, default=20_000)
    arguments = parser.parse_args()
    found = search(arguments.episodes, environment=arguments.env)
    print(f"{arguments.episodes} episodes searched, {sum(found.values())} leaks {dict(found)}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
