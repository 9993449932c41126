"""Two-sided conversations under test, made and played: shared by the tests of multi_agent."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pettingzoo
import pytest

from convgym.engine.acts import UserTurn
from convgym.engine.keys import POLICY, below, draw
from convgym.multi_agent import AGENT as AGENT
from convgym.multi_agent import SIDES
from convgym.multi_agent import USER as USER

OWN = "ConvGym/OwnDomain-v0"
IDS = tuple(environment_id for environment_id in SIDES if environment_id != OWN)
MODES = (
    {"observation": "message", "action": "text", "user_action": "text"},
    {"observation": "features", "action": "act", "user_action": "act"},
    {
        "observation": "dict", "action": "act", "user_action": "act",
        "user_observation": "features", "user_reward": "realistic",
    },
    {
        "observation": "transcript", "action": "act", "user_action": "text",
        "user_observation": "message", "user_reward": "adversarial",
    },
    {"observation": "dict", "action": "text", "user_action": "act", "reward": "milestones"},
    {"observation": "embedding", "action": "act", "user_action": "text"},
)  # fmt: skip
every_id = pytest.mark.parametrize("environment_id", IDS)
every_mode = pytest.mark.parametrize(
    "mode", MODES, ids=lambda m: f"{m['action']}-{m['user_action']}-{m['observation']}"
)


def aec(environment_id, **keywords):
    return pettingzoo.make("aec", environment_id, **keywords)


def parallel(environment_id, **keywords):
    return pettingzoo.make("parallel", environment_id, **keywords)


def script(name):
    """A file of scripts/ as a module."""
    path = Path(__file__).parents[1] / "scripts" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"script_{name}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def anything(space, key, step):
    """A member of an action space, legal or not, from the key alone."""
    drawn = [draw(key, POLICY, step, index) for index in range(64)]
    if hasattr(space, "utterances"):
        return space.utterances[below(drawn[0], len(space.utterances))]
    if hasattr(space, "nvec"):
        return np.array([below(d, int(n)) for d, n in zip(drawn, space.nvec, strict=False)])
    return below(drawn[0], int(space.n))


def act(env, *names):
    """A user's action that does these acts and calls, by name."""
    action = np.zeros(env.codec.width, dtype=np.int64)
    action[: len(names)] = [env.user_names.index(name) for name in names]
    return action


def number(env, name):
    """The agent's act called `name`."""
    return env.conversation.domain.actions[name]


def sayable(env):
    """Names of what this user's knowledge lets it state, of its present request."""
    names = {number: name for name, number in env.conversation.domain.vocabulary.items()}
    ladders = env.conversation.episode.user.knowledge.ladders
    return {names[act] for ladder in ladders for act in ladder}


def stated(env, name):
    """The value that the user's act of this name states in the running episode."""
    domain = env.conversation.domain
    turn = UserTurn((domain.vocabulary[name],), 0.0, False)
    return domain.spoken(env.conversation.episode, turn)[0].value


def task_where(environment_id, holds, **keywords):
    """The first test task of a single request of which this holds, as reset options."""
    env = aec(environment_id, **keywords)
    for index in range(2000):
        options = {"task_id": f"test-{index}"}
        env.reset(options=options)
        if len(env.conversation.episode.user.requests) == 1 and holds(env):
            return options
    raise AssertionError("no such task")


def wants(env, wish, effect=""):
    """Whether the user came for this; and whether it is to be allowed, refused, transferred."""
    request = env.conversation.episode.user.knowledge.request
    if request != env.conversation.domain.vocabulary[f"request_{wish}"]:
        return False
    return not effect or env.conversation.episode.task.requests[0].decision.effect == effect


def talk(env, *actions, **reset):
    """Reset, then these actions in order, whoever has the floor."""
    env.reset(**{"seed": 3, **reset})
    for action in actions:
        env.step(action)
    return env


def to_the_end(env, choose, **reset):
    """Play one episode; `choose(side, last)` acts. The `last()` of every step, with its side."""
    env.reset(**reset)
    seen = []
    for side in env.agent_iter():
        last = env.last()
        seen.append((side, *last))
        env.step(None if last[2] or last[3] else choose(side, last))
    return seen


def at_random(env, key):
    """`choose` of `to_the_end` for anything on either side."""
    steps = iter(range(10**6))
    return lambda side, last: anything(env.action_space(side), key, next(steps))
