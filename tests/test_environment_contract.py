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
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec, load_env_creator
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

from convgym import ENVIRONMENTS
from convgym.engine.engine import Engine
from convgym.engine.episode import Episode
from convgym.engine.keys import POLICY, below, draw
from convgym.engine.tasks import SPLITS
from convgym.envs.conversation_env import ACTION_MODES, OBSERVATIONS, REWARDS
from convgym.errors import InvalidAction, InvalidConfiguration
from convgym.policies.scripted import OraclePolicy, RandomPolicy
from convgym.users.agenda import AgendaUser
from convgym.users.persona import BUILT_IN, draw_persona

ROOT = Path(__file__).parents[1]
IDS = tuple(ENVIRONMENTS)
ORACLES = {"ConvGym/CustomerService-v0": OraclePolicy}
MODES = [(o, a) for o in OBSERVATIONS for a in ACTION_MODES]

every_id = pytest.mark.parametrize("environment_id", IDS)
every_mode = pytest.mark.parametrize(("observation", "action"), MODES)


def make(environment_id, **keywords):
    return gym.make(environment_id, disable_env_checker=True, **keywords)


def bare(environment_id, **keywords):
    """The class itself, called as gym.make calls it, with nothing around it."""
    return load_env_creator(ENVIRONMENTS[environment_id])(**keywords)


def choose(env, info, key, step):
    """A random legal act or one of the space's utterances, from the key alone."""
    drawn = draw(key, POLICY, step, 0)
    if isinstance(env.action_space, gym.spaces.Discrete):
        legal = np.flatnonzero(info["action_mask"])
        return int(legal[below(drawn, len(legal))])
    utterances = env.action_space.utterances
    return utterances[below(drawn, len(utterances))]


def plain(value):
    """A value with its type, comparable and hashable."""
    if isinstance(value, np.ndarray):
        return "array", value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, dict):
        return tuple((name, plain(item)) for name, item in value.items())
    return type(value).__name__, repr(value)


def episode_of(env, key, touch=None, **reset):
    """Everything that comes back in one episode."""
    observation, info = env.reset(**reset)
    seen, step, ended = [plain(observation), plain(info)], 0, False
    while not ended:
        action = choose(env, info, key, step)
        if touch:
            touch(observation, info)
        observation, reward, terminated, truncated, info = env.step(action)
        seen += [plain(v) for v in (observation, reward, terminated, truncated, info)]
        step, ended = step + 1, terminated or truncated
    return seen


def run_of(env, seed=11, episodes=6, touch=None):
    """The first episodes after one seed."""
    resets = [{"seed": seed}] + [{}] * (episodes - 1)
    return [episode_of(env, key, touch, **reset) for key, reset in enumerate(resets)]


def player(environment_id, noise):
    """An agent that gets somewhere, where there is one."""
    oracle = ORACLES.get(environment_id)
    return oracle(noise) if oracle else RandomPolicy()


def rollout(env, policy, seed, **options):
    """(observation, reward, terminated, truncated, info) of each step, reset included."""
    observation, info = env.reset(seed=seed, options=options)
    policy.reset(seed)
    steps = [(observation, 0.0, False, False, info)]
    while not (steps[-1][2] or steps[-1][3]):
        action, _ = policy.predict(steps[-1][0], action_masks=steps[-1][4]["action_mask"])
        steps.append(env.step(action))
    return steps


# -- the checkers of others ------------------------------------------------------------------------


@every_id
@every_mode
def test_gymnasium_has_nothing_to_warn_about(environment_id, observation, action):
    env = gym.make(environment_id, observation=observation, action=action)
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
        warnings.simplefilter("error")
        check_env(env.unwrapped)


@every_id
def test_stable_baselines_has_nothing_to_warn_about(environment_id):
    checker = pytest.importorskip("stable_baselines3.common.env_checker")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        checker.check_env(make(environment_id, observation="features", action="act"))


@every_id
@every_mode
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
        f"env = gym.make('convgym:{environment_id}');"
        "o, i = env.reset(seed=7); assert o in env.observation_space; print(i['task_id'])"
    )
    printed = in_a_new_process("-c", code).split()
    _, info = make(environment_id).reset(seed=7)
    assert printed == [info["task_id"]]


# -- the same seed ---------------------------------------------------------------------------------


@every_id
@every_mode
def test_the_same_seed_gives_the_same_bytes(environment_id, observation, action):
    env = make(environment_id, observation=observation, action=action)
    first = run_of(env)
    assert first[0] != first[1], "later episodes are new ones"
    assert run_of(env) == first, "the same object, after other episodes"
    for other_observation, other_action in MODES:
        run_of(make(environment_id, observation=other_observation, action=other_action), seed=5)
    assert run_of(make(environment_id, observation=observation, action=action)) == first
    assert run_of(env, seed=12) != first


