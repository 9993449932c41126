"""The batched environment gives what `SyncVectorEnv` gives, in every autoreset mode."""

from __future__ import annotations

import pickle
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv

import convgym  # noqa: F401
from convgym.envs.autoreset import DISABLED, MODES, NEXT_STEP, SAME_STEP, AutoresetMode
from convgym.envs.batched import BatchedVectorEnv
from convgym.errors import InvalidAction, InvalidConfiguration
from convgym.policies.roster import ladder

IDS = ("ConvGym/CustomerService-v0", "ConvGym/Sales-v0", "ConvGym/TechnicalSupport-v0")
_MODES = MODES if AutoresetMode is not None else MODES[:1]


def batched(environment_id: str, count: int, mode: str = NEXT_STEP, **keywords: Any) -> Any:
    """The vector environment of an id, on features and acts."""
    if AutoresetMode is not None:
        keywords["autoreset_mode"] = AutoresetMode[mode]
    made = gym.make_vec(
        environment_id, count, observation="features", action="act", **keywords
    )
    assert isinstance(made.unwrapped, BatchedVectorEnv)
    return made


def synchronous(environment_id: str, count: int, mode: str = NEXT_STEP, **keywords: Any) -> Any:
    """The obvious second version: single environments, one after the other."""
    def make() -> Any:
        return gym.make(
            environment_id,
            disable_env_checker=True,
            observation="features",
            action="act",
            **keywords,
        )

    more = {} if AutoresetMode is None else {"autoreset_mode": AutoresetMode[mode]}
    return SyncVectorEnv([make] * count, **more)


def assert_same_infos(ours: Any, theirs: Any) -> None:
    """Same keys, types and values; `final_info` likewise."""
    assert set(ours) == set(theirs)
    for key, expected in theirs.items():
        value = ours[key]
        if isinstance(expected, dict):
            assert_same_infos(value, expected)
            continue
        assert value.dtype == expected.dtype and value.shape == expected.shape, key
        if key == "final_obs":
            for one, other in zip(value, expected, strict=True):
                assert (one is None) == (other is None)
                assert one is None or np.array_equal(one, other)
        else:
            assert np.array_equal(value, expected), (key, value, expected)


class Players:
    """A policy for each row, or random acts; what it does depends on what is seen alone."""

    def __init__(self, environment_id: str, name: str, count: int) -> None:
        domain = gym.make(environment_id).unwrapped.domain.domain
        self.policies = [] if name == "random" else [ladder(domain)[name]() for _ in range(count)]
        for row, policy in enumerate(self.policies):
            policy.reset(row)
        self.rng = np.random.default_rng(0)

    def __call__(self, observations: Any, masks: Any) -> Any:
        if self.policies:
            pairs = zip(self.policies, observations, masks, strict=True)
            return np.array([p.predict(o, action_masks=m)[0] for p, o, m in pairs])
        weights = self.rng.random(masks.shape) * (masks + (self.rng.random(masks.shape) < 0.01))
        return weights.argmax(axis=1)


def play_both(
    environment_id: str, mode: str, name: str, count: int, steps: int, **keywords: Any
) -> int:
    """Step both; returns how many episodes ended."""
    ours, theirs = (make(environment_id, count, mode, **keywords) for make in (
        batched, synchronous
    ))
    choose, rng = Players(environment_id, name, count), np.random.default_rng(1)
    seen, infos = ours.reset(seed=5)
    expected, expected_infos = theirs.reset(seed=5)
    assert np.array_equal(seen, expected)
    assert_same_infos(infos, expected_infos)
    ended = 0
    for step in range(steps):
        masks = np.stack(theirs.call("action_masks"))
        assert np.array_equal(np.stack(ours.call("action_masks")), masks)
        actions = choose(expected, masks)
        seen, rewards, terminated, truncated, infos = ours.step(actions)
        outcome = theirs.step(actions)
        assert np.array_equal(seen, outcome[0]) and seen.dtype == outcome[0].dtype
        for one, other in zip((rewards, terminated, truncated), outcome[1:4], strict=True):
            assert np.array_equal(one, other) and one.dtype == other.dtype
        # Texts are made now, later or never: what they say must not depend on it.
        if step % 3:
            assert_same_infos(infos, outcome[4])
        expected, over = outcome[0], outcome[2] | outcome[3]
        ended += int(over.sum())
        if mode == DISABLED and over.any():
            seeds = [int(rng.integers(1 << 30)) if row % 2 else None for row in range(count)]
            seen, infos = ours.reset(seed=seeds, options={"reset_mask": over})
            expected, expected_infos = theirs.reset(seed=seeds, options={"reset_mask": over})
            assert np.array_equal(seen, expected)
            assert_same_infos(infos, expected_infos)
    return ended


