"""Environments under test, made and driven: shared by the tests of every registered id."""

import json
from functools import cache
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import load_env_creator
from recorded_user import RECORDED

from convgym import ENVIRONMENTS
from convgym.domains.catalogue import domain_called
from convgym.engine.keys import POLICY, below, draw
from convgym.envs.conversation_env import ACTION_MODES, OBSERVATIONS, ConversationEnv
from convgym.policies.roster import ladder

ROOT = Path(__file__).parents[1]
LIBRARY = str(ROOT / "tests" / "data" / "library_domain")
NEEDED = {
    "ConvGym/OwnDomain-v0": {"folder": LIBRARY},
    "ConvGym/Recorded-v0": {"user": RECORDED},
}
"""Keywords without which an id makes nothing."""
IDS = tuple(
    one for one, path in ENVIRONMENTS.items() if issubclass(load_env_creator(path), ConversationEnv)
)
"""Ids of conversations at a desk; those of other kinds have tests of their own."""
MODES = [(o, a) for o in OBSERVATIONS for a in ACTION_MODES]
IN_TEXT = [(observation, "text") for observation in OBSERVATIONS if observation != "features"]
MODES_OF = {one: MODES if one in IDS else IN_TEXT for one in ENVIRONMENTS}

every_registered = pytest.mark.parametrize("environment_id", ENVIRONMENTS)
every_registered_mode = pytest.mark.parametrize(
    ("environment_id", "observation", "action"),
    [(one, *mode) for one, modes in MODES_OF.items() for mode in modes],
)
"""What is asked of every id, whatever stands behind it."""
every_id = pytest.mark.parametrize("environment_id", IDS)
every_mode = pytest.mark.parametrize(("observation", "action"), MODES)


def make(environment_id, **keywords):
    needed = NEEDED.get(environment_id, {})
    return gym.make(environment_id, disable_env_checker=True, **needed, **keywords)


def bare(environment_id, **keywords):
    """The class itself, called as gym.make calls it, with nothing around it."""
    needed = NEEDED.get(environment_id, {})
    return load_env_creator(ENVIRONMENTS[environment_id])(**needed, **keywords)


@cache
def domain_of(environment_id):
    """The name under which an id's domain and its scripted agents are found."""
    folder = NEEDED.get(environment_id, {}).get("folder")
    return folder or bare(environment_id).make_domain().domain


def desk_of(environment_id):
    """What an id's environments share: tasks, acts and words."""
    return domain_called(domain_of(environment_id))


def splits_of(environment_id):
    return desk_of(environment_id).splits


def choose(env, info, key, step):
    """A random legal act, its candidate's vector or an utterance, from the key alone."""
    drawn = draw(key, POLICY, step, 0)
    if isinstance(env.action_space, gym.spaces.Box):
        legal = np.flatnonzero(info["action_mask"])
        return env.unwrapped.candidate_vectors[legal[below(drawn, len(legal))]]
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


ORACLES = {one: ladder(domain_of(one))["oracle"] for one in IDS}
"""Makers of the best scripted agent, which takes `noise`."""
every_split = pytest.mark.parametrize(
    ("environment_id", "split"), [(one, split) for one in IDS for split in splits_of(one)]
)
every_topic = pytest.mark.parametrize(
    ("environment_id", "topic"), [(one, topic) for one in IDS for topic in desk_of(one).topics]
)


def player(environment_id, noise):
    """An agent that gets somewhere."""
    return ORACLES[environment_id](noise)


def topic_of(environment_id, info):
    """What the customer of an episode asks for first."""
    desk, (split, _, number) = desk_of(environment_id), info["task_id"].rpartition("-")
    return desk.topics[desk.table(split).topic[int(number)]]


def rollout(env, policy, seed, **options):
    """(observation, reward, terminated, truncated, info) of each step, reset included."""
    observation, info = env.reset(seed=seed, options=options)
    policy.reset(seed)
    steps = [(observation, 0.0, False, False, info)]
    while not (steps[-1][2] or steps[-1][3]):
        action, _ = policy.predict(steps[-1][0], action_masks=steps[-1][4]["action_mask"])
        steps.append(env.step(action))
    return steps


def talked(env, replies, seed=3):
    """(messages, infos) of a reset and as many replies as the episode lasts."""
    observation, info = env.reset(seed=seed)
    said, infos, over = [observation], [info], False
    for reply in replies:
        if not over:
            observation, _, terminated, truncated, info = env.step(reply)
            over = terminated or truncated
            said.append(observation)
            infos.append(info)
    return said, infos


def hidden(info):
    return json.loads(info["privileged"])
