"""A task of one's own: the worked example of the README, and what the base class promises."""

import copy
import io
import json
import math
import pickle
import warnings
from contextlib import redirect_stdout

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

from convgym.engine.keys import threshold
from convgym.envs.reply import Reply, word_set
from convgym.envs.task_environment import OBSERVATIONS, REWARDS, TaskEnvironment
from convgym.envs.task_episode import Answer, Draws, TaskEpisode, as_typed
from convgym.envs.task_hooks import TaskHooks, tool
from convgym.errors import InvalidAction, InvalidConfiguration
from convgym.language.style import Style
from convgym.rewards.custom import reward_function
from convgym.rewards.wrapper import ConversationReward
from convgym.users.decisions import LOG_UNIT, NUMBER, STRIDE, DecisionModel

DAYS, GUESTS = ("friday", "saturday", "sunday"), ("2", "4", "6")


class BookTable(TaskEnvironment):
    """A guest wants a table; the agent finds out the day and the party, books, and says so."""

    name = "book-table"
    policy = "You take bookings. Ask for the day and the party, book, then confirm the day."
    tools = {"book": tool("Books a table.", day=DAYS, guests=GUESTS)}  # noqa: RUF012

    def draw_task(self, draws: Draws) -> dict[str, str]:
        """The table that is wanted."""
        return {"day": draws.pick(DAYS), "guests": draws.pick(GUESTS)}

    def open(self, episode: TaskEpisode) -> str:
        """The guest's first words."""
        return episode.word(("Hi, I'd like a table.", "Hello! Have you got a table for us?"))

    def answer(self, episode: TaskEpisode, reply: Reply) -> Answer:
        """Gives what it is asked for; content once the day has been confirmed."""
        day, guests = episode.task["day"].title(), episode.task["guests"]
        said = []
        if reply.asks("day", "when", "date"):
            said.append(("day", f"On {day}, please."))
        if reply.asks("how many", "guests", "people", "party"):
            if not said or episode.decide("answer_too"):
                said.append(("guests", f"We are {guests}."))
        if said:
            return Answer(" ".join(text for _, text in said), tuple(("tell", s) for s, _ in said))
        if reply.says(day) and "booked" in episode.notes:
            episode.notes["told"] = True
            return Answer("Great, see you then!", (("thank", ""),), leaves=True)
        episode.bother += 1
        return Answer("Well, I only want a table.", (("insist", ""),))

    def call(self, episode: TaskEpisode, name: str, arguments: dict[str, str]) -> str:
        """Books whatever the agent asks for."""
        episode.notes["booked"] = arguments
        return json.dumps({"booked": arguments})

    def succeeded(self, episode: TaskEpisode) -> bool:
        """The right table, and the guest knows."""
        return episode.notes.get("booked") == episode.task and "told" in episode.notes

    def progress(self, episode: TaskEpisode) -> float:
        """Half for the right table, half for saying so."""
        right = episode.notes.get("booked") == episode.task
        return (right + (right and "told" in episode.notes)) / 2


class Waiter:
    """Plays `BookTable` from what it hears alone."""

    def __init__(self):
        self.day = self.guests = ""
        self.booked = False

    def reply(self, message):
        for day in DAYS:
            self.day = day if day in message.lower() else self.day
        for guests in GUESTS:
            self.guests = guests if f"We are {guests}" in message else self.guests
        if not (self.day and self.guests):
            ask = [] if self.day else ["On which day?"]
            return " ".join(ask + ([] if self.guests else ["How many people are you?"]))
        if not self.booked:
            self.booked = True
            arguments = {"day": self.day, "guests": self.guests}
            call = json.dumps({"name": "book", "arguments": arguments})
            return f"<tool_call>{call}</tool_call>"
        return f"Your table is booked for {self.day.title()}."


def played(env, agent, **reset):
    observed, info = env.reset(**reset)
    steps, over = [(observed, 0.0, False, False, info)], False
    while not over:
        observed, reward, terminated, truncated, info = env.step(agent(observed, info))
        steps.append((observed, reward, terminated, truncated, info))
        over = terminated or truncated
    return steps


def waiter(env, **reset):
    agent = Waiter()
    return played(env, lambda observed, info: agent.reply(observed), **reset)


def silence(observed, info):
    return ""


def plain(value):
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, dict):
        return tuple((name, plain(item)) for name, item in value.items())
    return type(value).__name__, repr(value)


# -- the worked example ----------------------------------------------------------------------------


def test_the_example_is_solved_by_listening():
    env = BookTable()
    tasks = set()
    for seed in range(60):
        *_, (_, reward, terminated, truncated, info) = waiter(env, seed=seed)
        assert (reward, terminated, truncated, info["success"]) == (1.0, True, False, True)
        tasks.add(json.dumps(env._episode.task))
    assert len(tasks) == len(DAYS) * len(GUESTS)


