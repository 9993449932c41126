"""Handles in place of values: the law, the order, all three domains."""

import json

import gymnasium as gym
import pytest
from hypothesis import given
from hypothesis import strategies as st

import convgym  # noqa: F401  registers the ids
from convgym.envs.handles import KINDS, Handles, ToolHandles, without
from convgym.errors import InvalidConfiguration
from convgym.policies import roster
from convgym.policies.rendered import RenderedPolicy

IDS = {
    "customer-service": "ConvGym/CustomerService-v0",
    "sales": "ConvGym/Sales-v0",
    "technical-support": "ConvGym/TechnicalSupport-v0",
}

_pieces = st.sampled_from(
    [
        *("freya.usher3622@example.com", "W37523", "s1234", "D89341", "88474", "0768493965"),
        *("face cream", "cream", "item:1", "Face cream"),
        *("3666", "$28.00", "$1,249", "$5", "3 January", "12 may", "119 Harbour View, Derby"),
        *(f"{kind}:{n}" for kind in KINDS for n in (1, 2, 10)),
        *("order:1", ":", "1", "a", "é", "_", " ", " ", "\n", '"', ".", ",", "-", "@", "%"),
    ]
)


@given(st.lists(st.lists(_pieces, max_size=8).map("".join) | st.text(max_size=30), max_size=5))
def test_expanding_what_was_shortened_gives_the_text_back(texts):
    handles = Handles((("item", ("cream", "face cream", "$5")),))
    shortened = [handles.shorten(text) for text in texts]
    assert [handles.expand(short) for short in shortened] == texts
    assert [handles.shorten(text) for text in texts] == shortened


def test_values_are_numbered_by_first_appearance_and_kept():
    handles = Handles()
    first = handles.shorten("W37523 or W10233, by a.b@example.com; W10233!")
    assert first == "number:1 or number:2, by email:1; number:2!"
    assert handles.shorten('{"order": "W10233", "placed": "3 January"}') == (
        '{"order": "number:2", "placed": "date:1"}'
    )
    assert handles.expand("number:2 came on date:1") == "W10233 came on 3 January"
    assert dict(handles.values)["email:1"] == "a.b@example.com"


def test_what_looks_like_a_handle_comes_back_and_gives_nothing_away():
    handles = Handles()
    handles.shorten("88474")
    short = handles.shorten("my postcode:1 and order:3")
    assert short == "my word:1 and order:3"
    assert handles.expand(short) == "my postcode:1 and order:3"


def test_a_handle_that_was_never_given_becomes_one_that_no_record_has():
    assert Handles().expand("number:1, email:12, order:1") == (
        "number:unknown, email:unknown, order:1"
    )


def test_dropped_keys_leave_the_results_at_any_depth():
    results = '{"a": 1, "list": [{"a": 2, "b": "ü"}]}\nno JSON'
    assert without(results, ["a"]) == '{"list": [{"b": "ü"}]}\nno JSON'
    assert without(results, []) == results


@pytest.mark.parametrize("domain", list(IDS))
def test_the_oracle_plays_as_well_with_handles(domain):
    env = ToolHandles(gym.make(IDS[domain], observation="dict"))
    plain = gym.make(IDS[domain], observation="dict")
    for seed in range(6):
        policy = RenderedPolicy(roster.ladder(domain)["oracle"](), domain=domain)
        policy.reset(seed)
        observation, _ = env.reset(seed=seed)
        bare, _ = plain.reset(seed=seed)
        ended = False
        while not ended:
            assert env.observation_space.contains(observation)
            for part in ("message", "tool_results"):
                assert env.handles.expand(observation[part]) == bare[part]
                assert "@" not in observation[part]
            reply, _ = policy.predict(observation)
            short = env.handles.shorten(reply)
            observation, reward, terminated, truncated, info = env.step(short)
            bare, *expected = plain.step(reply)
            assert [reward, terminated, truncated] == expected[:3]
            ended = terminated or truncated
        assert info["success"]


def test_text_observations_and_dropped_keys():
    env = ToolHandles(gym.make(IDS["customer-service"], observation="message"))
    observation, _ = env.reset(seed=1)
    assert isinstance(observation, str) and env.observation_space.contains(observation)
    env = ToolHandles(gym.make(IDS["customer-service"], observation="dict"), dropped=["town"])
    observation, _ = env.reset(seed=0)
    assert "email:1" in observation["message"]
    call = {"name": "find_customer", "arguments": {"email": "email:1"}}
    observation, *_ = env.step(json.dumps(call))
    assert "customer" in observation["tool_results"] and "town" not in observation["tool_results"]
    env.reset(seed=0)
    assert len(env.handles.values) <= 2


@pytest.mark.parametrize("keywords", [{"action": "act"}, {"observation": "features"}])
def test_environments_without_words_are_refused(keywords):
    with pytest.raises(InvalidConfiguration, match="handles need texts"):
        ToolHandles(gym.make(IDS["sales"], **keywords))


def test_known_values_are_told_by_their_words_the_longest_first():
    handles = Handles((("item", ("cream", "face cream")),))
    short = handles.shorten("a face cream, cream, creamy, 12345, item:1")
    assert short == "a item:1, item:2, creamy, postcode:1, word:1"
    assert handles.expand("item:2 item:3 word:1") == "cream item:unknown item:1"


@pytest.mark.parametrize("known", [{"email": ["x"]}, {"my item": ["x"]}, {"item": "face cream"}])
def test_known_kinds_must_be_new_words_with_lists(known):
    with pytest.raises(InvalidConfiguration, match="known has"):
        ToolHandles(gym.make(IDS["sales"]), known=known)


def test_dropped_must_be_a_list_of_keys():
    with pytest.raises(InvalidConfiguration, match="dropped='stock'"):
        ToolHandles(gym.make(IDS["sales"]), dropped="stock")
