"""Wrappers that change what an agent reads: windows, memory, plans."""

import warnings
from typing import Any

import gymnasium as gym
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env
from hypothesis import given
from hypothesis import strategies as st

import convgym  # noqa: F401  registers the ids
from convgym.envs.context import ContextWindow
from convgym.envs.memory import ConversationMemory
from convgym.envs.plan import PlanContext, PlanStep
from convgym.envs.said import page, values_in, values_said
from convgym.envs.trials import Trials
from convgym.errors import InvalidConfiguration
from convgym.spaces import CHARSET


class Script(gym.Env[str, str]):
    """Says its lines one after the other, whatever it hears."""

    observation_space = spaces.Text(500, min_length=0, charset=CHARSET)
    action_space = spaces.Text(500, min_length=0, charset=CHARSET)

    def __init__(self, *said: str) -> None:
        self.said, self.place = said, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.place = 0
        return self.said[0], {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.place += 1
        ended = self.place == len(self.said) - 1
        success = ended and "yes" in action
        return self.said[self.place], float(success), ended, False, {"success": success}


def shown(env: gym.Env[str, str], *replies: str) -> list[str]:
    pages = [env.reset()[0]]
    return pages + [env.step(reply)[0] for reply in replies]


def test_truncation_keeps_the_newest_lines_that_fit():
    env = ContextWindow(Script("first", "second", "third"), "truncate", length=26)
    assert shown(env, "a", "b") == [
        "User: first",
        "Agent: a\nUser: second",
        "Agent: b\nUser: third",
    ]


def test_a_window_forgets_and_a_summary_keeps_the_values():
    said = ("I am ann@example.com, order W12345.", "ok", "and now?")
    window = ContextWindow(Script(*said), "sliding_window", messages=3)
    assert shown(window, "x", "y")[-1] == "User: ok\nAgent: y\nUser: and now?"
    summary = ContextWindow(Script(*said), "summary", messages=3)
    assert shown(summary, "x", "y")[-1] == (
        "[Earlier: User: ann@example.com, W12345.]\nUser: ok\nAgent: y\nUser: and now?"
    )
    assert summary.compression()["shown"] == len(shown(summary, "x", "y")[-1])


def test_another_summary_may_be_given():
    env = ContextWindow(
        Script("a", "b", "c"), "summary", messages=1, summarize=lambda lines: f"{len(lines)} lines"
    )
    assert shown(env, "x", "y")[-1] == "[Earlier: 4 lines]\nUser: c"


def test_memory_shows_values_of_this_conversation():
    env = ConversationMemory(Script("order W1", "and W2 of 3 May", "well"), values=2)
    assert shown(env, "a", "b") == [
        "order W1",
        "[Said: W1]\nand W2 of 3 May",
        "[Said: W2, 3]\nwell",
    ]


def test_memory_crosses_episodes_only_where_asked():
    forgetful = ConversationMemory(Script("Ann here", "end"))
    shown(forgetful, "yes")
    assert shown(forgetful)[0] == "Ann here"
    env = ConversationMemory(Script("Ann here", "end"), recalled=1)
    shown(env, "yes, short")
    assert env.reset()[0] == "[Then: Ann here -> yes, short (worked)]\nAnn here"
    other = ConversationMemory(Script("Ann here", "end"), recalled=1)
    other.remember(env.entries)
    assert other.reset()[0] == env.reset()[0]
    env.forget()
    assert env.reset()[0] == "Ann here"


def test_a_seeded_reset_forgets_so_that_episodes_repeat():
    env = ConversationMemory(Script("Ann here", "end"), recalled=1)
    shown(env, "yes")
    assert env.reset(seed=0)[0] == "Ann here"


def test_a_trial_is_several_conversations_in_one_episode():
    env = Trials(ConversationMemory(Script("Ann here", "end"), recalled=1), conversations=2)
    assert env.reset(seed=0)[0] == "Ann here"
    message, reward, terminated, truncated, info = env.step("no")
    assert (reward, terminated, truncated, info["conversation"]) == (0.0, False, False, 0)
    assert message == "[Then: Ann here -> no (failed)]\nAnn here"
    _, reward, terminated, _, info = env.step("yes")
    assert (reward, terminated, info["success"], info["conversation"]) == (1.0, True, True, 1)


def test_the_most_similar_conversation_is_recalled():
    env = ConversationMemory(Script("Bob wants tea", "end"), recalled=1)
    for opening, note in (("Bob wants tea", "tea"), ("Ann wants cake", "cake")):
        env.remember([{"opening": opening, "note": note, "return_": 1.0}])
    assert "tea" in env.reset()[0].splitlines()[0]
    unlike = ConversationMemory(Script("Zoe", "end"), recalled=2)
    unlike.remember(env.entries)
    assert unlike.reset()[0] == "Zoe"


def test_memory_is_bounded():
    env = ConversationMemory(Script("Ann", "end"), recalled=1, capacity=3)
    for _ in range(5):
        shown(env, "yes")
    assert len(env.entries) == 3


def test_a_plan_shows_what_is_done_and_what_is_next():
    steps = [PlanStep("greet", r"Agent: hello"), PlanStep("ask", r"Agent: .*\?")]
    env = PlanContext(Script("hi", "yes", "bye"), steps, goal="be kind")
    assert shown(env, "hello", "well?") == [
        "[Goal: be kind. Next: greet. Then: ask.]\nhi",
        "[Goal: be kind. Done: greet. Next: ask.]\nyes",
        "[Goal: be kind. Done: greet, ask.]\nbye",
    ]


def test_a_plan_is_looked_at_every_so_many_turns():
    env = PlanContext(Script("a", "b", "c", "d"), [PlanStep("greet", "hello")], update_every=2)
    pages = shown(env, "hello", "x", "y")
    assert ["Done" in one for one in pages] == [False, False, True, True]


def test_a_planner_is_asked_again():
    asked = []

    def planner(lines: Any) -> list[PlanStep]:
        asked.append(len(lines))
        return [PlanStep(f"step {len(lines)}", "never")]

    env = PlanContext(Script("a", "b", "c"), planner)
    assert "step 5" in shown(env, "x", "y")[-1]
    assert asked == [1, 3, 5]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: ContextWindow(Script("a", "b"), "shrink"),
        lambda: ContextWindow(Script("a", "b"), messages=0),
        lambda: ContextWindow(Script("a", "b"), length=3),
        lambda: ConversationMemory(Script("a", "b"), capacity=0),
        lambda: PlanContext(Script("a", "b"), []),
        lambda: Trials(Script("a", "b"), conversations=0),
        lambda: PlanContext(Script("a", "b"), [PlanStep("x", "(")]),
        lambda: ContextWindow(gym.make("CartPole-v1")),
    ],
)
def test_wrong_arguments_are_refused(wrong):
    with pytest.raises(InvalidConfiguration):
        wrong()


