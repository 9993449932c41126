"""Environments of acts for RLlib: the wrapper alone, and RLlib's PPO where it is installed."""

import runpy
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from convgym.errors import InvalidConfiguration
from trainers.online.rllib_masks import ACTING, MaskedObservation, RLlibPolicy, made, masked_ppo

DESK = "ConvGym/TechnicalSupport-v0"


def test_the_mask_is_the_environments():
    env, alone = made({"env_id": DESK}), gym.make(DESK, disable_env_checker=True, **ACTING)
    seen, info = env.reset(seed=3)
    shown, told = alone.reset(seed=3)
    ended = False
    while not ended:
        assert env.observation_space.contains(seen)
        assert np.array_equal(seen["observations"], shown)
        assert np.array_equal(seen["action_mask"], told["action_mask"])
        act = np.int64(seen["action_mask"].argmax())
        seen, reward, terminated, truncated, info = env.step(act)
        shown, wanted, _, _, told = alone.step(int(act))
        assert reward == wanted and info["task_id"] == told["task_id"]
        ended = terminated or truncated


def test_environments_of_texts_are_refused():
    with pytest.raises(InvalidConfiguration, match='action="act"'):
        MaskedObservation(gym.make(DESK, disable_env_checker=True))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    pytest.importorskip("ray.rllib", reason="RLlib is not installed")
    import ray

    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    config = masked_ppo(DESK, {"reward": "graded"}, seed=1).training(
        train_batch_size_per_learner=128, minibatch_size=64, num_epochs=2
    )
    algorithm = config.build_algo()
    module = algorithm.get_module()
    before = {name: one.detach().clone() for name, one in module.named_parameters()}
    found = algorithm.train()["env_runners"]
    yield algorithm, before, found
    algorithm.stop()
    ray.shutdown()


def test_rllib_itself_trains(trained):
    algorithm, before, found = trained
    assert found["num_env_steps_sampled_lifetime"] >= 128
    after = dict(algorithm.get_module().named_parameters())
    assert any((before[name] != after[name]).any() for name in before)


def test_rllibs_own_logits_leave_no_chance_to_what_is_illegal(trained):
    import torch

    module = trained[0].get_module()
    env = made({"env_id": DESK})
    seen, info = env.reset(seed=5)
    batch = {name: torch.from_numpy(one[None]) for name, one in seen.items()}
    logits = module.forward_inference({"obs": batch})["action_dist_inputs"][0]
    illegal = torch.from_numpy(np.asarray(info["action_mask"]) == 0)
    assert illegal.any() and torch.softmax(logits, -1)[illegal].sum() == 0
    policy = RLlibPolicy(module)
    chances = policy.action_probs(seen["observations"], info["action_mask"])
    assert chances == pytest.approx(torch.softmax(logits.double(), -1).detach().numpy(), abs=1e-6)
    policy.reset(4)
    drawn = [policy.predict(seen["observations"], action_masks=info["action_mask"])[0]]
    policy.reset(4)
    assert drawn == [policy.predict(seen["observations"], action_masks=info["action_mask"])[0]]


def test_the_script_refuses_in_a_sentence(capsys):
    main = runpy.run_path(str(Path(__file__).parents[1] / "scripts" / "train_rllib.py"))["main"]
    pytest.importorskip("ray.rllib", reason="RLlib is not installed")
    assert main(["--keywords", '{"action": "text"}']) == 2
    assert 'action="act"' in capsys.readouterr().err
