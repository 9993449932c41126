"""Searches: they find better options, lose nothing when killed, and say every mistake."""

import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("optuna", reason="tuning needs the extra tune")

from tuning_doors import ID, STEPS, TuningDoors
from typer.testing import CliRunner

from convgym.cli.main import app
from convgym.cli.yaml_text import read_yaml
from convgym.errors import InvalidConfiguration, MissingExtra
from convgym.evaluation.scores import score
from trainers.tabular import TabularConfig, TabularLearner
from trainers.tuning import quick_hpo
from trainers.tuning.search_report import best_of, page
from trainers.tuning.subjects import Scored
from trainers.tuning.trials import Trials

ROOT = Path(__file__).parents[1]
SMALL = {"env": ID, "steps": STEPS, "episodes": 20, "metric": "return"}
TINY = {**SMALL, "steps": 60, "episodes": 4}


def told(trials):
    """All that must be the same each time."""
    return [{**one.to_dict(), "seconds": None} for one in trials]


# -- what is found ---------------------------------------------------------------------------------


def learnt_with(options, seeds):
    """What each seed's policy earns on episodes that no search has seen."""
    found = []
    for seed in seeds:
        policy = TabularConfig(**{**options, "seed": seed}).create().fit(TuningDoors, STEPS)
        found.append(score(policy, TuningDoors(), 60, seed=1_000 + seed).return_)
    return found


def test_the_best_options_earn_more_than_those_by_default_on_seeds_they_never_saw(tmp_path):
    found = quick_hpo("stub", "online", trials=12, folder=tmp_path, pruner="none", **SMALL)
    assert found.trials[0].changes["learner.learning_rate"] == 1.0  # as it is by default
    assert set(found.importances) == set(found.plan.space)
    assert sum(found.importances.values()) == pytest.approx(1.0)
    assert "## Importance of options" in (found.folder / "report.md").read_text()
    tuned = {name.removeprefix("learner."): value for name, value in found.best.changes.items()}
    seeds = range(1, 6)
    before, after = learnt_with({}, seeds), learnt_with(tuned, seeds)
    assert min(after) > statistics.median(before)
    assert statistics.median(after) > 1.3 * statistics.median(before)


def test_what_is_written_is_whole_and_makes_a_run(tmp_path):
    found = quick_hpo("stub", "online", trials=5, folder=tmp_path, name="it", **TINY)
    place = tmp_path / "it"
    report = json.loads((place / "report.json").read_text())
    assert report["best"] == found.best.to_dict() and len(report["trials"]) == 5
    assert report["split"] == "validation"
    lines = (place / "report.md").read_text()
    assert f"| {found.best.number} |" in lines
    assert not list(place.glob("trials/*/checkpoint*"))
    config = read_yaml(place / "config.yaml")
    assert config == found.config
    for name, value in found.best.changes.items():
        assert config["learner"][name.removeprefix("learner.")] == value
    done = convgym("train", "--config", place / "config.yaml", "--runs", tmp_path / "runs")
    assert done.exit_code == 0, done.output


def test_the_same_seed_makes_the_same_search_and_another_seed_another(tmp_path):
    one, two, other = (
        quick_hpo("stub", trials=n, seed=seed, folder=tmp_path, pruner="hyperband", **TINY)
        for n, seed in ((10, 3), (10, 3), (2, 4))  # from the ninth on by what the others earned
    )
    assert one.folder != two.folder and told(one.trials) == told(two.trials)
    assert one.trials[1].changes != other.trials[1].changes
    assert one.best.number == two.best.number and one.config == two.config


def test_trials_meet_validation_tasks_only(tmp_path, monkeypatch):
    met = set()

    def listening(policy, env, episodes, *, seed=0, split="test"):
        met.add(split)
        return score(policy, env, episodes, seed=seed, split=split)

    monkeypatch.setattr("convgym.cli.training.score", listening)
    quick_hpo("stub", trials=1, steps=300, episodes=4, folder=tmp_path)
    assert met == {"validation"}


# -- trials ----------------------------------------------------------------------------------------


def test_what_is_below_the_median_is_given_up(tmp_path):
    trials = Trials(
        tmp_path / "t.sqlite3", {}, seed=0, pruner="median", sampler="tpe", steps=3, every=1
    )
    for value in (1.0, 2.0, 3.0, 4.0):
        number = trials.next()
        assert not trials.hear(number, 1, value)
        trials.finish(number, Scored(value=value, interval=(0.0, 1.0)))
    worse, better = trials.next(), trials.next()
    assert trials.hear(worse, 1, 2.4) and not trials.hear(better, 1, 2.6)  # the median is 2.5
    trials.prune(worse)
    assert trials.all()[worse].state == "pruned" and trials.all()[worse].value == 2.4
    assert trials.hear(better, 2, 9.0) is False
    assert trials.hear(better, 1, 0.0) is False  # told again: what is known stays
    assert trials.all()[better].heard == {1: 2.6, 2: 9.0}
    assert trials.over() == 5 and best_of(trials.all()).number == 3


