"""A customer played by a language model that came for several things, one after another."""

import json
import re

import gymnasium as gym
import pytest
from played_customer import customer
from single_task import KNOWS_ID
from staged_user import (
    ASKED,
    DENIED,
    DENIED_WRONGLY,
    DONE,
    OFFERED,
    OFFERED_WRONGLY,
    Stage,
    names_of,
    task_of,
    wish,
)

from convgym.engine import acts
from convgym.engine.acts import Heard
from convgym.evaluation.rollout import play
from convgym.language.models import CallableModel
from convgym.policies.rendered import RenderedPolicy
from convgym.policies.scripted import OraclePolicy
from convgym.users.generative import RULES

TWO = task_of(("return", "allow"), ("subscription", "allow"), known=(KNOWS_ID,))
"""Of records of two kinds."""
SAME_KIND = task_of(("cancel", "allow"), ("refund", ""), known=(KNOWS_ID,))
REFUSED = task_of(("return", "refuse"), ("subscription", "allow"))
OFFERED_OTHER = task_of(("cancel", "refuse"), ("status", "allow"))
THREE = task_of(("return", "allow"), ("subscription", ""), ("access", ""))
ID = "ConvGym/CustomerService-v0"


def staged(task, opening):
    stage = Stage(task=task)
    stage.open(opening)
    return stage


# -- when the next request counts ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "heard", "words", "moves"),
    [
        (TWO, [DONE], "thank", True),
        (TWO, [], "", False),
        (TWO, [Heard(acts.CHAT)], "", False),
        (TWO, [ASKED], "affirm", False),
        (TWO, [Heard(acts.REPORT_DONE, verdict=acts.WRONG)], "", False),
        (TWO, [DENIED_WRONGLY], "accept_refusal", False),
        (REFUSED, [DENIED], "accept_refusal", True),
        (REFUSED, [DENIED], "", True),  # going on is taking it
        (REFUSED, [DENIED], "push_back", False),
        (REFUSED, [DENIED_WRONGLY], "", False),
        (OFFERED_OTHER, [DENIED], "", False),
        (OFFERED_OTHER, [DENIED], "accept_refusal", False),
        (OFFERED_OTHER, [DENIED, OFFERED_WRONGLY], "accept_alternative", False),
        (OFFERED_OTHER, [DENIED, OFFERED], "accept_alternative", True),
        (OFFERED_OTHER, [DENIED, OFFERED], "", True),
    ],
)
def test_the_next_request_counts_once_the_one_before_is_settled(task, heard, words, moves):
    names = names_of(task)
    stage = staged(task, f"greet {wish(names[0])}")
    said, closed = stage.answer(f"{words} {wish(names[1])}", *heard)
    assert (stage.state.at, stage.turn.about) == ((1, 1) if moves else (0, 0))
    assert (wish(names[1]) in said) is moves and not closed
    assert stage.state.knowledge is stage.state.requests[stage.state.at]
    if task is not TWO:
        assert stage.state.taken == int(moves)
    assert stage.notes().count(wish(names[1])) == int(not moves)


def test_a_request_that_was_raised_too_early_is_held_until_it_may_count():
    stage = staged(TWO, "greet request_return request_subscription inform_subscription")
    assert stage.said == ["greet", "request_return"]
    assert stage.answer("inform_order", Heard(acts.ASK, 2))[0] == ["inform_order"]
    said, _ = stage.answer("thank", DONE)
    assert said == ["thank", "request_subscription", "inform_subscription"]
    assert (stage.state.at, stage.state.held) == (1, ())
    assert stage.answer("request_return", Heard(acts.CHAT))[0] == [], "that one is settled"


def test_a_refusal_is_not_taken_by_what_was_said_before_it():
    stage = staged(REFUSED, "request_return request_subscription")
    assert stage.answer("acknowledge", DENIED)[0] == ["acknowledge"]
    assert (stage.state.at, stage.state.taken) == (0, 0)
    assert "request_subscription" in stage.answer("accept_refusal", DENIED)[0]
    assert stage.state.taken == 1


def test_of_three_requests_each_comes_in_its_turn():
    names = names_of(THREE)
    stage = staged(THREE, " ".join(map(wish, names)))
    assert stage.said == [wish(names[0])]
    assert stage.answer("thank", DONE)[0] == ["thank", wish(names[1])]
    assert stage.answer("thank", DONE)[0] == ["thank", wish(names[2])]
    assert stage.answer("thank bye", DONE) == (["thank", "bye"], True)


def test_the_third_request_cannot_be_raised_before_the_second():
    names = names_of(THREE)
    stage = staged(THREE, wish(names[0]))
    assert stage.answer(f"thank {wish(names[2])}", DONE)[0] == ["thank"]
    assert stage.state.at == 0
    assert stage.answer(wish(names[1]), Heard(acts.ASK_MORE))[0] == [wish(names[1])]
    assert stage.answer("thank", DONE)[0] == ["thank", wish(names[2])]


# -- what is said beside it ------------------------------------------------------------------------


