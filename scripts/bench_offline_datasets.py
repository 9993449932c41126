"""Offline learners over acts on ConvGym's own data: what each earns on tasks it has not seen.

    python scripts/bench_offline_datasets.py --results results.jsonl
    python scripts/bench_offline_datasets.py --results results.jsonl --algorithms cql --seeds 5

Every algorithm learns from every dataset with the options of `trainers.offline.tuned`, once for
each seed, and plays the same tasks of `--split`. A finished fit is one line of the results file,
which is written whole or not at all; what is there is not done again, so that a run may be stopped
at any moment and begun anew. At the end, or at once with `--table`, one Markdown table is printed.

Means are over seeds; intervals (95 %) hold the chance of the tasks, which all seeds share, and of
the seeds. `behavior` is the mixture that made the data, playing the same tasks.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch

import convgym
from convgym.data.building import read_recipe
from convgym.evaluation.evaluate import Evaluation, evaluate_side_by_side
from trainers.offline.discrete_policy import DiscretePolicy
from trainers.offline.learner import shapes_of
from trainers.offline.registry import ACTS
from trainers.offline.tuned import STEPS, tuned

DOMAINS = ("customer-service", "technical-support", "sales")
DATASETS = tuple(f"convgym/{d}/{kind}-v0" for kind in ("mixed", "expert") for d in DOMAINS)
BEHAVIOR = "behavior"
ROWS = 64

Row = dict[str, Any]
Key = tuple[str, str, int]  # dataset, algorithm, seed


def played(policy: Any, dataset: Any, greedy: bool, options: argparse.Namespace) -> Evaluation:
    """A batched policy on the tasks; the behaviour keeps its noise, what was learnt is greedy."""
    envs = gym.make_vec(dataset.env_spec.id, num_envs=ROWS, **dataset.env_spec.kwargs)
    try:
        return evaluate_side_by_side(
            policy, envs, episodes=options.episodes, split=options.split, deterministic=greedy
        )
    finally:
        envs.close()


def fitted(algorithm: str, seed: int, data: Any, options: argparse.Namespace) -> Any:
    """(policy, CPU seconds) of a learner with its tuned options and those of `--set`."""
    episodes, shapes = data
    given = dict(pair.split("=", 1) for pair in options.set)
    changed = {name: json.loads(value) for name, value in given.items()}
    learner = tuned(algorithm, **changed, seed=seed).create()
    turns = learner.read(episodes)
    begun = time.process_time()
    policy = learner.fit(turns, options.steps, shapes=shapes)
    assert isinstance(policy, DiscretePolicy)
    return policy, time.process_time() - begun


def line(key: Key, found: Evaluation, seconds: float, options: argparse.Namespace) -> Row:
    """What a finished fit leaves in the results file."""
    dataset, algorithm, seed = key
    return {
        "dataset": dataset, "algorithm": algorithm, "seed": seed, "steps": options.steps,
        "options": options.set, "cpu_seconds": round(seconds, 2), **found.to_dict(),
    }  # fmt: skip


def stored(path: Path) -> dict[Key, Row]:
    """The finished fits."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    rows = [json.loads(one) for one in lines]
    return {(row["dataset"], row["algorithm"], row["seed"]): row for row in rows}


def store(path: Path, rows: dict[Key, Row]) -> None:
    """Write all of them, or leave the file as it was."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.part")
    temporary.write_text("".join(f"{json.dumps(r)}\n" for r in rows.values()), encoding="utf-8")
    os.replace(temporary, path)


# -- the table -------------------------------------------------------------------------------------


def combined(means: Sequence[float], half_widths: Sequence[float]) -> tuple[float, float]:
    """(mean over seeds, half of its 95 % interval).

    The seeds meet the same tasks, so that their chance does not shrink with more seeds; that of
    fitting does.
    """
    mean = sum(means) / len(means)
    tasks = sum(half**2 for half in half_widths) / len(means)
    if len(means) == 1:
        return mean, math.sqrt(tasks)
    seeds = sum((one - mean) ** 2 for one in means) / (len(means) - 1) / len(means)
    return mean, math.sqrt(tasks + 1.96**2 * seeds)


def shown(rows: Sequence[Row], score: str) -> str:
    """ "success" or "return" of one algorithm on one dataset."""
    column = "return_" if score == "return" else score
    intervals = [row[f"{score}_interval"] for row in rows]
    widths = [(high - low) / 2 for low, high in intervals]
    mean, half = combined([row[column] for row in rows], widths)
    return f"{mean:.3f} ± {half:.3f}"


def table(rows: dict[Key, Row]) -> str:
    """All results as one Markdown table, the behaviour first."""
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for (dataset, algorithm, _), row in rows.items():
        groups[dataset, algorithm].append(row)
    order = [BEHAVIOR, *ACTS]
    lines = [
        "| dataset | algorithm | success | return | seeds | CPU-s a fit |",
        "|---|---|---|---|---|---|",
    ]
    for (dataset, algorithm), found in sorted(
        groups.items(), key=lambda item: (item[0][0], order.index(item[0][1]))
    ):
        seconds = sum(row["cpu_seconds"] for row in found) / len(found)
        lines.append(
            f"| {dataset} | {algorithm} | {shown(found, 'success')} | {shown(found, 'return')} "
            f"| {len(found)} | {seconds:.1f} |"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Fit what is missing, print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--results", type=Path, default=Path("offline_results.jsonl"))
    parser.add_argument("--datasets", nargs="+", default=list(DATASETS))
    parser.add_argument("--algorithms", nargs="+", default=list(ACTS), choices=list(ACTS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--split", default="test")
    parser.add_argument("--episodes", type=int, default=2000, help="tasks to play")
    parser.add_argument("--set", nargs="*", default=[], metavar="option=value", help="of all fits")
    parser.add_argument("--table", action="store_true", help="print what there is, fit nothing")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    rows = stored(options.results)
    wanted = [] if options.table else options.datasets
    for name in wanted:
        keys = [(name, a, seed) for seed in range(options.seeds) for a in options.algorithms]
        missing = [key for key in [(name, BEHAVIOR, 0), *keys] if key not in rows]
        if not missing:
            continue
        dataset = convgym.load_dataset(name)
        data = shapes_of(dataset)
        for key in missing:
            _, algorithm, seed = key
            if algorithm == BEHAVIOR:
                policy, seconds = read_recipe(name).policies(), 0.0
            else:
                learnt, seconds = fitted(algorithm, seed, data, options)
                policy = learnt.batched()
            found = played(policy, dataset, algorithm != BEHAVIOR, options)
            rows[key] = line(key, found, seconds, options)
            store(options.results, rows)
            success = rows[key]["success"]
            print(f"{name} {algorithm} {seed}: {success:.3f} in {seconds:.1f} CPU-s", flush=True)
    print(table(rows))


if __name__ == "__main__":
    main()
