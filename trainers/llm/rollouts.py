"""Conversations that a model has had: what it read and sampled, token by token, and what it earned.

    segment    ├─ prompt ─┤ reply ├─ prompt ─┤ reply ┤      tokens (L,)
    turns       −1 −1 −1   0  0  0  −1 −1 −1   1  1         agent turn of what was sampled
    log_probs    0  0  0   ℓ  ℓ  ℓ   0  0  0   ℓ  ℓ         as the program that sampled gave them

Tokens are kept as they were sampled and are never encoded again; texts are derived from them. A
conversation is one segment, unless what the model read was edited on the way (a context that is
compressed): then each piece that was read as one is a segment of its own, and turns count on.

    rollouts ─► RolloutBatch ─► rows (B, T) of segments, for the model
                             ─► episodes (R, T') of conversations, for credit;  on_rows: back

Knows nothing of models, environments or losses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from convgym.errors import InvalidConfiguration, MissingExtra
from trainers.llm.conversations import Message
from trainers.llm.credit import Episodes

try:
    import torch
    from torch import Tensor
except ImportError as error:
    raise MissingExtra(error.name or "torch", "llm") from error


@dataclass(frozen=True, eq=False)
class Segment:
    """L tokens that were read and sampled as one sequence."""

    tokens: NDArray[np.int64]  # (L,)
    turns: NDArray[np.int64]  # (L,) agent turn of a sampled token, −1 elsewhere
    log_probs: NDArray[np.float32]  # (L,) of the sampler, at its temperature; 0 where turns is −1

    @property
    def loss_mask(self) -> NDArray[np.int8]:
        """1 on sampled tokens.  # (L,)"""
        return (self.turns >= 0).astype(np.int8)


@dataclass(frozen=True, eq=False, kw_only=True)
class Rollout:
    """One conversation of N agent turns."""

    segments: tuple[Segment, ...]
    rewards: NDArray[np.float64]  # (N,) what each agent turn earned
    group: int
    """Equal for rollouts of one task, persona and user seed."""
    seed: int
    """What the environment was reset with."""
    messages: tuple[Message, ...] = ()
    """What was said, for people, judges and reward models."""
    terminated: bool = True
    """False where the conversation was cut off."""
    success: bool = False
    """`info["success"]` of the last step, where the environment tells it."""
    task: str = ""
    """`info["task_id"]`, where the environment tells it."""
    error: str = ""
    """Why the rollout failed: an environment, a judge or a writer that raised. Else empty."""
    version: int = 0
    """Optimiser steps that the policy had seen when it sampled."""

    @property
    def valid(self) -> bool:
        """Whether it may teach: nothing failed, and something was sampled."""
        return not self.error and self.sampled > 0

    @property
    def return_(self) -> float:
        """Sum of rewards."""
        return float(self.rewards.sum())

    @property
    def sampled(self) -> int:
        """Number of sampled tokens."""
        return sum(int(segment.loss_mask.sum()) for segment in self.segments)


@dataclass(frozen=True, eq=False)
class Rows:
    """B segments of at most T tokens, padded on the right."""

    tokens: Tensor  # (B, T) long, 0 where nothing stands
    attention: Tensor  # (B, T) bool
    turns: Tensor  # (B, T) long, −1 where the agent did not sample
    log_probs: Tensor  # (B, T) float32, the sampler's
    rollouts: Tensor  # (B,) which rollout of the batch a row belongs to

    @property
    def mask(self) -> Tensor:
        """1 on sampled tokens.  # (B, T) bool"""
        return self.turns >= 0

    @property
    def lengths(self) -> Tensor:
        """Tokens of each row.  # (B,)"""
        return self.attention.sum(-1)

    def at(self, index: Tensor) -> Rows:
        """Some of the rows, without the padding that none of them needs."""
        width = int(self.lengths[index].max())
        return Rows(
            self.tokens[index, :width],
            self.attention[index, :width],
            self.turns[index, :width],
            self.log_probs[index, :width],
            self.rollouts[index],
        )

    def to(self, device: torch.device | str) -> Rows:
        """The same rows elsewhere."""
        return Rows(*(getattr(self, name).to(device) for name in self.__dataclass_fields__))


