"""pass^k, the cluster bootstrap, parts of the variance and slices, against slow or exact twins."""

from itertools import combinations, product
from math import comb, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convgym.engine.keys import TASK, below, child, draw
from convgym.evaluation.bootstrap import TaskBootstrap, share, shares
from convgym.evaluation.intervals import mean_interval, standard_error, wilson
from convgym.evaluation.pass_k import agent_pass_k, pass_k_by_task, user_pass_k
from convgym.evaluation.slices import THIRDS, trait_slices, worst_decile, worst_slice
from convgym.evaluation.variance import crossed, nested
from convgym.users.persona import TRAITS

QUICK = 400


def drawn(p, agents=1, seed=0):
    """A table of 0 and 1 with chances p.  # (tasks, users) → (tasks, users, agents)"""
    uniform = np.random.default_rng(seed).random((*p.shape, agents))
    return (uniform < p[:, :, None]).astype(np.int8)


# -- pass^k ----------------------------------------------------------------------------------------


def test_pass_k_by_hand():
    """Two of four served: of the six pairs one holds successes only, of the triples none."""
    found = pass_k_by_task(np.array([[1.0, 0.0, 1.0, 0.0]]))[0]
    assert found == pytest.approx([1 / 2, 1 / 6, 0, 0])


@given(st.lists(st.integers(0, 1), min_size=1, max_size=9))
def test_pass_k_is_the_published_formula(results):
    n, c = len(results), sum(results)
    expected = [comb(c, k) / comb(n, k) for k in range(1, n + 1)]
    assert pass_k_by_task(np.array([results], dtype=float))[0] == pytest.approx(expected)


@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=6))
def test_pass_k_of_shares_is_the_mean_over_subsets(values):
    expected = [
        np.mean([np.prod(some) for some in combinations(values, k)])
        for k in range(1, len(values) + 1)
    ]
    assert pass_k_by_task(np.array([values]))[0] == pytest.approx(expected)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_pass_k_is_unbiased_where_the_plain_power_is_not(p):
    """Over all outcomes of six customers its expectation is p^k; that of (c/n)^k is more."""
    outcomes = np.array(list(product([0, 1], repeat=6)), dtype=float)
    weight = np.prod(np.where(outcomes == 1, p, 1 - p), axis=1)
    powers = np.array([p**k for k in range(1, 7)])
    assert weight @ pass_k_by_task(outcomes) == pytest.approx(powers)
    plain = weight @ (outcomes.mean(axis=1)[:, None] ** np.arange(1, 7))
    assert (plain[1:] > 1.01 * powers[1:]).all()


def test_pass_k_over_customers_and_over_one_customers_runs():
    success = drawn(np.random.default_rng(1).random((30, 4)), agents=3)
    bootstrap = TaskBootstrap(30, resamples=QUICK)
    over_users = user_pass_k(success, bootstrap)
    assert over_users[0].value == pytest.approx(success.mean())
    values = [estimate.value for estimate in over_users]
    assert values == sorted(values, reverse=True) and len(values) == 4
    for k, estimate in enumerate(agent_pass_k(success, bootstrap), 1):
        slow = [
            comb(int(success[t, u].sum()), k) / comb(3, k) for t in range(30) for u in range(4)
        ]
        assert estimate.value == pytest.approx(np.mean(slow))
        assert estimate.low < estimate.value < estimate.high
    assert {estimate.method for estimate in over_users} == {"cluster bootstrap"}


def test_one_run_a_task_takes_wilsons_interval():
    success = np.array([1, 1, 1, 0, 1, 0, 1, 1], dtype=np.int8)[:, None, None]
    (only,) = user_pass_k(success, TaskBootstrap(8, resamples=QUICK))
    assert (only.low, only.high, only.method) == (*wilson(6, 8), "wilson")


# -- the bootstrap ---------------------------------------------------------------------------------


def test_redraws_are_those_of_the_plain_loop():
    bootstrap = TaskBootstrap(7, seed=5, resamples=11)
    values = np.array([0.0, 0.25, 0.5, 1.0, 1.0, 0.75, 0.1])
    key, slow = child(5, 0xB0075), []
    for redraw in range(11):
        picked = [below(draw(key, TASK, redraw, place), 7) for place in range(7)]
        slow.append(sum(values[task] for task in picked))
    assert bootstrap.sums(values[:, None])[:, 0] == pytest.approx(slow)
    assert (bootstrap.counts(0, 11).sum(axis=1) == 7).all()
    assert (bootstrap.counts(4, 6) == bootstrap.counts(0, 11)[4:6]).all()


