"""What each part of the language-model learners brings at a registered desk.

    python scripts/desk_ablations.py [--seeds 3] [--only memory plan …] [--results desk.jsonl]
    python scripts/desk_ablations.py --only replay lwf replay_lwf ewc --model JOINT_MODEL

`ConvGym/OneRequest-v0` and the model that comes with ConvGym:

    part       without                          with
    memory     the newest message alone         and the values said before it
    plan       the newest message, and memory   and the plan's progress
    summary    a window of two messages         and a summary of what left it
    hybrid     GRPO with difficult customers,   and 1,000 chats of a middling agent: their values
               paid for success alone           in the credit, their better replies beside it
    replay,    technical support after          and customer service's conversations, or a KL to
    lwf, ewc   customer service                 the model as it was, or elastic weights

Of the first three both sides imitate the good ones of the same middling agent's conversations, for
the same number of steps, in what each side shows; that agent is the model after some iterations of
GRPO, and reads all. The others learn by GRPO, both sides as many iterations of 64 conversations.
The measure is success in held-out conversations (other people, in words of the test); of `replay`,
`lwf` and `ewc`, which need a model that speaks for both desks (`make_embedded_model.py --domains`),
its mean over both. Intervals (95 %) are of the paired difference over seeds, Student's t. A
finished pair is one line of the results file and is not done again.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces

from convgym.envs.context import ContextWindow
from convgym.envs.memory import ConversationMemory
from convgym.envs.plan import PlanContext, PlanStep
from convgym.spaces import CHARSET
from trainers.ablations import Part, ablated
from trainers.llm.chat_format import ChatFormat
from trainers.llm.continual import ContinualConfig, ContinualLearner, Method
from trainers.llm.conversations import Chat
from trainers.llm.credit import GroupRelative
from trainers.llm.embedded import embedded_folder
from trainers.llm.embedded.tuned import ENVIRONMENT, HELD_OUT, MAX_TURNS, SAMPLING
from trainers.llm.language_model import LanguageModel
from trainers.llm.objectives import GRPO
from trainers.llm.policy_optimizer import PolicyOptimizer
from trainers.llm.rollout_engine import RolloutEngine
from trainers.llm.rollouts import Rollout
from trainers.llm.run_options import tuned_config
from trainers.llm.sampling import Sampling
from trainers.llm.sft import SFTConfig
from trainers.llm.text_environment import TextEnvironment
from trainers.llm.tokens import TokenRow, conversation_row
from trainers.llm.transformers_sampler import TransformersSampler
from trainers.transfer.hybrid import (
    CriticShaping,
    HybridConfig,
    RecordedReplies,
    chat_of,
    pretrain_critic,
    states_of,
)

Side = Callable[[gym.Env[str, str]], gym.Env[str, str]]
"""What an agent is shown of an environment of messages."""
MESSAGES = spaces.Text(8192, min_length=0, charset=CHARSET)
IMITATION_STEPS = 200
"""Optimiser steps on batches of 64 replies."""
LOGS = 1000
FEW = 10
"""Iterations of the hybrid, and of GRPO beside it: what logs bring is a start."""
HARD = {"difficulty": 1.0, "reward": "success"}
"""Where an agent that begins with one success in twenty seldom hears of any."""
PLAN = [
    PlanStep("find the account", r"Agent:.*find_customer"),
    PlanStep("verify the caller", r"User:.*(\"verified\"|\"needs_verification\": false)"),
    PlanStep("read the order", r"Agent:.*get_order"),
    PlanStep("tell its state", r"Agent: (It is|It was)"),
    PlanStep("end", r"Agent:.*end_conversation"),
]


# -- what a side shows, and a model that reads it --------------------------------------------------


def newest(env: gym.Env[str, str]) -> gym.Env[str, str]:
    """The newest message alone."""
    return env


def remembering(env: gym.Env[str, str]) -> gym.Env[str, str]:
    """And the values said before it."""
    return ConversationMemory(env)


def planned(env: gym.Env[str, str]) -> gym.Env[str, str]:
    """And how far the plan has come, beside what is remembered."""
    return ConversationMemory(PlanContext(env, PLAN))


def window(env: gym.Env[str, str]) -> gym.Env[str, str]:
    """The last two messages."""
    return ContextWindow(env, "sliding_window", messages=2)


def summarised(env: gym.Env[str, str]) -> gym.Env[str, str]:
    """And a summary of what left them."""
    return ContextWindow(env, "summary", messages=2)


class Read(gym.ObservationWrapper[str, str, Any]):
    """Results and words of a Dict observation as one message, as short as they are there."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self.observation_space = MESSAGES

    def observation(self, observation: Any) -> str:
        """One text."""
        return "\n".join(filter(None, (observation["tool_results"], observation["message"])))


