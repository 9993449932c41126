"""The gap report as a whole: it tells good users from bad ones, and knows when it cannot."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from callers import bag, callers, scripted, with_turns
from recorded import corpus, talk

from convgym.calibration import SimToRealEvaluator, compute_sim_real_gap, write_gap_report
from convgym.calibration.floors import Floor
from convgym.calibration.gap_report import GapRow
from convgym.data.logs import read_log
from convgym.errors import DatasetError, InvalidConfiguration
from convgym.language.act_tagger import ActTagger

REAL, OTHER = callers(200), callers(100, seed=1)


@pytest.fixture(autouse=True, scope="module")
def fewer_splits():
    """A third of the halvings behind a classifier's floor, in a third of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("convgym.calibration.gap.TEST_SPLITS", 10)
        yield


@pytest.fixture(scope="module")
def bagged(fewer_splits):
    return compute_sim_real_gap(REAL, bag(OTHER), training=OTHER)


def colours(report) -> dict[str, str]:
    return {row.metric: row.verdict for row in report.rows}


def test_two_halves_of_the_same_callers_are_green():
    report = compute_sim_real_gap(REAL, OTHER)
    assert {"length_gap", "vocab_overlap", "turn_kl", "mmd", "c2st_context"} <= set(colours(report))
    assert report.verdict == "green" and report.passed and not report.reason
    assert sum(check.flagged for check in report.checks) <= 3
    assert sum(point.apart for point in report.responses) <= 1
    for row in report.rows:
        assert row.low <= row.value <= row.high, row.metric


def test_a_bag_of_turns_is_fine_by_length_and_red_by_conversation(bagged):
    verdicts = colours(bagged)
    fine = ("length_js", "length_wasserstein", "act_js", "word_js", "c2st_turn", "c2st_character")
    assert {verdicts[metric] for metric in fine} == {"green"}
    assert verdicts["act_bigram_js"] == verdicts["c2st_conversation"] == "red"
    assert bagged.row("c2st_context").value > 0.65
    assert not bagged.passed
    answers = next(point for point in bagged.responses if point.response == "answers")
    assert answers.real == 1.0 and answers.sim < 0.5 and answers.apart
    p = {check.statistic: (check.p, check.flagged) for check in bagged.checks}
    assert p["first turns with greeting"] == p["last turns with thanks"] == (0.0, True)
    assert p["turns with bye"][0] == pytest.approx(0.5, abs=0.47) and not p["turns with bye"][1]


def test_a_scripted_user_is_red():
    report = compute_sim_real_gap(REAL, scripted(OTHER), "quick")
    verdicts = colours(report)
    assert verdicts["length_js"] == verdicts["word_js"] == verdicts["mmd"] == "red"
    assert verdicts["act_js"] == verdicts["turn_js"] == "green"  # it does the right things
    assert "c2st_turn" not in verdicts and not report.passed


def test_turns_taken_word_for_word_are_counted_and_left_out_once(bagged):
    assert bagged["verbatim_share"] == 1.0  # all turns of the bag stand in the training logs
    assert bagged.row("verbatim_share").verdict == "none"
    assert 0.5 < bagged.row("verbatim_share").floor_mean < 0.9  # "Hello" is said by others too
    assert "c2st_turn_new" not in bagged
    assert any("too few are left for c2st_turn_new" in note for note in bagged.notes)
    half = compute_sim_real_gap(REAL[:80], callers(80, seed=3), training=OTHER)
    fewer, all_ = (sum(half.tests[m].examples) for m in ("c2st_turn_new", "c2st_turn"))
    assert fewer < 0.5 * all_


def test_under_100_conversations_there_are_rows_and_no_verdict():
    report = compute_sim_real_gap(REAL[:120], scripted(OTHER[:60]), "quick")
    assert report.conversations == 60 and report.row("length_js").ratio > 10
    assert set(colours(report).values()) == {"none"} and report.verdict == "none"
    assert not report.passed and "60 conversations a side are too few" in report.reason
    assert report.headline.startswith("No verdict") and report.to_dict()["reason"]


