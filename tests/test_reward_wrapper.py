"""Environments paid by a reward over their conversation, and the floors of all rewards."""

import importlib.util
import json
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from driven import ORACLES, bare, choose, every_id, every_mode, make, plain, player
from rewarded import ID, over
from staged_user import task_of

from convgym.evaluation.intervals import wilson
from convgym.evaluation.rollout import play
from convgym.policies.rendered import RenderedPolicy
from convgym.policies.roster import null_policies
from convgym.policies.scripted import OraclePolicy, PlannerPolicy
from convgym.rewards import (
    Composite,
    Conciseness,
    ConversationReward,
    CustomerService,
    Helpfulness,
    Judge,
    Safety,
    SimilarityAware,
    TaskCompletion,
    reward_function,
)

# -- environments paid by a reward -----------------------------------------------------------------


def episode(env, key=3, **reset):
    """Every answer of one episode, reset included."""
    observation, info = env.reset(**reset)
    seen, step = [(observation, 0.0, False, False, info)], 0
    while not (seen[-1][2] or seen[-1][3]):
        seen.append(env.step(choose(env, seen[-1][4], key, step)))
        step += 1
    return seen


@every_id
@every_mode
def test_only_reward_and_terms_change(environment_id, observation, action):
    modes = {"observation": observation, "action": action}
    mine = episode(ConversationReward(bare(environment_id, **modes), CustomerService()), seed=5)
    theirs = episode(bare(environment_id, **modes), seed=5)
    assert len(mine) == len(theirs)
    for (o, _, *ends, info), (o2, _, *ends2, info2) in zip(mine, theirs, strict=True):
        assert plain(o) == plain(o2)
        assert ends == ends2
        assert list(info) == list(info2)
        without = [{k: v for k, v in i.items() if k != "reward_terms"} for i in (info, info2)]
        assert plain(without[0]) == plain(without[1])
        assert json.loads(info["reward_terms"])["success"] == float(info["success"])


@every_id
@pytest.mark.parametrize("observation", ["features", "dict"])
def test_the_oracle_in_acts_is_paid_at_the_end_alone(environment_id, observation):
    env = ConversationReward(
        make(environment_id, observation=observation, action="act"), CustomerService()
    )
    for seed in range(5):
        rollout = play(env, ORACLES[environment_id](), seed=seed)
        assert rollout.rewards[:-1] == [0.0] * (rollout.length - 1)
        terms = json.loads(rollout.infos[-1]["reward_terms"])
        assert 0.7 <= rollout.rewards[-1] == pytest.approx(terms["paid"])
        assert terms["score"] == terms["paid"]
        assert (terms["success"], terms["task"]) == (1.0, 1.0)
        assert json.loads(rollout.infos[0]["reward_terms"]) == {"success": 0.0}


@every_id
def test_graded_evidence_is_what_the_environment_itself_pays(environment_id):
    """Of several requests, of a sale at whatever price, of tasks left half done."""
    modes = {"observation": "features", "action": "act", "reward": "graded"}
    plain = make(environment_id, **modes)
    env = ConversationReward(make(environment_id, **modes), TaskCompletion(partial=1.0))
    seen = set()
    for seed in range(40):
        paid = play(plain, player(environment_id, 0.3), seed=seed).return_
        rollout = play(env, player(environment_id, 0.3), seed=seed)
        assert env.outcome.graded == pytest.approx(paid, abs=1e-8)
        assert rollout.return_ == pytest.approx(paid, abs=1e-8)
        seen.add(round(paid, 3))
    assert len(seen) >= 4


TWO = task_of(("return", "allow"), ("subscription", "allow"))


def served_in_part(done, **keywords):
    """What is left where the agent hangs up once `done` of two requests are settled."""
    env = ConversationReward(
        make(ID, observation="dict", action="act", **keywords), TaskCompletion()
    )
    observation, info = env.reset(seed=3, options={"task_id": TWO.task_id})
    policy, over = OraclePolicy(), False
    base = env.unwrapped
    while not over:
        action, _ = policy.predict(observation, action_masks=info["action_mask"])
        if observation["features"][base.domain.layout["requests"]] * 3 > done:
            action = base.domain.actions["end_conversation"]
        observation, _, terminated, truncated, info = env.step(action)
        over = terminated or truncated
    return env.outcome


