"""A task to tune on: two doors of 24 colours, each opened by the act that its colour names.

Few turns are enough with large steps and too few with those that a learner takes by default.
"""

from types import SimpleNamespace

import gymnasium as gym
import numpy as np

ID = "Tuning/Doors-v0"
COLOURS = 24
STEPS = 400


class TuningDoors(gym.Env):
    """1 for each door that opens; the episode ends after two."""

    observation_space = gym.spaces.Box(0.0, 1.0, (COLOURS,), np.float32)
    action_space = gym.spaces.Discrete(COLOURS)
    domain = SimpleNamespace(layout=tuple(f"colour_{colour}" for colour in range(COLOURS)))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.opened = self.met = 0
        return self._seen(), self._info()

    def _seen(self):
        self.colour = int(self.np_random.integers(COLOURS))
        return np.eye(COLOURS, dtype=np.float32)[self.colour]

    def _info(self):
        mask = np.ones(COLOURS, dtype=np.int8)
        return {"action_mask": mask, "success": self.opened == 2}

    def step(self, action):
        right = int(action) == self.colour
        self.opened, self.met = self.opened + right, self.met + 1
        return self._seen(), float(right), self.met == 2, False, self._info()


if ID not in gym.registry:
    gym.register(ID, entry_point=TuningDoors)