def test_too_few_conversations_or_a_silent_user_are_one_sentence():
    with pytest.raises(DatasetError, match=r"200 real and 39 simulated .* takes 40 or more"):
        compute_sim_real_gap(REAL, OTHER[:39])
    silent = [talk(str(n), "…", "a:Hello?") for n in range(100)]
    with pytest.raises(DatasetError, match="0 simulated"):
        compute_sim_real_gap(REAL, silent)
    report = compute_sim_real_gap(REAL, [*OTHER[:60], *silent], "quick")
    assert report.notes[0].startswith("0 real and 100 simulated conversations were left out")
    with pytest.raises(InvalidConfiguration, match="'full' or 'quick'"):
        compute_sim_real_gap(REAL, OTHER, "slow")
    with pytest.raises(InvalidConfiguration, match="takes 40 or more"):
        compute_sim_real_gap(REAL, OTHER, conversations=10)


def test_the_same_seed_gives_the_same_report_and_n_is_a_limit():
    one, same, other = (
        compute_sim_real_gap(REAL, OTHER, "quick", conversations=70, seed=s) for s in (0, 0, 1)
    )
    assert one == same and one != other
    assert one.conversations == one.floor_conversations == 70 and not one.notes[:-1]


def test_floors_of_few_real_conversations_are_carried_on_and_noted():
    report = compute_sim_real_gap(REAL[:100], OTHER, "quick")
    assert report.conversations == 100 and report.floor_conversations == 50
    assert "halves of 50; the floors were carried on to 100" in report.notes[0]


def test_without_labels_a_tagger_tells_the_acts():
    bare = with_turns(OTHER, lambda turn: replace(turn, acts=()))
    alone = compute_sim_real_gap(REAL, bare, "quick")
    assert "act_js" not in alone and any("No rows of acts" in note for note in alone.notes)
    turns = [m for c in callers(100, seed=2) for m in c.said_by("user")]
    tagger = ActTagger.fit([m.content for m in turns], [m.acts[0][1] for m in turns])
    tagged = compute_sim_real_gap(REAL, bare, "quick", tagger=tagger)
    assert tagged.row("act_bigram_js").verdict == "green"


def test_intervals_narrow_and_hold_the_same_value_with_more_conversations():
    few = compute_sim_real_gap(REAL, scripted(callers(50, seed=4)), "quick")
    many = compute_sim_real_gap(callers(400), scripted(callers(200, seed=4)), "quick")
    for metric in ("length_wasserstein", "word_js"):
        one, other = few.row(metric), many.row(metric)
        assert 0.3 < (other.high - other.low) / (one.high - one.low) < 0.8, metric  # ½ by theory
        assert one.low < other.high and other.low < one.high, metric


@pytest.mark.parametrize(
    ("value", "p95", "auc", "n", "ratio", "verdict"),
    [
        (0.02, 0.01, False, 100, 2.0, "green"),
        (0.05, 0.01, False, 100, 5.0, "amber"),
        (0.051, 0.01, False, 100, 5.1, "red"),
        (0.9, 0.2, False, 100, 4.5, "amber"),
        (0.56, 0.02, True, 100, 3.0, "amber"),
        (0.45, 0.02, True, 100, -2.5, "green"),
        (0.84, 0.1, True, 100, 3.4, "amber"),  # its interval begins at 0.74
        (0.86, 0.1, True, 100, 3.6, "red"),
        (0.01, 0.0, False, 100, None, "red"),
        (0.0, 0.0, False, 100, 0.0, "green"),
        (0.05, 0.01, False, 99, 5.0, "none"),
        (0.99, 0.01, True, 99, 49.0, "none"),
    ],
)
def test_verdicts_worked_by_hand(value, p95, auc, n, ratio, verdict):
    interval = value - 0.1, value + 0.1
    row = GapRow.judged("m", value, interval, Floor(0.0, p95, n, n), auc=auc)
    assert row.ratio == (ratio if ratio is None else pytest.approx(ratio))
    assert row.verdict == verdict and row.floor_p95 == p95 + 0.5 * auc
    assert GapRow.judged("m", value, interval, Floor(0.0, p95, n, n), gated=False).verdict == "none"