@pytest.mark.parametrize("mode", _MODES)
@pytest.mark.parametrize("environment_id", IDS)
def test_rows_are_what_single_environments_are(environment_id: str, mode: str) -> None:
    assert play_both(environment_id, mode, "random", count=24, steps=30) > 10
    assert play_both(environment_id, mode, "planner", count=8, steps=24) > 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["random", "planner", "oracle"])
@pytest.mark.parametrize("mode", _MODES)
@pytest.mark.parametrize("environment_id", IDS)
def test_ten_thousand_steps_are_the_same(environment_id: str, mode: str, name: str) -> None:
    assert play_both(environment_id, mode, name, count=64, steps=160) > 200


KEYWORDS = [
    {"reward": "milestones", "discount": 0.97, "split": "validation"},
    {"reward": "graded", "persona": "skeptical_critic", "max_turns": 12},
    {"split": "test_persona", "realism": 0.3},
    {"difficulty": 0.8, "split": "test_policy"},
    {"persona": {"base": "busy_professional", "patience": [0.0, 0.4]}, "split": "test_lexical"},
    {"task_id": "test-17", "style": "terse"},
]


@pytest.mark.parametrize("keywords", KEYWORDS, ids=lambda keywords: "-".join(keywords))
@pytest.mark.parametrize("environment_id", IDS)
def test_keywords_mean_the_same(environment_id: str, keywords: dict[str, Any]) -> None:
    play_both(environment_id, NEXT_STEP, "random", count=12, steps=14, **keywords)


WORDED = [
    {},
    {"realism": 0.4, "split": "test_lexical"},
    {"style": "sloppy", "response_diversity": 0.3},
    {"persona": "skeptical_critic", "split": "validation"},
]


@pytest.mark.parametrize("keywords", WORDED, ids=str)
@pytest.mark.parametrize("environment_id", IDS)
def test_messages_are_the_same(environment_id: str, keywords: dict[str, Any]) -> None:
    keywords = {"observation": "message", "action": "act", **keywords}
    ours = gym.make_vec(environment_id, 8, **keywords)
    assert isinstance(ours.unwrapped, BatchedVectorEnv)
    theirs = SyncVectorEnv(
        [lambda: gym.make(environment_id, disable_env_checker=True, **keywords)] * 8
    )
    seen, infos = ours.reset(seed=3)
    assert seen == theirs.reset(seed=3)[0] and seen in ours.observation_space
    choose, talked = Players(environment_id, "random", 8), set(seen)
    for _ in range(25):
        actions = choose(seen, infos["action_mask"])
        seen, _, _, _, infos = ours.step(actions)
        assert seen == theirs.step(actions)[0]
        talked |= set(seen)
    assert len(talked) > 60


def test_options_of_a_reset_mean_the_same() -> None:
    ours, theirs = (make(IDS[0], 4) for make in (batched, synchronous))
    options = {"user_seed": 3, "wording_seed": 4, "difficulty": 0.2, "topic": "cancel"}
    for seed in (7, None, [1, None, 2, None]):
        seen, infos = ours.reset(seed=seed, options=dict(options))
        expected, expected_infos = theirs.reset(seed=seed, options=dict(options))
        assert np.array_equal(seen, expected)
        assert_same_infos(infos, expected_infos)


def test_infos_of_some_rows_when_others_never_began() -> None:
    envs = batched(IDS[0], 3)
    _, infos = envs.reset(seed=1, options={"reset_mask": np.array([False, True, False])})
    assert [bool(text) for text in infos["user_acts"]] == [False, True, False]


