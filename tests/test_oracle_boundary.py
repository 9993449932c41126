"""The floors and the ceiling: null policies score nothing, the oracle everything, honestly."""

import importlib.util
import itertools
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from convgym.domains.catalogue import domain_called
from convgym.engine import acts
from convgym.engine.tasks import SPLITS
from convgym.evaluation.evaluate import evaluate
from convgym.policies.null import RandomToolPolicy
from convgym.policies.policy import ActPolicy
from convgym.policies.rendered import RenderedPolicy
from convgym.policies.roster import by_the_book, null_policies
from convgym.policies.scripted import LADDER, OraclePolicy

ID = "ConvGym/CustomerService-v0"
ACTIONS = domain_called("customer-service").actions
SCRIPTS = Path(__file__).parents[1] / "scripts"


def script(name):
    """A file of scripts/ as a module."""
    spec = importlib.util.spec_from_file_location(f"script_{name}", SCRIPTS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


LIMIT = 0.02
boundary, floors, levels = (
    script(name) for name in ("oracle_boundary", "null_floors", "difficulty_ladder")
)
every_split = pytest.mark.parametrize("split", SPLITS)


def acting(**keywords):
    return gym.make(ID, observation="features", action="act", **keywords)


# -- the ceiling -----------------------------------------------------------------------------------


@every_split
def test_the_oracle_solves_every_task_with_whoever_calls(split):
    """400 tasks of each split, personas drawn; none is cut off by the turn cap."""
    scored = evaluate(OraclePolicy(), acting(), episodes=400, split=split, seed=2)
    assert (scored.success, scored.failures) == (1.0, {})


@every_split
def test_the_oracle_in_words_solves_every_task_too(split):
    """Its acts as replies, read as free text; with turns to spare."""
    env = gym.make(ID, observation="dict", max_turns=60)
    scored = evaluate(RenderedPolicy(OraclePolicy()), env, episodes=60, split=split, seed=3)
    assert (scored.success, scored.failures) == (1.0, {})


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


# -- the ladder ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "split",
    [pytest.param(s, marks=() if s in ("train", "test") else pytest.mark.slow) for s in SPLITS],
)
def test_the_ladder_is_in_order(split):
    """random ≤ keyword < slot-filling < planner < oracle, on one set of customers."""
    scored = [evaluate(rung(), acting(), episodes=200, split=split) for rung in LADDER]
    print(*scored, sep="\n")
    success = [rung.success for rung in scored]
    assert success == sorted(success)
    assert success[0] < 0.02 and success[1] < 0.15
    for lower, higher in itertools.pairwise(scored[1:]):
        assert lower.success_interval[1] < higher.success_interval[0], "apart beyond chance"


@pytest.mark.parametrize("persona", ["patient_expert", "skeptical_critic"])
def test_the_ladder_is_in_order_whoever_calls(persona):
    scores = levels.scores_of(ID, {"persona": persona}, 150, "test", 0)
    assert tuple(scores) == levels.NAMES
    assert levels.ordered(scores)
    assert scores["planner"].success > scores["slot-filling"].success + 0.1


def test_more_difficulty_is_harder_for_the_planner():
    easy, hard = (
        levels.scores_of(ID, {"difficulty": level}, 150, "test", 0)["planner"] for level in (0, 1)
    )
    assert easy.success_interval[0] > hard.success_interval[1]


# -- the floors ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", floors.names())
def test_a_null_policy_scores_nothing(name):
    scored = floors.floor(name, 200)
    assert scored.success == 0.0
    assert scored.success_upper <= LIMIT
    assert scored.graded <= LIMIT


def test_the_null_policies_are_those_that_were_promised():
    assert set(floors.names()) == {
        "done", "silence", "greet-only", "transfer-always", "refuse-always", "confirm-everything",
        "promise-everything", "explain-always", "ask-everything", "say-every-value", "random-tool",
    }  # fmt: skip
    assert set(floors.names()) == set(null_policies())
    assert not set(by_the_book()) & set(null_policies())


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
        scored = evaluate(Constant(number), env, episodes=40)
        assert scored.success == 0.0, scored
        assert scored.return_ <= 0.02, scored


class Rounds(ActPolicy):
    """All legal acts of some kinds in turn, over and over; the table's first where none is."""

    def __init__(self, name, *kinds):
        super().__init__()
        self.name, self.at = name, 0
        self.acts = [n for n, action in enumerate(ACTIONS.actions) if action.kind in kinds]

    def reset(self, seed):
        super().reset(seed)
        self.at = 0

    def action_probs(self, observation, action_masks):
        legal = [number for number in self.acts if action_masks[number]] or [0]
        self.at += 1
        return np.eye(len(ACTIONS))[legal[self.at % len(legal)]]


SPEECH = tuple(
    dict.fromkeys(action.kind for action in ACTIONS.actions if action.kind < acts.FIRST_TOOL)
)
TOOLS = tuple(
    dict.fromkeys(action.kind for action in ACTIONS.actions if action.kind >= acts.FIRST_TOOL)
)
IN_ACTS = {
    "refuse everything": (acts.DENY,),
    "refuse and offer everything": (acts.DENY, acts.OFFER),
    "confirm everything": (acts.CONFIRM,),
    "tell everything": (acts.TELL,),
    "report everything": (acts.REPORT_DONE,),
    "ask everything": (acts.ASK, acts.ASK_INTENT, acts.ASK_MORE),
    "ask and refuse everything": (acts.ASK, acts.DENY),
    "ask and confirm everything": (acts.ASK, acts.CONFIRM, acts.REPORT_DONE),
    "explain and apologise": (acts.EXPLAIN, acts.APOLOGISE, acts.CHAT),
    "say everything": SPEECH,
    "call everything": TOOLS[:-2],
    "do everything": (*SPEECH, *TOOLS[:-2]),
}
"""Null policies over acts, each by what it goes round in; without the two that leave."""


@every_split
@pytest.mark.parametrize("name", IN_ACTS)
def test_a_null_policy_in_acts_scores_nothing(name, split):
    env = acting(reward="graded")
    scored = evaluate(Rounds(name, *IN_ACTS[name]), env, episodes=60, split=split)
    assert scored.success == 0.0, scored
    assert scored.return_ <= LIMIT, scored


@every_split
def test_a_random_tool_scores_nothing(split):
    scored = evaluate(RandomToolPolicy(ACTIONS), acting(), episodes=400, split=split)
    assert scored.success == 0.0


def test_what_is_constant_once_the_customer_is_known_is_right_where_that_one_thing_is():
    """No null policies, and no way to live either: a twentieth at most."""
    for make in by_the_book().values():
        scored = evaluate(make(), acting(), episodes=300)
        assert scored.success < 0.05, scored


def test_shares_of_a_graded_reward_are_rounded_up():
    assert floors.wilson_of_share(0.0, 200) == pytest.approx(0.01885, abs=1e-5)
    assert floors.wilson_of_share(0.0012, 1000) > floors.wilson_of_share(0.001, 1000)
    assert floors.wilson_of_share(1.0, 10) == pytest.approx(1.0)