@pytest.mark.parametrize(
    "line",
    ["", "Hello!", "Your table is booked for Friday.", "On which day?",
     '<tool_call>{"name": "end_conversation", "arguments": {}}</tool_call>',
     '<tool_call>{"name": "book", "arguments": {"day": "friday", "guests": "2"}}</tool_call>'],
)  # fmt: skip
def test_nobody_succeeds_without_listening(line):
    assert not any(
        played(BookTable(), lambda o, i: line, seed=seed)[-1][4]["success"] for seed in range(40)
    )


def test_it_is_an_environment_like_any_other():
    if "Test/BookTable-v0" not in gym.registry:
        gym.register("Test/BookTable-v0", entry_point=BookTable)
    for observation in OBSERVATIONS:
        env = gym.make("Test/BookTable-v0", observation=observation)
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
            warnings.simplefilter("error")
            check_env(env.unwrapped)
    many = gym.make_vec("Test/BookTable-v0", num_envs=3)
    first = many.reset(seed=4)[0]
    assert list(first) == [BookTable().reset(seed=4 + k)[0] for k in range(3)]
    many.close()


def test_info_has_the_keys_of_every_other_id():
    other = gym.make("convgym:ConvGym/CustomerService-v0", disable_env_checker=True)
    _, theirs = other.reset(seed=1)
    for _, _, _, _, info in waiter(BookTable(), seed=1):
        assert [(k, type(v)) for k, v in info.items()] == [(k, type(v)) for k, v in theirs.items()]
        assert info["action_mask"].all()


def test_observations_tell_the_same_story():
    """One conversation in three forms: the newest alone, all of it, and in parts."""
    envs = {name: BookTable(observation=name) for name in OBSERVATIONS}
    agent, seen = Waiter(), {name: env.reset(seed=3)[0] for name, env in envs.items()}
    for _ in range(6):
        parts = seen["dict"]
        results = [parts["tool_results"]] if parts["tool_results"] else []
        said = [parts["message"]] if parts["message"] else []
        assert seen["message"] == "\n".join(results + said)
        prompt = envs["dict"].system_prompt
        assert prompt == f"{parts['policy']}\n\nTools:\n{parts['tools']}"
        assert seen["transcript"].startswith(prompt)
        assert seen["transcript"].endswith(parts["message"] or parts["tool_results"])
        line = agent.reply(seen["message"])
        seen = {name: env.step(line)[0] for name, env in envs.items()}
        if envs["dict"]._episode.end:
            break
    assert [who for who, _ in envs["dict"].said()][:2] == ["User", "Agent"]
    assert {tool["function"]["name"] for tool in json.loads(seen["dict"]["tools"])} == {
        "book", "end_conversation",
    }  # fmt: skip


# -- seeds -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("observation", OBSERVATIONS)
def test_the_same_seed_gives_the_same_bytes(observation):
    def run(env, seed):
        lines = ("On which day, and how many?", "Hm.", "", '{"name": "book", "arguments": {}}')
        seen = []
        for episode in range(4):
            steps = played(
                env,
                lambda o, i: lines[i["turn"] % 4],
                **({"seed": seed} if not episode else {}),
            )
            seen.append([tuple(map(plain, step)) for step in steps])
        return seen

    env = BookTable(observation=observation)
    first = run(env, 5)
    assert first == run(env, 5) == run(BookTable(observation=observation), 5) != run(env, 6)
    assert first[0] != first[1]
    env.reset(seed=9)
    env.step("Hm.")
    copies = [copy.deepcopy(env), pickle.loads(pickle.dumps(env))]
    ends = [[plain(v) for v in one.step("On which day?")] for one in (env, *copies)]
    assert ends[0] == ends[1] == ends[2]


def test_a_task_is_rebuilt_from_its_name():
    env = BookTable()
    _, info = env.reset(seed=3, options={"task_id": "test-17"})
    assert info["task_id"] == "test-17" and info["split"] == "test"
    tasks = []
    for number in range(40):
        env.reset(options={"task_id": f"train-{number}"})
        tasks.append(dict(env._episode.task))
        env.reset(seed=number, options={"task_id": f"train-{number}", "user_seed": 8})
        assert env._episode.task == tasks[-1]
    assert len({json.dumps(task) for task in tasks}) > 5
    with pytest.raises(InvalidConfiguration, match="test-99999"):
        env.reset(options={"task_id": "test-99999"})
    with pytest.raises(InvalidConfiguration, match="no topics"):
        BookTable(topic="food")


def test_a_refused_reset_leaves_the_later_episodes_as_they_were():
    env = BookTable()
    env.reset(seed=1)
    expected = plain(env.reset()[1])
    env.reset(seed=1)
    for wrong in ({"user_seed": -1}, {"colour": "red"}, {"split": "gold"}):
        with pytest.raises(InvalidConfiguration):
            env.reset(options=wrong)
    assert plain(env.reset()[1]) == expected