def test_its_spread_is_that_of_the_mean():
    """Over many redraws the mean's deviation is s / √n with s over n."""
    values = np.random.default_rng(2).random(50)
    means = TaskBootstrap(50, resamples=20_000).sums(values[:, None])[:, 0] / 50
    assert means.mean() == pytest.approx(values.mean(), abs=1e-3)
    assert means.std() == pytest.approx(values.std() / sqrt(50), rel=0.02)


def test_it_covers_where_counting_episodes_does_not():
    """Chances that differ from task to task: 95 % is nearly kept; single episodes keep far less."""
    kept, naive, tables = 0, 0, 300
    for table in range(tables):
        p = np.random.default_rng(1000 + table).beta(0.6, 0.4, size=(60, 1)).repeat(6, axis=1)
        won = drawn(p, seed=table).sum(axis=(1, 2)).astype(float)
        found = share(won, np.full(60, 6.0), TaskBootstrap(60, table, QUICK))
        low, high = wilson(int(won.sum()), 360)
        kept += found.low <= 0.6 <= found.high
        naive += low <= 0.6 <= high
    assert 0.91 <= kept / tables <= 0.98
    assert naive / tables < 0.75


def test_shares_of_columns():
    """A column without runs has no share; one with nothing but successes gets Wilson's."""
    won = np.array([[2.0, 0.0, 3.0], [1.0, 0.0, 3.0], [0.0, 0.0, 0.0]])
    runs = np.array([[4.0, 0.0, 3.0], [4.0, 0.0, 3.0], [4.0, 0.0, 0.0]])
    first, none, full = shares(won, runs, TaskBootstrap(3, resamples=QUICK))
    assert none is None
    assert first.value == 0.25 and first.low <= 0.25 <= first.high
    assert (full.value, full.low, full.high, full.method) == (1.0, *wilson(2, 2), "wilson")


def test_a_full_split_is_measured_to_a_point_and_a_half():
    """The worst case, ½ of 2,000 tasks played once, by hand: √(¼ / 1,999)."""
    error = standard_error([0.0, 1.0] * 1000)
    assert error == pytest.approx(sqrt(0.25 / 1999)) and error <= 0.015
    low, high = mean_interval([0.0, 1.0] * 1000)
    assert high - low == pytest.approx(2 * 1.959963984540054 * error)
    with pytest.raises(ValueError, match="1 values"):
        standard_error([1.0])


# -- parts of the variance -------------------------------------------------------------------------

BY_HAND = np.array([[[1, 1], [1, 0]], [[0, 0], [0, 1]]])


def test_nested_by_hand():
    """Means of customers 1, ½; 0, ½: MS_task ½, MS_user ¼, MS_agent ¼."""
    split = nested(BY_HAND)
    raw = {part.name: part.raw for part in split.parts}
    assert raw == pytest.approx({"task": (1 / 2 - 1 / 4) / 4, "user": 0.0, "agent": 1 / 4})
    assert split.total == pytest.approx(5 / 16)
    assert split["agent"].share == pytest.approx(4 / 5)


def test_crossed_by_hand():
    """The same table with two customers that both tasks share: MS_both = ½, MS_user = 0."""
    raw = {part.name: part.raw for part in crossed(BY_HAND).parts}
    expected = {"task": 0.0, "user": -1 / 8, "task × user": 1 / 8, "agent": 1 / 4}
    assert raw == pytest.approx(expected)
    negative = crossed(BY_HAND)["user"]
    assert (negative.variance, negative.share) == (0.0, 0.0)


def test_nested_parts_are_the_textbooks_sums():
    """The analysis of variance, written as loops."""
    y = drawn(np.random.default_rng(3).random((9, 4)), agents=3).astype(float)
    n, k, m = y.shape
    grand = y.mean()
    ms_task = sum(k * m * (y[t].mean() - grand) ** 2 for t in range(n)) / (n - 1)
    ms_user = sum(
        m * (y[t, u].mean() - y[t].mean()) ** 2 for t in range(n) for u in range(k)
    ) / (n * (k - 1))
    ms_agent = sum(
        (y[t, u, a] - y[t, u].mean()) ** 2 for t in range(n) for u in range(k) for a in range(m)
    ) / (n * k * (m - 1))
    raw = [part.raw for part in nested(y).parts]
    assert raw == pytest.approx(
        [(ms_task - ms_user) / (k * m), (ms_user - ms_agent) / m, ms_agent]
    )


