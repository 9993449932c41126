"""scripts/tutorials: each lesson can be read to its end, and what it says on the way holds."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from recorded import talk

from convgym.data.logs import write_log

ROOT = Path(__file__).parents[1]
LESSONS = ROOT / "scripts" / "tutorials"
NAMES = ("researcher", "team_with_logs", "llm_engineer")


def lesson(name):
    return runpy.run_path(str(LESSONS / f"{name}.py"))["main"]


@pytest.fixture(autouse=True)
def minari_root(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "elsewhere"))


def test_there_is_one_for_each_reader():
    assert sorted(path.stem for path in LESSONS.glob("*.py")) == sorted(NAMES)


def test_the_researcher_gets_the_same_run_twice(capsys):
    pytest.importorskip("sb3_contrib", reason="needs the extra sb3")
    lesson("researcher")(["--smallest"])
    said = capsys.readouterr().out
    assert [f"== {part}" in said for part in ("1 ", "2 ", "3 ", "4, 5 ", "6 ")] == [True] * 5
    assert said.count("n=10") == 3 + 1 + 2 + 1  # scripts, plain PPO, seeds, once more
    assert "oracle                       success 1.000" in said
    assert said.endswith("identical\n")


def test_the_team_gets_from_logs_to_a_policy_and_a_customer(tmp_path, capsys):
    pytest.importorskip("torch", reason="needs the extra offline")
    pytest.importorskip("scipy", reason="needs the extra calibration")
    pytest.importorskip("matplotlib", reason="needs the extra report")
    out = tmp_path / "team"
    assert lesson("team_with_logs")(["--smallest", "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert [f"== {part}" in said for part in ("1, 2 ", "3 ", "4 ", "5 ", "6 ", "7 ")] == [True] * 6
    assert "| conversations | 150 |" in said and "No verdict: 45 conversations" in said
    files = {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
    assert {"logs.jsonl", "worth.html", "user.npz", "policy/policy.zip"} <= files
    assert (out / "minari" / "team" / "desk-v0").is_dir()
    page = (out / "worth.html").read_text("utf-8")
    assert page.count("<svg") == 1 and "the clone" in page and "a step to cql" in page


def test_logs_of_ones_own_are_read_and_bad_lines_named(tmp_path, capsys):
    pytest.importorskip("torch", reason="needs the extra offline")
    log = tmp_path / "mine.jsonl"
    write_log(log, [talk(str(n), "hi", "a:ho", reward=1.0) for n in range(9)])
    log.write_text(log.read_text("utf-8") + "this is no JSON\n", "utf-8")
    assert lesson("team_with_logs")(["--logs", str(log), "--out", str(tmp_path / "out")]) == 1
    said = capsys.readouterr()
    assert "line 10" in said.out and said.err.startswith("team_with_logs: ")
    assert said.err.count("\n") == 1


def test_the_engineer_learns_evaluates_and_saves(tmp_path, capsys):
    pytest.importorskip("transformers", reason="needs the extra llm")
    out = tmp_path / "engineer"
    assert lesson("llm_engineer")(["--smallest", "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert [f"== {part}" in said for part in "123456"] == [True] * 6
    assert said.count("n=4") == 6
    assert {path.name for path in out.iterdir()} == {"policy.zip", "run.safetensors"}
    assert "convgym serve" in said

    from convgym.cli.policies import saved_policy

    assert saved_policy(str(out / "policy.zip"), tmp_path).name == "language model"


@pytest.mark.parametrize("name", NAMES)
def test_each_says_what_it_is_without_its_extras(name):
    """`--help` needs no learner: who lacks an extra can still read what the lesson is."""
    code = (
        "import runpy, sys\n"
        "sys.modules.update(dict.fromkeys(('torch', 'transformers', 'sb3_contrib', 'd3rlpy')))\n"
        f"sys.argv = ['{name}.py', '--help']\n"
        f"runpy.run_path({str(LESSONS / f'{name}.py')!r}, run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "--smallest" in done.stdout and "from top to bottom" in done.stdout
