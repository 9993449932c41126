"""Whether an HDF5 file can be read to its end, tried in a process of its own.

Over a damaged file libhdf5 may loop for ever, end its process or ask for gigabytes, which no
exception tells of. So a child reads everything first; what it is told in exceptions is left to who
reads the file next.

    python -P hdf5_walk.py FILE SECONDS     exit code 0; another one where it loops or asks for too
                                            much memory, a signal where it dies
"""

from __future__ import annotations

import faulthandler
import hashlib
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from stat import S_ISREG
from typing import Any

SILENCE = 30.0
"""Seconds that one array may take."""
ROOM, MOST = 256 << 20, 200
"""Bytes that reading an array may take in any file, and how many more for each byte of the file."""
_walked: set[tuple[str, int, int] | str] = set()
"""Paths with the size and the time of what was read to its end in this process, and digests."""


def ends(path: Path) -> bool:
    """Whether reading all of this file comes to an end; a file and its copies are read once."""
    try:
        about = path.stat()
        known = str(path.resolve()), about.st_size, about.st_mtime_ns
        if known in _walked:
            return True
        digest = _digest(path) if S_ISREG(about.st_mode) else known
    except OSError:
        return True  # whoever reads it says so
    if digest not in _walked:
        command = [sys.executable, "-P", __file__, str(path), str(SILENCE)]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True)
        if done.returncode != 0:
            return False
    _walked.update((known, digest))
    return True


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _walk(path: str, silence: float) -> None:
    """Read all attributes and arrays; the process ends where one takes longer, or too much."""
    most = ROOM + MOST * Path(path).stat().st_size

    def read(_: str, one: Any) -> None:
        faulthandler.dump_traceback_later(silence, exit=True)  # needs no lock of the interpreter
        with suppress(Exception):
            dict(one.attrs)
        with suppress(Exception):
            one[()]
        if _peak() > most:
            sys.exit(1)

    faulthandler.dump_traceback_later(silence, exit=True)
    with suppress(Exception):
        import h5py

        with h5py.File(path, "r") as file:
            file.visititems(read)


def _peak() -> int:
    """Bytes that this process has held at most; 0 where no /proc tells."""
    # Not getrusage: it counts what the parent held, before this program began.
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return 1024 * int(line.split()[1])
    return 0


if __name__ == "__main__":
    _walk(sys.argv[1], float(sys.argv[2]))
