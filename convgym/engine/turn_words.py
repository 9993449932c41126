"""What a step of many rows brought, as texts: the part that is the same in every domain.

    results of a row  (code, numbers)…  ─► TurnWords.result  ─► lines
    acts of a row     act, about        ─► TurnWords.stated  ─► (act, number, number)…
                                              ├─► TurnWords.act_json ─► "[{…}, …]"
                                              └─► TurnWords.act      ─► Spoken…

Texts are made once and kept: rows repeat each other, and so do the turns of one row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from convgym.engine.batch import QUOTED

Numbers = NDArray[np.int64]
Stated = tuple[int, int, int]
"""An act and the two numbers that its value is made of."""


class TurnWords(Protocol):
    """Texts of one domain's rows; holds no episode's state."""

    names: tuple[str, ...]
    """What phrases are kept for each act under."""
    opening: NDArray[np.bool_]
    """Acts of which a first turn is made.  (acts,)"""
    informs: NDArray[np.bool_]
    """Those of them that are said last in a turn of nothing else: who answers first and then
    remembers why they came writes it the other way round.  (acts,)"""

    def result(self, code: int, *numbers: int) -> str:
        """What a tool answered; never asked for `QUOTED`."""

    def stated(
        self, acts: Numbers, of: NDArray[np.int32], about: Numbers, tasks: NDArray[np.void]
    ) -> Numbers:
        """Two numbers that the value of each act is made of.  (n,) → (n, 2)

        `of` is the place of its task in `tasks`, `about` which request of it. Equal numbers mean
        equal values.
        """

    def act_json(self, act: int, first: int, second: int) -> str:
        """An act as a JSON object."""

    def act(self, act: int, first: int, second: int) -> Any:
        """An act by name, with the slot and the value of one that states something (`Spoken`)."""


class SpokenActs(NamedTuple):
    """The acts of some rows' turns, one after the other, as they are said.  (n,) each"""

    of: Numbers
    """Place of its row among those asked for."""
    at: Numbers
    """Place in its turn."""
    acts: Numbers
    stated: Numbers
    """(n, 2)"""
    counts: Numbers
    """Acts of each row.  (rows,)"""

    def keys(self) -> list[Stated]:
        """What `act` and `act_json` take, for each act."""
        columns = (self.acts, self.stated[:, 0], self.stated[:, 1])
        return list(zip(*(column.tolist() for column in columns), strict=True))


def acts_of(
    words: TurnWords,
    turns: NDArray[np.void],
    tasks: NDArray[np.void],
    rows: NDArray[np.int32],
    ordered: bool,
) -> SpokenActs:
    """The acts of the turns of these rows; `ordered` as they are said, else as they were chosen."""
    counts = np.where(turns["answered"][rows] != 0, turns["n_acts"][rows], 0).astype(np.int64)
    of = np.repeat(np.arange(len(counts)), counts)
    at = np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts)
    row = rows[of]
    acts = turns["acts"][row, at].astype(np.int64)
    if ordered:
        others = np.bincount(of, ~words.opening[acts], len(counts))
        late = words.informs[acts] & (others[of] == 0)
        acts = acts[np.lexsort((late, of))]
    stated = words.stated(acts, row, turns["about"][row].astype(np.int64), tasks)
    return SpokenActs(of, at, acts, stated, counts)


def acts_json(
    words: TurnWords, turns: NDArray[np.void], tasks: NDArray[np.void], rows: NDArray[np.int32]
) -> list[str]:
    """The user's turn of each of these rows as a JSON list of `{"act", "value"}`."""
    said = acts_of(words, turns, tasks, rows, ordered=False)
    made = [words.act_json(*key) for key in said.keys()]  # noqa: SIM118
    texts, start = [], 0
    for count in said.counts.tolist():
        texts.append("[" + ", ".join(made[start : start + count]) + "]")
        start += count
    return texts


def results_text(
    words: TurnWords,
    turns: NDArray[np.void],
    rows: NDArray[np.int32],
    quotes: Sequence[tuple[str, ...]] | None = None,
) -> list[str]:
    """What the tools answered in these rows, a line each; `quotes` has the sentences of every row.
    """
    counts = turns["n_results"][rows]
    texts = [""] * len(counts)
    some = np.flatnonzero(counts)
    if not len(some):
        return texts
    own = rows[some]
    each: Any = turns["results"][own, : int(counts.max())].tolist()
    result = words.result
    columns = (some.tolist(), own.tolist(), counts[some].tolist(), each)
    for place, row, count, results in zip(*columns, strict=True):
        if count == 1 and results[0][0] != QUOTED:
            texts[place] = result(*results[0])
            continue
        quoted = () if quotes is None else quotes[row]
        texts[place] = "\n".join(
            [quoted[one[1]] if one[0] == QUOTED else result(*one) for one in results[:count]]
        )
    return texts
