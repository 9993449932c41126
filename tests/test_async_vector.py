"""Text in `AsyncVectorEnv`: gymnasium's own space loses it in shared memory, ours does not."""

import copy
import pickle

import gymnasium as gym
import numpy as np
import pytest
from driven import NEEDED
from gymnasium.spaces import Dict, Text
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from gymnasium.vector.utils import batch_space

import convgym  # noqa: F401  registers the environments
from convgym.envs.registration import ENVIRONMENTS
from convgym.envs.shared_text import LiveTexts, SharedText
from convgym.spaces import CHARSET

WIDE = "€€€€€"


class Counter(gym.Env):
    """Says how often it has been stepped, in the space that it is given."""

    action_space = gym.spaces.Discrete(2)

    def __init__(self, space):
        self.observation_space = space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.said = "" if seed is None else f"from {seed}"
        return self.said, {}

    def step(self, action):
        self.said = WIDE if action else f"{self.said}."[-20:]
        return self.said, 0.0, False, False, {}


def counters(space, **keywords):
    return AsyncVectorEnv([lambda: Counter(space)] * 2, **keywords)


def heard(envs):
    """What the two say at reset and in two steps."""
    try:
        texts = [envs.reset(seed=1)[0]]
        texts += [envs.step(np.array(actions))[0] for actions in ([0, 1], [0, 0])]
        return [tuple(row) for row in texts]
    finally:
        envs.close()


def test_plain_text_is_lost_in_shared_memory_and_ours_is_not():
    said = [("from 1", "from 2"), ("from 1.", WIDE), ("from 1..", WIDE + ".")]
    plain = Text(20, min_length=0, charset=CHARSET)
    lost = heard(counters(plain))
    assert len({text for row in lost for text in row}) == 1  # one text, all the time
    assert all(text in plain for row in lost for text in row)  # which no check can notice
    assert heard(counters(plain, shared_memory=False)) == said
    assert heard(counters(SharedText(20))) == said


def test_without_copies_the_observation_is_a_live_view():
    envs = counters(SharedText(20), copy=False)
    try:
        texts, _ = envs.reset(seed=1)
        assert isinstance(texts, LiveTexts) and list(texts) == ["from 1", "from 2"]
        envs.step(np.array([0, 1]))
        assert (texts[0], texts[-1], texts[:1], len(texts)) == ("from 1.", WIDE, ("from 1.",), 2)
    finally:
        envs.close()


@pytest.mark.parametrize(
    ("observation", "by_hand"), [("message", False), ("transcript", True), ("dict", False)]
)
def test_a_conversation_is_the_same_in_processes(observation, by_hand):
    settings = {"observation": observation, "action": "act", "max_turns": 12}
    name = "ConvGym/CustomerService-v0"

    def make():
        return gym.make(name, **settings)

    def made(mode, kind):
        if by_hand:
            return kind([make] * 3)
        return gym.make_vec(name, num_envs=3, vectorization_mode=mode, **settings)

    actions = np.random.default_rng(0)
    together, apart = made("sync", SyncVectorEnv), made("async", AsyncVectorEnv)
    try:
        results = [envs.reset(seed=5) for envs in (together, apart)]
        assert same(*results)
        for _ in range(30):
            masks = results[0][-1]["action_mask"]
            chosen = np.array([actions.choice(np.flatnonzero(mask)) for mask in masks])
            results = [envs.step(chosen) for envs in (together, apart)]
            assert same(*results)
            assert results[1][0] in apart.observation_space
    finally:
        apart.close()


def same(first, second):
    """Observations, rewards, flags and infos, down to the type of a batch of texts."""
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(same(first[k], second[k]) for k in first)
    if isinstance(first, np.ndarray):
        return first.dtype == second.dtype and np.array_equal(first, second)
    if isinstance(first, tuple):
        return len(first) == len(second) and all(map(same, first, second))
    return type(first) is type(second) and first == second


def test_every_text_that_an_id_shows_is_in_such_a_space():
    for name in ENVIRONMENTS:
        for observation in ("message", "dict"):
            keywords = NEEDED.get(name, {})
            space = gym.make(name, observation=observation, **keywords).observation_space
            parts = space.values() if isinstance(space, Dict) else [space]
            assert not [p for p in parts if isinstance(p, Text) and not isinstance(p, SharedText)]


def test_the_space_is_a_plain_text_space_in_all_else():
    space, plain = SharedText(100, seed=7), Text(100, min_length=0, charset=CHARSET, seed=7)
    assert space == plain and plain == space and repr(space) == repr(plain)
    assert Dict(message=space) == Dict(message=plain)
    assert batch_space(space, 3) == batch_space(plain, 3)
    assert [space.sample() for _ in range(5)] == [plain.sample() for _ in range(5)]
    twins = copy.deepcopy(space), pickle.loads(pickle.dumps(space))
    following = space.sample()
    for twin in twins:
        assert type(twin) is SharedText and twin == space and twin.sample() == following


def test_it_goes_through_minari_as_plain_text():
    serialization = pytest.importorskip("minari.serialization")
    space = SharedText(100)
    stored = serialization.serialize_space(Dict(message=space))
    again = serialization.deserialize_space(stored)
    assert type(again["message"]) is Text and again == Dict(message=space)
