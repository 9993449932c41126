"""The command `convgym calibrate`: what it says, what it writes, what it refuses."""

import gzip
import json

import pytest
from recorded import talk
from twin_user import drawn_truth, twin_log
from typer.testing import CliRunner

from convgym.calibration.calibration import Calibration, calibrate
from convgym.calibration.parameters import PARAMETERS
from convgym.cli.main import app
from convgym.data.logs import read_log, write_log

LOG = twin_log(drawn_truth(5), 150, 5)


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """A packed log of 150 conversations, one without a user, and two lines that are none."""
    path = tmp_path_factory.mktemp("logs") / "logs.jsonl.gz"
    write_log(path, [*LOG, talk("nobody", "a:Hello?")])
    with gzip.open(path, "ab") as file:
        file.write(b'{"conversation_id": "broken"\n[1, 2]\n')
    return path


def convgym(*arguments):
    return CliRunner().invoke(app, ["calibrate", *map(str, arguments)])


def test_it_fits_saves_and_says_what_it_found(logs, tmp_path):
    done = convgym("--logs", logs, "--out", tmp_path / "user.npz", "--budget", 0, "--seed", 2)
    assert done.exit_code == 0, done.output
    found = Calibration.load(tmp_path / "user.npz")
    assert found.posterior == calibrate(read_log(logs), seed=2, budget_s=0).posterior
    page = done.stdout
    assert "151 read, 2 skipped, 1 without a user turn; 105 fitted, 45 held out" in page
    assert "method         counts" in page and "polish         none: the counts alone" in page
    assert f"{found.gap_after:.3g} of the fitted user; floor {found.floor:.3g}" in page
    rows = {line.split()[0]: line for line in page.splitlines() if line.startswith("  ")}
    assert all(p.name in rows for p in PARAMETERS)
    assert rows["typo"].endswith("1.00  the log cannot tell")
    assert "cannot tell" not in rows["question"]
    assert "turn_js" in rows and "predictive checks" in page and "response curves" in page
    assert [path.name for path in tmp_path.iterdir()] == ["user.npz"]


def test_faults_and_progress_are_told_apart_from_the_result(logs, tmp_path):
    done = convgym("--logs", logs, "--out", tmp_path / "user.npz", "--budget", 2)
    assert "153 lines, 151 loaded, 2 skipped" in done.stderr
    assert "line 152: broken JSON" in done.stderr and "line 153" in done.stderr
    assert "polish: " in done.stderr and "polish: " not in done.stdout
    assert "settings tried; on an inner part the gap went from" in done.stdout


def test_json_holds_all_of_it_and_nothing_else(logs, tmp_path):
    done = convgym("--logs", logs, "--out", tmp_path / "user.npz", "--budget", 0, "--json")
    told = json.loads(done.stdout)
    found = Calibration.load(tmp_path / "user.npz")
    assert told["logs"]["skipped"] == len(told["logs"]["faults"]) == 2
    assert told["parameters"] == {name: one.to_dict() for name, one in found.posterior.items()}
    assert (told["gap_after"], told["kl_div"]) == (found.gap_after, found.kl_div)
    assert (told["fitted"], told["held_out"], told["polished"]) == (105, 45, {})
    assert {"rows", "checks", "responses", "verdict"} <= set(told["report"])


@pytest.mark.slow
def test_the_gap_report_comes_as_page_and_as_markdown(logs, tmp_path):
    pytest.importorskip("matplotlib")
    page, text = tmp_path / "report.html", tmp_path / "report.md"
    done = convgym(
        "--logs", logs, "--out", tmp_path / "user.npz", "--budget", 0, "--report", page,
        "--markdown", text,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert page.read_text("utf-8").startswith("<!doctype html>")
    assert "| c2st_turn | " in text.read_text("utf-8")
    assert len(list(tmp_path.iterdir())) == 3


def test_too_few_held_out_for_a_report_is_said_and_the_rest_done(tmp_path):
    logs = tmp_path / "logs.jsonl"
    write_log(logs, LOG[:100])
    done = convgym("--logs", logs, "--out", tmp_path / "user.npz", "--budget", 0)
    assert done.exit_code == 0, done.output
    assert "no gap report: it takes 40" in done.stderr
    assert "no verdict under 100" in done.stdout
    refused = convgym(
        "--logs", logs, "--out", tmp_path / "other.npz", "--budget", 0, "--markdown",
        tmp_path / "report.md",
    )  # fmt: skip
    assert refused.exit_code == 2 and "40 or more" in refused.stderr
    assert not (tmp_path / "other.npz").exists() and not (tmp_path / "report.md").exists()


def unlabelled(n):
    return [talk(f"c{i}", f"hello {i}", "a:Where?", f"in hall {i}", "bye") for i in range(n)]


@pytest.mark.parametrize(
    ("talks", "more", "sentence"),
    [
        (unlabelled(30), (), "20 or more of each"),
        ([talk("c", "a:Hello?")], (), "no user says anything"),
        (unlabelled(90), ("--method", "counts"), "mostly unlabelled"),
        (unlabelled(90), ("--holdout", "1.5"), "above 0 and below 1"),
        (unlabelled(90), ("--encoder", "none"), "it takes 'hashed'"),
        (unlabelled(90), ("--budget", "-1"), "it takes seconds, from 0"),
        (LOG, ("--out", "{folder}"), "is a folder; name a file"),
        (LOG, ("--out", "{folder}/nowhere/user.npz"), "no folder that may be written"),
        (LOG, ("--report", "{folder}/nowhere/report.html"), "no folder that may be written"),
        (LOG, ("--out", "{logs}"), "name one file twice"),
        (LOG, ("--logs", "{folder}/none.jsonl"), "there is no file"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_sentence(talks, more, sentence, tmp_path):
    logs, out = tmp_path / "logs.jsonl", tmp_path / "user.npz"
    write_log(logs, talks)
    before = logs.read_bytes()
    more = [one.format(folder=tmp_path, logs=logs) for one in more]
    done = convgym("--logs", logs, "--out", out, "--budget", 0, *more)
    assert done.exit_code == 2, done.output
    assert sentence in done.stderr.splitlines()[-1]
    assert done.stderr.splitlines()[-1].startswith("convgym: ")
    assert done.stdout == ""
    assert [path.name for path in tmp_path.iterdir()] == ["logs.jsonl"]
    assert logs.read_bytes() == before
