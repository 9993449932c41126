"""How online learners are fitted: seeds, evaluations, callbacks, metrics, what they refuse."""

import json
from functools import partial

import gymnasium as gym
import numpy as np
import pytest

import convgym  # noqa: F401  registers the environments
from convgym.errors import InvalidConfiguration
from trainers.online.configurations import CONFIGURATIONS

pytest.importorskip("sb3_contrib", reason="needs the extra sb3")

import torch
from online_tasks import Doors, Target, mean_return
from small_learners import NAMES, SMALL, learner, weights

torch.set_num_threads(1)
every_algorithm = pytest.mark.parametrize("name", NAMES)


@every_algorithm
def test_the_same_seed_gives_the_same_weights(name):
    first, second, other = (learner(name, seed=seed).fit(Doors, 400) for seed in (3, 3, 4))
    pairs = zip(weights(first), weights(second), strict=True)
    assert all(np.array_equal(one, two) for one, two in pairs)
    pairs = zip(weights(first), weights(other), strict=True)
    assert not all(np.array_equal(one, two) for one, two in pairs)


def test_evaluations_are_rows_of_the_history_and_metrics_are_heard():
    heard = []
    fitted = learner("dqn")
    fitted.fit(
        Doors,
        1_500,
        {"wins": lambda policy: mean_return(policy, Doors(), 20)},
        500,
        lambda step, metrics: heard.append((step, dict(metrics))),
    )
    assert [row["step"] for row in fitted.history] == [504, 1_008, 1_504]
    assert fitted.history[-1]["wins"] > 0.9
    assert [step for step, _ in heard] == [504, 1_008, 1_504]
    assert 0.0 < heard[-1][1]["return"] <= 1.0 and 1.0 <= heard[-1][1]["length"] <= 3.0


def test_a_callback_that_returns_true_ends_the_run():
    fitted = learner("ppo")
    policy = fitted.fit(Doors, 50_000, callbacks=[lambda row: row["step"] >= 2_000])
    assert 2_000 <= policy.model.num_timesteps < 2_500


def test_stable_baselines3_writes_its_metrics_where_it_is_told(tmp_path):
    learner("ppo").fit(Doors, 600, log=tmp_path)
    table = (tmp_path / "from-0" / "progress.csv").read_text().splitlines()
    assert "rollout/ep_rew_mean" in table[0] and len(table) == 4


@every_algorithm
@pytest.mark.parametrize(
    "bad",
    [{"n_envs": 0}, {"discount": 0.0}, {"learning_rate": -1.0}, {"hidden": (0,)}, {"n_envs": 1.5}],
    ids=str,
)
def test_bad_settings_are_refused(name, bad):
    with pytest.raises(InvalidConfiguration, match=f"{next(iter(bad))}="):
        CONFIGURATIONS[name](**bad)


@every_algorithm
def test_settings_survive_json(name):
    config = CONFIGURATIONS[name](**SMALL[name])
    kept = json.loads(json.dumps(config.to_dict()))
    assert CONFIGURATIONS[name](**{**kept, "hidden": tuple(kept["hidden"])}) == config


def test_maskable_ppo_refuses_an_environment_without_masks():
    with pytest.raises(InvalidConfiguration, match=r"no action_masks\(\); take PPO"):
        learner("maskable_ppo").fit(partial(gym.make, "CartPole-v1"), 100)


@pytest.mark.parametrize("name", ["dqn", "qr_dqn", "maskable_ppo"])
def test_learners_of_acts_refuse_vectors(name):
    with pytest.raises(InvalidConfiguration, match="chooses among acts"):
        learner(name).fit(Target, 100)


def test_texts_are_refused_with_the_way_out():
    with pytest.raises(InvalidConfiguration, match="EncodedText"):
        learner("ppo").fit(partial(gym.make, "ConvGym/CustomerService-v0", action="act"), 100)
