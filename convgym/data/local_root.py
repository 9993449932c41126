"""Minari's local root: what is written there appears whole, or not at all.

    with hidden_root() as aside:        Minari writes below a hidden folder of the root …
        …
        settle(aside, dataset_id)       … and what is finished moves to its place

What a killed process leaves behind in the hidden folder is not seen by Minari, and removed when
something is written next. Not for two threads at once: Minari is told of the folder through its
environment variable.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from convgym.errors import DatasetError, MissingExtra

_ROOT = "MINARI_DATASETS_PATH"
_HIDDEN, _LOCK = ".writing-", ".lock"
_BEGUN = 60.0
"""Seconds after which a hidden folder has its lock, if anybody writes there."""


def minari_module() -> Any:
    """Minari; raises MissingExtra where it is not installed."""
    try:
        import minari
    except ImportError:
        raise MissingExtra("minari", "data") from None
    return minari


def local_path(dataset_id: str) -> Path:
    """The folder of a dataset in the root, whether it is there or not."""
    minari_module()
    from minari.dataset.minari_dataset import parse_dataset_id
    from minari.storage import get_dataset_path

    try:
        parse_dataset_id(dataset_id)
    except (ValueError, TypeError):  # of no version, Minari says the latter
        raise DatasetError(
            f"{dataset_id!r} is no id of a dataset; write it as "
            "convgym/customer-service/mixed-v0, with a version at the end"
        ) from None
    with _root_in_use():
        return Path(get_dataset_path(dataset_id))


def local_ids() -> Iterator[str]:
    """The ids of all datasets in the root, by folder; what is called like none is none.

    Minari's own listing fails over one folder that is no dataset.
    """
    minari_module()
    from minari.storage import get_dataset_path

    with _root_in_use():
        root = Path(get_dataset_path())
    for place, inner, _ in os.walk(root):
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        if "data" not in inner:
            continue
        inner.clear()
        dataset_id = Path(place).relative_to(root).as_posix()
        with suppress(DatasetError):
            local_path(dataset_id)
            yield dataset_id


def check_free(dataset_id: str, overwrite: bool) -> None:
    """Raises DatasetError where the id is taken, unless it may be overwritten."""
    place = local_path(dataset_id)
    if place.exists() and not overwrite:
        raise DatasetError(
            f"a dataset {dataset_id!r} exists already, in {place}; "
            "overwrite it (--overwrite, overwrite=True) or choose another id"
        )


@contextmanager
def hidden_root() -> Iterator[Path]:
    """A hidden folder of the root, which is Minari's root meanwhile; it is gone afterwards."""
    minari_module()
    from minari.storage import get_dataset_path

    with _root_in_use():
        _sweep(Path(get_dataset_path()))
        aside = tempfile.TemporaryDirectory(prefix=_HIDDEN, dir=get_dataset_path())
    with aside as folder, FileLock(Path(folder, _LOCK)), environment(_ROOT, folder):
        yield Path(folder)


def _sweep(root: Path) -> None:
    """Remove the hidden folders of processes that were killed: nobody holds their locks."""
    for folder in root.glob(f"{_HIDDEN}*"):
        try:
            if time.time() - folder.stat().st_mtime > _BEGUN:
                with FileLock(folder / _LOCK, timeout=0):
                    shutil.rmtree(folder, ignore_errors=True)
        except (Timeout, OSError):  # somebody writes there, or has just swept it
            continue


@contextmanager
def _root_in_use() -> Iterator[None]:
    """One sentence for a root that is no folder, or cannot be written to."""
    try:
        yield
    except OSError as error:
        raise DatasetError(
            f"Minari's local root cannot be written to: {error}; set {_ROOT} to a folder that can"
        ) from error


@contextmanager
def environment(name: str, value: str) -> Iterator[None]:
    """An environment variable has this value for a while."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def settle(aside: Path, dataset_id: str) -> None:
    """Move a finished dataset to its place; a predecessor leaves only when it is there.

    To be called within `hidden_root`, of what lies in it. One process at a time settles.
    """
    from minari.dataset.minari_dataset import parse_dataset_id
    from minari.namespace import create_namespace, list_local_namespaces

    with FileLock(aside.parent / ".settling.lock"), environment(_ROOT, str(aside.parent)):
        place = local_path(dataset_id)
        namespace = parse_dataset_id(dataset_id)[0]
        if namespace is not None and namespace not in list_local_namespaces():
            create_namespace(namespace)
        if place.exists():
            old = aside / ".replaced"
            place.rename(old)
            try:
                (aside / dataset_id).rename(place)
            except OSError:
                old.rename(place)
                raise
        else:
            (aside / dataset_id).rename(place)
