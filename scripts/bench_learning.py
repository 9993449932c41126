"""How much of MaskablePPO's training is spent in the environment.

    python scripts/bench_learning.py [--env ID …] [--turns 40960]

The learner trains as `MaskablePPOConfig` says, conversations side by side; every call of its
vector environment is timed: resets, steps with grading and observations, and the masks. Seconds are
of the CPU, on one thread; what is compiled and drawn once is made before.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
import torch

import convgym  # noqa: F401  registers the environments
from convgym.envs.registration import VECTOR_ENVIRONMENTS
from trainers.online.maskable_ppo import MaskablePPOConfig
from trainers.online.vec_env import ConversationVecEnv

TIMED = ("reset", "step_async", "step_wait", "action_masks", "env_method")


class Clock:
    """CPU seconds spent in methods of a class, as long as it is entered; nested calls once."""

    def __init__(self, kind: type[Any], names: tuple[str, ...]) -> None:
        self._kind, self._kept = kind, {name: getattr(kind, name) for name in names}
        self._depth, self.seconds = 0, 0.0

    def _timed(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **keywords: Any) -> Any:
            self._depth += 1
            start = time.process_time()
            try:
                return method(*args, **keywords)
            finally:
                self._depth -= 1
                if not self._depth:
                    self.seconds += time.process_time() - start

        return timed

    def __enter__(self) -> Clock:
        for name, method in self._kept.items():
            setattr(self._kind, name, self._timed(method))
        return self

    def __exit__(self, *error: object) -> None:
        for name, method in self._kept.items():
            setattr(self._kind, name, method)


def main() -> None:
    """Train in each environment and print the shares."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", nargs="*", default=[
        name for name in VECTOR_ENVIRONMENTS if "Own" not in name
    ])
    parser.add_argument("--turns", type=int, default=40_960, help="of training, in each")
    options = parser.parse_args()

    torch.set_num_threads(1)
    config = MaskablePPOConfig()
    print(f"{config.n_envs} conversations side by side, {options.turns:,} turns")
    for name in options.env:
        make = partial(gym.make, name, observation="features", action="act", reward="graded")
        config.create().fit(make, config.n_envs * config.n_steps)
        with Clock(ConversationVecEnv, TIMED) as clock:
            start = time.process_time()
            config.create().fit(make, options.turns)
            whole = time.process_time() - start
        print(
            f"{name:<32}{options.turns / whole:>8,.0f} turns/CPU-s, environment "
            f"{clock.seconds / whole:.1%} of {whole:.1f} s"
        )


if __name__ == "__main__":
    main()
