"""A row of technical support as the plain episode that its view is told from."""

from __future__ import annotations

import numpy as np

from convgym.domains.technical_support import rules
from convgym.domains.technical_support.dialogue import CHECK_NAMES, STEP_NAMES
from convgym.domains.technical_support.records import DeskState
from convgym.domains.technical_support.tasks import Task
from convgym.engine.batch import Cells
from convgym.engine.episode import Episode

_ASKED = (*CHECK_NAMES, *STEP_NAMES)


def episode_in_view(row: np.void, belief: Cells, task: Task) -> Episode:
    """As much of the episode in this row as the agent may see of it."""
    episode = Episode(task, 0, 0, bytearray(belief.tobytes()))
    episode.desk = desk = DeskState(rules.parameter_dict(task.parameters), task.state)
    desk.account, desk.in_hand = int(row["account"]), int(row["in_hand"])
    desk.heard, desk.last_write = row["stated"].tolist(), int(row["last_write"])
    desk.asked = (_ASKED[row["asked_last"]],) if row["asked_last"] >= 0 else ()
    return episode
