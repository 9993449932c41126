"""`convgym train`: it learns, keeps whole runs, goes on after a kill, and refuses in a sentence."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from filelock import FileLock
from typer.testing import CliRunner

from convgym.cli.learners import entries, learner_called
from convgym.cli.main import app
from convgym.cli.named_folder import is_name
from convgym.cli.run_folder import MetricsLog, RunFolder, read_metrics
from convgym.cli.training import Progress
from convgym.cli.yaml_text import read_yaml

ROOT = Path(__file__).parents[1]
QUICK = ("--stub", "--steps", 1_000, "--set", "evaluation.episodes=4")
ROLLOUT = {"n_envs": 2, "n_steps": 16, "batch_size": 16}
REPLAY = {"n_envs": 2, "learning_starts": 32, "buffer_size": 500}
EXTRAS = {"offline": "torch", "sb3": "sb3_contrib", "llm": "transformers"}
TALKERS = {name for name in entries() if learner_called(name).extra == "llm"}
"""Language models: their whole runs are in test_cli_llm."""
TINY = {
    "ppo": ROLLOUT,
    "maskable_ppo": ROLLOUT,
    "recurrent_ppo": ROLLOUT,
    "trpo": ROLLOUT,
    "a2c": {"n_envs": 2, "n_steps": 8},
    "dqn": REPLAY,
    "qr_dqn": REPLAY,
}


def convgym(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def train(folder, *arguments):
    return convgym("train", "--runs", folder / "runs", *arguments)


def files(place):
    return sorted(path.name for path in place.iterdir() if not path.name.startswith("."))


ALL = ["checkpoint.zip", "config.yaml", "metrics.jsonl", "policy.zip", "report.json"]


def test_a_run_is_whole(tmp_path):
    done = train(tmp_path, *QUICK)
    assert done.exit_code == 0, done.output
    place = tmp_path / "runs" / "stub-customer-service-0"
    assert files(place) == ALL
    report = json.loads((place / "report.json").read_text())
    assert report["steps"] == 1_000 and report["score"]["episodes"] == 4
    rows = read_metrics(place / "metrics.jsonl")
    assert [row["step"] for row in rows] == sorted({row["step"] for row in rows})
    assert "random" in done.stdout and "tabular" in done.stdout
    assert f"convgym evaluate --policy {place}" in done.stdout


def test_the_saved_configuration_makes_the_same_run(tmp_path):
    assert train(tmp_path, *QUICK, "--name", "one", "--seed", 3).exit_code == 0
    one = tmp_path / "runs" / "one"
    again = train(tmp_path, "--config", one / "config.yaml", "--name", "two")
    assert again.exit_code == 0, again.output
    two = tmp_path / "runs" / "two"
    assert (one / "policy.zip").read_bytes() == (two / "policy.zip").read_bytes()
    assert (one / "metrics.jsonl").read_bytes() == (two / "metrics.jsonl").read_bytes()
    assert read_yaml(one / "config.yaml") | {"name": "two"} == read_yaml(two / "config.yaml")


def test_its_reward_rises(tmp_path):
    """The score after learning and that of random acts: their 95 % intervals lie apart."""
    done = train(tmp_path, "--stub", "--steps", 16_000, "--seed", 3, "--name", "it",
                 "--set", "evaluation.episodes=300")  # fmt: skip
    assert done.exit_code == 0, done.output
    report = json.loads((tmp_path / "runs/it/report.json").read_text())
    assert report["random"]["return_interval"][1] < 0.01 < report["score"]["return_interval"][0]
    rows = read_metrics(tmp_path / "runs/it/metrics.jsonl")
    assert sum(r["return"] for r in rows[-5:]) > 2 * sum(r["return"] for r in rows[:5])


def test_a_dry_run_says_what_would_be_done_and_writes_nothing(tmp_path):
    done = train(tmp_path, *QUICK, "--dry-run", "--set", "learner.learning_rate=0.25")
    assert done.exit_code == 0, done.output
    assert "learning_rate: 0.25" in done.stdout and "nothing was learnt or written" in done.stdout
    assert "would talk in ConvGym/CustomerService-v0" in done.stdout
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("name", sorted(entries()))
def test_every_learner_checks_without_learning(name, tmp_path):
    extra = learner_called(name).extra
    pytest.importorskip(EXTRAS.get(extra, "numpy"))
    given = ("--dataset", "convgym/customer-service/sample-v0") if extra == "offline" else ()
    done = train(tmp_path, "--algorithm", name, *given, "--dry-run")
    assert done.exit_code == 0, done.output
    assert f"algorithm: {name}" in done.stdout and "# would" in done.stdout


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ((), "nothing says what is to learn"),
        (("--algorithm", "mask_ppo"), "did you mean 'maskable_ppo'"),
        (("--stub", "--algorithm", "cql"), "give one"),
        (("--stub", "--env", "Nope-v0"), "'Nope-v0' cannot be made"),
        (("--stub", "--env", "CartPole-v1"), "named cells"),
        (("--stub", "--dataset", "convgym/sales/mixed-v0"), "takes no dataset"),
        (("--stub", "--set", "topic=return"), "there is no 'topic'"),
        (("--stub", "--set", "env_keywords.topic=weather"), "topic"),
        (("--stub", "--set", "steps"), "no key=value"),
        (("--stub", "--set", "learner.lerning_rate=1"), "did you mean learner.learning_rate"),
        (("--stub", "--name", "a/b"), "a run's name"),
        (("--stub", "--device", "cuda"), "on the cpu"),
        (("--config", "none.yaml"), "cannot be read"),
        (("--resume",), "no run in"),
        (("--resume", "--name", "none"), "there is no run 'none'"),
        (("--steps", "0"), ""),
    ],
    ids=str,
)
def test_a_mistake_is_one_sentence_and_leaves_nothing(given, says, tmp_path):
    done = train(tmp_path, *given)
    assert done.exit_code == 2, done.output
    assert says in done.stderr and "Traceback" not in done.output
    if says:
        assert done.stderr.startswith("convgym: ") and done.stderr.count("\n") == 1
    runs = tmp_path / "runs"
    assert not runs.exists() or not list(runs.iterdir())


def test_debug_shows_the_traceback(tmp_path):
    plain = train(tmp_path, "--stub", "--env", "Nope-v0")
    behind = train(tmp_path, "--stub", "--env", "Nope-v0", "--debug")
    before = convgym("--debug", "train", "--runs", tmp_path, "--stub", "--env", "Nope-v0")
    assert "Traceback" not in plain.stderr
    for done in (behind, before):
        assert "Traceback" in done.stderr and "NameNotFound" in done.stderr
        assert done.exit_code == 2 and done.stderr.splitlines()[-1] == plain.stderr.strip()
    assert "Traceback" not in train(tmp_path, "--stub", "--env", "Nope-v0").stderr  # forgotten


def test_what_nobody_foresaw_is_told_and_ends_with_1(tmp_path, monkeypatch):
    def breaks(*_):
        raise ZeroDivisionError("by\nnothing")

    monkeypatch.setattr("convgym.cli.training.resolved", breaks)
    done = train(tmp_path, "--stub")
    assert done.exit_code == 1 and "Traceback" not in done.output
    assert done.stderr == (
        "convgym: ZeroDivisionError: by nothing; this should not happen. Run it again with "
        "--debug to see where, and report it\n"
    )


def test_names_of_runs(tmp_path):
    assert train(tmp_path, *QUICK, "--name", "mine").exit_code == 0
    taken = train(tmp_path, *QUICK, "--name", "mine")
    assert taken.exit_code == 2 and "a run in" in taken.stderr and "--resume" in taken.stderr
    for _ in range(2):
        assert train(tmp_path, *QUICK).exit_code == 0
    names = sorted(path.name for path in (tmp_path / "runs").iterdir())
    assert names == ["mine", "stub-customer-service-0", "stub-customer-service-0-2"]
    assert [is_name(name) for name in ("a", "a.b-c_1", "", ".a", "-a", "a.", "a/b", "é")] == [
        True, True, False, False, False, False, False, False,
    ]  # fmt: skip


def test_a_finished_run_goes_on_with_more_steps(tmp_path):
    assert train(tmp_path, *QUICK, "--name", "a").exit_code == 0
    done = train(tmp_path, "--resume", "--name", "a")
    assert done.exit_code == 2 and "give more with --steps" in done.stderr
    other = train(tmp_path, "--resume", "--name", "a", "--steps", 2000, "--seed", 1)
    assert other.exit_code == 2 and "begun with seed=0, and now it is 1" in other.stderr
    more = train(tmp_path, "--resume", "--name", "a", "--steps", 2000)
    assert more.exit_code == 0, more.output
    rows = read_metrics(tmp_path / "runs/a/metrics.jsonl")
    assert rows[-1]["step"] >= 2000 and rows[0]["step"] < 200
    assert json.loads((tmp_path / "runs/a/report.json").read_text())["steps"] == 2000


def test_a_finished_run_with_more_to_do_is_not_finished(tmp_path, monkeypatch):
    """A repaired bug: interrupted, it stood there as finished and could not be gone on with."""
    assert train(tmp_path, *QUICK, "--name", "a").exit_code == 0

    def broken_off(*given, **keywords):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Progress, "__call__", broken_off)
        stopped = train(tmp_path, "--resume", "--name", "a", "--steps", 2000)
    runs = tmp_path / "runs"
    assert stopped.exit_code == 1
    assert f"convgym train --resume --name a --runs {runs}\n" in stopped.stderr
    folder = RunFolder(runs / "a")
    assert not folder.finished and folder.policy.is_file()
    assert train(tmp_path, "--resume").exit_code == 0 and folder.finished
    assert json.loads(folder.report.read_text())["steps"] == 2000


def test_a_run_is_not_said_to_be_shorter_than_it_is(tmp_path):
    assert train(tmp_path, *QUICK, "--steps", 3000, "--name", "a").exit_code == 0
    (tmp_path / "runs/a/report.json").unlink()
    done = train(tmp_path, "--resume", "--name", "a", "--steps", 1000)
    assert done.exit_code == 2 and "steps already, and --steps 1,000" in done.stderr


def test_a_run_goes_on_with_the_learner_that_it_began_with(tmp_path):
    assert train(tmp_path, *QUICK, "--name", "a").exit_code == 0
    done = train(tmp_path, "--resume", "--name", "a", "--algorithm", "cql")
    assert done.exit_code == 2 and "begun with algorithm='stub', and now it is 'cql'" in done.stderr


def test_a_place_where_nothing_can_be_kept_is_refused_beforehand(tmp_path):
    (tmp_path / "file").write_text("mine")
    for runs in ("file", "file/deeper"):
        for more in ((), ("--dry-run",)):
            done = convgym("train", *QUICK, *more, "--runs", tmp_path / runs)
            assert done.exit_code == 2 and "is no folder that can be written to" in done.stderr
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


def test_two_do_not_learn_in_one_folder(tmp_path):
    assert train(tmp_path, *QUICK, "--name", "a").exit_code == 0
    with FileLock(tmp_path / "runs/a/.lock"):
        done = train(tmp_path, "--resume", "--name", "a", "--steps", 2000)
    assert done.exit_code == 2 and "another process is learning" in done.stderr


def shell(folder, *arguments, block=()):
    """A process of its own, in which the packages `block` cannot be imported."""
    code = (
        # A shell's background jobs, and so what they start, ignore an interrupt.
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"sys.modules.update(dict.fromkeys({list(block)!r}))\n"
        "from convgym.cli.main import app; app(prog_name='convgym')"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_killed_and_resumed_it_is_the_run_that_was_never_killed(tmp_path):
    options = ("--stub", "--steps", 12_000, "--set", "checkpoint_every=500",
               "--set", "evaluation.episodes=4")  # fmt: skip
    runner = shell(tmp_path, "train", *options, "--name", "killed")
    folder = RunFolder(tmp_path / "runs" / "killed")
    limit = time.monotonic() + 60
    while len(read_metrics(folder.metrics)) < 5 and time.monotonic() < limit:
        time.sleep(0.01)
    runner.send_signal(signal.SIGKILL)
    runner.communicate()
    assert folder.checkpoint.is_file() and not folder.finished
    with folder.metrics.open("a") as file:
        file.write('{"step": 99')  # as if it had been killed while writing
    done = train(tmp_path, "--resume")
    assert done.exit_code == 0, done.output
    assert train(tmp_path, *options, "--name", "whole").exit_code == 0
    whole = RunFolder(tmp_path / "runs" / "whole")
    assert folder.metrics.read_bytes() == whole.metrics.read_bytes()
    assert folder.policy.read_bytes() == whole.policy.read_bytes()
    assert files(folder.path) == files(whole.path) == ALL


def test_interrupted_it_says_how_to_go_on(tmp_path):
    runner = shell(tmp_path, "train", "--stub", "--steps", 500_000, "--name", "long")
    metrics = tmp_path / "runs" / "long" / "metrics.jsonl"
    limit = time.monotonic() + 60
    while not read_metrics(metrics) and time.monotonic() < limit:
        time.sleep(0.01)
    while runner.poll() is None:  # compiled code may swallow one of them
        runner.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            runner.wait(10)
    _, told = runner.communicate(timeout=60)
    assert runner.returncode == 1, told
    assert "convgym train --resume --name long" in told and "Traceback" not in told


def test_without_torch_the_stub_learns_and_the_others_name_their_extra(tmp_path):
    block = ("torch", "stable_baselines3", "sb3_contrib", "d3rlpy", "transformers")
    runner = shell(tmp_path, "train", *QUICK, block=block)
    told = runner.communicate(timeout=120)
    assert runner.returncode == 0, told
    assert (tmp_path / "runs/stub-customer-service-0/report.json").is_file()
    for algorithm, extra in (("cql", "offline"), ("ppo", "sb3"), ("grpo", "llm")):
        runner = shell(tmp_path, "train", "--algorithm", algorithm, block=block)
        _, told = runner.communicate(timeout=120)
        assert runner.returncode == 1 and told.count("\n") == 1
        assert f'pip install "convgym[{extra}]"' in told


# -- metrics ---------------------------------------------------------------------------------------


def test_the_log_has_no_step_twice_and_none_that_is_torn(tmp_path):
    path = tmp_path / "metrics.jsonl"
    log = MetricsLog(path)
    for step in (1, 2, 3, 4):
        log({"step": step, "x": step * 10})
    with path.open("a") as file:
        file.write('{"step": 5, "x"')
    again = MetricsLog(path)
    again({"step": 1, "x": 10})  # told again
    again({"step": 3, "x": 31})  # learnt again, from an older checkpoint
    again({"step": 5, "x": 50})
    assert [(row["step"], row["x"]) for row in read_metrics(path)] == [
        (1, 10), (2, 20), (3, 31), (4, 40), (5, 50),
    ]  # fmt: skip
    assert path.read_text().endswith("\n") and len(path.read_text().splitlines()) == 5


# -- the other learners ----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(entries()) - {"stub"} - TALKERS))
def test_every_starter_runs_goes_on_and_is_scored(name, tmp_path):
    extra = learner_called(name).extra
    pytest.importorskip(EXTRAS[extra])
    path = tmp_path / "config.yaml"
    given = ("--dataset", "convgym/customer-service/sample-v0") if extra == "offline" else ()
    assert convgym("init", "--path", path, "--algorithm", name, *given).exit_code == 0
    settings = [f"learner.{key}={value}" for key, value in TINY.get(name, {}).items()]
    settings += ["evaluation.episodes=4", "checkpoint_every=64", "evaluation.every=64"]
    options = [part for setting in settings for part in ("--set", setting)]
    done = train(tmp_path, "--config", path, "--steps", 128, "--name", "it", *options)
    assert done.exit_code == 0, done.output
    assert files(tmp_path / "runs/it") == ALL
    more = train(tmp_path, "--resume", "--name", "it", "--steps", 192)
    assert more.exit_code == 0, more.output
    rows = read_metrics(tmp_path / "runs/it/metrics.jsonl")
    assert rows[-1]["step"] >= 192 and "validation" in rows[-1]
    judged = convgym("evaluate", "--policy", tmp_path / "runs/it", "--episodes", 4, "--users", 1,
                     "--personas", "none")  # fmt: skip
    assert judged.exit_code == 0, judged.output
    said = convgym("evaluate", "--policy", tmp_path / "runs/it/policy.zip", "--message", "Hello")
    assert said.exit_code == 0, said.output
