"""A service desk on rows equals the plain one."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from twins import at_random, play_beside, play_for_long

from convgym.engine.acts import FIRST_TOOL
from convgym.engine.tasks import SPLITS
from convgym.policies.roster import ladder

SHOP, OWN = "ConvGym/CustomerService-v0", "ConvGym/OwnDomain-v0"
LIBRARY = str(Path(__file__).parent / "data" / "library_domain")
CONDITIONS = (
    *({"split": split} for split in SPLITS),
    *({"persona": p} for p in ("patient_expert", "frustrated_novice", "skeptical_critic")),
    *({"difficulty": d} for d in (0.0, 1.0)),
    {"max_turns": 12},
)
_LEAVES = ("close", "transfer_to_human", "end_conversation")


def staying(env, rng, speech=False):
    """A legal act that does not leave; with `speech` nothing but that."""
    table = env.domain.actions
    kept = [
        number
        for number in np.flatnonzero(env.action_masks()).tolist()
        if table.names[number] not in _LEAVES
        and not (speech and table.actions[number].kind >= FIRST_TOOL)
    ]
    return int(rng.choice(kept))


class Scripted:
    """A policy in each environment; from some turn on `then` chooses, if given."""

    def __init__(self, policy, then=None):
        self.policy, self.then, self.made = policy, then, {}

    def __call__(self, env, rng):
        if id(env) not in self.made:
            self.made[id(env)] = self.policy(), int(rng.integers(4, 14))
        policy, turns = self.made[id(env)]
        if env._episode.turn == 0:
            policy.reset(int(rng.integers(1 << 60)))
        if self.then and env._episode.turn >= turns:
            return self.then(env, rng)
        return policy.predict(env._features(), action_masks=env.action_masks())[0]


def agents(domain="customer-service"):
    """Ways to play that between them come to all branches."""
    steps = ladder(domain)
    yield at_random
    yield staying
    for name in ("slot-filling", "planner", "oracle"):
        yield Scripted(steps[name])
    yield Scripted(steps["oracle"], then=staying)
    yield Scripted(steps["planner"], then=partial(staying, speech=True))


# -- acts ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keywords", CONDITIONS, ids=lambda k: "-".join(map(str, *k.items())))
def test_rows_equal_single_episodes(keywords):
    for seed, choose in enumerate(agents()):
        assert play_beside(SHOP, choose, 2, seed=seed, **keywords) > 1


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(list(agents()))))
def test_rows_equal_single_episodes_for_long(number):
    play_for_long(SHOP, agents, number)


@pytest.mark.slow
def test_rows_of_a_domain_of_ones_own_equal_single_episodes():
    for seed, choose in enumerate(agents(LIBRARY)):
        assert play_beside(OWN, choose, 12, seed=seed, folder=LIBRARY) > 12
