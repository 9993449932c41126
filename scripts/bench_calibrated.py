"""Steps per second with a calibrated user, as a ratio to the environment's own, in one run.

    python scripts/bench_calibrated.py DATA/multidogo/train.jsonl.gz [--rows 512] [--seconds 2]

Random legal acts drive both sides in turns; seconds are of the CPU. Wanted: 0.5 or more. What the
fit itself takes and gives, users' turns of `LogSimulator.generate`, is printed first.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import convgym  # noqa: F401  registers the environments
from convgym.calibration.calibration import calibrate
from convgym.data.logs import read_log
from convgym.envs.registration import VECTOR_ENVIRONMENTS

OBSERVATIONS = ("features", "message", "dict")
ROUNDS = 4
"""Of each side, one after the other."""
Steps = Callable[[], int]


def single(env_id: str, **keywords: Any) -> Steps:
    """Some steps of one environment."""
    env = gym.make(env_id, action="act", disable_env_checker=True, **keywords).unwrapped
    chance = np.random.default_rng(0)
    env.reset(seed=0)

    def steps() -> int:
        for _ in range(500):
            legal = np.flatnonzero(env.action_masks())  # type: ignore[attr-defined]
            *_, terminated, truncated, _ = env.step(int(chance.choice(legal)))
            if terminated or truncated:
                env.reset()
        return 500

    return steps


def batched(env_id: str, rows: int, **keywords: Any) -> Steps:
    """Some steps of many environments."""
    env = gym.make_vec(env_id, rows, action="act", **keywords)
    chance = np.random.default_rng(0)
    env.reset(seed=0)

    def steps() -> int:
        for _ in range(20):
            masks = np.stack(env.call("action_masks"))
            env.step((masks * chance.random(masks.shape)).argmax(axis=1))
        return 20 * rows

    return steps


def rate(sides: dict[str, Steps], seconds: float) -> dict[str, float]:
    """Steps a CPU-second of each, in turns."""
    spent, done = dict.fromkeys(sides, 0.0), dict.fromkeys(sides, 0)
    for steps in sides.values():
        steps()
    for _ in range(ROUNDS):
        for name, steps in sides.items():
            start = time.process_time()
            while time.process_time() - start < seconds / ROUNDS:
                done[name] += steps()
            spent[name] += time.process_time() - start
    return {name: done[name] / spent[name] for name in sides}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("log", help="conversations to fit, such as train.jsonl.gz")
    parser.add_argument("--logs", type=int, default=1000, help="of them, at most")
    parser.add_argument("--rows", type=int, default=512)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each side")
    options = parser.parse_args()
    logs = list(read_log(options.log))[: options.logs]
    start = time.process_time()
    calibration = calibrate(logs)
    print(f"{len(logs)} conversations fitted in {time.process_time() - start:.1f} CPU-s")
    start = time.process_time()
    talks = calibration.simulator().generate(1000, seed=0)
    turns = sum(1 for talk in talks for _ in talk.said_by("user"))
    print(f"{turns / (time.process_time() - start):,.0f} user turns a CPU-second")
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "user.npz")
        calibration.save(path)
        for env_id in VECTOR_ENVIRONMENTS:
            if env_id == "ConvGym/OwnDomain-v0":  # takes a folder, and is a desk like the others
                continue
            for seen in OBSERVATIONS:
                for name, made in (("single", single), ("batched", batched)):
                    size = (options.rows,) if made is batched else ()
                    sides = {
                        side: made(env_id, *size, observation=seen, **fitted)
                        for side, fitted in (("own", {}), ("calibrated", {"user": path}))
                    }
                    found = rate(sides, options.seconds)
                    print(
                        f"{env_id:30s} {seen:9s} {name:8s} own {found['own']:9,.0f}  "
                        f"calibrated {found['calibrated']:9,.0f}  "
                        f"ratio {found['calibrated'] / found['own']:.2f}",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
