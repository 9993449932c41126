"""Off-policy evaluation where every value is known: ranking, coverage, refusals, diagnostics."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from convgym.evaluation.diagnostics import kl_to_behavior, loop_rate
from convgym.evaluation.ope.behavior import counted_behavior
from convgym.evaluation.ope.fitted_q import LinearQ
from convgym.evaluation.ope.logged import LoggedPolicyData
from convgym.evaluation.ope.off_policy import OffPolicyConfig, evaluate_off_policy
from convgym.evaluation.ope.selection import CONSERVATIVE, ranked, selection_quality
from convgym.evaluation.ope.tabular import TabularQ
from trainers import toy_dialogue as toy

SCRIPT = Path(__file__).parents[1] / "scripts" / "bench_ope.py"
MODEL = toy.toy_model()


@pytest.fixture(scope="module")
def bench():
    spec = importlib.util.spec_from_file_location("bench_ope", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def reports(bench):
    return bench.toy_reports(1_500)


def logged(bench, policy, conversations=1_000, behavior=None, seed=0):
    episodes = toy.record_states(bench.noisy(0.5) if behavior is None else behavior, conversations,
                                 seed)  # fmt: skip
    return LoggedPolicyData.build(episodes, bench.by_state(policy))


def tabular(bench):
    return OffPolicyConfig(fit_q=TabularQ(bench.state_of), states=bench.state_of, resamples=500)


def test_states_recorded_side_by_side_are_those_of_the_environment():
    """Beside `record`, which steps the environment: lengths, returns and acts are alike."""
    behavior = toy.uniform()
    fast, slow = (
        toy.record_states(behavior, 3_000),
        toy.record(behavior, 600, env=toy.ToyDialogue(8)),
    )
    for measure, spread in (
        (len, 0.4),
        (lambda one: one.rewards.sum(), 0.06),
        (lambda one: float(one.terminated), 0.05),
    ):
        means = [np.mean([measure(one) for one in data]) for data in (fast, slow)]
        assert means[0] == pytest.approx(means[1], abs=spread)
    one = max(fast, key=len)
    assert len(one.observations) == len(one) + 1 and one.observations[0] == toy.START
    assert one.propensities == pytest.approx([1 / 7] * len(one))
    assert all(a.terminated != a.truncated for a in fast)


@pytest.mark.parametrize("by", ["WIS", "WDR", "FQE", "model-based", "marginal IS", CONSERVATIVE])
def test_estimates_rank_twelve_policies_as_their_true_values_do(reports, by):
    found, truth = reports
    quality = selection_quality(found, truth, by)
    assert quality.policies == 12
    assert quality.spearman >= 0.9 and quality.regret_at_3 <= 0.02


def test_doubly_robust_is_nearer_than_the_weights_alone(reports):
    found, truth = reports
    errors = {by: selection_quality(found, truth, by).rmse for by in ("IS", "WIS", "WDR")}
    assert errors["WDR"] < errors["WIS"] < errors["IS"]


def test_the_best_policy_is_found(reports):
    assert ranked(reports[0])[0].policy == "script, noise 0.1"


@pytest.mark.parametrize("act", [toy.RECAP, toy.SMALL_TALK, toy.BLUNDERS])
def test_certain_policies_far_away_are_refused(bench, act):
    report = evaluate_off_policy(logged(bench, toy.always(act)), tabular(bench))
    assert not report.identifiable
    assert all(row.low is None for row in report.rows)
    assert act != toy.BLUNDERS or report["WIS"] is None, "nobody ever blundered"


def test_what_nobody_ever_did_is_unsupported_mass(bench):
    half = (toy.always(toy.BLUNDERS) + toy.script()) / 2
    report = evaluate_off_policy(logged(bench, half), tabular(bench))
    assert report.unsupported_mass == pytest.approx(0.5, abs=0.01)


def test_estimated_propensities_serve_where_none_were_logged(bench):
    policy = bench.noisy(0.3)
    data = logged(bench, policy, 3_000)
    bare = data.with_behavior(counted_behavior(data.episodes, toy.ACTS, bench.state_of))
    report = evaluate_off_policy(bare, tabular(bench))
    truth = MODEL.values(policy)[toy.START]
    row = report.row("WIS")
    assert row.low <= truth <= row.high


def test_linear_values_find_the_value_from_noisy_vectors():
    """The observations are vectors with noise, as learners see them, and not states."""
    behavior, policy = toy.uniform(), 0.5 * toy.script() + 0.5 * toy.uniform()
    episodes, vectors = toy.record(behavior, 1_500), toy.embedding(384)

    def ask(observations, masks):
        return policy[(observations @ vectors.T).argmax(axis=1)]

    config = OffPolicyConfig(fit_q=LinearQ(), resamples=200)
    report = evaluate_off_policy(LoggedPolicyData.build(episodes, ask), config)
    truth = MODEL.values(policy)[toy.START]
    assert report["FQE"] == pytest.approx(truth, abs=0.08)
    assert report["WDR"] == pytest.approx(truth, abs=0.08)
    assert abs(report.behavior_value - truth) > 0.3, "the data earn far less"


@pytest.mark.slow
def test_wis_intervals_hold_the_value_as_often_as_they_say(bench):
    """Three hundred replications; the slow test below and the script take fifteen hundred."""
    found = bench.coverage(bench.noisy(0.4), bench.noisy(0.2), 300, 200)
    assert found["ess"] > 100
    assert 0.91 <= found["WIS"] <= 0.985
    assert found["DR"] >= 0.88 and found["WDR"] >= 0.88
    assert found["DR width"] < found["WIS width"]


@pytest.mark.slow
@pytest.mark.parametrize(("behaved", "noise"), [(0.4, 0.3), (0.4, 0.1), (0.7, 0.5)])
def test_coverage_over_fifteen_hundred_replications(bench, behaved, noise):
    """Half a minute each."""
    found = bench.coverage(bench.noisy(behaved), bench.noisy(noise), 1_500, 500)
    assert found["ess"] > 100
    assert 0.92 <= found["WIS"] <= 0.98
    assert found["DR"] >= 0.88 and found["WDR"] >= 0.88


def test_diagnostics_tell_a_loop_from_a_script(bench):
    recaps = toy.record_states(toy.always(toy.RECAP), 5)
    assert loop_rate(recaps).value == pytest.approx(19 / 20)
    assert loop_rate(toy.record_states(toy.script(), 200)).band != "red"
    far = kl_to_behavior(toy.script(), np.full((toy.STATES, toy.ACTS), 1 / toy.ACTS))
    assert far.value == pytest.approx(4.0), "one act of sixteen is four bits"
