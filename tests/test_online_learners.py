"""Every online learner learns a small task, repeats from a seed, and never does what is illegal."""

import json
from functools import partial

import gymnasium as gym
import numpy as np
import pytest

from convgym.errors import InvalidConfiguration
from trainers import toy_dialogue as toy
from trainers.online.configurations import CONFIGURATIONS

pytest.importorskip("sb3_contrib", reason="needs the extra sb3")

import torch
from online_tasks import Doors, DoorsOfParts, MaskedRecall, Recall, Target, mean_return
from small_learners import NAMES, SMALL, learner, weights

torch.set_num_threads(1)

every_algorithm = pytest.mark.parametrize("name", NAMES)


@every_algorithm
def test_it_learns_three_doors_and_never_tries_an_illegal_act(name):
    """Chance earns 0.11 of 1: a door in four opens, and the first that does not is the end."""
    policy = learner(name).fit(Doors, 6_000 if name == "a2c" else 2_500)
    assert mean_return(policy, Doors()) > 0.5
    assert mean_return(policy, Doors(), deterministic=True) > 0.95


@pytest.mark.parametrize("name", ["dqn", pytest.param("qr_dqn", marks=pytest.mark.slow)])
def test_value_learners_find_the_conversation_although_closing_at_once_tempts(name):
    """The optimum is 0.70; closing at once, where PPO, A2C and TRPO stay, earns −0.46."""
    policy = learner(name).fit(partial(toy.ToyDialogue, 16, 0.1), 7_000)
    table = toy.policy_table(policy.action_probs, 16)
    assert toy.toy_model().values(table)[toy.START] > 0.4


@pytest.mark.parametrize("env", [pytest.param(Recall, marks=pytest.mark.slow), MaskedRecall])
def test_memory_recalls_what_was_shown(env):
    """Without it no more than 0.25 can be earned, or 0.33 where an act is illegal."""
    policy = learner("recurrent_ppo", learning_rate=1e-2).fit(env, 4_000)
    assert mean_return(policy, env(), 100) > 0.8


@pytest.mark.parametrize(("name", "least"), [("ppo", 0.5), ("trpo", 0.8)])
def test_vectors_are_learnt_too(name, least):
    """To do nothing earns 0.2, and the best 1."""
    policy = learner(name, discount=0.9).fit(Target, 3_000)
    assert mean_return(policy, Target(), 100, True) > least
    first, second = (policy.predict(np.zeros(2, np.float32))[0] for _ in range(2))
    assert not np.array_equal(first, second)
    policy.reset(1)
    again = [policy.predict(np.zeros(2, np.float32))[0] for _ in range(2)]
    policy.reset(1)
    assert np.array_equal(again[0], policy.predict(np.zeros(2, np.float32))[0])
    assert np.isnan(policy.propensity)
    with pytest.raises(NotImplementedError, match="no probabilities"):
        policy.action_probs(np.zeros(2, np.float32))


@pytest.mark.parametrize("name", ["maskable_ppo", "ppo", "dqn"])
def test_observations_of_several_parts_are_learnt(name):
    policy = learner(name).fit(DoorsOfParts, 2_500)
    assert mean_return(policy, DoorsOfParts(), 100, deterministic=True) > 0.8


@every_algorithm
def test_the_same_seed_gives_the_same_weights(name):
    first, second, other = (learner(name, seed=seed).fit(Doors, 400) for seed in (3, 3, 4))
    pairs = zip(weights(first), weights(second), strict=True)
    assert all(np.array_equal(one, two) for one, two in pairs)
    pairs = zip(weights(first), weights(other), strict=True)
    assert not all(np.array_equal(one, two) for one, two in pairs)


def test_any_gymnasium_environment_is_learnt():
    """A random policy keeps the pole up for about 22 steps, an untrained one for 9."""
    make = partial(gym.make, "CartPole-v1")
    policy = learner("ppo", n_epochs=8).fit(make, 7_000)
    assert mean_return(policy, make(), 10, deterministic=True) > 150


@pytest.mark.slow
@every_algorithm
def test_conversations_are_learnt_by_default(name):
    """30,000 turns; 10 to 60 s each."""
    make = partial(gym.make, "ConvGym/CustomerService-v0", observation="features", action="act")
    learnt = CONFIGURATIONS[name]().create()
    before = mean_return(learnt.fit(partial(make, reward="graded"), 0), make(reward="graded"), 200)
    policy = learnt.fit(partial(make, reward="graded"), 30_000)
    assert mean_return(policy, make(reward="graded"), 200) > before + 0.05


# -- reports, metrics, refusals --------------------------------------------------------------------


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
    assert fitted.history[-1]["wins"] > fitted.history[0]["wins"]
    assert [step for step, _ in heard] == [504, 1_008, 1_504]
    assert 0.0 < heard[-1][1]["return"] <= 1.0 and 1.0 <= heard[-1][1]["length"] <= 3.0


def test_a_callback_that_returns_true_ends_the_run():
    fitted = learner("ppo")
    policy = fitted.fit(Doors, 50_000, callbacks=[lambda step, metrics: step >= 2_000])
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
