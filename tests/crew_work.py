"""What a crew's workers do in the tests: a module of its own, for other processes import it."""

import os
import threading
import time
from pathlib import Path

from convgym.errors import InvalidConfiguration, MissingExtra
from convgym.policies.scripted import KeywordPolicy


def tenfold(offset=0):
    """A work that says of each share ten times it, and which process it was."""
    return lambda share, common: (10 * share + offset + (common or 0), os.getpid())


def refusing():
    def work(share, _):
        if share >= 3:
            raise InvalidConfiguration(f"no share {share}, please")
        return share

    return work


def dying(place, times):
    """Its process ends without a word, the first `times` times that somebody does share 2."""

    def work(share, _):
        deaths = Path(place) / f"{time.monotonic_ns()}"
        if share == 2 and len(list(Path(place).iterdir())) < times:
            deaths.touch()
            os._exit(1)
        return share

    return work


def missing():
    raise MissingExtra("ray", "ray")


class Unwilling(KeywordPolicy):
    """Raises in the middle of an episode."""

    def predict(self, observation, *args, **kwargs):
        action, state = super().predict(observation, *args, **kwargs)
        if self._steps > 3:
            raise InvalidConfiguration(f"no more, after {self._steps} acts")
        return action, state


class Locked(KeywordPolicy):
    """Holds what no other process can have."""

    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()


def a_keyword_policy(env):
    """A worker's own."""
    return KeywordPolicy()
