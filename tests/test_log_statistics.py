"""Statistics of a log: against plain lists, numbers worked by hand and the reference."""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded import SAMPLE, corpus, talk

from convgym.conversation import Conversation, Message
from convgym.data.logs import read_log
from convgym.data.statistics import LogStatistics, average_ranks, spearman


def slow_numbers(conversations: list[Conversation]) -> dict[str, object]:
    """The same statistics, each from plain lists."""
    user = [m for c in conversations for m in c.messages if m.role == "user"]
    texts = [m.content for m in user if m.content.strip()]
    words = [re.findall(r"[a-z0-9'$]+", text.lower()) for text in texts]
    turns = [sum(m.role in ("user", "assistant") for m in c.messages) for c in conversations]
    rewards = [c.reward for c in conversations if c.reward is not None]
    intents = [intent for m in user for intent in m.intents]
    return {
        "user_turns": len(user),
        "words": [len(w) for w in words],
        "turns": turns,
        "types": len({w for ws in words for w in ws}),
        "tokens": sum(len(ws) for ws in words),
        "question": sum("?" in text for text in texts) / len(texts),
        "negation": sum(
            bool({"no", "not", "nope", "never"} & set(re.findall(r"\w+", text.lower())))
            or "n't" in text.lower()
            for text in texts
        ) / len(texts),
        "rewards": rewards,
        "intents": {name: intents.count(name) / len(intents) for name in set(intents)},
    }  # fmt: skip


@pytest.mark.parametrize("name", ["sample", "multidogo", "multiwoz", "persuasionforgood"])
def test_statistics_match_the_plain_lists(name):
    path = SAMPLE if name == "sample" else corpus(name, "dev")
    conversations = list(read_log(path, strict=True))[:400]
    fast, slow = LogStatistics.from_conversations(iter(conversations)), slow_numbers(conversations)
    at = (0.05, 0.25, 0.5, 0.75, 0.95)
    for summary, values in (
        (fast.words_per_user_turn, slow["words"]),
        (fast.turns, slow["turns"]),
    ):
        assert summary.n == len(values)
        assert summary.mean == pytest.approx(np.mean(values))
        assert summary.sd == pytest.approx(np.std(values))
        assert summary.quantiles == pytest.approx(np.quantile(values, at))
    assert (fast.total_conversations, fast.user_turns) == (len(conversations), slow["user_turns"])
    assert (fast.vocabulary_types, fast.vocabulary_tokens) == (slow["types"], slow["tokens"])
    assert fast.question_share == pytest.approx(slow["question"])
    assert fast.negation_share == pytest.approx(slow["negation"])
    assert dict(fast.top_intents) == pytest.approx(
        {name: slow["intents"][name] for name, _ in fast.top_intents}
    )
    if slow["rewards"]:
        assert fast.reward.summary.n == len(slow["rewards"])
        assert fast.reward.summary.mean == pytest.approx(np.mean(slow["rewards"]))
        low, high = fast.reward.interval
        assert (low + high) / 2 == pytest.approx(np.mean(slow["rewards"]))
        assert fast.reward.positive_share == np.mean(np.array(slow["rewards"]) > 0)
    else:
        assert fast.reward is None
    assert json.dumps(fast.to_dict(), allow_nan=False)


