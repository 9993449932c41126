"""The quality report: each finding by hand, and the algorithm it suggests."""

from __future__ import annotations

import json
import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded import corpus, talk

from convgym.conversation import Conversation, Message
from convgym.data.conversations import ConversationDataset, ConversationStream
from convgym.data.logs import read_log
from convgym.data.quality import action_of, outlying, quality_report
from convgym.data.statistics import LogStatistics


def test_findings_worked_by_hand():
    log = [
        talk("1", "hi", "a:hello", "where?", "a:there", reward=1.0),
        talk("2", "hi", "a:hello", "where?", "a:there", reward=0.5),  # 1 once more
        talk("3", "hi", "a:hello"),  # its beginning
        talk("4", "hi", "a: ", "anyone?", "a:"),  # silence
        talk("5", "ho", "a:no", "why?", "a:no", "but", "a:no", reward=0.0),  # one thing only
        talk("6", "a:hello", "a:are you there?"),
        talk("7", "anyone?"),
        Conversation("8", (Message("assistant", "", 0.25), Message("tool", "y", 0.5))),
    ]  # fmt: skip
    report = quality_report(iter(log))
    assert report.statistics == LogStatistics.from_conversations(log)
    assert (report.returns.n, report.distinct_returns) == (4, 4)
    assert report.returns.mean == pytest.approx((1.0 + 0.5 + 0.0 + 0.75) / 4)
    assert report.return_range == (0.0, 1.0)
    assert (report.duplicates.ids, report.prefixes.ids) == (("2",), ("3",))
    assert report.null.ids == ("4", "5", "8")
    # 13 assistant turns; null are both of 4, the last two of 5, the one of 8
    assert report.actions.turns == 13 and report.null_turns_share == pytest.approx(5 / 13)
    assert report.without_user.ids == ("6", "8") and report.without_assistant.ids == ("7",)
    # hello, there, silence, no, are you there?
    assert report.actions.distinct_texts_share == pytest.approx(5 / 13)
    assert (report.actions.known_share, report.actions.effective) == (0.0, None)
    assert report.agent_turns.median == 2.0 and report.outliers.count == 0


def test_actions_are_acts_or_tools():
    acts = (("hotel", "request", "area", "?"), ("hotel", "inform", "name", "x"), ("bye",))
    labelled = Message("assistant", "Where?", acts=acts, tool_call={"find": {}})
    assert action_of(labelled) == "bye+inform+request"
    assert action_of(Message("assistant", "", tool_call={"b": {}, "a": {}})) == "call a+b"
    assert action_of(Message("assistant", "Hello")) is None
    log = [
        Conversation(str(n), (Message("user", "x"), Message("assistant", "y", acts=((act,),))))
        for n, act in enumerate(["greet", "greet", "ask", "tell"])
    ]
    actions = quality_report([*log, talk("4", "a:z")]).actions
    assert actions.known_share == 0.8 and actions.distinct == 3
    assert actions.most_frequent == (("greet", 0.5), ("ask", 0.25), ("tell", 0.25))
    assert actions.effective == pytest.approx(math.exp(0.5 * math.log(2) + 0.5 * math.log(4)))


def test_leakage_counts_duplicates_and_prefixes_both_ways():
    train = [talk("1", "a", "b"), talk("2", "c", "d", "e"), talk("3", "f")]
    dev = [
        talk("4", "a", "b"),  # 1
        talk("5", "c", "d"),  # begins 2
        talk("6", "f", "g"),  # goes on from 3
        talk("7", "b"),
        talk("8", "a", "x"),
    ]
    found = quality_report(train, {"dev": dev, "test": [], "itself": train}).leakage
    assert [(leak.split, leak.conversations, leak.duplicates, leak.prefixes) for leak in found] == [
        ("dev", 5, 1, 2),
        ("test", 0, 0, 0),
        ("itself", 3, 3, 0),
    ]


def test_a_split_of_ours_does_not_leak():
    dataset = ConversationDataset(read_log(corpus("taskmaster_steps", "dev")))
    train, dev = dataset.split((0.7, 0.3), seed=0)
    assert quality_report(dataset).prefixes.count > 100
    (leak,) = quality_report(train, {"dev": dev}).leakage
    assert (leak.conversations, leak.duplicates, leak.prefixes) == (len(dev), 0, 0)


# Outliers


