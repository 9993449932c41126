"""Environments of texts as messages: what the model is shown, what it earns, what may go wrong."""

import gymnasium as gym
import numpy as np
import pytest
from text_environments import Crashing, Echo, Messages, Parts, Summary, Transcript

from convgym.errors import InvalidConfiguration
from trainers.llm.text_environment import TextEnvironment


def play(environment, replies, seed=1):
    """What was shown before each reply, and the steps."""
    shown = [environment.reset(seed)]
    steps = []
    for reply in replies:
        steps.append(environment.step(reply))
        shown.append(steps[-1].messages)
    return shown, steps


def contents(messages):
    return [(message["role"], message["content"]) for message in messages]


def test_a_text_is_a_user_message():
    environment = TextEnvironment(Echo)
    shown, steps = play(environment, ["four", "odd", "four"])
    for messages, start in zip(
        shown, ["Hello", "4 letters", "3 letters", "4 letters"], strict=True
    ):
        ((role, content),) = contents(messages)
        assert role == "user" and content.startswith(start)
    assert [step.reward for step in steps] == [1, 0, 1]
    assert [step.done for step in steps] == [False, False, True]
    assert steps[-1].terminated and steps[-1].info["success"]
    assert [m["role"] for m in environment.messages] == ["user", "assistant"] * 3 + ["user"]


def test_the_same_seed_is_the_same_episode():
    one = TextEnvironment(Echo)
    first = play(one, ["a", "b", "c"], seed=5)
    assert play(one, ["a", "b", "c"], seed=5) == first
    assert play(one.another(), ["a", "b", "c"], seed=5) == first
    assert play(one, ["a", "b", "c"], seed=6) != first


@pytest.mark.parametrize("history", ["auto", "transcript"])
@pytest.mark.parametrize("replies", [["hm", "yes", "no"], [" spaced ", "odd \x07 bell", "é"]])
def test_of_a_transcript_only_what_was_added_is_shown(history, replies):
    growing = play(TextEnvironment(Transcript, history=history), replies)[0]
    plain = play(TextEnvironment(Echo), replies)[0]
    for page, message in zip(growing, plain, strict=True):
        assert contents(page) == [("user", f"User: {message[0]['content']}")]


def test_an_answer_that_begins_as_the_one_before_is_no_transcript():
    class Repeating(Echo):
        def say(self, start):
            return "yes" if start == "Hello" else "yes please"

    shown, _ = play(TextEnvironment(Repeating), ["and?"])
    assert contents(shown[1]) == [("user", "yes please")]


def test_a_transcript_that_was_clipped_starts_anew():
    class Clipped(Transcript):
        def step(self, action):
            page, *rest = super().step(action)
            return (page if self.turn < 2 else page[-40:]), *rest

    _, steps = play(TextEnvironment(Clipped, system="Be kind."), ["hm", "yes", "no"])
    assert [step.rewritten for step in steps] == [False, True, True]
    assert [m["role"] for m in steps[1].messages] == ["system", "user"]
    assert len(steps[1].messages[1]["content"]) == 40


def test_a_page_that_replaces_history_is_all_there_is():
    environment = TextEnvironment(Summary, history="replace", system="Be kind.")
    shown, steps = play(environment, ["four", "odd"])
    assert [step.rewritten for step in steps] == [True, True]
    assert [m["role"] for m in shown[1]] == ["system", "user"]
    assert shown[1][1]["content"].startswith("Turn 1. So far 4 letters.")


def test_observed_messages_are_compared_with_what_was_read():
    _, steps = play(TextEnvironment(Messages, system="Be kind."), ["a", "b", "c"])
    assert [step.rewritten for step in steps] == [False, True, False]
    assert [m["role"] for m in steps[0].messages] == ["user"]
    assert [m["role"] for m in steps[1].messages] == ["system", "user"]
    assert [m["role"] for m in steps[2].messages] == ["user"]


def test_parts_are_tool_results_and_words():
    shown, _ = play(TextEnvironment(Parts), ["a", "b", "c"])
    roles = [[m["role"] for m in messages] for messages in shown]
    assert roles == [["system", "user"], ["tool"], ["tool", "user"], []]
    assert shown[0][0]["content"] == "You are a desk."
    assert [m["role"] for m in TextEnvironment(Parts, system="").reset(1)] == ["user"]
    assert TextEnvironment(Parts, system="Else.").reset(1)[0]["content"] == "Else."


