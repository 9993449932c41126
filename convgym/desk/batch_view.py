"""A row of a desk as the plain episode that its view is told from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from convgym.desk.state import DeskState
from convgym.desk.tasks import Task
from convgym.engine.batch import Cells
from convgym.engine.episode import Episode

if TYPE_CHECKING:
    from convgym.desk.desk import ServiceDesk


def episode_in_view(desk: ServiceDesk, row: np.void, belief: Cells, task: Task) -> Episode:
    """As much of the episode in this row as the agent may see of it."""
    episode = Episode(task, 0, 0, bytearray(belief.tobytes()))
    episode.desk = DeskState(desk.parameters(task), 0, 0)
    episode.desk.account, episode.desk.at = int(row["account"]), int(row["desk_at"])
    episode.desk.heard = row["stated"].tolist()
    return episode
