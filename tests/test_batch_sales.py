"""The sales desk on rows equals the plain one."""

from functools import partial

import numpy as np
import pytest
from twins import at_random, play_beside, play_for_long

from convgym.domains.sales.vocabulary import ACTIONS
from convgym.engine.acts import FIRST_TOOL
from convgym.engine.tasks import SPLITS
from convgym.policies.sales import (
    FirmOraclePolicy,
    KeywordPolicy,
    OraclePolicy,
    PlannerPolicy,
    SlotFillingPolicy,
)

SALES = "ConvGym/Sales-v0"
POLICIES = (KeywordPolicy, SlotFillingPolicy, PlannerPolicy, OraclePolicy, FirmOraclePolicy)
CONDITIONS = (
    *({"split": split} for split in SPLITS),
    *({"persona": p} for p in ("patient_expert", "frustrated_novice", "skeptical_critic")),
    *({"difficulty": d} for d in (0.0, 1.0)),
    {"max_turns": 12},
)
_LEAVES = ("close", "transfer_to_human", "end_conversation")
STAYS = np.array([name not in _LEAVES for name in ACTIONS.names])
SPEAKS = np.array([action.kind < FIRST_TOOL for action in ACTIONS.actions])


def among(kept, env, rng):
    """A legal act that is kept."""
    return int(rng.choice(np.flatnonzero(env.action_masks() * kept)))


class Scripted:
    """A policy in each environment, with noise; from some turn on `then` chooses, if given."""

    def __init__(self, policy, noise=0.0, then=None):
        self.policy, self.noise, self.then, self.made = policy, noise, then, {}

    def __call__(self, env, rng):
        if id(env) not in self.made:
            self.made[id(env)] = self.policy(self.noise), int(rng.integers(4, 18))
        policy, turns = self.made[id(env)]
        if env._episode.turn == 0:
            policy.reset(int(rng.integers(1 << 60)))
        if self.then and env._episode.turn >= turns:
            return self.then(env, rng)
        row = env._features()
        return policy.predict(row, action_masks=env.action_masks())[0]


def agents():
    """Ways to play that between them come to all branches."""
    yield at_random
    yield partial(among, STAYS)
    for policy in POLICIES:
        yield Scripted(policy)
    yield Scripted(OraclePolicy, noise=0.15)
    yield Scripted(OraclePolicy, then=partial(among, STAYS))
    yield Scripted(PlannerPolicy, then=partial(among, STAYS & SPEAKS))


# -- acts ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keywords", CONDITIONS, ids=lambda k: "-".join(map(str, *k.items())))
def test_rows_equal_single_episodes(keywords):
    for seed, choose in enumerate(agents()):
        assert play_beside(SALES, choose, 2, seed=seed, **keywords) > 1


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(list(agents()))))
def test_rows_equal_single_episodes_for_long(number):
    play_for_long(SALES, agents, number)
