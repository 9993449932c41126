"""`ConvGym/OneRequest-v0`: one request an episode, alike for a seed, and no free lunch."""

import json

import gymnasium as gym
import numpy as np
import pytest

import convgym  # noqa: F401  registers the ids
from convgym.envs.handles import ToolHandles
from convgym.envs.one_request import NOT_FOR_STATUS, OneRequest
from convgym.policies import roster
from convgym.policies.rendered import RenderedPolicy

ID = "ConvGym/OneRequest-v0"
DESK = "customer-service"


def played(env, policy, seed):
    """What an episode brought, and how it ended."""
    observation, info = env.reset(seed=seed)
    policy.reset(seed)
    total, ended, acts = 0.0, False, []
    while not ended:
        reply, _ = policy.predict(observation)
        observation, reward, terminated, truncated, info = env.step(reply)
        total, ended = total + reward, terminated or truncated
        acts.append(reply)
    return total, info, acts


@pytest.fixture(scope="module")
def env():
    return gym.make(ID, split="test", phrases="held_out", disable_env_checker=True)


def requests_of(env, task_id):
    split, number = task_id.split("-")
    return env.unwrapped.domain.task(split, int(number)).requests


def test_episodes_have_one_request_of_the_topic(env):
    seen = set()
    for seed in range(60):
        _, info = env.reset(seed=seed)
        (request,) = requests_of(env, info["task_id"])
        assert env.unwrapped.domain.topics[request.workflow] == "status"
        seen.add(info["task_id"])
        assert env.reset(seed=seed)[1]["task_id"] == info["task_id"]
    assert len(seen) > 40


def test_episodes_with_one_request_are_those_of_the_desk(env):
    desk = gym.make(
        "ConvGym/CustomerService-v0", observation="dict", topic="status", difficulty=0.2,
        split="test", phrases="held_out",
    )  # fmt: skip
    passed = 0
    for seed in range(40):
        observation, info = desk.reset(seed=seed)
        if len(requests_of(desk, info["task_id"])) > 1:
            passed += 1
            continue
        shown, same = env.reset(seed=seed)
        assert same["task_id"] == info["task_id"]
        handles = env.get_wrapper_attr("handles")
        assert handles.expand(shown["message"]) == observation["message"]
    assert passed


def test_a_task_that_is_asked_for_is_played(env):
    several = next(f"test-{n}" for n in range(2000) if len(requests_of(env, f"test-{n}")) > 1)
    assert env.reset(seed=0, options={"task_id": several})[1]["task_id"] == several
    fixed = OneRequest(gym.make("ConvGym/CustomerService-v0", task_id=several))
    assert fixed.reset(seed=0)[1]["task_id"] == several


def test_results_are_short_and_tools_take_handles(env):
    observation, _ = env.reset(seed=0)
    while "email:1" not in observation["message"]:
        observation, *_ = env.step("What is your email?")
    call = {"name": "find_customer", "arguments": {"email": "email:1"}}
    observation, *_ = env.step(json.dumps(call))
    assert "needs_verification" in observation["tool_results"]
    assert not any(f'"{key}"' in observation["tool_results"] for key in NOT_FOR_STATUS)


def test_the_oracle_earns_it_and_constant_replies_do_not(env):
    """Design: the oracle far above ending at once, never ending, and saying everything."""
    n, ladder = 40, roster.ladder(DESK)
    oracle = [played(env, RenderedPolicy(ladder["oracle"]()), seed)[0] for seed in range(n)]
    assert np.mean(oracle) >= 0.95
    for name, make in roster.null_policies(DESK).items():
        if name != "random-tool":  # speaks in acts
            earned = [played(env, make(), seed)[0] for seed in range(n)]
            assert np.mean(earned) <= 0.1, name


def test_the_id_makes_the_wrapped_desk(env):
    assert isinstance(gym.make(ID).env.env, ToolHandles)
    assert gym.make(gym.spec(ID)).spec.id == ID
