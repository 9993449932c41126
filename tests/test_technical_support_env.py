"""The support desk as an environment: in act mode, as a vector, and with both sides played."""

import json

import gymnasium as gym
import numpy as np
import pytest

from convgym.domains.technical_support.dialogue import LAYOUT
from convgym.envs.technical_support import TechnicalSupportEnv
from convgym.envs.two_sided import AGENT, USER, TwoSidedEnv
from convgym.envs.two_sided_users import BoundUser
from convgym.envs.vector import technical_support
from convgym.errors import InvalidConfiguration
from convgym.policies.technical_support import OraclePolicy

SIDE = "convgym.domains.technical_support.user_side:SupportSide"
ENTRY = "convgym.envs.technical_support:TechnicalSupportEnv"


def features(env):
    return env._features()


def episode(env, policy, seed):
    """(act, features) of each step, and the last info."""
    observation, info = env.reset(seed=seed)
    policy.reset(seed)
    trace, done = [], False
    while not done:
        assert env.observation_space.contains(observation)
        row = features(env)
        mask = env.domain.actions.mask(np.frombuffer(env._episode.belief, dtype=np.uint8))
        act, _ = policy.predict(row, action_masks=mask)
        trace.append((act, row.tobytes()))
        observation, _, terminated, truncated, info = env.step(act)
        done = terminated or truncated
    return trace, info


@pytest.mark.parametrize("observation", ["message", "transcript", "dict", "features"])
def test_the_oracle_plays_in_every_form(observation):
    env = TechnicalSupportEnv(observation=observation, action="act", split="test")
    for seed in range(8):
        assert episode(env, OraclePolicy(), seed)[1]["success"]


def test_the_spaces_are_as_the_page_says():
    env = TechnicalSupportEnv(observation="features", action="act")
    assert env.action_space.n == 113 and env.observation_space.shape == (407,)
    page = " ".join((TechnicalSupportEnv.__doc__ or "").split())
    assert "Discrete(113)" in page and "Box(0, 255, (407,), float32)" in page
    assert "`max_turns` | 70" in page and env._engine.max_turns == 70
    headings = ("Description", "Action Space", "Observation Space", "Starting State", "Rewards",
                "Episode End", "Information", "Arguments", "Vectorized environment",
                "Version History")  # fmt: skip
    assert all(f"## {heading}" in (TechnicalSupportEnv.__doc__ or "") for heading in headings)


def test_features_are_scaled_into_small_numbers():
    env = TechnicalSupportEnv(observation="features", action="act", split="test")
    for seed in range(10):
        for _, row in episode(env, OraclePolicy(), seed)[0]:
            values = np.frombuffer(row, dtype=np.float32)
            seen = [value for name, value in zip(LAYOUT, values, strict=True)
                    if name.startswith(("sees_", "looked_", "asked_"))]  # fmt: skip
            assert max(seen) <= 1.0 and min(values) >= 0.0


@pytest.mark.parametrize("reward", ["success", "graded", "milestones"])
def test_a_solved_case_is_worth_one(reward):
    env = TechnicalSupportEnv(observation="features", action="act", split="test", reward=reward)
    for seed in range(6):
        observation, info = env.reset(seed=seed)
        total, done, policy = 0.0, False, OraclePolicy()
        while not done:
            act, _ = policy.predict(observation, action_masks=info["action_mask"])
            observation, earned, terminated, truncated, info = env.step(act)
            total, done = total + earned, terminated or truncated
        assert total == pytest.approx(1.0)


def test_a_topic_is_a_kind_of_device():
    env = TechnicalSupportEnv(observation="dict", action="act", topic="camera", privileged=True)
    for seed in range(10):
        assert json.loads(env.reset(seed=seed)[1]["privileged"])["kind"] == "camera"
    with pytest.raises(InvalidConfiguration, match="topic"):
        TechnicalSupportEnv(topic="fridge")


def test_the_vector_form_plays_what_the_single_one_does():
    vector = technical_support(3, observation="features", action="act", split="test")
    single = TechnicalSupportEnv(observation="features", action="act", split="test")
    rows, _ = vector.reset(seed=4)
    for place in range(3):
        assert (rows[place] == single.reset(seed=4 + place)[0]).all()
    assert isinstance(vector.single_action_space, gym.spaces.Discrete)
    vector.close()


def test_with_the_customer_as_a_player_the_trace_is_the_same():
    keywords = {"observation": "features", "action": "act", "split": "test"}
    two = TwoSidedEnv(ENTRY, SIDE, user_action="act", **keywords)
    one = TechnicalSupportEnv(**keywords)
    for seed in range(40):
        expected, info = episode(one, OraclePolicy(noise=0.15), seed)
        two.reset(seed=seed)
        user, policy, trace = BoundUser(two), OraclePolicy(noise=0.15), []
        policy.reset(seed)
        while two.agents and not two.terminations[AGENT] and not two.truncations[AGENT]:
            if two.agent_selection == USER:
                two.step(user.action())
                continue
            seen = two.observe(AGENT)
            act, _ = policy.predict(seen["features"], action_masks=seen["action_mask"])
            trace.append((act, seen["features"].tobytes()))
            two.step(act)
        assert trace == expected
        for name in ("success", "violations", "errors", "turn", "failure_reason"):
            assert two.infos[AGENT][name] == info[name]
