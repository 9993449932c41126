"""Whether a dataset is what its recipe promises, and whether its parts fit together.

Knows nothing of where it came from.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from convgym.data.building import read_recipe
from convgym.data.episodes import content_hash
from convgym.data.minari_reading import episodes_of, opened
from convgym.data.recipes import recipe_ids
from convgym.errors import DatasetError, told

if TYPE_CHECKING:
    from minari import MinariDataset


def check_content(dataset_id: str, folder: Path) -> MinariDataset:
    """The dataset in `folder`, Minari's `…/data`, once it is known to be the one of this id.

    Raises DatasetError where the folder cannot be read as a dataset, holds another one, or holds
    other episodes than the recipe of this id promises; without a recipe, where they do not fit
    together.
    """
    dataset = opened(folder)
    try:
        came = str(dataset.spec.dataset_id)
        content = content_hash(dataset) if dataset_id in recipe_ids() else ""
    except Exception as error:  # whatever a file may do to h5py, json and Minari
        raise DatasetError(
            f"{folder} cannot be read as the dataset {dataset_id!r}: {told(error)}; it is damaged"
        ) from error
    if came != dataset_id:
        raise DatasetError(f"the dataset called {dataset_id!r} there is {came!r}; it is refused")
    if content and content != (promised := read_recipe(dataset_id).sha256):
        raise DatasetError(
            f"{dataset_id!r} has the content hash {content}, but its recipe promises {promised}: "
            "it was changed, or another version of ConvGym made it; it is refused"
        )
    if not content:
        check_episodes(dataset)
    return dataset


def check_episodes(dataset: MinariDataset) -> None:
    """Raises DatasetError, naming the episode, where lengths, flags or counts do not fit.

    T + 1 observations and infos, T actions, rewards and flags; no flag before the end; a finite
    reward each; as many episodes and steps as the metadata says.
    """
    count = steps = 0
    for episode in episodes_of(dataset):
        fault = _fault(episode)
        if fault:
            raise DatasetError(f"episode {episode.id} of {dataset.spec.dataset_id!r} {fault}")
        count, steps = count + 1, steps + len(episode.rewards)
    if (count, steps) != (dataset.total_episodes, dataset.total_steps):
        raise DatasetError(
            f"{dataset.spec.dataset_id!r} holds {count} episodes of {steps} steps, but its "
            f"metadata says {dataset.total_episodes} of {dataset.total_steps}"
        )


def _fault(episode: Any) -> str:
    """What is wrong with an episode; empty where nothing is."""
    turns = len(episode.rewards)
    if turns == 0:
        return "has no turns"
    if not np.isfinite(np.asarray(episode.rewards)).all():
        return "has a reward that is not finite"
    parts = [("observations", episode.observations, turns + 1), ("actions", episode.actions, turns)]
    parts += [(f"infos of {name!r}", one, turns + 1) for name, one in (episode.infos or {}).items()]
    for name, values, expected in parts:
        for length in _lengths(values):
            if length != expected:
                return f"has {length} {name} for {turns} rewards; it must have {expected}"
    flags = np.asarray(episode.terminations) | np.asarray(episode.truncations)
    if len(flags) != turns or flags[:-1].any():
        return "goes on after its end"
    return ""


def _lengths(values: Any) -> list[int]:
    if isinstance(values, dict):
        return [length for part in values.values() for length in _lengths(part)]
    return [len(values)]