def test_a_step_outside_an_episode_asks_for_a_reset():
    env = BookTable()
    with pytest.raises(gym.error.ResetNeeded):
        env.step("hello")
    with pytest.raises(gym.error.ResetNeeded):
        _ = env.system_prompt
    played(env, silence, seed=1)
    with pytest.raises(gym.error.ResetNeeded):
        env.step("hello")


# -- chance ----------------------------------------------------------------------------------------


class Gambler(TaskEnvironment):
    """Draws in all three ways, and notes what came."""

    def draw_task(self, draws):
        return {"coin": draws.chance(0.5), "number": draws.below(6)}

    def open(self, episode):
        return "Go."

    def answer(self, episode, reply):
        drawn = (
            episode.chance(0.3), episode.pick("abcd"), episode.decide("thank"),
            episode.decide("thank"), episode.chance(1.0), episode.chance(0.0),
        )  # fmt: skip
        episode.notes.setdefault("drawn", []).append(drawn)
        return episode.word(("one", "two", "three"))

    def succeeded(self, episode):
        return False


def test_every_draw_is_logged_with_its_probability():
    env, model, drawn = Gambler(max_turns=20), DecisionModel(), []
    for seed in range(40):
        for _, _, _, _, info in played(env, silence, seed=seed)[1:]:
            chance, _, first, second, sure, never = env._episode.notes["drawn"][info["turn"] - 1]
            drawn.append((chance, first))
            exact = threshold(0.3) / 2**32
            total = math.log(exact if chance else 1 - exact) - math.log(4)
            choice = model.choice(NUMBER["thank"], env._episode.persona)
            total += sum(choice[1 if yes else 2] for yes in (first, second)) * LOG_UNIT
            assert info["user_log_prob"] == pytest.approx(total, abs=1e-5)
            assert sure and not never
    share = np.mean([chance for chance, _ in drawn])
    assert abs(share - 0.3) < 4 * math.sqrt(0.21 / len(drawn))
    assert len(NUMBER) < STRIDE, "a point drawn twice in a turn has two draws"


def test_words_come_from_the_wording_and_draws_from_the_user():
    def run(**seeds):
        env = Gambler(max_turns=6)
        said = [step[0] for step in played(env, silence, seed=1, options=seeds)]
        return said, env._episode.notes["drawn"]

    assert run(user_seed=1, wording_seed=1) == run(user_seed=1, wording_seed=1)
    assert all(
        run(user_seed=1, wording_seed=k)[1] == run(user_seed=1, wording_seed=1)[1] for k in range(9)
    )
    assert len({tuple(run(user_seed=1, wording_seed=k)[0]) for k in range(9)}) == 3
    assert len({str(run(user_seed=k, wording_seed=1)[1]) for k in range(9)}) > 5


def test_impossible_draws_are_refused():
    env = Gambler()
    env.reset(seed=1)
    for call in (
        lambda e: e.chance(1.5), lambda e: e.pick(()), lambda e: e.decide("sing"),
    ):  # fmt: skip
        with pytest.raises(InvalidConfiguration):
            call(env._episode)


def test_patience_is_a_hazard_above_a_grace():
    """Nobody leaves within three silences; the impatient leave sooner than the patient."""
    turns = {}
    for patience in (0.0, 1.0):
        ends = [
            played(BookTable(persona={"patience": patience}), silence, seed=seed)[-1][4]["turn"]
            for seed in range(100)
        ]
        assert min(ends) >= 4
        turns[patience] = np.mean(ends)
    assert turns[0.0] + 1 < turns[1.0]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.text("abcdefgh'.,?! XYZ019", max_size=9), max_size=12), st.integers(0, 99))
def test_only_common_words_are_misspelt(words, key):
    episode = TaskEpisode(
        "train-0", "train", None, user_key=1, wording_key=key, persona=(50,) * 11,
        style=Style(typo_rate=100), model=DecisionModel(),
    )  # fmt: skip
    text = " ".join(["would", *words, "please"])
    typed = as_typed(text, episode).split(" ")
    common = {word for name in ("function", "polite", "generic") for word in word_set(name)}
    for before, after in zip(text.split(" "), typed, strict=True):
        core = before.strip(".,!?;:").replace("'", "").lower()
        assert before == after or core in common


# -- calls, errors, ends ---------------------------------------------------------------------------


