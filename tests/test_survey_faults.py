"""What `scripts/survey_tasks.py` and `scripts/cross_play.py` say of faults and of bad arguments."""

import importlib.util
import sys
from pathlib import Path

import pytest

from convgym.evaluation.survey import Score, Survey

ROOT = Path(__file__).resolve().parents[1]


def script(name):
    """A script as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / f"scripts/{name}.py")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def found(tasks, ladder, floor):
    rungs = tuple(Score(f"rung {place}", wins, tasks) for place, wins in enumerate(ladder))
    return Survey("desk", "test", tasks, tasks, rungs, (Score("silence", floor, tasks),))


@pytest.mark.parametrize(
    ("survey", "faults"),
    [
        (found(189, (0, 9, 189), 0), []),  # 0 of n reaches up to 3.8415 / (n + 3.8415)
        (found(188, (0, 9, 188), 0), ["188 tasks are too few to show that null policies stay"]),
        (found(1000, (0, 9, 999), 0), ["the oracle fails"]),
        (found(1000, (9, 8, 1000), 0), ["the ladder is out of order"]),
        (found(1000, (0, 9, 1000), 14), ["silence is above 0.02"]),
        (found(20, (1, 0, 9), 2), ["the oracle", "the ladder", "silence is above"]),
    ],
)
def test_faults_of_a_survey(survey, faults):
    told = script("survey_tasks").faults_of(survey)
    assert len(told) == len(faults)
    assert all(one.startswith(start) for one, start in zip(told, faults, strict=True))


@pytest.mark.parametrize(
    ("name", "given", "sentence"),
    [
        ("survey_tasks", ["--domain", "nowhere"], "no domain is called 'nowhere'"),
        ("survey_tasks", ["--domain", "sales", "--splits", "never"], "sales has no split 'never'"),
        ("survey_tasks", ["--tasks", "0"], "--tasks 0: it must be 1 or more"),
        ("cross_play", ["--episodes", "0"], "--episodes 0: it must be 1 or more"),
        ("cross_play", ["--id", "ConvGym/OwnDomain-v0"], "give the path of a domain's folder"),
        ("cross_play", ["--split", "never", "--episodes", "1"], "no task is called 'never-0'"),
    ],
)
def test_bad_arguments_get_a_sentence(name, given, sentence, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [name, *given])
    with pytest.raises(SystemExit) as left:
        script(name).main()
    told = f"{left.value.code} {capsys.readouterr().err}"
    assert left.value.code != 0 and sentence in told
