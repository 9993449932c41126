"""The two-sided environments as PettingZoo environments: its own tests, spaces, order, render."""

import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pettingzoo
import pytest
from pettingzoo.test import (
    api_test,
    max_cycles_test,
    parallel_api_test,
    parallel_seed_test,
    render_test,
    seed_test,
)
from two_sided import (
    AGENT,
    IDS,
    OWN,
    USER,
    aec,
    anything,
    at_random,
    every_id,
    every_mode,
    parallel,
    script,
    to_the_end,
)

from convgym import ENVIRONMENTS, multi_agent
from convgym.engine.acts import FIRST_TOOL
from convgym.errors import InvalidAction, InvalidConfiguration, UnknownRenderMode

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:pettingzoo")


# Registration


def test_every_id_stands_in_both_registries_and_is_a_gymnasium_id():
    assert IDS and set(IDS) <= set(ENVIRONMENTS)
    for environment_id in IDS:
        for registry in (pettingzoo.aec_registry, pettingzoo.parallel_registry):
            assert isinstance(registry[environment_id].entry_point, str)


def test_registering_again_overrides_nothing():
    before = dict(pettingzoo.aec_registry)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        multi_agent.register_envs()
    assert pettingzoo.aec_registry == before


@every_id
def test_the_registry_makes_what_the_functions_make(environment_id):
    assert type(aec(environment_id)) is type(multi_agent.env(environment_id))
    assert type(parallel(environment_id)) is type(multi_agent.parallel_env(environment_id))
    assert isinstance(aec(environment_id), pettingzoo.AECEnv)
    assert isinstance(parallel(environment_id), pettingzoo.ParallelEnv)


def test_an_unknown_id_is_one_sentence():
    with pytest.raises(InvalidConfiguration, match="no two-sided environment is called"):
        multi_agent.env("ConvGym/Nothing-v0")


def test_the_import_loads_nothing_heavy():
    code = "import convgym.multi_agent, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"torch", "transformers", "minari", "h5py", "sklearn"} & set(done.stdout.split())


# PettingZoo's own tests


@every_id
@every_mode
def test_api(environment_id, mode):
    api_test(aec(environment_id, **mode), num_cycles=150)


@every_id
@every_mode
def test_parallel_api(environment_id, mode):
    parallel_api_test(parallel(environment_id, **mode), num_cycles=150)


@every_id
@every_mode
def test_seeds(environment_id, mode):
    seed_test(lambda: aec(environment_id, **mode), num_cycles=60)
    parallel_seed_test(lambda: parallel(environment_id, **mode), num_cycles=60)


@every_id
@every_mode
def test_render(environment_id, mode, capsys):
    render_test(lambda **keywords: aec(environment_id, **mode, **keywords))
    assert "Customer" in capsys.readouterr().out


@every_id
def test_the_parallel_form_renders_as_well(environment_id, capsys):
    env = parallel(environment_id, render_mode="ansi")
    assert parallel(environment_id).render() is None
    env.reset(seed=1)
    env.step({USER: "Hello there."})
    assert "Hello there." in env.render() and "the user's tools" in env.render()
    env = parallel(environment_id, render_mode="human")
    env.reset(seed=1)
    env.step({USER: "Hello there."})
    env.step({AGENT: ""})
    assert env.render() is None
    assert capsys.readouterr().out.count("Hello there.") == 1


ENDINGS = {"bye", "give_up", "no_more"}


def talks(env, side):
    """Whether an action of this side speaks, and can end nothing."""
    domain = env.conversation.domain

    def fine(action):
        if isinstance(action, str):
            return "<tool_call>" not in action
        if side == AGENT:
            known = int(action) < len(domain.actions)  # and not the parallel form's `wait`
            row = domain.actions.actions[int(action)] if known else None
            return row is not None and row.kind < FIRST_TOOL and not row.needs
        names = [env.user_names[number] for number in action]
        acts = [number for number in action if 0 < number <= env.codec.acts]
        return bool(acts) and not ENDINGS & set(names)

    return fine


def talking(env):
    """`env` with its action spaces seeded so that the next samples are talk."""
    inner = getattr(env, "aec", env)
    for side in env.possible_agents:
        space, fine = env.action_space(side), talks(inner, side)
        for seed in range(10**6):
            space.seed(seed)
            if all(fine(space.sample()) for _ in range(4)):
                space.seed(seed)
                break
    return env


@every_id
@every_mode
def test_max_cycles(environment_id, mode):
    """In random talk that nobody ends, both sides make exactly so many steps."""
    few = {**mode, "acts_per_turn": 2}
    max_cycles_test(
        SimpleNamespace(
            env=lambda **keywords: talking(aec(environment_id, **few, **keywords)),
            parallel_env=lambda **keywords: talking(parallel(environment_id, **few, **keywords)),
        )
    )


