"""How much faster several workers are than one, and what travels between them.

    python scripts/bench_scale.py [--workers 2] [--episodes 10000] [--rounds 3] [--json FILE]

    evaluation   episodes a second of one process and of `workers` actors on Ray, in turn so that a
                 busy machine slows both; their ratio by the clock, and by CPU-seconds: what it is
                 where each worker has a core to itself. Whether both results are the same bytes
    rollouts     the same of the embedded language model's conversations, and of a learner's step:
                 its seconds, and the bytes of weights, conversations and gradients (the extra llm)

Needs the extra ray. Starting Ray and its actors is not in the rates; it has a line of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import gymnasium as gym

from convgym.crew.crew import Crew, Make, Work, crew_of
from convgym.crew.ray_crew import ray_running
from convgym.evaluation.evaluate import evaluate, plans, summary
from convgym.evaluation.rollout import Rollout
from convgym.evaluation.shares import given, playing
from convgym.policies.scripted import PlannerPolicy

ENV = "ConvGym/CustomerService-v0"
KEYWORDS = {"observation": "features", "action": "act"}


def costed(make: Make) -> Work:
    """A work that also says its CPU-seconds."""
    work = make()

    def cost(share: Any, common: Any) -> tuple[float, Any]:
        began = time.process_time()
        found = work(share, common)
        return time.process_time() - began, found

    return cost


def timed(crew: Crew, shares: Sequence[Any]) -> tuple[float, float, list[Any]]:
    """Seconds by the clock, CPU-seconds of workers and of this process, and what came."""
    clock, own = time.perf_counter(), time.process_time()
    found = list(crew.results(shares))
    seconds, own = time.perf_counter() - clock, time.process_time() - own
    worked = sum(cost for cost, _ in found)
    cpu = own if crew.workers == 1 else own + worked
    return seconds, cpu, [one for _, share in found for one in share]


def compared(make: Make, shares: Sequence[Any], workers: int, rounds: int) -> dict[str, Any]:
    """One process beside actors, in turn, on the same shares."""
    clock: list[float] = []
    cpu: list[float] = []
    alone: list[float] = []
    began = time.perf_counter()
    with crew_of(partial(costed, make), workers, "ray") as crew, crew_of(
        partial(costed, make)
    ) as one:  # fmt: skip
        list(crew.results(shares[: 4 * workers]))
        starting = time.perf_counter() - began
        list(one.results(shares[:1]))
        for _ in range(rounds):
            here, here_cpu, expected = timed(one, shares)
            there, there_cpu, found = timed(crew, shares)
            assert expected == found, "the result differs"
            alone.append(here)
            clock.append(here / there)
            cpu.append(workers * here_cpu / there_cpu)
    return {
        "workers": workers,
        "one process, a second": len(found) / median(alone),
        "ratio by the clock": median(clock),
        "ratio by CPU-seconds": median(cpu),
        "seconds until actors worked": starting,
        "bytes of a result": len(pickle.dumps(found)) / len(found),
    }


def evaluation(episodes: int, workers: int, rounds: int) -> dict[str, Any]:
    """One process beside `workers` actors."""
    env, policy = gym.make(ENV, **KEYWORDS), PlannerPolicy()
    make = partial(playing, env.spec, partial(given, policy), False)
    planned = plans(episodes, 0, "train", None, False)
    size = -(-episodes // (8 * workers))
    shares = [planned[first : first + size] for first in range(0, episodes, size)]
    found = compared(make, shares, workers, rounds)
    few: dict[str, Any] = {"episodes": 50, "split": "train"}
    here, there = (
        json.dumps(evaluate(policy, env, **few, **how).to_dict())
        for how in ({}, {"backend": "ray", "workers": workers})
    )
    played: list[Rollout] = make()(planned[:50], None)
    assert here == there and json.loads(here)["return_"] == summary("", "train", played).return_
    return found | {
        "bytes of a plan": len(pickle.dumps(planned)) / episodes,
        "bytes of the policy": len(pickle.dumps(policy)),
        "turns of an episode": sum(one.length for one in played) / len(played),
    }


def rollouts(workers: int, rounds: int) -> dict[str, Any]:
    """Conversations of the embedded model, played by one and by `workers`; a learner's step."""
    import torch

    from trainers.llm.embedded import embedded_folder
    from trainers.llm.embedded.tuned import ENVIRONMENT, MAX_TURNS, SAMPLING, TUNED
    from trainers.llm.language_model import LanguageModel
    from trainers.llm.policy_config import PolicyOptimizerConfig
    from trainers.llm.policy_optimizer import PolicyOptimizer
    from trainers.llm.rollout_workers import RolloutWorkers
    from trainers.llm.sampling import Sampling
    from trainers.llm.text_environment import TextEnvironment

    torch.set_num_threads(1)
    config = PolicyOptimizerConfig.from_dict(
        {**TUNED, "iterations": rounds, "max_turns": MAX_TURNS}
    ).changed(sampling=Sampling(**SAMPLING))
    model = LanguageModel.load(embedded_folder())
    environment = TextEnvironment(ENVIRONMENT, system="", kwargs={"topic": "status"})
    each = config.seeds_per_iteration * config.group_size
    seconds: dict[str, list[float]] = {"local": [], "ray": []}
    with (
        RolloutWorkers(model, environment, config) as here,
        RolloutWorkers(model, environment, config, workers=workers, backend="ray") as there,
    ):
        collectors = {"local": here, "ray": there}
        for number in range(rounds + 1):
            for name, collector in collectors.items():
                began = time.perf_counter()
                found = collector.collect(
                    range(config.seeds_per_iteration), config.group_size, rng_seed=number
                )
                seconds[name].append(time.perf_counter() - began)
        rows = PolicyOptimizer(model, here, config).train()
        sent = sum(len(value) for value in there.message().values())
    steps = config.minibatches * config.epochs
    return {
        "one process, conversations/s": each / median(seconds["local"][1:]),
        "on Ray, conversations/s": each / median(seconds["ray"][1:]),
        "ratio by the clock": median(
            a / b for a, b in zip(seconds["local"][1:], seconds["ray"][1:], strict=True)
        ),
        "bytes of weights": sent,
        "bytes of a conversation": len(pickle.dumps(found)) / len(found),
        "tokens of a conversation": sum(len(s.tokens) for r in found for s in r.segments) / each,
        "generation, s": median(row["generation_seconds"] for row in rows),
        "update, s": median(row["update_seconds"] for row in rows),
        "gradient bytes a step": sent,
        "update, s a step": median(row["update_seconds"] for row in rows) / steps,
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
    it.add_argument("--without-llm", action="store_true")
    asked = it.parse_args()
    print(f"{os.cpu_count()} cores; {os.getloadavg()[0]:.1f} processes wanted one before")
    found: dict[str, dict[str, Any]] = {}
    parts: dict[str, Callable[[], dict[str, Any]]] = {
        "evaluation": lambda: evaluation(asked.episodes, asked.workers, asked.rounds),
        "rollouts": lambda: rollouts(asked.workers, asked.rounds),
    }
    with ray_running(asked.workers):
        for part in ["evaluation"] if asked.without_llm else list(parts):
            found[part] = parts[part]()
            print(f"\n{part}")
            for name, value in found[part].items():
                print(f"  {name:<32} {f'{value:.6g}' if isinstance(value, float) else value}")
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
