"""An act policy that speaks: its acts become replies in words, tool calls included.

Works on `observation="dict"`, whose `view` holds what the words need.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.domains.catalogue import domain_called
from convgym.engine.keys import WORDING, draw
from convgym.language.phrases import PhraseBank
from convgym.policies.policy import ActPolicy


class RenderedPolicy:
    """`policy`'s acts in the words of `bank`; which wording is drawn from the episode's seed."""

    def __init__(
        self, policy: ActPolicy, bank: PhraseBank | None = None, domain: str = "customer-service"
    ) -> None:
        self.policy = policy
        self.name = f"{policy.name} in words"
        self._domain = domain_called(domain)
        self._bank = bank or self._domain.agent_banks()["train"]
        self._key, self._step = 0, 0
        self.act = -1
        """Number of the act behind the newest reply."""

    @property
    def propensity(self) -> float:
        """Probability of the act behind the newest reply."""
        return self.policy.propensity

    def reset(self, seed: int) -> None:
        """Begin an episode; the same seed gives the same words."""
        self.policy.reset(seed)
        self._key, self._step = seed, 0

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
        action_masks: NDArray[np.int8] | None = None,
    ) -> tuple[str, Any]:
        """The next reply. In text mode the mask is all ones; legality comes from the belief."""
        belief = observation["features"]
        mask = self._domain.actions.mask((belief > 0).astype(np.uint8))
        self.act, state = self.policy.predict(
            observation, state, episode_start, deterministic, action_masks=mask
        )
        drawn = draw(self._key, WORDING, self._step, 7)
        self._step += 1
        view = json.loads(observation["view"])
        return self._domain.agent_reply(self.act, view, self._bank, drawn), state

    def rewarded(self, reward: float) -> None:
        """The reward of the newest reply, if the policy listens to it."""
        rewarded = getattr(self.policy, "rewarded", None)
        if rewarded is not None:
            rewarded(reward)
