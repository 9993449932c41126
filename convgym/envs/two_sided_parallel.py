"""The PettingZoo parallel form: both sides act in every step, and one of them waits.

    step({agent_0: …, user_0: …})   who has the floor is heard; the other one's action is not

Waiting is the one legal act of a side without the floor: the agent's last act number, `wait`, the
user's action of zeros, in text mode "". Whoever waits with the floor says nothing, and the other
side hears silence. A cycle is one step.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv  # type: ignore[import-untyped]

from convgym.envs.two_sided import AGENT, USER, TwoSidedEnv

Steps = tuple[
    dict[str, Any], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]
]


class TwoSidedParallelEnv(ParallelEnv[str, Any, Any]):
    """`TwoSidedEnv` in parallel form; it takes the same keywords.

    ## Action and Observation Spaces
    As there, with one act more for the agent in act mode, `wait`, the last number, and the key
    `floor` in both observations: 1 for the side that is heard next.

    ## Episode End
    As there; `max_cycles` counts steps of this environment, in each of which one side is heard.
    """

    metadata: dict[str, Any] = TwoSidedEnv.metadata

    def __init__(self, environment: str, side: str = "", **keywords: Any) -> None:
        self.max_cycles = keywords.pop("max_cycles", None)
        TwoSidedEnv(environment, side, max_cycles=self.max_cycles, **keywords)
        self.aec = TwoSidedEnv(environment, side, **keywords)
        """The conversation itself, for policies that ask it for the simulated user's actions."""
        self.metadata = self.aec.metadata
        self.render_mode = self.aec.render_mode
        self.possible_agents = [*self.aec.possible_agents]
        self.agents: list[str] = []
        self.state_space = self.aec.state_space
        self._acts = isinstance(self.aec.action_space(AGENT), spaces.Discrete)
        self._action_spaces = {side: self.aec.action_space(side) for side in self.possible_agents}
        if self._acts:
            self._action_spaces[AGENT] = spaces.Discrete(self.wait + 1)
        self._observation_spaces = {side: self._space(side) for side in self.possible_agents}
        self._steps = 0

    @property
    def wait(self) -> int:
        """The number of the agent's act of waiting."""
        return len(self.aec.conversation.domain.actions)

    def _space(self, side: str) -> spaces.Dict:
        space = self.aec.observation_space(side)
        assert isinstance(space, spaces.Dict)
        parts = dict(space) | {"floor": spaces.MultiBinary(1)}
        if side == AGENT and self._acts:
            parts["action_mask"] = spaces.MultiBinary(self.wait + 1)
        return spaces.Dict(parts)

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """The same object each time."""
        return self._observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """The same object each time."""
        return self._action_spaces[agent]

    @property
    def floor(self) -> str:
        """The side that is heard in the next step."""
        return self.aec.agent_selection

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """Begin an episode; the user has the floor."""
        self.aec.reset(seed=seed, options=options)
        self.agents, self._steps = [*self.possible_agents], 0
        return self._observations(), self._infos()

    def step(self, actions: dict[str, Any]) -> Steps:
        """One step of both; raises InvalidAction where the one that is heard is not in its space.

        A side for which no action came waits.
        """
        if not self.agents:
            raise gym.error.ResetNeeded("step came without an episode under way; call reset first")
        floor, aec = self.floor, self.aec
        action = actions.get(floor)
        waits = self._acts and isinstance(action, int | np.integer) and action == self.wait
        if action is None or (floor == AGENT and waits):
            aec.pass_in_silence()
        else:
            aec.step(action)
        self._steps += 1
        rewards = {side: float(aec.rewards[side]) for side in self.agents}
        if self.max_cycles is not None and self._steps >= self.max_cycles:
            aec.cut()
            rewards = {side: float(aec.rewards[side]) for side in self.agents}
        result = (
            self._observations(), rewards, {**aec.terminations}, {**aec.truncations}, self._infos()
        )  # fmt: skip
        if any(aec.terminations.values()) or any(aec.truncations.values()):
            self.agents = []
        return result

    def _observations(self) -> dict[str, Any]:
        return {side: self._observe(side) for side in self.possible_agents}

    def _observe(self, side: str) -> dict[str, Any]:
        heard = side == self.floor
        seen = {**self.aec.observe(side), "floor": np.array([heard], dtype=np.int8)}
        if "action_mask" in seen:
            seen["action_mask"] = self._mask(side, seen["action_mask"])
        return seen

    def _mask(self, side: str, mask: Any) -> Any:
        heard = side == self.floor
        if side == USER:
            return mask if heard else self.aec.codec.masks(self.aec.codec.idle())
        whole = np.zeros(self.wait + 1, dtype=np.int8)
        if heard:
            whole[:-1] = mask
        else:
            whole[-1] = 1
        return whole

    def _infos(self) -> dict[str, dict[str, Any]]:
        infos = {side: {**self.aec.infos[side]} for side in self.possible_agents}
        for side, info in infos.items():
            if "action_mask" in info and (side == USER or self._acts):
                info["action_mask"] = self._mask(side, info["action_mask"])
        return infos

    def state(self) -> Any:
        """As `TwoSidedEnv.state`."""
        return self.aec.state()

    def render(self) -> str | None:  # type: ignore[override]
        """As `TwoSidedEnv.render`."""
        return self.aec.render()

    def close(self) -> None:
        """As `TwoSidedEnv.close`."""
        self.aec.close()
