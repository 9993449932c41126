"""What every registered environment promises; a new id is tested by being registered."""

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

import gymnasium as gym
import numpy as np
import pytest
from driven import (
    MODES_OF,
    NEEDED,
    ROOT,
    bare,
    choose,
    episode_of,
    every_id,
    every_registered_mode,
    make,
    plain,
    run_of,
)
from gymnasium.envs.registration import EnvSpec
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from hostile import ODD
from hypothesis import given, settings
from hypothesis import strategies as st

from convgym.envs.conversation_env import REWARDS
from convgym.errors import InvalidAction, InvalidConfiguration

# -- the checkers of others ------------------------------------------------------------------------


@every_registered_mode
def test_gymnasium_has_nothing_to_warn_about(environment_id, observation, action):
    env = make(environment_id, observation=observation, action=action)
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
        warnings.simplefilter("error")
        check_env(env.unwrapped)


@every_id
def test_stable_baselines_has_nothing_to_warn_about(environment_id):
    checker = pytest.importorskip("stable_baselines3.common.env_checker")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        checker.check_env(make(environment_id, observation="features", action="act"))


@every_registered_mode
def test_a_spec_survives_json(environment_id, observation, action):
    env = make(environment_id, observation=observation, action=action, max_turns=9)
    again = gym.make(EnvSpec.from_json(env.spec.to_json()))
    assert again.spec == env.spec
    assert run_of(again, episodes=1) == run_of(env, episodes=1)


def in_a_new_process(*arguments, **variables):
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@every_id
def test_make_works_without_the_import(environment_id):
    code = (
        "import sys, gymnasium as gym; assert 'convgym' not in sys.modules;"
        f"env = gym.make('convgym:{environment_id}', **{NEEDED.get(environment_id, {})});"
        "o, i = env.reset(seed=7); assert o in env.observation_space; print(i['task_id'])"
    )
    printed = in_a_new_process("-c", code).split()
    _, info = make(environment_id).reset(seed=7)
    assert printed == [info["task_id"]]


# -- the same seed ---------------------------------------------------------------------------------


@every_registered_mode
def test_the_same_seed_gives_the_same_bytes(environment_id, observation, action):
    env = make(environment_id, observation=observation, action=action)
    first = run_of(env)
    assert first[0] != first[1], "later episodes are new ones"
    assert run_of(env) == first, "the same object, after other episodes"
    for other_observation, other_action in MODES_OF[environment_id]:
        other = make(environment_id, observation=other_observation, action=other_action)
        run_of(other, seed=5, episodes=1)
    assert run_of(make(environment_id, observation=observation, action=action)) == first
    assert run_of(env, seed=12) != first


@every_registered_mode
def test_two_environments_side_by_side_do_not_disturb_each_other(
    environment_id, observation, action
):
    def alone(seed):
        env = make(environment_id, observation=observation, action=action)
        return list(step_by_step(env, seed))

    def step_by_step(env, seed):
        for episode in range(2):
            observed, info = env.reset(**({"seed": seed} if episode == 0 else {}))
            yield plain(observed), plain(info)
            step, ended = 0, False
            while not ended:
                answer = env.step(choose(env, info, seed, step))
                ended, info, step = answer[2] or answer[3], answer[4], step + 1
                yield tuple(map(plain, answer))

    pair = [make(environment_id, observation=observation, action=action) for _ in range(2)]
    running = [step_by_step(env, seed) for env, seed in zip(pair, (1, 2), strict=True)]
    seen, turn = [[], []], 0
    while any(running):
        side, turn = turn % 2, turn + 1
        if running[side]:
            step = next(running[side], None)
            seen[side].append(step) if step else running.__setitem__(side, None)
    assert seen == [alone(1), alone(2)]


def test_two_processes_agree_whatever_their_hash_seed():
    printed = [
        in_a_new_process("tests/test_golden.py", "--print", "--episodes=2", PYTHONHASHSEED=seed)
        for seed in ("0", "1")
    ]
    assert printed[0] == printed[1]
    assert set(json.loads(printed[0])) == set(MODES_OF)


def pickled(env):
    return pickle.loads(pickle.dumps(env))


@every_registered_mode
@pytest.mark.parametrize("copied", [copy.deepcopy, pickled], ids=["deepcopy", "pickle"])
def test_a_copy_in_mid_episode_goes_on_equally(environment_id, observation, action, copied):
    env = make(environment_id, observation=observation, action=action)
    for seed in range(100):
        _, info = env.reset(seed=seed)
        answers = (env.step(choose(env, info, seed, step)) for step in range(4))
        if not any(terminated or truncated for _, _, terminated, truncated, info in answers):
            break
    other = copied(env)

    def rest(env, info):
        seen, step, ended = [], 4, False
        while not ended:
            answer = env.step(choose(env, info, seed, step))
            seen.append(tuple(map(plain, answer)))
            ended, info, step = answer[2] or answer[3], answer[4], step + 1
        return seen, run_of(env, seed=None, episodes=2)

    assert rest(other, info) == rest(env, info)


# -- what comes back -------------------------------------------------------------------------------