def test_a_trial_that_fails_is_kept_with_its_sentence_and_the_search_goes_on(tmp_path, monkeypatch):
    fit = TabularLearner.fit

    def fails_at_times(self, *arguments, **keywords):
        if self.config.most_weight == 3.0:
            raise InvalidConfiguration("three is one too few")
        if self.config.most_weight == 4.0:
            raise ZeroDivisionError
        return fit(self, *arguments, **keywords)

    monkeypatch.setattr(TabularLearner, "fit", fails_at_times)
    space = {"most_weight": {"choices": [3.0, 4.0, 5.0]}}
    found = quick_hpo("stub", space, trials=6, sampler="random", folder=tmp_path, **TINY)
    says = {3.0: "three is one too few", 4.0: "ZeroDivisionError: no more is known", 5.0: ""}
    for trial in found.trials:
        assert trial.error == says[trial.changes["learner.most_weight"]]
        assert trial.state == ("failed" if trial.error else "finished")
    assert {trial.state for trial in found.trials} == {"failed", "finished"}
    assert "three is one too few" in (found.folder / "report.md").read_text()
    space = {"most_weight": {"choices": [3.0, 4.0]}}
    with pytest.raises(InvalidConfiguration, match="no trial of 2 was finished, the first with"):
        quick_hpo("stub", space, trials=2, name="none", folder=tmp_path, **TINY)
    assert (tmp_path / "none" / "report.md").is_file()


def test_a_score_that_is_no_number_is_a_failure(tmp_path, monkeypatch):
    nothing = Scored(value=float("nan"), interval=(0.0, 1.0))
    monkeypatch.setattr("trainers.tuning.learner_runs.LearnerRuns.run", lambda *arguments: nothing)
    with pytest.raises(InvalidConfiguration, match="its score is nan"):
        quick_hpo("stub", trials=1, folder=tmp_path, **TINY)


# -- kill and go on --------------------------------------------------------------------------------


