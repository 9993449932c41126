"""A tiny environment whose chances of success are known, and the policy that has them.

    p(task, customer) = ½ ± 0.3, by the parity of the task's number
                          ± 0.15, by whether the customer is patient

`CoinPolicy` reads p from the observation and wins with that chance by its own seed, so the parts
of the variance are 0.09 of the task, nearly 0.0225 of the user, and the rest the agent's.
"""

import json

import gymnasium as gym
import numpy as np

from convgym.engine.keys import POLICY, draw
from convgym.engine.tasks import parse_task_id
from convgym.randomization.scenarios import user_key_of
from convgym.users.persona import TRAITS, draw_levels, persona_of

ID = "coins:Coins-v0"
OF_TASK, OF_USER = 0.3, 0.15
PARTS = {"task": OF_TASK**2, "user": OF_USER**2, "agent": 0.25 - OF_TASK**2 - OF_USER**2}


class CoinEnv(gym.Env):
    """Two steps; the second one's action is the result."""

    def __init__(self, split="train", privileged=False, bonus=1.0):
        self.observation_space = gym.spaces.Box(0.0, 1.0, (2,), np.float64)
        self.action_space = gym.spaces.Discrete(2)
        self.privileged, self.bonus, self.split = privileged, bonus, split

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        given = dict(options or {})
        self.task_id = given.get("task_id", f"{self.split}-0")
        self.number = parse_task_id(self.task_id)[1]
        self.levels = (
            persona_of(given["persona"]).levels
            if "persona" in given
            else draw_levels(user_key_of(given.get("user_seed", seed or 0)))
        )
        self.turn, self.won = 0, False
        return self.observe(), self.info()

    def chance(self):
        signs = (1 if self.number % 2 else -1, 1 if self.levels[0] > 50 else -1)
        return 0.5 + OF_TASK * signs[0] + OF_USER * signs[1]

    def observe(self):
        return np.array([self.chance(), self.turn / 2])

    def info(self):
        info = {
            "task_id": self.task_id,
            "action_mask": np.ones(2, dtype=np.int8),
            "success": self.won,
            "failure_reason": "" if self.won else f"tails: {self.number}",
        }
        if self.privileged:
            info["privileged"] = json.dumps(
                {"persona": dict(zip(TRAITS, self.levels, strict=True))}
            )
        return info

    def grade(self, action):
        return bool(action)

    def step(self, action):
        self.turn += 1
        self.won = self.turn == 2 and self.grade(action)
        return self.observe(), self.bonus * self.won, self.turn == 2, False, self.info()


class CoinPolicy:
    """Wins with the chance it is shown."""

    name = "coin"

    def reset(self, seed):
        self.uniform = draw(seed, POLICY, 0, 0) / 2**32

    def predict(
        self, observation, state=None, episode_start=None, deterministic=False, action_masks=None
    ):
        if deterministic:
            return int(observation[0] > 0.5), state
        return int(self.uniform < observation[0]), state


if "Coins-v0" not in gym.registry:
    gym.register("Coins-v0", entry_point="coins:CoinEnv")
