"""Logged conversations beside an evaluation policy: weights, behaviour, refusals, fitted values."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from three_turns import ACTS, ThreeTurns, asked, cell_of, episode

from convgym.data.propensities import posterior_mean
from convgym.errors import DatasetError, InvalidConfiguration
from convgym.evaluation.ope.behavior import as_behavior, counted_behavior, mixture_behavior
from convgym.evaluation.ope.fitted_q import (
    LinearQ,
    cross_fitted,
    fitted_values,
    principal_components,
    return_range,
)
from convgym.evaluation.ope.logged import LoggedPolicyData
from convgym.evaluation.ope.support import (
    effective_sample_size,
    unsupported_mass,
    verdict_of,
)
from convgym.evaluation.ope.tabular import sampled_cells
from convgym.policies.batched import BatchRandomPolicy
from convgym.policies.policy import ActPolicy, RandomPolicy

MODEL = ThreeTurns(0)
EPISODES = [one for _, one in MODEL.every_trajectory()]


def data(policy=None, **keywords):
    return LoggedPolicyData.build(EPISODES, policy or asked(MODEL.policy), **keywords)


class Plain:
    """No more than the probabilities, one observation at a time."""

    def action_probs(self, observation, action_masks):
        return asked(MODEL.policy)(observation[None], None)[0]


class ByTurn(ActPolicy):
    """The same as the project's policies have it."""

    def action_probs(self, observation, action_masks):
        return asked(MODEL.policy)(observation[None], None)[0]


def test_a_callable_and_a_policy_asked_turn_by_turn_agree():
    for policy in (ByTurn(), Plain()):
        np.testing.assert_array_equal(data().evaluation, data(policy).evaluation)
    assert (data(BatchRandomPolicy()).evaluation == data(RandomPolicy()).evaluation).all()


def test_weights_are_products_of_ratios_and_are_carried_past_the_end():
    logged = data()
    for i, one in enumerate(EPISODES):
        weight = 1.0
        for t in range(3):
            if t < len(one):
                cell = one.observations[t, 0]
                weight *= MODEL.policy[t, cell, one.actions[t]] / one.propensities[t]
            assert logged.weights[i, t] == pytest.approx(weight)


def test_a_subset_is_what_building_it_anew_gives():
    chosen = np.array([5, 0, 17])
    part = data().subset(chosen)
    anew = LoggedPolicyData.build([EPISODES[i] for i in chosen], asked(MODEL.policy))
    for name in ("evaluation", "propensities", "observations", "weights", "returns", "goes_on"):
        np.testing.assert_array_equal(getattr(part, name), getattr(anew, name))


def test_no_conversations_are_refused():
    with pytest.raises(DatasetError, match="no conversations"):
        LoggedPolicyData.build([], asked(MODEL.policy))


def test_missing_propensities_are_refused_by_name():
    bare = [replace(one, propensities=None) for one in EPISODES]
    with pytest.raises(DatasetError, match="counted_behavior"):
        LoggedPolicyData.build(bare, asked(MODEL.policy))


def test_texts_as_actions_are_refused():
    spoken = replace(EPISODES[0], actions=np.array(["hello"] * len(EPISODES[0]), dtype=object))
    with pytest.raises(DatasetError, match='action="act"'):
        LoggedPolicyData.build([spoken], asked(MODEL.policy))


@pytest.mark.parametrize("odds", [0.0, -0.1, 1.5, np.nan])
def test_impossible_propensities_are_refused(odds):
    wrong = replace(EPISODES[0], propensities=np.full(len(EPISODES[0]), odds))
    with pytest.raises(DatasetError, match="propensities"):
        LoggedPolicyData.build([wrong], asked(MODEL.policy))


@pytest.mark.parametrize(
    "table", [np.full((1, ACTS), 0.5), np.full((200, ACTS), 0.6), np.tile([1.5, -0.5], (200, 1))]
)
def test_rows_that_are_no_probabilities_are_refused(table):
    with pytest.raises(InvalidConfiguration, match="the evaluation policy"):
        data(lambda observations, masks: table[: len(observations)])