@given(st.lists(st.floats(-1e6, 1e6), max_size=30))
def test_outliers_are_those_of_the_plain_rule(values):
    middle = statistics.median(values) if values else 0.0
    expected = []
    for value in values:
        above = value > middle
        side = [abs(v - middle) for v in values if v != middle and (v > middle) == above]
        far = value != middle and abs(value - middle) > 3.5 * 1.4826 * statistics.median(side)
        expected.append(bool(far))
    assert outlying(values).tolist() == expected


def test_a_slip_of_the_scale_is_an_outlier_and_a_rare_success_is_none():
    assert np.flatnonzero(outlying([0, 0, 1, 0, 1, 100, 0])).tolist() == [5]
    assert not outlying([0.0] * 97 + [1.0] * 3).any()
    assert not outlying([5, 5, 5, 5, 4, 3, 1, 5]).any()
    assert not outlying([0.7] * 9).any()


def test_the_report_names_outliers_and_does_not_judge_by_them():
    log = [talk(f"c{n}", "hi", f"a:{n}", "so?", f"a:{n}!", reward=1.0 + n % 2) for n in range(200)]
    log[7] = talk("slip", "hi", "a:x", "so?", "a:y", reward=1e6)
    report = quality_report(log)
    assert report.outliers.ids == ("slip",) and report.return_range == (1.0, 1e6)
    assert report.suggestion.algorithm == "iql"


# The suggestion


def log_of(returns, turns=3, acts=(None,)):
    """Conversations of so many assistant turns; each turn has one of the acts, in a cycle."""
    log, act = [], 0
    for number, reward in enumerate(returns):
        messages = []
        for turn in range(turns):
            name = acts[act % len(acts)]
            messages.append(Message("user", f"question {number} {turn}"))
            messages.append(Message("assistant", f"answer {number} {turn}",
                                    acts=() if name is None else ((name,),)))  # fmt: skip
            act += 1
        log.append(Conversation(f"c{number}", tuple(messages), reward))
    return log


MIXED = [0.0, 1.0] * 60


@pytest.mark.parametrize(
    ("log", "algorithm", "word"),
    [
        ([talk("1", "hi", reward=1.0), talk("2", "ho", reward=0.0)], "none", "never speaks"),
        (log_of([None] * 200), "bc", "No conversation has a return"),
        (log_of([1.0] * 200), "bc", "All returns are equal"),
        (log_of(MIXED[:99]), "filtered_bc", "99 returns are fewer than 100"),
        (log_of(MIXED, turns=1), "filtered_bc", "one agent turn"),
        (log_of([1.0] * 190 + [0.0] * 10), "bc", "top tenth of 0 to 1"),
        (log_of(MIXED), "iql", "free text"),
        (log_of(MIXED, acts=(None, None, "ask", "tell")), "iql", "free text"),
        (log_of(MIXED, acts=("ask",) * 49 + ("tell",)), "bc", "nearly always the same"),
        (log_of(MIXED, acts=("ask", "tell")), "cql", "2 actions are known (2.0 effective)"),
        (log_of(MIXED, acts=(None, "ask", "tell", "bye")), "cql", "3 actions are known"),
    ],
)
def test_the_suggestion_follows_its_table(log, algorithm, word):
    suggestion = quality_report(log).suggestion
    assert suggestion.algorithm == algorithm and word in suggestion.reason


# Forms


def test_an_empty_log_has_a_report():
    report = quality_report([])
    assert report.suggestion.algorithm == "none" and report.returns.n == 0
    assert json.loads(json.dumps(report.to_dict(), allow_nan=False))["actions"]["turns"] == 0
    assert "| conversations | 0 |" in report.to_markdown()


@pytest.mark.parametrize(
    ("name", "algorithm"),
    [("multidogo", "none"), ("multiwoz", "bc"), ("persuasionforgood", "iql"),
     ("taskmaster_steps", "cql")],
)  # fmt: skip
def test_real_logs_have_a_report_and_a_suggestion(name, algorithm):
    train = ConversationStream.from_jsonl(corpus(name))
    dev = ConversationStream.from_jsonl(corpus(name, "dev"))
    report = quality_report(train, {"dev": dev})
    assert report.suggestion.algorithm == algorithm and report.leakage[0].duplicates == 0
    assert report.without_user.count == (6 if name == "taskmaster_steps" else 0)
    assert (report.without_assistant.count > 0) == (name == "multidogo")
    told = report.to_markdown()
    assert f"Suggested: **{algorithm}**" in told and "leakage into dev" in told
    assert all(line.count("|") == 3 for line in told.splitlines() if line.startswith("|"))
    assert json.loads(json.dumps(report.to_dict(), allow_nan=False))["null"]["count"] >= 0
