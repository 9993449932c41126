"""What a batched environment asks of a domain.

    numbers of tasks ─► draw ─► records ─► open_rows ─► step_rows ─► …
    texts ─► read ─► readings ───────────────────────► step_readings ─► …
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from convgym.engine.batch import Cells, Ints
from convgym.engine.episode import Episode
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

    def draw(
        self, split: str, numbers: NDArray[np.int64], rows: Ints, into: NDArray[np.void]
    ) -> None:
        """`compile` tasks of a split into these rows, in compiled code; `numbers` has one for each.
        """

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
