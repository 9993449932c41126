"""Long seeded searches for faults: chunks of work in processes that may hang or die.

    chunk 0, 1, 2 … ─► workers, one process each ─► Tally of each chunk ─► one Tally, a log of lines

A chunk is a function of its number and the seed alone, so that what it finds can be found again by
`--only NUMBER`. With `--log FILE` every finished chunk is a line there, and a run that was broken
off goes on behind them. A worker that says nothing for `silence` seconds is ended: its chunk
counts as hung, one whose process died as died, and another worker takes the next one.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import queue
import resource
import signal
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import convgym
import trainers

OURS = tuple(str(Path(package.__file__).parent) for package in (convgym, trainers))
"""Where the code lies that is searched."""
PAGE = resource.getpagesize()
EXAMPLES = 3
"""Kept of each fault."""


class Hung(Exception):
    """What was called has not come back in time."""


@dataclass
class Tally:
    """What was done and found; `+=` adds another."""

    done: int = 0
    """Steps, or files."""
    counts: Counter[str] = field(default_factory=Counter)
    """What happened as it should, by name."""
    faults: Counter[str] = field(default_factory=Counter)
    """What should not have happened, in a sentence."""
    examples: dict[str, list[str]] = field(default_factory=dict)
    """Of each fault what led to it."""
    slowest: float = 0.0
    """Seconds of the processor."""
    slowest_of: str = ""
    memory: list[tuple[int, float]] = field(default_factory=list)
    """(chunks that this process had done, MiB that it held)"""

    def __iadd__(self, other: Tally) -> Tally:
        self.done += other.done
        self.counts.update(other.counts)
        self.faults.update(other.faults)
        for fault, some in other.examples.items():
            kept = self.examples.setdefault(fault, [])
            kept += some[: EXAMPLES - len(kept)]
        if other.slowest > self.slowest:
            self.slowest, self.slowest_of = other.slowest, other.slowest_of
        self.memory += other.memory
        return self

    def fault(self, sentence: str, example: str) -> None:
        """Note what should not have happened."""
        self.faults[sentence] += 1
        kept = self.examples.setdefault(sentence, [])
        if len(kept) < EXAMPLES:
            kept.append(example)

    def took(self, seconds: float, what: str) -> None:
        """Note how long something took."""
        if seconds > self.slowest:
            self.slowest, self.slowest_of = seconds, what

    def record(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {**vars(self), "counts": dict(self.counts), "faults": dict(self.faults)}

    @classmethod
    def of(cls, record: dict[str, Any]) -> Tally:
        """From what `record` gave, by way of JSON."""
        made = cls(**record)
        made.counts, made.faults = Counter(made.counts), Counter(made.faults)
        made.memory = [(int(at), float(held)) for at, held in made.memory]
        return made


Work = Callable[[int, int], Tally]
"""(seed, number of the chunk) → what came of it."""


def raised(error: BaseException) -> str:
    """An exception by its type, its words without numbers, and where in the code it was raised."""
    last = (own_frames(error) or traceback.extract_tb(error.__traceback__))[-1]
    place = "/".join(Path(last.filename).parts[-2:])
    said = "".join("#" if sign.isdigit() else sign for sign in str(error))
    return f"{type(error).__name__} in {place}, {last.name}: {' '.join(said.split())[:120]!r}"


def own_frames(error: BaseException) -> list[traceback.FrameSummary]:
    """The frames of an exception that lie in ConvGym's own code; none, where it never got there."""
    frames = traceback.extract_tb(error.__traceback__)
    return [frame for frame in frames if frame.filename.startswith(OURS)]


@contextmanager
def in_time(seconds: float) -> Iterator[None]:
    """Raises Hung inside, in the main thread, once so many seconds of the processor are spent.

    What waits without computing is noticed by the silence of its process.
    """

    def stop(*_: object) -> None:
        raise Hung(f"nothing came for {seconds:g} seconds of the processor")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


def held() -> float:
    """MiB that this process has in memory."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * PAGE / 2**20


def growth(memory: Sequence[tuple[int, float]]) -> float:
    """MiB by which one process grows in a hundred chunks, by least squares over its second half."""
    late = sorted(memory)[len(memory) // 2 :]
    if len({at for at, _ in late}) < 2:
        return 0.0
    mean_at = sum(at for at, _ in late) / len(late)
    mean = sum(size for _, size in late) / len(late)
    across = sum((at - mean_at) ** 2 for at, _ in late)
    return 100 * sum((at - mean_at) * (size - mean) for at, size in late) / across


# -- workers ---------------------------------------------------------------------------------------


def _serve(work: Work, seed: int, asked: Any, answers: Any) -> None:
    """What a worker does: chunks as they come, until None."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends it
    threading.Thread(target=_end_with_parent, daemon=True).start()
    done = 0
    while (chunk := asked.get()) is not None:
        tally = work(seed, chunk)
        done += 1
        tally.memory.append((done, held()))
        answers.put((chunk, tally.record()))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


