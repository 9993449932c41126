"""The batched environment in words: replies for actions, and what `dict` shows."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv
from test_batched_env import _MODES, IDS, assert_same_infos

import convgym  # noqa: F401
from convgym.envs.autoreset import DISABLED, NEXT_STEP, AutoresetMode
from convgym.envs.batched import BatchedVectorEnv
from convgym.envs.batched_replies import BatchedReplies
from convgym.errors import InvalidAction, InvalidConfiguration
from convgym.policies.rendered import RenderedPolicy
from convgym.policies.roster import ladder

HARD = ("", "  ", "Hm?", "<tool_call>{}</tool_call>", "{\"name\": \"nothing\", \"arguments\": {}}",
        "naïve “quotes” … and ½", "x" * 5000)  # fmt: skip


def both(environment_id: str, count: int, mode: str, **keywords: Any) -> tuple[Any, Any]:
    """The batched environment and the obvious second version."""
    keywords = {"action": "text", **keywords}
    more = {} if AutoresetMode is None else {"autoreset_mode": AutoresetMode[mode]}

    def make() -> Any:
        return gym.make(environment_id, disable_env_checker=True, **keywords)

    ours = gym.make_vec(environment_id, count, **keywords, **more)
    assert isinstance(ours.unwrapped, BatchedVectorEnv)
    return ours, SyncVectorEnv([make] * count, **more)


class Speakers:
    """Rendered policies, one to a row of dict observations; some replies are of another sort."""

    def __init__(self, environment_id: str, name: str, count: int, odd: float = 0.2) -> None:
        env: Any = gym.make(environment_id, action="text").unwrapped
        self.space, domain = env.action_space, env.domain.domain
        self.space.seed(0)
        self.policies = [
            RenderedPolicy(ladder(domain)[name](), domain=domain) for _ in range(count)
        ]
        for row, policy in enumerate(self.policies):
            policy.reset(row)
        self.rng, self.odd, self.said = np.random.default_rng(2), odd, ["Hello."]

    def __call__(self, seen: dict[str, Any]) -> list[str]:
        replies = []
        for row, policy in enumerate(self.policies):
            own = {name: part[row] for name, part in seen.items()}
            reply = policy.predict(own)[0]
            self.said.append(reply)
            if self.rng.random() < self.odd:
                others = (self.space.sample(), str(self.rng.choice(HARD)),
                          str(self.rng.choice(self.said)))  # fmt: skip
                reply = others[self.rng.integers(3)] + self.rng.choice(["", " " + reply])
            replies.append(reply)
        return replies


def assert_same_seen(seen: Any, expected: Any) -> None:
    """Same observations, of the same types."""
    assert seen.keys() == expected.keys()
    for name, part in expected.items():
        if isinstance(part, tuple | str):
            assert seen[name] == part, name
        else:
            assert np.array_equal(seen[name], part) and seen[name].dtype == part.dtype, name


def assert_same_finals(infos: Any, expected: Any) -> None:
    """`final_obs` holds dictionaries; all else is compared as it is elsewhere."""
    expected, infos = dict(expected), dict(infos)
    if "final_obs" in expected:
        for one, other in zip(infos.pop("final_obs"), expected.pop("final_obs"), strict=True):
            assert (one is None) == (other is None)
            if one is not None:
                assert_same_seen(one, other)
    assert_same_infos(infos, expected)


def play(environment_id: str, mode: str, name: str, count: int, steps: int, **keywords: Any) -> int:
    """Step both in words on dict observations; returns how many episodes ended."""
    ours, theirs = both(environment_id, count, mode, observation="dict", **keywords)
    speak = Speakers(environment_id, name, count)
    seen, infos = ours.reset(seed=9)
    expected, expected_infos = theirs.reset(seed=9)
    assert_same_seen(seen, expected)
    assert_same_infos(infos, expected_infos)
    assert ours.observation_space.contains(seen)
    ended = 0
    for step in range(steps):
        replies = speak(expected)
        seen, rewards, terminated, truncated, infos = ours.step(tuple(replies))
        outcome = theirs.step(tuple(replies))
        assert_same_seen(seen, outcome[0])
        for one, other in zip((rewards, terminated, truncated), outcome[1:4], strict=True):
            assert np.array_equal(one, other) and one.dtype == other.dtype
        if step % 3:
            assert_same_finals(infos, outcome[4])
        expected, over = outcome[0], outcome[2] | outcome[3]
        ended += int(over.sum())
        if mode == DISABLED and over.any():
            for envs in (ours, theirs):
                seen, _ = envs.reset(options={"reset_mask": over})
            expected = seen
    return ended


@pytest.mark.parametrize("mode", _MODES)
@pytest.mark.parametrize("environment_id", IDS)
def test_replies_do_what_they_do_singly(environment_id: str, mode: str) -> None:
    assert play(environment_id, mode, "planner", count=8, steps=24) > 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["planner", "oracle"])
@pytest.mark.parametrize("mode", _MODES)
@pytest.mark.parametrize("environment_id", IDS)
def test_ten_thousand_replies_do_the_same(environment_id: str, mode: str, name: str) -> None:
    assert play(environment_id, mode, name, count=64, steps=160) > 200


@pytest.mark.parametrize(
    "keywords", [{"reward": "milestones", "style": "sloppy"}, {"split": "test_lexical"}], ids=str
)
@pytest.mark.parametrize("environment_id", IDS)
def test_keywords_mean_the_same_in_words(environment_id: str, keywords: dict[str, Any]) -> None:
    play(environment_id, NEXT_STEP, "oracle", count=4, steps=14, **keywords)


@pytest.mark.parametrize("observation", ["features", "message"])
@pytest.mark.parametrize("environment_id", IDS)
def test_what_is_seen_of_replies(environment_id: str, observation: str) -> None:
    ours, theirs = both(environment_id, 4, NEXT_STEP, observation=observation)
    space = ours.single_action_space
    space.seed(1)
    ours.reset(seed=1), theirs.reset(seed=1)
    for _ in range(12):
        replies = tuple(space.sample() for _ in range(4))
        seen, *rest, infos = ours.step(replies)
        expected, *outcome, expected_infos = theirs.step(replies)
        assert np.array_equal(seen, expected)
        assert all(np.array_equal(a, b) for a, b in zip(rest, outcome, strict=True))
        assert_same_infos(infos, expected_infos)


def test_more_replies_than_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = both(IDS[0], 3, NEXT_STEP, observation="message")
    replies = ours.unwrapped._replies
    replies._most, read = 7, []
    make = replies._batched.read
    monkeypatch.setattr(
        replies._batched, "read", lambda text, into: (read.append(text), make(text, into))[1],
        raising=False,
    )  # fmt: skip
    ours.reset(seed=0), theirs.reset(seed=0)
    for step in range(9):
        texts = tuple(f"Is it order W{1000 + step * 3 + row}?" for row in range(3))
        assert ours.step(texts)[0] == theirs.step(texts)[0]
    assert len(read) == 27 and len(replies._quotes) <= 7
    ours.step(texts)
    assert len(read) == 27, "the last replies are still known"
    monkeypatch.setattr(BatchedReplies, "remembers", False)
    ours.step(("a", "a", "b"))
    assert len(read) == 30


@pytest.mark.parametrize("wrong", [("only one",), "text", ("a", 3), ("a", None)])
def test_what_is_no_reply_is_refused(wrong: Any) -> None:
    ours, _ = both(IDS[0], 2, NEXT_STEP, observation="message")
    ours.reset(seed=0)
    with pytest.raises(InvalidAction):
        ours.step(wrong)
    assert ours.step(("Hello.", "Hello."))[0]


@pytest.mark.parametrize("environment_id", IDS)
def test_what_is_left_out_is_not_shown_and_changes_nothing_else(environment_id):
    whole, less = (gym.make_vec(environment_id, 3, observation="dict", action="act") for _ in "ab")
    less.unwrapped.leave_out("policy", "view")
    parts = ["features", "message", "tool_results", "tools", "turn"]
    assert list(less.unwrapped.single_observation_space) == parts
    shown, seen = whole.reset(seed=4)[0], less.reset(seed=4)[0]
    whole.action_space.seed(2)
    for _ in range(12):
        assert list(seen) == parts and seen in less.unwrapped.observation_space
        assert np.array_equal(seen["features"], shown["features"])
        assert all(seen[name] == shown[name] for name in ("message", "tool_results", "tools"))
        actions = whole.action_space.sample()
        (shown, *outcome, _), (seen, *other, _) = whole.step(actions), less.step(actions)
        assert all(np.array_equal(one, two) for one, two in zip(outcome, other, strict=True))


@pytest.mark.parametrize(("observation", "name"), [("dict", "words"), ("features", "view")])
def test_what_is_not_shown_cannot_be_left_out(observation, name):
    envs = gym.make_vec(IDS[0], 2, observation=observation, action="act").unwrapped
    with pytest.raises(InvalidConfiguration, match=f"{name} cannot be left out"):
        envs.leave_out(name)