def convgym(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def tune(folder, *arguments):
    return convgym("tune", "--folder", folder, *arguments)


def shell(*arguments):
    """`convgym tune` in a process of its own."""
    code = "from convgym.cli.main import app; app()"
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [sys.executable, "-c", code, "tune", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def stored(place):
    """The trials in a folder, read while nobody else has it."""
    return Trials(
        place / "trials.sqlite3", {}, seed=0, pruner="none", sampler="tpe", steps=1, every=1
    ).all()


DESK = ("--algorithm", "stub", "--steps", 4_000, "--episodes", 8, "--metric", "return",
        "--set", "checkpoint_every=200")  # fmt: skip


@pytest.mark.parametrize(
    ("times", "trials"), [(1, 3), pytest.param(5, 9, marks=pytest.mark.slow)], ids=["once", "often"]
)
def test_killed_and_resumed_it_is_the_search_that_was_never_killed(times, trials, tmp_path):
    chance, place, over = random.Random(5), tmp_path / "killed", []
    begin = (*DESK, "--trials", trials, "--name", "killed")
    go_on = ("--resume",)  # how many there are to be stands in the folder
    for _ in range(times):
        known = place.is_dir()
        runner = shell("--folder", tmp_path, *(go_on if known else begin))
        metrics = len(list(place.glob("trials/*/metrics.jsonl"))) if known else 0
        while (  # until it has begun another trial
            runner.poll() is None and len(list(place.glob("trials/*/metrics.jsonl"))) <= metrics
        ):
            time.sleep(0.01)
        time.sleep(chance.uniform(0.0, 0.4))
        runner.send_signal(signal.SIGKILL)
        said = runner.communicate()
        assert runner.returncode == -signal.SIGKILL, said
        now = [one for one in stored(place) if one.state != "running"]
        assert [one.number for one in now[: len(over)]] == [one.number for one in over]
        assert told(now)[: len(over)] == told(over)  # nothing that was finished is lost
        over = now
    assert len(over) < trials
    done = tune(tmp_path, *go_on)
    assert done.exit_code == 0, done.output
    assert tune(tmp_path, *DESK, "--trials", trials, "--name", "whole").exit_code == 0
    reports = [json.loads((tmp_path / n / "report.json").read_text()) for n in ("killed", "whole")]
    for report in reports:
        report.pop("search")
        for one in [*report["trials"], report["best"]]:
            one.pop("seconds")
    assert reports[0] == reports[1]
    first, second = (tmp_path / name / "config.yaml" for name in ("killed", "whole"))
    assert first.read_bytes() == second.read_bytes()


def test_a_suggestion_is_stored_whole_or_not_at_all(tmp_path):
    """Whatever is left between drawing and learning, the same options are tried."""
    space = quick_hpo("stub", trials=1, folder=tmp_path, **TINY).plan.ranges()
    ways = {"seed": 1, "pruner": "none", "sampler": "tpe", "steps": 9, "every": 1}
    whole = Trials(tmp_path / "whole.sqlite3", space, **ways)
    expected = whole.changes(whole.next())
    left = Trials(tmp_path / "left.sqlite3", space, **ways)
    left._study.enqueue_trial(left._drawn(0))  # and killed
    assert Trials(tmp_path / "left.sqlite3", space, **ways).all() == []
    left._study.ask()  # begun by the next one, and killed before it had any option
    again = Trials(tmp_path / "left.sqlite3", space, **ways)
    assert again.changes(again.next()) == expected
    assert [one.number for one in again.all()] == [0]


# -- the command -----------------------------------------------------------------------------------


def test_the_command_searches_goes_on_and_says_what_it_found(tmp_path):
    options = ("--algorithm", "stub", "--env", ID, "--steps", 100, "--episodes", 4)
    done = tune(tmp_path, *options, "--trials", 2, "--name", "x", "--space", "conservative")
    assert done.exit_code == 0, done.output
    assert f"convgym train --config {tmp_path / 'x' / 'config.yaml'}" in done.stdout
    more = tune(tmp_path, "--resume", "--name", "x", "--trials", 3)
    assert more.exit_code == 0, more.output
    assert len(json.loads((tmp_path / "x" / "report.json").read_text())["trials"]) == 3
    again = tune(tmp_path, "--resume", "--name", "x")  # of as many as were asked for last
    assert again.exit_code == 0 and "3 trials of stub" in again.stdout, again.output
    for arguments, says in (
        ((*options, "--name", "x"), "there is a search in"),
        (("--resume",), "no search in .* is unfinished"),
        (("--resume", "--name", "y"), "there is no search 'y'"),
        (("--resume", "--name", "x", "--steps", "7"), "begun with another steps"),
        (("--resume", "--name", "x", "--space", "online"), "begun with another space"),
        ((*options, "--name", "../x"), "a search's name is"),
        ((*options, "--space", "onlin"), "did you mean online"),
        ((*options, "--workers", "2"), "runs one trial after the other"),
        (("--algorithm", "stubb"), "did you mean 'stub'"),
        (("--algorithm", "stub", "--env", "Nowhere-v0"), "cannot be made"),
        (("--algorithm", "stub", "--set", "evaluation.episodes=0"), "scores nothing"),
        ((), "nothing says what is to learn"),
    ):
        refused = tune(tmp_path, *arguments)
        assert refused.exit_code == 2 and refused.stderr.count("\n") == 1, refused.output
        assert re.search(says, refused.stderr), refused.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x"]


def test_a_dry_run_says_what_would_be_done_and_writes_nothing(tmp_path):
    done = tune(tmp_path, "--algorithm", "stub", "--trials", 3, "--dry-run")
    assert done.exit_code == 0, done.output
    assert "learner.learning_rate" in done.stdout and "nothing was learnt" in done.stdout
    assert "3 trials of 40,000 steps" in done.stdout and not list(tmp_path.iterdir())


def test_without_its_package_each_part_is_one_sentence(tmp_path, monkeypatch):
    for package, options in (
        ("optuna", {}), ("ray", {"backend": "ray"}), ("wandb", {"log": "wandb"}),
    ):  # fmt: skip
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, package, None)
            for module in ("trials", "ray_trials", "search_report"):
                patch.delitem(sys.modules, f"trainers.tuning.{module}", raising=False)
            extra = "tune" if package == "optuna" else package
            with pytest.raises(MissingExtra, match=rf'pip install "convgym\[{extra}\]"'):
                quick_hpo("stub", trials=1, folder=tmp_path, **options, **TINY)
    assert not list(tmp_path.iterdir())


def test_a_table_of_many_trials_is_cut_and_says_so(tmp_path):
    found = quick_hpo("stub", trials=1, folder=tmp_path, **TINY)
    lines = page("x", found.plan, found.trials * 60, {}, [])
    assert "and 10 more in report.json" in lines


# -- what is optional ------------------------------------------------------------------------------


@pytest.mark.slow
def test_on_ray_the_same_trials_are_found(tmp_path):
    pytest.importorskip("ray.tune", reason="needs the extra ray")
    options = {"trials": 3, "steps": 600, "episodes": 8, "metric": "return", "folder": tmp_path}
    here = quick_hpo("stub", name="here", **options)
    there = quick_hpo("stub", name="there", backend="ray", workers=2, **options)
    assert told(here.trials) == told(there.trials) and not (tmp_path / "there" / "ray").exists()
    more = quick_hpo(name="there", resume=True, trials=4, folder=tmp_path)
    assert told(more.trials[:3]) == told(there.trials)


@pytest.mark.slow
def test_each_trial_is_a_run_of_weights_and_biases(tmp_path, monkeypatch):
    pytest.importorskip("wandb", reason="needs the extra wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    quick_hpo("stub", trials=2, name="it", log="wandb", folder=tmp_path, **TINY)
    runs = sorted(path.name for path in (tmp_path / "it" / "wandb").glob("offline-run-*/*.wandb"))
    assert runs == ["run-it-0.wandb", "run-it-1.wandb"]
