"""A hotel's reservation desk, written by a newcomer from the guide alone: it plays in acts and
in words."""

import json
from pathlib import Path

import gymnasium as gym
import pytest
from typer.testing import CliRunner

import convgym  # noqa: F401 (registers the ids)
from convgym.cli.main import app
from convgym.domains.catalogue import domain_called
from convgym.evaluation.survey import play_task, survey
from convgym.policies.rendered import RenderedPolicy
from convgym.policies.roster import ladder

FOLDER = Path(__file__).parent / "data" / "hotel_domain"
HOTEL = str(FOLDER)
DESK = domain_called(HOTEL)


def test_it_takes_no_more_than_two_hundred_lines():
    lines = {file.name: len(file.read_text().splitlines()) for file in FOLDER.iterdir()}
    assert sorted(lines) == ["phrases.toml", "rules.toml", "schema.toml", "workflows.toml"]
    assert sum(lines.values()) <= 200


def test_it_is_a_real_desk():
    d = DESK.declaration
    own = [rule for rule in d.rules.rules if rule.decides and rule.code != "unverified"]
    assert len(d.workflows) >= 4
    assert [w.name for w in d.workflows if w.held_out] == ["invoice"]
    assert len(own) >= 5
    assert [rule.code for rule in own if rule.held_out] == ["trade_fair"]
    assert {rule.effect for rule in own} == {"refuse", "transfer"}
    assert d.details
    assert d.terms


@pytest.mark.parametrize(
    "split",
    [s if s == "test" else pytest.param(s, marks=pytest.mark.slow) for s in DESK.splits],
)
def test_the_ladder_stands_in_every_split(split):
    found = survey(HOTEL, split, tasks=40)
    assert found.ladder[-1].success == 1.0
    assert found.ordered
    assert all(score.successes == 0 for score in found.floors)
    assert found.distinct > 1000


@pytest.mark.parametrize("split", DESK.splits)
def test_each_rule_decides_somewhere_and_the_held_out_one_in_its_split_alone(split):
    oracle, met = ladder(HOTEL)["oracle"](), {}
    for number in range(400):
        for request in DESK.task(split, number).requests:
            met.setdefault(request.decision.reason or request.decision.effect, number)
    assert met.keys() >= {"allow", "changed_too_often", "saver_rate", "house_full"}
    if split not in ("test_compositional", "test_primitive", "test_policy"):
        assert met.keys() >= {"group", "valuable", "unverified"}
    assert ("trade_fair" in met) == (split == "test_policy")
    assert all(play_task(DESK, oracle, split, number) for number in met.values())


def played(split, tasks):
    """(task, success, violations, errors) of the oracle in words, task by task."""
    env = gym.make("ConvGym/OwnDomain-v0", folder=HOTEL, observation="dict", max_turns=60)
    policy = RenderedPolicy(ladder(HOTEL)["oracle"](), domain=HOTEL)
    for number in range(tasks):
        observation, info = env.reset(seed=1, options={"task_id": f"{split}-{number}"})
        policy.reset(number)
        ended = False
        while not ended:
            reply, _ = policy.predict(observation)
            assert "{" not in reply or "<tool_call>" in reply, reply
            observation, _, terminated, truncated, info = env.step(reply)
            ended = terminated or truncated
        yield number, info["success"], info["violations"], info["errors"]


def test_it_plays_in_words():
    """The oracle's acts, said in the folder's words and read by its cues, do what they mean."""
    games = list(played("test", 60))
    assert sum(success for _, success, _, _ in games) >= 57
    assert [game for game in games if game[2]] == []  # no obligation is broken by a word


@pytest.mark.parametrize("split", ["test_policy", "test_primitive", "test_lexical"])
def test_what_is_held_out_plays_in_words_too(split):
    games = list(played(split, 20))
    assert sum(success for _, success, _, _ in games) >= 19
    assert [game for game in games if game[2]] == []


def test_all_of_its_words_are_read():
    assert DESK.unread() == []
    assert DESK.complaints() == []


@pytest.mark.slow
def test_check_finds_no_fault():
    result = CliRunner().invoke(app, ["domain", "check", HOTEL, "--tasks", "20"])
    assert result.exit_code == 0, result.output
    assert "FAULT" not in result.output
    assert "All of the agent's wordings are read back" in result.output
    assert "cues:" not in result.output
    assert "agent deny_saver_rate" in result.output  # one of those made from names


def test_its_tools_carry_its_names():
    names = [tool["function"]["name"] for tool in json.loads(DESK.tools)]
    for name in ("find_guest", "list_bookings", "get_item", "move_booking", "post_item"):
        assert name in names
