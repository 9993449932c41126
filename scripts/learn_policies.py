"""One policy learnt in each domain, against the slot-filling script, on the whole test split.

    python scripts/learn_policies.py [--domain customer-service …] [--seeds 3] [--episodes 6000]
                                     [--steps 12000] [--out policies.json]

DiscreteCQL on episodes of scripted agents of mixed skill, a dataset and a learner for each seed;
nothing of the test split is seen before the end. Exits with an error where a learnt policy's 95 %
interval is not wholly above that of the slot-filling script.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import gymnasium as gym

import convgym  # noqa: F401 (registers the ids)
from convgym.data.episodes import collect, write_dataset
from convgym.engine.tasks import SPLITS
from convgym.evaluation.evaluate import Evaluation, evaluate
from convgym.policies.policy import Policy
from convgym.policies.roster import ladder

IDS = {
    "customer-service": "ConvGym/CustomerService-v0",
    "technical-support": "ConvGym/TechnicalSupport-v0",
    "sales": "ConvGym/Sales-v0",
}
DISCOUNT = 0.98
MAX_TURNS = 60


def behavior(domain: str) -> list[tuple[Policy, float]]:
    """Who plays the dataset, with shares; the best of them slips in one act of seven."""
    makers: Any = ladder(domain)
    return [
        (makers["random"](), 0.1),
        (makers["keyword"](noise=0.1), 0.1),
        (makers["slot-filling"](noise=0.15), 0.3),
        (makers["planner"](noise=0.15), 0.5),
    ]


def acting(domain: str, **keywords: Any) -> gym.Env[Any, Any]:
    """The environment with features in and acts out."""
    return gym.make(
        IDS[domain], observation="features", action="act", max_turns=MAX_TURNS, **keywords
    )


def learn(domain: str, episodes: int, steps: int, seed: int) -> Evaluation:
    """Collect, learn, and score on every test task."""
    from trainers.offline.d3rlpy_adapter import train_discrete_cql

    env = acting(domain, reward="milestones", discount=DISCOUNT)
    buffers = collect(env, behavior(domain), episodes, seed)
    dataset = write_dataset(
        f"learn/{domain}-{seed}/mixed-v0",
        env,
        buffers,
        description="Scripted agents of mixed skill.",
        ref_min_score=0.0,
        ref_max_score=1.0,
        algorithm_name="mixture",
        overwrite=True,
    )
    policy, _ = train_discrete_cql(dataset, n_steps=steps, seed=seed)
    return scored(domain, policy)


def scored(domain: str, policy: Policy) -> Evaluation:
    """Success on the whole test split."""
    env = acting(domain, split="test")
    return evaluate(policy, env, episodes=SPLITS["test"], split="test")


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--domain", nargs="*", default=list(IDS), choices=list(IDS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--episodes", type=int, default=6000)
    parser.add_argument("--steps", type=int, default=12_000)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    os.environ.setdefault("MINARI_DATASETS_PATH", tempfile.mkdtemp(prefix="convgym-"))
    rows: list[dict[str, Any]] = []
    short = []
    for domain in given.domain:
        makers: Any = ladder(domain)
        script = scored(domain, makers["slot-filling"]())
        print(f"{domain}\n  {script}", flush=True)
        for seed in range(given.seeds):
            began = time.perf_counter()
            found = learn(domain, given.episodes, given.steps, seed)
            seconds = time.perf_counter() - began
            print(f"  seed {seed}: {found}  {seconds:.0f} s", flush=True)
            rows.append(
                {"domain": domain, "seed": seed, "success": found.success,
                 "interval": list(found.success_interval), "slot_filling": script.success}
            )  # fmt: skip
            if found.success_interval[0] <= script.success_interval[1]:
                short.append(f"{domain}, seed {seed}: not above slot-filling")
    if given.out:
        given.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    if short:
        sys.exit("; ".join(short))


if __name__ == "__main__":
    main()
