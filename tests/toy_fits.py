"""Small fits of offline learners on the toy dialogue, for tests of what they have learnt."""

import dataclasses
from functools import cache

import numpy as np

from convgym.data.transitions import EpisodeArrays, returns_to_go
from trainers.offline.algorithms.bc import BCConfig
from trainers.offline.algorithms.bcq import BCQConfig
from trainers.offline.algorithms.bear import BEARConfig
from trainers.offline.algorithms.cql import CQLConfig, DQNConfig
from trainers.offline.algorithms.iql import IQLConfig
from trainers.offline.algorithms.mc import MCConfig
from trainers.toy_dialogue import (
    MAJORITY_BAD,
    START,
    ToyDialogue,
    majority_bad,
    policy_table,
    record,
    toy_model,
)

SIZE, DISCOUNT = 64, 0.95
MODEL = toy_model()
SMALL = {"hidden": (32, 32), "discount": DISCOUNT}
OFTEN = {"target_update": 100}

WITH_Q = {
    "BCQ": BCQConfig(**OFTEN),
    "BEAR": BEARConfig(target_rate=0.02),
    "CQL": CQLConfig(cql_alpha=0.01, **OFTEN),
    "CQL of a pessimistic ensemble": CQLConfig(cql_alpha=0.01, critics=3, pessimism=0.5, **OFTEN),
    "CQL towards the behaviour": CQLConfig(cql_alpha=0.01, bc_weight=0.1, **OFTEN),
    "CQL by importance": CQLConfig(cql_alpha=0.01, weighting="importance", **OFTEN),
    "CQL by return": CQLConfig(cql_alpha=0.01, weighting="return", weight_temperature=2.0, **OFTEN),
    "double DQN": DQNConfig(**OFTEN),
    "IQL": IQLConfig(target_rate=0.02),
    "MC": MCConfig(),
}
EVERY = {
    **WITH_Q,
    "BC": BCConfig(),
    "CQL with KL": CQLConfig(cql_alpha=0.01, kl_weight=0.1),
    "CQL with a learnt alpha": CQLConfig(lagrange_threshold=1.0),
    "IQL by weights": IQLConfig(extraction="weighted"),
    "IQL in closed form": IQLConfig(extraction="exact"),
}


def configured(config, **options):
    return dataclasses.replace(config, **options)


def conversation(observations, actions, rewards, masks=None):
    """One that ended by itself, of one feature row a turn; every act as likely as another."""
    rewards = np.array(rewards, dtype=float)
    if masks is None:
        masks = np.ones((len(observations), 2), np.int8)
    return EpisodeArrays(
        np.array(observations, np.float32), np.array(actions), rewards, True, False,
        returns_to_go(rewards, 1.0), masks, np.full(len(actions), 0.5),
    )  # fmt: skip


@cache
def mostly_bad(end_shift=0.0):
    """Conversations of which most go badly; a shift makes every ending as much better."""
    env = ToyDialogue(SIZE, end_shift=end_shift)
    return record(majority_bad(), 800, shares=MAJORITY_BAD, env=env)


def fitted(config, data, steps, **options):
    """The policy as a table, its value at the start, and the learner."""
    learner = configured(config, **{**SMALL, **options}).create()
    policy = learner.fit(data, steps)
    table = policy_table(policy.action_probs, SIZE)
    return table, MODEL.values(table)[START], learner, policy
