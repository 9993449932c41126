"""Own offline learners beside d3rlpy's: updates per CPU-second with the same network and batch.

    python scripts/bench_offline.py
    python scripts/bench_offline.py --batch 256          with bfloat16, too
    python scripts/bench_offline.py --vectors            actions that are vectors of 16 numbers
    python scripts/bench_offline.py --values             what either side reaches, not how fast

Both sides learn from the same conversations in one process, one torch thread, in turns; a ratio is
that of the best of `--rounds` stretches each. Only updates are timed, not the reading of data.
d3rlpy's BEAR is there for its speed only: what it learns is wrong (`d3rlpy_adapter`).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from convgym.data.transitions import EpisodeArrays
from trainers.offline.algorithms.bc import BCConfig
from trainers.offline.algorithms.bcq import BCQConfig
from trainers.offline.algorithms.cql import CQLConfig, DQNConfig
from trainers.offline.algorithms.td3_bc import TD3BCConfig
from trainers.offline.algorithms.vector_bc import VectorBCConfig
from trainers.offline.algorithms.vector_bcq import VectorBCQConfig
from trainers.offline.algorithms.vector_bear import VectorBEARConfig
from trainers.offline.algorithms.vector_cql import VectorCQLConfig
from trainers.offline.algorithms.vector_iql import VectorIQLConfig
from trainers.offline.d3rlpy_adapter import fit_d3rlpy
from trainers.offline.d3rlpy_buffers import to_replay_buffer
from trainers.offline.d3rlpy_manners import import_d3rlpy, quiet, seeded
from trainers.offline.sampling import Uniform
from trainers.toy_dialogue import (
    ACTS,
    MAJORITY_BAD,
    START,
    embedding,
    majority_bad,
    policy_table,
    record,
    toy_model,
)

HIDDEN = (256, 256, 256)
SMALL = (128, 128)
DISCOUNT = 0.95
VECTOR = 16


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
    buffer = to_replay_buffer(episodes, ACTS if episodes[0].actions.ndim == 1 else None)
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


def pairs(
    hidden: tuple[int, ...], batch: int, target_update: int, alpha: float = 0.5, seed: int = 0
) -> dict[str, tuple[Any, Any]]:
    """By name: our config and d3rlpy's, with the same network, batch and options."""
    d3rlpy = import_d3rlpy()
    theirs = d3rlpy.algos
    ours: dict[str, Any] = {
        "hidden": hidden, "batch_size": batch, "discount": DISCOUNT, "learning_rate": 1e-3,
        "seed": seed,
    }  # fmt: skip
    other: dict[str, Any] = {
        "encoder_factory": d3rlpy.models.VectorEncoderFactory(list(hidden)),
        "batch_size": batch,
        "learning_rate": 1e-3,
    }
    values = {**other, "gamma": DISCOUNT, "target_update_interval": target_update}
    ours_too = {**ours, "target_update": target_update}
    return {
        "BC": (BCConfig(**ours), theirs.DiscreteBCConfig(**other, beta=0.0)),
        "CQL": (
            CQLConfig(**ours_too, cql_alpha=alpha),
            theirs.DiscreteCQLConfig(**values, alpha=alpha),
        ),
        "BCQ": (BCQConfig(**ours_too), theirs.DiscreteBCQConfig(**values)),
        "DQN": (DQNConfig(**ours_too), theirs.DoubleDQNConfig(**values)),
    }


def vector_pairs(hidden: tuple[int, ...], batch: int) -> dict[str, tuple[Any, Any]]:
    """The same of algorithms over vectors; as many samples on either side, α of CQL not learnt."""
    d3rlpy = import_d3rlpy()
    theirs, network = d3rlpy.algos, d3rlpy.models.VectorEncoderFactory(list(hidden))
    ours: dict[str, Any] = {
        "hidden": hidden, "batch_size": batch, "discount": DISCOUNT, "learning_rate": 1e-3,
    }  # fmt: skip
    other: dict[str, Any] = {
        "batch_size": batch,
        "gamma": DISCOUNT,
        "actor_learning_rate": 1e-3,
        "critic_learning_rate": 1e-3,
        "actor_encoder_factory": network,
        "critic_encoder_factory": network,
    }
    generative = {**other, "imitator_encoder_factory": network, "imitator_learning_rate": 1e-3}
    return {
        "BC": (
            VectorBCConfig(**ours),
            theirs.BCConfig(batch_size=batch, learning_rate=1e-3, encoder_factory=network),
        ),
        "TD3+BC": (TD3BCConfig(**ours), theirs.TD3PlusBCConfig(**other)),
        "IQL": (VectorIQLConfig(**ours), theirs.IQLConfig(**other, value_encoder_factory=network)),
        "BCQ": (
            VectorBCQConfig(**ours, num_samples=10),
            theirs.BCQConfig(**generative, n_action_samples=10),
        ),
        "CQL": (
            VectorCQLConfig(**ours, random_actions=10),
            theirs.CQLConfig(**other, n_action_samples=10, alpha_learning_rate=0.0),
        ),
        "BEAR": (
            VectorBEARConfig(**ours, num_samples=10),
            theirs.BEARConfig(**generative, n_target_samples=10, warmup_steps=0),
        ),
    }


