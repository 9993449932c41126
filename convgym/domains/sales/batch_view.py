"""A row of sales as the plain episode that its view is told from."""

from __future__ import annotations

import numpy as np

from convgym.domains.sales import rules
from convgym.domains.sales.batch_records import HAS_ADDON, IS_HELD, IS_QUOTED, IS_READ, IS_TOLD
from convgym.domains.sales.records import DeskState, Quote
from convgym.domains.sales.tasks import Task
from convgym.engine.batch import Cells
from convgym.engine.episode import Episode

_COPIED = "needs searched feature rival countered booked".split()


def episode_in_view(row: np.void, belief: Cells, task: Task) -> Episode:
    """As much of the episode in this row as the agent may see of it."""
    episode = Episode(task, 0, 0, bytearray(belief.tobytes()))
    episode.desk = desk = DeskState(rules.parameter_dict(task.parameters))
    for name in _COPIED:
        setattr(desk, name, int(row[name]))
    desk.view = tuple(row["in_view"][: row["n_view"]].tolist())
    for product in desk.view:
        flags = int(row["flags"][product])
        desk.read |= bool(flags & IS_READ) << product
        if flags & IS_QUOTED:
            desk.quotes[product] = Quote(
                int(row["discount"][product]),
                int(row["quantity"][product]),
                addon=bool(flags & HAS_ADDON),
                told=bool(flags & IS_TOLD),
                held=bool(flags & IS_HELD),
            )
    return episode