def test_an_unseeded_environment_draws_different_episodes() -> None:
    envs = batched(IDS[0], 6)
    _, infos = envs.reset()
    assert len(set(infos["task_id"])) > 1


def test_infos_are_the_same_read_late() -> None:
    early, late = (batched(IDS[0], 6) for _ in range(2))
    kept = []
    for envs in (early, late):
        infos = [envs.reset(seed=1)[1]]
        if envs is early:
            infos[-1]["user_acts"]
        rng = np.random.default_rng(2)
        for _ in range(12):
            masks = envs.unwrapped.action_masks()
            infos.append(envs.step((rng.random(masks.shape) * masks).argmax(axis=1))[4])
            if envs is early:
                infos[-1]["user_acts"], infos[-1]["tool_results"], infos[-1]["reward_terms"]
        kept.append(infos)
    for one, other in zip(*kept, strict=True):
        assert_same_infos(other, one)


def test_infos_are_a_dictionary() -> None:
    envs = batched(IDS[0], 2)
    _, infos = envs.reset(seed=0)
    plain = dict(infos)
    assert set(plain) == set(infos) == {key for key, _ in infos.items()}
    assert {**infos}["user_acts"][0].startswith("[{")
    assert pickle.loads(pickle.dumps(infos)).keys() == plain.keys()
    _, again = envs.reset(seed=0)
    assert again.get("tool_results")[0] == "" and again.get("nothing", 5) == 5
    assert list(again.copy()["user_acts"]) == list(plain["user_acts"])
    assert again.pop("user_acts")[1] == plain["user_acts"][1] and "user_acts" not in again
    _, third = envs.reset(seed=0)
    assert all(value is not None for value in third.values())


def test_wrong_input_gets_one_sentence() -> None:
    envs = batched(IDS[0], 3)
    with pytest.raises(gym.error.ResetNeeded, match="first reset"):
        envs.step(np.zeros(3, int))
    envs.reset(seed=0)
    with pytest.raises(AttributeError, match="no method 'render'"):
        envs.unwrapped.call("render")
    for actions in ([0, 1], [0, 1, 10_000], [0.5, 1, 2], [-1, 0, 0], "abc"):
        with pytest.raises(InvalidAction, match="3 whole numbers from 0 to"):
            envs.step(actions)
    for mask in ([True, False, True], np.zeros(3, bool), np.ones(2, bool)):
        with pytest.raises(InvalidConfiguration, match="reset_mask"):
            envs.reset(options={"reset_mask": mask})
    with pytest.raises(InvalidConfiguration, match="autoreset_mode"):
        gym.make_vec(IDS[0], 2, observation="features", action="act", autoreset_mode="never")


@pytest.mark.skipif(AutoresetMode is None, reason="gymnasium 1.0 has next-step autoreset only")
def test_rows_that_are_over_wait_for_their_reset() -> None:
    envs = batched(IDS[0], 2, DISABLED)
    envs.reset(seed=0)
    over = np.zeros(2, bool)
    rng = np.random.default_rng(0)
    while not over.any():
        _, _, terminated, truncated, _ = envs.step(rng.integers(0, 60, 2))
        over = terminated | truncated
    with pytest.raises(gym.error.ResetNeeded, match="reset_mask"):
        envs.step(np.zeros(2, int))


def test_what_is_returned_is_not_written_to_again() -> None:
    mode = NEXT_STEP if AutoresetMode is None else SAME_STEP
    envs = batched(IDS[0], 4, mode)
    seen, infos = envs.reset(seed=0)
    before, masks = seen.copy(), infos["action_mask"].copy()
    rng = np.random.default_rng(0)
    for _ in range(10):
        envs.step(rng.integers(0, 60, 4))
    assert np.array_equal(seen, before) and np.array_equal(infos["action_mask"], masks)


def test_rows_that_are_no_batch_take_the_mode_on_every_gymnasium():
    """Transcripts run one after the other; gymnasium 1.0's vector environment knows no mode."""
    mode = NEXT_STEP if AutoresetMode is None else AutoresetMode.NEXT_STEP
    envs = gym.make_vec(
        "ConvGym/CustomerService-v0", 2, observation="transcript", autoreset_mode=mode
    )
    assert len(envs.reset(seed=0)[0]) == 2
    envs.close()