class Replayed(gym.Env[str, str]):
    """A conversation as it went, whatever is answered."""

    observation_space = action_space = MESSAGES

    def __init__(self, shown: Sequence[str]) -> None:
        self._shown = list(shown)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Its first message."""
        self._turn = 0
        return self._shown[0], {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Its next one."""
        self._turn += 1
        return self._shown[self._turn], 0.0, self._turn + 1 == len(self._shown), False, {}


def engine(model: LanguageModel, **keywords: Any) -> RolloutEngine:
    """Whole conversations, as the embedded model learnt to read them."""
    environment = TextEnvironment(ENVIRONMENT, system="", kwargs=keywords)
    return _engine(model, environment)


def seen(model: LanguageModel, side: Side, **keywords: Any) -> RolloutEngine:
    """Conversations of which the model reads what a side shows."""

    def made(**kwargs: Any) -> gym.Env[str, str]:
        return side(Read(gym.make(ENVIRONMENT, disable_env_checker=True, **kwargs)))

    environment = TextEnvironment(made, system="", history="replace", kwargs=keywords)
    return _engine(model, environment)


def _engine(model: LanguageModel, environment: TextEnvironment) -> RolloutEngine:
    sampler, form = TransformersSampler(model.causal), ChatFormat(model.tokenizer)
    return RolloutEngine(environment, sampler, form, Sampling(**SAMPLING), max_turns=MAX_TURNS)


def rows_of(rollout: Rollout, side: Side, tokenizer: Any) -> list[TokenRow]:
    """Its replies, each to what the side would have shown."""
    texts, replies = states_of(rollout.messages)
    env, found = side(Replayed(texts)), []
    page, _ = env.reset(seed=0)
    nothing = np.zeros(1)
    for reply in replies:
        said = ({"role": "user", "content": page}, {"role": "assistant", "content": reply})
        found.append(conversation_row(Chat(said, nothing, nothing, True), tokenizer))
        page = env.step(reply)[0]
    return found


# -- the parts -------------------------------------------------------------------------------------


def measured(collector: RolloutEngine, episodes: int) -> float:
    """Success in held-out conversations."""
    played = [r for r in collector.collect(range(episodes), 1, rng_seed=0) if r.valid]
    return sum(bool(rollout.success) for rollout in played) / len(played)


def imitation(asked: argparse.Namespace) -> Callable[[Side, int], float]:
    """Success of who has learnt from the good ones of the logs, with what a side shows."""

    @cache
    def learnt(side: Side, seed: int) -> float:
        model = LanguageModel.load(embedded_folder())
        good = [rollout for rollout in middling(asked.iterations) if rollout.success]
        rows = [row for rollout in good for row in rows_of(rollout, side, model.tokenizer)]
        config = SFTConfig(learning_rate=1e-3, batch_size=64, seed=seed)
        config.create(model).fit(rows, IMITATION_STEPS)
        return measured(seen(model, side, **HELD_OUT), asked.episodes)

    return learnt


@cache
def middling(iterations: int) -> tuple[Rollout, ...]:
    """Conversations of an agent that has learnt for a while."""
    model = LanguageModel.load(embedded_folder())
    config = tuned_config("grpo", iterations=iterations, seed=1000)
    PolicyOptimizer(model, engine(model), config).train()
    logs = engine(model).collect(range(20_000, 20_000 + LOGS), 1, rng_seed=1)
    good = sum(bool(rollout.success) for rollout in logs) / len(logs)
    print(f"{LOGS} conversations in the logs, {good:.2f} of them good", flush=True)
    return tuple(rollout for rollout in logs if rollout.valid)


