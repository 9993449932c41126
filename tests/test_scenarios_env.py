"""`ConvGym/Scenarios-v0`: which scenario is played, with which seeds, and the contract of an id."""

import copy
import inspect
import io
import json
import os
import pickle
import subprocess
import sys
import warnings
from contextlib import redirect_stdout
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st
from scenario_agents import BIKE, insider, talk

import convgym  # noqa: F401  registers
from convgym.envs.scenario_records import scenarios_of
from convgym.envs.scenarios import ScenariosEnv
from convgym.envs.task_environment import OBSERVATIONS, REWARDS
from convgym.errors import InvalidAction, InvalidConfiguration
from convgym.users.decisions import LOG_UNIT, NUMBER, DecisionModel
from convgym.users.persona import BUILT_IN

ID = "ConvGym/Scenarios-v0"
PACKAGED = tuple(record.id for record in scenarios_of())


def plain(value):
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, dict):
        return tuple((name, plain(item)) for name, item in value.items())
    return type(value).__name__, repr(value)


def trace(env, episodes=4, **reset):
    """Everything that comes back in some episodes of an agent that knows a little."""
    seen = []
    for episode in range(episodes):
        observed, info = env.reset(**(reset if not episode else {}))
        seen += [plain(observed), plain(info)]
        over = False
        while not over:
            said = env.action_space.utterances
            answer = env.step(said[(episode + info["turn"]) % len(said)])
            seen.append(tuple(map(plain, answer)))
            over, info = answer[2] or answer[3], answer[4]
    return seen


# -- which scenario, which seed --------------------------------------------------------------------


def ids_of(env, episodes, **reset):
    return [env.reset(**(reset if not k else {}))[1]["task_id"] for k in range(episodes)]


def test_in_order_or_drawn():
    env = ScenariosEnv(randomize_scenarios=False)
    assert ids_of(env, 13, seed=1) == [*PACKAGED, *PACKAGED[: 13 - len(PACKAGED)]]
    assert ids_of(env, 2, seed=9) == list(PACKAGED[:2]), "a seeded reset begins anew"
    drawn = ids_of(ScenariosEnv(), 200, seed=1)
    assert set(drawn) == set(PACKAGED) and drawn != sorted(drawn)
    assert drawn == ids_of(ScenariosEnv(), 200, seed=1) != ids_of(ScenariosEnv(), 200, seed=2)


def test_a_scenario_by_name():
    env = ScenariosEnv()
    for option in ("scenario_id", "task_id"):
        assert env.reset(seed=1, options={option: "checkup"})[1]["task_id"] == "checkup"
    assert env.reset(options={"task_id": "test-2"})[1]["task_id"] == PACKAGED[2]
    assert env.reset(options={"task_id": "test-13"})[1]["task_id"] == PACKAGED[13 % len(PACKAGED)]
    assert {ScenariosEnv(task_id="checkup").reset()[1]["task_id"] for _ in range(5)} == {"checkup"}
    for wrong in ({"scenario_id": "nothing"}, {"task_id": 3}, {"task_id": "test-99999"},
                  {"scenario_id": "checkup", "task_id": "checkup"}, {"scenario": "checkup"},
                  {"topic": "taxes"}, {"user_seed": -1}, {"split": "gold"}):  # fmt: skip
        with pytest.raises(InvalidConfiguration):
            env.reset(options=wrong)


def test_topic_split_and_difficulty_choose_among_them():
    own = [
        {"id": f"{topic}-{k}", "topic": topic, "user_responses": ["What is it?"],
         "metadata": {"difficulty": k / 9, **({"split": "test"} if k > 7 else {})}}
        for topic in ("a", "b") for k in range(10)
    ]  # fmt: skip
    env = ScenariosEnv(own)
    assert all(not name.endswith(("8", "9")) for name in ids_of(env, 50, seed=1))
    assert {name[0] for name in ids_of(ScenariosEnv(own, topic="b"), 30, seed=1)} == {"b"}
    tested = ids_of(ScenariosEnv(own, split="test"), 60, seed=1)
    assert {"a-8", "b-9"} <= set(tested)
    hard, easy = (
        np.mean([int(n[-1]) for n in ids_of(ScenariosEnv(own, difficulty=d), 200, seed=1)])
        for d in (1.0, 0.0)
    )
    assert hard > easy + 0.5
    patience = [
        json.loads(ScenariosEnv(own, difficulty=d, privileged=True).reset(seed=3)[1]["privileged"])
        for d in (0.0, 1.0)
    ]
    assert patience[0]["persona"]["patience"] > patience[1]["persona"]["patience"]
    ScenariosEnv([own[0]], split="validation")
    with pytest.raises(InvalidConfiguration, match="no scenario is of split 'validation'"):
        ScenariosEnv([own[9]], split="validation")


