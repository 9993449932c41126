"""Off-policy estimators over everything that can happen: no rollout, no tolerance for chance."""

import numpy as np
import pytest
from three_turns import ThreeTurns, action_value_rows, asked, cell_of, episode

from convgym.evaluation.ope.behavior import as_behavior
from convgym.evaluation.ope.estimators import (
    doubly_robust,
    importance_sampling,
    per_decision,
    weighted,
    weighted_doubly_robust,
    weighted_per_decision,
)
from convgym.evaluation.ope.logged import LoggedPolicyData
from convgym.evaluation.ope.tabular import TabularQ, marginal_value, model_value

DISCOUNT = 0.9
PLAIN = (importance_sampling, per_decision)
WEIGHTED = (weighted, weighted_per_decision)
SEEDS = range(5)


def everything(model, policy=None, discount=DISCOUNT):
    """(probabilities (n,), data) of all trajectories."""
    odds, episodes = zip(*model.every_trajectory(), strict=True)
    table = model.policy if policy is None else policy
    data = LoggedPolicyData.build(episodes, asked(table), discount=discount)
    assert sum(odds) == pytest.approx(1.0)
    return np.array(odds), data


def by_weights(estimator, data):
    return estimator(data.weights, data.padded(data.rewards), data.discount)


def by_values(estimator, data, q):
    values = data.padded_values(action_value_rows(q)(data.observations))
    return estimator(data.weights, data.padded(data.rewards), data.discount, *values)


def expected(sums, odds):
    """The estimate from infinitely many conversations, each drawn as often as it is likely."""
    below = np.ones(1) if sums.below is None else odds @ sums.below
    return float((odds @ sums.above / below).sum())


def test_trajectories_differ_in_length_and_some_are_cut_off():
    _, data = everything(ThreeTurns(0))
    assert set(data.lengths) == {1, 2, 3}
    assert {e.truncated for e in data.episodes} == {True, False}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("estimator", [*PLAIN, *WEIGHTED], ids=lambda e: e.__name__)
def test_estimators_by_weights_expect_the_value(estimator, seed):
    model = ThreeTurns(seed)
    odds, data = everything(model)
    truth = model.value(model.policy, DISCOUNT)
    assert expected(by_weights(estimator, data), odds) == pytest.approx(truth, abs=1e-12)
    assert abs(truth - odds @ data.returns) > 1e-3, "the behaviour is worth something else"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("estimator", [doubly_robust, weighted_doubly_robust])
