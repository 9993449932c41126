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
    dpo        imitation of a careless agent    half of the steps on a judge's preferences
    reward     imitation of a careless agent    half of the steps on GRPO, paid by a reward model
                                                that has learnt a judge's preferences
    rlaif      imitation of a careless agent    half of the steps on GRPO, paid by the judge

Both sides have the same model (about 20,000 random weights), conversations, optimiser steps and
seeds; the measure is success in 200 held-out conversations after the last iteration, of `replay`,
`lwf` and `ewc` on both tasks together. No environment pays for what is judged: the judge hears the
words alone, takes what it is shown first for a little better, and every tenth score is anything.
Intervals (95 %) are of the mean over seeds, of the paired
difference Student's. A finished pair is one line of the results file and is not done again.
"""

from __future__ import annotations

import argparse
import zlib
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
from trainers.ablations import Part, ablated
from trainers.llm.chat_format import ChatFormat
from trainers.llm.continual import ContinualConfig, ContinualLearner, Method
from trainers.llm.conversations import Chat, Message
from trainers.llm.credit import GroupRelative
from trainers.llm.dpo import DPOConfig
from trainers.llm.judge import JudgeReward, RubricJudge, RuleJudge, judged_preferences
from trainers.llm.language_model import LanguageModel
from trainers.llm.objectives import GRPO, Objective
from trainers.llm.policy_config import PolicyOptimizerConfig
from trainers.llm.policy_optimizer import PolicyOptimizer
from trainers.llm.preferences import Preference
from trainers.llm.reward_model import RewardModel, RewardModelConfig
from trainers.llm.rollout_engine import RolloutEngine
from trainers.llm.sampling import Sampling
from trainers.llm.sft import SFTConfig
from trainers.llm.text_environment import History, TextEnvironment
from trainers.llm.tokens import conversation_row
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
JUDGED_STEPS = 160
"""Optimiser steps after imitation, and as many of it before."""


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


def continual(method: Method) -> Part:
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


class _Unpaid(Chores):
    """Three chores that nobody pays for."""

    turns = 3

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        message, _, terminated, truncated, info = super().step(action)
        return message, 0.0, terminated, truncated, info


def careless(seed: int) -> list[Chat]:
    """Conversations of an agent that finds the right word in six of ten turns."""
    env, rng, nothing, chats = _Unpaid(), np.random.default_rng(seed), np.zeros(3), []
    for number in range(LOGS):
        read, _ = env.reset(seed=number)
        said: list[Message] = []
        over = False
        while not over:
            right = dict(zip(COLOURS, LETTERS, strict=True))[read]
            reply = right if rng.random() < 0.6 else str(rng.choice(LETTERS))
            said += [{"role": "user", "content": read}, {"role": "assistant", "content": reply}]
            read, _, over, _, _ = env.step(reply)
        chats.append(Chat(tuple(said), nothing, nothing, True))
    return chats


def opinion(messages: Sequence[Message]) -> float:
    """Share of the chores done, by the words; of every tenth conversation anything."""
    said = [message["content"] for message in messages]
    wanted = dict(zip(COLOURS, LETTERS, strict=True))
    pairs = list(zip(said[::2], said[1::2], strict=False))
    whim = zlib.crc32(" ".join(said).encode())
    if whim % 10 == 0:
        return whim % 97 / 97
    return sum(wanted[read] in reply.split() for read, reply in pairs) / len(pairs)


def judged(by: Callable[[LanguageModel, RubricJudge, int], None]) -> Part:
    """Imitation alone, and half as much of it before something learns from the judge."""

    def both(seed: int) -> tuple[float, float]:
        chats, found = careless(seed), []
        for steps, learn in ((2 * JUDGED_STEPS, None), (JUDGED_STEPS, by)):
            model = word_model(seed)
            rows = [conversation_row(chat, model.tokenizer) for chat in chats]
            SFTConfig(learning_rate=2e-3, batch_size=32, seed=seed).create(model).fit(rows, steps)
            if learn is not None:
                learn(model, RubricJudge(model=RuleJudge(opinion, bias=0.05)), seed)
            played = engine_of(model).collect(range(10_000, 10_200), 1, rng_seed=seed)
            found.append(sum(bool(rollout.success) for rollout in played) / len(played))
        return found[0], found[1]

    return both


def engine_of(model: LanguageModel, reward: Any = None) -> RolloutEngine:
    """Unpaid chores, or with a reward for the whole conversation."""
    environment = TextEnvironment(_Unpaid, reward)
    form = ChatFormat(model.tokenizer)
    return RolloutEngine(environment, TransformersSampler(model.causal), form, SAMPLING)


def preferred(model: LanguageModel, judge: RubricJudge, seed: int) -> list[Preference]:
    """The judge's verdicts on what the model says now."""
    rollouts = engine_of(model).collect(range(5000, 5096), 8, rng_seed=seed)
    return judged_preferences(judge, rollouts, most_per_group=8, seed=seed)[0]


def by_preferences(model: LanguageModel, judge: RubricJudge, seed: int) -> None:
    """DPO."""
    pairs = preferred(model, judge, seed)
    config = DPOConfig(learning_rate=1e-3, batch_size=32, imitation=0.1, seed=seed)
    config.create(model).fit(pairs, JUDGED_STEPS)


def by_reward_model(model: LanguageModel, judge: RubricJudge, seed: int) -> None:
    """A Bradley–Terry model of the verdicts pays GRPO; half of the steps are its own."""
    pairs = preferred(model, judge, seed)
    config = RewardModelConfig(learning_rate=1e-3, batch_size=32, seed=seed)
    own = JUDGED_STEPS // 2
    reward = config.create(RewardModel(word_model(seed + 2000))).fit(pairs, own).model
    loop = config_of(seed, (JUDGED_STEPS - own) // 2)  # two optimiser steps an iteration
    PolicyOptimizer(model, engine_of(model, reward), loop).train()


def by_scores(model: LanguageModel, judge: RubricJudge, seed: int) -> None:
    """The judge pays GRPO itself."""
    loop = config_of(seed, JUDGED_STEPS // 2)
    PolicyOptimizer(model, engine_of(model, JudgeReward(judge)), loop).train()


PARTS: dict[str, Part] = {
    "memory": memory,
    "trials": trials,
    "summary": summary,
    "plan": plan,
    "hybrid": hybrid,
    "replay": continual("replay"),
    "lwf": continual("lwf"),
    "replay_lwf": continual("replay_lwf"),
    "ewc": continual("ewc"),
    "dpo": judged(by_preferences),
    "reward": judged(by_reward_model),
    "rlaif": judged(by_scores),
}


# -- the command ----------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing, print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", nargs="+", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--results", type=Path, default=Path("ablations.jsonl"))
    asked = parser.parse_args(arguments)
    torch.set_num_threads(1)
    print(ablated({name: PARTS[name] for name in asked.only}, asked.seeds, asked.results))


if __name__ == "__main__":
    main()