def test_the_persona_comes_from_the_nearest_who_names_one():
    own = [{**BIKE, "metadata": {"persona": "patient_expert"}}]

    def persona(options=None, **keywords):
        env = ScenariosEnv(own, privileged=True, **keywords)
        return json.loads(env.reset(seed=1, options=options)[1]["privileged"])["persona"]

    levels = {name: dict(zip(persona(), who.levels, strict=True)) for name, who in BUILT_IN.items()}
    assert persona() == levels["patient_expert"]
    assert persona(persona="busy_professional") == levels["busy_professional"]
    assert persona({"persona": "curious_learner"}, persona="busy_professional") == (
        levels["curious_learner"]
    )
    drawn = json.loads(ScenariosEnv([BIKE], privileged=True).reset(seed=1)[1]["privileged"])
    assert drawn["persona"] not in levels.values()


def test_the_wording_decides_nothing():
    """Other wording seeds change words and no act; other user seeds change acts."""
    env = ScenariosEnv(task_id="phone-plan", persona={"cooperativeness": 0.5, "patience": 0.5})

    def run(**seeds):
        lines = ["Hello!", "How much data?", "Tell me more.", "Do you like it?", "Goodbye.", ""]
        messages, infos = talk(
            env, lambda m, i: lines[i["turn"] % len(lines)], seed=1, options=seeds
        )
        return messages, [(i["user_acts"], i["user_log_prob"]) for i in infos]

    first = run(user_seed=3, wording_seed=1)
    others = [run(user_seed=3, wording_seed=k) for k in range(2, 8)]
    assert all(other[1] == first[1] for other in others)
    assert any(other[0] != first[0] for other in others)
    assert len({str(run(user_seed=k, wording_seed=1)[1]) for k in range(12)}) > 3
    assert run(user_seed=3, wording_seed=1) == first


def test_log_probabilities_are_those_of_the_decisions():
    """From the privileged decisions, without the leaving, which depends on the bother as well."""
    env = ScenariosEnv(privileged=True)
    model, seen = DecisionModel(), 0
    for seed in range(30):
        _, infos = talk(env, lambda m, i: ("Hello!", "", "What else?")[i["turn"] % 3], seed=seed)
        for info in infos:
            hidden = json.loads(info["privileged"])
            levels = tuple(hidden["persona"].values())
            if any(name == "leave" for name, _ in hidden["decisions"]):
                assert info["user_log_prob"] < 0
                continue
            total = sum(
                model.choice(NUMBER[name], levels)[1 if yes else 2]
                for name, yes in hidden["decisions"]
            )
            assert info["user_log_prob"] == pytest.approx(total * LOG_UNIT, abs=1e-12)
            seen += bool(hidden["decisions"])
    assert seen > 20


# -- the contract ----------------------------------------------------------------------------------


@pytest.mark.parametrize("observation", OBSERVATIONS)
def test_gymnasium_has_nothing_to_warn_about(observation):
    env = gym.make(ID, observation=observation)
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
        warnings.simplefilter("error")
        check_env(env.unwrapped)


@pytest.mark.parametrize("observation", OBSERVATIONS)
def test_the_same_seed_gives_the_same_bytes_and_copies_go_on_equally(observation):
    env = gym.make(ID, disable_env_checker=True, observation=observation)
    first = trace(env, seed=5)
    assert trace(env, seed=5) == first != trace(env, seed=6)
    env.reset(seed=8)
    env.step("What is your order number?")
    for copied in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        again = copy.deepcopy(copied)
        steps = [[plain(v) for v in e.step("When was that?")] for e in (copied, again)]
        assert steps[0] == steps[1] and trace(copied) == trace(again)


