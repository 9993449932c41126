"""Options for ConvGym's own conversations: one set for all domains, found on validation tasks.

    tuned("cql", seed=3)      CQLConfig(discount=0.98, n_step=30, weighting="return", …, seed=3)

Conversations are long beside what is known of each state, so that a reward at the end must come
far in one step (`n_step`), and most of them fail, so that those that do not must count more.
`scripts/bench_offline_datasets.py` measures all of it.
"""

from __future__ import annotations

from typing import Any

from trainers.offline.config import OfflineConfig, checked
from trainers.offline.registry import config_of

STEPS = 2500
"""Updates of a fit."""
_SHARED: dict[str, Any] = {"discount": 0.98}
_OWN: dict[str, dict[str, Any]] = {
    "bcq": {"n_step": 30},
    "bear": {"n_step": 30, "critics": 1},
    "cql": {"n_step": 30, "weighting": "return", "weight_temperature": 0.3},
    "dqn": {"n_step": 30},
    "iql": {"n_step": 10, "critics": 1},
}


def tuned(algorithm: str, **changed: Any) -> OfflineConfig:
    """A config over acts, options changed; raises InvalidConfiguration for unknown ones."""
    kind = config_of(algorithm, discrete=True)
    config: OfflineConfig = checked(kind, {**_SHARED, **_OWN.get(algorithm, {}), **changed})
    return config
