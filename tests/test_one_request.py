"""`ConvGym/OneRequest-v0`: one workflow of each domain, short, alike for a seed, no free lunch."""

import hashlib
import json
import re

import gymnasium as gym
import numpy as np
import pytest

import convgym  # noqa: F401  registers the ids
from convgym.envs import one_request
from convgym.envs.handles import ToolHandles
from convgym.envs.one_request import NOT_FOR_STATUS, WORKFLOWS, OneRequest
from convgym.errors import InvalidConfiguration
from convgym.policies import roster
from convgym.policies.rendered import RenderedPolicy
from convgym.policies.sales import FirmOraclePolicy

ID = "ConvGym/OneRequest-v0"
DESK = "customer-service"
each_domain = pytest.mark.parametrize("domain", list(WORKFLOWS))


class Always:
    """Says the same in every turn."""

    def __init__(self, words):
        self._words = words

    def reset(self, seed):
        pass

    def predict(self, observation):
        return self._words, None


def oracle_of(domain):
    """Who stands by the list price where there is one."""
    policy = FirmOraclePolicy() if domain == "sales" else roster.ladder(domain)["oracle"]()
    return RenderedPolicy(policy, domain=domain)


def played(env, policy, seed):
    """What an episode brought, and how it ended, and what was said in it."""
    observation, info = env.reset(seed=seed)
    policy.reset(seed)
    total, ended, acts = 0.0, False, []
    while not ended:
        reply, _ = policy.predict(observation)
        acts.append(env.get_wrapper_attr("handles").shorten(reply))
        observation, reward, terminated, truncated, info = env.step(reply)
        total, ended = total + reward, terminated or truncated
    return total, info, acts


@pytest.fixture(scope="module")
def envs():
    """The environment of each domain, as it is evaluated."""
    keywords = {"split": "test", "phrases": "held_out", "disable_env_checker": True}
    return {domain: gym.make(ID, domain=domain, **keywords) for domain in WORKFLOWS}


@pytest.fixture(scope="module")
def env(envs):
    return envs[DESK]


@pytest.fixture(scope="module")
def by_oracle(envs):
    """40 episodes of the oracle in each domain."""
    return {
        domain: [played(env, oracle_of(domain), seed) for seed in range(40)]
        for domain, env in envs.items()
    }


def task_of(env, task_id):
    split, number = task_id.split("-")
    return env.unwrapped.domain.task(split, int(number))


def requests_of(env, task_id):
    return task_of(env, task_id).requests


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


def test_other_domains_pass_over_episodes_until_one_is_of_the_workflow(envs):
    """The second version: the desk's own episodes of a seed, one after the other."""
    desks = {"technical-support": "TechnicalSupport", "sales": "Sales"}
    for domain, name in desks.items():
        desk = gym.make(
            f"ConvGym/{name}-v0", observation="dict", topic=WORKFLOWS[domain].topic,
            difficulty=0.2, split="test", phrases="held_out", disable_env_checker=True,
        )  # fmt: skip
        for seed in range(6):
            shown, same = envs[domain].reset(seed=seed)
            observation, info = desk.reset(seed=seed)
            while not WORKFLOWS[domain].played(task_of(desk, info["task_id"])):
                observation, info = desk.reset()
            assert same["task_id"] == info["task_id"]
            handles = envs[domain].get_wrapper_attr("handles")
            assert handles.expand(shown["message"]) == observation["message"]


def test_a_camera_is_mended_by_the_customer_and_nothing_is_booked(by_oracle):
    writes = ("order_replacement", "book_technician", "push_config", "reset_port", "raise_limit")
    for _, info, acts in by_oracle["technical-support"]:
        assert info["success"]
        assert not any(f'"{name}"' in act for name in writes for act in acts)


def test_a_sale_is_one_piece_of_the_only_product_at_the_list_price(envs):
    env, sold = envs["sales"], 0
    for seed in range(20):
        observation, _ = env.reset(seed=seed)
        policy, ended, lowered = oracle_of("sales"), False, False
        policy.reset(seed)
        while not ended:
            reply, _ = policy.predict(observation)
            observation, reward, terminated, truncated, _ = env.step(reply)
            ended = terminated or truncated
            if '"search_catalogue"' in reply:
                assert len(json.loads(observation["tool_results"])["products"]) == 1
            if '"create_quote"' in reply:
                assert '"quantity": "1"' in reply
                lowered |= '"discount": "0"' not in reply
        if not lowered:
            assert reward == pytest.approx(1.0)
            sold += 1
    assert sold >= 15


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


