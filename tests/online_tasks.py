"""Small tasks for online learners: doors with masks, something to remember, a target to hit."""

import gymnasium as gym
import numpy as np


class Doors(gym.Env):
    """Three doors, each opened by the act that the observation names; who is wrong is out.

    4 of 8 acts are legal, others each turn; an illegal one ends the test.
    """

    observation_space = gym.spaces.Box(0.0, 1.0, (8,), np.float32)
    action_space = gym.spaces.Discrete(8)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.door = 0
        return self.observe(), self.info()

    def observe(self):
        legal = self.np_random.permutation(8)[:4]
        self.mask = np.zeros(8, dtype=np.int8)
        self.mask[legal] = 1
        self.key = int(legal[0])
        return np.eye(8, dtype=np.float32)[self.key]

    def action_masks(self):
        return self.mask

    def info(self):
        return {"action_mask": self.mask.copy()}

    def step(self, action):
        assert self.mask[action], "an illegal act was done"
        right = int(action) == self.key
        self.door += right
        done = bool(not right or self.door == 3)
        return self.observe(), float(right) / 3, done, False, self.info()


class DoorsOfParts(Doors):
    """The same, seen as two parts: the key as a number, and noise."""

    observation_space = gym.spaces.Dict(
        {"key": gym.spaces.Discrete(8), "noise": gym.spaces.Box(-1.0, 1.0, (2, 2), np.float32)}
    )

    def observe(self):
        super().observe()
        noise = self.np_random.uniform(-1.0, 1.0, (2, 2)).astype(np.float32)
        return {"key": self.key, "noise": noise}


class Recall(gym.Env):
    """What the first observation shows must be done after the second, which shows nothing."""

    observation_space = gym.spaces.Box(0.0, 1.0, (4,), np.float32)
    action_space = gym.spaces.Discrete(4)
    masks = False

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.turn, self.key = 0, int(self.np_random.integers(4))
        return np.eye(4, dtype=np.float32)[self.key], {}

    def step(self, action):
        self.turn += 1
        reward = float(self.turn == 2 and int(action) == self.key)
        return np.zeros(4, dtype=np.float32), reward, self.turn == 2, False, {}


class MaskedRecall(Recall):
    """The same with masks: one of the wrong acts is illegal."""

    def action_masks(self):
        mask = np.ones(4, dtype=np.int8)
        mask[(self.key + 1 + self.turn) % 4] = 0
        return mask

    def reset(self, *, seed=None, options=None):
        observation, _ = super().reset(seed=seed)
        return observation, {"action_mask": self.action_masks()}

    def step(self, action):
        assert self.action_masks()[action], "an illegal act was done"
        observation, reward, done, cut, _ = super().step(action)
        return observation, reward, done, cut, {"action_mask": self.action_masks()}


class Target(gym.Env):
    """A vector that must come close to the one shown."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.shown = self.np_random.uniform(-0.8, 0.8, 2).astype(np.float32)
        return self.shown, {}

    def step(self, action):
        return self.shown, 1.0 - float(np.abs(action - self.shown).sum()), True, False, {}


class Question(gym.Env):
    """One of two sentences, and the act that answers it."""

    observation_space = gym.spaces.Text(40)
    action_space = gym.spaces.Discrete(2)
    sentences = ("Where is my parcel?", "Please cancel the order.")

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.key = int(self.np_random.integers(2))
        return self.sentences[self.key], {}

    def step(self, action):
        return self.sentences[self.key], float(int(action) == self.key), True, False, {}


class QuestionOfParts(Question):
    """The same sentence as one part of three."""

    observation_space = gym.spaces.Dict(
        {
            "message": gym.spaces.Text(40),
            "policy": gym.spaces.Text(40),
            "turn": gym.spaces.Box(0, 9, (1,), np.int64),
        }
    )

    def reset(self, *, seed=None, options=None):
        message, info = super().reset(seed=seed)
        return self.parts(message), info

    def step(self, action):
        message, *rest = super().step(action)
        return self.parts(message), *rest

    def parts(self, message):
        return {"message": message, "policy": "Be kind.", "turn": np.zeros(1, dtype=np.int64)}


def mean_return(policy, env, episodes=200, deterministic=False):
    """What a policy earns in an environment, a mean over seeded episodes."""
    from convgym.evaluation.rollout import play

    played = [
        play(env, policy, seed=1000 + number, deterministic=deterministic, keep=False)
        for number in range(episodes)
    ]
    return sum(one.return_ for one in played) / episodes
