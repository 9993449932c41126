"""What tests of learners over vectors share: episodes of one turn, small configs, values."""

import numpy as np
import torch

from convgym.data.transitions import EpisodeArrays, returns_to_go
from trainers.offline.registry import VECTORS, config_of
from trainers.offline.vector_networks import values

SMALL = {"hidden": (32, 32), "batch_size": 64, "learning_rate": 3e-3}
EVERY = sorted(set(VECTORS) - {"decision_transformer"})  # which has tests of its own
WITH_Q = [name for name in EVERY if name != "bc"]


def episode(observations, actions, rewards, *, cut=False, discount=1.0):
    rewards = np.asarray(rewards, dtype=np.float64)
    return EpisodeArrays(
        np.asarray(observations, dtype=np.float32), np.asarray(actions, dtype=np.float32),
        rewards, not cut, cut, returns_to_go(rewards, discount),
    )  # fmt: skip


def single_turns(observations, actions, rewards):
    """An episode of one turn for each row."""
    return [
        episode([o, np.zeros_like(o)], [a], [r])
        for o, a, r in zip(observations, actions, rewards, strict=True)
    ]


def config(name, **options):
    options = {**SMALL, **options}
    if name != "bc":
        options.setdefault("target_rate", 0.05)
    return config_of(name, discrete=False)(**options)


def q(learner, observations, actions):
    """Mean of both critics.  (n,)"""
    algorithm = learner.algorithm
    with torch.no_grad():
        return values(
            algorithm.critic,
            torch.as_tensor(np.asarray(observations, dtype=np.float32)),
            algorithm.actions.unit(torch.as_tensor(np.asarray(actions, dtype=np.float32))),
        ).mean(0)


def acted(policy, observations, **keywords):
    """What it does at each observation, without chance.  (n, d)"""
    policy.reset(0)
    return np.array([policy.predict(o, deterministic=True, **keywords)[0] for o in observations])


class PointMass:
    """x goes to x + 0.4 a; reward −|x|; five turns from ±1."""

    def __init__(self, low=-1.0, high=1.0):
        self.low, self.high = low, high

    def play(self, choose, start, seed=0):
        x, seen, done, rewards = start, [[start]], [], []
        for _ in range(5):
            action = np.clip(choose(np.array([x], dtype=np.float32)), self.low, self.high)
            unit = (action[0] - self.low) / (self.high - self.low) * 2 - 1
            x = x + 0.4 * unit
            seen.append([x])
            done.append(action)
            rewards.append(-abs(x))
        return episode(seen, done, rewards, discount=0.9)

    def record(self, count=200):
        rng = np.random.default_rng(0)
        return [
            self.play(lambda o: rng.uniform(self.low, self.high, 1), rng.uniform(-1, 1))
            for _ in range(count)
        ]

    def score(self, policy):
        total = 0.0
        for start in (-1.0, -0.5, 0.5, 1.0):
            policy.reset(0)
            played = self.play(lambda o: policy.predict(o, deterministic=True)[0], start)
            total += played.rewards.sum() / 4
        return total
