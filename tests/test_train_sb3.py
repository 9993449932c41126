"""The training script: it learns, prints intervals, saves, goes on, and refuses in a sentence."""

import runpy
from pathlib import Path

import pytest

pytest.importorskip("sb3_contrib", reason="needs the extra sb3")

from trainers.online.sb3_policy import SB3Policy

main = runpy.run_path(str(Path(__file__).parents[1] / "scripts" / "train_sb3.py"))["main"]

QUICK = '{"n_envs": 8, "n_steps": 32, "batch_size": 64, "hidden": [32], "learning_rate": 0.003}'


def test_a_pole_is_balanced_and_the_policy_saved(tmp_path, capsys):
    out = tmp_path / "policy.zip"
    given = ["--env", "CartPole-v1", "--algorithm", "ppo", "--steps", "6000", "--episodes", "10"]
    assert main([*given, "--settings", QUICK, "--out", str(out), "--log", str(tmp_path)]) == 0
    before, after = (
        float(line.split("return")[1].split()[0])
        for line in capsys.readouterr().out.splitlines()
        if "return" in line
    )
    assert before < 40 < 80 < after
    assert SB3Policy.load(out).name == "PPO" and (tmp_path / "from-0" / "progress.csv").exists()


def test_the_desk_is_scored_on_the_test_split_and_a_run_goes_on(tmp_path, capsys):
    given = ["--steps", "512", "--episodes", "4", "--settings", QUICK]
    place = str(tmp_path / "run.zip")
    assert main([*given, "--checkpoint", place]) == 0
    first = capsys.readouterr().out
    assert first.count("success") == 2 and first.count("n=4") == 2
    assert main([*given, "--checkpoint", place]) == 0
    assert capsys.readouterr().out == first


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["--env", "CartPole-v1"], "no action_masks"),
        (["--settings", '{"depth": 2}'], "no setting 'depth'"),
        (["--keywords", '{"observation": "message"}'], "EncodedText"),
    ],
    ids=["no masks", "unknown setting", "text"],
)
def test_what_cannot_be_learnt_is_refused_in_a_sentence(given, says, capsys):
    assert main([*given, "--steps", "10"]) == 2
    assert says in capsys.readouterr().err