def test_calls_are_checked_and_charged():
    env = BookTable(observation="dict")
    env.reset(seed=1)
    wrong = [
        ('{"name": "fly", "arguments": {}}', "there is no tool 'fly'"),
        ('{"name": "book", "arguments": {"day": "friday"}}', "'guests' is missing"),
        ('{"name": "book", "arguments": {"day": "may", "guests": "2"}}', "one of friday"),
        ('<tool_call>{"name": </tool_call>', "could not be read"),
    ]
    for number, (call, sentence) in enumerate(wrong, 1):
        observed, *_, info = env.step(call)
        assert sentence in observed["tool_results"] and info["errors"] == number
        assert observed["message"] == "" and info["user_acts"] == "[]"
    both = 'Wait. {"name": "book", "arguments": {"day": "friday", "guests": "2"}}'
    observed, *_, info = env.step(both)
    assert "booked" in observed["tool_results"] and observed["message"] and info["errors"] == 4
    *_, terminated, truncated, info = env.step('{"name": "fly"}')
    assert terminated and not truncated and info["failure_reason"] == "error_budget_spent"


def test_hanging_up_comes_after_what_is_said_with_it():
    env = BookTable()
    env.reset(seed=1)
    observed, _, terminated, _, info = env.step(
        'On which day? {"name": "end_conversation", "arguments": {}}'
    )
    assert terminated and info["failure_reason"] == "agent_ended" and "On " in observed


@pytest.mark.parametrize(
    ("hook", "result", "sentence"),
    [
        ("open", None, "say a NoneType"), ("answer", 3, "say a int"), ("call", {}, "return what"),
        ("progress", 2.0, "progress returned 2.0"),
        ("answer", Answer("On Friday.", ("tell", "day")), "acts are pairs of texts"),
        ("open", Answer("Hi.", (("greet", 3),)), "acts are pairs of texts"),
    ],
)  # fmt: skip
def test_a_hook_that_gives_nonsense_is_named(hook, result, sentence):
    broken = type("Broken", (BookTable,), {hook: lambda self, *given: result})
    env = broken(reward="milestones")
    with pytest.raises(InvalidConfiguration, match=sentence):
        env.reset(seed=1)
        env.step('Hm. {"name": "book", "arguments": {"day": "friday", "guests": "2"}}')


def test_hooks_that_have_to_be_given_raise():
    for name, arguments in (
        ("draw_task", 1), ("open", 1), ("answer", 2), ("call", 3), ("succeeded", 1),
    ):  # fmt: skip
        with pytest.raises(NotImplementedError, match=rf"TaskHooks has no {name}\(\)"):
            getattr(TaskHooks(), name)(*[None] * arguments)
    with pytest.raises(InvalidAction, match="no numbered acts"):
        BookTable().in_words(3)
    with pytest.raises(InvalidAction, match="str"):
        env = BookTable()
        env.reset(seed=1)
        env.step(0)


# -- rewards ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("reward", REWARDS)
def test_rewards_by_hand(reward):
    env = BookTable(reward=reward, discount=0.5)
    steps = waiter(env, seed=2)[1:]
    rewards = [step[1] for step in steps]
    booked = next(n for n, step in enumerate(steps) if step[4]["tool_results"])
    expected = [0.0] * len(steps)
    if reward == "milestones":
        expected[booked] = 0.5 * 0.375  # γΦ' − Φ, Φ' = ¾ of one half
        expected[booked + 1] = 1.0 - 0.375
        assert booked + 1 == len(steps) - 1
    else:
        expected[-1] = 1.0
    assert rewards == pytest.approx(expected)
    lost = played(BookTable(reward=reward), silence, seed=2)
    assert sum(step[1] for step in lost) == 0.0


def test_a_violation_forfeits_everything():
    class Strict(BookTable):
        """Never says Friday."""

        def answer(self, episode, reply):
            if reply.says("friday"):
                episode.violations.append("said_friday")
            return super().answer(episode, reply)

    for reward in ("success", "graded"):
        env = Strict(reward=reward)
        results = [waiter(env, seed=seed)[-1] for seed in range(20)]
        for _, earned, _, _, info in results:
            assert (earned == 0.0) is (info["violations"] == "said_friday")
            assert info["failure_reason"] == ("violation" if info["violations"] else "")
        assert {info["violations"] for *_, info in results} == {"", "said_friday"}


def test_a_reward_object_of_ones_own_pays_it():
    @reward_function(bounds=(0, 20))
    def turns(conversation):
        return len(conversation)

    env = ConversationReward(BookTable(), turns)
    steps = waiter(env, seed=1)
    assert steps[-1][1] == pytest.approx(len(env.conversation) / 20)
    assert [m.role for m in env.conversation.messages][:3] == ["system", "user", "assistant"]


def test_it_is_rendered_with_its_ledger():
    env = BookTable(render_mode="ansi")
    waiter(env, seed=1)
    shown = env.render()
    assert "User:" in shown and "Agent:" in shown and "-- ledger" in shown
    env = BookTable(render_mode="ansi")
    env.reset(seed=1)
    env.step('{"name": "fly", "arguments": {}}')
    assert "error: there is no tool 'fly'" in env.render()
