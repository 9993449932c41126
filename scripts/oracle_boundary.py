"""The oracle across a process boundary: every task can be solved with what is handed out.

    python scripts/oracle_boundary.py [--env ConvGym/CustomerService-v0] [--episodes 1000]
                                      [--split test] [--seed 0]

    child                                    parent
    environment ── {"features", "mask"} ──►  oracle
                ◄── {"action"} ────────────

The child holds the environment, the task and the user. All that crosses is one JSON line a
step: belief features and action mask one way, an act's number the other. When an episode
has ended, the child says whether it was a success.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, TextIO

import gymnasium
import numpy as np

import convgym  # noqa: F401  registers the environments
from convgym.engine.keys import child as child_key
from convgym.envs.registration import ENVIRONMENTS
from convgym.evaluation.intervals import wilson
from convgym.policies.roster import ladder

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT = "ConvGym/CustomerService-v0"


def serve(lines: TextIO, answers: TextIO, environment: str = ENVIRONMENT) -> None:
    """The child: plays the environment for whoever writes JSON lines."""
    env = gymnasium.make(environment, observation="features", action="act")

    def answer(**values: Any) -> None:
        print(json.dumps(values), file=answers, flush=True)

    for line in lines:
        asked = json.loads(line)
        if "task_id" in asked:
            features, info = env.reset(seed=asked["seed"], options={"task_id": asked["task_id"]})
        else:
            features, _, terminated, truncated, info = env.step(asked["action"])
            if terminated or truncated:
                answer(success=info["success"])
                continue
        answer(features=features.tolist(), mask=info["action_mask"].tolist())


def play_across(
    episodes: int, split: str = "test", seed: int = 0, environment: str = ENVIRONMENT
) -> list[bool]:
    """The parent: whether the oracle succeeded, task by task."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    base: Any = gymnasium.make(environment).unwrapped
    policy, successes = ladder(base.make_domain().domain)["oracle"](), []
    with subprocess.Popen(
        [sys.executable, __file__, "--child", "--env", environment],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    ) as other:
        assert other.stdin is not None and other.stdout is not None
        to_child, from_child = other.stdin, other.stdout

        def ask(**values: Any) -> dict[str, Any]:
            print(json.dumps(values), file=to_child, flush=True)
            answered: dict[str, Any] = json.loads(from_child.readline())
            return answered

        for index in range(episodes):
            key = child_key(seed, index)
            policy.reset(key)
            answered = ask(task_id=f"{split}-{index}", seed=key)
            while "success" not in answered:
                features = np.array(answered["features"], dtype=np.float32)
                mask = np.array(answered["mask"], dtype=np.int8)
                action, _ = policy.predict(features, action_masks=mask)
                answered = ask(action=action)
            successes.append(answered["success"])
        to_child.close()
    return successes


def main() -> None:
    """Print the oracle's success with its interval."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", default=ENVIRONMENT, choices=tuple(ENVIRONMENTS))
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--split", default="test")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        serve(sys.stdin, sys.stdout, arguments.env)
        return
    successes = play_across(arguments.episodes, arguments.split, arguments.seed, arguments.env)
    won = sum(successes)
    low, high = wilson(won, len(successes))
    print(
        f"oracle across a process boundary: success {won}/{len(successes)} = "
        f"{won / len(successes):.3f} [{low:.4f}, {high:.4f}] on {arguments.split}"
    )
    failed = [f"{arguments.split}-{i}" for i, success in enumerate(successes) if not success]
    if failed:
        sys.exit(f"failed: {', '.join(failed[:20])}")


if __name__ == "__main__":
    main()
