"""Datasets of the local root put where others can download them.

    publish_dataset(id, "folder" | "file:///folder")    the folder then goes onto any web server
    publish_dataset(id, "hf://organisation")            Minari's own upload, with a token

The layout is drawn in `convgym.data.remotes`. The files come first and the index last, so whoever
downloads meanwhile finds a dataset whole or not at all.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from filelock import FileLock

from convgym.data.checking import check_content
from convgym.data.local_root import environment, local_path, minari_module
from convgym.data.remotes import CHECKSUMS, INDEX, NAMESPACE, copied, folder_named
from convgym.errors import DatasetError, InvalidConfiguration


def publish_dataset(
    dataset_id: str, remote: str | os.PathLike[str], *, token: str | None = None,
    overwrite: bool = False,
) -> None:  # fmt: skip
    """Publish a dataset of Minari's local root, after checking it.

    `token` is what Hugging Face gave; a folder needs none. What is published already in the same
    bytes is left as it is. Raises DatasetError for a dataset that is not there, that is not what
    its recipe promises, or that is published with other bytes (unless `overwrite`).
    """
    source = local_path(dataset_id)
    if not source.exists():
        raise DatasetError(f"{dataset_id!r} is not in Minari's local root; build it first")
    check_content(dataset_id, source / "data")
    scheme, separator, name = str(remote).partition("://")
    if not separator or scheme == "file":
        folder = folder_named(name) if separator else os.fspath(remote)
        _publish(dataset_id, source, Path(folder).expanduser(), overwrite)
    elif scheme == "hf":
        with environment("MINARI_REMOTE", str(remote)):
            minari_module().upload_dataset(dataset_id, token)
    else:
        raise InvalidConfiguration(
            f"remote={str(remote)!r}: a {scheme} server cannot be written to; publish to a folder "
            "and copy that onto the server"
        )


def _publish(dataset_id: str, source: Path, root: Path, overwrite: bool) -> None:
    root.mkdir(parents=True, exist_ok=True)
    with (
        FileLock(root / ".lock"),
        tempfile.TemporaryDirectory(prefix=".publishing-", dir=root) as folder,
    ):
        copy, place = Path(folder, "new"), root / dataset_id
        checksums = _copy(source, copy)
        published = place / CHECKSUMS
        if place.exists() and _read(published) != checksums:
            if not overwrite:
                raise DatasetError(
                    f"{dataset_id!r} is published in {root} with other bytes; raise the version, "
                    "or overwrite it"
                )
            place.rename(Path(folder, "old"))
        if not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            copy.rename(place)
        _list(dataset_id, root)


def _copy(source: Path, target: Path) -> dict[str, dict[str, Any]]:
    """Copy a dataset and note its checksums beside it."""
    checksums = {}
    for path in sorted((source / "data").iterdir()):
        copy = target / "data" / path.name
        copy.parent.mkdir(parents=True, exist_ok=True)
        with path.open("rb") as old, copy.open("wb") as new:
            count, digest = copied(old, new)
        checksums[f"data/{path.name}"] = {"bytes": count, "sha256": digest}
    _write(target / CHECKSUMS, checksums)
    return checksums


def _list(dataset_id: str, root: Path) -> None:
    """Enter a dataset into the index, and into the metadata of the namespaces it lies in."""
    from minari.storage import get_dataset_path

    parts = dataset_id.split("/")[:-1]
    namespaces = ["/".join(parts[: count + 1]) for count in range(len(parts))]
    for namespace in namespaces:
        path = root / namespace / NAMESPACE
        about = _read(path) or _read(get_dataset_path(namespace) / NAMESPACE)
        if namespace == namespaces[0]:  # the root of a Hugging Face repository lists what it holds
            about = _with(about, [dataset_id], namespaces[1:])
        _write(path, about)
    _write(root / INDEX, _with(_read(root / INDEX), [dataset_id], namespaces))


def _with(about: dict[str, Any], datasets: list[str], namespaces: list[str]) -> dict[str, Any]:
    new = {"datasets": datasets, "namespaces": namespaces}
    return {**about, **{key: sorted({*about.get(key, []), *new[key]}) for key in new}}


def _read(path: Path) -> dict[str, Any]:
    """A JSON object, empty where there is no file."""
    return json.loads(path.read_text("utf-8")) if path.is_file() else {}


def _write(path: Path, content: dict[str, Any]) -> None:
    aside = path.with_suffix(".part")
    aside.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    os.replace(aside, path)
