"""What a batched engine asks of a domain, and the tasks of a domain as rows.

    numbers of tasks ─► TaskRows ─► records ─► open_rows ─► step_rows ─► …
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from convgym.engine.batch import Cells, Ints
from convgym.engine.episode import Episode
from convgym.engine.tasks import SPLITS
from convgym.engine.turn_words import TurnWords


class BatchedDomain(Protocol):
    """A domain's desk and user on rows; made for one desk, decision model and cap of turns."""

    episode: np.dtype[np.void]
    """Fields of an episode's record: `EPISODE_FIELDS`, `USER_FIELDS` and the domain's own."""
    task: np.dtype[np.void]
    """Fields of a compiled task; one of them is `oracle_length`."""
    words: TurnWords
    """Texts of what a step brought, made of `TURN_FIELDS` alone: they may be asked for when later
    steps were taken."""

    def compile(self, split: str, number: int, into: np.void) -> None:
        """Write the task called `<split>-<number>` into a record of `task`."""

    def open_rows(
        self, rows: Ints, episodes: NDArray[np.void], belief: Cells, tasks: NDArray[np.void]
    ) -> None:
        """Begin these rows: their tasks, keys and personas are set, all else is made anew."""

    def step_rows(
        self,
        rows: Ints,
        actions: Ints,
        episodes: NDArray[np.void],
        belief: Cells,
        tasks: NDArray[np.void],
        grades: bool,
    ) -> None:
        """Take one act in each of these rows; `actions` has one number for each of them.

        Episodes that end are graded; with `grades` the others are, too.
        """

    def in_view(self, row: np.void, belief: Cells, task: Any) -> Episode:
        """As much of the plain episode in a row, with this plain task, as its view is told from."""

    # -- replies in free text --------------------------------------------------------------------

    reads: bool
    """Whether it takes them; without, there is nothing of what follows."""
    reading: np.dtype[np.void]
    """Fields of a reply that was read: what it says in any state."""

    def read(self, text: str, into: np.void) -> tuple[str, ...]:
        """Write what a sanitised reply says into a record of `reading`.

        Gives the sentences that answers to it may quote (`QUOTED`), in the order of their numbers.
        """

    def step_readings(
        self,
        rows: Ints,
        which: Ints,
        readings: NDArray[np.void],
        episodes: NDArray[np.void],
        belief: Cells,
        tasks: NDArray[np.void],
        grades: bool,
    ) -> None:
        """Take a reply in each of these rows: that at its place `which` in `readings`."""


class TaskRows:
    """The tasks of a domain as records, each compiled when it is first met.

    For a domain that cannot `draw` them itself, in compiled code, under the same name.
    """

    def __init__(self, domain: BatchedDomain) -> None:
        self._domain = domain
        self._rows: dict[str, tuple[NDArray[np.void], NDArray[np.bool_]]] = {}

    def draw(self, split: str, numbers: NDArray[np.int64], into: NDArray[np.void]) -> None:
        """Write these tasks of a split.  (n,) → (n,) records"""
        if split not in self._rows:
            count = SPLITS[split]
            self._rows[split] = np.zeros(count, self._domain.task), np.zeros(count, bool)
        rows, filled = self._rows[split]
        for number in np.unique(numbers[~filled[numbers]]).tolist():
            self._domain.compile(split, number, rows[number])
            filled[number] = True
        into[:] = rows[numbers]
