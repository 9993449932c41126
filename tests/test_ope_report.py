"""Intervals, the report with its refusals, selection among policies, the page."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from three_turns import ThreeTurns, asked, cell_of, episode

from convgym.data.statistics import spearman as plain_spearman
from convgym.errors import InvalidConfiguration
from convgym.evaluation.bootstrap import TaskBootstrap
from convgym.evaluation.ope.behavior import counted_behavior
from convgym.evaluation.ope.estimators import RatioSums, redrawn, weighted
from convgym.evaluation.ope.intervals import (
    empirical_bernstein,
    hoeffding,
    redrawn_interval,
    student_t,
    t_quantile,
)
from convgym.evaluation.ope.logged import LoggedPolicyData
from convgym.evaluation.ope.off_policy import (
    OffPolicyConfig,
    apart,
    calibration_of,
    evaluate_off_policy,
)
from convgym.evaluation.ope.off_policy_report import EstimateRow
from convgym.evaluation.ope.selection import (
    evaluate_policies,
    ranked,
    selection_quality,
    spearman,
)
from convgym.evaluation.ope.tabular import TabularQ

MODEL = ThreeTurns(0)
TABULAR = OffPolicyConfig(fit_q=TabularQ(cell_of), states=cell_of, resamples=200)


def logged(n=600, policy=None, seed=0, **keywords):
    odds, episodes = zip(*MODEL.every_trajectory(), strict=True)
    chosen = np.random.default_rng(seed).choice(len(odds), size=n, p=odds)
    table = MODEL.policy if policy is None else policy
    kept = [episodes[i] for i in chosen]
    return LoggedPolicyData.build(kept, asked(table), discount=0.9, **keywords)


# -- intervals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("degrees", "expected"), [(1, 12.7062), (2, 4.3027), (10, 2.2281), (30, 2.0423), (999, 1.9623)]
)
def test_students_t_is_that_of_the_tables(degrees, expected):
    assert t_quantile(0.975, degrees) == pytest.approx(expected, abs=1e-4)


def test_hoeffding_shrinks_with_the_root_of_n():
    """Of [0, 1] at 95 %: √(ln 40 / 2n), 0.136 at 100 and 0.0043 at 100,000."""
    for n, half in ((100, 0.1358), (100_000, 0.004295)):
        low, high = hoeffding(np.tile([0.0, 1.0], n // 2), 0.0, 1.0)
        assert (high - low) / 2 == pytest.approx(half, rel=1e-3)


def test_empirical_bernstein_by_hand():
    """100 terms, half 0 and half 1: s² = 25/99, ln 80 = 4.382."""
    low, high = empirical_bernstein(np.tile([0.0, 1.0], 50), 0.0, 1.0)
    half = math.sqrt(2 * 25 / 99 * math.log(80) / 100) + 7 * math.log(80) / (3 * 99)
    assert (low + high) / 2 == pytest.approx(0.5) and (high - low) / 2 == pytest.approx(half)


def test_empirical_bernstein_beats_hoeffding_where_terms_vary_little():
    terms = np.tile([0.1, 0.1, 0.2], 2000)
    narrow, wide = empirical_bernstein(terms, 0.0, 10.0), hoeffding(terms, 0.0, 10.0)
    assert narrow[1] - narrow[0] < (wide[1] - wide[0]) / 2


@pytest.mark.parametrize("bound", [hoeffding, empirical_bernstein])
def test_a_range_that_the_terms_leave_is_none(bound):
    with pytest.raises(InvalidConfiguration, match="range"):
        bound(np.array([0.0, 1.5]), 0.0, 1.0)


@given(st.lists(st.floats(0, 1), min_size=3, max_size=30))
def test_every_interval_holds_its_mean(terms):
    given_terms = np.array(terms)
    for low, high in (
        student_t(given_terms),
        hoeffding(given_terms, 0, 1),
        empirical_bernstein(given_terms, 0, 1),
    ):
        assert low - 1e-12 <= given_terms.mean() <= high + 1e-12


def test_redrawing_sums_is_redrawing_conversations():
    chance = np.random.default_rng(0)
    weights, rewards = chance.gamma(1.0, size=(30, 2)), chance.normal(size=(30, 2))
    bootstrap = TaskBootstrap(30, seed=1, resamples=50)
    sums = weighted(weights, rewards, 0.9)
    plain = RatioSums(sums.above)
    found, means = redrawn([sums, plain], bootstrap)
    for row, counts in enumerate(bootstrap.counts(0, 50)):
        picked = np.repeat(np.arange(30), counts)
        assert found[row] == pytest.approx(
            float(weighted(weights[picked], rewards[picked], 0.9).value)
        )
        assert means[row] == pytest.approx(sums.above[picked].mean())


def test_redraws_without_any_weight_are_left_out():
    low, high = redrawn_interval(np.array([np.nan, 1.0, 2.0, 3.0]))
    assert 1.0 <= low < high <= 3.0


# -- the report ------------------------------------------------------------------------------------


def test_every_estimator_finds_the_value_and_the_behaviours_own():
    data = logged(4000)
    states = lambda observations: cell_of(observations)  # noqa: E731
    fit = lambda given: counted_behavior(given.episodes, given.acts, states)  # noqa: E731
    report = evaluate_off_policy(data, replace(TABULAR, fit_behavior=fit))
    truth = MODEL.value(MODEL.policy, 0.9)
    assert [row.estimator for row in report.rows] == [
        "IS", "PDIS", "WIS", "WPDIS", "DR", "WDR", "FQE", "model-based", "marginal IS",
        "regression IS", "regression WIS",
    ]  # fmt: skip
    for row in report.rows:
        assert row.value == pytest.approx(truth, abs=0.1), row.estimator
        assert row.calibrated
        if not row.estimator.startswith("regression"):
            own = pytest.approx(report.behavior_value, abs=0.02)
            assert row.calibration == own, row.estimator
    assert report.verdict == "green" and not report.disagreements
    assert report.mean_weight == pytest.approx(1.0, abs=0.1)


def test_estimated_propensities_are_asked_about_the_behaviour_where_it_is_known():
    fit = lambda given: counted_behavior(given.episodes, given.acts, cell_of)  # noqa: E731
    config = OffPolicyConfig(fit_q=None, fit_behavior=fit)
    data = logged(2000)
    assert "regression WIS" not in calibration_of(data, config)
    known = data.with_behavior(asked(MODEL.behavior)(data.observations, None))
    own = calibration_of(known, config)["regression WIS"]
    assert own == pytest.approx(data.returns.mean(), abs=0.03)


def test_fitted_and_planned_values_carry_no_interval():
    report = evaluate_off_policy(logged(), TABULAR)
    for name in ("FQE", "model-based", "marginal IS"):
        assert report.row(name).low is None and "no interval" in report.row(name).note
    for name in ("WIS", "WPDIS", "DR", "WDR"):
        row = report.row(name)
        assert row.low < row.value < row.high and row.method == "conversations drawn again"
    assert report.row("IS").method == "Student t"


def test_the_conservative_figure_is_the_least_of_those_compared():
    report = evaluate_off_policy(logged(), TABULAR)
    compared = ("WIS", "WDR", "FQE", "model-based", "marginal IS")
    assert report.conservative == min(report[name] for name in compared)


def few(weights_of_the_first):
    """Forty conversations of one turn: the first `weights_of_the_first` have all the weight."""
    talks = [episode([0, 0], [int(i >= weights_of_the_first)], [1.0], [0.5]) for i in range(40)]
    certain = lambda observations, masks: np.tile([1.0, 0.0], (len(observations), 1))  # noqa: E731
    return LoggedPolicyData.build(talks, certain)


@pytest.mark.parametrize(
    ("alike", "verdict"), [(0, "no support"), (29, "not identifiable"), (30, "amber")]
)
def test_too_few_effective_conversations_are_refused(alike, verdict):
    report = evaluate_off_policy(few(alike), OffPolicyConfig(fit_q=None))
    assert report.verdict == verdict and report.ess == pytest.approx(alike)
    shown = [row.estimator for row in report.rows if row.low is not None]
    assert bool(shown) == (verdict == "amber")
    assert report.identifiable == (verdict == "amber")
    assert (report.conservative is None) == (verdict != "amber")


def test_nothing_over_nothing_is_no_support_and_no_nan():
    report = evaluate_off_policy(few(0), OffPolicyConfig(fit_q=None))
    assert report["WIS"] is None and report.row("WIS").note == "no support"
    assert report["IS"] == 0.0
    text = json.dumps(report.to_dict(), allow_nan=False)
    assert json.loads(text)["verdict"] == "no support"
    assert "No support" in report.to_markdown()


def test_estimates_disagree_beyond_their_joint_interval():
    """Half-widths 3 and 4 make 5."""
    one = EstimateRow("a", 0.0, -3.0, 3.0)
    assert apart(one, EstimateRow("b", 5.1, 1.1, 9.1))
    assert not apart(one, EstimateRow("b", 4.9, 0.9, 8.9))
    assert apart(one, EstimateRow("c", 3.1)) and not apart(one, EstimateRow("c", 2.9))
    assert not apart(EstimateRow("c", 0.0), EstimateRow("d", 9.0)), "nothing says how sure they are"


def test_a_wrong_model_disagrees_with_the_weights_and_fails_on_the_behaviour():
    astray = OffPolicyConfig(
        fit_q=lambda training: lambda seen: np.full((len(seen), 2), 5.0), resamples=200
    )
    report = evaluate_off_policy(logged(2000), astray)
    assert report["FQE"] == pytest.approx(5.0)
    assert ("WIS", "FQE") in report.disagreements
    assert not report.row("FQE").calibrated and report.row("WDR").calibrated
    assert any("disagree" in note for note in report.notes)
    assert any("FQE" in note and "mean return" in note for note in report.notes)


def test_a_cut_is_stated_and_leaves_out_those_that_cannot_value_it():
    horizon = evaluate_off_policy(logged(), TABULAR)
    assert "counts nothing" in horizon.notes[0] and horizon.truncated > 0
    valued = evaluate_off_policy(logged(after_cut="value"), TABULAR)
    names = {row.estimator for row in valued.rows}
    assert names == {"DR", "WDR", "FQE", "model-based", "marginal IS"}
    assert "fitted value" in valued.notes[0]
    assert all(row.calibration is None and row.calibrated for row in valued.rows)


def test_bounds_are_shown_where_a_range_is_given():
    data = logged(2000)
    limit = float((MODEL.policy / MODEL.behavior).max() ** 3)
    config = OffPolicyConfig(fit_q=None, return_range=(-10.0, 10.0), weight_limit=limit)
    rows = [row for row in evaluate_off_policy(data, config).rows if row.estimator == "IS"]
    assert [row.method for row in rows] == ["Student t", "empirical Bernstein", "Hoeffding"]
    truth = MODEL.value(MODEL.policy, 0.9)
    assert all(row.low <= truth <= row.high for row in rows)
    with pytest.raises(InvalidConfiguration, match="range"):
        evaluate_off_policy(data, replace(config, weight_limit=0.1))


@pytest.mark.parametrize(
    "keywords", [{"folds": 1}, {"alpha": 0.0}, {"resamples": 10}, {"weight_limit": 2.0}]
)
def test_bad_settings_fail_at_once(keywords):
    with pytest.raises(InvalidConfiguration):
        OffPolicyConfig(**keywords)


def test_the_same_logs_give_the_same_report():
    assert evaluate_off_policy(logged(), TABULAR) == evaluate_off_policy(logged(), TABULAR)


def test_a_calibration_handed_in_is_the_one_that_is_found():
    data = logged()
    known = calibration_of(data, TABULAR)
    given_report = evaluate_off_policy(data, TABULAR, calibration=known)
    assert given_report == evaluate_off_policy(data, TABULAR)


# -- selection -------------------------------------------------------------------------------------


def test_spearman_of_ranks_by_hand():
    """Ranks 1 2 3 4 and 2 1 4 3: 1 − 6 · 4 / (4 · 15) = 0.6. Equal ones share a rank."""
    assert spearman(np.array([1.0, 2, 3, 4]), np.array([20.0, 10, 40, 30])) == pytest.approx(0.6)
    tied = spearman(np.array([1.0, 1.0, 2.0]), np.array([1.0, 2.0, 3.0]))
    assert tied == pytest.approx(np.corrcoef([1.5, 1.5, 3], [1, 2, 3])[0, 1])
    assert math.isnan(spearman(np.ones(3), np.arange(3.0)))


@given(st.lists(st.floats(-5, 5), min_size=3, max_size=20, unique=True))
def test_spearman_knows_only_the_order(values):
    first = np.array(values)
    assert spearman(first, np.argsort(np.argsort(first)) ** 3.0) == pytest.approx(1.0)
    assert spearman(first, -first) == pytest.approx(-1.0)
    rounded = np.round(first)
    plainly = plain_spearman(rounded, first[::-1])
    expected = math.nan if plainly is None else plainly
    assert spearman(rounded, first[::-1]) == pytest.approx(expected, abs=1e-12, nan_ok=True)


def report_of(name, value, verdict="green"):
    template = evaluate_off_policy(few(40), OffPolicyConfig(fit_q=None))
    row = EstimateRow("WDR", value)
    return replace(template, policy=name, verdict=verdict, rows=(row,), conservative=value)


def test_regret_is_what_the_best_k_miss():
    """Estimated order b c d a; true values a 4, b 1, c 2, d 3."""
    reports = [report_of(*pair) for pair in (("a", 0.1), ("b", 0.9), ("c", 0.5), ("d", 0.3))]
    quality = selection_quality(reports, {"a": 4.0, "b": 1.0, "c": 2.0, "d": 3.0})
    assert quality.regret_at_1 == pytest.approx(3.0)
    assert quality.regret_at_3 == pytest.approx(1.0)
    assert quality.spearman == pytest.approx(-1.0)


def test_what_is_not_identifiable_is_not_ranked():
    reports = [report_of("a", 0.9, "not identifiable"), report_of("b", 0.2), report_of("c", 0.4)]
    assert [report.policy for report in ranked(reports)] == ["c", "b"]
    truth = {"a": 0.0, "b": 0.2, "c": 0.4}
    assert selection_quality(reports, truth).policies == 2
    with pytest.raises(InvalidConfiguration, match="identifiable"):
        selection_quality(reports[:2], truth)


def test_policies_are_evaluated_on_the_same_logs():
    tables = {"policy": MODEL.policy, "behaviour": MODEL.behavior}
    reports = evaluate_policies(logged(), {k: asked(v) for k, v in tables.items()}, TABULAR)
    assert [report.policy for report in reports] == ["policy", "behaviour"]
    assert reports[0].row("WIS") == evaluate_off_policy(logged(), TABULAR).row("WIS")
    assert reports[1].ess == pytest.approx(600)


# -- the page --------------------------------------------------------------------------------------


def test_the_page_is_self_contained_and_the_same_every_time(tmp_path):
    pytest.importorskip("matplotlib")
    from convgym.evaluation.ope.page import write_off_policy_report

    reports = [
        evaluate_off_policy(logged(), TABULAR, name="<good>"),
        evaluate_off_policy(few(0), OffPolicyConfig(fit_q=None), name="far"),
    ]
    pages = [
        write_off_policy_report(reports, tmp_path / name, truth={"<good>": 0.4}).read_bytes()
        for name in ("one.html", "two.html")
    ]
    assert pages[0] == pages[1]
    text = pages[0].decode()
    assert "<svg" in text and "&lt;good&gt;" in text and "no support" in text
    assert "<script" not in text and "src=" not in text