def hybrid(asked: argparse.Namespace) -> Part:
    """Logs beside conversations of one's own."""

    def both(seed: int) -> tuple[float, float]:
        logs, found = [chat_of(rollout) for rollout in middling(asked.iterations)], []
        options = {
            "hidden": (128,), "batch_size": 256, "learning_rate": 1e-3, "expectile": 0.5,
            "critics": 1,
        }  # fmt: skip
        fitted = HybridConfig(
            offline_algorithm="iql", offline_pretrain_steps=1500, offline_options=options,
            seed=seed, online_ratio=0.2, temperature=0.2,
        )  # fmt: skip
        for guided in (False, True):
            model = LanguageModel.load(embedded_folder())
            config = tuned_config("grpo", iterations=FEW, seed=seed)
            more: dict[str, Any] = {}
            if guided:
                critic = pretrain_critic(logs, fitted, encoder="hashed:128", messages=12)
                goal = replace(GRPO, credit=GroupRelative(credit="turn"))
                config = config.changed(objective=goal)
                recorded = RecordedReplies(model, logs, critic, fitted, conversations=64)
                more = {"prepare": [CriticShaping(critic)], "penalties": {"logs": recorded}}
            PolicyOptimizer(model, engine(model, **HARD), config, **more).train()
            held_out = engine(model, **{**HARD, **HELD_OUT})
            found.append(measured(held_out, asked.episodes))
        return found[0], found[1]

    return both


def continual(method: Method, asked: argparse.Namespace) -> Part:
    """Two desks in a row."""

    def both(seed: int) -> tuple[float, float]:
        return _in_a_row("none", seed, asked), _in_a_row(method, seed, asked)

    return both


_rows: dict[tuple[str, int], float] = {}


def _in_a_row(method: Method, seed: int, asked: argparse.Namespace) -> float:
    if (method, seed) not in _rows:
        model = LanguageModel.load(asked.model)
        desks = ("customer-service", "technical-support")
        kept = ContinualConfig(
            method=method, task_switch_iterations=asked.iterations, replay_groups=4,
            lwf_coefficient=0.1, ewc_strength=100.0,
        )  # fmt: skip
        config = tuned_config("grpo", seed=seed, evaluation_episodes=asked.episodes)
        learner = ContinualLearner(
            model,
            {desk: engine(model, domain=desk) for desk in desks},
            config,
            kept,
            evaluations={desk: engine(model, domain=desk, **HELD_OUT) for desk in desks},
        )
        result = learner.train()
        print(f"{method}, seed {seed}: {result.before.round(3)} -> {result.success.round(3)}")
        _rows[method, seed] = result.average
    return _rows[method, seed]


def parts_of(asked: argparse.Namespace) -> dict[str, Part]:
    """All of them."""
    methods: tuple[Method, ...] = ("replay", "lwf", "replay_lwf", "ewc")
    learnt = imitation(asked)
    return {
        "memory": lambda seed: (learnt(newest, seed), learnt(remembering, seed)),
        "plan": lambda seed: (learnt(remembering, seed), learnt(planned, seed)),
        "summary": lambda seed: (learnt(window, seed), learnt(summarised, seed)),
        "hybrid": hybrid(asked),
        **{method: continual(method, asked) for method in methods},
    }


ALONE = ("memory", "plan", "summary", "hybrid")
"""What needs no other model than the embedded one."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing, print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=20, help="of GRPO")
    parser.add_argument("--episodes", type=int, default=300, help="held-out conversations")
    parser.add_argument("--model", type=Path, help="speaks for both desks; for those that need it")
    parser.add_argument("--only", nargs="+", help="parts; those that one model can do if left out")
    parser.add_argument("--results", type=Path, default=Path("desk_ablations.jsonl"))
    asked = parser.parse_args(arguments)
    parts = parts_of(asked)
    names = asked.only or (list(parts) if asked.model else list(ALONE))
    if unknown := [name for name in names if name not in parts]:
        parser.error(f"there is no part {unknown[0]!r}; there are {', '.join(parts)}")
    if asked.model is None and (needy := [name for name in names if name not in ALONE]):
        parser.error(f"{needy[0]} needs --model, made by make_embedded_model.py --domains")
    torch.set_num_threads(1)
    print(ablated({name: parts[name] for name in names}, asked.seeds, asked.results))


if __name__ == "__main__":
    main()