@every_id
@every_mode
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
        in_a_new_process("tests/test_golden.py", "--print", "--episodes=3", PYTHONHASHSEED=seed)
        for seed in ("0", "1")
    ]
    assert printed[0] == printed[1]
    assert len(json.loads(printed[0])) == len(IDS)


def pickled(env):
    return pickle.loads(pickle.dumps(env))


@every_id
@every_mode
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


@every_id
@every_mode
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


@every_id
@every_mode
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


@every_id
@every_mode
def test_the_mask_is_handed_out_in_two_equal_ways(environment_id, observation, action):
    env = make(environment_id, observation=observation, action=action)
    _, info = env.reset(seed=2)
    for step in range(6):
        mask = env.unwrapped.action_masks()
        assert np.array_equal(mask, info["action_mask"])
        assert action == "act" or mask.all(), "text mode has no mask"
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


ODD = [
    "", " ", "\0", "\ud800", "a" * 20_000, "{", "}" * 3000, "[" * 4000, "<tool_call>",
    "</tool_call><think>", "<|im_end|>", '{"name": null}', '{"name": "x", "arguments": 3}',
    '{"tool_calls": [1, null, {"function": []}]}', '{"name": "get_order", "arguments": {}}',
    '<tool_call>{"name": "get_order", "arguments": {"order": "order:99999999999999"}}</tool_call>',
    '<tool_call>{"name": "find_customer", "arguments": "{\\"email\\": \\"\\\\ud800\\"}"}',
    '<tool_call>{"name": "x", "arguments": "' + "[" * 3000 + '"}</tool_call>',
    '<tool_call>{"name": "x", "arguments": {"a": ' + "[" * 1500 + "]" * 1500 + "}}</tool_call>",
    '{"name": "' + "\\u4e2d" * 400 + '", "arguments": {}}', '{"name": ' + "1" * 4000 + "}",
]  # fmt: skip
PIECES = st.one_of(
    st.sampled_from(ODD),
    st.text(max_size=30),
    st.text('{}[]<>/":,\\ nametool_call', max_size=60),
    st.sampled_from(["Your order W12345 is shipped.", "order:1", "<think>", '{"name": "']),
)


@every_id
@pytest.mark.parametrize("observation", OBSERVATIONS)
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


@every_id
@every_mode
def test_a_step_outside_an_episode_asks_for_a_reset(environment_id, observation, action):
    env = bare(environment_id, observation=observation, action=action)
    taken = 0 if action == "act" else "hello"
    with pytest.raises(ResetNeeded):
        env.step(taken)
    episode_of(env, 0, seed=1)
    for _ in range(2):
        with pytest.raises(ResetNeeded):
            env.step(taken)
    env.reset()
    env.step(taken)


# -- keywords and options that work ----------------------------------------------------------------


@every_id
@pytest.mark.parametrize("cap", [2, 7, 30])
def test_max_turns_truncates(environment_id, cap):
    env = make(environment_id, max_turns=cap)
    env.reset(seed=1)
    lengths = []
    for seed in range(20):
        env.reset(seed=seed)
        for step in range(1, cap + 1):
            _, _, terminated, truncated, info = env.step("<think>hm</think>hello")
            assert truncated == (step == cap and not terminated)
            if terminated or truncated:
                lengths.append(step)
                assert info["failure_reason"]
                break
    assert max(lengths) == cap or cap == 30


@every_id
@pytest.mark.parametrize("split", SPLITS)
def test_tasks_come_from_the_split(environment_id, split):
    env = make(environment_id, split=split, observation="features")
    tasks = [env.reset(seed=seed)[1]["task_id"] for seed in range(50)]
    assert all(task.startswith(f"{split}-") for task in tasks)
    assert len(set(tasks)) > 40


@every_id
def test_one_task_with_many_users(environment_id):
    """What pass^k varies: the user alone."""
    env = make(environment_id, observation="dict", action="act", privileged=True)
    runs, policies, goals, personas = set(), set(), set(), set()
    for user_seed in range(30):
        options = {"task_id": "test-3", "user_seed": user_seed, "wording_seed": 5}
        steps = rollout(env, player(environment_id, 0.3), 1, **options)
        infos = [step[4] for step in steps]
        assert {info["task_id"] for info in infos} == {"test-3"}
        runs.add(tuple(info["user_acts"] for info in infos))
        policies.add(steps[0][0]["policy"])
        hidden = json.loads(infos[0]["privileged"])
        goals.add((hidden["workflow"], hidden["order"]))
        personas.add(tuple(hidden["persona"]))
        again = rollout(env, player(environment_id, 0.3), 1, **options)
        assert [plain(step[4]) for step in again] == [plain(info) for info in infos]
    assert len(policies) == len(goals) == 1
    assert len(runs) > 6
    assert len(personas) > 6


