"""One trial from its options to how it ended, wherever it is run.

Knows nothing of optuna, so that a worker elsewhere needs none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from convgym.errors import ConvGymError
from trainers.tuning.subjects import Changes, Heard, Scored, Subject


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a trial ended: with a score, given up, or failed."""

    scored: Scored | None = None
    pruned: bool = False
    error: str = ""


def attempt(subject: Subject, changes: Changes, folder: Path, heard: Heard) -> Ended:
    """Learn and score; whatever the learner raises is the trial's end and not the search's."""
    given_up = False

    def listens(step: int, value: float) -> bool:
        nonlocal given_up
        given_up = given_up or heard(step, value)
        return given_up

    try:
        scored = subject.run(changes, folder, listens)
    except Exception as error:  # a trial that fails tells something about its options
        return Ended(error=sentence(error))
    if given_up:
        return Ended(pruned=True)
    if not math.isfinite(scored.value):
        return Ended(error=f"its score is {scored.value}; what was learnt is no policy")
    return Ended(scored=scored)


def clear(folder: Path) -> None:
    """Without what only an interrupted trial needs; metrics stay."""
    for left in folder.glob("checkpoint.*"):
        left.unlink(missing_ok=True)


def sentence(error: BaseException) -> str:
    """What an error says, on one line."""
    said = " ".join(str(error).split())[:500]
    if isinstance(error, ConvGymError):
        return said
    return f"{type(error).__name__}: {said or 'no more is known'}"
