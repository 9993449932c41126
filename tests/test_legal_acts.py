"""Masks inside observations: laid out right, obeyed by every network, explored uniformly."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import convgym  # noqa: F401  registers the environments

pytest.importorskip("sb3_contrib", reason="needs the extra sb3")

import torch
from online_tasks import Doors
from small_learners import learner
from stable_baselines3.common.vec_env import DummyVecEnv

from trainers.online.legal_acts import NEVER, LegalRows, with_masks
from trainers.online.vec_env import ConversationVecEnv, side_by_side

torch.set_num_threads(1)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(-1.0, 1.0, (2, 3), np.float32),
        spaces.Discrete(5, start=2),
        spaces.MultiBinary(4),
        spaces.Dict({"b": spaces.Discrete(3), "a": spaces.Box(0, 9, (2,), np.int64)}),
    ],
    ids=lambda space: type(space).__name__,
)
def test_rows_are_what_gymnasium_makes_flat_and_then_the_mask(space):
    space.seed(0)
    seen = [space.sample() for _ in range(6)]
    batch = np.array(seen)
    if isinstance(space, spaces.Dict):
        batch = {name: np.array([one[name] for one in seen]) for name in space}
    masks = np.eye(6, 4, dtype=np.int8)
    expected = [
        np.concatenate([spaces.flatten(space, one), mask])
        for one, mask in zip(seen, masks, strict=True)
    ]
    assert with_masks(space, batch, masks) == pytest.approx(np.array(expected))


def test_the_same_rows_come_from_conversations_side_by_side_and_one_by_one():
    """Terminal observations too: each ends in the mask of its own last turn."""

    def make():
        return gym.make(
            "ConvGym/CustomerService-v0", observation="features", action="act", max_turns=6
        )

    pair = [LegalRows(side_by_side(make, 3)), LegalRows(DummyVecEnv([make] * 3))]
    assert isinstance(pair[0].venv, ConversationVecEnv)
    for one in pair:
        one.seed(4)
    seen = [one.reset() for one in pair]
    ended, chance = 0, np.random.default_rng(0)
    for _ in range(40):
        assert np.array_equal(*seen)
        legal = seen[0][:, -pair[0].acts :]
        actions = np.array([chance.choice(np.flatnonzero(row)) for row in legal])
        (a, _, dones, first), (b, _, _, second) = [one.step(actions) for one in pair]
        seen = [a, b]
        for row in np.flatnonzero(dones):
            last = first[row]["terminal_observation"]
            assert last.shape == a[row].shape and not np.array_equal(last, a[row])
            assert np.array_equal(last, second[row]["terminal_observation"])
            assert 0 < last[-pair[0].acts :].sum() < pair[0].acts
            ended += 1
    assert ended > 5


@pytest.mark.parametrize("name", ["dqn", "qr_dqn"])
def test_illegal_acts_have_no_value_to_bootstrap_from(name):
    policy = learner(name).fit(Doors, 0).model.policy
    masks = (np.random.default_rng(0).random((50, 8)) < 0.5) | np.eye(8, dtype=bool)[[3] * 50]
    rows = torch.as_tensor(with_masks(Doors.observation_space, np.eye(8)[[2] * 50], masks))
    for network in (
        ("q_net", "q_net_target") if name == "dqn" else ("quantile_net", "quantile_net_target")
    ):
        with torch.no_grad():
            found = getattr(policy, network)(rows).numpy()
        found = found if name == "dqn" else found.mean(axis=1)
        assert (found[~masks] == np.float32(NEVER)).all() and np.abs(found[masks]).max() < 10.0
        assert np.abs(found.max(axis=1)).max() < 10.0


@pytest.mark.parametrize("name", ["ppo", "recurrent_ppo"])
def test_illegal_acts_have_no_probability_and_give_no_gradient(name):
    policy = learner(name).fit(Doors, 0).model.policy
    mask = np.array([[1, 1, 0, 1, 0, 0, 0, 1]])
    rows = torch.as_tensor(with_masks(Doors.observation_space, np.eye(8)[[2]], mask))
    memory = ()
    if name == "recurrent_ppo":
        empty = torch.zeros(policy.lstm_hidden_state_shape)
        memory = ((empty, empty), torch.zeros(1))
    found = policy.get_distribution(rows, *memory)
    distribution = (found[0] if memory else found).distribution
    assert not distribution.probs[0, mask[0] == 0].any()
    (distribution.entropy() + distribution.log_prob(torch.tensor([3]))).sum().backward()
    gradient = policy.action_net.bias.grad.numpy()
    assert not gradient[mask[0] == 0].any() and gradient[mask[0] == 1].all()


def test_exploration_takes_each_legal_act_as_often():
    model = learner("dqn", n_envs=1).fit(Doors, 0).model
    mask = np.array([0, 1, 1, 0, 0, 1, 0, 0])
    many = np.repeat(with_masks(Doors.observation_space, np.eye(8)[[2]], mask[None]), 3_000, axis=0)
    model._last_obs = many
    for warming_up, rate in ((True, 0.0), (False, 1.0)):
        model.exploration_rate = rate
        chosen, kept = model._sample_action(int(warming_up), None, 3_000)
        counts = np.bincount(chosen, minlength=8)
        assert counts[mask == 0].sum() == 0 and np.array_equal(chosen, kept)
        assert np.abs(counts[mask == 1] - 1_000).max() < 120  # 4.6 standard deviations
    model.exploration_rate = 0.0
    assert len(set(model._sample_action(0, None, 3_000)[0].tolist())) == 1
