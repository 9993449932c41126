"""Policies of user_0, from the simulated user itself to one that works against the agent.

    BoundUser        the environment's own user: with it the Gymnasium trace comes out
    TerseUser        says the first thing of what that one would say, a wish and goodbye
    ErraticUser      now and then something true instead of what that one would say
    RandomActsUser   one or two acts that are true of it, at random
    ContraryUser     never helps: disputes, asks back, knows nothing, accepts everything to get away

All but the first need `user_action="act"`. All chance comes from the seed of `reset`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from convgym.engine.keys import POLICY, below, draw, threshold
from convgym.envs.two_sided import TwoSidedEnv
from convgym.errors import InvalidConfiguration


class UserPolicy:
    """Base: holds the conversation it plays in, and a keyed source of chance."""

    name = "user"

    def __init__(self, env: TwoSidedEnv) -> None:
        self.env = env
        self._key, self._steps = 0, 0

    def reset(self, seed: int) -> None:
        """Begin an episode; the same seed gives the same choices."""
        self._key, self._steps = seed & 0xFFFFFFFFFFFFFFFF, 0

    def action(self) -> Any:
        """What it does now."""
        raise NotImplementedError

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
        action_masks: Any = None,
    ) -> tuple[Any, Any]:
        """What it does now; the conversation says what there is to see."""
        action = self.action()
        self._steps += 1
        return action, state

    def _draw(self, index: int) -> int:
        return draw(self._key, POLICY, self._steps, index)

    def _legal_acts(self) -> list[int]:
        """Numbers of the acts, not calls, that are true of this user now."""
        mask = self.env.infos["user_0"]["action_mask"][0]
        return [int(n) for n in np.flatnonzero(mask) if 0 < n <= self.env.codec.acts]

    def _doing(self, numbers: list[int]) -> Any:
        action = np.zeros(self.env.codec.width, dtype=np.int64)
        action[: len(numbers)] = numbers[: len(action)]
        return action


class BoundUser(UserPolicy):
    """The environment's own user as a policy: its acts or its words, tools included."""

    name = "own"

    def action(self) -> Any:
        """What the simulated user does."""
        return self.env.own_action()


class _ActingUser(UserPolicy):
    def __init__(self, env: TwoSidedEnv) -> None:
        if env.codec.action != "act":
            raise InvalidConfiguration(
                f"{type(self).__name__} speaks in acts; make the conversation with "
                'user_action="act"'
            )
        super().__init__(env)


class TerseUser(_ActingUser):
    """The first act of what the simulated user would do; its wishes and its leave it says too."""

    name = "terse"

    def action(self) -> Any:
        """One act, or the calls that it rests on."""
        own, names = self.env.own_action(), self.env.user_names
        if own[0] > self.env.codec.acts:
            return own
        kept = [int(n) for n in own[1:] if names[n] == "bye" or names[n].startswith("request_")]
        return self._doing([int(own[0]), *kept])


class ErraticUser(_ActingUser):
    """With probability `noise` one random act that is true of it; else the simulated user's."""

    name = "erratic"

    def __init__(self, env: TwoSidedEnv, noise: float = 0.3) -> None:
        super().__init__(env)
        self._noise = threshold(noise)

    def action(self) -> Any:
        """Its own or another."""
        if self._draw(0) >= self._noise:
            return self.env.own_action()
        legal = self._legal_acts()
        return self._doing([legal[below(self._draw(1), len(legal))]])


class RandomActsUser(_ActingUser):
    """One or two of the acts that are true of it, uniformly."""

    name = "random acts"

    def action(self) -> Any:
        """Anything true."""
        legal = self._legal_acts()
        count = 1 + below(self._draw(0), 2)
        return self._doing([legal[below(self._draw(1 + k), len(legal))] for k in range(count)])


class ContraryUser(_ActingUser):
    """States its wish once, then obstructs; what it never does is tell the agent anything."""

    name = "contrary"
    tricks = (
        "affirm", "push_back", "dont_know", "challenge_done", "accept_refusal", "ask_back",
        "negate", "frustrated", "challenge", "accept_alternative", "ask_why", "hold",
    )  # fmt: skip

    def action(self) -> Any:
        """The wish at first, then one trick after another, of those that its language has."""
        names = self.env.user_names
        if not self._steps:
            wishes = [n for n in self._legal_acts() if names[n].startswith("request_")]
            if wishes:
                return self._doing(wishes[:1])
        there = [names.index(trick) for trick in self.tricks if trick in names]
        return self._doing([there[below(self._draw(0), len(there))]])
