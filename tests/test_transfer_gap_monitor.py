"""When an alert begins, how long it lasts, and what is kept."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convgym.errors import InvalidConfiguration
from trainers.transfer.gap_monitor import GapMonitor, GapMonitorConfig


def row(ratio, metric="length_js", floor=0.004):
    value = 0.3 if ratio is None else ratio * floor
    return {"metric": metric, "value": value, "floor": floor, "ratio": ratio, "verdict": "…"}


def alerts_of(ratios, **config):
    """Whether the alert stands after each ratio, and how often one has begun."""
    monitor = GapMonitor(GapMonitorConfig(**config))
    begun = [monitor.observe(step, [row(ratio)]) for step, ratio in enumerate(ratios)]
    return [reading.alert for reading in monitor.history], [bool(names) for names in begun]


def test_an_alert_begins_above_and_lasts_until_it_is_clear():
    stands, begins = alerts_of([1.0, 4.9, 5.0, 5.1, 6.0, 3.0, 2.1, 2.0, 4.9, 9.0])
    assert stands == [False, False, False, True, True, True, True, False, False, True]
    assert begins == [False, False, False, True, False, False, False, False, False, True]


def test_patience_counts_readings_in_a_row():
    stands, _ = alerts_of([6, 6, 4, 6, 6, 6, 3, 1], patience=3)
    assert stands == [False] * 5 + [True, True, False]


def test_the_same_gap_alerts_or_not_by_its_floor():
    """Length JS of 0.02 is noise at 100 conversations and a fault at 2,000."""
    for floor, alerts in ((0.0157, ()), (0.0007, ("length_js",))):
        monitor = GapMonitor()
        monitor.observe(
            0, [{"metric": "length_js", "value": 0.02, "floor": floor, "ratio": 0.02 / floor}]
        )
        assert monitor.alerts == alerts


def test_metrics_alert_by_themselves_and_are_named_in_order():
    monitor = GapMonitor()
    assert monitor.observe(0, [row(9, "word_js"), row(1, "turn_js"), row(7, "act_js")]) == (
        "act_js",
        "word_js",
    )
    assert monitor.observe(1, [row(1, "word_js"), row(math.inf, "turn_js")]) == ("turn_js",)
    assert monitor.alerts == ("act_js", "turn_js")


def test_a_metric_that_is_only_reported_is_kept_and_changes_nothing():
    monitor = GapMonitor(GapMonitorConfig(patience=2))
    for step, ratio in enumerate((6, None, 6)):
        monitor.observe(step, [row(ratio)])
    assert monitor.alerts == ("length_js",)
    assert [reading.ratio for reading in monitor.history] == [6, None, 6]


def test_the_history_is_plain_values_in_the_order_they_came():
    monitor = GapMonitor()
    monitor.observe(10, [row(6.0), row(None, "vocab_overlap")])
    assert json.loads(json.dumps([reading.to_dict() for reading in monitor.history])) == [
        {"step": 10, "metric": "length_js", "value": 0.024, "ratio": 6.0, "alert": True},
        {"step": 10, "metric": "vocab_overlap", "value": 0.3, "ratio": None, "alert": False},
    ]  # fmt: skip


def test_a_ratio_that_is_no_number_is_refused_and_nothing_of_its_report_is_taken_in():
    monitor = GapMonitor()
    with pytest.raises(InvalidConfiguration, match="'act_js' has the ratio nan at step 4"):
        monitor.observe(4, [row(9.0), row(math.nan, "act_js")])
    assert monitor.history == [] and monitor.alerts == ()


@given(st.lists(st.floats(0, 10), max_size=40), st.integers(1, 4))
def test_alerts_are_those_of_the_plain_rule(ratios, patience):
    expected, stands = [], False
    for n, ratio in enumerate(ratios):
        recent = ratios[max(0, n + 1 - patience) : n + 1]
        if len(recent) == patience and min(recent) > 5.0:
            stands = True
        elif ratio <= 2.0:
            stands = False
        expected.append(stands)
    assert alerts_of(ratios, patience=patience)[0] == expected


@pytest.mark.parametrize(
    "wrong",
    [
        {"alert_above": 1.0},
        {"clear_below": -1.0},
        {"alert_above": math.inf},
        {"alert_above": math.nan},
        {"patience": 0},
    ],
    ids=str,
)
def test_a_value_that_is_not_allowed_is_one_sentence(wrong):
    with pytest.raises(InvalidConfiguration, match=next(iter(wrong))):
        GapMonitorConfig(**wrong)
