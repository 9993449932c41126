"""Named statistics of users, and how users respond: all of them ratios of sums.

    statistic   words ÷ turns, turns with a question ÷ turns, turns ÷ conversations, …
    response    turns that end the conversation ÷ turns after k failures of the agent, …

What a newcomer would get wrong: equal statistics say nothing of what a user does when the agent
does something new; the response curves do, as far as the log has it. Which are there hangs on the
log: without the agent's turns only the hazard of ending is left, and whether a question is answered
takes acts that tell what was asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convgym.calibration.turns import MARKS, Floats, UserTurns

MOST_TURNS = 12
MOST_FAILURES = 3
SHORT, LONG = 3, 20
"""Words of a short turn at most, and of a long one at least."""


@dataclass(frozen=True, slots=True, eq=False)
class Rate:
    """A ratio of two numbers that each conversation has."""

    name: str
    condition: str
    """Of a response: after what; "" for a statistic."""
    part: Floats  # (conversations,)
    whole: Floats  # (conversations,)

    def of(self, weights: Floats) -> NDArray[np.floating]:
        """The ratio of sums over sets of conversations; NaN where there is nothing to divide by.

        weights: (…, conversations) → (…,)
        """
        with np.errstate(invalid="ignore"):
            return (weights @ self.part) / (weights @ self.whole)


def statistics(turns: UserTurns) -> list[Rate]:
    """What is checked of users in general."""
    first, last, words = turns.place == 0, turns.last, turns.lengths
    always = np.ones(len(words), dtype=np.bool_)
    marks = dict(zip(MARKS, turns.marks.T, strict=True))
    ones = np.ones(turns.conversations)
    return [
        Rate("turns a conversation", "", turns.counts.astype(np.float64), ones),
        _rate(turns, "words a turn", "", words, always),
        _rate(turns, "words, first turn", "", words, first),
        _rate(turns, "words, last turn", "", words, last),
        _rate(turns, f"turns of {SHORT} words or fewer", "", words <= SHORT, always),
        _rate(turns, f"turns of {LONG} words or more", "", words >= LONG, always),
        *(_rate(turns, f"turns with {name}", "", mark, always) for name, mark in marks.items()),
        _rate(turns, "first turns with greeting", "", marks["greeting"], first),
        _rate(turns, "last turns with thanks", "", marks["thanks"], last),
    ]


def responses(turns: UserTurns) -> list[Rate]:
    """What users do next, by what has happened; each a share of turns."""
    places = [turns.place == place for place in range(MOST_TURNS)]
    heard = turns.prompted
    question = np.array(["?" in prompt for prompt in turns.prompts], dtype=np.bool_)
    failures = np.minimum(_failures_so_far(turns), MOST_FAILURES)
    many = f"{MOST_FAILURES} failures or more"
    short, asks = turns.lengths <= SHORT, turns.marks[:, MARKS.index("question")]
    return [
        *(_rate(turns, "ends", f"turn {k + 1}", turns.last, at) for k, at in enumerate(places)),
        *(
            _rate(turns, "ends", f"{k} failures so far", turns.last, heard & (failures == k))
            for k in range(MOST_FAILURES)
        ),
        _rate(turns, "ends", many, turns.last, heard & (failures == MOST_FAILURES)),
        _rate(
            turns, "answers", "asked for a slot", turns.answered == 1, np.isfinite(turns.answered)
        ),
        _rate(turns, "asks back", "a question", asks, question),
        _rate(turns, "asks back", "no question", asks, heard & ~question),
        _rate(turns, f"says {SHORT} words or fewer", "a failure", short, turns.failed),
        _rate(turns, f"says {SHORT} words or fewer", "no failure", short, heard & ~turns.failed),
    ]


def _rate(
    turns: UserTurns, name: str, condition: str, values: NDArray[Any], there: NDArray[np.bool_]
) -> Rate:
    """Sum of values ÷ turns, over the turns that are there.  (T,), (T,)"""
    part = np.bincount(turns.owner, values * there, turns.conversations)
    whole = np.bincount(turns.owner, there, turns.conversations)
    return Rate(name, condition, part.astype(np.float64), whole.astype(np.float64))


def _failures_so_far(turns: UserTurns) -> NDArray[np.int64]:
    """How often the agent has spoken of a failure before each turn, in its conversation.  (T,)"""
    total = np.cumsum(turns.failed)
    begin = np.flatnonzero(turns.place == 0)
    before: NDArray[np.int64] = total[begin] - turns.failed[begin]
    return total - np.repeat(before, np.diff([*begin, len(total)]))