def test_a_policy_that_cannot_say_its_probabilities_is_refused():
    with pytest.raises(InvalidConfiguration, match="cannot say"):
        data(object())


@pytest.mark.parametrize("keywords", [{"discount": 0.0}, {"discount": 1.1}, {"after_cut": "stop"}])
def test_bad_values_fail_at_once(keywords):
    with pytest.raises(InvalidConfiguration):
        data(**keywords)


# -- behaviour -------------------------------------------------------------------------------------


def test_the_mixture_gives_what_the_posterior_says_turn_by_turn():
    policies, shares = [asked(MODEL.policy), asked(MODEL.behavior)], [0.3, 0.7]
    found = mixture_behavior(EPISODES, policies, shares)
    logged = data(behavior=found)
    first = 0
    for one in EPISODES:
        each = [policy(one.observations[:-1], None) for policy in policies]
        taken = [rows[np.arange(len(one)), one.actions] for rows in each]
        expected = posterior_mean(np.array(taken).T, shares)
        np.testing.assert_allclose(logged.propensities[first : first + len(one)], expected)
        first += len(one)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)


def test_the_mixture_bounds_weights_by_one_over_a_share():
    """π is one of the policies, of share 0.3: no conversation weighs more than 1 / 0.3."""
    policies = [asked(MODEL.policy), asked(MODEL.behavior)]
    logged = data(behavior=mixture_behavior(EPISODES, policies, [0.3, 0.7]))
    assert logged.final_weights.max() <= 1 / 0.3 + 1e-9
    assert data().final_weights.max() > 1 / 0.3, "the stored propensities do not"


def test_shares_are_counted_from_the_data():
    both = [replace(one, policy=number % 2) for number, one in enumerate(EPISODES)]
    policies = [asked(MODEL.policy), asked(MODEL.behavior)]
    share = np.mean([one.policy for one in both])
    counted = mixture_behavior(both, policies)
    np.testing.assert_allclose(counted, mixture_behavior(both, policies, [1 - share, share]))
    with pytest.raises(DatasetError, match="hand them in"):
        mixture_behavior(both, policies[:1])
    with pytest.raises(InvalidConfiguration, match="shares"):
        mixture_behavior(both, policies, [0.5, 0.6])


def test_what_no_policy_could_have_done_is_refused():
    certain = lambda observations, masks: np.tile([1.0, 0.0], (len(observations), 1))  # noqa: E731
    with pytest.raises(DatasetError, match="none of the policies"):
        mixture_behavior(EPISODES, [certain], [1.0])


def test_counted_behaviour_is_the_share_of_each_act_in_its_cell():
    one = episode([0, 0, 0, 1, 1], [0, 0, 1, 1], [0.0] * 4, [0.5] * 4)
    cells = lambda observations: observations[:, 0]  # noqa: E731
    found = counted_behavior([one], ACTS, cells)
    np.testing.assert_allclose(found[:3], [[2 / 3, 1 / 3]] * 3)
    np.testing.assert_allclose(found[3:], [[0.0, 1.0]] * 2)
    with_prior = counted_behavior([one], ACTS, cells, prior=1.0)
    np.testing.assert_allclose(with_prior[0], [3 / 5, 2 / 5])


def test_where_nobody_acted_every_legal_act_is_alike():
    one = episode([0, 1], [0], [0.0], [1.0])
    masks = np.array([[1, 1], [0, 1]], dtype=np.int8)
    found = counted_behavior([replace(one, masks=masks)], ACTS, lambda seen: seen[:, 0])
    np.testing.assert_allclose(found[1], [0.0, 1.0])


# -- support ---------------------------------------------------------------------------------------


@given(st.lists(st.floats(0.0, 100.0), min_size=1, max_size=20))
def test_the_effective_sample_size_is_between_one_and_n(weights):
    ess = float(effective_sample_size(np.array(weights)))
    assert ess == 0 if max(weights) ** 2 == 0 else 1 - 1e-9 <= ess <= len(weights) + 1e-9


