"""Without any extra the core works, and each command that needs one says which, in one sentence."""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXTRAS = (
    "accelerate", "cma", "d3rlpy", "datasets", "fastapi", "markdown_it", "matplotlib",
    "onnxruntime", "optuna", "peft", "pyarrow", "ray", "safetensors", "sb3_contrib", "scipy",
    "sklearn", "stable_baselines3", "tensorboard", "tokenizers", "torch", "transformers", "trl",
    "uvicorn", "verifiers", "vllm", "wandb", "websockets", "zstandard",
)  # fmt: skip
"""Packages of extras alone; what the core needs is no extra."""
SAMPLE = str(ROOT / "datasets" / "samples" / "support_sample.jsonl")
NEEDING = {
    "offline": ["train", "--algorithm", "cql", "--dry-run"],
    "llm": ["train", "--algorithm", "grpo", "--dry-run"],
    "sb3": ["train", "--algorithm", "ppo", "--dry-run"],
    "serve": ["serve", "--env", "ConvGym/TechnicalSupport-v0"],
    "tune": ["tune", "--algorithm", "stub", "--trials", "1"],
    "calibration": ["calibrate", "--logs", SAMPLE, "--out", "user.npz", "--holdout", "0.5"],
    "zst": ["calibrate", "--logs", "log.jsonl.zst", "--out", "user.npz"],
}
"""A command of each extra."""
WORKING = (
    ["version"], ["list", "learners"], ["list", "environments"], ["doctor"],
    ["init", "--path", "config.yaml"], ["train", "--algorithm", "stub", "--dry-run"],
    ["evaluate", "--policy", "oracle", "--env", "ConvGym/CustomerService-v0", "--episodes", "2",
     "--users", "1", "--personas", "none"],
    ["data", "list"],
)  # fmt: skip
CODE = """
import json, sys
sys.modules.update(dict.fromkeys(json.loads(sys.argv[1])))  # None makes an import of it fail
from typer.testing import CliRunner
from convgym.cli.main import app
open("log.jsonl.zst", "wb").write(bytes([0x28, 0xb5, 0x2f, 0xfd, 0]))
for arguments in json.loads(sys.argv[2]):
    done = CliRunner().invoke(app, arguments)
    print(json.dumps([done.exit_code, done.output]))
"""


@cache
def told():
    """(exit code, output) of each command, in one process that has none of the packages."""
    import tempfile

    commands = [*NEEDING.values(), *WORKING]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", CODE, json.dumps(EXTRAS), json.dumps(commands)],
            cwd=folder, capture_output=True, text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), "MINARI_DATASETS_PATH": folder},
        )  # fmt: skip
        left = {path.name for path in Path(folder).iterdir()}
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    return dict(zip(map(tuple, commands), lines, strict=True)), left


@pytest.mark.parametrize("extra", NEEDING)
def test_a_missing_extra_is_one_sentence_with_its_cure(extra):
    code, output = told()[0][tuple(NEEDING[extra])]
    assert code == 1, output
    assert f'pip install "convgym[{extra}]"' in output and "Traceback" not in output
    said = [line for line in output.splitlines() if "pip install" in line]
    assert said == [output.strip().splitlines()[-1]] and said[0].startswith("convgym: "), output


@pytest.mark.parametrize("command", WORKING, ids=" ".join)
def test_the_core_needs_none_of_them(command):
    code, output = told()[0][tuple(command)]
    assert code == 0, output


def test_a_command_that_could_not_begin_leaves_nothing():
    assert not told()[1] & {"runs", "tuning", "user.npz"}


def test_the_packages_are_those_of_the_extras():
    """A new extra needs its package above, and its command in NEEDING if it has one."""
    from convgym.cli.requirements import needs

    module = {"scikit-learn": "sklearn", "stable-baselines3": "stable_baselines3",
              "sb3-contrib": "sb3_contrib", "sentence-transformers": "transformers",
              "markdown-it-py": "markdown_it"}  # fmt: skip
    core = set(needs()[""]) | {"minari", "pillow"}
    named = {module.get(name, name) for extra, packages in needs().items() for name in packages
             if extra not in ("", "all", "test", "lint")} - core  # fmt: skip
    assert named <= set(EXTRAS), named - set(EXTRAS)
