"""What a Decision Transformer remembers of conversations that are being played.

    turn        see(observation) ─► outputs ─► did(action) ─► rewarded(reward)
    a row       s4  s5  s6  ·        the last turns, padded on the right
                a4  a5  ·   ·
                R4  R5  R6  ·        R: what is still asked for when the turn begins

Knows nothing of how actions are chosen.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from convgym.policies.batched import Rows
from trainers.offline.transformer import Architecture, DecisionTransformer


class Past:
    """The last turns of some conversations, one to a row, padded on the right."""

    def __init__(self, architecture: Architecture, discount: float, rows: int) -> None:
        self._architecture = known = architecture
        self._discount = discount
        vector = () if known.discrete else (known.actions,)
        self.states = np.zeros((rows, known.context, known.observation), dtype=np.float32)
        self.actions = np.zeros(
            (rows, known.context, *vector), dtype=np.int64 if known.discrete else np.float32
        )
        self.returns = np.zeros((rows, known.context), dtype=np.float32)
        self.turns = np.zeros(rows, dtype=np.int64)  # seen since the beginning
        self.to_go, self.earned = np.zeros(rows), np.zeros(rows)  # earned since the newest turn

    def make_room(self, rows: int) -> None:
        """Have at least so many rows."""
        more = Past(self._architecture, self._discount, max(0, rows - len(self.turns)))
        for name in ("states", "actions", "returns", "turns", "to_go", "earned"):
            setattr(self, name, np.concatenate([getattr(self, name), getattr(more, name)]))

    def begin(self, rows: Rows, target: float) -> None:
        """Forget what was, and ask for `target`."""
        self.turns[rows], self.to_go[rows], self.earned[rows] = 0, target, 0.0

    def see(self, rows: Rows, observations: Any) -> None:
        """A turn begins in each of these rows; where there is no room, the oldest one goes."""
        full = rows[self.turns[rows] >= self._architecture.context]
        for column in (self.states, self.actions, self.returns):
            column[full, :-1] = column[full, 1:]
        asked = (self.to_go[rows] - self.earned[rows]) / self._discount
        self.to_go[rows] = np.where(self.turns[rows] > 0, asked, self.to_go[rows])
        self.earned[rows] = 0.0
        self.turns[rows] += 1
        place = self._lengths(rows) - 1
        self.states[rows, place], self.returns[rows, place] = observations, self.to_go[rows]

    def did(self, rows: Rows, actions: Any) -> None:
        """The actions of these turns."""
        self.actions[rows, self._lengths(rows) - 1] = actions

    def rewarded(self, rows: Rows, rewards: Any) -> None:
        """What these turns earned; the next one asks for (R − r) / γ."""
        self.earned[rows] += rewards

    def outputs(self, model: DecisionTransformer, rows: Rows) -> NDArray[np.float32]:
        """The model's logits or vectors for the newest turns.  # (k, actions)"""
        lengths = self._lengths(rows)
        longest = int(lengths.max())
        timesteps = (self.turns[rows] - lengths)[:, None] + np.arange(longest)
        seen = [column[rows, :longest] for column in (self.states, self.actions, self.returns)]
        return last_outputs(model, (*seen, timesteps), lengths)

    def _lengths(self, rows: Rows) -> NDArray[np.int64]:
        return np.minimum(self.turns[rows], self._architecture.context)


def last_outputs(
    model: DecisionTransformer, columns: Iterable[NDArray[Any]], lengths: NDArray[np.int64]
) -> NDArray[np.float32]:
    """`DecisionTransformer.last` of arrays: states, actions, returns, timesteps.  # (k, actions)"""
    device = model.low.device
    states, actions, returns, turns = (torch.as_tensor(part, device=device) for part in columns)
    ends = torch.as_tensor(lengths, device=device)
    return np.asarray(model.last(states, actions, returns, turns, lengths=ends).cpu())
