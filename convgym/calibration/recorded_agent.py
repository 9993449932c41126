"""An agent that answers as the agents of a log did to the most similar user turn.

    "i need a train to ely" ─► the nearest turns of the log's users ─► what was answered to one

A partner for the log's users that needs no model: it keeps to the log's acts and words, stays with
a recorded conversation while it fits, and has no goal of its own. Where a log has no agents, it
says that it listens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from convgym.calibration.signatures import LoggedUser
from convgym.engine.keys import MASK, POLICY, below, draw
from convgym.language.encoders import Encoder, HashedEncoder

NEAREST = 3
"""Turns among which one is drawn."""
FOLLOWS = 0.3
"""Cosine that the next turn of the conversation it was in is worth."""
LISTENING = ("Sure.", "One moment, please.", "All right.", "I see.", "Let me look into that.")


class RecordedAgent:
    """A policy on `message` or `dict` observations, in text."""

    name = "recorded"

    def __init__(self, log: Sequence[LoggedUser], encoder: Encoder | None = None) -> None:
        """log: conversations that it has seen, as `LogSimulator.log` holds them."""
        self._encoder = encoder or HashedEncoder()
        pairs = [
            (owner, turn.text, after.heard.text)
            for owner, user in enumerate(log)
            for turn, after in zip(user.turns, user.turns[1:], strict=False)
            if after.heard.text
        ]
        self._owners = [owner for owner, _, _ in pairs]
        self._replies = [reply for _, _, reply in pairs]
        self._vectors = self._encoder.encode([text for _, text, _ in pairs])
        self._key, self._turn, self._last = 0, 0, -1

    def reset(self, seed: int) -> None:
        """Begin an episode; the same seed gives the same choices."""
        self._key, self._turn, self._last = seed & MASK, 0, -1

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
        action_masks: Any = None,
    ) -> tuple[str, Any]:
        """The reply to the user's newest turn; the nearest one's where `deterministic`."""
        text = observation["message"] if isinstance(observation, dict) else str(observation)
        drawn = draw(self._key, POLICY, self._turn, 0)
        self._turn += 1
        if not self._replies:
            return LISTENING[0 if deterministic else below(drawn, len(LISTENING))], state
        likeness = self._vectors @ self._encoder.encode([text])[0]
        after = self._last + 1
        if 0 < after < len(likeness) and self._owners[after] == self._owners[self._last]:
            likeness[after] += FOLLOWS
        few = min(NEAREST, len(likeness))
        nearest = np.argsort(-likeness, kind="stable")[:few]
        self._last = int(nearest[0 if deterministic else below(drawn, few)])
        return self._replies[self._last], state
