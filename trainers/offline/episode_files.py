"""Episodes in one file of JSON beside arrays: what a trainer has played online, to go on from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.data.transitions import EpisodeArrays
from convgym.errors import InvalidConfiguration
from convgym.language.archive import DAMAGE
from trainers.archive import Arrays, read_archive, write_archive

_FORMAT = "convgym episodes 1"
_ROWS = ("observations", "masks")  # T + 1 of each
_TURNS = ("actions", "rewards", "returns", "propensities")  # T


def save_episodes(path: str | Path, episodes: Sequence[EpisodeArrays]) -> None:
    """Write episodes with the same fields; `policy` and `success` are left out."""
    arrays: dict[str, NDArray[Any]] = {
        "lengths": np.array([len(episode) for episode in episodes], dtype=np.int64),
        "terminated": np.array([episode.terminated for episode in episodes], dtype=bool),
    }
    for name in (*_ROWS, *_TURNS):
        parts = [getattr(episode, name) for episode in episodes]
        if all(part is not None for part in parts):
            joined = np.concatenate(parts)
            arrays[name] = joined.astype(np.uint8) if name == "masks" else joined
    write_archive(path, {"format": _FORMAT}, arrays)


def load_episodes(path: str | Path) -> list[EpisodeArrays]:
    """What `save_episodes` has written; raises InvalidConfiguration for anything else."""
    _, arrays = read_archive(path, _FORMAT)
    try:
        return _split(arrays)
    except DAMAGE as error:
        raise InvalidConfiguration(f"{path} holds no whole episodes: {error!r}") from error


def _split(arrays: Arrays) -> list[EpisodeArrays]:
    lengths = arrays["lengths"]
    ends = np.cumsum(lengths)[:-1]
    split = {
        name: np.split(arrays[name], ends + np.arange(1, len(lengths)) * (name in _ROWS))
        for name in (*_ROWS, *_TURNS)
        if name in arrays
    }
    return [
        EpisodeArrays(
            observations=split["observations"][n],
            actions=split["actions"][n],
            rewards=split["rewards"][n],
            terminated=bool(ended),
            truncated=not ended,
            returns=split["returns"][n],
            masks=split["masks"][n].astype(np.int8) if "masks" in split else None,
            propensities=split["propensities"][n] if "propensities" in split else None,
        )
        for n, ended in enumerate(arrays["terminated"])
    ]
