"""Own offline learners beside d3rlpy's: updates per CPU-second with the same network and batch.

    python scripts/bench_offline.py
    python scripts/bench_offline.py --batch 256          with bfloat16, too

Both sides learn from the same conversations in one process, one torch thread, in turns; a ratio is
that of the best of `--rounds` stretches each. Only updates are timed, not the reading of data.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from trainers.offline.algorithms.bc import BCConfig
from trainers.offline.algorithms.bcq import BCQConfig
from trainers.offline.algorithms.cql import CQLConfig, DQNConfig
from trainers.offline.d3rlpy_buffers import to_replay_buffer
from trainers.offline.d3rlpy_manners import import_d3rlpy, quiet, seeded
from trainers.offline.sampling import Uniform
from trainers.toy_dialogue import ACTS, MAJORITY_BAD, majority_bad, record

HIDDEN = (256, 256, 256)


def own(config: Any, episodes: Any) -> Callable[[int], None]:
    """A function that takes n updates of our learner."""
    learner = config.create()
    turns = learner.build(episodes)
    sampling = Uniform(len(turns))

    def run(updates: int) -> None:
        for _ in range(updates):
            learner._update(turns, sampling)

    return run


def theirs(config: Any, episodes: Any) -> Callable[[int], None]:
    """A function that takes n updates of d3rlpy's learner."""
    buffer = to_replay_buffer(episodes, ACTS)
    with quiet(), seeded(0):
        algo = config.create(device=False)
        algo.build_with_dataset(buffer)

    def run(updates: int) -> None:
        with quiet():
            for _ in range(updates):
                algo.update(buffer.sample_transition_batch(config.batch_size))

    return run


def pace(run: Callable[[int], None], updates: int) -> float:
    """Updates per CPU-second."""
    begun = time.process_time()
    run(updates)
    return updates / (time.process_time() - begun)


def pairs(batch: int) -> dict[str, tuple[Any, Any]]:
    """By name: our config and d3rlpy's, with the same network, batch and target updates."""
    d3rlpy = import_d3rlpy()
    encoder = d3rlpy.models.VectorEncoderFactory(list(HIDDEN))
    ours: dict[str, Any] = {"hidden": HIDDEN, "batch_size": batch}
    other: dict[str, Any] = {"encoder_factory": encoder, "batch_size": batch}
    return {
        "BC": (BCConfig(**ours), d3rlpy.algos.DiscreteBCConfig(**other)),
        "CQL": (
            CQLConfig(**ours, target_update=8000),
            d3rlpy.algos.DiscreteCQLConfig(**other, target_update_interval=8000),
        ),
        "BCQ": (
            BCQConfig(**ours, target_update=8000),
            d3rlpy.algos.DiscreteBCQConfig(**other, target_update_interval=8000),
        ),
        "DQN": (
            DQNConfig(**ours, target_update=8000),
            d3rlpy.algos.DoubleDQNConfig(**other, target_update_interval=8000),
        ),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--updates", type=int, default=300, help="in a stretch")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", help="names of algorithms")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    episodes = record(majority_bad(), 4000, shares=MAJORITY_BAD)
    print(f"batch {options.batch}, network {HIDDEN}; updates per CPU-second")
    for name, (ours, other) in pairs(options.batch).items():
        if options.only and name not in options.only:
            continue
        runs = {"d3rlpy": theirs(other, episodes), "own": own(ours, episodes)}
        if options.batch >= 256:
            half = type(ours)(**{**ours.__dict__, "precision": "bfloat16"})
            runs["bfloat16"] = own(half, episodes)
        best = dict.fromkeys(runs, 0.0)
        for _ in range(options.rounds):
            for side, run in runs.items():
                best[side] = max(best[side], pace(run, options.updates))
        shown = "  ".join(f"{side} {value:.0f}" for side, value in best.items())
        ratios = "  ".join(
            f"{side} ÷ d3rlpy {best[side] / best['d3rlpy']:.2f}" for side in list(best)[1:]
        )
        print(f"{name:5s} {shown}  {ratios}", flush=True)


if __name__ == "__main__":
    main()
