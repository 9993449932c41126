"""The support desk on rows: what the single engine does, bit for bit."""

import gymnasium as gym
import numpy as np
import pytest
from twins import at_random, engine_of, play_beside, rows_of

from convgym.domains.technical_support.dialogue import ACTIONS
from convgym.engine import acts
from convgym.policies.roster import ladder

ENV = "ConvGym/TechnicalSupport-v0"
PLAYED = 40


# -- choosing acts ---------------------------------------------------------------------------------

IS_SPEECH = np.array([action.kind < acts.FIRST_TOOL for action in ACTIONS.actions])
LEAVING = [ACTIONS[name] for name in ("transfer_to_human", "end_conversation", "close")]


def by_speech(env, rng):
    """Speech mostly."""
    mask = env.action_masks()
    return int(rng.choice(np.flatnonzero(mask & IS_SPEECH if rng.random() < 0.9 else mask)))


def staying(env, rng):
    """Anything legal that does not end the conversation."""
    mask = env.action_masks()
    mask[LEAVING] = 0
    return int(rng.choice(np.flatnonzero(mask)))


def by(name, until=1000, then=staying):
    """A scripted policy's acts, and after so many turns another's."""
    policies = {}

    def choose(env, rng):
        if env._episode.turn == 0:
            policies[id(env)] = policy = ladder("technical-support")[name]()
            policy.reset(int(rng.integers(2**31)))
        if env._episode.turn >= until:
            return then(env, rng)
        policy = policies[id(env)]
        return policy.predict(env._observe(), action_masks=env.action_masks())[0]

    return choose


CHOICES = {
    "random": at_random,
    "speech": by_speech,
    "staying": staying,
    "planner": by("planner"),
    "slot-filling": by("slot-filling"),
    "oracle": by("oracle"),
    "planner, then random": by("planner", 12),
    "planner, then speech": by("planner", 20, by_speech),
}


# -- rows beside single episodes -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choice", "keywords"),
    [
        ("random", {}),
        ("random", {"split": "test_policy", "persona": "skeptical_critic"}),
        ("speech", {"split": "test_persona"}),
        ("planner, then random", {"split": "test_compositional", "persona": "frustrated_novice"}),
        ("planner, then speech", {"split": "test_primitive", "difficulty": 1.0}),
        ("planner", {"difficulty": 0.5, "persona": "patient_expert"}),
        ("slot-filling", {"split": "test_policy"}),
        ("oracle", {"split": "validation", "persona": "skeptical_critic"}),
    ],
)
def test_rows_equal_single_episodes(choice, keywords):
    steps = play_beside(ENV, CHOICES[choice], PLAYED, seed=11, **keywords)
    assert steps > PLAYED


@pytest.mark.slow
@pytest.mark.parametrize("split", ["train", "test_policy", "test_persona", "test_compositional"])
@pytest.mark.parametrize("choice", CHOICES)
def test_rows_equal_single_episodes_for_long(choice, split):
    steps = seed = 0
    while steps < 2_500:
        steps, seed = steps + play_beside(
            ENV, CHOICES[choice], 200, seed=seed, split=split
        ), seed + 1  # fmt: skip


def test_a_row_is_truncated_at_the_cap_as_a_single_episode_is():
    steps = play_beside(ENV, by("planner"), 10, seed=3, max_turns=4)
    assert steps == 40


def test_progress_of_every_step_is_that_of_the_single_engine():
    single = gym.make(ENV, observation="features", action="act").unwrapped
    single.reset(seed=5)
    batched = engine_of(single)
    rows, belief, tasks = rows_of(batched, [single])
    row = np.zeros(1, np.int32)
    batched.open_rows(row, rows, belief, tasks)
    planner, seen = ladder("technical-support")["planner"](), set()
    planner.reset(0)
    while not single._episode.end:
        action = planner.predict(single._observe(), action_masks=single.action_masks())[0]
        single.step(action)
        batched.step_rows(row, np.array([action], np.int32), rows, belief, tasks, True)
        assert rows[0]["progress"] == single.domain.grade(single._episode).progress
        seen.add(float(rows[0]["progress"]))
    assert len(seen) > 1
