"""What the weights are worth: how many conversations they come to, and what is outside the data.

    effective sample size   (Σ w)² / Σ w²        n where all weigh alike, 1 where one does
    verdict                 no support           all weights are 0
                            not identifiable     fewer than 30: no interval is shown
                            amber                30 to 100
                            green                100 and more

    unsupported mass        Σ_a π(a | o) over acts that the behaviour never does there

(Kong, 1992; the bounds by measured coverage of intervals.) Knows nothing of estimators.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from convgym.evaluation.ope.behavior import States
from convgym.evaluation.ope.logged import Floats, LoggedPolicyData
from convgym.evaluation.ope.tabular import cells_of

Verdict = Literal["green", "amber", "not identifiable", "no support"]
FEWEST, ENOUGH = 30.0, 100.0
"""Effective conversations below which nothing is identified, and from which all is well."""


def effective_sample_size(weights: Floats) -> Floats:
    """(…, n) → (…,); 0 where all weights are 0."""
    squares = np.square(weights).sum(axis=-1)
    found: Floats = np.square(weights.sum(axis=-1)) / np.where(squares > 0, squares, 1.0)
    return found


def verdict_of(ess: float) -> Verdict:
    """What an effective sample size allows to say."""
    if ess <= 0:
        return "no support"
    return "not identifiable" if ess < FEWEST else "amber" if ess < ENOUGH else "green"


def unsupported_mass(data: LoggedPolicyData, states: States | None = None) -> float:
    """Mean over logged turns of what π gives to acts without support.

    An act has support where the behaviour is known to do it. Where only propensities are known, it
    has where anybody did it: in the same cell of `states`, or at all.
    """
    asked = data.evaluation[data.row_of_turn]  # (turns, acts)
    if data.behavior is not None:
        supported = data.behavior[data.row_of_turn] > 0
    else:
        cells = np.zeros(len(asked), dtype=np.intp)
        if states is not None:
            cells = cells_of(states, data.observations)[data.row_of_turn]
        done = np.zeros((cells.max() + 1, data.acts), dtype=bool)
        done[cells, data.actions] = True
        supported = done[cells]
    return float(np.where(supported, 0.0, asked).sum(axis=1).mean())