@pytest.mark.parametrize("environment_id", [x for x in IDS if x != OWN])
def test_max_cycles_as_pettingzoo_samples(environment_id):
    """Samples of text are talk: they call no tool and hang up on nobody."""
    for _ in range(5):
        max_cycles_test(
            SimpleNamespace(
                env=lambda **keywords: multi_agent.env(environment_id, **keywords),
                parallel_env=lambda **keywords: multi_agent.parallel_env(
                    environment_id, **keywords
                ),
            )
        )


# Spaces and what comes back


@every_id
@every_mode
def test_everything_that_is_seen_lies_in_its_space_and_keeps_its_keys(environment_id, mode):
    env = aec(environment_id, **mode)
    assert env.possible_agents == [AGENT, USER]
    keys = {}
    for episode in range(6):
        for side, observation, reward, terminated, truncated, info in to_the_end(
            env, at_random(env, episode), seed=episode
        ):
            assert observation in env.observation_space(side)
            assert "observation" not in observation
            assert type(terminated) is bool and type(truncated) is bool
            assert isinstance(reward, float | int) and np.isfinite(reward)
            assert keys.setdefault(side, set(info)) == set(info)
        assert env.agents == []
        assert env.state().shape == env.state_space.shape
        assert env.state() in env.state_space


@every_id
def test_masks_lie_in_the_observation_in_act_mode_alone(environment_id):
    for action in ("act", "text"):
        env = aec(environment_id, action=action, user_action=action)
        env.reset(seed=1)
        for side in env.possible_agents:
            assert ("action_mask" in env.observe(side)) == (action == "act")


@every_id
def test_every_feature_and_every_number_of_the_user_has_a_name(environment_id):
    env = aec(environment_id, user_action="act", user_observation="features")
    space = env.observation_space(USER)["features"]
    assert len(env.user_layout) == space.shape[0]
    assert len(set(env.user_layout)) == len(env.user_layout)
    assert set(env.action_space(USER).nvec) == {len(env.user_names)}


@every_id
def test_the_user_speaks_first_and_both_sides_end_together(environment_id):
    env = aec(environment_id)
    seen = to_the_end(env, at_random(env, 5), seed=5)
    assert seen[0][0] == USER
    ended = [(side, last[2], last[3]) for side, *last in seen[-2:]]
    assert {side for side, _, _ in ended} == {AGENT, USER}
    assert len({flags for _, *flags in map(tuple, ended) for flags in [tuple(flags)]}) == 1
    assert not any(last[2] or last[3] for _, *last in seen[:-2])


@every_id
def test_other_seeds_give_other_conversations(environment_id):
    env = aec(environment_id)
    tasks = set()
    for seed in range(8):
        env.reset(seed=seed)
        tasks.add(env.infos[USER]["task_id"])
    assert len(tasks) > 1


# A domain of one's own

FOLDER = str(Path(__file__).parent / "data" / "library_domain")
OWN_DOMAIN = {"folder": FOLDER, "observation": "features", "action": "act", "user_action": "act"}


def test_a_domain_of_ones_own_has_two_sides():
    api_test(aec(OWN, **OWN_DOMAIN), num_cycles=100)
    parallel_api_test(parallel(OWN, **OWN_DOMAIN), num_cycles=100)
    seed_test(lambda: aec(OWN, **OWN_DOMAIN), num_cycles=40)
    parallel_seed_test(lambda: parallel(OWN, **OWN_DOMAIN), num_cycles=40)
    render_test(lambda **keywords: aec(OWN, **OWN_DOMAIN, **keywords))
    assert not script("two_sided_trace").compare(OWN, 40, 3, **OWN_DOMAIN)


def test_its_user_is_told_what_it_knows_and_has_a_mailbox():
    env = aec(OWN, **OWN_DOMAIN)
    env.reset(seed=1)
    assert "You came for: " in env.role and env.role.count("\n- ") >= 2
    assert "search_mailbox()" in env.user_names
    with pytest.raises(InvalidConfiguration, match="cannot be read"):
        aec(OWN, folder=FOLDER)


# What is refused


@pytest.mark.parametrize(
    "keywords",
    [
        {"user_action": "speech"},
        {"user_observation": "everything"},
        {"user_reward": "mine"},
        {"acts_per_turn": 0},
        {"acts_per_turn": True},
        {"max_cycles": 0},
        {"max_cycles": "many"},
        {"observation": "nothing"},
    ],
    ids=str,
)
def test_a_bad_keyword_is_refused(keywords):
    for make in (aec, parallel):
        with pytest.raises(InvalidConfiguration):
            make(IDS[0], **keywords)


def test_an_environment_of_another_kind_has_no_two_sides():
    with pytest.raises(InvalidConfiguration, match="is no ConversationEnv"):
        multi_agent.TwoSidedEnv("convgym.envs.scenarios:ScenariosEnv")