def test_who_serves_one_of_two_requests_has_not_completed_the_task():
    for done, solved in ((0, False), (1, False), (2, True)):
        outcome = served_in_part(done)
        assert outcome.success is solved
        assert TaskCompletion()(outcome).value == float(solved)
        for reward in (CustomerService(), Composite([TaskCompletion()])):
            assert (reward(outcome).value > 0) is solved
    halves = [served_in_part(done).progress for done in (0, 1, 2)]
    # Of the first nothing; the first, and of the second that the customer is known; both.
    assert halves == pytest.approx([0.0, (0.75 + 0.05) / 2, 0.75])
    graded = [served_in_part(done, reward="graded").graded for done in (0, 1, 2)]
    assert graded == pytest.approx([0.0, (1.0 + 0.05) / 2, 1.0])
    assert served_in_part(1).graded == pytest.approx((0.75 + 0.05) / 2), "the closing is for all"


def test_the_planner_in_words_is_paid_what_its_conversation_is_worth():
    env = ConversationReward(make(ID, observation="dict"), CustomerService())
    paid = []
    for seed in range(20):
        rollout = play(env, RenderedPolicy(PlannerPolicy()), seed=seed)
        assert rollout.return_ == CustomerService()(env.outcome).value
        assert (rollout.return_ > 0) == rollout.final_info["success"]
        said = [m.content for m in env.conversation.said_by("assistant")]
        assert said == rollout.actions
        paid.append(rollout.return_)
    assert sum(paid) > 10


def test_the_conversation_is_what_was_said():
    env = ConversationReward(make(ID, action="act", observation="message"), TaskCompletion())
    observation, _ = env.reset(seed=1)
    system, opening = env.conversation.messages
    assert (system.role, system.content) == ("system", env.unwrapped.system_prompt)
    assert (opening.role, opening.content) == ("user", observation)
    _, _, _, _, info = env.step(1)
    asked, answer = env.conversation.messages[2:]
    assert (asked.role, asked.acts) == ("assistant", (("ask_intent",),))
    assert len(asked.content) > 20
    acts = tuple(tuple(act.values()) for act in json.loads(info["user_acts"]))
    assert (answer.role, answer.acts) == ("user", acts)
    assert env.conversation.conversation_id == info["task_id"]


def test_words_do_not_depend_on_what_the_agent_observes():
    def said(observation):
        modes = {"observation": observation, "action": "act"}
        env = ConversationReward(make(ID, **modes), TaskCompletion())
        episode(env, seed=8)
        return [(m.role, m.content, m.acts) for m in env.conversation.messages]

    assert said("features") == said("message") == said("dict")
    transcript = [(role, content) for role, content, _ in said("transcript")]
    assert transcript == [(role, content) for role, content, _ in said("features")]


def test_a_long_reply_is_kept_whole():
    env = ConversationReward(make(ID), Conciseness())
    env.reset(seed=0)
    env.step("word " * 600)
    said = list(env.conversation.said_by("assistant"))
    assert len(said[0].content.split()) == 600


def test_a_second_episode_starts_afresh():
    env = ConversationReward(make(ID, action="act"), TaskCompletion())
    episode(env, seed=0)
    env.reset()
    assert [m.role for m in env.conversation.messages] == ["system", "user"]
    assert (env.outcome.ended, env.outcome.turn) == (False, 0)


def test_an_outcome_needs_a_reset():
    with pytest.raises(gym.error.ResetNeeded, match="call reset first"):
        _ = ConversationReward(make(ID), TaskCompletion()).outcome


@every_mode
def test_seeds_give_the_same_values(observation, action):
    def values(seed):
        modes = {"observation": observation, "action": action}
        reward = Composite([CustomerService(), Helpfulness(), Conciseness()])
        env = ConversationReward(make(ID, **modes), reward, potential=SimilarityAware())
        return [
            (reward, info["reward_terms"])
            for _, reward, _, _, info in episode(env, seed, seed=seed)
        ]

    assert values(4) == values(4)
    assert values(4) != values(5)


@pytest.mark.parametrize("action", ["text", "act"])
def test_a_conversation_cut_off_is_paid_nothing(action):
    env = ConversationReward(make(ID, max_turns=2, action=action), Safety())
    env.reset(seed=0)
    say = 1 if action == "act" else "Hello, how can I help you?"
    env.step(say)
    _, reward, terminated, truncated, info = env.step(say)
    assert (reward, terminated, truncated) == (0.0, False, True)
    terms = json.loads(info["reward_terms"])
    assert (terms["score"], terms["paid"], terms["success"]) == (1.0, 0.0, 0.0)
    assert env.outcome.graded == 0.0


class CutShort(gym.Wrapper):
    """Says that a step both ended and cut off the conversation, or only cut it off."""

    def step(self, action):
        observation, reward, terminated, _, info = self.env.step(action)
        return observation, reward, terminated, True, info


