"""Actors on Ray, on this machine or on many, as a crew.

    shares ─► whichever actor is free ─► results, put in order
    common ─► the object store, once; each machine fetches it once
    an actor that dies: Ray starts another, which does its share again, `ATTEMPTS` times over

Uses the Ray that is running, or one of its own for as long as it takes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from convgym.crew.crew import Crew, Make, Work, packed
from convgym.errors import MissingExtra, WorkerLost

try:
    import ray
    from ray import cloudpickle
    from ray.exceptions import RayActorError, RayTaskError
except ImportError as error:
    raise MissingExtra(error.name or "ray", "ray") from error

ATTEMPTS = 3
"""Times that a share is done again after its worker has died, before it is given up."""
_ENVIRONMENT = {"RAY_CHDIR_TO_TRIAL_DIR": "0"}
"""Relative paths, of data for instance, mean in a worker what they mean here."""


@contextmanager
def ray_running(cores: int) -> Iterator[None]:
    """The Ray that is running, else one on `cores` of this machine's, ended on the way out."""
    if ray.is_initialized():
        yield
        return
    ray.init(
        num_cpus=cores,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
        runtime_env={"env_vars": _ENVIRONMENT},
    )
    try:
        yield
    finally:
        ray.shutdown()


class RayCrew(Crew):
    """`workers` actors, each on one core, and on `gpus` of a GPU."""

    def __init__(self, make: Make, workers: int, gpus: float = 0.0) -> None:
        self.workers = workers
        sent = packed(make, cloudpickle.dumps, 'use backend="local" and workers=1')
        self._open = ExitStack()
        self._open.enter_context(ray_running(workers))
        actor = ray.remote(
            num_cpus=1, num_gpus=gpus, max_restarts=-1, max_task_retries=ATTEMPTS
        )(_Worker)
        self._actors = [actor.remote() for _ in range(workers)]
        self._coming = {one.here.remote(): one for one in self._actors}
        self._sent = [ray.put(sent)]  # in a list it stays a reference until a worker wants it

    def results(self, shares: Sequence[Any], common: Any = None) -> Iterator[Any]:
        """As `Crew`."""
        waiting, held = deque(enumerate(shares)), ray.put(common)
        free = [actor for actor in self._actors if actor not in self._coming.values()]
        running: dict[Any, tuple[int, Any]] = {}
        ended: dict[int, Any] = {}
        for due in range(len(shares)):
            while due not in ended:
                while waiting and free:
                    number, share = waiting.popleft()
                    actor = free.pop()
                    running[actor.do.remote(self._sent, share, held)] = number, actor
                (done,), _ = ray.wait([*running, *self._coming])
                if done in self._coming:
                    free.append(self._coming.pop(done))
                else:
                    number, actor = running.pop(done)
                    free.append(actor)
                    ended[number] = done
            yield _result(ended.pop(due))

    def __exit__(self, *_: object) -> None:
        for actor in self._actors:
            ray.kill(actor)
        self._open.close()


class _Worker:
    """What an actor is."""

    def __init__(self) -> None:
        self._work: Work | None = None

    def here(self) -> None:
        """Nothing: who answers has a core, which a cluster may not have for all at once."""

    def do(self, sent: list[Any], share: Any, common: Any) -> Any:
        """A share; its first one makes the work, so that one that begins anew can do so too."""
        if self._work is None:
            self._work = cloudpickle.loads(ray.get(sent[0]))()
        return self._work(share, common)


def _result(reference: Any) -> Any:
    try:
        return ray.get(reference)
    except RayTaskError as error:
        raise error.cause from None
    except RayActorError as error:
        raise WorkerLost(
            f"workers on Ray died {ATTEMPTS + 1} times over the same share ({_first(error)}); see "
            "Ray's logs for why: mostly memory"
        ) from None


def _first(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
