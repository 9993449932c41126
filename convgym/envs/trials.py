"""Several conversations as one episode, so that what was learnt in one may help in the next.

    reset ─► conversation 1 ─► its end, and the next one's opening ─► conversation 2 ─► … ─► end

After RL² (Duan et al., 2016, arXiv:1611.02779): credit runs through the whole trial.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from convgym.errors import InvalidConfiguration


class Trials(gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """`conversations` of the environment in a row; only the last one's end ends the episode.

        env = Trials(ConversationMemory(gym.make(id), recalled=2), conversations=3)

    The first begins with the seed, the others with what follows from it. The observation that
    ends a conversation is not shown, the next one's opening is; what it said is for a memory
    inside. `info["success"]` is of the conversation that ended; `info["conversation"]` counts from
    0. Rewards are as they come.
    """

    def __init__(self, env: gym.Env[Any, Any], conversations: int = 2) -> None:
        gym.utils.RecordConstructorArgs.__init__(self, conversations=conversations)
        gym.Wrapper.__init__(self, env)
        if conversations < 1:
            raise InvalidConfiguration(f"conversations={conversations}; a trial has 1 or more")
        self.conversations, self._done = conversations, 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin a trial; `options` are of all its conversations."""
        self._done, self._options = 0, options
        observation, info = self.env.reset(seed=seed, options=options)
        return observation, {**info, "conversation": 0}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """One step; where it ends a conversation, the next one begins."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        info = {**info, "conversation": self._done}
        if terminated or truncated:
            self._done += 1
            if self._done < self.conversations:
                observation, _ = self.env.reset(options=self._options)
                terminated = truncated = False
        return observation, reward, terminated, truncated, info
