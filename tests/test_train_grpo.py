"""scripts/train_grpo.py: the command on a foreign environment of texts, and on our own."""

import importlib.util
import sys
from pathlib import Path

import gymnasium as gym
import pytest
import torch
from gymnasium import spaces
from tiny_models import tiny_model, tiny_tokenizer

from trainers.llm.language_model import LanguageModel

ROOT = Path(__file__).parents[1]
ID = "Foreign/SayYes-v0"


class SayYes(gym.Env):
    """Knows nothing of ConvGym: two questions, and a reward for each reply without a space."""

    observation_space = spaces.Text(64)
    action_space = spaces.Text(64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.asked = 1
        return f"Shall I {self.np_random.integers(10)}?", {}

    def step(self, action):
        self.asked += 1
        done = self.asked > 2
        return "And now?", float(" " not in action), done, False, {"success": " " not in action}


if ID not in gym.registry:
    gym.register(ID, entry_point=SayYes)


@pytest.fixture(scope="module")
def command():
    path = ROOT / "scripts" / "train_grpo.py"
    spec = importlib.util.spec_from_file_location("train_grpo", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A tiny model with random weights."""
    place = tmp_path_factory.mktemp("model") / "tiny"
    tokenizer = tiny_tokenizer()
    LanguageModel(tiny_model("llama", vocabulary=len(tokenizer)), tokenizer).save(place)
    return place


def run(command, monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["train_grpo.py", *map(str, arguments)])
    command.main()


SHORT = ("--max-tokens", 6, "--max-context", 128, "--episodes", 16, "--slots", 16)
FEW = (
    '{"iterations": 3, "seeds_per_iteration": 2, "group_size": 4, "learning_rate": 0.003,'
    ' "schedule": "constant"}'
)


def test_a_foreign_environment_is_learnt_from(command, folder, tmp_path, monkeypatch, capsys):
    out, log = tmp_path / "learnt", tmp_path / "rows.csv"
    run(
        command, monkeypatch, ID, "--model", folder, *SHORT, "--settings", FEW,
        "--out", out, "--log", log, "--objective", "gspo",
    )  # fmt: skip
    said = capsys.readouterr().out
    assert said.startswith("before: success") and "\nafter: success" in said
    assert "2.0 turns" in said and "CPU-s" in said
    assert len(log.read_text().splitlines()) == 4
    first, last = (LanguageModel.load(place).trainable() for place in (folder, out))
    assert any(not torch.equal(first[name], last[name]) for name in first)


def test_a_run_that_was_broken_off_goes_on(command, folder, tmp_path, monkeypatch, capsys):
    kept = tmp_path / "run.safetensors"
    options = (ID, "--model", folder, *SHORT, "--checkpoint", kept, "--settings")
    run(command, monkeypatch, *options, FEW.replace("3,", "2,", 1))
    run(command, monkeypatch, *options, FEW, "--out", tmp_path / "broken")
    whole = (ID, "--model", folder, *SHORT, "--settings", FEW, "--out", tmp_path / "whole")
    run(command, monkeypatch, *whole)
    capsys.readouterr()
    one, other = (LanguageModel.load(tmp_path / n).trainable() for n in ("broken", "whole"))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_what_cannot_be_trained_is_said_in_a_sentence(command, folder, monkeypatch):
    with pytest.raises(SystemExit, match="actions"):
        run(command, monkeypatch, "CartPole-v1", "--model", folder, *SHORT)
    with pytest.raises(SystemExit, match="did you mean learning_rate"):
        wrong = ("--settings", '{"learning_rat": 1}')
        run(command, monkeypatch, ID, "--model", folder, *SHORT, *wrong)
