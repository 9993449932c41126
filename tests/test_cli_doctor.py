"""`convgym doctor`, `list` and `show`: what is told of an installation, sound and broken."""

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from typer.testing import CliRunner

import convgym as package
from convgym.cli import doctor, requirements
from convgym.cli.learners import entries
from convgym.cli.main import app
from convgym.users.persona import BUILT_IN

ROOT = Path(__file__).parents[1]


def convgym(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def quick(monkeypatch, told=None):
    """Without asking torch in a process of its own."""
    monkeypatch.setattr(doctor, "asked_torch", lambda: told)


# -- doctor ----------------------------------------------------------------------------------------


def test_a_sound_installation(monkeypatch):
    quick(monkeypatch, {"version": "2.13", "threads": 1, "gpus": [["Big", 80.0]]})
    done = convgym("doctor")
    assert done.exit_code == 0, done.output
    for words in (
        "python",
        "gymnasium",
        "minari root",
        "memory",
        "Big (80.0 GiB)",
        "learners",
        "test-0 in",
        "Everything that is installed works.",
    ):
        assert words in done.stdout
    told = json.loads(convgym("doctor", "--json").stdout)
    assert told["sound"] and {one["state"] for one in told["findings"]} <= {
        "fine", "missing", "warning",
    }  # fmt: skip


def test_what_is_missing_has_its_cure(monkeypatch):
    quick(monkeypatch)
    real = metadata.version

    def version(name):
        if name in ("ray", "fastapi"):
            raise metadata.PackageNotFoundError(name)
        return "0.1" if name == "optuna" else real(name)

    monkeypatch.setattr(doctor.metadata, "version", version)
    found = {one.about: one for one in doctor.examine()}
    assert found["[ray]"].state == "missing" and found["[ray]"].cure == 'pip install "convgym[ray]"'
    assert "fastapi is not installed" in found["[serve]"].found
    assert found["gpu"].state in ("fine", "missing")
    assert convgym("doctor").exit_code == 0  # an extra is nobody's duty


@pytest.mark.parametrize("broken", ["package", "old", "torch", "learner", "raises"])
def test_a_broken_installation_ends_with_1_and_its_cure(broken, monkeypatch):
    quick(monkeypatch, {"error": "import torch fails: OSError"} if broken == "torch" else None)
    real = metadata.version
    if broken in ("package", "old"):

        def version(name):
            if name == "pettingzoo" and broken == "package":
                raise metadata.PackageNotFoundError(name)
            return "0.9" if name == "gymnasium" and broken == "old" else real(name)

        monkeypatch.setattr(doctor.metadata, "version", version)
    if broken == "learner":
        entry = metadata.EntryPoint("cql", "nowhere.at_all:cql", "convgym.learners")
        monkeypatch.setattr("convgym.cli.learners.entries", lambda: {"cql": entry})
    if broken == "raises":
        monkeypatch.setattr("convgym.evaluation.rollout.play", lambda *_, **__: 1 / 0)
    done = convgym("doctor", "--json")
    assert done.exit_code == 1, done.output
    told = json.loads(done.stdout)
    amiss = [one for one in told["findings"] if one["state"] == "broken"]
    assert not told["sound"] and len(amiss) == 1 and amiss[0]["cure"]
    page = convgym("doctor").stdout
    assert page.splitlines()[-1].startswith("1 broken") and amiss[0]["cure"] in page


def test_a_torch_that_crashes_does_not_take_the_doctor_along(tmp_path, monkeypatch):
    monkeypatch.setattr(doctor.metadata, "version", lambda name: "2.13")
    crash = tmp_path / "python"
    crash.write_text("#!/bin/sh\necho 'no libtorch.so' >&2\nexit 3\n")
    crash.chmod(0o755)
    assert doctor.asked_torch(str(crash)) == {"error": "import torch fails: no libtorch.so"}


@pytest.mark.parametrize(
    ("version", "bounds", "fits"),
    [
        ("1.4.0", ">=1.0,<2", True),
        ("2.0", ">=1.0,<2", False),
        ("0.61", ">=0.61", True),
        ("0.60.9", ">=0.61", False),
        ("2.8.1", "==2.8.1", True),
        ("2.8", "==2.8.1", False),
        ("2.13.0+cpu", ">=2.8", True),
        ("1.10", ">1.9", True),
        ("1.0", "<=1.0.0", True),
        ("what", "", True),
    ],
)
def test_versions_and_bounds(version, bounds, fits):
    assert requirements.within(version, bounds) is fits


def test_needs_are_those_of_pyproject():
    needs = requirements.needs()
    assert needs[""]["gymnasium"] == ">=1.0,<2" and "pyyaml" in needs[""]
    assert needs["sb3"] == {"stable-baselines3": ">=2.9", "sb3-contrib": ">=2.9"}
    assert {"torch", "trl"} <= set(needs["trl"])  # an extra of an extra


# -- list and show ---------------------------------------------------------------------------------


def test_everything_is_listed():
    told = json.loads(convgym("list", "--json").stdout)
    assert set(told["environments"]) == set(package.ENVIRONMENTS)
    assert set(told["personas"]) == set(BUILT_IN) and set(told["learners"]) == set(entries())
    assert len(told["datasets"]) >= 36 and "planner" in told["policies"]
    page = convgym("list", "learners").stdout
    assert page.startswith("learners") and "stub" in page and "environments" not in page
    wrong = convgym("list", "weather")
    assert wrong.exit_code == 2 and "there are environments, datasets" in wrong.stderr


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ConvGym/Sales-v0", "## Observation"),
        ("convgym/customer-service/sample-v0", "convgym/customer-service/sample-v0"),
        ("sales", "65 acts"),
        ("busy_professional", "patience"),
        ("stub", "learner.learning_rate: float = 1.0"),
        ("planner", "scripted agent of customer-service"),
        ("silence", "null policy"),
    ],
)
def test_what_is_known_of_one(name, words):
    done = convgym("show", name)
    assert done.exit_code == 0 and words in done.stdout, done.output


def test_a_learner_is_shown_with_what_was_tuned():
    pytest.importorskip("torch")
    told = convgym("show", "cql").stdout
    assert "learner.bc_weight: float = 0.3" in told and "conservative: {'learner'" in told


def test_what_there_is_not_may_have_been_meant():
    done = convgym("show", "ConvGym/Salse-v0")
    assert done.exit_code == 2 and "did you mean ConvGym/Sales-v0?" in done.stderr


def test_runs_are_listed_and_shown(tmp_path):
    given = ("--stub", "--steps", 1000, "--set", "evaluation.episodes=3", "--name", "mine")
    assert convgym("train", "--runs", tmp_path, *given).exit_code == 0
    assert "finished, 1,0" in convgym("list", "runs", "--runs", tmp_path).stdout
    told = convgym("show", "mine", "--runs", tmp_path).stdout
    assert "algorithm: stub" in told and '"return_interval"' in told


# -- in a process of its own -----------------------------------------------------------------------


def test_the_commands_start_in_a_process_of_their_own(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "convgym", "--help"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for command in ("version", "doctor", "list", "show", "init", "train", "evaluate", "play"):
        assert f"\n  {command} " in done.stdout


def test_help_imports_nothing_heavy(tmp_path):
    code = (
        "import sys\nfrom convgym.cli.main import app\n"
        "app(['--help'], standalone_mode=False)\n"
        "print(*(n for n in ('torch', 'minari', 'yaml', 'numba', 'trainers') if n in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == ""
