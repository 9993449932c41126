"""Data sets of conversations: what is kept, what it is worth, and that both ways give the same."""

from __future__ import annotations

import gzip
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded import SAMPLE, corpus, talk

from convgym.conversation import Conversation, Message
from convgym.data.conversations import (
    ConversationDataset,
    ConversationDatasetConfig,
    ConversationStream,
    RewardScale,
)
from convgym.data.logs import read_log, write_log
from convgym.data.returns import returns_to_go, turn_rewards
from convgym.data.statistics import LogStatistics
from convgym.errors import DatasetError, InvalidConfiguration, InvalidLog

BOTH = pytest.mark.parametrize("kind", [ConversationDataset, ConversationStream])
CORPORA = ("multidogo", "multiwoz", "persuasionforgood", "taskmaster_steps")

# Real logs


@BOTH
@pytest.mark.parametrize("split", ["train", "dev"])
@pytest.mark.parametrize("name", CORPORA)
def test_every_shared_log_loads_whole(kind, name, split):
    path = corpus(name, split)
    lines = gzip.decompress(path.read_bytes()).count(b"\n")
    conversations = kind.from_jsonl(path, strict=True)
    assert sum(1 for _ in conversations) == lines
    report = conversations.report
    assert (report.lines, report.loaded, report.kept, report.skipped) == (lines, lines, lines, 0)


@pytest.mark.parametrize("name", CORPORA)
def test_stream_and_memory_agree_to_the_last_byte(tmp_path, name):
    config = ConversationDatasetConfig(
        quality_threshold=None if name == "multidogo" else 0.3,
        min_turns=4,
        max_turns=20,
        normalize_rewards=True,
        compute_returns=True,
        discount=0.9,
    )
    stream = ConversationStream.from_jsonl(corpus(name, "dev"), config)
    memory = ConversationDataset.from_jsonl(corpus(name, "dev"), config)
    assert list(stream) == list(memory) == memory[:] and len(memory) > 10
    assert stream.report == memory.report and stream.report.dropped
    assert stream.reward_scale == memory.reward_scale
    assert stream.get_statistics() == memory.get_statistics()
    best = stream.filter_by_quality(0.9), memory.filter_by_quality(0.9)
    assert list(best[0]) == list(best[1])
    written = [tmp_path / "stream.jsonl.gz", tmp_path / "memory.jsonl.gz"]
    assert stream.to_jsonl(written[0]) == memory.to_jsonl(written[1]) == len(memory)
    assert written[0].read_bytes() == written[1].read_bytes()
    again = ConversationDataset.from_jsonl(written[0], config, strict=True)
    assert list(again) == list(memory) and not again.report.dropped


# What is kept


def small_log():
    return [
        talk("1", "a", "a:b", reward=1.0),
        talk("2", "a", reward=0.0),
        talk("3", "a", "a:b", "c", "a:d", reward=0.5),
        talk("4", "a", "a:b", "c"),
        Conversation("5", (Message("system", "s"), Message("user", "a")), 2.0),
    ]


@BOTH
@pytest.mark.parametrize(
    ("config", "kept", "dropped"),
    [
        ({}, "12345", {}),
        ({"min_turns": 2}, "134", {"too short": 2}),
        ({"max_turns": 2}, "125", {"too long": 2}),
        ({"quality_threshold": 0.5}, "135", {"below quality": 2}),
        ({"quality_threshold": -1.0}, "1235", {"below quality": 1}),
        (
            {"min_turns": 2, "max_turns": 3, "quality_threshold": 0.5},
            "1",
            {"too short": 2, "too long": 1, "below quality": 1},
        ),
        ({"quality_threshold": 9.0}, "", {"below quality": 5}),
    ],
)
def test_what_is_kept_and_why_the_rest_is_not(kind, config, kept, dropped):
    conversations = kind(small_log(), ConversationDatasetConfig(**config))
    assert [c.conversation_id for c in conversations] == list(kept)
    assert (conversations.report.kept, conversations.report.dropped) == (len(kept), dropped)
    assert conversations.get_statistics()["total_conversations"] == len(kept)


