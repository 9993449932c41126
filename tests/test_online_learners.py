"""Every online learner learns a small task and never does what is illegal."""

from functools import partial

import gymnasium as gym
import numpy as np
import pytest

import convgym  # noqa: F401  registers the environments
from trainers import toy_dialogue as toy
from trainers.online.configurations import CONFIGURATIONS

pytest.importorskip("sb3_contrib", reason="needs the extra sb3")

import torch
from online_tasks import Doors, DoorsOfParts, MaskedRecall, Recall, Target, mean_return
from small_learners import NAMES, learner

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
    policy = learner("recurrent_ppo", learning_rate=1e-2).fit(env, 6_000)
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


def test_any_gymnasium_environment_is_learnt():
    """A random policy keeps the pole up for about 22 steps, an untrained one for 9."""
    make = partial(gym.make, "CartPole-v1")
    policy = learner("ppo", n_epochs=8).fit(make, 15_000)
    assert mean_return(policy, make(), 10, deterministic=True) > 200


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ppo", "a2c"])
def test_the_desk_is_learnt_by_default(name):
    """150,000 turns; 15 to 40 s. Untrained they earn 0.002."""
    make = partial(
        gym.make, "ConvGym/CustomerService-v0", observation="features", action="act",
        reward="graded",
    )  # fmt: skip
    policy = CONFIGURATIONS[name]().create().fit(make, 150_000)
    assert mean_return(policy, make(), 200) > 0.04
