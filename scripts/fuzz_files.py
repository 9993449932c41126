"""Corrupt files before every reader: is each refused in one sentence, or read with what was lost?

    python scripts/fuzz_files.py [--files 100000] [--seed 0] [--workers 1] [--log FILE]

A good file of a kind is made once, spoiled in one way (`corruption.py`) and read. What may come:

    an error of `convgym.errors`, in words, without a traceback in them
    what was read, rows kept and rows reported being all rows, where rows can be counted

Anything else is a fault: another exception, more than 20 seconds, more than 1 GiB of memory, a row
lost in silence, a process that dies. Folders stand in place of files now and then, and files are
not there. A chunk is 100 files. Exit code 1 if there is a fault.
"""

from __future__ import annotations

import random
import resource
import shutil
import sys
import tempfile
import time
import warnings
from functools import cache
from pathlib import Path

from corruption import spoil
from file_kinds import Kind, kinds
from fuzzing import Hung, Tally, command, in_time, raised

from convgym.errors import ConvGymError

FILES = 100
"""Of a chunk."""
SLOW = 20.0
"""Seconds of the processor that no file may take."""
LONGEST = 20_000
"""Characters of a sentence."""
ROOM = 1 << 30
"""Bytes that reading one file may add to the memory at its peak."""


@cache
def good(kind: Kind) -> dict[str, bytes]:
    """A good file of this kind by "", or a folder's by their names."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / kind.file
        kind.make(path)
        lost = kind.read(path)
        assert not lost, f"a good {kind.name} loses something: {lost}"
        if path.is_file():
            return {"": path.read_bytes()}
        found = [one for one in sorted(path.rglob("*")) if one.is_file()]
        kept = {one.relative_to(path).as_posix(): one.read_bytes() for one in found}
        return {name: content for name, content in kept.items() if not name.endswith(".lock")}


def written(rng: random.Random, kind: Kind, path: Path) -> str:
    """Write a spoiled file of this kind; what was done to it."""
    whole = dict(good(kind))
    name = rng.choice(list(whole))
    chance = rng.random()
    if chance < 0.01:
        what, whole = "not there", {}
    elif chance < 0.02:
        what = "a folder in its place"
        del whole[name]
        (path / name).mkdir(parents=True)
    elif chance < 0.03 and name:
        what = "left out"
        del whole[name]
    else:
        what, whole[name] = spoil(rng, name or kind.file, whole[name])
    for one, content in whole.items():
        place = path / one if one else path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
    return f"{what} ({name})" if name else what


def try_file(rng: random.Random, kind: Kind, folder: Path, tally: Tally) -> None:
    """One spoiled file, read."""
    path = folder / kind.file
    what = written(rng, kind, path)
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    example = f"{kind.name}: {what}"
    try:
        with in_time(SLOW), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            lost = kind.read(path)
    except ConvGymError as error:
        tally.counts["refused in a sentence"] += 1
        said = str(error)
        if not said.strip() or "Traceback" in said or len(said) > LONGEST:
            tally.fault(f"{kind.name}: no sentence", f"{example}: {said[:200]!r}")
    except (Exception, Hung) as error:
        tally.fault(f"{kind.name}: {raised(error)}", example)
    else:
        tally.counts["read"] += 1
        if lost:
            tally.fault(f"{kind.name}: lost in silence", f"{example}: {lost}")
    tally.took(time.process_time() - began, example)
    grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    if grown > ROOM:
        tally.fault(f"{kind.name}: more than {ROOM >> 20} MiB were needed", example)
    tally.done += 1


def chunk_of_files(seed: int, chunk: int, files: int = FILES) -> Tally:
    """The files of a chunk, of any kinds."""
    rng, tally = random.Random(f"{seed}-{chunk}"), Tally()
    there = kinds()
    for kind in rng.choices(there, [kind.weight for kind in there], k=files):
        good(kind)  # made before the clock runs
        folder = Path(tempfile.mkdtemp(prefix="convgym-fuzz-"))
        try:
            try_file(rng, kind, folder, tally)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return tally


def main() -> int:
    """Search."""
    return command(__doc__, "files", 100_000, FILES, chunk_of_files)


if __name__ == "__main__":
    sys.exit(main())
