"""Seeds, resampling, penalties: which conversations an iteration learns from."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from toy_collector import ToyCollector, toy_model

from trainers.llm.policy_config import Overlong, PolicyOptimizerConfig
from trainers.llm.policy_optimizer import PolicyOptimizer
from trainers.llm.rollout_collection import Collection, rollout_statistics
from trainers.llm.rollouts import Rollout, Segment


class Scripted:
    """One rollout of `length` sampled tokens each; rewards by a function of seed and member."""

    def __init__(self, reward, length=lambda seed, member: 3, error=lambda seed, member: ""):
        self.reward, self.length, self.error = reward, length, error
        self.calls = []

    def collect(self, seeds, group_size, rng_seed, version=0):
        self.calls.append((list(seeds), group_size, rng_seed, version))
        return [
            self._one(place, seed, m) for place, seed in enumerate(seeds) for m in range(group_size)
        ]

    def _one(self, group, seed, member):
        length = self.length(seed, member)
        turns = np.array([-1] + [0] * length)
        segment = Segment(np.ones(length + 1, np.int64), turns, np.zeros(length + 1, np.float32))
        reward = np.array([0.0, self.reward(seed, member)])
        return Rollout(
            segments=(segment,), rewards=reward, group=group, seed=seed,
            error=self.error(seed, member), terminated=length < 9,
        )  # fmt: skip


def gathered(scripted, iteration=0, **changes):
    options = {"seeds_per_iteration": 4, "group_size": 3} | changes
    collection = Collection(scripted, PolicyOptimizerConfig(**options))
    return collection.gather(iteration, 7), collection


def lively(share):
    """Groups of every `share`-th seed have spread."""
    return lambda seed, member: float(member == 0 and seed % share == 0)


def test_without_resampling_all_groups_are_kept():
    found, collection = gathered(Scripted(lively(2)))
    assert len(found.kept) == len(found.played) == 12 and found.attempts == 1 and found.spread
    ((seeds, size, _, version),) = collection.collector.calls
    assert len(set(seeds)) == 4 and size == 3 and version == 7 and collection.drawn == 4


def test_groups_without_spread_are_drawn_anew_until_there_are_enough():
    found, collection = gathered(Scripted(lively(2)), resample=9)
    kept = {rollout.seed for rollout in found.kept}
    assert len(kept) == 4 and all(seed % 2 == 0 for seed in kept) and len(found.kept) == 12
    assert len({rollout.group for rollout in found.kept}) == 4  # of different attempts
    calls = collection.collector.calls
    drawn = [seed for call in calls for seed in call[0]]
    assert len(set(drawn)) == len(drawn) == collection.drawn
    assert [len(call[0]) for call in calls] == [4, 2, 1] and found.attempts == 3
    assert len({call[2] for call in calls}) == 3  # each attempt samples anew
    assert len(found.played) == 3 * len(drawn)


def test_attempts_are_bounded():
    found, _ = gathered(Scripted(lively(10**9)), resample=3)
    assert found.attempts == 4 and not found.kept and not found.spread
    assert len(found.played) == 4 * 12


def test_a_run_of_solved_groups_learns_nothing_and_ends():
    model = toy_model()
    collector = ToyCollector(model, reward=lambda play: 1.0)
    config = PolicyOptimizerConfig(resample=2, flat_patience=3, iterations=50, group_size=2)
    run = PolicyOptimizer(model, collector, config)
    before = [p.detach().clone() for p in model.trainable().values()]
    rows = run.train()
    assert len(rows) == 3 and [row["skipped"] for row in rows] == [1, 1, 1] and run.stopped
    assert all(row["attempts"] == 3 and row["reward_mean"] == 1 for row in rows)
    after = model.trainable().values()
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_resampled_iterations_learn_from_whole_batches():
    model = toy_model()
    config = PolicyOptimizerConfig(
        objective="dapo", resample=5, iterations=3, seeds_per_iteration=4, learning_rate=2e-3
    )
    rows = PolicyOptimizer(model, ToyCollector(model), config).train()
    assert all(row["attempts"] >= 1 and row["skipped"] == 0 for row in rows)
    assert rows[-1]["optimizer_steps"] == 3


def test_long_conversations_earn_less_in_proportion():
    lengths = [2, 6, 7, 8, 10, 20]
    scripted = Scripted(lambda s, m: 1.0, length=lambda seed, member: lengths[member])
    overlong = Overlong(longest=10, cache=4, penalty=0.5)
    found, _ = gathered(scripted, group_size=6, seeds_per_iteration=1, overlong=overlong)
    expected = [0, 0, -0.125, -0.25, -0.5, -0.5]
    assert [r.rewards.tolist() for r in found.kept] == [[0, 1 + p] for p in expected]
    assert found.penalty == pytest.approx(np.mean(expected)) and found.spread
    assert all(rollout.return_ == 1.0 for rollout in found.played)
    row = rollout_statistics(found)
    assert row["overlong_penalty"] == pytest.approx(np.mean(expected)) and row["reward_mean"] == 1
    assert row["truncated"] == pytest.approx(2 / 6) and row["length_max"] == 20


def test_the_penalty_makes_spread_where_there_was_none():
    """It is added before groups are compared (DAPO)."""
    model = toy_model()
    collector = ToyCollector(model, reward=lambda play: 1.0)
    config = PolicyOptimizerConfig(
        iterations=2, overlong=Overlong(longest=3, cache=2), learning_rate=2e-3
    )
    rows = PolicyOptimizer(model, collector, config).train()
    assert rows[0]["grad_norm"] > 0 and rows[0]["flat_groups"] == 1


def test_failed_rollouts_make_no_spread():
    scripted = Scripted(
        lambda seed, member: float(member), error=lambda seed, m: "E: x" if m else ""
    )
    found, _ = gathered(scripted, resample=1)
    assert not found.kept and found.attempts == 2
    assert rollout_statistics(found)["failed"] == pytest.approx(2 / 3)


def test_which_seeds_come_follows_from_seed_and_counter():
    def seeds(seed, drawn=0, iteration=0, **changes):
        config = PolicyOptimizerConfig(seed=seed, seeds_per_iteration=4, **changes)
        collection = Collection(Scripted(lively(2)), config)
        collection.drawn = drawn
        collection.gather(iteration, 0)
        return collection.collector.calls[0]

    assert seeds(3)[0] == seeds(3)[0] != seeds(4)[0]
    assert not set(seeds(3)[0]) & set(seeds(3, drawn=4)[0])
    assert seeds(3, iteration=1)[2] != seeds(3)[2] != seeds(4)[2]
    assert all(seed >= 1_000_000 for run in (0, 1, 2**31) for seed in seeds(run)[0])
    pool = seeds(3, drawn=5, distinct_seeds=3)[0]
    assert set(pool) == set(seeds(3, distinct_seeds=3)[0]) and pool[0] == pool[3]


def test_what_was_played_is_left_as_it_was():
    scripted = Scripted(lambda s, m: 1.0, length=lambda s, m: 20)
    found, _ = gathered(scripted, overlong=Overlong(longest=10, cache=4))
    assert found.kept[0].return_ == 0 and found.played[0].return_ == 1
    assert replace(found.played[0]).group == found.kept[0].group
