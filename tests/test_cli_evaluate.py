"""`convgym evaluate`: scores with intervals, replies to one message and to many, a person."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import pytest
from typer.testing import CliRunner

from convgym.cli import evaluation
from convgym.cli.main import app
from convgym.cli.play import Screen
from convgym.engine.keys import child
from convgym.evaluation.repeated import Plan, evaluate_repeatedly
from convgym.policies.scripted import PlannerPolicy

ROOT = Path(__file__).parents[1]


def evaluate(*arguments, typed=None):
    return CliRunner().invoke(app, ["evaluate", *map(str, arguments)], input=typed)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder of runs with a small one in it."""
    place = tmp_path_factory.mktemp("here") / "runs"
    done = CliRunner().invoke(app, [
        "train", "--stub", "--steps", "2000", "--name", "small", "--runs", str(place),
        "--set", "evaluation.episodes=0",
    ])  # fmt: skip
    assert done.exit_code == 0, done.output
    return place


# -- scores ----------------------------------------------------------------------------------------


def test_seeded_episodes_with_intervals_pass_k_and_slices():
    done = evaluate("--policy", "planner", "--episodes", 12, "--users", 2, "--seed", 5, "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    keywords = {"observation": "features", "action": "act"}
    plan = Plan(env_id="ConvGym/CustomerService-v0", keywords=keywords, tasks=12, users=2, seed=5)
    played = evaluate_repeatedly(PlannerPolicy(), plan)
    assert found["success"]["value"] == pytest.approx(played.success.mean())
    assert found["success"]["low"] <= found["success"]["value"] <= found["success"]["high"]
    both = played.success.all(axis=1).mean()
    assert found["pass_k"][1]["value"] == pytest.approx(both)
    assert set(found["personas"]) == {
        "patient_expert", "frustrated_novice", "busy_professional", "curious_learner",
        "skeptical_critic",
    }  # fmt: skip


def test_the_same_seed_is_the_same_page_and_another_is_not():
    given = ("--policy", "keyword", "--episodes", 10, "--users", 1, "--personas", "none")
    first, again = evaluate(*given), evaluate(*given)
    other = evaluate(*given, "--seed", 1)
    assert first.stdout == again.stdout != other.stdout
    assert "## pass^k" in first.stdout


def test_a_run_plays_where_it_learnt(runs):
    done = evaluate("--policy", "small", "--runs", runs, "--episodes", 6, "--users", 1, "--json",
                    "--personas", "busy_professional")  # fmt: skip
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["policy"] == "tabular" and list(found["personas"]) == ["busy_professional"]
    assert found["plan"]["keywords"]["topic"] == "status"
    by_file = evaluate("--policy", runs / "small" / "policy.zip", "--episodes", 6, "--users", 1,
                       "--set", "topic=status", "--set", "difficulty=0.0",
                       "--set", "reward=graded", "--json",
                       "--personas", "busy_professional")  # fmt: skip
    assert json.loads(by_file.stdout) == found


def test_null_policies_speak():
    done = evaluate(
        "--policy", "done", "--episodes", 5, "--users", 1, "--personas", "none", "--json"
    )
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["success"]["value"], found["turns"]) == (0.0, 1.0)


class Pusher:
    """Pushes a pole's cart where the pole leans."""

    name = "pusher"

    def reset(self, seed):
        """Nothing to forget."""

    def predict(self, observation, state=None, *_, **__):
        """Left or right."""
        return int(observation[2] + observation[3] > 0), state


def test_other_environments_are_scored_by_return(monkeypatch):
    monkeypatch.setitem(sys.modules, "own_policies", sys.modules[__name__])
    done = evaluate("--policy", "own_policies:Pusher", "--env", "CartPole-v1", "--episodes", 3,
                    "--json")  # fmt: skip
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    env, returns = gym.make("CartPole-v1"), []
    for index in range(3):
        observation, _ = env.reset(seed=child(0, index))
        total, ended = 0.0, False
        while not ended:
            action, _ = Pusher().predict(observation)
            observation, reward, terminated, truncated, _ = env.step(action)
            total, ended = total + reward, terminated or truncated
        returns.append(total)
    assert found["success"] is None and found["return_"] == pytest.approx(sum(returns) / 3)


# -- replies ---------------------------------------------------------------------------------------


def test_one_message_gets_one_reply():
    first = evaluate("--policy", "planner", "--message", "I want to cancel my order")
    assert first.exit_code == 0 and "email" in first.stdout.lower(), first.output
    assert evaluate("--policy", "planner", "--message", "I want to cancel my order").stdout == (
        first.stdout
    )
    found = evaluate("--policy", "planner", "--message", "Hello", "--json")
    told = json.loads(found.stdout)
    assert told["messages"] == ["Hello"] and len(told["replies"]) == 1 and told["ended"] == ""


@pytest.mark.parametrize("env", ["ConvGym/Sales-v0", "ConvGym/TechnicalSupport-v0"])
def test_the_other_domains_reply(env):
    done = evaluate("--policy", "oracle", "--env", env, "--message", "Hello there", "--json")
    assert done.exit_code == 0 and json.loads(done.stdout)["replies"][0]