def test_a_report_is_json_and_markdown(bagged):
    read = json.loads(json.dumps(bagged.to_dict(), allow_nan=False))
    assert read["verdict"] == "red" and read["passed"] is False
    assert {row["metric"]: row["value"] for row in read["rows"]} == {
        row.metric: bagged[row.metric] for row in bagged.rows
    }
    text = bagged.to_markdown()
    tables = [len(line.split(" | ")) for line in text.splitlines() if line.startswith("| ---")]
    assert tables == [7, 5, 5, 3]
    assert "| c2st_conversation |" in text and text.startswith("Verdict: red (")
    with pytest.raises(KeyError):
        bagged["no such metric"]


def test_the_page_holds_all_it_needs_and_is_the_same_each_time(bagged, tmp_path):
    pytest.importorskip("matplotlib")
    page = write_gap_report(bagged, tmp_path / "gap.html").read_text("utf-8")
    assert page == write_gap_report(bagged, tmp_path / "again.html").read_text("utf-8")
    assert not re.search(r"<(script|link|iframe)|src=|url\(['\"]?http|@import", page)
    drawings = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert len(drawings) == 3 and all(ElementTree.fromstring(one) is not None for one in drawings)
    assert all(f"<td>{row.metric}</td>" in page for row in bagged.rows)
    assert not list(tmp_path.glob("*.part"))


# Real logs


@pytest.mark.slow
@pytest.mark.parametrize("name", ["multidogo", "multiwoz", "persuasionforgood"])
def test_real_logs_are_green_in_halves_and_red_when_shuffled_or_scripted(name):
    conversations = list(read_log(corpus(name), strict=True))
    drawn = np.random.default_rng(0).permutation(len(conversations))[:600]
    real, other = ([conversations[n] for n in part] for part in (drawn[:400], drawn[400:]))
    assert compute_sim_real_gap(real, other).verdict == "green"
    shuffled = colours(compute_sim_real_gap(real, bag(other)))
    assert shuffled["c2st_conversation"] == "red" and shuffled["length_js"] == "green"
    assert {shuffled.get(m, "red") for m in ("act_bigram_js", "c2st_context")} <= {"amber", "red"}
    script = colours(compute_sim_real_gap(real, scripted(other)))
    assert script["c2st_turn"] == script["c2st_character"] == script["length_js"] == "red"


# The evaluator


def test_performance_is_the_mean_reward_of_the_conversations():
    sim = [replace(c, reward=1.0) for c in OTHER]
    metrics = SimToRealEvaluator().evaluate(sim, REAL)
    real = np.array([c.reward for c in REAL])
    assert metrics.sim_performance == 1.0 and metrics.real_performance == real.mean()
    assert metrics.transfer_gap == 1.0 - real.mean()
    half = 1.96 * real.std(ddof=1) / np.sqrt(200)
    assert metrics.transfer_gap_interval == pytest.approx(
        (1 - real.mean() - half, 1 - real.mean() + half)
    )
    assert metrics.js_divergence == metrics.gap["length_js"] and metrics.mmd == metrics.gap["mmd"]
    assert json.dumps(metrics.to_dict(), allow_nan=False)


def test_without_rewards_there_is_no_transfer_gap():
    metrics = SimToRealEvaluator().evaluate([replace(c, reward=None) for c in OTHER], REAL)
    assert metrics.sim_performance is metrics.transfer_gap is metrics.transfer_gap_interval is None
    assert metrics.real_performance is not None
    one = [OTHER[0], *(replace(c, reward=None) for c in OTHER[1:])]
    with pytest.raises(DatasetError, match="one return of a side"):
        SimToRealEvaluator().evaluate(one, REAL)


def test_an_agent_is_played_on_both_sides_or_refused():
    evaluator = SimToRealEvaluator(lambda agent: [agent, agent + 2], lambda agent: [agent, 0.0])
    metrics = evaluator.evaluate(OTHER, REAL, agent=1.0)
    assert (metrics.sim_performance, metrics.real_performance) == (2.0, 0.5)
    assert metrics.transfer_gap == 1.5
    with pytest.raises(InvalidConfiguration, match="nothing to play it in"):
        SimToRealEvaluator().evaluate(OTHER, REAL, agent=1.0)