@every_registered_mode
@pytest.mark.parametrize("reward", REWARDS)
def test_info_has_one_flat_shape(environment_id, observation, action, reward):
    env = make(environment_id, observation=observation, action=action, reward=reward)
    shapes = set()
    for seed in range(4):
        observed, info = env.reset(seed=seed)
        step, ended = 0, False
        while True:
            assert observed in env.observation_space
            for value in info.values():
                assert type(value) in (str, int, float, bool, np.ndarray)
                assert not isinstance(value, np.ndarray) or value.size < 1000
            assert type(info["success"]) is bool
            shapes.add(
                tuple(
                    (k, type(v), *((v.shape, v.dtype) if isinstance(v, np.ndarray) else ()))
                    for k, v in info.items()
                )
            )
            if ended:
                break
            taken = choose(env, info, seed, step)
            observed, earned, terminated, truncated, info = env.step(taken)
            assert (type(earned), type(terminated), type(truncated)) == (float, bool, bool)
            assert not (terminated and truncated)
            assert info["success"] is False or terminated
            step, ended = step + 1, terminated or truncated
            assert info["turn"] == step
            json.loads(info["user_acts"]), json.loads(info["reward_terms"])
    assert len(shapes) == 1
    names = {"success", "task_id", "split", "turn", "action_mask", "user_log_prob", "reward_terms"}
    assert names <= {key for key, *_ in shapes.pop()}


@every_registered_mode
def test_what_is_handed_out_may_be_overwritten(environment_id, observation, action):
    def spoil(observed, info):
        seen = list(observed.values()) if isinstance(observed, dict) else [observed]
        for array in [*info.values(), *seen]:
            if isinstance(array, np.ndarray):
                array[...] = 77
        info.clear()
        if isinstance(observed, dict):
            observed.clear()

    env = make(environment_id, observation=observation, action=action)
    assert run_of(env, touch=spoil) == run_of(env)


@every_registered_mode
def test_the_mask_is_handed_out_in_two_equal_ways(environment_id, observation, action):
    env = make(environment_id, observation=observation, action=action)
    _, info = env.reset(seed=2)
    for step in range(6):
        mask = env.unwrapped.action_masks()
        assert np.array_equal(mask, info["action_mask"])
        assert action != "text" or mask.all(), "text mode has no mask"
        _, _, terminated, truncated, info = env.step(choose(env, info, 2, step))
        if terminated or truncated:
            break


@every_id
def test_privileged_stands_in_info_only_where_asked_for(environment_id):
    _, info = make(environment_id).reset(seed=1)
    assert "privileged" not in info
    _, info = make(environment_id, privileged=True).reset(seed=1)
    assert json.loads(info["privileged"])


@every_id
def test_the_system_prompt_holds_policy_and_tools(environment_id):
    env = make(environment_id, observation="dict")
    observed, _ = env.reset(seed=1)
    prompt = env.unwrapped.system_prompt
    assert prompt.startswith(observed["policy"])
    assert prompt.endswith(observed["tools"])
    assert all(tool["function"]["name"] in prompt for tool in json.loads(observed["tools"]))
    transcript, _ = make(environment_id, observation="transcript").reset(seed=1)
    assert transcript.startswith(prompt)
    prompts = set()
    for seed in range(20):
        env.reset(seed=seed)
        prompts.add(env.unwrapped.system_prompt)
    assert len(prompts) > 10, "the policy varies from episode to episode"


HEADINGS = (
    "Description", "Action Space", "Observation Space", "Starting State", "Rewards", "Episode End",
    "Information", "Arguments", "Vectorized environment", "Version History",
)  # fmt: skip


@every_id
def test_the_docstring_tells_the_truth(environment_id):
    """Headings, sizes, keys of info, and every keyword with its default."""
    env = make(environment_id, observation="features", action="act").unwrapped
    page = inspect.getdoc(type(env))
    headings = [line[3:] for line in page.splitlines() if line.startswith("## ")]
    assert tuple(headings) == HEADINGS
    if environment_id in NEEDED:  # what it needs decides the sizes; the rest is told elsewhere
        assert all(f"| `{name}` | needed |" in page for name in NEEDED[environment_id])
        assert page.count("As in `CustomerServiceEnv`") == 6
        return
    assert f"Discrete({env.action_space.n})" in page
    assert f"Box(0, 255, ({env.observation_space.shape[0]},), float32)" in page
    _, info = env.reset(seed=1)
    assert all(f"`{key}`" in page for key in info)
    keywords = inspect.signature(type(env).__init__).parameters
    for name, keyword in list(keywords.items())[1:]:
        default = keyword.default
        shown = f'`"{default}"`' if isinstance(default, str) else str(default)
        assert f"| `{name}` | {shown} |" in page


# -- what goes in ----------------------------------------------------------------------------------

