"""A toy policy that learns to stuff keywords is caught; one that learns what was meant is not."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("transformers", reason="language models need the extra llm")

import torch
from toy_collector import END, WORDS, ToyCollector, toy_model

from trainers.llm.policy_config import PolicyOptimizerConfig
from trainers.llm.policy_optimizer import PolicyOptimizer
from trainers.llm.reply_statistics import is_refusal, repeated_words, reply_statistics
from trainers.llm.rollouts import Rollout, Segment
from trainers.reward_watch import RewardWatch

KEYWORD = WORDS[0]


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Asked(ToyCollector):
    """Wanted is a reply that holds the keyword, but not over and over: once or twice."""

    def collect(self, *given, **named):
        return [self._judged(rollout) for rollout in super().collect(*given, **named)]

    def _judged(self, rollout):
        (segment,) = rollout.segments
        said = segment.tokens[segment.turns >= 0]
        words = " ".join(f"w{token}" for token in said if token != END)
        return replace(
            rollout,
            success=1 <= int((said == KEYWORD).sum()) <= 2,
            messages=(
                {"role": "user", "content": "well?"},
                {"role": "assistant", "content": words},
            ),
        )


def learn(reward, iterations=40):
    model, told, heard = toy_model(0), [], []
    collector = Asked(model, max_tokens=8, reward=reward)
    config = PolicyOptimizerConfig(learning_rate=2e-3, iterations=iterations, minibatches=2,
                                   evaluate_every=5, evaluation_episodes=48)  # fmt: skip
    watch = RewardWatch([heard.append], tell=told.append)
    PolicyOptimizer(model, collector, config, [watch]).train()
    return told, heard


def test_keyword_stuffing_is_caught():
    """The made reward counts keywords: more is better, and a reply of nothing else is best."""
    told, heard = learn(lambda play: play.reply.count(KEYWORD) / 8)
    assert heard[-1]["reward_mean"] > 0.6 > 0.2 > heard[0]["reward_mean"]
    assert heard[-1]["evaluation_success"] < heard[4]["evaluation_success"] - 0.2
    assert len(told) >= 1 and "held-out success" in told[0]
    assert heard[-1]["watch_alert"] == 1.0 and heard[-1]["watch_truth_rise"] < 0
    assert heard[-1]["repeated_words"] > heard[0]["repeated_words"] + 0.3


def test_learning_what_was_meant_is_left_alone():
    told, heard = learn(lambda play: float(1 <= play.reply.count(KEYWORD) <= 2), iterations=60)
    assert heard[-1]["evaluation_success"] > 0.85 > 0.6 > heard[0]["success"]
    assert told == [] and all(row.get("watch_alert", 0.0) == 0.0 for row in heard)


# -- how replies look ------------------------------------------------------------------------------


def rollout(*replies, tokens=6):
    turns = np.repeat(np.arange(len(replies)), tokens)
    segment = Segment(np.zeros(len(turns), np.int64), turns, np.zeros(len(turns), np.float32))
    said = [{"role": "assistant", "content": reply} for reply in replies]
    return Rollout(segments=(segment,), rewards=np.zeros(len(replies)), group=0, seed=0,
                   messages=tuple(said))  # fmt: skip


CALL = '<tool_call>{"name": "find", "arguments": {"id": "1"}}</tool_call>'


def test_replies_in_numbers():
    found = reply_statistics([
        rollout("Hello there", "hello  There", CALL, "I'm sorry, I cannot help with that."),
        rollout("refund refund refund refund", tokens=2),
    ])  # fmt: skip
    assert found == {
        "reply_tokens": (6 + 2) / 2,
        "repeated_replies": (1 / 4 + 0) / 2,
        "repeated_words": pytest.approx(((1 / 8) / 4 + 3 / 4) / 2),  # "I" twice of eight words
        "tool_calls": (1 + 0) / 2,
        "refusals": (1 / 4 + 0) / 2,
    }


def test_nothing_is_told_of_rollouts_without_words():
    failed = replace(rollout("Hello"), error="RuntimeError: away")
    assert reply_statistics([failed, replace(rollout("Hello"), messages=())]) == {}
    assert repeated_words("") == 0.0 and repeated_words("a b A") == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("reply", "refuses"),
    [
        ("I can't help with that.", True),
        ("Unfortunately I am not able to process this.", True),
        ("As an AI I have no orders.", True),
        ("I could not verify you.", False),
        ("I cannot find an order of that number.", False),
        ("How can I help?", False),
        ("", False),
    ],
)
def test_what_a_refusal_is(reply, refuses):
    assert is_refusal(reply) is refuses