@BOTH
def test_filter_by_quality_only_narrows(kind):
    everything = kind(small_log())
    best = everything.filter_by_quality(0.5)
    assert [c.conversation_id for c in best] == ["1", "3", "5"]
    assert [c.conversation_id for c in best.filter_by_quality(-5.0)] == ["1", "3", "5"]
    zero = kind(small_log(), ConversationDatasetConfig(quality_threshold=0.0))
    assert [c.conversation_id for c in zero.filter_by_quality(-5.0)] == ["1", "2", "3", "5"]
    assert len(list(everything)) == 5
    with pytest.raises(InvalidConfiguration, match="finite number"):
        everything.filter_by_quality(math.nan)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"quality_threshold": math.inf}, "quality_threshold is inf"),
        ({"min_turns": 0}, "min_turns is 0; it must be 1 or more"),
        ({"min_turns": 4, "max_turns": 3}, "max_turns is 3, less than min_turns 4"),
        ({"discount": 1.01}, "discount is 1.01"),
        ({"discount": math.nan}, "discount is nan"),
    ],
)
def test_a_wrong_config_is_one_sentence(wrong, sentence):
    with pytest.raises(InvalidConfiguration, match=sentence):
        ConversationDatasetConfig(**wrong)


@BOTH
def test_statistics_are_those_of_what_is_recorded(kind):
    config = ConversationDatasetConfig(normalize_rewards=True, min_turns=2)
    statistics = kind(small_log(), config).get_statistics()
    kept = [c for c in small_log() if c.conversation_id in "134"]
    assert statistics == LogStatistics.from_conversations(kept).to_dict()
    assert (statistics["total_conversations"], statistics["mean_reward"]) == (3, 0.75)
    assert statistics["mean_turns"] == 3.0


# Rewards


@given(st.lists(st.none() | st.floats(-1e6, 1e6), min_size=1, max_size=20))
def test_normalised_rewards_have_mean_0_and_sd_1_and_can_be_undone(rewards):
    log = [
        Conversation(f"c{n}", (Message("user", "a"), Message("assistant", "b", reward)), reward)
        for n, reward in enumerate(rewards)
    ]
    dataset = ConversationDataset(log, ConversationDatasetConfig(normalize_rewards=True))
    measured = [reward for reward in rewards if reward is not None]
    scale, got = dataset.reward_scale, [c.reward for c in dataset if c.reward is not None]
    assert len(got) == len(measured)
    if measured:
        assert scale.mean == pytest.approx(np.mean(measured))
        if np.ptp(measured) == 0.0:
            assert scale.sd == 1.0
        elif np.ptp(measured) > 1e-100:  # below, numpy's squares are lost
            assert scale.sd == pytest.approx(np.std(measured))
    if measured and np.std(measured) > 1e-3:
        assert np.mean(got) == pytest.approx(0.0, abs=1e-5)
        assert np.std(got) == pytest.approx(1.0)
    for before, after in zip(log, map(scale.undo, dataset), strict=True):
        assert after.messages[0] == before.messages[0] and after.metadata == before.metadata
        assert after.reward == pytest.approx(before.reward, abs=1e-6)
        assert after.messages[1].reward == pytest.approx(before.messages[1].reward, abs=1e-6)


def test_equal_rewards_become_zero_and_not_a_rounding_error():
    log = [talk(str(n), "hi", reward=0.1) for n in range(3)]
    dataset = ConversationDataset(log, ConversationDatasetConfig(normalize_rewards=True))
    assert np.std([0.1] * 3) > 0.0  # which is not 0, and would be the unit
    assert [c.reward for c in dataset] == [0.0, 0.0, 0.0]
    assert dataset.reward_scale == RewardScale(0.1, 1.0)


def test_a_turn_reward_is_divided_and_not_shifted():
    log = [
        Conversation("1", (Message("assistant", "x", 3.0), Message("user", "y")), 1.0),
        Conversation("2", (Message("user", "y"),), 5.0),
    ]
    dataset = ConversationDataset(log, ConversationDatasetConfig(normalize_rewards=True))
    assert dataset.reward_scale == RewardScale(3.0, 2.0)
    assert [c.reward for c in dataset] == [-1.0, 1.0]
    assert dataset[0].messages[0].reward == 1.5 and dataset[0].messages[1].reward is None


