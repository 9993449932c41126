"""One side of a two-sided conversation as a Gymnasium environment, a policy on the other.

    OneSide(env, plays="agent_0", other=policy of user_0)    train the agent against a user
    OneSide(env, plays="user_0", other=policy of agent_0)    train the user against an agent

For the agent, with the environment's own user on the other side, it is the Gymnasium environment
again: the same spaces, and the same trace for the same seed.
"""

from __future__ import annotations

from typing import Any, Protocol

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from convgym.engine.keys import child
from convgym.envs.two_sided import AGENT, USER, TwoSidedEnv
from convgym.envs.two_sided_users import BoundUser
from convgym.errors import InvalidConfiguration


class Player(Protocol):
    """What plays a side: `convgym.policies.policy.Policy`, as far as it is needed here."""

    def reset(self, seed: int) -> None:
        """Begin an episode."""

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
        action_masks: Any = None,
    ) -> tuple[Any, Any]:
        """An action and the state to hand in next time."""


class OneSide(gym.Env[Any, Any]):
    """The conversation as one side has it.

    `agent_0` sees what the Gymnasium environment shows; `user_0` sees its `Dict`, or the features
    or the message alone where the conversation has only those. `other` is asked with the same, and
    with the mask; None is the environment's own user.
    """

    metadata: dict[str, Any] = TwoSidedEnv.metadata

    def __init__(
        self, env: TwoSidedEnv, plays: str = AGENT, other: Player | None = None
    ) -> None:
        if plays not in (AGENT, USER):
            raise InvalidConfiguration(f"plays={plays!r} is neither {AGENT!r} nor {USER!r}")
        if other is None and plays == USER:
            raise InvalidConfiguration(f"{USER} needs an agent to talk to; give one as other=")
        self.conversation, self.plays = env, plays
        self.other: Player = BoundUser(env) if other is None else other
        self.render_mode = env.render_mode
        self.action_space = env.action_space(plays)
        self.observation_space = self._space()
        self._others_state: Any = None
        self._others_start = True

    def _space(self) -> spaces.Space[Any]:
        if self.plays == AGENT:
            return self.conversation.conversation.observation_space
        parts = dict(self._dict_of(USER))
        parts.pop("action_mask", None)
        return spaces.Dict(parts) if len(parts) > 1 else next(iter(parts.values()))

    def _dict_of(self, side: str) -> spaces.Dict:
        space = self.conversation.observation_space(side)
        assert isinstance(space, spaces.Dict)
        return space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode, up to where this side has the floor; options are the conversation's."""
        super().reset(seed=seed)
        drawn = int(self.np_random.integers(0, 2**63))
        self.conversation.reset(seed=seed, options=options)
        self.other.reset(child(drawn, 0))
        self._others_state, self._others_start = None, True
        self._let_others()
        return self._seen(self.plays), self.conversation.infos[self.plays]

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """One action of this side, and what the other one does until this side has the floor."""
        env = self.conversation
        env.step(action)
        reward = float(env.rewards[self.plays]) + self._let_others()
        return (
            self._seen(self.plays),
            reward,
            env.terminations[self.plays],
            env.truncations[self.plays],
            env.infos[self.plays],
        )

    def _let_others(self) -> float:
        """Let the other side act while it has the floor; what that earned this side."""
        env, earned = self.conversation, 0.0
        while not self._ended() and env.agent_selection != self.plays:
            side = env.agent_selection
            action, self._others_state = self.other.predict(
                self._seen(side),
                self._others_state,
                self._others_start,
                action_masks=env.infos[side].get("action_mask"),
            )
            self._others_start = False
            env.step(action)
            earned += float(env.rewards[self.plays])
        return earned

    def _ended(self) -> bool:
        env = self.conversation
        return env.terminations[self.plays] or env.truncations[self.plays]

    def _seen(self, side: str) -> Any:
        view = self.conversation.observe(side)
        if side == AGENT:
            return self.conversation.gymnasium_observation(view)
        parts = {name: part for name, part in view.items() if name != "action_mask"}
        return parts if len(parts) > 1 else next(iter(parts.values()))

    def action_masks(self) -> NDArray[np.int8]:
        """1 for each legal act, those of the user's turn in a row, as MaskablePPO takes them."""
        mask = self.conversation.infos[self.plays].get("action_mask")
        if mask is None:
            raise InvalidConfiguration("an utterance has no mask; take the act mode of this side")
        return np.concatenate(mask) if isinstance(mask, tuple) else mask

    @property
    def system_prompt(self) -> str:
        """What the agent is told at the beginning: policy and tools of the running episode."""
        return self.conversation.conversation.system_prompt

    @property
    def draws_tasks(self) -> bool:
        """As `ConversationEnv.draws_tasks`."""
        return self.conversation.conversation.draws_tasks

    @property
    def fixed(self) -> frozenset[str]:
        """As `ConversationEnv.fixed`."""
        return self.conversation.conversation.fixed

    def render(self) -> str | None:  # type: ignore[override]
        """As `TwoSidedEnv.render`."""
        return self.conversation.render()

    def close(self) -> None:
        """As `TwoSidedEnv.close`."""
        self.conversation.close()