def test_a_wrapper_inside_may_cut_off():
    env = ConversationReward(CutShort(make(ID)), Safety())
    env.reset(seed=0)
    _, reward, *_ = env.step("Hello, how can I help?")
    assert reward == 0.0
    assert env.outcome.truncated
    env.reset(seed=0)
    _, reward, *_ = env.step('{"name": "end_conversation", "arguments": {}}')
    assert reward == 1.0
    assert not env.outcome.truncated


@pytest.mark.parametrize("discount", [1.0, 0.9])
def test_shaping_sums_to_nothing_over_an_episode(discount):
    env = ConversationReward(
        make(ID, observation="features", action="act"),
        TaskCompletion(),
        potential=Helpfulness(),
        discount=discount,
    )
    for seed in range(8):
        rollout = play(env, PlannerPolicy(0.2), seed=seed)
        shaping = [json.loads(info["reward_terms"])["shaping"] for info in rollout.infos]
        paid = json.loads(rollout.infos[-1]["reward_terms"])["paid"]
        assert rollout.rewards == pytest.approx([*shaping[1:-1], shaping[-1] + paid])
        discounted = sum(discount**t * term for t, term in enumerate(shaping[1:]))
        assert rollout.truncated or discounted == pytest.approx(0.0, abs=1e-6)
    assert any(shaping)


def test_shaping_is_a_difference_of_potentials():
    @reward_function
    def clock(outcome):
        return min(1.0, (1 + outcome.turn) / 10)

    env = ConversationReward(make(ID, action="act"), TaskCompletion(), potential=clock)
    env.reset(seed=1)
    rewards = [env.step(1)[1] for _ in range(2)]
    assert rewards == pytest.approx([0.1, 0.1])
    end = env.unwrapped._domain.actions["end_conversation"]
    assert env.step(end)[1] == pytest.approx(-0.2)


def test_a_judge_is_asked_once_an_episode():
    asked = []
    env = ConversationReward(make(ID, action="act"), Judge(model=lambda p: asked.append(p) or "4"))
    seen = episode(env, seed=0)
    assert len(asked) == 1
    terms = json.loads(seen[-1][4]["reward_terms"])
    assert (terms["score"], terms["judge_failed"]) == (0.4, 0.0)


def test_a_spec_rebuilds_the_wrapper():
    env = ConversationReward(make(ID, action="act"), CustomerService(), discount=0.9)
    again = gym.make(env.spec)
    assert isinstance(again, ConversationReward)
    assert episode(again, seed=2)[-1][1] == episode(env, seed=2)[-1][1]


def test_vectors_of_wrapped_environments():
    envs = gym.make_vec(
        ID,
        num_envs=2,
        vectorization_mode="sync",
        wrappers=[lambda env: ConversationReward(env, Safety())],
        action="act",
        observation="features",
    )
    _, infos = envs.reset(seed=1)
    assert list(infos["reward_terms"]) == ['{"success": 0.0}'] * 2
    _, rewards, *_ = envs.step(np.array([1, 2]))
    assert rewards.tolist() == [0.0, 0.0]


# -- floors ----------------------------------------------------------------------------------------


def script(name):
    """A file of scripts/ as a module."""
    path = Path(__file__).parents[1] / "scripts" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"script_{name}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


floors = script("reward_floors")


@pytest.mark.parametrize("name", null_policies())
def test_null_policies_are_paid_about_nothing_where_success_is_seen(name):
    found = floors.outcomes(name, 40, seed=1)
    for reward in floors.REWARDS:
        if reward.sees_success:
            assert floors.floor(reward, found)[0] <= 0.02, reward.name
    assert any(floors.floor(reward, found)[0] > 0.3 for reward in floors.REWARDS) or (
        name in ("done", "silence")
    ), "style alone is not free of null pay; whoever changes that, change the docs too"


def test_the_planner_is_paid_where_null_policies_are_not():
    found = floors.outcomes("planner in words", 40, seed=1)
    assert all(floors.floor(reward, found)[0] > 0.5 for reward in floors.REWARDS)


def test_a_floor_by_hand():
    """Three of four safe: mean 3/4."""
    found = [over(), over(), over(), over(violations=("wrote",))]
    assert floors.floor(Safety(), found) == (0.75, wilson(3, 4)[1])


def test_the_table_is_printed(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["reward_floors.py", "--tasks", "2"])
    with pytest.raises(SystemExit, match=r"above 0.02"):  # two tasks prove nothing
        floors.main()
    rows = capsys.readouterr().out.splitlines()
    assert len(rows) == 2 + len(floors.REWARDS)
    assert {row.count("|") for row in rows} == {len(floors.policies()) + 3}