@every_id
def test_one_user_in_other_words(environment_id):
    env = make(environment_id, observation="dict", action="act")
    differ = 0
    for user_seed in range(10):
        runs = []
        for wording_seed in (1, 2):
            options = {"task_id": "test-3", "user_seed": user_seed, "wording_seed": wording_seed}
            runs.append(rollout(env, player(environment_id, 0.3), 1, **options))
        spoken = [[step[0]["message"] for step in run] for run in runs]
        ignoring_words = [
            [[plain(v) for v in (*step[1:], step[0]["features"], step[0]["view"])] for step in run]
            for run in runs
        ]
        assert ignoring_words[0] == ignoring_words[1]
        differ += spoken[0] != spoken[1]
    assert differ == 10


@every_id
def test_all_three_fixed_make_a_group_of_equals(environment_id):
    """What GRPO fixes within a group; the reset's own seed no longer matters."""
    options = {"task_id": "train-5", "user_seed": 1, "wording_seed": 2}
    env = make(environment_id, observation="transcript")
    first = [episode_of(env, 0, seed=seed, options=options) for seed in (1, 2, None)]
    assert first[0] == first[1] == first[2]


@every_id
def test_the_keyword_task_id_and_the_option_name_the_same_task(environment_id):
    _, by_keyword = make(environment_id, task_id="validation-8").reset(seed=3)
    _, by_option = make(environment_id).reset(seed=3, options={"task_id": "validation-8"})
    assert plain(by_keyword) == plain(by_option)
    assert by_option["split"] == "validation"


@every_id
@pytest.mark.parametrize("persona", BUILT_IN)
def test_a_persona_is_the_one_named(environment_id, persona):
    env = make(environment_id, persona=persona, privileged=True)
    _, info = env.reset(seed=1)
    traits = BUILT_IN[persona]
    expected = [getattr(traits, name) for name in traits.__slots__]
    assert json.loads(info["privileged"])["persona"] == expected


@every_id
def test_held_out_phrases_change_the_words_alone(environment_id):
    runs = []
    for phrases in ("train", "held_out"):
        env = make(environment_id, observation="dict", action="act", phrases=phrases)
        players = (player(environment_id, 0.3) for _ in range(5))
        runs.append([step for s, p in enumerate(players) for step in rollout(env, p, s)])
    said = [{step[0]["message"] for step in run} - {""} for run in runs]
    assert [plain(step[4]) for step in runs[0]] == [plain(step[4]) for step in runs[1]]
    assert not said[0] & said[1]


# -- snapshots -------------------------------------------------------------------------------------


def state_of(episode):
    """Everything an episode holds, the private records opened."""
    values = {name: getattr(episode, name) for name in Episode.__slots__}
    for record in ("user", "desk"):
        opened = values[record]
        values[record] = {name: repr(getattr(opened, name)) for name in opened.__slots__}
    return repr(values)


@every_id
def test_a_snapshot_is_independent_and_can_be_put_back(environment_id):
    domain = bare(environment_id).make_domain()
    engine = Engine(domain, AgendaUser(domain.vocabulary), 30)

    def advance(episode, key, steps):
        for step in range(steps):
            if episode.end:
                return
            mask = domain.actions.mask(np.frombuffer(bytes(episode.belief), np.uint8))
            legal = np.flatnonzero(mask)
            number = int(legal[below(draw(key, POLICY, step, 1), len(legal))])
            engine.apply(episode, domain.turn(episode, number))

    for key in range(30):
        episode = Episode(domain.task("test", key), key, key, domain.layout.row())
        domain.open(episode, draw_persona(key))
        engine.open(episode)
        advance(episode, key, 6)
        saved = episode.snapshot()
        begun = state_of(saved)
        assert state_of(episode) == begun
        advance(episode, key + 1, 8)
        ended = state_of(episode)
        assert state_of(saved) == begun, "going on must not change the snapshot"
        for _ in range(2):
            episode.restore(saved)
            assert state_of(episode) == begun
            advance(episode, key + 1, 8)
            assert state_of(episode) == ended
        assert state_of(saved) == begun


# -- rendering -------------------------------------------------------------------------------------


