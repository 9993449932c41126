"""Turns that a replay buffer draws in a CPU-second, beside numpy's choice with probabilities.

    python scripts/bench_replay.py [--turns 1000000] [--batches 256 4096] [--features 64]

Both draw indices, weigh them and gather the same rows; ours also finds which turn of which
conversation each is. `update` writes as many priorities.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np

from convgym.data.replay_buffer import ConversationReplayBuffer
from convgym.data.transitions import EpisodeArrays, returns_to_go

ROUNDS, LENGTH = 5, 10
ALPHA, BETA = 0.6, 0.4


def filled(turns: int, features: int, rng: np.random.Generator) -> ConversationReplayBuffer:
    """A full buffer of conversations of ten agent turns, with random priorities."""
    buffer = ConversationReplayBuffer(turns, ALPHA, BETA)
    seen = rng.random((LENGTH + 1, features), dtype=np.float32)
    rewards = rng.random(LENGTH)
    returns = returns_to_go(rewards, discount=1.0)
    episode = EpisodeArrays(seen, np.arange(LENGTH), rewards, True, False, returns)
    start = time.process_time()
    buffer.extend([episode] * (turns // LENGTH))
    print(f"extend            {len(buffer) / (time.process_time() - start):>12,.0f} turns/CPU-s")
    buffer.update_priorities(np.arange(len(buffer)), rng.uniform(0.01, 10, len(buffer)), "turn")
    return buffer


def rate(draw: Callable[[], object], batch: int) -> float:
    """Turns per CPU-second: batches for half a second."""
    start, drawn = time.process_time(), 0
    while time.process_time() - start < 0.5:
        draw()
        drawn += batch
    return drawn / (time.process_time() - start)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=1_000_000)
    parser.add_argument("--batches", type=int, nargs="+", default=[256, 4096])
    parser.add_argument("--features", type=int, default=64)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    buffer = filled(options.turns, options.features, rng)
    turns = len(buffer)
    columns = {
        "observation": rng.random((turns, options.features), dtype=np.float32),
        "next_observation": rng.random((turns, options.features), dtype=np.float32),
        "action": np.zeros(turns, dtype=np.int64),
        "reward": np.zeros(turns),
        "return_to_go": np.zeros(turns),
        "terminated": np.zeros(turns, dtype=bool),
        "truncated": np.zeros(turns, dtype=bool),
    }
    shares = rng.uniform(0.01, 10, turns) ** ALPHA

    def plainly(batch: int) -> object:
        chances = shares / shares.sum()
        drawn = rng.choice(turns, size=batch, p=chances)
        weights = (turns * chances[drawn]) ** -BETA
        return weights / weights.max(), {name: held[drawn] for name, held in columns.items()}

    for batch in options.batches:
        updated = rng.integers(0, turns, batch), rng.uniform(0.01, 10, batch)
        ours, theirs, changes = [], [], []
        for _ in range(ROUNDS):
            ours.append(rate(lambda size=batch: buffer.sample(size, "turn"), batch))
            theirs.append(rate(lambda size=batch: plainly(size), batch))
            changes.append(rate(lambda new=updated: buffer.update_priorities(*new, "turn"), batch))
        one, other, change = map(statistics.median, (ours, theirs, changes))
        print(f"{turns:,} turns, batches of {batch:,}")
        print(f"  sample          {one:>12,.0f} turns/CPU-s ({one / other:.1f} x)")
        print(f"  choice(p=...)   {other:>12,.0f} turns/CPU-s")
        print(f"  update          {change:>12,.0f} turns/CPU-s")


if __name__ == "__main__":
    main()