def test_a_trained_policy_replies(runs):
    done = evaluate("--policy", runs / "small", "--message", "Where is my order?", "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["replies"] or told["ended"]


def test_a_file_of_messages_and_of_what_is_none(tmp_path):
    path = tmp_path / "said.jsonl"
    path.write_text(
        '{"message": "Hello"}\n\n{"messages": ["Hi", "Where is my order?"]}\nnope\n'
        '{"messages": [3]}\n{"message": "  "}\n' + "x" * 70_000 + "\n",
        "utf-8",
    )
    done = evaluate("--policy", "planner", "--input", path)
    assert done.exit_code == 1, done.output  # some lines were none
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["line"] for one in told] == [1, 3, 4, 5, 6, 7]
    assert [len(one.get("replies", ())) for one in told] == [1, 2, 0, 0, 0, 0]
    assert all("error" in one for one in told[2:]) and "characters" in told[-1]["error"]
    plain = tmp_path / "said.txt"
    plain.write_text("Hello\n\U0001f389 {nonsense} <tool_call>\n", "utf-8")
    done = evaluate("--policy", "planner", "--input", plain)
    assert done.exit_code == 0 and len(done.stdout.splitlines()) == 2


@pytest.mark.parametrize("message", ["\x00", "a" * 20_000, "<tool_call>{}</tool_call>", "💥"])
def test_any_message_is_answered_or_refused(message):
    done = evaluate("--policy", "planner", "--message", message, "--json")
    assert done.exit_code in (0, 2) and "Traceback" not in done.output
    assert isinstance(done.exception, SystemExit | None)


def test_on_a_terminal_a_person_is_the_customer(runs, monkeypatch, capsys):
    lines = io.StringIO("Hello\nWhere is my order?\n/quit\n")
    monkeypatch.setattr(evaluation.playing, "Screen", lambda: Screen(lines))
    evaluation.talk(evaluation.Judged(policy="planner", env=None, keywords={}, root=runs))
    told = capsys.readouterr().out
    assert told.count("Agent: ") == 2 and "-- The end: unfinished --" in told


@pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal of Unix")
def test_nothing_given_on_a_terminal_is_a_talk(tmp_path):
    import pty

    ours, theirs = pty.openpty()
    done = subprocess.Popen(
        [sys.executable, "-m", "convgym", "evaluate", "--policy", "planner"],
        stdin=theirs, stdout=theirs, stderr=subprocess.STDOUT, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    os.close(theirs)
    os.write(ours, b"Hello\n/quit\n")
    said = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        said += piece
    assert done.wait(60) == 0, said
    assert b"Agent: " in said and b"The end: unfinished" in said


# -- mistakes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (("--policy", "nobody"), "no policy is called 'nobody'"),
        (("--policy", "none/policy.zip"), "there is no policy in"),
        (("--policy", "nowhere:Policy"), "no policy can be made"),
        (("--policy", "json:loads"), "no policy can be made"),
        (("--policy", "collections:Counter"), "it has no predict"),
        (("--policy", "planner", "--env", "Nope-v0"), "'Nope-v0' cannot be made"),
        (("--policy", "planner", "--set", "topic=weather", "--json"), "topic"),
        (("--policy", "planner", "--set", "topic", "--json"), "no key=value"),
        (("--policy", "planner", "--set", "observation=message", "--json"), "by features"),
        (("--policy", "planner", "--split", "tset", "--json"), "tset"),
        (("--policy", "planner", "--episodes", 5000), "the split 'test' has 2000"),
        (("--policy", "planner", "--personas", "nobody", "--episodes", 2), "persona"),
        (("--policy", "planner", "--message", ""), "empty message"),
        (("--policy", "planner", "--message", "x", "--episodes", 3), "give one"),
        (("--policy", "planner", "--input", "none.txt"), "there is no file"),
        (("--policy", "planner", "--env", "ConvGym/Recorded-v0", "--message", "x"), "user=None"),
        (("--policy", "silence", "--env", "ConvGym/Scenarios-v0", "--message", "x"), "no policy"),
        (("--policy", "fractions:Fraction.nothing"), "no policy can be made"),
        (("--policy", "http.client:HTTPConnection"), "no policy can be made"),
        (("--policy", "planner", "--personas", "curious_learner,nobody"), "persona"),
        ((), ""),
    ],
    ids=str,
)
def test_a_mistake_is_one_sentence(given, says):
    done = evaluate(*given)
    assert done.exit_code == 2, done.output
    assert says in done.stderr and "Traceback" not in done.output
    if says:
        assert done.stderr.splitlines()[-1].startswith("convgym: ") and done.stdout == ""


@pytest.mark.parametrize(
    ("policy", "env", "says"),
    [
        ("small", "ConvGym/Sales-v0", "belongs to another domain"),
        ("small", "CartPole-v1", "belongs to another domain"),
        ("convgym.policies.policy:RandomPolicy", "CartPole-v1", "has no action_mask"),
    ],
)
def test_a_policy_of_another_place_is_a_mistake(policy, env, says, runs):
    done = evaluate("--policy", policy, "--runs", runs, "--env", env, "--episodes", 3)
    assert done.exit_code == 2 and says in done.stderr, done.output


def test_a_run_without_a_policy_says_how_it_gets_one(runs):
    (runs / "begun").mkdir()
    (runs / "begun" / "config.yaml").write_bytes((runs / "small" / "config.yaml").read_bytes())
    done = evaluate("--policy", "begun", "--runs", runs, "--episodes", 3)
    assert done.exit_code == 2 and "convgym train --resume --name begun" in done.stderr


def test_a_file_that_is_no_policy_is_refused(tmp_path):
    path = tmp_path / "policy.zip"
    path.write_bytes(b"PK\x05\x06" + bytes(18))  # an empty archive
    done = evaluate("--policy", path, "--episodes", 3)
    assert done.exit_code == 2 and "no policy of any learner" in done.stderr