def test_the_effective_sample_size_counts_equal_weights():
    assert effective_sample_size(np.array([2.0, 2.0, 2.0, 0.0])) == pytest.approx(3.0)
    assert effective_sample_size(np.zeros(4)) == 0.0


@pytest.mark.parametrize(
    ("ess", "verdict"),
    [(0, "no support"), (29.9, "not identifiable"), (30, "amber"), (99.9, "amber"), (100, "green")],
)
def test_verdicts_are_by_effective_sample_size(ess, verdict):
    assert verdict_of(ess) == verdict


def test_unsupported_mass_is_what_the_policy_gives_to_acts_never_done():
    one = episode([0, 1, 0], [0, 1], [0.0, 0.0], [1.0, 1.0])
    half = LoggedPolicyData((one,), np.full((3, 2), 0.5), np.ones(2))
    assert unsupported_mass(half) == 0.0, "both acts were done somewhere"
    assert unsupported_mass(half, lambda seen: seen[:, 0]) == pytest.approx(0.5)
    known = half.with_behavior(np.array([[1.0, 0.0], [0.2, 0.8], [0.5, 0.5]]))
    assert unsupported_mass(known) == pytest.approx(0.25)


# -- fitted values ---------------------------------------------------------------------------------


def many(model, copies, seed=0):
    """Conversations drawn from the model's behaviour."""
    odds, episodes = zip(*model.every_trajectory(), strict=True)
    chosen = np.random.default_rng(seed).choice(len(odds), size=copies, p=odds)
    return [episodes[i] for i in chosen]


def one_hot(observations):
    """Cell and turn as features."""
    return np.eye(8)[cell_of(observations)]


def test_linear_values_with_a_feature_for_each_state_are_the_exact_ones():
    logged = LoggedPolicyData.build(many(MODEL, 20_000), asked(MODEL.policy), discount=0.9)
    fit = LinearQ(features=one_hot, ridge=1e-3, tolerance=1e-6)
    truth = MODEL.value(MODEL.policy, 0.9)
    found = logged.first_values(fitted_values(logged, fit)).mean()
    assert found == pytest.approx(truth, abs=0.03)


def test_linear_values_stay_within_the_returns_seen():
    logged = LoggedPolicyData.build(many(MODEL, 50), asked(MODEL.policy), discount=0.9)
    low, high = return_range(logged)
    found = fitted_values(logged, LinearQ(features=one_hot, ridge=1e-9))
    assert low - 1e-5 <= found.min() and found.max() <= high + 1e-5


def test_the_range_of_returns_is_that_of_the_plain_loop():
    logged = data(discount=0.9)
    totals = [0.0]
    for one in EPISODES:
        total = 0.0
        for reward in reversed(one.rewards):
            total = reward + 0.9 * total
            totals.append(total)
    assert return_range(logged) == pytest.approx((min(totals), max(totals)))


def test_shared_ridge_solves_the_problem_it_says():
    """Beside one big least-squares problem with the penalty as rows of its own."""
    chance = np.random.default_rng(0)
    rows, acts = (
        chance.normal(size=(40, 3)).astype(np.float32),
        np.sort(chance.integers(3, size=40)),
    )
    targets, ridge = chance.normal(size=40).astype(np.float32), 0.7
    from convgym.evaluation.ope.fitted_q import _SharedRidge

    wide = np.zeros((40, 4 * 3))  # u, then u_a of three acts
    for i, act in enumerate(acts):
        wide[i, :3] = wide[i, 3 * (act + 1) : 3 * (act + 2)] = rows[i]
    stacked = np.vstack([wide, np.sqrt(ridge) * np.eye(12)])
    solved = np.linalg.lstsq(stacked, np.append(targets, np.zeros(12)), rcond=None)[0]
    expected = solved[:3] + solved[3:].reshape(3, 3)
    found = _SharedRidge(rows, acts, 3, ridge).weights(targets)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_components_of_rows_that_do_not_vary_are_finite():
    project = principal_components(np.ones((5, 3)), 2)
    assert np.isfinite(project(np.ones((2, 3)))).all()


