"""Train an agent with PPO of Ray RLlib, masks included, and see what it has learnt.

    pip install "convgym[rllib]"
    python scripts/train_rllib.py --env ConvGym/CustomerService-v0 --steps 200000 --seed 0
    [--keywords '{"difficulty": 0.2}'] [--runners 2] [--batch 2048] [--out runs/rllib]

Prints success on the test split with its 95 % interval, before and after. `--runners` are processes
of ray that play; `--out` is a folder for RLlib's own checkpoint.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym

from convgym.errors import ConvGymError
from convgym.evaluation.evaluate import evaluate
from trainers.online.rllib_masks import ACTING, RLlibPolicy, masked_ppo


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    it = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    it.add_argument("--env", default="ConvGym/CustomerService-v0", help="an id of acts and masks")
    it.add_argument("--steps", type=int, default=200_000, help="agent turns, rounded up")
    it.add_argument("--seed", type=int, default=0)
    it.add_argument("--keywords", type=json.loads, default={}, help="of the environment, as JSON")
    it.add_argument("--runners", type=int, default=0, help="processes that play")
    it.add_argument("--batch", type=int, default=2048, help="agent turns of an iteration")
    it.add_argument("--episodes", type=int, default=500, help="of an evaluation")
    it.add_argument("--out", type=Path, help="a folder for the checkpoint")
    return it


def train(asked: argparse.Namespace) -> None:
    """Score, learn, score, save."""
    config = masked_ppo(
        asked.env, {"reward": "graded", **asked.keywords}, asked.seed, asked.runners
    ).training(
        train_batch_size_per_learner=asked.batch, minibatch_size=min(256, asked.batch)
    )
    env = gym.make(asked.env, disable_env_checker=True, **{**ACTING, **asked.keywords})
    import ray

    ray.init(num_cpus=asked.runners + 1, include_dashboard=False, log_to_driver=False)
    try:
        algorithm = config.build_algo()
        before: Any = evaluate(RLlibPolicy(algorithm.get_module()), env, episodes=asked.episodes)
        print("before:", before, flush=True)
        began, turns = time.perf_counter(), 0
        while turns < asked.steps:
            found = algorithm.train()["env_runners"]
            turns = int(found["num_env_steps_sampled_lifetime"])
            mean = found.get("episode_return_mean", float("nan"))
            print(f"{turns:>8} turns  return {mean:.3f}", file=sys.stderr, flush=True)
        seconds = time.perf_counter() - began
        after = evaluate(RLlibPolicy(algorithm.get_module()), env, episodes=asked.episodes)
        print(f"after:  {after}\n{turns} turns in {seconds:.0f} s", flush=True)
        if asked.out:
            algorithm.save_to_path(asked.out.resolve())
            print(f"the checkpoint is in {asked.out}")
        algorithm.stop()
    finally:
        ray.shutdown()


def main(given: list[str] | None = None) -> int:
    """Train as the options say."""
    asked = parser().parse_args(given)
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    try:
        train(asked)
    except ConvGymError as error:
        print(f"train_rllib: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
