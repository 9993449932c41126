"""Minari episodes as torch tensors: batches of transitions, and of padded sequences.

    episodes         o0 o1 o2 | o0 o1 o2 o3 | o0 o1         T + 1 rows each, one beside the other
    transition n      0  1        2  3  4      5            row(n); its next observation is row + 1
    Transitions[n]   {observations, actions, rewards, next_observations, terminated, …}

    context 4        turn      –  0  1  2        the window that ends with turn 2, padded left
    Sequences[n]     attention 0  1  1  1        {…, returns_to_go, timesteps, attention_mask}

Both are map-style `torch.utils.data.Dataset`s that also take a tensor of indices, and gather a
whole batch at once:

    for indices in SeededBatches(len(data), 256, seed=0):
        batch = data[indices]

or `DataLoader(data, sampler=SeededBatches(…), batch_size=None)`. Observations are held once, so a
data set takes the memory of its arrays. Knows nothing of learners.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from convgym.data.transitions import EpisodeArrays, read_episodes
from convgym.errors import DatasetError, InvalidConfiguration, MissingExtra

try:
    import torch
    from torch import Tensor
    from torch.utils.data import Dataset, Sampler
except ImportError as error:
    raise MissingExtra(error.name or "torch", "offline") from error

if TYPE_CHECKING:
    from minari import MinariDataset

Indices = Any
"""An int, or a tensor, array or list of ints of any shape."""


class Items(Protocol):
    """What batches are drawn from."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: Indices) -> dict[str, Tensor]: ...


class Transitions(Dataset[dict[str, Tensor]]):
    """Every transition of every episode, in their order.

    `data` is a Minari dataset or what `read_episodes` made of one, with its discount. Indexed with
    indices of shape (B, …), it gives

        observations, next_observations    (B, …, features)  as stored, or of `dtype`
        actions                            (B, …)            int64; vectors float32
        rewards, returns_to_go             (B, …)            float32
        conversation_returns               (B, …)            float32; of the whole conversation
        terminated                         (B, …)            float32; 1 where nothing follows
        discounts                          (B, …)            float32; what the next state's value
                                                             counts: γ, or 0 where terminated
        masks, next_masks                  (B, …, A)         bool, where every episode has them;
                                                             all True where nothing is legal, as
                                                             after an end: a softmax stays finite
        propensities                       (B, …)            float32, where every episode has them

    An episode that was cut off is not terminated: bootstrap from its `next_observations`.

    With `n_step` above 1, a transition spans up to that many turns of its episode: `rewards` is
    their discounted sum, `next_observations` and `next_masks` are those after them, `discounts`
    is γ to the number of turns. What others did in between is not corrected for.

    Raises DatasetError for no episodes, or for observations that are no arrays of numbers.
    """

    def __init__(
        self,
        data: MinariDataset | Sequence[EpisodeArrays],
        *,
        part: str = "features",
        device: str | torch.device = "cpu",
        dtype: torch.dtype | None = None,
        discount: float = 1.0,
        n_step: int = 1,
    ) -> None:
        if n_step < 1:
            raise InvalidConfiguration(f"n_step={n_step}; it must be 1 or more")
        episodes = data if isinstance(data, Sequence) else read_episodes(data, discount, part)
        if not episodes:
            raise DatasetError("there are no episodes to learn from")
        stored = [array for e in episodes for array in (e.observations, e.actions)]
        if any(np.asarray(array).dtype.kind not in "iufb" for array in stored):
            raise DatasetError(
                "torch takes numbers, and these observations or actions are none; encode them "
                "first, or read texts with trainers.llm.conversations"
            )
        self.lengths = np.array([len(episode) for episode in episodes])  # (episodes,)
        before = np.repeat(np.arange(len(episodes)), self.lengths)  # rows o_T of earlier episodes
        self._rows = torch.as_tensor(np.arange(len(before)) + before, device=device)
        left = np.concatenate([np.arange(len(e), 0, -1) for e in episodes])
        spans = np.minimum(left, n_step)  # turns that a transition spans
        self._next_rows = self._rows + torch.as_tensor(spans, device=device)

        def joined(arrays: Sequence[Any], dtype: torch.dtype | None = None) -> Tensor:
            return torch.as_tensor(np.concatenate(arrays)).to(device, dtype)

        self._observations = joined([episode.observations for episode in episodes], dtype)
        acts = episodes[0].actions.dtype.kind in "iu"
        self._actions = joined(
            [e.actions for e in episodes], torch.int64 if acts else torch.float32
        )
        ended = np.concatenate([np.full(len(e), e.terminated) for e in episodes])
        numbers: dict[str, Any] = {
            "rewards": np.concatenate([_summed(e.rewards, discount, n_step) for e in episodes]),
            "returns_to_go": np.concatenate([e.returns for e in episodes]),
            "conversation_returns": np.repeat([e.rewards.sum() for e in episodes], self.lengths),
            "terminated": ended & (left == 1),
            "discounts": np.where(ended & (left == spans), 0.0, discount**spans),
        }
        odds = [e.propensities for e in episodes if e.propensities is not None]
        if len(odds) == len(episodes):
            numbers["propensities"] = np.concatenate(odds)
        # Numbers of a turn lie side by side, so that a batch of them all is one look-up.
        self._columns = list(numbers)
        self._numbers = joined([np.stack(list(numbers.values()), axis=1)], torch.float32)
        masks = [e.masks for e in episodes if e.masks is not None]
        self._masks = joined(masks, torch.bool) if len(masks) == len(episodes) else None
        if self._masks is not None:
            self._masks |= ~self._masks.any(1, keepdim=True)

    def __len__(self) -> int:
        return len(self._rows)

    def conversation_returns(self) -> Tensor:
        """Undiscounted return of each conversation.  # (conversations,)"""
        ends = torch.as_tensor(np.cumsum(self.lengths) - 1, device=self._rows.device)
        return self._numbers[ends, self._columns.index("conversation_returns")]

    def has(self, name: str) -> bool:
        """Whether batches have this field."""
        return name in self._columns or (self._masks is not None and name.endswith("masks"))

    def actions(self) -> Tensor:
        """Of every turn.  # (turns, …)"""
        return self._actions

    def __getitem__(self, index: Indices) -> dict[str, Tensor]:
        index = torch.as_tensor(index, device=self._rows.device)
        rows, next_rows = self._rows[index], self._next_rows[index]
        batch = {
            "observations": _looked_up(self._observations, rows),
            "next_observations": _looked_up(self._observations, next_rows),
            "actions": _looked_up(self._actions, index),
        }
        numbers = _looked_up(self._numbers, index).unbind(-1)
        batch |= dict(zip(self._columns, numbers, strict=True))
        if self._masks is not None:
            batch["masks"] = _looked_up(self._masks, rows)
            batch["next_masks"] = _looked_up(self._masks, next_rows)
        return batch