def test_doubly_robust_expects_the_value_whatever_q_says(estimator, seed):
    model = ThreeTurns(seed)
    odds, data = everything(model)
    wrong = np.random.default_rng(seed).normal(size=model.rewards.shape)
    found = expected(by_values(estimator, data, wrong), odds)
    assert found == pytest.approx(model.value(model.policy, DISCOUNT), abs=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_doubly_robust_expects_the_value_with_wrong_propensities_and_the_right_q(seed):
    model = ThreeTurns(seed)
    odds, data = everything(model)
    wrong = data.with_behavior(np.full(data.evaluation.shape, 0.5))
    truth = model.value(model.policy, DISCOUNT)
    q = model.action_values(model.policy, DISCOUNT)
    assert expected(by_values(doubly_robust, wrong, q), odds) == pytest.approx(truth, abs=1e-12)
    astray = expected(by_weights(importance_sampling, wrong), odds)
    assert abs(astray - truth) > 0.01, "weights alone are wrong by now"


def test_both_wrong_is_wrong():
    model = ThreeTurns(0)
    odds, data = everything(model)
    wrong = data.with_behavior(np.full(data.evaluation.shape, 0.5))
    found = expected(by_values(doubly_robust, wrong, np.ones((3, 2, 2))), odds)
    assert abs(found - model.value(model.policy, DISCOUNT)) > 0.01


@pytest.mark.parametrize("estimator", [doubly_robust, weighted_doubly_robust])
def test_doubly_robust_with_the_right_q_has_no_variance_where_nothing_is_chance(estimator):
    model = ThreeTurns(3, deterministic=True)
    _, data = everything(model)
    q = model.action_values(model.policy, DISCOUNT)
    truth = model.value(model.policy, DISCOUNT)
    assert len(data.episodes) > 3 and np.ptp(data.final_weights) > 0.1
    terms = by_values(doubly_robust, data, q).above
    np.testing.assert_allclose(terms, truth, atol=1e-12)
    assert by_values(estimator, data, q).value == pytest.approx(truth)


def test_the_behaviour_itself_weighs_one_and_is_worth_the_mean_return():
    model = ThreeTurns(1)
    _, data = everything(model, policy=model.behavior)
    np.testing.assert_allclose(data.weights, 1.0)
    for estimator in (*PLAIN, *WEIGHTED):
        value = by_weights(estimator, data).value
        assert value == pytest.approx(data.returns.mean(), abs=1e-12)


@pytest.mark.parametrize("known", [True, False])
def test_as_behavior_weighs_one_whether_or_not_all_probabilities_are_known(known):
    model = ThreeTurns(1)
    _, data = everything(model)
    if known:
        data = data.with_behavior(asked(model.behavior)(data.observations, None))
    own = as_behavior(data)
    np.testing.assert_allclose(own.weights, 1.0)
    assert by_weights(weighted, own).value == pytest.approx(data.returns.mean())


def test_dividing_by_those_who_still_talk_would_not_estimate_the_value():
    """Why an ended conversation keeps its weight in the sums below."""
    model = ThreeTurns(0)
    odds, data = everything(model)
    alive = data.live.astype(float)
    above = data.weights * data.padded(data.rewards) * DISCOUNT ** np.arange(3)
    found = float((odds @ above / (odds @ (data.weights * alive))).sum())
    assert abs(found - model.value(model.policy, DISCOUNT)) > 0.01


def test_padding_changes_nothing():
    model = ThreeTurns(2)
    _, data = everything(model)
    q = np.random.default_rng(0).normal(size=model.rewards.shape)
    long = episode([0] * 30, [0] * 29, [0.0] * 29, [1.0] * 29)
    # A conversation of 29 turns that π would never have had: weight 0, return 0.
    none = np.zeros((30, 2))
    none[:, 1] = 1.0
    evaluation = np.concatenate([data.evaluation, none])
    padded = LoggedPolicyData(
        (*data.episodes, long), evaluation, np.append(data.propensities, np.ones(29)), DISCOUNT
    )
    for estimator in (*PLAIN, *WEIGHTED):
        shorter, longer = by_weights(estimator, data), by_weights(estimator, padded)
        scale = (data.n + 1) / data.n if shorter.below is None else 1.0
        assert longer.value * scale == pytest.approx(float(shorter.value), abs=1e-12)
    turns = padded.live.shape[1]
    assert turns == 29
    values = data.padded_values(action_value_rows(q)(data.observations))
    wider = [np.pad(v, ((0, 0), (0, 26))) for v in values]
    weights = np.pad(data.weights, ((0, 0), (0, 26)), mode="edge")
    rewards = np.pad(data.padded(data.rewards), ((0, 0), (0, 26)))
    for estimator in (doubly_robust, weighted_doubly_robust):
        narrow = by_values(estimator, data, q).value
        assert estimator(weights, rewards, DISCOUNT, *wider).value == pytest.approx(float(narrow))


def test_estimators_take_many_data_sets_at_once():
    model = ThreeTurns(0)
    _, data = everything(model)
    weights, rewards = data.weights, data.padded(data.rewards)
    many = np.stack([weights, weights[::-1], np.ones_like(weights)])
    again = np.stack([rewards, rewards[::-1], rewards])
    for estimator in (*PLAIN, *WEIGHTED):
        found = estimator(many, again, DISCOUNT).value
        assert found.shape == (3,)
        assert found[0] == pytest.approx(float(estimator(weights, rewards, DISCOUNT).value))
        assert found[0] == pytest.approx(found[1])


def logged_as_often_as_likely(model, policy=None):
    """Conversations in the numbers that 20,000 of them come to, and the data's exact behaviour."""
    odds, episodes = zip(*model.every_trajectory(), strict=True)
    counts = np.round(np.array(odds) * 20_000).astype(int)
    kept = [one for one, count in zip(episodes, counts, strict=True) for _ in range(count)]
    table = model.policy if policy is None else policy
    return LoggedPolicyData.build(kept, asked(table), discount=DISCOUNT)


@pytest.mark.parametrize("seed", [0, 1])
def test_tabular_estimators_find_the_value_where_cells_are_states(seed):
    model = ThreeTurns(seed)
    data = logged_as_often_as_likely(model)
    truth = model.value(model.policy, DISCOUNT)
    fitted = data.first_values(TabularQ(cell_of)(data)(data.observations)).mean()
    for found in (model_value(data, cell_of), marginal_value(data, cell_of), fitted):
        assert found == pytest.approx(truth, abs=3e-3)


def test_tabular_q_is_the_exact_one_where_cells_are_states():
    model = ThreeTurns(0)
    data = logged_as_often_as_likely(model)
    exact = action_value_rows(model.action_values(model.policy, DISCOUNT))(data.observations)
    found = TabularQ(cell_of)(data)(data.observations)
    rows = data.row_of_turn
    np.testing.assert_allclose(found[rows], exact[rows], atol=0.02)


def test_after_a_cut_nothing_counts_or_the_fitted_value_does():
    """One act, one cell, reward 1 for ever, cut after two turns; q = 1 / (1 − γ) = 2."""
    cut = episode([0, 0, 0], [0, 0], [1.0, 1.0], [1.0, 1.0], terminated=False)
    certain = np.tile([1.0, 0.0], (3, 1))
    q = np.tile([2.0, 0.0], (3, 1))
    for after_cut, expected_value in (("nothing", 1.5), ("value", 2.0)):
        data = LoggedPolicyData((cut,), certain, np.ones(2), 0.5, after_cut)
        values = data.padded_values(q)
        for estimator in (doubly_robust, weighted_doubly_robust):
            found = estimator(data.weights, data.padded(data.rewards), 0.5, *values)
            assert found.value == pytest.approx(expected_value)
        states = lambda observations: np.zeros(len(observations), dtype=int)  # noqa: E731
        assert model_value(data, states) == pytest.approx(expected_value)
        assert marginal_value(data, states) == pytest.approx(expected_value)


def test_a_conversation_that_ended_by_itself_counts_no_value_after_it():
    ended = episode([0, 0, 0], [0, 0], [1.0, 1.0], [1.0, 1.0], terminated=True)
    data = LoggedPolicyData((ended,), np.tile([1.0, 0.0], (3, 1)), np.ones(2), 0.5, "value")
    values = data.padded_values(np.tile([2.0, 0.0], (3, 1)))
    found = doubly_robust(data.weights, data.padded(data.rewards), 0.5, *values)
    assert found.value == pytest.approx(1.5)
