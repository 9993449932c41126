"""Two tasks one after the other: what is forgotten, and what each method keeps."""

import numpy as np
import pytest
from toy_collector import ToyCollector, toy_model

from convgym.errors import InvalidConfiguration
from trainers.llm.continual import ContinualConfig, ContinualLearner, ContinualResult
from trainers.llm.policy_config import PolicyOptimizerConfig


class OneCue(ToyCollector):
    """The second reply must hold the word of one cue: what another such task unlearns."""

    def __init__(self, model, cue):
        super().__init__(model, task="asks")
        self.cue = cue

    def collect(self, seeds, group_size, rng_seed, version=0):
        return super().collect([2 * s + self.cue for s in seeds], group_size, rng_seed, version)


def learner_of(method, seed=0, iterations=50, episodes=64, **continual):
    model = toy_model(seed)
    config = PolicyOptimizerConfig(
        objective="grpo", seeds_per_iteration=4, group_size=8, learning_rate=3e-3, minibatches=2,
        evaluation_episodes=episodes, seed=seed, flat_patience=None,
    )  # fmt: skip
    kept = ContinualConfig(method=method, task_switch_iterations=iterations, **continual)
    tasks = {"first": OneCue(model, 0), "second": OneCue(model, 1)}
    return ContinualLearner(model, tasks, config, kept)


def learnt(*arguments, **options):
    return learner_of(*arguments, **options).train()


def test_forgetting_by_hand():
    success = np.array([[0.9, 0.1, 0.0], [0.5, 0.8, 0.1], [0.3, 0.9, 0.7]])
    result = ContinualResult(("a", "b", "c"), np.zeros(3), success)
    assert result.forgetting == pytest.approx(((0.9 - 0.3) + (0.8 - 0.9)) / 2)
    assert result.average == pytest.approx((0.3 + 0.9 + 0.7) / 3)
    assert ContinualResult(("a",), np.zeros(1), np.ones((1, 1))).forgetting == 0


@pytest.mark.parametrize("method", ["none", "replay", "lwf", "ewc", "replay_lwf"])
def test_every_method_goes_through_all_tasks(method):
    result = learnt(method, iterations=2, episodes=8)
    assert result.success.shape == (2, 2) and len(result.rows) == 2
    second = result.rows[1][-1]
    assert ("elastic_loss" in second) == (method == "ewc")
    assert ("kl_loss" in second) == (method in ("lwf", "replay_lwf"))
    assert "kl_loss" not in result.rows[0][-1]


def test_the_same_seed_forgets_alike():
    first, again = (learnt("replay_lwf", iterations=4, episodes=16) for _ in range(2))
    assert first.rows[1][-1]["loss"] == again.rows[1][-1]["loss"]
    assert np.array_equal(first.success, again.success)


def test_a_replayed_group_is_of_one_seed_and_one_iteration():
    """Named after a mistake: each iteration numbers its groups anew, so that they ran together."""
    learner = learner_of("replay", iterations=6, episodes=8)
    learner.train()
    kept = learner.replay.kept("first")
    assert kept
    for group in kept:
        assert len(group) == 8 and len({(r.seed, r.version) for r in group}) == 1


@pytest.mark.slow
def test_replay_and_distillation_keep_what_is_forgotten_without_them():
    forgetting = {
        method: [learnt(method, seed).forgetting for seed in range(3)]
        for method in ("none", "replay", "lwf")
    }
    assert min(forgetting["none"]) > 0.5
    assert max(forgetting["replay"]) < 0.2
    assert max(forgetting["lwf"]) < 0.2


@pytest.mark.slow
def test_with_replay_both_tasks_are_known_in_the_end():
    assert min(learnt("replay", seed).average for seed in range(3)) > 0.8


@pytest.mark.parametrize(
    "wrong", [{"method": "dream"}, {"replay_groups": 0}, {"task_switch_iterations": 0}]
)
def test_wrong_options_are_refused(wrong):
    with pytest.raises(InvalidConfiguration):
        ContinualConfig(**wrong)


def test_no_task_is_refused():
    with pytest.raises(InvalidConfiguration):
        ContinualLearner(toy_model(), {}, PolicyOptimizerConfig())