@pytest.mark.parametrize("observation", ["message", "dict", "transcript"])
def test_the_customer_service_environment(observation):
    """All three say the same; the system prompt stands once."""
    options = {"observation": observation}
    environment = TextEnvironment("ConvGym/CustomerService-v0", kwargs=options)
    shown, _ = play(environment, ["Hello, how can I help?", "What is your name?"])
    text = "\n".join(m["content"] for messages in shown for m in messages)
    assert text.count('"end_conversation"') == 1
    words = [m["content"].removeprefix("Customer: ") for m in [shown[0][-1], *shown[1], *shown[2]]]
    plain = play(
        TextEnvironment("ConvGym/CustomerService-v0", system=""),
        ["Hello, how can I help?", "What is your name?"],
    )[0]
    expected = [messages[0]["content"] for messages in plain]
    assert words[1:] == expected[1:] and words[0].endswith(expected[0])


def test_a_reward_function_adds_or_replaces():
    calls = []

    def judge(messages, info):
        calls.append((len(messages), info["success"]))
        return 10.0

    replies = ["four", "odd", "four"]
    _, steps = play(TextEnvironment(Echo, judge), replies)
    assert [step.reward for step in steps] == [1, 0, 11]
    _, steps = play(TextEnvironment(Echo, judge, replace=True), replies)
    assert [step.reward for step in steps] == [0, 0, 10]
    assert calls == [(7, True), (7, True)]  # with what the user said last


def test_who_cuts_an_episode_off_hears_the_reward_too():
    environment = TextEnvironment(Echo, lambda messages, info: float(len(messages)))
    play(environment, ["a"])
    step = environment.cut()
    assert step.truncated and not step.terminated and step.reward == 3


def test_failures_cost_their_episode():
    environment = TextEnvironment(Crashing)
    _, steps = play(environment, ["a", "b"], seed=3)
    assert steps[1].error == "RuntimeError: the desk is on fire"
    assert steps[1].truncated and not steps[1].terminated
    assert environment.reset(6) == [] and environment.error == "OSError: no customers today"
    assert play(environment, ["a", "b", "c"], seed=4)[1][-1].terminated
    assert not environment.error


@pytest.mark.parametrize("info", [None, ["success"], {"success": np.array([True, False])}], ids=str)
def test_an_info_that_cannot_be_read_is_a_failure(info):
    """A repaired bug: it ended the run."""

    class Odd(Echo):
        def reset(self, **given):
            observation, _ = super().reset(**given)
            return observation, info if given["seed"] else {}

        def step(self, action):
            *answer, _ = super().step(action)
            return *answer, info

    environment = TextEnvironment(Odd)
    assert environment.reset(1) == [] and environment.error
    assert environment.reset(0) and environment.step("a").error


def test_an_environment_that_cannot_be_made_is_a_sentence():
    def broken():
        raise RuntimeError("no desk")

    with pytest.raises(InvalidConfiguration, match="no environment can be made"):
        TextEnvironment(broken)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "much", None])
def test_a_reward_that_is_no_number_is_a_failure(value):
    judge = TextEnvironment(Echo, lambda messages, info: value)
    _, steps = play(judge, ["a", "b", "c"])
    assert steps[-1].error

    class Odd(Echo):
        def step(self, action):
            observation, _, *rest = super().step(action)
            return observation, value, *rest

    assert play(TextEnvironment(Odd), ["a"])[1][0].error


def test_long_replies_are_clipped_to_what_the_environment_takes():
    class Strict(Echo):
        def step(self, action):
            assert len(action) <= self.action_space.max_length
            return super().step(action)

    assert play(TextEnvironment(Strict), ["x" * 999])[1][0].error == ""


def test_what_has_no_texts_is_refused():
    with pytest.raises(InvalidConfiguration, match='texts with action="text"'):
        TextEnvironment("CartPole-v1")
    with pytest.raises(InvalidConfiguration, match="takes Discrete"):
        TextEnvironment("ConvGym/CustomerService-v0", kwargs={"action": "act"})
    with pytest.raises(InvalidConfiguration, match="shows Box"):
        TextEnvironment("ConvGym/CustomerService-v0", kwargs={"observation": "features"})
    with pytest.raises(InvalidConfiguration, match="pass an id or a callable"):
        TextEnvironment(Echo())
    with pytest.raises(InvalidConfiguration, match="history='all'"):
        TextEnvironment(Echo, history="all")
    with pytest.raises(InvalidConfiguration, match="needs a reward_fn"):
        TextEnvironment(Echo, replace=True)
    with pytest.raises(gym.error.Error):
        TextEnvironment("Nowhere-v0")
