"""Options for ConvGym's own conversations: one set for all domains, found on validation tasks.

    tuned("cql", seed=3)      CQLConfig(discount=0.98, n_step=30, weighting="return", …, seed=3)

Most conversations fail, so that in CQL those that do not count more (`weighting`), and a reward at
the end comes far in one step (`n_step`). With little data for each of a hundred acts, values alone
choose badly: acts are chosen by the value and by a clone's likelihood together (`bc_weight`; for
IQL `extraction`). `scripts/bench_offline_datasets.py` measures all of it.
"""

from __future__ import annotations

from typing import Any

from trainers.offline.config import OfflineConfig, checked
from trainers.offline.registry import config_of

STEPS = 2000
"""Updates of a fit."""
_SHARED: dict[str, Any] = {
    "discount": 0.98,
    "batch_size": 256,
    "learning_rate": 2e-3,
    "precision": "bfloat16",
}
_OWN: dict[str, dict[str, Any]] = {
    "bcq": {"n_step": 30},
    "bear": {"n_step": 30, "critics": 1, "bound": "each"},
    "cql": {"n_step": 30, "weighting": "return", "weight_temperature": 0.3, "bc_weight": 0.3},
    "dqn": {"n_step": 30},
    "iql": {"n_step": 5, "critics": 1, "extraction": "exact", "temperature": 6.0},
}


def tuned(algorithm: str, **changed: Any) -> OfflineConfig:
    """A config over acts, options changed; raises InvalidConfiguration for unknown ones."""
    kind = config_of(algorithm, discrete=True)
    config: OfflineConfig = checked(kind, {**_SHARED, **_OWN.get(algorithm, {}), **changed})
    return config
