"""Replies that mix speech and calls: what runs first, what is heard, what is held against whom."""

import json

import gymnasium as gym
import numpy as np
import pytest

import convgym  # noqa: F401 - registers the ids
from convgym.policies.rendered import RenderedPolicy
from convgym.policies.scripted import OraclePolicy

SPEECH_BEFORE_CALLS = "Thank you, that is kind of you. "


def call(name, **arguments):
    body = json.dumps({"name": name, "arguments": arguments})
    return f"<tool_call>{body}</tool_call>"


class Desk:
    """An environment in text mode with what has been seen of it at hand."""

    def __init__(self, task_id, seed=0, **keywords):
        self.env = gym.make(
            "ConvGym/CustomerService-v0", observation="dict", action="text", **keywords
        )
        self.observation, self.info = self.env.reset(
            seed=seed, options={"task_id": task_id, "user_seed": seed}
        )
        self.episode = self.env.unwrapped._episode
        self.over = False

    def say(self, text):
        self.observation, self.reward, terminated, truncated, self.info = self.env.step(text)
        self.over = terminated or truncated
        return self.info

    def view(self):
        return json.loads(self.observation["view"])

    def read(self):
        """The first order that has been read, if any."""
        return next((order for order in self.view()["orders"].values() if "date" in order), None)

    def oracle_until(self, act):
        """Let the oracle talk until its next reply would hold `act`; returns that reply."""
        policy = RenderedPolicy(OraclePolicy())
        policy.reset(1)
        while not self.over:
            reply, _ = policy.predict(self.observation, action_masks=self.info["action_mask"])
            if act in reply:
                return reply
            self.say(reply)
        return None


def tasks_of(workflow, effect, number=3, split="train"):
    desk = gym.make("ConvGym/CustomerService-v0").unwrapped._domain
    found = []
    for index in range(400):
        task = desk.task(split, index)
        if task.workflow == workflow and task.decision.effect == effect:
            found.append(task.task_id)
        if len(found) == number:
            break
    return found


@pytest.mark.parametrize("task_id", tasks_of(1, "allow"))
def test_a_report_may_stand_beside_the_write_it_reports(task_id):
    """Once the claim was held against the state before the reply's own call."""
    desk = Desk(task_id, persona={"scepticism": 0.0})
    reply = desk.oracle_until("cancel_order")
    info = desk.say(f"I have cancelled the order for you. {reply}")
    assert info["violations"] == ""
    assert desk.episode.user.satisfied, info["user_acts"]


@pytest.mark.parametrize("task_id", tasks_of(0, "allow"))
def test_a_reply_may_read_what_an_earlier_call_of_it_opened(task_id):
    desk = Desk(task_id)
    reply = desk.oracle_until("find_customer")
    info = desk.say(reply + call("list_orders") + call("get_order", order="order:1"))
    assert info["errors"] == 0
    assert '"status"' in info["tool_results"]


@pytest.mark.parametrize("task_id", tasks_of(0, "allow"))
def test_pastime_beside_a_call_keeps_the_floor(task_id):
    desk = Desk(task_id)
    reply = desk.oracle_until("find_customer")
    info = desk.say(SPEECH_BEFORE_CALLS + reply)
    assert info["user_acts"] == "[]"
    assert desk.episode.user.bother == 0


def test_tool_results_and_the_users_answer_both_come_back():
    env = gym.make("ConvGym/CustomerService-v0", action="text")
    env.reset(seed=5)
    observation, *_ = env.step("What is your email address? " + call("find_customer", email="a@b"))
    assert "no account is kept" in observation
    assert len(observation.splitlines()) == 2


@pytest.mark.parametrize("task_id", tasks_of(0, "allow"))
def test_what_is_said_with_the_ending_is_heard(task_id):
    desk = Desk(task_id)
    desk.say(desk.oracle_until("get_order"))
    order = desk.read()
    when = "was delivered" if order["status"] == "delivered" else "is expected to arrive"
    info = desk.say(
        f"Your order {order['order']} is {order['status']}. It {when} on {order['date']}. "
        + call("end_conversation")
    )
    assert desk.over and info["success"], info["failure_reason"]


@pytest.mark.parametrize("task_id", tasks_of(0, "allow"))
def test_telling_of_every_order_is_no_answer(task_id):
    desk = Desk(task_id)
    desk.oracle_until("get_order")
    reads = [call("get_order", order=f"order:{k}") for k in (1, 2, 3)]
    desk.say(call("list_orders") + "".join(reads))
    orders = desk.view()["orders"].values()
    text = " ".join(f"Order {o['order']} is {o['status']}." for o in orders)
    assert "told_of_another_order" in desk.say(text)["violations"]


def test_a_code_that_nobody_said_is_no_failed_verification():
    (task_id,) = tasks_of(1, "refuse", 1)
    desk = Desk(task_id)
    desk.oracle_until("find_customer")
    desk.say(desk.oracle_until("find_customer"))
    for _ in range(3):
        desk.say(call("verify_customer", postcode="00000"))
    assert desk.observation["features"][desk.env.unwrapped._domain.layout["failures"]] == 0


def test_more_calls_than_a_turn_takes_are_an_error_not_a_silence():
    desk = Desk("train-1")
    info = desk.say(call("list_orders") * 6)
    assert "more than 4 tool calls" in info["tool_results"]


@pytest.mark.parametrize("task_id", tasks_of(3, "allow", 6))
def test_another_address_than_the_wanted_one_is_not_agreed_to(task_id):
    desk = Desk(task_id)
    desk.oracle_until("update_address")  # asked, confirmed: address and order are known
    order = desk.read()["order"]
    info = desk.say(
        f"Shall I change the delivery address of order {order} to 1 Nowhere Road, Mars? Yes or no?"
    )
    assert '"affirm"' not in info["user_acts"]
    info = desk.say(
        f"Shall I change the delivery address of order {order} to "
        f"{desk.view()['heard']['address']}? Yes or no?"
    )
    assert '"affirm"' in info["user_acts"]


def test_progress_shows_only_where_the_reward_tells_it_too():
    for reward, shown in (("success", False), ("graded", False), ("milestones", True)):
        env = gym.make(
            "ConvGym/CustomerService-v0", observation="features", action="act", reward=reward
        )
        policy, seen = OraclePolicy(), []
        observation, info = env.reset(seed=3)
        policy.reset(3)
        over = False
        while not over:
            action, _ = policy.predict(observation, action_masks=info["action_mask"])
            observation, _, terminated, truncated, info = env.step(action)
            over = terminated or truncated
            if not over:
                seen.append(info["milestones"])
        assert any(seen) == shown
        assert info["milestones"] == pytest.approx(0.75)


def test_numbers_of_numpy_are_numbers():
    env = gym.make("ConvGym/CustomerService-v0", max_turns=np.int64(10), discount=np.float32(0.5))
    env.reset(seed=1, options={"user_seed": np.int64(3)})
