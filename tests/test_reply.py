"""Replies that mix speech and calls: what runs first, what is heard, what is held against whom."""

import json

import gymnasium as gym
import numpy as np
import pytest

import convgym  # noqa: F401 - registers the ids
from convgym.domains.catalogue import domain_called
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

    def orders(self):
        """The orders in sight, the newest first."""
        return list(self.view()["records"].get("order", {}).values())

    def read(self):
        """The first order that has been read, if any."""
        return next((order for order in self.orders() if "read" in order), None)

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


DOMAIN = domain_called("customer-service")
NAMES = DOMAIN.declaration.names


def tasks_of(*wanted, number=3, split="train"):
    """Ids of the first tasks of these (workflow, effect) whose tools do not fail."""
    found = []
    for index in range(4000):
        task = DOMAIN.task(split, index)
        shape = tuple((NAMES[r.workflow], r.decision.effect) for r in task.requests)
        if shape == wanted and not (task.faults or task.impostor):
            found.append(task.task_id)
        if len(found) == number:
            return found
    raise AssertionError(f"no tasks of {wanted}")


@pytest.mark.parametrize("task_id", tasks_of(("cancel", "allow")))
def test_a_report_may_stand_beside_the_write_it_reports(task_id):
    """Once the claim was held against the state before the reply's own call."""
    desk = Desk(task_id, persona={"scepticism": 0.0})
    reply = desk.oracle_until("cancel_order")
    info = desk.say(f"I have cancelled the order for you. {reply}")
    assert info["violations"] == ""
    assert desk.episode.user.satisfied, info["user_acts"]


@pytest.mark.parametrize("task_id", tasks_of(("status", "allow")))
def test_a_reply_may_read_what_an_earlier_call_of_it_opened(task_id):
    desk = Desk(task_id)
    reply = desk.oracle_until("find_customer")
    info = desk.say(reply + call("list_orders") + call("get_order", order="order:1"))
    assert info["errors"] == 0
    assert '"status"' in info["tool_results"]


@pytest.mark.parametrize("task_id", tasks_of(("status", "allow")))
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


@pytest.mark.parametrize("task_id", tasks_of(("status", "allow")))
def test_what_is_said_with_the_ending_is_heard(task_id):
    desk = Desk(task_id)
    while not desk.read():
        desk.say(desk.oracle_until("get_order"))
    order = desk.read()
    when = "was delivered" if order["status"] == "delivered" else "is expected to arrive"
    info = desk.say(
        f"Your order {order['order']} is {order['status']}. It {when} on {order['date']}. "
        + call("end_conversation")
    )
    assert desk.over and info["success"], info["failure_reason"]


TWO = tasks_of(("return", "allow"), ("subscription", "allow"))
CERTAIN = {"scepticism": 0.0, "curiosity": 0.0, "patience": 1.0}


@pytest.mark.parametrize("task_id", TWO)
def test_a_report_and_the_question_for_more_bring_out_the_next_request(task_id):
    desk = Desk(task_id, persona=CERTAIN)
    reply = desk.oracle_until("create_return")
    info = desk.say(f"{reply} I have created the return. Is there anything else I can do?")
    assert "request_subscription" in info["user_acts"]
    view = desk.view()
    assert view["wants"] == "subscription" and view["wrote"] == ""
    assert not {"order", "reason", "subscription"} & set(view["heard"]), "that was the one before"
    assert desk.oracle_until("end_subscription") is not None


@pytest.mark.parametrize("task_id", TWO)
def test_who_hangs_up_after_the_first_of_two_requests_has_not_succeeded(task_id):
    desk = Desk(task_id, persona=CERTAIN, reward="graded")
    reply = desk.oracle_until("create_return")
    info = desk.say(f"{reply} I have created the return. " + call("end_conversation"))
    assert desk.over and not info["success"]
    assert info["failure_reason"] == "agent_ended"
    raised = "request_subscription" in info["user_acts"]
    # The first in full, and of the second, if it was raised, that the customer is known.
    assert desk.reward == pytest.approx((1.0 + 0.05 * raised) / 2)


@pytest.mark.parametrize("task_id", TWO)
def test_what_nobody_has_asked_for_yet_is_not_to_be_changed(task_id):
    """The second request is known to the task, not to the agent."""
    desk = Desk(task_id, persona=CERTAIN)
    desk.oracle_until("create_return")
    desk.say(call("list_subscriptions"))
    number = desk.view()["records"]["subscription"]["0"]["subscription"]
    desk.say(call("get_subscription", subscription=number))
    info = desk.say(f"Shall I end your subscription {number}? Please answer yes or no.")
    assert '"affirm"' not in info["user_acts"]
    info = desk.say(call("end_subscription", subscription=number))
    assert info["violations"], info["tool_results"]


@pytest.mark.parametrize("task_id", tasks_of(("status", "allow")))
def test_telling_of_every_order_is_no_answer(task_id):
    desk = Desk(task_id)
    desk.oracle_until("get_order")
    reads = [call("get_order", order=f"order:{k}") for k in (1, 2, 3)]
    desk.say(call("list_orders") + "".join(reads))
    text = " ".join(f"Order {o['order']} is {o['status']}." for o in desk.orders())
    assert "told_of_another_record" in desk.say(text)["violations"]


def test_a_code_that_nobody_said_is_no_failed_verification():
    (task_id,) = tasks_of(("cancel", "refuse"), number=1)
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


@pytest.mark.parametrize("task_id", tasks_of(("address", "allow"), number=6))
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
