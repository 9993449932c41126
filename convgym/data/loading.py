"""A dataset by its id, from wherever it can be had.

    load_dataset(id)    Minari's local root ─► packaged with ConvGym ─► a remote ─► its recipe

The first that has it decides; a source that has it in another shape than promised is an error,
never a reason to try the next one.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from convgym.data.building import build_dataset
from convgym.data.checking import check_content
from convgym.data.local_root import (
    check_free,
    environment,
    hidden_root,
    local_path,
    minari_module,
    settle,
)
from convgym.data.minari_reading import opened
from convgym.data.recipes import recipe_ids, recipes_folder
from convgym.data.remotes import SCHEMES, StaticRemote
from convgym.errors import DatasetError, InvalidConfiguration

if TYPE_CHECKING:
    from minari import MinariDataset

SOURCES = ("local", "packaged", "remote", "recipe")
_REMOTE = "MINARI_REMOTE"


def load_dataset(
    dataset_id: str,
    *,
    sources: Sequence[str] = SOURCES,
    remote: str | None = None,
    progress: Callable[[int], None] | None = None,
) -> MinariDataset:
    """A Minari dataset; what was not in Minari's local root is there afterwards.

    `sources` are tried in their order: `local`, Minari's root; `packaged`, what ConvGym brings
    along; `remote`, which is `remote` or the environment variable `MINARI_REMOTE`, and is not asked
    where neither is given; `recipe`, which builds it. `progress` hears how many episodes of a
    recipe are done.

    Raises DatasetError where no source has it, or where one has it damaged or changed.
    """
    for source in sources:
        if source not in SOURCES:
            raise InvalidConfiguration(f"sources holds {source!r}; take of {', '.join(SOURCES)}")
    where = remote or os.environ.get(_REMOTE)
    for source in sources:
        if source == "local" and (place := local_path(dataset_id) / "data").exists():
            return opened(place)
        if source == "packaged" and dataset_id in packaged_ids():
            return download_dataset(dataset_id, packaged_remote())
        if source == "remote" and where and dataset_id in remote_ids(where, dataset_id):
            return download_dataset(dataset_id, where)
        if source == "recipe" and dataset_id in recipe_ids():
            return build_dataset(dataset_id, progress=progress)
    asked = [f"remote {where}" if source == "remote" and where else source for source in sources]
    raise DatasetError(
        f"there is no dataset {dataset_id!r} in: {', '.join(asked)}; the ids that can be built "
        f"are {', '.join(recipe_ids())}"
    )


def download_dataset(
    dataset_id: str, remote: str | None = None, *, overwrite: bool = False
) -> MinariDataset:
    """A dataset from a remote into Minari's local root, whole and as it was published, or not.

    `remote` is `file://…`, `http://…`, `https://…` or `hf://…`; without it `MINARI_REMOTE` says.
    Raises DatasetError where it is not there, is not what its recipe promises, was cut short or
    changed; and where the id is taken (unless `overwrite`).
    """
    minari = minari_module()
    remote = remote or os.environ.get(_REMOTE)
    if not remote or "://" not in remote:
        raise InvalidConfiguration(
            f"remote={remote!r}: say where to download from, as https://example.org/data, or set "
            f"{_REMOTE}"
        )
    check_free(dataset_id, overwrite)
    scheme, _, name = remote.partition("://")
    if scheme in SCHEMES:
        StaticRemote(scheme, name).download(dataset_id)
        return minari.load_dataset(dataset_id)
    with hidden_root() as aside:
        # Minari tells of the server that it takes by default, whichever one is asked.
        with environment(_REMOTE, remote), contextlib.redirect_stdout(io.StringIO()):
            try:
                minari.download_dataset(dataset_id)
            except Exception as error:  # of Minari, of huggingface_hub, of the network
                raise DatasetError(
                    f"{dataset_id!r} cannot be downloaded from {remote}: {error}"
                ) from error
        check_content(dataset_id, aside / dataset_id / "data")
        settle(aside, dataset_id)
    return minari.load_dataset(dataset_id)


def remote_ids(remote: str, prefix: str = "") -> list[str]:
    """The ids at a remote that begin with `prefix`; raises DatasetError where none can be had."""
    scheme, separator, name = remote.partition("://")
    if not separator:
        raise InvalidConfiguration(f"remote={remote!r} is no address such as https://example.org")
    if scheme in SCHEMES:
        return StaticRemote(scheme, name).list_datasets(prefix)
    try:
        return sorted(minari_module().list_remote_datasets(remote, prefix or None))
    except Exception as error:
        raise DatasetError(f"the remote {remote} cannot be asked: {error}") from error


def packaged_remote() -> str:
    """The remote that ConvGym brings along."""
    return f"file://{recipes_folder() / 'packaged'}"


def packaged_ids() -> list[str]:
    """The ids of the datasets that ConvGym brings along."""
    return remote_ids(packaged_remote())