BAD_KEYWORDS = [
    ("observation", "pixels"),
    ("observation", 3),
    ("action", "speech"),
    ("reward", "gold"),
    ("reward", {}),
    ("split", "holdout"),
    ("split", 3),
    ("persona", "nobody"),
    ("persona", 3),
    ("phrases", "mine"),
    ("user", "nowhere/fit.json"),
    ("task_id", "test"),
    ("task_id", "test-99999"),
    ("task_id", "gold-1"),
    ("task_id", 17),
    ("discount", 0.0),
    ("discount", -0.5),
    ("discount", 1.5),
    ("discount", float("nan")),
    ("max_turns", 1),
    ("max_turns", 201),
    ("max_turns", 2.5),
    ("max_turns", "9"),
    ("max_turns", True),
    ("render_mode", "rgb_array"),
    ("discount", "high"),
    ("split", ["train"]),
    ("persona", ["patient_expert"]),
    ("user", 5),
    ("privileged", "yes"),
]


@every_id
@pytest.mark.parametrize(("keyword", "value"), BAD_KEYWORDS, ids=str)
def test_a_bad_keyword_is_refused_by_name(environment_id, keyword, value):
    with pytest.raises(InvalidConfiguration) as refused:
        bare(environment_id, **{keyword: value})
    sentence = str(refused.value)
    assert str(value) in sentence
    assert " " in sentence.strip()


@every_id
def test_a_task_number_of_any_length_is_refused(environment_id):
    with pytest.raises(InvalidConfiguration):
        bare(environment_id, task_id="test-" + "9" * 5000)


BAD_OPTIONS = [
    {"task": "test-1"},
    {"task_id": "test-x"},
    {"task_id": 3},
    {"user_seed": -1},
    {"user_seed": 1.5},
    {"user_seed": True},
    {"wording_seed": "seven"},
    {3: 4, "task": "test-1"},
]


@every_id
@pytest.mark.parametrize("options", BAD_OPTIONS, ids=str)
def test_a_bad_option_is_refused_by_name(environment_id, options):
    with pytest.raises(InvalidConfiguration) as refused:
        make(environment_id).reset(seed=1, options=options)
    name, value = list(options.items())[-1]
    assert str(name) in str(refused.value) or str(value) in str(refused.value)


@every_id
def test_a_refused_reset_leaves_the_later_episodes_as_they_were(environment_id):
    env = make(environment_id)
    env.reset(seed=1)
    expected = plain(env.reset()[1])
    env.reset(seed=1)
    with pytest.raises(InvalidConfiguration):
        env.reset(options={"user_seed": -1})
    assert plain(env.reset()[1]) == expected


@every_id
@pytest.mark.parametrize("action", [-1, 10_000, 1.5, "3", None, [1], np.array([1])], ids=str)
def test_a_bad_act_is_refused_and_changes_nothing(environment_id, action):
    env = make(environment_id, observation="features", action="act")
    env.reset(seed=1)
    before = plain(env.step(0))
    env.reset(seed=1)
    with pytest.raises(InvalidAction, match="whole number"):
        env.step(action)
    assert plain(env.step(0)) == before


@every_id
def test_a_numpy_integer_is_an_act_too(environment_id):
    env = make(environment_id, observation="features", action="act")
    answers = []
    for action in (1, np.int64(1), np.uint8(1)):
        env.reset(seed=1)
        answers.append([plain(value) for value in env.step(action)])
    assert answers[0] == answers[1] == answers[2]


PIECES = st.one_of(
    st.sampled_from(ODD),
    st.text(max_size=30),
    st.text('{}[]<>/":,\\ nametool_call', max_size=60),
    st.sampled_from(["Your order W12345 is shipped.", "order:1", "<think>", '{"name": "']),
)


@pytest.mark.parametrize(
    ("environment_id", "observation"),
    [(one, o) for one, modes in MODES_OF.items() for o in dict.fromkeys(o for o, _ in modes)],
)
def test_no_text_makes_it_raise(environment_id, observation):
    env = make(environment_id, observation=observation)

    @settings(max_examples=40, deadline=None, derandomize=True)
    @given(st.lists(st.lists(PIECES, max_size=4).map("".join), min_size=1, max_size=8))
    def talk(texts):
        env.reset(seed=4)
        for text in texts:
            observed, _, terminated, truncated, _ = env.step(text)
            assert observed in env.observation_space
            if terminated or truncated:
                return

    talk()
    for text in ODD:
        env.reset(seed=4)
        assert env.step(text)[0] in env.observation_space


@every_id
@pytest.mark.parametrize("action", [None, 3, b"hello", ["hello"]], ids=str)
def test_what_is_no_text_is_refused_in_text_mode(environment_id, action):
    env = make(environment_id)
    env.reset(seed=1)
    with pytest.raises(InvalidAction, match="str"):
        env.step(action)


@every_registered_mode
def test_a_step_outside_an_episode_asks_for_a_reset(environment_id, observation, action):
    env = bare(environment_id, observation=observation, action=action)
    taken = {"act": 0, "embedding": np.ones(256), "text": "hello"}[action]
    with pytest.raises(ResetNeeded):
        env.step(taken)
    episode_of(env, 0, seed=1)
    for _ in range(2):
        with pytest.raises(ResetNeeded):
            env.step(taken)
    env.reset()
    env.step(taken)
