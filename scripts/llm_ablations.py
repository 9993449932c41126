"""What each part of the language-model learners brings, on conversations built to need it.

    python scripts/llm_ablations.py [--seeds 5] [--only memory plan …] [--results ablations.jsonl]

    part       without                          with
    memory     the newest message alone         and the values said before it
    trials     each conversation for itself     and what was noted of the one before
    summary    a window of two messages         and a summary of what left it
    plan       the newest message alone         and the plan's progress
    hybrid     GRPO, paid for all or nothing    and 1,000 chats of a middling agent: their values
                                                in the credit, their better replies beside it
    replay,    the second of two tasks alone    and the first one's conversations, or a KL to the
    lwf, ewc                                    model as it was, or elastic weights

Both sides have the same model (about 20,000 random weights), conversations, optimiser steps and
seeds; the measure is success in 200 held-out conversations after the last iteration, of `replay`,
`lwf` and `ewc` on both tasks together. Intervals (95 %) are of the mean over seeds, of the paired
difference Student's. A finished pair is one line of the results file and is not done again.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from convgym.envs.context import ContextWindow
from convgym.envs.memory import ConversationMemory
from convgym.envs.plan import PlanContext
from convgym.envs.trials import Trials
from trainers.llm.chat_format import ChatFormat
from trainers.llm.continual import ContinualConfig, ContinualLearner, Method
from trainers.llm.conversations import Chat
from trainers.llm.credit import GroupRelative
from trainers.llm.objectives import GRPO, Objective
from trainers.llm.policy_config import PolicyOptimizerConfig
from trainers.llm.policy_optimizer import PolicyOptimizer
from trainers.llm.rollout_engine import RolloutEngine
from trainers.llm.sampling import Sampling
from trainers.llm.text_environment import History, TextEnvironment
from trainers.llm.transformers_sampler import TransformersSampler
from trainers.toy_talks import (
    COLOURS,
    LETTERS,
    ROUTINE,
    Chores,
    Recall,
    Returning,
    Routine,
    last_words,
    word_model,
)
from trainers.transfer.hybrid import (
    CriticShaping,
    HybridConfig,
    RecordedReplies,
    chat_of,
    pretrain_critic,
)

SAMPLING = Sampling(max_tokens=1, max_context=200)
LOGS = 1000
STUDENT = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36, 9: 2.31, 10: 2.26}
"""97.5 % quantiles of Student's distribution for so many pairs."""


def config_of(seed: int, iterations: int, goal: Objective = GRPO) -> PolicyOptimizerConfig:
    """One set of numbers for all parts."""
    return PolicyOptimizerConfig(
        objective=goal,
        seeds_per_iteration=8,
        group_size=8,
        minibatches=2,
        learning_rate=2e-3,
        iterations=iterations,
        sampling=SAMPLING,
        evaluation_episodes=200,
        seed=seed,
        flat_patience=None,
    )


def success(
    make: Callable[[], Any],
    seed: int,
    iterations: int,
    history: History = "replace",
) -> float:
    """Of a model that learned in this environment."""
    environment = TextEnvironment(make, history=history)
    learner = PolicyOptimizer(word_model(seed), environment, config_of(seed, iterations))
    learner.train()
    return learner.evaluate()["evaluation_success"]


# -- the parts -------------------------------------------------------------------------------------


def memory(seed: int) -> tuple[float, float]:
    """Values said before."""
    return success(Recall, seed, 200), success(lambda: ConversationMemory(Recall()), seed, 200)


def trials(seed: int) -> tuple[float, float]:
    """Notes of earlier conversations."""

    def remembering() -> Any:
        return Trials(ConversationMemory(Returning(), recalled=1, note=last_words), 3)

    return success(lambda: Trials(Returning(), 3), seed, 150), success(remembering, seed, 150)


def summary(seed: int) -> tuple[float, float]:
    """A summary of what left the window."""

    def window(strategy: Any) -> Any:
        return lambda: ContextWindow(Recall(), strategy, messages=2)

    return success(window("sliding_window"), seed, 250), success(window("summary"), seed, 250)


def plan(seed: int) -> tuple[float, float]:
    """A plan and its progress."""
    return success(Routine, seed, 150), success(lambda: PlanContext(Routine(), ROUTINE), seed, 150)


class _Errands(Chores):
    """All or nothing: online alone, hardly a conversation ever earns anything."""

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        message, _, terminated, truncated, info = super().step(action)
        return message, float(info["success"]), terminated, truncated, info


def half_learnt(seed: int) -> list[Chat]:
    """Conversations of an agent that learned for a while where errands were paid one by one."""
    model = word_model(seed + 1000)
    PolicyOptimizer(model, TextEnvironment(Chores), config_of(seed + 1000, 60)).train()
    engine = RolloutEngine(
        _Errands, TransformersSampler(model.causal), ChatFormat(model.tokenizer), SAMPLING
    )
    return [chat_of(rollout) for rollout in engine.collect(range(LOGS), 1, rng_seed=seed)]


