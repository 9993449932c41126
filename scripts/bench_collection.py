"""Seconds to play transitions in a vector environment and to write them as a Minari dataset.

    python scripts/bench_collection.py [--turns 100000] [--fields two] [--policy mixture]

Fields of the infos: `two` (action_mask, propensity), `usual` or `all`. The mixture is that of
convgym/customer-service/mixed-v0, its scripts asked row by row; `random` is batched itself. CPU
seconds are given per million turns, and CartPole's steps per CPU-second beside them tell how fast
the machine was. The data set is written to a temporary folder and deleted.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterable, Iterator
from typing import Any

import gymnasium as gym
from bench_env import ENVIRONMENT, cartpole

import convgym  # noqa: F401  registers the environments
from convgym.data.collection import collect_episodes
from convgym.data.episodes import write_dataset
from convgym.data.mixture import BatchMixture
from convgym.envs.registration import VECTOR_ENVIRONMENTS
from convgym.policies.batched import BatchPolicy, BatchRandomPolicy, RowPolicies
from convgym.policies.roster import ladder

FIELDS: dict[str, Any] = {"two": ["action_mask", "propensity"], "usual": None, "all": "all"}
BEHAVIOUR = (("keyword", 0.0, 0.2), ("slot-filling", 0.15, 0.35), ("planner", 0.2, 0.3))
"""Name, noise and weight of the scripts of the mixture; the rest is random."""


class Timed:
    """What is taken from an iterator, with the CPU seconds that it took to make."""

    def __init__(self, episodes: Iterable[Any], turns: int) -> None:
        self._episodes, self._most = episodes, turns
        self.seconds, self.turns, self.count = 0.0, 0, 0

    def __iter__(self) -> Iterator[Any]:
        episodes = iter(self._episodes)
        while self.turns < self._most:
            start = time.process_time()
            episode = next(episodes)
            self.seconds += time.process_time() - start
            self.turns += len(episode)
            self.count += 1
            yield episode


def behaviour(name: str, domain: str) -> BatchPolicy:
    """The policy that plays."""
    if name == "random":
        return BatchRandomPolicy()
    scripts = ladder(domain)

    def rows(script: Any, noise: float) -> RowPolicies:
        return RowPolicies(lambda: script(noise))

    played = [(rows(scripts[script], noise), weight) for script, noise, weight in BEHAVIOUR]
    return BatchMixture([(BatchRandomPolicy(), 0.15), *played])


def main() -> None:
    """Collect, write, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", default=ENVIRONMENT, choices=tuple(VECTOR_ENVIRONMENTS))
    parser.add_argument("--turns", type=int, default=100_000)
    parser.add_argument("--rows", type=int, default=512)
    parser.add_argument("--fields", default="two", choices=tuple(FIELDS))
    parser.add_argument("--policy", default="mixture", choices=("mixture", "random"))
    options = parser.parse_args()

    anchor = cartpole(1.0)
    spaces: dict[str, Any] = {"observation": "features", "action": "act"}
    env = gym.make(options.env, **spaces)
    base: Any = env.unwrapped
    envs = gym.make_vec(options.env, num_envs=options.rows, **spaces)
    policy = behaviour(options.policy, base.make_domain().domain)
    fields = FIELDS[options.fields]
    episodes = Timed(
        collect_episodes(envs, policy, options.turns, 0, info_fields=fields), options.turns
    )
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MINARI_DATASETS_PATH"] = folder
        start, wall = time.process_time(), time.perf_counter()
        dataset = write_dataset(
            "convgym/bench-v0",
            env,
            episodes,
            description="a benchmark",
            ref_min_score=0.0,
            ref_max_score=1.0,
            algorithm_name=policy.name,
        )
        whole = time.process_time() - start
        wall = time.perf_counter() - wall
        size = (dataset.storage.data_path / "main_data.hdf5").stat().st_size
    million, anchor = 1e6 / episodes.turns, (anchor + cartpole(1.0)) / 2
    print(
        f"{episodes.turns:,} turns in {episodes.count:,} episodes, {options.rows} rows, "
        f"{type(envs.unwrapped).__name__}, fields: {options.fields}, policy: {options.policy}"
    )
    print(f"per million turns: playing {episodes.seconds * million:.0f} CPU-s, ", end="")
    print(f"writing {(whole - episodes.seconds) * million:.0f} CPU-s, ", end="")
    print(f"together {whole * million:.0f} CPU-s ({wall * million:.0f} s), ", end="")
    print(f"{size * million / 1e9:.1f} GB; CartPole {anchor:,.0f} steps/CPU-s")


if __name__ == "__main__":
    main()
