"""Train a language model by GRPO, or another objective, on any Gymnasium environment of texts.

    python scripts/train_grpo.py ConvGym/OneRequest-v0
    python scripts/train_grpo.py my_module:MyText-v0 --model runs/sft --out runs/grpo
    python scripts/train_grpo.py ConvGym/OneRequest-v0 --objective gspo --seed 1
                                 --settings '{"learning_rate": 0.001}' --checkpoint run.safetensors

    [--keywords '{"difficulty": 0.1}'] [--held-out '{"split": "test", "phrases": "held_out"}']
    [--model embedded] [--lora 0] [--system ""] [--max-tokens 24] [--max-context 512]
    [--max-turns 16] [--slots 64] [--device cpu] [--threads 1] [--episodes 500] [--log metrics]

The model is a folder or a name of transformers, or "embedded": the one that comes with ConvGym.
Observations are texts, Dicts with a text called `message`, or lists of messages; actions are texts.
Prints what the model scores before and after on held-out seeds, and what the learning cost in
CPU-seconds. The same command with the same --checkpoint goes on where it was broken off.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch

from convgym.errors import ConvGymError, InvalidConfiguration
from convgym.evaluation.intervals import mean_interval
from trainers.callbacks import CSVLog
from trainers.llm.chat_format import ChatFormat
from trainers.llm.embedded import embedded_folder
from trainers.llm.embedded.tuned import HELD_OUT, MAX_TURNS, SAMPLING, TUNED
from trainers.llm.language_model import LanguageModel, LoRA
from trainers.llm.objectives import PRESETS
from trainers.llm.policy_optimizer import PolicyOptimizer
from trainers.llm.rollout_engine import RolloutEngine
from trainers.llm.run_options import tuned_config
from trainers.llm.sampling import Sampling
from trainers.llm.text_environment import TextEnvironment
from trainers.llm.transformers_sampler import TransformersSampler


def named_values(text: str) -> dict[str, Any]:
    """An object of JSON; raises ValueError for another text, as argparse expects."""
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError(f"{text} is no object")
    return found


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    it = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    it.add_argument("env", help="any Gymnasium id, texts in and out")
    it.add_argument("--model", default="embedded", help="a folder, a name, or embedded")
    it.add_argument("--objective", default="grpo", choices=list(PRESETS))
    it.add_argument("--seed", type=int, default=0)
    it.add_argument("--settings", type=named_values, default={}, help="of PolicyOptimizerConfig")
    it.add_argument("--keywords", type=named_values, default={}, help="of the environment")
    it.add_argument("--held-out", type=named_values, help="keywords that an evaluation changes")
    it.add_argument("--lora", type=int, default=0, help="rank of adapters; 0: all weights learn")
    it.add_argument("--system", help="instead of the environment's; the embedded model has none")
    it.add_argument("--max-tokens", type=int, default=SAMPLING["max_tokens"], help="of a reply")
    it.add_argument(
        "--max-context", type=int, default=SAMPLING["max_context"], help="of a conversation"
    )
    it.add_argument("--max-turns", type=int, default=MAX_TURNS, help="replies of a conversation")
    it.add_argument("--temperature", type=float, default=1.0)
    it.add_argument("--slots", type=int, default=64, help="conversations at a time")
    it.add_argument("--device", default="cpu")
    it.add_argument("--threads", type=int, default=1)
    it.add_argument("--episodes", type=int, default=500, help="of an evaluation")
    it.add_argument("--out", type=Path, help="write the model to this folder")
    it.add_argument("--checkpoint", type=Path, help="go on from this file, and write it")
    it.add_argument("--log", type=Path, help="a file for metrics as CSV")
    return it


def engine_of(
    asked: argparse.Namespace, model: LanguageModel, changes: Mapping[str, Any]
) -> RolloutEngine:
    """Conversations of `model` with the environment, its keywords changed so."""
    system = "" if asked.system is None and asked.model == "embedded" else asked.system
    environment = TextEnvironment(asked.env, system=system, kwargs={**asked.keywords, **changes})
    engine = RolloutEngine(
        environment,
        TransformersSampler(model.module),
        ChatFormat(model.tokenizer),
        Sampling(
            temperature=asked.temperature,
            max_tokens=asked.max_tokens,
            max_context=asked.max_context,
        ),
        slots=asked.slots,
        max_turns=asked.max_turns,
    )
    return engine


def measured(engine: RolloutEngine, episodes: int) -> str:
    """What the model scores on held-out seeds, sampled at the temperature of training."""
    played = engine.collect(range(episodes), 1, rng_seed=0)
    found = [rollout for rollout in played if rollout.valid]
    if not found:
        return f"every rollout failed, the first with: {played[0].error}"
    parts = []
    for name, values in (
        ("success", [float(rollout.success) for rollout in found]),
        ("reward", [rollout.return_ for rollout in found]),
    ):
        low, high = mean_interval(values)
        parts.append(f"{name} {np.mean(values):.3f} [{low:.3f}, {high:.3f}]")
    turns = np.mean([len(rollout.rewards) for rollout in found])
    tokens = np.mean([sum(len(s.tokens) for s in rollout.segments) for rollout in found])
    return f"{', '.join(parts)}, {turns:.1f} turns and {tokens:.0f} tokens a conversation"


class Cost:
    """A callback that prints every tenth row, with the CPU-seconds of learning so far."""

    def __init__(self, every: int = 10) -> None:
        self._every, self._began = every, time.process_time()

    @property
    def seconds(self) -> float:
        """Since it was made."""
        return time.process_time() - self._began

    def __call__(self, row: Mapping[str, float]) -> None:
        """Print a row."""
        if row["step"] % self._every == 0:
            shown = {"reward_mean": "reward", "success": "success", "entropy": "entropy"}
            said = [f"{label} {row[name]:.3f}" for name, label in shown.items() if name in row]
            print(f"{row['step']:.0f}: {', '.join(said)}, {self.seconds:.0f} CPU-s", flush=True)


def run(asked: argparse.Namespace) -> None:
    """Train, and say what was learnt."""
    if asked.episodes < 1:
        raise InvalidConfiguration(f"--episodes {asked.episodes}; an evaluation takes 1 or more")
    torch.set_num_threads(asked.threads)
    model = LanguageModel.load(
        embedded_folder() if asked.model == "embedded" else asked.model,
        device=asked.device,
        lora=LoRA(rank=asked.lora, alpha=2 * asked.lora) if asked.lora else None,
    )
    held_out = asked.held_out
    if held_out is None:
        held_out = HELD_OUT if asked.env.startswith("ConvGym/") else {}
    engine, judge = engine_of(asked, model, {}), engine_of(asked, model, held_out)
    engine.exact = True  # type: ignore[attr-defined]  # the learner's own weights sample
    config = tuned_config(asked.objective, iterations=TUNED["iterations"]).changed(**asked.settings)
    config = replace(config, sampling=engine.sampling, seed=asked.seed)
    print(f"before: {measured(judge, asked.episodes)}", flush=True)
    cost = Cost()
    callbacks = [cost] if asked.log is None else [cost, CSVLog(asked.log)]
    learner = PolicyOptimizer(model, engine, config, callbacks, evaluation=judge)
    if asked.checkpoint is not None and asked.checkpoint.is_file():
        learner.restore(asked.checkpoint)
    learner.train(asked.checkpoint)
    print(f"learnt in {cost.seconds:.0f} CPU-s{f'; {learner.stopped}' if learner.stopped else ''}")
    print(f"after: {measured(judge, asked.episodes)}")
    if asked.out is not None:
        model.save(asked.out)


def main() -> None:
    """The command."""
    try:
        run(parser().parse_args())
    except (ConvGymError, gym.error.Error) as error:
        sys.exit(f"train_grpo: {error}")


if __name__ == "__main__":
    main()