def _looked_up(table: Tensor, index: Tensor) -> Tensor:
    """`table[index]`, in half the time where rows are short.  (rows, …), (B, …) → (B, …, …)"""
    return table.index_select(0, index.reshape(-1)).reshape(*index.shape, *table.shape[1:])


def _summed(rewards: Any, discount: float, n_step: int) -> Any:
    """Σ_i γ^i r_{t+i} over up to `n_step` turns.  # (T,)"""
    total = np.array(rewards, dtype=np.float64)
    for ahead in range(1, min(n_step, len(rewards))):
        total[:-ahead] += discount**ahead * rewards[ahead:]
    return total


class Sequences(Dataset[dict[str, Tensor]]):
    """Windows of up to `context` agent turns of one episode, padded to `context`.

    Windows end at an episode's last turn, `stride` turns before it, and so on: with the stride 1
    at every turn, as a Decision Transformer meets them when it acts (Chen et al., 2021,
    arXiv:2106.01345); with the stride `context` every turn is in one window, and episodes of up to
    `context` turns are whole. In each item, the fields of `Transitions` with a leading (context,),
    zeros where there is padding, and

        timesteps        (context,)  int64; the turn's number in its episode, from 0
        attention_mask   (context,)  bool; False where there is padding

    Padding comes first (`"left"`) or last (`"right"`). Masks of padding are all True, so that a
    softmax over legal acts stays finite there; a loss must leave padding out by `attention_mask`.

    Raises InvalidConfiguration for a context or stride below 1, a stride that skips turns, or
    another padding.
    """

    def __init__(
        self, turns: Transitions, context: int, *, stride: int = 1, padding: str = "left"
    ) -> None:
        if not 1 <= stride <= context:
            raise InvalidConfiguration(
                f"context={context}, stride={stride}; both are 1 or more, and a stride above the "
                "context would skip turns"
            )
        if padding not in ("left", "right"):
            raise InvalidConfiguration(f'padding={padding!r}; it is "left" or "right"')
        self.turns, self.context, self._left = turns, context, padding == "left"
        numbers = np.concatenate([np.arange(length) for length in turns.lengths])
        left = np.repeat(turns.lengths, turns.lengths) - 1 - numbers  # turns that still follow
        device = turns._rows.device
        self._timesteps = torch.as_tensor(numbers, device=device)
        self._ends = torch.as_tensor(np.flatnonzero(left % stride == 0), device=device)

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, index: Indices) -> dict[str, Tensor]:
        end = self._ends[torch.as_tensor(index, device=self._ends.device)][..., None]
        here = (self._timesteps[end] + 1).clamp(max=self.context)  # turns in the window
        place = torch.arange(self.context, device=end.device)
        ago = self.context - 1 - place if self._left else here - 1 - place
        real = (ago >= 0) & (ago < here)  # (…, context)
        turns = torch.where(real, end - ago, end)
        fields = {**self.turns[turns], "timesteps": self._timesteps[turns]}
        for name, column in fields.items():
            shown = real.reshape(real.shape + (1,) * (column.ndim - real.ndim))
            fields[name] = column.masked_fill_(~shown, name.endswith("masks"))
        return {**fields, "attention_mask": real}


class SeededBatches(Sampler[Tensor]):
    """Batches of the indices 0 … size - 1 in random order, every index once an epoch.

    Each pass is an epoch with an order of its own, drawn from `seed` and the epoch's number alone;
    set `epoch` to go on where a run stopped. The last batch may be smaller.
    """

    def __init__(self, size: int, batch_size: int, seed: int = 0) -> None:
        if size < 1 or batch_size < 1:
            raise InvalidConfiguration(f"size={size}, batch_size={batch_size}; at least 1")
        self.size, self.batch_size, self.seed, self.epoch = size, batch_size, seed, 0

    def __len__(self) -> int:
        return -(-self.size // self.batch_size)

    def __iter__(self) -> Iterator[Tensor]:
        order = np.random.default_rng([self.seed, self.epoch]).permutation(self.size)
        self.epoch += 1
        yield from torch.as_tensor(order).split(self.batch_size)
