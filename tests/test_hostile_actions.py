"""Fuzzed steps in a few of all forms, and what longer searches have found, by name."""

import random

import gymnasium as gym
import numpy as np
import pettingzoo
import pytest
from fuzzed_forms import forms
from fuzzing import Tally
from hostile_players import Single, player_of

import convgym.multi_agent  # noqa: F401  registers the two-sided ids
from convgym.errors import InvalidAction, InvalidConfiguration

SHOP = "ConvGym/CustomerService-v0"
ACTS = {"observation": "features", "action": "act"}
PLAIN = {"observation": "transcript", "action": "text"}
"""What rows of integers do not have: one environment after the other plays it."""


def few():
    """One form in nine, and the vector environments that nothing has to be compiled for."""
    rest = [form for form in forms() if form.kind != "vector"][::9]
    rows = [form for form in forms() if form.kind == "vector"
            and form.keywords["observation"] == "transcript"][::6]  # fmt: skip
    return rest + rows


@pytest.mark.parametrize("form", few(), ids=str)
def test_hostile_steps_are_taken_or_refused_as_documented(form):
    tally = player_of(form).play(random.Random(f"test-{form}"), 40)
    assert tally.done >= 40 and not tally.faults, tally.examples


def test_every_id_is_played_in_every_mode_and_form():
    kinds = {form.kind for form in forms()}
    assert kinds == {"single", "wrapped", "vector", "aec", "parallel", "one side"}
    told = {(f.environment_id, f.keywords["observation"], f.keywords.get("action"))
            for f in forms() if f.kind == "single"}  # fmt: skip
    assert len(told) == 4 * 15 + 2 * 4


def test_a_player_notices_what_it_should(monkeypatch):
    """Faults of an environment that raises, forgets to refuse, and forgets an error."""

    def tally_of(form, **changed):
        player = Single(form)
        for name, value in changed.items():
            monkeypatch.setattr(type(player.bare), name, value)
        found = player.play(random.Random(3), 120)
        monkeypatch.undo()
        return found

    form = next(f for f in forms() if f.kind == "single" and f.keywords["action"] == "act")

    def lenient(self, action):
        if self._action == "act" and type(action) is int and not 0 <= action < self._n_acts:
            raise KeyError(action)

    assert isinstance(tally_of(form), Tally) and not tally_of(form).faults
    raised = tally_of(form, check_action=lenient)
    assert any("Error" in fault for fault in raised.faults)
    broken = tally_of(form, _observe=lambda self: None)
    assert any("outside its space" in fault for fault in broken.faults)


# -- found by longer searches ----------------------------------------------------------------------


@pytest.mark.parametrize("mode", [PLAIN, {"observation": "transcript", "action": "act"}], ids=str)
def test_a_refused_action_steps_no_row(mode):
    """The first rows had stepped when the last one's was refused, and were stuck ever after."""
    envs = gym.make_vec(SHOP, 3, **mode)
    envs.reset(seed=1)
    fitting = "Hello!" if mode["action"] == "text" else 0
    for bad in ([fitting, fitting, None], [fitting], None, [[], [], []], [fitting] * 4):
        with pytest.raises(InvalidAction):
            envs.step(bad)
    assert [env.unwrapped._episode.turn for env in envs.envs] == [0, 0, 0]
    envs.step([fitting] * 3 if mode["action"] == "text" else np.zeros(3, dtype=np.int64))


@pytest.mark.parametrize("mode", [ACTS, {"observation": "message", "action": "text"}, PLAIN])
@pytest.mark.parametrize("bad", [{"options": 3}, {"options": ["hello"]}, {"options": "3"},
                                 {"seed": [1, 2]}, {"seed": "hello"}, {"seed": 1.5},
                                 {"options": {"reset_mask": [True, False, True]}}], ids=str)
def test_rows_refuse_what_is_no_reset(mode, bad):
    envs = gym.make_vec(SHOP, 3, **mode)
    with pytest.raises(InvalidConfiguration):
        envs.reset(**bad)
    envs.reset(seed=1)


@pytest.mark.parametrize("action", ["act", "text"])
@pytest.mark.parametrize("bad", [None, -1, np.uint64(3), [[1], [2, 3]], np.array([[1, 2], [3, 4]]),
                                 np.datetime64("2020-01-01")], ids=repr)
def test_rows_refuse_what_is_no_action(action, bad):
    envs = gym.make_vec(SHOP, 3, observation="message", action=action)
    envs.reset(seed=1)
    with pytest.raises(InvalidAction):
        envs.step(bad)


@pytest.mark.parametrize("bad", [None, 3, b"hello", ["hello"], np.uint64(3)], ids=repr)
def test_handles_leave_what_is_no_text_to_the_environment(bad):
    env = gym.make("ConvGym/OneRequest-v0", disable_env_checker=True)
    env.reset(seed=1)
    with pytest.raises(InvalidAction, match="str"):
        env.step(bad)


def test_both_sides_refuse_rows_of_unequal_length_and_options_that_are_none():
    env = pettingzoo.make("aec", SHOP, user_action="act", **ACTS)
    env.reset(seed=1)
    with pytest.raises(InvalidAction, match="whole numbers"):
        env.step([[1], [2, 3]])
    for options in (2j, b"hello", ["hello"], np.float32(1.0)):
        with pytest.raises(InvalidConfiguration, match="must be a dict"):
            env.reset(seed=1, options=options)


def test_what_a_tool_escaped_stays_escaped_without_the_dropped_keys():
    """Written out, a name in no alphabet of ours stood in the observation, outside its space."""
    from convgym.envs.handles import without

    assert without('{"error": "no tool \\u4e2d", "stock": 3}', ["stock"]).isascii()
    assert without('{"town": "Köln", "stock": 3}', ["stock"]) == '{"town": "Köln"}'


def test_rows_do_not_keep_a_book_for_each_reply():
    """Every reply came to be a key of what was read, a megabyte long or not."""
    from convgym.envs.batched_replies import BatchedReplies

    class Reader:
        reading = np.dtype("u1")

        def read(self, text, record):
            return (text,)

    replies = BatchedReplies(Reader(), 2)
    first = replies.places(["a" * 10_000, "b"])
    again = replies.places(["a" * 10_000, "b"])
    assert replies.quotes(first) == replies.quotes(again) and first[1] == again[1]
    assert list(replies._places) == ["b"]
