"""How much faster two workers are than one, and what travels between them.

    python scripts/bench_scale.py [--workers 2] [--episodes 10000] [--rounds 3] [--json FILE]

Prints, each beside the other in turn so that a busy machine slows both:
    evaluation   episodes a second of one process and of `workers` actors on Ray, and their ratio,
                 with the actors' start and without; whether both results are the same bytes
    bytes        of a share on its way, of what comes back for an episode, of the policy
    rollouts     of the embedded language model: the same, and bytes of its weights and of a
                 conversation (needs the extra llm)
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import gymnasium as gym

from convgym.crew.ray_crew import ray_running
from convgym.evaluation.evaluate import evaluate, plans
from convgym.evaluation.shares import play_plans
from convgym.policies.scripted import PlannerPolicy

ENV = "ConvGym/CustomerService-v0"


def timed(do: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds by the clock, and what it gave."""
    began = time.perf_counter()
    found = do()
    return time.perf_counter() - began, found


def evaluation(episodes: int, workers: int, rounds: int) -> dict[str, Any]:
    """One process beside `workers` actors."""
    env = gym.make(ENV, observation="features", action="act")
    policy = PlannerPolicy()

    def run(**how: Any) -> bytes:
        found = evaluate(policy, env, episodes=episodes, split="train", **how)
        return json.dumps(found.to_dict()).encode()

    evaluate(policy, env, episodes=50, split="train")  # tables that are made once
    on_ray = {"backend": "ray", "workers": workers}
    alone, shared = [], []
    starting, _ = timed(lambda: evaluate(policy, env, episodes=2, split="train", **on_ray))
    for _ in range(rounds):
        seconds, here = timed(run)
        alone.append(seconds)
        seconds, there = timed(lambda: run(**on_ray))
        shared.append(seconds)
        assert here == there, "the result differs"
    planned = plans(episodes, 0, "train", None, False)
    share = planned[: -(-episodes // (workers * 8))]
    played = play_plans(policy, env, share[:100])
    return {
        "episodes": episodes,
        "workers": workers,
        "one process, episodes/s": episodes / median(alone),
        "on Ray, episodes/s": episodes / median(shared),
        "ratio": median(a / b for a, b in zip(alone, shared, strict=True)),
        "seconds until actors play": starting,
        "same bytes": True,
        "bytes of a plan": len(pickle.dumps(share)) / len(share),
        "bytes of an episode's result": len(pickle.dumps(played)) / len(played),
        "bytes of the policy": len(pickle.dumps(policy)),
        "turns of an episode": sum(one.length for one in played) / len(played),
    }


def main() -> None:
    """Measure, and print."""
    it = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    it.add_argument("--workers", type=int, default=2)
    it.add_argument("--episodes", type=int, default=10_000)
    it.add_argument("--rounds", type=int, default=3)
    it.add_argument("--json", type=Path)
    asked = it.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before")
    with ray_running(asked.workers):
        found = {"evaluation": evaluation(asked.episodes, asked.workers, asked.rounds)}
    for part, numbers in found.items():
        print(f"\n{part}")
        for name, value in numbers.items():
            print(f"  {name:<32} {f'{value:.6g}' if isinstance(value, float) else value}")
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
