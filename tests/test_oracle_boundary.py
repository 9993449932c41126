"""The floors and the ceiling: null policies score nothing, the oracle everything, honestly."""

import importlib.util
import itertools
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from convgym.domains.customer_service.vocabulary import ACTIONS
from convgym.evaluation.evaluate import evaluate
from convgym.policies.policy import ActPolicy
from convgym.policies.scripted import LADDER, OraclePolicy

ID = "ConvGym/CustomerService-v0"
SCRIPTS = Path(__file__).parents[1] / "scripts"


def script(name):
    """A file of scripts/ as a module."""
    spec = importlib.util.spec_from_file_location(f"script_{name}", SCRIPTS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


LIMIT = 0.02
boundary, floors = script("oracle_boundary"), script("null_floors")


def acting(**keywords):
    return gym.make(ID, observation="features", action="act", **keywords)


def test_the_oracle_solves_every_task_from_another_process():
    successes = boundary.play_across(200)
    assert len(successes) == 200
    assert all(successes)


def test_the_boundary_changes_nothing():
    here = evaluate(OraclePolicy(), acting(), episodes=30, seed=4)
    assert here.success == 1.0
    assert boundary.play_across(30, seed=4) == [True] * 30


def test_only_features_and_mask_cross_the_boundary():
    sent = []

    class Answers:
        def write(self, text):
            sent.append(text)

        def flush(self):
            pass

    boundary.serve(['{"task_id": "test-1", "seed": 1}', '{"action": 1}'], Answers())
    first, second = (boundary.json.loads(line) for line in "".join(sent).splitlines())
    assert set(first) == set(second) == {"features", "mask"}


def test_the_ladder_is_in_order():
    """random < keyword < slot-filling < planner ≤ oracle, on one set of customers."""
    scored = [evaluate(rung(), acting(), episodes=300) for rung in LADDER]
    print(*scored, sep="\n")
    success = [rung.success for rung in scored]
    for lower, higher in itertools.pairwise(success[:4]):
        assert lower < higher
    assert success[3] <= success[4] == 1.0
    for lower, higher in itertools.pairwise(scored[:3]):
        assert lower.success_interval[1] < higher.success_interval[0], "apart beyond chance"


@pytest.mark.parametrize("name", floors.names())
def test_a_null_policy_scores_nothing(name):
    scored = floors.floor(name, 200)
    assert scored.success == 0.0
    assert scored.success_upper <= LIMIT
    assert scored.graded <= LIMIT


class Constant(ActPolicy):
    """One act, for ever."""

    def __init__(self, number):
        super().__init__()
        self.name, self.number = ACTIONS.names[number], number

    def action_probs(self, observation, action_masks):
        return np.eye(len(ACTIONS))[self.number]


@pytest.mark.parametrize("reward", ["success", "graded"])
def test_no_act_repeated_for_ever_scores(reward):
    env = acting(reward=reward)
    for number in range(len(ACTIONS)):
        scored = evaluate(Constant(number), env, episodes=60)
        assert scored.success == 0.0, scored
        assert scored.return_ <= 0.02, scored


def test_shares_of_a_graded_reward_are_rounded_up():
    assert floors.wilson_of_share(0.0, 200) == pytest.approx(0.01885, abs=1e-5)
    assert floors.wilson_of_share(0.0012, 1000) > floors.wilson_of_share(0.001, 1000)
    assert floors.wilson_of_share(1.0, 10) == pytest.approx(1.0)
