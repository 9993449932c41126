"""Null policies: what must score about nothing in a sound environment.

They speak or call without listening. `FixedReplies` speak text, the others are over act numbers;
which replies and acts a domain's null policies have stands in the module of its policies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.engine.actions import ActionTable
from convgym.engine.acts import FIRST_TOOL
from convgym.policies.policy import ActPolicy, Probabilities

END = '<tool_call>{"name": "end_conversation", "arguments": {}}</tool_call>'
TRANSFER = '<tool_call>{"name": "transfer_to_human", "arguments": {}}</tool_call>'
GREETING = "Hello, how can I help you today?"


class FixedReplies:
    """Says its replies in turn, whatever comes back."""

    def __init__(self, name: str, replies: tuple[str, ...]) -> None:
        self.name = name
        self.propensity = 1.0
        self._replies, self._step = replies, 0

    def reset(self, seed: int) -> None:
        """Begin again with the first reply."""
        self._step = 0

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
        action_masks: NDArray[np.int8] | None = None,
    ) -> tuple[str, Any]:
        """The next reply of the round."""
        reply = self._replies[self._step % len(self._replies)]
        self._step += 1
        return reply, state


EVERYWHERE: dict[str, tuple[str, ...]] = {
    "done": (END,),
    "silence": ("",),
    "greet-only": (GREETING,),
    "transfer-always": (TRANSFER,),
}
"""Replies of the null policies that are the same in every domain, by name."""


def fixed_replies(replies: Mapping[str, tuple[str, ...]]) -> dict[str, Callable[[], FixedReplies]]:
    """Makers of the null policies that every domain has, and of one for each of `replies`."""
    return {
        name: partial(FixedReplies, name, said)
        for name, said in {**EVERYWHERE, **replies}.items()
    }


class RandomToolPolicy(ActPolicy):
    """A uniformly random legal tool call each step; never says a word."""

    name = "random-tool"

    def __init__(self, actions: ActionTable) -> None:
        super().__init__()
        self._tools = np.array([action.kind >= FIRST_TOOL for action in actions.actions])

    def action_probs(self, observation: Any, action_masks: NDArray[np.int8]) -> Probabilities:
        """Uniform over the legal tools."""
        legal = (action_masks * self._tools).astype(np.float64)
        return legal / legal.sum()


class OpenLoopPolicy(ActPolicy):
    """Does its acts in turn, leaving out what is not legal, and reads nothing else.

    These are no null policies: they authenticate by the book. What they score is what a constant
    behaviour is worth once that is done.
    """

    def __init__(self, name: str, names: tuple[str, ...], actions: ActionTable) -> None:
        super().__init__()
        self.name = name
        self._acts, self._at = [actions[one] for one in names], 0

    def reset(self, seed: int) -> None:
        """Begin again with the first act."""
        super().reset(seed)
        self._at = 0

    def action_probs(self, observation: Any, action_masks: NDArray[np.int8]) -> Probabilities:
        """1 on the next legal act; the last one is repeated."""
        while self._at < len(self._acts) - 1 and not action_masks[self._acts[self._at]]:
            self._at += 1
        act = self._acts[self._at]
        self._at = min(self._at + 1, len(self._acts) - 1)
        probabilities = np.zeros(len(action_masks))
        probabilities[act] = 1.0
        return probabilities