def test_values_are_never_fitted_to_the_conversations_that_they_correct():
    logged = LoggedPolicyData.build(many(MODEL, 60), asked(MODEL.policy))
    numbered = tuple(
        replace(one, observations=np.full(len(one) + 1, i)) for i, one in enumerate(logged.episodes)
    )
    logged = replace(logged, episodes=numbered)
    seen, held_out = [], []

    def fit_q(training):
        seen.append(set(np.unique(training.observations)))

        def q(observations):
            held_out.append(set(np.unique(observations)))
            return np.repeat(observations[:, None], ACTS, axis=1).astype(float)

        return q

    found = cross_fitted(logged, fit_q, folds=3)
    assert all(not taught & asked_of for taught, asked_of in zip(seen, held_out, strict=True))
    assert sorted(number for one in held_out for number in one) == list(range(60))
    np.testing.assert_array_equal(found[:, 0], logged.observations)


@pytest.mark.parametrize("folds", [1, 61])
def test_cross_fitting_takes_two_folds_or_more(folds):
    logged = LoggedPolicyData.build(many(MODEL, 60), asked(MODEL.policy))
    with pytest.raises(InvalidConfiguration, match="folds"):
        cross_fitted(logged, LinearQ(features=one_hot), folds)


def test_fitted_values_of_another_shape_are_refused():
    with pytest.raises(InvalidConfiguration, match="shape"):
        fitted_values(data(), lambda training: lambda observations: np.zeros((3, 1)))


@pytest.mark.parametrize("keywords", [{"ridge": 0.0}, {"components": 0}, {"tolerance": 1.0}])
def test_linear_values_refuse_bad_settings(keywords):
    with pytest.raises(InvalidConfiguration):
        LinearQ(**keywords)


def test_texts_need_features():
    spoken = [
        replace(one, observations=np.array(["hi"] * (len(one) + 1), dtype=object))
        for one in EPISODES
    ]
    uniform = lambda observations, masks: np.full((len(observations), ACTS), 0.5)  # noqa: E731
    logged = LoggedPolicyData.build(spoken, uniform)
    with pytest.raises(DatasetError, match="features"):
        LinearQ()(logged)
    longest = LinearQ(features=lambda texts: np.array([[len(text)] for text in texts]))
    assert fitted_values(logged, longest).shape == logged.evaluation.shape


def test_sampled_cells_put_an_observation_with_itself():
    rows = np.array([[0.0], [10.0], [10.0], [0.4]])
    cells = sampled_cells(rows, 2, seed=1)(rows)
    assert cells[1] == cells[2] != cells[0]


def test_the_behaviour_of_a_last_observation_is_a_legal_one():
    masks = np.array([[1, 1], [0, 1]], dtype=np.int8)
    one = replace(episode([0, 1], [0], [1.0], [0.5]), masks=masks)
    logged = LoggedPolicyData((one,), np.full((2, 2), 0.5), np.array([0.5]))
    np.testing.assert_allclose(as_behavior(logged).evaluation, [[1.0, 0.0], [0.0, 1.0]])


def test_a_policy_that_remembers_is_asked_for_whole_conversations():
    class Remembers:
        name = "remembers"

        def action_probs(self, observation, mask):
            raise AssertionError("turns mean nothing without what was before")

        def episode_probs(self, episode):
            return np.eye(episode.masks.shape[1])[np.arange(len(episode)) % 2]

    found = data(Remembers()).evaluation  # (rows, acts)
    assert found[0, 0] == 1.0 and found[1, 1] == 1.0
    last = np.cumsum([len(one) + 1 for one in EPISODES]) - 1
    legal = np.array([one.masks[-1] for one in EPISODES])
    assert np.allclose(found[last], legal / legal.sum(axis=1, keepdims=True))
