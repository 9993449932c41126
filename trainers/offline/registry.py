"""Offline algorithms by name: their configs, for acts and for vectors.

    config_of("cql", discrete=True)        CQLConfig
    config_from_dict({"config": "CQLConfig", "cql_alpha": 0.1})

Configs are imported when they are asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from convgym.errors import InvalidConfiguration
from trainers.offline.config import OfflineConfig, checked

ACTS: dict[str, str] = {
    "bc": "bc.BCConfig",
    "bcq": "bcq.BCQConfig",
    "bear": "bear.BEARConfig",
    "cql": "cql.CQLConfig",
    "candidate_cql": "candidate_cql.CandidateCQLConfig",
    "decision_transformer": "decision_transformer.DecisionTransformerConfig",
    "dqn": "cql.DQNConfig",
    "iql": "iql.IQLConfig",
    "mc": "mc.MCConfig",
}
"""Algorithms that choose among acts."""
VECTORS: dict[str, str] = {
    "bc": "vector_bc.VectorBCConfig",
    "cql": "vector_cql.VectorCQLConfig",
    "iql": "vector_iql.VectorIQLConfig",
    "bcq": "vector_bcq.VectorBCQConfig",
    "bear": "vector_bear.VectorBEARConfig",
    "td3_bc": "td3_bc.TD3BCConfig",
    "decision_transformer": "decision_transformer.ContinuousDecisionTransformerConfig",
}
"""Algorithms whose actions are vectors."""


def config_of(algorithm: str, *, discrete: bool) -> type[OfflineConfig]:
    """The config class; raises InvalidConfiguration for an algorithm there is not."""
    known = ACTS if discrete else VECTORS
    if algorithm not in known:
        kind, other = ("acts", VECTORS) if discrete else ("vectors", ACTS)
        hint = f"; it is there for {'vectors' if discrete else 'acts'}" * (algorithm in other)
        raise InvalidConfiguration(
            f"no offline algorithm over {kind} is called {algorithm!r}{hint}; there are "
            f"{', '.join(known)}"
        )
    return _loaded(known[algorithm])


def config_from_dict(stored: Mapping[str, Any]) -> OfflineConfig:
    """The config that `to_dict` described."""
    options = dict(stored)
    name = options.pop("config", None)
    for where in (*ACTS.values(), *VECTORS.values()):
        if where.partition(".")[2] == name:
            found: OfflineConfig = checked(_loaded(where), options)
            return found
    raise InvalidConfiguration(f"{name!r} is no config of an offline learner")


def _loaded(where: str) -> type[OfflineConfig]:
    module, _, name = where.partition(".")
    found: type[OfflineConfig] = getattr(
        import_module(f"trainers.offline.algorithms.{module}"), name
    )
    return found