@each_domain
def test_no_call_needs_a_value_copied(by_oracle, domain):
    handle = r"[a-z]+:\d+"
    value = re.compile(rf"{handle}(, {handle})*|[01]")
    calls = 0
    for _, info, acts in by_oracle[domain]:
        for act in acts if info["success"] else ():
            for call in re.findall(r"<tool_call>(.*?)</tool_call>", act):
                arguments = json.loads(call)["arguments"]
                lower = arguments.get("discount", "0") != "0"
                assert lower or all(value.fullmatch(given) for given in arguments.values()), call
                calls += 1
    assert calls > 80


@each_domain
def test_the_oracle_earns_it_and_constant_replies_do_not(envs, by_oracle, domain):
    """Design: the oracle far above ending at once, never ending, and saying everything."""
    n, env = 30, envs[domain]
    assert np.mean([total for total, *_ in by_oracle[domain]]) >= 0.95
    assert np.mean([info["success"] for _, info, _ in by_oracle[domain]]) >= 0.95
    for words in ("Goodbye.", "One moment, please.", '{"name": "end_conversation"}'):
        assert np.mean([played(env, Always(words), seed)[0] for seed in range(n)]) <= 0.1, words
    for name, make in roster.null_policies(domain).items():
        if name != "random-tool":  # speaks in acts
            found = [played(env, make(), seed) for seed in range(n)]
            assert np.mean([total for total, *_ in found]) <= 0.1, name
            assert np.mean([info["success"] for _, info, _ in found]) <= 0.03, name


@each_domain
def test_conversations_are_short(by_oracle, domain):
    turns = [len(acts) for *_, acts in by_oracle[domain]]
    assert np.mean(turns) <= 12.5 and max(turns) <= 24


def test_customer_service_is_as_it_was():
    """The hash was taken when it was the only domain."""
    env = gym.make(ID, disable_env_checker=True)
    policy, digest = RenderedPolicy(roster.ladder(DESK)["oracle"]()), hashlib.sha256()
    for seed in range(12):
        observation, info = env.reset(seed=seed)
        policy.reset(seed)
        digest.update(f"{info['task_id']} {observation['message']}".encode())
        ended = False
        while not ended:
            reply, _ = policy.predict(observation)
            observation, reward, terminated, truncated, _ = env.step(reply)
            ended = terminated or truncated
            results, words = observation["tool_results"], observation["message"]
            digest.update(f"{reply} {results} {words} {reward}".encode())
    assert digest.hexdigest()[:16] == "f22438319f1becf9"


@each_domain
def test_the_id_makes_the_wrapped_desk(domain):
    env = gym.make(ID, domain=domain)
    assert isinstance(env.env.env, ToolHandles)
    assert env.unwrapped.domain.domain == domain
    again = gym.make(env.spec)
    assert again.spec.id == ID and again.unwrapped.domain.domain == domain


def test_a_topic_and_keys_of_ones_own():
    env = gym.make(ID, domain="technical-support", topic="printer", dropped=["customer"])
    for seed in range(5):
        _, info = env.reset(seed=seed)
        task = task_of(env, info["task_id"])
        assert env.unwrapped.domain.topics[task.kind] == "printer" and len(task.faults) == 1
    kinds = set()
    every = gym.make(ID, domain="technical-support", topic=None, disable_env_checker=True)
    for seed in range(20):
        kinds.add(task_of(every, every.reset(seed=seed)[1]["task_id"]).kind)
    assert len(kinds) > 2


def test_a_domain_without_a_workflow_is_refused():
    with pytest.raises(InvalidConfiguration, match="domain='chess' is not one of"):
        gym.make(ID, domain="chess")


def test_a_split_without_such_tasks_is_said_to_have_none(monkeypatch):
    monkeypatch.setattr(one_request, "MOST_PASSED", 40)
    env = gym.make(ID, domain="technical-support", split="test_policy")
    with pytest.raises(InvalidConfiguration, match="none of 41 episodes of split 'test_policy'"):
        env.reset(seed=0)