def test_nested_is_exactly_unbiased_for_binary_outcomes():
    """All 2 × 2 × 2 tables, weighted: tasks ½ ± 0.2, customers ± 0.1, each sign one in two."""
    rows = []
    for task_sign, *signs in product((1, -1), repeat=3):
        for outcome in product((0, 1), repeat=4):
            y = np.array(outcome).reshape(2, 2)
            p = np.array([0.5 + 0.2 * task_sign + 0.1 * sign for sign in signs])[:, None]
            rows.append((y, np.prod(np.where(y == 1, p, 1 - p)) / 8))
    expected = np.zeros(3)
    for (one, w), (two, v) in product(rows, repeat=2):
        expected += w * v * np.array([part.raw for part in nested(np.stack([one, two])).parts])
    assert expected == pytest.approx([0.04, 0.01, 0.25 - 0.04 - 0.01])


def test_crossed_recovers_what_made_the_table():
    """Tasks ± 0.2, customers ± 0.15, and ± 0.1 for who meets what; mean over 200 tables."""
    found = []
    for table in range(200):
        signs = np.random.default_rng(table)
        tasks, users, both = (
            signs.choice([-1, 1], size=shape) for shape in ((20, 1), (1, 12), (20, 12))
        )
        p = 0.5 + 0.2 * tasks + 0.15 * users + 0.1 * both
        found.append([part.raw for part in crossed(drawn(p, agents=2, seed=table)).parts])
    agent = 0.25 - 0.04 - 0.0225 - 0.01
    error = np.std(found, axis=0) / sqrt(len(found))
    assert (np.abs(np.mean(found, axis=0) - [0.04, 0.0225, 0.01, agent]) < 4 * error).all()
    assert (error < 0.002).all()


@pytest.mark.parametrize(
    ("users", "agents", "names"),
    [
        (3, 2, ["task", "user", "agent"]),
        (3, 1, ["task", "user + agent"]),
        (1, 2, ["task + user", "agent"]),
        (1, 1, ["task + user + agent"]),
    ],
)
def test_what_a_design_cannot_tell_apart_is_named_together(users, agents, names):
    """And the parts are those of a plain analysis with one factor less."""
    y = drawn(np.random.default_rng(4).random((50, users)), agents).astype(float)
    split = nested(y)
    assert [part.name for part in split.parts] == names
    if len(names) == 1:
        assert split.parts[0].raw == pytest.approx(np.var(y, ddof=1))
    if len(names) == 2:
        flat = y.reshape(50, -1)
        within = flat.var(axis=1, ddof=1).mean()
        between = flat.mean(axis=1).var(ddof=1) - within / flat.shape[1]
        assert [part.raw for part in split.parts] == pytest.approx([between, within])
    with pytest.raises(KeyError, match="there are task"):
        split["nobody"]


def test_an_agent_without_chance_has_no_part():
    once = drawn(np.random.default_rng(5).random((40, 3)))
    split = nested(np.repeat(once, 2, axis=2), TaskBootstrap(40, resamples=QUICK))
    assert split["agent"].variance == 0.0 and split["agent"].interval == (0.0, 0.0)
    assert split["user"].raw == pytest.approx(nested(once)["user + agent"].raw)


def test_intervals_of_the_parts_hold_them():
    truths, held, tables = {"task": 0.0625, "user": 0.01, "agent": 0.1775}, 0, 60
    for table in range(tables):
        signs = np.random.default_rng(table)
        p = 0.5 + 0.25 * signs.choice([-1, 1], (80, 1)) + 0.1 * signs.choice([-1, 1], (80, 4))
        split = nested(drawn(p, agents=2, seed=table), TaskBootstrap(80, table, QUICK))
        for name, truth in truths.items():
            low, high = split[name].interval
            held += low <= truth <= high
    assert 0.88 <= held / (3 * tables) <= 0.99


@pytest.mark.parametrize("shape", [(1, 2, 2), (4, 2), (3, 0, 1)])
def test_a_table_needs_two_tasks(shape):
    with pytest.raises(ValueError, match="two or more tasks"):
        nested(np.zeros(shape))


def test_a_crossed_table_needs_two_users():
    with pytest.raises(ValueError, match="1 user"):
        crossed(np.zeros((3, 1, 2)))


# -- slices ----------------------------------------------------------------------------------------


def people(tasks, users, seed=0):
    return np.random.default_rng(seed).integers(0, 101, size=(tasks, users, len(TRAITS)))


def test_slices_are_the_runs_of_those_people():
    levels = people(40, 3)
    success = drawn(np.random.default_rng(6).random((40, 3)), agents=2)
    found = trait_slices(success, levels, TaskBootstrap(40, resamples=QUICK))
    assert [trait.trait for trait in found] == list(TRAITS)
    for place, trait in enumerate(found):
        for third, first, last in THIRDS:
            inside = [
                success[t, u].tolist()
                for t in range(40)
                for u in range(3)
                if first <= levels[t, u, place] <= last
            ]
            assert trait[third].runs == 2 * len(inside)
            assert trait[third].success.value == pytest.approx(np.mean(inside))
            assert trait[third].success.low < trait[third].success.high
        effect = trait["high"].success.value - trait["low"].success.value
        assert trait.effect.value == pytest.approx(effect)
        assert trait.effect.low < effect < trait.effect.high