def hybrid(seed: int) -> tuple[float, float]:
    """Logs; the side without gets as many conversations more as the logs have."""
    logs, iterations = half_learnt(seed), 60
    options = {
        "hidden": (128,), "batch_size": 256, "learning_rate": 1e-3, "expectile": 0.5, "critics": 1,
    }  # fmt: skip
    fitted = HybridConfig(
        offline_algorithm="iql", offline_pretrain_steps=1500, offline_options=options, seed=seed,
        online_ratio=0.5, temperature=0.2,
    )  # fmt: skip
    critic = pretrain_critic(logs, fitted, encoder="hashed:64", messages=12)
    model = word_model(seed)
    guided = PolicyOptimizer(
        model,
        TextEnvironment(_Errands),
        config_of(seed, iterations, replace(GRPO, credit=GroupRelative(credit="turn"))),
        prepare=[CriticShaping(critic)],
        penalties={"logs": RecordedReplies(model, logs, critic, fitted)},
    )
    guided.train()
    alone = success(_Errands, seed, iterations + round(LOGS / 64), "auto")
    return alone, guided.evaluate()["evaluation_success"]


class _Colours(Chores):
    """One chore, of two of the four colours."""

    turns = 1
    half = 0

    def drawn(self) -> tuple[Sequence[str], Sequence[str]]:
        """As `Talk`."""
        places = (2 * self.half + self.np_random.integers(2, size=self.turns)).tolist()
        return [COLOURS[place] for place in places], [LETTERS[place] for place in places]


class _OtherColours(_Colours):
    half = 1


def continual(method: Method) -> Callable[[int], tuple[float, float]]:
    """Two tasks in a row."""

    def both(seed: int) -> tuple[float, float]:
        found = []
        three = Sampling(max_tokens=3, max_context=200)  # so that there is something left to try
        config = config_of(seed, 0).changed(
            sampling=three, seeds_per_iteration=4, learning_rate=3e-3
        )
        for way in ("none", method):
            model = word_model(seed)
            tasks = {
                kind.__name__: RolloutEngine(
                    kind,
                    TransformersSampler(model.causal),
                    ChatFormat(model.tokenizer),
                    three,
                )
                for kind in (_Colours, _OtherColours)
            }
            kept = ContinualConfig(
                method=way, task_switch_iterations=120, replay_capacity=32, lwf_coefficient=0.2,
                ewc_strength=30.0,
            )  # fmt: skip
            learner = ContinualLearner(model, tasks, config, kept)
            found.append(learner.train().average)
        return found[0], found[1]

    return both


PARTS: dict[str, Callable[[int], tuple[float, float]]] = {
    "memory": memory,
    "trials": trials,
    "summary": summary,
    "plan": plan,
    "hybrid": hybrid,
    "replay": continual("replay"),
    "lwf": continual("lwf"),
    "replay_lwf": continual("replay_lwf"),
    "ewc": continual("ewc"),
}


# -- the table -------------------------------------------------------------------------------------


def half_width(values: Sequence[float]) -> float:
    """Of the 95 % interval of the mean, Student's; infinite for one value."""
    if len(values) < 2:
        return float("inf")
    quantile = STUDENT.get(len(values), 2.23)
    return float(quantile * np.std(values, ddof=1) / np.sqrt(len(values)))


def table(rows: Sequence[dict[str, Any]]) -> str:
    """One line for each part."""
    lines = ["| part | without | with | difference | seeds |", "|---|---|---|---|---|"]
    for part in PARTS:
        pairs = [(row["without"], row["with"]) for row in rows if row["part"] == part]
        if not pairs:
            continue
        without, with_ = np.array(pairs).T
        gains = with_ - without
        low, high = gains.mean() - half_width(gains), gains.mean() + half_width(gains)
        lines.append(
            f"| {part} | {without.mean():.2f} | {with_.mean():.2f} | {gains.mean():+.2f} "
            f"[{low:+.2f}, {high:+.2f}] | {len(pairs)} |"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing, print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", nargs="+", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--results", type=Path, default=Path("ablations.jsonl"))
    asked = parser.parse_args(arguments)
    torch.set_num_threads(1)
    text = asked.results.read_text(encoding="utf-8") if asked.results.exists() else ""
    rows = [json.loads(line) for line in text.splitlines()]
    done = {(row["part"], row["seed"]) for row in rows}
    for seed in range(asked.seeds):
        for part in asked.only:
            if (part, seed) in done:
                continue
            begun = time.process_time()
            without, with_ = PARTS[part](seed)
            seconds = round(time.process_time() - begun, 1)
            rows.append(
                {"part": part, "seed": seed, "without": without, "with": with_, "seconds": seconds}
            )
            temporary = asked.results.with_name(f"{asked.results.name}.{os.getpid()}.part")
            temporary.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
            os.replace(temporary, asked.results)
            print(f"{part} {seed}: {without:.2f} -> {with_:.2f}, {seconds} CPU-s", flush=True)
    print(table(rows))


if __name__ == "__main__":
    main()