def test_what_is_said_beside_the_next_request_is_said_of_it_if_it_is_its_own():
    """Both are about orders: the number of the one before is no number of the next one."""
    stage = staged(SAME_KIND, "request_cancel inform_order@0")
    said, _ = stage.answer("thank inform_order@0 request_refund", DONE)
    assert said == ["thank", "request_refund"]
    stage = staged(SAME_KIND, "request_cancel inform_order@0")
    said, _ = stage.answer("thank request_refund inform_order@1", DONE)
    assert said == ["thank", "request_refund", "inform_order"]
    assert stage.turn.about == 1


def test_a_yes_to_the_request_before_is_none_to_the_next():
    stage = staged(TWO, "request_return")
    stage.answer("thank request_subscription", DONE, ASKED)
    assert not stage.state.asked_yes
    assert stage.answer("affirm", Heard(acts.CHAT))[0] == []
    assert not stage.state.waiting


# -- nobody leaves with a request in the pocket ---------------------------------------------------


@pytest.mark.parametrize("words", ["bye", "no_more", "thank no_more bye"])
def test_who_is_content_does_not_leave_before_the_last_request(words):
    stage = staged(TWO, "request_return")
    said, closed = stage.answer(words, DONE)
    assert not closed and not {"bye", "no_more"} & set(said)
    assert stage.answer(f"request_subscription {words}", Heard(acts.ASK_MORE))[1] is False
    assert stage.state.at == 1
    assert stage.answer(words, DONE)[1] is True


def test_who_is_not_content_may_leave_at_any_time():
    for words in ("bye", "give_up"):
        stage = staged(TWO, "request_return")
        assert stage.answer(words, Heard(acts.CHAT)) == ([words], True)
    stage = staged(TWO, "request_return")
    assert stage.answer("give_up", DONE) == (["give_up"], True)


# -- the prompt ------------------------------------------------------------------------------------


def where(stage):
    role = stage.user.prompt(stage.episode)[0].content.partition(RULES)[0]
    return role.partition("Where you are\n")[2].partition("\n\n")[0]


def test_the_prompt_says_which_request_the_chat_is_about():
    stage = staged(TWO, "request_return")
    assert where(stage) == "The chat is about request 1 of 2."
    stage.answer("thank", DONE)
    settled = stage.prompts[-1][0].content
    assert "Request 1 of 2 is settled. Raise request 2 now." in settled
    stage.answer("request_subscription", Heard(acts.ASK_MORE))
    stage.answer("thank", DONE)
    assert "The chat is about request 2 of 2." in stage.prompts[-1][0].content
    single = Stage()
    single.open()
    assert where(single) == ""


# -- whole episodes --------------------------------------------------------------------------------


def make(function, **keywords):
    model = CallableModel(function, takes="messages")
    return gym.make(ID, disable_env_checker=True, user=model, observation="dict", **keywords)


def ended(env, task, seed=3):
    options = {"task_id": task.task_id}
    return play(env, RenderedPolicy(OraclePolicy()), seed=seed, options=options)


def test_a_hasty_customer_that_raises_all_at_once_is_served_all_the_same():
    """It says all its requests in its first message and never again."""

    def hasty(messages):
        role = messages[0].content.partition(RULES)[0]
        if len(messages) == 2:
            wanted = role.partition("order: the next")[2]
            return " ".join(words for key, words in HASTY.items() if key in wanted)
        return "Thank you." if "is settled" in role else customer(messages)

    env = make(hasty)
    rollout = ended(env, task_of(("status", "allow"), ("access", "allow")))
    assert rollout.final_info["success"], rollout.final_info["failure_reason"]
    acts_of = [json.loads(info["user_acts"]) for info in rollout.infos]
    raised = [turn for turn, said in enumerate(acts_of) if {"act": "request_access"} in said]
    assert len(raised) == 1 and raised[0] > 0


HASTY = {
    "where the order is": "Where is my order, and when does it come?",
    "locked out": "And I am locked out of my account, please unlock it.",
}


def test_a_customer_that_never_raises_its_second_request_does_not_succeed():
    def forgetful(messages):
        said = customer(messages)
        return "Thank you, goodbye." if "One more thing" in said else said

    rollout = ended(make(forgetful), TWO)
    assert not rollout.final_info["success"]
    assert rollout.truncated, "it is not let go, and the turn cap cuts it off"


@pytest.mark.parametrize("seed", range(6))
def test_nothing_of_a_request_is_in_view_before_it_was_raised(seed):
    env = make(customer)
    policy = RenderedPolicy(OraclePolicy())
    observation, info = env.reset(seed=seed, options={"task_id": TWO.task_id})
    policy.reset(seed)
    hidden = env.unwrapped.domain.goal_values(TWO)
    own = hidden["1:inform_subscription"]
    over, raised = False, False
    while not over:
        raised |= "request_subscription" in info["user_acts"]
        shown = " ".join(str(value) for value in observation.values())
        assert raised or not re.search(rf"\b{own}\b", shown)
        action, _ = policy.predict(observation, action_masks=info["action_mask"])
        observation, _, terminated, truncated, info = env.step(action)
        over = terminated or truncated
    assert raised and info["success"]
