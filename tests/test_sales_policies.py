"""The floors, the ladder and the ceiling of the sales domain, and its response curve."""

import importlib.util
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from sales_driven import DESK, Score, act_of, begin, belief, played, succeeded

from convgym.domains.sales.tasks import draw_task
from convgym.domains.sales.vocabulary import ACTIONS, LAYOUT
from convgym.engine.tasks import SPLITS
from convgym.evaluation.intervals import wilson
from convgym.policies.null import OpenLoopPolicy, RandomToolPolicy
from convgym.policies.sales import (
    BY_THE_BOOK,
    LADDER,
    NULL_POLICIES,
    NULL_SCRIPTS,
    FirmOraclePolicy,
    OraclePolicy,
    RandomPolicy,
    View,
)
from convgym.users.persona import BUILT_IN

LIMIT = 0.02
ROOT = Path(__file__).parents[1]


def script(name):
    """A file of scripts/ as a module."""
    spec = importlib.util.spec_from_file_location(f"script_{name}", ROOT / f"scripts/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("split", SPLITS)
def test_the_oracle_solves_every_task_with_whatever_buyer(split):
    score = Score(OraclePolicy(), split, 250, seed=11)
    assert score.success == 1.0, score.failed[0][0]


@pytest.mark.slow
@pytest.mark.parametrize("split", SPLITS)
def test_the_oracle_solves_all_tasks_of_a_split(split):
    for seed in (1, 2):
        score = Score(OraclePolicy(), split, 2000, seed=seed)
        assert score.success == 1.0, score.failed[0][0]


@pytest.mark.parametrize("split", ["test", "test_primitive", "test_policy"])
def test_the_ladder_is_strictly_ordered(split):
    scores = [Score(policy(), split, 300) for policy in LADDER]
    print(split, [f"{score.success:.3f}" for score in scores])
    rates = [score.success for score in scores]
    assert all(lower < higher for lower, higher in pairwise(rates))
    random, keyword, slots, planner, oracle = scores
    assert wilson(random.successes, 300)[1] < LIMIT
    for lower, higher in ((keyword, slots), (slots, planner), (planner, oracle)):
        assert wilson(lower.successes, 300)[1] < wilson(higher.successes, 300)[0]
    assert oracle.success == 1.0


@pytest.mark.parametrize("name", NULL_SCRIPTS)
def test_a_constant_behaviour_is_worth_nothing(name):
    score = Score(OpenLoopPolicy(name, NULL_SCRIPTS[name], ACTIONS), "test", 800)
    assert wilson(score.successes, 800)[1] <= LIMIT
    assert score.mean_graded <= LIMIT


def test_random_tools_and_random_acts_are_worth_nothing():
    for policy in (RandomToolPolicy(ACTIONS), RandomPolicy()):
        score = Score(policy, "test", 800)
        assert wilson(score.successes, 800)[1] <= LIMIT
        assert score.mean_graded <= LIMIT


@pytest.mark.parametrize("name", BY_THE_BOOK)
def test_qualifying_by_the_book_and_then_one_constant_thing_is_worth_little(name):
    score = Score(OpenLoopPolicy(name, BY_THE_BOOK[name], ACTIONS), "test", 400)
    assert score.success < 0.12
    assert score.mean_graded < 0.25


def test_the_null_policies_in_words_all_speak():
    for make in NULL_POLICIES.values():
        policy = make()
        policy.reset(0)
        assert isinstance(policy.predict(None)[0], str)
    assert {"silence", "done", "transfer-always", "refuse-always"} <= NULL_POLICIES.keys()


def test_standing_by_each_price_once_earns_more_and_loses_some():
    soft, firm = (Score(policy, "test", 800) for policy in (OraclePolicy(), FirmOraclePolicy()))
    assert 0.93 < firm.success < soft.success == 1.0
    assert firm.mean_graded > soft.mean_graded


def test_policies_read_nothing_but_belief_and_mask():
    """The same rows give the same acts, whoever's episode they are from."""
    for policy in LADDER:
        one, other = policy(), policy()
        for number in range(40):
            episode, engine = begin(draw_task("test", number), number)
            one.reset(number)
            other.reset(number)
            while not episode.end:
                row = belief(episode)
                copy = np.array(row, dtype=np.float32)
                chosen = one.predict(row.astype(np.float32), action_masks=ACTIONS.mask(row))[0]
                again = other.predict({"features": copy}, action_masks=ACTIONS.mask(row))[0]
                assert chosen == again
                engine.apply(episode, DESK.turn(episode, chosen))


def test_every_scripted_act_is_legal_where_it_is_chosen():
    for policy in LADDER[1:]:
        for number in range(150):
            episode, engine = begin(draw_task("test", number), number)
            agent, illegal = policy(), 0
            while not episode.end:
                row = belief(episode)
                name = agent.choose(View(row.astype(np.float32), LAYOUT))
                illegal += not ACTIONS.is_legal(episode.belief, ACTIONS[name])
                engine.apply(episode, DESK.turn(episode, act_of(agent, episode)))
            assert not illegal or policy.name == "keyword"


def test_noise_spreads_over_the_legal_acts():
    episode, _ = begin(draw_task("test", 3), 3)
    row = belief(episode)
    mask = ACTIONS.mask(row)
    probabilities = OraclePolicy(noise=0.2).action_probs(row.astype(np.float32), mask)
    assert probabilities.sum() == pytest.approx(1.0)
    assert (probabilities[mask == 0] == 0).all()
    assert sorted(probabilities)[-1] == pytest.approx(0.8 + 0.2 / mask.sum())


def test_the_oracle_is_as_good_with_every_built_in_persona():
    for name, persona in BUILT_IN.items():
        for number in range(120):
            task = draw_task("test_policy" if number % 3 == 0 else "test", number)
            assert succeeded(played(OraclePolicy(), task, number, persona=persona)), (name, task)


# -- the response curve ----------------------------------------------------------------------------


def test_deals_fall_with_the_last_price_as_those_of_real_buyers_do():
    curve = script("response_curve")
    points = curve.curve(curve.sells("train", 500))
    for point, real in zip(points, curve.REAL, strict=True):
        assert abs(point.share - real) <= 0.10
    assert all(one.share >= other.share for one, other in pairwise(points))
    assert points[0].share - points[-1].share > 0.2


@pytest.mark.slow
def test_the_response_curve_within_three_points():
    curve = script("response_curve")
    for split in ("train", "test"):
        points = curve.curve(curve.sells(split, 1600), seed=3)
        for point, real in zip(points, curve.REAL, strict=True):
            assert abs(point.share - real) <= 0.05


def test_the_fixed_price_is_the_ratio_it_says():
    curve = script("response_curve")
    for number in range(200):
        task = draw_task("train", number)
        for ratio in curve.RATIOS:
            discount = curve.FixedPriceSeller(ratio).discount(task)
            asked = 1000 - discount
            assert (asked - task.target) * 100 == ratio * (1000 - task.target)
