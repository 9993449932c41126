"""Two policies side by side: differences, their intervals, and how many more it takes."""

from dataclasses import replace

import numpy as np
import pytest

from convgym.errors import InvalidConfiguration
from convgym.evaluation.arms import Arm, differences, odd_split


def arm(name, won, n, share=None):
    successes = tuple(place < won for place in range(n))
    return Arm(name, n, successes, tuple(map(float, successes)), share)


def test_newcombes_own_example():
    """Newcombe (1998), table II, method 10: 56 of 70 less 48 of 80 is .2 [.0524, .3339]."""
    success, _ = differences(arm("A", 48, 80), arm("B", 56, 70))
    assert success.value.value == pytest.approx(0.2)
    assert (success.value.low, success.value.high) == pytest.approx((0.0524, 0.3339), abs=5e-5)
    assert success.apart and success.measure == "success"


def test_returns_are_drawn_again_in_each_arm():
    chance = np.random.default_rng(0)
    one, two = chance.normal(0.0, 1.0, 400), chance.normal(0.5, 2.0, 300)
    (found,) = differences(Arm("A", 400, (), tuple(one)), Arm("B", 300, (), tuple(two)))
    spread = 1.96 * np.hypot(one.std() / 20, two.std() / 300**0.5)
    assert found.value.value == pytest.approx(two.mean() - one.mean())
    assert (found.value.high - found.value.low) / 2 == pytest.approx(spread, rel=0.06)


def test_intervals_hold_the_truth_as_often_as_they_say():
    chance, held, runs = np.random.default_rng(0), 0, 400
    for _ in range(runs):
        one, two = arm("A", chance.binomial(60, 0.3), 60), arm("B", chance.binomial(40, 0.5), 40)
        value = differences(one, replace(two, returns=()))[0].value
        held += value.low <= 0.2 <= value.high
    assert abs(held / runs - 0.95) < 0.03


def test_as_many_as_it_takes_tell_the_difference_in_four_of_five_experiments():
    base, other, delta = arm("A", 320, 800), arm("B", 80, 200), 0.1
    more = differences(base, other, delta)[0].more
    n = 1_000 + more
    n_other = round(n * 0.2)
    chance, told, runs = np.random.default_rng(0), 0, 300
    for _ in range(runs):
        one = arm("A", chance.binomial(n - n_other, 0.35), n - n_other)
        two = arm("B", chance.binomial(n_other, 0.45), n_other)
        (found,) = differences(replace(one, returns=()), replace(two, returns=()), delta)
        told += found.apart
    assert abs(told / runs - 0.8) < 0.08
    assert differences(arm("A", 3200, 8000), arm("B", 800, 2000), delta)[0].more == 0


def test_nothing_is_said_of_what_nobody_knows():
    assert differences(Arm("A", 9, (), ()), arm("B", 5, 9)) == []
    empty = Arm("A", 1, (), (0.5,))
    assert empty.success is None and empty.return_ is None


@pytest.mark.parametrize("delta", [0.0, -0.1, float("nan")])
def test_a_difference_that_is_none_is_one_sentence(delta):
    with pytest.raises(InvalidConfiguration):
        differences(arm("A", 5, 9), arm("B", 5, 9), delta)


def test_a_split_that_loses_conversations_is_odd():
    fair = odd_split([arm("A", 0, 800, 0.8), arm("B", 0, 200, 0.2)])
    lost = odd_split([arm("A", 0, 800, 0.8), arm("B", 0, 130, 0.2)])
    assert fair == 1.0 and lost < 1e-5
    assert odd_split([arm("A", 0, 800), arm("B", 0, 200)]) is None
    assert odd_split([arm("A", 0, 800, 0.8)]) is None


@pytest.mark.parametrize("shares", [(0.8, 0.2), (0.5, 0.3, 0.2)])
def test_a_fair_split_is_called_odd_as_seldom_as_p_says(shares):
    chance, runs = np.random.default_rng(0), 2_000
    draws = chance.multinomial(500, shares, runs)
    p = np.array([
        odd_split([arm(str(k), 0, n, s) for k, (n, s) in enumerate(zip(one, shares, strict=True))])
        for one in draws.tolist()
    ])  # fmt: skip
    for level in (0.01, 0.1, 0.5):
        assert abs((p <= level).mean() - level) < 4 * (level * (1 - level) / runs) ** 0.5 + 0.01