def test_statistics_worked_by_hand():
    conversations = [
        talk("1", "Hi there", "a:Hello", "where is my $5 order?", "Thanks, no", reward=1.0),
        talk("2", "I don't want it", "   ", "ok", reward=0.0, metadata={"domain": "shop"}),
        talk("3", "hello how are you", metadata={"domains": ["shop", "bank"]}),
    ]
    got = LogStatistics.from_conversations(conversations)
    assert (got.user_turns, got.empty_user_turns, got.assistant_turns) == (7, 1, 1)
    assert got.user_turns_per_conversation.quantiles[2] == 3
    assert got.words_per_user_turn.mean == pytest.approx((2 + 5 + 2 + 4 + 1 + 4) / 6)
    assert got.words_per_user_turn.median == 3.0  # 1 2 2 4 4 5
    assert got.first_turn_words == pytest.approx((2 + 4 + 4) / 3)
    assert got.greeting_only_share == pytest.approx(2 / 3)
    assert got.thanks_share == got.question_share == pytest.approx(1 / 6)
    assert got.negation_share == pytest.approx(2 / 6)
    assert got.backchannel_share == pytest.approx(3 / 6)  # hi there / thanks, no / ok
    assert got.domains == (("shop", 2), ("bank", 1))
    assert got.reward.summary.mean == 0.5
    half = 1.96 * math.sqrt(0.5) / math.sqrt(2)
    assert got.reward.interval == pytest.approx((0.5 - half, 0.5 + half))
    assert got.to_dict()["mean_turns"] == pytest.approx(8 / 3)
    table = got.to_markdown().splitlines()
    assert all(line.count(" | ") == 1 for line in table if not line.startswith("|---"))


def test_acts_count_once_a_turn_and_turns_without_one_as_none():
    twice = (("hotel", "inform", "area", "north"), ("hotel", "inform", "stars", "4"), ("thank",))
    turns = (Message("user", "a", acts=twice), Message("user", "b"))
    got = LogStatistics.from_conversations([Conversation("1", turns)])
    assert got.top_acts == tuple((act, 1 / 3) for act in ("inform", "none", "thank"))
    assert LogStatistics.from_conversations([talk("2", "hi")]).top_acts == ()


def test_statistics_of_nothing_are_none_and_not_a_crash():
    got = LogStatistics.from_conversations([])
    assert got.reward is None and got.thanks_share is None and got.turns.median is None
    assert "| conversations | 0 |" in got.to_markdown()
    assert json.dumps(got.to_dict(), allow_nan=False)


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=30))
def test_average_ranks_are_the_mean_of_the_tied_places(values):
    ordered = sorted(values)
    places = [[i + 1 for i, v in enumerate(ordered) if v == value] for value in values]
    assert average_ranks(values) == pytest.approx([sum(p) / len(p) for p in places])


def test_spearman_by_hand():
    assert spearman([1, 2, 3, 4], [10, 20, 40, 30]) == pytest.approx(0.8)
    assert spearman([1, 2, 3], [9, 4, 1]) == -1.0
    assert spearman([1, 1, 1], [1, 2, 3]) is None
    assert spearman([1, 2], [1, 2]) is None


@pytest.mark.parametrize("name", ["multidogo", "multiwoz", "persuasionforgood"])
def test_statistics_come_near_the_reference(name):
    path = corpus(name)
    reference = json.loads((path.parents[1] / "reference_stats.json").read_text())[name]["train"]
    got = LogStatistics.from_conversations(read_log(path))
    length, rates = reference["length"], reference["rates"]
    assert got.total_conversations == reference["conversations"]
    assert got.user_turns - got.empty_user_turns == reference["user_turns"]
    assert got.user_turns_per_conversation.mean == pytest.approx(reference["turns"]["mean"], 0.001)
    assert got.words_per_user_turn.mean == pytest.approx(length["mean"], 0.001)
    assert got.words_per_user_turn.sd == pytest.approx(length["sd"], 0.002)
    assert list(got.words_per_user_turn.quantiles) == length["q"]
    assert got.first_turn_words == pytest.approx(length["first_mean"], 0.001)
    assert got.thanks_share == pytest.approx(rates["thanks"], abs=1e-5)
    assert got.question_share == pytest.approx(rates["q"], abs=1e-5)
    assert got.negation_share == pytest.approx(rates["neg"], abs=1e-5)
    assert got.backchannel_share == pytest.approx(rates["back"], abs=0.001)
    assert got.vocabulary_types == pytest.approx(reference["vocab"], rel=0.003)
    if name == "multiwoz":
        assert dict(got.top_acts) == pytest.approx(reference["acts"], abs=1e-5)