@pytest.mark.parametrize(
    "wrap",
    [
        lambda env: ContextWindow(env, "summary", messages=2, length=300),
        lambda env: ConversationMemory(env, recalled=2),
        lambda env: PlanContext(env, [PlanStep("find", "find_customer")]),
    ],
    ids=["window", "memory", "plan"],
)
def test_registered_environments_keep_the_interface(wrap):
    env = wrap(gym.make("ConvGym/CustomerService-v0"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there are wrappers
        check_env(env, skip_render_check=True)
    for seed in range(3):
        message, _ = env.reset(seed=seed)
        for _ in range(6):
            assert env.observation_space.contains(message)
            message, _, terminated, truncated, _ = env.step("Your order W12345, please? " * 30)
            if terminated or truncated:
                break


texts = st.text(alphabet="ab1@ .W", max_size=30)


@given(
    st.lists(st.tuples(st.sampled_from(["Agent", "User"]), texts), max_size=8), st.integers(0, 80)
)
def test_a_page_is_a_tail_of_what_was_said_and_fits(lines, length):
    whole = "\n".join(f"{who}: {text}" for who, text in lines)
    cut = page(lines, length)
    assert whole.endswith(cut)
    assert len(cut) <= length


@given(texts)
def test_values_are_words_of_the_text(text):
    for value in values_in(text):
        assert value in text
    assert all(value in values_said([("User", text)]) for value in values_in(text))
