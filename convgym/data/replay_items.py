"""What a replay buffer takes in, turn by turn, and the batches that it gives.

    EpisodeArrays, T turns       o0 a0 r0  o1 a1 r1  o2          numbers: a row for each turn
    Conversation, T replies      u  a0  u  a1  u                 words: (history, reply) pairs

A batch is B draws and the R rows they stand for; drawn turns are one row each (R = B), drawn
conversations all their turns, one after the other. Knows nothing of priorities or of storage.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.conversation import Conversation, Message
from convgym.data.transitions import EpisodeArrays
from convgym.errors import DatasetError

Item = EpisodeArrays | Conversation
Columns = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, eq=False, kw_only=True)
class Draws:
    """B draws, of turns or of whole conversations, and which R rows they stand for."""

    indices: NDArray[np.int64]  # (B,)
    """Serial numbers of what was drawn, as `update_priorities` takes them."""
    weights: NDArray[np.float64]  # (B,)
    """(N · P(i))^-β, over the greatest of the batch. A row's: `np.repeat(weights, lengths)`."""
    lengths: NDArray[np.int64]  # (B,)
    """Rows of each draw."""
    conversation_index: NDArray[np.int64]  # (R,)
    """Serial number of the row's conversation."""
    turn_index: NDArray[np.int64]  # (R,)
    """Which agent turn of its conversation it is, from 0."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ArrayBatch(Draws):
    """R rows of numbers."""

    observation: NDArray[Any]  # (R, …)
    action: NDArray[Any]  # (R, …)
    reward: NDArray[np.float64]  # (R,)
    next_observation: NDArray[Any]  # (R, …)
    terminated: NDArray[np.bool_]  # (R,)
    truncated: NDArray[np.bool_]  # (R,)
    """The last turn of an episode that was cut off: bootstrap from the next observation."""
    return_to_go: NDArray[np.float64]  # (R,)
    """As the episode says: `EpisodeArrays.returns`, under its discount."""
    mask: NDArray[Any] | None = None  # (R, A)
    next_mask: NDArray[Any] | None = None  # (R, A)


@dataclass(frozen=True, eq=False, kw_only=True)
class TextBatch(Draws):
    """R replies, and what was said before each."""

    conversations: tuple[Conversation, ...]  # (B,)
    """That which was drawn, or that of the turn which was drawn."""
    histories: tuple[tuple[Message, ...], ...]  # (R,)
    replies: tuple[Message, ...]  # (R,)


def columns_of(item: Item) -> Columns:
    """An array for each field, with one row for each agent turn.  name → (T, …)

    Of a Conversation, `position`: which message is the reply. Raises DatasetError for an item
    without agent turns, of unlike lengths, that is no numbers, or whose rewards are not finite.
    """
    if isinstance(item, Conversation):
        roles = np.array([message.role for message in item.messages])
        columns = {"position": np.flatnonzero(roles == "assistant")}
    elif isinstance(item, EpisodeArrays):
        columns = _columns_of_arrays(item)
    else:
        raise DatasetError(
            f"a {type(item).__name__} came to the replay buffer; it takes EpisodeArrays and "
            "Conversation"
        )
    if not len(next(iter(columns.values()))):
        raise DatasetError("an item without an agent turn came to the replay buffer; leave it out")
    return columns


def _columns_of_arrays(episode: EpisodeArrays) -> dict[str, NDArray[Any]]:
    length = len(episode)
    seen = {"observation": np.asarray(episode.observations)}
    if episode.masks is not None:
        seen["mask"] = np.asarray(episode.masks)
    earned = {
        "action": np.asarray(episode.actions),
        "reward": np.asarray(episode.rewards),
        "return_to_go": np.asarray(episode.returns),
    }
    for name, array in (seen | earned).items():
        if array.dtype.kind not in "biuf":
            raise DatasetError(
                f"{name} has values of type {array.dtype}, a replay buffer takes numbers; turn "
                "texts into vectors first (convgym.language.encoders), or give Conversations"
            )
        rows = length + (name in seen)
        if len(array) != rows:
            raise DatasetError(
                f"an episode of {length} actions came with {len(array)} of {name}; it takes {rows}"
            )
    if not np.isfinite(earned["reward"]).all():
        raise DatasetError("an episode came with a reward that is not finite; leave it out")
    last = np.arange(length) == length - 1
    return {
        **{name: array[:-1] for name, array in seen.items()},
        **{f"next_{name}": array[1:] for name, array in seen.items()},
        **earned,
        "terminated": last & episode.terminated,
        "truncated": last & episode.truncated,
    }
