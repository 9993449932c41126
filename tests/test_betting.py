"""Confidence sequences: they hold at all times at once, and they close in."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convgym.errors import InvalidConfiguration
from convgym.evaluation.betting import confidence_sequence

LOOKS = (1, 2, 3, 5, 8, 13, 20, 35, 60, 100, 170, 300)


@pytest.mark.parametrize(
    ("mean", "draw"),
    [
        (0.1, lambda chance: chance.random(300) < 0.1),
        (0.5, lambda chance: chance.random(300) < 0.5),
        (0.2, lambda chance: chance.beta(0.2, 0.8, 300)),
        (0.9, lambda chance: chance.beta(9, 1, 300)),
    ],
    ids=["1 in 10", "half", "skewed", "high"],
)
def test_whoever_looks_again_and_again_is_wrong_as_seldom_as_said(mean, draw):
    missed, runs, alpha = 0, 100, 0.2
    for seed in range(runs):
        values = draw(np.random.default_rng(seed)).astype(float)
        ends = [confidence_sequence(values[:n], alpha, (0.0, 1.0)) for n in LOOKS]
        missed += any(not low <= mean <= high for low, high in ends)
    assert missed / runs <= alpha + 3 * (alpha * (1 - alpha) / runs) ** 0.5


def test_it_closes_in_on_the_mean():
    values = (np.random.default_rng(0).random(8_000) < 0.3).astype(float)
    widths = []
    for n in (100, 1_000, 8_000):
        low, high = confidence_sequence(values[:n], 0.05, (0.0, 1.0))
        assert low < 0.3 < high
        widths.append(high - low)
    assert widths[0] > 2 * widths[1] > 4 * widths[2] and widths[2] < 0.05


@given(st.lists(st.floats(-2.0, 3.0), min_size=1, max_size=30), st.floats(0.01, 0.5))
def test_it_holds_the_mean_of_what_came_and_stays_in_the_bounds(values, alpha):
    low, high = confidence_sequence(values, alpha, (-2.0, 3.0))
    assert -2.0 <= low <= np.mean(values) + 1e-9 and np.mean(values) - 1e-9 <= high <= 3.0


@given(st.lists(st.sampled_from([0.0, 0.25, 1.0]), min_size=1, max_size=40))
def test_it_is_the_same_on_any_scale(values):
    low, high = confidence_sequence(values, 0.1, (0.0, 1.0))
    scaled = confidence_sequence([10 * value - 4 for value in values], 0.1, (-4.0, 6.0))
    assert scaled == pytest.approx((10 * low - 4, 10 * high - 4), abs=1e-6)


def test_a_wealth_by_hand():
    """One value, 0: who bets λ on below m has 1 + λ m, λ at most .95 / (1 − m)."""
    _, high = confidence_sequence([0.0] * 5, 0.1, (0.0, 1.0))
    stakes = np.geomspace(0.01, 0.95, 14) / (1 - high)
    assert np.mean((1 + stakes * high) ** 5) == pytest.approx(20.0, rel=1e-6)


@pytest.mark.parametrize("values", [[1.1], [-0.1], [float("nan")]])
def test_values_outside_of_the_bounds_are_one_sentence(values):
    with pytest.raises(InvalidConfiguration, match="bounds"):
        confidence_sequence(values, 0.1, (0.0, 1.0))