def test_a_bad_render_mode_is_refused():
    with pytest.raises(UnknownRenderMode, match="render_mode"):
        aec(IDS[0], render_mode="rgb_array")


def test_options_are_the_gymnasium_environments_and_unknown_ones_are_refused():
    env = aec(IDS[0])
    env.reset(options={"task_id": "test-7"})
    assert env.infos[USER]["task_id"] == "test-7"
    with pytest.raises(InvalidConfiguration, match="tasks_id"):
        env.reset(options={"tasks_id": "test-7"})


@every_id
@pytest.mark.parametrize("action", [None, 3, "hello", [1, 2], np.full(8, 10**6), np.zeros(8) - 1])
def test_an_action_outside_the_users_space_is_refused_and_changes_nothing(environment_id, action):
    env = aec(environment_id, user_action="act")
    env.reset(seed=2)
    before = env.observe(USER)
    with pytest.raises(InvalidAction):
        env.step(action)
    after = env.observe(USER)
    assert env.agent_selection == USER and str(before) == str(after)


@every_id
def test_an_action_outside_the_agents_space_is_refused_and_changes_nothing(environment_id):
    env = aec(environment_id, action="act", user_action="act")
    env.reset(seed=2)
    env.step(env.own_action())
    turn = env.infos[AGENT]["turn"]
    with pytest.raises(InvalidAction):
        env.step(10**6)
    assert env.agent_selection == AGENT and env.infos[AGENT]["turn"] == turn


def test_text_that_is_no_text_is_refused():
    env = aec(IDS[0])
    env.reset(seed=2)
    with pytest.raises(InvalidAction, match="must be a str"):
        env.step(7)


def test_a_step_without_an_episode_is_refused():
    for make in (aec, parallel):
        with pytest.raises(gym.error.ResetNeeded):
            make(IDS[0]).step({})


# The parallel form


@every_id
@every_mode
def test_the_parallel_form_is_the_same_conversation(environment_id, mode):
    """Who has the floor acts the same; what the other one sends meanwhile is not heard."""
    turns, steps = aec(environment_id, **mode), parallel(environment_id, **mode)
    for episode in range(2):
        turns.reset(seed=episode)
        steps.reset(seed=episode)
        step = 0
        while not any((*turns.terminations.values(), *turns.truncations.values())):
            side = turns.agent_selection
            assert steps.floor == side
            action = anything(turns.action_space(side), episode, step)
            other = {s: anything(steps.action_space(s), episode, step + 1) for s in turns.agents}
            turns.step(action)
            seen, rewards, terminated, truncated, infos = steps.step({**other, side: action})
            assert rewards == turns.rewards
            assert (terminated, truncated) == (turns.terminations, turns.truncations)
            for one in (AGENT, USER):
                assert seen[one] in steps.observation_space(one)
                rest = {k: v for k, v in turns.observe(one).items() if k != "action_mask"}
                assert str(rest) == str({k: seen[one][k] for k in rest})
                assert {k: str(v) for k, v in infos[one].items() if k != "action_mask"} == {
                    k: str(v) for k, v in turns.infos[one].items() if k != "action_mask"
                }
            step += 2
        assert steps.agents == []


@every_id
def test_who_has_not_the_floor_can_only_wait(environment_id):
    env = parallel(environment_id, action="act", user_action="act")
    seen, infos = env.reset(seed=4)
    assert seen[USER]["floor"] == 1 and seen[AGENT]["floor"] == 0
    assert np.flatnonzero(seen[AGENT]["action_mask"]).tolist() == [env.wait]
    seen, *_, infos = env.step({AGENT: env.wait, USER: env.aec.own_action()})
    assert all(np.flatnonzero(mask).tolist() == [0] for mask in seen[USER]["action_mask"])
    assert seen[AGENT]["action_mask"][env.wait] == 0
    assert infos[AGENT]["action_mask"].shape == (env.wait + 1,)


@every_id
@pytest.mark.parametrize("action", ["act", "text"])
def test_who_waits_with_the_floor_is_heard_as_silence(environment_id, action):
    env = parallel(environment_id, action=action, user_action=action)
    env.reset(seed=4)
    wait = {AGENT: env.wait if action == "act" else "", USER: None}
    env.step(wait)
    assert env.floor == AGENT and env.aec.infos[AGENT]["user_acts"] == "[]"
    seen, *_ = env.step(wait)
    assert env.floor == USER and seen[USER]["message"] == ""


@every_id
def test_max_cycles_counts_steps_and_leaves_max_turns_alone(environment_id):
    env = parallel(environment_id, max_cycles=3, action="act", user_action="act")
    env.reset(seed=4)
    for _ in range(3):
        _, rewards, terminated, truncated, infos = env.step({})
    assert all(truncated.values()) and not any(terminated.values()) and env.agents == []
    assert infos[AGENT]["failure_reason"] == "cycle_cap" and not any(rewards.values())
