"""What the embedded model learns with each objective: held-out success before and after, and cost.

    python scripts/bench_objectives.py --results results.jsonl
    python scripts/bench_objectives.py --objectives grpo gspo --seeds 3 --iterations 140
    python scripts/bench_objectives.py --objectives grpo --keywords '{"difficulty": 1.0}'
    python scripts/bench_objectives.py --keywords '{"domain": "sales"}' --model JOINT_MODEL

Conversations of `ConvGym/OneRequest-v0`: customers of the training split in training, those of the
test split in words that nobody trained on in evaluation (500, sampled at temperature 1). All
objectives have the numbers of `trainers.llm.embedded.tuned`. A finished run is one line of the
results file and is not done again; `--table` prints what there is.
Intervals (95 %) are of the mean over conversations for one run, over seeds for several: as wide as
the conversations' and the seeds' chance together.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from trainers.llm.chat_format import ChatFormat
from trainers.llm.embedded import embedded_folder
from trainers.llm.embedded.tuned import ENVIRONMENT, HELD_OUT, SAMPLING
from trainers.llm.language_model import LanguageModel
from trainers.llm.objectives import PRESETS
from trainers.llm.policy_optimizer import PolicyOptimizer
from trainers.llm.rollout_engine import RolloutEngine
from trainers.llm.run_options import tuned_config
from trainers.llm.sampling import Sampling
from trainers.llm.text_environment import TextEnvironment
from trainers.llm.transformers_sampler import TransformersSampler
from trainers.result_lines import ResultLines

OBJECTIVES = (*PRESETS, "trpo")


def engine_of(model: LanguageModel, **keywords: Any) -> RolloutEngine:
    """Conversations of the model with such customers."""
    environment = TextEnvironment(ENVIRONMENT, system="", kwargs=keywords)
    sampler, form = TransformersSampler(model.causal), ChatFormat(model.tokenizer)
    return RolloutEngine(environment, sampler, form, Sampling(**SAMPLING), max_turns=24)


def scored(engine: RolloutEngine, episodes: int) -> dict[str, float]:
    """Success and reward on held-out seeds."""
    played = [r for r in engine.collect(range(episodes), 1, rng_seed=0) if r.valid]
    return {
        "success": float(np.mean([rollout.success for rollout in played])),
        "reward": float(np.mean([rollout.return_ for rollout in played])),
        "episodes": len(played),
    }


def run(objective: str, seed: int, asked: argparse.Namespace) -> dict[str, Any]:
    """One finished run."""
    model = LanguageModel.load(asked.model or embedded_folder())
    training = engine_of(model, **asked.keywords)
    held_out = engine_of(model, **asked.keywords, **HELD_OUT)
    config = tuned_config(objective, iterations=asked.iterations, seed=seed)
    before = scored(held_out, asked.episodes)
    begun = time.process_time()
    rows = PolicyOptimizer(model, training, config).train()
    seconds = time.process_time() - begun
    if asked.keep is not None:
        name = "-".join(map(str, (objective, *asked.keywords.values(), seed)))
        model.save(asked.keep / name)
    return {
        "objective": objective, "seed": seed, "iterations": asked.iterations,
        "keywords": asked.keywords,
        "before": before, "after": scored(held_out, asked.episodes),
        "cpu_seconds": round(seconds, 1),
        "curve": [round(row.get("success", 0.0), 3) for row in rows[:: max(1, len(rows) // 15)]],
    }  # fmt: skip


def interval(rows: Sequence[dict[str, Any]], when: str) -> str:
    """Mean success over seeds, and half of its interval."""
    means = [row[when]["success"] for row in rows]
    mean = sum(means) / len(means)
    number = rows[0][when]["episodes"]
    variance = max(mean * (1 - mean), 1 / number) / number
    if len(means) > 1:
        variance += float(np.var(means, ddof=1)) / len(means)
    return f"{mean:.3f} ± {1.96 * math.sqrt(variance):.3f}"


def table(rows: Sequence[dict[str, Any]]) -> str:
    """One line for each environment, objective and number of iterations."""
    groups: dict[tuple[str, str, int], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        where = " ".join(f"{name}={value}" for name, value in row["keywords"].items())
        groups[where, row["objective"], row["iterations"]].append(row)
    lines = [
        "| objective | iterations | before | after | seeds | CPU-s a run |",
        "|---|---|---|---|---|---|",
    ]
    for (where, objective, iterations), found in sorted(
        groups.items(), key=lambda item: (item[0][0], -item[0][2], OBJECTIVES.index(item[0][1]))
    ):
        after = " ".join(f"{row['after']['success']:.3f}" for row in found)
        cost = sum(row["cpu_seconds"] for row in found) / len(found)
        lines.append(
            f"| {objective} {where} | {iterations} | {interval(found, 'before')} "
            f"| {interval(found, 'after')} ({after}) | {len(found)} | {cost:.0f} |"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing, print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--results", type=Path, default=Path("objectives.jsonl"))
    parser.add_argument("--objectives", nargs="+", default=list(OBJECTIVES), choices=OBJECTIVES)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--iterations", type=int, default=40)
    parser.add_argument("--episodes", type=int, default=500)
    parser.add_argument("--keywords", type=json.loads, default={}, help="of the environment, JSON")
    parser.add_argument("--model", help="a folder; the embedded model if it is left out")
    parser.add_argument("--keep", type=Path, help="a folder for what was trained")
    parser.add_argument("--table", action="store_true", help="print what there is, run nothing")
    asked = parser.parse_args(arguments)
    torch.set_num_threads(1)
    results = ResultLines(asked.results)
    for seed in range(0 if asked.table else asked.seeds):
        for objective in asked.objectives:
            key = {"objective": objective, "seed": seed, "iterations": asked.iterations}
            if results.has(**key, keywords=asked.keywords):
                continue
            last = results.add(**run(objective, seed, asked))
            print(
                f"{objective} {seed}: {last['before']['success']:.3f} -> "
                f"{last['after']['success']:.3f} in {last['cpu_seconds']:.0f} CPU-s",
                flush=True,
            )
    print(table(results.rows))


if __name__ == "__main__":
    main()