def test_every_level_is_in_one_third():
    assert [n for _, first, last in THIRDS for n in range(first, last + 1)] == list(range(101))


def test_a_trait_that_matters_is_seen():
    """Chance 0.3 + 0.4 × patience: the thirds' means differ by 0.4 × ⅔; no other trait's do."""
    levels = people(500, 4, seed=7)
    success = drawn(0.3 + 0.4 * levels[:, :, 0] / 100, seed=7)
    found = {t.trait: t for t in trait_slices(success, levels, TaskBootstrap(500, resamples=QUICK))}
    patience = found.pop("patience").effect
    assert patience.low < 0.4 * 67 / 100 < patience.high and patience.low > 0.15
    assert sum(not t.effect.low <= 0 <= t.effect.high for t in found.values()) <= 2
    worst = worst_slice(success, levels, TaskBootstrap(500, resamples=QUICK))
    assert worst.name == "low patience"
    slow = success[1::2][levels[1::2, :, 0] <= 33]
    assert worst.success.value == pytest.approx(slow.mean())
    assert worst.chosen_on == pytest.approx(success[::2][levels[::2, :, 0] <= 33].mean())


def test_a_third_that_nobody_fell_into_is_left_out():
    levels = np.full((30, 2, len(TRAITS)), 50)
    success = drawn(np.full((30, 2), 0.5))
    found = trait_slices(success, levels, TaskBootstrap(30, resamples=QUICK))[0]
    assert [piece.third for piece in found.slices] == ["middle"] and found.effect is None
    with pytest.raises(KeyError, match="nobody of high patience"):
        found["high"]
    assert worst_slice(success[:8], levels[:8], TaskBootstrap(8, resamples=QUICK)) is None


def test_the_worst_decile_by_hand():
    """20 tasks, two customers: one fails with both, two with the first alone, the rest with none.

    Chosen by the first customer: of the two places, three tasks with 0 share them, and the second
    customer gives 0, 1, 1: ⅔. By the second one: the one with 0 takes a place (first customer: 0),
    and the 19 others share the next (first customer: 17 of 19): 17/38. Both together: (0 + ½) / 2.
    """
    success = np.ones((20, 2, 1), dtype=np.int8)
    success[3] = 0
    success[[8, 15], 0] = 0
    names = tuple(f"test-{t}" for t in range(20))
    found = worst_decile(success, names, TaskBootstrap(20, resamples=QUICK))
    assert found.success.value == pytest.approx((2 / 3 + 17 / 38) / 2)
    assert found.same_runs == pytest.approx(0.25)
    assert (found.tasks, found.hardest) == (2, ("test-3", "test-8"))


def test_the_worst_decile_lies_between_its_two_measures():
    """On average: chosen and measured on all runs ≤ truth ≤ measured apart; nearer with more."""
    p = np.linspace(0.1, 0.9, 100)[:, None]
    truth, names = p[:10].mean(), tuple(str(t) for t in range(100))
    gaps = []
    for users in (4, 16):
        found = [
            worst_decile(drawn(p.repeat(users, axis=1), seed=s), names, TaskBootstrap(100, s, 10))
            for s in range(100)
        ]
        same = np.mean([one.same_runs for one in found])
        apart = np.mean([one.success.value for one in found])
        assert same < truth - 0.01 < truth + 0.01 < apart
        gaps.append(apart - same)
    assert gaps[1] < gaps[0] / 2


def test_the_worst_deciles_interval_is_of_redrawn_choices():
    """Beside a slow bootstrap that draws tasks, chooses and measures anew."""
    success = drawn(np.linspace(0.1, 0.9, 40)[:, None].repeat(4, axis=1), seed=9)
    bootstrap = TaskBootstrap(40, seed=3, resamples=200)
    found = worst_decile(success, tuple(str(t) for t in range(40)), bootstrap)
    slow = []
    for counts in bootstrap.counts(0, 200):
        again = np.repeat(success, counts, axis=0)
        slow.append(
            worst_decile(again, tuple(map(str, range(40))), TaskBootstrap(40, 0, 10)).success.value
        )
    low, high = np.quantile(slow, (0.025, 0.975))
    assert (found.success.low, found.success.high) == pytest.approx((low, high))


def test_the_worst_decile_needs_two_customers():
    with pytest.raises(ValueError, match="two or more"):
        worst_decile(np.ones((10, 1, 3), dtype=np.int8), ("",) * 10, TaskBootstrap(10))
