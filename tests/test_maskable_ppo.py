"""The online learner: learns a small task, repeats from a seed, never does what is illegal."""

import gymnasium as gym
import numpy as np
import pytest

from convgym.errors import InvalidConfiguration
from convgym.evaluation.evaluate import evaluate
from convgym.policies.scripted import KeywordPolicy

pytest.importorskip("sb3_contrib", reason="needs the extra sb3")

from trainers.online.maskable_ppo import MaskablePPOConfig
from trainers.online.sb3_policy import SB3Policy

SMALL = MaskablePPOConfig(
    n_envs=4, n_steps=32, batch_size=64, n_epochs=4, hidden=(16,), learning_rate=5e-3
)


class Corridor(gym.Env):
    """Three doors, each opened by the one act that the observation names; act 4 is illegal."""

    observation_space = gym.spaces.Box(0.0, 1.0, (4,), np.float32)
    action_space = gym.spaces.Discrete(5)

    def __init__(self):
        self.illegal = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.door = 0
        return self._observe(), {"action_mask": self.action_masks()}

    def _observe(self):
        self.key = int(self.np_random.integers(4))
        return np.eye(4, dtype=np.float32)[self.key]

    def action_masks(self):
        return np.array([1, 1, 1, 1, 0], dtype=np.int8)

    def step(self, action):
        self.illegal += action == 4
        right = action == self.key
        self.door += right
        done = bool(not right or self.door == 3)
        info = {"action_mask": self.action_masks()}
        return self._observe(), float(right and self.door == 3), done, False, info


def wins(policy, episodes=100):
    env, won = Corridor(), 0
    for seed in range(episodes):
        observation, info = env.reset(seed=seed)
        policy.reset(seed)
        done = False
        while not done:
            action, _ = policy.predict(observation, action_masks=info["action_mask"])
            observation, reward, done, _, info = env.step(action)
        won += reward
    assert env.illegal == 0
    return won / episodes


def test_it_learns_three_doors():
    learner = SMALL.create()
    heard = []
    policy = learner.fit(
        Corridor,
        6_000,
        evaluators={"wins": lambda policy: wins(policy, 20)},
        evaluate_every=2_000,
        progress=lambda step, metrics: heard.append(step),
    )
    assert wins(policy) > 0.9  # by chance 1 in 64
    assert heard == sorted(heard)
    assert heard[-1] >= 6_000 - SMALL.n_envs * SMALL.n_steps
    assert [row["step"] for row in learner.history] == sorted(
        row["step"] for row in learner.history
    )
    assert learner.history[-1]["wins"] > 0.5


def test_the_same_seed_gives_the_same_policy_and_it_survives_saving(tmp_path):
    first, second = (SMALL.create().fit(Corridor, 512) for _ in range(2))
    first.save(tmp_path / "policy.zip")
    loaded = SB3Policy.load(tmp_path / "policy.zip")
    mask = np.array([1, 1, 0, 1, 0], dtype=np.int8)
    for observation in np.eye(4, dtype=np.float32):
        expected = first.action_probs(observation, mask)
        assert expected.sum() == pytest.approx(1.0, abs=1e-5)
        assert expected[[2, 4]].max() < 1e-6
        assert np.array_equal(expected, second.action_probs(observation, mask))
        assert np.array_equal(expected, loaded.action_probs(observation, mask))
    together = first.batched().action_probs(np.eye(4, dtype=np.float32), np.tile(mask, (4, 1)))
    alone = [first.action_probs(one, mask) for one in np.eye(4, dtype=np.float32)]
    assert together == pytest.approx(np.array(alone), abs=1e-6)


@pytest.mark.parametrize(
    "bad", [{"n_envs": 0}, {"discount": 0.0}, {"gae_lambda": 1.5}, {"learning_rate": -1.0}]
)
def test_bad_settings_are_refused(bad):
    with pytest.raises(InvalidConfiguration):
        MaskablePPOConfig(**bad)


@pytest.mark.slow
def test_it_beats_the_keyword_policy_at_the_desk():
    def make(**keywords):
        return gym.make(
            "ConvGym/CustomerService-v0", observation="features", action="act", **keywords
        )

    policy = MaskablePPOConfig().create().fit(lambda: make(reward="graded"), 200_000)
    learnt = evaluate(policy, make(), episodes=1000)
    keyword = evaluate(KeywordPolicy(), make(), episodes=1000)
    assert learnt.success_interval[0] > keyword.success_interval[1]
