"""Ranks of policies in two places: by hand, against scipy, and what intervals hold."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from convgym.errors import InvalidConfiguration
from trainers.transfer.rank_transfer import (
    MEASURES,
    PolicyValues,
    kendall,
    rank_regrets,
    rank_transfer,
)

NAMES = tuple("abcdefgh")
REFERENCE = np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2])

values = st.lists(st.sampled_from([0.0, 0.1, 0.2, 0.5, 0.9]), min_size=8, max_size=12)


def known(numbers, redraws=50):
    """Values without noise."""
    numbers = np.asarray(numbers, dtype=np.float64)
    names = tuple(f"policy {n}" for n in range(len(numbers)))
    return PolicyValues(names, numbers, np.tile(numbers, (redraws, 1)))


def returns(means, tasks, rng):
    """Successes of each policy."""
    return {name: rng.random(tasks) < mean for name, mean in zip(NAMES, means, strict=True)}


def test_measures_by_hand():
    """The simulator swaps the two best policies, and puts the last one fourth."""
    simulated = np.array([0.7, 0.9, 0.6, 0.4, 0.3, 0.2, 0.1, 0.5])
    found = rank_transfer(known(simulated), known(REFERENCE))
    # ranks, best first: a b c d e f g h → b a c h d e f g
    assert found.spearman.value == pytest.approx(1 - 6 * (1 + 1 + 0 + 1 + 1 + 1 + 1 + 16) / 504)
    assert found.kendall.value == pytest.approx((28 - 2 * 5) / 28)
    assert found.regret_at_1.value == pytest.approx(0.9 - 0.8)
    assert found.max_rank_regret.value == pytest.approx(0.6 - 0.2)  # h stands fourth
    assert found.value_error.value == pytest.approx((5 * 0.2 + 2 * 0.1 + 0.3) / 8)
    assert found.resolved == 1.0 and found.policies == 8


@given(values, st.data())
def test_correlations_are_scipys(simulated, data):
    stats = pytest.importorskip("scipy.stats", reason="scipy is not installed")
    size = len(simulated)
    reference = data.draw(st.lists(st.floats(0, 1), min_size=size, max_size=size))
    assume(len(set(simulated)) > 1 and len(set(reference)) > 1)
    found = rank_transfer(known(simulated, 1), known(reference, 1))
    assert found.spearman.value == pytest.approx(stats.spearmanr(simulated, reference).statistic)
    assert found.kendall.value == pytest.approx(stats.kendalltau(simulated, reference).statistic)


@given(values, st.data())
def test_regrets_are_the_mean_over_all_orders_of_equal_policies(simulated, data):
    reference = data.draw(st.permutations(np.linspace(0, 1, len(simulated)).round(3).tolist()))
    rng, best = np.random.default_rng(0), sorted(reference, reverse=True)
    orders = [np.lexsort((rng.random(len(simulated)), -np.array(simulated))) for _ in range(400)]
    expected = np.mean([np.subtract(best, np.array(reference)[order]) for order in orders], axis=0)
    found = rank_regrets(np.array(simulated), np.array(reference))
    assert found == pytest.approx(expected, abs=0.15)  # 400 orders of up to 12 equal policies
    assert found.sum() == pytest.approx(0.0, abs=1e-9)
    assert 0.0 <= found[0] <= found.max()


def test_regrets_of_equal_policies_by_hand():
    """b and c are equal in the simulator: each place of theirs has the mean of both."""
    found = rank_regrets(np.array([0.1, 0.5, 0.5]), np.array([0.9, 0.6, 0.2]))
    assert found == pytest.approx([0.9 - 0.4, 0.6 - 0.4, 0.2 - 0.9])


def test_kendall_of_what_never_varies_is_none():
    assert kendall(np.ones(8), REFERENCE) is None


def test_paired_redraws_keep_what_policies_share():
    """All policies fail on the same tasks: differences are known better than values are."""
    hard = np.random.default_rng(0).random(300)
    earned = {name: hard < mean for name, mean in zip(NAMES, REFERENCE, strict=True)}
    paired = PolicyValues.of_returns(earned, paired=True)
    alone = PolicyValues.of_returns(earned, paired=False)
    spread, spread_alone = (
        np.ptp(np.quantile(one.redrawn[:, 0] - one.redrawn[:, 1], (0.025, 0.975)))
        for one in (paired, alone)
    )
    assert paired.values.tolist() == alone.values.tolist()
    assert spread < 0.8 * spread_alone
    assert paired.redrawn.std(axis=0) == pytest.approx(alone.redrawn.std(axis=0), rel=0.1)


def test_redraws_are_means_of_tasks_drawn_again():
    """Their spread is the standard error, whatever the numbers of episodes."""
    rng = np.random.default_rng(1)
    earned = {name: rng.random(100 + 50 * n) < 0.4 for n, name in enumerate(NAMES)}
    found = PolicyValues.of_returns(earned, paired=False, seed=2)
    expected = [one.std() / np.sqrt(one.size) for one in earned.values()]
    assert found.values == pytest.approx([one.mean() for one in earned.values()])
    assert found.redrawn.std(axis=0) == pytest.approx(expected, rel=0.1)
    assert found.redrawn.mean(axis=0) == pytest.approx(found.values, abs=0.005)


def test_the_same_seed_gives_the_same_numbers_and_another_one_others():
    earned = returns(REFERENCE, 50, np.random.default_rng(0))
    first, again, other = (PolicyValues.of_returns(earned, paired=True, seed=s) for s in (1, 1, 2))
    assert np.array_equal(first.redrawn, again.redrawn)
    assert not np.array_equal(first.redrawn, other.redrawn)
    assert rank_transfer(first, other) == rank_transfer(again, other)


def test_intervals_hold_the_true_numbers_where_the_middle_of_the_redraws_does_not():
    """A simulator whose values are a little off, 100 tasks, 60 trials."""
    true = REFERENCE + 0.04 * np.array([1, -1, -1, 1, 1, -1, 1, -1])
    truth = rank_transfer(known(true), known(REFERENCE))
    held, in_the_middle = dict.fromkeys(MEASURES, 0), 0
    for trial in range(60):
        rng = np.random.default_rng(trial)
        made = [
            PolicyValues.of_returns(returns(means, 100, rng), paired=True)
            for means in (true, REFERENCE)
        ]
        sides = [PolicyValues(side.names, side.values, side.redrawn[:200]) for side in made]
        found = rank_transfer(*sides)
        for name in held:
            expected, estimate = getattr(truth, name).value, getattr(found, name)
            held[name] += estimate.low <= expected + 1e-12 and expected <= estimate.high + 1e-12
        errors = np.abs(sides[0].redrawn - sides[1].redrawn[::-1]).mean(axis=1)
        low, high = np.quantile(errors, (0.025, 0.975))
        in_the_middle += low <= truth.value_error.value <= high
    assert held["spearman"] >= 0.9 * 60 and min(held.values()) >= 0.75 * 60
    assert in_the_middle <= 0.5 * 60 and held["value_error"] >= 0.85 * 60


def test_the_reference_tells_how_much_of_an_order_it_knows():
    close = np.array([0.9, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5])
    rng = np.random.default_rng(3)
    few, many = (
        PolicyValues.of_returns(returns(close, tasks, rng), paired=True) for tasks in (10, 1_000)
    )
    assert rank_transfer(many, few).resolved < 0.3
    assert rank_transfer(few, many).resolved == pytest.approx(7 / 28, abs=4 / 28)


def test_equal_policies_are_resolved_by_nobody():
    equal = [0.9, 0.9, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2]
    assert rank_transfer(known(REFERENCE), known(equal)).resolved == pytest.approx(27 / 28)


def test_intervals_stay_within_what_a_measure_can_be():
    rng = np.random.default_rng(0)
    first, second = (
        PolicyValues.of_returns(returns(REFERENCE, 20, rng), paired=True) for _ in range(2)
    )
    found = rank_transfer(first, second)
    for name, (_, least, most) in MEASURES.items():
        estimate = getattr(found, name)
        assert least <= estimate.low <= estimate.value <= estimate.high <= most
    assert found.spearman.high == 1.0 and found.regret_at_1.low == 0.0


def test_two_sides_redrawn_by_one_seed_are_redrawn_apart():
    """The same numbers twice: the next ones like them would differ."""
    earned = PolicyValues.of_returns(returns(REFERENCE, 20, np.random.default_rng(0)), paired=True)
    found = rank_transfer(earned, earned)
    assert found.value_error.value == 0.0 and found.value_error.high > 0.03


def test_fewer_than_eight_policies_are_refused():
    with pytest.raises(InvalidConfiguration, match="ranks take 8 policies"):
        known(REFERENCE[:7])


def test_two_policies_of_one_name_are_refused():
    with pytest.raises(InvalidConfiguration, match="a name of its own"):
        PolicyValues(("a",) * 8, REFERENCE, REFERENCE[None])


def test_values_that_are_not_finite_or_of_another_shape_are_refused():
    with pytest.raises(InvalidConfiguration, match="not finite"):
        known([*REFERENCE, np.nan])
    with pytest.raises(InvalidConfiguration, match="shape"):
        PolicyValues(NAMES, REFERENCE, REFERENCE)
    with pytest.raises(InvalidConfiguration, match="shape"):
        PolicyValues(NAMES, REFERENCE, np.empty((0, 8)))


def test_returns_of_unequal_numbers_are_not_paired():
    earned = {name: np.arange(2 + n) for n, name in enumerate(NAMES)}
    PolicyValues.of_returns(earned, paired=False)
    for wrong, paired in ((earned, True), ({**earned, "a": [1.0]}, False), ({}, True)):
        with pytest.raises(InvalidConfiguration, match="two or more"):
            PolicyValues.of_returns(wrong, paired=paired)


def test_other_policies_or_redraws_in_the_two_places_are_refused():
    other = PolicyValues(NAMES[::-1], REFERENCE, np.tile(REFERENCE, (50, 1)))
    mine = PolicyValues(NAMES, REFERENCE, np.tile(REFERENCE, (50, 1)))
    for wrong in (other, known(REFERENCE), PolicyValues(NAMES, REFERENCE, REFERENCE[None])):
        with pytest.raises(InvalidConfiguration, match="both take the same"):
            rank_transfer(wrong, mine)


def test_policies_that_are_all_equal_have_no_order():
    with pytest.raises(InvalidConfiguration, match="no order"):
        rank_transfer(known([0.5] * 8), known(REFERENCE))


def test_the_report_is_plain_values_and_reads_as_a_table():
    found = rank_transfer(known(REFERENCE), known(REFERENCE))
    assert found.to_dict()["spearman"]["value"] == pytest.approx(1.0)
    assert str(found).splitlines()[:2] == [
        "8 policies; the reference can order 100% of pairs",
        "spearman         1.000 [1.000, 1.000]",
    ]