def test_two_processes_agree_whatever_their_hash_seed():
    code = (
        "import gymnasium as gym; env = gym.make('convgym:ConvGym/Scenarios-v0')\n"
        "said = env.action_space.utterances\n"
        "for seed in range(12):\n"
        "    print(env.reset(seed=seed)); over = False; turn = seed\n"
        "    while not over:\n"
        "        step = env.step(said[turn % len(said)]); print(step); turn += 1\n"
        "        over = step[2] or step[3]\n"
    )
    printed = [
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=Path(__file__).parents[1],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert printed[0] == printed[1] and len(printed[0]) > 10_000


def test_a_spec_survives_json_with_a_list_and_with_a_path(tmp_path):
    path = tmp_path / "mine.jsonl"
    path.write_text(json.dumps(BIKE), encoding="utf-8")
    for scenarios in ([BIKE], str(path), None):
        env = gym.make(ID, disable_env_checker=True, scenarios=scenarios, max_turns=9)
        again = gym.make(EnvSpec.from_json(env.spec.to_json()))
        assert again.spec == env.spec and trace(again, seed=2) == trace(env, seed=2)


def test_many_at_once_are_what_they_are_alone():
    together = gym.make_vec(ID, num_envs=3, scenarios=[BIKE])
    alone = [gym.make(ID, disable_env_checker=True, scenarios=[BIKE]) for _ in range(3)]
    first = together.reset(seed=4)[0]
    assert list(first) == [env.reset(seed=4 + k)[0] for k, env in enumerate(alone)]
    actions = ("When was it?", "", "Hello!")
    answered = together.step(actions)
    assert list(answered[0]) == [e.step(a)[0] for e, a in zip(alone, actions, strict=True)]
    together.close()


@pytest.mark.parametrize("reward", REWARDS)
def test_info_keeps_its_shape_and_rewards_add_up(reward):
    env = gym.make(ID, disable_env_checker=True, reward=reward)
    shapes = set()
    for number, scenario in enumerate(PACKAGED * 2):
        agent = (lambda m, i: "") if number % 2 else None
        info = insider(env, scenario, number) if agent is None else talk(env, agent, seed=number)[1]
        last = info if isinstance(info, dict) else info[-1]
        assert last["success"] is (agent is None)
        assert 0.0 <= last["milestones"] <= 0.75
        shapes.add(tuple((k, type(v)) for k, v in last.items()))
        terms = json.loads(last["reward_terms"])
        assert terms["success"] == float(last["success"])
        if reward == "graded":
            assert terms["graded"] == pytest.approx(last["milestones"] + 0.25 * last["success"])
            assert not last["success"] or terms["graded"] == 1.0
    assert len(shapes) == 1


HEADINGS = (
    "Description", "Action Space", "Observation Space", "Starting State", "Rewards", "Episode End",
    "Information", "Arguments", "Vectorized environment", "Version History",
)  # fmt: skip


def test_the_docstring_tells_the_truth():
    page = inspect.getdoc(ScenariosEnv)
    assert tuple(x[3:] for x in page.splitlines() if x.startswith("## ")) == HEADINGS
    _, info = ScenariosEnv(privileged=True).reset(seed=1)
    assert all(f"`{key}`" in page for key in info)
    for name, keyword in list(inspect.signature(ScenariosEnv.__init__).parameters.items())[1:]:
        default = keyword.default
        shown = f'`"{default}"`' if isinstance(default, str) else str(default)
        assert f"| `{name}` | {shown} |" in page


@pytest.mark.parametrize(
    ("keyword", "value"),
    [
        ("scenarios", 3), ("randomize_scenarios", "yes"), ("show_context", 1), ("action", "act"),
        ("observation", "features"), ("split", "gold"), ("task_id", "nothing"), ("topic", "taxes"),
        ("persona", "nobody"), ("phrases", "mine"), ("user", "nowhere.json"), ("user", 5),
        ("reward", "gold"), ("discount", 0.0), ("max_turns", 1), ("privileged", "yes"),
        ("render_mode", "rgb_array"), ("difficulty", 2), ("response_diversity", -1),
    ],
)  # fmt: skip
def test_a_bad_keyword_is_refused_by_name(keyword, value):
    with pytest.raises(InvalidConfiguration, match=str(value)):
        ScenariosEnv(**{keyword: value})


def test_the_context_is_shown_only_where_wanted():
    for shown in (False, True):
        env = ScenariosEnv([BIKE], show_context=shown, observation="dict")
        observed, _ = env.reset(seed=1)
        assert (BIKE["context"] in env.system_prompt) is shown
        assert (BIKE["context"] in observed["view"]) is shown
        assert env.system_prompt.endswith(observed["tools"])


def test_a_scenario_may_be_shorter_than_the_environment():
    env = ScenariosEnv([{**BIKE, "metadata": {"max_turns": 2}}], max_turns=30)
    env.reset(seed=1)
    env.step("Where was it?")
    _, reward, terminated, truncated, info = env.step("When was it?")
    assert (reward, terminated, truncated) == (0.0, False, True)
    assert info["failure_reason"] == "turn_cap"


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.text(max_size=80), min_size=1, max_size=8), st.integers(0, 50))
def test_no_text_makes_it_raise(texts, seed):
    env = ScenariosEnv()
    env.reset(seed=seed)
    for text in texts:
        observed, _, terminated, truncated, info = env.step(text)
        assert observed in env.observation_space and not info["success"]
        if terminated or truncated:
            break


def test_what_is_no_text_is_refused():
    env = ScenariosEnv()
    env.reset(seed=1)
    with pytest.raises(InvalidAction, match="str"):
        env.step(3)
