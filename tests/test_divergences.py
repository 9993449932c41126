"""Divergences and distances: numbers worked by hand, plain loops, scipy, and the laws they keep."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convgym.calibration.divergences import (
    LENGTH_EDGES,
    compute_distribution_divergence,
    compute_js_divergence,
    compute_kl_divergence,
    compute_mmd,
    compute_wasserstein,
    histogram,
    median_distance,
)
from convgym.errors import InvalidConfiguration

CALM = settings(deadline=None)  # the first example imports scipy
PAIRS = st.integers(2, 8).flatmap(
    lambda k: st.tuples(
        *[st.lists(st.integers(0, 50), min_size=k, max_size=k).filter(any) for _ in "pq"]
    )
)
VALUES = st.lists(st.floats(-20, 20), min_size=1, max_size=12)


def slow_mmd(x, y, k) -> float:
    """The three means of Gretton et al. (2012, equation 3), pair by pair."""

    def within(s):
        return sum(k(a, b) for i, a in enumerate(s) for j, b in enumerate(s) if i != j) / (
            len(s) * (len(s) - 1)
        )

    across = sum(k(a, b) for a in x for b in y) / (len(x) * len(y))
    return within(x) + within(y) - 2 * across


def test_divergences_worked_by_hand():
    assert compute_kl_divergence([0.5, 0.5], [0.25, 0.75], 0) == pytest.approx(
        0.5 * math.log(2) + 0.5 * math.log(2 / 3)
    )
    # ½ added: 1.5/4 and 2.5/4 against 3.5/4 and 0.5/4
    assert compute_kl_divergence([1, 2], [3, 0]) == pytest.approx(
        0.375 * math.log(0.375 / 0.875) + 0.625 * math.log(0.625 / 0.125)
    )
    assert compute_kl_divergence([1, 2], [3, 0], smoothing=0) == math.inf
    assert compute_js_divergence([1, 0], [0, 1]) == 1.0
    # (1, 0) and (½, ½) have the middle (¾, ¼)
    assert compute_js_divergence([1, 0], [1, 1]) == pytest.approx(
        (math.log2(4 / 3) + 0.5 * math.log2(2 / 3) + 0.5 * math.log2(2)) / 2
    )
    assert compute_wasserstein([0, 1, 3], [5, 6, 8]) == 5.0
    assert compute_wasserstein([0.0], [0.0, 1.0]) == 0.5


@CALM
@given(PAIRS)
def test_kl_and_js_match_scipy(pair):
    distance = pytest.importorskip("scipy.spatial.distance")
    stats = pytest.importorskip("scipy.stats")
    p, q = np.array(pair, dtype=float)
    assert compute_js_divergence(p, q) == pytest.approx(
        distance.jensenshannon(p, q, base=2) ** 2, abs=1e-9
    )
    assert compute_kl_divergence(p, q) == pytest.approx(stats.entropy(p + 0.5, q + 0.5), abs=1e-12)


@given(PAIRS, st.floats(0.1, 9))
def test_js_is_symmetric_within_0_and_1_and_of_shares_alone(pair, scale):
    p, q = np.array(pair, dtype=float)
    value = compute_js_divergence(p, q)
    assert 0.0 <= value <= 1.0
    assert value == pytest.approx(compute_js_divergence(q, p), abs=1e-12)
    assert value == pytest.approx(compute_js_divergence(p * scale, q), abs=1e-12)
    assert compute_js_divergence(p, p * scale) == pytest.approx(0.0, abs=1e-12)


@given(PAIRS)
def test_kl_is_at_least_0_and_0_for_equal_counts(pair):
    p, q = pair
    assert compute_kl_divergence(p, q) >= 0.0
    assert compute_kl_divergence(p, p) == 0.0


@CALM
@given(VALUES, VALUES, VALUES)
def test_wasserstein_is_a_metric_and_scipys(x, y, z):
    stats = pytest.importorskip("scipy.stats")
    distance = compute_wasserstein(x, y)
    assert distance == pytest.approx(stats.wasserstein_distance(x, y), abs=1e-9)
    assert distance == pytest.approx(compute_wasserstein(y, x), abs=1e-9)
    assert compute_wasserstein(x, x) == 0.0
    assert distance <= compute_wasserstein(x, z) + compute_wasserstein(z, y) + 1e-9


def test_mmd_matches_the_plain_loops():
    chance = np.random.default_rng(0)
    x, y = chance.normal(size=(7, 3)), chance.normal(1, size=(5, 3))

    def gaussian(a, b):
        return math.exp(-sum((a - b) ** 2) / (2 * 1.3**2))

    def laplacian(a, b):
        return math.exp(-sum(abs(a - b)) / 1.3)

    assert compute_mmd(x, y, bandwidth=1.3) == pytest.approx(slow_mmd(x, y, gaussian))
    found = compute_mmd(x, y, "laplacian", bandwidth=1.3)
    assert found == pytest.approx(slow_mmd(x, y, laplacian))


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian"])
def test_mmd_of_equal_distributions_is_0_on_average_and_of_others_above_it(kernel):
    chance = np.random.default_rng(1)
    same = [compute_mmd(*chance.normal(size=(2, 20, 2)), kernel) for _ in range(300)]
    assert abs(np.mean(same)) < 3 * np.std(same) / np.sqrt(len(same))
    assert min(same) < 0  # unbiased, so not held above 0
    apart = [
        compute_mmd(chance.normal(size=(20, 2)), chance.normal(2, size=(20, 2)), kernel)
        for _ in range(20)
    ]
    assert min(apart) > max(same)


def test_the_median_distance_is_that_of_all_pairs():
    points = np.random.default_rng(2).normal(size=(30, 4))
    pairs = [(a, b) for i, a in enumerate(points) for b in points[:i]]
    assert median_distance(points) == pytest.approx(
        np.median([math.dist(a, b) for a, b in pairs])
    )
    assert median_distance(points, "laplacian") == pytest.approx(
        np.median([sum(abs(a - b)) for a, b in pairs])
    )
    assert median_distance(np.zeros((9, 4))) == 1.0


def test_lengths_have_32_bins():
    counts = histogram([0, 1, 2, 29, 30, 40, 41, 60, 61, 500])
    assert len(LENGTH_EDGES) + 1 == len(counts) == 32
    assert {place: int(count) for place, count in enumerate(counts) if count} == {
        0: 2, 1: 1, 28: 1, 29: 2, 30: 2, 31: 2,
    }  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 80), min_size=2, max_size=20))
def test_samples_are_binned_before_their_counts_are_compared(lengths):
    longer = [length + 7 for length in lengths]
    counts = histogram(lengths), histogram(longer)
    for method, expected in (
        ("kl", compute_kl_divergence(*counts)),
        ("js", compute_js_divergence(*counts)),
        ("wasserstein", 7.0),
        ("mmd", compute_mmd(lengths, longer)),
    ):
        found = compute_distribution_divergence(lengths, longer, method)
        assert found == pytest.approx(expected)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: compute_kl_divergence([1, 2], [1, 2, 3]),
        lambda: compute_js_divergence([0, 0], [1, 0]),
        lambda: compute_js_divergence([1, -1], [1, 0]),
        lambda: compute_js_divergence([1, math.nan], [1, 0]),
        lambda: compute_wasserstein([], [1]),
        lambda: compute_wasserstein([math.inf], [1]),
        lambda: compute_mmd([1], [1, 2]),
        lambda: compute_mmd([[1, 2], [3, 4]], [1, 2]),
        lambda: compute_mmd([1, 2], [1, 2], "cosine"),
        lambda: compute_mmd([1, 2], [1, 2], bandwidth=0),
        lambda: compute_distribution_divergence([1, 2], [1, 2], "tv"),
    ],
)
def test_what_cannot_be_compared_is_one_sentence(wrong):
    with pytest.raises(InvalidConfiguration, match=r"it takes|takes two"):
        wrong()
