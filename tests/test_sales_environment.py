"""`SalesEnv` over acts and features: what goes in, what comes out, what its page says.

The words are another matter, and other tests'; here every act of the buyer is its own name.
"""

import inspect
import json

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from sales_driven import DESK, played

from convgym.domains.sales import role
from convgym.domains.sales.desk import SalesDesk
from convgym.domains.sales.tasks import BRANCHES, draw_task
from convgym.domains.sales.vocabulary import ACTIONS, LAYOUT, SAID
from convgym.domains.sales.world import CATEGORIES, FEATURES, world
from convgym.engine.keys import child
from convgym.engine.tasks import SPLITS
from convgym.envs.sales import SalesEnv
from convgym.errors import InvalidConfiguration
from convgym.evaluation.evaluate import evaluate
from convgym.evaluation.rollout import play
from convgym.language.phrases import PhraseBank
from convgym.language.retrieval import TurnIndex
from convgym.language.voice import Voice
from convgym.policies.sales import LADDER, OraclePolicy

NAMED = Voice(PhraseBank({act: [act] for act in SAID}), TurnIndex(()))


class NamedActs(SalesDesk):
    """The desk with a buyer that says the names of its acts."""

    def user_voices(self):
        return {"train": NAMED, "held_out": NAMED}


class ActsEnv(SalesEnv):
    """The environment of acts, without words."""

    def make_domain(self):
        return NamedActs()


def make(**keywords):
    return ActsEnv(**{"observation": "features", "action": "act", **keywords})


@pytest.mark.parametrize("split", SPLITS)
def test_the_oracle_solves_what_the_environment_asks(split):
    scored = evaluate(OraclePolicy(), make(reward="graded"), episodes=120, split=split)
    assert scored.success == 1.0
    assert 0.75 < scored.return_ < 1.0


def test_the_ladder_in_the_environment():
    scores = [evaluate(policy(), make(), episodes=150).success for policy in LADDER]
    assert scores == sorted(scores)
    assert scores[0] <= 0.01 < scores[-2] < scores[-1]


def test_it_passes_the_checker_of_gymnasium():
    check_env(make(), skip_render_check=True)


def test_the_same_seed_is_the_same_episode():
    for seed in range(5):
        one, other = (play(make(), OraclePolicy(noise=0.2), seed=seed) for _ in range(2))
        assert one.actions == other.actions
        assert one.rewards == other.rewards
        assert all(
            (a == b).all() for a, b in zip(one.observations, other.observations, strict=True)
        )


def test_the_page_tells_the_truth():
    env, page = make(), inspect.getdoc(SalesEnv)
    assert f"Discrete({len(ACTIONS)})" in page
    assert f"Box(0, 255, ({len(LAYOUT)},), float32)" in page
    assert env.action_space == gym.spaces.Discrete(len(ACTIONS))
    _, info = env.reset(seed=1)
    assert all(f"`{key}`" in page for key in info)
    keywords = inspect.signature(SalesEnv.__init__).parameters
    base = inspect.signature(SalesEnv.__mro__[1].__init__).parameters
    assert keywords.keys() == base.keys()
    for name, keyword in list(keywords.items())[1:]:
        default = keyword.default
        shown = f'`"{default}"`' if isinstance(default, str) else str(default)
        assert f"| `{name}` | {shown} |" in page
    for split in SPLITS:
        assert f'`"{split}"`' in page


def test_a_topic_is_a_category():
    for topic in CATEGORIES[:5]:
        env = make(topic=topic)
        for seed in range(4):
            env.reset(seed=seed)
            assert env.unwrapped._episode.task.category == CATEGORIES.index(topic)
    with pytest.raises(InvalidConfiguration):
        make(topic="boats")


def test_difficulty_moves_the_draw_of_tasks():
    table = DESK.table("train").hardness

    def mean(difficulty):
        env, points = make(difficulty=difficulty), []
        for seed in range(150):
            env.reset(seed=seed)
            points.append(table[int(env._episode.task.task_id.split("-")[1])])
        return np.mean(points)

    assert mean(0.0) + 0.2 < mean(1.0)


def test_hardness_is_what_scripted_sellers_find_hard():
    """The planner fails more often on tasks with more points."""
    planner, table = LADDER[3](), DESK.table("train").hardness
    low, high = np.quantile(table[:1200], [0.35, 0.65])
    won = {True: [], False: []}
    for number in range(1200):
        if table[number] <= low or table[number] > high:
            episode = played(planner, draw_task("train", number), child(3, number))
            won[bool(table[number] > high)].append(DESK.grade(episode).success)
    assert np.mean(won[True]) + 0.1 < np.mean(won[False])


def test_info_holds_the_violations_by_name_and_nothing_of_the_goal():
    env = make()
    _, info = env.reset(seed=3, options={"task_id": "test-4"})
    assert "privileged" not in info
    for name in ("search_catalogue", "recommend_0"):
        if info["action_mask"][ACTIONS[name]]:
            *_, info = env.step(ACTIONS[name])
    told = make(privileged=True).reset(seed=3, options={"task_id": "test-4"})[1]["privileged"]
    assert json.loads(told)["branch"] in BRANCHES


def test_milestones_sum_to_the_success_where_nothing_is_discounted():
    env = make(reward="milestones")
    for seed in range(10):
        rollout = play(env, OraclePolicy(), seed=seed)
        assert sum(rollout.rewards) == pytest.approx(1.0)
        assert max(rollout.rewards[:-1]) < 1.0


# -- the buyer as somebody plays it ----------------------------------------------------------------


def test_a_description_says_what_the_buyer_knows_and_nothing_of_the_shelf():
    shop, seen = world(), set()
    for number in range(400):
        task = draw_task("train", number)
        text = role.description(task)
        seen.add(text)
        assert "{" not in text
        for feature in (f for f in range(8) if task.must >> f & 1):
            assert FEATURES[task.category][feature][0] in text
        assert not any(shop.name(product) in text for product in range(72))
        assert ("list price if you must" in text) == (task.walk >= 1_000_000)
    assert len(seen) > 390
