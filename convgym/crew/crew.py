"""Who does the shares of a job: this process, several of them, or actors on Ray.

    make() ─► work                      once in each worker: what it needs, loaded
    shares  0  1  2  3  4 …  ─────►  work(share, common)  ─────►  results, in the order of shares
                                            ▲
    common  sent once to each worker for all shares of a call

What comes of a share must hang on the share and `common` alone; then how many workers there are,
of which kind, and which of them died on the way changes nothing but the time. An error that `work`
raises is raised here as it is, that of the first share that has one. Knows nothing of what is done.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager
from functools import partial
from multiprocessing import get_context
from typing import Any, Literal, TypeVar, get_args

from convgym.errors import InvalidConfiguration, WorkerLost, told

Backend = Literal["local", "ray"]
Item = TypeVar("Item")
Work = Callable[[Any, Any], Any]
"""From a share and what is common to all of them to the share's result."""
Make = Callable[[], Work]

SHARES = 8
"""Shares that each worker takes, one after the other."""


class Crew(AbstractContextManager["Crew"]):
    """Workers that wait for shares until they are closed."""

    workers = 1

    def cut(self, items: Sequence[Item]) -> list[Sequence[Item]]:
        """Items in order, in shares: several for each worker, so that none waits long."""
        size = max(1, -(-len(items) // (self.workers * SHARES)))
        return [items[first : first + size] for first in range(0, len(items), size)]

    def results(self, shares: Sequence[Any], common: Any = None) -> Iterator[Any]:
        """What comes of each share, in order; raises what `work` raised, or WorkerLost."""
        raise NotImplementedError

    def __exit__(self, *_: object) -> None:
        """Send the workers away."""


def crew_of(make: Make, workers: int = 1, backend: Backend = "local") -> Crew:
    """`workers` of a kind: of "local", one is this process itself, more are other processes.

    Where there are other processes `make` is pickled, and a script that starts them must be guarded
    by `if __name__ == "__main__"`. Raises InvalidConfiguration for what cannot be sent or is not
    there, MissingExtra where Ray is not installed.
    """
    if backend not in get_args(Backend):
        known = ", ".join(get_args(Backend))
        raise InvalidConfiguration(f"backend={backend!r}; it is one of {known}")
    if not isinstance(workers, int) or isinstance(workers, bool) or workers < 1:
        raise InvalidConfiguration(f"workers={workers!r}; it must be a whole number from 1")
    if backend == "ray":
        from convgym.crew.ray_crew import RayCrew

        return RayCrew(make, workers)
    return Alone(make) if workers == 1 else Processes(make, workers)


class Alone(Crew):
    """This process does everything itself."""

    def __init__(self, make: Make) -> None:
        self._make = make
        self._work: Work | None = None

    def cut(self, items: Sequence[Item]) -> list[Sequence[Item]]:
        """One by one: nobody waits, and who watches hears of each."""
        return [[item] for item in items]

    def results(self, shares: Sequence[Any], common: Any = None) -> Iterator[Any]:
        """As `Crew`."""
        for share in shares:
            self._work = self._work or self._make()
            yield self._work(share, common)


class Processes(Crew):
    """Other processes of this machine."""

    def __init__(self, make: Make, workers: int) -> None:
        self.workers = workers
        sent = packed(make, pickle.dumps, "use workers=1")
        self._pool = ProcessPoolExecutor(
            workers, mp_context=get_context("spawn"), initializer=_begin, initargs=(sent,)
        )

    def results(self, shares: Sequence[Any], common: Any = None) -> Iterator[Any]:
        """As `Crew`; `common` is sent with each share."""
        try:
            yield from self._pool.map(partial(_do, common=common), shares)
        except BrokenProcessPool:
            raise WorkerLost(
                f"one of {self.workers} worker processes died; see what the system says of its "
                'memory, take fewer workers, or backend="ray", which plays its share again'
            ) from None

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)


_OWN: list[Any] = []
"""What this worker process makes its work of, then the work; empty in any other."""


def _begin(sent: bytes) -> None:
    _OWN[:] = [sent]


def _do(share: Any, common: Any) -> Any:
    if isinstance(_OWN[0], bytes):  # here, and not at the start, so that its errors are raised
        _OWN[0] = pickle.loads(_OWN[0])()
    return _OWN[0](share, common)


def packed(make: Make, dumps: Callable[[Any], bytes], cure: str) -> bytes:
    """`make` as bytes; raises InvalidConfiguration, with the cure, where it has none."""
    try:
        return dumps(make)
    except Exception as error:  # whatever an object says to being pickled
        what = told(error)
        raise InvalidConfiguration(
            f"what the workers need cannot be sent to other processes ({what}); {cure}, or name "
            "the policy by its run, its file or module:callable, so that each worker makes its own"
        ) from None
