"""`convgym play` with every registered id, as the agent and as the user."""

import json

import pytest
from driven import ENVIRONMENTS, IDS, NEEDED, bare, domain_of
from typer.testing import CliRunner

from convgym.cli.main import app
from convgym.envs.conversation_env import ConversationEnv
from convgym.policies.roster import ladder

HAVE_A_ROLE = [one for one in IDS if type(bare(one)).make_role != ConversationEnv.make_role]


def convgym(environment_id, *arguments, typed=""):
    more = [part for name, value in NEEDED.get(environment_id, {}).items()
            for part in ("--with", f"{name}={value}")]  # fmt: skip
    return CliRunner().invoke(app, ["play", environment_id, *more, *arguments], input=typed)


@pytest.mark.parametrize("environment_id", ENVIRONMENTS)
def test_as_the_agent(environment_id):
    typed = "/policy\n/tools\n/view\n/call 'broken\nHello, how can I help you?\n/quit\n"
    done = convgym(environment_id, "--seed", "4", typed=typed)
    assert done.exit_code == 0, done.output
    assert done.output.count("Customer: ") == 2
    assert "That is no call; one is: /call " in done.output
    assert "-- The end: unfinished --" in done.output
    assert "Task " in done.output.split("-- The end:")[1]


@pytest.mark.parametrize("environment_id", HAVE_A_ROLE)
@pytest.mark.parametrize("agent", ["oracle", "random"])
def test_as_the_user_of_a_scripted_agent(environment_id, agent):
    typed = "Hello.\n/why\n/role\nI do not know.\n/quit\n"
    done = convgym(environment_id, "--as", "user", "--agent", agent, "--seed", "4", typed=typed)
    assert done.exit_code == 0, done.output
    assert done.output.startswith("You are ")
    assert "Agent: " in done.output and "-- The end: " in done.output


@pytest.mark.parametrize("environment_id", ENVIRONMENTS)
def test_a_user_that_nobody_can_play_is_one_sentence(environment_id):
    done = convgym(environment_id, "--as", "user", "--agent", "nobody")
    assert done.exit_code == 2 and len(done.output.splitlines()) == 1
    if environment_id in HAVE_A_ROLE:
        agents = ", ".join(ladder(domain_of(environment_id)))
        assert done.output.endswith(f"no agent is called 'nobody'; there are {agents}\n")
    else:
        assert f"the user of {environment_id} cannot be played" in done.output


def test_the_user_of_several_requests_reads_which_one_the_chat_is_about():
    done = convgym(
        "ConvGym/CustomerService-v0", "--as", "user", "--task-id", "test_compositional-1",
        typed="Hello.\n/quit\n",
    )  # fmt: skip
    assert "Where you are\nThe chat is about request 1 of " in done.output


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("folder", "is no name=value"),
        ("=x", "is no name=value"),
        ("two words=x", "is no name=value"),
        ("mood=good", "takes no 'mood'"),
        ("max_turns=1", "max_turns=1"),
        ("discount=0", "discount=0"),
    ],
)
def test_further_keywords_are_checked(given, problem):
    done = convgym("ConvGym/CustomerService-v0", "--with", given)
    assert done.exit_code == 2 and problem in done.output
    assert len(done.output.splitlines()) == 1


def test_own_scenarios_from_a_file(tmp_path):
    path = tmp_path / "mine.jsonl"
    record = {"id": "hall", "context": "A dark hall.", "user_responses": ["My lamp is broken."]}
    path.write_text(json.dumps(record) + "\n", encoding="utf-8")
    done = convgym("ConvGym/Scenarios-v0", "--with", f"scenarios={path}", typed="Oh!\n")
    assert done.exit_code == 0
    before, after = done.output.split("-- The end:")
    assert "lamp" in before and "A dark hall." not in before
    assert "Task hall:" in after and "context: A dark hall." in after