class RolloutBatch:
    """R rollouts as tensors; failed ones are left out, for they are in no mean either.

    Raises InvalidConfiguration where no rollout is left.
    """

    def __init__(self, rollouts: Sequence[Rollout]) -> None:
        self.rollouts = [rollout for rollout in rollouts if rollout.valid]
        if not self.rollouts:
            reasons = sorted({rollout.error or "nothing was sampled" for rollout in rollouts})
            raise InvalidConfiguration(
                f"all {len(rollouts)} rollouts failed: {'; '.join(reasons)[:300]}. Repair the "
                "environment, the reward or the sampling limits"
            )
        self._segments = [
            (r, s) for r, rollout in enumerate(self.rollouts) for s in rollout.segments
        ]

    def __len__(self) -> int:
        return len(self.rollouts)

    @cached_property
    def rows(self) -> Rows:
        """A row for every segment, in the order of the rollouts."""
        segments = [segment for _, segment in self._segments]
        return Rows(
            _padded([s.tokens for s in segments], 0, torch.long),
            _padded([np.ones(len(s.tokens)) for s in segments], 0, torch.bool),
            _padded([s.turns for s in segments], -1, torch.long),
            _padded([s.log_probs for s in segments], 0, torch.float32),
            torch.tensor([r for r, _ in self._segments]),
        )

    @cached_property
    def groups(self) -> Tensor:
        """(R,)"""
        return torch.tensor([rollout.group for rollout in self.rollouts])

    @cached_property
    def returns(self) -> Tensor:
        """The return of each rollout.  # (R,) float64"""
        return torch.tensor([rollout.return_ for rollout in self.rollouts], dtype=torch.float64)

    def episodes(self, values: Tensor | None = None, bootstrap: Tensor | None = None) -> Episodes:
        """What credit is assigned to; a conversation's segments stand one after the other.

        `values` (B, T) and `bootstrap` (R,) are the critic's, of `rows` and of rollouts.
        """
        rewards = _padded([r.rewards for r in self.rollouts], 0, torch.float64)
        played = _padded([np.ones(len(r.rewards)) for r in self.rollouts], 0, torch.bool)
        turns = [np.concatenate([s.turns for s in r.segments]) for r in self.rollouts]
        return Episodes(
            rewards=rewards.float(),
            played=played,
            turns=_padded(turns, -1, torch.long),
            groups=self.groups,
            valid=torch.ones(len(self), dtype=torch.bool),
            values=None if values is None else self._joined(values),
            bootstrap=bootstrap,
        )

    def on_rows(self, values: Tensor) -> Tensor:
        """Numbers of conversations' tokens as numbers of rows' tokens.  (R, T') → (B, T)"""
        attention = self.rows.attention
        found = values.new_zeros(attention.shape)
        begun = [0] * len(self)
        for row, (rollout, segment) in enumerate(self._segments):
            first, length = begun[rollout], len(segment.tokens)
            found[row, :length] = values[rollout, first : first + length]
            begun[rollout] += length
        return found

    def _joined(self, values: Tensor) -> Tensor:
        """The inverse of `on_rows`.  (B, T) → (R, T')"""
        lengths = [sum(len(s.tokens) for s in r.segments) for r in self.rollouts]
        found = values.new_zeros((len(self), max(lengths)))
        begun = [0] * len(self)
        for row, (rollout, segment) in enumerate(self._segments):
            first, length = begun[rollout], len(segment.tokens)
            found[rollout, first : first + length] = values[row, :length]
            begun[rollout] += length
        return found


def _padded(rows: Sequence[NDArray[np.generic]], fill: float, dtype: torch.dtype) -> Tensor:
    found = torch.full((len(rows), max(len(row) for row in rows)), fill, dtype=dtype)
    for place, row in enumerate(rows):
        found[place, : len(row)] = torch.as_tensor(np.ascontiguousarray(row)).to(dtype)
    return found
