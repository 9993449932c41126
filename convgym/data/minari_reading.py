"""Minari datasets that may be damaged: what h5py, json and Minari raise becomes one sentence.

    opened(folder) ─► MinariDataset ─► episodes_of(dataset) ─► episode, episode, …

Knows nothing of what an episode should hold; `convgym.data.checking` does.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from convgym.data.hdf5_walk import MOST, ends
from convgym.data.local_root import minari_module
from convgym.errors import DatasetError, told

if TYPE_CHECKING:
    from minari import MinariDataset


def opened(folder: Path) -> MinariDataset:
    """The dataset in a folder, Minari's `…/data`; raises DatasetError for one that is damaged."""
    minari = minari_module()
    for path in sorted(folder.glob("*.hdf5")):
        if not ends(path):
            raise DatasetError(
                f"{path} cannot be read to its end: HDF5 loops or fails in it, or asks for more "
                f"than {MOST} times its bytes of memory; it is damaged"
            )
    try:
        promised = json.loads((folder / "metadata.json").read_bytes())["total_episodes"]
        held = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        if promised > held:  # Minari makes a number for each
            raise ValueError(f"it promises {promised} episodes in {held} bytes")
        return minari.MinariDataset(folder)
    except Exception as error:  # whatever a file may do to json and Minari
        raise DatasetError(
            f"{folder} cannot be read as a Minari dataset: {told(error)}; it is damaged"
        ) from error


def episodes_of(dataset: MinariDataset, indices: Sequence[int] | None = None) -> Iterator[Any]:
    """The episodes in their order, or those of `indices`; raises DatasetError at a damaged one."""
    chosen = () if indices is None else (indices,)
    stored = iter(dataset.iterate_episodes(*chosen))
    number = 0
    while True:
        try:
            episode = next(stored)
        except StopIteration:
            return
        except Exception as error:  # whatever a file may do to h5py
            raise DatasetError(
                f"the dataset {dataset.id!r} cannot be read from its episode {number} on: "
                f"{told(error)}; it is damaged"
            ) from error
        yield episode
        number += 1
