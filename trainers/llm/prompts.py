"""Prompts as an environment of one turn: asked, answered, rewarded, over.

reset(seed) ─► a prompt ─► step(reply) ─► reward of the conversation, terminated
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
from gymnasium import spaces

from convgym.errors import InvalidConfiguration
from convgym.spaces import CHARSET, sanitize

LENGTH = 16_384


class PromptEnvironment(gym.Env[str, str]):
    """One of `prompts` an episode; the seed says which. Rewards come from a reward function."""

    def __init__(self, prompts: Sequence[str]) -> None:
        if not prompts or not all(isinstance(prompt, str) for prompt in prompts):
            raise InvalidConfiguration("prompts are texts, and one or more; give a list of str")
        self.prompts = [sanitize(prompt, LENGTH) for prompt in prompts]
        self.observation_space = spaces.Text(LENGTH, min_length=0, charset=CHARSET)
        self.action_space = spaces.Text(LENGTH, min_length=0, charset=CHARSET)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Ask."""
        super().reset(seed=seed)
        place = int(self.np_random.integers(len(self.prompts)))
        return self.prompts[place], {"task_id": f"prompt-{place}", "success": False}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Over."""
        return "", 0.0, True, False, {"task_id": "", "success": False}
