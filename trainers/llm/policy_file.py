"""A language model's policy in one file: a folder of transformers, and how it replies.

    policy.zip    policy.json                                         how it replies
                  model.safetensors, config.json, tokenizer.json, …   as transformers writes them

Nothing is compressed, for weights do not shrink; the same folder gives the same bytes. Knows
nothing of torch.
"""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from convgym.errors import InvalidConfiguration, told
from convgym.language.archive import DAMAGE, opened

_ABOUT, _FORM = "policy.json", "convgym language policy 1"


@contextmanager
def packed(path: str | os.PathLike[str], about: Mapping[str, Any]) -> Iterator[Path]:
    """A folder to write a model into, which becomes the file at the end, whole or not at all."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        with TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as place:
            folder = Path(place)
            yield folder
            told = json.dumps({"format": _FORM, **about}, indent=1)
            (folder / _ABOUT).write_text(told, encoding="utf-8")
            with zipfile.ZipFile(temporary, "w") as archive:
                for file in sorted(folder.rglob("*")):
                    if file.is_file():
                        _add(archive, file, file.relative_to(folder).as_posix())
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def unpacked(path: str | os.PathLike[str]) -> Iterator[Path]:
    """The folder in a file, for as long as it is looked at.

    Raises InvalidConfiguration for a file that is damaged.
    """
    with TemporaryDirectory(prefix="convgym-", ignore_cleanup_errors=True) as place:
        try:
            with opened(path) as archive:
                archive.extractall(place)
        except DAMAGE as error:
            raise InvalidConfiguration(f"{path} cannot be read: {told(error)}") from error
        yield Path(place)


def about_policy(path: str | os.PathLike[str]) -> dict[str, Any]:
    """How the policy in a file replies; raises InvalidConfiguration where there is none."""
    try:
        with opened(path) as archive:
            about: dict[str, Any] = json.loads(archive.read(_ABOUT))
        if about["format"] != _FORM:
            raise ValueError(f"it says {about['format']!r}")
    except DAMAGE as error:
        raise InvalidConfiguration(f"{path} holds no {_FORM}: {told(error)}") from error
    return about


def _add(archive: zipfile.ZipFile, file: Path, name: str) -> None:
    """Without dates, and piece by piece: a model may be larger than memory."""
    with (
        file.open("rb") as source,
        archive.open(zipfile.ZipInfo(name), "w", force_zip64=True) as to,
    ):
        shutil.copyfileobj(source, to, 1 << 20)
