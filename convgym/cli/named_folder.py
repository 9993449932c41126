"""Folders by name that hold a run or a search: begun whole, and used by one process at a time.

    begin      <root>/.<name>.<pid>.part ─► filled ─► <root>/<name>      whoever is killed meanwhile
    held       .lock in it, while somebody works there
    begun      the named one, or the newest without a report.json, to go on with

Knows nothing of what stands in them but the file that is there from the first moment and the
report, which is written last.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Self

from filelock import FileLock, Timeout

from convgym.data.packed_files import whole_file
from convgym.errors import InvalidConfiguration

_LONGEST = 100
_DEVICES = {"CON", "PRN", "AUX", "NUL", *(f"{one}{n}" for one in ("COM", "LPT") for n in range(10))}
"""Names that Windows keeps for itself, whatever follows a dot."""


class NamedFolder:
    """One folder, by its path; subclasses say what it is of."""

    kind: ClassVar[str]
    """What it holds, such as "run"."""
    doing: ClassVar[str]
    """What is done in it, such as "learning"."""
    first: ClassVar[str]
    """The file that is there from the first moment."""
    command: ClassVar[str]
    """Of the command line, that works in one."""
    usual_root: ClassVar[Path]
    """Where such folders are, if nobody says."""
    root_option: ClassVar[str]
    """Of the command line, that says where such folders are."""
    more_option: ClassVar[str]
    """Of the command line, that lets a finished one go on."""

    def __init__(self, path: Path) -> None:
        self.path, self.name = path, path.name
        self.report = path / "report.json"

    @property
    def finished(self) -> bool:
        """Whether it came to its end."""
        return self.report.is_file()

    def write_report(self, report: Mapping[str, Any]) -> None:
        """Write what came out; from now on it is finished."""
        with whole_file(self.report) as file:
            file.write((json.dumps(report, indent=1) + "\n").encode())

    def reopen(self) -> None:
        """It has more to do: what came out so far is no longer the end."""
        self.report.unlink(missing_ok=True)

    @property
    def resuming(self) -> str:
        """The command line that goes on here."""
        root = self.path.parent
        where = "" if root == self.usual_root else f" {self.root_option} {shlex.quote(str(root))}"
        return f"convgym {self.command} --resume --name {self.name}{where}"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Nobody else works here meanwhile; raises InvalidConfiguration where somebody does."""
        lock = FileLock(self.path / ".lock", timeout=0)
        try:
            lock.acquire()
        except Timeout:
            raise InvalidConfiguration(
                f"another process is {self.doing} in {self.path}; wait for it, or give another "
                "--name"
            ) from None
        try:
            clear_parts(self.path)
            yield
        finally:
            lock.release()

    @classmethod
    def begin(cls, root: Path, name: str, fill: Callable[[Self], None]) -> Self:
        """A new folder with what `fill` writes.

        Raises InvalidConfiguration where the name is taken or nothing can be written.
        """
        cls.check_new(root, name)
        folder, aside = cls(root / name), root / f".{name}.{os.getpid()}.part"
        try:
            aside.mkdir(parents=True)
            fill(cls(aside))
            aside.rename(folder.path)
        except OSError as error:
            raise InvalidConfiguration(
                f"the {cls.kind} cannot be kept in {folder.path}: {error.strerror}; give another "
                f"--name or {cls.root_option}"
            ) from error
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        return folder

    @classmethod
    def begun(cls, root: Path, name: str | None) -> Self:
        """The one to go on with: the named one, or the newest that is not finished.

        Raises InvalidConfiguration where there is none.
        """
        there = cls.all_in(root)
        if name is not None:
            found = [folder for folder in there if folder.name == name]
            if not found:
                known = ", ".join(folder.name for folder in there) or "none"
                raise InvalidConfiguration(
                    f"there is no {cls.kind} {name!r} in {root}; there are: {known}"
                )
            return found[0]
        left = [folder for folder in there if not folder.finished]
        if not left:
            raise InvalidConfiguration(
                f"no {cls.kind} in {root} is unfinished; name one with --name, and give it more "
                f"{cls.more_option}"
            )
        return max(left, key=lambda folder: (folder.path / cls.first).stat().st_mtime)

    @classmethod
    def all_in(cls, root: Path) -> list[Self]:
        """All of them, by name."""
        return [cls(place.parent) for place in sorted(root.glob(f"[!.]*/{cls.first}"))]

    @classmethod
    def check_new(cls, root: Path, name: str | None) -> None:
        """Raises InvalidConfiguration for what is no name or is taken, and where none can be made.

        Of no name (None) only the place is looked at.
        """
        cls._check_root(root)
        if name is None:
            return
        check_name(name, cls.kind)
        if os.path.lexists(root / name):
            raise InvalidConfiguration(
                f"there is a {cls.kind} in {root / name} already; go on with it by --resume, or "
                "give another --name"
            )


    @classmethod
    def _check_root(cls, root: Path) -> None:
        """Raises InvalidConfiguration where no folder can be made in `root`."""
        place = root.absolute()
        while not os.path.lexists(place):
            place = place.parent
        if not (place.is_dir() and os.access(place, os.W_OK | os.X_OK)):
            raise InvalidConfiguration(
                f"the {cls.kind} cannot be kept in {root}: {place} is no folder that can be "
                f"written to; give another {cls.root_option}"
            )


def check_name(name: str, kind: str) -> None:
    """Raises InvalidConfiguration for what a folder cannot be called on any system."""
    if not is_name(name):
        raise InvalidConfiguration(
            f"name={name[:60]!r}; a {kind}'s name is at most {_LONGEST} letters, digits, '.', '_' "
            "and '-', begins with none of the last three, and is no device's, such as NUL"
        )


def is_name(name: str) -> bool:
    """Whether a folder can be called so on any system."""
    return (
        0 < len(name) <= _LONGEST
        and name.partition(".")[0].upper() not in _DEVICES
        and name.isascii()
        and name[0].isalnum()
        and name[-1] != "."
        and all(sign.isalnum() or sign in "._-" for sign in name)
    )


def numbered(root: Path, first: str) -> str:
    """The name, with a number behind where it is taken."""
    name, number = first, 1
    while os.path.lexists(root / name):
        number += 1
        name = f"{first}-{number}"
    return name


def clear_parts(folder: Path) -> None:
    """Remove what a process that was killed had not written to its end."""
    for left in folder.glob("*.part"):
        left.unlink(missing_ok=True)