def test_large_rewards_have_a_scale():
    """A repaired bug: squares beyond all floats made every reward 0."""
    log = [talk(str(n), "hi", reward=reward) for n, reward in enumerate((1e200, 3e200))]
    scale = ConversationDataset(log).reward_scale
    assert (scale.mean, scale.sd) == (pytest.approx(2e200), pytest.approx(1e200))


def test_the_parts_of_a_split_share_one_scale():
    log = [talk(f"c{n}", f"hi {n}", reward=float(n)) for n in range(10)]
    config = ConversationDatasetConfig(normalize_rewards=True)
    whole = ConversationDataset(log, config)
    parts = whole.split((0.5, 0.5), seed=0)
    assert [part.reward_scale for part in parts] == [whole.reward_scale] * 2
    assert {c.conversation_id: c for part in parts for c in part} == {
        c.conversation_id: c for c in whole
    }
    assert parts[0].filter_by_quality(3.0).reward_scale != whole.reward_scale


# Returns


def test_returns_to_go_by_hand():
    said = (
        Message("user", "a", 9.0),  # earned by nobody
        Message("assistant", "b", -0.1),
        Message("tool", "c", 0.2),
        Message("user", "d"),
        Message("assistant", "e", 1.0),
    )
    steps = Conversation("1", said, reward=5.0)
    assert turn_rewards(steps) == pytest.approx([0.1, 1.0])
    assert returns_to_go(steps, 0.5) == pytest.approx([0.6, 1.0])
    outcome = talk("2", "a:b", "c", "a:d", "a:e", "f", reward=2.0)
    assert turn_rewards(outcome) == [0.0, 0.0, 2.0]
    assert returns_to_go(outcome, 0.5) == [0.5, 1.0, 2.0]
    assert returns_to_go(talk("3", "a", "a:b"), 0.5) is None
    assert returns_to_go(talk("4", "a", reward=1.0), 0.5) == []
    assert returns_to_go(Conversation("5", (Message("user", "a", 1.0),)), 0.5) == []


@given(st.lists(st.none() | st.floats(-10, 10), max_size=8), st.floats(0, 1))
def test_returns_to_go_match_the_plain_sum(rewards, discount):
    log = Conversation("1", tuple(Message("assistant", "x", reward) for reward in rewards), 3.0)
    got = returns_to_go(log, discount)
    if all(reward is None for reward in rewards):
        rewards = [0.0] * (len(rewards) - 1) + [3.0] * bool(rewards)
    expected = [
        sum(discount**k * (reward or 0.0) for k, reward in enumerate(rewards[t:]))
        for t in range(len(rewards))
    ]
    assert got == pytest.approx(expected)


@BOTH
def test_returns_are_handed_out_with_the_normalised_rewards_and_not_written(kind, tmp_path):
    log = [
        talk("1", "a", "a:b", "c", "a:d", reward=3.0, metadata={"n": 1}),
        talk("2", "a", "a:b", reward=1.0),
        talk("3", "a", "a:b"),
    ]
    config = ConversationDatasetConfig(normalize_rewards=True, compute_returns=True, discount=0.5)
    one, two, three = conversations = list(kind(log, config))
    assert one.metadata == {"n": 1, "returns_to_go": [0.5, 1.0]}
    assert two.metadata == {"returns_to_go": [-1.0]} and three.metadata == {}
    assert kind(log, config).to_jsonl(tmp_path / "log.jsonl") == 3
    assert list(read_log(tmp_path / "log.jsonl", strict=True)) == log
    assert write_log(tmp_path / "prepared.jsonl", conversations) == 3


# Files


@BOTH
@pytest.mark.parametrize("suffix", ["jsonl", "jsonl.gz", "jsonl.zst"])
def test_what_is_written_reads_the_same(kind, tmp_path, suffix):
    if suffix.endswith("zst"):
        pytest.importorskip("zstandard", reason="the extra [zst] is not installed")
    log, path = list(read_log(SAMPLE)), tmp_path / f"log.{suffix}"
    assert kind(log).to_jsonl(path) == len(log)
    assert list(kind.from_jsonl(path, strict=True)) == log
    first = path.read_bytes()
    assert kind.from_jsonl(path).to_jsonl(path) == len(log)  # onto the file that is being read
    assert path.read_bytes() == first and list(tmp_path.iterdir()) == [path]