@every_id
@pytest.mark.parametrize(("observation", "action"), MODES)
def test_ansi_shows_the_whole_conversation(environment_id, observation, action):
    env = bare(environment_id, observation=observation, action=action, render_mode="ansi")
    words = bare(environment_id, observation="dict", action=action)
    assert env.render() is None
    _, info = env.reset(seed=9)
    said = [words.reset(seed=9)[0]["message"]]
    for step in range(8):
        taken = choose(env, info, 9, step)
        _, _, terminated, truncated, info = env.step(taken)
        said.append(words.step(taken)[0]["message"])
        if terminated or truncated:
            break
    text = env.render()
    assert isinstance(text, str)
    assert "-- ledger" in text
    assert text.count(" Agent: ") == step + 1
    missing = [message for message in said if message and message not in text]
    assert not missing


@every_id
@every_mode
def test_human_prints_and_returns_nothing(environment_id, observation, action):
    env = bare(environment_id, observation=observation, action=action, render_mode="human")
    printed = io.StringIO()
    with redirect_stdout(printed):
        _, info = env.reset(seed=9)
        env.step(choose(env, info, 9, 0))
        assert env.render() is None
    assert "Customer: " in printed.getvalue()
    assert "Agent: " in printed.getvalue()


# -- rewards ---------------------------------------------------------------------------------------

every_noise = pytest.mark.parametrize("noise", [0.0, 0.3])


def rewarded(environment_id, noise, reward, seeds=range(40), **keywords):
    modes = {"observation": "features", "action": "act", "split": "test"}
    env = make(environment_id, reward=reward, **modes, **keywords)
    return [rollout(env, player(environment_id, noise), seed)[1:] for seed in seeds]


@every_id
@every_noise
def test_success_is_paid_once_at_the_end(environment_id, noise):
    for steps in rewarded(environment_id, noise, "success"):
        *before, last = steps
        assert all(step[1] == 0.0 and not step[4]["success"] for step in before)
        assert last[1] == float(last[4]["success"])
        assert (last[4]["failure_reason"] == "") == last[4]["success"]


@every_id
@every_noise
def test_graded_is_paid_once_and_is_one_only_for_success(environment_id, noise):
    earned = set()
    for steps in rewarded(environment_id, noise, "graded", seeds=range(80)):
        *before, last = steps
        assert all(step[1] == 0.0 for step in before)
        assert 0.0 <= last[1] <= 1.0
        assert (last[1] == pytest.approx(1.0)) == last[4]["success"]
        assert last[1] == 0.0 or not last[4]["violations"]
        earned.add(round(last[1], 6))
    assert noise == 0.0 or len(earned) > 2


@every_id
def test_a_conversation_cut_off_is_never_graded_one(environment_id):
    for cap in range(4, 12):
        for steps in rewarded(environment_id, 0.0, "graded", range(25), max_turns=cap):
            _, reward, _, truncated, info = steps[-1]
            assert not (truncated and reward >= 1.0), f"cap {cap}, {info['task_id']}"


@every_id
@every_noise
@pytest.mark.parametrize("cap", [8, 30])
@pytest.mark.parametrize("discount", [1.0, 0.9])
def test_milestones_are_success_plus_a_potential(environment_id, noise, cap, discount):
    """Σ γᵗ F(s, s') = γᵀ Φ(last) − Φ(first), with Φ(first) = 0 and Φ(terminated) = 0."""
    keywords = {"max_turns": cap, "discount": discount}
    truncations = 0
    for steps in rewarded(environment_id, noise, "milestones", **keywords):
        terms = [json.loads(step[4]["reward_terms"]) for step in steps]
        for step, term in zip(steps, terms, strict=True):
            assert step[1] == pytest.approx(term["success"] + term["milestones"])
        truncated, info = steps[-1][3], steps[-1][4]
        shaping = sum(discount**t * term["milestones"] for t, term in enumerate(terms))
        last = discount ** len(steps) * info["milestones"] if truncated else 0.0
        assert shaping == pytest.approx(last, abs=1e-9)
        assert sum(term["success"] for term in terms) == float(info["success"])
        truncations += truncated
    assert truncations > 0 or cap == 30


@every_id
def test_the_kind_of_reward_changes_nothing_else(environment_id):
    runs = [rewarded(environment_id, 0.3, reward, range(10)) for reward in REWARDS]

    def without_reward(run):
        for observation, _, *flags, info in (step for steps in run for step in steps):
            kept = {k: v for k, v in info.items() if k not in ("reward_terms", "milestones")}
            yield plain(observation), flags, plain(kept)

    first, *others = (list(without_reward(run)) for run in runs)
    assert all(other == first for other in others)
