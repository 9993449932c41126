"""Toy talks: what they ask for, and that a wrapper or a critic gives what they need."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

pytest.importorskip("transformers", reason="language models need the extra llm")

from convgym.envs.memory import ConversationMemory
from convgym.envs.plan import PlanContext
from convgym.envs.trials import Trials
from trainers.llm.chat_format import ChatFormat
from trainers.llm.policy_config import PolicyOptimizerConfig
from trainers.llm.policy_optimizer import PolicyOptimizer
from trainers.llm.rollout_engine import RolloutEngine
from trainers.llm.sampling import Sampling
from trainers.llm.text_environment import TextEnvironment
from trainers.llm.transformers_sampler import TransformersSampler
from trainers.toy_talks import (
    CODES,
    COLOURS,
    LETTERS,
    ROUTINE,
    Chores,
    Recall,
    Returning,
    Routine,
    last_words,
    word_model,
    word_tokenizer,
)
from trainers.transfer.hybrid import HybridConfig, RecordedReplies, chat_of, pretrain_critic

SAMPLING = Sampling(max_tokens=1, max_context=200)


def played(env, policy, seed):
    message, _ = env.reset(seed=seed)
    total, done, said = 0.0, False, [message]
    while not done:
        message, reward, terminated, truncated, info = env.step(policy(said))
        said.append(message)
        total, done = total + reward, terminated or truncated
    return total, info["success"]


@pytest.mark.parametrize(
    ("kind", "policy"),
    [
        (Recall, lambda said: said[0].split()[-1]),
        (Routine, lambda said: LETTERS[len(said) - 1]),
        (Chores, lambda said: LETTERS[COLOURS.index(said[-1])]),
    ],
)
def test_who_does_what_is_asked_succeeds_and_nobody_else(kind, policy):
    assert all(played(kind(), policy, seed) == (1.0, True) for seed in range(20))
    assert not any(played(kind(), lambda said: "well", seed)[1] for seed in range(20))
    check_env(kind(), skip_render_check=True)


def test_chores_pay_for_each():
    assert played(Chores(), lambda said: "a b", 1)[0] == pytest.approx(
        np.mean([w in "ab" for w in wanted_words(1)])
    )


def wanted_words(seed):
    env = Chores()
    env.reset(seed=seed)
    return env._right


def test_a_returning_user_keeps_its_word():
    env = Trials(ConversationMemory(Returning(), recalled=1, note=last_words), 3)
    message, _ = env.reset(seed=4)
    assert message == "well ?"
    message, first, *_ = env.step("nothing")
    word = message.split("code is ")[1][0]
    assert first == 0 and word in LETTERS
    _, reward, terminated, _, info = env.step(word)
    assert (reward, terminated, info["success"]) == (1.0, False, True)


def test_every_word_is_one_token():
    tokenizer = word_tokenizer()
    for word in (*CODES, *LETTERS, *COLOURS):
        assert len(tokenizer(word, add_special_tokens=False)["input_ids"]) == 1
    ChatFormat(tokenizer)  # raises for a template that does not append


def learnt(make, seed=0, iterations=100):
    config = PolicyOptimizerConfig(
        objective="grpo", seeds_per_iteration=8, group_size=8, minibatches=2, learning_rate=4e-3,
        iterations=iterations, sampling=SAMPLING, evaluation_episodes=100, seed=seed,
        flat_patience=None,
    )  # fmt: skip
    learner = PolicyOptimizer(word_model(seed), TextEnvironment(make, history="replace"), config)
    learner.train()
    return learner.evaluate()["evaluation_success"]


@pytest.mark.slow
def test_a_plan_is_what_a_routine_lacks():
    assert learnt(lambda: PlanContext(Routine(), ROUTINE)) > 0.8
    assert learnt(Routine) < 0.5


def test_recorded_replies_teach_what_went_well():
    """Logs in which "a" was rewarded and "b" was not: more of "a" after a few steps."""
    model = word_model()
    engine = RolloutEngine(
        Chores, TransformersSampler(model.causal), ChatFormat(model.tokenizer), SAMPLING
    )
    logs = [chat_of(rollout) for rollout in engine.collect(range(40), 1, rng_seed=0)]
    config = HybridConfig(
        offline_algorithm="mc", offline_pretrain_steps=20, online_ratio=0.5,
        offline_options={"hidden": (8,)},
    )  # fmt: skip
    critic = pretrain_critic(logs, config, encoder="hashed:64")
    assert critic(logs[0].messages).shape == (7,)
    penalty = RecordedReplies(model, logs, critic, config, conversations=40)
    before = float(penalty(0).detach())
    assert float(penalty(0).detach()) == before  # a step draws alike whenever it is asked
    goal = PolicyOptimizerConfig(  # groups so small that their rewards hardly ever differ
        seeds_per_iteration=2, group_size=2, learning_rate=3e-3, iterations=8, sampling=SAMPLING,
        flat_patience=None,
    )  # fmt: skip
    learner = PolicyOptimizer(
        model, TextEnvironment(lambda: gym.wrappers.TimeLimit(Chores(), 3)), goal,
        penalties={"logs": penalty},
    )  # fmt: skip
    rows = learner.train()
    assert float(penalty(0).detach()) < before - 0.1
    assert all("logs" in row for row in rows)
