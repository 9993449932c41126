"""The command `convgym play`, with what somebody types piped in."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from desk_driven import RECORDS, shape, task_like
from typer.testing import CliRunner

from convgym.cli.main import app

ROOT = Path(__file__).parents[1]


def convgym(*arguments, typed=""):
    return CliRunner().invoke(app, [*arguments], input=typed)


def status_task():
    """A task whose customer knows the order number and is known by e-mail address alone."""
    return task_like(
        lambda task: shape(task) == [("status", "allow", "")]
        and (task.oracle_length, task.requests[0].knowledge, task.faults) == (6, 0, 0),
        "train",
    )


def said_of(task):
    """(e-mail, order number, status, date) of what a status task is about."""
    row = task.requests[0].row
    texts = (RECORDS.text("order", row, field) for field in ("order", "status", "eta"))
    return (RECORDS.text("", task.account, "email"), *texts)


def test_version():
    done = convgym("version")
    assert done.exit_code == 0 and done.output.startswith("convgym ")


def test_as_the_agent_from_the_first_word_to_the_grade():
    task = status_task()
    email, order, status, date = said_of(task)
    lines = [
        f"/call find_customer email={email}",
        f"/call get_order order={order}",
        "How can I help you?",
        f"Your order {order} is {status}.",
        f"The date of your order {order} is {date}.",
        *["Is there anything else?"] * 6,
    ]
    done = convgym("play", "--task-id", task.task_id, "--persona", "patient_expert",
                   typed="\n".join(lines))
    assert done.exit_code == 0, done.output
    assert "Tool: {" in done.output and "Customer: " in done.output
    assert "-- The end: success --" in done.output
    assert "Right would be: The agent tells" in done.output
    assert order in done.output.split("-- The end:")[1]


def test_the_agents_commands():
    typed = "/help\n/policy\n/tools\n/view\n/nonsense\n/call 'broken\n/call x y\n/quit\n"
    done = convgym("play", "--seed", "3", typed=typed)
    assert done.exit_code == 0
    for words in ("You are a support agent", '"find_customer"', '"heard"', "There is no /nonsense",
                  "That is no call", "-- The end: unfinished --", "Agent turns: 0"):
        assert words in done.output


def test_what_the_customer_wants_is_not_shown_before_the_end():
    done = convgym("play", "--seed", "3", typed="Hello, what is your e-mail address?\n/view\n")
    before, after = done.output.split("-- The end:")
    assert "Task train-" in after and "Task train-" not in before


def test_as_the_user_a_person_is_briefed_and_understood():
    task = status_task()
    email, order, *_ = said_of(task)
    typed = "\n".join(
        [
            "/why",
            "Hi, where is my order?",
            "/why",
            "",
            "/role",
            f"My e-mail is {email}.",
            f"The order number is {order}.",
            "OK.",
            "Thanks, goodbye.",
        ]
    )
    done = convgym("play", "--as", "user", "--task-id", task.task_id, "--agent", "oracle",
                   typed=typed)
    assert done.exit_code == 0, done.output
    assert done.output.startswith(f"You are {RECORDS.text('', task.account, 'name')}, a customer")
    assert "You have not said anything yet." in done.output
    assert "request_status" in done.output
    assert "Never" not in done.output and "Rules" not in done.output  # those are for models
    assert "-- The end: success --" in done.output


@pytest.mark.parametrize("side", ["agent", "user"])
@pytest.mark.parametrize("typed", ["", "\n", "hello", "/quit\n", "\x00\x1b[2J\n"])
def test_the_end_of_the_input_ends_it_cleanly(side, typed):
    done = convgym("play", "--as", side, "--seed", "11", typed=typed)
    assert done.exit_code == 0 and done.exception is None
    assert "-- The end: unfinished --" in done.output


@pytest.mark.parametrize(
    "arguments",
    [
        ["Nope-v0"],
        ["--persona", "nobody"],
        ["--persona", "{broken"],
        ["--persona", '{"charm": 1}'],
        ["--task-id", "foo-3"],
        ["--difficulty", "3"],
        ["--split", "x"],
        ["--topic", "x"],
        ["--seed", "-1"],
        ["--as", "both"],
        ["--agent", "oracle"],
        ["--as", "user", "--agent", "nobody"],
        ["--unknown"],
    ],
    ids=" ".join,
)
def test_a_mistake_is_one_sentence_and_exit_code_2(arguments):
    done = convgym("play", *arguments)
    assert done.exit_code == 2
    assert "Traceback" not in done.output and isinstance(done.exception, SystemExit)
    assert len([line for line in done.output.splitlines() if line]) <= 4


def test_as_a_module_with_bytes_that_are_no_text():
    done = subprocess.run(
        [sys.executable, "-m", "convgym", "play", "--seed", "3"],
        input=b"caf\xff\xe9 \xf0\x9f\x8e\x89\n/quit\n",
        capture_output=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "ascii"},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert b"The end: unfinished" in done.stdout and not done.stderr