def test_a_write_that_fails_leaves_nothing_half_written(tmp_path):
    log = [talk("1", "a"), talk("2", "a", metadata={"x": object()})]
    for suffix in ("jsonl", "jsonl.gz"):
        with pytest.raises(TypeError):
            ConversationDataset(log).to_jsonl(tmp_path / f"log.{suffix}")
    assert list(tmp_path.iterdir()) == []


@BOTH
def test_several_files_are_one_log_and_share_no_id(kind, tmp_path):
    first, second = tmp_path / "1.jsonl", tmp_path / "2.jsonl.gz"
    write_log(first, [talk("a", "x"), talk("b", "y")])
    write_log(second, [talk("c", "x"), talk("b", "y"), talk("d", "z")])
    conversations = kind.from_jsonl([first, second])
    for _ in range(2):
        assert [c.conversation_id for c in conversations] == ["a", "b", "c", "d"]
        report = conversations.report
        assert [file.path for file in report.files] == [str(first), str(second)]
        assert [file.skipped for file in report.files] == [0, 1]
        assert (report.lines, report.loaded, report.skipped, report.kept) == (5, 4, 1, 4)
        assert "duplicate conversation_id 'b'" in report.files[1].faults[0].reason
        assert f"{second}: 3 lines, 2 loaded, 1 skipped" in str(report)
        assert json.loads(json.dumps(report.to_dict()))["files"][1]["skipped"] == 1
    with pytest.raises(InvalidLog, match=r"2\.jsonl\.gz, line 2: duplicate"):
        list(kind.from_jsonl([first, second], strict=True))


def test_a_stream_reports_what_it_has_read_so_far(tmp_path):
    write_log(tmp_path / "log.jsonl", [talk(str(n), "x") for n in range(5)])
    stream = ConversationStream.from_jsonl(
        tmp_path / "log.jsonl", ConversationDatasetConfig(normalize_rewards=True)
    )
    assert (stream.report.lines, stream.report.kept) == (0, 0)
    conversations = iter(stream)
    next(conversations), next(conversations)
    assert (stream.report.lines, stream.report.kept) == (2, 2)
    assert len(list(conversations)) == 3 and stream.report.kept == 5


def test_a_stream_wants_what_can_be_read_again_and_a_data_set_does_not():
    with pytest.raises(InvalidConfiguration, match="can be iterated once"):
        ConversationStream(iter(small_log()))
    assert len(ConversationDataset(iter(small_log()))) == 5


def test_a_data_set_is_a_sequence():
    dataset = ConversationDataset(small_log())
    assert (dataset[0], dataset[-1], dataset[1:3]) == (
        small_log()[0], small_log()[-1], small_log()[1:3],
    )  # fmt: skip
    with pytest.raises(IndexError):
        dataset[5]
    assert len(ConversationDataset([])) == 0
    assert ConversationDataset([]).get_statistics()["mean_reward"] is None


def test_a_missing_file_is_told_before_anything_is_read(tmp_path):
    write_log(tmp_path / "1.jsonl", [talk("a", "x")])
    for read in (ConversationStream.from_jsonl, ConversationStream.from_openai):
        with pytest.raises(DatasetError, match="there is no file"):
            read([tmp_path / "1.jsonl", tmp_path / "2.jsonl"])
        with pytest.raises(InvalidConfiguration, match="no file is named"):
            read([])


def test_progress_is_told_of_each_file(tmp_path):
    seen = []
    write_log(tmp_path / "1.jsonl", [talk(f"a{n}", "x") for n in range(1500)])
    write_log(tmp_path / "2.jsonl", [talk("b", "x")])
    ConversationDataset.from_jsonl(
        [tmp_path / "1.jsonl", tmp_path / "2.jsonl"],
        progress=lambda report: seen.append(report.lines),
    )
    assert seen == [1000, 1500, 1]
