"""Episodes to learn from: found by id or path, flattened, chosen, and drawn evenly or not.

    "convgym/customer-service/mixed-v0"   Minari's local root, what ConvGym brings, remotes, recipes
    Path("…/mixed-v0")                    a folder that Minari has written
    a MinariDataset, or EpisodeArrays     as they are

Knows nothing of learners.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from convgym.data.loading import load_dataset
from convgym.data.minari_reading import opened
from convgym.data.transitions import EpisodeArrays, read_episodes
from convgym.errors import DatasetError, InvalidConfiguration
from trainers.offline.environments import flat_episodes
from trainers.offline.sampling import (
    Prioritised,
    PrioritisedConversations,
    Sampling,
    Stratified,
    bands,
)

if TYPE_CHECKING:
    from minari import MinariDataset

Source: TypeAlias = "MinariDataset | Sequence[EpisodeArrays] | str | Path"


def open_dataset(source: str | Path) -> MinariDataset:
    """The Minari dataset of an id, or of a folder; raises DatasetError where there is none."""
    folder = Path(source)
    if not (folder / "data").is_dir():
        if isinstance(source, Path):
            raise DatasetError(f"{source} is no folder of a Minari dataset; there is no data in it")
        return load_dataset(source)
    return opened(folder / "data")


def read_source(source: Source, discount: float) -> list[EpisodeArrays]:
    """All episodes, with flat observations."""
    if isinstance(source, str | Path):
        source = open_dataset(source)
    if isinstance(source, Sequence):
        return list(source)
    return flat_episodes(source.observation_space, read_episodes(source, discount))


def chosen(
    episodes: Sequence[EpisodeArrays],
    *,
    best: float = 1.0,
    least_return: float | None = None,
    keep: Callable[[EpisodeArrays], bool] | None = None,
) -> list[EpisodeArrays]:
    """The episodes that pass: `keep` first, then the return, then the best share of what is left.

    Ties at the edge of `best` all stay. Raises DatasetError where nothing is left.
    """
    if not 0.0 < best <= 1.0:
        raise InvalidConfiguration(f"best={best}; it is a share above 0, at most 1")
    left = [episode for episode in episodes if keep is None or keep(episode)]
    if least_return is not None:
        left = [episode for episode in left if episode.rewards.sum() >= least_return]
    if best < 1.0 and left:
        returns = np.array([episode.rewards.sum() for episode in left])
        edge = np.sort(returns)[-math.ceil(best * len(returns))]
        left = [e for e, return_ in zip(left, returns, strict=True) if return_ >= edge]
    if not left:
        raise DatasetError(f"of {len(episodes)} episodes none passes the filters; ask for less")
    return left


def sampling_of(
    episodes: Sequence[EpisodeArrays],
    balance: str | Callable[[EpisodeArrays], Any] | None,
    prioritise: str | None,
) -> Sampling | None:
    """How turns of these episodes are drawn; None is each alike.

    balance: "success", "policy", "return" (in four bands), or a function that names the kind of an
        episode; every kind has the same part of a batch.
    prioritise: "turn" or "conversation", by TD error.

    Raises InvalidConfiguration for both, for other names, or for data that do not tell.
    """
    lengths = np.array([len(episode) for episode in episodes])
    if balance is not None and prioritise is not None:
        raise InvalidConfiguration("give one of balance and prioritise")
    if prioritise is not None:
        if prioritise not in ("turn", "conversation"):
            raise InvalidConfiguration(f'prioritise={prioritise!r}; it is "turn" or "conversation"')
        if prioritise == "turn":
            return Prioritised(int(lengths.sum()))
        return PrioritisedConversations(lengths)
    if balance is None:
        return None
    if callable(balance):
        kinds = [balance(episode) for episode in episodes]
    elif balance == "return":
        kinds = bands([episode.rewards.sum() for episode in episodes], 4).tolist()
    elif balance in ("success", "policy"):
        kinds = [getattr(episode, balance) for episode in episodes]
        if None in kinds:
            raise InvalidConfiguration(
                f"the data do not tell the {balance} of every episode; balance by a function"
            )
    else:
        raise InvalidConfiguration(
            f'balance={balance!r}; it is "success", "policy", "return" or a function'
        )
    return Stratified(np.repeat(kinds, lengths))
