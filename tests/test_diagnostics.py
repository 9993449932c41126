"""Diagnostics of a fit, each against a number worked by hand."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from three_turns import episode

from convgym.errors import InvalidConfiguration
from convgym.evaluation.diagnostics import (
    DiagnosticsReport,
    banded,
    ensemble_spread,
    kl_to_behavior,
    loop_rate,
    multiplier_trace,
    offline_online_gap,
    ood_gap,
    q_bounds,
    value_bounds,
)


def test_kl_counts_bits_a_turn():
    """Certain where the behaviour has ½: 1 bit. Alike: 0 bits. The mean is ½."""
    found = kl_to_behavior(np.array([[1.0, 0.0], [0.5, 0.5]]), np.full((2, 2), 0.5))
    assert found.value == pytest.approx(0.5)
    assert found.band == "green"


@pytest.mark.parametrize(("bits", "band"), [(1, "green"), (2, "amber"), (5, "amber"), (6, "red")])
def test_kl_has_bands_at_one_and_five_bits(bits, band):
    behavior = np.array([[2.0**-bits, 1 - 2.0**-bits]])
    found = kl_to_behavior(np.array([[1.0, 0.0]]), behavior)
    assert found.value == pytest.approx(bits)
    assert found.band == band


def test_kl_is_infinite_where_the_behaviour_never_goes():
    found = kl_to_behavior(np.array([[0.75, 0.25]]), np.array([[1.0, 0.0]]))
    assert found.value == math.inf and found.band == "red"
    assert "25.0%" in found.meaning


@given(st.lists(st.floats(0.01, 1.0), min_size=3, max_size=3))
def test_kl_is_never_negative_and_zero_for_the_behaviour_itself(weights):
    policy = np.array([weights]) / sum(weights)
    assert kl_to_behavior(policy, policy).value == pytest.approx(0.0, abs=1e-12)
    assert kl_to_behavior(policy, np.full((1, 3), 1 / 3)).value >= -1e-12


@pytest.mark.parametrize(
    ("offline", "online", "value", "band"),
    [(0.54, 0.5, 0.08, "green"), (0.6, 0.5, 0.2, "amber"), (0.3, 0.5, -0.4, "red"),
     (0.3, 0.0, 0.3, "red"), (-0.46, -0.5, 0.08, "green")],
)  # fmt: skip
def test_the_gap_is_a_share_of_the_online_value(offline, online, value, band):
    found = offline_online_gap(offline, online)
    assert found.value == pytest.approx(value)
    assert found.band == band


def test_bounds_are_rewards_over_one_minus_the_discount():
    assert value_bounds(-1.0, 2.0, 0.9) == pytest.approx((-10.0, 20.0))
    assert value_bounds(-1.0, 2.0, 1.0, turns=5) == pytest.approx((-5.0, 10.0))
    assert value_bounds(-1.0, 2.0, 0.5, turns=2) == pytest.approx((-1.5, 3.0))


def test_a_conversation_may_end_after_one_turn():
    """Of rewards 1 to 2 the least that can come is 1, not 10."""
    assert value_bounds(1.0, 2.0, 0.9) == pytest.approx((1.0, 20.0))


def test_nothing_bounds_values_of_endless_undiscounted_conversations():
    with pytest.raises(InvalidConfiguration, match="turns"):
        value_bounds(-1.0, 1.0, 1.0)


def test_values_out_of_bounds_are_counted():
    found = q_bounds(np.array([[0.0, 11.0], [-2.0, 10.0]]), -1.0, 10.0)
    assert found.value == 0.5 and found.band == "red"
    assert q_bounds(np.array([[10.0, -1.0]]), -1.0, 10.0).band == "green"


SUPPORTED = np.array([[True, True, False], [True, False, False]])


def test_the_ood_gap_is_the_mean_without_support_less_the_mean_with():
    """Rows: 3 − 1.5 = 1.5 and (0 + 1)/2 − 2 = −1.5; the greedy acts are 2 and 0."""
    found = ood_gap(np.array([[1.0, 2.0, 3.0], [2.0, 0.0, 1.0]]), SUPPORTED)
    assert found.value == pytest.approx(0.0)
    assert "50.0%" in found.meaning and found.band == "amber"


def test_illegal_acts_are_no_gap():
    q = np.array([[1.0, 2.0, 9.0], [2.0, 9.0, 9.0]])
    assert ood_gap(q, SUPPORTED, SUPPORTED).value == 0.0
    assert ood_gap(q, SUPPORTED, SUPPORTED).band == "green"
    assert ood_gap(q, SUPPORTED).band == "red"


def test_ensembles_should_disagree_where_nobody_went():
    """Deviations: ½ on the acts with support, 2 on the others."""
    spread = np.where(SUPPORTED, 0.5, 2.0)
    found = ensemble_spread(np.stack([spread, -spread]), SUPPORTED)
    assert found.value == pytest.approx(4.0) and found.band == "green"
    same = ensemble_spread(np.stack([1 / spread, -1 / spread]), SUPPORTED)
    assert same.value == pytest.approx(0.25) and same.band == "amber"


def test_loops_are_acts_done_again_in_the_same_state_of_the_same_conversation():
    """Cell 0 act 1 comes three times, cell 1 act 1 once: 2 of 4 turns repeat."""
    cells, acts = [0, 0, 1, 0, 0], [1, 1, 1, 1]
    talk = episode(cells, acts, [0.0] * 4, [1.0] * 4)
    by_cell = loop_rate([talk, talk], states=lambda seen: seen[:, 0])
    assert by_cell.value == pytest.approx(0.5) and by_cell.band == "red"
    assert loop_rate([talk]).value == 0.0, "the turn is part of the observation"


def test_a_multiplier_that_still_grows_is_red():
    """Of 1 … 10 the last fifth has the mean 9.5, the one before 7.5."""
    growing = multiplier_trace([float(i) for i in range(1, 11)])
    assert growing.value == pytest.approx((9.5 - 7.5) / 7.5) and growing.band == "red"
    assert multiplier_trace([10.0 - i for i in range(10)]).band == "amber"
    assert multiplier_trace([5.0, 9.0, *[7.0] * 10]).band == "green"
    with pytest.raises(InvalidConfiguration, match="ten"):
        multiplier_trace([1.0] * 9)


def test_the_report_is_as_bad_as_its_worst_row():
    rows = (offline_online_gap(0.5, 0.5), kl_to_behavior(np.eye(2), np.eye(2)[::-1]))
    report = DiagnosticsReport(rows)
    assert report.band == "red" and report["offline − online"].band == "green"
    told = report.to_markdown()
    assert told.startswith("Diagnostics: red.") and told.count("\n") == 5
    assert json.loads(json.dumps(report.to_dict(), allow_nan=False))["rows"][1]["value"] is None
    assert DiagnosticsReport(()).band == "green"


@given(st.floats(-10, 10), st.floats(-10, 10))
def test_a_greater_value_is_never_in_a_better_band(one, other):
    order = ["green", "amber", "red"]
    low, high = sorted((one, other))
    bands = [order.index(banded(value, (1.0, 5.0))) for value in (low, high)]
    assert bands == sorted(bands)
    assert banded(math.nan, (1.0, 5.0)) == "red"