def in_vectors(episodes: Sequence[EpisodeArrays]) -> list[EpisodeArrays]:
    """The same conversations; each act is a vector of 16 numbers."""
    table = np.random.default_rng(0).uniform(-1, 1, (ACTS, VECTOR)).astype(np.float32)
    return [replace(e, actions=table[e.actions], masks=None, propensities=None) for e in episodes]


def paces(runs: dict[str, Callable[[int], None]], options: argparse.Namespace) -> dict[str, float]:
    """Of each side the best of its stretches, taken in turns."""
    best = dict.fromkeys(runs, 0.0)
    for _ in range(options.rounds):
        for side, run in runs.items():
            best[side] = max(best[side], pace(run, options.updates))
    return best


def vector_speeds(options: argparse.Namespace) -> None:
    """Print updates per CPU-second over vectors as one table."""
    episodes = in_vectors(record(majority_bad(), 4000, shares=MAJORITY_BAD))
    print(f"batch {options.batch}, network {HIDDEN}; updates per CPU-second")
    print("| algorithm | ours | d3rlpy | ratio |\n|---|---|---|---|")
    for name, (ours, other) in vector_pairs(HIDDEN, options.batch).items():
        if name in (options.only or [name]):
            sides = {"d3rlpy": theirs(other, episodes), "own": own(ours, episodes)}
            best = paces(sides, options)
            ratio = best["own"] / best["d3rlpy"]
            print(
                f"| {name} | {best['own']:.0f} | {best['d3rlpy']:.0f} | {ratio:.2f} |", flush=True
            )


def speeds(options: argparse.Namespace) -> None:
    """Print updates per CPU-second, and ratios."""
    episodes = record(majority_bad(), 4000, shares=MAJORITY_BAD)
    print(f"batch {options.batch}, network {HIDDEN}; updates per CPU-second")
    for name, (ours, other) in pairs(HIDDEN, options.batch, 8000).items():
        if name not in (options.only or [name]):
            continue
        runs = {"d3rlpy": theirs(other, episodes), "own": own(ours, episodes)}
        if options.batch >= 256:
            runs["bfloat16"] = own(replace(ours, precision="bfloat16"), episodes)
        best = paces(runs, options)
        shown = "  ".join(f"{side} {value:.0f}" for side, value in best.items())
        ratios = "  ".join(
            f"{side} ÷ d3rlpy {best[side] / best['d3rlpy']:.2f}" for side in list(best)[1:]
        )
        print(f"{name:5s} {shown}  {ratios}", flush=True)


def values(options: argparse.Namespace) -> None:
    """Print the true value at the start that either side's policy reaches, after as many steps.

    A mean over seeds and half of its 95 % interval; exact values, so that only fitting is chance.
    """
    model = toy_model()
    episodes = record(majority_bad(), 1500, shares=MAJORITY_BAD)
    best = model.optimal()[0][START]
    print(f"{options.steps} steps, network {SMALL}, {options.seeds} seeds; the best is {best:.3f}")
    print("| algorithm | d3rlpy | own |\n|---|---|---|")
    for name in options.only or pairs(SMALL, 128, 250):
        found: dict[str, list[float]] = {"d3rlpy": [], "own": []}
        for seed in range(options.seeds):
            ours, other = pairs(SMALL, 128, 250, alpha=0.05, seed=seed)[name]
            policy = ours.create().fit(episodes, options.steps)
            buffer = to_replay_buffer(episodes, ACTS)
            algo = fit_d3rlpy(other, buffer, n_steps=options.steps, seed=seed)
            tables = {
                "own": policy_table(policy.action_probs),
                "d3rlpy": np.eye(ACTS)[algo.predict(embedding(384))],
            }
            for side, table in tables.items():
                found[side].append(float(model.values(table)[START]))
        print(f"| {name} | {interval(found['d3rlpy'])} | {interval(found['own'])} |", flush=True)


def interval(found: list[float]) -> str:
    """mean ± half of the 95 % interval."""
    half = 1.96 * float(np.std(found, ddof=1)) / len(found) ** 0.5
    return f"{np.mean(found):.3f} ± {half:.3f}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Speeds, or values with `--values`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--updates", type=int, default=300, help="in a stretch")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", help="names of algorithms")
    parser.add_argument("--vectors", action="store_true", help="algorithms over vectors")
    parser.add_argument("--values", action="store_true", help="what is reached, not how fast")
    parser.add_argument("--steps", type=int, default=2000, help="of a fit, with --values")
    parser.add_argument("--seeds", type=int, default=5, help="of each side, with --values")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    (values if options.values else vector_speeds if options.vectors else speeds)(options)


if __name__ == "__main__":
    main()