class _Worker:
    """A process, what it is asked, and since when."""

    def __init__(self, work: Work, seed: int) -> None:
        context = multiprocessing.get_context("spawn")  # no locks or threads of this process
        self._asked, self._answers = context.SimpleQueue(), context.Queue()
        self.process = context.Process(
            target=_serve, args=(work, seed, self._asked, self._answers), daemon=True
        )
        self.process.start()
        self.chunk: int | None = None
        self.since = time.monotonic()

    def ask(self, chunk: int | None) -> None:
        self.chunk, self.since = chunk, time.monotonic()
        self._asked.put(chunk)

    def answer(self) -> Tally | None:
        try:
            _, told = self._answers.get(timeout=0.02)
        except queue.Empty:
            return None
        return Tally.of(told)


def search(
    work: Work, chunks: int, *, seed: int, workers: int, silence: float, log: Path | None
) -> Tally:
    """All chunks, those that stand in the log already included."""
    total, known = Tally(), set()
    for line in log.read_text("utf-8").splitlines() if log and log.exists() else ():
        record = json.loads(line)
        known.add(record.pop("chunk"))
        total += Tally.of(record)
    left = iter([chunk for chunk in range(chunks) if chunk not in known])
    crew = [_Worker(work, seed) for _ in range(workers)]
    for worker in crew:
        worker.ask(next(left, None))
    told = time.monotonic()
    while any(worker.chunk is not None for worker in crew):
        for place, worker in enumerate(crew):
            if worker.chunk is None:
                continue
            tally = worker.answer()
            silent = time.monotonic() - worker.since > silence
            if tally is None and (silent or not worker.process.is_alive()):
                tally = worker.answer() or Tally()  # it may have answered and ended since
                if not tally.done:
                    what = "hung" if silent else f"died ({worker.process.exitcode})"
                    tally.fault(f"the process {what}", f"chunk {worker.chunk}")
                    worker.process.kill()
                    crew[place] = _Worker(work, seed)
            if tally is None:
                continue
            if log is not None:
                with log.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"chunk": worker.chunk, **tally.record()}) + "\n")
            total += tally
            crew[place].ask(next(left, None))
        if time.monotonic() - told > 60:
            told = time.monotonic()
            print(f"… {total.done:,} done, {sum(total.faults.values())} faults", file=sys.stderr)
    return total


# -- the command -----------------------------------------------------------------------------------


def command(page: str, what: str, number: int, per_chunk: int, work: Work) -> int:
    """Read the arguments, search, print what was found; 1 where there was a fault."""
    parser = argparse.ArgumentParser(description=page.splitlines()[0])
    parser.add_argument(f"--{what}", type=int, default=number, dest="number")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1, help="processes")
    parser.add_argument("--log", type=Path, help="finished chunks; a run goes on behind them")
    parser.add_argument("--silence", type=float, default=900.0, help="seconds until a chunk hung")
    parser.add_argument("--only", type=int, help="this chunk alone, in this process")
    options = parser.parse_args()
    began = time.monotonic()
    if options.only is not None:
        total = work(options.seed, options.only)
    else:
        chunks = -(-options.number // per_chunk)
        total = search(
            work, chunks, seed=options.seed, workers=options.workers, silence=options.silence,
            log=options.log,
        )  # fmt: skip
    report(total, what, time.monotonic() - began)
    return 1 if total.faults else 0


def report(total: Tally, what: str, seconds: float) -> None:
    """Print what was done and found."""
    for name, count in sorted(total.counts.items()):
        print(f"  {count:>9,}  {name}")
    hung = sum(count for fault, count in total.faults.items() if "hung" in fault or "Hung" in fault)
    print(
        f"{what} {total.done:,} in {seconds:,.0f} s   faults {sum(total.faults.values())} "
        f"({hung} of them hangs)   slowest {total.slowest * 1000:.0f} ms ({total.slowest_of})"
    )
    if total.memory:
        most = max(size for _, size in total.memory)
        print(
            f"memory at most {most:,.0f} MiB a process, {growth(total.memory):+.2f} MiB in 100 "
            f"chunks of the second half ({len(total.memory)} chunks)"
        )
    for fault, count in total.faults.most_common():
        print(f"FAULT {count:>6} × {fault}")
        for example in total.examples.get(fault, ()):
            print(f"         {example}")


if os.name != "posix":  # pragma: no cover
    raise SystemExit("this needs alarms and /proc, which are POSIX systems'")
