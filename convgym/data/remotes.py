"""Datasets on a folder or a static web server, for Minari to download: `file://`, `https://`.

    index.json                                    what there is
    convgym/namespace_metadata.json               the same for `hf://`, see below
    convgym/sales/namespace_metadata.json
    convgym/sales/mixed-v0/checksums.json         bytes and SHA-256 of each file
    convgym/sales/mixed-v0/data/metadata.json     as Minari wrote it
    convgym/sales/mixed-v0/data/main_data.hdf5

    MINARI_REMOTE=https://example.org/data        then `minari.download_dataset(id)`
    MINARI_REMOTE=file:///shelf                   also somebody's Minari root, without the rest

`import convgym` tells Minari of these remotes. A download goes into a hidden folder, is compared
with the checksums, and with the recipe's content hash where there is a recipe, and only then moves
to its place: what is cut short or changed is refused and leaves nothing behind.

The folder `convgym/` is at once the content of the Hugging Face dataset repository
`<organisation>/convgym`, from which Minari downloads by `MINARI_REMOTE=hf://<organisation>`.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any

from convgym.data.checking import check_content
from convgym.data.local_root import hidden_root, settle
from convgym.errors import DatasetError

INDEX = "index.json"
CHECKSUMS = "checksums.json"
NAMESPACE = "namespace_metadata.json"
TIMEOUT = 60
"""Seconds that a server may be silent."""
SCHEMES = ("file", "http", "https")
_BLOCK = 1 << 20
_FILE = re.compile(r"data/[A-Za-z0-9_][A-Za-z0-9._-]*")
_NAME = re.compile(r"[A-Za-z0-9_-]+(/[A-Za-z0-9_.-]*[A-Za-z0-9_-])*")

_fetched: set[Path] = set()
"""Namespaces that this process has downloaded: if no dataset follows, they go again."""


class StaticRemote:
    """One remote; its methods are those of `minari.storage.remotes.cloud_storage.CloudStorage`."""

    def __init__(self, scheme: str, name: str, token: str | None = None) -> None:
        """`name` is what follows `scheme://`; a token is sent to web servers as a bearer's."""
        self.scheme, self.name, self._token = scheme, name.rstrip("/") or "/", token
        if scheme == "file":
            self.name = folder_named(name)

    def __str__(self) -> str:
        return f"{self.scheme}://{self.name}"

    # -- reading ---------------------------------------------------------------------------------

    def list_datasets(self, prefix: str | None = None) -> list[str]:
        """The ids that there are, or those that begin with `prefix`."""
        return [one for one in self._names("datasets") if one.startswith(prefix or "")]

    def list_namespaces(self) -> list[str]:
        """The namespaces that there are, parents before what they hold."""
        return self._names("namespaces")

    def get_dataset_metadata(self, dataset_id: str) -> dict[str, Any]:
        """What Minari wrote about a dataset."""
        about = self._json(f"{dataset_id}/data/metadata.json")
        if (came := about.get("dataset_id")) != dataset_id:
            raise DatasetError(f"{dataset_id!r} is called {came!r} in its own files; refused")
        return about

    def download_namespace_metadata(self, namespace: str, path: Path) -> None:
        """The metadata of a namespace into the root `path`."""
        content = self._json(f"{namespace}/{NAMESPACE}")
        place = Path(path) / namespace / NAMESPACE
        _fetched.add(place)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(content), encoding="utf-8")

    def download_dataset(self, dataset_id: str, path: Path) -> None:
        """A dataset into the root `path`, whole and as it was published, or not at all."""
        try:
            self.download(dataset_id)
        except BaseException:
            _forget_namespaces(Path(path))
            raise
        _fetched.clear()

    def download(self, dataset_id: str) -> None:
        """A dataset into Minari's local root; raises DatasetError where it is not listed here."""
        if dataset_id not in (listed := self.list_datasets()):
            raise DatasetError(f"{dataset_id!r} is not at {self}; there are {', '.join(listed)}")
        with hidden_root() as aside:
            self._download(dataset_id, aside / dataset_id)
            check_content(dataset_id, aside / dataset_id / "data")
            settle(aside, dataset_id)

    def _download(self, dataset_id: str, place: Path) -> None:
        if self._is_root:
            shutil.copytree(Path(self.name, dataset_id), place)
            return
        listed = self._json(f"{dataset_id}/{CHECKSUMS}")
        for name, promised in listed.items():
            if not _FILE.fullmatch(name) or not isinstance(promised, dict):
                raise DatasetError(f"{self} lists the file {name!r} in {dataset_id!r}; refused")
            target = place / name
            target.parent.mkdir(parents=True, exist_ok=True)
            with self._opened(f"{dataset_id}/{name}") as source, target.open("wb") as file:
                count, digest = copied(source, file)
            if (count, digest) != (promised.get("bytes"), promised.get("sha256")):
                raise DatasetError(
                    f"{name} of {dataset_id!r} came from {self} with {count:,} bytes and the "
                    f"SHA-256 {digest[:12]}…, but {promised.get('bytes')} bytes and "
                    f"{str(promised.get('sha256'))[:12]}… were published: it was cut short or "
                    "changed on the way and is refused; download it again, or tell who published it"
                )

    @property
    def _is_root(self) -> bool:
        """Whether it is a folder as Minari keeps its own datasets, which nobody has published."""
        root = Path(self.name)
        return self.scheme == "file" and root.is_dir() and not (root / INDEX).exists()

    def _names(self, kind: str) -> list[str]:
        if self._is_root:
            marks = {"datasets": "data/metadata.json", "namespaces": NAMESPACE}
            up = len(Path(marks[kind]).parts) - 1
            found = [path.parents[up] for path in Path(self.name).rglob(marks[kind])]
            names = [path.relative_to(self.name).as_posix() for path in found]
            return sorted(name for name in names if not name.startswith("."))
        listed = self._json(INDEX).get(kind)
        if not isinstance(listed, list) or not all(
            isinstance(name, str) and _NAME.fullmatch(name) for name in listed
        ):
            raise DatasetError(f"{INDEX} of {self} does not list its {kind}; publish it anew")
        return listed

    def _json(self, name: str) -> dict[str, Any]:
        with self._opened(name) as file:
            text = file.read()
        try:
            content = json.loads(text)
        except ValueError:
            content = None
        if not isinstance(content, dict):
            raise DatasetError(f"{name} of {self} is no JSON object; it was cut short or changed")
        return content

    @contextmanager
    def _opened(self, name: str) -> Iterator[IO[bytes]]:
        """A file of the remote; what goes wrong while it is read becomes one sentence."""
        try:
            if self.scheme == "file":
                with Path(self.name, name).open("rb") as file:
                    yield file
            else:
                request = urllib.request.Request(f"{self}/{urllib.parse.quote(name)}")
                if self._token:
                    request.add_header("Authorization", f"Bearer {self._token}")
                with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
                    yield answer
        except (OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
            raise DatasetError(
                f"{name} cannot be had from {self}: {reason}; check the address, and that the "
                "dataset was published there"
            ) from error

    # -- writing -----------------------------------------------------------------------------------

    def upload_dataset(self, dataset_id: str) -> None:
        """Publish a dataset of the local root here; folders alone can be written to."""
        from convgym.data.publishing import publish_dataset

        publish_dataset(dataset_id, str(self))

    def upload_namespace(self, namespace: str) -> None:
        """Nothing: a namespace is published with its first dataset."""


def folder_named(name: str) -> str:
    """The folder of a `file://` address: as it is written or, if that is none, %20 for a space."""
    name = name.removeprefix("localhost").rstrip("/") or "/"
    path = Path(name).expanduser()
    return str(path if path.exists() else Path(urllib.parse.unquote(name)).expanduser())


def copied(source: IO[bytes], target: IO[bytes]) -> tuple[int, str]:
    """Copy a file: how many bytes, and their SHA-256."""
    digest, count = hashlib.sha256(), 0
    for block in iter(lambda: source.read(_BLOCK), b""):
        target.write(block)
        digest.update(block)
        count += len(block)
    return count, digest.hexdigest()


def _forget_namespaces(root: Path) -> None:
    """Remove the namespaces below `root` that were downloaded for a dataset which did not come."""
    for place in sorted(_fetched, key=lambda one: len(one.parts), reverse=True):
        if place.is_relative_to(root) and os.listdir(place.parent) == [NAMESPACE]:
            shutil.rmtree(place.parent)
        _fetched.discard(place)
