"""Counted choices with back-off, and the hazard of leaving."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convgym.calibration.histories import Histories
from convgym.calibration.termination import Termination
from convgym.calibration.transitions import STRENGTHS, Backoff

SEEN = st.lists(
    st.tuples(st.tuples(st.sampled_from("ab"), st.sampled_from("cde")), st.sampled_from("xyz")),
    min_size=1,
    max_size=40,
)


@settings(deadline=None, max_examples=50)
@given(SEEN, st.tuples(st.sampled_from("abq"), st.sampled_from("cdeq")))
def test_probabilities_sum_to_one_after_any_history(seen, history):
    table = Backoff(seen)
    total = sum(table.probability(history, outcome) for outcome in table.outcomes)
    assert total == pytest.approx(1.0)


@settings(deadline=None, max_examples=50)
@given(SEEN, st.tuples(st.sampled_from("abq"), st.sampled_from("cdeq")))
def test_draws_come_as_often_as_their_probability_says(seen, history):
    """A fine grid of uniform numbers stands in for chance."""
    table, grid = Backoff(seen), 4000
    drawn = [table.draw(history, (i + 0.5) / grid) for i in range(grid)]
    for outcome in table.outcomes:
        share = drawn.count(outcome) / grid
        assert share == pytest.approx(table.probability(history, outcome), abs=0.01)


def test_the_formula_worked_by_hand():
    table = Backoff([(("h",), "x"), (("h",), "x"), (("h",), "y"), (("g",), "z")])
    (s,) = table.strengths
    expected = (2 + s * 2 / 3) / (3 + s * 2)  # c = 2 of 3, d = 2, P₀ = 1/3
    assert table.probability(("h",), "x") == pytest.approx(expected)
    assert table.probability(("new",), "x") == pytest.approx(1 / 3)


def test_strength_is_what_leaving_one_out_says():
    """The plain loop: count all others anew for every observation."""
    seen = [((h,), y) for h, y in ("ax", "ax", "ay", "bx", "bz", "by", "ax", "cz", "cx")]
    outcomes = sorted({y for _, y in seen})

    def likelihood(s):
        total = 0.0
        for left, ((history,), outcome) in enumerate(seen):
            others = [y for i, ((h,), y) in enumerate(seen) if i != left and h == history]
            weight = s * len(set(others))
            total += math.log(
                (others.count(outcome) + weight / len(outcomes)) / (len(others) + weight)
            )
        return total

    assert Backoff(seen).strengths == [max(STRENGTHS, key=likelihood)]


def test_an_outcome_never_seen_has_no_probability():
    assert Backoff([(("h",), "x")]).log_prob(("h",), "y") == -math.inf


def test_hazard_leaves_as_often_as_the_log_did():
    chance = np.random.default_rng(0)
    places = chance.integers(0, 3, size=3000)
    ended = chance.random(3000) < np.array([0.05, 0.2, 0.6])[places]
    hazard = Termination([(place,) for place in places.tolist()], ended.tolist())
    for place in range(3):
        share = ended[places == place].mean()
        assert hazard.probability((place,)) == pytest.approx(share, abs=0.01)


def test_columns_that_never_vary_make_no_histories():
    rows = [["same", value] for value in "aab"]
    histories = Histories(((0,), (1,), (0, 1)), rows)
    assert histories.of(rows[0]) == ["a"]
